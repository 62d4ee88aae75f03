"""Philly (Microsoft, 2017): a job list and a machine list; the jobs queue and are placed here.

Source:  jobs: https://github.com/pkusys/ElasticFlow traces/philly.csv (from Jeon et al., USENIX ATC 2019);
         machines: https://github.com/msr-fiddle/philly-traces cluster_machine_list.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

from collectors.errors import CollectorError
from collectors.tables import Records
from collectors.traces.fifo import Job, place
from collectors.traces.files import positive, read_rows
from collectors.traces.schedule import Allocation, Schedule, TraceDevice
from collectors.traces.telemetry import Telemetry
from warehouse.instants import epoch_ms

CLUSTER = "philly"
NOTES = (
    "schedule: jobs, durations and machines are the trace's; first come, first served on whole GPUs is ours "
    "(the trace names no device)",
    "submit times are local without a zone in the trace and are taken as UTC; a virtual cluster is a tenant; "
    "a job is named by its row in the file",
)


@dataclass(frozen=True)
class _TraceJob:
    tenant: str
    job: Job


def read(jobs: Path, machines: Path) -> Schedule:
    """The trace's jobs placed on the trace's machines.

    Every duration is kept to the millisecond, so a tenant's GPU-hours are its sum of duration x num_gpus.
    Errors:  CollectorError naming file and row.
    """
    submitted = read_rows(jobs, ("timestamp", "duration", "num_gpus", "cluster"), (), _job)
    found = read_rows(machines, ("machineId", "number_of_GPUs", "single_GPU_mem"), (), _machine)
    devices = [device for machine in found for device in machine]
    total = len(devices)
    for number, asked in enumerate(submitted, 1):
        if asked.job.gpus > total:
            raise CollectorError(
                f"{jobs}, row {number}",
                f"asks for {asked.job.gpus} GPUs, {machines} has {total}",
                "Give the machine list that belongs to the jobs",
            )
    allocations = sorted(_allocations(submitted, [len(machine) for machine in found]), key=lambda a: a.allocation_id)
    return Schedule(CLUSTER, "trace:philly-2017", devices, allocations, NOTES)


def replay(jobs: Path, machines: Path, telemetry: Telemetry | None = None) -> Records:
    """Devices, events and, with telemetry, samples of the trace."""
    schedule = read(jobs, machines)
    yield from schedule.records()
    if telemetry is not None:
        yield from telemetry.samples(schedule)


def _allocations(submitted: Sequence[_TraceJob], machines: Sequence[int]) -> Iterator[Allocation]:
    first_device = [sum(machines[:number]) for number in range(len(machines))]
    for placement in place([asked.job for asked in submitted], machines):
        asked = submitted[placement.job]
        yield Allocation(
            allocation_id=f"philly-{placement.job + 1:06d}",
            tenant=asked.tenant,
            queue=asked.tenant,
            submit_ms=asked.job.submit_ms,
            start_ms=placement.start_ms,
            end_ms=placement.end_ms,
            gpus=asked.job.gpus,
            devices=tuple(first_device[machine] + gpu for machine, gpu in placement.devices),
            units=1,
            ending="finished",
        )


def _job(row: dict[str, str]) -> _TraceJob:
    submitted = datetime.fromisoformat(row["timestamp"])
    duration = Decimal(row["duration"]) * 1000
    if duration <= 0 or duration != int(duration):
        raise ValueError(f"duration is {row['duration']!r}, not a positive number of seconds in whole milliseconds")
    if not row["cluster"]:
        raise ValueError("cluster (the virtual cluster) is empty")
    submit_ms = epoch_ms(submitted if submitted.tzinfo else submitted.replace(tzinfo=UTC))
    return _TraceJob(row["cluster"], Job(submit_ms, int(duration), positive(row["num_gpus"], "num_gpus")))


def _machine(row: dict[str, str]) -> tuple[TraceDevice, ...]:
    size = row["single_GPU_mem"].strip()
    gigabytes = positive(size.removesuffix("GB"), "single_GPU_mem")
    name = row["machineId"].strip()
    return tuple(
        TraceDevice(f"{CLUSTER}/{name}/{gpu}", name, f"NVIDIA {size} (Philly)", gigabytes << 30)
        for gpu in range(positive(row["number_of_GPUs"], "number_of_GPUs"))
    )
