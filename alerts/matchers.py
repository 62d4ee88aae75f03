"""Label matchers: for each label a glob, or a list of globs of which one must match.

A missing label counts as empty text, so `{tenant: ""}` matches alerts without a tenant and `{tenant: "?*"}` those with
one. A leading `!` negates a glob.
"""

from __future__ import annotations

from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import Annotated

from pydantic import BeforeValidator


def _globs(value: object) -> object:
    if not isinstance(value, Mapping):
        raise ValueError("expected labels with globs, like {tenant: physics, queue: [train, 'batch-*']}")
    return {str(label): _texts(globs) for label, globs in value.items()}


def _texts(globs: object) -> tuple[str, ...]:
    listed = globs if isinstance(globs, list | tuple) else [globs]
    if not all(isinstance(glob, str) for glob in listed):
        raise ValueError("globs are texts; put what looks like something else in quotes")
    return tuple(listed)


Match = Annotated[Mapping[str, tuple[str, ...]], BeforeValidator(_globs)]
"""Every label must fit; nothing named fits everything."""


def literal(text: str) -> str:
    """A glob that fits this text: its signs stand for themselves; for a leading `!`, which cannot, `?` does."""
    escaped = "".join(f"[{sign}]" if sign in "*?[" else sign for sign in text)
    return f"?{escaped[1:]}" if escaped.startswith("!") else escaped


def fits_everything(match: Mapping[str, tuple[str, ...]]) -> bool:
    """Whether each label may be anything, and missing, too."""
    return all(any(glob and not glob.strip("*") for glob in globs) for globs in match.values())


def fits(match: Mapping[str, tuple[str, ...]], labels: Mapping[str, str]) -> bool:
    return all(any(_fits(glob, labels.get(label, "")) for glob in globs) for label, globs in match.items())


def _fits(glob: str, text: str) -> bool:
    return not fnmatchcase(text, glob[1:]) if glob.startswith("!") else fnmatchcase(text, glob)
