"""Parses periods, cut in the billing time zone.

`2026-10` is a month, `2026-10-05` a day, `START..END` anything from START until just before END, each of which is a
month, a day or an instant (local time if it has no offset).
"""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from zoneinfo import ZoneInfo

from warehouse.errors import LedgerError

_MONTH = re.compile(r"([0-9]{4})-([0-9]{2})")
EARLIEST, LATEST = datetime(1900, 1, 1, tzinfo=UTC), datetime(2299, 12, 31, tzinfo=UTC)
"""Of the engine's DateTime64."""
_DAY = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")


class PeriodError(LedgerError):
    """Text that is no period."""


@dataclass(frozen=True)
class Period:
    """[start, end), aware and in UTC. A day has 23, 24 or 25 hours, as its zone has it."""

    start: datetime
    end: datetime


def parse_period(text: str, timezone: str) -> Period:
    """The period that the text names in the zone. Errors: PeriodError, also for one that ends before it starts."""
    zone = ZoneInfo(timezone)
    first, dots, last = text.strip().partition("..")
    try:
        period = Period(_start(first, zone), _start(last, zone) if dots else _end(first, zone))
    except (ValueError, OverflowError):
        raise PeriodError(
            f"period {text!r}",
            "not a month, a day or a range",
            "Write it like 2026-10, 2026-10-05 or 2026-10-01..2026-10-08 (the end is not part of it)",
        ) from None
    if period.end <= period.start:
        raise PeriodError(f"period {text!r}", "ends before it starts", "The end is not part of the period")
    if period.start < EARLIEST or period.end > LATEST:
        raise PeriodError(f"period {text!r}", "is out of range", "Use years from 1900 to 2299")
    return period


def parse_month(text: str, timezone: str) -> Period:
    """The month that the text names in the zone. Errors: PeriodError for anything else."""
    if not _MONTH.fullmatch(text.strip()):
        raise PeriodError(f"period {text!r}", "not a month", "An invoice covers a month; write it like 2026-10")
    return parse_period(text, timezone)


def whole_hour(at: datetime) -> datetime:
    """The instant, or the end of the hour UTC that it lies in: until then the books must be closed to know it."""
    whole = at.replace(minute=0, second=0, microsecond=0)
    return whole if whole == at else whole + timedelta(hours=1)


def is_all_since(begin: datetime, start: datetime, end: datetime, closed_hours: int) -> bool:
    """Whether the books begin within the period [start, end), and so many hours are all of it from there."""
    return begin > start and closed_hours == (whole_hour(end) - begin) // timedelta(hours=1)


def month_name(period: Period, timezone: str) -> str:
    """The month in which the period starts in the zone, like 2026-10."""
    return period.start.astimezone(ZoneInfo(timezone)).strftime("%Y-%m")


def period_before(period: Period, timezone: str) -> Period:
    """The month before a month; before whole days as many local days; before hours as many hours."""
    zone = ZoneInfo(timezone)
    first, after = (at.astimezone(zone).date() for at in (period.start, period.end))
    if (midnight(first, zone), midnight(after, zone)) != (period.start, period.end):
        return Period(period.start - (period.end - period.start), period.start)
    if parse_period(month_name(period, timezone), timezone) == period:
        return parse_period((first - timedelta(days=1)).strftime("%Y-%m"), timezone)
    return parse_period(f"{first - (after - first)}..{first}", timezone)


def hour_of(at: datetime) -> datetime:
    """The start of the hour UTC that the instant lies in."""
    return at.astimezone(UTC).replace(minute=0, second=0, microsecond=0)


@functools.lru_cache(4096)
def midnight(day: date, zone: ZoneInfo) -> datetime:
    """The first instant of a local day in UTC, also where clocks skip or repeat midnight."""
    return datetime.combine(day, time(), zone).astimezone(UTC)


def _start(text: str, zone: ZoneInfo) -> datetime:
    text = text.strip()
    if month := _MONTH.fullmatch(text):
        return midnight(date(int(month[1]), int(month[2]), 1), zone)
    if _DAY.fullmatch(text):
        return midnight(date.fromisoformat(text), zone)
    instant = datetime.fromisoformat(text)
    return (instant if instant.tzinfo else instant.replace(tzinfo=zone)).astimezone(UTC)


def _end(text: str, zone: ZoneInfo) -> datetime:
    text = text.strip()
    if month := _MONTH.fullmatch(text):
        first = date(int(month[1]), int(month[2]), 1)
        return midnight((first + timedelta(days=31)).replace(day=1), zone)
    if _DAY.fullmatch(text):
        return midnight(date.fromisoformat(text) + timedelta(days=1), zone)
    raise ValueError(text)
