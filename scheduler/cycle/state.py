"""The state that decisions are made from: nodes, running jobs, pending jobs in order, quotas, promises.

Its methods apply changes; `plan` (scheduler.cycle.plan) changes nothing visible. Finished jobs are not stored, so
memory grows only with the jobs that wait or run.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields, replace
from operator import attrgetter
from typing import NamedTuple, TypeVar

from scheduler.cycle.accounts import NO_SURPLUS, NOTHING, Account, Accounts, Amount, Surplus
from scheduler.cycle.expectations import Expectations
from scheduler.cycle.policies import Policies, Reservation, Reserve
from scheduler.cycle.promises import NOTHING_ESTIMATED, NOTHING_PROMISED, Estimated, Promise, Promised
from scheduler.cycle.queues import Queues
from scheduler.model import (
    EntitlementClass,
    Grant,
    Job,
    NodeState,
    Preempt,
    Privileged,
    Queue,
    Reason,
    Request,
    Resize,
    Start,
    Tenant,
)
from scheduler.placement.cluster import Cluster
from scheduler.placement.engine import Policy
from scheduler.placement.packing import BestFit
from scheduler.placement.shapes import shape_key
from scheduler.quota.usage import DecayedUsage

_Rank = TypeVar("_Rank", int, float)

MOST_FAILURES_REMEMBERED = 10_000
FOREVER = float("inf")


class Blocked(NamedTuple):
    """Jobs of one class that did not start: (submitted_at, job_id) in order, and why."""

    jobs: Sequence[tuple[float, str]]
    reasons: tuple[Reason, ...]
    kind: JobClass


@dataclass(slots=True)
class JobClass:
    """Pending jobs that decisions treat alike.   request: without devices too large for its limits.   amount, least:
    device units of the smallest gang, on the largest devices that suit, and on the smallest.   jobs: (submitted_at,
    job_id), in order.

    tested_at, tested_after: `State.freed` and `State.starts` when its first job was last found unable to start; until
    `retry_at` only freed capacity changes that, or, after starts, new victims.   unpromised_at: `State.freed` when no
    known end of a job would make room for it, nor for a time limit longer than `unpromised`.   search_again_at: no
    search for victims before then.   verdict: the reason code.   shortest: the least time limit tried without success
    while only promises blocked it; shorter jobs are tried.   why, explained_at: all reasons, and as of when.   vain_at:
    as unpromised_at, for estimates.   standing: one number per account and priority: classes of one standing can
    preempt the same jobs.
    """

    key: Hashable
    queue: str
    request: Request
    account: Account
    priority: int
    replicas: int
    amount: int
    least: int
    bound: float | None
    standing: int
    jobs: list[tuple[float, str]] = field(default_factory=list)
    tested_at: int = -1
    retry_at: float = FOREVER
    unpromised_at: int = -1
    unpromised: float = FOREVER
    search_again_at: float = -FOREVER
    verdict: str = ""
    tested_after: int = 0
    shortest: float = -FOREVER
    why: tuple[Reason, ...] = ()
    explained_at: float = -FOREVER
    vain_at: int = -1
    _blocked: Blocked | None = None

    def add(self, job: Job) -> None:
        insort(self.jobs, (job.submitted_at, job.job_id))
        self._blocked = None

    def remove(self, job: Job) -> None:
        del self.jobs[bisect_left(self.jobs, (job.submitted_at, job.job_id))]
        self._blocked = None

    def explained(self, why: tuple[Reason, ...]) -> Blocked:
        """A snapshot of the class's jobs with these reasons, to be read later; the same object until either changes."""
        if self._blocked is None or self._blocked.reasons is not why:
            self._blocked = Blocked(tuple(self.jobs), why, self)
        return self._blocked


FOUND = tuple(one.name for one in fields(JobClass) if one.default is not MISSING)
"""Attributes of a class that a cycle sets."""
_found = attrgetter(*FOUND)


@dataclass(slots=True)
class Running:
    """A running job.   started_at: when its start was decided.   began_at: since when it runs; started_at until known.
    units: charged.   gpus: held, shares as fractions.   price: of an hour of these, in the site's prices.
    shrunk_at: when it last lost replicas.   preemptions: how often it was preempted before."""

    job: Job
    kind: JobClass
    grants: tuple[Grant, ...]
    started_at: float
    entitlement: EntitlementClass
    units: int
    gpus: float
    price: float
    shrunk_at: float = -FOREVER
    preemptions: int = 0
    began_at: float = -FOREVER

    @property
    def surplus(self) -> Surplus:
        """What the job holds beyond its smallest gang."""
        beyond = self.grants[self.job.min_replicas :]
        return Surplus(units_of(beyond), len(beyond)) if beyond else NO_SURPLUS

    @property
    def ends_by(self) -> float:
        """The latest end; infinite without a time limit. Assumes an immediate launch: if that takes longer, the job
        that was promised the place waits that much longer, and no other job takes it."""
        return FOREVER if self.job.time_limit is None else self.started_at + self.job.time_limit

    def unsaved_seconds(self, now: float) -> float:
        """Seconds since the job began or last saved a checkpoint."""
        ran, every = max(0.0, now - self.began_at), self.job.checkpoint_seconds
        return ran % every if every else ran


class State:
    """The state of one scheduler.

    tenants, queues: see scheduler.model.   placement: chooses nodes and devices.   explain: whether plans have all
    reasons of waiting jobs; otherwise only the first, and cycles are cheaper.   on_node: running jobs, by node.
    Errors: ValueError for an invalid tree of tenants; PlacementError for invalid nodes.
    """

    def __init__(
        self,
        cluster: Cluster,
        tenants: Iterable[Tenant] = (),
        queues: Iterable[Queue] = (),
        policies: Policies | None = None,
        reservations: Sequence[Reservation] = (),
        placement: Policy | None = None,
        explain: bool = True,
        now: float = 0.0,
    ) -> None:
        self.cluster, self.policies, self.explain = cluster, policies or Policies(), explain
        self.placement: Policy = placement or BestFit()
        self.reservations = tuple(reservations)
        cluster.shut_nodes(self.shut(now))
        self.given_back: dict[tuple[str, float], float] = {}
        self.left_at: dict[tuple[int, str], float] = {}
        self.kept_small: set[str] = set()  # elastic jobs that do not grow, until they are used again
        self.completing: set[str] = set()  # jobs of which a rank has finished; larger, they would run it again
        self.unheard: set[str] = set()  # elastic jobs of which nobody knows yet whether a rank has finished
        self.queues = Queues(queues, self.policies.between_queues)
        self.declared = tuple(tenants)
        self._reserves = {reserve.pool: reserve for reserve in self.policies.reserves}
        rules = {pool: reserve.rule for pool, reserve in self._reserves.items()}
        if rules or cluster.headroom is not None:
            cluster.keep_free(rules)
        self.accounts = Accounts(self.declared, self.queues.values(), *self.capacity())
        self.pools_with_quota = frozenset(tenant.pool for tenant in self.declared) - {""}
        self.usage = {
            queue.name: DecayedUsage(queue.half_life, now, self.policies.entry_penalty_seconds)
            for queue in self.queues.values()
            if queue.half_life
        }
        self.running: dict[str, Running] = {}
        self.running_by_class: dict[Hashable, dict[str, Running]] = {}
        self.priorities: dict[str, Counter[int]] = defaultdict(Counter)
        self.on_node: dict[int, set[str]] = defaultdict(set)
        self.elastic: dict[str, Running] = {}
        self.ends: list[tuple[float, str]] = []
        self.endless: list[tuple[int, str]] = []
        self.promised: Promised = NOTHING_PROMISED
        self.estimated: Estimated = NOTHING_ESTIMATED
        self.planned = -1
        self.pending: dict[str, tuple[Job, JobClass]] = {}
        self.dependent: dict[str, tuple[Job, set[str]]] = {}
        self.lines: dict[str, dict[Hashable, JobClass]] = {}
        self.aside: set[str] = set()  # suspended or held: may wait again
        self.leaving: dict[str, tuple[Grant, ...]] = {}
        self.failures: dict[str, None] = {}
        self.preempted: dict[str, int] = {}
        self.expectations = Expectations()
        self.version = 0
        self.freed = 0
        self.starts = 0
        self._edges = 0
        self._classes: dict[Hashable, JobClass] = {}
        self._standings: dict[tuple[Account, int], int] = {}
        self._dependents: dict[str, list[str]] = {}
        self._wholes = self._units_of_a_whole()
        self._lost = {number for number in range(len(cluster.nodes)) if not cluster.is_there(number)}
        self.bounded = any(queue.wait_bound is not None for queue in self.queues.values())
        self.hosts = (int(cluster.cpu.sum()), int(cluster.host_memory.sum()))

    # Changes

    def submit(self, job: Job, now: float) -> None:
        """A job waits from now on, in order of `submitted_at`. Dependencies on jobs that are no longer known count as
        met, unless they are recorded as failed."""
        self.version += 1
        self.aside.discard(job.job_id)
        self.gone(job.job_id)
        self.failures.pop(job.job_id, None)
        unmet = {other for other in job.after if other in self.failures or self._knows(other)}
        if unmet:
            self.dependent[job.job_id] = (job, unmet)
            for other in unmet:
                self._dependents.setdefault(other, []).append(job.job_id)
        else:
            self._enqueue(job)

    def withdraw(self, job_id: str, now: float) -> None:
        """Sets a pending job aside until it is submitted again or dropped."""
        self.version += 1
        if job_id in self.dependent:
            _, unmet = self.dependent.pop(job_id)
            for other in unmet:
                self._dependents[other].remove(job_id)
        else:
            self._dequeue(job_id)
            self.freed += 1
        self.aside.add(job_id)
        self.expectations.forget(job_id, now)

    def drop(self, job_id: str) -> None:
        """Forgets a job that was set aside."""
        self.version += 1
        self.aside.discard(job_id)
        self._fail(job_id)

    def apply(self, action: Start | Preempt | Resize, now: float) -> None:
        """Carries out a decision; one that was made from another state may be refused.

        Errors: PlacementError if grants are not free; KeyError for a job that is not pending, or running, as assumed.
        """
        self.version += 1
        if isinstance(action, Start):
            job, _ = self.pending[action.job_id]
            self.start(job, action.grants, action.entitlement, now)
        elif isinstance(action, Preempt):
            running = self.running[action.job_id]
            if action.replicas >= len(running.grants):
                self.preempted[action.job_id] = running.preemptions + 1
                self.aside.add(action.job_id)
                self.leaving[action.job_id] = running.grants
                self._release(action.job_id, now)
            else:
                self._set_grants(running, running.grants[: -action.replicas], now)
        else:
            self._set_grants(self.running[action.job_id], action.grants, now)

    def start(self, job: Job, grants: tuple[Grant, ...], entitlement: EntitlementClass, now: float) -> None:
        """Starts a job, from the queue or, after a restart, from the records."""
        job = self._privileged(job)
        kind = self._dequeue(job.job_id) if job.job_id in self.pending else self._class(job)
        for grant in grants:
            self.cluster.take(grant, job.request)
        running = Running(job, kind, grants, now, entitlement, units_of(grants), *self._worth(grants))
        self._charge(kind, NOTHING, self._held(running), now)
        running.preemptions, running.began_at = self.preempted.pop(job.job_id, 0), now
        self.running[job.job_id] = running
        self.running_by_class.setdefault(kind.key, {})[job.job_id] = running
        self.priorities[job.queue][job.priority] += 1
        if job.max_replicas > job.min_replicas:
            self.elastic[job.job_id] = running
        self.starts += 1
        self._index_end(running)
        self._index_nodes(running)
        self.expectations.started(job, now)

    def launched(self, job_id: str, at: float) -> None:
        """A started job has run since `at`."""
        self.running[job_id].began_at = at

    def keep_small(self, job_id: str, keeps: bool) -> None:
        """Whether a running elastic job stays at the size that it has."""
        self.version += 1
        (self.kept_small.add if keeps else self.kept_small.discard)(job_id)

    def completes(self, job_id: str) -> None:
        """A running job does not grow any more, unless it loses replicas first."""
        self.version += 1
        self.completing.add(job_id)

    def hears(self, job_id: str, heard: bool) -> None:
        """Whether a running job is heard of; until it is, it does not grow."""
        self.version += 1
        (self.unheard.discard if heard else self.unheard.add)(job_id)

    def rescale(self, job_id: str, least: int, most: int, now: float) -> None:
        """A running job is to have at least and at most so many replicas; what it holds stays."""
        self.version += 1
        running = self.running[job_id]
        held = self._held(running)
        del self.running_by_class[running.kind.key][job_id]
        if not self.running_by_class[running.kind.key]:
            del self.running_by_class[running.kind.key]
        running.job = replace(running.job, min_replicas=least, max_replicas=most)
        known = len(self._classes)
        running.kind = self._class(running.job)
        if len(self._classes) > known:
            del self._classes[running.kind.key]  # nothing of it waits
        self._charge(running.kind, held, self._held(running), now)
        self.running_by_class.setdefault(running.kind.key, {})[job_id] = running
        if most > min(least, len(running.grants)):
            self.elastic[job_id] = running
        else:
            self.elastic.pop(job_id, None)
        self.freed += 1

    def gone(self, job_id: str) -> None:
        """A preempted or stopped job has left its devices."""
        self.leaving.pop(job_id, None)

    def end(self, job_id: str, now: float, finished: bool, comes_back: bool = False, leaves: bool = False) -> None:
        """A running job ends and its grants are free. comes_back: it is set aside.   leaves: it occupies its devices
        until it is `gone`: jobs that start there wait for that, and no job grows there."""
        self.version += 1
        preemptions = self.running[job_id].preemptions
        if leaves:
            self.leaving[job_id] = self.running[job_id].grants
        self._release(job_id, now)
        self.preempted.pop(job_id, None)
        if comes_back:
            self.aside.add(job_id)
            if preemptions:
                self.preempted[job_id] = preemptions
            return
        if not finished:
            self._fail(job_id)
            return
        for name in self._dependents.pop(job_id, ()):
            job, unmet = self.dependent[name]
            unmet.discard(job_id)
            if not unmet:
                del self.dependent[name]
                self._enqueue(job)

    def set_node(self, node: int, state: NodeState, now: float) -> None:
        """Sets a node's state. Jobs on it stay until they end; quotas follow the remaining capacity, and what these
        jobs hold of the rest."""
        self.version += 1
        self.freed += 1
        self._change_nodes((node,), lambda: self.cluster.set_state(node, state))

    def reconfigure(
        self,
        tenants: Iterable[Tenant],
        queues: Iterable[Queue],
        policies: Policies,
        reservations: Sequence[Reservation],
        now: float,
    ) -> None:
        """Applies new settings. Running jobs continue, even beyond a lowered limit: a breach, not an error."""
        fresh = State(self.cluster, tenants, queues, policies, reservations, self.placement, self.explain, now)
        for name, usage in fresh.usage.items():
            if name in self.usage:
                usage.since = self.usage[name].since
                usage.restore(self.usage[name].snapshot(now), now)
        for running in self.running.values():
            running.job = fresh._privileged(running.job)
            running.kind = fresh._class(running.job)
            fresh._charge(running.kind, NOTHING, fresh._held(running), now, penalty=False)
        if self.policies.reserves or policies.reserves:
            self.promised = NOTHING_PROMISED  # what ordinary jobs may use has changed
        self.running_by_class = {}
        for name, running in self.running.items():
            self.running_by_class.setdefault(running.kind.key, {})[name] = running
        self.cluster.recount((grant, one.job.request) for one in self.running.values() for grant in one.grants)
        for job, _ in self.pending.values():
            fresh._enqueue(job)
        for name in (
            "policies",
            "reservations",
            "queues",
            "declared",
            "accounts",
            "pools_with_quota",
            "usage",
            "bounded",
            "_reserves",
            "_lost",
        ):
            setattr(self, name, getattr(fresh, name))
        self.pending, self.lines, self._classes = fresh.pending, fresh.lines, fresh._classes
        self._standings = fresh._standings
        self.reservations = tuple(
            replace(one, end=min(one.end, self.given_back.get((one.name, one.start), one.end)))
            for one in self.reservations
        )
        self._edges = -1  # those of other windows
        self.version += 1
        self.freed += 1

    def unused(self, now: float) -> list[Reservation]:
        """Reservations that were idle too long and are to be given back."""
        return [one for one in self.reservations if now >= self._idle_until(one) and one.start <= now < one.end]

    def next_unused(self) -> float:
        """When the next reservation is to be given back, unless its tenants start something there before."""
        return min((self._idle_until(one) for one in self.reservations), default=FOREVER)

    def give_back(self, name: str, start: float, now: float) -> None:
        """Ends a reservation early, even if the settings still have it."""
        self.given_back[name, start] = now
        self.reservations = tuple(
            replace(one, end=now) if (one.name, one.start) == (name, start) else one for one in self.reservations
        )
        self.version += 1
        self.freed += 1

    def _idle_until(self, one: Reservation) -> float:
        """When a reservation will have been idle too long; infinite while it is used, and after its end."""
        if one.idle_seconds is None or (one.name, one.start) in self.given_back:
            return FOREVER
        there = (self.running[job_id].job.tenant for node in one.nodes for job_id in self.on_node.get(node, ()))
        if any(tenant in one.tenants for tenant in there):
            return FOREVER
        left = (self.left_at.get((node, tenant), one.start) for node in one.nodes for tenant in one.tenants)
        until = max(one.start, *left) + one.idle_seconds
        return until if until < one.end else FOREVER

    def next_promise(self, after: float) -> float:
        """When the next promise is due; infinite if there is none."""
        return min((one.start for one in self.promised.promises if one.start > after), default=FOREVER)

    def expect(self, expected: Mapping[str, float], now: float) -> None:
        """Records when jobs are expected to start."""
        for job_id, at in expected.items():
            if job_id in self.pending:
                self.expectations.announce(self.pending[job_id][0], at, now)

    def begin_cycle(self, now: float) -> None:
        """Discards results about classes if reservations began or ended since, if decided starts did not happen, or if
        promises are due for renewal."""
        if self.planned == self.version:
            self.freed += 1
        self._pass_time(now)

    def _pass_time(self, now: float) -> None:
        passed = sum((window.start <= now) + (window.end <= now) for window in self.reservations)
        if passed != self._edges:
            self._edges = passed
            self.freed += 1
            shut = self.shut(now)
            if shut != self.cluster.shut:
                self._change_nodes(shut ^ self.cluster.shut, lambda: self.cluster.shut_nodes(shut))
        if self.promised.freed == self.freed and any(promise.start <= now for promise in self.promised.promises):
            self.freed += 1

    def undo(self) -> Callable[[], None]:
        """Returns a function that undoes the results of the next cycle, in case its record cannot be written: otherwise
        this state would know more than a state restored from the log."""
        classes = [(kind, _found(kind)) for kind in self.waiting_classes()]
        before = self.promised, self.estimated, self.planned, self.freed, self._edges
        mark = self.expectations.mark()

        def back() -> None:
            for kind, found in classes:
                for name, value in zip(FOUND, found, strict=True):
                    setattr(kind, name, value)
            self.promised, self.estimated, self.planned, self.freed, self._edges = before
            self.expectations.withdraw(mark)

        return back

    def forget_tries(self, now: float) -> None:
        """Discards results about classes, for a cycle that is planned once more."""
        self.look_at_all((), now)
        for kind in self.waiting_classes():
            kind.search_again_at = min(kind.search_again_at, now)

    def look_at_all(self, searched: Iterable[str], now: float) -> None:
        """Lets every class be tried once more.   searched: jobs for which a search was noted in this cycle."""
        for job_id in searched:
            self.pending[job_id][1].search_again_at = now
        for kind in self.waiting_classes():
            kind.tested_at, kind.unpromised_at, kind.explained_at = -1, -1, -FOREVER

    def note_search(self, job_id: str, now: float) -> None:
        """Notes that no victims were found for a pending job."""
        self.pending[job_id][1].search_again_at = now + self.policies.backfill_seconds

    def recall(
        self, promises: Sequence[Promise], anew: bool, planned_again: bool, searches: Sequence[str], now: float
    ) -> None:
        """Restores what a recorded cycle passed to later ones; called before its actions are applied.

        anew, planned_again, searches: as in `CyclePlan`.
        """
        self._pass_time(now)
        if planned_again:
            self.forget_tries(now)
        freed, at = (self.freed, now) if anew else (self.promised.freed, self.promised.at)
        self.promised = Promised(freed, at, tuple(promises))
        for job_id in searches:
            self.note_search(job_id, now)

    # Queries

    def amount(self, request: Request, replicas: int) -> int:
        """Device units of so many replicas, on the largest devices that suit."""
        return request.devices * replicas * self._sizes(request)[-1]

    def least(self, request: Request, replicas: int) -> int:
        """As `amount`, on the smallest devices that could hold them."""
        found = self.cluster.shape(request).least_units(replicas)
        return found or request.devices * replicas * self._sizes(request)[0]

    def within(self, request: Request, replicas: int, units: int) -> Request | None:
        """The request limited to devices of which so many replicas take no more than that: of the largest such size, or
        smaller. None if there are none."""
        most = [size for size in self._sizes(request) if request.devices * replicas * size <= units]
        return replace(request, most_units=most[-1]) if most else None

    def whole(self, pool: str) -> int:
        """Units of the pool's largest whole device."""
        return self._wholes.get(pool, 1)

    def shut(self, at: float) -> frozenset[int]:
        """Nodes that windows close to everybody at that instant."""
        closed = (one.nodes for one in self.reservations if not one.tenants and one.start <= at < one.end)
        return frozenset[int]().union(*closed)

    def capacity(self) -> tuple[Mapping[str, int], Mapping[str, int] | None]:
        """Units by pool of usable nodes, and of these what ordinary jobs may not hold."""
        return self._capacity(), self._reserved_units()

    def unusable(self, grants: Iterable[Grant]) -> int:
        """Units of these on nodes that are no part of the capacity now."""
        return sum(sum(grant.units) for grant in grants if grant.node in self._lost) if self._lost else 0

    def demand(self, pool: str) -> Mapping[str, int]:
        """Units that each tenant's pending jobs request, in the pool or ('') in all."""
        asked: dict[str, int] = {}
        for kind in self.waiting_classes():
            if pool in ("", kind.account.pool):
                asked[kind.account.tenant] = asked.get(kind.account.tenant, 0) + kind.amount * len(kind.jobs)
        return asked

    def waiting_classes(self) -> Iterable[JobClass]:
        for line in self.lines.values():
            yield from line.values()

    def lowest_priority(self, queue: str) -> float:
        """The lowest priority that runs in the queue; infinite if nothing runs."""
        return min(self.priorities.get(queue) or (FOREVER,))

    def effective_priority(self, kind: JobClass) -> int:
        """A job's priority plus its queue's, which compares jobs of different queues."""
        return kind.priority + self.queues.priority(kind.queue)

    def bound(self, kind: JobClass) -> float | None:
        """The wait bound of a class's jobs in seconds; None if there is none."""
        queue = self.queues.get(kind.queue)
        return kind.bound if kind.bound is not None else queue.wait_bound if queue else None

    # Internal

    def _knows(self, job_id: str) -> bool:
        return any(job_id in them for them in (self.running, self.pending, self.dependent, self.aside))

    def _fail(self, job_id: str) -> None:
        self.preempted.pop(job_id, None)
        self.failures[job_id] = None
        if len(self.failures) > MOST_FAILURES_REMEMBERED:
            del self.failures[next(iter(self.failures))]

    def _privileged(self, job: Job) -> Job:
        """The job with a `Privileged` request, if it may use pools' reserves."""
        if not self._reserves and type(job.request) is Request:
            return job
        pools = frozenset(pool for pool, reserve in self._reserves.items() if self._may_take(job, reserve))
        if pools == (job.request.kept_in if isinstance(job.request, Privileged) else frozenset()):
            return job
        asked = {each.name: getattr(job.request, each.name) for each in fields(Request)}
        return replace(job, request=Privileged(**asked, kept_in=pools) if pools else Request(**asked))

    def _may_take(self, job: Job, reserve: Reserve) -> bool:
        return (
            job.tenant in reserve.tenants
            or any(self.queues.within(job.queue, name) for name in reserve.queues)
            or (reserve.priority is not None and job.priority + self.queues.priority(job.queue) >= reserve.priority)
        )

    def _reserved_units(self) -> dict[str, int] | None:
        """Units by pool that ordinary jobs may not hold, '' = all pools; None if no pool reserves any."""
        headroom, found = self.cluster.headroom, {"": 0}
        if headroom is None:
            return None
        for number, kind in enumerate(headroom.kinds):
            for pool in {"", kind.pool}:
                found[pool] = found.get(pool, 0) + headroom.reserved(number)
        return found

    def _class(self, job: Job) -> JobClass:
        request = job.request
        key = (
            job.queue,
            job.tenant,
            job.priority,
            job.min_replicas,
            job.max_replicas,
            job.preemptible,
            job.wait_bound,
            request.required_topology,
            request.preferred_topology,
            shape_key(request),
        )
        kind = self._classes.get(key)
        if kind is None:
            account = Account(job.tenant, request.pool, job.queue, job.preemptible, not isinstance(request, Privileged))
            if self.amount(request, job.min_replicas) > (most := self.accounts.allowed_ever(account)):
                smaller = self.within(request, job.min_replicas, most)
                if smaller is not None and self.cluster.shape(smaller).most_ever(job.min_replicas) >= job.min_replicas:
                    request = smaller
            kind = self._classes[key] = JobClass(
                key,
                job.queue,
                request,
                account,
                job.priority,
                job.min_replicas,
                self.amount(request, job.min_replicas),
                self.least(request, job.min_replicas),
                job.wait_bound,
                self._standings.setdefault((account, job.priority), len(self._standings)),
            )
        return kind

    def _enqueue(self, job: Job) -> None:
        job = self._privileged(job)
        kind = self._class(job)
        self.pending[job.job_id] = (job, kind)
        self.bounded |= job.wait_bound is not None
        kind.add(job)
        if job.time_limit is not None and job.time_limit < kind.shortest:
            kind.tested_at = -1
        if len(kind.jobs) == 1:
            self.lines.setdefault(job.queue, {})[kind.key] = kind

    def _dequeue(self, job_id: str) -> JobClass:
        job, kind = self.pending.pop(job_id)
        kind.remove(job)
        if not kind.jobs:
            del self.lines[kind.queue][kind.key], self._classes[kind.key]
        return kind

    def _release(self, job_id: str, now: float) -> None:
        running = self.running.pop(job_id)
        self.elastic.pop(job_id, None)
        self.kept_small.discard(job_id)
        self.completing.discard(job_id)
        self.unheard.discard(job_id)
        alike = self.running_by_class[running.kind.key]
        del alike[job_id]
        there = self.priorities[running.job.queue]
        there[running.job.priority] -= 1
        if not there[running.job.priority]:
            del there[running.job.priority]
        if not alike:
            del self.running_by_class[running.kind.key]
        self._index_end(running, out=True)
        self._index_nodes(running, out=True)
        for grant in running.grants:
            self.cluster.give_back(grant, running.job.request)
            self.left_at[grant.node, running.job.tenant] = now
        self._charge(running.kind, self._held(running), NOTHING, now)
        self.freed += 1

    def _set_grants(self, running: Running, grants: tuple[Grant, ...], now: float) -> None:
        before, after = list(running.grants), list(grants)
        for grant in running.grants:
            if grant in after:
                after.remove(grant)
                before.remove(grant)
        for grant in before:
            self.cluster.give_back(grant, running.job.request)
            self.left_at[grant.node, running.job.tenant] = now
        for grant in after:
            self.cluster.take(grant, running.job.request)
        self._index_end(running, out=True)
        self._index_nodes(running, out=True)
        held = self._held(running)
        running.grants, running.units = grants, units_of(grants)
        self._charge(running.kind, held, self._held(running), now)
        self._index_end(running)
        self._index_nodes(running)
        running.gpus, running.price = self._worth(grants)
        if before:
            running.shrunk_at = now
            self.completing.discard(running.job.job_id)
            self.freed += 1
        self.starts += bool(after)

    def _index_end(self, running: Running, out: bool = False) -> None:
        """Adds a running job to (or removes it from) the orders: `ends` by latest end; `endless`, without a time limit,
        by size."""
        job_id = running.job.job_id
        if running.job.time_limit is not None:
            _insert_or_remove(self.ends, (running.ends_by, job_id), out)
        else:
            _insert_or_remove(self.endless, (-running.units, job_id), out)

    def _index_nodes(self, running: Running, out: bool = False) -> None:
        """Adds the job to `on_node` of its nodes, or removes it."""
        for grant in running.grants:
            there = self.on_node[grant.node]
            (there.discard if out else there.add)(running.job.job_id)

    def _change_nodes(self, nodes: Collection[int], change: Callable[[], None]) -> None:
        """Changes whether nodes are capacity; jobs there are charged for what they hold on such, and elsewhere."""
        names = {job_id for node in nodes for job_id in self.on_node.get(node, ())}
        there = [self.running[job_id] for job_id in names]
        for running in there:
            self.accounts.remove(running.kind.account, self._held(running))
        change()
        for node in nodes:
            (self._lost.discard if self.cluster.is_there(node) else self._lost.add)(node)
        for running in there:
            self.accounts.add(running.kind.account, self._held(running))
        self.accounts.set_capacity(*self.capacity())

    def _held(self, running: Running) -> Amount:
        """What a running job is charged for."""
        grants = running.grants
        return amount_of(running.job.request, running.units, len(grants), running.surplus, self.unusable(grants))

    def _charge(self, kind: JobClass, before: Amount, after: Amount, now: float, penalty: bool = True) -> None:
        """Charges a job of the class for what it holds from now on, in place of what it held before."""
        if before is not NOTHING:
            self.accounts.remove(kind.account, before)
        if after is not NOTHING:
            self.accounts.add(kind.account, after)
        usage = self.usage.get(kind.queue)
        if usage is not None:
            for branch in self.accounts.tenants[""].path(kind.account.tenant):
                usage.change(branch.name, after.units - before.units, now, penalty)

    def _worth(self, grants: Sequence[Grant]) -> tuple[float, float]:
        """(GPUs, their price per hour)."""
        gpus, price, prices = 0.0, 0.0, self.policies.prices
        for grant in grants:
            devices = self.cluster.nodes[grant.node].devices
            for index, units in zip(grant.devices, grant.units, strict=True):
                share = units / devices[index].units
                gpus += share
                price += share * prices.get(devices[index].model, 1.0)
        return gpus, price

    def _capacity(self) -> dict[str, int]:
        """Units by pool of usable nodes, reserved ones included."""
        units: dict[str, int] = {"": 0}
        for number, node in enumerate(self.cluster.nodes):
            if self.cluster.is_there(number):
                there = sum(device.units for device in node.devices)
                units[""] += there
                if node.pool:
                    units[node.pool] = units.get(node.pool, 0) + there
        return units

    def _units_of_a_whole(self) -> dict[str, int]:
        wholes: dict[str, int] = {}
        for node in self.cluster.nodes:
            for device in node.devices:
                for pool in {"", node.pool}:
                    wholes[pool] = max(wholes.get(pool, 1), device.units)
        return wholes

    def _sizes(self, request: Request) -> tuple[int, ...]:
        """Units of one device of the request, by the devices that suit; of one that would, where none does."""
        return self.cluster.shape(request).sizes or (request.units or self.whole(request.pool),)


def _insert_or_remove(line: list[tuple[_Rank, str]], entry: tuple[_Rank, str], out: bool) -> None:
    if out:
        del line[bisect_left(line, entry)]
    else:
        insort(line, entry)


def amount_of(request: Request, units: int, replicas: int, surplus: Surplus = NO_SURPLUS, unusable: int = 0) -> Amount:
    """Device units, with the CPUs and memory that so many replicas hold.   unusable: as in `Amount`."""
    cpu, memory = request.cpu_milli, request.host_memory_bytes
    beyond = surplus.replicas
    return Amount(units, replicas * cpu, replicas * memory, surplus.units, beyond * cpu, beyond * memory, unusable)


def units_of(grants: Sequence[Grant]) -> int:
    return sum(sum(grant.units) for grant in grants)
