"""Who is next: among queues, then within a queue by its policy. Asked again after every start, since shares change.

Everywhere those within their tenant's guarantee come before those that would borrow. Between queues then: those below
their guarantee first, the emptiest of them before others; then priority, then the oldest head. Within a queue: FIFO by
age; PRIORITY by priority, then age; FAIR_SHARE and CAPACITY first choose a tenant, then go by priority and age.
FAIR_SHARE takes the lowest dominant share with the request added (Kueue's tournament down the tree); in a queue with a
half-life, the lowest part of the fair share that remembered usage leaves (KAI's time-based one). CAPACITY takes who
holds the least part of its runtime quota (Koordinator's).
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from typing import Any

from scheduler.cycle.accounts import NOTHING, Amount
from scheduler.cycle.state import JobClass, State, beside
from scheduler.cycle.trial import Trial
from scheduler.model import Queue
from scheduler.quota.shares import Claim, Share, dominant_share, runtime_quota, tree_shares
from scheduler.quota.tree import Branch, QuotaTree

Key = tuple[Any, ...]


class Line:
    """A queue's classes in this cycle. A class that was found blocked is left out for the rest of it.

    Whatever the policy, jobs within what their tenant is guaranteed come before those that would borrow: who borrows
    first would have to give way at once.
    """

    def __init__(self, queue: Queue, trial: Trial, fairness: Fairness, wanted: Callable[[JobClass], bool]) -> None:
        self.queue, self._trial, self._fairness = queue, trial, fairness
        self._taken: dict[int, int] = {}
        self._heaps: dict[str, list[tuple[Key, int, JobClass]]] = {}
        self._serial = 0
        self._current, self._chosen_at = "", -1
        by_tenant = queue.policy in ("fair_share", "capacity")
        for kind in trial.state.lines.get(queue.name, {}).values():
            if wanted(kind):
                self._push(kind.account.tenant if by_tenant else "", kind)

    def head(self) -> tuple[JobClass, str] | None:
        """The class that is next, and the job of it. The choice stands until something starts or the line changes."""
        if self._chosen_at == len(self._trial.started):
            kind = self._heaps[self._current][0][2]
            return kind, kind.jobs[self._taken[id(kind)]][1]
        for tenant, heap in self._heaps.items():
            while heap and not heap[0][0][0] and self._borrows(heap[0][2]):  # it did not when it was put there
                self._push(tenant, heapq.heappop(heap)[2])
        tenants = [tenant for tenant, heap in self._heaps.items() if heap]
        if not tenants:
            return None
        tenant = tenants[0]
        if len(tenants) > 1:
            heads = {name: self._heaps[name][0][2] for name in tenants}
            first = {name: kind for name, kind in heads.items() if not self._heaps[name][0][0][0]}
            tenant = self._fairness.choose(self.queue, first or heads)
        kind = self._heaps[tenant][0][2]
        self._current, self._chosen_at = tenant, len(self._trial.started)
        return kind, kind.jobs[self._taken[id(kind)]][1]

    @property
    def borrows(self) -> bool:
        """Whether the head would borrow."""
        return bool(self._heaps[self._current][0][0][0])

    def next(self) -> None:
        """The head has been dealt with: the next of its class takes its place."""
        self._chosen_at = -1
        kind = heapq.heappop(self._heaps[self._current])[2]
        self._taken[id(kind)] += 1
        self._push(self._current, kind)

    def blocked(self) -> None:
        """The head's class is left out from here on."""
        self._chosen_at = -1
        heapq.heappop(self._heaps[self._current])

    def close(self) -> list[JobClass]:
        """What the blocked head, which has been left out, keeps from being tried: those classes, left out as well."""
        self._chosen_at = -1
        closed = [kind for *_, kind in sorted(self._heaps[self._current])]
        self._heaps[self._current].clear()
        return closed

    def _borrows(self, kind: JobClass) -> bool:
        return self._trial.accounts.entitlement(kind.account, kind.amount) != "guaranteed"

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


class Lines:
    """All queues: heads, until every class was started empty, or blocked."""

    def __init__(self, trial: Trial, wanted: Callable[[JobClass], bool]) -> None:
        self._trial, self._state = trial, trial.state
        fairness, queues = Fairness(trial), self._state.queues
        self._lines = {
            name: Line(queues.get(name, Queue(name)), trial, fairness, wanted) for name in sorted(self._state.lines)
        }
        self._heap: list[tuple[Key, str]] = []
        for name in self._lines:
            self._push(name)

    def __iter__(self) -> Iterator[tuple[Line, JobClass, str]]:
        """(queue, class, job). Each must be answered by `next` or `blocked` of its line before the next."""
        while self._heap:
            _, name = heapq.heappop(self._heap)
            line = self._lines[name]
            head = line.head()
            if head is None:
                continue
            yield (line, *head)
            self._push(name)

    def _push(self, name: str) -> None:
        line = self._lines[name]
        head = line.head()
        if head is None:
            return
        queue, held = line.queue, 0
        if queue.guaranteed:
            held = self._state.accounts.queues.admit(name).held
        short = held < queue.guaranteed
        filled = Fraction(held, queue.guaranteed) if short else Fraction(1)
        submitted_at = self._state.pending[head[1]][0].submitted_at
        heapq.heappush(self._heap, ((line.borrows, not short, filled, -queue.priority, submitted_at, name), name))


class Fairness:
    """Shares of tenants in one cycle. What only demand and the past decide is computed once, and who comes where in the
    tournament until somebody is charged."""

    def __init__(self, trial: Trial) -> None:
        self._trial, self._state = trial, trial.state
        self._fair: dict[tuple[str, str], dict[str, int]] = {}
        self._keys: dict[tuple[str, str, int], Key] = {}
        self._keys_at = (0, 0)
        self._paths: dict[tuple[str, str], Sequence[Branch]] = {}

    def choose(self, queue: Queue, heads: dict[str, JobClass]) -> str:
        """The tenant whose head is next."""
        if queue.policy == "capacity" or queue.half_life:
            return min(heads, key=lambda tenant: (*self._filled(queue, heads[tenant]), heads[tenant].jobs[0], tenant))
        charged = (len(self._trial.started), self._trial.charges)
        if charged != self._keys_at:
            self._keys_at = charged
            self._keys.clear()
        below: dict[str, list[str]] = {}
        for tenant, kind in heads.items():
            for branch in self._path(tenant, kind):
                below.setdefault(branch.name, []).append(tenant)
        return self._winner(None, heads, below)

    def _path(self, tenant: str, kind: JobClass) -> Sequence[Branch]:
        """From below the root down to the tenant."""
        found = self._paths.get((kind.account.pool, tenant))
        if found is None:
            tree = self._state.accounts.governing(kind.account.pool)
            tree.admit(tenant)
            found = self._paths[kind.account.pool, tenant] = tree.path(tenant)
        return found

    def _winner(self, at: Branch | None, heads: dict[str, JobClass], below: dict[str, list[str]]) -> str:
        """Kueue's tournament: the best child, each judged with its own best head."""
        depth = at.depth if at is not None else 0
        children: dict[str, Branch] = {}
        for tenant in below[at.name] if at is not None else heads:
            path = self._path(tenant, heads[tenant])
            if len(path) > depth:
                children[path[depth].name] = path[depth]
        best: tuple[Key, str] | None = None
        if at is not None and at.name in heads:
            best = ((False,), at.name)
        for child in children.values():
            only = below[child.name]
            winner = only[0] if len(only) == 1 else self._winner(child, heads, below)
            of = (child.name, winner, id(heads[winner]))
            key = self._keys.get(of)
            if key is None:
                key = self._keys[of] = self._share_key(child, winner, heads[winner])
            if best is None or key < best[0]:
                best = (key, winner)
        assert best is not None
        return best[1]

    def _share_key(self, branch: Branch, tenant: str, kind: JobClass) -> Key:
        tree = self._state.accounts.governing(kind.account.pool)
        more = beside(kind.request, tree.reaches(tenant, kind.amount, branch), kind.replicas)
        share = branch_share(self._state, tree, branch, more)
        borrows = branch.usage + more.units > branch.subtree
        return (borrows, share, -kind.priority, kind.jobs[0], tenant)

    def _filled(self, queue: Queue, kind: JobClass) -> Key:
        """(above its fair share, beyond its guarantee, part of the fair share) with the request."""
        account = kind.account
        tree = self._state.accounts.governing(account.pool)
        branch = tree.admit(account.tenant)
        fair = self._shares(queue, tree, account.pool if tree is not self._state.accounts.tenants[""] else "")
        share, held = fair.get(account.tenant, 0), branch.held + kind.amount
        part = Fraction(held, share) if share else Fraction(held) * tree.root.subtree
        if queue.policy == "capacity":
            return (part,)
        return (branch.held > share, held > branch.nominal, -kind.priority, part)

    def _shares(self, queue: Queue, tree: QuotaTree, pool: str) -> dict[str, int]:
        found = self._fair.get((queue.name, pool))
        if found is None:
            now, state = self._trial.now, self._state
            demand = state.demand(pool)
            requests = {name: demand.get(name, 0) + own_units(tree[name]) for name in tree.names()}
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


def own_units(branch: Branch) -> int:
    """Units that the tenant itself holds, without its descendants."""
    return branch.held - sum(child.held for child in branch.children)


def branch_share(state: State, tree: QuotaTree, branch: Branch, more: Amount = NOTHING) -> Share:
    """The branch's dominant share of what its parent could lend, over its weight, if it used so much more (or less).

    Of CPUs and memory everybody's quota is the part that it has of units.
    """
    assert branch.parent is not None
    whole, lendable = tree.root.subtree, tree.potential(branch.parent)
    borrowed, lent = {"units": max(0, branch.usage + more.units - branch.subtree)}, {"units": lendable}
    cpu, memory = state.accounts.beside.get(branch.name, (0, 0))
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
