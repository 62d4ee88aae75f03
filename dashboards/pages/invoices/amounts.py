"""Amounts as on documents."""

from __future__ import annotations

from decimal import Decimal

from billing.money import minor_digits
from dashboards.format import UNKNOWN, symbol


def exact(value: Decimal | str | None, currency: str) -> str:
    """To the last cent."""
    if value is None:
        return UNKNOWN
    amount = Decimal(value)
    return f"{'−' if amount < 0 else ''}{symbol(currency)}{abs(amount):,.{minor_digits(currency)}f}"
