"""The last observation of each device: counters become increases within the interval, and nothing counts twice."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime

from collectors.exporters.jumps import Jumps
from collectors.exporters.sightings import Counted, Holder, Sighting
from collectors.exporters.units import SourceUnits, apart
from collectors.readings import DeviceReading, Reading, Row
from warehouse.records import MAX_INTERVAL_SECONDS

FLIP_SECONDS = 600.0
"""A holder that is back within this time, after another one, has never left: under time-slicing dcgm-exporter names
whichever pod the kubelet lists last."""
SHARED_SECONDS = 3600.0
"""How long a device is held to be shared after that."""

POWER_FACTOR = 30.0
"""How many times the mean power of an interval may be more or less than the power at its end."""

PartitionId = Callable[[str, str], str]
"""(device_id, number of the partition) -> the vendor's UUID of the partition, empty if unknown: NVML has it."""

Key = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Observed:
    """A device or partition over one interval, as an exporter tells it.

    holders, shared, workloads: as in `sightings.Sighting`; they are the exporter's word, not an allocation.
    target: which exporter.
    """

    reading: DeviceReading
    ts: datetime
    interval_seconds: float
    node: str = ""
    holders: tuple[Holder, ...] = ()
    shared: bool = False
    workloads: Mapping[Holder, Mapping[str, Reading]] = field(default_factory=dict)
    target: str = ""

    @property
    def seen(self) -> bool:
        """Whether the exporter spoke of it now. Of a divided device it may be that it speaks of the parts alone."""
        return any(reading.source and reading.state != "stale" for reading in self.reading.readings.values())

    @property
    def sole_holder(self) -> Holder | None:
        """Who alone holds it, where an exporter's labels can be believed: one holder, of the whole or of one
        partition, and no copies for shares."""
        return self.holders[0] if len(self.holders) == 1 and not self.shared else None


@dataclass(slots=True)
class _Known:
    """A device as last seen. last: the observation.   at: its instant.   counters: name -> (value, instant).
    xid: the last code.   sole: holder -> when it was last named as the only one.   shared_until: see FLIP_SECONDS."""

    last: Observed
    at: float
    counters: dict[str, tuple[float, float]] = field(default_factory=dict)
    xid: float | None = None
    sole: dict[Holder, float] = field(default_factory=dict)
    shared_until: float = 0.0


@dataclass
class Tracker:
    """One source's devices. vendor: of those that name none.   period_seconds: how often it is asked; an observation
    covers no more than twice that, for a number read now says nothing of the time before."""

    vendor: str
    period_seconds: float
    partition_id: PartitionId | None = None
    units: SourceUnits = field(default_factory=SourceUnits)
    jumps: Jumps = field(default_factory=Jumps)
    known: dict[Key, _Known] = field(default_factory=dict)
    dropped: Counter[str] = field(default_factory=Counter)
    findings: list[Row] = field(default_factory=list)

    def advance(self, sightings: Iterable[Sighting]) -> list[Observed]:
        """Sightings of one instant, after those of earlier ones. One that is no newer than the last is dropped: the
        exporter has not asked its driver since."""
        observed = []
        for sighting in sightings:
            key = sighting.device_id, sighting.partition
            before = self.known.get(key)
            if before is not None and sighting.at <= before.at:
                self.dropped["seen before"] += sighting.series
                continue
            self.findings += self.jumps.see([sighting])
            known = self._advance(sighting, before)
            self.known[key] = known
            observed.append(known.last)
            if before is not None and before.xid is not None and known.xid not in (None, 0.0, before.xid):
                # The gauge keeps the last code for good, so that only a change says anything.
                self.findings.append(_finding(known.last, "xid", f"XID {known.xid:.0f}"))
        return observed

    def _advance(self, sighting: Sighting, before: _Known | None) -> _Known:
        interval = self.period_seconds
        if before is not None and sighting.at - before.at <= 2 * self.period_seconds:
            interval = sighting.at - before.at
        interval = round(min(max(float(interval), 0.001), MAX_INTERVAL_SECONDS), 6)
        readings, counters = dict(sighting.readings), dict(before.counters) if before else {}
        for name, counted in sighting.counters.items():
            power = sighting.readings.get("power_watts") if name == "energy_joules" else None
            readings[name] = self._gained(counted, counters.get(name), sighting.at, interval, power)
            if counted.reading.value is not None:
                counters[name] = counted.reading.value, sighting.at
        sole, shared_until = _flips(sighting, before)
        observed = Observed(
            reading=DeviceReading(
                device_id=sighting.device_id,
                partition_id=self._partition_id(sighting),
                partition_profile=sighting.partition_profile,
                index=sighting.index,
                vendor=sighting.vendor or self.vendor,
                model=sighting.model,
                readings=readings,
            ),
            ts=datetime.fromtimestamp(sighting.at, UTC),
            interval_seconds=interval,
            node=sighting.node,
            holders=sighting.holders,
            shared=sighting.shared or sighting.at < shared_until,
            workloads=sighting.workloads,
            target=sighting.target,
        )
        xid = readings.get("xid_last")
        code = xid.value if xid is not None and xid.usable else before.xid if before else None
        return _Known(observed, sighting.at, counters, code, sole, shared_until)

    def _gained(
        self, counted: Counted, before: tuple[float, float] | None, at: float, interval: float, power: Reading | None
    ) -> Reading:
        """What the counter gained in the interval. After a restart it counts from 0, and what it shows was gained
        since. Over a longer time than the interval, the interval's part of it. power: about the rate of an energy."""
        now, rule = counted.reading, counted.rule
        if now.value is None:
            return now
        if before is None or not 0 < at - before[1] <= MAX_INTERVAL_SECONDS:
            return Reading("blank", source=now.source)
        value, since = before
        elapsed = at - since
        if counted.units and _rescaled(counted, value, now.value):
            return Reading("blank", source=now.source)
        gained: float | None = now.value - value if now.value >= value else now.value
        if counted.units and gained:
            gained = self._in_unit(counted, gained, elapsed, at, power)
        if gained is None or (rule.max_per_second is not None and gained > rule.max_per_second * elapsed):
            return Reading("blank", source=now.source)
        return Reading("ok", gained * min(interval / elapsed, 1.0), now.source)

    def _in_unit(
        self, counted: Counted, gained: float, elapsed: float, at: float, power: Reading | None
    ) -> float | None:
        """The gain in our unit: that in which it is believable, and near to the power where that is told; None where
        several are, and none is remembered."""
        rule, watts = counted.rule, power.value if power is not None and power.usable else None
        rates = {unit.name: (unit, unit.scaled(gained) / elapsed) for unit in counted.units}
        most = math.inf if rule.max_per_second is None else rule.max_per_second
        fitting = {name: each for name, each in rates.items() if rule.min_per_second <= each[1] <= most}
        if watts:
            fitting = {name: each for name, each in fitting.items() if apart(each[1], watts) <= POWER_FACTOR}
        name = self.units.by_rate(counted.target, counted.name, list(fitting), at)
        return rates[name][1] * elapsed if name in rates else None

    def _partition_id(self, sighting: Sighting) -> str:
        if not sighting.partition:
            return ""
        known = self.partition_id(sighting.device_id, sighting.partition) if self.partition_id else ""
        return known or sighting.partition_id or f"{sighting.device_id}/{sighting.partition}"

    def stale(self, at: float, keys: Iterable[Key] | None = None) -> list[Observed]:
        """The devices that were known and of which nothing came: every reading unknown since, none of them zero."""
        observed = []
        for key in list(self.known) if keys is None else keys:
            last = self.known[key].last
            gone = {name: Reading("stale", source=one.source) for name, one in last.reading.readings.items()}
            reading = DeviceReading(
                device_id=last.reading.device_id,
                partition_id=last.reading.partition_id,
                partition_profile=last.reading.partition_profile,
                index=last.reading.index,
                vendor=last.reading.vendor,
                model=last.reading.model,
                readings=gone,
                processes_state="stale",
            )
            interval = min(self.period_seconds, MAX_INTERVAL_SECONDS)
            observed.append(Observed(reading, datetime.fromtimestamp(at, UTC), interval, last.node, target=last.target))
        return observed

    def gone(self, seen: Iterable[Key], at: float) -> list[Observed]:
        """Devices and partitions that an answer no longer names: stale now, and forgotten. The exporter may have been
        reconfigured, the device divided anew, or it fell off the bus; only that it is gone is known."""
        missing = sorted(self.known.keys() - set(seen))
        observed = self.stale(at, missing)
        for key in missing:
            del self.known[key]
            self.jumps.forget(*key)
        self.findings += [_finding(one, "inventory_changed", "the exporter names it no longer") for one in observed]
        return observed


def _flips(sighting: Sighting, before: _Known | None) -> tuple[dict[Holder, float], float]:
    """Who has lately been named alone, and until when the device is held to be shared."""
    at = sighting.at
    recent = {one: since for one, since in before.sole.items() if at - since <= FLIP_SECONDS} if before else {}
    shared_until = before.shared_until if before else 0.0
    if len(sighting.holders) != 1 or sighting.shared:
        return recent, shared_until
    holder = sighting.holders[0]
    if before is not None and holder in recent and before.last.holders and holder not in before.last.holders:
        shared_until = at + SHARED_SECONDS
    return {**recent, holder: at}, shared_until


def _rescaled(counted: Counted, before: float, now: float) -> bool:
    """Whether the counter fell by as much as one of its units is larger than another: no restart, then."""
    factors = {unit.factor for unit in counted.units}
    steps = [float(one / other) for one in factors for other in factors if one > other]
    return 0 < now < before and any(apart(before / now, step) <= 1.01 for step in steps)


def _finding(one: Observed, finding: str, message: str) -> Row:
    return {
        "ts": one.ts,
        "node": one.node,
        "device_id": one.reading.device_id,
        "partition_id": one.reading.partition_id,
        "finding": finding,
        "severity": "warning",
        "message": message,
    }
