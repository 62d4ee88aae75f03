"""Reads issued documents: invoices and credit notes, and which of them are void."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from billing.invoicing.documents import Invoice
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


@dataclass(frozen=True)
class Billed:
    """An invoice that stands, and what it bills. corrected: months of which it is the first to bill the tenant."""

    number: str
    tenant: str
    month: str
    timezone: str
    corrected: Sequence[str]


def billed(store: Store, tenant: str | None = None) -> list[Billed]:
    """Which months the invoices that stand bill, in the order of their numbers."""
    return [Billed(**row) for row in store.rows(read_sql(__file__, "billed"), tenant_params(tenant))]


def billed_later(store: Store, period: Period, tenant: str | None = None) -> dict[str, str]:
    """The tenants that owe something for a month, had no invoice of it, and were billed by a later one: its number."""
    return later_bills(billed(store, tenant), period)


def later_bills(invoices: Iterable[Billed], period: Period) -> dict[str, str]:
    """The same of invoices that were read before."""
    found: dict[str, str] = {}
    for one in invoices:
        if one.corrected and month_name(period, one.timezone) in one.corrected:
            found.setdefault(one.tenant, one.number)
    return found


def _as_it_stands(row: Mapping[str, Any]) -> Invoice:
    document = json.loads(row["document"])
    if row["void"]:
        why = {"at": rfc3339(row["voided_at"]), "author": row["voided_by"], "reason": row["void_reason"]}
        document |= {"status": "void", "void": why}
    return Invoice(document)
