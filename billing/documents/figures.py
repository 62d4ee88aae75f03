"""Formats numbers and dates for documents: grouped digits, a real minus sign, months in words."""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo

HELD = ("used", "idle", "unmetered")
"""The kinds of allocated time, in the order of every chart."""
MONTHS = (
    "January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November",
    "December",
)  # fmt: skip
DASH = "–"


@dataclass(frozen=True)
class Part:
    """A piece of a bar: `percent` of the whole as text that CSS and typst read, from `start` percent on."""

    kind: str
    percent: str
    start: str
    hours: str
    share: str


def hours(value: str | Decimal) -> str:
    """A quantity with two digits after the point."""
    return _signed(round(Decimal(value), 2))


def money(value: str | Decimal) -> str:
    """An amount with the digits that it has."""
    return _signed(Decimal(value))


def price(value: str | Decimal) -> str:
    """At least two digits after the point, and no more zeros than that."""
    whole, _, digits = format(Decimal(value), "f").partition(".")
    return _signed(Decimal(f"{whole}.{digits.rstrip('0'):0<2}"))


def percent(part: Decimal, whole: Decimal) -> str:
    """Like `37.5%`; a dash where there is no whole to be part of."""
    return f"{100 * part / whole:.1f}%" if whole else DASH


def bar(measures: Mapping[str, Any], kinds: tuple[str, ...] = HELD, whole: Decimal | None = None) -> list[Part]:
    """The `<kind>_gpu_hours` as segments of one bar, as parts of their sum or of `whole` hours."""
    amounts = {kind: Decimal(measures[f"{kind}_gpu_hours"]) for kind in kinds}
    total = sum(amounts.values(), Decimal(0))
    if whole is None:
        whole = total
    parts, start = [], Decimal(0)
    for kind, amount in amounts.items():
        width = 100 * amount / whole if whole else Decimal(0)
        parts.append(Part(kind, f"{width:.3f}", f"{start:.3f}", hours(amount), percent(amount, total)))
        start += width
    return parts


def local_day(instant: str, timezone: str) -> date:
    """The day of an instant in the zone."""
    return datetime.fromisoformat(instant).astimezone(ZoneInfo(timezone)).date()


def since_in_words(instant: str, timezone: str) -> str:
    """A start as text: `16 October 2026`, with the time unless it is midnight in the zone."""
    at = datetime.fromisoformat(instant).astimezone(ZoneInfo(timezone))
    return day_in_words(at.date()) + (f", {at:%H:%M}" if at.time() != time() else "")


def until_in_words(instant: str, timezone: str) -> str:
    """An exclusive end as text: its last day, or the day with the time unless it is midnight in the zone."""
    at = datetime.fromisoformat(instant).astimezone(ZoneInfo(timezone))
    return since_in_words(instant, timezone) if at.time() != time() else day_in_words(at.date() - timedelta(days=1))


def day_in_words(day: date) -> str:
    """Like `5 October 2026`."""
    return f"{day.day} {MONTHS[day.month - 1]} {day.year}"


def month_in_words(month: str) -> str:
    """`2026-10` as `October 2026`."""
    return f"{MONTHS[int(month[5:7]) - 1]} {month[:4]}"


def days_in_words(period: Mapping[str, str]) -> str:
    """A document's period by its first and last day, like `1 – 31 October 2026`."""
    first = local_day(period["start"], period["timezone"])
    last = local_day(period["end"], period["timezone"]) - timedelta(days=1)
    if (first.year, first.month) == (last.year, last.month):
        return f"{first.day} – {day_in_words(last)}"
    return f"{day_in_words(first)} – {day_in_words(last)}"


def shortened(text: str, columns: int = 34) -> str:
    """The text, or its beginning and an ellipsis, in so many columns; an ideograph takes two."""
    width = 0
    for number, character in enumerate(text):
        width += 2 if unicodedata.east_asian_width(character) in "WF" else 1
        if width > columns:
            return text[:number].rstrip() + "…"
    return text


def _signed(value: Decimal) -> str:
    return f"{value:,f}".replace("-", "−")
