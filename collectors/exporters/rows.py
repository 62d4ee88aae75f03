"""Turns measurements into rows of samples, metrics and findings.

Rows of devices are made by `collectors.attribution`, as for every collector. This module adds the holder that an
exporter names, but only if that name is reliable: one pod on a whole device or on one MIG instance.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from collectors.attribution.attribute import Cycle, attribute
from collectors.attribution.places import Allocations
from collectors.attribution.processes import Owners
from collectors.exporters.observations import Holder
from collectors.exporters.tracker import Measurement
from collectors.readings import Collected, Reading, Row

UidOf = Callable[[str, str], str]
"""(namespace, pod) -> the pod's UID, empty if it is not known."""

_OF_HOLDER = ("sm_active", "tensor_active", "dram_active", "memory_used_bytes", "memory_total_bytes")


def rows(
    observed: Iterable[Measurement], *, cluster: str = "", uid_of: UidOf | None = None, believe_labels: bool = True
) -> Collected:
    """The rows of one cycle."""
    some = list(observed)
    divided = {one.reading.device_id for one in some if one.reading.partition_id}
    collected = Collected()
    for one in some:
        cycle = Cycle(one.ts, one.interval_seconds, cluster, one.node)
        partitioned = one.reading.device_id in divided and not one.reading.partition_id
        of_device = attribute(one.reading, Owners(), Allocations(), cycle, partitioned=partitioned)
        metrics = of_device.rows.pop("metrics", [])
        collected += of_device
        for row in metrics:
            if row["metric"] != "unattributed_activity":  # there are no processes here that could explain any
                collected.add("metrics", row)
        if believe_labels:
            _add_holders(collected, one, of_device.rows["samples"][0], uid_of)
    return collected


def _add_holders(collected: Collected, one: Measurement, device_row: Row, uid_of: UidOf | None) -> None:
    for holder, readings in one.workloads.items():
        if workload_id := _workload_id(holder, uid_of):
            _add_measured(collected, device_row, workload_id, readings)
        else:
            collected.dropped["pod without a UID"] += 1
    sole = one.sole_holder
    workload_id = _workload_id(sole, uid_of) if sole else ""
    if sole is None:
        collected.dropped.update({"holder of a shared device": len(one.holders)} if one.holders else {})
    elif not workload_id:
        collected.dropped["pod without a UID"] += 1
    elif sole not in one.workloads:
        kept = ("ts", "interval_seconds", "cluster", "node", "device_id", "partition_id", "state", "utilization")
        row = {name: device_row[name] for name in (*kept, "utilization_source", *_OF_HOLDER) if name in device_row}
        collected.add("samples", row | {"workload_id": workload_id})


def _add_measured(collected: Collected, device_row: Row, workload_id: str, readings: Mapping[str, Reading]) -> None:
    """Adds a workload's own readings; those without a column in samples become metrics."""
    kept = ("ts", "interval_seconds", "cluster", "node", "device_id", "partition_id")
    base = {name: device_row[name] for name in kept} | {"workload_id": workload_id}
    activity = readings.get("process_activity", Reading("blank"))
    sample = base | {"state": activity.state}
    if activity.usable:
        sample |= {"utilization": activity.value, "utilization_source": "process_activity"}
    memory = readings.get("memory_used_bytes")
    if memory is not None and memory.value is not None:
        sample["memory_used_bytes"] = int(memory.value)
    collected.add("samples", sample)
    for name, reading in readings.items():
        if name in sample or (name == "process_activity" and reading.usable):
            continue
        row = base | {"metric": name, "state": reading.state, "source": reading.source}
        collected.add("metrics", row | ({"value": reading.value} if reading.usable else {}))


def _workload_id(holder: Holder, uid_of: UidOf | None) -> str:
    """The pod's UID, never its name, because names are reused; for Slurm, the job id."""
    if holder.job:
        return holder.job
    return holder.uid or (uid_of(holder.namespace, holder.pod) if uid_of else "")
