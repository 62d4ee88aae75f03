"""A reader's result: records, and the places it could not read."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Generic, TypeVar

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Problem:
    """One record that is not used.   line: where it begins, from 1; of JSON the record's place in its list.
    reason: few words, to count by.   detail: what was found.   job: its id, where that is known."""

    line: int
    reason: str
    detail: str
    job: str = ""

    def __str__(self) -> str:
        return f"record at {self.line}: {f'job {self.job}: ' if self.job else ''}{self.detail}"


@dataclass
class Parsed(Generic[T]):
    """records: in the source's order.   skipped: records that are none of ours, by reason.   problems: bad ones."""

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
