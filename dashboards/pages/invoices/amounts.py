"""Amounts as on documents."""

from __future__ import annotations

from decimal import Decimal

from billing.money import minor_digits
from dashboards.format import UNKNOWN, symbol


def exact(value: Decimal | str | None, currency: str) -> str:
    """To the last cent."""
    return UNKNOWN if value is None else f"{symbol(currency)}{Decimal(value):,.{minor_digits(currency)}f}"
