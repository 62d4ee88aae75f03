"""Forecasts a month's total cost. Pure.

Method: the actual cost so far, plus, for the rest of the month, the mean cost per hour of the same weekday over the
last 28 complete days (of all those days, for a weekday that is not among them). No trend, no holidays. The mean is per
hour, not per day, so that days of 23 or 25 hours count by their length. It is an estimate and marked as one;
`measured_error` tells how far it was off in past months, and `band` between which amounts the month should end.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from zoneinfo import ZoneInfo

from billing.exact import rounded
from billing.periods import Period, midnight
from warehouse.instants import MILLISECOND

_midnight = functools.lru_cache(maxsize=4096)(midnight)
WINDOW_DAYS = 28
DAY = timedelta(days=1)
BAND_DAYS, LEAST_TRIALS, TRIAL_DAYS = 56, 7, 7
"""The band is measured since so many days before the month, on so many past midnights at least, each with so many known
days before it."""
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
    rest = _rest(costs, known_from, until, month, zone)
    return None if rest is None else actual + rest


def band(
    costs: Mapping[date, int], known_from: datetime, until: datetime, month: Period, zone: ZoneInfo
) -> tuple[Fraction, Fraction] | None:
    """Between which amounts the whole month's cost lies in four of five cases, as far as the known past tells.

    For each past midnight with a known week before it: what the same method would have said of the next days, as many
    as are left of the month, beside what they cost. Where the past is too short for seven such trials, of fewer days;
    None if even of one day there are not so many. The tenth of the ratios at either end is left out; those that remain
    widen what is expected of the rest. The forecast itself always lies within.

    Parameters as of `forecast`. Only days since eight weeks before the month count.
    """
    at = [midnight(day, zone) for day in days_of(month, zone)]
    actual = sum(costs.get(day, 0) for day in days_of(month, zone) if midnight(day, zone) < until)
    if until >= month.end:
        return Fraction(actual), Fraction(actual)
    rest = _rest(costs, known_from, until, month, zone)
    since = max(known_from, midnight(month.start.astimezone(zone).date() - BAND_DAYS * DAY, zone))
    days_left = sum(1 for start in [*at[1:], month.end] if start > until)
    ratios = _ratios(costs, since, until, days_left, zone)
    if rest is None or ratios is None:
        return None
    cut = len(ratios) // 10
    low, high = min(ratios[cut], Fraction(1)), max(ratios[-1 - cut], Fraction(1))
    return actual + low * rest, actual + high * rest


def _ratios(
    costs: Mapping[date, int], since: datetime, until: datetime, days: int, zone: ZoneInfo
) -> list[Fraction] | None:
    """What so many days (or fewer) cost, divided by what was expected of them, in order; None: too few trials.
    A trial of which nothing was expected has no ratio."""
    known = complete_days(since, until, zone, BAND_DAYS + 31)
    for ahead in range(min(days, len(known) - TRIAL_DAYS - LEAST_TRIALS + 1), 0, -1):
        found = []
        for place in range(TRIAL_DAYS, len(known) - ahead + 1):
            first, end = known[place - 1] + DAY, known[place - 1] + (ahead + 1) * DAY
            span = Period(_midnight(first, zone), _midnight(end, zone))
            said = _rest(costs, since, span.start, span, zone)
            if said:
                found.append(sum(costs.get(first + number * DAY, 0) for number in range(ahead)) / said)
        if len(found) >= LEAST_TRIALS:
            return sorted(found)
    return None


def path(
    costs: Mapping[date, int], known_from: datetime, until: datetime, month: Period, zone: ZoneInfo
) -> dict[date, Fraction]:
    """What the month will have cost by the end of each day that is not over at `until`: the last is the forecast.
    Empty where there is none, and of a month that is over. Parameters as of `forecast`."""
    days = days_of(month, zone)
    so_far = Fraction(sum(costs.get(day, 0) for day in days if _midnight(day, zone) < until))
    rates = _rates(costs, known_from, until, zone)
    found = {}
    for day in days if rates else []:
        start, end = max(_midnight(day, zone), until), _midnight(day + DAY, zone)
        if rates and start < end:
            so_far += rates[day.weekday()] * ((end - start) // MILLISECOND)
            found[day] = so_far
    return found


def _rest(
    costs: Mapping[date, int], known_from: datetime, until: datetime, span: Period, zone: ZoneInfo
) -> Fraction | None:
    """What is expected of the part of a span of whole days that lies behind `until`; None if nothing is known."""
    rates = _rates(costs, known_from, until, zone)
    if rates is None:
        return None
    left = _remaining(max(until, span.start), span, zone)
    return sum((rates[day] * ms for day, ms in left.items() if ms), Fraction(0))


def _rates(costs: Mapping[date, int], known_from: datetime, until: datetime, zone: ZoneInfo) -> list[Fraction] | None:
    """The mean cost of a millisecond by weekday; None if nothing is known."""
    cost, length = _by_weekday(costs, known_from, until, zone)
    known_ms = sum(length.values())
    if not known_ms:
        return None
    whole = Fraction(sum(cost.values()), known_ms)
    return [Fraction(cost[day], length[day]) if length[day] else whole for day in range(7)]


def is_blind(gaps: Iterable[date], until: datetime, month: Period, zone: ZoneInfo) -> bool:
    """Whether a forecast made at `until` would rest on, or contain, a day whose cost is not known in full."""
    window = (
        min(month.start, _midnight(until.astimezone(zone).date() - WINDOW_DAYS * DAY, zone)).astimezone(zone).date()
    )
    return any(day >= window for day in gaps)


def known_since(known_from: datetime, gaps: Iterable[date], zone: ZoneInfo) -> datetime:
    """Since when every day's cost is known in full."""
    return max([known_from, *(_midnight(day + DAY, zone) for day in gaps)])


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
    return [day for day in (today - back * DAY for back in range(days, 0, -1)) if _midnight(day, zone) >= known_from]


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
        length[day.weekday()] += (_midnight(day + DAY, zone) - _midnight(day, zone)) // MILLISECOND
    if not any(length.values()):
        day = known_from.astimezone(zone).date()
        while (start := max(_midnight(day, zone), known_from)) < until:
            cost[day.weekday()] += costs.get(day, 0)
            length[day.weekday()] += (min(_midnight(day + DAY, zone), until) - start) // MILLISECOND
            day += DAY
    return cost, length


def _remaining(until: datetime, month: Period, zone: ZoneInfo) -> dict[int, int]:
    """Milliseconds that are left of the month, by weekday."""
    left = dict.fromkeys(range(7), 0)
    for day in days_of(month, zone):
        start, end = max(_midnight(day, zone), until), _midnight(day + DAY, zone)
        if start < end:
            left[day.weekday()] += (end - start) // MILLISECOND
    return left


def _mean(errors: Sequence[Fraction]) -> Decimal | None:
    return rounded(sum(errors, Fraction(0)) / len(errors), 4) if errors else None
