"""One cycle: `plan(state, now)`. Everything is tried on the cluster and the trees, then undone.

Heads are tried in order (scheduler.cycle.order). One that finds no room gets a promise, as many as the policy makes;
who comes after it may start as long as no promise is delayed. So with one promise this is EASY backfill, with any
number conservative backfill, with none a queue stops at its first job that cannot start. A class whose head was found
blocked is not tried again in the cycle, nor in later ones before there is more room or time has passed for it.
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
from scheduler.cycle.state import FOREVER, Blocked, JobClass, State, beside, units_of
from scheduler.cycle.trial import Trial
from scheduler.model import EntitlementClass, Grant, Job, Plan, Preempt, Reason, Resize, Start
from scheduler.placement.reasons import NO_ROOM

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
"""Which setting allows what, with its scope."""
EXPLAINED_SECONDS = 60.0
"""So old reasons may be: what was freed or taken since may be missing from those of a class that is not looked at."""
WAITS_FOR_ROOM = (NO_ROOM, reasons.KEPT)
MOST_SHORTER = 100
"""Jobs of a blocked class that are looked through for one short enough to end before a promise begins."""


@dataclass(frozen=True, slots=True)
class CyclePlan(Plan):
    """expected: by job, the time from which a promise keeps capacity for it.   version: of the state it is made for.

    What later cycles know of it beside the state's promises: anew: whether it made them from nothing.   planned_again:
    for the sake of earlier ones.   searches: jobs for which nobody was found who gives way, where another search has to
    wait.   looked: whether any class was tried.
    """

    expected: Mapping[str, float] = field(default_factory=dict)
    version: int = 0
    anew: bool = False
    planned_again: bool = False
    searches: Sequence[str] = ()
    looked: bool = False


def plan(state: State, now: float) -> CyclePlan:
    """What to do now, and why the rest waits."""
    state.begin_cycle(now)
    if not state.pending and not state.elastic and not state.dependent:
        return CyclePlan(version=state.version)
    kept: Sequence[Promise] = ()
    while True:
        state.placement.begin(now)
        with Trial(state, now) as trial:
            cycle = _Cycle(state, trial, now, kept)
            try:
                cycle.run()
            except _GivesWayError:
                state.look_at_all(cycle.searched, now)
                continue
            kept = cycle.broken()
            if not kept:
                found = cycle.plan()
                break
        state.forget_tries(now)
    state.planned = state.version if found.actions else -1
    return found


class _GivesWayError(Exception):
    """Somebody would, and so leave room to classes that are not looked at in this try."""


class _Cycle:
    """kept: earlier promises that are made first, again.   heads: who was tried, in order; tried: which classes.
    blocked: classes that cannot start, by id(), and the reasons people are given.   searched: jobs for which nobody was
    found who gives way.   powerless: amounts with which classes of a standing had a right over nobody, after
    `powerless_after` starts.   allowed: what the trees leave to a standing, after `allowed_at` changes."""

    def __init__(self, state: State, trial: Trial, now: float, kept: Sequence[Promise]) -> None:
        self.state, self.trial, self.now, self.kept = state, trial, now, kept
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
        self.reused = reuse = not self.kept and self._reuse_promises()
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
                self._tell(kind, self._why(kind, job))
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
            self._tell_others()

    def plan(self) -> CyclePlan:
        """What came of it."""
        for job_id, grants in grow(self.trial).items():
            self.actions.append(Resize(job_id, grants, self._id(job_id, "resize")))
        self._remember_promises()
        return self._plan()

    def broken(self) -> Sequence[Promise]:
        """Earlier promises to be kept in another try, since this one would break some: to begin with those, then all.
        Who came after a promise was made may go before it, if its place is: of a class that was not looked at, before
        the last who was promised something; of one whose first job waits for quota, before that."""
        old, promises, known = self.state.promised, self.promises, {one.job_id for one in self.kept}
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
        return (waiting if self.kept else late) if late else ()

    # Starting

    def _start(self, kind: JobClass, job: Job) -> bool:
        """Starts the job if it can, with or without others giving way; else notes on its class why not."""
        self.tried.add(id(kind))
        verdict = self._misfit(kind)
        if verdict:
            self._note(kind, verdict)
            return False
        restore = self._withdraw_promise(job.job_id)
        if self._start_reserved(kind, job):
            return True
        if kind.amount > self.state.accounts.room(kind.account):
            verdict = self._short_of(kind, job)
        else:
            if self._start_here(kind, job):
                return True
            verdict = reasons.KEPT if self.trial.kept_back else NO_ROOM
        if verdict != reasons.EXCEEDS_QUOTA and self._start_by_eviction(kind, job):
            return True
        restore()
        kind.verdict = verdict
        return False

    def _short_of(self, kind: JobClass, job: Job) -> str:
        """Of quota or of devices, where the trees have no room. Where all that is left in them is shared, they say no
        more than placement does, unless a lending limit keeps something back."""
        accounts, account = self.state.accounts, kind.account
        if kind.amount > accounts.allowed_ever(account):
            return reasons.EXCEEDS_QUOTA
        if kind.amount > accounts.allowed(account):
            return reasons.WAITING_FOR_QUOTA
        mark = self.trial.cluster.mark()
        fits = self.trial.place(kind.request, kind.replicas, account.tenant, self.trial.until(job.time_limit))
        self.trial.cluster.rollback(mark)
        if fits is not None:
            return reasons.WAITING_FOR_QUOTA
        return reasons.KEPT if self.trial.kept_back else NO_ROOM

    def _start_here(self, kind: JobClass, job: Job) -> bool:
        """On what is free; if placement finds nothing there, at the places that it is promised for now. A job within
        its guarantee need not mind promises to those that would borrow."""
        account, until, own = kind.account, self.trial.until(job.time_limit), self.promises.get(job.job_id)
        entitled = self.state.accounts.covers(account, kind.amount)
        if not self.trial.leaves_limits(kind, until, entitled):
            self.trial.kept_back = True
            return False
        grants = self.trial.place(kind.request, kind.replicas, account.tenant, until, entitled)
        if grants is None and own is not None and own.start <= self.now:
            grants = self.trial.place_at(own.grants, kind.request, account.tenant, until, entitled)
        if grants is None:
            return False
        self.trial.charge(kind, units_of(grants), len(grants))
        self._commit(kind, job, grants, self.state.accounts.entitlement(account))
        return True

    def _start_reserved(self, kind: JobClass, job: Job) -> bool:
        if not self.state.reservations:
            return False
        until = self.trial.until(job.time_limit)
        if not self.trial.leaves_limits(kind, until):
            return False
        grants = self.trial.place_reserved(kind.request, kind.replicas, kind.account.tenant, until)
        if grants is None:
            return False
        self.trial.charge(kind, units_of(grants), len(grants))
        self._commit(kind, job, grants, "reserved")
        return True

    def _start_by_eviction(self, kind: JobClass, job: Job) -> bool:
        self._note(kind, "")
        if self.searches >= self.state.policies.preemption_searches:
            kind.tested_at = -1  # its turn comes in a later cycle
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
        """What no waiting will cure."""
        if self.state.queues and kind.queue not in self.state.queues:
            return reasons.UNKNOWN_QUEUE
        if self.state.queues.children(kind.queue):
            return reasons.PARENT_QUEUE
        if self.state.pools_with_quota and not kind.account.pool:
            return reasons.POOL_NOT_NAMED
        return ""

    def _skips(self, kind: JobClass) -> bool:
        """Whether nothing has changed for a class since it was last found blocked."""
        state = self.state
        if kind.tested_at != state.freed or self.now >= kind.retry_at:
            return False
        return kind.tested_after == state.starts or self._is_as_before(kind)

    def _is_as_before(self, kind: JobClass) -> bool:
        """Whether it stays blocked though others have started since: promises may lie elsewhere now, quota may be what
        is short, or no longer the only thing that is, and there may be somebody who gives way."""
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
        """Whether there is anybody who would have to give way, of whom it is not known yet."""
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
        """Whether one that asks for no more had a right over nobody."""
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
        """Rights only shrink as the amount grows, but where fairness is one and reclaim is not: fairness is for those
        beyond their guarantee. Who asks for no device has others."""
        policies = self.state.policies
        if units and (policies.reclaim or not policies.preempt_for_fairness):
            if self.powerless_after != len(self.trial.started):
                self.powerless.clear()
                self.powerless_after = len(self.trial.started)
            self.powerless.setdefault(kind.standing, []).append(beside(kind.request, units, replicas))

    def _is_explained(self, kind: JobClass) -> bool:
        """Whether the reasons it was given for waiting still hold."""
        return self.now - kind.explained_at < EXPLAINED_SECONDS and bool(kind.why)

    def _wanted(self, complete: bool) -> set[int]:
        """Classes that stand in line in this cycle, by id(): those that are to be tried and, where promises are not
        complete, may be promised something. Who is in line changes who is next, so it must not depend on what people
        are told. Every cycle asks it of every class, most often in vain."""
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
        """A promise to a head that finds no room, as far as the policy makes them."""
        if kind.verdict not in WAITS_FOR_ROOM:
            return
        if job.job_id in self.promises:
            self._promise_sooner(kind, job)
        elif len(self.promises) < self.most_promises:
            self._promise(kind, job)

    def _may_be_promised(self, kind: JobClass, job: Job) -> bool:
        """Or, where nothing overtakes and no promises are made, must be looked at because it stands in others' way."""
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
        """What was promised before, before anybody is tried. Where its places will not be free by then, because
        somebody stays beyond a limit, or nodes are gone, it gets another time before the later promises do."""
        for one in self.kept:
            job, kind = self.state.pending[one.job_id]
            found = self.trial.promise_again(one, kind)
            if found is None:
                another = self.trial.promise(one.job_id, kind, job.time_limit)
                found = another and replace(another, made_at=one.made_at)
            if found is not None:
                self._is_promised(found)

    def _start_due(self) -> None:
        """Whose place was kept and whose turn did not come: its class was not in line, or an earlier job of it stayed
        the head."""
        for one in self.kept:
            if self._is_due(one.job_id) and one.job_id not in self.started:
                job, kind = self.state.pending[one.job_id]
                self._start(kind, job)

    def _is_due(self, job_id: str) -> bool:
        """Of a class only this job may start: on what was kept for it."""
        return job_id in self.promises and self.promises[job_id].start <= self.now

    def _promise_sooner(self, kind: JobClass, job: Job) -> None:
        """Its turn has come, and it may have an earlier time than the one that was kept for it."""
        if all(one.job_id != job.job_id for one in self.kept):
            return
        restore, before = self._withdraw_promise(job.job_id), self.promises[job.job_id].start
        found = self.trial.promise(job.job_id, kind, job.time_limit)
        if found is None or found.start >= before:
            restore()
        else:
            self._is_promised(found)

    def _promise_overdue(self) -> None:
        """Who has waited beyond its bound gets a promise before anybody is tried, whatever its place."""
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
            if kind.amount <= accounts.allowed(account) and self._may_be_promised(kind, self.state.pending[job_id][0]):
                limit, at_once = self.state.pending[job_id][0].time_limit, kind.amount <= accounts.room(account)
                found = self.trial.promise(job_id, kind, limit, at_once)
                if found is not None:
                    self._is_promised(found)  # if not, who starts before its turn may yet make it possible

    def _withdraw_promise(self, job_id: str) -> Callable[[], None]:
        """Its own promise does not stand in a job's way. Answers how to make it again."""
        own = self.promises.get(job_id)
        if own is None:
            return lambda: None
        place = self.trial.promises.index(own)
        self.trial.withdraw(own)
        return lambda: self.trial.restore(own, place)

    def _start_shorter(self, kind: JobClass) -> None:
        """Backfill: later jobs of a class that only promises hold back, if they end before."""
        kind.shortest = -FOREVER
        if kind.verdict != reasons.KEPT:
            return
        kind.shortest = tried = FOREVER
        for _, job_id in kind.jobs[:MOST_SHORTER]:
            job = self.state.pending[job_id][0]
            if job_id in self.started or job.time_limit is None or job.time_limit >= tried:
                continue
            kind.shortest = tried = job.time_limit
            if kind.amount > self.state.accounts.room(kind.account):
                return
            restore = self._withdraw_promise(job_id)
            if self._start_here(kind, job):
                kind.shortest = tried = FOREVER
            else:
                restore()

    def _reuse_promises(self) -> bool:
        """Takes over the promises of an earlier cycle, if nothing was freed since, or not long ago.

        What was freed meanwhile makes them later than they need be, never wrong. Not if a start that they count on has
        not taken place.
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
        """For later cycles."""
        old, state = self.state.promised, self.state
        self.anew = not (self.reused and old.promises)
        freed, at = (state.freed, self.now) if self.anew else (old.freed, old.at)
        left = tuple(promise for promise in self.trial.promises if promise.job_id not in self.started)
        state.promised = Promised(freed, at, left, frozenset(self.started))

    # Reasons for waiting

    def _behind(self, line: Line, job_id: str) -> None:
        """Nothing overtakes a blocked head: not in its queue, where a tenant is chosen first not of its tenant."""
        text = f"job {job_id} is ahead in queue {line.queue.name}, and nothing overtakes it there"
        reason = Reason(reasons.PRIORITY, text, {"jobs": 1}, (job_id,))
        for kind in line.close():
            self._tell(kind, (reason,))

    def _tell(self, kind: JobClass, why: tuple[Reason, ...]) -> None:
        """A class is blocked. Its jobs are of interest only where anything is explained."""
        self.blocked[id(kind)] = kind.explained(why) if self.state.explain else Blocked((), why, kind)

    def _tell_others(self) -> None:
        """Classes that were not looked at. For most, the reasons given before still hold."""
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
                    self._tell(kind, self._why(kind, self.state.pending[head][0]))
                    continue
            if kind.why:
                as_before.append(kind)
        self.blocked.update((id(kind), kind.explained(kind.why)) for kind in as_before)

    def _why(self, kind: JobClass, job: Job) -> tuple[Reason, ...]:
        """All reasons that a class shares: those given before, where only what has started since has changed them."""
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
        if trial.place(kind.request, kind.replicas, kind.account.tenant, until) is None:
            if trial.kept_back:
                found.append(reasons.kept(trial, kind, until))
            else:
                found.append(reasons.no_room(trial, kind))
        elif verdict == reasons.KEPT:
            found.append(reasons.limits_kept(trial, kind, until))
        trial.cluster.rollback(mark)
        restore()
        if kind.search_again_at != kind.retry_at < FOREVER:
            seconds = int(kind.retry_at - self.now)
            text = f"jobs that could give way have run too short a time; the first may in {seconds} s"
            found.append(Reason(reasons.PROTECTED, text, {"seconds": seconds}))
        near = reasons.nearest(trial, kind, until)
        return (*found, near) if near is not None else tuple(found)

    def _expect(self) -> None:
        """Expected starts of the first that wait: of those with a promise, then of as many more as the policy says.
        They take nothing of what is remembered: what people are shown decides nothing."""
        self.trial.promises = [one.copy() for one in self.trial.promises]
        if self.state.policies.expected > len(self.promises):
            self._estimate()
        for job_id, promise in self.promises.items():
            if job_id not in self.started:
                blockers = self.trial.blockers(promise)
                self.expectations[job_id] = reasons.expected(self.state, promise, blockers, self.now)

    def _estimate(self) -> None:
        """As if so many were promised something, in the order of their turns; what was announced stands as long as it
        would come out the same, or nearly so: nothing was freed, and not much time has passed. What is too old is
        made again one in a cycle, since each costs as much as a promise."""
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
                kind.explained_at = -FOREVER  # what has started by now holds what it waits for
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
            bool(self.kept),
            tuple(searches),
            bool(self.heads),
        )

    def _eviction_text(self, kind: JobClass, job: Job, victim: str, right: str) -> str:
        """Who makes whom give way, by which right and policy, both paths and both priorities (the shape is Kueue's)."""
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
        """The setting that allowed it, with its scope."""
        policies, queue = self.state.policies, self.state.queues.get(kind.queue)
        if right in BY_PRIORITY:
            own = queue.preempts if queue is not None else None
            if own is None:
                said = f"policy preempt_by_priority: {policies.preempt_by_priority}"
            else:
                said = f"queue {kind.queue} preempts: {', '.join(own) if isinstance(own, tuple) else own}"
            more = self.state.effective_priority(kind) - self.state.effective_priority(other)
            return f"{said}, by {more} of at least {policies.priority_difference}"
        return POLICIES[right]

    def _id(self, job_id: str, verdict: str) -> str:
        """The same for the same decision from the same state."""
        text = f"{self.state.version}|{self.now}|{job_id}|{verdict}"
        return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()
