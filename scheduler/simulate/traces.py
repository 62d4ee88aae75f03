"""Reads traces as jobs and nodes: Philly, openb, or any CSV list of jobs; the columns determine which.

Traces have run times, but seldom time limits: these are assumed as a multiple of the run time, and the notes say so. A
job larger than any node becomes a gang of equal replicas, as large as fit. Devices and jobs have the names that
`gpuledger replay` gives them, so that the books of both can be compared.
"""

from __future__ import annotations

import contextlib
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from decimal import Decimal
from functools import lru_cache
from pathlib import Path

from collectors.errors import CollectorError
from collectors.traces import openb, philly
from collectors.traces.files import positive, read_rows
from collectors.traces.fractions import MILLI
from scheduler.model import Device, Job, Node, Request
from scheduler.simulate.engine import Pause

LIMIT_FACTOR = 2.0
DEFAULT_MODEL = "GPU"
LARGEST = 1 << 30
"""GPUs of a node where nobody says: no job is split."""


@dataclass(frozen=True)
class Trace:
    """jobs: in the order of submission.   nodes: empty where nobody names any.   notes: what had to be assumed.

    pauses: of jobs that somebody suspended.
    """

    name: str
    jobs: Sequence[Job]
    nodes: Sequence[Node]
    notes: tuple[str, ...] = ()
    pauses: Sequence[Pause] = ()


@dataclass(frozen=True)
class Layout:
    """A format of a list of jobs: which of its columns are ours (see `_ROW`).

    prefix: jobs without an id of their own are named after their row.   zero: seconds since the epoch of the list's 0.
    """

    name: str
    columns: Mapping[str, str]
    optional: Mapping[str, str] = field(default_factory=dict)
    prefix: str = ""
    zero: float = 0.0
    notes: tuple[str, ...] = ()


_OPTIONAL = (
    "tenant",
    "queue",
    "project",
    "priority",
    "units",
    "model",
    "pool",
    "replicas",
    "max_replicas",
    "limit_seconds",
    "wait_bound_seconds",
    "checkpoint_seconds",
    "preemptible",
    "suspended_at",
    "resumed_at",
    "scaling",
)
NAMED = 10
"""Jobs that a note names."""
LAYOUTS = (
    Layout(
        "philly",
        {"submitted_at": "timestamp", "run_seconds": "duration", "gpus": "num_gpus", "tenant": "cluster"},
        prefix="philly-",
        notes=philly.NOTES[1:],
    ),
    Layout(
        "philly",
        {"job_id": "job_id", "submitted_at": "arrival_s", "run_seconds": "duration_s", "gpus": "gpus"},
        prefix="philly-",
        zero=1_502_753_220,
        notes=("no tenants in this list: all jobs are of one; durations span retries",),
    ),
    Layout(
        "jobs",
        {name: name for name in ("job_id", "submitted_at", "run_seconds", "gpus")},
        {name: name for name in _OPTIONAL},
    ),
)


def read(path: Path, machines: str = "", limit_factor: float = LIMIT_FACTOR, largest: int = LARGEST) -> Trace:
    """The trace in the file.

    machines: its list of machines, or NODESxGPUS[:MODEL], e.g. 776x8:V100; '' = none.
    largest:  GPUs of the largest node, where there are no machines.
    Errors:   CollectorError naming file, row and what fits.
    """
    columns = _columns(path)
    nodes = read_nodes(machines) if machines else []
    limits = _Limits(limit_factor)
    if {"num_gpu", "gpu_milli", "creation_time"} <= columns:
        trace = _openb(path, nodes, limits)
    else:
        layout = next((found for found in LAYOUTS if set(found.columns.values()) <= columns), None)
        if layout is None:
            fits = "; or ".join(", ".join(found.columns.values()) for found in LAYOUTS)
            raise CollectorError(str(path), "not a known trace format", f"Known columns: {fits}")
        trace = _listed(path, layout, nodes, limits, largest)
    jobs = sorted(trace.jobs, key=lambda job: job.submitted_at)
    note = f"time limits: {limits.assumed:,} jobs name none and are allowed {limit_factor:g} x their run time"
    return replace(trace, jobs=jobs, notes=(*trace.notes, note) if limits.assumed else trace.notes)


def read_nodes(machines: str) -> list[Node]:
    """Nodes of a list of machines (Philly's or openb's columns), or of NODESxGPUS[:MODEL]."""
    found = re.fullmatch(r"(\d+)x(\d+)(?::(.+))?", machines)
    if found:
        return regular_nodes(int(found[1]), int(found[2]), found[3] or DEFAULT_MODEL)
    path = Path(machines)
    if not path.exists():
        fits = "Give a file, or NODESxGPUS[:MODEL] such as 776x8:V100"
        raise CollectorError(f"--machines {machines}", "no such file", fits)
    parse = _openb_node if "sn" in _columns(path) else _philly_machine
    columns = ("sn", "gpu", "model") if parse is _openb_node else ("machineId", "number_of_GPUs", "single_GPU_mem")
    return [node for node in read_rows(path, columns, ("cpu_milli", "memory_mib"), parse) if node.devices]


def regular_nodes(count: int, gpus: int, model: str = DEFAULT_MODEL) -> list[Node]:
    """Nodes that are all alike."""
    names = [f"node-{number:05d}" for number in range(count)]
    return [Node(name, tuple(Device(f"{name}/{gpu}", model) for gpu in range(gpus))) for name in names]


def gang(gpus: int, largest: int) -> tuple[int, int]:
    """(replicas, GPUs of each) of a job: equal parts, as large as a node of `largest` GPUs can take."""
    each = next(part for part in range(min(gpus, largest), 0, -1) if gpus % part == 0)
    return gpus // each, each


class _Seen(Exception):  # noqa: N818 (no error)
    """Raised at the first row, which has the columns."""


def _columns(path: Path) -> set[str]:
    found: set[str] = set()

    def first(row: dict[str, str]) -> None:
        found.update(row)
        raise _Seen

    with contextlib.suppress(_Seen):
        read_rows(path, (), (), first)
    return found


@dataclass
class _Limits:
    """Time limits of jobs that name none.   assumed: how many there were."""

    factor: float
    assumed: int = 0

    def of(self, run_seconds: float) -> float:
        self.assumed += 1
        return run_seconds * self.factor


def _listed(path: Path, layout: Layout, nodes: Sequence[Node], limits: _Limits, largest: int) -> Trace:
    largest = max((len(node.devices) for node in nodes), default=largest)
    number = 0
    pauses: list[Pause] = []
    scaled: list[str] = []

    def parse(row: dict[str, str]) -> Job:
        nonlocal number
        number += 1
        ours = {name: row[column].strip() for name, column in layout.columns.items()}
        ours |= {name: (row.get(column) or "").strip() for name, column in layout.optional.items()}
        job = _job(ours, layout, number, largest, limits)
        if ours.get("scaling") and job.run_time:
            scaled.append(job.job_id)
        if ours.get("suspended_at"):
            until = layout.zero + _seconds(ours["resumed_at"]) if ours.get("resumed_at") else math.inf
            pauses.append(Pause(layout.zero + _seconds(ours["suspended_at"]), until, job.job_id))
        return job

    found = read_rows(path, tuple(layout.columns.values()), tuple(layout.optional.values()), parse)
    jobs = [job for job in found if job.run_time]
    empty = len(found) - len(jobs)
    notes = (*layout.notes, f"left out: {empty:,} jobs that ran no time at all") if empty else layout.notes
    return Trace(layout.name, jobs, nodes, (*notes, *_unscaled(scaled)), tuple(pauses))


def _unscaled(jobs: Sequence[str]) -> list[str]:
    """Their policies are not followed: a trace does not say how used they were with another size."""
    if not jobs:
        return []
    named = f"{', '.join(jobs[:NAMED])}{f' and {len(jobs) - NAMED:,} more' if len(jobs) > NAMED else ''}"
    return [f"scaling policies are not simulated: {named} may have all of max_replicas wherever there is room"]


def _job(row: Mapping[str, str], layout: Layout, number: int, largest: int, limits: _Limits) -> Job:
    job_id = layout.prefix + row.get("job_id", f"{number:06d}")
    tenant = row.get("tenant") or "everybody"
    gpus = int(row["gpus"])
    if gpus < 0:
        raise ValueError(f"gpus is {gpus}")
    units = int(row.get("units") or 0)
    least = int(row.get("replicas") or 0)
    replicas, each = (least, gpus) if least else gang(gpus, largest) if gpus else (1, 0)
    request = _request(each, units, row.get("model", ""), row.get("pool", ""))
    run = _duration(row["run_seconds"])
    return Job(
        job_id,
        tenant,
        row.get("queue") or tenant,
        request,
        layout.zero + _seconds(row["submitted_at"]),
        min_replicas=replicas,
        max_replicas=max(replicas, int(row.get("max_replicas") or 0)),
        priority=int(row.get("priority") or 0),
        preemptible=row.get("preemptible", "").lower() not in ("false", "0", "no"),
        run_time=run,
        time_limit=_duration(row["limit_seconds"]) if row.get("limit_seconds") else limits.of(run),
        wait_bound=float(row["wait_bound_seconds"]) if row.get("wait_bound_seconds") else None,
        checkpoint_seconds=float(row["checkpoint_seconds"]) if row.get("checkpoint_seconds") else None,
        project=row.get("project", ""),
    )


@lru_cache(maxsize=4096)
def _request(devices: int, units: int, models: str, pool: str) -> Request:
    """One object for all jobs that ask alike."""
    return Request(devices, units, models=frozenset(filter(None, models.split("|"))), pool=pool)


def _seconds(text: str) -> float:
    """A number of seconds, or an instant (UTC where it names no offset) as seconds since the epoch."""
    try:
        return float(text)
    except ValueError:
        at = datetime.fromisoformat(text)
        return (at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp()


def _duration(text: str) -> float:
    """Exactly to the millisecond, as billing counts."""
    milliseconds = Decimal(text) * 1000
    if milliseconds < 0:
        raise ValueError(f"{text!r} is less than no time")
    return round(milliseconds) / 1000


def _philly_machine(row: dict[str, str]) -> Node:
    size = row["single_GPU_mem"].strip()
    memory = positive(size.removesuffix("GB"), "single_GPU_mem") << 30
    name = row["machineId"].strip()
    return Node(
        name,
        tuple(
            Device(f"{philly.CLUSTER}/{name}/{gpu}", f"NVIDIA {size} (Philly)", memory_bytes=memory)
            for gpu in range(positive(row["number_of_GPUs"], "number_of_GPUs"))
        ),
    )


def _openb_node(row: dict[str, str]) -> Node:
    memory = openb.MEMORY_GIB.get(row["model"], 0) << 30
    return Node(
        row["sn"],
        tuple(
            Device(f"{openb.CLUSTER}/{row['sn']}/{gpu}", row["model"], MILLI, memory) for gpu in range(int(row["gpu"]))
        ),
        cpu_milli=int(row.get("cpu_milli") or 0),
        memory_bytes=int(row.get("memory_mib") or 0) << 20,
    )


def _openb(path: Path, nodes: Sequence[Node], limits: _Limits) -> Trace:
    columns = ("name", "num_gpu", "gpu_milli", "qos", "creation_time", "deletion_time", "scheduled_time")
    pods = read_rows(path, columns, ("cpu_milli", "memory_mib", "gpu_spec"), lambda row: _openb_pod(row, limits))
    jobs = [job for job in pods if job is not None]
    note = f"left out: {len(pods) - len(jobs):,} pods that the trace never scheduled, whose run time nobody knows"
    origin = f"its clock starts at zero, taken as {openb.ORIGIN:%Y-%m-%dT%H:%M:%SZ}; the QoS class is tenant and queue"
    return Trace(openb.CLUSTER, jobs, nodes, (note, origin))


def _openb_pod(row: dict[str, str], limits: _Limits) -> Job | None:
    if not row["scheduled_time"]:
        return None
    gpus, milli = int(row["num_gpu"]), int(row["gpu_milli"])
    run = float(row["deletion_time"]) - float(row["scheduled_time"])
    if run <= 0:
        raise ValueError(f"deleted {-run:g} s before it was scheduled")
    request = Request(
        gpus,
        units=milli if gpus == 1 and milli < MILLI else 0,
        cpu_milli=int(row.get("cpu_milli") or 0),
        host_memory_bytes=int(row.get("memory_mib") or 0) << 20,
        models=frozenset(filter(None, (row.get("gpu_spec") or "").split("|"))),
    )
    return Job(
        row["name"],
        row["qos"],
        row["qos"],
        request,
        openb.ORIGIN.timestamp() + float(row["creation_time"]),
        run_time=run,
        time_limit=limits.of(run),
        preemptible=row["qos"] == "BE",
    )
