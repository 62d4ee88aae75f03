"""Explains a correction: the allocations that a later close computed differently from the close that was billed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from billing.exact import Scale
from billing.invoicing.documents import Invoice, text
from billing.invoicing.issued import issued
from billing.lines import is_correction
from billing.periods import parse_month
from warehouse.instants import rfc3339
from warehouse.store import Store, read_sql

NAMED = 3
"""How many allocations a document names, of each month that it corrects."""


def with_changes(store: Store, drafts: Sequence[Invoice]) -> list[Invoice]:
    """The drafts, each with `changes`: by month that it corrects, which of its entries are others, and since when."""
    if not any(is_correction(line) for draft in drafts for line in draft.lines):
        return list(drafts)
    documents = issued(store)
    return [
        replace(draft, document={**draft.document, "changes": _changes(store, draft, documents)}) for draft in drafts
    ]


def changed_entries(
    store: Store, invoice: Invoice, month: str, documents: Sequence[Invoice], by_hour: bool = False
) -> list[dict[str, Any]]:
    """The rows of changes.sql: between what was billed to its tenant for the month before it, and what it says.

    documents: all that were issued.
    """
    period = parse_month(month, invoice.document["period"]["timezone"])
    params = {
        "before": _billed_by(documents, invoice, month),
        "after": int(invoice.document["as_of_run"]),
        "start": period.start,
        "end": period.end,
        "tenant": invoice.tenant,
        "by_hour": int(by_hour),
    }
    return store.rows(read_sql(__file__, "changes"), params)


def _changes(store: Store, draft: Invoice, documents: Sequence[Invoice]) -> list[dict[str, Any]]:
    months = sorted({line["reference"]["month"] for line in draft.lines if is_correction(line)})
    found = ((month, changed_entries(store, draft, month, documents)) for month in months)
    return [_change(store, month, rows) for month, rows in found if rows]


def _change(store: Store, month: str, rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    scale = Scale.of(row["device_units"] for row in rows)
    allocations: dict[str, int] = {}
    for row in rows:
        more = scale.quantity(row["now_micro_ms"] - row["was_micro_ms"], row["device_units"])
        allocations[row["allocation_id"]] = allocations.get(row["allocation_id"], 0) + more
    workloads = {row["allocation_id"]: row["workload_id"] for row in rows}
    first = sorted(allocations, key=lambda name: (-abs(allocations[name]), name))[:NAMED]
    closed_at = store.value(_CLOSED_AT, {"run": max(row["again"] for row in rows)})
    return {
        "month": month,
        "from": rfc3339(min(row["from_at"] for row in rows)),
        "to": rfc3339(max(row["to_at"] for row in rows)),
        "closed_at": closed_at and rfc3339(closed_at),
        "allocations": len(allocations),
        "first": [
            {**_named(name, workloads[name]), "gpu_hours": text(scale.hours(allocations[name]))} for name in first
        ],
    }


def _named(allocation: str, workload: str) -> dict[str, str]:
    """Its workload, too, where that has another name: a Slurm allocation's own is a number."""
    return {"allocation": allocation, **({"workload": workload} if workload not in ("", allocation) else {})}


_CLOSED_AT = "SELECT minOrNull(ingest_cutoff) AS at FROM close_runs WHERE run >= {run:UInt64}"
"""Of the close that finished what a run wrote."""


def _billed_by(documents: Iterable[Invoice], invoice: Invoice, month: str) -> int:
    """The close that the tenant's last document about the month saw; 0: nothing was billed for it."""
    mine = (one for one in documents if one.tenant == invoice.tenant and not one.is_credit_note and not one.is_void)
    return max((run_of(one) for one in mine if _is_before(one, invoice) and _is_about(one, month)), default=0)


def _is_before(one: Invoice, invoice: Invoice) -> bool:
    if invoice.number is None:
        return True
    return datetime.fromisoformat(one.document["issued_at"]) < datetime.fromisoformat(invoice.document["issued_at"])


def _is_about(one: Invoice, month: str) -> bool:
    return one.month == month or any(line["reference"]["month"] == month for line in one.lines if is_correction(line))


def run_of(one: Invoice) -> int:
    """The close that a document saw; of one of an older version, the last that computed an hour of its month."""
    return int(one.document.get("as_of_run") or one.document.get("books_run") or 0)
