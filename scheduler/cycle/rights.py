"""The rights by which one job may preempt another.

PriorityInQueue       a lower priority in the same queue; of the same tenant, where the queue is shared by fairness
PriorityInTenant      the same in another queue, of the same tenant
PriorityAcrossQueues  the same in another queue, of another tenant that borrows
ReclaimLentQuota      the tenant stays within what it is guaranteed, the other's branch of the tree borrows
ReclaimQueueGuarantee the same for queues
FairShare             both borrow in fair-share queues, and the victim's branch, even without the victim, has no lower
                      share than the job's branch with the job; both by the smallest gangs of elastic jobs
QueueFairShare        the same for queues that share by fairness
ElasticSurplus        replicas beyond an elastic job's smallest gang give way to anybody's smallest gang

The site, or the queue (`preempts`), sets the scope of priority. A job within a guarantee is never preempted by one that
is not, and across queues priority and fairness take only borrowed capacity.

Because of this, and because every right is strict, two jobs cannot evict each other in turn: which one is stronger does
not depend on which one runs, nor on how far elastic jobs have grown, since surplus counts neither for guarantees nor in
comparisons of shares. Three or more jobs could do so in turn, if tenants and queues have guarantees; so no job is taken
if a victim would then be within a guarantee and could take the place back, nor, by a job within no guarantee, if a
pending job could.

Only one measure applies between two sides: priority crosses queues only if no parent in between shares by fairness, and
reaches other tenants' jobs only if neither queue does; if two queues share by fairness, their tenants' shares are not
compared.
Source of the tree rules: Kueue's hierarchical reclaim and fair-sharing preemption (S2-a).
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from scheduler.cycle.order import branch_share
from scheduler.cycle.queues import SHARED_BY_FAIRNESS, queue_share
from scheduler.cycle.state import FOREVER, JobClass, Running, amount_of
from scheduler.cycle.trial import Trial
from scheduler.quota.shares import Share
from scheduler.quota.tree import Branch, QuotaTree

PRIORITY, PRIORITY_IN_TENANT, PRIORITY_ACROSS = "PriorityInQueue", "PriorityInTenant", "PriorityAcrossQueues"
RECLAIM, QUEUE = "ReclaimLentQuota", "ReclaimQueueGuarantee"
FAIR_SHARE, QUEUE_FAIR_SHARE, SURPLUS = "FairShare", "QueueFairShare", "ElasticSurplus"
BY_PRIORITY = (PRIORITY, PRIORITY_IN_TENANT, PRIORITY_ACROSS)


@dataclass(frozen=True, slots=True)
class _Side:
    """The two branches where two paths of a tree fork.   fits: with the job, its branch stays within a guarantee.
    borrows: the other branch does not."""

    mine: Branch
    theirs: Branch
    fits: bool
    borrows: bool

    @property
    def lends(self) -> bool:
        return self.fits and self.borrows

    @property
    def protects(self) -> bool:
        """Whether the other job is within a guarantee, and the preemptor is not."""
        return not self.fits and not self.borrows


@dataclass(frozen=True, slots=True)
class _Relation:
    """The relation of a job to others of one tenant, pool and queue.

    lends_to_it, queue_lends_to_it: the other borrows what the job's tenant, or queue, is guaranteed.   protected: the
    other is within a guarantee, and the job is not.   priority: the right that a higher priority gives here, or ''.
    own_share, own_queue_share: of the job's branch with the job, by smallest gangs, if shares are compared.   branch,
    queue: the others' branches below the fork.
    """

    lends_to_it: bool
    queue_lends_to_it: bool
    protected: bool
    priority: str
    branch: Branch | None
    own_share: Share | None
    queue: Branch | None
    own_queue_share: Share | None


class _Asker:
    """A request for a smallest gang; jobs of the same account, queue, size and priority are equal."""

    __slots__ = ("key", "kind", "queue", "tenant", "units")

    def __init__(self, kind: JobClass) -> None:
        self.kind, self.tenant, self.queue, self.units = kind, kind.account.tenant, kind.queue, kind.amount
        self.key = (kind.account, kind.queue, kind.amount, kind.priority)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Asker) and self.key == other.key

    def __hash__(self) -> int:
        return hash(self.key)


class Guarantees:
    """Whether guarantees still hold after a preemption: with a set of victims gone and the job in place.

    Created before the job's units are charged; charges them. Checks the tenants' trees, each for its own pool, and the
    queues'. A job within its tenant's guarantee ignores guarantees of queues.
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
        """Notes, before any victim is taken, which pending jobs are within a guarantee: of each tenant and queue, the
        smallest job that could run where this one can. A job that reclaims its guarantee ignores them: they may find
        another place, and it would wait as long as they do."""
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
        """Whether the job takes a tenant or queue beyond its guarantee and has victims of it: these would be within the
        guarantee again as soon as the job is gone."""
        return any(killed and branch.borrowing for branch, killed in self._own.items())

    def would_outgrow(self, victim: Running) -> bool:
        """Whether `outgrown` would hold with this victim gone as well."""
        return any(branch.borrowing for branch in self._covering(victim.kind))

    def broken(self) -> bool:
        """Whether, with all victims gone, one of them would be within a guarantee that the job is not within, or could
        preempt the job; or a pending job that was within no guarantee before could reclaim it."""
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
        """The right that another request would have over the job, in the trial's current state; '' = none."""
        position = self._trial.charges
        self._trial.charge(asker.kind, asker.units, asker.kind.replicas)
        right = Rights(self._trial, asker.kind).firm(self._kind)
        self._trial.undo_charges(position)
        return right

    def _within(self, asker: _Asker) -> tuple[bool, bool]:
        """Whether a request would be within its tenant's guarantee, and within its queue's, in the trial's current
        state."""
        return (
            self._tenants_of(asker.kind).within_quota(asker.tenant, asker.units),
            self._queues.within_quota(asker.queue, asker.units),
        )

    def _tops(self, asker: _Asker) -> tuple[Branch, ...]:
        """The top branches of its paths, one per tree in which it is charged; other branches do not affect it."""
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
        """Branches that a class shares with the job, and that were within their guarantee before it."""
        if not self._covered:
            return []
        paths = (tree.path(name) for tree, name in self._accounts.trees(kind.account))
        return [branch for path in paths for branch in path if branch in self._covered]


class Rights:
    """The rights of a job that is charged in the trial already."""

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
        """Whether there may be any victim at all; cheap, so call it first."""
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
        """The lowest effective priority of the running jobs that priority applies to."""
        if self.preempts == "never":
            return FOREVER
        reached = (self.kind.queue,) if self.preempts == "queue" else self.state.priorities
        lowest = (self.state.lowest_priority(name) + self.queues.priority(name) for name in reached)
        return min(lowest, default=FOREVER)

    def over(self, victim: Running) -> str:
        """The right to preempt a running job, in the trial's current state; '' = none."""
        right, relation = self.firm(victim.kind), self._relation(victim.kind)
        if right or relation.protected or not self.policies.preempt_for_fairness:
            return right
        if self._is_fairer_of_queues(relation, victim):
            return QUEUE_FAIR_SHARE
        return FAIR_SHARE if self._is_fairer(relation, victim) else ""

    def firm(self, other: JobClass) -> str:
        """The right by guarantees or priority, which do not depend on the amount taken; '' = none."""
        relation, reclaim = self._relation(other), self.policies.reclaim
        if reclaim and relation.lends_to_it:
            return RECLAIM
        if relation.protected:
            return ""
        if reclaim and relation.queue_lends_to_it:
            return QUEUE
        return relation.priority if relation.priority and self._is_above(other) else ""

    def over_surplus(self, victim: Running) -> str:
        """The right to an elastic job's surplus; a right to the whole job includes it."""
        return SURPLUS if not self._relation(victim.kind).protected or self.firm(victim.kind) == RECLAIM else ""

    def _relation(self, other: JobClass) -> _Relation:
        """The relation to jobs of a tenant and pool in a queue; cached until the trees change."""
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
        # A pool's guarantees do not apply to jobs of other pools, which may hold what a queue, or all pools, lack.
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
        """The right that a higher priority gives over others of that tenant and queue; '' = none.   borrowed: whether
        they borrow, or have the job's own tenant."""
        if not self._reaches(other):
            return ""
        if other.queue == self.kind.queue:
            return PRIORITY
        if not borrowed:
            return ""
        return PRIORITY_IN_TENANT if other.account.tenant == self.kind.account.tenant else PRIORITY_ACROSS

    def _reaches(self, other: JobClass) -> bool:
        """Whether the settings let priority apply to others of that tenant and queue, guarantees aside."""
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
        """How a queue and its siblings take turns."""
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
        less = amount_of(victim.job.request, gone, surplus.replicas - len(victim.grants))
        without = branch_share(self.state, self.tree, theirs, less, firm=True)
        return relation.own_share <= without

    def _policy(self, queue: str) -> str:
        return self.queues.policy(queue)


def _within(tree: QuotaTree, name: str) -> int:
    """The depth down to which a path is within its guarantees; 0: not at all."""
    for branch in reversed(tree.path(name)):
        if not branch.borrowing:
            return branch.depth
    return 0


def _side(tree: QuotaTree, one: str, other: str, fits_down_to: int) -> _Side | None:
    """The fork of two paths; None if one is part of the other."""
    fork = tree.fork(one, other)
    if fork is None:
        return None
    mine, theirs = fork
    borrows = all(branch.borrowing for branch in tree.path(other)[theirs.depth - 1 :])
    return _Side(mine, theirs, fits_down_to >= mine.depth, borrows)
