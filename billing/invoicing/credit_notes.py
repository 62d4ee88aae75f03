"""Credit notes: an amount given back on an issued invoice, with the taxes that were asked on it."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from typing import Any

from billing.exact import rounded
from billing.invoicing.documents import Invoice, text
from billing.money import minor_digits


def credit_note(invoice: Invoice, amount: Decimal, reason: str) -> dict[str, Any]:
    """The document, without its number: `amount` (net) less, and each tax of the invoice in proportion."""
    digits = minor_digits(invoice.currency)
    net = Decimal(invoice.totals.get("net", invoice.totals["amount"]))
    reference = {"invoice": invoice.number or "", "month": invoice.month}
    lines = [_line(1, "credit", f"Credit on {invoice.number}: {reason}", -amount, "credit note", reference)]
    tax = Decimal(0)
    for line in invoice.lines:
        if line.get("kind") == "tax" and net:
            part = rounded(-Fraction(Decimal(line["amount"])) * Fraction(amount) / Fraction(net), digits)
            lines.append(_line(len(lines) + 1, "tax", line["rule"], part, line["rule"], reference))
            tax += part
    due = tax - amount
    payable = invoice.document.get("payable")
    if payable and payable["rate"]:
        back = rounded(Fraction(due) * Fraction(Decimal(payable["rate"])), minor_digits(payable["currency"]))
        payable = {**payable, "amount": text(back)}
    return {
        **{name: invoice.document.get(name) for name in _SAME},
        "document_type": "credit_note",
        "references": invoice.number,
        "lines": lines,
        "totals": {
            **{name: "0.000000000" for name in invoice.totals if name.endswith(("_hours", "_cost"))},
            "coverage": None,
            "net": text(-amount),
            "tax": text(tax.quantize(amount)),
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
