"""The content of a tenant's report: the figures of a period, of the one before, and recommendations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo

from access.principal import Principal
from access.roles import Role
from access.scope import Stores
from billing.accounts.budgets import BudgetState, budget_states
from billing.closed import closed_period
from billing.documents.statement import days_of
from billing.insights.efficiency import efficiency
from billing.insights.savings import SavingsReport, savings
from billing.invoicing.idle_reclaims import idle_reclaims
from billing.invoicing.month import books_of
from billing.ledger_report import billing_timezone
from billing.periods import Period, month_name, parse_period, period_before
from dashboards.languages import Language, language
from dashboards.periods import span_key
from warehouse.errors import LedgerError
from warehouse.store import Store

RANKED = 10
"""Projects and workloads shown."""
ADVISED = 5
"""Recommendations shown."""


class ReportError(LedgerError):
    """A report that cannot be made, or invalid settings of reports."""


@dataclass(frozen=True)
class Report:
    """Of a tenant, in a period. Amounts are Decimal; None is unknown.

    known:      what of the period is closed.
    total:      measures of billing.insights.efficiency; before: the same of the period before, None where it is not
                closed as a whole.
    given_back: what idle policies took back, as documents have it (billing.invoicing.idle_reclaims); None: nothing.
    projects, workloads:   the costliest, each with those measures; days: GPU-hours by kind, None where not closed.
    """

    tenant: str
    period: Period
    known: Period
    timezone: str
    currency: str
    total: Mapping[str, Any]
    before: Mapping[str, Any] | None
    projects: Sequence[Mapping[str, Any]]
    workloads: Sequence[Mapping[str, Any]]
    days: Sequence[Mapping[str, Any]]
    budgets: Sequence[BudgetState]
    advice: SavingsReport
    given_back: Mapping[str, Any] | None = None

    def title(self, words: Language) -> str:
        """Like `October 2026`, or `2 – 8 November 2026`."""
        return title_of(self.period, self.timezone, words)

    @property
    def period_key(self) -> str:
        """As in a page's URL."""
        month = month_name(self.period, self.timezone)
        if parse_period(month, self.timezone) == self.period:
            return month
        zone = ZoneInfo(self.timezone)
        return span_key(*(at.astimezone(zone).replace(tzinfo=None) for at in (self.period.start, self.period.end)))


def tenant_report(store: Store, tenant: str, period: Period, now: datetime) -> Report:
    """The report; asked over the tenant's own scope, so that nothing of another's can be in it.

    Errors: ReportError if nothing of the period is closed, or there is no such tenant: the books have no allocation
    of it, and it has no budget.
    """
    owner = Principal(f"report of {tenant}", frozenset({Role.tenant}), frozenset({tenant}))
    zone = billing_timezone(store)
    closed = closed_period(store)
    if closed is None or closed.end <= period.start or closed.start >= period.end:
        raise ReportError(
            title_of(period, zone, language("en")), "nothing of it is closed", "Close the books first: gpuledger close"
        )
    with Stores(store).scoped_to(owner) as scoped:
        whole = efficiency(scoped, period, ())
        projects = sorted(efficiency(scoped, period, ("project",)).rows, key=_most_expensive_first)[:RANKED]
        workloads = sorted(efficiency(scoped, period, ("project", "workload")).rows, key=_most_expensive_first)[:RANKED]
        earlier = period_before(period, zone)
        before = efficiency(scoped, earlier, ()).total if closed.start <= earlier.start else None
        days = days_of(scoped, period, tenant)
        advice = savings(scoped, period)
        month = month_name(period, zone)
        budgets = [one for one in budget_states(scoped, month, now) if one.tenant == tenant]
        if not budgets and not scoped.rows("SELECT 1 FROM ledger WHERE tenant != '' LIMIT 1"):
            raise ReportError(f"tenant {tenant!r}", "has no allocations and no budget", "See: gpuledger ledger")
    books = books_of(store)
    return Report(
        tenant=tenant,
        period=period,
        known=Period(max(closed.start, period.start), min(closed.end, period.end)),
        timezone=zone,
        currency=whole.currency or "",
        total=whole.total,
        before=before,
        projects=projects,
        workloads=workloads,
        days=days,
        budgets=budgets,
        advice=advice,
        given_back=idle_reclaims(store, period, books.closed_until, books.last_run).get(tenant),
    )


def title_of(period: Period, timezone: str, words: Language) -> str:
    """Like `October 2026`, or `2 – 8 November 2026`."""
    zone = ZoneInfo(timezone)
    first, after = (at.astimezone(zone).date() for at in (period.start, period.end))
    if parse_period(month_name(period, timezone), timezone) == period:
        return words.month(first)
    last = after - timedelta(days=1)
    if (first.year, first.month) == (last.year, last.month):
        return words("time.days", first=words.day(first), first_day=first.day, last=words.day(last), last_day=last.day)
    return f"{words.day(first)} – {words.day(last)}"


def _most_expensive_first(row: Mapping[str, Any]) -> tuple[bool, Decimal, Decimal]:
    """What has no price at all comes last."""
    cost = row["billed_cost"]
    return cost is None, -(cost or Decimal(0)), -row["allocated_gpu_hours"]
