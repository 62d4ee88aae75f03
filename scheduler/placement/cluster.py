"""Free capacity in arrays over nodes: grants are taken and given back exactly, and trials are rolled back.

Ties are decided by the order of the nodes: the first wins.
"""

from __future__ import annotations

import math
from collections import Counter, deque
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from scheduler.model import Grant, Node, NodeState, Request
from scheduler.placement.errors import PlacementError
from scheduler.placement.headroom import USABLE, Headroom, HeadroomRule
from scheduler.placement.mig import Geometry, geometry
from scheduler.placement.shapes import Shape, shape_key

IntArray = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]
T = TypeVar("T")

MOST_SHAPES = 1024
"""Shapes with cached scores; the oldest is evicted first."""

FEW_CHANGES = 16
"""Recent changes that are recorded in order; for more, all nodes are checked."""


class DeviceKind(NamedTuple):
    """What devices must have in common to be interchangeable."""

    model: str
    units: int
    geometry: str


class _HeldBack(NamedTuple):
    """Undo entry: units of a kind that ordinary jobs may not take for now."""

    kind: int
    units: int


class _Shut(NamedTuple):
    """Undo entry: the nodes that were shut before."""

    before: frozenset[int]


class Cluster:
    """Free capacity of nodes and devices. All integers: units, milli-CPUs, bytes.

    Arrays by node: `cpu_free`, `host_memory_free`, `parts_free` (of all its devices, see `scale`), `open` (its state is
    available), `changed_at` (value of `clock` at its last change).
    By node and device (past a node's last device: kind -1, capacity 0): `kind` (index in `kinds`), `capacity`, `free`,
    `memory`, `memory_free`, `slots` (MIG slices in use).
    `holders[n, k]`: how many grants on node n hold k whole devices; k = 0: a share of one.
    `version`: of all that is free and open. Equal versions, equal content: what is rolled back has its old one again.
    `shut`: nodes that are no capacity, whatever their state (see `shut_nodes`).
    `cut`: whether there are devices that MIG can cut.
    `headroom`: what pools keep free from ordinary requests, where any does.
    `scale`: into so many parts each device can be cut, so that shares of all kinds are integers; `factor` of each kind.

    Errors: PlacementError for nodes of one name, or a device whose units are not its geometry's.
    """

    def __init__(self, nodes: Sequence[Node]) -> None:
        self.nodes = tuple(nodes)
        self.index = {node.name: number for number, node in enumerate(self.nodes)}
        if len(self.index) != len(self.nodes):
            name, times = Counter(node.name for node in self.nodes).most_common(1)[0]
            raise PlacementError(f"node {name}", f"is listed {times} times", "Give each node a name of its own")
        self.tainted = any(node.taints for node in self.nodes)
        self.devices = sum(len(node.devices) for node in self.nodes)
        self.width = max((len(node.devices) for node in self.nodes), default=0)
        kinds: dict[DeviceKind, int] = {}
        shape = (len(self.nodes), self.width)
        self.kind: IntArray = np.full(shape, -1, dtype=np.int64)
        self.capacity: IntArray = np.zeros(shape, dtype=np.int64)
        self.memory: IntArray = np.zeros(shape, dtype=np.int64)
        for n, node in enumerate(self.nodes):
            for d, device in enumerate(node.devices):
                kind = DeviceKind(device.model, device.units, device.geometry)
                self.kind[n, d] = kinds.setdefault(kind, len(kinds))
                self.capacity[n, d] = device.units
                self.memory[n, d] = device.memory_bytes
        self.kinds = tuple(kinds)
        self.geometries: tuple[Geometry | None, ...] = tuple(_geometry_of(kind) for kind in kinds)
        self.cut = any(self.geometries)
        self.scale = math.lcm(*(kind.units for kind in self.kinds)) if self.kinds else 1
        self.factor: IntArray = np.array([self.scale // kind.units for kind in self.kinds] + [0], dtype=np.int64)
        self.cpu: IntArray = np.array([node.cpu_milli for node in self.nodes], dtype=np.int64)
        self.host_memory: IntArray = np.array([node.memory_bytes for node in self.nodes], dtype=np.int64)
        self.most_cpu = max(1, int(self.cpu.max(initial=0)))
        self.parts_free: IntArray = self.scaled(self.capacity).sum(axis=1)
        self.most_parts = max(1, int(self.parts_free.max(initial=0)))
        self.free, self.memory_free = self.capacity.copy(), self.memory.copy()
        self.cpu_free, self.host_memory_free = self.cpu.copy(), self.host_memory.copy()
        self.slots: IntArray = np.zeros(shape, dtype=np.int64)
        self.holders: IntArray = np.zeros((len(self.nodes), self.width + 1), dtype=np.int64)
        self.states: list[NodeState] = [node.state for node in self.nodes]
        self.open: BoolArray = np.array([state == "available" for state in self.states], dtype=np.bool_)
        self.residents: dict[tuple[int, int], Counter[str]] = {}
        self.shut: frozenset[int] = frozenset()
        self.headroom: Headroom | None = None
        self.clock, self._touched = 0, deque[int](maxlen=FEW_CHANGES)
        self.changed_at: IntArray = np.zeros(len(self.nodes), dtype=np.int64)
        self.version = 0
        self._known_of, self._known = 0, dict[Hashable, Any]()
        self._undo: list[tuple[Grant, Request, int] | tuple[int, NodeState] | _HeldBack | _Shut] = []
        self._marks: list[tuple[int, int]] = []
        self._shapes: dict[object, Shape] = {}
        self.by_devices: dict[object, Any] = {}

    def scaled(self, units: IntArray) -> IntArray:
        """Units by node and device as parts of `scale`, comparable between kinds."""
        return units * self.factor[self.kind]

    def scaled_row(self, node: int) -> list[int]:
        """What is free of each of the node's devices, as parts of `scale`."""
        row: list[int] = (self.free[node] * self.factor[self.kind[node]]).tolist()
        return row

    def shape(self, request: Request) -> Shape:
        """The request's shape on these nodes; cached, so the same object for equal requests."""
        key = shape_key(request)
        found = self._shapes.get(key)
        if found is None:
            if len(self._shapes) >= MOST_SHAPES:
                del self._shapes[next(iter(self._shapes))]
            found = self._shapes[key] = Shape(self, request)
        return found

    def changed_since(self, clock: int) -> IntArray:
        """Nodes that changed after that value of `clock`; all of them after -1."""
        changes = self.clock - clock
        if clock >= 0 and changes <= len(self._touched):
            return np.array(sorted({*list(self._touched)[-changes:]} if changes else ()), dtype=np.int64)
        return (self.changed_at > clock).nonzero()[0]

    def known(self, key: Hashable, compute: Callable[[], T]) -> T:
        """The value for a key, computed once per version of the cluster."""
        if self._known_of != self.version:
            self._known.clear()
            self._known_of = self.version
        if key not in self._known:
            self._known[key] = compute()
        found: T = self._known[key]
        return found

    def is_known(self, key: Hashable) -> bool:
        """Whether something was computed under that key from this version of the cluster."""
        return self._known_of == self.version and key in self._known

    def take(self, grant: Grant, request: Request) -> None:
        """Takes a grant.

        Errors: PlacementError if any part of it is not free; nothing is taken then.
        """
        self._apply(grant, request, 1)

    def give_back(self, grant: Grant, request: Request) -> None:
        """Reverses `take`, also on a node that has failed since.

        Errors: PlacementError if it was not held; nothing changes then.
        """
        self._apply(grant, request, -1)

    def set_state(self, node: int, state: NodeState) -> None:
        """Sets a node's state. Grants on it stay; only an available node gets new ones."""
        if self._marks:
            self._undo.append((node, self.states[node]))
        self.states[node] = state
        self.open[node] = state == "available"
        if self.headroom is not None:
            self.headroom.set_there(node, self.is_there(node))
        self._touch(node)

    def is_there(self, node: int) -> bool:
        """Whether the node's devices count as capacity."""
        return self.states[node] in USABLE and node not in self.shut

    def shut_nodes(self, nodes: frozenset[int]) -> None:
        """Sets which nodes are no capacity, whatever their state. Grants on them stay, and they may get new ones."""
        changed = nodes ^ self.shut
        if not changed:
            return
        if self._marks:
            self._undo.append(_Shut(self.shut))
        self.shut = nodes
        if self.headroom is not None:
            for node in changed:
                self.headroom.set_there(node, self.is_there(node))
            self._renew()

    def keep_free(self, rules: Mapping[str, HeadroomRule]) -> None:
        """Sets the pools' reserves. Call `recount` afterwards if there are grants."""
        self.headroom = self._headroom(rules) if rules else None
        for shape in self._shapes.values():
            shape.forget_costs()
        self._renew()

    def _headroom(self, rules: Mapping[str, HeadroomRule]) -> Headroom:
        return Headroom(self.nodes, [self.is_there(number) for number in range(len(self.nodes))], rules, self.width)

    def recount(self, held: Iterable[tuple[Grant, Request]]) -> None:
        """Recomputes the headroom from all grants and their requests."""
        if self.headroom is not None:
            self.headroom.forget()
            for grant, request in held:
                self.headroom.count(grant, request, 1)
            self._renew()

    def hold_back(self, kind: int, units: int) -> None:
        """Reduces what ordinary requests may take of a kind of `headroom`."""
        assert self.headroom is not None
        self.headroom.ordinary[kind] += units
        if self._marks:
            self._undo.append(_HeldBack(kind, units))
        self._renew()

    def mark(self) -> int:
        """Starts recording changes, until the mark is rolled back or kept. Marks nest."""
        self._marks.append((len(self._undo), self.version))
        return len(self._marks) - 1

    def rollback(self, mark: int) -> None:
        """Undoes every change since the mark, and forgets it and those set after it."""
        position, version = self._marks[mark]
        del self._marks[mark:]
        if len(self._undo) == position:
            return
        undone = self._undo[position:]
        del self._undo[position:]
        marks, self._marks = self._marks, []
        for entry in reversed(undone):
            if isinstance(entry, _HeldBack):
                self.hold_back(entry.kind, -entry.units)
            elif isinstance(entry, _Shut):
                self.shut_nodes(entry.before)
            elif len(entry) == 2:
                self.set_state(*entry)
            else:
                grant, request, sign = entry
                self._apply(grant, request, -sign)
        self._marks, self.version = marks, version

    def keep(self, mark: int) -> None:
        """Forgets the mark and those set after it; the changes stay."""
        del self._marks[mark:]
        if not self._marks:
            self._undo.clear()

    def device_memory(self, grant: Grant, request: Request) -> tuple[int, ...]:
        """Bytes of each device that the grant holds: a whole device's, an instance's, or what was asked."""
        if grant.profile:
            found = []
            for d in grant.devices:
                cut = self.geometries[self.kind[grant.node, d]]
                assert cut is not None
                found.append(int(self.memory[grant.node, d]) * cut.profiles[grant.profile].slices // cut.slices)
            return tuple(found)
        if request.units == 0:
            return tuple([self.memory.item(grant.node, d) for d in grant.devices])
        return (request.memory_bytes,) * len(grant.devices)

    def device_slots(self, grant: Grant) -> tuple[int, ...]:
        """MIG slices of each device that the grant holds; a whole device that can be cut is all of them."""
        found = []
        for position, d in enumerate(grant.devices):
            cut = self.geometries[self.kind[grant.node, d]] if self.cut else None
            if cut is None:
                found.append(0)
            elif grant.profile:
                found.append(cut.profiles[grant.profile].bits(grant.starts[position]))
            else:
                found.append((1 << cut.slices) - 1)
        return tuple(found)

    def _apply(self, grant: Grant, request: Request, sign: int) -> None:
        n = grant.node
        cpu = self.cpu_free.item(n) - sign * request.cpu_milli
        host = self.host_memory_free.item(n) - sign * request.host_memory_bytes
        if not 0 <= cpu <= self.cpu.item(n):
            raise self._refused(n, sign, "CPU")
        if not 0 <= host <= self.host_memory.item(n):
            raise self._refused(n, sign, "host memory")
        after: dict[int, tuple[int, int]] = {}
        parts, shared = 0, False
        for d, units, held in zip(grant.devices, grant.units, self.device_memory(grant, request), strict=True):
            free, left = after.get(d) or (self.free.item(n, d), self.memory_free.item(n, d))
            free, left, whole = free - sign * units, left - sign * held, self.capacity.item(n, d)
            if not 0 <= free <= whole:
                raise self._refused(n, sign, f"device {d}")
            if not 0 <= left <= self.memory.item(n, d):
                raise self._refused(n, sign, f"memory of device {d}")
            after[d] = (free, left)
            parts += units * self.factor.item(self.kind.item(n, d))
            shared |= units < whole
        if self.cut:
            for d, mask in self._masks(grant, sign).items():
                self.slots[n, d] = mask
        for d, (free, left) in after.items():
            self.free[n, d], self.memory_free[n, d] = free, left
        self.parts_free[n] -= sign * parts
        self.cpu_free[n], self.host_memory_free[n] = cpu, host
        if grant.devices:
            self.holders[n, 0 if shared else len(grant.devices)] += sign
        if self.headroom is not None:
            self.headroom.count(grant, request, sign)
        if request.workload_class:
            for d in grant.devices:
                self.residents.setdefault((n, d), Counter())[request.workload_class] += sign
        if self._marks:
            self._undo.append((grant, request, sign))
        self._touch(n)

    def _masks(self, grant: Grant, sign: int) -> dict[int, int]:
        """Slices occupied afterwards, by device, where devices can be cut."""
        masks: dict[int, int] = {}
        n = grant.node
        for d, bits in zip(grant.devices, self.device_slots(grant), strict=True):
            mask = masks.get(d, int(self.slots[n, d]))
            if mask & bits != (0 if sign > 0 else bits):
                raise self._refused(n, sign, f"slices of device {d}")
            masks[d] = mask ^ bits
        return masks

    def _touch(self, node: int) -> None:
        self.clock += 1
        self.version = self.clock
        self.changed_at[node] = self.clock
        self._touched.append(node)

    def _renew(self) -> None:
        """Starts a new version after a change other than of a node."""
        self.clock += 1
        self.version = self.clock
        self._touched.clear()

    def _refused(self, node: int, sign: int, what: str) -> PlacementError:
        name = self.nodes[node].name
        if sign > 0:
            return PlacementError(f"node {name}", f"{what} is not free for that grant", "Place it again on what is")
        return PlacementError(f"node {name}", f"{what} is not held by that grant", "Give each grant back once")


def _geometry_of(kind: DeviceKind) -> Geometry | None:
    if not kind.geometry:
        return None
    found = geometry(kind.geometry)
    if found.units != kind.units:
        raise PlacementError(f"device of geometry {found.name}", f"has {kind.units} units", f"Give it {found.units}")
    return found
