"""Why a tenant's bill of a month is another than that of another month: what each kind of line adds to the difference.

A month's bill is the invoice that was issued for it, else its draft, as a whole: usage, minimums, commitments,
discounts, shared costs, credits, taxes, and corrections of months before. So the parts sum to the difference between
the two amounts to be paid, which the cost of the ledger (billing/insights/changes.py) does not explain alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from billing.invoicing.documents import Invoice, InvoiceError
from billing.invoicing.drafts import draft_all
from billing.invoicing.issued import standing
from billing.ledger_report import billing_timezone
from billing.lines import KINDS, lines_by
from billing.periods import parse_month
from warehouse.store import Store

Lines = Mapping[tuple[str, ...], list[Mapping[str, Any]]]


@dataclass(frozen=True)
class BillPart:
    """The lines of one kind and SKU. Amounts are those of the documents; None: a line of it has no price.

    hours_before, hours: GPU-hours, of usage alone.
    """

    kind: str
    sku: str
    before: Decimal | None
    now: Decimal | None
    hours_before: Decimal | None = None
    hours: Decimal | None = None

    @property
    def difference(self) -> Decimal | None:
        return None if self.before is None or self.now is None else self.now - self.before


def bill_of(store: Store, tenant: str, month: str) -> Invoice | None:
    """month: like 2026-10.   None: the tenant owes nothing for it.   store: sees what all tenants held."""
    period = parse_month(month, billing_timezone(store))
    issued = [one for one in standing(store, period, tenant) if one.month == month and not one.is_credit_note]
    if issued:
        return issued[-1]
    try:
        return next(one for one in draft_all(store, period, tenant) if one.tenant == tenant)
    except (InvoiceError, StopIteration):
        return None


def bill_parts(before: Invoice, now: Invoice) -> list[BillPart]:
    """The greatest difference first, what is not known last.

    Errors: ValueError if the two are in different currencies.
    """
    if before.currency != now.currency:
        raise ValueError(f"{before.currency} and {now.currency} cannot be compared")
    was, has = (lines_by(bill.lines, "sku") for bill in (before, now))
    parts = [_part(key, was, has) for key in sorted({*was, *has}, key=lambda key: (_order(key[0]), key))]
    return sorted(parts, key=lambda one: (one.difference is None, -abs(one.difference or Decimal(0))))


def _order(kind: str) -> int:
    return KINDS.index(kind) if kind in KINDS else len(KINDS)


def _part(key: tuple[str, ...], was: Lines, has: Lines) -> BillPart:
    (kind, sku), sides = key, (was.get(key, []), has.get(key, []))
    hours = [_sum(lines, "quantity") if kind == "usage" else None for lines in sides]
    return BillPart(kind, sku, *(_sum(lines, "amount") for lines in sides), *hours)


def _sum(lines: list[Mapping[str, Any]], name: str) -> Decimal | None:
    """None if one of them is not known; of no line zero."""
    found = [line.get(name) for line in lines]
    return None if None in found else sum((Decimal(str(one)) for one in found), Decimal(0))
