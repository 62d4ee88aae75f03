"""The scheduler's data model: nodes, requests, jobs, tenants, queues; placements, plans, reasons.

Everything here is plain data. Decisions are functions of (state, now) that return a `Plan`; one thin loop applies it.
Capacity is counted in whole units of a device, so that shares are exact: 1 for a device that is given away whole, its
slices under MIG, its replicas under time-slicing, 1,000 where thousandths are handed out.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from scheduler.scaling import ScalingPolicy

MOST_COUNTED, MOST_ASKED, CENTURY = 10_000, 1 << 53, 3.2e9
"""Upper bounds of counts (devices, units, replicas), amounts (bytes) and seconds, so that arithmetic stays exact."""
NodeState = Literal["available", "reserved", "maintenance", "failed"]
QueuePolicy = Literal["fifo", "priority", "fair_share", "capacity"]
PriorityScope = Literal["never", "queue", "tenant", "all"]
"""Which jobs of lower priority may be preempted: none, those of the same queue, of the same tenant, all."""
EntitlementClass = Literal["guaranteed", "borrowed", "reserved"]
Ending = Literal["preempted", "suspended", "finished", "failed", "cancelled", "rejected"]
COMES_BACK: tuple[Ending, ...] = ("preempted", "suspended")
"""Endings of an attempt after which its job may run again."""


@dataclass(frozen=True, slots=True)
class Device:
    """units: of the whole device.   geometry: name of the legal MIG placements (see scheduler.placement), or ''.

    instances: what the driver calls its MIG instances, by place: ("1g.10gb@0", "MIG-...")."""

    device_id: str
    model: str
    units: int = 1
    memory_bytes: int = 0
    geometry: str = ""
    instances: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Node:
    """topology: names of the domains that it lies in, widest first, e.g. ("zone-a", "rack-7").

    named: whether its devices' ids are the driver's.   launcher: which system starts processes there, if not ours.
    """

    name: str
    devices: tuple[Device, ...] = ()
    cpu_milli: int = 0
    memory_bytes: int = 0
    pool: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: frozenset[str] = frozenset()
    topology: tuple[str, ...] = ()
    state: NodeState = "available"
    named: bool = False
    launcher: str = ""


@dataclass(frozen=True, slots=True)
class Request:
    """What one replica of a job needs, all of it on one node.

    devices: how many; 0 for a job without GPUs.   units: of each of them; 0 = the whole device.   memory_bytes: free
    memory that each device must have left.   profile: a MIG profile instead of units.   models: allowed models, empty =
    any.   required_topology, preferred_topology: level (0 = widest) of which one domain must, should hold all replicas.
    workload_class: what it is to its neighbours on a shared device, as measured (see scheduler.placement.interference).
    most_units: of each device; 0 = any. Only the scheduler sets it, where quotas leave no larger devices.
    """

    devices: int = 1
    units: int = 0
    memory_bytes: int = 0
    profile: str = ""
    cpu_milli: int = 0
    host_memory_bytes: int = 0
    models: frozenset[str] = frozenset()
    pool: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    tolerations: frozenset[str] = frozenset()
    required_topology: int | None = None
    preferred_topology: int | None = None
    workload_class: str = ""
    most_units: int = 0


@dataclass(frozen=True, slots=True)
class Privileged(Request):
    """A request that may take capacity that pools reserve. Only the scheduler makes one, by its settings; a user cannot
    request it.   kept_in: whose reserves it may take."""

    kept_in: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Job:
    """A gang of `min_replicas` to `max_replicas` equal replicas, started all or nothing.

    submitted_at: seconds since the epoch.   time_limit, run_time: seconds; None = unlimited, unknown (run_time is what
    a trace knows and a live job does not).   wait_bound: seconds after which waiting is a breach of its own.
    lease_seconds: for which it runs without being renewed.   after: jobs that must have finished.   service: scaled by
    its queue from zero (see scheduler.serverless).   scaling: its own policy for its size (see scheduler.scaling).
    """

    job_id: str
    tenant: str
    queue: str
    request: Request
    submitted_at: float
    min_replicas: int = 1
    max_replicas: int = 1
    priority: int = 0
    preemptible: bool = True
    time_limit: float | None = None
    run_time: float | None = None
    wait_bound: float | None = None
    checkpoint_seconds: float | None = None
    lease_seconds: float | None = None
    project: str = ""
    after: tuple[str, ...] = ()
    service: str = ""
    scaling: ScalingPolicy | None = None


@dataclass(frozen=True, slots=True)
class Grant:
    """A replica's share of one node: device indices within the node, and the units of each.

    profile, starts: the MIG placement on each device, where there is one.
    """

    node: int
    devices: tuple[int, ...]
    units: tuple[int, ...]
    profile: str = ""
    starts: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Tenant:
    """A node of the tree of tenants. Amounts are device units of `pool` ('' = all pools).

    guaranteed: its own.   limit: most it may hold; None = no limit.   borrowing_limit, lending_limit: None = no limit.
    weight: in sharing capacity that nobody is guaranteed.
    """

    name: str
    parent: str = ""
    pool: str = ""
    guaranteed: int = 0
    limit: int | None = None
    borrowing_limit: int | None = None
    lending_limit: int | None = None
    weight: float = 1.0


@dataclass(frozen=True, slots=True)
class Queue:
    """A node of the tree of queues. Jobs wait in its leaves; a parent's policy chooses the child that is next.

    guaranteed, maximum: device units, of a parent with all below it; a parent that says no guarantee has that of its
    children.   weight: among the children of a parent that shares by fairness.   wait_bound: seconds.   min_run_time:
    seconds that a job of it runs before it may be preempted.   half_life: of remembered usage in seconds; 0 = fairness
    at this moment only.   preempts: which jobs of lower priority its own may preempt; a tuple: those in these queues
    and below them; None: as the policies say.
    """

    name: str
    policy: QueuePolicy = "fifo"
    priority: int = 0
    guaranteed: int = 0
    maximum: int | None = None
    wait_bound: float | None = None
    min_run_time: float = 0.0
    half_life: float = 0.0
    parent: str = ""
    weight: float = 1.0
    preempts: PriorityScope | tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class Reason:
    """Why a job waits: a code (docs/scheduler.md), what was counted, and the arithmetic in words.

    counts: cause -> nodes or devices.   blockers: jobs that hold what it waits for.
    """

    code: str
    text: str = ""
    counts: Mapping[str, int] = field(default_factory=dict)
    blockers: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Start:
    job_id: str
    grants: tuple[Grant, ...]
    entitlement: EntitlementClass
    decision_id: str = ""


@dataclass(frozen=True, slots=True)
class Preempt:
    """replicas: how many of the job's are taken; all ends it.   authority: by which right (docs/scheduler.md)."""

    job_id: str
    replicas: int
    by_job: str
    authority: str
    text: str
    decision_id: str = ""


@dataclass(frozen=True, slots=True)
class Resize:
    """grants: all grants of an elastic job after the change."""

    job_id: str
    grants: tuple[Grant, ...]
    decision_id: str = ""


@dataclass(frozen=True, slots=True)
class Plan:
    """The actions of one cycle, in the order to apply them: preemptions before the starts that they make room for."""

    actions: tuple[Start | Preempt | Resize, ...] = ()
    waiting: Mapping[str, tuple[Reason, ...]] = field(default_factory=dict)
