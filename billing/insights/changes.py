"""Explains why a period cost more or less than another: by hours, by price, or by mix of models.

    by_hours   more or fewer GPU-hours, at the average price of the earlier period
    by_price   the same models at other prices, for the hours of this period
    by_mix     more expensive or cheaper models than before, at their earlier prices

The three sum to the difference. New and vanished usage counts as a change in hours. If a period is not over yet, only
as much of the other one is compared as is closed; if the books begin within the period before, as much less of both.
Costs are at the contracted price, before discounts, credits and taxes of invoices; the cost of idle time within them is
reported separately.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction
from typing import Any

from billing.closed import Closed, closed_part, closed_period, period_document
from billing.exact import Scale, rounded
from billing.insights.efficiency import IN_ORDER_OF_TIME
from billing.ledger_report import billing_timezone, check_dimensions, entries_by
from billing.periods import Period, period_before
from billing.sums import KINDS, LedgerSum, one_currency
from warehouse.errors import LedgerError
from warehouse.store import Store

MEASURES = (
    "cost_before", "cost", "difference", "by_hours", "by_price", "by_mix", "gpu_hours_before", "gpu_hours",
    "unpriced_gpu_hours", "idle_cost_before", "idle_cost", "currency",
)  # fmt: skip
"""What a row says after its dimensions. unpriced_gpu_hours: of both times, what no cost contains."""
COSTS = ("difference", "by_hours", "by_price", "by_mix")

Key = tuple[str, ...]


@dataclass(frozen=True)
class Held:
    """What a group held of one model. hours: those with a price; cost, idle_cost: theirs."""

    hours: Fraction = Fraction(0)
    cost: Fraction = Fraction(0)
    idle_cost: Fraction = Fraction(0)
    unpriced: Fraction = Fraction(0)

    def __add__(self, other: Held) -> Held:
        return Held(
            self.hours + other.hours,
            self.cost + other.cost,
            self.idle_cost + other.idle_cost,
            self.unpriced + other.unpriced,
        )


@dataclass(frozen=True)
class Change:
    """One holder's. before, now: what it had in all.   by_hours, by_price: of the difference; the rest is the mix."""

    before: Held
    now: Held
    by_hours: Fraction
    by_price: Fraction

    def measures(self) -> dict[str, Any]:
        """Rounded to nine digits; the parts sum to the difference. None: nothing has a price."""
        unpriced = self.before.unpriced + self.now.unpriced
        difference, hours, price = (
            rounded(one) for one in (self.now.cost - self.before.cost, self.by_hours, self.by_price)
        )
        found: dict[str, Any] = {
            "cost_before": rounded(self.before.cost),
            "cost": rounded(self.now.cost),
            "difference": difference,
            "by_hours": hours,
            "by_price": price,
            "by_mix": difference - hours - price,
            "idle_cost_before": rounded(self.before.idle_cost),
            "idle_cost": rounded(self.now.idle_cost),
        }
        if unpriced and not (self.before.hours or self.now.hours):
            found = dict.fromkeys(found)
        hours_of = {
            "gpu_hours_before": rounded(self.before.hours + self.before.unpriced),
            "gpu_hours": rounded(self.now.hours + self.now.unpriced),
            "unpriced_gpu_hours": rounded(unpriced),
        }
        return found | hours_of


@dataclass(frozen=True)
class ChangesReport:
    """The answer. period, before: what was compared; rows: the greatest difference first; each None where nothing of
    one of them is closed."""

    period: Closed | None
    before: Closed | None
    by: tuple[str, ...]
    currency: str | None
    rows: tuple[Mapping[str, Any], ...]
    total: Mapping[str, Any] = field(default_factory=dict)

    @property
    def columns(self) -> tuple[str, ...]:
        return (*self.by, *MEASURES)

    def document(self) -> dict[str, Any]:
        """The answer in the shape that the command line prints as JSON."""
        spans = {"period": period_document(self.period), "before": period_document(self.before)}
        return {**spans, "rows": list(self.rows), "total": self.total}


def changes(store: Store, period: Period, against: Period | None, by: Sequence[str]) -> ChangesReport:
    """What changed in the cost of a period against another (None: the one before), by the dimensions.

    Errors: LedgerError if `by` names no dimension, or one of time; if amounts of two currencies would be compared.
    """
    dimensions = check_dimensions(by)
    if timed := IN_ORDER_OF_TIME & {*dimensions}:
        raise LedgerError("--by", f"{timed.pop()!r} is in one of the two periods alone", "Choose another dimension")
    spans = [closed_part(store, one) for one in compared(store, period, against)]
    of_models = (*dimensions, *(() if "model" in dimensions else ("model",)))
    entries = [[row for row in entries_by(store, span, of_models) if row["held"]] for span in spans]
    currency = _currency(entries)
    before, now = (_held(found, dimensions) for found in entries)
    walked = {key: walk(before.get(key, {}), now.get(key, {})) for key in sorted({*before, *now})}
    rows = [{**dict(zip(dimensions, key, strict=True)), **one.measures(), "currency": currency}
            for key, one in walked.items()]  # fmt: skip
    total: dict[str, Any] = {**in_all(before.values(), now.values()).measures(), "currency": currency}
    if not all(span and span.closed_hours for span in spans):
        rows, total = [], dict.fromkeys(MEASURES)
    rows.sort(key=lambda row: (row["difference"] is None, -abs(row["difference"] or Decimal(0))))
    return ChangesReport(spans[1], spans[0], dimensions, currency, tuple(rows), total)


def compared(store: Store, period: Period, against: Period | None) -> tuple[Period, Period]:
    """The other period and this one: of this the part until the books end, of the other as much. If the books begin
    within the period before, both begin as much later: what they do not know would look like a rise. One that was
    asked for stays as it is."""
    books, before = closed_period(store), against or period_before(period, billing_timezone(store))
    if books is None:
        return before, period
    if period.start < books.end < period.end:
        closed = books.end - period.start
        before = Period(before.start, min(before.end, before.start + closed))
        period = Period(period.start, books.end)
    later = books.start - before.start
    if against is None and before.start < books.start < before.end and later < period.end - period.start:
        return Period(books.start, before.end), Period(period.start + later, period.end)
    return before, period


def walk(before: Mapping[str, Held], now: Mapping[str, Held]) -> Change:
    """The change from what a group held before to what it holds now, each by model."""
    was, has = sum(before.values(), Held()), sum(now.values(), Held())
    by_hours = (has.hours - was.hours) * was.cost / was.hours if was.hours else has.cost
    by_price = sum(
        (each.cost - each.hours * before[model].cost / before[model].hours
         for model, each in now.items() if each.hours and model in before and before[model].hours),
        Fraction(0),
    )  # fmt: skip
    return Change(was, has, by_hours, by_price)


def in_all(before: Iterable[Mapping[str, Held]], now: Iterable[Mapping[str, Held]]) -> Change:
    """The change of all holders as one, each by model: what moves between them is in the mix. So more hours in all are
    never less cost by hours, and a tenant's change is the same among tenants and as the total of its projects."""
    return walk(_as_one(before), _as_one(now))


def _as_one(some: Iterable[Mapping[str, Held]]) -> dict[str, Held]:
    found: dict[str, Held] = defaultdict(Held)
    for one in some:
        for model, held in one.items():
            found[model] += held
    return dict(found)


def _currency(entries: Sequence[Sequence[Mapping[str, Any]]]) -> str | None:
    known = {currency for currency in map(one_currency, entries) if currency}
    if len(known) > 1:
        raise LedgerError("changes", f"one period is in {' and the other in '.join(sorted(known))}", "Choose others")
    return next(iter(known), None)


def _held(entries: Sequence[Mapping[str, Any]], dimensions: Sequence[str]) -> dict[Key, dict[str, Held]]:
    scale = Scale.of(row["device_units"] for row in entries)
    sums: dict[tuple[Key, str], tuple[LedgerSum, LedgerSum]] = {}
    for row in entries:
        key = tuple(row[f"by_{name}"] for name in dimensions), row["by_model"]
        if key not in sums:
            sums[key] = LedgerSum(scale), LedgerSum(scale)
        whole, idle = sums[key]
        whole.add(row, *KINDS)
        idle.add(row, "idle")
    found: dict[Key, dict[str, Held]] = defaultdict(dict)
    for (holder, model), (whole, idle) in sums.items():
        unpriced = Fraction(whole.unpriced, scale.hour)
        found[holder][model] = Held(whole.exact_hours() - unpriced, whole.billed(), idle.billed(), unpriced)
    return found
