"""A trace's schedule: devices, and allocations with their devices and times; and its devices and events as tables."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa

from collectors.tables import TABLE_ROWS, Records, table
from warehouse.records import DEVICES, EVENTS


@dataclass(frozen=True)
class TraceDevice:
    """A device of the trace's machines; memory None where the trace does not tell."""

    device_id: str
    node: str
    model: str
    memory_bytes: int | None
    units: int = 1


@dataclass(frozen=True)
class Allocation:
    """A job of the trace.

    submit_ms, start_ms, end_ms: ms since the epoch; start None = never started.
    devices: places in Schedule.devices.   units: of each device.   gpus: requested.
    ending: the terminal event, '' = none known.
    """

    allocation_id: str
    tenant: str
    queue: str
    submit_ms: int
    start_ms: int | None
    end_ms: int
    gpus: float
    devices: tuple[int, ...]
    units: int
    ending: str
    reason: str = ""
    preemptible: bool | None = None


@dataclass(frozen=True)
class Schedule:
    """All that a trace says. `notes`: what had to be assumed, a sentence each, to be shown with every use of it."""

    cluster: str
    source: str
    devices: Sequence[TraceDevice]
    allocations: Sequence[Allocation]
    notes: tuple[str, ...]

    @property
    def started(self) -> list[Allocation]:
        return [allocation for allocation in self.allocations if allocation.start_ms is not None]

    def records(self) -> Records:
        """Devices, then events in time order.

        The devices are there from an hour before the first submission to the full hour after the last end, so that
        a close without --until covers the whole trace.
        """
        yield DEVICES, _devices(self)
        rows = sorted(row for number, allocation in enumerate(self.allocations) for row in _events(number, allocation))
        for first in range(0, len(rows), TABLE_ROWS):
            yield EVENTS, _event_table(self, rows[first : first + TABLE_ROWS])

    def summary(self) -> list[str]:
        """For people: counts, makespan, waits, GPU-hours, then the notes."""
        started = self.started
        first = min(allocation.submit_ms for allocation in self.allocations)
        last = max(allocation.end_ms for allocation in started) if started else first
        waits = sorted((a.start_ms or 0) - a.submit_ms for a in started) or [0]
        shares = {device.units for device in self.devices} or {1}
        gpu_ms = sum((a.end_ms - (a.start_ms or 0)) * a.units * len(a.devices) for a in started) / max(shares)
        at = {f"p{q}": waits[min(len(waits) - 1, len(waits) * q // 100)] / 1000 for q in (50, 90, 99)}
        ended = sum(bool(allocation.ending) for allocation in started)
        return [
            f"{len(self.allocations):,} submitted, {len(started):,} started, {ended:,} ended "
            f"on {len(self.devices):,} GPUs; {gpu_ms / 3_600_000:,.1f} GPU-hours allocated",
            f"makespan {(last - first) / 86_400_000:,.1f} days; wait "
            + ", ".join(f"{name} {seconds:,.0f} s" for name, seconds in at.items())
            + f", longest {waits[-1] / 1000:,.0f} s",
            *self.notes,
        ]


HOUR_MS = 3_600_000
_SUBMITTED, _ENDED, _STARTED = 0, 1, 2
_Row = tuple[int, int, int, int]
"""(ts, kind, number of the allocation, device or -1): sorts by time, ends before starts."""


def _devices(schedule: Schedule) -> pa.Table:
    start = min(allocation.submit_ms for allocation in schedule.allocations) - HOUR_MS
    end = -(-max(allocation.end_ms for allocation in schedule.allocations) // HOUR_MS) * HOUR_MS
    count = len(schedule.devices)
    devices = [*schedule.devices, *schedule.devices]
    return table(
        DEVICES,
        len(devices),
        {
            "ts": pa.array([start] * count + [end] * count, pa.int64()).cast(pa.timestamp("ms", "UTC")),
            "cluster": schedule.cluster,
            "node": [device.node for device in devices],
            "device_id": [device.device_id for device in devices],
            "vendor": "nvidia",
            "model": [device.model for device in devices],
            "memory_bytes": [device.memory_bytes for device in devices],
            "units": [device.units for device in devices],
            "pool": schedule.cluster,
            "state": ["available"] * count + ["removed"] * count,
        },
    )


def _events(number: int, allocation: Allocation) -> Iterator[_Row]:
    yield allocation.submit_ms, _SUBMITTED, number, -1
    if allocation.start_ms is not None:
        for device in allocation.devices:
            yield allocation.start_ms, _STARTED, number, device
    if allocation.ending:
        yield allocation.end_ms, _ENDED, number, -1


def _event_table(schedule: Schedule, rows: Sequence[_Row]) -> pa.Table:
    allocations = [schedule.allocations[number] for _, _, number, _ in rows]
    devices = [schedule.devices[device] if device >= 0 else None for _, _, _, device in rows]
    pairs = list(zip(rows, allocations, strict=True))
    return table(
        EVENTS,
        len(rows),
        {
            "ts": pa.array([row[0] for row in rows], pa.int64()).cast(pa.timestamp("ms", "UTC")),
            "cluster": schedule.cluster,
            "source": schedule.source,
            "allocation_id": [allocation.allocation_id for allocation in allocations],
            "workload_id": [allocation.allocation_id for allocation in allocations],
            "event": [("submitted", allocation.ending, "started")[row[1]] for row, allocation in pairs],
            "tenant": [allocation.tenant for allocation in allocations],
            "queue": [allocation.queue for allocation in allocations],
            "gpus": [allocation.gpus for allocation in allocations],
            "node": [device.node if device else "" for device in devices],
            "device_id": [device.device_id if device else "" for device in devices],
            "units": [allocation.units if row[1] == _STARTED else None for row, allocation in pairs],
            "preemptible": [allocation.preemptible for allocation in allocations],
            "reason": [allocation.reason if row[1] == _ENDED else "" for row, allocation in pairs],
        },
    )
