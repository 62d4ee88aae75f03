"""Devices and partitions of a node (places), and which workloads may use them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import NamedTuple

from collectors.attribution.cgroup import OwnerKind
from collectors.readings import DeviceReading


class Place(NamedTuple):
    """A device, or one partition of it, by the vendor's UUIDs."""

    device_id: str
    partition_id: str = ""


@dataclass(frozen=True, slots=True)
class Allocation:
    """The permission of a workload to use a place.

    held, offered: replicas of it, out of all that its plugin offers; an undivided place is 1 of 1.   offered is None if
    nothing reports it.   resource: as its source names it.
    """

    workload_id: str
    place: Place
    held: int = 1
    offered: int | None = 1
    resource: str = ""

    @property
    def share(self) -> Fraction | None:
        """Of the place: of what is offered, whether or not others hold the rest."""
        return Fraction(self.held, max(self.held, self.offered)) if self.offered else None


@dataclass(frozen=True)
class Missing:
    """An allocation of a device that is missing from the node's readings.   key: as its source names it."""

    workload_id: str
    key: str
    resource: str = ""


@dataclass(frozen=True)
class Allocations:
    """All that is known of a node's allocations in one cycle.

    complete_for: kinds of owners whose allocations are all known; only their use without one is a breach.
    unplaced: workloads that hold devices which nothing identifies.   contested: places held by a workload without a
    known UID.   names: of workloads, for people.   aliases: other UIDs that a workload's cgroup may have.
    """

    allocations: tuple[Allocation, ...] = ()
    complete_for: frozenset[OwnerKind] = frozenset()
    unplaced: frozenset[str] = frozenset()
    contested: frozenset[Place] = frozenset()
    missing: tuple[Missing, ...] = ()
    names: Mapping[str, str] = field(default_factory=dict)
    aliases: Mapping[str, str] = field(default_factory=dict)

    @cached_property
    def _by_place(self) -> dict[Place, dict[str, Allocation]]:
        found: defaultdict[Place, dict[str, Allocation]] = defaultdict(dict)
        for held in self.allocations:
            found[held.place][held.workload_id] = held
        return dict(found)

    @cached_property
    def _places(self) -> dict[str, list[Place]]:
        found: defaultdict[str, list[Place]] = defaultdict(list)
        for held in self.allocations:
            found[held.workload_id].append(held.place)
        return dict(found)

    def on(self, place: Place) -> Mapping[str, Allocation]:
        """Allocations of exactly this place, by workload."""
        return self._by_place.get(place, {})

    def covers(self, workload_id: str, place: Place) -> bool:
        """Whether the workload may use the place, as far as anybody knows: what it has of a whole device it has of
        each partition, and what the driver lists on a whole device may be on any partition of it."""
        if workload_id in self.unplaced:
            return True
        return any(_overlap(held, place) for held in self._places.get(workload_id, ()))

    def is_contested(self, place: Place) -> bool:
        return any(_overlap(contested, place) for contested in self.contested)


def combined(parts: Iterable[Allocations]) -> Allocations:
    """The allocations of several sources for one node, merged."""
    known = Allocations()
    for part in parts:
        known = Allocations(
            known.allocations + part.allocations,
            known.complete_for | part.complete_for,
            known.unplaced | part.unplaced,
            known.contested | part.contested,
            known.missing + part.missing,
            {**known.names, **part.names},
            {**known.aliases, **part.aliases},
        )
    return known


def _overlap(held: Place, place: Place) -> bool:
    if held.device_id != place.device_id:
        return False
    return not place.partition_id or held.partition_id in ("", place.partition_id)


@dataclass(frozen=True, slots=True)
class DeviceRef:
    """A device as a plugin names it.

    key: the id without its replica, normalised.   device, partition: of the key; empty where the id does not tell.
    certain: whether the named device is surely the one that the container gets.
    """

    vendor: str
    key: str
    device: str = ""
    partition: str = ""
    replica: int | None = None
    certain: bool = True


class Inventory:
    """A node's places, which can be looked up by any name that plugins use.

    aliases: further names, e.g. PCI addresses (`0000:c5:00.0`), `nvidia0/gi3`, `0:1`, as the keys of DeviceRef.
    """

    def __init__(self, readings: Iterable[DeviceReading], aliases: Mapping[str, Place] | None = None) -> None:
        self._aliases = aliases or {}
        self._devices: set[str] = set()
        self._partitions: dict[str, Place] = {}
        self._indices: dict[str, list[tuple[str, str]]] = {}
        for reading in readings:
            self._devices.add(reading.device_id)
            if reading.partition_id:
                self._partitions[reading.partition_id] = Place(reading.device_id, reading.partition_id)
            elif reading.index is not None:
                self._indices.setdefault(str(reading.index), []).append((reading.vendor.casefold(), reading.device_id))

    @property
    def partitioned(self) -> Collection[str]:
        """Devices with partitions."""
        return {place.device_id for place in self._partitions.values()}

    def find(self, ref: DeviceRef) -> Place | None:
        """The place that is meant; None where that is not sure."""
        if ref.key in self._aliases:
            return self._aliases[ref.key]
        if ref.partition:
            return self._partitions.get(ref.partition)
        if ref.device in self._devices:
            return Place(ref.device)
        # GKE counts device files, which is the order of the indices unless the driver found devices out of bus order.
        index = ref.device.removeprefix("nvidia")
        found = [device for vendor, device in self._indices.get(index, ()) if vendor in ("", ref.vendor)]
        return Place(found[0]) if len(found) == 1 else None
