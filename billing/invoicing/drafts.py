"""Invoices that are not issued: what the ledger says now that a tenant owes for a month.

Lines are by project, sku and price; their costs are exact, and rounding happens once: the total is the exact sum
rounded half to even, shared out to the lines by largest remainder.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from itertools import groupby
from typing import Any

from billing.exact import Scale
from billing.money import largest_remainder, minor_digits
from billing.periods import Period, month_name
from billing.rates import AppliedCard, RateCard, current_rate_card
from billing.sums import KINDS, LedgerSum, one_currency
from warehouse.errors import LedgerError
from warehouse.store import Store, read_sql


class InvoiceError(LedgerError):
    """An invoice that cannot be drafted, issued or found."""


@dataclass(frozen=True)
class Invoice:
    """A statement for a tenant and a month.

    `document` is all of it, as JSON holds it: decimals and instants as strings, the unknown as None.
    """

    document: Mapping[str, Any]

    @property
    def number(self) -> str | None:
        """None for a draft."""
        number: str | None = self.document["number"]
        return number

    @property
    def tenant(self) -> str:
        return str(self.document["tenant"])

    @property
    def month(self) -> str:
        """Like 2026-10."""
        return str(self.document["period"]["month"])

    @property
    def currency(self) -> str:
        return str(self.document["currency"])

    @property
    def lines(self) -> Sequence[Mapping[str, Any]]:
        lines: Sequence[Mapping[str, Any]] = self.document["lines"]
        return lines

    @property
    def totals(self) -> Mapping[str, Any]:
        totals: Mapping[str, Any] = self.document["totals"]
        return totals

    @property
    def amount(self) -> Decimal:
        """What is to be paid."""
        return Decimal(self.totals["amount"])

    @property
    def unpriced_gpu_hours(self) -> Decimal:
        return Decimal(self.totals["unpriced_gpu_hours"])

    def canonical(self) -> str:
        """The document as JSON that depends on its content alone."""
        return json.dumps(self.document, sort_keys=True, ensure_ascii=False, separators=(",", ":"))


@dataclass(frozen=True)
class Books:
    """The state of the ledger that drafts are computed from."""

    closed_until: datetime
    closed_with: str
    current: AppliedCard | None

    @property
    def any_closed(self) -> bool:
        return self.closed_until > datetime(1971, 1, 1, tzinfo=UTC)

    @property
    def card(self) -> RateCard | None:
        return self.current.card if self.current else None

    @property
    def timezone(self) -> str:
        return self.card.timezone if self.card else "UTC"


def draft_all(store: Store, period: Period, tenant: str | None = None) -> list[Invoice]:
    """What the ledger says now: a draft for each tenant that held something in the month (or for one of them).

    Errors: InvoiceError if `tenant` held nothing.
    """
    return drafts_of(store, period, tenant, books_of(store))


def books_of(store: Store) -> Books:
    (state,) = store.rows(read_sql(__file__, "state_of_the_books"))
    return Books(state["closed_until"], state["rate_card"], current_rate_card(store))


def drafts_of(store: Store, period: Period, tenant: str | None, books: Books) -> list[Invoice]:
    rows = store.rows(read_sql(__file__, "invoice_lines"), {**span(period), **whom(tenant)})
    one_currency(rows)
    if tenant is not None and not rows:
        raise InvoiceError(
            f"tenant {tenant!r}", f"held nothing in {month_name(period, books.timezone)}", "See: gpuledger ledger"
        )
    return [
        Invoice(_document(name, list(entries), period, books)) for name, entries in groupby(rows, lambda r: r["tenant"])
    ]


def _document(tenant: str, rows: Sequence[Mapping[str, Any]], period: Period, books: Books) -> dict[str, Any]:
    scale = Scale.of(row["device_units"] for row in rows)
    currency = one_currency(rows) or (books.card.currency if books.card else "")
    sums: dict[tuple[Any, ...], LedgerSum] = {}
    total, estimated = LedgerSum(scale), 0
    for row in rows:
        key = tuple(row[name] for name in ("project", "sku", "list_unit_price", "contracted_unit_price"))
        sums.setdefault(key, LedgerSum(scale)).add(row, *KINDS)
        total.add(row, *KINDS)
        estimated += scale.quantity(row["estimated_micro_ms"], row["device_units"])
    sums = {key: line for key, line in sums.items() if line.quantity}
    amounts, amount = largest_remainder([line.billed() for line in sums.values()], minor_digits(currency))
    return {
        "number": None,
        "status": "draft",
        "issued_at": None,
        "issuer": books.card.issuer.model_dump(mode="json") if books.card else None,
        "tenant": tenant,
        "period": {
            "month": month_name(period, books.timezone),
            "start": instant(period.start),
            "end": instant(period.end),
            "timezone": books.timezone,
        },
        "currency": currency,
        "run": str(max(row["last_run"] for row in rows)),
        "rate_card": books.closed_with or (books.current.version if books.current else ""),
        "lines": [
            _line(number, key, line, None if line.unpriced else amount)
            for number, ((key, line), amount) in enumerate(zip(sums.items(), amounts, strict=True), 1)
        ],
        "totals": {**_measures(total), "amount": _text(amount)},
        "notes": _notes(total, estimated, period, books),
    }


def _line(number: int, key: tuple[Any, ...], line: LedgerSum, amount: Decimal | None) -> dict[str, Any]:
    project, sku, list_price, contracted_price = key
    return {
        "line": number,
        "project": project,
        "sku": sku,
        "list_unit_price": _text(list_price),
        "contracted_unit_price": _text(contracted_price),
        **_measures(line),
        "amount": _text(amount),
    }


def _measures(line: LedgerSum) -> dict[str, str | None]:
    measures = line.measures(None)
    del measures["currency"]
    return {name: _text(value) for name, value in measures.items()}


def _notes(total: LedgerSum, estimated: int, period: Period, books: Books) -> list[str]:
    notes = []
    if books.closed_until < period.end:
        notes.append(f"The books are closed until {instant(books.closed_until)}; the month is not complete.")
    if total.unpriced:
        notes.append(f"{total.scale.hours(total.unpriced, 2)} GPU-hours have no price and are in no amount.")
    if total.kinds["unmetered"]:
        hours = total.scale.hours(total.kinds["unmetered"], 2)
        notes.append(f"{hours} GPU-hours were held while no telemetry said whether they were used.")
    if estimated:
        notes.append(
            f"{total.scale.hours(estimated, 2)} GPU-hours are estimated: the end of the allocation was never reported."
        )
    return notes


def span(period: Period) -> dict[str, datetime]:
    return {"start": period.start, "end": period.end}


def whom(tenant: str | None) -> dict[str, Any]:
    return {"all_tenants": int(tenant is None), "tenant": tenant or ""}


def instant(at: datetime) -> str:
    return at.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _text(value: Decimal | None) -> str | None:
    return None if value is None else format(value, "f")
