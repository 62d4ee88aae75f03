"""Weekly hours in the local time of a time zone, such as business hours."""

from __future__ import annotations

import re
from collections.abc import Collection
from datetime import datetime
from typing import Literal, get_args
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

Day = Literal["mon", "tue", "wed", "thu", "fri", "sat", "sun"]
DAYS: tuple[Day, ...] = get_args(Day)


def clock(text: str) -> str:
    """Errors: ValueError saying what fits."""
    if not re.fullmatch(r"(?:[01]\d|2[0-3]):[0-5]\d|24:00", text):
        raise ValueError('expected a time of day in quotes, like "09:00"')
    return text


def zone(name: str) -> str:
    """Errors: ValueError saying what fits."""
    try:
        ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:  # such as "Europe", which is a folder there
        raise ValueError("expected a time zone, like Europe/Berlin") from error
    return name


def is_open(now: datetime, timezone: str, days: Collection[Day], start: str, end: str) -> bool:
    """Whether the instant is within the hours of one of the days. Hours that end at or before their start pass midnight
    and belong to the day on which they start."""
    local = now.astimezone(ZoneInfo(timezone))
    at, today = local.strftime("%H:%M"), local.weekday()
    if start < end:
        return DAYS[today] in days and start <= at < end
    late = DAYS[today] in days and at >= start
    return late or (DAYS[today - 1] in days and at < end)
