"""One deliberate fault."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Fault:
    """path: of the file, from the root.   line, column: from 1.   what: `old -> new`, for people.

    mutate: the file's text with the fault in it.
    """

    path: str
    line: int
    column: int
    what: str
    mutate: Callable[[], str] = field(compare=False, repr=False)

    def __str__(self) -> str:
        return f"{self.path}:{self.line}:{self.column}: {self.what}"

    @property
    def key(self) -> tuple[str, int, int, str]:
        return self.path, self.line, self.column, self.what

    def row(self) -> dict[str, Any]:
        return {"path": self.path, "line": self.line, "column": self.column, "what": self.what}


def shown(text: str) -> str:
    """On one line, cut where it is long."""
    flat = " ".join(text.split())
    return flat if len(flat) <= 60 else flat[:57] + "..."
