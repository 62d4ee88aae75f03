"""Small clusters and grants in short notation."""

from __future__ import annotations

from typing import Any

from scheduler.model import Device, Grant, Node, Request
from scheduler.placement.cluster import Cluster

GIB = 1 << 30


def node(name: str, gpus: int = 8, model: str = "H100", units: int = 1, **rest: Any) -> Node:
    memory, geometry = rest.pop("device_memory", 80 * GIB), rest.pop("geometry", "")
    devices = tuple(Device(f"{name}/{i}", model, units, memory, geometry) for i in range(gpus))
    return Node(name, devices, rest.pop("cpu_milli", 64_000), rest.pop("memory_bytes", 512 * GIB), **rest)


def hold(cluster: Cluster, name: str, devices: tuple[int, ...], request: Request) -> Grant:
    """Takes these devices of the node for the request."""
    number = cluster.index[name]
    units = tuple(request.units or int(cluster.capacity[number, d]) for d in devices)
    grant = Grant(number, devices, units)
    cluster.take(grant, request)
    return grant


def free_state(cluster: Cluster) -> list[object]:
    """Everything that taking and giving back changes."""
    arrays = (
        cluster.free, cluster.memory_free, cluster.cpu_free, cluster.host_memory_free, cluster.parts_free,
        cluster.slots, cluster.holders, cluster.open,
    )  # fmt: skip
    return [array.tolist() for array in arrays] + [list(cluster.states)]
