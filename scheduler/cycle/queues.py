"""The tree of queues: guarantees and limits of parents, how their children take turns, and priorities.

Jobs wait in the leaves. Children's guarantees are parts of their parent's; the rest of it goes to whichever child
requests it (in the terms of scheduler.quota, the parent's own nominal).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from scheduler.model import Queue, QueuePolicy, Tenant
from scheduler.quota.shares import Share, dominant_share
from scheduler.quota.tree import ROOT, Branch, QuotaTree

SHARED_BY_FAIRNESS: tuple[QueuePolicy, ...] = ("fair_share", "capacity")


class Queues(dict[str, Queue]):
    """Queues by name.   between: how queues without a parent take turns."""

    def __init__(self, queues: Iterable[Queue], between: Literal["priority", "fair_share"] = "priority") -> None:
        super().__init__((queue.name, queue) for queue in queues)
        self._between = between
        self._children: dict[str, list[str]] = {}
        for queue in self.values():
            self._children.setdefault(queue.parent, []).append(queue.name)
        self.some_share_by_fairness = any(self.policy(name) in SHARED_BY_FAIRNESS for name in self._children)
        self._priorities: dict[str, int] = {}
        self._ways: dict[tuple[str, str], str | None] = {}

    def children(self, name: str) -> list[str]:
        """Names of a parent's children; empty for a queue of jobs."""
        return self._children.get(name, [])

    def policy(self, name: str) -> str:
        """The policy of a queue, for its jobs or children; an undeclared queue has `fifo`."""
        if name == ROOT:
            return self._between
        return self[name].policy if name in self else "fifo"

    def priority(self, name: str) -> int:
        """What a queue adds to the priority of its jobs: its own priority and its ancestors'."""
        found = self._priorities.get(name)
        if found is None:
            queue = self.get(name)
            found = 0 if queue is None else queue.priority + (self.priority(queue.parent) if queue.parent else 0)
            self._priorities[name] = found
        return found

    def between(self, one: str, other: str) -> str | None:
        """A parent between two queues that shares by fairness ('' = the site); None if there is none."""
        found = self._ways.get((one, other), "?")
        if found == "?":
            parents = {self[name].parent if name in self else ROOT for name in self._above(one) ^ self._above(other)}
            fair = sorted(parent for parent in parents if self.policy(parent) in SHARED_BY_FAIRNESS)
            found = self._ways[one, other] = fair[0] if fair else None
        return found

    def _above(self, name: str) -> set[str]:
        """The queue and all above it."""
        found = {name}
        while name in self and self[name].parent:
            name = self[name].parent
            found.add(name)
        return found

    def within(self, name: str, above: str) -> bool:
        """Whether a queue is `above` or a descendant of it."""
        return above in self._above(name)


def queue_tree(queues: Iterable[Queue], capacity: int | None = None) -> QuotaTree:
    """The queues' guarantees and maxima as a tree of quotas.   Errors: ValueError as of `QuotaTree`."""
    declared = list(queues)
    below: dict[str, list[Queue]] = {}
    for queue in declared:
        below.setdefault(queue.parent, []).append(queue)
    tree = QuotaTree([_branch(queue, 0) for queue in declared], None, "queue")  # no queue is its own ancestor
    parts = {name: sum(guaranteed(child, below) for child in below.get(name, ())) for name in tree.names()}
    return QuotaTree([_branch(queue, parts[queue.name]) for queue in declared], capacity, "queue")


def guaranteed(queue: Queue, below: dict[str, list[Queue]]) -> int:
    """Units, with what its children are guaranteed.   below: children by name, of queues that are a tree."""
    return max(queue.guaranteed, sum(guaranteed(child, below) for child in below.get(queue.name, ())))


def _branch(queue: Queue, parts: int) -> Tenant:
    own = max(0, queue.guaranteed - parts)
    return Tenant(queue.name, queue.parent, guaranteed=own, limit=queue.maximum, weight=queue.weight)


def queue_share(tree: QuotaTree, branch: Branch, units: int = 0, firm: bool = False) -> Share:
    """The weighted share of its parent's lendable capacity that a queue would hold beyond its guarantee, with `units`
    more.   firm: count only smallest gangs."""
    assert branch.parent is not None
    beyond = max(0, (branch.firm_usage if firm else branch.usage) + units - branch.subtree)
    return dominant_share({"units": beyond}, {"units": tree.potential(branch.parent)}, branch.weight)
