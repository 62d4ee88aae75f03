"""The published fragmentation experiment: arrivals only, each tried once, until 130 % of the cluster was asked for.

Rows hold what was allocated, or the fragmentation ratio, by how much had arrived, as the published tables do.
Source: Weng et al., "Beware of Fragmentation", USENIX ATC 2023, and its simulator's analysis scripts, restated.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from scheduler.model import Grant, Request
from scheduler.placement.cluster import Cluster
from scheduler.placement.consolidation import carry_out, make_room
from scheduler.placement.engine import Policy, place
from scheduler.placement.fgd import Fgd
from scheduler.placement.holdings import Holding, Holdings
from scheduler.placement.packing import BestFit, DotProduct, GpuClustering, GpuPacking, RandomFit
from scheduler.placement.shapes import shape_key
from scheduler.simulate.published import Workload

Metric = Literal["allocated", "frag_ratio"]
COLUMNS = tuple(range(131))
"""Percent of the cluster's devices that had been asked for."""

POLICIES: dict[str, Callable[[Workload, int], Policy]] = {
    "fgd": lambda workload, seed: Fgd(workload.demand),
    "bestfit": lambda workload, seed: BestFit(),
    "dotprod": lambda workload, seed: DotProduct(),
    "gpupacking": lambda workload, seed: GpuPacking(),
    "gpuclustering": lambda workload, seed: GpuClustering(),
    "random": lambda workload, seed: RandomFit(seed),
}


@dataclass(frozen=True)
class Point:
    """After one arrival: thousandths of devices that had arrived, are held, and are idle but fragmented."""

    arrived: int
    allocated: int
    fragmented: float


@dataclass(frozen=True)
class Run:
    """points: one after each arrival.   total: thousandths of devices."""

    workload: str
    policy: str
    seed: int
    total: int
    points: tuple[Point, ...]
    failed: int
    moves: int = 0

    def row(self, metric: Metric) -> list[float | None]:
        """By COLUMNS: the mean over the points that round to that percent arrived, or to one beside it if none does;
        None where there is neither."""
        values: dict[int, list[float]] = {}
        for point in self.points:
            value = self._value(point, metric)
            if value is not None:
                values.setdefault(round(100 * point.arrived / self.total), []).append(value)
        return [_mean(values, column, metric) for column in COLUMNS]

    def _value(self, point: Point, metric: Metric) -> float | None:
        if metric == "allocated":
            return round(100 * point.allocated / self.total, 2)
        idle = self.total - point.allocated
        return round(100 * point.fragmented / idle, 2) if idle else None


def run(workload: Workload, policy: str, seed: int, most_moves: int = 0) -> Run:
    """One run of the experiment, on the scheduler's own placement.

    most_moves: how many held replicas may be moved for an arrival that does not fit otherwise. Nothing ever leaves, so
    a request for which moves made no room once is not tried again.
    """
    cluster = Cluster(workload.nodes[seed])
    holdings = Holdings(cluster)
    chosen = POLICIES[policy](workload, seed)
    measured = chosen if isinstance(chosen, Fgd) else Fgd(workload.demand)
    fragmentation = measured.fragmentation(cluster)
    total = int(cluster.capacity.sum())
    arrived = allocated = failed = moves = 0
    given_up: set[Hashable] = set()
    points: list[Point] = []
    for number, name in enumerate(workload.arrivals[seed]):
        request = workload.requests[name]
        asked = workload.shapes[name].arriving_milli
        arrived += asked
        grant = place(cluster, request, chosen)
        if grant is None and most_moves and shape_key(request) not in given_up:
            grant, moved = _with_moves(cluster, holdings, request, chosen, most_moves)
            moves += moved
            if grant is None:
                given_up.add(shape_key(request))
        if grant is None:
            failed += 1
        else:
            cluster.take(grant, request)
            allocated += asked
            if most_moves:
                holdings.add(Holding(str(number), 0, request, grant))
        points.append(Point(arrived, allocated, fragmentation.fragmented()))
    return Run(workload.name, policy, seed, total, tuple(points), failed, moves)


def _with_moves(
    cluster: Cluster, holdings: Holdings, request: Request, policy: Policy, most_moves: int
) -> tuple[Grant | None, int]:
    """The grant after moves that make room for it, which are carried out; and how many there were."""
    proposal = make_room(cluster, holdings, request, policy, most_moves=most_moves)
    if proposal is None:
        return None, 0
    carry_out(cluster, proposal)
    for move in proposal.moves:
        holdings.add(replace(move.holding, grant=move.to))
    return proposal.grants[0], len(proposal.moves)


def _mean(values: dict[int, list[float]], column: int, metric: Metric) -> float | None:
    """numpy's mean and rounding, as the published tables were made: they decide where 87.945 goes."""
    found = values.get(column) or [v for near in (column - 1, column, column + 1) for v in values.get(near, ())]
    if not found:
        return None
    mean = float(np.mean(found))
    return float(np.round(mean, 2)) if metric == "allocated" else mean
