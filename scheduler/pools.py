"""The capacity of each pool by state: allocated, available, reserved, unavailable; these sum to the total.

One line per model and pool, in device units; a whole device is `units_per_gpu` of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from scheduler.cycle.state import State

PARTS = ("allocated", "available", "reserved", "unavailable")


@dataclass(frozen=True, slots=True)
class PoolLine:
    """Device units. total: of all devices, the sum of the rest.   allocated: held by jobs, from the decision on, also
    on nodes that have failed since.   available: free for anybody whose quota allows it.   reserved: free, and kept
    from ordinary jobs by the pool, or for tenants by a reservation that holds now, or by the node's state.
    unavailable: free on nodes in maintenance or failed."""

    pool: str
    model: str
    units_per_gpu: int
    total: int
    allocated: int
    available: int
    reserved: int
    unavailable: int

    def gpus(self, part: str) -> float:
        """A part of it in whole devices."""
        return float(getattr(self, part)) / self.units_per_gpu


def pool_lines(state: State, now: float) -> list[PoolLine]:
    """Of all pools as they are in the state, with the reservations of that instant; by pool and model."""
    cluster, where = state.cluster, _states(state, now)
    capacity, free = cluster.capacity.tolist(), cluster.free.tolist()
    sums: dict[tuple[str, str, int], dict[str, int]] = {}
    for number, node in enumerate(cluster.nodes):
        part = where.get(number) or _PART_OF_STATE[cluster.states[number]]
        for index, device in enumerate(node.devices):
            line = sums.setdefault((node.pool, device.model, device.units), dict.fromkeys(PARTS, 0))
            line["allocated"] += capacity[number][index] - free[number][index]
            line[part] += free[number][index]
    if cluster.headroom is not None:
        for kind, left in zip(cluster.headroom.kinds, cluster.headroom.left().tolist(), strict=True):
            line = sums[kind]
            reserved = max(0, line["available"] - max(0, left))
            line["available"] -= reserved
            line["reserved"] += reserved
    return [PoolLine(*kind, sum(line.values()), *(line[part] for part in PARTS)) for kind, line in sorted(sums.items())]


_PART_OF_STATE: Mapping[str, str] = {
    "available": "available",
    "reserved": "reserved",
    "maintenance": "unavailable",
    "failed": "unavailable",
}


def _states(state: State, now: float) -> dict[int, str]:
    """Where free devices belong of nodes that a window keeps now; maintenance before reservations."""
    found: dict[int, str] = {}
    for window in sorted(state.reservations, key=lambda window: not window.tenants):
        if window.start <= now < window.end:
            for node in window.nodes:
                if state.cluster.states[node] in ("available", "reserved"):
                    found[node] = "reserved" if window.tenants else "unavailable"
    return found
