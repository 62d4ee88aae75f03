"""The capacity of each pool by state: allocated, available, reserved, unavailable; these sum to the total.

One line per model and pool, in device units; a whole device is `units_per_gpu` of them.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

from scheduler.cycle.state import State
from scheduler.placement.headroom import Kind

PARTS = ("allocated", "available", "reserved", "unavailable")


@dataclass(frozen=True, slots=True)
class PoolLine:
    """Device units. total: of all devices, the sum of the rest.   allocated: held by jobs, from the decision on, also
    on nodes that have failed since.   available: free for anybody whose quota allows it.   reserved: free, and kept
    from ordinary jobs by the pool, or for tenants by a reservation that holds now, or by the node's state.
    unavailable: free on nodes in maintenance or failed.   draining: held on nodes that have left the pool, and not in
    the total."""

    pool: str
    model: str
    units_per_gpu: int
    total: int
    allocated: int
    available: int
    reserved: int
    unavailable: int
    draining: int = 0

    def gpus(self, part: str) -> float:
        """A part of it in whole devices."""
        return float(getattr(self, part)) / self.units_per_gpu


def pool_lines(state: State, now: float, left: Collection[str] = ()) -> list[PoolLine]:
    """Of all pools as they are in the state, with the reservations of that instant; by pool and model.

    left: nodes that are in no pool any more.
    """
    cluster, where = state.cluster, _states(state, now)
    capacity, free = cluster.capacity.tolist(), cluster.free.tolist()
    sums: dict[Kind, dict[str, int]] = {}
    draining: dict[Kind, int] = {}
    for number, node in enumerate(cluster.nodes):
        part = where.get(number) or _PART_OF_STATE[cluster.states[number]]
        for index, device in enumerate(node.devices):
            held = capacity[number][index] - free[number][index]
            kind = Kind(node.pool, device.model, device.units)
            if node.name in left:
                draining[kind] = draining.get(kind, 0) + held
                continue
            line = sums.setdefault(kind, dict.fromkeys(PARTS, 0))
            line["allocated"] += held
            line[part] += free[number][index]
    if cluster.headroom is not None:
        for kind, ordinary in zip(cluster.headroom.kinds, cluster.headroom.left().tolist(), strict=True):
            line = sums.get(kind, dict.fromkeys(PARTS, 0))
            kept = max(0, line["available"] - max(0, ordinary))
            line["available"] -= kept
            line["reserved"] += kept
    for kind in draining.keys() - sums.keys():
        if draining[kind]:
            sums[kind] = dict.fromkeys(PARTS, 0)
    return [
        replace(
            PoolLine(kind.pool, kind.model, kind.units, sum(line.values()), *(line[part] for part in PARTS)),
            draining=draining.get(kind, 0),
        )
        for kind, line in sorted(sums.items())
    ]


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
