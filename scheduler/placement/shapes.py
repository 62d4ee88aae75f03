"""A request on the nodes of a cluster: where it could run at all, where it fits now, and how many times."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from functools import cache, cached_property
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt

from scheduler.model import Grant, Node, Privileged, Request

if TYPE_CHECKING:
    from scheduler.placement.cluster import Cluster

IntArray = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]
NeedArray = npt.NDArray[np.int32]
Array = TypeVar("Array", IntArray, NeedArray)
Table = TypeVar("Table", IntArray, NeedArray, BoolArray)
Nodes = IntArray | slice
"""Numbers of nodes, or a slice of them."""
EVERYWHERE = slice(None)

MOST_SHARED = 1000
MOST_IN_A_BYTE = 127
NEVER = int(np.iinfo(np.int32).max)
"""Units needed of a device that the request may not have."""


def shape_key(request: Request) -> Hashable:
    """A key that is equal for requests with the same placements."""
    r = request
    return (
        r.devices,
        r.units,
        r.cpu_milli,
        r.host_memory_bytes,
        r.models,
        r.memory_bytes,
        r.profile,
        r.pool,
        frozenset(r.labels.items()) if r.labels else None,
        r.tolerations,
        r.workload_class,
        r.most_units,
        r.kept_in if isinstance(r, Privileged) else None,
    )


class Freed(NamedTuple):
    """Capacity to count as free in addition, by row of the nodes asked about; the last three also by device."""

    cpu: IntArray
    host_memory: IntArray
    units: IntArray
    memory: IntArray
    slots: IntArray


class Shape:
    """A request on a cluster's nodes.

    suits: by node, whether pool, labels and taints let it run there, whatever is free.
    need: by node and device, the units to be taken of it; NEVER where the device is not for this request. For a MIG
    profile all devices that know it need its units, and `fits` asks for a legal start besides.
    columns: what policies remember of it (see placement.engine).
    """

    def __init__(self, cluster: Cluster, request: Request) -> None:
        self.cluster, self.request = cluster, request
        self.suits: BoolArray = _suits(cluster, request)
        self.need: NeedArray = self._shared("need", lambda: _need(cluster, request))
        self.instances = _instances(cluster, request) if request.profile else None
        self.columns: WeakKeyDictionary[Any, Any] = WeakKeyDictionary()
        self._costs: IntArray | None = None
        self._least: dict[int, int] = {}

    def usable(self, nodes: Nodes, freed: Freed | None = None) -> BoolArray:
        """By node and device: whether the device alone could be given now, or after that was freed."""
        c, r = self.cluster, self.request
        if self.instances is not None:
            return self.instances_left(nodes, freed) > 0
        free = rows(c.free, nodes) if freed is None else rows(c.free, nodes) + freed.units
        usable: BoolArray = free >= rows(self.need, nodes)
        if r.memory_bytes:
            memory = rows(c.memory_free, nodes) if freed is None else rows(c.memory_free, nodes) + freed.memory
            usable &= memory >= r.memory_bytes
        return usable

    def instances_left(self, nodes: Nodes, freed: Freed | None = None) -> IntArray:
        """By node and device: how many more instances of the profile fit."""
        assert self.instances is not None
        slots = self.cluster.slots[nodes] if freed is None else self.cluster.slots[nodes] & ~freed.slots
        left: IntArray = self.instances[self.cluster.kind[nodes], slots]
        return np.where(self.need[nodes] == NEVER, 0, left)

    def fits(self, nodes: Nodes, freed: Freed | None = None) -> BoolArray:
        """For each of these nodes, whether one replica fits now, or after that was freed on it."""
        c, r = self.cluster, self.request
        cpu = c.cpu_free[nodes] if freed is None else c.cpu_free[nodes] + freed.cpu
        fits: BoolArray = (cpu >= r.cpu_milli) & self.suits[nodes] & c.open[nodes]
        if r.host_memory_bytes:
            host = c.host_memory_free[nodes] if freed is None else c.host_memory_free[nodes] + freed.host_memory
            fits &= host >= r.host_memory_bytes
        if r.devices and self.instances is not None:
            fits &= self.instances_left(nodes, freed).sum(axis=1) >= r.devices
        elif r.devices:
            fits &= true_in_rows(self.usable(nodes, freed)) >= r.devices
        return fits

    def replicas(self, nodes: Nodes) -> IntArray:
        """For each of these nodes, how many replicas fit now, side by side."""
        c, r = self.cluster, self.request
        fits = self.fits(nodes)
        most = np.full(len(fits), np.iinfo(np.int64).max, dtype=np.int64)
        if r.cpu_milli:
            most = np.minimum(most, c.cpu_free[nodes] // r.cpu_milli)
        if r.host_memory_bytes:
            most = np.minimum(most, c.host_memory_free[nodes] // r.host_memory_bytes)
        if r.devices:
            most = np.minimum(most, _side_by_side(self._times(nodes), r.devices, apart=self.instances is None))
        return np.where(fits, most, 0)

    def permitted(self) -> BoolArray | None:
        """By node, whether the pools' reserves leave room for one replica; None: everywhere."""
        headroom = self.cluster.headroom
        if headroom is None or not self.request.devices:
            return None
        left, costs = headroom.left(), self.costs
        most = costs.max(axis=0, initial=0)
        if ((most <= left) | (most == 0)).all():
            return None
        permitted: BoolArray = ((costs <= left) | (costs == 0)).all(axis=1)
        return permitted

    @property
    def costs(self) -> IntArray:
        """By node and kind of `headroom`, the units that a replica takes of what ordinary requests may have."""
        if self._costs is None:
            assert self.cluster.headroom is not None
            self._costs = self.cluster.headroom.costs(self.request, self.need, NEVER)
        return self._costs

    def forget_costs(self) -> None:
        """What pools keep free is another."""
        self._costs = None

    def together(self, replicas: IntArray) -> int:
        """How many of the replicas that fit side by side, by node, may start together."""
        headroom = self.cluster.headroom
        if headroom is None or not self.request.devices:
            return int(replicas.sum())
        costs, left = self.costs, headroom.left()
        rest, total = replicas.copy(), 0
        for kind in np.flatnonzero(costs.any(axis=0)).tolist():
            there = (costs[:, kind] > 0) & (rest > 0)
            if there.any():
                most = max(0, int(left[kind])) // int(costs[there, kind].max())
                total += min(int(rest[there].sum()), most)
                rest[there] = 0
        return total + int(rest.sum())

    def _times(self, nodes: Nodes) -> IntArray:
        """By node and device, how often the device alone could be given."""
        if self.instances is not None:
            return self.instances_left(nodes)
        c, r = self.cluster, self.request
        times = c.free[nodes] // self.need[nodes]
        if r.memory_bytes and r.units:
            times = np.minimum(times, c.memory_free[nodes] // r.memory_bytes)
        return np.where(self.usable(nodes), times, 0)

    def usable_devices(self, node: int) -> list[int]:
        """The devices of which each alone could be given now; not for MIG profiles."""
        c, asked = self.cluster, self.request.memory_bytes
        free, need = c.free[node].tolist(), self.need[node].tolist()
        usable = [d for d, (has, needed) in enumerate(zip(free, need, strict=True)) if has >= needed]
        if asked:
            memory = c.memory_free[node].tolist()
            usable = [d for d in usable if memory[d] >= asked]
        return usable

    @cached_property
    def devices_ever(self) -> IntArray:
        """By node and device: how many of the request's devices it could be if all of it were free."""
        return self._shared("ever", self._devices_ever)

    def _devices_ever(self) -> IntArray:
        c, r = self.cluster, self.request
        if self.instances is not None:
            return np.where(self.need == NEVER, 0, self.instances[c.kind, 0])
        return ((c.capacity >= self.need) & (c.memory >= r.memory_bytes)).astype(np.int64)

    def _shared(self, what: str, make: Callable[[], Array]) -> Array:
        """An array that depends only on the device part of a request, cached for all such shapes; do not write to
        it."""
        r, shared = self.request, self.cluster.by_devices
        key = (what, r.models, r.units, r.profile, r.memory_bytes, r.most_units)
        found: Array | None = shared.get(key)
        if found is None:
            if len(shared) >= MOST_SHARED:
                del shared[next(iter(shared))]
            found = shared[key] = make()
            found.flags.writeable = False
        return found

    def most_ever(self, replicas: int) -> int:
        """An upper bound of the replicas, of so many, that would fit on all nodes if all of them were free and open."""
        c, r = self.cluster, self.request
        most = np.where(self.suits, replicas, 0)
        if r.devices:
            times = self.devices_ever
            if not r.profile:
                could = times > 0
                times = np.where(could, c.capacity // np.where(could, np.maximum(1, self.need), 1), 0)
                if r.memory_bytes:
                    times = np.minimum(times, c.memory // r.memory_bytes)
            most = np.minimum(most, times.sum(axis=1) // r.devices)
        if r.cpu_milli:
            most = np.minimum(most, c.cpu // r.cpu_milli)
        if r.host_memory_bytes:
            most = np.minimum(most, c.host_memory // r.host_memory_bytes)
        return int(most.sum())

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        """Units that it may take of one device, in order; () if no device suits."""
        needed = self.need[(self.devices_ever > 0) & self.suits[:, None]]
        if not needed.size:
            needed = self.need[(self.need != NEVER) & self.suits[:, None]]
        if not needed.size or needed.min() == needed.max():
            return tuple(needed[:1].tolist())
        return tuple(np.unique(needed).tolist())

    def least_units(self, replicas: int) -> int:
        """Units of so many replicas on the smallest devices that hold them, if everything is free; no placement takes
        less. Where they never fit, as on devices of the smallest size."""
        if not self.request.devices or len(self.sizes) < 2:
            return self.request.devices * replicas * self.sizes[0] if self.sizes else 0
        if replicas not in self._least:
            devices, ever = self.request.devices, np.where(self.suits[:, None], self.devices_ever, 0)
            there = np.arange(ever.max()) < ever[..., None]
            needs = np.sort(np.where(there, self.need[..., None], NEVER).reshape(len(ever), -1), axis=1)
            of_replica = needs[:, : needs.shape[1] // devices * devices].reshape(len(ever), -1, devices)
            costs = np.sort(of_replica.sum(axis=2, dtype=np.int64)[of_replica[..., -1] != NEVER])
            fits = len(costs) >= replicas
            self._least[replicas] = int(costs[:replicas].sum()) if fits else devices * replicas * self.sizes[0]
        return self._least[replicas]

    @cached_property
    def ever_fits(self) -> bool:
        """Whether some node could hold one replica if all of it were free and open."""
        c, r = self.cluster, self.request
        could = self.suits & (c.cpu >= r.cpu_milli) & (c.host_memory >= r.host_memory_bytes)
        if r.devices:
            could = could & (self.devices_ever.sum(axis=1) >= r.devices)
        return bool(could.any())

    def tightest(self, node: int) -> tuple[int, ...]:
        """The devices with the least left that it fits, the first of equals; whole devices in their order."""
        c, usable = self.cluster, self.usable_devices(node)
        if len(usable) > self.request.devices:
            kinds, left = c.kind[node].tolist(), c.scaled_row(node)
            usable.sort(key=lambda d: (left[d], kinds[d], d))
        return tuple(usable[: self.request.devices])

    def grant(self, node: int, devices: tuple[int, ...]) -> Grant:
        return Grant(node, devices, tuple([self.need.item(node, d) for d in devices]))

    def instance_grant(self, node: int) -> Grant:
        """MIG instances one by one, each where it leaves the most placements legal; first device, lowest start."""
        c, r = self.cluster, self.request
        masks = c.slots[node].tolist()
        devices: list[int] = []
        starts: list[int] = []
        for _ in range(r.devices):
            found = []
            for d in np.flatnonzero(self.need[node] != NEVER).tolist():
                cut = c.geometries[c.kind[node, d]]
                best = cut.best_start(r.profile, masks[d]) if cut is not None else None
                if cut is not None and best is not None:
                    found.append((best[0], d, best[1], cut.profiles[r.profile].bits(best[1])))
            _lost, d, start, bits = min(found)
            masks[d] |= bits
            devices.append(d)
            starts.append(start)
        units = tuple(self.need[node, devices].tolist())
        return Grant(node, tuple(devices), units, r.profile, tuple(starts))


def rows(table: Table, nodes: Nodes) -> Table:
    """Those nodes' rows. `take` does it in a sixth of the time of an index where there are few."""
    found: Table = table[nodes] if isinstance(nodes, slice) else table.take(nodes, axis=0)
    return found


def true_in_rows(table: BoolArray) -> npt.NDArray[Any]:
    """How many of each row are true. A product of bytes takes a quarter of the time of a sum, which converts them."""
    width = table.shape[1]
    if width > MOST_IN_A_BYTE:
        return np.asarray(table.sum(axis=1))
    return np.asarray(table.view(np.int8) @ _ones(width))


@cache
def _ones(width: int) -> npt.NDArray[np.int8]:
    return np.ones(width, dtype=np.int8)


def suits(node: Node, request: Request) -> bool:
    """Whether pool, labels and taints let it run there."""
    return (
        (not request.pool or request.pool == node.pool)
        and node.taints <= request.tolerations
        and all(node.labels.get(key) == value for key, value in request.labels.items())
    )


def _suits(cluster: Cluster, request: Request) -> BoolArray:
    if not request.pool and not request.labels and not cluster.tainted:
        return np.ones(len(cluster.nodes), dtype=np.bool_)
    return np.array([suits(node, request) for node in cluster.nodes], dtype=np.bool_)


def _need(cluster: Cluster, request: Request) -> NeedArray:
    need: NeedArray = np.full(cluster.kind.shape, NEVER, dtype=np.int32)
    for number, kind in enumerate(cluster.kinds):
        if request.models and kind.model not in request.models:
            continue
        cut = cluster.geometries[number]
        if request.profile:
            profile = cut.profiles.get(request.profile) if cut else None
            if cut is None or profile is None:
                continue
            enough = cluster.memory * profile.slices // cut.slices >= request.memory_bytes
            need[(cluster.kind == number) & enough] = profile.units
        elif cut is None or request.units in (0, kind.units):
            # Units of a device that is cut by MIG are no free choice: a profile, or all of it.
            need[cluster.kind == number] = request.units or kind.units
    if request.most_units:
        need[need > request.most_units] = NEVER
    return need


def _instances(cluster: Cluster, request: Request) -> IntArray:
    """By kind (the last row is for places without a device) and mask: how many more instances fit."""
    cuts = cluster.geometries
    size = max((1 << cut.slices for cut in cuts if cut), default=1)
    table: IntArray = np.zeros((len(cuts) + 1, size), dtype=np.int64)
    for number, cut in enumerate(cuts):
        if cut is not None and request.profile in cut.profiles:
            table[number, : 1 << cut.slices] = cut.instances(request.profile)
    return table


def _side_by_side(times: IntArray, devices: int, apart: bool) -> IntArray:
    """How many replicas of so many devices each fit on a node whose devices can be given `times` times.

    apart: the devices of one replica are different ones. Then r replicas fit iff the sum of min(times, r) over the
    devices is at least r * devices.
    """
    most: IntArray = times.sum(axis=1) // devices
    if not apart or devices == 1:
        return most
    while True:
        enough = np.minimum(times, most[:, None]).sum(axis=1) >= most * devices
        if enough.all():
            return most
        most = np.where(enough, most, most - 1)
