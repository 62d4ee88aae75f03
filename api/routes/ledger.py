"""Ledger, efficiency, energy, savings and anomalies: what the closed hours say."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request

from api.caller import By, LedgerBy, PeriodText, See, Tenant, dimensions
from api.paging import Limit, Offset, next_page, part
from api.strict import StrictRoute
from api.values import closed_span
from billing.energy.report import energy_report
from billing.insights.anomalies import THRESHOLD, Subject, anomalies
from billing.insights.changes import changes
from billing.insights.efficiency import efficiency
from billing.insights.holders import Rules
from billing.insights.savings import savings, summary
from billing.ledger_report import ledger_report
from gpuledger import documents
from warehouse.errors import LedgerError
from warehouse.json_values import as_json

router = APIRouter(tags=["ledger"], route_class=StrictRoute)


@router.get("/ledger", response_model_exclude_unset=True)
def ledger(
    request: Request,
    caller: See,
    period: PeriodText = None,
    by: LedgerBy = "tenant",
    limit: Limit = 1000,
    offset: Offset = 0,
) -> documents.Ledger:
    """GPU-hours and cost of the closed hours, by any dimensions."""
    report = ledger_report(caller.store, caller.period(period), dimensions(by))
    total = documents.LedgerRow(**report.total)
    sees_all = caller.principal.sees_all
    return documents.Ledger(
        period=closed_span(report.closed),
        by=list(report.by),
        rows=[documents.LedgerRow(**row) for row in part(report.rows, limit, offset)],
        rows_in_all=len(report.rows),
        next=next_page(request, len(report.rows), limit, offset),
        total=total,
        platform=documents.Platform(**report.platform) if sees_all else None,
        capacity=documents.Capacity(**report.capacity) if sees_all else None,
    )


@router.get("/efficiency", response_model_exclude_unset=True)
def efficiency_(
    request: Request,
    caller: See,
    period: PeriodText = None,
    by: LedgerBy = "tenant",
    limit: Limit = 1000,
    offset: Offset = 0,
) -> documents.Efficiency:
    """How well what was held was used, and what idle and unmetered time cost."""
    report = efficiency(caller.store, caller.period(period), dimensions(by))
    return documents.Efficiency(
        period=closed_span(report.closed),
        by=list(report.by),
        rows=[documents.EfficiencyRow(**row) for row in part(report.rows, limit, offset)],
        rows_in_all=len(report.rows),
        next=next_page(request, len(report.rows), limit, offset),
        total=documents.EfficiencyRow(**report.total),
    )


@router.get("/changes", response_model_exclude_unset=True)
def changes_(
    request: Request,
    caller: See,
    period: Annotated[str, Query(max_length=100, description="A month, a day or START..END.")],
    against: Annotated[str, Query(max_length=100, description="Another; empty: the one before.")] = "",
    by: By = "tenant",
    limit: Limit = 1000,
    offset: Offset = 0,
) -> documents.Changes:
    """What changed in the cost against another period, by hours, prices and the mix of models."""
    asked = caller.period(period)
    if asked is None:
        raise LedgerError("period", "is empty", "Write it like 2026-10")
    report = changes(caller.store, asked, caller.period(against or None), dimensions(by))
    return documents.Changes(
        period=closed_span(report.period),
        before=closed_span(report.before),
        by=list(report.by),
        rows=[documents.ChangeRow(**row) for row in part(report.rows, limit, offset)],
        rows_in_all=len(report.rows),
        next=next_page(request, len(report.rows), limit, offset),
        total=documents.ChangeRow(**report.total),
    )


@router.get("/energy", response_model_exclude_unset=True)
def energy(
    request: Request, caller: See, period: PeriodText = None, by: By = "tenant", limit: Limit = 1000, offset: Offset = 0
) -> documents.Energy:
    """Energy of the devices (kWh), with PUE, and what it emitted (kgCO2e)."""
    report = energy_report(caller.store, caller.period(period), dimensions(by))
    return documents.Energy(
        period=closed_span(report.closed),
        by=list(report.by),
        rows=[documents.EnergyRow(**row) for row in part(report.rows, limit, offset)],
        rows_in_all=len(report.rows),
        next=next_page(request, len(report.rows), limit, offset),
        platform=documents.EnergyRow(**report.platform) if caller.principal.sees_all else None,
        total=documents.EnergyRow(**report.total),
        notes=list(report.notes),
    )


@router.get("/savings")
def savings_(
    caller: See,
    period: PeriodText = None,
    tenant: Tenant = None,
    workload: Annotated[str, Query(max_length=1000, description="What concerns this workload alone.")] = "",
    min_coverage: Annotated[Decimal, Query(gt=0, le=1, description="Least metered part of the time held.")] = Decimal(
        "0.9"
    ),
    idle_hours: Annotated[int, Query(ge=1, le=10_000, description="Least consecutive idle hours.")] = 6,
) -> documents.Savings:
    """What could be held cheaper, with the evidence and the amount, beside what idle time cost."""
    caller.check_tenant(tenant)
    rules = Rules(min_coverage=min_coverage, idle_hours=idle_hours)
    report = savings(caller.store, caller.period(period), rules, tenant or "", workload)
    if report.waste and not caller.principal.sees_all:
        hidden = replace(report.waste, unallocated_gpu_hours=None, unallocated_cost=None)
        report = replace(report, waste=hidden)
    return documents.Savings(
        period=closed_span(report.closed),
        currency=report.currency,
        recommendations=[
            documents.Recommendation(**{**one.document(), "evidence": as_json(dict(one.evidence))})
            for one in _of(report.recommendations, tenant)
        ],
        by_tenant=[documents.TenantSavings(**vars(one)) for one in _of(report.by_tenant, tenant)],
        not_judged=[documents.NotJudged(**one.document()) for one in _of(report.not_judged, tenant)],
        waste=documents.Waste(**report.waste.document()) if report.waste else None,
        summary=summary(report),
    )


@router.get("/anomalies")
def anomalies_(
    caller: See,
    period: PeriodText = None,
    tenant: Tenant = None,
    score: Annotated[Decimal, Query(gt=0, le=1000, description="Spreads from what is expected.")] = THRESHOLD,
) -> documents.Anomalies:
    """Days that cost a tenant, or the unallocated capacity, more or less than their own past lets expect."""
    caller.check_tenant(tenant)
    report = anomalies(caller.store, caller.period(period), score)
    seen = [one for one in _of(report.flagged, tenant) if caller.principal.sees_all or one.subject == "tenant"]
    return documents.Anomalies(
        period=closed_span(report.closed),
        timezone=report.timezone,
        currency=report.currency,
        threshold=report.threshold,
        judged=report.judged if tenant is None else report.judged_of.get(Subject("tenant", tenant), 0),
        not_judged=len(_of(report.not_judged, tenant)),
        anomalies=[documents.Anomaly(**one.document()) for one in seen],
    )


def _of(found: Sequence[Any], tenant: str | None) -> list[Any]:
    return [one for one in found if tenant is None or one.tenant == tenant]
