"""Business hours: when a route applies."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from pydantic import AfterValidator, Field

from alerts.rule import Part
from warehouse.hours import DAYS, Day, clock, is_open, zone

Clock = Annotated[str, AfterValidator(clock)]


class Hours(Part):
    """On these days from one time to another, in local time; if the end is not after the start, the hours pass midnight
    and belong to the first day."""

    timezone: Annotated[str, AfterValidator(zone)] = "UTC"
    days: Annotated[tuple[Day, ...], Field(min_length=1)] = DAYS
    from_: Annotated[Clock, Field(alias="from")] = "00:00"
    to: Clock = "24:00"

    def open_at(self, now: datetime) -> bool:
        return is_open(now, self.timezone, self.days, self.from_, self.to)
