"""Reads issued documents: invoices and credit notes, and which of them are void."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

from billing.invoicing.documents import Invoice
from billing.lines import is_correction
from billing.params import period_params, tenant_params
from billing.periods import Period, month_name
from warehouse.instants import rfc3339
from warehouse.store import Store, read_sql

ALWAYS = Period(datetime(1971, 1, 1, tzinfo=UTC), datetime(2299, 1, 1, tzinfo=UTC))


def issued(store: Store, period: Period | None = None, tenant: str | None = None, number: str = "") -> list[Invoice]:
    """The issued invoices and credit notes whose period touches `period`, in the order of their numbers.

    One that was made void since has the status `void` and says when, by whom and why; else it is what was stored.
    """
    params = {**period_params(period or ALWAYS), **tenant_params(tenant), "number": number}
    return [_as_it_stands(row) for row in store.rows(read_sql(__file__, "issued_invoices"), params)]


def standing(store: Store, period: Period | None = None, tenant: str | None = None) -> list[Invoice]:
    """The same without those that are void."""
    return [one for one in issued(store, period, tenant) if not one.is_void]


def billed_later(store: Store, period: Period, tenant: str | None = None) -> dict[str, str]:
    """The tenants that owe something for a month, had no invoice of it, and were billed by a later one: its number."""
    return later_bills(standing(store, Period(period.end, ALWAYS.end), tenant), period)


def later_bills(documents: Iterable[Invoice], period: Period) -> dict[str, str]:
    """The same of documents that were read before."""
    found: dict[str, str] = {}
    for one in documents:
        for line in one.lines:
            reference = line.get("reference") or {}
            if is_correction(line) and reference["invoice"] is None and _covers(period, reference["month"], one):
                found.setdefault(one.tenant, str(one.number))
    return found


def _covers(period: Period, month: str, invoice: Invoice) -> bool:
    return month_name(period, invoice.document["period"]["timezone"]) == month


def _as_it_stands(row: Mapping[str, Any]) -> Invoice:
    document = json.loads(row["document"])
    if row["void"]:
        why = {"at": rfc3339(row["voided_at"]), "author": row["voided_by"], "reason": row["void_reason"]}
        document |= {"status": "void", "void": why}
    return Invoice(document)
