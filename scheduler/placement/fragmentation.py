"""Fragmentation: how much of what is idle the demand cannot use, by Weng et al., "Beware of Fragmentation" (2023).

F_n(m), of node n for a task m: everything idle on n if m cannot run there (or asks for no device), else what is idle
on devices that m cannot use. F_n(M) weighs it by how often each task of the demand M is asked for. The rate is the
sum over nodes by what is idle, the amount is the sum by all there is.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from scheduler.model import Request
from scheduler.placement.cluster import BoolArray, Cluster, IntArray
from scheduler.placement.shapes import shape_key

CLASSES = ("lacks_both", "lacks_gpu", "satisfied", "lacks_cpu", "without_gpu", "without_gpu_lacks_cpu", "no_access")
"""Why idle units are, or are not, of use to a task: the CPU, the devices, both, the model; tasks without devices."""
_BOTH, _GPU, _SATISFIED, _CPU, _WITHOUT, _WITHOUT_CPU, _NO_ACCESS = range(7)

FloatArray = npt.NDArray[np.float64]
LEVEL_BITS = 16
_KIND, _FREE = 48, 8
"""A device's state as one integer: kind << 48 | free parts << 8 | MIG slices in use. -1: no device."""


class Task(NamedTuple):
    """weight: its part of all that is asked for, 0 to 1."""

    request: Request
    weight: float


@dataclass(frozen=True, slots=True)
class Demand:
    """What is typically asked for; the weights sum to 1."""

    tasks: tuple[Task, ...]


def typical_demand(requests: Iterable[Request], cover: float = 0.95) -> Demand:
    """The most frequent shapes among the requests, as many as it takes to cover that part of them."""
    counts: Counter[Hashable] = Counter()
    of: dict[Hashable, Request] = {}
    for request in requests:
        key = shape_key(request)
        counts[key] += 1
        of.setdefault(key, request)
    order = sorted(counts, key=lambda key: (-counts[key], repr(key)))
    return demand_of([(of[key], counts[key]) for key in order], cover)


def demand_of(counted: Sequence[tuple[Request, int]], cover: float = 0.95) -> Demand:
    """The first of these shapes, most frequent first, that together make up at least that part of all."""
    total = float(sum(count for _request, count in counted))
    taken = 0
    covered = 0.0
    while covered < cover * total:
        covered += counted[taken][1]
        taken += 1
    part = covered / total if taken < len(counted) else 1.0
    return Demand(tuple(Task(request, count / total / part) for request, count in counted[:taken]))


@dataclass(frozen=True, slots=True)
class FragmentationRate:
    """Amounts in devices. by_class: idle devices by CLASSES (satisfied is what is not fragmented)."""

    fragmented: float
    idle: float
    total: float
    by_class: dict[str, float]

    @property
    def ratio(self) -> float | None:
        """Of what is idle; None when nothing is."""
        return self.fragmented / self.idle if self.idle else None

    @property
    def amount(self) -> float | None:
        """Of all there is; None for a cluster without devices."""
        return self.fragmented / self.total if self.total else None


class _Use(NamedTuple):
    """Of devices in some state, in parts: what is idle; and by task, whether none of them may be had, whether fewer
    than it asks for or enough; what is idle and of no use to it; by its weight, what is lost where it runs and where it
    does not."""

    idle: int
    refused: BoolArray
    short: BoolArray
    enough: BoolArray
    fragments: IntArray
    lost_running: FloatArray
    lost_waiting: FloatArray


class Fragmentation:
    """Fragmentation of a cluster's nodes for a demand, kept up to date node by node.

    A node's fragmentation depends on its devices' states and on which of the demand's CPU requests its free CPU meets,
    nothing else, so it is computed once for each such pair. Sums run left to right over the tasks, class by class: the
    published results need that order.

    By node: devices (states of its devices, in their order), states (the same, sorted), levels (how many of the
    demand's CPU requests it meets), state_level (the last two as one number, equal for equal ones).
    """

    def __init__(self, cluster: Cluster, demand: Demand) -> None:
        self.cluster = cluster
        self._steps = sorted({task.request.cpu_milli for task in demand.tasks})
        self._steps_array: IntArray = np.array(self._steps, dtype=np.int64)
        ways = [_by_kind(cluster, task.request) for task in demand.tasks]
        self._ways = [way for i, way in enumerate(ways) if way not in ways[:i]]
        self._weights = np.array([task.weight for task in demand.tasks])
        requests = [task.request for task in demand.tasks]
        self._cpu_steps: IntArray = np.array([self._steps.index(one.cpu_milli) for one in requests], dtype=np.int64)
        self._asked: IntArray = np.array([one.devices for one in requests], dtype=np.int64)
        self._wants: BoolArray = self._asked > 0
        self._way: IntArray = np.array([self._ways.index(way) for way in ways], dtype=np.int64)
        self._classes_by_level: dict[int, tuple[IntArray, IntArray, BoolArray]] = {}
        self._device_uses: dict[int, IntArray] = {}
        self._uses_of: dict[tuple[int, ...], _Use] = {}
        self._known: dict[tuple[tuple[int, ...], int], float] = {}
        count = len(cluster.nodes)
        self._seen = -1
        kinds = [(number << _KIND, factor) for number, factor in enumerate(cluster.factor.tolist()[:-1])]
        self._kinds = [[kinds[kind] if kind >= 0 else _NO_DEVICE for kind in row] for row in cluster.kind.tolist()]
        self.devices: list[list[int]] = [[]] * count
        self.states: list[tuple[int, ...]] = [()] * count
        self.levels: list[int] = [0] * count
        self.state_level: IntArray = np.zeros(count, dtype=np.int64)
        self._numbers: dict[tuple[int, ...], int] = {}
        self._next = 0
        self._unmeasured = set(range(count))
        self._fragmented = np.zeros(count)
        self._classes = np.zeros((count, len(CLASSES)))

    def refresh(self) -> None:
        """Takes in what changed on the cluster since."""
        c = self.cluster
        if self._seen == c.clock:
            return
        for node in c.changed_since(self._seen).tolist():
            kinds, frees, slots = self._kinds[node], c.free[node].tolist(), c.slots[node].tolist()
            device = [
                kind | free * factor << _FREE | used
                for (kind, factor), free, used in zip(kinds, frees, slots, strict=True)
            ]
            state, level = tuple(sorted(device)), self.level(c.cpu_free.item(node))
            self.devices[node], self.states[node], self.levels[node] = device, state, level
            self.state_level[node] = self._number(state) << LEVEL_BITS | level
            self._unmeasured.add(node)
        self._seen = c.clock

    def _measure(self) -> None:
        self.refresh()
        for node in self._unmeasured:
            self._fragmented[node], self._classes[node] = self._measured(self.states[node], self.levels[node])
        self._unmeasured.clear()

    def _number(self, state: tuple[int, ...]) -> int:
        """The same for equal states; never used again for another, also when old ones are forgotten."""
        found = self._numbers.get(state)
        if found is None:
            if len(self._numbers) >= _MOST_STATES:
                self._numbers.clear()
            found = self._numbers[state] = self._next
            self._next += 1
        return found

    def fragmented(self) -> float:
        """Sum of F_n(M) over the nodes, in parts of the cluster's scale."""
        self._measure()
        return float(self._fragmented.sum())

    def measure(self, first: int | None = None) -> FragmentationRate:
        """first: of only so many of the first nodes; None: of all."""
        self._measure()
        scale = self.cluster.scale
        total = int(self.cluster.scaled(self.cluster.capacity)[:first].sum())
        by_class = self._classes[:first].sum(axis=0) / scale
        return FragmentationRate(
            float(self._fragmented[:first].sum()) / scale,
            int(self.cluster.parts_free[:first].sum()) / scale,
            total / scale,
            dict(zip(CLASSES, by_class.tolist(), strict=True)),
        )

    def levels_of(self, cpu_milli: IntArray) -> IntArray:
        """`level` of many."""
        return self._steps_array.searchsorted(cpu_milli, side="right")

    def level(self, cpu_milli: int) -> int:
        """How many of the demand's distinct CPU requests that much free CPU meets."""
        return bisect_right(self._steps, cpu_milli)

    def of(self, state: tuple[int, ...], level: int) -> float:
        """F_n(M) in parts of the cluster's scale, of a node with devices in these states (sorted) and that level."""
        found = self._known.get((state, level))
        if found is None:
            if len(self._known) >= _MOST_STATES:
                self._known.clear()
                self._uses_of.clear()
            use = self._use(state)
            found = self._known[state, level] = _fragmented(self._sums(use, level)[0]) if use.idle else 0.0
        return found

    def _measured(self, state: tuple[int, ...], level: int) -> tuple[float, Sequence[float]]:
        """The same, and by class of tasks what is idle to them."""
        use = self._use(state)
        if not use.idle:
            return 0.0, (0.0,) * len(CLASSES)
        sums, served = self._sums(use, level)
        found = _fragmented(sums)
        sums[_SATISFIED] = float(np.bincount(served, self._weights * (use.idle - use.fragments), 2)[1])
        return found, sums

    def _sums(self, use: _Use, level: int) -> tuple[list[float], IntArray]:
        """By class what is lost to its tasks; and of each task whether it runs. `bincount` adds in their order."""
        if_short, if_enough, runs = self._classes_at(level)
        running = runs & use.enough
        classes = np.where(use.short, if_short, if_enough)
        classes[use.refused] = _NO_ACCESS
        lost = np.where(running, use.lost_running, use.lost_waiting)
        sums: list[float] = np.bincount(classes, lost, len(CLASSES)).tolist()
        return sums, running.view(np.int8)

    def _classes_at(self, level: int) -> tuple[IntArray, IntArray, BoolArray]:
        """Of each task on a node with that level: its class where devices are short, where they are not, and whether it
        runs there then."""
        found = self._classes_by_level.get(level)
        if found is None:
            has_cpu, wants = self._cpu_steps < level, self._wants
            if_short = np.where(has_cpu, _GPU, _BOTH)
            if_enough = np.where(wants, np.where(has_cpu, _GPU, _CPU), np.where(has_cpu, _WITHOUT, _WITHOUT_CPU))
            found = self._classes_by_level[level] = if_short, if_enough, wants & has_cpu
        return found

    def _use(self, state: tuple[int, ...]) -> _Use:
        found = self._uses_of.get(state)
        if found is None:
            found = self._uses_of[state] = self._used(state)
        return found

    def _used(self, state: tuple[int, ...]) -> _Use:
        devices = [self._uses(code) for code in state if code >= 0]
        sums = np.add.reduce(devices) if devices else np.zeros(1 + 3 * len(self._ways), dtype=np.int64)
        idle = sums.item(0)
        allowed, times, fragments = sums[1:].reshape(-1, 3).take(self._way, axis=0).T
        short, weights = times < self._asked, self._weights
        refused = (allowed == 0) & self._wants
        return _Use(idle, refused, short, ~short, fragments, weights * fragments, weights * idle)

    def _uses(self, code: int) -> IntArray:
        """Of a device in that state: its idle parts; then for each way to need one: whether it may be had, how often it
        can be, and what of it is idle and of no use."""
        found = self._device_uses.get(code)
        if found is None:
            kind, free, slots = code >> _KIND, (code >> _FREE) & _FREE_MASK, code & _SLOTS_MASK
            uses = [free]
            for way in self._ways:
                need = way[kind]
                times = 0 if need is None else need[slots] if isinstance(need, tuple) else int(free >= need)
                uses += [int(need is not None), times, 0 if times else free]
            found = self._device_uses[code] = np.array(uses, dtype=np.int64)
        return found


def _fragmented(sums: Sequence[float]) -> float:
    """Of sums by class, those of tasks to which what is idle is lost."""
    both, gpu, _satisfied, lacking, without, without_cpu, no_access = sums
    return both + gpu + lacking + without + without_cpu + no_access


def _by_kind(cluster: Cluster, request: Request) -> tuple[int | tuple[int, ...] | None, ...]:
    """Parts needed of a device, by kind; None where the request may not have one. For a MIG profile, by mask, how many
    instances still start."""
    needs: list[int | tuple[int, ...] | None] = []
    for number, kind in enumerate(cluster.kinds):
        cut = cluster.geometries[number]
        if request.models and kind.model not in request.models:
            needs.append(None)
        elif request.profile:
            known = cut is not None and request.profile in cut.profiles
            needs.append(tuple(cut.instances(request.profile).tolist()) if cut is not None and known else None)
        elif cut is not None and request.units not in (0, kind.units):
            needs.append(None)
        else:
            needs.append((request.units or kind.units) * int(cluster.factor[number]))
    return tuple(needs)


_NO_DEVICE = (-1, 0)
_FREE_MASK = (1 << (_KIND - _FREE)) - 1
_SLOTS_MASK = (1 << _FREE) - 1
_MOST_STATES = 200_000
