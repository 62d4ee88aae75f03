"""Joins a device's readings, the owners of its processes and its allocations into rows of samples, metrics and
findings. Pure.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cached_property

from collectors.attribution.cgroup import Owner
from collectors.attribution.measures import best_activity, in_range, is_of_board, one_per_pid, time_share, unknown
from collectors.attribution.places import Allocations, Missing, Place
from collectors.attribution.processes import Owners
from collectors.readings import Collected, DeviceReading, ProcessReading, Reading, Row, Severity

BUSY = 0.05
"""A device that is at least so active while none of its processes is, is used by somebody whom the driver does not
list."""
MPS_SERVER = "nvidia-cuda-mps"
"""What Linux keeps of nvidia-cuda-mps-server in 15 characters; older drivers book its clients' work on it."""
SERVICES = frozenset({MPS_SERVER, "nv-hostengine", "dcgm-exporter", "nvidia-persiste", "nvidia-smi"})
"""Commands that belong on a device without an allocation. Anybody can take such a name: it is an `info` finding."""

_BYTES = ("memory_used_bytes", "memory_total_bytes")
_COLUMNS = ("sm_active", "tensor_active", "dram_active", *_BYTES, "power_watts", "energy_joules", "temperature_celsius")


@dataclass(frozen=True)
class Cycle:
    """One reading of a node.   ts: the end of the interval, aware."""

    ts: datetime
    interval_seconds: float
    cluster: str = ""
    node: str = ""

    def row(self, place: Place, workload_id: str = "") -> Row:
        """The key of samples and metrics."""
        return {**self._where(place, workload_id), "interval_seconds": self.interval_seconds}

    def finding(self, finding: str, severity: Severity, message: str, place: Place, who: str = "") -> Row:
        reported = {"finding": finding, "severity": severity, "message": message, "source": "attribution"}
        return {**self._where(place, who), **reported}

    def _where(self, place: Place, workload_id: str) -> Row:
        return {
            "ts": self.ts,
            "cluster": self.cluster,
            "node": self.node,
            "device_id": place.device_id,
            "partition_id": place.partition_id,
            "workload_id": workload_id,
        }


def attribute(
    reading: DeviceReading, owners: Owners, allocations: Allocations, cycle: Cycle, *, partitioned: bool = False
) -> Collected:
    """The rows of one device or partition in one cycle.

    partitioned: it is a device whose partitions are read as well; the processes and activity are theirs.
    Shape:  `samples`: one of everybody (`workload_id` empty), one for each workload that holds the place or was found
            on it. `metrics`: all other readings, `allocated_share`, `unattributed_activity`. `findings`: breaches; what
            a workload without an allocation did is in metrics only, since a sample of its own would tell the ledger
            that the device is the workload's.
    Traps:  a workload is idle only if everybody who was active is known and none of its processes was.
    """
    reading = replace(reading, processes=one_per_pid(reading.processes))
    pids = (process.pid for process in reading.processes)
    whose = {pid: _known_as(owners.of(pid).owner, allocations) for pid in pids}
    known = _Known(reading, owners, allocations, cycle, partitioned, whose)
    collected = Collected()
    collected.dropped.update(f"process_{owner.reason}" for owner in whose.values() if owner.kind == "unknown")
    _add_everybody(collected, known)
    _add_workloads(collected, known)
    if not partitioned:
        _add_metric(collected, known, "unattributed_activity", _residual(known))
    for process in known.breaches:
        collected.add("findings", _breach(known, process))
    return collected


def without_device(missing: Iterable[Missing], cycle: Cycle) -> Collected:
    """A finding for each allocation of a device that is missing from the node's readings."""
    collected = Collected()
    for one in missing:
        message = f"{one.resource or 'an allocation'} names {one.key}, which this node does not have"
        row = cycle.finding("allocation_without_device", "warning", message, Place(one.key), one.workload_id)
        collected.add("findings", row)
    return collected


@dataclass(frozen=True)
class _Known:
    """All that is known of one place in one cycle.

    partitioned: it is a device with partitions.   whose: owners by pid, under the names that allocations and events
    have for them.
    """

    reading: DeviceReading
    owners: Owners
    allocations: Allocations
    cycle: Cycle
    partitioned: bool
    whose: Mapping[int, Owner]

    @cached_property
    def place(self) -> Place:
        return Place(self.reading.device_id, self.reading.partition_id)

    def owner(self, process: ProcessReading) -> Owner:
        return self.whose[process.pid]

    def command(self, process: ProcessReading) -> str:
        return self.owners.of(process.pid).command

    @cached_property
    def breaches(self) -> list[ProcessReading]:
        return [one for one in self.reading.processes if _is_breach(self.owner(one), self.allocations, self.place)]

    @cached_property
    def blind(self) -> Reading | None:
        """Why the list of processes is unusable; None if it is usable."""
        for state in (self.owners.state, self.reading.processes_state):
            if state not in ("ok", "idle"):
                return Reading(state)
        return None

    @cached_property
    def doubtful(self) -> bool:
        """Whether an unknown process was, or may have been, active."""
        active = [one for one in self.reading.processes if not one.activity.usable or one.activity.value]
        if any(self.owner(one).kind == "unknown" or self.command(one) == MPS_SERVER for one in active):
            return True
        device = time_share(self.reading)
        return not active and not self.partitioned and (device.value or 0.0) >= BUSY


def _known_as(owner: Owner, allocations: Allocations) -> Owner:
    """The owner, under the name that allocations and events use for it."""
    known_as = allocations.aliases.get(owner.workload_id) if owner.kind == "pod" else None
    return replace(owner, workload_id=known_as) if known_as else owner


def _add_everybody(collected: Collected, known: _Known) -> None:
    """Adds the row with an empty workload; readings that have no column, or no usable value, become metrics."""
    readings: dict[str, Reading] = {}
    for name, given in known.reading.readings.items():
        checked = in_range(name, given)
        if given.usable and not checked.usable:
            collected.dropped["value_out_of_range"] += 1
        if not (known.place.partition_id and is_of_board(name)):
            readings[name] = checked
        elif checked.usable:
            collected.dropped["board_reading_on_partition"] += 1
    metric, best = best_activity(readings, known.partitioned or bool(known.place.partition_id))
    row = {**known.cycle.row(known.place), "state": best.state}
    if best.value is not None:
        nobody = best.value == 0 and "idle" in (best.state, known.reading.processes_state)
        row |= {"state": "idle" if nobody else "ok", "utilization": best.value, "utilization_source": metric}
    for name in _COLUMNS:
        if name in readings and (value := readings[name].value) is not None:
            row[name] = int(value) if name in _BYTES else value
    collected.add("samples", row)
    for name, reading in readings.items():
        if name not in row:
            _add_metric(collected, known, name, reading)


def _add_workloads(collected: Collected, known: _Known) -> None:
    """Adds a row for each workload; for a workload that should not be there, only metrics."""
    found: dict[str, list[ProcessReading]] = defaultdict(list)
    for process in known.reading.processes:
        if workload_id := known.owner(process).workload_id:
            found[workload_id].append(process)
    held = known.allocations.on(known.place)
    uninvited = {known.owner(process).workload_id for process in known.breaches}
    for workload_id in sorted({*held, *found}):
        activity, memory = _activity(known, found[workload_id]), _memory(known, found[workload_id])
        if workload_id in uninvited:
            _add_metric(collected, known, "process_activity", activity, workload_id)
            _add_metric(collected, known, "memory_used_bytes", memory, workload_id)
            continue
        row = {**known.cycle.row(known.place, workload_id), "state": activity.state}
        if activity.value is not None:
            row |= {"utilization": activity.value, "utilization_source": "process_activity"}
        if memory.value is not None:
            row["memory_used_bytes"] = int(memory.value)
        collected.add("samples", row)
        if workload_id in held and (share := held[workload_id].share) is not None:
            reported = Reading("ok", float(share), held[workload_id].resource)
            _add_metric(collected, known, "allocated_share", reported, workload_id)


def _activity(known: _Known, own: Sequence[ProcessReading]) -> Reading:
    """A workload's activity on the place, by its processes."""
    if known.blind:
        return known.blind
    for process in own:
        if not process.activity.usable:
            return process.activity
    total = sum(process.activity.value or 0.0 for process in own)
    if total > 0:
        return Reading("ok", min(1.0, total))
    return Reading("blank") if known.doubtful else Reading("idle", 0.0)


def _memory(known: _Known, own: Sequence[ProcessReading]) -> Reading:
    """Memory held by a workload's processes; unknown if that of any of them is."""
    if known.blind and not own:
        return known.blind
    for process in own:
        if not process.memory_bytes.usable:
            return process.memory_bytes
    return Reading("ok", sum(process.memory_bytes.value or 0.0 for process in own))


def _residual(known: _Known) -> Reading:
    """Activity of the place that no known workload's process explains. It belongs to nobody and is never spread over
    others."""
    device = time_share(known.reading)
    if known.blind:
        return known.blind
    if device.value is None:
        return unknown(device)
    explained = others = 0.0
    for process in known.reading.processes:
        if process.activity.value is None:
            return process.activity
        if known.owner(process).workload_id:
            explained += process.activity.value
        else:
            others += process.activity.value
    return Reading("ok", min(1.0, max(0.0, device.value - explained, others)), device.source)


def _is_breach(owner: Owner, allocations: Allocations, place: Place) -> bool:
    if owner.kind == "unknown" or not allocations.complete_for or allocations.is_contested(place):
        return False
    if owner.kind == "none":
        return True
    return owner.kind in allocations.complete_for and not allocations.covers(owner.workload_id, place)


def _breach(known: _Known, process: ProcessReading) -> Row:
    owner, command = known.owner(process), known.command(process)
    if owner.workload_id:
        who = f"{owner.kind} {known.allocations.names.get(owner.workload_id, owner.workload_id)}"
    else:
        who = _NOBODY.get(owner.reason, owner.reason).format(container=owner.container_id[:12])
    belongs = command in SERVICES or (process.kind == "graphics" and not owner.workload_id)
    message = f"pid {process.pid} ({command or '?'}) of {who} is on it without an allocation"
    severity: Severity = "info" if belongs else "warning"
    return known.cycle.finding("process_without_allocation", severity, message, known.place, owner.workload_id)


_NOBODY: Mapping[str, str] = {
    "host": "the host",
    "login_session": "a login session",
    "container_outside_kubernetes": "container {container}, which is no pod's,",
}


def _add_metric(collected: Collected, known: _Known, metric: str, reading: Reading, workload_id: str = "") -> None:
    row = {**known.cycle.row(known.place, workload_id), "metric": metric, "state": reading.state}
    if reading.value is not None:
        row["value"] = reading.value
    collected.add("metrics", {**row, "source": reading.source})
