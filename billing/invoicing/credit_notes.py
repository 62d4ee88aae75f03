"""Credit notes: an amount refunded on an issued invoice, with the taxes that were charged on it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any

from billing.exact import rounded
from billing.invoicing.documents import Invoice, text
from billing.lines import is_correction
from billing.money import minor_digits


@dataclass(frozen=True)
class Creditable:
    """What is left of what a tenant was billed for an invoice's month: `net`, and what each tax on it comes to.

    The invoice's own lines, the corrections of its month so far, and the credit notes on it.
    """

    net: Decimal
    taxes: Mapping[str, Decimal]


def creditable(invoice: Invoice, documents: Iterable[Invoice]) -> Creditable:
    """What can still be credited on an invoice; `documents`: the tenant's that stand, in the order of their numbers.

    An earlier month that had no invoice is of the first that bills it; the corrections of other invoices are theirs.
    """
    documents = list(documents)
    first: dict[str, str | None] = {}
    for one in documents:
        for line in one.lines:
            if is_correction(line) and line["reference"]["invoice"] is None:
                first.setdefault(line["reference"]["month"], one.number)
    months = {invoice.month, *(month for month, number in first.items() if number == invoice.number)}
    net, taxes = Decimal(0), dict[str, Decimal]()
    for one in documents:
        for line in one.lines:
            if is_correction(line):
                counts = line["reference"]["month"] in months
            else:
                counts = (one.document["references"] if one.is_credit_note else one.number) == invoice.number
            if counts and line["kind"] == "tax":
                taxes[line["rule"]] = taxes.get(line["rule"], Decimal(0)) + Decimal(line["amount"])
            elif counts:
                net += Decimal(line["amount"] or 0)
    return Creditable(net, taxes)


def same_note(invoice: Invoice, amount: Decimal, reason: str, documents: Iterable[Invoice]) -> str:
    """The number of a credit note on the invoice with this amount and reason; empty: none of the documents is one."""
    described = _described(invoice, reason)
    for one in documents:
        if one.is_credit_note and one.document["references"] == invoice.number:
            credited = [line for line in one.lines if line["kind"] == "credit"]
            if [(line["description"], Decimal(line["amount"])) for line in credited] == [(described, -amount)]:
                return one.number or ""
    return ""


def _described(invoice: Invoice, reason: str) -> str:
    return f"Credit on {invoice.number}: {reason}"


def credit_note(invoice: Invoice, amount: Decimal, reason: str, left: Creditable) -> dict[str, Any]:
    """The document, without its number: `amount` (net, with all decimals of the currency) less, and each tax in
    proportion to what is left, so that the last credit gives back the last cent of tax."""
    digits = minor_digits(invoice.currency)
    reference = {"invoice": invoice.number or "", "month": invoice.month}
    lines = [_line(1, "credit", _described(invoice, reason), -amount, "credit note", reference)]
    tax = rounded(Fraction(0), digits)
    for rule, asked in left.taxes.items():
        part = rounded(-Fraction(asked) * Fraction(amount) / Fraction(left.net), digits)
        lines.append(_line(len(lines) + 1, "tax", rule, part, rule, reference))
        tax += part
    due = tax - amount
    payable = invoice.document.get("payable")
    if payable:
        back = rounded(Fraction(due) * Fraction(Decimal(payable["rate"])), minor_digits(payable["currency"]))
        payable = {"currency": payable["currency"], "rate": payable["rate"], "corrections": [], "amount": text(back)}
    return {
        **{name: invoice.document.get(name) for name in _SAME},
        "document_type": "credit_note",
        "references": invoice.number,
        "lines": lines,
        "totals": {
            **{name: "0.000000000" for name in invoice.totals if name.endswith(("_hours", "_cost"))},
            "coverage": None,
            "net": text(-amount),
            "tax": text(tax),
            "amount": text(due),
            "prepaid": text(0 * amount),
            "due": text(due),
        },
        "prepaid_draws": [],
        "payable": payable,
        "notes": [reason],
    }


_SAME = ("issuer", "tenant", "period", "currency", "run", "books_run", "rate_card")
"""What a credit note has from its invoice."""


def _line(
    number: int, kind: str, description: str, amount: Decimal, rule: str, reference: dict[str, str]
) -> dict[str, Any]:
    empty = (
        "quantity", "list_unit_price", "contracted_unit_price", "allocated_gpu_hours", "used_gpu_hours",
        "idle_gpu_hours", "unmetered_gpu_hours", "unpriced_gpu_hours", "coverage", "list_cost",
    )  # fmt: skip
    return {
        "line": number,
        "kind": kind,
        "project": "",
        "sku": "",
        "description": description,
        "unit": "",
        **dict.fromkeys(empty),
        "billed_cost": text(rounded(Fraction(amount))),
        "amount": text(amount),
        "rule": rule,
        "charge_class": None,
        "reference": reference,
    }
