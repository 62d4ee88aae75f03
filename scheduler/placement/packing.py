"""Packing scores: best fit, dot product, GPU packing, GPU clustering, random.

Each is 0 to 100, cut to a whole number; the first node with the highest wins. They take the tightest devices.
Normalised by the cluster's own largest node, which is what the published experiment's constants are of its nodes.
Source: the plugins of hkust-adsl/kubernetes-scheduler-simulator (USENIX ATC 2023), restated.
"""

from __future__ import annotations

import random
from abc import abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

from scheduler.placement.cluster import IntArray
from scheduler.placement.engine import Policy, Scorer
from scheduler.placement.shapes import NEVER, Shape


class _Packing(Scorer):
    """A score computed from what is left on the nodes."""

    def __init__(self, shape: Shape) -> None:
        self.shape, self.cluster = shape, shape.cluster

    @abstractmethod
    def scores(self, nodes: IntArray) -> IntArray: ...

    def devices(self, node: int) -> tuple[int, ...]:
        return self.shape.tightest(node)

    def asked(self) -> IntArray:
        """By node: what the request takes there, as parts of the cluster's scale."""
        c = self.cluster
        need = c.scaled(np.where(self.shape.need == NEVER, 0, self.shape.need))
        asked: IntArray = need.max(axis=1, initial=0) * self.shape.request.devices
        return asked


class First(Policy):
    """The first node with the highest score."""

    @abstractmethod
    def scorer(self, shape: Shape) -> Scorer: ...

    def pick(self, scores: IntArray) -> int:
        if not scores.size:
            return -1
        best = int(scores.argmax())
        return best if scores[best] >= 0 else -1


class BestFit(First):
    """Least left over, CPU and GPU alike.

    The published plugin spreads the scores of a decision over 0 to 100 afterwards; that moves no first place.
    """

    def scorer(self, shape: Shape) -> Scorer:
        return _BestFit(shape)


class _BestFit(_Packing):
    def __init__(self, shape: Shape) -> None:
        super().__init__(shape)
        self._asked = self.asked()

    def scores(self, nodes: IntArray) -> IntArray:
        c = self.cluster
        cpu = (c.cpu_free[nodes] - self.shape.request.cpu_milli) / c.most_cpu * 0.5
        gpu = (c.parts_free[nodes] - self._asked[nodes]) / c.most_parts * 0.5
        return ((1.0 - (cpu + gpu)) * 100).astype(np.int64)


class DotProduct(First):
    """Least aligned: what is asked, times what is free (Tetris)."""

    def scorer(self, shape: Shape) -> Scorer:
        return _DotProduct(shape)


class _DotProduct(_Packing):
    def __init__(self, shape: Shape) -> None:
        super().__init__(shape)
        self._asked = self.asked()

    def scores(self, nodes: IntArray) -> IntArray:
        c = self.cluster
        cpu = (c.cpu_free[nodes] / c.most_cpu) * (self.shape.request.cpu_milli / c.most_cpu)
        gpu = (c.parts_free[nodes] / c.most_parts) * (self._asked[nodes] / c.most_parts)
        return (100 * (1 - (cpu + gpu) / 2)).astype(np.int64)


class GpuPacking(First):
    """Devices in use first, then free devices of nodes in use, then free nodes; no preference without devices."""

    def scorer(self, shape: Shape) -> Scorer:
        return _GpuPacking(shape)


class _GpuPacking(_Packing):
    def scores(self, nodes: IntArray) -> IntArray:
        return np.array([self._score(node) for node in nodes.tolist()], dtype=np.int64)

    def _score(self, node: int) -> int:
        c, request = self.cluster, self.shape.request
        if not request.devices:
            return 0
        free: list[int] = c.free[node].tolist()
        capacity: list[int] = c.capacity[node].tolist()
        whole = [has > 0 and left == has for left, has in zip(free, capacity, strict=True)]
        free_devices = sum(whole)
        if free_devices == len(c.nodes[node].devices):
            return max(33 - free_devices, free_devices)
        taken = self.shape.instance_grant(node).devices if request.profile else self.shape.tightest(node)
        free_taken = sum(whole[d] for d in taken)
        if free_taken:
            return max(50 - free_taken, 33)
        left = sum(free[d] * 100 // capacity[d] for d in taken)
        return max(100 - left // 10, 50)


class GpuClustering(First):
    """Nodes that hold only grants of the same size (a share, one device, two, ...), then others that hold one."""

    def scorer(self, shape: Shape) -> Scorer:
        return _GpuClustering(shape)


class _GpuClustering(_Packing):
    def scores(self, nodes: IntArray) -> IntArray:
        c, request = self.cluster, self.shape.request
        if not request.devices:
            return np.zeros(len(nodes), dtype=np.int64)
        need, capacity = self.shape.need[nodes], c.capacity[nodes]
        shared = ((need != NEVER) & (need < capacity)).any(axis=1)
        size = np.where(shared, 0, request.devices)
        held = c.holders[nodes] > 0
        sizes = held.sum(axis=1)
        same = held[np.arange(len(nodes)), size]
        base = 25 * (c.most_parts - c.parts_free[nodes]) // c.most_parts
        bonus = np.where(same, np.where(sizes == 1, 75, 50), np.where(sizes == 0, 25, 0))
        found: IntArray = base + bonus
        return found


class RandomFit(Policy):
    """Any node on which it fits, and any of its devices, with equal chance. The same seed chooses the same."""

    def __init__(self, seed: int) -> None:
        self.seed, self.random = seed, random.Random(seed)  # noqa: S311 - chooses nodes, no secrets
        self.draws = True

    def scorer(self, shape: Shape) -> Scorer:
        return _Random(shape, self.random)

    def pick(self, scores: IntArray) -> int:
        fitting = np.flatnonzero(scores >= 0)
        return int(fitting[self.random.randrange(fitting.size)]) if fitting.size else -1

    def begin(self, moment: float) -> None:
        self.random.seed(f"{self.seed} {moment}")

    @contextmanager
    def aside(self) -> Iterator[None]:
        before = self.random.getstate()
        try:
            yield
        finally:
            self.random.setstate(before)


class _Random(_Packing):
    def __init__(self, shape: Shape, rng: random.Random) -> None:
        super().__init__(shape)
        self.random = rng

    def scores(self, nodes: IntArray) -> IntArray:
        return np.zeros(len(nodes), dtype=np.int64)

    def devices(self, node: int) -> tuple[int, ...]:
        return tuple(sorted(self.random.sample(self.shape.usable_devices(node), self.shape.request.devices)))
