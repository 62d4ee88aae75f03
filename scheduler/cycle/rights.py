"""By which right one job may make another give way.

PriorityInQueue       a lower priority in the same queue; of the same tenant, where the queue is shared by fairness
ReclaimLentQuota      the tenant stays within what it is guaranteed, the other's branch of the tree borrows
ReclaimQueueGuarantee the same for queues
FairShare             both borrow in fair-share queues, and even without the victim the other branch's share is not
                      below the own one with the job in it
ElasticSurplus        replicas beyond an elastic job's smallest gang give way to anybody's smallest gang

Nobody who is within a guarantee gives way to somebody who is not. With that, and because every right is strict, two
jobs cannot evict each other in turn: what makes one of them the stronger does not depend on who of them runs.
Source of the tree rules: Kueue's hierarchical reclaim and fair-sharing preemption (S2-a).
"""

from __future__ import annotations

from dataclasses import dataclass

from scheduler.cycle.order import branch_share
from scheduler.cycle.state import JobClass, Running, beside
from scheduler.cycle.trial import Trial
from scheduler.quota.shares import Share
from scheduler.quota.tree import Branch

PRIORITY, RECLAIM, QUEUE = "PriorityInQueue", "ReclaimLentQuota", "ReclaimQueueGuarantee"
FAIR_SHARE, SURPLUS = "FairShare", "ElasticSurplus"
SHARED_BY_FAIRNESS = ("fair_share", "capacity")


@dataclass(frozen=True, slots=True)
class _Relation:
    """Of a job to others of one tenant and queue. lends_to_it, queue_lends_to_it: the other borrows what the job's
    tenant, queue is guaranteed.   protected: within a guarantee, while the job is not.   branch: theirs, below the
    fork.   own_share: of the job's branch with it, where shares are compared at all."""

    lends_to_it: bool
    queue_lends_to_it: bool
    protected: bool
    branch: Branch | None
    own_share: Share | None


class Rights:
    """Of a job of one class, whose units have been added to the trees already."""

    def __init__(self, trial: Trial, kind: JobClass) -> None:
        self.trial, self.state, self.kind = trial, trial.state, kind
        self.policies = trial.state.policies
        self.tree = self.state.accounts.governing(kind.account.pool)
        fitting = [branch.depth for branch in self.tree.path(kind.account.tenant) if not branch.borrowing]
        self._fits_down_to = max(fitting, default=0) if kind.amount else 0
        queue = self.state.accounts.queues.admit(kind.queue)
        self._queue_fits = bool(kind.amount) and not queue.borrowing
        self._relations: dict[tuple[str, str], _Relation] = {}
        self._at = -1

    def any(self) -> bool:
        """Whether anybody could have to give way at all: cheap, and to be asked first."""
        if self.state.elastic:
            return True
        policies, queue = self.policies, self.state.queues.get(self.kind.queue)
        if policies.reclaim and (self._fits_down_to or (self._queue_fits and queue is not None and queue.guaranteed)):
            return True
        if policies.preempt_for_fairness and self._policy(self.kind) == "fair_share":
            return True
        lower = self.state.lowest_priority(self.kind.queue) < self.kind.priority
        return (
            policies.preempt_by_priority
            and lower
            and any(self._outranks(next(iter(alike.values())).kind) for alike in self.state.running_by_class.values())
        )

    def over(self, victim: Running) -> str:
        """The right to the whole of a running job as things are now in the trial; '' = none."""
        other, policies = victim.kind, self.policies
        relation = self._relation(other)
        if policies.reclaim and relation.lends_to_it:
            return RECLAIM
        if relation.protected:
            return ""
        if policies.reclaim and relation.queue_lends_to_it:
            return QUEUE
        if policies.preempt_by_priority and self._outranks(other):
            return PRIORITY
        if policies.preempt_for_fairness and relation.own_share is not None and self._is_fairer(relation, victim):
            return FAIR_SHARE
        return ""

    def over_surplus(self, victim: Running) -> str:
        """The right to what an elastic job holds beyond its smallest gang."""
        return "" if self._relation(victim.kind).protected else SURPLUS

    def _relation(self, other: JobClass) -> _Relation:
        """To jobs of a tenant in a queue: computed once while the trees do not change."""
        if self._at != self.trial.changes:
            self._relations.clear()
            self._at = self.trial.changes
        key = (other.account.tenant, other.queue)
        found = self._relations.get(key)
        if found is None:
            found = self._relations[key] = self._relate(other)
        return found

    def _relate(self, other: JobClass) -> _Relation:
        tenant, same_queue = other.account.tenant, other.queue == self.kind.queue
        self.tree.admit(tenant)
        fork = self.tree.fork(self.kind.account.tenant, tenant)
        over_its_queue = not same_queue and self.state.accounts.queues.admit(other.queue).borrowing
        lends, protected, own_share = False, False, None
        if fork is not None:
            mine, theirs = fork
            fits = self._fits_down_to >= mine.depth
            borrows = all(branch.borrowing for branch in self.tree.path(tenant)[theirs.depth - 1 :])
            lends, protected = fits and borrows, not fits and not borrows
            if borrows and mine.borrowing and self._policy(self.kind) == self._policy(other) == "fair_share":
                asked = beside(self.kind.request, 0, self.kind.replicas)
                own_share = branch_share(self.state, self.tree, mine, asked)
        protected |= not same_queue and not self._queue_fits and not over_its_queue
        return _Relation(lends, self._queue_fits and over_its_queue, protected, fork and fork[1], own_share)

    def _outranks(self, other: JobClass) -> bool:
        if other.queue != self.kind.queue or other.priority >= self.kind.priority:
            return False
        return self._policy(self.kind) not in SHARED_BY_FAIRNESS or other.account.tenant == self.kind.account.tenant

    def _is_fairer(self, relation: _Relation, victim: Running) -> bool:
        theirs = relation.branch
        if theirs is None or relation.own_share is None:
            return False
        gone = self.tree.reaches(victim.kind.account.tenant, -victim.units, theirs)
        without = branch_share(self.state, self.tree, theirs, beside(victim.job.request, gone, -len(victim.grants)))
        return relation.own_share <= without

    def _policy(self, kind: JobClass) -> str:
        queue = self.state.queues.get(kind.queue)
        return queue.policy if queue else "fifo"
