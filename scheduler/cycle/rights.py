"""The rights by which one job may preempt another.

PriorityInQueue       a lower priority in the same queue; of the same tenant, where the queue is shared by fairness
PriorityInTenant      the same in another queue, of the same tenant
PriorityAcrossQueues  the same in another queue, of another tenant that borrows
ReclaimLentQuota      the tenant stays within what it is guaranteed, the other's branch of the tree borrows
ReclaimQueueGuarantee the same for queues
FairShare             both borrow in fair-share queues, and even without the victim the other branch's share is not
                      below the own one with the job in it, both by the smallest gangs of elastic jobs
QueueFairShare        the same for queues that share by fairness
ElasticSurplus        replicas beyond an elastic job's smallest gang give way to anybody's smallest gang

Whose priority counts where is the site's to say, or the queue's (`preempts`). Nobody who is within a guarantee gives
way to somebody who is not, and from one queue to another priority and fairness take only what is borrowed.

With that, and because every right is strict, no two jobs can evict each other in turn: what makes one of them the
stronger does not depend on who of them runs, nor on how far elastic jobs have grown, since their surplus counts for no
guarantee and in no comparison of shares. Nor do three or more, who might where tenants and queues have guarantees:
nobody is taken where a victim would come to be within a guarantee and could take the place, nor, by who is within none,
where who waits could.

Between two sides only one measure decides: priority crosses from one queue to another only where no parent on the way
shares by fairness, and to another tenant's jobs where neither queue does; where two queues share by fairness, their
tenants' shares are not compared.
Source of the tree rules: Kueue's hierarchical reclaim and fair-sharing preemption (S2-a).
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from scheduler.cycle.order import branch_share
from scheduler.cycle.queues import SHARED_BY_FAIRNESS, queue_share
from scheduler.cycle.state import FOREVER, JobClass, Running, beside
from scheduler.cycle.trial import Trial
from scheduler.quota.shares import Share
from scheduler.quota.tree import Branch, QuotaTree

PRIORITY, PRIORITY_IN_TENANT, PRIORITY_ACROSS = "PriorityInQueue", "PriorityInTenant", "PriorityAcrossQueues"
RECLAIM, QUEUE = "ReclaimLentQuota", "ReclaimQueueGuarantee"
FAIR_SHARE, QUEUE_FAIR_SHARE, SURPLUS = "FairShare", "QueueFairShare", "ElasticSurplus"
BY_PRIORITY = (PRIORITY, PRIORITY_IN_TENANT, PRIORITY_ACROSS)


@dataclass(frozen=True, slots=True)
class _Side:
    """Where two paths of a tree part. fits: with the job, its side stays within a guarantee.   borrows: the other's
    does not."""

    mine: Branch
    theirs: Branch
    fits: bool
    borrows: bool

    @property
    def lends(self) -> bool:
        return self.fits and self.borrows

    @property
    def protects(self) -> bool:
        """The other is within a guarantee, while the job is not."""
        return not self.fits and not self.borrows


@dataclass(frozen=True, slots=True)
class _Relation:
    """Of a job to others of one tenant, pool and queue. lends_to_it, queue_lends_to_it: the other borrows what the
    job's tenant, queue is guaranteed. protected: within a guarantee, while the job is not. priority: the right that
    a higher priority is here, or ''. own_share, own_queue_share: of the job's branch with it, by smallest gangs, where
    shares are compared at all; branch, queue: theirs, below the fork."""

    lends_to_it: bool
    queue_lends_to_it: bool
    protected: bool
    priority: str
    branch: Branch | None
    own_share: Share | None
    queue: Branch | None
    own_queue_share: Share | None


class _Asker:
    """Who asks for a smallest gang: those of one account, queue, size and priority are alike."""

    __slots__ = ("key", "kind", "queue", "tenant", "units")

    def __init__(self, kind: JobClass) -> None:
        self.kind, self.tenant, self.queue, self.units = kind, kind.account.tenant, kind.queue, kind.amount
        self.key = (kind.account, kind.queue, kind.amount, kind.priority)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Asker) and self.key == other.key

    def __hash__(self) -> int:
        return hash(self.key)


class Guarantees:
    """What a set of victims leaves of guarantees, once they are gone and the job is there. Made before the job's units
    are added to the trees, and adds them.

    Of the trees of tenants, each in its own pool's, and of queues. Who is within its tenant's guarantee need not mind
    those of queues.
    """

    def __init__(self, trial: Trial, kind: JobClass) -> None:
        accounts, account = trial.accounts, kind.account
        tenants, queues = accounts.governing(account.pool), accounts.queues
        tenants.admit(account.tenant)
        queues.admit(kind.queue)
        before = [branch for branch in tenants.path(account.tenant) if not branch.borrowing]
        of_queues = [branch for branch in queues.path(kind.queue) if not branch.borrowing]
        self.entitled = accounts.covers(account, kind.amount)
        trial.charge(kind, kind.amount, kind.replicas)
        self._trial, self._kind, self._accounts, self._queues = trial, kind, accounts, queues
        self._covered = {*before, *(of_queues if not self.entitled else ())}
        self._minds_queues = not self.entitled and not queues.within_quota(kind.queue)
        self._own: Counter[Branch] = Counter()
        self._killed: Counter[_Asker] = Counter()
        self._waiting: dict[Branch, list[tuple[_Asker, tuple[bool, bool]]]] = {}

    def watch(self) -> None:
        """Notes, before anybody is taken, of which guarantees those who wait are within: of each tenant and queue the
        smallest job that could run where this one can. Who calls back a guarantee need not mind them: they may find
        another place, and it would wait for as long as they do."""
        if self.entitled:
            return
        cluster = self._trial.cluster
        suits = cluster.shape(self._kind.request).suits
        smallest: dict[tuple[str, str, str], _Asker] = {}
        for one in self._trial.state.waiting_classes():
            key = (one.account.tenant, one.account.pool, one.queue)
            if one is self._kind or not one.amount or (key in smallest and one.amount >= smallest[key].units):
                continue
            shape = cluster.shape(one.request)
            if shape.ever_fits and (shape.suits & suits).any():
                smallest[key] = _Asker(one)
        for asker in smallest.values():
            for branch in self._tops(asker):
                self._waiting.setdefault(branch, []).append((asker, self._within(asker)))

    def kill(self, victim: Running) -> None:
        self._count(victim, 1)

    def spare(self, victim: Running) -> None:
        self._count(victim, -1)

    def outgrown(self) -> bool:
        """Whether tenants or queues who were within their guarantee are not any more, and jobs of theirs have gone for
        it: those would be within it again as soon as this one is gone."""
        return any(killed and branch.borrowing for branch, killed in self._own.items())

    def would_outgrow(self, victim: Running) -> bool:
        """Whether `outgrown` would hold with the victim gone, as things are now."""
        return any(branch.borrowing for branch in self._covering(victim.kind))

    def broken(self) -> bool:
        """Whether one of the victims, with all of them gone, would be within a guarantee and the job is not, or would
        have a right over it; or somebody who waits, and was not within a guarantee before, could call it back."""
        touched: set[Branch] = set()
        for asker, killed in self._killed.items():
            if killed:
                if self._comes_back(asker):
                    return True
                touched.update(self._tops(asker))
        return any(
            any(now and not was for now, was in zip(self._within(asker), before, strict=True))
            and self._right_of(asker) in (RECLAIM, QUEUE)
            for branch in touched
            for asker, before in self._waiting.get(branch, ())
        )

    def _comes_back(self, victim: _Asker) -> bool:
        of_tenant, of_queue = self._within(victim)
        if self.entitled:
            return of_tenant and bool(self._right_of(victim))
        return of_tenant or (self._minds_queues and of_queue)

    def _right_of(self, asker: _Asker) -> str:
        """The other's over the job, if it asked in the trial as things are now."""
        position = self._trial.charges
        self._trial.charge(asker.kind, asker.units, asker.kind.replicas)
        right = Rights(self._trial, asker.kind).firm(self._kind)
        self._trial.undo_charges(position)
        return right

    def _within(self, asker: _Asker) -> tuple[bool, bool]:
        """Whether it would be within its tenant's guarantee, and its queue's, as things are now in the trial."""
        return (
            self._tenants_of(asker.kind).within_quota(asker.tenant, asker.units),
            self._queues.within_quota(asker.queue, asker.units),
        )

    def _tops(self, asker: _Asker) -> tuple[Branch, ...]:
        """Of which other branches' use is nothing to it: in each tree in which it is charged."""
        return tuple(tree.path(name)[0] for tree, name in self._accounts.trees(asker.kind.account))

    def _tenants_of(self, kind: JobClass) -> QuotaTree:
        tree = self._accounts.governing(kind.account.pool)
        tree.admit(kind.account.tenant)
        return tree

    def _count(self, victim: Running, sign: int) -> None:
        self._killed[_Asker(victim.kind)] += sign
        for branch in self._covering(victim.kind):
            self._own[branch] += sign

    def _covering(self, kind: JobClass) -> list[Branch]:
        """Those on the paths of a class that were within their guarantee before the job, which is theirs too."""
        if not self._covered:
            return []
        paths = (tree.path(name) for tree, name in self._accounts.trees(kind.account))
        return [branch for path in paths for branch in path if branch in self._covered]


class Rights:
    """Of a job of one class, which has been charged in the trial already."""

    def __init__(self, trial: Trial, kind: JobClass) -> None:
        self.trial, self.state, self.kind = trial, trial.state, kind
        self.policies, self.queues = trial.state.policies, trial.state.queues
        self.tree = self.state.accounts.governing(kind.account.pool)
        self._fits_down_to = _within(self.tree, kind.account.tenant) if kind.amount else 0
        self.state.accounts.queues.admit(kind.queue)
        self._queue_fits_down_to = _within(self.state.accounts.queues, kind.queue) if kind.amount else 0
        queue = self.queues.get(kind.queue)
        own = queue.preempts if queue is not None else None
        self.preempts = self.policies.preempt_by_priority if own is None else own
        self._effective = self.state.effective_priority(kind)
        self._relations: dict[tuple[str, str, str], _Relation] = {}
        self._at = -1

    def any(self) -> bool:
        """Whether anybody could have to give way at all: cheap, and to be asked first."""
        if self.state.elastic:
            return True
        policies = self.policies
        if policies.reclaim and (self._fits_down_to or self._queue_fits_down_to):
            return True
        if policies.preempt_for_fairness and (
            self._policy(self.kind.queue) == "fair_share" or self._queues_may_share_by_fairness()
        ):
            return True
        return self._lowest_reached() + policies.priority_difference <= self._effective and any(
            self._outranks(next(iter(alike.values())).kind) for alike in self.state.running_by_class.values()
        )

    def _lowest_reached(self) -> float:
        """No running job that priority may count over has a lower effective one."""
        if self.preempts == "never":
            return FOREVER
        reached = (self.kind.queue,) if self.preempts == "queue" else self.state.priorities
        lowest = (self.state.lowest_priority(name) + self.queues.priority(name) for name in reached)
        return min(lowest, default=FOREVER)

    def over(self, victim: Running) -> str:
        """The right to the whole of a running job as things are now in the trial; '' = none."""
        right, relation = self.firm(victim.kind), self._relation(victim.kind)
        if right or relation.protected or not self.policies.preempt_for_fairness:
            return right
        if self._is_fairer_of_queues(relation, victim):
            return QUEUE_FAIR_SHARE
        return FAIR_SHARE if self._is_fairer(relation, victim) else ""

    def firm(self, other: JobClass) -> str:
        """The same by guarantees and priority, which do not ask how much is taken."""
        relation, reclaim = self._relation(other), self.policies.reclaim
        if reclaim and relation.lends_to_it:
            return RECLAIM
        if relation.protected:
            return ""
        if reclaim and relation.queue_lends_to_it:
            return QUEUE
        return relation.priority if relation.priority and self._is_above(other) else ""

    def over_surplus(self, victim: Running) -> str:
        """The right to what an elastic job holds beyond its smallest gang: whoever may reclaim all of it has it too."""
        return SURPLUS if not self._relation(victim.kind).protected or self.firm(victim.kind) == RECLAIM else ""

    def _relation(self, other: JobClass) -> _Relation:
        """To jobs of a tenant and pool in a queue: computed once while the trees do not change."""
        if self._at != self.trial.changes:
            self._relations.clear()
            self._at = self.trial.changes
        key = (other.account.tenant, other.account.pool, other.queue)
        found = self._relations.get(key)
        if found is None:
            found = self._relations[key] = self._relate(other)
        return found

    def _relate(self, other: JobClass) -> _Relation:
        account, queues = self.kind.account, self.state.accounts.queues
        self.tree.admit(other.account.tenant)
        queues.admit(other.queue)
        theirs = self.state.accounts.governing(other.account.pool)
        theirs.admit(other.account.tenant)
        # A pool's guarantees are nothing to jobs of other pools, who may hold what a queue or all pools together lack.
        apart = theirs is not self.tree and self.tree is not self.state.accounts.tenants[""]
        tenants = None if apart else _side(self.tree, account.tenant, other.account.tenant, self._fits_down_to)
        between = _side(queues, self.kind.queue, other.queue, self._queue_fits_down_to)
        by_weight = between is not None and self._share_by_fairness(between)
        if apart:
            borrows = all(branch.borrowing for branch in theirs.path(other.account.tenant))
        elif tenants is not None:
            borrows = tenants.borrows
        else:
            borrows = other.account.tenant == account.tenant or self.tree[other.account.tenant].borrowing
        own_share = own_queue_share = None
        if between is not None and by_weight and borrows and between.borrows and between.mine.borrowing:
            own_queue_share = queue_share(queues, between.mine, firm=True)
        fair = not by_weight and self._policy(self.kind.queue) == self._policy(other.queue) == "fair_share"
        if tenants is not None and fair and tenants.borrows and tenants.mine.borrowing:
            own_share = branch_share(self.state, self.tree, tenants.mine, firm=True)
        return _Relation(
            tenants is not None and tenants.lends,
            between is not None and between.lends,
            any(side is not None and side.protects for side in (tenants, between))
            or (apart and not borrows and not self._fits_down_to),
            self._by_priority(other, borrows and (between is None or between.borrows)),
            None if tenants is None else tenants.theirs,
            own_share,
            None if between is None else between.theirs,
            own_queue_share,
        )

    def _by_priority(self, other: JobClass, borrowed: bool) -> str:
        """The right that a higher priority is over others of that tenant and queue; '' = none. borrowed: whether what
        they hold is, or their tenant is the job's own."""
        if not self._reaches(other):
            return ""
        if other.queue == self.kind.queue:
            return PRIORITY
        if not borrowed:
            return ""
        return PRIORITY_IN_TENANT if other.account.tenant == self.kind.account.tenant else PRIORITY_ACROSS

    def _reaches(self, other: JobClass) -> bool:
        """Whether the site lets priority count over others of that tenant and queue, whatever is guaranteed."""
        preempts, queue = self.preempts, self.kind.queue
        same_queue, same_tenant = other.queue == queue, other.account.tenant == self.kind.account.tenant
        if isinstance(preempts, tuple):
            reached = any(self.queues.within(other.queue, name) for name in preempts)
        else:
            reached = {"never": False, "queue": same_queue, "tenant": same_tenant, "all": True}[preempts]
        shared = any(self._policy(name) in SHARED_BY_FAIRNESS for name in (queue, other.queue))
        if not reached or (shared and not same_tenant):
            return False
        return same_queue or self.queues.between(queue, other.queue) is None

    def _outranks(self, other: JobClass) -> bool:
        return self._is_above(other) and self._reaches(other)

    def _is_above(self, other: JobClass) -> bool:
        least = self.policies.priority_difference
        return self._effective - self.state.effective_priority(other) >= least

    def _share_by_fairness(self, between: _Side) -> bool:
        return self._policy_above(between.mine) in SHARED_BY_FAIRNESS

    def _queues_may_share_by_fairness(self) -> bool:
        if not self.queues.some_share_by_fairness:
            return False
        path = self.state.accounts.queues.path(self.kind.queue)
        return any(self._policy_above(branch) in SHARED_BY_FAIRNESS for branch in path)

    def _policy_above(self, branch: Branch) -> str:
        """How a queue and those beside it take turns."""
        return self._policy(branch.parent.name if branch.parent is not None else "")

    def _is_fairer_of_queues(self, relation: _Relation, victim: Running) -> bool:
        theirs, tree = relation.queue, self.state.accounts.queues
        if theirs is None or relation.own_queue_share is None:
            return False
        gone = tree.reaches(victim.kind.queue, victim.surplus.units - victim.units, theirs, firm=True)
        return relation.own_queue_share <= queue_share(tree, theirs, gone, firm=True)

    def _is_fairer(self, relation: _Relation, victim: Running) -> bool:
        theirs = relation.branch
        if theirs is None or relation.own_share is None:
            return False
        surplus = victim.surplus
        gone = self.tree.reaches(victim.kind.account.tenant, surplus.units - victim.units, theirs, firm=True)
        less = beside(victim.job.request, gone, surplus.replicas - len(victim.grants))
        without = branch_share(self.state, self.tree, theirs, less, firm=True)
        return relation.own_share <= without

    def _policy(self, queue: str) -> str:
        return self.queues.policy(queue)


def _within(tree: QuotaTree, name: str) -> int:
    """Down to which depth a path stays within what is guaranteed; 0: nowhere."""
    for branch in reversed(tree.path(name)):
        if not branch.borrowing:
            return branch.depth
    return 0


def _side(tree: QuotaTree, one: str, other: str, fits_down_to: int) -> _Side | None:
    """Where the paths of two part; None where one is on the other's."""
    fork = tree.fork(one, other)
    if fork is None:
        return None
    mine, theirs = fork
    borrows = all(branch.borrowing for branch in tree.path(other)[theirs.depth - 1 :])
    return _Side(mine, theirs, fits_down_to >= mine.depth, borrows)
