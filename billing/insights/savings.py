"""Recommendations for saving cost, with evidence and amounts, compared with the cost of idle time.

    ledger, samples ─▶ holders ─▶ judged? ─▶ proposals ─▶ held still, or recurring? ─▶ recommendations ─▶ covered
                                     └─ no ─▶ not judged        └─ no ─▶ over ─────────────────────────▶ not covered

Unknown data never supports a recommendation. Each allocation's share of a device gets only its best recommendation, so
the amounts add up to what could be saved.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fnmatch import fnmatchcase
from fractions import Fraction
from itertools import chain, groupby
from typing import Any

from billing.closed import Closed, closed_part, period_document
from billing.exact import quotient, rounded
from billing.insights.holders import HOUR_MS, MICRO, Holder, Rules, read_holders
from billing.insights.outlook import Advised, outlook
from billing.insights.proposals import (
    ProfilePrice,
    Proposal,
    fewer_gpus,
    fewer_replicas,
    known_sum,
    reclaim,
    smaller_profile,
    smallest_fit,
    time_slicing,
)
from billing.insights.sentences import Sentence
from billing.insights.waste import REASONS, WasteReport, read_idle_time, waste_report
from billing.money import largest_remainder, minor_digits
from billing.periods import Period
from billing.rates import RateCard, current_rate_card
from billing.rates.prices import Subject, price_intervals
from warehouse.errors import LedgerError
from warehouse.sql import text_literal
from warehouse.store import Store, read_sql

NO_RULES = Rules()
ReadHolders = Callable[[Store, Period, Rules, str], Sequence[Holder]]
READS = "ledger allocations devices closed_hours rate_cards"
"""The tables that savings are read from, for whoever caches them. Samples are read, too: those of closed hours, which
close again if another comes."""
ROW_COLUMNS = (
    "id", "kind", "tenant", "project", "workload", "devices", "what", "hours", "p50", "p95", "p99", "max_memory_bytes",
    "coverage", "monthly_amount", "past_amount", "currency", "confidence", "still_held", "runs", "basis", "priced_by",
)  # fmt: skip
"""Of a recommendation as a flat row (CSV)."""


@dataclass(frozen=True)
class Recommendation:
    """Something to do, what it saves and what it rests on.

    id: the same whenever the same is recommended for the same workload and devices.
    workloads, devices: whom it concerns; devices are {cluster, node, device_id, partition_id}.
    evidence: {window, hours, p50, p95, p99, max_memory_bytes, memory_total_bytes, coverage, samples, sources, idle,
        devices}; of several devices the sums of hours and the highest of the rest (coverage: the lowest); `devices`
        has the same of each. Hours are hours of the clock x devices. None: not known.
    monthly_amount, past_amount: what a month would cost less, what the period would have; None: a price is missing.
    basis: whose saving monthly_amount is reckoned from: the last week's, or the last four weeks'.
    still_held: by all of them, to the period's end; else `runs` of one name recurred.
    reproduce: a statement that computes the evidence again, as text.
    """

    id: str
    kind: str
    tenant: str
    project: str
    workloads: tuple[str, ...]
    devices: tuple[Mapping[str, str], ...]
    sentence: Sentence
    evidence: Mapping[str, Any]
    monthly_amount: Decimal | None
    past_amount: Decimal | None
    currency: str | None
    priced_by: str
    confidence: str
    still_held: bool
    runs: int
    basis: str
    reproduce: str

    @property
    def what(self) -> str:
        return str(self.sentence)

    def document(self) -> dict[str, Any]:
        return {
            "id": self.id,
            "kind": self.kind,
            "tenant": self.tenant,
            "project": self.project,
            "workload": self.workloads[0] if len(self.workloads) == 1 else None,
            "workloads": list(self.workloads),
            "devices": list(self.devices),
            "what": self.what,
            "monthly_amount": self.monthly_amount,
            "past_amount": self.past_amount,
            "currency": self.currency,
            "priced_by": self.priced_by,
            "confidence": self.confidence,
            "still_held": self.still_held,
            "runs": self.runs,
            "basis": self.basis,
            "evidence": self.evidence,
            "reproduce": self.reproduce,
        }

    def row(self) -> dict[str, Any]:
        """Flat, for CSV."""
        own = {name: getattr(self, name) for name in ROW_COLUMNS if hasattr(self, name)}
        shown = {name: self.evidence[name] for name in ROW_COLUMNS if name in self.evidence}
        texts = {
            "workload": " ".join(self.workloads),
            "devices": " ".join(device["partition_id"] or device["device_id"] for device in self.devices),
        }
        return {**own, **shown, **texts}


@dataclass(frozen=True)
class NotJudged:
    """An allocation about which too little is known; hours x devices, cost as held (None: a price is missing)."""

    tenant: str
    project: str
    workload: str
    allocation_id: str
    devices: int
    hours: Decimal
    coverage: Decimal
    cost: Decimal | None
    sentence: Sentence

    @property
    def reason(self) -> str:
        return str(self.sentence)

    def document(self) -> dict[str, Any]:
        return {**{name: value for name, value in vars(self).items() if name != "sentence"}, "reason": self.reason}


@dataclass(frozen=True)
class TenantSavings:
    """Sums of a tenant's recommendations; those without an amount are in `unpriced`."""

    tenant: str
    recommendations: int
    unpriced: int
    monthly_amount: Decimal
    past_amount: Decimal


@dataclass(frozen=True)
class SavingsReport:
    """The answer: the greatest monthly amount first, unknown amounts last. `closed` is None if nothing is closed."""

    closed: Closed | None
    currency: str | None
    rules: Rules
    recommendations: tuple[Recommendation, ...]
    by_tenant: tuple[TenantSavings, ...]
    not_judged: tuple[NotJudged, ...]
    waste: WasteReport | None

    @property
    def monthly_amount(self) -> Decimal | None:
        """Of all recommendations that have one; None: nothing has a price."""
        if self.currency is None:
            return None
        known = sum((one.monthly_amount for one in self.by_tenant), Decimal(0))
        return rounded(Fraction(known), minor_digits(self.currency))

    def document(self) -> dict[str, Any]:
        """The answer in the shape that the command line prints as JSON."""
        return {
            "period": period_document(self.closed),
            "currency": self.currency,
            "rules": vars(self.rules),
            "recommendations": [one.document() for one in self.recommendations],
            "by_tenant": [vars(one) for one in self.by_tenant],
            "not_judged": [one.document() for one in self.not_judged],
            "waste": self.waste.document() if self.waste else None,
            "summary": summary(self),
        }


def savings(
    store: Store,
    period: Period | None = None,
    rules: Rules = NO_RULES,
    tenant: str = "",
    workload: str = "",
    read: ReadHolders | None = None,
) -> SavingsReport:
    """What could be held cheaper, judged by the closed hours of a period (None: all that is closed).

    read: how holders are read, for whoever shares them among questions; None: from the store.
    tenant: of what it paid for; workload: of what concerns it; empty: all. They ask the engine for less, and answer the
    same as they are answered among all, but for a cent that rounding moves between the reasons of a workload's waste.
    Errors: LedgerError if prices of two currencies would be added.
    """
    closed = closed_part(store, period)
    if closed is None or not closed.closed_hours:
        return SavingsReport(closed, None, rules, (), (), (), None)
    asked, books = closed.period, closed.books
    period = Period(max(asked.start, books.start), min(asked.end, books.end))
    idle = read_idle_time(store, period, rules, tenant, workload)
    # Somebody else of its tenant may be the better half of what a workload could do, or the same again.
    owners = sorted(idle.tenants) if workload else [tenant]
    holders = [holder for owner in owners for holder in (read or read_holders)(store, period, rules, owner)]
    currencies = sorted(idle.currencies)
    if len(currencies) > 1:
        what = f"holds prices in {' and '.join(currencies)}, which do not add up"
        raise LedgerError("ledger", what, "Choose a --period with one of them")
    currency = currencies[0] if currencies else None
    card = current_rate_card(store)
    price_of = _profile_prices(card.card if card else None, period)
    judged, not_judged = [], []
    for allocation in _allocations(holders):
        unknown = _unknown(allocation, rules)
        if unknown:
            not_judged.append((allocation, unknown))
        else:
            judged.append(allocation)
    advised, over = outlook(_proposals(judged, rules, price_of), period)
    proposals = chain((proposal for one in advised for proposal in one.proposals), (late.proposal for late in over))
    reported = {_allocation(holder) for proposal in proposals for holder in proposal.holders}
    for allocation in judged:
        unknown = _half_known(allocation, rules) if _allocation(allocation[0]) not in reported else None
        if unknown:
            not_judged.append((allocation, unknown))
    recommendations = tuple(
        _recommendation(one, rules, period, currency, past)
        for one, past in zip(advised, _past_amounts(advised, currency), strict=True)
        if not workload or workload in {holder.workload_id for holder in one.holders}
    )
    listed = [
        _not_judged(allocation, unknown, currency)
        for allocation, unknown in not_judged
        if not workload or allocation[0].workload_id == workload
    ]
    listed.sort(key=lambda one: (-(one.cost or 0), -one.hours, one.allocation_id))
    unknown_of = [holder for allocation, _ in not_judged for holder in allocation]
    whole = not tenant and not workload
    waste = waste_report(idle, advised, over, unknown_of, currency, whole, workload)
    return SavingsReport(closed, currency, rules, recommendations, _by_tenant(recommendations), tuple(listed), waste)


def summary(report: SavingsReport) -> str:
    """The total beside the waste, in a few words; empty where nothing is closed."""
    if report.waste is None:
        return ""
    waste, currency = report.waste.total, report.currency
    if currency is None or waste.idle_cost is None:
        return f"Idle time of the period: {waste.idle_gpu_hours:,.2f} GPU-hours, without a price."
    words = [
        f"Advised: {report.monthly_amount:,} {currency} a month.",
        f"Idle time cost {waste.idle_cost:,} in the period: {waste.covered:,} of it is covered by that",
    ]
    parts = "; ".join(f"{amount:,} {REASONS[reason]}" for reason, amount in waste.not_covered.items())
    words[-1] += f"; not covered: {parts}." if parts else "."
    if waste.unpriced_gpu_hours:
        words.append(f"{waste.unpriced_gpu_hours:,.2f} idle GPU-hours have no price and are in no amount.")
    if waste.unmetered_gpu_hours:
        cost = _cost_of(waste.unmetered_gpu_hours, waste.unpriced_unmetered_gpu_hours, waste.unmetered_cost)
        words.append(f"Unmetered time cost {cost}: whether it was used is not known.")
    whole = report.waste
    if whole.unallocated_gpu_hours:
        cost = _cost_of(
            whole.unallocated_gpu_hours, whole.unpriced_unallocated_gpu_hours, whole.unallocated_cost, " at list price"
        )
        words.append(f"Unallocated time cost {cost}: it is the platform's, and nothing is advised of it here.")
    return " ".join(words)


def _cost_of(hours: Decimal, unpriced: Decimal | None, cost: Decimal | None, price: str = "") -> str:
    """Like `12.00 at list price (40.00 GPU-hours, 5.00 of which have no price)`."""
    lacking = f", {unpriced:,.2f} of which have no price" if unpriced else ""
    return f"{'an unknown amount' if cost is None else f'{cost:,}{price}'} ({hours:,.2f} GPU-hours{lacking})"


def _allocations(holders: Sequence[Holder]) -> list[tuple[Holder, ...]]:
    return [tuple(group) for _, group in groupby(holders, key=_allocation)]


def _allocation(holder: Holder) -> tuple[str, str, str]:
    """Of a tenant that paid for it: who pays may change."""
    return holder.cluster, holder.allocation_id, holder.tenant


def _proposals(allocations: Sequence[Sequence[Holder]], rules: Rules, price_of: ProfilePrice) -> Iterator[Proposal]:
    singles: list[Holder] = []
    for allocation in allocations:
        yield from reclaim(allocation, rules)
        if all(_well_sampled(holder, rules) for holder in allocation):
            current = [holder for holder in allocation if holder.still_held] or allocation
            found = (smaller_profile(current, rules, price_of), fewer_gpus(current, rules))
            yield from (proposal for proposal in found if proposal is not None)
            singles += allocation if len(allocation) == 1 else ()
    for still_held in (True, False):
        group = [holder for holder in singles if holder.still_held == still_held]
        yield from fewer_replicas(group, rules)
        yield from time_slicing(group, rules)


def _unknown(allocation: Sequence[Holder], rules: Rules) -> Sentence | None:
    """Why nothing can be recommended for the allocation; None if it can."""
    coverage = _coverage(allocation)
    if coverage < rules.min_coverage:
        return Sentence("unmetered", {"coverage": f"{coverage * 100:.1f}%", "least": _percent(rules.min_coverage)})
    return None


def _half_known(allocation: Sequence[Holder], rules: Rules) -> Sentence | None:
    """Why quantiles or memory say nothing of it, although it is metered; None if they do, or nothing is missing."""
    if max(holder.clock_hours for holder in allocation) < rules.least_hours:
        return None
    if any(holder.sampled() < rules.min_coverage for holder in allocation):
        return Sentence("unsampled", {"least": _percent(rules.min_coverage)})
    (first, *more) = allocation
    if not more and first.use and first.use.max_memory_bytes is None and smallest_fit(first, first.use, rules):
        return Sentence("memory_unknown")
    return None


def _well_sampled(holder: Holder, rules: Rules) -> bool:
    return holder.clock_hours >= rules.least_hours and holder.sampled() >= rules.min_coverage


def _coverage(holders: Sequence[Holder]) -> Decimal:
    held = sum((holder.clock_hours for holder in holders), Fraction(0))
    metered = sum(((holder.used + holder.idle) / holder.share for holder in holders), Fraction(0))
    return rounded(metered / held, 6) if held else Decimal(0)


def _profile_prices(card: RateCard | None, period: Period) -> ProfilePrice:
    """Finds a price that the card in force has for a MIG profile by name, at the period's end."""

    def price_of(holder: Holder, profile: str) -> tuple[Decimal, str] | None:
        if card is None:
            return None
        own = {
            rule.sku
            for rule in card.rates
            if rule.match.partition_profile and fnmatchcase(profile, rule.match.partition_profile)
        }
        subject = Subject(holder.model, holder.pool, profile, holder.tenant, cluster=holder.cluster)
        for interval in price_intervals(card, [subject], period.start, period.end):
            starts = interval.effective_from is None or interval.effective_from < period.end
            ends = interval.effective_to is not None and interval.effective_to < period.end
            if starts and not ends and interval.sku in own:
                return interval.contracted_unit_price, interval.sku
        return None

    return price_of


def _identity(advised: Advised) -> str:
    """The same for the same advice to the same workloads and devices; of what recurs, to the same name."""
    if advised.recurs:
        parts = ["\n".join(name) for name in advised.name]
    else:
        parts = sorted(f"{h.cluster}\n{h.workload_id}\n{h.device_id}\n{h.partition_id}" for h in advised.holders)
    return hashlib.blake2b("\n\n".join([advised.kind, *parts]).encode(), digest_size=6).hexdigest()


def _past_amounts(advised: Sequence[Advised], currency: str | None) -> list[Decimal | None]:
    """What each would have saved in the period, such that a tenant's add up to their exact sum, rounded once."""
    found: list[Decimal | None] = [None] * len(advised)
    if currency is None:
        return found
    of_tenant: dict[str, dict[int, Fraction]] = defaultdict(dict)
    for number, one in enumerate(advised):
        if one.past is not None:
            of_tenant[one.holders[0].tenant][number] = one.past
    for exact in of_tenant.values():
        amounts, _ = largest_remainder(list(exact.values()), minor_digits(currency))
        for number, amount in zip(exact, amounts, strict=True):
            found[number] = amount
    return found


def _recommendation(
    advised: Advised, rules: Rules, period: Period, currency: str | None, past: Decimal | None
) -> Recommendation:
    holders, first = advised.holders, advised.proposals[0]
    words = ("cluster", "node", "device_id", "partition_id")
    runs = len(advised.proposals)
    monthly = _amount(advised.monthly, currency)
    return Recommendation(
        id=_identity(advised),
        kind=advised.kind,
        tenant=holders[0].tenant,
        project=holders[0].project,
        workloads=tuple(dict.fromkeys(holder.workload_id for holder in holders)),
        devices=tuple({name: getattr(holder, name) for name in words} for holder in holders),
        sentence=Sentence("runs", {"runs": str(runs)}, first.sentence) if advised.recurs else first.sentence,
        evidence={**_evidence(holders), "devices": [_evidence([holder]) for holder in holders]},
        monthly_amount=monthly,
        past_amount=past,
        currency=None if monthly is None and past is None else currency,
        priced_by=first.priced_by,
        confidence="medium" if advised.recurs and first.confidence == "high" else first.confidence,
        still_held=all(holder.still_held for holder in holders),
        runs=runs,
        basis=advised.basis,
        reproduce=_statement(holders, rules, period),
    )


def _evidence(holders: Sequence[Holder]) -> dict[str, Any]:
    uses = [holder.use for holder in holders]

    def highest(name: str) -> Any:
        values: list[Any] = [None if use is None else getattr(use, name) for use in uses]
        return None if None in values else max(values)

    idle = [holder.stretches for holder in holders if holder.stretches]
    return {
        "device_id": holders[0].device_id if len(holders) == 1 else None,
        "window": {"start": min(h.start_at for h in holders), "end": max(h.end_at for h in holders)},
        "hours": rounded(sum((holder.clock_hours for holder in holders), Fraction(0)), 3),
        **{name: highest(name) for name in ("p50", "p95", "p99", "max_memory_bytes", "memory_total_bytes")},
        "coverage": min(_coverage([holder]) for holder in holders),
        "samples": sum(use.samples for use in uses if use),
        "sources": sorted({source for use in uses if use for source in use.sources}),
        "idle": {
            "hours": sum(one.clock_hours for one in idle),
            "longest_hours": max(one.longest_hours for one in idle),
            "stretches": sum(one.stretches for one in idle),
            "since": min(one.since for one in idle),
            "until": max(one.until for one in idle),
        }
        if idle
        else None,
    }


def _statement(holders: Sequence[Holder], rules: Rules, period: Period) -> str:
    """The statement in reproduce.sql with its values in it, to be pasted; we never run it in this form."""
    values = {
        "{cluster:String}": text_literal(holders[0].cluster),
        "{allocations:Array(String)}": f"[{', '.join(sorted({text_literal(h.allocation_id) for h in holders}))}]",
        "{start:DateTime64(3, 'UTC')}": f"toDateTime64('{period.start:%Y-%m-%d %H:%M:%S}', 3, 'UTC')",
        "{end:DateTime64(3, 'UTC')}": f"toDateTime64('{period.end:%Y-%m-%d %H:%M:%S}', 3, 'UTC')",
        "{idle_below:UInt32}": str(int(rules.idle_below * MICRO)),
        "{min_coverage:UInt32}": str(int(rules.min_coverage * MICRO)),
        "{hour_ms:UInt32}": str(HOUR_MS),
    }
    lines = [line for line in read_sql(__file__, "reproduce").splitlines() if not line.startswith("--")]
    text = "\n".join(lines)
    for name, value in values.items():
        text = text.replace(name, value)
    return text


def _percent(part: Decimal) -> str:
    return f"{(part * 100).normalize():f}%"


def _amount(value: Fraction | None, currency: str | None) -> Decimal | None:
    return None if value is None or currency is None else rounded(value, minor_digits(currency))


def _not_judged(allocation: Sequence[Holder], sentence: Sentence, currency: str | None) -> NotJudged:
    hours = sum((holder.clock_hours for holder in allocation), Fraction(0))
    return NotJudged(
        tenant=allocation[0].tenant,
        project=allocation[0].project,
        workload=allocation[0].workload_id,
        allocation_id=allocation[0].allocation_id,
        devices=len(allocation),
        hours=quotient(hours.numerator, hours.denominator, 3),
        coverage=_coverage(allocation),
        cost=_amount(known_sum(holder.period.cost for holder in allocation), currency),
        sentence=sentence,
    )


def _by_tenant(recommendations: Sequence[Recommendation]) -> tuple[TenantSavings, ...]:
    found: dict[str, list[Recommendation]] = defaultdict(list)
    for one in recommendations:
        found[one.tenant].append(one)
    sums = [
        TenantSavings(
            tenant=tenant,
            recommendations=len(own),
            unpriced=sum(one.monthly_amount is None for one in own),
            monthly_amount=sum((one.monthly_amount or Decimal(0) for one in own), Decimal(0)),
            past_amount=sum((one.past_amount or Decimal(0) for one in own), Decimal(0)),
        )
        for tenant, own in found.items()
    ]
    return tuple(sorted(sums, key=lambda one: (-one.monthly_amount, one.tenant)))
