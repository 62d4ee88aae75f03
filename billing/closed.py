"""How much of a period is closed. What is not closed is unknown, which is not zero."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from billing.periods import Period, is_all_since, whole_hour
from warehouse.store import Store, read_sql

HOUR = timedelta(hours=1)


@dataclass(frozen=True)
class Closed:
    """A period, the hours (UTC) that it covers, and how many of them are closed. books: first to last closed hour.

    until: up to which the last close went. An hour before it that is not among the closed ones had no device.
    """

    period: Period
    hours: int
    closed_hours: int
    books: Period
    until: datetime | None = None

    def document(self) -> dict[str, Any]:
        return {
            "start": self.period.start,
            "end": self.period.end,
            "hours": self.hours,
            "closed_hours": self.closed_hours,
            "closed_from": self.books.start,
            "closed_until": self.books.end,
            "checked_until": self.until,
        }

    def note(self) -> str:
        """What a reader of the period's figures must know; empty where all of it is closed."""
        if self.closed_hours == self.hours:
            return ""
        books = f"the books are closed from {_instant(self.books.start)} to {_instant(self.books.end)}"
        is_closed = self.until is not None and self.until >= whole_hour(self.period.end)
        if not self.closed_hours and is_closed and self.period.start >= self.books.start:
            return f"the inventory has no device from {_instant(self.period.start)} to {_instant(self.period.end)}"
        if not self.closed_hours:
            return f"nothing from {_instant(self.period.start)} to {_instant(self.period.end)} is closed: {books}"
        if is_all_since(self.books.start, self.period.start, self.period.end, self.closed_hours):
            begin = f"the books begin with the inventory, at {_instant(self.books.start)}"
            return f"{begin}: the figures are of all {self.closed_hours:,} hours since"
        if is_closed:
            none = f"the inventory has no device in {self.hours - self.closed_hours:,} of {self.hours:,} hours"
            return f"{none}: the figures are of the other {self.closed_hours:,}, all of which are closed"
        return f"only {self.closed_hours:,} of {self.hours:,} hours are closed, and the figures are of those: {books}"


_NEVER = ("start", "end", "hours", "closed_hours", "closed_from", "closed_until", "checked_until")


def closed_period(store: Store) -> Period | None:
    """From the first to the last closed hour."""
    (row,) = store.rows(read_sql(__file__, "closed_range"))
    return Period(row["start"], row["end"]) if row["hours"] else None


def closed_part(store: Store, period: Period | None) -> Closed | None:
    """How much of a period (None: of all from the first to the last closed hour) is closed; None: nothing ever was."""
    books = closed_period(store)
    if books is None:
        return None
    of = period or books
    first = of.start.replace(minute=0, second=0, microsecond=0)
    last = whole_hour(of.end)
    closed = store.value(read_sql(__file__, "closed_count"), {"start": first, "end": last})
    until = store.value("SELECT maxOrNull(closed_until) AS until FROM close_runs")
    return Closed(of, (last - first) // HOUR, int(closed), books, until)


def period_document(closed: Closed | None) -> dict[str, Any]:
    """The period as reports print it; with None, every field is None."""
    return closed.document() if closed else dict.fromkeys(_NEVER)


def if_closed(closed: Closed | None, sums: Mapping[str, Any]) -> Mapping[str, Any]:
    """The sums; each None if nothing of the period is closed."""
    return sums if closed and closed.closed_hours else dict.fromkeys(sums)


def _instant(at: datetime) -> str:
    return f"{at.astimezone(UTC):%Y-%m-%d %H:%M}Z"
