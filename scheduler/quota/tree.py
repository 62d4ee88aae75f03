"""The tree of tenants of one pool: how many device units each may still take, updated with every change.

Source of the arithmetic: Kueue's hierarchical cohorts (KEP-79). On top of it a tenant's `limit` caps all that it and
its descendants hold. The root, '', is no tenant: its nominal is the capacity that nobody is guaranteed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from scheduler.model import Tenant

ROOT = ""
UNLIMITED = 1 << 62


@dataclass(slots=True, eq=False)
class Branch:
    """A tenant in the tree. subtree, local: see the package.   usage: that counts against the subtree: of a leaf what
    it holds, of an inner tenant what its children could not cover locally.   held: all that it and its descendants
    hold.   surplus: of these, what elastic jobs hold beyond their smallest gangs.   lost: as `usage`, of what `lose`
    counted."""

    name: str
    parent: Branch | None
    depth: int
    nominal: int
    limit: int | None = None
    borrowing_limit: int | None = None
    lending_limit: int | None = None
    weight: float = 1.0
    children: list[Branch] = field(default_factory=list)
    subtree: int = 0
    local: int = 0
    usage: int = 0
    held: int = 0
    surplus: int = 0
    lost: int = 0

    @property
    def own(self) -> int:
        """Units that it holds itself, without its descendants."""
        return self.held - sum(child.held for child in self.children)

    @property
    def firm_usage(self) -> int:
        """`usage` if elastic jobs held no more than their smallest gangs: a surplus gives way to anybody's smallest
        gang, so that it counts for no guarantee."""
        if not self.surplus:
            return self.usage
        own = self.own - self.surplus + sum(child.surplus for child in self.children)
        return own + sum(max(0, child.firm_usage - child.local) for child in self.children)

    @property
    def borrowing(self) -> bool:
        """Whether smallest gangs hold more than it is guaranteed."""
        return self.firm_usage > self.subtree

    @property
    def local_available(self) -> int:
        return max(0, self.local - self.usage)

    def settle(self) -> None:
        """Computes subtree and local here and below."""
        shared = 0
        for child in self.children:
            child.settle()
            shared += child.subtree - child.local
        self.subtree = self.nominal + shared
        limit = self.lending_limit
        self.local = 0 if limit is None or self.parent is None else max(0, self.subtree - limit)


class QuotaTree:
    """Errors: ValueError if a tenant is named twice, has an unknown parent, or is its own ancestor.

    capacity: what there is in the pool, on usable nodes; None = exactly what is guaranteed. More guarantees than
    capacity leave the root nothing; what they then are worth is decided by placement.   unusable: units held on nodes
    that left the capacity. A holder has them, and nobody else could: they count as held, and as capacity, until they
    are given back.   short: how much less there is than is guaranteed; who holds something elsewhere bears it (`lose`).
    keeps_some: whether a tenant does not lend all.   level: what its branches are (tenant or queue), for messages.
    """

    def __init__(
        self,
        tenants: Iterable[Tenant],
        capacity: int | None = None,
        level: str = "tenant",
    ) -> None:
        self.capacity, self.level = capacity, level
        self.unusable = self.short = 0
        self.root = Branch(ROOT, None, 0, 0)
        self._branches: dict[str, Branch] = {ROOT: self.root}
        self._paths: dict[str, tuple[Branch, ...]] = {}
        declared: dict[str, Tenant] = {}
        for tenant in tenants:
            if tenant.name in declared or tenant.name == ROOT:
                raise ValueError(f"{level} {tenant.name!r} is named twice")
            declared[tenant.name] = tenant
        for name in declared:
            self._grow(name, declared, ())
        self._settle()

    def _grow(self, name: str, declared: dict[str, Tenant], below: tuple[str, ...]) -> Branch:
        if name in self._branches:
            return self._branches[name]
        if name in below:
            raise ValueError(f"{self.level} {name!r} is its own ancestor: {' < '.join((*below, name))}")
        if name not in declared:
            raise ValueError(f"{self.level} {below[-1]!r} has an unknown parent {name!r}")
        tenant = declared[name]
        return self._attach(tenant, self._grow(tenant.parent, declared, (*below, name)))

    def _attach(self, tenant: Tenant, parent: Branch) -> Branch:
        branch = Branch(
            tenant.name,
            parent,
            parent.depth + 1,
            tenant.guaranteed,
            tenant.limit,
            tenant.borrowing_limit,
            tenant.lending_limit,
            tenant.weight,
        )
        parent.children.append(branch)
        self._branches[tenant.name] = branch
        return branch

    def _settle(self) -> None:
        self.root.nominal = 0
        self.root.settle()
        self._lent = self.root.subtree
        self._guaranteed = sum(child.subtree for child in self.root.children)
        self.keeps_some = any(branch.local for branch in self._branches.values())
        self._settle_root()

    def _settle_root(self) -> None:
        if self.capacity is not None:
            self.root.nominal = max(0, self.capacity + self.unusable - self._guaranteed)
            self.root.subtree = self._lent + self.root.nominal

    def __contains__(self, name: str) -> bool:
        return name in self._branches

    def __getitem__(self, name: str) -> Branch:
        return self._branches[name]

    def names(self) -> Sequence[str]:
        """All tenants, parents before their children."""
        return [name for name in self._branches if name != ROOT]

    def admit(self, name: str) -> Branch:
        """The tenant's branch; one that nobody declared joins below the root with no guarantee and no limit."""
        branch = self._branches.get(name)
        return branch if branch is not None else self._attach(Tenant(name), self.root)

    def set_capacity(self, capacity: int) -> None:
        """Sets the capacity after nodes were added or lost. Holdings stay, so `available` may turn negative: a
        breach."""
        if capacity != self.capacity:
            self.capacity = capacity
            self._settle()

    def allowed_ever(self, name: str) -> int:
        """The largest amount that limits would allow, if others lent without limit."""
        branch = self._branches[name]
        return min(_potential(branch, at_root=UNLIMITED), _below_limits(branch, held=False))

    def path(self, name: str) -> tuple[Branch, ...]:
        """From below the root down to the tenant."""
        found = self._paths.get(name)
        if found is None:
            branch, upward = self._branches[name], []
            while branch.parent is not None:
                upward.append(branch)
                branch = branch.parent
            found = self._paths[name] = tuple(reversed(upward))
        return found

    def path_name(self, name: str) -> str:
        """For people: '/research/vision'."""
        return "/" + "/".join(branch.name for branch in self.path(name))

    def available(self, name: str) -> int:
        """Units that the tenant can take now, its own and borrowed. Negative: it or an ancestor holds more than its
        limit allows, or than there is."""
        branch = self._branches[name]
        return min(_available(branch) - self.used_up(name), _below_limits(branch, held=True))

    def used_up(self, name: str) -> int:
        """Units of the tenant's guarantees that it does not get, because it holds as many elsewhere."""
        if not self.short:
            return 0
        return min(self.short, sum(min(branch.local, branch.lost) for branch in self.path(name)))

    def allowed(self, name: str) -> int:
        """As `available`, if others lent without limit: what the limits of the tenant and its ancestors allow."""
        branch = self._branches[name]
        return min(_available(branch, at_root=UNLIMITED), _below_limits(branch, held=True))

    def potential_available(self, name: str) -> int:
        """The largest amount that it could ever hold, with everybody else idle."""
        branch = self._branches[name]
        return min(_potential(branch), _below_limits(branch, held=False))

    def potential(self, branch: Branch) -> int:
        """What the branch could hold or lend with everybody idle, limits aside."""
        return _potential(branch)

    def add(self, name: str, amount: int, surplus: int = 0, unusable: int = 0) -> None:
        """The tenant takes `amount` units, whether or not they are available, `surplus` of them beyond its elastic
        jobs' smallest gangs, `unusable` of them on nodes that are no part of the capacity."""
        if unusable:
            self._count_unusable(unusable)
        branch: Branch | None = self._branches[name]
        above = amount
        while branch is not None:
            branch.held += amount
            branch.surplus += surplus
            covered = branch.local - branch.usage
            branch.usage += above
            above = max(0, above - covered) if covered > 0 else above
            branch = branch.parent

    def remove(self, name: str, amount: int, surplus: int = 0, unusable: int = 0) -> None:
        """The tenant gives units back; the exact reverse of `add`, in any order."""
        if unusable:
            self._count_unusable(-unusable)
        branch: Branch | None = self._branches[name]
        above = amount
        while branch is not None:
            branch.held -= amount
            branch.surplus -= surplus
            beyond = branch.usage - branch.local
            branch.usage -= above
            above = max(0, min(above, beyond))
            branch = branch.parent

    def _count_unusable(self, unusable: int) -> None:
        self.unusable += unusable
        self._settle_root()

    def lose(self, name: str, units: int) -> None:
        """The tenant holds units on nodes that left the capacity, or, if negative, no longer does. They count against
        its guarantees, then its parents', as far as there is too little for all guarantees."""
        for branch in reversed(self.path(name)):
            before = branch.lost
            branch.lost += units
            units = max(0, branch.lost - branch.local) - max(0, before - branch.local)

    def reaches(self, name: str, amount: int, above: Branch, firm: bool = False) -> int:
        """By how much `above`, on the tenant's path, would use more if the tenant took `amount`; less, if negative.
        firm: if elastic jobs held no more than their smallest gangs."""
        branch = self._branches[name]
        while branch is not above and branch.parent is not None and amount:
            usage = branch.firm_usage if firm else branch.usage
            if amount > 0:
                covered = branch.local - usage
                amount = max(0, amount - covered) if covered > 0 else amount
            else:
                amount = -max(0, min(-amount, usage - branch.local))
            branch = branch.parent
        return amount

    def binding(self, name: str) -> Branch | None:
        """The branch on the tenant's path whose limit leaves it least room; None where none has a limit."""
        limited = [branch for branch in reversed(self.path(name)) if branch.limit is not None]
        return min(limited, key=lambda branch: (branch.limit or 0) - branch.held, default=None)

    def within_quota(self, name: str, amount: int = 0) -> bool:
        """Whether the tenant, or a branch above it, would still be covered by its subtree if it took `amount` more,
        with its elastic jobs at their smallest.

        If not, it borrows from everybody: what it then takes can be reclaimed.
        """
        branch, above = self._branches[name], amount
        while branch.parent is not None:
            usage = branch.firm_usage
            if usage + above <= branch.subtree:
                return True
            above = max(0, above - max(0, branch.local - usage))
            branch = branch.parent
        return False

    def fork(self, one: str, other: str) -> tuple[Branch, Branch] | None:
        """The branches of two tenants just below their lowest common ancestor; None if one is on the other's path."""
        for mine, theirs in zip(self.path(one), self.path(other), strict=False):
            if mine is not theirs:
                return mine, theirs
        return None


def _available(branch: Branch, at_root: int | None = None) -> int:
    """at_root: what the root is taken to have; None = what it has."""
    if branch.parent is None:
        return branch.subtree - branch.usage if at_root is None else at_root
    above = _available(branch.parent, at_root)
    if branch.borrowing_limit is not None:
        lent_by_itself = branch.subtree - branch.local
        used_above = max(0, branch.usage - branch.local)
        above = min(above, lent_by_itself - used_above + branch.borrowing_limit)
    return branch.local_available + above


def _potential(branch: Branch, at_root: int | None = None) -> int:
    if branch.parent is None:
        return branch.subtree if at_root is None else at_root
    above = _potential(branch.parent, at_root)
    if branch.borrowing_limit is not None:
        above = min(above, branch.subtree - branch.local + branch.borrowing_limit)
    return branch.local + above


def _below_limits(branch: Branch, *, held: bool) -> int:
    """Least room below the limits on the way up; a number above any capacity where there is no limit."""
    room, at = UNLIMITED, branch
    while at.parent is not None:
        if at.limit is not None:
            room = min(room, at.limit - (at.held if held else 0))
        at = at.parent
    return room
