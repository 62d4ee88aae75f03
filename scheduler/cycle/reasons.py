"""Why a job waits: codes (docs/scheduler.md) and text with quota arithmetic, node counts and blockers.

All reasons that hold are given, the decisive one first. What all jobs of a class share is computed once per cycle.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from functools import cached_property
from itertools import chain, islice
from statistics import quantiles

import numpy as np

from scheduler.cycle.accounts import Accounts
from scheduler.cycle.expectations import CONFIDENCE
from scheduler.cycle.promises import Promise
from scheduler.cycle.state import Blocked, JobClass, State
from scheduler.cycle.trial import Trial
from scheduler.model import Job, NodeState, Reason, Request
from scheduler.placement.headroom import USABLE
from scheduler.placement.reasons import NEVER_FITS, NO_DOMAIN, NO_ROOM, nearest_that_fits, why_not
from scheduler.placement.shapes import NEVER
from scheduler.quota.tree import QuotaTree
from warehouse.instants import rfc3339
from warehouse.printable import counted

UNKNOWN_QUEUE, PARENT_QUEUE, POOL_NOT_NAMED = "UnknownQueue", "ParentQueue", "PoolNotNamed"
EXCEEDS_QUOTA, WAITING_FOR_QUOTA = "ExceedsMaxQuota", "WaitingForQuota"
GUARANTEES_FIRST = "NotPreemptibleBeyondGuarantee"
KEPT, COMPLETING = "KeptForOthers", "Completing"
PRIORITY, DEPENDENCY, DEPENDENCY_FAILED = "Priority", "Dependency", "DependencyFailed"
PROTECTED, BOUND, EXPECTED, NEAREST = "VictimsProtected", "WaitBoundExceeded", "ExpectedStart", "NearestFit"
NAMES_NOBODY = frozenset({NEVER_FITS, NO_ROOM, NO_DOMAIN, EXCEEDS_QUOTA, WAITING_FOR_QUOTA, GUARANTEES_FIRST})
"""Codes whose texts name only the job's own request, tenant and queues, and numbers: its tenant may read them."""
MOST_BLOCKERS = 8


class Waiting(Mapping[str, tuple[Reason, ...]]):
    """Reasons by job, computed lazily from the results of its class.   blocked: by the class's id()."""

    def __init__(
        self,
        blocked: Mapping[int, Blocked],
        single: Mapping[str, tuple[Reason, ...]],
        promises: Mapping[str, Reason],
        now: float,
        pending: Mapping[str, tuple[Job, JobClass]],
        bound: Callable[[JobClass], float | None],
    ) -> None:
        self._blocked, self._single, self._promises, self._now = blocked, dict(single), promises, now
        self._pending, self._bound = pending, bound

    def _found(self, job_id: str) -> tuple[Blocked, int]:
        """The result of a job's class, and the job's place in it; for most jobs, which still wait, by their class."""
        if "_place" not in self.__dict__ and job_id in self._pending:
            job, kind = self._pending[job_id]
            of = self._blocked.get(id(kind))
            if of is not None:
                at = bisect_left(of.jobs, (job.submitted_at, job_id))
                if at < len(of.jobs) and of.jobs[at][1] == job_id:
                    return of, at
        return self._place[job_id]

    @cached_property
    def _place(self) -> dict[str, tuple[Blocked, int]]:
        return {job_id: (of, at) for of in self._blocked.values() for at, (_, job_id) in enumerate(of.jobs)}

    def __len__(self) -> int:
        return len(self._place) + len(self._single)

    def __iter__(self) -> Iterator[str]:
        yield from self._place
        yield from self._single

    def __getitem__(self, job_id: str) -> tuple[Reason, ...]:
        if job_id in self._single:
            return self._single[job_id]
        of, at = self._found(job_id)
        found = list(of.reasons)
        if at:
            first = of.jobs[0][1]
            found.append(Reason(PRIORITY, f"{at} alike wait longer, {first} the longest", {"jobs": at}, (first,)))
        waited = self._now - of.jobs[at][0]
        bound = self._bound(of.kind)
        if bound is not None and waited > bound:
            text = f"waits {waited:.0f} s, its bound is {bound:.0f} s"
            found.append(Reason(BOUND, text, {"seconds_over": int(waited - bound)}))
        if job_id in self._promises:
            found.append(self._promises[job_id])
        return tuple(found)


class LiveWaiting(Mapping[str, tuple[Reason, ...]]):
    """The decisive reason code of each pending job, read from the state on access: for runs without explanations."""

    def __init__(self, state: State) -> None:
        self._state = state

    def __len__(self) -> int:
        return len(self._state.pending) + len(self._state.dependent)

    def __iter__(self) -> Iterator[str]:
        yield from self._state.pending
        yield from self._state.dependent

    def __getitem__(self, job_id: str) -> tuple[Reason, ...]:
        if job_id in self._state.pending:
            return (Reason(self._state.pending[job_id][1].verdict or PRIORITY),)
        return dependency(self._state, job_id)


def dependency(state: State, job_id: str) -> tuple[Reason, ...]:
    """Why a job waits for other jobs to finish."""
    unmet = sorted(state.dependent[job_id][1])
    failed = tuple(other for other in unmet if other in state.failures)
    if failed:
        text = f"{', '.join(failed)} did not finish; cancel it, or submit it without the dependency"
        return (Reason(DEPENDENCY_FAILED, text, {"jobs": len(failed)}, failed),)
    return (Reason(DEPENDENCY, f"waits for {', '.join(unmet)} to finish", {"jobs": len(unmet)}, tuple(unmet)),)


def quota(state: State, kind: JobClass) -> Reason:
    """Which quota or limit blocks a class, with its arithmetic."""
    accounts, account = state.accounts, kind.account
    trees = accounts.trees(account)
    ever, wanted = accounts.allowed_ever(account), asked(accounts, kind)
    if wanted > ever:
        tree, name = min(trees, key=lambda pair: pair[0].allowed_ever(pair[1]))
    else:
        limited = wanted > accounts.allowed(account)  # else what others hold is in the way, not a limit
        tree, name = min(trees, key=lambda one: (one[0].allowed if limited else one[0].available)(one[1]))
    branch, available = tree[name], tree.available(name)
    level, path = _kind_of(state, tree), tree.path_name(name)
    own = f"guaranteed {branch.subtree}"
    if used_up := tree.used_up(name):
        own += f", of it {used_up} used up on nodes that are not ready or in maintenance"
    own += f", holds {branch.held}"
    if branch.limit is not None:
        own += f" of at most {branch.limit}"
    borrowed = max(0, branch.usage - branch.subtree)
    limiting, above = tree.binding(name), ""
    if limiting is not None and limiting is not branch:
        above = f"; {tree.path_name(limiting.name)} holds {limiting.held} of at most {limiting.limit}"
    counts = {
        "asked": kind.amount,
        "available": available,
        "guaranteed": branch.subtree,
        "held": branch.held,
        "borrowed": borrowed,
    }
    asks = _asks(kind)
    if wanted > ever:
        text = f"{asks}, {level} {path} could never hold more than {max(0, ever)} ({own}{above})"
        return Reason(EXCEEDS_QUOTA, text, counts | {"potential": ever})
    firm = (*accounts.firm.values(), *accounts.ordinary.values())
    code = GUARANTEES_FIRST if any(tree is one for one in firm) else WAITING_FOR_QUOTA
    own += f", of it {borrowed} borrowed{above}"
    text = f"{asks}, {level} {path} can take {available} ({own})"
    if code == GUARANTEES_FIRST:
        text += "; a job that cannot be preempted may take only its own guarantee and what nobody is guaranteed"
    return Reason(code, text, counts, _holders(state, kind))


def asked(accounts: Accounts, kind: JobClass) -> int:
    """Units that quotas must leave a class: as on the largest devices that suit, or, where its limits never allow those
    for the whole gang, on the smallest."""
    return kind.amount if kind.amount <= accounts.allowed_ever(kind.account) else kind.least


def _asks(kind: JobClass) -> str:
    sizes = f"{kind.least} to " if kind.least < kind.amount else ""
    return f"asks for {sizes}{counted(kind.amount, 'unit')}"


def _kind_of(state: State, tree: QuotaTree) -> str:
    return "queue" if tree is state.accounts.queues else "tenant"


def _holders(state: State, kind: JobClass) -> tuple[str, ...]:
    """The largest running jobs of the same tenant, then of its queue."""
    found = []
    for alike in state.running_by_class.values():
        one = next(iter(alike.values()))
        if one.kind.account.tenant == kind.account.tenant or one.kind.queue == kind.queue:
            near = one.kind.account.tenant == kind.account.tenant
            found += [(not near, -running.units, job_id) for job_id, running in alike.items()]
    return tuple(job_id for *_, job_id in sorted(found)[:MOST_BLOCKERS])


def no_room(trial: Trial, kind: JobClass) -> Reason:
    """Why a class does not fit on free capacity: what nodes and devices lack, and which jobs hold what it could use.
    Cached for equal requests, whoever makes them, where the same nodes are closed to them."""
    cluster, request = trial.cluster, kind.request
    closed = trial.closed_now(kind.account.tenant)
    alike = (cluster.shape(request), kind.replicas, kind.amount, request.required_topology, *sorted(closed.items()))
    return cluster.known(("no room", trial.state.version, *alike), lambda: _no_room(trial, kind, closed))


def _no_room(trial: Trial, kind: JobClass, closed: Mapping[int, NodeState]) -> Reason:
    cluster, code, text = trial.cluster, NO_ROOM, "does not fit together with what this cycle starts"
    counts: Mapping[str, int] = {}
    mark = cluster.mark()
    for node, state in closed.items():
        cluster.set_state(node, state)
    found = why_not(cluster, kind.request, kind.replicas)
    cluster.rollback(mark)
    if found is not None:
        code, text, counts = found.code, found.text, found.counts
    mark = cluster.mark()
    cluster.shut_nodes(frozenset())
    there, reserved = _could_hold(trial, kind)
    cluster.rollback(mark)
    asks = f"asks for {counted(kind.least, 'unit')}"
    if kind.least > int(cluster.capacity.sum()):
        code, text = (
            NEVER_FITS,
            f"{asks} of {int(cluster.capacity.sum())} that there are; {text}",
        )
    elif reserved and there >= kind.least > there - reserved:
        others = f"{there - reserved} that ordinary jobs may hold, beside {reserved} reserved"
        code, text = NEVER_FITS, f"{asks} of {others}; {text}"
    elif code == NO_ROOM and (most := cluster.shape(kind.request).most_ever(kind.replicas)) < kind.replicas:
        code, text = NEVER_FITS, f"with everything free no more than {most} of {kind.replicas} replicas fit; {text}"
    return Reason(code, text, counts, _occupants(trial, kind))


def _could_hold(trial: Trial, kind: JobClass) -> tuple[int, int]:
    """Units of the devices that the class could use, and the reserved ones among them."""
    cluster, shape = trial.cluster, trial.cluster.shape(kind.request)
    usable = np.array([state in USABLE for state in cluster.states], dtype=np.bool_)
    its = (shape.need != NEVER) & (shape.suits & usable)[:, None]
    there, headroom = int(cluster.capacity[its].sum()), cluster.headroom
    if headroom is None:
        return there, 0
    costly = np.flatnonzero(shape.costs[shape.suits].any(axis=0)).tolist()
    return there, sum(headroom.reserved(number) for number in costly)


def promised_to_others(trial: Trial, kind: JobClass, until: float) -> Reason:
    """The class would fit, but for promises to other jobs, or windows that begin before it ends."""
    jobs = tuple(promise.job_id for promise in trial.promises if promise.start < until)[:MOST_BLOCKERS]
    windows = [window.name for window in trial.windows_for(kind.account.tenant, until)]
    text = f"would fit, but it is kept for {', '.join([*jobs, *windows])}"
    return Reason(KEPT, text, {"jobs": len(jobs), "windows": len(windows)}, jobs)


def limits_promised(trial: Trial, kind: JobClass, until: float) -> Reason:
    """The class would fit, but would use quota that promised jobs need."""
    jobs = tuple(promise.job_id for promise in trial.promises if promise.start < until)[:MOST_BLOCKERS]
    text = f"would fit, but what quotas leave is kept for {', '.join(jobs)}"
    return Reason(KEPT, text, {"jobs": len(jobs)}, jobs)


def _occupants(trial: Trial, kind: JobClass) -> tuple[str, ...]:
    """Running jobs on suitable nodes: those that end first, then the largest ones without a time limit."""
    suits, state = trial.cluster.shape(kind.request).suits.tolist(), trial.state
    in_order = (job_id for _, job_id in chain(state.ends, state.endless))
    on_them = (name for name in in_order if any(suits[grant.node] for grant in state.running[name].grants))
    return tuple(islice(on_them, MOST_BLOCKERS))


def nearest(trial: Trial, kind: JobClass, until: float) -> Reason | None:
    """The largest request of this kind that would start now: fewer replicas, or fewer devices for each."""
    low, high = 0, kind.replicas - 1
    if kind.least:
        high = max(0, min(high, trial.accounts.room(kind.account) * kind.replicas // kind.least))
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if _would_fit(trial, kind, kind.request, middle, until) else (low, middle - 1)
    if low:
        return Reason(NEAREST, f"{low} of {kind.replicas} replicas would start now", {"replicas": low})
    for request, difference in nearest_that_fits(trial.cluster, kind.request):
        if _would_fit(trial, kind, request, kind.replicas, until):
            return Reason(NEAREST, f"would start now with {difference}", {"replicas": kind.replicas})
    return None


def _would_fit(trial: Trial, kind: JobClass, request: Request, replicas: int, until: float) -> bool:
    room = trial.accounts.room(kind.account)
    if trial.state.least(request, replicas) > room:
        return False
    mark = trial.cluster.mark()
    grants = trial.place_within(request, replicas, kind.account.tenant, until, room)
    trial.cluster.rollback(mark)
    return grants is not None


def expected(state: State, promise: Promise, blockers: tuple[str, ...], now: float) -> Reason:
    """When a promised job starts, and how accurate such times were so far."""
    text = f"expected to start by {_instant(promise.start)}, if running jobs end at their limits"
    if blockers:
        text += f", the last of them {blockers[0]}"
    interval = state.expectations.interval(state.pending[promise.job_id][0], promise.start, now)
    if interval is not None:
        text += (
            f"; with {CONFIDENCE:.0%} confidence between {_instant(interval.low)} and {_instant(interval.high)},"
            f" judging by {interval.known} earlier estimates"
        )
    elif len(errors := state.expectations.errors) > 1:
        tenths = quantiles(errors, n=10)
        text += f"; of {len(errors)} such times half were off by less than {abs(tenths[4]):.0f} s, " + (
            f"one in ten was late by more than {max(0.0, tenths[8]):.0f} s"
        )
    return Reason(EXPECTED, text, {"seconds": max(0, int(promise.start - now))}, blockers)


def _instant(seconds: float) -> str:
    return rfc3339(datetime.fromtimestamp(seconds, UTC), "seconds")


def why_short(state: State, job_id: str) -> Reason | None:
    """Why a running job has not grown to its smallest gang; None if it has that."""
    running = state.running[job_id]
    job, account, many = running.job, running.kind.account, len(running.grants)
    if many >= job.min_replicas:
        return None
    if job_id in state.completing:
        why = "a rank has finished, and a larger job would run it again"
        return Reason(COMPLETING, f"has {many} of at least {job.min_replicas} replicas: {why}")
    most, one = state.cluster.shape(job.request).most_ever(job.min_replicas), state.least(job.request, 1)
    ever, left = state.accounts.allowed_ever(account), max(0, state.accounts.allowed(account))
    if state.least(job.request, job.min_replicas) > ever:
        code, why = EXCEEDS_QUOTA, f"limits allow {ever} device units in all"
    elif most < job.min_replicas:
        code, why = NEVER_FITS, f"no more than {most} fit on empty nodes"
    elif one > left:
        code, why = WAITING_FOR_QUOTA, f"one more takes {one} device units, and limits leave {left}"
    else:
        code, why = (
            NO_ROOM,
            "nothing is free for one more that is neither guaranteed to others nor needed by waiting jobs",
        )
    return Reason(code, f"has {many} of at least {job.min_replicas} replicas: {why}")
