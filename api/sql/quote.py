"""Quotes names and texts for printed statements: every byte that is not plain is escaped."""

from __future__ import annotations

import re

from api.sql.errors import ACCESS_DENIED, SqlError

_PLAIN = re.compile(r"[ !#-&(-\[\]-_a-~]*")
"""Printable ASCII but quotes, backticks and backslashes."""


def text_literal(text: str) -> str:
    return f"'{_escaped(text)}'"


def name_literal(name: str) -> str:
    """Errors: SqlError for a name that another reader could take for something else."""
    if not name or not name.isprintable() or "\\" in name or "`" in name:
        raise SqlError(ACCESS_DENIED, "a name has a backslash, a backtick or a control character in it", "Rename it")
    return f"`{_escaped(name)}`"


def _escaped(text: str) -> str:
    if _PLAIN.fullmatch(text):
        return text
    return "".join(chr(byte) if _PLAIN.fullmatch(chr(byte)) else f"\\x{byte:02x}" for byte in text.encode())
