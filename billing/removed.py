"""Days whose samples were removed (billing.retention): what was computed from them stays as it is.

The audit says which: each day is noted there before its samples go. A day is UTC, as the partitions of samples are.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import pairwise

from warehouse.store import Store, read_sql

DAY, REACH = timedelta(days=1), timedelta(hours=1)
"""REACH: a sample reaches into the hour before its own, and no further: that hour has lost some of its samples, too."""


@dataclass(frozen=True)
class Removed:
    """A day without its samples.   by: who removed them.   kept: how many rows stayed, as signs of life."""

    day: datetime
    removed_at: datetime
    by: str
    kept: int

    def reaches(self, start: datetime, end: datetime) -> bool:
        """Whether hours in [start, end) were computed from its samples."""
        return self.day - REACH < end and self.day + DAY > start


def removed_days(store: Store) -> list[Removed]:
    """The days, in order."""
    return [Removed(**row) for row in store.rows(read_sql(__file__, "removed"))]


def frozen_hours(store: Store) -> set[int]:
    """The hours (since the epoch) whose entries no close computes again."""
    return {int(one.day.timestamp()) // 3600 + hour for one in removed_days(store) for hour in range(-1, 24)}


def in_words(days: Iterable[Removed]) -> str:
    """Such as: samples of 2026-10-01 to 2026-10-31 were removed on 2027-12-01 by ann."""
    found = sorted(days, key=lambda one: one.day)
    last = max(found, key=lambda one: one.removed_at)
    who = ", ".join(sorted({one.by for one in found}))
    spans = ", ".join(
        f"{first.day:%Y-%m-%d}" if first is end else f"{first.day:%Y-%m-%d} to {end.day:%Y-%m-%d}"
        for first, end in _spans(found)
    )
    return f"samples of {spans} were removed on {last.removed_at:%Y-%m-%d} by {who}"


def _spans(days: Sequence[Removed]) -> list[tuple[Removed, Removed]]:
    """Runs of days, by their first and last."""
    gaps = [number for number, (one, other) in enumerate(pairwise(days), 1) if other.day - one.day > DAY]
    cuts = [0, *gaps, len(days)]
    return [(days[start], days[end - 1]) for start, end in pairwise(cuts)]
