"""Exact sums of unit-milliseconds and money, rounded once.

A GPU-hour is device_units x 3,600,000 unit-milliseconds, so hours of unlike devices add up as fractions only. Sums are
kept as integers over one denominator, which is many times faster than adding fractions and just as exact.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction

MICRO = 10**6
NANO = 10**9
DIGITS = 9
"""After the point, in quantities and unrounded costs that are shown."""


@dataclass(frozen=True)
class Scale:
    """What the integer sums of one answer stand for: an hour is `hour`, a unit of currency `hour * NANO`."""

    device_units: int

    @classmethod
    def of(cls, device_units: Iterable[int]) -> Scale:
        """The scale on which devices with these numbers of units add up."""
        return cls(math.lcm(*device_units))

    @functools.cached_property
    def hour(self) -> int:
        return self.device_units * 3_600_000 * MICRO

    def quantity(self, unit_micro_ms: int, device_units: int) -> int:
        """A millionth of a unit-millisecond, times so many, on a device with so many units."""
        return unit_micro_ms * (self.device_units // device_units)

    def hours(self, quantity: int, digits: int = DIGITS) -> Decimal:
        """A sum of quantities in GPU-hours, rounded."""
        return quotient(quantity, self.hour, digits)

    def money(self, cost: int) -> Fraction:
        """A sum of quantities, each times its price in billionths."""
        return Fraction(cost, self.hour * NANO)


@functools.lru_cache(4096)
def price_nano(price: Decimal) -> int:
    """A price of at most nine digits after the point, in billionths."""
    return int(Fraction(price) * NANO)


def rounded(value: Fraction, digits: int = DIGITS) -> Decimal:
    """The value with so many digits after the point, half to even."""
    return quotient(value.numerator, value.denominator, digits)


def quotient(numerator: int, denominator: int, digits: int = DIGITS) -> Decimal:
    """The same of numerator / denominator (positive), without reducing the fraction first."""
    whole, rest = divmod(numerator * 10**digits, denominator)
    if 2 * rest > denominator or (2 * rest == denominator and whole % 2):
        whole += 1
    return Decimal(f"{whole}e-{digits}")
