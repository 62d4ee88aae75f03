"""A site's settings of pools, tenants, queues and policies, in YAML: validated as a whole, reloaded while running.

    pools:                             # the nodes, if no inventory lists them
      - {name: a100, nodes: 97, devices: 8, model: A100, cpu_milli: 96000, nodes_in_domain: [16]}
      - {name: h100, model: H100, hosts: {gpu-1: [GPU-6f1c..., GPU-77aa...], gpu-2: [GPU-93b0..., GPU-c41d...]}}
    tenants:
      - {name: research, guaranteed: 400, borrowing_limit: 100}
      - {name: vision, parent: research, guaranteed: 64, weight: 2}
    queues:
      - {name: batch, policy: fair_share, half_life: 7d, wait_bound: 12h}
    reservations:
      - {name: course, nodes: [a100-0, a100-1], start: 2026-12-01T08:00Z, end: 2026-12-01T18:00Z, tenants: [vision]}
    services:                          # replicas scale with the queue, from zero (docs/scheduler-live.md)
      - {name: chat, tenant: vision, queue: batch, request: {devices: 1}, target: 8, max_replicas: 4, idle: 10m}
    callbacks:                         # notified when jobs start and end (docs/scheduler-live.md)
      - {name: ci, url: "https://hooks.example.org/gpu", secret: {file: /run/secrets/hook}, queues: [batch]}
    idle:                              # what happens to running jobs that are idle (docs/scheduler-live.md)
      - {queues: [batch], warn: 30m, after: 2h, then: suspend}
    policies: {placement: bestfit, backfill: easy, reclaim: true}

Amounts are device units of the pool, as in scheduler.model. A duration is seconds or text such as 90s, 15m, 12h, 7d.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from fractions import Fraction
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, Self
from urllib.parse import urlsplit

from pydantic import AfterValidator, BeforeValidator, ConfigDict, Field, ValidationError, model_validator

from scheduler.codec import read
from scheduler.cycle.policies import Policies, Reservation, Reserve
from scheduler.cycle.queues import Queues, queue_tree
from scheduler.cycle.state import State
from scheduler.model import (
    CENTURY,
    MOST_ASKED,
    MOST_COUNTED,
    Device,
    Node,
    PriorityScope,
    Queue,
    QueuePolicy,
    Request,
    Tenant,
)
from scheduler.placement.headroom import HeadroomRule
from scheduler.quota.tree import QuotaTree
from scheduler.serverless import Service, Use
from scheduler.windows import Window
from warehouse.durations import format_duration, seconds_of
from warehouse.errors import LedgerError
from warehouse.hours import DAYS, Day, clock, zone
from warehouse.written_files import first_error, read_yaml
from warehouse.written_model import Written

BACKFILL: Mapping[str, int | None] = {"none": 0, "easy": 1, "conservative": None}


class SettingsError(LedgerError):
    """Settings of the scheduler that cannot be used."""


class Part(Written):
    """Refuses unknown keys, so that a misspelt one is noticed."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True, allow_inf_nan=False)


def _duration(value: object) -> object:
    if isinstance(value, str):
        try:
            return float(seconds_of(value.strip()))
        except ValueError:
            raise ValueError("expected seconds, or text such as 90s, 15m, 12h or 7d") from None
    if isinstance(value, int) and not isinstance(value, bool):
        if abs(value) > CENTURY:
            raise ValueError("expected less than a century")
        return float(value)
    return value


def _instant(value: object) -> object:
    if isinstance(value, str):
        try:
            value = datetime.fromisoformat(value)
        except ValueError:
            raise ValueError("expected a time with its offset, such as 2026-12-01T08:00Z") from None
    if isinstance(value, datetime) and value.tzinfo is None:
        raise ValueError("add the offset, such as 2026-12-01T08:00Z")
    return value


def _printable(value: str) -> str:
    if not value.isprintable():
        raise ValueError("has characters that cannot be printed")
    return value


Duration = Annotated[float, BeforeValidator(_duration), Field(ge=0, le=CENTURY)]
Instant = Annotated[datetime, BeforeValidator(_instant)]
Name = Annotated[str, Field(min_length=1)]
Units = Annotated[int, Field(ge=0, le=MOST_ASKED)]
Level = Annotated[int, Field(ge=-MOST_ASKED, le=MOST_ASKED)]
"""A priority."""
Names = Annotated[tuple[Name, ...], Field(strict=False)]
Weight = Annotated[float, Field(ge=0, le=MOST_ASKED, strict=False)]


class ReservedForPart(Part):
    """Who may take what a pool keeps free from all others; one is enough. priority: with the queue's, at least."""

    priority: Level | None = None
    queues: Names = ()
    tenants: Names = ()


class PoolPart(Part):
    """Equal nodes, named `name`-0, `name`-1, ... devices: of each.   units, geometry: of each device.

    hosts: instead of nodes and devices, the nodes by name with what the driver calls their devices.   instances: and
    its MIG instances, by device and place.   launcher: who starts the processes on these nodes, if we may not.
    nodes_in_domain: how many nodes the domains of each topology level hold, the widest level first.
    reserved: device units, or a percentage of what is usable, rounded up to whole devices, of each model.
    dedicated: instead of reserved, all of it is for reserved_for.
    host_models, host_labels: of hosts, where they are not the pool's.   left: hosts that are its nodes no more: a log
    that knows them needs them, and they count for nothing.
    """

    name: Name
    nodes: Annotated[int | None, Field(ge=1, le=100_000)] = None
    hosts: dict[Name, Annotated[Names, Field(max_length=64)]] = Field(default={})
    instances: dict[Name, dict[Name, Name]] = Field(default={})
    host_models: dict[Name, Name] = Field(default={})
    host_labels: dict[Name, dict[str, str]] = Field(default={})
    left: Names = ()
    launcher: Literal["", "kubernetes", "slurm"] = ""
    devices: Annotated[int, Field(ge=0, le=64)] = 8
    model: Name = "GPU"
    units: Annotated[int, Field(ge=1, le=1024)] = 1
    memory_bytes: Units = 0
    geometry: str = ""
    cpu_milli: Units = 0
    host_memory_bytes: Units = 0
    labels: dict[str, str] = Field(default={})
    taints: Names = ()
    nodes_in_domain: Annotated[tuple[Annotated[int, Field(ge=1)], ...], Field(strict=False)] = ()
    reserved: Units | Annotated[str, Field(pattern=r"^\d{1,3}(\.\d+)?%$")] = 0
    reserved_for: ReservedForPart = ReservedForPart()
    dedicated: bool = False

    @model_validator(mode="after")
    def _says_which(self) -> Self:
        if (self.nodes is None) == (not self.hosts):
            raise ValueError(f"pool {self.name}: say nodes, how many there are, or hosts, which they are")
        whom = self.reserved_for
        named = whom.priority is not None or bool(whom.queues or whom.tenants)
        if self.dedicated and (self.reserved or not named):
            raise ValueError(f"pool {self.name}: dedicated is for those in reserved_for: name them, without reserved")
        if named != bool(self.headroom_rule().part or self.headroom_rule().units):
            raise ValueError(f"pool {self.name}: reserved says how much, reserved_for whom: say both, or neither")
        for what, hosts in (("host_models", self.host_models), ("host_labels", self.host_labels), ("left", self.left)):
            unknown = sorted(set(hosts) - set(self.hosts))
            if unknown:
                raise ValueError(f"pool {self.name}: {what}: {unknown[0]} is not among hosts")
        strange = sorted(set(self.instances) - {device for devices in self.hosts.values() for device in devices})
        if strange:
            raise ValueError(f"pool {self.name}: instances: no device {strange[0]} is among hosts")
        return self

    def build(self) -> list[Node]:
        if self.hosts:
            return [self._node(number, name, ids, True) for number, (name, ids) in enumerate(self.hosts.items())]
        return [self._made_up(number) for number in range(self.nodes or 0)]

    def headroom_rule(self) -> HeadroomRule:
        """What is kept free from those who are not in reserved_for."""
        if self.dedicated:
            return HeadroomRule(part=Fraction(1))
        if isinstance(self.reserved, str):
            return HeadroomRule(part=Fraction(self.reserved.rstrip("%")) / 100)
        return HeadroomRule(self.reserved)

    def units_reserved(self) -> int:
        """Of all its devices, while they are usable: what tenants cannot be guaranteed."""
        if self.dedicated:
            return 0
        return sum(self.headroom_rule().of(devices * self.units, self.units) for devices in self._by_model().values())

    def units_there(self) -> int:
        """Of all its devices."""
        return sum(self._by_model().values()) * self.units

    def leaves_nothing(self) -> str:
        """What is wrong if it keeps all that it has; '' if it does not."""
        rule = self.headroom_rule()
        if not (rule.part or rule.units) or self.units_reserved() < max(1, self.units_there()):
            return ""
        return f"pool {self.name}: reserved {self.reserved} leaves nothing of {self.units_there()} units"

    def _by_model(self) -> Counter[str]:
        """Devices of the nodes that it has now."""
        if not self.hosts:
            return Counter({self.model: (self.nodes or 0) * self.devices})
        found: Counter[str] = Counter()
        for name, devices in self.hosts.items():
            if name not in self.left:
                found[self.host_models.get(name, self.model)] += len(devices)
        return found

    def _made_up(self, number: int) -> Node:
        name = f"{self.name}-{number}"
        return self._node(number, name, [f"{name}/{index}" for index in range(self.devices)], False)

    def _node(self, number: int, name: str, ids: Sequence[str], named: bool) -> Node:
        devices = tuple(
            Device(
                one, self.host_models.get(name, self.model), self.units, self.memory_bytes, self.geometry,
                tuple(sorted(self.instances.get(one, {}).items())),
            )
            for one in ids
        )  # fmt: skip
        topology = tuple(
            f"{self.name}-level{level}-{number // size}" for level, size in enumerate(self.nodes_in_domain)
        )
        return Node(
            name,
            devices,
            self.cpu_milli,
            self.host_memory_bytes,
            self.name,
            self.labels | self.host_labels.get(name, {}),
            frozenset(self.taints),
            topology,
            named=named,
            launcher=self.launcher,
        )


class TenantPart(Part):
    """See scheduler.model.Tenant. A tenant may be listed once for each pool."""

    name: Name
    parent: str = ""
    pool: str = ""
    guaranteed: Units = 0
    limit: Units | None = None
    borrowing_limit: Units | None = None
    lending_limit: Units | None = None
    weight: Weight = 1.0

    @model_validator(mode="after")
    def _may_have_it(self) -> Self:
        if self.limit is not None and self.limit < self.guaranteed:
            raise ValueError(f"tenant {self.name}: limit {self.limit} is below guaranteed {self.guaranteed}")
        return self

    def build(self) -> Tenant:
        return Tenant(**self.model_dump())


class QueuePart(Part):
    """See scheduler.model.Queue."""

    name: Name
    policy: QueuePolicy = "fifo"
    priority: Level = 0
    guaranteed: Units = 0
    maximum: Units | None = None
    wait_bound: Duration | None = None
    min_run_time: Duration = 0.0
    half_life: Duration = 0.0
    parent: str = ""
    weight: Weight = 1.0
    preempts: PriorityScope | Names | None = None

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        if self.maximum is not None and self.maximum < self.guaranteed:
            raise ValueError(f"queue {self.name}: maximum {self.maximum} is below guaranteed {self.guaranteed}")
        if self.half_life and self.policy != "fair_share":
            raise ValueError(f"queue {self.name}: half_life is for policy fair_share, not {self.policy}")
        return self

    def check_parent(self, children: Sequence[str], promised: int) -> None:
        """promised: units that its children are guaranteed.   Errors: ValueError for what is not for parents."""
        strange = [
            name
            for name in ("wait_bound", "min_run_time", "half_life", "preempts")
            if getattr(self, name) != type(self).model_fields[name].default
        ]
        strange += ["policy capacity"] * (self.policy == "capacity")
        where, below = f"queue {self.name}", f"its children are guaranteed {promised} units"
        if strange:
            raise ValueError(f"{where}: {strange[0]} is for queues of jobs, and it is the parent of {children[0]}")
        if self.guaranteed and promised > self.guaranteed:
            raise ValueError(f"{where}: {below}, and it {self.guaranteed}")
        if self.maximum is not None and promised > self.maximum:
            raise ValueError(f"{where}: {below}, and its maximum is {self.maximum}")

    def build(self) -> Queue:
        return Queue(**self.model_dump())


class ReservationPart(Part):
    """Whole nodes kept during [start, end): for the tenants, or, as maintenance, for nobody. idle: after which it is
    given back, if nothing of theirs runs there."""

    name: Name
    nodes: Annotated[Names, Field(min_length=1)]
    start: Instant
    end: Instant
    tenants: Names = ()
    kind: Literal["reservation", "maintenance"] = "reservation"
    idle: Annotated[Duration | None, Field(gt=0)] = None

    @model_validator(mode="after")
    def _has_time_and_users(self) -> Self:
        if self.end <= self.start:
            raise ValueError(f"reservation {self.name}: end is not after start")
        if self.idle is not None and self.kind == "maintenance":
            raise ValueError(f"reservation {self.name}: idle is for reservations, maintenance ends when it says")
        if bool(self.tenants) == (self.kind == "maintenance"):
            raise ValueError(f"reservation {self.name}: a reservation names tenants, maintenance names none")
        return self


class UsePart(Part):
    """See scheduler.serverless.Use."""

    target: Annotated[float, Field(gt=0, le=1, strict=False)]
    fresh: Annotated[Duration, Field(gt=0)] = 120.0


class WindowPart(Part):
    """See scheduler.windows.Window."""

    min_replicas: Units = 0
    max_replicas: Units | None = None
    timezone: Annotated[str, AfterValidator(zone)] = "UTC"
    days: Annotated[tuple[Day, ...], Field(strict=False, min_length=1)] = DAYS
    start: Annotated[str, AfterValidator(clock)] = "00:00"
    end: Annotated[str, AfterValidator(clock)] = "24:00"

    def build(self) -> Window:
        return Window(self.min_replicas, self.max_replicas, self.timezone, self.days, self.start, self.end)


class ServicePart(Part):
    """See scheduler.serverless.Service. request: as of a job (scheduler.model.Request), of each replica."""

    name: Annotated[str, Field(min_length=1, max_length=400), AfterValidator(_printable)]
    tenant: Name
    queue: Name
    request: dict[str, Any]
    target: Annotated[int | None, Field(ge=1, le=MOST_ASKED)] = 1
    utilization: UsePart | None = None
    windows: Annotated[tuple[WindowPart, ...], Field(strict=False)] = ()
    min_replicas: Units = 0
    max_replicas: Annotated[int, Field(ge=1, le=MOST_COUNTED)] = 1
    idle: Duration = 300.0
    keep: Duration = 60.0
    priority: Level = 0
    project: str = ""
    payload: dict[str, Any] = Field(default={})

    @model_validator(mode="after")
    def _can_be(self) -> Self:
        if self.max_replicas < self.min_replicas:
            raise ValueError(f"service {self.name}: max_replicas {self.max_replicas} is below {self.min_replicas}")
        for window in self.windows:
            most = self.max_replicas if window.max_replicas is None else window.max_replicas
            if not window.min_replicas <= most <= self.max_replicas:
                range_ = f"{window.min_replicas} to {most}"
                raise ValueError(f"service {self.name}: windows: {range_} is not within its {self.max_replicas}")
        if self.target is None and self.utilization is not None and not self.min_replicas:
            raise ValueError(f"service {self.name}: nothing is used where nothing runs: say target or min_replicas")
        self.build()
        return self

    def build(self) -> Service:
        try:
            request = read(Request, self.request, f"service {self.name}: request")
        except LedgerError as error:
            raise ValueError(str(error)) from error
        return Service(
            self.name, self.tenant, self.queue, request, self.target, self.min_replicas, self.max_replicas,
            self.idle, self.keep, self.priority, self.project, self.payload,
            None if self.utilization is None else Use(self.utilization.target, self.utilization.fresh),
            tuple(window.build() for window in self.windows),
        )  # fmt: skip


CallbackEvent = Literal[
    "submitted",
    "started",
    "resized",
    "suspended",
    "preempted",
    "finished",
    "failed",
    "cancelled",
    "rejected",
    "ends_soon",
    "idle",
]
DEFAULT_EVENTS: tuple[CallbackEvent, ...] = ("started", "suspended", "preempted", "finished", "failed", "cancelled")


class SecretPart(Part):
    """Where a secret is; never the secret."""

    file: Name


class CallbackPart(Part):
    """Who hears when jobs start and end (scheduler.live.callbacks): url, with the secret that signs, or a command of
    the scheduler's machine, which hears the document on its standard input.

    events: of which.   queues, tenants: whose jobs; none = all.
    """

    name: Name
    url: str = ""
    secret: SecretPart | None = None
    command: Names = ()
    events: Annotated[tuple[CallbackEvent, ...], Field(strict=False, min_length=1)] = DEFAULT_EVENTS
    queues: Names = ()
    tenants: Names = ()

    @model_validator(mode="after")
    def _has_one_way(self) -> Self:
        if bool(self.url) == bool(self.command):
            raise ValueError(f"callback {self.name}: say url or command, one of them")
        if self.command and not self.command[0].startswith("/"):
            raise ValueError(f"callback {self.name}: command begins with an absolute path")
        if self.url:
            parts = urlsplit(self.url)
            if parts.scheme not in ("http", "https") or not parts.hostname or "@" in parts.netloc or parts.fragment:
                raise ValueError(f"callback {self.name}: url is http:// or https:// with a host, and no password in it")
            if not re.fullmatch(r"[!-~]+", self.url):
                raise ValueError(f"callback {self.name}: url has spaces or letters that no address has; %-encode them")
            try:
                _ = parts.port, parts.hostname.encode("idna")
            except ValueError as error:
                raise ValueError(f"callback {self.name}: url: {error}") from None
            if self.secret is None:
                raise ValueError(f"callback {self.name}: give secret: {{file: ...}}, with which it is signed")
        return self

    def wants(self, event: str, tenant: str, queue: str) -> bool:
        return event in self.events and queue in (self.queues or (queue,)) and tenant in (self.tenants or (tenant,))


LONGEST_IDLE = 3 * 3600.0
"""Seconds for which the alert's query (alerts/rules/idle_holder.sql) can tell that a job was idle."""


class IdlePart(Part):
    """What happens to running jobs of these tenants and queues that are idle; none named = all.

    warn, after: seconds of idleness.   then: what happens at `after`: shrink makes an elastic job its smallest gang.
    approval: only if an operator says yes.
    """

    tenants: Names = ()
    queues: Names = ()
    warn: Duration
    after: Duration
    then: Literal["shrink", "suspend", "cancel"]
    approval: bool = False

    @model_validator(mode="after")
    def _leaves_time(self) -> Self:
        if not self.warn < self.after:
            order = f"warn {format_duration(self.warn)} is not before after {format_duration(self.after)}"
            raise ValueError(f"{order}: leave time to react")
        if self.after > LONGEST_IDLE:
            most = format_duration(LONGEST_IDLE)
            raise ValueError(f"after {format_duration(self.after)} is beyond {most}, and more idleness is not measured")
        return self

    @property
    def grace(self) -> float:
        """Seconds between a warning and what it warns of, at least."""
        return self.after - self.warn

    def summary(self) -> str:
        whom = (("tenants", self.tenants), ("queues", self.queues))
        whose = [f"{what} {', '.join(names)}" for what, names in whom if names]
        then = f"{self.then} if an operator says yes" if self.approval else self.then
        when = f"warn after {format_duration(self.warn)}, after {format_duration(self.after)} {then}"
        return f"{'; '.join(whose) or 'all jobs'}: {when}"


class SpeedPart(Part):
    """A line of `gpuledger interference speeds --format json`: how fast one class runs next to another, 1 = as
    alone."""

    model_config = ConfigDict(strict=True, extra="ignore", frozen=True, populate_by_name=True, allow_inf_nan=False)

    own: Annotated[str, Field(alias="class", min_length=1)]
    beside: Name
    speed: Annotated[float, Field(gt=0, le=2, strict=False)]


def _scope(value: object) -> object:
    """true and false as scopes: settings from before there were scopes have them."""
    return {True: "queue", False: "never"}[value] if isinstance(value, bool) else value


class PoliciesPart(Part):
    """See scheduler.cycle.policies. backfill: none, easy, conservative, or how many promises."""

    placement: Literal["fgd", "bestfit", "dotproduct", "gpupacking", "gpuclustering", "random"] = "bestfit"
    backfill: Literal["none", "easy", "conservative"] | Annotated[int, Field(ge=0)] = "easy"
    backfill_interval: Duration = 0.0
    between_queues: Literal["priority", "fair_share"] = "priority"
    preempt_by_priority: Annotated[PriorityScope, BeforeValidator(_scope)] = "queue"
    priority_difference: Annotated[int, Field(ge=1, le=MOST_ASKED)] = 1
    reclaim: bool = True
    preempt_for_fairness: bool = True
    preemption_searches: Annotated[int, Field(ge=0)] = 16
    most_preemptions: Annotated[int | None, Field(ge=1)] = None
    usage_weight: Weight = 1.0
    entry_penalty: Duration = 60.0
    elastic_hold: Duration = 60.0
    expected_starts: Annotated[int, Field(ge=0)] = 16
    warn_before: Duration = 300.0
    prices: dict[str, Annotated[float, Field(ge=0, strict=False)]] = Field(default={})
    speeds: Annotated[tuple[SpeedPart, ...], Field(strict=False)] = ()

    def speeds_of_pairs(self) -> Mapping[tuple[str, str], float]:
        return {(one.own, one.beside): one.speed for one in self.speeds}

    def build(self) -> Policies:
        backfill = BACKFILL[self.backfill] if isinstance(self.backfill, str) else self.backfill
        return Policies(
            backfill=backfill,
            backfill_seconds=self.backfill_interval,
            between_queues=self.between_queues,
            preempt_by_priority=self.preempt_by_priority,
            priority_difference=self.priority_difference,
            reclaim=self.reclaim,
            preempt_for_fairness=self.preempt_for_fairness,
            preemption_searches=self.preemption_searches,
            most_preemptions=self.most_preemptions,
            usage_weight=self.usage_weight,
            entry_penalty_seconds=self.entry_penalty,
            elastic_hold_seconds=self.elastic_hold,
            expected=self.expected_starts,
            prices=dict(self.prices),
        )


class Shortfall(NamedTuple):
    """A promise that what is there cannot keep.   pool: '' = all.   units: that are missing."""

    kind: Literal["pool", "tenants", "queues"]
    pool: str
    units: int
    text: str


class Settings(Part):
    """All of it. Names within a list are unique, tenants within a pool; parents are tenants of the same pool.

    nodes_vary: nodes come and go, so that there may be none, or fewer than were promised; whoever says so sees to it
    that promises are made only of what is there (see `shortfalls`).
    """

    pools: Annotated[tuple[PoolPart, ...], Field(strict=False)] = ()
    tenants: Annotated[tuple[TenantPart, ...], Field(strict=False)] = ()
    queues: Annotated[tuple[QueuePart, ...], Field(strict=False)] = ()
    reservations: Annotated[tuple[ReservationPart, ...], Field(strict=False)] = ()
    services: Annotated[tuple[ServicePart, ...], Field(strict=False)] = ()
    callbacks: Annotated[tuple[CallbackPart, ...], Field(strict=False)] = ()
    idle: Annotated[tuple[IdlePart, ...], Field(strict=False)] = ()
    policies: PoliciesPart = PoliciesPart()
    nodes_vary: bool = False

    @model_validator(mode="after")
    def _names_fit(self) -> Self:
        _unique("pools", (pool.name for pool in self.pools))
        gone = next((pool.name for pool in self.pools if pool.left and not self.nodes_vary), None)
        if gone is not None:
            raise ValueError(f"pool {gone}: left: nodes leave pools that come from a cluster; here, set their state")
        if any(pool.hosts for pool in self.pools):
            nodes = self.nodes()
            _unique("pools: nodes", (node.name for node in nodes))
            _unique("pools: devices", (device.device_id for node in nodes for device in node.devices))
        _unique("queues", (queue.name for queue in self.queues))
        _unique("reservations", (reservation.name for reservation in self.reservations))
        _unique("services", (service.name for service in self.services))
        _unique("callbacks", (callback.name for callback in self.callbacks))
        queues = self._queues_fit()
        for service in self.services:
            if queues and service.queue not in queues:
                raise ValueError(f"service {service.name}: no queue {service.queue} is declared")
            if queues.children(service.queue):
                raise ValueError(f"service {service.name}: queue {service.queue} is a parent, and holds no jobs")
        by_pool: dict[str, list[Tenant]] = {}
        for tenant in self.tenants:
            by_pool.setdefault(tenant.pool, []).append(tenant.build())
        for pool, tenants in by_pool.items():
            if pool and self.pools and pool not in {known.name for known in self.pools}:
                raise ValueError(f"tenants of pool {pool}: pools declares no such pool")
            QuotaTree(tenants)  # says what is wrong with the tree
        for short in () if self.nodes_vary else self.shortfalls():
            raise ValueError(short.text)
        known = {tenant.name for tenant in self.tenants}
        for number, one in enumerate(() if self.nodes_vary else self.idle):
            for what, names, declared in (("queue", one.queues, {*queues}), ("tenant", one.tenants, known)):
                missing = sorted(set(names) - declared)
                if missing and declared:
                    raise ValueError(f"idle[{number}]: no {what} {missing[0]} is declared")
        for place in self.pools:
            for what, names, declared in (
                ("queue", place.reserved_for.queues, {*queues}),
                ("tenant", place.reserved_for.tenants, known),
            ):
                missing = sorted(set(names) - declared)
                if missing:
                    raise ValueError(f"pool {place.name}: reserved_for: no {what} {missing[0]} is declared")
        for reservation in self.reservations:
            unknown = sorted(set(reservation.tenants) - known)
            if unknown and known:
                raise ValueError(f"reservation {reservation.name}: no tenant {unknown[0]} is declared")
        return self

    def _queues_fit(self) -> Queues:
        """The queues, checked: a tree whose parents cover their children's guarantees.   Errors: ValueError."""
        queues = Queues(self.build_queues(), self.policies.between_queues)
        tree = queue_tree(queues.values())
        for part in self.queues:
            children = queues.children(part.name)
            if children:
                part.check_parent(children, sum(tree[child].subtree for child in children))
            above = queues.get(part.parent)
            if above is not None and above.maximum is not None and (part.maximum or 0) > above.maximum:
                raise ValueError(f"queue {part.name}: maximum {part.maximum} is above its parent's, {above.maximum}")
            policy = queues.policy(part.parent)
            if part.weight != 1.0 and policy != "fair_share":
                where = f"policy of its parent {part.parent}" if part.parent else "between_queues"
                raise ValueError(f"queue {part.name}: weight counts where {where} is fair_share, and it is {policy}")
            unknown = [name for name in part.preempts or () if name not in queues]
            if isinstance(part.preempts, tuple) and unknown:
                raise ValueError(f"queue {part.name}: preempts: no queue {unknown[0]} is declared")
            for name in part.preempts if isinstance(part.preempts, tuple) else ():
                fair = queues.between(part.name, name)
                if fair is not None:
                    who = f"queue {fair}" if fair else "the site"
                    raise ValueError(
                        f"queue {part.name}: preempts: priority does not reach {name}, since {who} shares by fairness"
                    )
        return queues

    def shortfalls(self) -> tuple[Shortfall, ...]:
        """Where the nodes are declared here: guarantees that cannot all be called in at once, and pools that keep
        everything from everybody."""
        found = [Shortfall("pool", pool.name, 1, text) for pool in self.pools if (text := pool.leaves_nothing())]
        by_pool: Counter[str] = Counter()
        for tenant in self.tenants:
            by_pool[tenant.pool] += tenant.guaranteed
        for pool, promised in by_pool.items():
            found += self._short("tenants", pool, promised)
        branches = queue_tree(self.build_queues()).root.children
        return (*found, *self._short("queues", "", sum(branch.subtree for branch in branches)))

    def _short(self, kind: Literal["tenants", "queues"], pool: str, promised: int) -> list[Shortfall]:
        there = sum(one.units_there() for one in self.pools if pool in ("", one.name))
        kept = sum(one.units_reserved() for one in self.pools if pool in ("", one.name))
        if not (self.pools or self.nodes_vary) or promised <= there - kept:
            return []
        beside = f"{there - kept} beside {kept} reserved" if kept else str(there)
        whose = f"{kind} of pool {pool}" if pool else kind
        text = f"{whose}: {promised} units are guaranteed, and there are {beside}"
        return [Shortfall(kind, pool, promised - there + kept, text)]

    def nodes(self) -> tuple[Node, ...]:
        """The nodes of all pools."""
        return tuple(node for pool in self.pools for node in pool.build())

    def build_tenants(self) -> tuple[Tenant, ...]:
        return tuple(tenant.build() for tenant in self.tenants)

    def build_queues(self) -> tuple[Queue, ...]:
        return tuple(queue.build() for queue in self.queues)

    def build_policies(self) -> Policies:
        """The policies, with the pools' reserves."""
        reserves = tuple(
            Reserve(
                pool.name,
                pool.headroom_rule(),
                pool.reserved_for.priority,
                frozenset(pool.reserved_for.queues),
                frozenset(pool.reserved_for.tenants),
            )
            for pool in self.pools
            if pool.reserved or pool.dedicated
        )
        return replace(self.policies.build(), reserves=reserves)

    def build_services(self) -> tuple[Service, ...]:
        return tuple(service.build() for service in self.services)

    def build_reservations(self, nodes: Sequence[Node], where: str = "settings") -> tuple[Reservation, ...]:
        """With node names as indices.   Errors: SettingsError for a node that is not there."""
        index = {node.name: number for number, node in enumerate(nodes)}
        found = []
        for reservation in self.reservations:
            missing = [name for name in reservation.nodes if name not in index]
            if missing:
                raise SettingsError(
                    f"{where}: reservation {reservation.name}",
                    f"node {missing[0]} is not there",
                    "Name nodes of the inventory",
                )
            found.append(
                Reservation(
                    reservation.name,
                    reservation.start.astimezone(UTC).timestamp(),
                    reservation.end.astimezone(UTC).timestamp(),
                    frozenset(index[name] for name in reservation.nodes),
                    frozenset(reservation.tenants),
                    reservation.kind,
                    reservation.idle,
                )
            )
        return tuple(found)

    def check(self, nodes: Sequence[Node], where: str = "settings") -> None:
        """Checks the settings against these nodes.   Errors: SettingsError."""
        self.build_reservations(nodes, where)

    def apply(self, state: State, now: float, where: str = "settings") -> None:
        """These settings from now on, in a state that goes on running. Nodes and placement are not among them."""
        reservations = self.build_reservations(state.cluster.nodes, where)
        state.reconfigure(self.build_tenants(), self.build_queues(), self.build_policies(), reservations, now)


def load_settings(path: Path | str) -> Settings:
    """Errors: SettingsError naming the key, what was found there and what fits."""
    hint = "It has the keys pools, tenants, queues, reservations, services, callbacks, idle and policies"
    settings = parse_settings(read_yaml(path, "settings of the scheduler", hint, SettingsError), str(path))
    if settings.nodes_vary:
        raise SettingsError(f"{path}: nodes_vary", "is for pools that come from a cluster", "Take it out")
    return settings


def parse_settings(content: Mapping[str, Any], where: str = "settings") -> Settings:
    """Settings from what the YAML holds. Errors: SettingsError with the first thing that does not fit."""
    try:
        return Settings.model_validate(content)
    except ValidationError as error:
        raise first_error(where, error, Settings, SettingsError, "See docs/scheduler.md", content=content) from error


def _unique(what: str, names: Iterable[str]) -> None:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise ValueError(f"{what}: {name} is named twice")
        seen.add(name)
