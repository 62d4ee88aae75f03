"""Periods of pages, within closed time: in the URL (`?period=2026-10`), so that a link shows what its sender saw.

A month, a day, or START..END as on the command line (billing.periods), or `all` that is closed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from math import floor
from zoneinfo import ZoneInfo

from billing.periods import PeriodError, parse_period
from dashboards.days.closed import ClosedHours
from dashboards.languages import Language
from warehouse.store import Store, read_sql

ALL = "all"
HOUR = timedelta(hours=1)


@dataclass(frozen=True)
class ClosedMonth:
    """A month of the billing zone with at least one closed hour."""

    key: str
    hours: int
    first: datetime
    last: datetime


@dataclass(frozen=True)
class Period:
    """[start, end) in UTC. key: in the URL.   hours_closed: of its `hours`, those with devices.   hours_empty: how many
    more are closed, in which the inventory has no device: the time before it begins, after it ends or between."""

    key: str
    start: datetime
    end: datetime
    hours_closed: int
    zone: str
    hours_empty: int = 0

    @property
    def hours(self) -> int:
        return round((self.end - self.start).total_seconds() / 3600)

    def hours_over(self, now: datetime) -> int:
        """How many of its hours are over by now."""
        return max(0, min(self.hours, floor((now - self.start).total_seconds() / 3600)))

    def hours_missing(self, now: datetime) -> int:
        """How many of its hours are over by now and not closed."""
        return self.hours_over(now) - self.hours_closed - self.hours_empty

    @property
    def is_long(self) -> bool:
        """Whether its charts show days by default, rather than hours."""
        return self.end - self.start > timedelta(days=3)

    def label(self, words: Language) -> str:
        """For titles: a month, a day, or its start and end."""
        if self.key == ALL:
            return words("period.all")
        zone = ZoneInfo(self.zone)
        first, end = self.start.astimezone(zone), self.end.astimezone(zone)
        if ".." not in self.key:
            return words.month(first) if len(self.key) == len("2026-10") else words.day(first)
        if not (first.hour or first.minute or end.hour or end.minute):
            return f"{words.day(first)} – {words.day(end - HOUR)}"
        return f"{words.moment(first)} – {words.moment(end)}"


def closed_months(store: Store, zone: str) -> list[ClosedMonth]:
    rows = store.rows(read_sql(__file__, "closed_months"), {"zone": zone})
    return [ClosedMonth(row["month"], row["hours"], row["first_hour"], row["last_hour"]) for row in rows]


def choose(closed: ClosedHours, key: str, months: Sequence[ClosedMonth], zone: str) -> Period | None:
    """The period asked for, by default the newest closed month; None if nothing of it is closed, or it is invalid."""
    if not months:
        return None
    key = key.strip() or months[-1].key
    if key == ALL:
        return Period(ALL, months[0].first, months[-1].last + HOUR, sum(month.hours for month in months), zone)
    try:
        span = parse_period(key, zone)
    except PeriodError:
        return None
    hours = len(closed.within(span.start, span.end))
    empty = closed.empty(span.start, span.end)
    return Period(key, span.start, span.end, hours, zone, empty) if hours else None


def neighbour(period: Period, months: Sequence[ClosedMonth], step: int) -> str | None:
    """The key of the period before (-1) or after (1), where something may be closed."""
    keys = [month.key for month in months]
    if period.key in keys:
        place = keys.index(period.key) + step
        return keys[place] if 0 <= place < len(keys) else None
    if period.key == ALL:
        return None
    zone = ZoneInfo(period.zone)
    first, end = (moment.astimezone(zone).replace(tzinfo=None) for moment in (period.start, period.end))
    length = end - first
    span = (first + step * length, end + step * length)
    start, until = (moment.replace(tzinfo=zone) for moment in span)
    if until <= months[0].first or start > months[-1].last:
        return None
    return span_key(*span)


def latest(months: Sequence[ClosedMonth], zone: str, length: timedelta) -> str:
    """The key of the closed time's last `length`."""
    end = (months[-1].last + HOUR).astimezone(ZoneInfo(zone)).replace(tzinfo=None)
    return span_key(end - length, end)


def span_key(start: datetime, end: datetime) -> str:
    """`2026-10-05`, `2026-10-05..2026-10-08` or with hours, of local times."""
    midnight = not (start.hour or start.minute or end.hour or end.minute)
    if midnight and end - start == timedelta(days=1):
        return f"{start:%Y-%m-%d}"
    return f"{start:%Y-%m-%d}..{end:%Y-%m-%d}" if midnight else f"{start:%Y-%m-%dT%H:%M}..{end:%Y-%m-%dT%H:%M}"
