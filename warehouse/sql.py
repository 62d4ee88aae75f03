"""Reads statements from .sql files, and quotes the identifiers and literals that may be put into them."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from functools import cache, lru_cache
from pathlib import Path
from string import Template

_SOURCE = re.compile(r"(?<=FROM \()\{(\w+)\}(?=\))")
_COMMENT = re.compile(
    r"""(--[^\n]*|//[^\n]*|\#[ !][^\n]*)"""
    r"""|([‘’“”$]|/\*)"""
    r"""|'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|`(?:[^`\\]|\\.)*`""",
    re.DOTALL,
)
"""A comment to the end of its line (group 1); what else may begin a text or a comment (group 2: the engine takes these
for quotes, too, `$` before a heredoc's name, and nests blocks); or a quoted text or name, in which there is neither."""


def read_sql(beside: str, name: str, /, **parts: object) -> str:
    """The text of `name`.sql in the folder of the module file `beside` (pass `__file__`).

    parts: SQL for each `$part` in it; where there are any, a dollar sign is written `$$`. Errors: KeyError, one lacks.
    """
    text = _text(Path(beside).parent / f"{name}.sql")
    return Template(text).substitute(parts) if parts else text


@cache
def _text(file: Path) -> str:
    """Read once: a process runs the statements of the code that it runs, also while an upgrade replaces the files."""
    return file.read_text(encoding="utf-8")


def composed(beside: str, name: str, /, **sources: str) -> str:
    """The same without parts, with each `FROM ({name})` in it reading that one of `sources`, or what `name`.sql beside
    it does."""
    text = read_sql(beside, name)
    return _SOURCE.sub(lambda found: f"\n{sources.get(found[1]) or read_sql(beside, found[1])}", text)


@lru_cache(maxsize=512)
def without_comments(sql: str) -> str:
    """The statement without comments, on the same lines. Where a text has a semicolon, clickhouse-connect takes it
    apart word by word to find out whether one ends it; ours are in comments. One with quotes that ours have not is left
    as it is."""
    kept, end = [], 0
    for found in _COMMENT.finditer(sql):
        if found[2]:
            return sql
        if found[1]:
            kept.append(sql[end : found.start()])
            end = found.end()
    return "".join(kept) + sql[end:]


def numbered_statements(folder: Path) -> list[tuple[int, str, str]]:
    """The .sql files of a folder of migrations, in order: (number, name, text)."""
    return [(int(path.name[:4]), path.stem, path.read_text(encoding="utf-8")) for path in sorted(folder.glob("*.sql"))]


def identifier(name: str) -> str:
    """The name, if it is a plain identifier."""
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
        raise ValueError(f"not an identifier: {name!r}")
    return name


def instant_text(at: datetime) -> str:
    """An instant as the engine reads it, to the millisecond: UTC, like `2026-10-01 00:00:00.000`."""
    return at.astimezone(UTC).replace(tzinfo=None).isoformat(" ", "milliseconds")


def instant_literal(at: datetime) -> str:
    """The same as SQL."""
    return f"toDateTime64('{instant_text(at)}', 3, 'UTC')"


def text_literal(text: str) -> str:
    """A text as SQL, where a statement takes no parameter: in DDL, settings, and the names of files."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
