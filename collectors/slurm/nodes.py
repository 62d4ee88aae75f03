"""Turns the state of a Slurm node into the state of its devices.

A node is unavailable if nobody can be given it: DOWN, FAIL, ERROR, INVAL, being rebooted, drained or in a maintenance
reservation, and without jobs. A job on a node keeps its GPUs and pays for them. So a draining node is available until
its last job ends, and a node that came back is available from the start of its first job, even if nobody polled in
between. PLANNED and RESERVED nodes wait for a job, powered-down ones wake on demand: available. FUTURE nodes do not
exist yet; UNKNOWN ones, after a restart of the controller, keep their last known state.

Source: https://slurm.schedmd.com/sinfo.html (NODE STATE CODES), scontrol show node
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from collectors.readings import Collected, Row
from collectors.slurm.inventory import GresDevice, Inventory
from collectors.slurm.jobs import SOURCE, Job, Site
from collectors.slurm.tres import Gres

_BROKEN = frozenset({"DOWN", "FAIL", "ERROR", "FAILING", "INVAL", "INVALID_REG", "REBOOT_ISSUED"})
_CLOSED = frozenset({"DRAIN", "DRAINED", "DRAINING", "MAINT", "MAINTENANCE"})
_IN_USE = frozenset({"ALLOCATED", "MIXED", "COMPLETING", "DRAINING", "ALLOC"})
_UNREPORTED = frozenset({"FUTURE", "UNKNOWN"})
_SLACK = timedelta(seconds=2)
"""Slurm's times are whole seconds, and its nodes are asked a moment before its jobs."""
_MOMENT = timedelta(milliseconds=1)
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

    def available(self, busy: bool = False) -> bool:
        """Whether its devices are held or may be allocated.   busy: a job is on it; a suspended one leaves it idle."""
        if self.states & _BROKEN:
            return False
        return busy or not self.states & _CLOSED or bool(self.states & _IN_USE)

    @property
    def reported(self) -> bool:
        """Whether the controller knows its state."""
        return not self.states & _UNREPORTED


def states_of(words: Iterable[str]) -> frozenset[str]:
    """The states in `IDLE+DRAIN`, `DOWN*`, or a list of them. Errors: ValueError if there is none."""
    found = frozenset(
        part.strip().rstrip(_MARKS).upper() for word in words for part in word.split("+") if part.strip(_MARKS + " ")
    )
    if not found:
        raise ValueError("no state")
    return found


def shares_per_gpu(nodes: Iterable[Node]) -> dict[str, int]:
    """How many shards (or MPS percents) are a GPU, by kind, where all nodes that have them agree."""
    reported: dict[str, set[int]] = {}
    for node in nodes:
        devices = sum(entry.count for entry in node.gres if entry.name == "gpu")
        for entry in node.gres:
            if entry.name != "gpu" and devices and entry.count and entry.count % devices == 0:
                reported.setdefault(entry.name, set()).add(entry.count // devices)
    return {kind: sizes.pop() for kind, sizes in reported.items() if len(sizes) == 1}


Held = Mapping[str, Sequence[tuple[datetime, datetime | None]]]
"""node -> from when to when jobs were on it; None: still are."""


def held_by(jobs: Iterable[Job]) -> Held:
    """When jobs, with GPUs or without, were on each node, from their records."""
    found: dict[str, list[tuple[datetime, datetime | None]]] = {}
    for job in jobs:
        if job.holds and job.started_at is not None:
            for node in job.nodes:
                found.setdefault(node, []).append((job.started_at, job.ended_at))
    return found


@dataclass(frozen=True)
class NodeInputs:
    """When the nodes were polled, the state before, and the jobs on them."""

    now: datetime
    since: datetime | None = None
    unavailable: Mapping[str, datetime] = field(default_factory=dict)
    held: Held = field(default_factory=dict)


def changes(
    nodes: Iterable[Node], inputs: NodeInputs, site: Site, inventory: Inventory
) -> tuple[Collected, dict[str, datetime]]:
    """Device rows and findings for the nodes whose availability changed, and which are unavailable now, since when.

    A node that was not seen before gets rows only if it is unavailable: whoever knows the devices has said that they
    are there.
    """
    collected, unavailable = Collected(), dict(inputs.unavailable)
    places: dict[str, list[GresDevice]] = {}
    for (name, _), place in inventory.items():
        places.setdefault(name, []).append(place)
    for node in nodes:
        if not node.reported or not (node.has_gpus or node.name in places):
            continue
        for at, is_available in _turns(node, inputs):
            for row in _rows(node, at, is_available, site, places.get(node.name, []), collected):
                collected.add("devices", row)
            if is_available:
                unavailable.pop(node.name, None)
            else:
                collected.add("findings", _finding(node, at, site))
                unavailable[node.name] = at
    return collected, unavailable


class Returned:
    """Nodes that came back into use: accounting may report later that a job had begun on one before we noticed."""

    def __init__(self) -> None:
        self._reported: dict[str, tuple[datetime, list[Row]]] = {}

    def note(self, devices: Iterable[Row], unavailable: Mapping[str, datetime]) -> None:
        """Device rows that a look reported; nodes that were unavailable before it, and since when."""
        for row in devices:
            if row["state"] == "available" and row["node"] in unavailable:
                since, rows = self._reported.get(row["node"], (unavailable[row["node"]], []))
                same = rows if rows and rows[0]["ts"] == row["ts"] else []
                self._reported[row["node"]] = (since if same else unavailable[row["node"]], [*same, row])

    def earlier(self, held: Held) -> list[Row]:
        """The same rows from the start of the first job on the node while it was taken for unavailable."""
        found: list[Row] = []
        for node, (since, rows) in self._reported.items():
            starts = [
                start for start, end in held.get(node, ()) if _whole(since) <= start < rows[0]["ts"] and start != end
            ]
            if starts:
                moved = [row | {"ts": max(min(starts), since + _MOMENT)} for row in rows]
                self._reported[node] = (since, moved)
                found += moved
        return found


def _turns(node: Node, inputs: NodeInputs) -> Iterator[tuple[datetime, bool]]:
    """When it became available or unavailable since the last poll, in order of time."""
    held = inputs.held.get(node.name, ())
    available = node.available(busy=any(end is None for _, end in held))
    back = inputs.unavailable.get(node.name)
    seen = inputs.since - _SLACK if inputs.since is not None else None
    if back is not None:
        starts = [start for start, end in held if _whole(back) <= start <= inputs.now and start != end]
        if not (starts or available):
            return
        back = max(min(starts, default=_whole(inputs.now)), back + _MOMENT)
        seen = _whole(back)
        yield back, True
    if available:
        return
    # A reason that is older than a look at which the node was available says nothing of when that ended.
    reason = [at for at in [node.reason_at] if at is not None and (seen or at) <= at <= inputs.now]
    ends = [end for _, end in held if end is not None and (reason or (seen and end >= seen))]
    at = max(reason + ends, default=inputs.now)
    yield (at if back is None else max(at, back + _MOMENT)), False


def _whole(at: datetime) -> datetime:
    """Cut to whole seconds, like Slurm's own times."""
    return at.replace(microsecond=0)


def _rows(
    node: Node, at: datetime, is_available: bool, site: Site, places: list[GresDevice], collected: Collected
) -> list[Row]:
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
            "state": "available" if is_available else "unavailable",
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
