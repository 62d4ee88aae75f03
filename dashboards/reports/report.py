"""What a tenant's report says: the figures of a period, of the one before, and what could be held cheaper."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo

from billing.accounts.budgets import BudgetState, budget_states
from billing.documents.figures import day_in_words, days_in_words, month_in_words
from billing.documents.statement import days_of
from billing.insights.efficiency import efficiency
from billing.insights.savings import Recommendation, savings
from billing.ledger_report import billing_timezone, closed_period
from billing.periods import Period, month_name, parse_period
from dashboards.access.principal import Principal
from dashboards.access.roles import Role
from dashboards.access.scope import Stores
from warehouse.errors import LedgerError
from warehouse.store import Store

RANKED = 10
"""Projects and workloads shown."""
ADVISED = 5
"""Recommendations shown."""


class ReportError(LedgerError):
    """A report that cannot be made, or settings of reports that are of no use."""


@dataclass(frozen=True)
class Report:
    """Of a tenant, in a period. Amounts are Decimal; None is unknown.

    total:      measures of billing.insights.efficiency; before: the same of the period before, None where it is not
                closed as a whole.
    projects, workloads:   the costliest, each with those measures; days: GPU-hours by kind, None where not closed.
    """

    tenant: str
    title: str
    period: Period
    timezone: str
    currency: str
    total: Mapping[str, Any]
    before: Mapping[str, Any] | None
    projects: Sequence[Mapping[str, Any]]
    workloads: Sequence[Mapping[str, Any]]
    days: Sequence[Mapping[str, Any]]
    budgets: Sequence[BudgetState]
    advice: Sequence[Recommendation]
    notes: Sequence[str]


def tenant_report(store: Store, tenant: str, period: Period, now: datetime) -> Report:
    """The report; asked over the tenant's own scope, so that nothing of another's can be in it.

    Errors: ReportError if nothing of the period is closed.
    """
    owner = Principal(f"report of {tenant}", frozenset({Role.tenant}), frozenset({tenant}))
    zone = billing_timezone(store)
    closed = closed_period(store)
    if closed is None or closed.end <= period.start or closed.start >= period.end:
        raise ReportError(title_of(period, zone), "nothing of it is closed", "Close the books first: gpuledger close")
    with Stores(store).lend(owner) as scoped:
        whole = efficiency(scoped, period, ())
        projects = sorted(efficiency(scoped, period, ("project",)).rows, key=_dearest)[:RANKED]
        workloads = sorted(efficiency(scoped, period, ("project", "workload")).rows, key=_dearest)[:RANKED]
        earlier = period_before(period, zone)
        before = efficiency(scoped, earlier, ()).total if closed.start <= earlier.start else None
        days = days_of(scoped, period, tenant)
        advice = savings(scoped, period).recommendations[:ADVISED]
        month = month_name(period, zone)
        budgets = [one for one in budget_states(scoped, month, now) if one.tenant == tenant]
    return Report(
        tenant=tenant,
        title=title_of(period, zone),
        period=period,
        timezone=zone,
        currency=whole.currency or "",
        total=whole.total,
        before=before,
        projects=projects,
        workloads=workloads,
        days=days,
        budgets=budgets,
        advice=advice,
        notes=_notes(whole.total, period, closed, zone),
    )


def title_of(period: Period, timezone: str) -> str:
    """Like `October 2026`, or `2 – 8 November 2026`."""
    month = month_name(period, timezone)
    if parse_period(month, timezone) == period:
        return month_in_words(month)
    return days_in_words({"start": period.start.isoformat(), "end": period.end.isoformat(), "timezone": timezone})


def period_before(period: Period, timezone: str) -> Period:
    """The month before a month; before anything else as many local days."""
    zone = ZoneInfo(timezone)
    first, after = (at.astimezone(zone).date() for at in (period.start, period.end))
    if parse_period(month_name(period, timezone), timezone) == period:
        return parse_period((first - timedelta(days=1)).strftime("%Y-%m"), timezone)
    return parse_period(f"{first - (after - first)}..{first}", timezone)


def _dearest(row: Mapping[str, Any]) -> tuple[bool, Decimal, Decimal]:
    """What has no price at all comes last."""
    cost = row["billed_cost"]
    return cost is None, -(cost or Decimal(0)), -row["allocated_gpu_hours"]


def _notes(total: Mapping[str, Any], period: Period, closed: Period, timezone: str) -> list[str]:
    found = []
    if closed.end < period.end or closed.start > period.start:
        zone = ZoneInfo(timezone)
        first, last = (at.astimezone(zone) for at in (max(closed.start, period.start), min(closed.end, period.end)))
        found.append(f"The books are closed from {_instant(first)} to {_instant(last)} alone; the rest is not known.")
    if total["unpriced_gpu_hours"]:
        found.append(f"{total['unpriced_gpu_hours']:,.2f} GPU-hours have no price; costs are without them.")
    if total["unmetered_gpu_hours"]:
        found.append("Unmetered time was held while no usable telemetry spoke of it: unknown, not idle.")
    return found


def _instant(at: datetime) -> str:
    return f"{day_in_words(date(at.year, at.month, at.day))} {at:%H:%M}"
