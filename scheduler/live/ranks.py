"""A placement for executors: ranks with names of nodes and devices."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from scheduler.model import Grant, Node
from scheduler.records.events import partition_id


@dataclass(frozen=True, slots=True)
class Rank:
    """A placed replica.   devices: ids as in the books and the driver; of a MIG instance, the instance's.

    units: of each device.   made_up: whether an id is a placeholder, since the settings do not name the device.
    """

    number: int
    node: str
    devices: tuple[str, ...]
    units: tuple[int, ...]
    profile: str = ""
    made_up: bool = False

    def plain(self) -> dict[str, Any]:
        found = {"rank": self.number, "node": self.node, "devices": list(self.devices), "units": list(self.units)}
        return found | ({"profile": self.profile} if self.profile else {})


def ranks_of(nodes: Sequence[Node], grants: Sequence[Grant]) -> tuple[Rank, ...]:
    """The ranks in order: a replica's index is its rank."""
    return tuple(_rank(nodes[grant.node], number, grant) for number, grant in enumerate(grants))


def _rank(node: Node, number: int, grant: Grant) -> Rank:
    made_up = bool(grant.devices) and not node.named
    names = []
    for place, index in enumerate(grant.devices):
        device = node.devices[index]
        names.append(device.device_id)
        if grant.profile:
            names[-1] = partition_id(device, grant.profile, grant.starts[place])
            made_up |= not any(name == f"{grant.profile}@{grant.starts[place]}" for name, _ in device.instances)
    return Rank(number, node.name, tuple(names), grant.units, grant.profile, made_up)
