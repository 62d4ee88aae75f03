"""What the statuses of ComputePools, Queues and Tenants say. Pure.

The condition Ready is about this object's spec: True while the scheduler keeps what it promises.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from collectors.kubernetes.objects import Object, child, items, text, written
from scheduler.kubernetes.virtual import level_of
from scheduler.model import Node
from scheduler.pools import PoolLine
from scheduler.records.book import Live
from scheduler.records.events import gpus_held
from warehouse.isolation import PROMISES

MOST_WORDS = 1000
"""Characters of a message."""
MOST_NAMED = 3
"""Nodes that a message names."""
IN_FORCE, NO_NODES, CONFLICT = "InForce", "NoNodes", "NodeConflict"
VIRTUALIZED, AS_SAID, DRIFT = "Virtualized", "AsDeclared", "Drift"
"""A condition of pools that say how their devices are given away, and its reasons."""
PARTS = ("total", "allocated", "available", "reserved", "unavailable")


@dataclass(frozen=True, slots=True)
class Ready:
    """holds: whether what the spec promises is kept."""

    holds: bool
    reason: str = IN_FORCE
    message: str = ""


@dataclass(frozen=True, slots=True)
class Counts:
    """Jobs that wait, jobs that are placed, and devices that these hold: those of a job that is being stopped count for
    no quota any more."""

    pending: int = 0
    running: int = 0
    allocated: int = 0

    def __add__(self, other: Counts) -> Counts:
        return Counts(
            self.pending + other.pending, self.running + other.running, self.allocated + other.allocated
        )  # fmt: skip


def some(words: Sequence[str]) -> str:
    """The first of them, and how many more there are."""
    more = len(words) - MOST_NAMED
    return "; ".join(words[:MOST_NAMED]) + (f"; and {more} more" if more > 0 else "")


def pool_status(
    of: Object, ready: Ready, nodes: int, lines: Sequence[PoolLine], now: datetime, drift: Sequence[str] = ()
) -> dict[str, Any]:
    """lines: of this pool, in whole devices.   drift: nodes that are not as the pool says."""
    models = [line for line in lines if line.total]
    found: dict[str, Any] = {
        "phase": "Ready" if ready.holds else "Empty" if ready.reason == NO_NODES else "Degraded",
        "nodes": nodes,
        **{part: sum(getattr(line, part) for line in lines) for part in PARTS},
        "draining": sum(line.draining for line in lines),
        "models": [{"model": line.model, **{part: getattr(line, part) for part in PARTS}} for line in models],
    }
    level = level_of(of)
    if not level:
        return found | _conditions(of, ready, now)
    found |= {"isolationLevel": level, "promises": PROMISES[level]}
    as_said = Ready(False, DRIFT, some(drift)) if drift else Ready(True, AS_SAID)
    return found | _conditions(of, ready, now, as_said)


def counted_status(of: Object, ready: Ready, counts: Counts, now: datetime) -> dict[str, Any]:
    """Of a queue or a tenant."""
    found = {"pending": counts.pending, "running": counts.running, "allocated": counts.allocated}
    return found | _conditions(of, ready, now)


def _conditions(of: Object, ready: Ready, now: datetime, as_said: Ready | None = None) -> dict[str, Any]:
    """With conditions that others wrote as they were. as_said: of its virtualization; None: it says nothing of that."""
    before = items(child(of, "status"), "conditions")
    generation = child(of, "metadata").get("generation")
    seen = {"observedGeneration": generation} if isinstance(generation, int) else {}
    found = {text(one, "type"): dict(one) for one in before if text(one, "type") != VIRTUALIZED}
    for kind, one in (("Ready", ready), (VIRTUALIZED, as_said)):
        if one is None:
            continue
        condition: dict[str, Any] = {"type": kind, "status": str(one.holds), "reason": one.reason}
        condition |= {"message": one.message[:MOST_WORDS]} if one.message else {}
        old = next((other for other in before if text(other, "type") == kind), {})
        same = old.get("status") == condition["status"] and "lastTransitionTime" in old
        found[kind] = condition | {**seen, "lastTransitionTime": old["lastTransitionTime"] if same else written(now)}
    return {**seen, "conditions": [found[kind] for kind in sorted(found)]}


def counts(jobs: Iterable[Live], nodes: Sequence[Node], parents: Mapping[str, str], of: str) -> dict[str, Counts]:
    """By tenant or queue, as `of` says, each with all below it.   parents: '' for those that have none."""
    own: dict[str, Counts] = {}
    for live in jobs:
        waits = live.status in ("pending", "held", "suspended")
        held = 0 if live.status == "stopping" else round(gpus_held(nodes, live.grants))
        one = Counts(1, 0, 0) if waits else Counts(0, 1, held)
        called = str(getattr(live.job, of))
        own[called] = own.get(called, Counts()) + one
    found = dict(own)
    for called, one in own.items():
        above = parents.get(called, "")
        while above:
            found[above] = found.get(above, Counts()) + one
            above = parents.get(above, "")
    return found
