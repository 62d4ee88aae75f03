"""Runbooks of the shipped rules: the sections of runbooks.md, shown with an open alert."""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from pathlib import Path

_FILE = Path(__file__).parent / "runbooks.md"
_HEADING = re.compile(r"^## (.+)\n", re.MULTILINE)


@functools.cache
def runbooks() -> Mapping[str, str]:
    """Each section's text (Markdown) by its name."""
    _, *parts = _HEADING.split(_FILE.read_text(encoding="utf-8"))
    return {name: text.strip() for name, text in zip(parts[::2], parts[1::2], strict=True)}


def is_url(runbook: str) -> bool:
    return runbook.startswith(("https://", "http://"))
