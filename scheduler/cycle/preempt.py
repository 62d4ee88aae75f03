"""Chooses the victims of a preemption: the fewest jobs, then least GPU-seconds lost, then lowest cost.

A set of victims counts only if quotas hold afterwards and the whole gang is placed. Then each victim, in reverse order,
is put back if the job still fits (fill back), so that all remaining victims are necessary. Replicas beyond an elastic
job's smallest gang are taken before any job is killed. Victims and placement are one decision: both or neither.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations, islice, permutations

from scheduler.cycle.accounts import Surplus
from scheduler.cycle.rights import SURPLUS, Guarantees, Rights
from scheduler.cycle.state import FOREVER, JobClass, Running, units_of
from scheduler.cycle.trial import Trial
from scheduler.cycle.victims import Choice, Loss, NodeOrder, Victim, loss
from scheduler.model import Grant, Job
from scheduler.placement.shapes import EVERYWHERE, NEVER

MOST_SETS, MOST_TRIES = 4096, 64
"""Sets of victims that are estimated, and that are tried, in search of one that loses less."""

MOST_FIRST = 16
"""Victims that are each tried first, if no order of victims was enough."""
MOST_ORDERS = 6
"""Orders tried for a set, if taking one victim first removes the right to another."""


@dataclass(frozen=True, slots=True)
class Eviction:
    """victims: (job_id, replicas taken, right).   grants: of the job that they make room for."""

    victims: tuple[tuple[str, int, str], ...]
    grants: tuple[Grant, ...]
    loss: Loss


@dataclass(frozen=True, slots=True)
class NoEviction:
    """protected: jobs that only their minimum run time or number of preemptions protects.   retry_at: when the first of
    them may be preempted.   searched: whether there were any candidates."""

    protected: int
    retry_at: float
    searched: bool


@dataclass(frozen=True, slots=True)
class _Way:
    """A set of victims, with the steps taken of each, and the rights."""

    loss: Loss
    victims: Sequence[tuple[Victim, int, str]]


def evict_for(trial: Trial, kind: JobClass, job: Job) -> Eviction | NoEviction:
    """Finds victims for a job and leaves the trial with them gone and the job's grants taken and charged.

    If there are none, the trial is as it was.
    """
    position, mark = trial.charges, trial.cluster.mark()
    guarantees = Guarantees(trial, kind)
    search = _Search(trial, kind, job, guarantees)
    found = search.run()
    if found is None:
        trial.undo_charges(position)
        trial.cluster.rollback(mark)
        return NoEviction(search.protected, search.retry_at, bool(search.victims))
    trial.cluster.keep(mark)
    return found


class _Search:
    """spared: whether an order met a victim that the job no longer had a right over.   misplaced: whether an order
    freed enough room and placement still failed: with more capacity free it chooses differently, possibly places
    promised to another job."""

    def __init__(self, trial: Trial, kind: JobClass, job: Job, guarantees: Guarantees) -> None:
        self.trial, self.kind, self.job, self.guarantees = trial, kind, job, guarantees
        self.until = trial.until(job.time_limit)
        self.rights = Rights(trial, kind)
        self.entitled = guarantees.entitled
        self.protected, self.retry_at = 0, FOREVER
        self.spared = self.misplaced = False
        self.victims = list(self._candidates()) if self.rights.any() else []
        shape = trial.cluster.shape(kind.request)
        self._suits = shape.suits
        self._near = shape.suits & ((shape.need != NEVER).any(axis=1) | (kind.request.devices == 0))

    def run(self) -> Eviction | None:
        if not self.victims:
            return None
        self.guarantees.watch()
        short = self._is_short()
        groups = [self._surplus_only(), self.victims]
        if short:
            groups.insert(1, self._relieving())
        for victims in groups:
            if not victims:
                continue
            *orders, by_loss = self._orders(victims, short)
            self.spared = self.misplaced = False
            ways = [self._way(order) for order in orders]
            if not any(ways):
                ways = [self._way(by_loss)]
            # The first victim removed the right to necessary ones, or freed room elsewhere.
            astray = self.spared or self.misplaced
            if not any(ways) and astray:
                ways = [self._way(_with_rest([first], by_loss)) for first in by_loss[:MOST_FIRST]]
            found = [way for way in ways if way is not None]
            if found or astray:
                best = self._fewer(min(found, key=lambda way: way.loss, default=None), victims)
                if best is not None:
                    return self._carry_out(best)
        return None

    def _fewer(self, best: _Way | None, victims: Sequence[Victim]) -> _Way | None:
        """A set that loses less and that the estimated orders missed, if there are few enough sets to try."""
        most, tries = len(victims) if best is None else best.loss.jobs, 0
        ordered = sorted(victims, key=lambda victim: (victim.lost, victim.running.job.job_id))
        free = int(self.trial.cluster.free[self._suits].sum())
        sets = (some for size in range(1, most + 1) for some in combinations(ordered, size))
        for some in islice(sets, MOST_SETS):
            estimate = Loss(len(some), sum(one.lost for one in some), sum(one.cost for one in some))
            if best is not None and estimate >= best.loss:
                continue
            if free + sum(one.running.units for one in some) < self.kind.least:
                continue
            for order in islice(permutations(some), MOST_ORDERS):
                tries += 1
                if tries > MOST_TRIES:
                    return best
                self.spared = False
                way = self._way(order)
                if way is not None and (best is None or way.loss < best.loss):
                    best = way
                if way is not None or not self.spared:
                    break
        return best

    def _way(self, order: Sequence[Victim]) -> _Way | None:
        """The necessary ones among the victims; None if all are not enough. Leaves the trial unchanged."""
        taken = self._attempt(order)
        if taken is None:
            return None
        distinct = _distinct(taken)
        rights = [victim.right if victim.killed else SURPLUS for victim in distinct]
        way = _Way(loss(distinct), [(one, one.taken, right) for one, right in zip(distinct, rights, strict=True)])
        self._restore(distinct)
        return way

    def _candidates(self) -> Iterable[Victim]:
        for alike in self.trial.state.running_by_class.values():
            one = next(iter(alike.values()))
            whole, surplus = self.rights.over(one), self.rights.over_surplus(one)
            if not one.job.preemptible:
                whole = ""
            if whole or (surplus and one.job.max_replicas > one.job.min_replicas):
                for running in alike.values():
                    victim = self._candidate(running, whole, surplus)
                    if victim is not None:
                        yield victim

    def _candidate(self, running: Running, whole: str, surplus: str) -> Victim | None:
        trial, now, job = self.trial, self.trial.now, running.job
        if job.job_id in trial.changed:
            return None  # this cycle has preempted it already
        spare = len(running.grants) - job.min_replicas
        steps = list(range(1, spare + 1)) if surplus and spare > 0 else []
        if whole:
            most, queue = trial.state.policies.most_preemptions, trial.state.queues.get(job.queue)
            free_at = running.began_at + (queue.min_run_time if queue else 0.0)
            if free_at > now:
                self.protected += 1
                self.retry_at = min(self.retry_at, free_at)
            elif most is not None and running.preemptions >= most:
                self.protected += 1
            else:
                steps.append(len(running.grants))
        if not steps:
            return None
        seconds = running.unsaved_seconds(now)
        return Victim(running, whole or surplus, steps, seconds * running.gpus, seconds * running.price / 3600)

    def _surplus_only(self) -> list[Victim]:
        """The victims that can give up replicas, without the step that kills them."""
        found = []
        for one in self.victims if self.trial.state.elastic else ():
            steps = [step for step in one.steps if step < len(one.running.grants)]
            if steps:
                found.append(Victim(one.running, one.right, steps, one.lost, one.cost))
        return found

    def _relieving(self) -> list[Victim]:
        """The victims whose removal gives the job's quota more room; the same for all jobs of a class, where
        nodes are usable."""
        before = self.trial.accounts.room(self.kind.account)
        known: dict[Hashable, bool] = {}
        found = []
        for victim in self.victims:
            running = victim.running
            unusable = self.trial.state.unusable(running.grants)
            alike = (running.kind.key, bool(unusable), unusable < running.units)
            if alike not in known:
                position = self.trial.charges
                self.trial.charge(running.kind, -running.units, -len(running.grants), -running.surplus, -unusable)
                known[alike] = self.trial.accounts.room(self.kind.account) > before
                self.trial.undo_charges(position)
            if known[alike]:
                found.append(victim)
        return found

    def _orders(self, victims: Sequence[Victim], short: bool) -> list[list[Victim]]:
        """Orders in which to take victims, the best by estimate first. The last order has all victims: those on nodes
        where the job can run first, since each one taken may remove the right to another, and at the end those that
        would leave their guarantee violated."""
        outgrows = self.guarantees.would_outgrow
        by_loss = sorted(victims, key=lambda one: (outgrows(one.running), not self._is_near(one), *_reluctance(one)))
        ways = NodeOrder(self.trial, self.kind, victims).orders()
        orders = [_flat(way, victims) for way in ways]
        if short:
            orders = [_with_rest(order, by_loss) for order in orders]
        return [*orders, by_loss]

    def _is_near(self, victim: Victim) -> bool:
        return any(self._near[grant.node] for grant in victim.running.grants)

    def _attempt(self, order: Sequence[Victim]) -> list[Victim] | None:
        """Takes victims in order until the job fits, then puts back unnecessary ones. None: it does not fit; nothing is
        taken then."""
        taken: list[Victim] = []
        fits, patience, tries = self._fits(), 1, 0
        for victim in order:
            if fits:
                break
            while victim.taken < len(victim.steps) and not fits:
                if not self._still_allowed(victim):
                    self.spared = True
                    break
                self._take(victim)
                if self.guarantees.broken():
                    self._put_back(victim)
                    self.spared = True
                    break
                taken.append(victim)
                tries += 1
                if tries >= patience or victim is order[-1]:
                    fits = self._fits()
                    tries, patience = 0, patience + 1
        if not fits and not self._fits():
            self.misplaced |= self._has_room()
            self._restore(_distinct(taken))
            return None
        needed: list[Victim] = []
        for victim in reversed(taken):
            self._put_back(victim)
            if not self._fits():
                self._take(victim)
                needed.append(victim)
        return needed

    def _still_allowed(self, victim: Victim) -> bool:
        whole = victim.steps[victim.taken] == len(victim.running.grants)
        right = self.rights.over(victim.running) if whole else self.rights.over_surplus(victim.running)
        if right:
            victim.right = right
        return bool(right)

    def _fits(self) -> bool:
        """Whether quotas hold, no job within a guarantee loses to one that is not, and the gang can be placed."""
        if self._is_short():
            return False
        if self.guarantees.outgrown():
            self.spared = True
            return False
        if int(self.trial.cluster.free[self._suits].sum()) < self.kind.least:
            return False
        if not self._leaves_limits(self.kind.least):
            return False
        mark = self.trial.cluster.mark()
        grants = self._place()
        self.trial.cluster.rollback(mark)
        return grants is not None and self._leaves_limits(units_of(grants))

    def _leaves_limits(self, units: int) -> bool:
        return self.trial.leaves_limits(self.kind, units, self.until, self.entitled, charged=True)

    def _is_short(self) -> bool:
        """Whether quotas leave less than the smallest devices that suit."""
        return self._room() < self.kind.least

    def _room(self) -> int:
        """Units that quotas leave the job, which is charged as if it got the largest devices that suit."""
        return self.trial.accounts.room(self.kind.account) + self.kind.amount

    def _has_room(self) -> bool:
        """Whether quotas hold and nodes have room for the gang, ignoring promises to others."""
        if self._is_short() or self.guarantees.outgrown():
            return False
        return int(self.trial.cluster.shape(self.kind.request).replicas(EVERYWHERE).sum()) >= self.kind.replicas

    def _place(self) -> tuple[Grant, ...] | None:
        request, replicas, tenant = self.kind.request, self.kind.replicas, self.kind.account.tenant
        return self.trial.place_within(request, replicas, tenant, self.until, self._room(), self.entitled)

    def _slice(self, victim: Victim, step: int) -> tuple[Grant, ...]:
        """The grants that a step takes."""
        grants = victim.running.grants
        before = victim.steps[step - 1] if step else 0
        return grants[len(grants) - victim.steps[step] : len(grants) - before]

    def _take(self, victim: Victim) -> None:
        grants = self._slice(victim, victim.taken)
        self.trial.give_back(grants, victim.running.job.request)
        self._charge(victim, grants, -1)
        victim.taken += 1
        if victim.killed:
            self.guarantees.kill(victim.running)

    def _put_back(self, victim: Victim) -> None:
        if victim.killed:
            self.guarantees.spare(victim.running)
        victim.taken -= 1
        grants = self._slice(victim, victim.taken)
        for grant in grants:
            self.trial.cluster.take(grant, victim.running.job.request)
        self._charge(victim, grants, 1)

    def _charge(self, victim: Victim, grants: tuple[Grant, ...], sign: int) -> None:
        """Charges (or uncharges) the victim's next step, which takes these grants."""
        running = victim.running
        first = len(running.grants) - victim.steps[victim.taken]
        beyond = grants[max(0, running.job.min_replicas - first) :]
        surplus = Surplus(sign * units_of(beyond), sign * len(beyond))
        unusable = sign * self.trial.state.unusable(grants)
        self.trial.charge(running.kind, sign * units_of(grants), sign * len(grants), surplus, unusable)

    def _restore(self, victims: Iterable[Victim]) -> None:
        for victim in victims:
            while victim.taken:
                self._put_back(victim)

    def _carry_out(self, way: _Way) -> Eviction | None:
        """Takes the victims and places the job; None if a random placement chooses differently now and fails."""
        for victim, steps, _ in way.victims:
            while victim.taken < steps:
                self._take(victim)
        grants = self._place()
        if grants is None:
            return None
        victims = []
        for victim, _, right in way.victims:
            running = victim.running
            self.trial.changed[running.job.job_id] = running.grants[: len(running.grants) - victim.removed]
            victims.append((running.job.job_id, victim.removed, right))
        self.trial.charge(self.kind, units_of(grants) - self.kind.amount, 0)
        return Eviction(tuple(victims), grants, way.loss)


def _reluctance(victim: Victim) -> tuple[bool, int, float, float, str]:
    """Sort key of victims: surplus first, then low priority, then little lost work, then the newest."""
    running = victim.running
    kills = victim.steps[0] == len(running.grants)
    return (kills, running.kind.priority, victim.lost, -running.started_at, running.job.job_id)


def _flat(way: Sequence[Choice], victims: Sequence[Victim]) -> list[Victim]:
    numbers = dict.fromkeys(number for choice in way for number in choice.victims)
    return [victims[number] for number in numbers]


def _with_rest(order: Sequence[Victim], others: Sequence[Victim]) -> list[Victim]:
    first = {id(victim) for victim in order}
    return [*order, *(victim for victim in others if id(victim) not in first)]


def _distinct(victims: Iterable[Victim]) -> list[Victim]:
    return list({id(victim): victim for victim in victims}.values())
