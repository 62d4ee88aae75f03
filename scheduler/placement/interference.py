"""Anti-interference: places shares of devices where measured co-location slows workloads down least.

`speeds[a, b]` is the measured speed of a workload of class a next to one of class b, 1 being its speed alone; pairs
that were not measured have the speed `unknown`.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager

import numpy as np

from scheduler.placement.cluster import IntArray
from scheduler.placement.engine import Policy, Scorer
from scheduler.placement.packing import First
from scheduler.placement.shapes import Shape

_BASE = 1000
"""Scores of the other policy are below it, so they decide between places of equal interference."""


class AntiInterference(First):
    """By the class of each request (Request.workload_class) and those of its neighbours; one without a class is placed
    as `base` would."""

    def __init__(self, speeds: Mapping[tuple[str, str], float], base: Policy, unknown: float = 0.937) -> None:
        """base: decides between equals.   unknown: the mean of 1,388 measured pairs on one GPU (Lucid, ASPLOS 2023)."""
        self.speeds, self.base, self.unknown = dict(speeds), base, unknown
        self.draws = base.draws

    def scorer(self, shape: Shape) -> Scorer:
        return _AntiInterference(self, shape) if shape.request.workload_class else self.base.scorer(shape)

    def begin(self, moment: float) -> None:
        self.base.begin(moment)

    def aside(self) -> AbstractContextManager[None]:
        return self.base.aside()

    def slowdown(self, own: str, neighbours: Mapping[str, int]) -> float:
        """Total speed lost by a workload of class `own` and these neighbours (count by class), in workloads at full
        speed."""
        speed = self.speeds
        return sum(
            count * (2 - speed.get((own, other), self.unknown) - speed.get((other, own), self.unknown))
            for other, count in neighbours.items()
        )


class _AntiInterference(Scorer):
    def __init__(self, policy: AntiInterference, shape: Shape) -> None:
        self.policy, self.shape, self.base = policy, shape, policy.base.scorer(shape)

    def scores(self, nodes: IntArray) -> IntArray:
        base = np.minimum(self.base.scores(nodes), _BASE - 1)
        speeds = [self._speed(node) for node in nodes.tolist()]
        return np.array(speeds, dtype=np.int64) * _BASE + base

    def devices(self, node: int) -> tuple[int, ...]:
        by_slowdown = sorted(self.shape.usable_devices(node), key=lambda d: (self._slowdown(node, d), d))
        chosen = by_slowdown[: self.shape.request.devices]
        liked = self.base.devices(node)
        if sum(self._slowdown(node, d) for d in liked) <= sum(self._slowdown(node, d) for d in chosen):
            return liked
        return tuple(sorted(chosen))

    def _speed(self, node: int) -> int:
        """Remaining speed, 0 to 100, on the devices that would be taken on the node."""
        request = self.shape.request
        taken = self.shape.instance_grant(node).devices if request.profile else self.devices(node)
        lost = sum(self._slowdown(node, d) for d in taken) if request.devices else 0.0
        return max(0, round(100 * (1 - lost / max(1, request.devices))))

    def _slowdown(self, node: int, device: int) -> float:
        own = self.shape.request.workload_class
        return self.policy.slowdown(own, self.shape.cluster.residents.get((node, device), {}))
