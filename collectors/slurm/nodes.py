"""The state of a Slurm node -> the state of its devices.

A node is unavailable when nobody can be given it: DOWN, FAIL, ERROR, INVAL, a reboot that was issued, drained or in a
maintenance reservation with nobody on it. It is available while jobs are on it, though it is draining: they still
have it, and pay. PLANNED and RESERVED nodes wait for somebody, powered-down ones wake when asked: available.
FUTURE nodes are not there.

Source: https://slurm.schedmd.com/sinfo.html (NODE STATE CODES), scontrol show node
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from collectors.readings import Collected, Row
from collectors.slurm.inventory import Inventory, Place
from collectors.slurm.jobs import SOURCE, Site
from collectors.slurm.tres import Gres

_BROKEN = frozenset({"DOWN", "FAIL", "ERROR", "FAILING", "INVAL", "INVALID_REG", "UNKNOWN", "REBOOT_ISSUED"})
_CLOSED = frozenset({"DRAIN", "DRAINED", "DRAINING", "MAINT", "MAINTENANCE"})
_IN_USE = frozenset({"ALLOCATED", "MIXED", "COMPLETING", "DRAINING", "ALLOC"})
_ABSENT = frozenset({"FUTURE"})
_MARKS = "*~#!%$@^-"
"""What sinfo writes behind a state; `*` is not responding."""


@dataclass(frozen=True, slots=True)
class Node:
    """A node as the controller sees it: states such as DOWN, DRAIN; gres: what it has; reason_at: since when."""

    name: str
    states: frozenset[str]
    reason: str = ""
    reason_at: datetime | None = None
    gres: tuple[Gres, ...] = ()

    @property
    def has_gpus(self) -> bool:
        return any(entry.name == "gpu" and entry.count for entry in self.gres)

    @property
    def available(self) -> bool:
        return not (self.states & _BROKEN or (self.states & _CLOSED and not self.states & _IN_USE))

    @property
    def absent(self) -> bool:
        return bool(self.states & _ABSENT)


def states_of(words: Iterable[str]) -> frozenset[str]:
    """Of `IDLE+DRAIN`, `DOWN*`, or a list of them. Errors: ValueError if there is none."""
    found = frozenset(
        part.strip().rstrip(_MARKS).upper() for word in words for part in word.split("+") if part.strip(_MARKS + " ")
    )
    if not found:
        raise ValueError("no state")
    return found


def shares_per_gpu(nodes: Iterable[Node]) -> dict[str, int]:
    """How many shards (or MPS percents) are a GPU, by kind, where all nodes that have them agree."""
    told: dict[str, set[int]] = {}
    for node in nodes:
        devices = sum(entry.count for entry in node.gres if entry.name == "gpu")
        for entry in node.gres:
            if entry.name != "gpu" and devices and entry.count and entry.count % devices == 0:
                told.setdefault(entry.name, set()).add(entry.count // devices)
    return {kind: sizes.pop() for kind, sizes in told.items() if len(sizes) == 1}


def changes(
    nodes: Iterable[Node],
    before: Mapping[str, bool],
    now: datetime,
    since: datetime | None,
    site: Site,
    inventory: Inventory,
) -> tuple[Collected, dict[str, bool]]:
    """Device rows and findings for the nodes whose availability is another than `before`, and what it is now.

    before: node -> available; a node that is not in it is new: it gets rows only if it is unavailable, for whoever
    knows the devices has said that they are there.   since: when the nodes were last asked.
    """
    collected, available = Collected(), dict(before)
    places: dict[str, list[Place]] = {}
    for (name, _), place in inventory.items():
        places.setdefault(name, []).append(place)
    for node in nodes:
        if node.absent or not (node.has_gpus or node.name in places):
            continue
        if before.get(node.name, True) == node.available:
            available[node.name] = node.available
            continue
        at = _changed_at(node, now, since)
        for row in _rows(node, at, site, places.get(node.name, []), collected):
            collected.add("devices", row)
        if not node.available:
            collected.add("findings", _finding(node, at, site))
        available[node.name] = node.available
    return collected, available


def _changed_at(node: Node, now: datetime, since: datetime | None) -> datetime:
    """When it became unavailable, as its reason says, unless that was seen before; else now."""
    told = node.reason_at
    if node.available or told is None or told > now or (since is not None and told < since - timedelta(hours=1)):
        return now
    return told


def _rows(node: Node, at: datetime, site: Site, places: list[Place], collected: Collected) -> list[Row]:
    rows: dict[str, Row] = {}
    if not places:
        collected.dropped["node's devices are not in the inventory"] += 1
    for place in places:
        if not place.model:
            collected.dropped["inventory has no model"] += 1
            continue
        rows[place.device_id] = {
            "ts": at,
            "cluster": site.cluster,
            "node": node.name,
            "device_id": place.device_id,
            "model": place.model,
            "units": place.device_units,
            "state": "available" if node.available else "unavailable",
        } | {
            name: value
            for name in ("vendor", "memory_bytes", "pool")
            if (value := getattr(place, name)) not in ("", None)
        }
    return list(rows.values())


def _finding(node: Node, at: datetime, site: Site) -> Row:
    states = "+".join(sorted(node.states))
    return {
        "ts": at,
        "cluster": site.cluster,
        "node": node.name,
        "finding": "node_unavailable",
        "severity": "warning",
        "message": f"{states}: {node.reason}" if node.reason else states,
        "source": SOURCE,
    }
