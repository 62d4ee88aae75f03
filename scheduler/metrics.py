"""Scheduling metrics, updated with every change, at a cost that does not grow with the history.

Words:
    entitled         at an instant: what a tenant is guaranteed, but no more than it holds and asks for
    redemption       integral of min(held, entitled) / integral of entitled; None if nobody was ever entitled
    breach           held beyond the limit: the integral, in GPU-seconds
    service ratio    GPU-seconds received / GPU-seconds held or asked for; Jain's index says how evenly
    bounded slowdown (wait + run) / max(run, 10 minutes), at least 1
    outcome          completed, failed, cancelled, timeout (at its limit); of an attempt also preempted, suspended
    violation        a job that waited longer than its bound; its cause is the reason it had when the bound passed

Amounts are device units as in the tree of tenants; a GPU is as many units as a device of its pool has.
"""

from __future__ import annotations

import heapq
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from scheduler.model import COMES_BACK, Ending, Grant, Job, Node, NodeState, Queue, Reason, Tenant
from scheduler.quantiles import Quantiles

USABLE: tuple[NodeState, ...] = ("available", "reserved")
"""States in which a node's GPUs count as capacity."""
SLOWDOWN_FLOOR = 600.0
UNEXPLAINED = "PendingEvaluation"
"""Cause of waits that no cycle has evaluated yet."""


@dataclass(slots=True)
class Account:
    """A tenant's amounts in units now, and their integrals in unit-seconds up to `at`."""

    guaranteed: int = 0
    limit: int | None = None
    whole: int = 1
    held: int = 0
    asked: int = 0
    at: float = 0.0
    held_area: float = 0.0
    demand_area: float = 0.0
    entitled_area: float = 0.0
    redeemed_area: float = 0.0
    breach_area: float = 0.0

    def advance(self, now: float) -> None:
        """Integrates the current amounts up to `now`."""
        seconds = now - self.at
        if seconds <= 0:
            return
        self.at = now
        demand = self.held + self.asked
        self.held_area += self.held * seconds
        self.demand_area += demand * seconds
        if self.guaranteed:
            entitled = min(self.guaranteed, demand)
            self.entitled_area += entitled * seconds
            self.redeemed_area += min(self.held, entitled) * seconds
        if self.limit is not None and self.held > self.limit:
            self.breach_area += (self.held - self.limit) * seconds

    @property
    def redemption(self) -> float | None:
        return self.redeemed_area / self.entitled_area if self.entitled_area else None

    @property
    def service(self) -> float | None:
        return self.held_area / self.demand_area if self.demand_area else None


@dataclass(slots=True)
class Preemptions:
    """jobs: that lost all their replicas.   replicas: all that were preempted, also of jobs that continued."""

    jobs: int = 0
    replicas: int = 0
    lost_gpu_seconds: float = 0.0


@dataclass(slots=True)
class QueueWaits:
    """wait: seconds to the first start.   violations: by cause."""

    wait: Quantiles = field(default_factory=Quantiles)
    slowdown: Quantiles = field(default_factory=Quantiles)
    violations: Counter[str] = field(default_factory=Counter)


@dataclass(slots=True)
class _Live:
    """A job that waits or runs. held: (model, units of a whole device, pool) -> units; since: of that set."""

    job: Job
    units: int
    since: float
    held: Mapping[tuple[str, int, str], int] = field(default_factory=dict)
    first_start: float | None = None
    waits: bool = False


@dataclass(frozen=True, slots=True)
class Waiting:
    """A queue at an instant. oldest: seconds that its oldest waiter waits; by_cause: jobs, gpus by reason code."""

    jobs: int
    oldest: float | None
    by_cause: Mapping[str, int]
    units_by_cause: Mapping[str, int]


class Meter:
    """Receives every change, in order of time. Its memory grows with the jobs that wait or run, not with past ones."""

    def __init__(self, nodes: Sequence[Node], tenants: Iterable[Tenant], queues: Iterable[Queue], now: float) -> None:
        self.nodes = nodes
        self.started_at = self.now = now
        self.queues: dict[str, QueueWaits] = defaultdict(QueueWaits)
        self.preemptions: dict[tuple[str, str, str], Preemptions] = defaultdict(Preemptions)
        self.outcomes: Counter[tuple[str, str]] = Counter()
        self.submissions = self.starts = 0
        self.unit_seconds: dict[tuple[str, str, int], float] = defaultdict(float)
        self._bounds = {queue.name: queue.wait_bound for queue in queues}
        self._live: dict[str, _Live] = {}
        self._due: list[tuple[float, str]] = []
        self._why: Mapping[str, Sequence[Reason]] = {}
        wholes: dict[str, int] = {}
        for node in nodes:
            for device in node.devices:
                for pool in ("", node.pool):
                    wholes[pool] = max(wholes.get(pool, 1), device.units)
        self._wholes = wholes
        self._accounts: dict[tuple[str, str], Account] = {}
        self._parents: dict[str, str] = {}
        self._declare(tenants)
        self._states: list[NodeState] = [node.state for node in nodes]
        self._capacity = sum(len(node.devices) for node in nodes if node.state in USABLE)
        self._held_gpus, self._waiting = 0.0, 0
        self.capacity_area = self.held_area = 0.0

    # Changes

    def submitted(self, job: Job, now: float, units: int) -> None:
        """A job waits from now on, also after a preemption or a hold.   units: that it requests."""
        self.advance(now)
        live = self._live.get(job.job_id)
        if live is None:
            live = self._live[job.job_id] = _Live(job, units, now)
            self.submissions += 1
            bound = job.wait_bound if job.wait_bound is not None else self._bounds.get(job.queue)
            if bound is not None:
                heapq.heappush(self._due, (job.submitted_at + bound, job.job_id))
        self._wait(live, True, now)

    def withdrawn(self, job_id: str, now: float) -> None:
        """A job is held: it does not wait, and requests nothing, until it is submitted again."""
        self.advance(now)
        self._wait(self._live[job_id], False, now)

    def started(self, job_id: str, grants: Sequence[Grant], now: float) -> None:
        self.advance(now)
        live = self._live[job_id]
        self.starts += 1
        if live.first_start is None:
            self.queues[live.job.queue].wait.add(max(0.0, now - live.job.submitted_at))
            live.first_start = now
        self._wait(live, False, now)
        self._hold(live, grants, now)

    def resized(self, job_id: str, grants: Sequence[Grant], now: float) -> None:
        self.advance(now)
        self._hold(self._live[job_id], grants, now)

    def preempted(
        self, job_id: str, by_job: str, authority: str, replicas: int, whole: bool, lost_gpu_seconds: float
    ) -> None:
        """Counts a preemption; `resized`, `ended` or `submitted` reports what the job holds afterwards."""
        by = self._live.get(by_job)
        count = self.preemptions[self._live[job_id].job.tenant, by.job.tenant if by else "", authority]
        count.jobs += whole
        count.replicas += replicas
        count.lost_gpu_seconds += lost_gpu_seconds

    def ended(self, job_id: str, now: float, ending: Ending, timed_out: bool = False) -> None:
        """An attempt ends; a preempted or suspended job stays known, because it may wait again. timed_out: it failed at
        its time limit."""
        self.advance(now)
        live = self._live[job_id]
        outcome = "timeout" if timed_out else "completed" if ending == "finished" else ending
        self.outcomes[live.job.queue, outcome] += 1
        self._hold(live, (), now)
        self._wait(live, False, now)
        if ending in COMES_BACK:
            return
        if ending == "finished" and live.first_start is not None:
            turnaround = now - live.job.submitted_at
            run = live.job.run_time if live.job.run_time is not None else now - live.first_start
            self.queues[live.job.queue].slowdown.add(max(1.0, turnaround / max(run, SLOWDOWN_FLOOR)))
        del self._live[job_id]

    def explained(self, waiting: Mapping[str, Sequence[Reason]]) -> None:
        """Sets the reasons for waiting, as of the latest cycle."""
        self._why = waiting

    def advance(self, now: float) -> None:
        """Moves the time to `now` and counts violations of wait bounds."""
        while self._due and self._due[0][0] < now:
            _, job_id = heapq.heappop(self._due)
            live = self._live.get(job_id)
            if live is not None and live.waits and live.first_start is None:
                self.queues[live.job.queue].violations[self._cause(job_id)] += 1
        seconds = now - self.now
        if seconds > 0:
            self.capacity_area += self._capacity * seconds
            self.held_area += self._held_gpus * seconds
            self.now = now

    def reconfigured(self, tenants: Iterable[Tenant], queues: Iterable[Queue], now: float) -> None:
        """Replaces guarantees, limits and wait bounds; new wait bounds apply to jobs submitted from now on."""
        self.advance(now)
        for account in self._accounts.values():
            account.advance(now)
            account.guaranteed, account.limit = 0, None
        known = set(self._accounts)
        self._declare(tenants)
        self._bounds = {queue.name: queue.wait_bound for queue in queues}
        if set(self._accounts) != known:
            self._recount()

    def node(self, node: int, state: NodeState, now: float) -> None:
        """A node's state changes, and with it the capacity."""
        self.advance(now)
        gpus = len(self.nodes[node].devices)
        self._capacity += gpus * ((state in USABLE) - (self._states[node] in USABLE))
        self._states[node] = state

    # Results

    @property
    def held_gpus(self) -> float:
        return self._held_gpus

    @property
    def waiting_jobs(self) -> int:
        return self._waiting

    @property
    def capacity_gpus(self) -> int:
        return self._capacity

    def ended_as(self, outcome: str) -> int:
        """Jobs of all queues that ended so: completed, failed, cancelled, timeout; or attempts that were preempted or
        suspended."""
        return sum(count for (_, found), count in self.outcomes.items() if found == outcome)

    @property
    def over(self) -> int:
        """Ended jobs; preempted and suspended ones may run again and do not count."""
        return sum(count for (_, outcome), count in self.outcomes.items() if outcome not in COMES_BACK)

    @property
    def completion(self) -> float | None:
        """Share of ended jobs that completed, 0-1."""
        return self.ended_as("completed") / self.over if self.over else None

    @property
    def utilization(self) -> float | None:
        """GPU-seconds held / GPU-seconds of capacity."""
        return self.held_area / self.capacity_area if self.capacity_area else None

    def accounts(self) -> Mapping[tuple[str, str], Account]:
        """Accounts by (tenant, pool), up to now; tenants outside the settings have one without a guarantee."""
        for account in self._accounts.values():
            account.advance(self.now)
        return self._accounts

    def redemption(self) -> float | None:
        """Redemption of all guarantees together, over tenants without a guaranteed child."""
        accounts = self.accounts()
        inner = {self._parents.get(name, "") for (name, _), account in accounts.items() if account.guaranteed}
        leaves = [account for (name, _), account in accounts.items() if name not in inner]
        entitled = sum(account.entitled_area for account in leaves)
        return sum(account.redeemed_area for account in leaves) / entitled if entitled else None

    def breach_gpu_seconds(self) -> float:
        return sum(account.breach_area / account.whole for account in self.accounts().values())

    def jain(self) -> float | None:
        """Jain's index of the tenants' service ratios: 1 = all alike, 1/n = one gets everything."""
        inner = set(self._parents.values())
        ratios = [
            account.service
            for (name, _), account in self.accounts().items()
            if name not in inner and account.service is not None
        ]
        squares = sum(ratio * ratio for ratio in ratios)
        return sum(ratios) ** 2 / (len(ratios) * squares) if squares else None

    def waiting(self) -> Mapping[str, Waiting]:
        """Each queue that has waiters."""
        since: dict[str, float] = {}
        causes: dict[str, Counter[str]] = defaultdict(Counter)
        units: dict[str, Counter[str]] = defaultdict(Counter)
        for job_id, live in self._live.items():
            if live.waits:
                queue, cause = live.job.queue, self._cause(job_id)
                since[queue] = min(since.get(queue, self.now), live.job.submitted_at)
                causes[queue][cause] += 1
                units[queue][cause] += live.units
        return {
            queue: Waiting(causes[queue].total(), self.now - since[queue], causes[queue], units[queue])
            for queue in sorted(since)
        }

    def held_unit_seconds(self) -> Mapping[tuple[str, str, int], float]:
        """(tenant, model, units of a whole device) -> unit-seconds held until now; what a cost is computed from."""
        for live in self._live.values():
            self._settle(live, self.now)
        return self.unit_seconds

    # Internal

    def _declare(self, tenants: Iterable[Tenant]) -> None:
        for tenant in tenants:
            self._parents[tenant.name] = tenant.parent
            key = (tenant.name, tenant.pool)
            account = self._accounts.get(key)
            if account is None:
                account = self._accounts[key] = Account(whole=self._wholes.get(tenant.pool, 1), at=self.now)
            account.guaranteed, account.limit = tenant.guaranteed, tenant.limit
        self._paths: dict[tuple[str, str], tuple[Account, ...]] = {}

    def _recount(self) -> None:
        """Recomputes held and requested amounts after the tree has changed."""
        for account in self._accounts.values():
            account.held = account.asked = 0
        for live in self._live.values():
            for (_, _, pool), units in live.held.items():
                for account in self._path(live.job.tenant, pool):
                    account.held += units
            if live.waits:
                for account in self._path(live.job.tenant, live.job.request.pool):
                    account.asked += live.units

    def _cause(self, job_id: str) -> str:
        reasons = self._why.get(job_id)
        return reasons[0].code if reasons else UNEXPLAINED

    def _wait(self, live: _Live, waits: bool, now: float) -> None:
        if waits == live.waits:
            return
        live.waits = waits
        sign = 1 if waits else -1
        self._waiting += sign
        for account in self._path(live.job.tenant, live.job.request.pool):
            account.advance(now)
            account.asked += sign * live.units

    def _hold(self, live: _Live, grants: Sequence[Grant], now: float) -> None:
        self._settle(live, now)
        self._change(live, -1, now)
        held: dict[tuple[str, int, str], int] = {}
        for grant in grants:
            node = self.nodes[grant.node]
            for index, units in zip(grant.devices, grant.units, strict=True):
                device = node.devices[index]
                kind = (device.model, device.units, node.pool)
                held[kind] = held.get(kind, 0) + units
        live.held = held
        self._change(live, 1, now)

    def _change(self, live: _Live, sign: int, now: float) -> None:
        for (_, whole, pool), units in live.held.items():
            self._held_gpus += sign * units / whole
            for account in self._path(live.job.tenant, pool):
                account.advance(now)
                account.held += sign * units

    def _settle(self, live: _Live, now: float) -> None:
        if now > live.since:
            for (model, whole, _), units in live.held.items():
                self.unit_seconds[live.job.tenant, model, whole] += units * (now - live.since)
        live.since = now

    def _path(self, tenant: str, pool: str) -> tuple[Account, ...]:
        """Accounts of the tenant and its ancestors, in the trees that count the pool."""
        path = self._paths.get((tenant, pool))
        if path is None:
            if tenant not in self._parents:
                self._parents[tenant] = ""
                self._accounts[tenant, ""] = Account(whole=self._wholes.get("", 1), at=self.now)
            found, name = [], tenant
            while name:
                found += [self._accounts[key] for key in {(name, ""), (name, pool)} if key in self._accounts]
                name = self._parents.get(name, "")
            path = self._paths[tenant, pool] = tuple(found)
        return path
