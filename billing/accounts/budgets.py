"""Compares a month's cost and forecast with its budgets.

The cost is that of the ledger: allocated time at the contracted price, before minimums, commitments, discounts, taxes
and credits. A threshold of the actual cost is crossed at a millisecond; one of the forecast at the first local midnight
since which every daily forecast is at or above it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from decimal import Decimal
from enum import StrEnum
from fractions import Fraction
from zoneinfo import ZoneInfo

from billing.accounts.budget_file import Budget, BudgetError, BudgetFile, current_budgets
from billing.accounts.costs import DailyCosts, Span, Target, daily_costs, reached
from billing.accounts.forecast import (
    BAND_DAYS,
    WINDOW_DAYS,
    MeasuredError,
    band,
    days_of,
    forecast,
    is_blind,
    known_since,
    measured_error,
    per_day,
)
from billing.closed import closed_period
from billing.exact import rounded
from billing.ledger_report import billing_timezone
from billing.money import minor_digits
from billing.periods import Period, hour_of, midnight, parse_month
from warehouse.store import Store

CHECKED_MONTHS = 6
"""Past months in which the forecast's error is measured."""
METHOD = (
    f"actual so far + what is left at the mean of the same weekday in the last {WINDOW_DAYS} days (no trend); estimate"
)


class State(StrEnum):
    """The worst state that applies; `unknown` if none of its hours is closed, or nothing in it has a price."""

    ok = "ok"
    warning = "warning"
    over = "over"
    forecast_over = "forecast over"
    unknown = "unknown"


@dataclass(frozen=True)
class ThresholdState:
    """`amount`: the threshold in money.   `crossed_at`: None while it is not crossed."""

    percent: Decimal
    of: str
    amount: Decimal
    crossed_at: datetime | None


@dataclass(frozen=True)
class BudgetState:
    """A budget in a month. Actual amounts are exact, to nine digits; estimates are in whole minor units."""

    tenant: str
    project: str | None
    month: str
    owner: str
    amount: Decimal
    currency: str
    known_until: datetime | None
    actual: Decimal | None
    unpriced_gpu_hours: Decimal
    forecast: Decimal | None
    forecast_low: Decimal | None
    forecast_high: Decimal | None
    is_estimate: bool
    burn_per_day: Decimal | None
    percent: Decimal | None
    forecast_percent: Decimal | None
    state: State
    thresholds: tuple[ThresholdState, ...]
    error: MeasuredError


def budget_states(store: Store, month: str, now: datetime) -> list[BudgetState]:
    """The budgets in force in a month (like 2026-10), in the file's order, as the ledger stands at `now`.

    Errors: BudgetError if the ledger's prices are in another currency; PeriodError if `month` is no month.
    """
    zone = ZoneInfo(billing_timezone(store))
    period = parse_month(month, zone.key)
    applied = current_budgets(store)
    budgets = [budget for budget in applied.file.budgets if budget.in_force(month)] if applied else []
    if applied is None or not budgets:
        return []
    closed = closed_period(store)
    known = closed and Period(closed.start, min(closed.end, hour_of(now)))
    currency = applied.file.currency
    if known is None or known.end <= known.start or known.end <= period.start:
        return [_unknown(budget, month, currency) for budget in budgets]
    until = min(known.end, period.end)
    past = _past_months(period, known, zone)
    first = min(_window_start(past[0].start if past else period.start, zone), _back(period.start, BAND_DAYS, zone))
    start = max(known.start, first)
    daily = daily_costs(store, Period(start, until), [budget.tenant for budget in budgets], zone.key)
    _same_currency(daily, currency)
    view = _View(month, period, start, until, past, zone, currency, daily)
    return _with_instants(store, [_state(budget, view) for budget in budgets], period.start, until)


def last_spent(store: Store, file: BudgetFile, month: str) -> dict[Budget, Decimal]:
    """Of each budget that has ended by the month (like 2026-10): the cost of the last month in which it was in force,
    as far back as the books go; without those whose last month is not all closed, or has hours without a price.

    Errors: BudgetError if the ledger's prices are in another currency.
    """
    zone = ZoneInfo(billing_timezone(store))
    closed = closed_period(store)
    if closed is None:
        return {}
    ends = {
        one: _month_before(one.effective_to, zone)
        for one in file.budgets
        if one.effective_to and one.effective_to <= month
    }
    known = {one: last for one, last in ends.items() if closed.start < last.end <= closed.end}
    if not known:
        return {}
    whole = Period(min(last.start for last in known.values()), max(last.end for last in known.values()))
    daily = daily_costs(store, whole, [one.tenant for one in known], zone.key)
    _same_currency(daily, file.currency)
    found = {}
    for one, last in known.items():
        days = days_of(last, zone)
        costs = daily.of(one.tenant, one.project)
        if not any(daily.unpriced_of(one.tenant, one.project).get(day) for day in days):
            found[one] = rounded(Fraction(sum(costs.get(day, 0) for day in days), daily.unit))
    return found


def _same_currency(daily: DailyCosts, currency: str) -> None:
    if daily.currencies - {currency}:
        raise BudgetError(
            "budgets", f"are in {currency}, the ledger in {' and '.join(sorted(daily.currencies))}", "Apply new ones"
        )


def _month_before(month: str, zone: ZoneInfo) -> Period:
    last_day = parse_month(month, zone.key).start.astimezone(zone).date() - timedelta(days=1)
    return parse_month(last_day.strftime("%Y-%m"), zone.key)


@dataclass(frozen=True)
class _View:
    month: str
    period: Period
    known_from: datetime
    until: datetime
    past: Sequence[Period]
    zone: ZoneInfo
    currency: str
    daily: DailyCosts


def _state(budget: Budget, view: _View) -> BudgetState:
    """All but the instants at which thresholds of the actual cost were crossed."""
    costs = view.daily.of(budget.tenant, budget.project)
    gaps = view.daily.unpriced_of(budget.tenant, budget.project)
    days = days_of(view.period, view.zone)
    spent = sum(costs.get(day, 0) for day in days)
    unpriced = sum((gaps.get(day, Fraction(0)) for day in days), Fraction(0))
    priced = any(costs.get(day) for day in days) or not unpriced
    actual = Fraction(spent, view.daily.unit) if priced else None
    unit, digits = view.daily.unit, minor_digits(view.currency)

    @functools.cache
    def seen(until: datetime) -> Fraction | None:
        guess = forecast(costs, view.known_from, until, view.period, view.zone)
        return None if guess is None else guess / unit

    blind = is_blind(gaps, view.until, view.period, view.zone)
    ends = None if blind else seen(view.until)
    since = known_since(view.known_from, gaps, view.zone)
    between = None if ends is None else band(costs, since, view.until, view.period, view.zone)
    burn = None if blind else per_day(costs, view.known_from, view.until, view.zone)
    thresholds = []
    for one in budget.thresholds:
        level = Fraction(budget.amount) * Fraction(one.percent) / 100
        at = None
        if one.of == "forecast" and ends is not None and ends >= level:
            at = _above_since(level, view, seen)
        thresholds.append(ThresholdState(one.percent, one.of, rounded(level), at))
    return BudgetState(
        tenant=budget.tenant,
        project=budget.project,
        month=view.month,
        owner=budget.owner,
        amount=budget.amount,
        currency=view.currency,
        known_until=view.until,
        actual=None if actual is None else rounded(actual),
        unpriced_gpu_hours=rounded(unpriced),
        forecast=None if ends is None else rounded(ends, digits),
        forecast_low=None if between is None else rounded(between[0] / unit, digits),
        forecast_high=None if between is None else rounded(between[1] / unit, digits),
        is_estimate=view.until < view.period.end,
        burn_per_day=None if burn is None else rounded(burn / unit, digits),
        percent=_percent(actual, budget),
        forecast_percent=_percent(ends, budget),
        state=_judge(actual, ends, budget),
        thresholds=tuple(thresholds),
        error=MeasuredError(None, None, 0) if gaps else measured_error(costs, view.known_from, view.past, view.zone),
    )


def _above_since(level: Fraction, view: _View, seen: Callable[[datetime], Fraction | None]) -> datetime:
    """Since when every daily forecast, and the newest, has been at or above the level."""
    since = view.until
    for day in reversed(days_of(view.period, view.zone)):
        at = midnight(day, view.zone)
        if at < view.until:
            guess = seen(at)
            if guess is None or guess < level:
                break
            since = at
    return since


def _with_instants(store: Store, states: Sequence[BudgetState], start: datetime, until: datetime) -> list[BudgetState]:
    targets: dict[tuple[int, int], Target] = {}
    for number, state in enumerate(states):
        for place, one in enumerate(state.thresholds):
            if one.of == "actual" and state.actual is not None and state.actual >= one.amount:
                level = Fraction(state.amount) * Fraction(one.percent) / 100
                targets[number, place] = Target(Span(state.tenant, start, until, state.project), level)
    instants = dict(zip(targets, reached(store, list(targets.values())), strict=True))
    return [
        replace(
            state,
            thresholds=tuple(
                replace(one, crossed_at=instants.get((number, place), one.crossed_at))
                for place, one in enumerate(state.thresholds)
            ),
        )
        for number, state in enumerate(states)
    ]


def _judge(actual: Fraction | None, ends: Fraction | None, budget: Budget) -> State:
    if actual is None:
        return State.unknown
    if actual > budget.amount:
        return State.over
    if ends is not None and ends > budget.amount:
        return State.forecast_over
    for one in budget.thresholds:
        amount = actual if one.of == "actual" else ends
        if amount is not None and amount * 100 >= Fraction(budget.amount) * Fraction(one.percent):
            return State.warning
    return State.ok


def _unknown(budget: Budget, month: str, currency: str) -> BudgetState:
    return BudgetState(
        tenant=budget.tenant,
        project=budget.project,
        month=month,
        owner=budget.owner,
        amount=budget.amount,
        currency=currency,
        known_until=None,
        actual=None,
        unpriced_gpu_hours=Decimal(0),
        forecast=None,
        forecast_low=None,
        forecast_high=None,
        is_estimate=True,
        burn_per_day=None,
        percent=None,
        forecast_percent=None,
        state=State.unknown,
        thresholds=tuple(
            ThresholdState(one.percent, one.of, rounded(Fraction(budget.amount) * Fraction(one.percent) / 100), None)
            for one in budget.thresholds
        ),
        error=MeasuredError(None, None, 0),
    )


def _past_months(period: Period, known: Period, zone: ZoneInfo) -> list[Period]:
    """The previous months that are fully closed, at most six, the oldest first."""
    months: list[Period] = []
    month = period
    while len(months) < CHECKED_MONTHS:
        last_day = days_of(Period(month.start - timedelta(days=1), month.start), zone)[0]
        month = parse_month(last_day.strftime("%Y-%m"), zone.key)
        if month.start < known.start:
            break
        if month.end <= known.end:
            months.insert(0, month)
    return months


def _window_start(at: datetime, zone: ZoneInfo) -> datetime:
    """The start of the days on which a forecast made at this instant is based."""
    return _back(at, WINDOW_DAYS, zone)


def _back(at: datetime, days: int, zone: ZoneInfo) -> datetime:
    return midnight(at.astimezone(zone).date() - timedelta(days=days), zone)


def _percent(amount: Fraction | None, budget: Budget) -> Decimal | None:
    return None if amount is None else rounded(amount * 100 / Fraction(budget.amount), 2)
