"""Finds the fewest nodes with which a trace keeps a bound on waits, by bisection.

More nodes nearly always mean shorter waits, but not always (one node more may lead to a worse packing). The result was
simulated and keeps the bound, and one node fewer was simulated and does not.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from warehouse.errors import LedgerError

MOST_NODES = 1 << 16


@dataclass(frozen=True)
class Tried:
    """wait: seconds at the quantile asked for; None if some job could never start."""

    nodes: int
    wait: float | None


@dataclass(frozen=True)
class Capacity:
    """tried: every size that was simulated, in that order."""

    nodes: int
    tried: tuple[Tried, ...]


def fewest_nodes(wait_with: Callable[[int], float | None], bound: float, least: int = 1) -> Capacity:
    """The fewest nodes (at least `least`) with which the wait is at most `bound` seconds.

    wait_with: simulates so many nodes.   Errors: LedgerError if MOST_NODES do not keep it.
    """
    tried: list[Tried] = []

    def keeps(nodes: int) -> bool:
        wait = wait_with(nodes)
        tried.append(Tried(nodes, wait))
        return wait is not None and wait <= bound

    low, high = least - 1, least
    while not keeps(high):
        if high >= MOST_NODES:
            raise LedgerError(f"{high:,} nodes", f"do not keep the wait under {bound:g} s", "Some job fits on no node")
        low, high = high, min(high * 2, MOST_NODES)
    while high - low > 1:
        middle = (low + high) // 2
        if keeps(middle):
            high = middle
        else:
            low = middle
    return Capacity(high, tuple(tried))
