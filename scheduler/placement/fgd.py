"""FGD: chooses the node and devices on which the request adds least fragmentation for a typical demand.

Source: Weng et al., "Beware of Fragmentation", USENIX ATC 2023; score and rounding as in its published simulator.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field
from math import exp
from weakref import WeakKeyDictionary, WeakValueDictionary

import numpy as np

from scheduler.placement.cluster import Cluster, IntArray
from scheduler.placement.engine import Scorer
from scheduler.placement.fragmentation import LEVEL_BITS, Demand, Fragmentation
from scheduler.placement.packing import First
from scheduler.placement.shapes import Shape


class Fgd(First):
    """The score is 100 times the sigmoid of the fragmented devices that the request frees, cut to a whole number."""

    def __init__(self, demand: Demand) -> None:
        self.demand = demand
        self._measured: WeakKeyDictionary[Cluster, Fragmentation] = WeakKeyDictionary()
        self._scored: WeakKeyDictionary[Cluster, WeakValueDictionary[Hashable, _Scored]] = WeakKeyDictionary()

    def fragmentation(self, cluster: Cluster) -> Fragmentation:
        """The cluster's fragmentation for the policy's demand; shared by all that ask."""
        found = self._measured.get(cluster)
        if found is None:
            found = self._measured[cluster] = Fragmentation(cluster, self.demand)
        return found

    def scorer(self, shape: Shape) -> Scorer:
        request = shape.request
        of_devices = (request.devices, request.units, request.models, request.profile)
        by_devices = self._scored.setdefault(shape.cluster, WeakValueDictionary())
        return _Fgd(shape, self.fragmentation(shape.cluster), by_devices.setdefault(of_devices, _Scored()))


@dataclass(eq=False, slots=True, weakref_slot=True)
class _Scored:
    """Cache for all shapes with the same device part: by a node's states and its levels before and after, the score,
    and the states of the best device."""

    scores: dict[int, int] = field(default_factory=dict)
    liked: dict[int, frozenset[int]] = field(default_factory=dict)


class _Fgd(Scorer):
    """A node's score depends on its devices' states and on the levels of its CPU before and after, so each such triple
    is scored once; unless device memory is requested, which the states do not contain."""

    def __init__(self, shape: Shape, fragmentation: Fragmentation, scored: _Scored) -> None:
        self.shape, self.fragmentation = shape, fragmentation
        request = shape.request
        self._shared = request.devices == 1 and request.units > 0 and not request.profile
        self._scored = scored

    def scores(self, nodes: IntArray) -> IntArray:
        f = self.fragmentation
        f.refresh()
        after = f.levels_of(self.shape.cluster.cpu_free[nodes] - self.shape.request.cpu_milli)
        if self.shape.request.memory_bytes:
            pairs = zip(nodes.tolist(), after.tolist(), strict=True)
            return np.array([self._computed(node, level)[0] for node, level in pairs], np.int64)
        keys: list[int] = (f.state_level[nodes] << LEVEL_BITS | after).tolist()
        known = self._scored.scores
        if len(known) > _MOST_SCORED:
            known.clear()
            self._scored.liked.clear()
        for position, key in enumerate(keys):
            if key not in known:
                known[key], self._scored.liked[key] = self._computed(nodes.item(position), after.item(position))
        return np.array([known[key] for key in keys], np.int64)

    def devices(self, node: int) -> tuple[int, ...]:
        if not self._shared:
            return self.shape.tightest(node)
        f = self.fragmentation
        f.refresh()
        after = f.level(self.shape.cluster.cpu_free.item(node) - self.shape.request.cpu_milli)
        key = f.state_level.item(node) << LEVEL_BITS | after
        if self.shape.request.memory_bytes or key not in self._scored.liked:
            liked = self._computed(node, after)[1]
        else:
            liked = self._scored.liked[key]
        return (next(d for d in self.shape.usable_devices(node) if f.devices[node][d] in liked),)

    def _computed(self, node: int, level: int) -> tuple[int, frozenset[int]]:
        """The best score on the node, and the states of devices that give it, where there is a choice of one."""
        f = self.fragmentation
        devices = f.devices[node]
        before = f.of(f.states[node], f.levels[node])
        if not self.shape.request.devices:
            return self._score(before, f.of(f.states[node], level)), frozenset()
        if not self._shared:
            return self._score(before, f.of(self._taken(node, devices), level)), frozenset()
        scores: dict[int, int] = {}
        for d in self.shape.usable_devices(node):
            if devices[d] not in scores:
                left = tuple(sorted([*devices[:d], devices[d] - (self._parts(node, d) << 8), *devices[d + 1 :]]))
                scores[devices[d]] = self._score(before, f.of(left, level))
        best = max(scores.values())
        return best, frozenset(code for code, score in scores.items() if score == best)

    def _taken(self, node: int, devices: list[int]) -> tuple[int, ...]:
        """The devices' states with the whole request taken."""
        left = list(devices)
        if self.shape.request.profile:
            grant = self.shape.instance_grant(node)
            for d, start in zip(grant.devices, grant.starts, strict=True):
                cut = self.shape.cluster.geometries[self.shape.cluster.kind[node, d]]
                assert cut is not None
                left[d] += cut.profiles[grant.profile].bits(start) - (self._parts(node, d) << 8)
        else:
            for d in self.shape.tightest(node):
                cut = self.shape.cluster.geometries[self.shape.cluster.kind[node, d]]
                left[d] -= (self._parts(node, d) << 8) - ((1 << cut.slices) - 1 if cut else 0)
        return tuple(sorted(left))

    def _parts(self, node: int, device: int) -> int:
        c = self.shape.cluster
        return self.shape.need.item(node, device) * c.factor.item(c.kind.item(node, device))

    def _score(self, before: float, after: float) -> int:
        freed = (before - after) / self.shape.cluster.scale
        return int(1 / (1 + exp(-freed)) * 100)


_MOST_SCORED = 100_000
