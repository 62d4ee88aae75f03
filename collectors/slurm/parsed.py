"""The result of a reader: records, and the ones that it could not parse."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Generic, TypeVar

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Problem:
    """A record that cannot be used.   line: where it begins, from 1; in JSON, its index in the list."""

    line: int
    reason: str
    detail: str
    job: str = ""

    def __str__(self) -> str:
        return f"record at {self.line}: {f'job {self.job}: ' if self.job else ''}{self.detail}"


@dataclass
class Parsed(Generic[T]):
    """records: in the source's order.   skipped: irrelevant records, by reason.   problems: invalid ones."""

    records: list[T] = field(default_factory=list)
    skipped: Counter[str] = field(default_factory=Counter)
    problems: list[Problem] = field(default_factory=list)

    def __iadd__(self, other: Parsed[T]) -> Parsed[T]:
        self.records += other.records
        self.skipped += other.skipped
        self.problems += other.problems
        return self

    def bad(self, line: int, reason: str, detail: str, job: str = "") -> None:
        self.problems.append(Problem(line, reason, detail, job))
