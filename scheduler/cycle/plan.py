"""One scheduling cycle: `plan(state, now)`. Everything is tried on the cluster and the quota trees, then undone.

Heads are tried in order (scheduler.cycle.order). A head without room gets a promise, as long as the policy allows
more; later jobs may start if they delay no promise. So one promise is EASY backfill, any number conservative backfill,
and with none a queue stops at the first job that cannot start. A class whose head was blocked is not tried again in
the cycle, nor in later ones until capacity is freed or time has made a difference.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate

from scheduler.cycle import reasons
from scheduler.cycle.accounts import Amount
from scheduler.cycle.elastic import grow
from scheduler.cycle.order import Line, Lines
from scheduler.cycle.preempt import NoEviction, evict_for
from scheduler.cycle.promises import Estimated, Promise, Promised
from scheduler.cycle.reasons import LiveWaiting, Waiting
from scheduler.cycle.rights import (
    BY_PRIORITY,
    FAIR_SHARE,
    PRIORITY,
    PRIORITY_ACROSS,
    PRIORITY_IN_TENANT,
    QUEUE,
    QUEUE_FAIR_SHARE,
    RECLAIM,
    SURPLUS,
    Rights,
)
from scheduler.cycle.state import FOREVER, Blocked, JobClass, State, amount_of, units_of
from scheduler.cycle.trial import Trial
from scheduler.model import EntitlementClass, Grant, Job, Plan, Preempt, Reason, Resize, Start
from scheduler.placement.reasons import NO_ROOM
from scheduler.quota.tree import UNLIMITED

RIGHT_IN_WORDS = {
    PRIORITY: "a higher priority in the queue",
    PRIORITY_IN_TENANT: "a higher priority in another queue, of the same tenant",
    PRIORITY_ACROSS: "a higher priority in another queue",
    RECLAIM: "reclaims quota that its tenant had lent",
    QUEUE: "reclaims what its queue is guaranteed",
    FAIR_SHARE: "its tenant holds less than its fair share",
    QUEUE_FAIR_SHARE: "its queue holds less than its fair share",
    SURPLUS: "replicas beyond the smallest gang",
}
POLICIES = {
    RECLAIM: "policy reclaim, across tenants",
    QUEUE: "policy reclaim, across queues",
    FAIR_SHARE: "policy preempt_for_fairness, across tenants",
    QUEUE_FAIR_SHARE: "policy preempt_for_fairness, across queues",
    SURPLUS: "always, from every elastic job",
}
"""The setting that allows each right, with its scope."""
EXPLAINED_SECONDS = 60.0
"""Maximum age of a class's reasons: until then, changes since may be missing from reasons of a class not tried."""
WAITS_FOR_ROOM = (NO_ROOM, reasons.KEPT)
MOST_SHORTER = 100
"""Jobs of a blocked class that are searched for one short enough to end before a promise begins."""


@dataclass(frozen=True, slots=True)
class CyclePlan(Plan):
    """expected: when each job is promised to start, at the latest.   version: of the state that the plan is for.

    For later cycles, in addition to the state's promises: anew: whether promises were made from scratch.
    planned_again: whether the cycle was repeated to keep earlier promises.   searches: jobs for which no victims were
    found, so that the next search is delayed.   looked: whether any class was tried.
    """

    expected: Mapping[str, float] = field(default_factory=dict)
    version: int = 0
    anew: bool = False
    planned_again: bool = False
    searches: Sequence[str] = ()
    looked: bool = False


def plan(state: State, now: float) -> CyclePlan:
    """What to do now, and why the other jobs wait."""
    state.begin_cycle(now)
    if not state.pending and not state.elastic and not state.dependent:
        return CyclePlan(version=state.version)
    earlier: Sequence[Promise] = ()
    while True:
        state.placement.begin(now)
        with Trial(state, now) as trial:
            cycle = _Cycle(state, trial, now, earlier)
            try:
                cycle.run()
            except _GivesWayError:
                state.look_at_all(cycle.searched, now)
                continue
            earlier = cycle.broken()
            if not earlier:
                found = cycle.plan()
                break
        state.forget_tries(now)
    state.planned = state.version if found.actions else -1
    return found


class _GivesWayError(Exception):
    """A preemption would free room for classes that were skipped in this try, so the cycle is repeated with them."""


class _Cycle:
    """earlier: promises that are made first, again.   heads: who was tried, in order; tried: which classes.
    blocked: classes that cannot start, by id(), with their reasons.   searched: jobs for which no victims were found.
    powerless: by standing, amounts for which no running job could be preempted, after `powerless_after` starts.
    allowed: by standing, what quotas leave, after `allowed_at` changes of the trees."""

    def __init__(self, state: State, trial: Trial, now: float, earlier: Sequence[Promise]) -> None:
        self.state, self.trial, self.now, self.earlier = state, trial, now, earlier
        self.heads: list[str] = []
        self.actions: list[Start | Preempt | Resize] = []
        self.searched: list[str] = []
        self.promises: dict[str, Promise] = {}
        self.expectations: dict[str, Reason] = {}
        self.blocked: dict[int, Blocked] = {}
        self.told_now: list[JobClass] = []
        self.started = trial.started_ids
        self.searches = 0
        self.tried: set[int] = set()
        self.powerless: dict[int, list[Amount]] = {}
        self.powerless_after = 0
        self.most_promises = state.policies.promises
        self.allowed: dict[int, int] = {}
        self.allowed_at = 0

    def run(self) -> None:
        self.reused = reuse = not self.earlier and self._reuse_promises()
        if not reuse:
            self._promise_again()
        self._promise_overdue()
        complete = reuse and len(self.promises) >= self.most_promises > 0
        for line, kind, job_id in Lines(self.trial, self._wanted(complete)):
            job = self.state.pending[job_id][0]
            self.heads.append(job_id)
            if (self._is_due(job_id) or not self._skips(kind)) and self._start(kind, job):
                line.next()
                continue
            self._keep_for(kind, job)
            if id(kind) not in self.blocked:
                self._report_blocked(kind, self._why(kind, job))
                self._start_shorter(kind)
            more = len(self.promises) < self.most_promises and self._may_be_promised(kind, job)
            if kind.verdict in WAITS_FOR_ROOM and more:
                line.next()  # another job of the class may get a promise too, or start before one
                continue
            line.blocked()
            if self.most_promises == 0:
                self._behind(line, job_id)
        self._start_due()
        if self.state.explain:
            self._report_untried()

    def plan(self) -> CyclePlan:
        """The plan that the cycle made."""
        for job_id, grants in grow(self.trial).items():
            self.actions.append(Resize(job_id, grants, self._id(job_id, "resize")))
        self._remember_promises()
        return self._plan()

    def broken(self) -> Sequence[Promise]:
        """Earlier promises to make first in another try, because this one would break some: at first those, then all.

        A job submitted after a promise may still go before it if its place in the order is earlier: for a class that
        was not tried, earlier than the last promised job; for one whose first job waits for quota, than that job.
        """
        old, promises, known = self.state.promised, self.promises, {one.job_id for one in self.earlier}
        waiting = [] if self.reused else [one for one in old.promises if one.job_id in self.state.pending]
        if not waiting:
            return ()
        place = {job_id: number for number, job_id in reversed(list(enumerate(self.heads)))}
        newest = [*accumulate((self.state.pending[name][0].submitted_at for name in self.heads), max, initial=-FOREVER)]
        for one in waiting:
            kind = self.state.pending[one.job_id][1]
            if kind.verdict == reasons.WAITING_FOR_QUOTA and kind.jobs[0][1] in place:
                place.setdefault(one.job_id, place[kind.jobs[0][1]])
        served = newest[max((place[name] + 1 for name in promises if name in place), default=0)]
        late = [
            one
            for one in waiting
            if one.job_id not in self.started | known
            and (one.job_id not in promises or promises[one.job_id].start > max(one.start, self.now))
            and (newest[place[one.job_id]] if one.job_id in place else served) <= one.made_at
        ]
        return (waiting if self.earlier else late) if late else ()

    # Starting

    def _start(self, kind: JobClass, job: Job) -> bool:
        """Starts the job if possible, with or without preemption; otherwise notes the reason on its class."""
        self.tried.add(id(kind))
        verdict = self._misfit(kind)
        if verdict:
            self._note(kind, verdict)
            return False
        restore = self._withdraw_promise(job.job_id)
        if self._start_reserved(kind, job):
            return True
        room = self.state.accounts.room(kind.account)
        if kind.least <= room and self._start_here(kind, job):
            return True
        verdict = self._short_of(kind, job)
        if verdict != reasons.EXCEEDS_QUOTA and self._start_by_eviction(kind, job):
            return True
        restore()
        kind.verdict = verdict
        return False

    def _short_of(self, kind: JobClass, job: Job) -> str:
        """The code for a job that cannot start: quota or devices. If the quota trees lack only capacity that all share,
        the reason is devices, unless a lending limit holds something back."""
        accounts, account = self.state.accounts, kind.account
        room, asked = accounts.room(account), reasons.asked(accounts, kind)
        if asked > room:
            if asked > accounts.allowed_ever(account):
                return reasons.EXCEEDS_QUOTA
            if kind.least <= room and self.trial.kept_back:
                return reasons.KEPT  # small enough devices are there
            if asked > accounts.allowed(account):
                return reasons.WAITING_FOR_QUOTA
            mark = self.trial.cluster.mark()
            fits = self.trial.place(kind.request, kind.replicas, account.tenant, self.trial.until(job.time_limit))
            self.trial.cluster.rollback(mark)
            if fits is not None:
                return reasons.WAITING_FOR_QUOTA
        return reasons.KEPT if self.trial.kept_back else NO_ROOM

    def _start_here(self, kind: JobClass, job: Job) -> bool:
        """Starts the job on free capacity; if placement finds none, at the places promised to it for now. A job within
        its guarantee may ignore promises to jobs that would borrow."""
        account, until, own = kind.account, self.trial.until(job.time_limit), self.promises.get(job.job_id)
        entitled, room = self.state.accounts.covers(account, kind.amount), self.state.accounts.room(account)
        grants = self._place_now(kind, until, room, entitled)
        if grants is None and own is not None and own.start <= self.now and units_of(own.grants) <= room:
            if not self.trial.leaves_limits(kind, units_of(own.grants), until, entitled):
                return False
            grants = self.trial.place_at(own.grants, kind.request, account.tenant, until, entitled)
        if grants is None:
            return False
        self.trial.charge(kind, units_of(grants), len(grants))
        self._commit(kind, job, grants, self.state.accounts.entitlement(account))
        return True

    def _place_now(self, kind: JobClass, until: float, room: int, entitled: bool) -> tuple[Grant, ...] | None:
        """Takes free capacity, of no more units than that, and what leaves limits to promised jobs."""
        while self.trial.leaves_limits(kind, kind.least, until, entitled):
            grants = self.trial.place_within(kind.request, kind.replicas, kind.account.tenant, until, room, entitled)
            if grants is None or self.trial.leaves_limits(kind, units_of(grants), until, entitled):
                return grants
            self.trial.give_back(grants, kind.request)
            room = units_of(grants) - 1
        self.trial.kept_back = True
        return None

    def _start_reserved(self, kind: JobClass, job: Job) -> bool:
        if not self.state.reservations:
            return False
        until = self.trial.until(job.time_limit)
        grants = self.trial.place_reserved(job.request, kind.replicas, kind.account.tenant, until)
        if grants is None:
            return False
        if not self.trial.leaves_limits(kind, units_of(grants), until):
            self.trial.give_back(grants, kind.request)
            return False
        self.trial.charge(kind, units_of(grants), len(grants))
        self._commit(kind, job, grants, "reserved")
        return True

    def _start_by_eviction(self, kind: JobClass, job: Job) -> bool:
        self._note(kind, "")
        if self.searches >= self.state.policies.preemption_searches:
            kind.tested_at = -1  # it is tried in a later cycle
            return False
        if self.now < kind.search_again_at:
            kind.retry_at = kind.search_again_at
            return False
        if self._is_powerless(kind):
            return False
        found = evict_for(self.trial, kind, job)
        if isinstance(found, NoEviction):
            self.searches += found.searched
            kind.retry_at = found.retry_at
            if found.searched:
                self.state.note_search(job.job_id, self.now)
                self.searched.append(job.job_id)
            if not found.searched and not found.protected:
                self._note_powerless(kind, kind.amount, kind.replicas)
            return False
        if any(one.tested_at == self.state.freed and id(one) not in self.tried for one in self.state.waiting_classes()):
            raise _GivesWayError
        self.searches += 1
        kind.tested_at = -1
        for victim, replicas, right in found.victims:
            text = self._eviction_text(kind, job, victim, right)
            self.actions.append(Preempt(victim, replicas, job.job_id, right, text, self._id(victim, "preempt")))
        self._commit(kind, job, found.grants, self.state.accounts.entitlement(kind.account))
        return True

    def _commit(self, kind: JobClass, job: Job, grants: tuple[Grant, ...], entitlement: EntitlementClass) -> None:
        until = self.trial.until(job.time_limit)
        self.trial.settle(grants, kind.request, until)
        self.trial.started.append((until, grants, kind.request))
        self.trial.started_units.append((until, kind.account, units_of(grants)))
        self.started.add(job.job_id)
        self.actions.append(Start(job.job_id, grants, entitlement, self._id(job.job_id, "start")))

    def _misfit(self, kind: JobClass) -> str:
        """The code of a reason that waiting cannot cure; '' if there is none."""
        if self.state.queues and kind.queue not in self.state.queues:
            return reasons.UNKNOWN_QUEUE
        if self.state.queues.children(kind.queue):
            return reasons.PARENT_QUEUE
        if self.state.pools_with_quota and not kind.account.pool:
            return reasons.POOL_NOT_NAMED
        return ""

    def _skips(self, kind: JobClass) -> bool:
        """Whether nothing relevant has changed for a class since it was found blocked."""
        state = self.state
        if kind.tested_at != state.freed or self.now >= kind.retry_at:
            return False
        return kind.tested_after == state.starts or self._is_as_before(kind)

    def _is_as_before(self, kind: JobClass) -> bool:
        """Whether a class stays blocked although others have started since. It may not: promises may have moved,
        another shortage may be decisive now, and there may be new victims."""
        verdict = kind.verdict
        if verdict == reasons.KEPT:
            return False
        if self.allowed_at != self.trial.changes:
            self.allowed.clear()
            self.allowed_at = self.trial.changes
        allowed = self.allowed.get(kind.standing)
        if allowed is None:
            allowed = self.allowed[kind.standing] = self.state.accounts.allowed(kind.account)
        if (kind.amount > allowed) == (verdict == NO_ROOM):
            return False
        return self._is_powerless(kind) or not self._may_evict(kind)

    def _may_evict(self, kind: JobClass) -> bool:
        """Whether there may be a victim that earlier searches did not know of."""
        found = False
        for units, replicas in ((min(1, kind.amount), 0), (kind.amount, kind.replicas)):
            position = self.trial.charges
            self.trial.charge(kind, units, replicas)
            found = Rights(self.trial, kind).any()
            self.trial.undo_charges(position)
            if not found:  # most often with one unit already
                self._note_powerless(kind, units, replicas)
                break
        return found

    def _is_powerless(self, kind: JobClass) -> bool:
        """Whether a class of this standing that requested no more found nothing to preempt."""
        if self.powerless_after != len(self.trial.started):
            return False
        for units, cpu_milli, memory_bytes, *_ in self.powerless.get(kind.standing, ()):
            if (
                units <= kind.amount
                and (not cpu_milli or cpu_milli <= kind.replicas * kind.request.cpu_milli)
                and (not memory_bytes or memory_bytes <= kind.replicas * kind.request.host_memory_bytes)
            ):
                return True
        return False

    def _note_powerless(self, kind: JobClass, units: int, replicas: int) -> None:
        """Notes that an amount could preempt nobody; then a larger one cannot either, except by fairness without
        reclaim, which is for jobs beyond their guarantee, and for jobs without devices, whose rights differ."""
        policies = self.state.policies
        if units and (policies.reclaim or not policies.preempt_for_fairness):
            if self.powerless_after != len(self.trial.started):
                self.powerless.clear()
                self.powerless_after = len(self.trial.started)
            self.powerless.setdefault(kind.standing, []).append(amount_of(kind.request, units, replicas))

    def _is_explained(self, kind: JobClass) -> bool:
        """Whether the reasons that a class has for waiting are recent enough."""
        return self.now - kind.explained_at < EXPLAINED_SECONDS and bool(kind.why)

    def _wanted(self, complete: bool) -> set[int]:
        """Classes that take part in this cycle, by id(): those to be tried and, unless promises are complete, those
        that may get one. They determine who is next, so they must not depend on which reasons are shown. This is called
        for every class in every cycle, and must be fast."""
        state, now, freed, starts = self.state, self.now, self.state.freed, self.state.starts
        wanted = set()
        for kind in state.waiting_classes():
            if (
                (complete or (self.most_promises > 0 and kind.unpromised_at == freed))
                and kind.tested_at == freed
                and now < kind.retry_at
                and (kind.tested_after == starts or self._is_as_before(kind))
            ):
                limit = None if complete else state.pending[kind.jobs[0][1]][0].time_limit
                if limit is None or limit >= kind.unpromised:
                    continue
            wanted.add(id(kind))
        return wanted

    def _note(self, kind: JobClass, verdict: str) -> None:
        kind.tested_at, kind.retry_at, kind.verdict = self.state.freed, FOREVER, verdict
        kind.tested_after = self.state.starts

    # Promises

    def _keep_for(self, kind: JobClass, job: Job) -> None:
        """Makes a promise to a head without room, if the policy allows another."""
        if kind.verdict not in WAITS_FOR_ROOM:
            return
        if job.job_id in self.promises:
            self._promise_sooner(kind, job)
        elif len(self.promises) < self.most_promises:
            self._promise(kind, job)

    def _may_be_promised(self, kind: JobClass, job: Job) -> bool:
        """Whether the job may get a promise; or, without backfill, must be tried because it blocks later jobs."""
        state = self.state
        return (
            self.most_promises == 0
            or kind.unpromised_at != state.freed
            or (job.time_limit is not None and job.time_limit < kind.unpromised)
        )

    def _promise(self, kind: JobClass, job: Job) -> None:
        if not self._may_be_promised(kind, job):
            return
        found = self.trial.promise(job.job_id, kind, job.time_limit)
        if found is None:
            kind.unpromised_at = self.state.freed
            kind.unpromised = FOREVER if job.time_limit is None else job.time_limit
        else:
            self._is_promised(found)

    def _is_promised(self, found: Promise) -> None:
        self.promises[found.job_id] = found
        self.trial.lay(found)

    def _promise_again(self) -> None:
        """Repeats earlier promises before any job is tried. If the places will not be free by then, because a job
        exceeds its limit or nodes are gone, the promise gets another time, still before later promises."""
        for one in self.earlier:
            job, kind = self.state.pending[one.job_id]
            found = self.trial.promise_again(one, kind)
            if found is None:
                another = self.trial.promise(one.job_id, kind, job.time_limit)
                found = another and replace(another, made_at=one.made_at)
            if found is not None:
                self._is_promised(found)

    def _start_due(self) -> None:
        """Starts jobs whose promise is due and that were not tried: their class did not take part, or an earlier job of
        it stayed the head."""
        for one in self.earlier:
            if self._is_due(one.job_id) and one.job_id not in self.started:
                job, kind = self.state.pending[one.job_id]
                self._start(kind, job)

    def _is_due(self, job_id: str) -> bool:
        """Whether the job's promise is due, so that it, rather than its class's head, may start at the promised
        places."""
        return job_id in self.promises and self.promises[job_id].start <= self.now

    def _promise_sooner(self, kind: JobClass, job: Job) -> None:
        """Tries to find an earlier time for a promised job whose turn has come."""
        if all(one.job_id != job.job_id for one in self.earlier):
            return
        restore, before = self._withdraw_promise(job.job_id), self.promises[job.job_id].start
        found = self.trial.promise(job.job_id, kind, job.time_limit)
        if found is None or found.start >= before:
            restore()
        else:
            self._is_promised(found)

    def _promise_overdue(self) -> None:
        """Makes promises to jobs that exceed their wait bound before any job is tried, whatever their rank."""
        if not self.state.bounded:
            return
        late = []
        for kind in self.state.waiting_classes():
            bound = self.state.bound(kind)
            is_late = bound is not None and self.now - kind.jobs[0][0] > bound
            if is_late and kind.jobs[0][1] not in self.promises and not self._misfit(kind):
                late.append((kind.jobs[0], kind))
        for (_, job_id), kind in sorted(late, key=lambda one: one[0])[: self.state.policies.expected]:
            accounts, account = self.state.accounts, kind.account
            if kind.least <= accounts.allowed(account) and self._may_be_promised(kind, self.state.pending[job_id][0]):
                limit = self.state.pending[job_id][0].time_limit
                at_once = kind.least <= accounts.room(account)
                found = self.trial.promise(job_id, kind, limit, at_once)
                if found is not None:
                    self._is_promised(found)  # otherwise a job that starts before its turn may still make it possible

    def _withdraw_promise(self, job_id: str) -> Callable[[], None]:
        """Withdraws a job's own promise, which does not block it. Returns a function that restores it."""
        own = self.promises.get(job_id)
        if own is None:
            return lambda: None
        place = self.trial.promises.index(own)
        self.trial.withdraw(own)
        return lambda: self.trial.restore(own, place)

    def _start_shorter(self, kind: JobClass) -> None:
        """Backfill: starts later jobs of a class that is blocked only by promises, if they end before these begin."""
        kind.shortest = -FOREVER
        if kind.verdict != reasons.KEPT:
            return
        kind.shortest = tried = FOREVER
        for _, job_id in kind.jobs[:MOST_SHORTER]:
            job = self.state.pending[job_id][0]
            if job_id in self.started or job.time_limit is None or job.time_limit >= tried:
                continue
            kind.shortest = tried = job.time_limit
            if kind.least > self.state.accounts.room(kind.account):
                return
            restore = self._withdraw_promise(job_id)
            if self._start_here(kind, job):
                kind.shortest = tried = FOREVER
            else:
                restore()

    def _reuse_promises(self) -> bool:
        """Reuses the promises of an earlier cycle, if nothing was freed since, or they are recent; returns whether.

        Capacity freed meanwhile makes them later than necessary, never wrong. They are not reused if a start that they
        assume has not happened.
        """
        old, policies = self.state.promised, self.state.policies
        if old.freed != self.state.freed and self.now - old.at >= policies.backfill_seconds:
            return False
        if any(job_id in self.state.pending for job_id in old.starts):
            return False
        if any(p.job_id not in self.state.pending or p.start <= self.now for p in old.promises):
            return False
        for promise in old.promises:
            again = self.promises[promise.job_id] = promise.copy()
            self.trial.promises.append(again)
        return True

    def _remember_promises(self) -> None:
        """Stores the promises in the state, for later cycles."""
        old, state = self.state.promised, self.state
        self.anew = not (self.reused and old.promises)
        freed, at = (state.freed, self.now) if self.anew else (old.freed, old.at)
        left = tuple(promise for promise in self.trial.promises if promise.job_id not in self.started)
        state.promised = Promised(freed, at, left, frozenset(self.started))

    # Reasons for waiting

    def _behind(self, line: Line, job_id: str) -> None:
        """Without backfill: blocks the jobs behind a blocked head, in its queue or, if a tenant is chosen first, its
        tenant."""
        text = f"job {job_id} is ahead in queue {line.queue.name}, and nothing overtakes it there"
        reason = Reason(reasons.PRIORITY, text, {"jobs": 1}, (job_id,))
        for kind in line.close():
            self._report_blocked(kind, (reason,))

    def _report_blocked(self, kind: JobClass, why: tuple[Reason, ...]) -> None:
        """Records that a class is blocked, with its jobs only if reasons are explained."""
        self.blocked[id(kind)] = kind.explained(why) if self.state.explain else Blocked((), why, kind)

    def _report_untried(self) -> None:
        """Records the classes that were not tried; for most, earlier reasons still hold."""
        as_before, known = [], set(self.blocked)
        for kind in self.state.waiting_classes():
            if id(kind) in known:
                continue
            if kind.why and self.now - kind.explained_at < EXPLAINED_SECONDS:
                as_before.append(kind)
                continue
            if kind.verdict:
                head = next((name for _, name in kind.jobs if name not in self.started), None)
                if head is not None:
                    self._report_blocked(kind, self._why(kind, self.state.pending[head][0]))
                    continue
            if kind.why:
                as_before.append(kind)
        self.blocked.update((id(kind), kind.explained(kind.why)) for kind in as_before)

    def _why(self, kind: JobClass, job: Job) -> tuple[Reason, ...]:
        """All reasons that a class shares; earlier ones, if only starts since could have changed them."""
        if not self.state.explain:
            return ()
        if not self._skips(kind) or not self._is_explained(kind):
            with self.state.placement.aside():
                kind.why, kind.explained_at = self._explained(kind, job), self.now
            self.told_now.append(kind)
        return kind.why

    def _explained(self, kind: JobClass, job: Job) -> tuple[Reason, ...]:
        """All reasons, the decisive one first."""
        state, trial, verdict = self.state, self.trial, kind.verdict
        found: list[Reason] = []
        if verdict == reasons.UNKNOWN_QUEUE:
            text = f"queue {kind.queue} is not in the settings; known are {', '.join(sorted(state.queues))}"
            return (Reason(verdict, text),)
        if verdict == reasons.PARENT_QUEUE:
            children = ", ".join(sorted(state.queues.children(kind.queue)))
            return (Reason(verdict, f"queue {kind.queue} holds no jobs; name one of {children}"),)
        if verdict == reasons.POOL_NOT_NAMED:
            text = f"tenants have quotas by pool; name one of {', '.join(sorted(state.pools_with_quota))}"
            return (Reason(verdict, text),)
        if verdict in (reasons.EXCEEDS_QUOTA, reasons.WAITING_FOR_QUOTA):
            found.append(reasons.quota(state, kind))
        until = trial.until(job.time_limit)
        restore = self._withdraw_promise(job.job_id)
        mark = trial.cluster.mark()
        units = state.accounts.room(kind.account) if verdict == reasons.KEPT else UNLIMITED
        if trial.place_within(kind.request, kind.replicas, kind.account.tenant, until, units) is None:
            if trial.kept_back:
                found.append(reasons.promised_to_others(trial, kind, until))
            else:
                found.append(reasons.no_room(trial, kind))
        elif verdict == reasons.KEPT:
            found.append(reasons.limits_promised(trial, kind, until))
        trial.cluster.rollback(mark)
        restore()
        if kind.search_again_at != kind.retry_at < FOREVER:
            seconds = int(kind.retry_at - self.now)
            text = f"jobs that could give way have run too short a time; the first may in {seconds} s"
            found.append(Reason(reasons.PROTECTED, text, {"seconds": seconds}))
        near = reasons.nearest(trial, kind, until)
        return (*found, near) if near is not None else tuple(found)

    def _expect(self) -> None:
        """Expected starts of the first pending jobs: those with a promise, then as many more as the policy says. They
        leave the stored promises alone: what is shown must not affect decisions."""
        self.trial.promises = [one.copy() for one in self.trial.promises]
        if self.state.policies.expected > len(self.promises):
            self._estimate()
        for job_id, promise in self.promises.items():
            if job_id not in self.started:
                blockers = self.trial.blockers(promise)
                self.expectations[job_id] = reasons.expected(self.state, promise, blockers, self.now)

    def _estimate(self) -> None:
        """Estimates starts as if more jobs had promises, in order. Estimates stand while they would come out nearly the
        same: nothing was freed, and little time has passed. One outdated estimate is renewed per cycle, since each
        costs as much as a promise."""
        state, old = self.state, self.state.estimated
        behind = tuple((job_id, promise.start) for job_id, promise in self.promises.items())
        holds = old.freed == state.freed and old.behind == behind
        known = iter(old.places if holds else ())
        if holds and old.version == state.version and all(one.start > self.now for one in old.places):
            for one in known:
                self._is_promised(one.copy())
            return
        places: list[Promise] = []
        renewed = False
        hopeful = {
            id(kind)
            for kind in state.waiting_classes()
            if kind.vain_at != state.freed and kind.verdict in WAITS_FOR_ROOM
        }
        for line, kind, job_id in Lines(self.trial, hopeful) if hopeful else ():
            if len(self.promises) >= state.policies.expected:
                break
            if job_id in self.promises:
                line.next()
                continue
            place = next(known, None)
            if place is None or place.job_id != job_id or place.start <= self.now:
                place, known = None, iter(())
            if place is None or (not renewed and self.now - place.made_at >= EXPLAINED_SECONDS):
                place, renewed = self.trial.promise(job_id, kind, state.pending[job_id][0].time_limit), True
            if place is None:
                kind.vain_at = state.freed
                line.blocked()
                continue
            places.append(place)
            self._is_promised(place.copy())
            line.next()
        state.estimated = Estimated(state.version, state.freed, behind, tuple(places))

    def _plan(self) -> CyclePlan:
        if not self.state.explain:
            expected = {job_id: p.start for job_id, p in self.promises.items() if job_id not in self.started}
            return self._answer(LiveWaiting(self.state), expected)
        self._expect()
        if self.started:
            for kind in self.told_now:
                kind.explained_at = -FOREVER  # jobs that have started now hold what it waits for
        pending = self.state.pending
        for number in {id(pending[job_id][1]) for job_id in self.started} & self.blocked.keys():
            of = self.blocked[number]
            self.blocked[number] = of._replace(jobs=[one for one in of.jobs if one[1] not in self.started])
        single = {job_id: reasons.dependency(self.state, job_id) for job_id in self.state.dependent}
        waiting = Waiting(self.blocked, single, self.expectations, self.now, pending, self.state.bound)
        expected = {job_id: p.start for job_id, p in self.promises.items() if job_id not in self.started}
        return self._answer(waiting, expected)

    def _answer(self, waiting: Mapping[str, tuple[Reason, ...]], expected: Mapping[str, float]) -> CyclePlan:
        searches = self.searched if self.state.policies.backfill_seconds else ()
        return CyclePlan(
            tuple(self.actions),
            waiting,
            expected,
            self.state.version,
            self.anew,
            bool(self.earlier),
            tuple(searches),
            bool(self.heads),
        )

    def _eviction_text(self, kind: JobClass, job: Job, victim: str, right: str) -> str:
        """The text of a preemption: preemptor and victim, right and policy, paths and priorities (in Kueue's form)."""
        tree = self.state.accounts.governing(kind.account.pool)
        running = self.state.running[victim]
        return (
            f"{RIGHT_IN_WORDS[right]} ({self._policy_of(right, kind, running.kind)}): gives way to job {job.job_id}; "
            f"its path {tree.path_name(kind.account.tenant)}, queue {kind.queue}, "
            f"effective priority {self.state.effective_priority(kind)}; "
            f"given up by {tree.path_name(running.kind.account.tenant)}, queue {running.kind.queue}, "
            f"effective priority {self.state.effective_priority(running.kind)}"
        )

    def _policy_of(self, right: str, kind: JobClass, other: JobClass) -> str:
        """The setting that allowed a preemption, with its scope."""
        policies, queue = self.state.policies, self.state.queues.get(kind.queue)
        if right in BY_PRIORITY:
            own = queue.preempts if queue is not None else None
            if own is None:
                setting = f"policy preempt_by_priority: {policies.preempt_by_priority}"
            else:
                setting = f"queue {kind.queue} preempts: {', '.join(own) if isinstance(own, tuple) else own}"
            more = self.state.effective_priority(kind) - self.state.effective_priority(other)
            return f"{setting}, by {more} of at least {policies.priority_difference}"
        return POLICIES[right]

    def _id(self, job_id: str, verdict: str) -> str:
        """A decision's id; the same decision from the same state has the same id."""
        text = f"{self.state.version}|{self.now}|{job_id}|{verdict}"
        return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()
