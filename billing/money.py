"""Amounts that can be paid: whole minor units of a currency."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction
from math import floor

from billing.exact import rounded

_CURRENCIES_BY_DIGITS = {
    0: "BIF CLP DJF GNF ISK JPY KMF KRW PYG RWF UGX UYI VND VUV XAF XOF XPF",
    3: "BHD IQD JOD KWD LYD OMR TND",
    4: "CLF UYW",
}
MINOR_DIGITS = {code: digits for digits, codes in _CURRENCIES_BY_DIGITS.items() for code in codes.split()}
"""ISO 4217's digits after the point, where they are not 2."""


def minor_digits(currency: str) -> int:
    """Digits after the point of an amount in the currency."""
    return MINOR_DIGITS.get(currency, 2)


def largest_remainder(costs: Sequence[Fraction], digits: int) -> tuple[list[Decimal], Decimal]:
    """Amounts that can be paid for the costs, and their total.

    The total is the exact sum, rounded once, half to even. Each cost is cut down to whole minor units, and what is
    missing to the total goes, one minor unit each, to the costs that lost most; among equals to the earlier one.
    So no amount is a whole minor unit away from its cost, and the amounts sum to the total.
    """
    minor = 10**digits
    whole = [floor(cost * minor) for cost in costs]
    total = round(sum(costs, Fraction(0)) * minor)
    by_loss = sorted(range(len(costs)), key=lambda number: (whole[number] - costs[number] * minor, number))
    for number in by_loss[: total - sum(whole)]:
        whole[number] += 1
    return [rounded(Fraction(amount, minor), digits) for amount in whole], rounded(Fraction(total, minor), digits)
