"""Forecasts a month's total cost. Pure.

Method: the actual cost so far, plus, for the rest of the month, the mean cost per hour of the same weekday over the
last 28 complete days (of all those days, for a weekday that is not among them). No trend, no holidays. The mean is per
hour, not per day, so that days of 23 or 25 hours count by their length. It is an estimate and marked as one;
`measured_error` tells how far it was off in past months.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from zoneinfo import ZoneInfo

from billing.exact import rounded
from billing.periods import Period, midnight
from warehouse.instants import MILLISECOND

WINDOW_DAYS = 28
DAY = timedelta(days=1)
CHECKED_DAYS = (10, 20)
"""After so many days of a past month the forecast is compared with how the month ended."""


@dataclass(frozen=True)
class MeasuredError:
    """Mean of |forecast - actual| / actual over past months, for forecasts made after day 10 and 20; None: no such
    month."""

    day_10: Decimal | None
    day_20: Decimal | None
    months: int


def forecast(
    costs: Mapping[date, int], known_from: datetime, until: datetime, month: Period, zone: ZoneInfo
) -> Fraction | None:
    """The whole month's cost as seen at `until`, in the unit of the costs; None if nothing was known before.

    costs:      by local day; absent = nothing. That of the day of `until` is what accrued before it.
    known_from: since when the ledger is known; what lies before is not zero but unknown.
    """
    actual = sum(costs.get(day, 0) for day in days_of(month, zone) if midnight(day, zone) < until)  # an int: exact
    if until >= month.end:
        return Fraction(actual)
    cost, length = _by_weekday(costs, known_from, until, zone)
    known_ms = sum(length.values())
    if not known_ms:
        return None
    whole = Fraction(sum(cost.values()), known_ms)
    rates = [Fraction(cost[day], length[day]) if length[day] else whole for day in range(7)]
    left = _remaining(max(until, month.start), month, zone)
    return sum((rates[day] * ms for day, ms in left.items()), Fraction(actual))


def measured_error(
    costs: Mapping[date, int], known_from: datetime, months: Sequence[Period], zone: ZoneInfo
) -> MeasuredError:
    """How far the forecast was off in past months, which are all known; one that cost nothing has no error."""
    errors: dict[int, list[Fraction]] = {day: [] for day in CHECKED_DAYS}
    counted = 0
    for month in months:
        actual = sum(costs.get(day, 0) for day in days_of(month, zone))
        if not actual:
            continue
        counted += 1
        for days in CHECKED_DAYS:
            until = midnight(days_of(month, zone)[0] + days * DAY, zone)
            guess = forecast(costs, known_from, until, month, zone)
            if guess is not None:
                errors[days].append(abs(guess - actual) / actual)
    ten, twenty = (_mean(errors[days]) for days in CHECKED_DAYS)
    return MeasuredError(ten, twenty, counted)


def per_day(
    costs: Mapping[date, int], known_from: datetime, until: datetime, zone: ZoneInfo, days: int = 7
) -> Fraction | None:
    """The mean cost of the last complete days (so many, or as many as are known); None if none is."""
    complete = complete_days(known_from, until, zone, days)
    return Fraction(sum(costs.get(day, 0) for day in complete), len(complete)) if complete else None


def complete_days(known_from: datetime, until: datetime, zone: ZoneInfo, days: int) -> list[date]:
    """The local days before that of `until`, at most so many, that lie in [known_from, until) whole."""
    today = until.astimezone(zone).date()
    return [day for day in (today - back * DAY for back in range(days, 0, -1)) if midnight(day, zone) >= known_from]


def days_of(period: Period, zone: ZoneInfo) -> list[date]:
    """The local days of a period that starts and ends at midnight."""
    first, last = (at.astimezone(zone).date() for at in (period.start, period.end))
    return [first + number * DAY for number in range((last - first).days)]


def _by_weekday(
    costs: Mapping[date, int], known_from: datetime, until: datetime, zone: ZoneInfo
) -> tuple[dict[int, int], dict[int, int]]:
    """Cost and milliseconds of the complete days by weekday; of all that is known where no day is complete."""
    cost, length = dict.fromkeys(range(7), 0), dict.fromkeys(range(7), 0)
    for day in complete_days(known_from, until, zone, WINDOW_DAYS):
        cost[day.weekday()] += costs.get(day, 0)
        length[day.weekday()] += (midnight(day + DAY, zone) - midnight(day, zone)) // MILLISECOND
    if not any(length.values()):
        day = known_from.astimezone(zone).date()
        while (start := max(midnight(day, zone), known_from)) < until:
            cost[day.weekday()] += costs.get(day, 0)
            length[day.weekday()] += (min(midnight(day + DAY, zone), until) - start) // MILLISECOND
            day += DAY
    return cost, length


def _remaining(until: datetime, month: Period, zone: ZoneInfo) -> dict[int, int]:
    """Milliseconds that are left of the month, by weekday."""
    left = dict.fromkeys(range(7), 0)
    for day in days_of(month, zone):
        start, end = max(midnight(day, zone), until), midnight(day + DAY, zone)
        if start < end:
            left[day.weekday()] += (end - start) // MILLISECOND
    return left


def _mean(errors: Sequence[Fraction]) -> Decimal | None:
    return rounded(sum(errors, Fraction(0)) / len(errors), 4) if errors else None
