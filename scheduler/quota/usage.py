"""Decaying usage: unit-seconds, halved with every half-life.

Computed in closed form at the instant it is asked for, so that nothing depends on how often anybody looks. What a
start will use in its first seconds counts at once (the entry penalty): otherwise a flood of starts at one instant
would all be judged by the usage before it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(slots=True)
class Remembered:
    """value: decayed unit-seconds at `at`.   rate: units held since."""

    value: float = 0.0
    rate: int = 0
    at: float = 0.0


@dataclass(slots=True)
class DecayedUsage:
    """Of many tenants. half_life: seconds; 0 = nothing is remembered and every usage is 0.   since: when it began."""

    half_life: float
    since: float = 0.0
    entry_penalty_seconds: float = 0.0
    _of: dict[str, Remembered] = field(default_factory=dict)

    def change(self, name: str, units: int, now: float, penalty: bool = True) -> None:
        """It holds `units` more (fewer, if negative) from now on; what it takes pays the entry penalty."""
        if not self.half_life:
            return
        one = self._advance(name, now)
        one.rate += units
        if penalty:
            one.value += max(0, units) * self.entry_penalty_seconds

    def at(self, name: str, now: float) -> float:
        """Decayed unit-seconds up to now. Changes nothing."""
        one = self._of.get(name)
        return 0.0 if one is None or not self.half_life else decayed(one.value, one.rate, now - one.at, self.half_life)

    def relative(self, name: str, now: float, capacity: int) -> float:
        """As a part of what the pool's capacity gave over the same time, as much forgotten."""
        if not self.half_life:
            return 0.0
        whole = decayed(0.0, capacity, now - self.since, self.half_life)
        return self.at(name, now) / whole if whole else 0.0

    def snapshot(self, now: float) -> Mapping[str, float]:
        """Everybody's decayed unit-seconds, to be kept over a restart."""
        return {name: self.at(name, now) for name in sorted(self._of)}

    def restore(self, values: Mapping[str, float], now: float) -> None:
        """What `snapshot` answered, before anything is held."""
        self._of = {name: Remembered(value, 0, now) for name, value in values.items()}

    def _advance(self, name: str, now: float) -> Remembered:
        one = self._of.setdefault(name, Remembered(at=now))
        one.value = decayed(one.value, one.rate, now - one.at, self.half_life)
        one.at = max(one.at, now)
        return one


def decayed(value: float, rate: float, seconds: float, half_life: float) -> float:
    """Unit-seconds after `seconds` in which `rate` units were held, from `value` before."""
    if seconds <= 0:
        return value
    remaining = math.exp2(-seconds / half_life)
    return value * remaining + rate * half_life / math.log(2) * (1 - remaining)
