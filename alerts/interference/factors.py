"""Speeds of workload classes beside each other, as input for a scheduler's anti-interference score."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime

from billing.rates.globs import expression
from warehouse.store import Store, read_sql


@dataclass(frozen=True)
class Factor:
    """speed: 1 / S, the mean of n windows; 1 = as alone, 0.5 = half as fast. pairs: different workloads that met."""

    speed: float
    n: int
    pairs: int

    @property
    def interference(self) -> float:
        """I = 1 - speed, as schedulers have it: the part that is lost."""
        return 1 - self.speed


def colocation_factors(
    store: Store,
    since: datetime,
    until: datetime,
    model: str = "*",
    class_of: Callable[[str], str] = str,
    cluster: str = "*",
) -> Mapping[tuple[str, str], Factor]:
    """(class a, class b) -> how fast a runs beside b, on devices of the model (a glob) in the clusters (too).

    Of measured windows with one neighbour alone. class_of: an identity's class; by default itself.
    Shape:  both directions are entries of their own; a pair that was never measured has none, which is no factor of 1.
    """
    params = {"since": since, "until": until, "model": expression(model), "cluster": expression(cluster)}
    parts: dict[tuple[str, str], list[Factor]] = defaultdict(list)
    for row in store.rows(read_sql(__file__, "speeds"), params):
        pair = (class_of(row["identity"]), class_of(row["neighbour"]))
        parts[pair].append(Factor(row["speed"], row["windows"], row["pairs"]))
    return {pair: _mean(found) for pair, found in parts.items()}


def _mean(parts: list[Factor]) -> Factor:
    n = sum(part.n for part in parts)
    return Factor(sum(part.speed * part.n for part in parts) / n, n, sum(part.pairs for part in parts))


def speeds(factors: Mapping[tuple[str, str], Factor], least: int = 5) -> dict[tuple[str, str], float]:
    """(class a, class b) -> speed, for pairs that were measured in at least so many windows."""
    return {pair: factor.speed for pair, factor in factors.items() if factor.n >= least}
