"""Amounts as the page shows them. Costs are rounded each by itself, as on every other page and on invoices; what leads
from one to the other is rounded so that a row adds up. The exact ones are what sorts, and what exports and the API
have."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from fractions import Fraction
from typing import Any

from billing.exact import rounded
from billing.money import largest_remainder
from dashboards.format import MILLIONS, UNKNOWN, money, symbol

CENTS = 2
STEPS = ("by_hours", "by_price", "by_mix")
"""Parts of a difference."""
COSTS = ("cost_before", "cost")
ALONE = (*COSTS, "idle_difference")
"""Rounded by themselves."""
Amounts = Mapping[str, Any]


def in_short(known: Amounts, currency: str) -> dict[str, str]:
    """What is said of one change: its two costs, its difference and the parts of that; without cents where any of them
    is of 100 or more."""
    if known["difference"] is None:
        return dict.fromkeys((*COSTS, "difference", *STEPS), UNKNOWN)
    digits = 0 if max(abs(known[name]) for name in (*COSTS, *STEPS)) >= 100 else CENTS
    amounts = _walk(known, {name: rounded(Fraction(known[name]), digits) for name in COSTS}, digits)
    return {name: _said(one, currency, "" if name in COSTS else "+", digits) for name, one in amounts.items()}


def with_texts(row: Amounts, currency: str) -> dict[str, Any]:
    """A row of the table with what it shows of each amount as FIELD_text."""
    known = row["difference"] is not None
    shown = _walk(row, {name: rounded(Fraction(row[name]), CENTS) for name in ALONE}, CENTS) if known else {}
    return {**row, **_texts(shown, currency)}


def _walk(known: Amounts, costs: Mapping[str, Decimal], digits: int) -> dict[str, Decimal]:
    difference = costs["cost"] - costs["cost_before"]
    parts, _ = largest_remainder([Fraction(known[name]) for name in STEPS], digits, given=difference)
    return {**costs, "difference": difference, **dict(zip(STEPS, parts, strict=True))}


def _texts(amounts: Mapping[str, Decimal], currency: str) -> dict[str, str]:
    return {
        f"{name}_text": _said(amounts.get(name), currency, "" if name in COSTS else "+", CENTS)
        for name in (*ALONE, "difference", *STEPS)
    }


def _said(amount: Decimal | None, currency: str, plus: str, digits: int) -> str:
    if amount is None:
        return UNKNOWN
    size, sign = abs(amount), "−" if amount < 0 else plus if amount > 0 else ""
    short = digits == 0 and size >= MILLIONS
    return sign + (money(size, currency) if short else f"{symbol(currency)}{size:,.{digits}f}")
