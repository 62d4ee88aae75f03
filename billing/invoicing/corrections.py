"""Corrections: differences between what was billed for an issued month and what it owes now, booked in the next
document.

A correction is the month's current amount less what was billed for it so far, line by line: the month's invoice, if
there was one, and the corrections since. Tiers, taxes and shares are computed again for the whole month. So a tenant's
documents always sum to what its months owe, however late a fact, a credit or a tenant came.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any

from billing.invoicing.documents import Invoice
from billing.invoicing.issued import standing
from billing.invoicing.month import Books, Corrections, document_of, month_of
from billing.lines import Line, is_correction
from billing.periods import Period
from billing.rates import RateCard
from warehouse.store import Store, read_sql

Key = tuple[Any, ...]
_KEY = ("kind", "project", "sku", "list_unit_price", "contracted_unit_price", "rule")
"""What makes a line the same line when its month is computed again."""


def corrections_of(
    store: Store, period: Period, tenant: str | None, books: Books, months: Sequence[Period] | None = None
) -> Corrections:
    """What the documents about the months before `period` lack or have too much, for all tenants or one.

    months: those to compute again; None: those that may have changed.
    """
    again = [
        month_of(store, one, tenant, books)
        for one in (changed_months(store, period, books) if months is None else months)
    ]
    if not again:
        return Corrections({}, {}, ())
    documents = [one for one in standing(store, None, tenant) if not one.is_credit_note]
    lines: dict[str, list[Line]] = {}
    unpriced: dict[str, dict[str, Decimal]] = {}
    for month in again:
        billed = _billed(documents, month.name)
        for name in sorted({*billed, *month.lines} - {""}):
            now = document_of(name, month, books)
            lines.setdefault(name, []).extend(_differences(name, month.name, now, billed.get(name, _NOT_BILLED)))
            if now.unpriced_gpu_hours:
                unpriced.setdefault(name, {})[month.name] = now.unpriced_gpu_hours
    return Corrections({name: found for name, found in lines.items() if found}, unpriced, again)


def changed_months(store: Store, period: Period, books: Books) -> list[Period]:
    """The issued months before `period` that may owe something else than was billed."""
    ended = "SELECT count() AS documents FROM invoices WHERE period_end <= {before:DateTime64(3, 'UTC')}"
    if not store.value(ended, {"before": period.start}):
        return []
    commitments = books.card.commitments if books.card else ()
    params = {
        "before": period.start,
        "timezone": books.timezone,
        "reach_hours": reach_hours(books.card),
        "by_length": int(_by_length(books.card)),
        "committed": [one.tenant for one in commitments],
        "since": [one.effective_from or "" for one in commitments],
        "until": [one.effective_to or "" for one in commitments],
        "minimum_ms": 1000 * books.card.longest_minimum_seconds if books.card else 0,
    }
    return [Period(row["start"], row["end"]) for row in store.rows(read_sql(__file__, "changed_months"), params)]


def reach_hours(card: RateCard | None) -> int:
    """How many hours before a month it is computed from too."""
    return card.reach_hours if card else 0


def _by_length(card: RateCard | None) -> bool:
    """Whether it matters when sessions began and ended, besides what they held."""
    if card is None:
        return False
    return card.longest_minimum_seconds > 0 or any(one.by_session and one.measure == "hours" for one in card.discounts)


@dataclass(frozen=True)
class _Billed:
    """The invoice of a tenant's month (None: it had none), and all lines about that month so far."""

    invoice: str | None
    lines: Sequence[Mapping[str, Any]]


_NOT_BILLED = _Billed(None, ())


def _billed(documents: Iterable[Invoice], month: str) -> dict[str, _Billed]:
    """By tenant, what was billed for a month."""
    found: dict[str, _Billed] = {}
    for one in documents:
        known = found.get(one.tenant, _NOT_BILLED)
        if one.month == month:
            own = [line for line in one.lines if not is_correction(line)]
            found[one.tenant] = _Billed(one.number, [*known.lines, *own])
        else:
            of_it = [line for line in one.lines if is_correction(line) and line["reference"]["month"] == month]
            if of_it:
                found[one.tenant] = _Billed(known.invoice, [*known.lines, *of_it])
    return found


def _differences(tenant: str, month: str, now: Invoice, billed: _Billed) -> list[Line]:
    """Lines for what differs in money between the month as it is now and as it was billed."""
    reference = {"invoice": billed.invoice, "month": month}
    was, is_ = _summed(billed.lines), _summed(now.lines)
    lines = []
    for key in dict.fromkeys((*is_, *was)):
        before, after = was.get(key, _NOTHING), is_.get(key, _NOTHING)
        if before.amount == after.amount:
            continue
        kind, project, sku, list_price, contracted_price, rule = key
        lines.append(
            Line(
                tenant,
                kind,
                project,
                sku,
                description=f"{month}: {_in_words(kind, before, after)}",
                quantity=Fraction(after.quantity - before.quantity),
                unit=after.unit or before.unit,
                list_unit_price=list_price and Decimal(list_price),
                contracted_unit_price=contracted_price and Decimal(contracted_price),
                cost=Fraction(after.amount - before.amount),
                rule=rule,
                charge_class="Correction",
                reference=reference,
            )
        )
    return lines


@dataclass(frozen=True)
class _Sum:
    amount: Decimal = Decimal(0)
    quantity: Decimal = Decimal(0)
    unit: str = ""
    description: str = ""


_NOTHING = _Sum()
_SAID_ANEW = ("shared", "credit", "tax")
"""Kinds of which the line of now says more than an amount: a part and of what, a reason, a base."""


def _in_words(kind: str, before: _Sum, after: _Sum) -> str:
    if kind == "credit" and before == _NOTHING:
        return after.description
    more = f": {after.description}" if kind in _SAID_ANEW and after.description else ""
    return f"{before.amount:,} was billed, {after.amount:,} is due{more}"


def _summed(lines: Iterable[Mapping[str, Any]]) -> dict[Key, _Sum]:
    """The lines of a key as one; those without a price are in no amount."""
    sums: dict[Key, _Sum] = {}
    for line in lines:
        key = tuple(line.get(name, "usage" if name == "kind" else "") for name in _KEY)
        before = sums.get(key, _NOTHING)
        more = line.get("quantity") or line.get("allocated_gpu_hours") or "0"
        sums[key] = _Sum(
            before.amount + Decimal(line["amount"] or 0),
            before.quantity + Decimal(more),
            line.get("unit") or "GPU-hours",
            line.get("description") or "",
        )
    return sums
