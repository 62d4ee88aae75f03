"""Remembers the last observation of each device: turns counters into increases per interval, and counts nothing
twice.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime

from collectors.exporters.jumps import Jumps
from collectors.exporters.observations import Counted, Holder, Observation, Observations
from collectors.exporters.units import SourceUnits, apart
from collectors.readings import DeviceReading, Reading, Row
from warehouse.records import MAX_INTERVAL_SECONDS

FLIP_SECONDS = 600.0
"""A holder that is back within this time, after another one, has never left: under time-slicing dcgm-exporter names
whichever pod the kubelet lists last."""
SHARED_SECONDS = 3600.0
"""How long a device is held to be shared after that."""

MISSED_PERIODS = 2.1
"""One look may be missed. A Prometheus that is busy looks some milliseconds early or late: what is two periods must not
be decided by them."""

UNREPORTED_SECONDS = 3600.0
"""A device whose partitions nothing reports is a finding again after this long."""

UNREPORTED = (
    "only labels of pods say of which partition its series are, which their users can write: they are left out."
    " Switch the exporter's pod labels off, or let it show the whole device too"
    " (docs/exporters.md, Attribution to workloads)"
)

POWER_FACTOR = 30.0
"""How many times the mean power of an interval may be more or less than the power at its end."""

PartitionId = Callable[[str, str], str]
"""(device_id, number of the partition) -> the vendor's UUID of the partition, empty if unknown: NVML has it."""

Key = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Measurement:
    """A device or partition over one interval, as its exporter reports it."""

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
    """A device as last seen. last: the measurement.   at: its instant.   counters: name -> (value, instant).
    xid: the last code.   sole: holder -> when it was last named as the only one.   shared_until: see FLIP_SECONDS."""

    last: Measurement
    at: float
    counters: dict[str, tuple[float, float]] = field(default_factory=dict)
    xid: float | None = None
    sole: dict[Holder, float] = field(default_factory=dict)
    shared_until: float = 0.0


@dataclass
class Tracker:
    """One source's devices. vendor: of those that name none.   period_seconds: how often it is asked; a measurement
    covers no more than MISSED_PERIODS of them, for a number read now says nothing of the time before."""

    vendor: str
    period_seconds: float
    partition_id: PartitionId | None = None
    units: SourceUnits = field(default_factory=SourceUnits)
    jumps: Jumps = field(default_factory=Jumps)
    known: dict[Key, _Known] = field(default_factory=dict)
    dropped: Counter[str] = field(default_factory=Counter)
    findings: list[Row] = field(default_factory=list)
    unreported: dict[str, float] = field(default_factory=dict)

    def advance(self, seen: Observations) -> list[Measurement]:
        """What was seen at an instant, after those of earlier ones. A device that is no newer than the last time is
        dropped: the exporter has not asked its driver since."""
        observed = []
        self._tell_unreported(seen)
        for observation in seen.devices:
            key = observation.device_id, observation.partition
            before = self.known.get(key)
            if before is not None and observation.at <= before.at:
                self.dropped["seen before"] += observation.series
                continue
            self.findings += self.jumps.see([observation])
            known = self._advance(observation, before)
            self.known[key] = known
            observed.append(known.last)
            if before is not None and before.xid is not None and known.xid not in (None, 0.0, before.xid):
                # The gauge keeps the last code for good, so that only a change says anything.
                self.findings.append(_finding(known.last, "xid", f"XID {known.xid:.0f}"))
        return observed

    def start_anew(self) -> None:
        """The clock was set back: nothing can be reckoned from what was seen by it, and all that comes is new."""
        for known in self.known.values():
            known.at = -math.inf
            known.counters.clear()
        self.unreported.clear()

    def _tell_unreported(self, seen: Observations) -> None:
        """Devices whose series are left out: without a finding they would look as if nothing ran there."""
        at = seen.at
        for device, node in seen.unreported.items():
            if at - self.unreported.get(device, -math.inf) >= UNREPORTED_SECONDS:
                self.unreported[device] = at
                row: Row = {"ts": datetime.fromtimestamp(at, UTC), "node": node, "device_id": device}
                self.findings.append(
                    row | {"finding": "partition_untold", "severity": "warning", "message": UNREPORTED}
                )
        self.unreported = {
            device: since for device, since in self.unreported.items() if at - since < UNREPORTED_SECONDS
        }

    def _advance(self, observation: Observation, before: _Known | None) -> _Known:
        interval = self.period_seconds
        if before is not None and observation.at - before.at <= MISSED_PERIODS * self.period_seconds:
            interval = observation.at - before.at
        interval = round(min(max(float(interval), 0.001), MAX_INTERVAL_SECONDS), 6)
        readings, counters = dict(observation.readings), dict(before.counters) if before else {}
        for name, counted in observation.counters.items():
            power = observation.readings.get("power_watts") if name == "energy_joules" else None
            readings[name] = self._gained(counted, counters.get(name), observation.at, interval, power)
            if counted.reading.value is not None:
                counters[name] = counted.reading.value, observation.at
        sole, shared_until = _flips(observation, before)
        observed = Measurement(
            reading=DeviceReading(
                device_id=observation.device_id,
                partition_id=self._partition_id(observation),
                partition_profile=observation.partition_profile,
                index=observation.index,
                vendor=observation.vendor or self.vendor,
                model=observation.model,
                readings=readings,
            ),
            ts=datetime.fromtimestamp(observation.at, UTC),
            interval_seconds=interval,
            node=observation.node,
            holders=observation.holders,
            shared=observation.shared or observation.at < shared_until,
            workloads=observation.workloads,
            target=observation.target,
        )
        xid = readings.get("xid_last")
        code = xid.value if xid is not None and xid.usable else before.xid if before else None
        return _Known(observed, observation.at, counters, code, sole, shared_until)

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
        """The gain in our unit: that in which it is believable, and near to the power where that is known; None where
        several are, and none is remembered."""
        rule, watts = counted.rule, power.value if power is not None and power.usable else None
        rates = {unit.name: (unit, unit.scaled(gained) / elapsed) for unit in counted.units}
        most = math.inf if rule.max_per_second is None else rule.max_per_second
        fitting = {name: each for name, each in rates.items() if rule.min_per_second <= each[1] <= most}
        if watts:
            fitting = {name: each for name, each in fitting.items() if apart(each[1], watts) <= POWER_FACTOR}
        name = self.units.by_rate(counted.target, counted.name, list(fitting), at)
        return rates[name][1] * elapsed if name in rates else None

    def _partition_id(self, observation: Observation) -> str:
        if not observation.partition:
            return ""
        known = self.partition_id(observation.device_id, observation.partition) if self.partition_id else ""
        return known or observation.partition_id or f"{observation.device_id}/{observation.partition}"

    def divided(self, at: float) -> set[str]:
        """Devices of which a partition was seen lately: where series of one instant come apart, those of the whole may
        be there before those of its parts."""
        return {device for (device, part), known in self.known.items() if part and at - known.at <= FLIP_SECONDS}

    def stale(self, at: float, keys: Iterable[Key] | None = None) -> list[Measurement]:
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
            observed.append(
                Measurement(reading, datetime.fromtimestamp(at, UTC), interval, last.node, target=last.target)
            )
        return observed

    def gone(self, seen: Iterable[Key], at: float) -> list[Measurement]:
        """Devices and partitions that an answer no longer names: stale now, and forgotten. The exporter may have been
        reconfigured, the device divided anew, or it fell off the bus; only that it is gone is known."""
        missing = sorted(self.known.keys() - set(seen))
        observed = self.stale(at, missing)
        for key in missing:
            del self.known[key]
            self.jumps.forget(*key)
        self.findings += [_finding(one, "inventory_changed", "the exporter names it no longer") for one in observed]
        return observed


def _flips(observation: Observation, before: _Known | None) -> tuple[dict[Holder, float], float]:
    """Detects sharing: which workloads were recently named alone, and until when the device counts as shared."""
    at = observation.at
    recent = {one: since for one, since in before.sole.items() if at - since <= FLIP_SECONDS} if before else {}
    shared_until = before.shared_until if before else 0.0
    if len(observation.holders) != 1 or observation.shared:
        return recent, shared_until
    holder = observation.holders[0]
    if before is not None and holder in recent and before.last.holders and holder not in before.last.holders:
        shared_until = at + SHARED_SECONDS
    return {**recent, holder: at}, shared_until


def _rescaled(counted: Counted, before: float, now: float) -> bool:
    """Whether the counter fell by the ratio of two of its units: then it was not restarted."""
    factors = {unit.factor for unit in counted.units}
    steps = [float(one / other) for one in factors for other in factors if one > other]
    return 0 < now < before and any(apart(before / now, step) <= 1.01 for step in steps)


def _finding(one: Measurement, finding: str, message: str) -> Row:
    return {
        "ts": one.ts,
        "node": one.node,
        "device_id": one.reading.device_id,
        "partition_id": one.reading.partition_id,
        "finding": finding,
        "severity": "warning",
        "message": message,
    }
