"""Parses instants and time zones in files that people write."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, date, datetime, time, timedelta
from typing import Annotated, Protocol
from zoneinfo import ZoneInfo

from pydantic import BeforeValidator


def _instant(value: object) -> datetime | None:
    if isinstance(value, str):
        with suppress(ValueError):
            value = datetime.fromisoformat(value)
    if isinstance(value, date) and not isinstance(value, datetime):
        value = datetime.combine(value, time())
    if not isinstance(value, datetime | None):
        raise ValueError("expected a date or time such as 2026-10-01 or 2026-10-01T00:00:00Z")
    if value is not None and not 1900 <= value.year < 2300:
        raise ValueError("expected a year from 1900 to 2299")
    if value is not None and value.microsecond % 1000:
        raise ValueError("the books count whole milliseconds")
    return value


Instant = Annotated[datetime | None, BeforeValidator(_instant)]
"""A date or time in the file's own zone, or with an offset; in UTC once the file is read."""


def utc(at: datetime, zone: ZoneInfo) -> datetime:
    return (at if at.tzinfo else at.replace(tzinfo=zone)).astimezone(UTC)


def before(start: datetime | None, end: datetime | None) -> bool:
    """Whether there is time in [start, end); None = open."""
    return start is None or end is None or start < end


class Dated(Protocol):
    """What is in force during [effective_from, effective_to); None = open."""

    @property
    def effective_from(self) -> datetime | None: ...

    @property
    def effective_to(self) -> datetime | None: ...


def common_time(these: Sequence[Dated], zone: ZoneInfo) -> str:
    """When all of these are in force, in words with the comma before them; '' if always."""
    start = max((one.effective_from for one in these if one.effective_from), default=None)
    end = min((one.effective_to for one in these if one.effective_to), default=None)
    if start and end:
        is_day = _local(end, zone) == _local(start, zone, 1)
        return f", on {_local(start, zone)}" if is_day else f", from {_local(start, zone)} until {_local(end, zone)}"
    if start:
        return f", from {_local(start, zone)} on"
    return f", until {_local(end, zone)}" if end else ""


def _local(at: datetime, zone: ZoneInfo, days: int = 0) -> str:
    """As in the file: 2026-10-29, or with its time where it is not midnight. days: so many days later."""
    there = at.astimezone(zone).replace(tzinfo=None) + timedelta(days)
    return there.isoformat().removesuffix("T00:00:00").removesuffix(":00")


def zone_that_exists(value: str) -> str:
    """Errors: ValueError, saying what fits."""
    try:
        ZoneInfo(value)
    except (OSError, ValueError, KeyError):
        raise ValueError("expected an IANA time zone such as UTC or Europe/Berlin") from None
    return value
