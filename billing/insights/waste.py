"""The cost of idle time by what can be done about it: covered by a recommendation, or not, and why. The parts add up
exactly.

For each tenant, the engine sums idle cost by the kind of hours it was in; a recommendation to a holder moves the
holder's idle cost to "covered". Unmetered time is listed separately, never included; unallocated time is the
platform's, without recommendations.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any

from billing.exact import MICRO, Scale, rounded
from billing.insights.holders import Holder, Rules
from billing.insights.outlook import Advised, Over
from billing.insights.proposals import Proposal
from billing.money import largest_remainder, minor_digits
from billing.periods import Period
from warehouse.store import Store, read_sql

REASONS = {
    "ended": "from workloads that ended and did not recur",
    "changed": "from workloads still running, but used differently in the last days",
    "short": "in stretches too short to reclaim",
    "in_use": "alongside usage, too little for a recommendation",
    "shared": "from shares and time-slices whose release frees no device",
    "not_judged": "from workloads with too little telemetry to assess",
    "unpriced": "from recommendations without an amount, because a price is missing",
}
"""Why idle time is not covered, in the order in which they are asked."""
COVERED = "covered"
HOURS_DIGITS = 3

Parts = dict[str, Fraction]
"""Idle costs by reason, and of what is covered."""


@dataclass(frozen=True)
class Waste:
    """What idle time cost a tenant, or all of them; None: nothing has a price.

    idle_cost: of what has a price, `covered` and all of `not_covered` together; unpriced_gpu_hours: of what has none.
    not_covered: by reason, what is 0 left out.   unmetered_*: of time without telemetry; the cost is of what
    has a price.
    """

    idle_gpu_hours: Decimal
    idle_cost: Decimal | None
    covered: Decimal | None
    not_covered: Mapping[str, Decimal]
    unpriced_gpu_hours: Decimal
    unmetered_gpu_hours: Decimal
    unmetered_cost: Decimal | None
    unpriced_unmetered_gpu_hours: Decimal

    def document(self) -> dict[str, Any]:
        parts = [{"reason": key, "what": REASONS[key], "amount": amount} for key, amount in self.not_covered.items()]
        return {**vars(self), "not_covered": parts}


@dataclass(frozen=True)
class WasteReport:
    """Of all that was asked for, and by tenant, the costliest first.

    unallocated_*: the platform's, at list price; None: not asked for, or without a price. The cost is of what has one.
    """

    total: Waste
    by_tenant: tuple[tuple[str, Waste], ...]
    unallocated_gpu_hours: Decimal | None
    unallocated_cost: Decimal | None
    unpriced_unallocated_gpu_hours: Decimal | None

    def document(self) -> dict[str, Any]:
        return {
            **self.total.document(),
            "unallocated_gpu_hours": self.unallocated_gpu_hours,
            "unallocated_cost": self.unallocated_cost,
            "unpriced_unallocated_gpu_hours": self.unpriced_unallocated_gpu_hours,
            "by_tenant": [{"tenant": tenant, **waste.document()} for tenant, waste in self.by_tenant],
        }


@dataclass
class _Sums:
    """Of a tenant: costs by reason, and GPU-hours."""

    parts: Parts
    idle: Fraction = Fraction(0)
    unpriced: Fraction = Fraction(0)
    unmetered: Fraction = Fraction(0)
    unmetered_cost: Fraction = Fraction(0)
    unpriced_unmetered: Fraction = Fraction(0)


@dataclass(frozen=True)
class IdleTime:
    """The engine's sums of tenants before any recommendation; unallocated hours, those without a price, and their
    cost."""

    tenants: Mapping[str, _Sums]
    unallocated: Fraction
    unpriced_unallocated: Fraction
    unallocated_cost: Fraction
    currencies: frozenset[str]


def read_idle_time(store: Store, period: Period, rules: Rules, tenant: str = "", workload: str = "") -> IdleTime:
    """The idle, unmetered and unallocated time of the closed hours of a period.

    tenant, workload: theirs alone; empty: all, and the platform's.
    """
    params = {
        "start": period.start,
        "end": period.end,
        "tenant": tenant,
        "workload": workload,
        "min_coverage": int(rules.min_coverage * MICRO),
        "idle_below": int(rules.idle_below * MICRO),
    }
    rows = store.rows(read_sql(__file__, "waste"), params)
    sums: dict[str, _Sums] = defaultdict(lambda: _Sums(defaultdict(Fraction)))
    unallocated = unpriced = unallocated_cost = Fraction(0)
    for row in rows:
        scale = Scale.of([row["device_units"]])
        if row["is_platform"]:
            unallocated += Fraction(row["unallocated_micro_ms"], scale.hour)
            unpriced += Fraction(row["unpriced_unallocated_micro_ms"], scale.hour)
            unallocated_cost += scale.money(row["unallocated_cost"])
            continue
        own = sums[row["tenant"]]
        own.parts["short"] += scale.money(row["quiet_cost"])
        own.parts["in_use"] += scale.money(row["in_use_cost"])
        own.parts["shared"] += scale.money(row["shared_cost"])
        own.parts["not_judged"] += scale.money(row["dim_cost"])
        own.idle += Fraction(row["idle_micro_ms"], scale.hour)
        own.unpriced += Fraction(row["unpriced_idle_micro_ms"], scale.hour)
        own.unmetered += Fraction(row["unmetered_micro_ms"], scale.hour)
        own.unmetered_cost += scale.money(row["unmetered_cost"])
        own.unpriced_unmetered += Fraction(row["unpriced_unmetered_micro_ms"], scale.hour)
    currencies = frozenset(row[name] for row in rows for name in ("currency", "other_currency") if row[name])
    return IdleTime(sums, unallocated, unpriced, unallocated_cost, currencies)


def waste_report(
    idle: IdleTime,
    advised: Sequence[Advised],
    over: Sequence[Over],
    not_judged: Iterable[Holder],
    currency: str | None,
    whole: bool,
    workload: str = "",
) -> WasteReport:
    """Where the idle time went.   whole: the platform was asked for too.   workload: of whom `idle` speaks alone."""
    for one in advised:
        for proposal in one.proposals:
            _move(idle, proposal, COVERED, workload)
    for late in over:
        _move(idle, late.proposal, late.why, workload)
    for holder in not_judged:
        if not workload or holder.workload_id == workload:
            _take(idle, holder)
            idle.tenants[holder.tenant].parts["not_judged"] += holder.idle_cost
    tenants = [(tenant, _waste(sums, currency)) for tenant, sums in idle.tenants.items()]
    tenants.sort(key=lambda one: (-(one[1].idle_cost or 0), one[0]))
    return WasteReport(
        total=_total([waste for _, waste in tenants], currency),
        by_tenant=tuple(tenants),
        unallocated_gpu_hours=rounded(idle.unallocated, HOURS_DIGITS) if whole else None,
        unallocated_cost=(
            _known(idle.unallocated_cost, idle.unallocated, idle.unpriced_unallocated, currency) if whole else None
        ),
        unpriced_unallocated_gpu_hours=rounded(idle.unpriced_unallocated, HOURS_DIGITS) if whole else None,
    )


def _move(idle: IdleTime, proposal: Proposal, why: str, workload: str) -> None:
    """Take what a proposal would have saved of its holders' idle cost to where it belongs."""
    wasted = sum((holder.idle_cost for holder in proposal.holders), Fraction(0))
    for holder in proposal.holders:
        if workload and holder.workload_id != workload:
            continue
        parts = idle.tenants[holder.tenant].parts
        if proposal.period is None:
            _take(idle, holder)
            parts["unpriced"] += holder.idle_cost
        elif proposal.kind == "reclaim":
            assert holder.period.waste is not None
            parts["short"] -= holder.period.waste
            parts[why] += holder.period.waste
        elif wasted:
            # A smaller instance is cheaper by more than what was idle, if unmetered time is counted: no more than that.
            spoken_of = holder.idle_cost * min(Fraction(1), proposal.period / wasted)
            _take(idle, holder)
            parts[why] += spoken_of
            parts["in_use"] += holder.idle_cost - spoken_of


def _take(idle: IdleTime, holder: Holder) -> None:
    """Take a holder's idle cost from the hours that it was in."""
    parts = idle.tenants[holder.tenant].parts
    parts["short"] -= holder.quiet_cost
    parts["not_judged"] -= holder.dim_cost
    parts["in_use"] -= holder.idle_cost - holder.quiet_cost - holder.dim_cost


def _waste(sums: _Sums, currency: str | None) -> Waste:
    amounts: list[Decimal] = []
    covered = total = None
    if currency is not None and (not sums.unpriced or sums.unpriced != sums.idle):
        # Rounded by itself, as what is advised is; the reasons share what is left.
        covered = _money(sums.parts[COVERED], currency)
        total = _money(sums.parts[COVERED] + sum(sums.parts[name] for name in REASONS), currency)
        assert covered is not None and total is not None
        left = [sums.parts[name] for name in REASONS]
        amounts, _ = largest_remainder(left, minor_digits(currency), total - covered)
    parts = dict(zip(REASONS, amounts, strict=False))
    return Waste(
        idle_gpu_hours=rounded(sums.idle, HOURS_DIGITS),
        idle_cost=total,
        covered=covered,
        not_covered={name: amount for name, amount in parts.items() if amount},
        unpriced_gpu_hours=rounded(sums.unpriced, HOURS_DIGITS),
        unmetered_gpu_hours=rounded(sums.unmetered, HOURS_DIGITS),
        unmetered_cost=_known(sums.unmetered_cost, sums.unmetered, sums.unpriced_unmetered, currency),
        unpriced_unmetered_gpu_hours=rounded(sums.unpriced_unmetered, HOURS_DIGITS),
    )


def _known(cost: Fraction, hours: Fraction, unpriced: Fraction, currency: str | None) -> Decimal | None:
    """The cost of hours; None where none of them has a price."""
    return None if unpriced and unpriced == hours else _money(cost, currency)


def _total(wastes: Sequence[Waste], currency: str | None) -> Waste:
    """The sum, of amounts as they are shown."""

    def added(name: str) -> Decimal:
        return sum((getattr(one, name) for one in wastes), Decimal(0))

    def amount(name: str) -> Decimal | None:
        known = [value for one in wastes if (value := getattr(one, name)) is not None]
        return None if currency is None or (wastes and not known) else sum(known, Decimal(0))

    lacking = added("unpriced_unmetered_gpu_hours")
    found = {name: sum((one.not_covered.get(name, Decimal(0)) for one in wastes), Decimal(0)) for name in REASONS}
    return Waste(
        idle_gpu_hours=added("idle_gpu_hours"),
        idle_cost=amount("idle_cost"),
        covered=amount("covered"),
        not_covered={name: part for name, part in found.items() if part},
        unpriced_gpu_hours=added("unpriced_gpu_hours"),
        unmetered_gpu_hours=added("unmetered_gpu_hours"),
        unmetered_cost=None if lacking and lacking == added("unmetered_gpu_hours") else amount("unmetered_cost"),
        unpriced_unmetered_gpu_hours=lacking,
    )


def _money(value: Fraction, currency: str | None) -> Decimal | None:
    return None if currency is None else rounded(value, minor_digits(currency))
