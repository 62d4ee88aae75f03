"""Weekly hours with bounds of their own on the number of replicas, of a service or of an elastic job."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

from warehouse.hours import DAYS, Day, is_open


@dataclass(frozen=True, slots=True)
class Window:
    """Weekly hours, in local time, with bounds of their own on the number of replicas."""

    min_replicas: int = 0
    max_replicas: int | None = None
    timezone: str = "UTC"
    days: tuple[Day, ...] = DAYS
    start: str = "00:00"
    end: str = "24:00"

    def is_open(self, now: float) -> bool:
        return is_open(datetime.fromtimestamp(now, UTC), self.timezone, self.days, self.start, self.end)

    @property
    def hours(self) -> str:
        return f"{','.join(self.days)} {self.start}-{self.end} {self.timezone}"

    def __str__(self) -> str:
        bounds = f"at least {self.min_replicas}"
        if self.max_replicas is not None:
            bounds += f", at most {self.max_replicas}"
        return f"{self.hours}: {bounds}"
