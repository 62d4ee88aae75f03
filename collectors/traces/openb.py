"""openb (Alibaba, 2023): Kubernetes pods with GPU fractions, and nodes; the trace's own schedule, placed here.

Source:  https://github.com/hkust-adsl/kubernetes-scheduler-simulator data/csv (Weng et al., USENIX ATC 2023).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

from collectors.errors import CollectorError
from collectors.tables import Records
from collectors.traces.files import read_rows
from collectors.traces.fractions import MILLI, NodeGpus, place
from collectors.traces.schedule import Allocation, Schedule, TraceDevice
from collectors.traces.telemetry import Telemetry
from warehouse.instants import epoch_ms

CLUSTER = "openb"
ORIGIN = datetime(2023, 1, 1, tzinfo=UTC)
MEMORY_GIB = {"T4": 16, "P100": 16, "V100M16": 16, "V100M32": 32, "A10": 24}
"""Of the models that the trace names; G2 and G3 are its own masks, their memory is unknown."""
ENDINGS = {"Succeeded": "finished", "Running": "finished", "Failed": "failed", "Pending": "cancelled"}
"""Terminal event by the phase that the pod had last; one that still ran was deleted (or the trace ended)."""


@dataclass(frozen=True)
class Pod:
    """Times in ms since the trace's own zero; scheduled None = never. milli: of each of its `gpus` GPUs."""

    name: str
    qos: str
    phase: str
    gpus: int
    milli: int
    models: tuple[str, ...]
    created_ms: int
    scheduled_ms: int | None
    deleted_ms: int


def read(pods: Path, nodes: Path, origin: datetime = ORIGIN) -> Schedule:
    """The trace's pods at their recorded times, best fit on the GPUs free at that time.

    Errors:  CollectorError naming file and row.
    """
    columns = ("name", "num_gpu", "gpu_milli", "qos", "pod_phase", "creation_time", "deletion_time", "scheduled_time")
    listed = read_rows(pods, columns, ("gpu_spec",), _pod)
    machines = [node for node in read_rows(nodes, ("sn", "gpu", "model"), (), _node) if node.gpus]
    if not machines:
        raise CollectorError(str(nodes), "no node has a GPU", "Give the list of all nodes")
    asking = [pod for pod in listed if pod.gpus]
    placed = place([(pod.scheduled_ms, pod.deleted_ms, pod.gpus, pod.milli, pod.models) for pod in asking], machines)
    zero = epoch_ms(origin)
    allocations = [_allocation(pod, devices, zero) for pod, devices in zip(asking, placed, strict=True)]
    devices = [_device(node, gpu) for node in machines for gpu in range(node.gpus)]
    return Schedule(CLUSTER, "trace:openb-2023", devices, allocations, _notes(listed, allocations, origin))


def replay(pods: Path, nodes: Path, telemetry: Telemetry | None = None, origin: datetime = ORIGIN) -> Records:
    """Devices, events and, with telemetry, samples of the trace."""
    schedule = read(pods, nodes, origin)
    yield from schedule.records()
    if telemetry is not None:
        yield from telemetry.samples(schedule)


def _allocation(pod: Pod, devices: tuple[int, ...], zero: int) -> Allocation:
    never = pod.scheduled_ms is None
    unplaced = not never and not devices
    reason = "never scheduled" if never else f"no {'|'.join(pod.models) or 'GPU'} free" if unplaced else pod.phase
    return Allocation(
        allocation_id=pod.name,
        tenant=pod.qos,
        queue=pod.qos,
        submit_ms=zero + pod.created_ms,
        start_ms=zero + pod.scheduled_ms if pod.scheduled_ms is not None and devices else None,
        end_ms=zero + pod.deleted_ms,
        gpus=pod.gpus * pod.milli / MILLI,
        devices=devices,
        units=pod.milli,
        ending="rejected" if unplaced else ENDINGS[pod.phase],
        reason=reason,
        preemptible=pod.qos == "BE",
    )


def _notes(listed: Sequence[Pod], allocations: Sequence[Allocation], origin: datetime) -> tuple[str, ...]:
    counts = {ending: sum(a.ending == ending for a in allocations) for ending in ("cancelled", "rejected")}
    return (
        "schedule: pods and their times are the trace's; the device is ours (best fit by GPU, no CPU or memory "
        "limits), because the trace names none",
        f"its clock starts at zero, taken as {origin:%Y-%m-%dT%H:%M:%SZ}; it has no users: the QoS class is the tenant",
        f"left out: {sum(not pod.gpus for pod in listed):,} pods without a GPU; never scheduled: "
        f"{counts['cancelled']:,}; no fitting GPU free at their time: {counts['rejected']:,}",
    )


def _pod(row: dict[str, str]) -> Pod:
    created, deleted = _ms(row["creation_time"]), _ms(row["deletion_time"])
    scheduled = _ms(row["scheduled_time"]) if row["scheduled_time"] else None
    gpus, milli = int(row["num_gpu"]), int(row["gpu_milli"])
    if gpus and not 1 <= milli <= MILLI:
        raise ValueError(f"gpu_milli is {milli}, not 1 to {MILLI}")
    if row["pod_phase"] not in ENDINGS:
        raise ValueError(f"pod_phase is {row['pod_phase']!r}, not one of {', '.join(ENDINGS)}")
    if scheduled is not None and not created <= scheduled < deleted:
        raise ValueError(f"created {created}, scheduled {scheduled}, deleted {deleted} ms: out of order")
    models = tuple(sorted(set(filter(None, (row.get("gpu_spec") or "").split("|")))))
    whole = MILLI if gpus > 1 else milli
    return Pod(row["name"], row["qos"], row["pod_phase"], gpus, whole, models, created, scheduled, deleted)


def _node(row: dict[str, str]) -> NodeGpus:
    return NodeGpus(row["sn"], int(row["gpu"]), row["model"])


def _device(node: NodeGpus, gpu: int) -> TraceDevice:
    gib = MEMORY_GIB.get(node.model)
    return TraceDevice(f"{CLUSTER}/{node.name}/{gpu}", node.name, node.model, gib << 30 if gib else None, MILLI)


def _ms(seconds: str) -> int:
    return int(Decimal(seconds) * 1000)
