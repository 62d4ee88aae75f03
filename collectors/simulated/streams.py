"""What the exporters measure: which holder on which device during which stretch of time, and where they are blind."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum

import numpy as np

from collectors.simulated.fleet import HOUR, MINUTE, Device, Fleet, FleetPlan
from collectors.simulated.placement import Holding

ACTIVITIES = ("free", "training", "notebook", "batch", "inference", "hung")


class Scope(IntEnum):
    """device: all of an exclusive device. part: one workload's part of a shared one. instance: a MIG instance.
    together: everybody on a shared device, the sum of its parts. parent: a MIG device, whose utilization nobody knows.
    """

    device = 0
    part = 1
    instance = 2
    together = 3
    parent = 4


@dataclass(frozen=True)
class Stream:
    """Measured during (start_ms, end_ms]; began_ms: when the holder first started. share: of the device (0-1)."""

    scope: Scope
    device: int
    partition_id: str
    workload_id: str
    activity: str
    start_ms: int
    end_ms: int
    began_ms: int
    share: float


@dataclass(frozen=True)
class Blind:
    """An exporter that is down (state '') or answers without a value during (start_ms, end_ms]."""

    node: str
    start_ms: int
    end_ms: int
    state: str = ""


def streams(plan: FleetPlan, fleet: Fleet, holdings: Sequence[Holding]) -> list[Stream]:
    """All streams; an exporter sees nothing of a device that is down."""
    by_device: dict[int, list[Holding]] = defaultdict(list)
    for holding in holdings:
        by_device[holding.slot.device].append(holding)
    return [
        piece
        for place, device in enumerate(fleet.devices)
        for stream in _of_device(place, device, by_device[place])
        for piece in _while_up(device, stream)
    ]


def _of_device(place: int, device: Device, holdings: Sequence[Holding]) -> Iterator[Stream]:
    if device.shared:
        scope = Scope.parent if device.group.instances else Scope.together
        yield Stream(scope, place, "", "", "free", device.since_ms, device.until_ms, device.since_ms, 1.0)
        parts: dict[tuple[str, str, int], list[Holding]] = defaultdict(list)
        for holding in holdings:  # one row for all the replicas that a workload has on the device
            partition = holding.slot.partition_id if device.group.instances else ""
            parts[partition, holding.allocation.workload_id, holding.start_ms].append(holding)
        for (partition, _, _), held in parts.items():
            yield _shared(place, device, partition, held)
        return
    named = device.group.scheduler == "kubernetes"  # the Slurm nodes' exporter knows no jobs
    free_from = device.since_ms
    for holding in sorted(holdings, key=lambda h: h.start_ms):
        if holding.start_ms > free_from:
            yield Stream(Scope.device, place, "", "", "free", free_from, holding.start_ms, free_from, 1.0)
        workload = holding.allocation.workload_id if named else ""
        activity = holding.allocation.job.kind.activity
        start, end = holding.start_ms, holding.end_ms
        yield Stream(Scope.device, place, "", workload, activity, start, end, holding.began_ms, 1.0)
        free_from = holding.end_ms
    yield Stream(Scope.device, place, "", "", "free", free_from, device.until_ms, free_from, 1.0)


def _shared(place: int, device: Device, partition: str, held: Sequence[Holding]) -> Stream:
    """Of an instance, or of a workload's part of the device: one time-slice replica cannot be measured."""
    holding = held[0]
    return Stream(
        Scope.instance if partition else Scope.part,
        place,
        partition,
        holding.allocation.workload_id,
        holding.allocation.job.kind.activity,
        holding.start_ms,
        holding.end_ms,
        holding.began_ms,
        sum(part.slot.units for part in held) / device.group.units,
    )


def _while_up(device: Device, stream: Stream) -> Iterator[Stream]:
    start = stream.start_ms
    for down, up in [*device.down, (stream.end_ms, stream.end_ms)]:
        end = min(down, stream.end_ms)
        if end > start:
            yield Stream(**{**stream.__dict__, "start_ms": start, "end_ms": end})
        start = max(start, min(up, stream.end_ms))


def blind_spots(plan: FleetPlan, fleet: Fleet) -> list[Blind]:
    """Exporter gaps of 10 to 90 minutes on every node, about every ten days; once a node without permission.

    A clean fleet has none.
    """
    if plan.clean:
        return []
    random = np.random.default_rng([plan.seed, 2])
    nodes = sorted({device.node for device in fleet.devices})
    found = []
    for node in nodes:
        for _ in range(int(random.poisson(plan.days / 10)) + (node == nodes[0])):
            start = plan.start_ms + int(random.random() * (plan.end_ms - plan.start_ms))
            found.append(Blind(node, start, start + int(random.integers(10, 90)) * MINUTE))
    refused = plan.at(0.35)
    found.append(Blind("a100-02", refused, refused + 6 * HOUR, "no_permission"))
    found.append(Blind("l40s-01", refused + HOUR, refused + 3 * HOUR, "stale"))
    return found
