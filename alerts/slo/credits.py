"""Credits to which a tenant is entitled after a missed month, in the form that `gpuledger credits import` takes.

Nothing is credited here: billing imports the table after somebody has reviewed it. The same month gives the same ids,
so importing it again changes nothing; if figures have changed since, the import refuses and shows them.
"""

from __future__ import annotations

import hashlib
import json
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import ROUND_HALF_EVEN, Decimal

from alerts.slo.applied import current_objectives
from alerts.slo.objectives import Credit, Objective
from billing.ledger_report import billing_timezone, ledger_report
from billing.money import minor_digits
from billing.periods import Period, parse_month
from warehouse.store import Store, read_sql

COLUMNS = ("tenant", "month", "amount", "reason", "id", "currency", "kind", "project", "author", "evidence")
"""As billing/accounts/credit_files.py reads them."""
BY_QUEUE = ("queue_wait", "completion_time", "job_success", "metering_coverage")
"""Kinds whose subject is a queue."""


@dataclass(frozen=True)
class Offer:
    """A credit that could be given. amount: in the tenant's favour, whole minor units."""

    tenant: str
    month: str
    amount: Decimal
    currency: str
    reason: str
    id: str
    evidence: Mapping[str, str]
    kind: str = "slo"

    def row(self, author: str = "") -> dict[str, str]:
        """A row of the table that `gpuledger credits import` reads."""
        return {
            "tenant": self.tenant,
            "month": self.month,
            "amount": format(self.amount, "f"),
            "reason": self.reason,
            "id": self.id,
            "currency": self.currency,
            "kind": self.kind,
            "project": "",
            "author": author,
            "evidence": json.dumps(self.evidence, sort_keys=True, ensure_ascii=False),
        }


@dataclass(frozen=True)
class NotJudged:
    """A series about which too little is known, or that cannot be turned into an amount, and why."""

    objective: str
    tenant: str
    subject: str
    why: str


@dataclass(frozen=True)
class Offers:
    offers: tuple[Offer, ...]
    not_judged: tuple[NotJudged, ...]


@dataclass(frozen=True)
class MonthOfSeries:
    """What a month was for a series. seconds: the month's; measured_seconds: of these, the objective was measured."""

    tenant: str
    subject: str
    good: float
    bad: float
    missing: float
    dark_seconds: float
    measured_seconds: float
    seconds: float

    @property
    def sli(self) -> float | None:
        return self.good / (self.good + self.bad) if self.good + self.bad > 0 else None

    @property
    def coverage(self) -> float:
        """Known part of what is there, times the part of the month in which that is known."""
        there = self.good + self.bad + self.missing
        lit = max(0.0, min(self.measured_seconds, self.seconds) - self.dark_seconds) / self.seconds
        return (self.good + self.bad) / there * lit if there > 0 else 0.0


def percent_due(credit: Credit, sli: float) -> Decimal | None:
    """The percentage of the highest step that applies; None: none does."""
    due = [step.percent for step in credit.steps if sli < float(step.below)]
    return max(due, default=None)


def judge(objective: Objective, month: MonthOfSeries) -> Decimal | str | None:
    """The percentage of the charges to offer; a text: why it cannot be judged; None: nothing is due."""
    if objective.credit is None:
        return None
    least = float(objective.credit.least_coverage)
    if month.coverage < least:
        return f"{month.coverage:.1%} of the month is known, less than {least:.0%}"
    if month.sli is None or month.good + month.bad < objective.at_least:
        return f"less than {objective.at_least:g} {objective.unit} in the month"
    return percent_due(objective.credit, month.sli)


def slo_credits(store: Store, month: str) -> Offers:
    """What the objectives in force offer for a month (like 2026-10), as measured so far.

    The base is what the tenant was charged in the ledger: of a queue's series in that queue, else of all it held.
    Errors: PeriodError if `month` is no month.
    """
    applied = current_objectives(store)
    objectives = [one for one in applied.file.objectives if one.credit] if applied else []
    period = parse_month(month, billing_timezone(store))
    if not objectives:
        return Offers((), ())
    params = {"start": period.start, "end": period.end, "definitions": [one.definition for one in objectives]}
    series: dict[str, list[MonthOfSeries]] = defaultdict(list)
    seconds = (period.end - period.start).total_seconds()
    for row in store.rows(read_sql(__file__, "month_points"), params):
        series[row.pop("definition")].append(MonthOfSeries(**row, seconds=seconds))
    bases = _Bases(store, period)
    offers: list[Offer] = []
    not_judged: list[NotJudged] = []
    for objective in objectives:
        for one in series[objective.definition]:
            percent = judge(objective, one)
            if percent is None:
                continue
            found = percent if isinstance(percent, str) else _offer(objective, one, month, percent, bases)
            if isinstance(found, str):
                not_judged.append(NotJudged(objective.name, one.tenant, one.subject, found))
            else:
                offers.append(found)
    return Offers(tuple(offers), tuple(not_judged))


def _offer(objective: Objective, one: MonthOfSeries, month: str, percent: Decimal, bases: _Bases) -> Offer | str:
    """The credit, or why there is none."""
    queue = one.subject if objective.kind in BY_QUEUE else None
    base = bases.of(one.tenant, queue)
    if not base or bases.currency is None:
        return "missed, but the ledger has no charges of the tenant to take a part of"
    unit = Decimal(1).scaleb(-minor_digits(bases.currency))
    evidence = {
        "objective": objective.name,
        "definition": objective.definition,
        "subject": one.subject,
        "target": format(objective.target, "f"),
        "kept": f"{one.sli:.6f}",
        "good": f"{one.good:.3f}",
        "bad": f"{one.bad:.3f}",
        "missing": f"{one.missing:.3f}",
        "unit": objective.unit,
        "coverage": f"{one.coverage:.4f}",
        "percent": format(percent, "f"),
        "of": format(base, "f"),
    }
    about = f" of {one.subject}" if one.subject else ""
    return Offer(
        one.tenant,
        month,
        (base * percent / 100).quantize(unit, ROUND_HALF_EVEN),
        bases.currency,
        f"{objective.name}{about}: {one.sli:.4%} instead of {objective.target:%}",
        "slo-"
        + hashlib.sha256("\0".join((objective.definition, one.tenant, one.subject, month)).encode()).hexdigest()[:12],
        evidence,
    )


class _Bases:
    """What tenants were charged in a period, in all and by queue."""

    def __init__(self, store: Store, period: Period) -> None:
        report = ledger_report(store, period, ["tenant", "queue"])
        self.currency = report.currency
        self._by_queue: dict[tuple[str, str], Decimal] = {}
        self._of: dict[str, Decimal] = defaultdict(Decimal)
        for row in report.rows:
            if row["billed_cost"] is not None:
                self._by_queue[row["tenant"], row["queue"]] = row["billed_cost"]
                self._of[row["tenant"]] += row["billed_cost"]

    def of(self, tenant: str, queue: str | None) -> Decimal | None:
        """None: nothing was charged."""
        return self._of.get(tenant) if queue is None else self._by_queue.get((tenant, queue))
