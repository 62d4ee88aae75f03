"""Books for tests of accounts: a rate card, hours that cost 2.00 each, and invoices typed by hand."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

import pyarrow as pa

from billing.periods import parse_month
from billing.rates import parse_rate_card
from tests.billing.hand_ledger import HOUR_MS, Row, at
from warehouse.store import Store

NOW = at("2026-10-25 00:00")
NO_PRICES = [{"sku": "other", "match": {"model": "none"}, "price_per_gpu_hour": "1"}]
"""Rates of a card that fit nothing."""


def without_prices(books: Store, timezone: str = "UTC", currency: str = "EUR") -> Store:
    """Empty books with a card that prices nothing, typed by hand as well; ledgers typed by hand bring their prices."""
    card = parse_rate_card({"currency": currency, "timezone": timezone, "rates": NO_PRICES})
    columns = {
        "version": pa.array([card.version], pa.string()),
        "sequence": pa.array([1], pa.uint64()),
        "applied_at": _time(at("2026-01-01 00:00")),
        "card": pa.array([card.canonical()], pa.string()),
    }
    books.insert("rate_cards", pa.table(columns))
    return books


def hours(first: str, count: int, tenant: str = "physics", project: str = "", **more: Any) -> list[Row]:
    """So many whole hours of one GPU, one after the other, at 2.00 each."""
    return [
        Row(at(first) + timedelta(hours=number), tenant, project, **{"used": str(HOUR_MS), **more})
        for number in range(count)
    ]


def issue(
    store: Store,
    month: str,
    total: str,
    draws: Mapping[str, str] | None = None,
    tenant: str = "physics",
    timezone: str = "UTC",
    number: str = "",
    currency: str = "EUR",
    **more: Any,
) -> str:
    """Stores an invoice of a month as it would be issued; answers its number."""
    period = parse_month(month, timezone)
    number = number or f"GL-{tenant}-{month}"
    document = {
        "number": number,
        "status": "issued",
        "tenant": tenant,
        "period": {"month": month},
        "lines": [],
        "totals": {"amount": total},
        "prepaid_draws": [{"grant": grant, "amount": amount} for grant, amount in (draws or {}).items()],
        **more,
    }
    columns = {
        "number": pa.array([number], pa.string()),
        "issuer": pa.array([number], pa.string()),
        "year": pa.array([2026], pa.uint32()),
        "sequence": pa.array([1], pa.uint32()),
        "tenant": pa.array([tenant], pa.string()),
        "period_start": _time(period.start),
        "period_end": _time(period.end),
        "currency": pa.array([currency], pa.string()),
        "total": pa.array([total], pa.string()),
        "issued_at": _time(period.end),
        "document": pa.array([json.dumps(document)], pa.string()),
    }
    store.insert("invoices", pa.table(columns))
    return number


def void(store: Store, number: str) -> None:
    columns = {
        "number": pa.array([number], pa.string()),
        "at": _time(NOW),
        "author": pa.array([""], pa.string()),
        "reason": pa.array([""], pa.string()),
    }
    store.insert("voided_invoices", pa.table(columns))


def _time(when: datetime) -> pa.Array:
    return pa.array([when], pa.timestamp("ms", "UTC"))
