"""Tenants' costs by time span and by day, and when they reached a level.

Costs are the ledger's: allocated time at the contracted price, before minimums, commitments, discounts, taxes and
credits. Within an entry, cost accrues evenly, so it is defined at every millisecond. Sums are exact: the engine sums
the ledger's hours, and this module resolves the one hour in which the level is reached.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from fractions import Fraction
from itertools import pairwise
from math import ceil
from typing import Any

from billing.exact import NANO, Scale, price_nano
from billing.periods import Period, hour_of
from warehouse.errors import LedgerError
from warehouse.instants import MILLISECOND
from warehouse.store import Store, read_sql

PORTION = 500
"""Questions asked in one statement; they travel as parameters."""
HOUR = timedelta(hours=1)


@dataclass(frozen=True)
class Span:
    """[start, end) of a tenant, or of one of its projects (None: all of them); of one currency, or of any (None)."""

    tenant: str
    start: datetime
    end: datetime
    project: str | None = None
    currency: str | None = None


@dataclass
class Cost:
    """`known`: cost of the part that has a price; `unpriced_gpu_hours` have none, which is not a price of zero."""

    known: Fraction = Fraction(0)
    unpriced_gpu_hours: Fraction = Fraction(0)
    currency: str = ""


@dataclass(frozen=True)
class Target:
    """A level that the cost of a span may reach."""

    span: Span
    level: Fraction


@dataclass(frozen=True)
class DailyCosts:
    """Costs of a tenant's projects by day of the billing zone, as integers of which `unit` are one of the currency.

    A day that is absent cost nothing. `unpriced` are the GPU-hours without a price, of days that have any.
    """

    unit: int
    costs: Mapping[tuple[str, str], Mapping[date, int]]
    unpriced: Mapping[tuple[str, str], Mapping[date, Fraction]]
    currencies: frozenset[str] = frozenset()

    def of(self, tenant: str, project: str | None) -> dict[date, int]:
        """The days of a tenant, or of one of its projects."""
        return _by_day(self.costs, tenant, project)

    def unpriced_of(self, tenant: str, project: str | None) -> dict[date, Fraction]:
        return _by_day(self.unpriced, tenant, project)


def cost_of_spans(store: Store, spans: Sequence[Span]) -> list[Cost]:
    """The cost accrued in each span, in order. Errors: LedgerError if a span of any currency has prices in two."""
    costs = [Cost() for _ in spans]
    for first, part in _portions(spans):
        params = {**_span_params(part), "starts": [span.start for span in part], "ends": [span.end for span in part]}
        for row in store.rows(read_sql(__file__, "cost_of_spans"), params) if part else []:
            _add(costs[first + row["span"]], row)
    return costs


def reached(store: Store, targets: Sequence[Target]) -> list[datetime | None]:
    """The first millisecond at which each span's cost has reached its level; None if it does not.

    A level of zero or less is reached at the span's start.
    """
    answer: list[datetime | None] = [one.span.start if one.level <= 0 else None for one in targets]
    asked = [number for number, one in enumerate(targets) if one.level > 0 and one.span.start < one.span.end]
    before = _cost_before(store, [targets[number].span for number in asked])
    for first, part in _portions(asked):
        questions = [targets[number].span for number in part]
        levels = [targets[number].level + before[first + place] for place, number in enumerate(part)]
        for place, at in _instants(store, questions, levels):
            if at <= questions[place].end:
                answer[part[place]] = at
    return answer


def daily_costs(store: Store, period: Period, tenants: Iterable[str], timezone: str) -> DailyCosts:
    """The costs of the tenants' projects by day of the zone, in a period that starts and ends with whole entries.

    Errors: LedgerError if they are in two currencies.
    """
    scale = _scale(store, period.start, period.end)
    params = {
        "start": period.start,
        "end": period.end,
        "tenants": sorted(set(tenants)),
        "timezone": timezone,
        "scale": scale.device_units,
    }
    costs: dict[tuple[str, str], dict[date, int]] = defaultdict(dict)
    unpriced: dict[tuple[str, str], dict[date, Fraction]] = defaultdict(dict)
    currencies: set[str] = set()
    for row in store.rows(read_sql(__file__, "daily_costs"), params):
        key = (row["tenant"], row["project"])
        costs[key][row["day"]] = row["cost"]
        if row["unpriced"]:
            unpriced[key][row["day"]] = Fraction(row["unpriced"], scale.hour)
        currencies.update(row["currencies"])
    return DailyCosts(scale.hour * NANO, costs, unpriced, frozenset(currencies))


def _instants(store: Store, spans: Sequence[Span], levels: Sequence[Fraction]) -> Iterable[tuple[int, datetime]]:
    """(place, when) for the spans whose cost since their first hour began reaches the level."""
    from_hours = [hour_of(span.start) for span in spans]
    to_hours = [hour_of(span.end - MILLISECOND) + HOUR for span in spans]
    scale = _scale(store, min(from_hours), max(to_hours))
    unit = scale.hour * NANO
    params = {
        **_span_params(spans),
        "from_hours": [_seconds(hour) for hour in from_hours],
        "to_hours": [_seconds(hour) for hour in to_hours],
        "levels": [str(ceil(level * unit)) for level in levels],
        "scale": scale.device_units,
    }
    hours = store.rows(read_sql(__file__, "hours_that_reach"), params)
    if not hours:
        return
    params = {
        **_span_params([spans[row["question"]] for row in hours]),
        "hours": [_seconds(row["hour"]) for row in hours],
    }
    entries: dict[int, list[dict[str, Any]]] = defaultdict(list)
    for entry in store.rows(read_sql(__file__, "entries_of_hours"), params):
        entries[entry["question"]].append(entry)
    for number, row in enumerate(hours):
        yield row["question"], _within(entries[number], levels[row["question"]] - Fraction(row["before"], unit))


def _within(entries: Sequence[Mapping[str, Any]], level: Fraction) -> datetime:
    """When entries that accrue evenly, side by side, have reached a level together; they do before the last ends."""
    slopes: dict[datetime, Fraction] = defaultdict(Fraction)
    for entry in entries:
        start, end = entry["charge_period_start"], entry["charge_period_end"]
        slope = _priced(entry) / ((end - start) // MILLISECOND)
        slopes[start] += slope
        slopes[end] -= slope
    instants = sorted(slopes)
    accrued = slope = Fraction(0)
    for at, following in pairwise(instants):
        slope += slopes[at]
        length = (following - at) // MILLISECOND
        if slope and accrued + slope * length >= level:
            return at + ceil((level - accrued) / slope) * MILLISECOND
        accrued += slope * length
    return instants[-1]


def _cost_before(store: Store, spans: Sequence[Span]) -> list[Fraction]:
    """What accrued in each span's first hour before the span starts."""
    mid_hour = [number for number, span in enumerate(spans) if span.start != hour_of(span.start)]
    heads = [
        replace(span, start=hour_of(span.start), end=span.start) for span in (spans[number] for number in mid_hour)
    ]
    before = [Fraction(0)] * len(spans)
    for number, cost in zip(mid_hour, cost_of_spans(store, heads), strict=True):
        before[number] = cost.known
    return before


def _add(cost: Cost, row: Mapping[str, Any]) -> None:
    part = Fraction(row["part_ms"], row["whole_ms"])
    if row["contracted_unit_price"] is None:
        scale = Scale(row["device_units"])
        cost.unpriced_gpu_hours += Fraction(row["held_micro_ms"], scale.hour) * part
        return
    if cost.currency not in ("", row["billing_currency"]):
        both = " and ".join(sorted({cost.currency, row["billing_currency"]}))
        raise LedgerError("ledger", f"has prices in several currencies: {both}", "Run: gpuledger close")
    cost.currency = row["billing_currency"]
    cost.known += _priced(row) * part


def _priced(row: Mapping[str, Any]) -> Fraction:
    scale = Scale(row["device_units"])
    return scale.money(row["held_micro_ms"] * price_nano(row["contracted_unit_price"]))


def _scale(store: Store, start: datetime, end: datetime) -> Scale:
    rows = store.rows(read_sql(__file__, "ledger_scale"), {"start": start, "end": end})
    return Scale.of(row["device_units"] for row in rows)


def _span_params(spans: Sequence[Span]) -> dict[str, Any]:
    return {
        "tenants": [span.tenant for span in spans],
        "projects": [span.project or "" for span in spans],
        "any_project": [int(span.project is None) for span in spans],
        "currencies": [span.currency or "" for span in spans],
    }


def _by_day(parts: Mapping[tuple[str, str], Mapping[date, Any]], tenant: str, project: str | None) -> dict[date, Any]:
    if project is not None:
        return dict(parts.get((tenant, project), {}))
    total: dict[date, Any] = {}
    for (owner, _), days in parts.items():
        if owner == tenant:
            for day, amount in days.items():
                total[day] = total.get(day, 0) + amount
    return total


def _portions(items: Sequence[Any]) -> Iterable[tuple[int, Sequence[Any]]]:
    return [(first, items[first : first + PORTION]) for first in range(0, len(items), PORTION)]


def _seconds(hour: datetime) -> str:
    """An hour as the engine reads a DateTime, which has no milliseconds."""
    return hour.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S")
