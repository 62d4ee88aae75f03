"""Sums of ledger entries: GPU-hours of each kind and their cost, exact until they are displayed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from decimal import Decimal
from fractions import Fraction
from typing import Any

from billing.exact import NANO, Scale, price_nano, quotient
from warehouse.errors import LedgerError

KINDS = ("used", "idle", "unmetered")
"""Of allocated time."""


def one_currency(rows: Iterable[Mapping[str, Any]]) -> str | None:
    """The currency of the rows' prices; None if none has a price. Errors: LedgerError if there are two."""
    currencies = sorted({row["billing_currency"] for row in rows if row["list_unit_price"] is not None})
    if len(currencies) > 1:
        raise LedgerError(
            "ledger", f"holds prices in {' and '.join(currencies)}, which do not add up", "Run: gpuledger close"
        )
    return currencies[0] if currencies else None


class LedgerSum:
    """Sums of ledger entries at their prices: integers over one scale (see `billing.exact`).

    It adds rows that give `<kind>_micro_ms` (millionths of a unit-millisecond), `device_units` and the two unit prices.
    """

    def __init__(self, scale: Scale) -> None:
        self.scale = scale
        self.kinds = dict.fromkeys(KINDS, 0)
        self.quantity = self.unpriced = self.listed = self.contracted = 0
        self.priced = False

    def add(self, row: Mapping[str, Any], *kinds: str) -> None:
        quantity = 0
        for kind in kinds:
            part = self.scale.quantity(row[f"{kind}_micro_ms"], row["device_units"])
            quantity += part
            if kind in self.kinds:
                self.kinds[kind] += part
        self.quantity += quantity
        if row["list_unit_price"] is None or row["contracted_unit_price"] is None:
            self.unpriced += quantity
        else:
            self.priced = self.priced or quantity != 0
            self.listed += quantity * price_nano(row["list_unit_price"])
            self.contracted += quantity * price_nano(row["contracted_unit_price"])

    def merge(self, other: LedgerSum) -> None:
        """Adds another sum on the same scale."""
        for kind, part in other.kinds.items():
            self.kinds[kind] += part
        self.quantity += other.quantity
        self.unpriced += other.unpriced
        self.listed += other.listed
        self.contracted += other.contracted
        self.priced = self.priced or other.priced

    def hours(self) -> Decimal:
        return self.scale.hours(self.quantity)

    def billed(self) -> Fraction:
        """Unrounded, at the contracted price; without the part that has none."""
        return self.scale.money(self.contracted)

    def list_cost(self) -> Decimal | None:
        return self._cost(self.listed)

    def exact_hours(self) -> Fraction:
        return Fraction(self.quantity, self.scale.hour)

    def list_billed(self) -> Fraction:
        """Unrounded, at the list price; without the part that has none."""
        return self.scale.money(self.listed)

    def measures(self, currency: str | None) -> dict[str, Any]:
        metered = self.quantity - self.kinds["unmetered"]
        return {
            "allocated_gpu_hours": self.hours(),
            **{f"{kind}_gpu_hours": self.scale.hours(part) for kind, part in self.kinds.items()},
            "unpriced_gpu_hours": self.scale.hours(self.unpriced),
            "list_cost": self._cost(self.listed),
            "billed_cost": self._cost(self.contracted),
            "currency": currency,
            "coverage": quotient(metered, self.quantity) if self.quantity else None,
        }

    def _cost(self, cost: int) -> Decimal | None:
        """Unknown only where something has no price and nothing has one; nothing at all costs nothing."""
        return None if self.unpriced and not self.priced else quotient(cost, self.scale.hour * NANO)
