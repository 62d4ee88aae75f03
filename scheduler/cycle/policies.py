"""A site's scheduling policies, from its settings (scheduler.settings), fixed for a whole cycle."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from scheduler.model import PriorityScope
from scheduler.placement.headroom import HeadroomRule

MOST_PROMISES = 100
"""Promises of conservative backfill; jobs behind them may start, but get no promise."""


@dataclass(frozen=True, slots=True)
class Reservation:
    """Nodes that are kept, whole, during [start, end) in seconds since the epoch.

    nodes: indices.   tenants: whose jobs may run there meanwhile; without any the nodes are no capacity then, as in
    maintenance.   idle_seconds: after which it
    is given back, if nothing of theirs runs there; None: never.
    """

    name: str
    start: float
    end: float
    nodes: frozenset[int]
    tenants: frozenset[str] = frozenset()
    kind: Literal["reservation", "maintenance"] = "reservation"
    idle_seconds: float | None = None


@dataclass(frozen=True, slots=True)
class Reserve:
    """What a pool reserves (`rule`), and for which jobs: of that priority (with their queue's) or higher, of these
    queues or queues below them, of these tenants; one is enough."""

    pool: str
    rule: HeadroomRule
    priority: int | None = None
    queues: frozenset[str] = frozenset()
    tenants: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Policies:
    """backfill: promises to jobs that wait: 0 = nothing overtakes a job that waits in its queue, 1 = EASY, None =
    conservative, to all that it looks at.   backfill_seconds: least time between two computations of promises, and
    between two searches for victims for the same class.

    between_queues: by what queues without a parent take turns, once none is below its guarantee.
    preempt_by_priority: over whom, in queues that do not say so themselves.   priority_difference: by how much more at
    least.   reclaim, preempt_for_fairness: by which other rights a job may make others give way.
    preemption_searches: most per cycle.   most_preemptions: after so many a job is left alone; None = never.

    usage_weight: how much remembered usage counts against a tenant's weight (k; see scheduler.quota.shares).
    entry_penalty_seconds: of use that a start counts at once.   elastic_hold_seconds: an elastic job that changed its
    size keeps it so long before it grows.   expected: most jobs a cycle that get an expected start.
    prices: per GPU-hour by device model, to weigh what a preemption loses; absent = 1.   reserves: one for each pool
    that has any.
    """

    backfill: int | None = 1
    backfill_seconds: float = 0.0
    between_queues: Literal["priority", "fair_share"] = "priority"
    preempt_by_priority: PriorityScope = "queue"
    priority_difference: int = 1
    reclaim: bool = True
    preempt_for_fairness: bool = True
    preemption_searches: int = 16
    most_preemptions: int | None = None
    usage_weight: float = 1.0
    entry_penalty_seconds: float = 60.0
    elastic_hold_seconds: float = 60.0
    expected: int = 16
    prices: Mapping[str, float] = field(default_factory=dict)
    reserves: tuple[Reserve, ...] = ()

    @property
    def promises(self) -> int:
        """The maximum number of promises in a cycle."""
        return MOST_PROMISES if self.backfill is None else self.backfill
