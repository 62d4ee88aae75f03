"""Nodes as device rows: pure functions of the devices reported so far, and of the node's current object.

Only the node's agent (or a ResourceSlice, or HAMi's register) knows which devices a node has: the API's node has counts
without identities, and we invent none. The API adds when they are unavailable:

    down     Ready is not True, or out of service: unavailable since the time in the condition
    closed   cordoned, about to be removed by the autoscaler, or no accelerator allocatable: running pods continue, so
             the devices are unavailable once no accelerator pod is left on the node
    gone     the node was deleted: removed, until a node with that name and machine is back, whose agent may not have
             noticed anything

If only some of a node's devices are not allocatable, that is a finding, because the API does not say which.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal

from collectors.kubernetes.claims import SliceDevice
from collectors.kubernetes.objects import Object, at, child, condition, created, items, mark, name, text
from collectors.kubernetes.resources import PERCENTAGES, RULES, quantity
from collectors.kubernetes.settings import Settings
from collectors.readings import Row

CLOSING_TAINTS = frozenset(
    {
        "node.kubernetes.io/unschedulable",
        "ToBeDeletedByClusterAutoscaler",
        "karpenter.sh/disrupted",
        "karpenter.sh/disruption",
        "cloud.google.com/impending-node-termination",
    }
)
HAMI_REGISTER = ("hami.io/node-nvidia-register", "volcano.sh/node-vgpu-register")
SHARED_UNITS = 100
"""Units of a device that a sharing scheduler divides: hundredths, as its cores are counted."""


@dataclass(frozen=True, slots=True)
class NodeState:
    """since: None if nothing in the object shows it."""

    state: Literal["up", "closed", "down"]
    since: datetime | None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class ReportedNode:
    """What was reported of a node: device -> (state, ts).   short: resource -> how many were missing when last
    reported. machine: its UUID, empty where the node does not tell.   removed: of a deleted node, the rows of its
    devices."""

    devices: dict[str, tuple[str, str]] = field(default_factory=dict)
    short: dict[str, int] = field(default_factory=dict)
    machine: str = ""
    removed: tuple[Row, ...] = ()

    def plain(self) -> dict[str, Any]:
        removed = [{key: value for key, value in row.items() if key != "ts"} for row in self.removed]
        return {"devices": self.devices, "short": self.short, "machine": self.machine, "removed": removed}

    @staticmethod
    def of(plain: Mapping[str, Any]) -> ReportedNode:
        devices = {device: (state, ts) for device, (state, ts) in plain["devices"].items()}
        return ReportedNode(devices, dict(plain["short"]), plain.get("machine", ""), tuple(plain.get("removed", ())))

    def since(self, node: Object) -> ReportedNode:
        """What counts of it for a node that is there: nothing if it was deleted, and is another machine now."""
        return ReportedNode() if self.removed and machine(node) != self.machine else self


@dataclass(frozen=True, slots=True)
class NodeRows:
    devices: tuple[Row, ...]
    findings: tuple[Row, ...]
    reported: ReportedNode


def machine(node: Object) -> str:
    """The machine that a node is, by its firmware."""
    return text(child(child(node, "status"), "nodeInfo"), "systemUUID")


def node_state(node: Object) -> NodeState:
    """Whether pods can run there, by the node's conditions, cordon and taints."""
    ready = condition(node, "Ready")
    taints = {text(taint, "key"): taint for taint in items(child(node, "spec"), "taints")}
    out = taints.get("node.kubernetes.io/out-of-service")
    since = at(ready.get("lastTransitionTime")) or created(node)
    if ready.get("status") != "True" or out is not None:
        return NodeState("down", at((out or {}).get("timeAdded")) or since, text(ready, "reason") or "NotReady")
    closing = next((taints[key] for key in sorted(CLOSING_TAINTS & taints.keys())), None)
    if closing is not None or child(node, "spec").get("unschedulable") is True:
        return NodeState("closed", at((closing or {}).get("timeAdded")), text(closing, "key") or "unschedulable")
    counted = accelerators(node)
    if counted and not any(allocatable for _, allocatable in counted.values()):
        return NodeState("closed", None, "nothing allocatable")
    return NodeState("up", since)


def accelerators(node: Object) -> dict[str, tuple[int, int]]:
    """Resource -> (capacity, allocatable), of the accelerators that the node has."""
    status = child(node, "status")
    allocatable = child(status, "allocatable")
    found = {}
    for resource, amount in child(status, "capacity").items():
        known = resource in PERCENTAGES or any(rule.pattern.fullmatch(resource) for rule in RULES)
        if known and (capacity := round(quantity(amount))) > 0:
            found[resource] = capacity, round(quantity(allocatable.get(resource, 0)))
    return found


def registered(node: Object) -> list[SliceDevice]:
    """Devices that HAMi or Volcano register in the node's annotations, in either of their two formats."""
    registered = mark(node, HAMI_REGISTER).strip()
    if not registered:
        return []
    entries: list[tuple[str, Any, str, bool]] = []
    if registered.startswith("["):
        try:
            listed = json.loads(registered)
        except (ValueError, RecursionError):
            return []
        entries += [
            (text(each, "id"), each.get("devmem"), text(each, "type"), each.get("health") is True)
            for each in items({"devices": listed}, "devices")
        ]
    else:
        for entry in registered.split(":"):
            values = entry.split(",")
            if len(values) >= 7:
                entries.append((values[0], values[2], values[4], values[6] == "true"))
    return [
        SliceDevice(
            node=name(node),
            vendor="nvidia",
            device_id=device_id,
            units=SHARED_UNITS,
            model=model.removeprefix("NVIDIA-"),
            memory_bytes=int(quantity(memory) * 2**20) or None,
            since=created(node),
            usable=healthy,
        )
        for device_id, memory, model, healthy in entries
        if device_id.startswith("GPU-")
    ]


def node_rows(
    node: Object | None,
    inventory: Sequence[Row],
    published: Sequence[SliceDevice],
    reported: ReportedNode,
    last_end: datetime | None,
    occupied: bool,
    now: datetime,
    settings: Settings,
) -> NodeRows:
    """The device rows and findings that this version of the node adds.

    node: None if it was deleted.   inventory: the latest device rows of this node that others reported (its agent).
    published: devices that the API itself identifies.   occupied: an accelerator pod is on it.   last_end: when the
    last one ended.   now: stands in where nothing tells the time.
    """
    state = node_state(node) if node is not None else None
    reported = reported.since(node) if node is not None else reported
    if node is not None:
        here = {row["device_id"] for row in inventory}
        inventory = [*inventory, *(row for row in reported.removed if row["device_id"] not in here)]
    reported_now = dict(reported.devices)
    rows = []
    for device_id, row, since, usable, ours in _devices(inventory, published, node, settings):
        wanted = _wanted(state, usable, occupied)
        before = reported_now.get(device_id)
        if not ours and (before is None or _later(row.get("ts"), before[1])):
            before = str(row["state"]), ""
        if before is not None and before[0] == wanted:
            continue
        if before is not None and not before[1] and wanted == "available":
            continue  # somebody else said that it is not: theirs to undo
        when = _when(state, wanted, usable, last_end, since if before is None else None, now)
        last = reported_now.get(device_id)
        if (last is not None and not _later(when, last[1])) or _later(row.get("ts"), when.isoformat()):
            when = now  # an earlier time would change nothing from what was reported last on
        rows.append({**row, "ts": when, "state": wanted, "node": row.get("node", "")})
        reported_now[device_id] = wanted, when.isoformat()
    findings, short = _short(node, reported.short, now, settings)
    if node is not None:
        return NodeRows(tuple(rows), tuple(findings), ReportedNode(reported_now, short, machine(node)))
    removed = (*reported.removed, *({key: value for key, value in row.items() if key != "ts"} for row in rows))
    return NodeRows(
        tuple(rows),
        tuple(findings),
        ReportedNode(reported_now, short, reported.machine, removed if reported.machine else ()),
    )


def _devices(
    inventory: Sequence[Row], published: Sequence[SliceDevice], node: Object | None, settings: Settings
) -> list[tuple[str, Row, datetime | None, bool, bool]]:
    """(device, its row, since when, usable, whether only the API reports it), by device."""
    usable = {device.device_id: device.usable for device in published}
    found: dict[str, tuple[Row, datetime | None, bool, bool]] = {
        str(row["device_id"]): (dict(row), None, usable.get(str(row["device_id"]), True), False) for row in inventory
    }
    pool = mark(node, settings.pool_marks) if node is not None else ""
    for device in published:
        if device.device_id in found or not device.model:
            continue
        row: Row = {
            "cluster": settings.cluster,
            "node": device.node,
            "device_id": device.device_id,
            "vendor": device.vendor,
            "model": device.model,
            "units": device.units,
        }
        if device.memory_bytes:
            row["memory_bytes"] = device.memory_bytes
        if pool:
            row["pool"] = pool
        found[device.device_id] = row, device.since, device.usable, True
    return [(device_id, *rest) for device_id, rest in sorted(found.items())]


def _later(stamp: Any, than: str) -> bool:
    """Whether a time (as the API, a file or the store has it) is known, and later."""
    when = stamp if isinstance(stamp, datetime) else at(stamp)
    return when is not None and when > datetime.fromisoformat(than)


def _wanted(state: NodeState | None, usable: bool, occupied: bool) -> str:
    if state is None:
        return "removed"
    closed = state.state == "closed" and not occupied
    return "unavailable" if state.state == "down" or closed or not usable else "available"


def _when(
    state: NodeState | None,
    wanted: str,
    usable: bool,
    last_end: datetime | None,
    first: datetime | None,
    now: datetime,
) -> datetime:
    """Since when a device is in the state to be reported."""
    if first is not None and wanted == "available":
        return first
    if state is None or not usable:
        return now
    if state.state == "closed":
        known = [each for each in (state.since, last_end) if each is not None]
        return max(known) if state.since is not None else now
    return state.since or now


def _short(
    node: Object | None, before: Mapping[str, int], now: datetime, settings: Settings
) -> tuple[list[Row], dict[str, int]]:
    """A finding for each resource with another number missing than before."""
    missing = {
        resource: capacity - allocatable
        for resource, (capacity, allocatable) in (accelerators(node) if node is not None else {}).items()
        if allocatable < capacity
    }
    findings = []
    for resource, count in sorted(missing.items()):
        if before.get(resource) == count or node is None:
            continue
        capacity = accelerators(node)[resource][0]
        findings.append(
            {
                "ts": now,
                "cluster": settings.cluster,
                "node": name(node),
                "finding": "device_unhealthy",
                "severity": "warning",
                "message": f"{capacity - count} of {capacity} {resource} are allocatable",
                "source": settings.source,
            }
        )
    return findings, missing
