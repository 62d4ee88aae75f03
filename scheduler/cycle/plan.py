"""One cycle: `plan(state, now)`. Everything is tried on the cluster and the trees and undone: the state stays as it is.

Heads are tried in order (scheduler.cycle.order). One that finds no room gets a promise, as many as the policy makes;
who comes after it may start as long as no promise is delayed. So with one promise this is EASY backfill, with any
number conservative backfill, with none a queue stops at its first job that cannot start. A class whose head was found
blocked is not tried again in the cycle, nor in later ones before there is more room or time has passed for it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate

from scheduler.cycle import reasons
from scheduler.cycle.elastic import grow
from scheduler.cycle.order import Line, Lines
from scheduler.cycle.preempt import NoEviction, evict_for
from scheduler.cycle.reasons import Blocked, LiveWaiting, Waiting
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
from scheduler.cycle.state import FOREVER, JobClass, State, units_of
from scheduler.cycle.trial import Promise, Trial
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
"""So old reasons may be, where nothing was freed since: less may be free now than they say, never more."""
WAITS_FOR_ROOM = (NO_ROOM, reasons.KEPT)
MOST_SHORTER = 100
"""Jobs of a blocked class that are looked through for one short enough to end before a promise begins."""


@dataclass(frozen=True, slots=True)
class CyclePlan(Plan):
    """expected: by job, the time from which a promise keeps capacity for it.   version: of the state it is made for."""

    expected: Mapping[str, float] = field(default_factory=dict)
    version: int = 0


@dataclass(frozen=True, slots=True)
class Promised:
    """Promises of an earlier cycle, to be used again, each with the starts of that cycle that it counted already.

    freed, at: when they were made.   starts: of the cycle that used them last.
    """

    freed: int
    at: float
    promises: tuple[tuple[Promise, frozenset[str]], ...]
    starts: frozenset[str]


def plan(state: State, now: float) -> CyclePlan:
    """What to do now, and why the rest waits."""
    state.begin_cycle(now)
    if not state.pending and not state.elastic and not state.dependent:
        return CyclePlan(version=state.version)
    kept: Sequence[Promise] = ()
    while True:
        with Trial(state, now) as trial:
            cycle = _Cycle(state, trial, now, kept)
            cycle.run()
            kept = cycle.broken()
            if not kept:
                found = cycle.plan()
                break
        state.forget_tries(now)
    state.planned = state.version if found.actions else -1
    return found


class _Cycle:
    """kept: earlier promises that are made first, again.   heads: who was tried, in order.   powerless: least amount
    with which classes of a standing, after so many starts, had a right over nobody. Rights only shrink as the amount
    grows."""

    def __init__(self, state: State, trial: Trial, now: float, kept: Sequence[Promise] = ()) -> None:
        self.state, self.trial, self.now, self.kept = state, trial, now, kept
        self.heads: list[str] = []
        self.actions: list[Start | Preempt | Resize] = []
        self.promised_now: list[tuple[Promise, frozenset[str]]] = []
        self.promises: dict[str, Promise] = {}
        self.expectations: dict[str, Reason] = {}
        self.kinds_blocked: list[tuple[JobClass, tuple[Reason, ...]]] = []
        self.explained: set[int] = set()
        self.told_now: list[JobClass] = []
        self.started = trial.started_ids
        self.searches = 0
        self.powerless: dict[tuple[int, int], int] = {}

    def run(self) -> None:
        self.reused = reuse = not self.kept and self._reuse_promises()
        if not reuse:
            self._promise_again()
            self._promise_overdue()
        complete = reuse and len(self.promises) >= self.state.policies.promises > 0
        lines = Lines(self.trial, self._has_news if complete else self._is_wanted)
        for line, kind, job_id in lines:
            job = self.state.pending[job_id][0]
            self.heads.append(job_id)
            if (self._is_due(job_id) or not self._skips(kind)) and self._start(kind, job):
                line.next()
                continue
            self._keep_for(kind, job)
            if id(kind) not in self.explained:
                self.explained.add(id(kind))
                self.kinds_blocked.append((kind, self._why(kind, job)))
                self._start_shorter(kind)
            more = len(self.promises) < self.state.policies.promises and self._may_be_promised(kind)
            if kind.verdict in WAITS_FOR_ROOM and more:
                line.next()  # another job of the class may get a promise too, or start before one
                continue
            line.blocked()
            if self.state.policies.promises == 0:
                self._behind(line, job_id)

    def plan(self) -> CyclePlan:
        """What came of it."""
        if self.state.policies.promises:
            self._remember_promises(self.reused)
        for job_id, grants in grow(self.trial).items():
            self.actions.append(Resize(job_id, grants, self._id(job_id, "resize")))
        return self._plan()

    def broken(self) -> Sequence[Promise]:
        """Earlier promises to be kept in another try, since this one would break some: to begin with those, then all.
        Who came after a promise was made may go before it, if its place is."""
        old, promises, known = self.state.promised, self.promises, {one.job_id for one in self.kept}
        if self.reused or not isinstance(old, Promised):
            return ()
        waiting = [one for one, _ in old.promises if one.job_id in self.state.pending]
        place = {job_id: number for number, job_id in reversed(list(enumerate(self.heads)))}
        newest = [*accumulate((self.state.pending[name][0].submitted_at for name in self.heads), max, initial=-FOREVER)]
        late = [
            one
            for one in waiting
            if one.job_id not in self.started | known
            and (one.job_id not in promises or promises[one.job_id].start > max(one.start, self.now))
            and newest[place.get(one.job_id, len(self.heads))] <= one.made_at
        ]
        return (waiting if self.kept else late) if late else ()

    # Starting

    def _start(self, kind: JobClass, job: Job) -> bool:
        """Starts the job if it can, with or without others giving way; else notes on its class why not."""
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
        """On what is free. A job within its guarantee need not mind promises to those that would borrow."""
        account, until = kind.account, self.trial.until(job.time_limit)
        entitled = self.state.accounts.entitlement(account, kind.amount) == "guaranteed"
        grants = self.trial.place(kind.request, kind.replicas, account.tenant, until, entitled)
        if grants is None:
            return False
        self.trial.charge(kind, units_of(grants), len(grants))
        self._commit(kind, job, grants, self.state.accounts.entitlement(account))
        return True

    def _start_reserved(self, kind: JobClass, job: Job) -> bool:
        if not self.state.reservations:
            return False
        until = self.trial.until(job.time_limit)
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
            return False
        whose = (kind.standing, len(self.trial.started))
        if kind.amount >= self.powerless.get(whose, kind.amount + 1):
            return False
        found = evict_for(self.trial, kind, job)
        if isinstance(found, NoEviction):
            self.searches += found.searched
            kind.retry_at = found.retry_at
            kind.search_again_at = self.now + self.state.policies.backfill_seconds
            if not found.searched and not found.protected:
                self.powerless[whose] = min(kind.amount, self.powerless.get(whose, kind.amount))
            return False
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
        if kind.tested_after == state.starts:
            return True
        # Others have started since: promises may lie elsewhere now, and there may be somebody who gives way.
        return kind.verdict != reasons.KEPT and not self._may_evict(kind)

    def _may_evict(self, kind: JobClass) -> bool:
        """Whether there is anybody who would have to give way."""
        whose = (kind.standing, len(self.trial.started))
        if kind.amount >= self.powerless.get(whose, kind.amount + 1):
            return False
        position = self.trial.charges
        self.trial.charge(kind, kind.amount, kind.replicas)
        found = Rights(self.trial, kind).any()
        self.trial.undo_charges(position)
        if not found:
            self.powerless[whose] = kind.amount
        return found

    def _has_news(self, kind: JobClass) -> bool:
        """Whether a class is to be tried again, or told again why it waits."""
        if self.state.explain and (self.now - kind.explained_at >= EXPLAINED_SECONDS or not kind.why):
            return True
        return not self._skips(kind)

    def _is_wanted(self, kind: JobClass) -> bool:
        """Whether a class that stands in line is looked at in this cycle: it has news, or may be promised something."""
        return self._may_be_promised(kind) or self._has_news(kind)

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
        elif len(self.promises) < self.state.policies.promises:
            self._promise(kind, job)

    def _may_be_promised(self, kind: JobClass) -> bool:
        """Or, where nothing overtakes and no promises are made, must be looked at because it stands in others' way."""
        return self.state.policies.promises == 0 or kind.unpromised_at != self.state.freed

    def _promise(self, kind: JobClass, job: Job) -> None:
        if not self._may_be_promised(kind):
            return
        found = self.trial.promise(job.job_id, kind, job.time_limit)
        if found is None:
            kind.unpromised_at = self.state.freed
        else:
            self._is_promised(found)

    def _is_promised(self, found: Promise) -> None:
        self.promises[found.job_id] = found
        self.trial.promises.append(found)
        self.promised_now.append((found.copy(), frozenset(self.started)))

    def _promise_again(self) -> None:
        """What was promised before, before anybody is tried."""
        for one in self.kept:
            found = self.trial.promise_again(one, self.state.pending[one.job_id][1])
            if found is not None:
                self._is_promised(found)

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
            self.promised_now = [one for one in self.promised_now if one[0].job_id != job.job_id]
            self._is_promised(found)

    def _promise_overdue(self) -> None:
        """Who has waited beyond its bound gets a promise before anybody is tried, whatever its place."""
        if not self.state.bounded:
            return
        late = []
        for kind in self.state.waiting_classes():
            bound = self.state.bound(kind)
            if bound is not None and self.now - kind.jobs[0][0] > bound and not self._misfit(kind):
                late.append((kind.jobs[0], kind))
        for (_, job_id), kind in sorted(late, key=lambda one: one[0])[: self.state.policies.expected]:
            if kind.amount <= self.state.accounts.allowed(kind.account):
                self._promise(kind, self.state.pending[job_id][0])

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
            if self._start_here(kind, job):
                kind.shortest = tried = FOREVER

    def _reuse_promises(self) -> bool:
        """Takes over the promises of an earlier cycle, if nothing was freed since, or not long ago.

        What was freed meanwhile makes them later than they need be, never wrong. Not if a start that they count on has
        not taken place.
        """
        old, policies = self.state.promised, self.state.policies
        if not isinstance(old, Promised):
            return False
        if old.freed != self.state.freed and self.now - old.at >= policies.backfill_seconds:
            return False
        if any(job_id in self.state.pending for job_id in old.starts):
            return False
        if any(p.job_id not in self.state.pending or p.start <= self.now for p, _ in old.promises):
            return False
        for promise, known in old.promises:
            again = promise.copy()
            self.trial.promises.append(again)
            self.promises[promise.job_id] = again
            for job_id, until, grants, request in self.state.started_since:
                if job_id not in known and promise.start < until:
                    self.trial.consume(again, grants, request)
        return True

    def _remember_promises(self, reused: bool) -> None:
        """For later cycles. Those made on top of reused ones know all the starts that these did not."""
        old, state = self.state.promised, self.state
        if reused and isinstance(old, Promised) and old.promises:
            since = frozenset(name for name, *_ in state.started_since) if self.promised_now else frozenset()
            added = tuple((promise, known | since) for promise, known in self.promised_now)
            state.promised = Promised(old.freed, old.at, old.promises + added, frozenset(self.started))
        else:
            made = tuple(one for one in self.promised_now if one[0].job_id not in self.started)
            state.promised = Promised(state.freed, self.now, made, frozenset(self.started))
            state.started_since.clear()

    # What is told

    def _behind(self, line: Line, job_id: str) -> None:
        """Nothing overtakes a blocked head: not in its queue, where a tenant is chosen first not of its tenant."""
        text = f"job {job_id} is ahead in queue {line.queue.name}, and nothing overtakes it there"
        reason = Reason(reasons.PRIORITY, text, {"jobs": 1}, (job_id,))
        for kind in line.close():
            self.kinds_blocked.append((kind, (reason,)))

    def _why(self, kind: JobClass, job: Job) -> tuple[Reason, ...]:
        """All reasons that a class shares: those told before, where only what has started since has changed them."""
        if not self.state.explain:
            return ()
        if self._has_news(kind):
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
        trial.cluster.rollback(mark)
        restore()
        if kind.retry_at < FOREVER:
            seconds = int(kind.retry_at - self.now)
            text = f"jobs that could give way have run too short a time; the first may in {seconds} s"
            found.append(Reason(reasons.PROTECTED, text, {"seconds": seconds}))
        near = reasons.nearest(trial, kind, until)
        return (*found, near) if near is not None else tuple(found)

    def _expect(self) -> None:
        """Expected starts of the first that wait: of those with a promise, then of as many more as the policy says."""
        for kind, _ in self.kinds_blocked:
            if len(self.promises) >= self.state.policies.expected:
                break
            if kind.verdict in WAITS_FOR_ROOM:
                head = next((job_id for _, job_id in kind.jobs if job_id not in self.started), None)
                if head is not None and head not in self.promises:
                    found = self.trial.promise(head, kind, self.state.pending[head][0].time_limit)
                    if found is not None:
                        self.promises[head] = found
                        self.trial.promises.append(found)
        for job_id, promise in self.promises.items():
            if job_id not in self.started:
                blockers = self.trial.blockers(promise)
                self.expectations[job_id] = reasons.expected(self.state, promise, blockers, self.now)

    def _plan(self) -> CyclePlan:
        if not self.state.explain:
            expected = {job_id: p.start for job_id, p in self.promises.items() if job_id not in self.started}
            return CyclePlan(tuple(self.actions), LiveWaiting(self.state), expected, self.state.version)
        self._expect()
        if self.started:
            for kind in self.told_now:
                kind.explained_at = -FOREVER  # what has started by now holds what it waits for
        self.kinds_blocked += [
            (kind, kind.why) for kind in self.state.waiting_classes() if id(kind) not in self.explained and kind.why
        ]
        pending = self.state.pending
        begun = {id(pending[job_id][1]) for job_id in self.started}
        blocked = [
            Blocked(
                [one for one in kind.jobs if one[1] not in self.started] if id(kind) in begun else kind.as_told(),
                why,
                kind,
            )
            for kind, why in self.kinds_blocked
        ]
        single = {job_id: reasons.dependency(self.state, job_id) for job_id in self.state.dependent}
        waiting = Waiting(blocked, single, self.expectations, self.now, pending, self.state.bound)
        expected = {job_id: p.start for job_id, p in self.promises.items() if job_id not in self.started}
        return CyclePlan(tuple(self.actions), waiting, expected, self.state.version)

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
