"""A month's statement: a tenant's invoice day by day and by workload; and the platform's own time, by pool.

A statement is not a demand for payment and is not stored: it reads the invoice as it stands (or the draft) and the
current ledger.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from itertools import pairwise
from typing import Any
from zoneinfo import ZoneInfo

from billing.closed import closed_period
from billing.exact import DIGITS, NANO, Scale, quotient
from billing.invoicing.documents import Invoice, InvoiceError, text
from billing.invoicing.drafts import draft_all
from billing.invoicing.idle_reclaims import idle_reclaims
from billing.invoicing.invoices import standing
from billing.invoicing.month import books_of, platform_costs
from billing.ledger_report import billing_timezone
from billing.params import period_params, tenant_params
from billing.periods import Period, midnight, month_name, whole_hour
from warehouse.instants import rfc3339
from warehouse.store import Store, read_sql

TOP = 10
"""How many workloads are named."""
HELD = ("used", "idle", "unmetered")
FLEET = ("allocated", "unallocated", "unavailable")


@dataclass(frozen=True)
class Statement:
    """`document` is all of it, as JSON holds it: decimals and instants as strings, the unknown as None.

    A tenant's has the keys of its invoice besides `days` and `workloads`, the platform's (`document_type`
    platform_statement) `pools` and `days`.
    """

    document: Mapping[str, Any]

    @property
    def is_platform(self) -> bool:
        return bool(self.document["document_type"] == "platform_statement")

    @property
    def tenant(self) -> str:
        """Empty for time of unknown holders, and for the platform's."""
        return str(self.document.get("tenant") or "")

    @property
    def month(self) -> str:
        """Like 2026-10."""
        return str(self.document["period"]["month"])


def tenant_statements(store: Store, period: Period, tenant: str | None = None) -> list[Statement]:
    """The statement of each tenant that owes something for the month, or of one.

    Errors: InvoiceError if `tenant` owes nothing.
    """
    month = month_name(period, billing_timezone(store))
    invoices = [one for one in standing(store, period, tenant) if not one.is_credit_note and one.month == month]
    found = {one.tenant: one for one in invoices}
    if tenant is None or tenant not in found:
        for draft in draft_all(store, period, tenant):
            found.setdefault(draft.tenant, draft)
    return [_tenant_statement(store, period, found[name]) for name in sorted(found)]


def platform_statement(store: Store, period: Period) -> Statement:
    """The fleet's time in the month that no tenant could be charged for, by pool and day.

    Errors: InvoiceError if nothing of the month is closed.
    """
    books = books_of(store)
    month = month_name(period, books.timezone)
    rows = store.rows(read_sql(__file__, "statement_pools"), period_params(period))
    if not rows:
        raise InvoiceError(
            month, "nothing of it is closed", f"Run: gpuledger close --until {rfc3339(whole_hour(period.end))}"
        )
    borne = {cost.pool: cost for cost in platform_costs(store, period)}
    pools = []
    for row in rows:
        cost = borne.get(row["pool"])
        pools.append(
            _pool(row)
            | {
                "idle_policy": cost.share if cost else None,
                "shared": text(sum(cost.shared.values(), 0 * cost.kept)) if cost else None,
                "kept": text(cost.kept) if cost else None,
            }
        )
    names = [name for name in pools[0] if name.endswith(("_gpu_hours", "_cost", "shared", "kept"))]
    return Statement(
        {
            "document_type": "platform_statement",
            "issuer": books.card.issuer.model_dump(mode="json") if books.card else None,
            "period": {
                "month": month,
                "start": rfc3339(period.start),
                "end": rfc3339(period.end),
                "timezone": books.timezone,
            },
            "currency": books.card.currency if books.card else "",
            "rate_card": books.closed_with or (books.current.version if books.current else ""),
            "pools": pools,
            "totals": {name: _total(pool[name] for pool in pools) for name in names},
            "days": days_of(store, period, None),
            "notes": [*_missing(period, books.closed_until), *_unpriced(pools)],
        }
    )


def _tenant_statement(store: Store, period: Period, invoice: Invoice) -> Statement:
    days = days_of(store, period, invoice.tenant)
    params = {**period_params(period), "tenant": invoice.tenant, "top": TOP}
    rows = store.rows(read_sql(__file__, "statement_workloads"), params)
    notes = list(invoice.document["notes"])
    now = _total(day["allocated_gpu_hours"] for day in days)
    invoiced = Decimal(invoice.totals["allocated_gpu_hours"])
    if invoice.number and now is not None and abs(Decimal(now) - invoiced) > _SLACK:
        notes.append(
            f"The ledger says {Decimal(now):,.2f} GPU-hours now: what was known too late for invoice {invoice.number} "
            "is a correction on a later one."
        )
    notes += _given_back_since(store, period, invoice)
    return Statement(
        {
            **invoice.document,
            "document_type": "statement",
            "days": days,
            "workloads": [_workload(row) for row in rows],
            "workloads_in_all": rows[0]["workloads"] if rows else 0,
            "notes": notes,
        }
    )


def _given_back_since(store: Store, period: Period, invoice: Invoice) -> list[str]:
    """What is known now of hours that idle policies gave back, where an issued invoice says otherwise."""
    if not invoice.number:
        return []
    books = books_of(store)
    found = idle_reclaims(store, period, books.closed_until, books.last_run).get(invoice.tenant)
    said = invoice.document.get("idle_reclaims")
    if found == said:
        return []
    now = f"{Decimal(found['gpu_hours']):,.2f} GPU-hours" if found else "nothing"
    if said is None:
        why = "it was issued before documents said so, or it was not known yet"
        return [f"Idle policies gave back {now} as is known now; invoice {invoice.number} has none of it: {why}."]
    then = f"when invoice {invoice.number} was issued, {Decimal(said['gpu_hours']):,.2f} were known"
    return [f"Idle policies gave back {now} as is known now; {then}."]


_SLACK = Decimal("0.000001")
"""GPU-hours that a month's sum may differ from the sum of its days, each rounded to nine digits."""


def days_of(store: Store, period: Period, tenant: str | None) -> list[dict[str, Any]]:
    """Every day of the period. What is not closed is None; a closed day in which nothing was held is zero."""
    kinds = HELD if tenant is not None else FLEET
    timezone = billing_timezone(store)
    params = {**period_params(period), **tenant_params(tenant), "timezone": timezone}
    rows = {row["day"]: row for row in store.rows(read_sql(__file__, "statement_days"), params)}
    closed = closed_period(store)
    days = []
    for start, end in _local_days(period, timezone):
        name = start.astimezone(ZoneInfo(timezone)).date().isoformat()
        known = closed is not None and start < closed.end and closed.start < end
        days.append({"day": name, **_day_measures(rows.get(name), kinds, known)})
    return days


def _day_measures(row: Mapping[str, Any] | None, kinds: Sequence[str], known: bool) -> dict[str, str | None]:
    names = [f"{kind}_gpu_hours" for kind in (kinds if "allocated" in kinds else ("allocated", *kinds))]
    if row is None:
        return dict.fromkeys(names, text(Decimal(0).quantize(Decimal(1).scaleb(-DIGITS))) if known else None)
    return {name: text(value) for name, value in _measures(row).items() if name in names}


def _measures(row: Mapping[str, Any]) -> dict[str, Decimal]:
    """GPU-hours of every kind that the row has, and of the allocated time."""
    scale = Scale(row["scale_units"])
    parts = {name.removesuffix("_micro_ms"): value for name, value in row.items() if name.endswith("_micro_ms")}
    parts.setdefault("allocated", sum(parts[kind] for kind in HELD if kind in parts))
    return {f"{kind}_gpu_hours": scale.hours(part) for kind, part in parts.items()}


def _workload(row: Mapping[str, Any]) -> dict[str, Any]:
    """Efficiency is used time as a part of the metered; None where nothing was metered."""
    held = sum(row[f"{kind}_micro_ms"] for kind in HELD)
    metered = row["used_micro_ms"] + row["idle_micro_ms"]
    priced = held != row["unpriced_micro_ms"]
    return {
        "workload": row["workload_id"],
        "project": row["project"],
        **{name: text(value) for name, value in _measures(row).items()},
        "billed_cost": text(_money(row["cost"], row["scale_units"])) if priced else None,
        "efficiency": text(quotient(row["used_micro_ms"], metered)) if metered else None,
    }


def _pool(row: Mapping[str, Any]) -> dict[str, Any]:
    scale = Scale(row["scale_units"])
    return {
        "pool": row["pool"],
        "capacity_gpu_hours": text(scale.hours(sum(row[f"{kind}_micro_ms"] for kind in FLEET))),
        **{name: text(value) for name, value in _measures(row).items()},
        "unpriced_gpu_hours": text(scale.hours(row["unallocated_unpriced"] + row["unavailable_unpriced"])),
        **{
            f"{kind}_cost": text(_money(row[f"{kind}_cost"], scale.device_units))
            if not row[f"{kind}_unpriced"] or row[f"{kind}_unpriced"] != row[f"{kind}_micro_ms"]
            else None
            for kind in ("unallocated", "unavailable")
        },
    }


def _money(cost: int, scale_units: int) -> Decimal:
    return quotient(cost, Scale(scale_units).hour * NANO)


def _total(values: Any) -> str | None:
    """The sum of what is known; None where nothing is."""
    known = [Decimal(value) for value in values if value is not None]
    return text(sum(known, Decimal(0))) if known else None


def _local_days(period: Period, timezone: str) -> list[tuple[datetime, datetime]]:
    """[start, end) of each local day, as instants; a day has 23, 24 or 25 hours."""
    zone = ZoneInfo(timezone)
    first, last = (at.astimezone(zone).date() for at in (period.start, period.end - timedelta(milliseconds=1)))
    return list(pairwise(midnight(first + timedelta(days=n), zone) for n in range((last - first).days + 2)))


def _unpriced(pools: Sequence[Mapping[str, Any]]) -> list[str]:
    hours = sum((Decimal(pool["unpriced_gpu_hours"]) for pool in pools), Decimal(0))
    return [f"{hours:,.2f} GPU-hours have no price and are in no amount."] if hours else []


def _missing(period: Period, closed_until: datetime) -> list[str]:
    if closed_until >= period.end:
        return []
    return [f"The books are closed until {rfc3339(closed_until)}; the month is not complete."]
