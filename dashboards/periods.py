"""Which span of closed time a page shows: in the URL (`?period=2026-10`), so that a link shows what its sender saw."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from urllib.parse import parse_qs

from billing.periods import parse_month

ALL = "all"


@dataclass(frozen=True)
class ClosedMonth:
    """A month of the billing zone in which something is closed.

    `hours`: how many of its hours are.   `first`, `last`: start of the first and of the last of them (UTC).
    """

    key: str
    hours: int
    first: datetime
    last: datetime


@dataclass(frozen=True)
class Period:
    """[start, end) in UTC; `key` is what stands in the URL; `hours_closed` of the `hours` it has."""

    key: str
    label: str
    start: datetime
    end: datetime
    hours_closed: int

    @property
    def hours(self) -> int:
        return round((self.end - self.start).total_seconds() / 3600)


def asked(search: str) -> str:
    """The period that a query string asks for, empty if none."""
    values = parse_qs((search or "").lstrip("?")).get("period", [""])
    return values[-1]


def choose(key: str, months: Sequence[ClosedMonth], zone: str) -> Period | None:
    """The period asked for, by default the newest closed month; None if nothing of it is closed.

    A month need not be complete: `hours_closed` tells.
    """
    if not months:
        return None
    if key == ALL:
        return Period(
            ALL,
            "All closed time",
            months[0].first,
            months[-1].last + timedelta(hours=1),
            sum(month.hours for month in months),
        )
    month = next((month for month in months if month.key == (key or months[-1].key)), None)
    if month is None:
        return None
    bounds = parse_month(month.key, zone)
    return Period(month.key, month_label(month.key), bounds.start, bounds.end, month.hours)


def month_label(key: str) -> str:
    """`October 2026` for `2026-10`; anything else as it is."""
    if not re.fullmatch(r"\d{4}-(0[1-9]|1[0-2])", key):
        return key
    return date.fromisoformat(f"{key}-01").strftime("%B %Y")
