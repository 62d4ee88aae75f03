"""GPU-hours and cost of the closed hours by namespace or tenant, from the ledger. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import Any

from billing.periods import is_all_since
from gpuledger.documents import ClosedSpan, Ledger, LedgerRow
from warehouse.instants import rfc3339

HOURS = ("allocated_gpu_hours", "used_gpu_hours", "idle_gpu_hours", "unmetered_gpu_hours")
COSTS = ("list_cost", "billed_cost")


def dimensions(by: str, namespace: str, cluster: str) -> list[str]:
    """What the ledger is asked by, so that rows can be told apart by all that is asked."""
    wanted = ["project" if by == "namespace" else by]
    return [*wanted, *(["project"] if namespace and "project" not in wanted else []), *(["cluster"] if cluster else [])]


def rows_of(ledger: Ledger, by: str, namespace: str, cluster: str) -> list[dict[str, Any]]:
    """A row for each namespace or tenant; the last is their sum."""
    found = [
        one
        for one in ledger.rows
        if (not namespace or one.project == namespace) and (not cluster or one.cluster == cluster)
    ]
    rows = [
        {by: getattr(one, dimensions(by, "", "")[0]) or "", **_figures(one), "currency": one.currency} for one in found
    ]
    return [*rows, {by: "total", **_sum(found), "currency": ledger.total.currency}]


def _figures(row: LedgerRow) -> dict[str, Decimal | None]:
    return {name: getattr(row, name) for name in HOURS + COSTS}


def _sum(rows: Sequence[LedgerRow]) -> dict[str, Decimal | None]:
    """What has no price, or no figure, has none in the sum either."""
    return {
        name: None if None in (known := [getattr(one, name) for one in rows]) else sum(known, Decimal(0))
        for name in HOURS + COSTS
    }


def not_closed(period: ClosedSpan) -> str:
    """What a reader must know of the figures of a period, of which some hours are closed; empty where all are."""
    closed, begin = period.closed_hours or 0, period.closed_from
    if closed == period.hours:
        return ""
    if begin and period.start and period.end and is_all_since(begin, period.start, period.end, closed):
        return f"the books begin at {rfc3339(begin)}; all {closed} hours since are closed"
    return f"{closed} of its {period.hours} hours are closed"
