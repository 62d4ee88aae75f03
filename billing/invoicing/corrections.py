"""Late facts about months that were invoiced: what they change is booked in the next open month.

A correction is what the month costs now less what was billed for it so far, line by line: the original invoice and the
corrections of it that were issued since. Tiers, taxes and shares are computed again for the whole month.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from decimal import Decimal
from fractions import Fraction
from typing import Any

from billing.invoicing import drafts
from billing.invoicing.documents import Invoice
from billing.invoicing.lines import Line
from billing.periods import Period
from warehouse.store import Store, read_sql

Key = tuple[Any, ...]
_KEY = ("kind", "project", "sku", "list_unit_price", "contracted_unit_price", "rule")
"""What makes a line the same line when its month is computed again."""


def correction_lines(store: Store, period: Period, tenant: str | None, books: drafts.Books) -> dict[str, list[Line]]:
    """By tenant, what the invoices of the months before `period` lack or have too much."""
    from billing.invoicing.invoices import standing

    params = {"before": period.start, **drafts.whom(tenant)}
    changed = store.rows(read_sql(__file__, "changed_months"), params)
    if not changed:
        return {}
    billed = [one for one in standing(store, None, tenant) if not one.is_credit_note]
    lines: dict[str, list[Line]] = {}
    for row in changed:
        month = drafts.month_of(store, Period(row["start"], row["end"]), tenant, books)
        for original in [one for one in billed if one.month == month.name]:
            now = drafts.document_of(original.tenant, month, books)
            lines.setdefault(original.tenant, []).extend(_differences(original, now, billed))
    return {name: found for name, found in lines.items() if found}


def _differences(original: Invoice, now: Invoice, billed: Iterable[Invoice]) -> list[Line]:
    """Lines for what differs in money between the month as it is now and as it was billed."""
    reference = {"invoice": original.number or "", "month": original.month}
    before = list(original.lines)
    for later in billed:
        if later.tenant == original.tenant:
            before += [line for line in later.lines if line.get("reference") == reference]
    own = [line for line in before if line.get("charge_class") is None or line.get("reference") == reference]
    was, is_ = _summed(own), _summed(now.lines)
    lines = []
    for key in dict.fromkeys((*is_, *was)):
        amount_was, quantity_was, _ = was.get(key, _NOTHING)
        amount_is, quantity_is, unit = is_.get(key, _NOTHING)
        if amount_is == amount_was:
            continue
        kind, project, sku, list_price, contracted_price, rule = key
        lines.append(
            Line(
                original.tenant,
                kind,
                project,
                sku,
                description=f"{original.month}: {amount_was:,} was billed, {amount_is:,} is due",
                quantity=Fraction(quantity_is - quantity_was),
                unit=unit or was[key][2],
                list_unit_price=list_price and Decimal(list_price),
                contracted_unit_price=contracted_price and Decimal(contracted_price),
                cost=Fraction(amount_is - amount_was),
                rule=rule,
                charge_class="Correction",
                reference=reference,
            )
        )
    return lines


_NOTHING = (Decimal(0), Decimal(0), "")


def _summed(lines: Iterable[Mapping[str, Any]]) -> dict[Key, tuple[Decimal, Decimal, str]]:
    """Amount, quantity and unit by key; lines without a price are in no amount."""
    sums: dict[Key, tuple[Decimal, Decimal, str]] = {}
    for line in lines:
        key = tuple(line.get(name, "usage" if name == "kind" else "") for name in _KEY)
        amount, quantity, _ = sums.get(key, _NOTHING)
        more = line.get("quantity") or line.get("allocated_gpu_hours") or "0"
        sums[key] = (
            amount + Decimal(line["amount"] or 0),
            quantity + Decimal(more),
            line.get("unit") or "GPU-hours",
        )
    return sums
