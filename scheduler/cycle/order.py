"""Which job is next: first which queue, then which job in it by the queue's policy. Recomputed after every start.

Jobs within their tenant's guarantee always come before jobs that would borrow.

Between queues, level by level down their tree: queues below their guarantee first, the emptiest of them before others;
then by the parent's (or the site's) setting, the higher priority or the lowest weighted share with the request added;
then the oldest head.

Within a queue: FIFO by age; PRIORITY by priority, then age; FAIR_SHARE and CAPACITY choose a tenant first, then go by
priority and age. FAIR_SHARE chooses the lowest dominant share with the request added (Kueue's tournament down the
tree); if the queue has a half-life, the lowest part of the fair share that past usage leaves (KAI's time-based one).
CAPACITY chooses the tenant with the least part of its runtime quota (Koordinator's).
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction

from scheduler.cycle.accounts import NOTHING, Account, Amount
from scheduler.cycle.queues import SHARED_BY_FAIRNESS, Queues, queue_share
from scheduler.cycle.state import JobClass, State, amount_of
from scheduler.cycle.tournament import Judge, Key, Tournament
from scheduler.cycle.trial import Trial
from scheduler.model import Queue
from scheduler.quota.shares import Claim, Share, dominant_share, runtime_quota, tree_shares
from scheduler.quota.tree import Branch, QuotaTree


class Line:
    """A queue's classes in this cycle, without those that were found blocked.

    Jobs within their tenant's guarantee come before those that would borrow, since a borrower that started first could
    be preempted at once. So there are two tournaments of tenants, and borrowers' is used only when the other is empty.
    """

    def __init__(self, queue: Queue, trial: Trial, fairness: Fairness, wanted: Container[int]) -> None:
        self.queue, self._trial, self._fairness = queue, trial, fairness
        self._taken: dict[int, int] = {}
        self._heaps: dict[str, list[tuple[Key, int, JobClass]]] = {}
        self._serial = 0
        self._current, self._chosen_at = "", -1
        self._by_tenant = queue.policy in SHARED_BY_FAIRNESS
        if self._by_tenant:
            judge = fairness.judge(queue)
            self._within: Tournament[JobClass] = Tournament(judge)
            self._beyond: Tournament[JobClass] = Tournament(judge)
        self._below: dict[str, set[str]] = {}
        self._changed: set[str] = set()
        self._charges = 0
        for kind in trial.state.lines.get(queue.name, {}).values():
            if id(kind) in wanted:
                self._push(kind.account.tenant if self._by_tenant else "", kind)

    def head(self) -> tuple[JobClass, str] | None:
        """The class that is next, and its first job. The choice stands until a job starts or the line changes."""
        if self._chosen_at != len(self._trial.started):
            tenant = self._chosen() if self._by_tenant else self._only()
            if tenant is None:
                return None
            self._current, self._chosen_at = tenant, len(self._trial.started)
        kind = self._heaps[self._current][0][2]
        return kind, kind.jobs[self._taken[id(kind)]][1]

    @property
    def borrows(self) -> bool:
        """Whether the head would borrow."""
        return bool(self._heaps[self._current][0][0][0])

    def next(self) -> None:
        """Takes the head out: the next job of its class takes its place."""
        self._chosen_at = -1
        kind = heapq.heappop(self._heaps[self._current])[2]
        self._taken[id(kind)] += 1
        self._changed.add(self._current)
        self._push(self._current, kind)

    def blocked(self) -> None:
        """Leaves the head's class out for the rest of the cycle."""
        self._chosen_at = -1
        self._changed.add(self._current)
        heapq.heappop(self._heaps[self._current])

    def close(self) -> list[JobClass]:
        """Leaves out all classes that the blocked head keeps from being tried, and returns them."""
        self._chosen_at = -1
        self._changed.add(self._current)
        closed = [kind for *_, kind in sorted(self._heaps[self._current])]
        self._heaps[self._current].clear()
        return closed

    def _only(self) -> str | None:
        """The head's tenant, in a queue whose policy ignores tenants."""
        return "" if self._top("") is not None else None

    def _chosen(self) -> str | None:
        """The tenant whose head is next; None if there is none."""
        if self._charges != self._trial.charges:
            self._take_in_charges()
        for tenant in self._changed:
            self._seat(tenant)
        self._changed.clear()
        asked = self._within if self._within else self._beyond
        if len(self._within) + len(self._beyond) < 2:
            return asked.anybody()
        return asked.winner().account.tenant

    def _take_in_charges(self) -> None:
        """Updates tenants that were charged since: their rank, and whether those of their branch would borrow now."""
        for account in self._trial.charged_since(self._charges):
            path = self._fairness.charged(account)
            self._within.charged(path)
            self._beyond.charged(path)
            for name in path:
                self._changed |= {tenant for tenant in self._below.get(name, ()) if tenant in self._within}
        self._charges = self._trial.charges

    def _seat(self, tenant: str) -> None:
        """Enters the tenant's head in the tournament that it belongs to now."""
        kind = self._top(tenant)
        if kind is not None:
            self._below.setdefault(self._fairness.path(kind)[0].name, set()).add(tenant)
        borrows = kind is not None and self._heaps[tenant][0][0][0]
        self._within.put(tenant, None if borrows else kind)
        self._beyond.put(tenant, kind if borrows else None)

    def _top(self, tenant: str) -> JobClass | None:
        heap = self._heaps.get(tenant)
        while heap and not heap[0][0][0] and self._borrows(heap[0][2]):  # it did not when it was put there
            self._push(tenant, heapq.heappop(heap)[2])
        return heap[0][2] if heap else None

    def _borrows(self, kind: JobClass) -> bool:
        return not self._trial.accounts.covers(kind.account, kind.amount)

    def _push(self, tenant: str, kind: JobClass) -> None:
        at, started = self._taken.get(id(kind), 0), self._trial.started_ids
        while at < len(kind.jobs) and kind.jobs[at][1] in started:
            at += 1
        self._taken[id(kind)] = at
        if at == len(kind.jobs):
            return
        age = kind.jobs[at]
        rank = 0 if self.queue.policy == "fifo" else -kind.priority
        key = (self._borrows(kind), rank, *age)
        self._serial += 1
        heapq.heappush(self._heaps.setdefault(tenant, []), (key, self._serial, kind))
        self._changed.add(tenant)


@dataclass(frozen=True, slots=True, eq=False)
class _Head:
    """A queue's head.   borrows: whether its tenant would borrow."""

    line: Line
    kind: JobClass
    borrows: bool
    submitted_at: float


@dataclass(frozen=True, slots=True)
class _Turns(Judge[_Head]):
    """How queues' heads are compared."""

    queues: Queues
    tree: QuotaTree

    def path(self, head: _Head) -> Sequence[Branch]:
        return self.tree.path(head.kind.queue)

    def key(self, branch: Branch, head: _Head) -> Key:
        assert branch.parent is not None
        held, guaranteed = branch.held, branch.subtree
        short = held < guaranteed
        filled = Fraction(held, guaranteed) if short else 1
        turn: float | Share = 0
        match self.queues.policy(branch.parent.name):
            case "fair_share":
                turn = queue_share(self.tree, branch, head.kind.amount)
            case "priority":
                turn = -self.queues[branch.name].priority if branch.name in self.queues else 0
        return (head.borrows, not short, filled, turn, head.submitted_at, head.kind.queue)


class Lines:
    """The heads of all queues in order, until all classes are empty or blocked.   wanted: participating classes, by
    id()."""

    def __init__(self, trial: Trial, wanted: Container[int]) -> None:
        self._trial, self._state = trial, trial.state
        self._tree = trial.state.accounts.queues
        fairness, queues = Fairness(trial), self._state.queues
        self._turns: Tournament[_Head] = Tournament(_Turns(queues, self._tree))
        self._charges = trial.charges
        self._lines = [
            Line(queues.get(name) or Queue(name), trial, fairness, wanted) for name in sorted(self._state.lines)
        ]
        for line in self._lines if len(self._lines) > 1 else ():
            self._tree.admit(line.queue.name)
            self._put(line.queue.name, line)

    def __iter__(self) -> Iterator[tuple[Line, JobClass, str]]:
        """(line, class, job); call the line's `next` or `blocked` before asking for another."""
        if len(self._lines) == 1:
            (line,) = self._lines
            while (head := line.head()) is not None:
                yield (line, *head)
        while self._turns:
            line = self._turns.winner().line
            head = line.head()
            if head is not None:
                yield (line, *head)
            self._put(line.queue.name, line)
            self._take_in_charges()

    def _take_in_charges(self) -> None:
        if self._charges != self._trial.charges:
            charged = {account.queue for account in self._trial.charged_since(self._charges)}
            self._turns.charged({branch.name for name in charged for branch in self._tree.path(name)})
            self._charges = self._trial.charges

    def _put(self, name: str, line: Line) -> None:
        """Enters the queue's head for the next turn."""
        found = line.head()
        if found is None:
            self._turns.put(name, None)
            return
        kind, job_id = found
        self._turns.put(name, _Head(line, kind, line.borrows, self._state.pending[job_id][0].submitted_at))


def positions(state: State, now: float) -> dict[str, int]:
    """From 1, for each pending job: which it is in its queue, if each job that is next were started in turn. Whether it
    fits is not asked: a smaller one may start before one with a lower number."""
    found: dict[str, int] = {}
    counts: Counter[str] = Counter()
    with Trial(state, now) as trial:
        for line, kind, job_id in Lines(trial, {id(kind) for kind in state.waiting_classes()}):
            counts[kind.queue] += 1
            found[job_id] = counts[kind.queue]
            trial.charge(kind, kind.amount, kind.replicas)
            line.next()
    return found


class Fairness:
    """Shares of tenants in one cycle; what depends only on demand and past usage is computed once."""

    def __init__(self, trial: Trial) -> None:
        self._trial, self._state = trial, trial.state
        self._fair: dict[tuple[str, str], dict[str, int]] = {}
        self._paths: dict[tuple[str, str], Sequence[Branch]] = {}
        self._charged: dict[Account, frozenset[str]] = {}

    def judge(self, queue: Queue) -> Judge[JobClass]:
        """How tenants of the queue are compared."""
        if queue.policy == "capacity" or queue.half_life:
            return _ByPart(self, self._state, queue)
        return _ByShare(self, self._state)

    def path(self, kind: JobClass) -> Sequence[Branch]:
        """The branches from below the root down to the tenant."""
        pool, tenant = kind.account.pool, kind.account.tenant
        found = self._paths.get((pool, tenant))
        if found is None:
            tree = self._state.accounts.governing(pool)
            tree.admit(tenant)
            found = self._paths[pool, tenant] = tree.path(tenant)
        return found

    def charged(self, account: Account) -> frozenset[str]:
        """Names of the branches whose holdings change when the account is charged."""
        found = self._charged.get(account)
        if found is None:
            trees = self._state.accounts.tenants[""], self._state.accounts.governing(account.pool)
            found = frozenset(branch.name for tree in trees for branch in tree.path(account.tenant))
            self._charged[account] = found
        return found

    def shares(self, queue: Queue, pool: str) -> dict[str, int]:
        """Units of every tenant's fair share, or runtime quota: of the pool if it has quotas of its own, else of all
        pools."""
        found = self._fair.get((queue.name, pool))
        if found is None:
            now, state = self._trial.now, self._state
            tree, demand = state.accounts.tenants[pool], state.demand(pool)
            requests = {name: demand.get(name, 0) + tree[name].own for name in tree.names()}
            if queue.policy == "capacity":
                claims = [Claim(c.name, c.subtree, _wanted(c, requests), c.limit, c.weight) for c in tree.root.children]
                found = runtime_quota(tree.root.subtree, claims)
                for child in tree.root.children:
                    found.update(_divided(child, found[child.name], requests))
            else:
                usage = state.usage[queue.name]
                past = {name: usage.relative(name, now, tree.root.subtree) for name in tree.names()}
                found = tree_shares(tree, requests, past, state.policies.usage_weight)
            self._fair[queue.name, pool] = found
        return found


@dataclass(frozen=True, slots=True)
class _ByShare(Judge[JobClass]):
    """The lowest dominant share with the request added, at each branch down the tree."""

    fairness: Fairness
    state: State

    def path(self, head: JobClass) -> Sequence[Branch]:
        return self.fairness.path(head)

    def key(self, branch: Branch, head: JobClass) -> Key:
        kind, tenant = head, head.account.tenant
        tree = self.state.accounts.governing(kind.account.pool)
        more = amount_of(kind.request, tree.reaches(tenant, kind.amount, branch), kind.replicas)
        share = branch_share(self.state, tree, branch, more)
        borrows = branch.usage + more.units > branch.subtree
        return (borrows, share, -kind.priority, kind.jobs[0], tenant)


@dataclass(frozen=True, slots=True)
class _ByPart(Judge[JobClass]):
    """The lowest ratio of a tenant's holdings, with the request, to its fair share or runtime quota; on one level.

    By fair share, tenants above theirs come last, and before these tenants beyond their guarantee. After all others
    come those of weight 0 beyond their guarantee, whatever others have used before.
    """

    fairness: Fairness
    state: State
    queue: Queue

    def path(self, head: JobClass) -> Sequence[Branch]:
        return self.fairness.path(head)[-1:]

    def key(self, branch: Branch, head: JobClass) -> Key:
        kind = head
        trees, account = self.state.accounts.tenants, kind.account
        pool = account.pool if account.pool in trees else ""
        share = self.fairness.shares(self.queue, pool).get(account.tenant, 0)
        held = branch.held + kind.amount
        part = Fraction(held, share) if share else Fraction(held) * trees[pool].root.subtree
        beyond = held > branch.nominal
        is_weightless = (beyond or not kind.amount) and any(not one.weight for one in self.fairness.path(head))
        if self.queue.policy == "capacity":
            return (is_weightless, part, kind.jobs[0], account.tenant)
        return (is_weightless, branch.held > share, beyond, -kind.priority, part, kind.jobs[0], account.tenant)


def branch_share(state: State, tree: QuotaTree, branch: Branch, more: Amount = NOTHING, firm: bool = False) -> Share:
    """The branch's dominant share of what its parent could lend, over its weight, if it used `more`.

    Quotas of CPUs and memory are in proportion to the quota of units.   firm: count only smallest gangs.
    """
    assert branch.parent is not None
    whole, lendable = tree.root.subtree, tree.potential(branch.parent)
    usage = branch.firm_usage if firm else branch.usage
    borrowed, lent = {"units": max(0, usage + more.units - branch.subtree)}, {"units": lendable}
    cpu, memory = state.accounts.host_resources(branch.name, firm)
    if whole:
        for name, total, held in (
            ("cpu", state.hosts[0], cpu + more.cpu_milli),
            ("memory", state.hosts[1], memory + more.memory_bytes),
        ):
            if held:
                borrowed[name] = max(0, held - total * branch.subtree // whole)
                lent[name] = total * lendable // whole
    return dominant_share(borrowed, lent, branch.weight)


def _wanted(branch: Branch, requests: dict[str, int]) -> int:
    return requests.get(branch.name, 0) + sum(_wanted(child, requests) for child in branch.children)


def _divided(branch: Branch, total: int, requests: dict[str, int]) -> dict[str, int]:
    """Runtime quotas below a branch."""
    own = min(total, requests.get(branch.name, 0))
    claims = [Claim(c.name, c.subtree, _wanted(c, requests), c.limit, c.weight) for c in branch.children]
    found = runtime_quota(total - own, claims)
    for child in branch.children:
        found.update(_divided(child, found[child.name], requests))
    return found
