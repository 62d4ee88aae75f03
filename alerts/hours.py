"""Business hours: when a route is used."""

from __future__ import annotations

import re
from datetime import datetime
from typing import Annotated, Literal, get_args
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import AfterValidator, Field

from alerts.rule import Part

Day = Literal["mon", "tue", "wed", "thu", "fri", "sat", "sun"]
DAYS: tuple[Day, ...] = get_args(Day)


def _clock(text: str) -> str:
    if not re.fullmatch(r"(?:[01]\d|2[0-3]):[0-5]\d|24:00", text):
        raise ValueError('a time of day fits, in quotes, like "09:00"')
    return text


def _zone(name: str) -> str:
    try:
        ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError) as error:
        raise ValueError("a time zone fits, like Europe/Berlin") from error
    return name


Clock = Annotated[str, AfterValidator(_clock)]


class Hours(Part):
    """On these days from one time to another, by the clock on the wall; one that ends no later than it starts passes
    midnight and belongs to the day on which it starts."""

    timezone: Annotated[str, AfterValidator(_zone)] = "UTC"
    days: Annotated[tuple[Day, ...], Field(min_length=1)] = DAYS
    from_: Annotated[Clock, Field(alias="from")] = "00:00"
    to: Clock = "24:00"

    def open_at(self, now: datetime) -> bool:
        local = now.astimezone(ZoneInfo(self.timezone))
        clock, today = local.strftime("%H:%M"), local.weekday()
        if self.from_ < self.to:
            return DAYS[today] in self.days and self.from_ <= clock < self.to
        late = DAYS[today] in self.days and clock >= self.from_
        return late or (DAYS[today - 1] in self.days and clock < self.to)
