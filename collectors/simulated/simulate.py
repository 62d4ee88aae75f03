"""The simulated fleet as records: devices, events, metrics of its scheduler and of a service, samples day by day."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

import pyarrow as pa

from collectors.simulated.fleet import Fleet, FleetPlan, Slot, build, slots
from collectors.simulated.jobs import jobs
from collectors.simulated.placement import IMPOSSIBLE, Deciding, Lifecycle, place
from collectors.simulated.samples import sample_tables
from collectors.simulated.service_levels import service_levels
from collectors.simulated.streams import Stream, streams
from collectors.tables import Records, schema, table
from warehouse.records import DEVICES, EVENTS, SAMPLES, SERVICE_LEVELS, RecordType

Scheduling = Callable[[FleetPlan, Fleet], Deciding]


def simulate(
    plan: FleetPlan, scheduling: Scheduling | None = None, source: str = "kubernetes", since_ms: int = 0
) -> Records:
    """Devices, events, samples in time order (a little disorder and a few duplicates included).

    The same plan gives the same bytes; nothing is read but the plan. scheduling: makes who decides on the nodes that
    are not Slurm's.   source: what tells those nodes' events.   since_ms: samples of earlier days are left out.
    """
    fleet = build(plan)
    tables, measured = _placed(plan, fleet, scheduling, source)
    while tables:
        yield tables.pop(0)
    for part in sample_tables(plan, fleet, measured, since_ms):
        yield SAMPLES, part


def _placed(
    plan: FleetPlan, fleet: Fleet, scheduling: Scheduling | None, source: str
) -> tuple[list[tuple[RecordType, pa.Table]], list[Stream]]:
    """What is told of the fleet beside samples, and what these measure. Nothing else of the placing is kept while
    samples are made."""
    wanted = jobs(plan, Counter(slot.kind for slot in slots(plan, fleet)))
    deciding = scheduling(plan, fleet) if scheduling else None
    placed = place(plan, fleet, wanted, deciding)
    tables = [(DEVICES, _devices(plan, fleet)), (EVENTS, _events(plan, fleet, placed.events, source))]
    if deciding is not None and (reported := deciding.reported()):
        tables.append((SERVICE_LEVELS, pa.Table.from_pylist(reported, schema(SERVICE_LEVELS))))
    if (served := service_levels(plan, fleet, placed.holdings)).num_rows:
        tables.append((SERVICE_LEVELS, served))
    return tables, streams(plan, fleet, placed.holdings)


def _devices(plan: FleetPlan, fleet: Fleet) -> pa.Table:
    rows = []
    for device in fleet.devices:
        changes = [(device.since_ms, "available")]
        for start, end in device.down:
            changes += [(start, "unavailable"), (end, "available")]
        if device.until_ms < plan.end_ms:
            changes = [change for change in changes if change[0] < device.until_ms] + [(device.until_ms, "removed")]
        rows += [(ts, device, state) for ts, state in changes]
    rows.sort(key=lambda row: (row[0], row[1].node, row[1].device_id))
    return table(
        DEVICES,
        len(rows),
        {
            "ts": _times([row[0] for row in rows]),
            "cluster": plan.cluster,
            "node": [device.node for _, device, _ in rows],
            "device_id": [device.device_id for _, device, _ in rows],
            "vendor": [device.group.vendor for _, device, _ in rows],
            "model": [device.group.model for _, device, _ in rows],
            "memory_bytes": [device.group.memory_gib << 30 for _, device, _ in rows],
            "units": [device.group.units for _, device, _ in rows],
            "pool": [device.group.pool for _, device, _ in rows],
            "state": [state for _, _, state in rows],
        },
    )


def _events(plan: FleetPlan, fleet: Fleet, reported: Sequence[Lifecycle], source: str) -> pa.Table:
    rows: list[tuple[Lifecycle, Slot | None]] = [(event, slot) for event in reported for slot in event.slots or (None,)]
    rows.sort(key=lambda row: row[0].ts_ms)
    jobs_of = [event.allocation.job for event, _ in rows]
    return table(
        EVENTS,
        len(rows),
        {
            "ts": _times([event.ts_ms for event, _ in rows]),
            "cluster": plan.cluster,
            "source": ["slurm" if job.kind.slot == "h100" else source for job in jobs_of],
            "allocation_id": [event.allocation.allocation_id for event, _ in rows],
            "workload_id": [event.allocation.workload_id for event, _ in rows],
            "event": [event.event for event, _ in rows],
            "tenant": [job.tenant for job in jobs_of],
            "project": [job.project for job in jobs_of],
            "queue": [job.kind.queue for job in jobs_of],
            "priority": [job.kind.priority for job in jobs_of],
            "gpus": [_gpus(fleet, event) for event, _ in rows],
            "node": [slot.node if slot else "" for _, slot in rows],
            "device_id": [fleet.devices[slot.device].device_id if slot else "" for _, slot in rows],
            "partition_id": [slot.partition_id if slot else "" for _, slot in rows],
            "partition_profile": [slot.profile if slot else "" for _, slot in rows],
            "units": [slot.units if slot else None for _, slot in rows],
            "preemptible": [job.kind.preemptible for job in jobs_of],
            "reason": [event.reason for event, _ in rows],
            "message": [event.message for event, _ in rows],
            "actor": [event.actor for event, _ in rows],
        },
    )


def _gpus(fleet: Fleet, event: Lifecycle) -> float | None:
    """GPUs requested; a share counts as its part of a device."""
    job = event.allocation.job
    if event.allocation.allocation_id == IMPOSSIBLE or not event.allocation.slots:
        return float(job.size) if "/" not in job.kind.slot and job.kind.slot != "l4" else None
    slot = event.allocation.slots[0]
    return round(job.size * slot.units / fleet.devices[slot.device].group.units, 4)


def _times(values: Sequence[int]) -> pa.Array:
    return pa.array(values, pa.int64()).cast(pa.timestamp("ms", "UTC"))
