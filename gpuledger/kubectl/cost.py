"""GPU-hours and cost of the closed hours by namespace or tenant, from the ledger. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import Any

from gpuledger.documents import Ledger, LedgerRow

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
