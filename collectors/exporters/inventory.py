"""Device rows for the devices that exporters name: the inventory of a site without agents on its nodes.

    seen     a row (`available`) when a process first sees a device, and when something known about it changes
    silent   no row. An exporter that is down says nothing of its devices: they keep their state, allocations on them
             are unmetered, and the outage is a finding
    back     `available` again: meanwhile another source may have removed the device with its node
    gone     `removed`, as of when it was last seen, if other devices of its node and exporter are seen for an hour and
             it is not. Exporters that reported the same device count as one: after a restart, Prometheus may use
             another name

A change must last for CONFIRMED observations, so that two exporters that name a node differently do not write a row
each time. Sources closer to the device (the driver on its node, a scheduler that partitions it) know better: such a
site does not use this inventory.
"""

from __future__ import annotations

import math
from bisect import bisect_right, insort
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from typing import Any

from collectors.exporters.profile import Profile
from collectors.exporters.tracker import Measurement
from collectors.readings import Row

GONE_SECONDS = 3600.0
STEP_SECONDS = 600.0
"""What one look counts at most of that hour: a node that was silent is no evidence of the time before."""
MOST_DEVICES = 100_000
"""Of a source; what it names beyond is in no row."""
CONFIRMED = 3
BACK_SECONDS = 120.0
"""A device that was unseen for as long, and at more than CONFIRMED looks, is reported again when it is back."""
UNDIVIDED_SECONDS = 600.0
"""A device that was divided is so until it was seen without parts for so long: pushed series of its parts may be behind
those of the whole. The row is from when that was first seen."""
MOST_REPORTED = 100
"""Rows of a device that are remembered, for what comes late."""
SAME_MEMORY = 0.01
"""Sizes that differ by no more of themselves are one: versions of a driver reserve more or less."""


@dataclass(frozen=True, slots=True)
class Facts:
    """What a device row says of a device. memory_bytes: None if no series has it."""

    node: str
    vendor: str
    model: str
    memory_bytes: int | None = None
    units: int = 1

    def same(self, other: Facts) -> bool:
        """Whether the other adds nothing new."""
        if (self.node, self.model, self.units) != (other.node, other.model, other.units):
            return False
        if self.memory_bytes is None or other.memory_bytes is None:
            return other.memory_bytes is None
        return abs(self.memory_bytes - other.memory_bytes) <= SAME_MEMORY * self.memory_bytes

    def less_divided(self, other: Facts) -> bool:
        """Whether it differs from the other only in having fewer units."""
        return self.units < other.units and replace(self, units=other.units).same(other)


@dataclass(slots=True)
class _Device:
    """source: the exporter that spoke of it last.   reported: what its last row said; None after it was removed.
    seen_at: None before its first observation in this life.   missed: seconds for which others of its node and exporter
    were seen without it.   looks: since its last observation.   other: what it seems to be instead, since when, and how
    often in a row.   rows: of this life, from when they are.   before: as other, of the time before that.   parts: as
    other, what came late of parts of which nothing was reported."""

    reported: Facts | None
    source: str = ""
    seen_at: float | None = None
    missed: float = 0.0
    looks: int = 0
    other: tuple[Facts, float, int] | None = None
    rows: list[tuple[float, Facts]] = field(default_factory=list)
    before: tuple[Facts, float, int] | None = None
    parts: tuple[Facts, float, int] | None = None

    def reported_at(self, at: float) -> Facts | None:
        """What was reported of it for this time."""
        place = bisect_right(self.rows, at, key=lambda row: row[0])
        return self.rows[place - 1][1] if place else None

    def reported_from(self, at: float, facts: Facts) -> None:
        insort(self.rows, (at, facts), key=lambda row: row[0])
        del self.rows[:-MOST_REPORTED]


class ExporterInventory:
    """The devices of one source. pool: of its rows.   without: vendors (lower case) whose devices another source
    reports."""

    def __init__(self, cluster: str = "", pool: str = "", without: Iterable[str] = ()) -> None:
        self._same = {name: text for name, text in (("cluster", cluster), ("pool", pool)) if text}
        self._without = frozenset(without)
        self._devices: dict[str, _Device] = {}
        self._seen: dict[tuple[str, str], float] = {}
        self._renamed: dict[str, str] = {}
        self.changed = False

    def take(self, observed: Iterable[Measurement], profile: Profile, source: str = "") -> list[Row]:
        """The rows that these measurements, oldest first, add. Those of a device that no series is of now say nothing,
        nor does one without a model.   source: the exporter, instead of the measurements' targets."""
        return self._rows_of_whole_devices(self._see, observed, profile, source)

    def take_late(self, observed: Iterable[Measurement], profile: Profile) -> list[Row]:
        """The rows of measurements, oldest first, that came after later ones: the device was there before. Of what it
        is now they say nothing."""
        return self._rows_of_whole_devices(self._see_late, observed, profile)

    def _rows_of_whole_devices(
        self,
        see: Callable[[str, Facts, float], list[Row]],
        observed: Iterable[Measurement],
        profile: Profile,
        source: str = "",
    ) -> list[Row]:
        rows = []
        for one, facts in self._whole(observed, profile):
            rows += see(one.reading.device_id, facts, one.ts.timestamp())
            self._spoken_of(one.reading.device_id, source or one.target)
        return rows

    def _whole(self, observed: Iterable[Measurement], profile: Profile) -> Iterator[tuple[Measurement, Facts]]:
        if not profile.inventory.reported:
            return
        some = list(observed)
        seen = {one.reading.device_id for one in some if one.seen}
        parts = {one.reading.device_id: one.reading.partition_profile for one in some if one.reading.partition_id}
        whole = [one for one in some if not one.reading.partition_id and one.reading.device_id in seen]
        for one in whole:
            facts = _facts(one, profile, parts.get(one.reading.device_id, ""))
            if facts.model and facts.vendor not in self._without and self._has_room(one.reading.device_id):
                yield one, facts

    def _spoken_of(self, device_id: str, source: str) -> None:
        device = self._devices.get(device_id)
        if device is None:
            return
        before, now = self._exporter(device.source), self._exporter(source)
        if device.source and before != now:
            if len(self._renamed) > MOST_DEVICES:
                self._renamed.clear()
            self._renamed[before], self.changed = now, True
        device.source = source

    def _exporter(self, source: str) -> str:
        """The last name of an exporter that went by several."""
        while source in self._renamed:
            source = self._renamed[source]
        return source

    def _has_room(self, device_id: str) -> bool:
        return device_id in self._devices or len(self._devices) < MOST_DEVICES

    def missing(self, at: float) -> list[Row]:
        """The rows of devices that are gone; to be asked after `take`, each time."""
        reported = {name: device for name, device in self._devices.items() if device.reported is not None}
        seen: dict[tuple[str, str], float] = {}
        for device in reported.values():
            if device.reported is not None and device.seen_at is not None:
                for exporter in ("", self._exporter(device.source)):  # of a device of an unknown one, any speaks
                    group = device.reported.node, exporter
                    seen[group] = max(device.seen_at, seen.get(group, 0.0))
        rows = []
        for device_id, device in reported.items():
            if device.reported is None:
                continue
            device.looks += 1
            group = device.reported.node, self._exporter(device.source)
            before = self._seen.get(group, math.inf)
            step = min(seen.get(group, 0.0) - before, STEP_SECONDS)
            if device.seen_at is None:
                device.seen_at = at  # remembered, and not yet seen in this life: its hour begins
            elif device.seen_at > before:
                device.missed = 0.0
            elif step > 0:
                device.missed += step
            if device.missed >= GONE_SECONDS:
                rows.append(self._row(device_id, device.reported, device.seen_at, "removed"))
                device.reported, device.missed, self.changed = None, 0.0, True
        self._seen = seen
        return rows

    def plain(self) -> dict[str, Any]:
        """What a restart needs, as JSON has it."""
        return {
            name: {**asdict(one.reported), "source": self._exporter(one.source)}
            for name, one in self._devices.items()
            if one.reported is not None
        }

    def restore(self, plain: Mapping[str, Any]) -> None:
        """Errors: TypeError, KeyError, ValueError if it is not what `plain` gives."""
        self._devices = {
            str(name): _Device(
                Facts(**{key: value for key, value in one.items() if key != "source"}), one.get("source", "")
            )
            for name, one in plain.items()
        }

    def _see(self, device_id: str, facts: Facts, at: float) -> list[Row]:
        device = self._devices.setdefault(device_id, _Device(None))
        if device.reported is None or device.seen_at is None:  # also again by each process: the last row may be lost
            parts = device.reported is not None and facts.less_divided(device.reported)
            return self._tell(device_id, device, device.reported if parts and device.reported else facts, at)
        is_back = device.looks > CONFIRMED and at - device.seen_at >= BACK_SECONDS
        if device.reported.node == facts.node:
            device.seen_at, device.looks = at, 0
        if device.reported.same(facts):
            if is_back:
                return self._tell(device_id, device, facts, at)
            device.other = None
            return []
        before, since, times = device.other or (facts, at, 0)
        if before.same(facts) and facts.same(before):
            device.other = before, since, times + 1
        else:
            device.other = facts, at, 1
        since, times = device.other[1:]
        if times < CONFIRMED or (facts.less_divided(device.reported) and at - since < UNDIVIDED_SECONDS):
            return []
        return self._tell(device_id, device, facts, since)

    def _see_late(self, device_id: str, facts: Facts, at: float) -> list[Row]:
        device = self._devices.get(device_id)
        if device is None or (device.reported is not None and device.seen_at is not None and at > device.seen_at):
            if device is not None:
                device.missed = 0.0
            return self._see(device_id, facts, at)  # later than others, and the newest of this one
        if device.reported is None or device.seen_at is None:
            return []  # removed since, or not yet seen in this life
        reported = device.reported_at(at)
        if reported is not None:
            return self._see_parts(device_id, device, facts, reported, at)
        since = at
        if not device.reported.same(facts):
            before, since, times = device.before or (facts, at, 0)
            if not (before.same(facts) and facts.same(before)):
                since, times = at, 0
            device.before = facts, since, times + 1
            if times + 1 < CONFIRMED:
                return []
        device.before = None
        device.reported_from(since, facts)
        return [self._row(device_id, facts, since, "available")]

    def _see_parts(self, device_id: str, device: _Device, facts: Facts, reported: Facts, at: float) -> list[Row]:
        """What came late of a time that was reported: it says something new where it shows parts."""
        if device.reported is None or not reported.less_divided(facts):
            if device.other is not None and at >= device.other[1] and reported.same(facts):
                device.other = None  # it is not something else since then
            return []
        before, since, times = device.parts or (facts, at, 0)
        if not before.same(facts):
            since, times = at, 0
        device.parts = facts, min(since, at), times + 1
        if times + 1 < CONFIRMED:
            return []
        since, device.parts = device.parts[1], None
        if device.reported.less_divided(facts) and device.rows[-1][0] <= since:
            device.reported, device.other, self.changed = facts, None, True
        device.reported_from(since, facts)
        return [self._row(device_id, facts, since, "available")]

    def _tell(self, device_id: str, device: _Device, facts: Facts, at: float) -> list[Row]:
        memory = facts.memory_bytes or (device.reported.memory_bytes if device.reported else None)
        if device.reported is None or device.seen_at is None:
            device.rows.clear()
        device.reported = Facts(facts.node, facts.vendor, facts.model, memory, facts.units)
        device.reported_from(at, device.reported)
        device.seen_at, device.looks, device.other, self.changed = at, 0, None, True
        return [self._row(device_id, device.reported, at, "available")]

    def _row(self, device_id: str, facts: Facts, at: float, state: str) -> Row:
        row: Row = {"ts": datetime.fromtimestamp(at, UTC), "node": facts.node, "device_id": device_id}
        row |= {"vendor": facts.vendor, "model": facts.model, "units": facts.units, "state": state}
        if facts.memory_bytes is not None:
            row["memory_bytes"] = facts.memory_bytes
        return row | self._same


def _facts(one: Measurement, profile: Profile, partition_profile: str) -> Facts:
    memory = one.reading.readings.get("memory_total_bytes")
    total = int(memory.value) if memory is not None and memory.usable and memory.value else None
    units = next(
        (units for glob, units in profile.inventory.units.items() if fnmatchcase(partition_profile.lower(), glob)), 1
    )
    return Facts(one.node, (one.reading.vendor or profile.vendor).lower(), one.reading.model, total, units)
