"""Quantiles of many values in little memory: counts in buckets whose edges grow by a constant ratio.

A quantile is off by at most 1 % of itself; count, sum, least and greatest are exact. The memory is the logarithm of the
range: about 1,200 buckets from a millisecond to a year, however many values there were.
Source:  the sketch of Masson, Rim, Lee: DDSketch, VLDB 2019.
"""

from __future__ import annotations

import math
from collections import Counter

ERROR = 0.01
_RATIO = (1 + ERROR) / (1 - ERROR)
_LOG = math.log(_RATIO)
LEAST = 0.001
"""Values below it count as zero."""


class Quantiles:
    """Quantiles of non-negative values."""

    __slots__ = ("_buckets", "count", "greatest", "least", "total", "zeros")

    def __init__(self) -> None:
        self._buckets: Counter[int] = Counter()
        self.count = self.zeros = 0
        self.total = self.greatest = 0.0
        self.least = math.inf

    def add(self, value: float) -> None:
        self.count += 1
        self.total += value
        self.greatest = max(self.greatest, value)
        self.least = min(self.least, value)
        if value < LEAST:
            self.zeros += 1
        else:
            self._buckets[math.ceil(math.log(value) / _LOG)] += 1

    def merge(self, other: Quantiles) -> None:
        self.count += other.count
        self.zeros += other.zeros
        self.total += other.total
        self.greatest = max(self.greatest, other.greatest)
        self.least = min(self.least, other.least)
        self._buckets.update(other._buckets)

    @property
    def mean(self) -> float | None:
        return self.total / self.count if self.count else None

    def at(self, quantile: float) -> float | None:
        """The smallest value that at least this part (0-1) of all values do not exceed; None without values."""
        if not self.count:
            return None
        rank = max(1, math.ceil(quantile * self.count - 1e-9))
        if rank >= self.count:
            return self.greatest
        seen = self.zeros
        if rank <= seen:
            return 0.0
        for bucket in sorted(self._buckets):
            seen += self._buckets[bucket]
            if rank <= seen:
                return max(self.least, min(self.greatest, 2 * _RATIO**bucket / (_RATIO + 1)))
        return self.greatest
