"""The plan of a simulated fleet: its nodes and devices, and their outages."""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from warehouse.instants import epoch_ms

MINUTE = 60_000
HOUR = 60 * MINUTE
DAY = 24 * HOUR


@dataclass(frozen=True)
class FleetPlan:
    """All parameters of the simulated fleet.

    watched_from: from then on its scheduler explains every wait each hour, for two days; by then all that is to be seen
    has happened.
    """

    seed: int = 7
    start: datetime = datetime(2026, 10, 1, tzinfo=UTC)
    days: int = 31
    scale: float = 1.0
    interval_seconds: int = 60
    cluster: str = "demo"
    clean: bool = False
    watched_from: datetime | None = None

    @property
    def start_ms(self) -> int:
        return epoch_ms(self.start)

    @property
    def end_ms(self) -> int:
        return self.start_ms + self.days * DAY

    @property
    def seen_ms(self) -> int:
        """Until when people see it before they watch: its end, if nobody does."""
        return epoch_ms(self.watched_from) if self.watched_from else self.end_ms

    def at(self, fraction: float) -> int:
        """The whole second (in ms) at which that fraction of what is seen of the plan has passed."""
        return self.start_ms + int(fraction * (self.seen_ms - self.start_ms)) // 1000 * 1000

    def identifier(self, name: str) -> str:
        """A UUID that belongs to the name, in this plan."""
        digest = hashlib.blake2b(f"{self.seed}/{self.cluster}/{name}".encode(), digest_size=16).digest()
        return str(uuid.UUID(bytes=digest, version=4))


@dataclass(frozen=True)
class NodeGroup:
    """Nodes of one kind.

    units: of each device.   replicas: time-slices that are given away one by one.
    instances: MIG profiles and their units.   watts: idle, and at full load.
    meter: what utilization is measured by.   profiled: whether sm, tensor and dram activity are known.
    """

    name: str
    model: str
    vendor: str
    memory_gib: int
    pool: str
    nodes: int
    gpus: int
    watts: tuple[float, float]
    scheduler: str = "kubernetes"
    units: int = 1
    replicas: bool = False
    instances: tuple[tuple[str, int], ...] = ()
    meter: str = "DCGM_FI_PROF_GR_ENGINE_ACTIVE"
    profiled: bool = True


H100 = NodeGroup("h100", "NVIDIA H100 80GB HBM3", "nvidia", 80, "train", 5, 8, (70, 700), scheduler="slurm")
A100 = NodeGroup("a100", "NVIDIA A100-SXM4-80GB", "nvidia", 80, "research", 3, 8, (55, 400))
MIG = replace(
    A100,
    name="mig",
    nodes=1,
    gpus=4,
    units=7,
    instances=(("3g.40gb", 3), ("2g.20gb", 2), ("1g.10gb", 1), ("1g.10gb", 1)),
)
MI300X = NodeGroup(
    "mi300x", "AMD Instinct MI300X", "amd", 192, "train", 1, 8, (140, 750), meter="amd_gfx_activity", profiled=False
)
L40S = NodeGroup("l40s", "NVIDIA L40S", "nvidia", 48, "inference", 3, 4, (35, 350))
L40S_SHARED = replace(L40S, name="l40s-shared", nodes=1, units=10)
L4 = NodeGroup(
    "l4",
    "NVIDIA L4",
    "nvidia",
    24,
    "dev",
    4,
    2,
    (12, 72),
    units=4,
    replicas=True,
    meter="DCGM_FI_DEV_GPU_UTIL",
    profiled=False,
)
GROUPS = (H100, A100, MIG, MI300X, L40S, L40S_SHARED, L4)


@dataclass(frozen=True)
class Device:
    """A device from `since_ms` to `until_ms` (removed then; the plan's end = it stays).

    down: [start, end) ms in which it is unavailable.
    """

    device_id: str
    node: str
    group: NodeGroup
    since_ms: int
    until_ms: int
    down: tuple[tuple[int, int], ...] = ()

    @property
    def shared(self) -> bool:
        return self.group.units > 1


@dataclass(frozen=True)
class Slot:
    """What one claim can hold: units of a device (its place in the fleet), or one partition of it."""

    device: int
    node: str
    kind: str
    partition_id: str = ""
    profile: str = ""
    units: int = 1


@dataclass(frozen=True)
class Incident:
    """Devices (indexes into the fleet) that are unavailable during [start_ms, end_ms)."""

    devices: tuple[int, ...]
    start_ms: int
    end_ms: int
    reason: str
    message: str
    fatal: bool = True


@dataclass(frozen=True)
class Fleet:
    devices: tuple[Device, ...]
    incidents: tuple[Incident, ...]


def build(plan: FleetPlan) -> Fleet:
    """The plan's devices, with three incidents: a node's outage, a device that dies and is replaced, a short hang.

    A clean fleet has none.
    """
    devices = list(_devices(plan))
    if plan.clean:
        return Fleet(tuple(devices), ())
    incidents = _incidents(plan, devices)
    for incident in incidents:
        for place in incident.devices:
            device = devices[place]
            devices[place] = replace(device, down=(*device.down, (incident.start_ms, incident.end_ms)))
    dying = incidents[1].devices[0]
    swapped_ms = incidents[1].end_ms
    fresh = f"GPU-{plan.identifier('replacement')}"
    devices.append(replace(devices[dying], device_id=fresh, since_ms=swapped_ms, down=()))
    devices[dying] = replace(devices[dying], until_ms=swapped_ms)
    return Fleet(tuple(devices), incidents)


def _devices(plan: FleetPlan) -> Iterator[Device]:
    for group in GROUPS:
        for node in range(max(1, round(group.nodes * plan.scale))):
            name = f"{group.name}-{node + 1:02d}"
            for gpu in range(group.gpus):
                identifier = plan.identifier(f"{name}/{gpu}")
                prefix = "GPU-" if group.vendor == "nvidia" else ""
                yield Device(prefix + identifier, name, group, plan.start_ms, plan.end_ms)


def _incidents(plan: FleetPlan, devices: Sequence[Device]) -> tuple[Incident, ...]:
    def of(group: NodeGroup, node: int) -> list[int]:
        names = sorted({device.node for device in devices if device.group is group})
        return [place for place, device in enumerate(devices) if device.node == names[min(node, len(names) - 1)]]

    outage, died, swapped, hung = plan.at(0.45), plan.at(0.27), plan.at(0.47), plan.at(0.7)
    hours = min(5 * HOUR + 20 * MINUTE, plan.days * DAY // 10)
    return (
        Incident(tuple(of(H100, 1)), outage, outage + hours, "NodeFailure", "node down: power supply tripped"),
        Incident((of(A100, 0)[3],), died, swapped, "XID 79", "GPU has fallen off the bus; drained, then replaced"),
        Incident((of(MI300X, 0)[5],), hung, hung + 38 * MINUTE, "Hang", "reset in place", fatal=False),
    )


def slots(plan: FleetPlan, fleet: Fleet) -> list[Slot]:
    """Everything that jobs can queue for; shares of the shared L40S are given to services directly."""
    return [slot for place, device in enumerate(fleet.devices) for slot in _slots(plan, place, device)]


def _slots(plan: FleetPlan, place: int, device: Device) -> Iterator[Slot]:
    group = device.group
    if group.replicas:
        for replica in range(group.units):
            yield Slot(place, device.node, group.name, f"{device.device_id}::{replica}")
    elif group.instances:
        for number, (profile, units) in enumerate(group.instances):
            partition = f"MIG-{plan.identifier(f'{device.device_id}/{number}')}"
            yield Slot(place, device.node, f"{group.name}/{profile}", partition, profile, units)
    elif not device.shared:
        yield Slot(place, device.node, group.name)
