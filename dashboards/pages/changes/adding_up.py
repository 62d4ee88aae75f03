"""Amounts as the page shows them: each is rounded so that what stands beside it adds up. The exact ones are what sorts,
and what exports and the API have."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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
SUMMED = (*COSTS, "idle_difference")
"""Columns of which the total is the sum of the rows."""
Amounts = Mapping[str, Any]


def in_short(known: Amounts, currency: str) -> dict[str, str]:
    """What is said of one change: its two costs, its difference and the parts of that; without cents where any of them
    is of 100 or more."""
    if known["difference"] is None:
        return dict.fromkeys((*COSTS, "difference", *STEPS), UNKNOWN)
    digits = 0 if max(abs(known[name]) for name in (*COSTS, *STEPS)) >= 100 else CENTS
    amounts = _walk(known, {name: rounded(Fraction(known[name]), digits) for name in COSTS}, digits)
    return {name: _said(one, currency, "" if name in COSTS else "+", digits) for name, one in amounts.items()}


def with_texts(rows: Sequence[Amounts], total: Amounts, currency: str) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """The rows of a table and its last one, each with what it shows of an amount as FIELD_text."""
    known = [row for row in rows if row["difference"] is not None]
    columns = {name: largest_remainder([Fraction(row[name]) for row in known], CENTS) for name in SUMMED}
    shown = [_walk(row, {name: columns[name][0][number] for name in SUMMED}, CENTS) for number, row in enumerate(known)]
    in_all = _walk(total, {name: sums for name, (_, sums) in columns.items()}, CENTS) if known else {}
    amounts = iter(shown)
    found = [{**row, **_texts({} if row["difference"] is None else next(amounts), currency)} for row in rows]
    return found, {**total, **_texts(in_all, currency)}


def _walk(known: Amounts, costs: Mapping[str, Decimal], digits: int) -> dict[str, Decimal]:
    difference = costs["cost"] - costs["cost_before"]
    parts, _ = largest_remainder([Fraction(known[name]) for name in STEPS], digits, given=difference)
    return {**costs, "difference": difference, **dict(zip(STEPS, parts, strict=True))}


def _texts(amounts: Mapping[str, Decimal], currency: str) -> dict[str, str]:
    return {
        f"{name}_text": _said(amounts.get(name), currency, "" if name in COSTS else "+", CENTS)
        for name in (*SUMMED, "difference", *STEPS)
    }


def _said(amount: Decimal | None, currency: str, plus: str, digits: int) -> str:
    if amount is None:
        return UNKNOWN
    size, sign = abs(amount), "−" if amount < 0 else plus if amount > 0 else ""
    short = digits == 0 and size >= MILLIONS
    return sign + (money(size, currency) if short else f"{symbol(currency)}{size:,.{digits}f}")
