"""The closed hours of the store, and which days of them are summed: read once for each state of the books, so that no
page asks the store what is closed in its period."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from math import ceil
from typing import Any

from warehouse.sql import composed
from warehouse.store import Store

HOUR = 3600
Hour = tuple[int, int, int, int]
"""Its start; the run whose entries are in force; the start of the zone's day in which it begins, and of that in which
it ends."""
Day = tuple[int, int, int]
"""Its start and end, and the version of its sums."""


@dataclass(frozen=True)
class Sums:
    """The summed part of a period: its days with the versions of their sums, and the hours that no sum covers."""

    days: tuple[datetime, ...] = ()
    versions: tuple[int, ...] = ()
    other_hours: tuple[datetime, ...] = ()

    def params(self) -> dict[str, Any]:
        """Parameters of `days_sql`: summed_days, versions, other_hours (arrays)."""
        return {
            "summed_days": [int(day.timestamp()) for day in self.days],
            "versions": list(self.versions),
            "other_hours": [int(hour.timestamp()) for hour in self.other_hours],
        }


@dataclass(frozen=True)
class ClosedHours:
    """Closed hours in order, the days of the billing zone whose sums still hold, and the fingerprint of each hour whose
    devices were measured (dashboards/measured). Times are Unix seconds.   until: up to which the last close went."""

    hours: Sequence[Hour] = ()
    days: Sequence[Day] = ()
    measured: Mapping[float, int] = field(default_factory=dict)
    until: datetime | None = None

    def within(self, start: datetime, end: datetime) -> Sequence[Hour]:
        """Those that overlap [start, end)."""
        first = bisect_right(self.hours, start.timestamp() - HOUR, key=_start)
        return self.hours[first : bisect_left(self.hours, end.timestamp(), key=_start)]

    def empty(self, start: datetime, end: datetime) -> int:
        """How many hours of [start, end) are closed and none of these: the inventory has no device then."""
        if self.until is None or self.until <= start:
            return 0
        over = ceil((min(end, self.until) - start).total_seconds() / HOUR)
        return max(0, over - len(self.within(start, min(end, self.until))))

    def sums(self, start: datetime, end: datetime) -> Sums:
        """The valid sums of whole days within [start, end)."""
        since, until = start.timestamp(), end.timestamp()
        days = [one for one in self.days if one[0] >= since and one[1] <= until]
        summed = {day for day, _, _ in days}
        other = (hour for hour, _, first, last in self.within(start, end) if not (first in summed and last in summed))
        return Sums(tuple(_at(day) for day, _, _ in days), tuple(one[2] for one in days), tuple(map(_at, other)))

    def steps(self, start: datetime, end: datetime, grain: str) -> dict[datetime, float]:
        """The period's days (of the zone) or hours with anything closed, in order, and how many hours of each are
        closed: of an hour over midnight, in zones of half hours, and at the period's ends the part that lies in it."""
        since, until = int(start.timestamp()), int(end.timestamp())
        seconds: dict[int, int] = defaultdict(int)
        for hour, _, first, last in self.within(start, end):
            over = hour + HOUR
            if grain == "hour":
                spans = [(hour, hour, over)]
            else:
                spans = [(first, hour, over)] if first == last else [(first, hour, last), (last, last, over)]
            for step, begun, ended in spans:
                closed = min(ended, until) - max(begun, since)
                if closed > 0:
                    seconds[step] += closed
        return {_at(step): seconds[step] / HOUR for step in sorted(seconds)}


def closed_hours(store: Store, zone: str) -> ClosedHours:
    """zone: IANA name of the billing zone."""
    (row,) = store.rows(composed(__file__, "closed_hours"), {"zone": zone})
    until = store.value("SELECT maxOrNull(closed_until) AS until FROM close_runs")
    return ClosedHours(row["hours"], row["days"], dict(row["measured"]), until)


def _start(hour: Hour) -> int:
    return hour[0]


def _at(seconds: int) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)
