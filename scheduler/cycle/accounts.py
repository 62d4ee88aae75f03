"""The trees that a job's units are charged to: its tenant's over all pools, over its own pool, and its queue's.

A job that cannot be preempted is also charged to a second set of trees, in which nobody lends: it may use only its
tenant's guarantee and capacity that nobody is guaranteed, so that every guarantee can be met at any time. If pools
reserve capacity, a third set limits ordinary jobs to the rest.

What is held on a node that has failed or is in maintenance is charged to its tenant and queue, and counts as capacity
for as long: it takes nothing from the others, and leaves them nothing. The second and third set see only usable
nodes. Where these have less than all guarantees, what a tenant holds elsewhere uses up its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import NamedTuple

from scheduler.cycle.queues import queue_tree
from scheduler.model import EntitlementClass, Queue, Tenant
from scheduler.quota.tree import QuotaTree


class Account(NamedTuple):
    """Who is charged; the same for all jobs of a class.   ordinary: whether they may use no pool's reserve."""

    tenant: str
    pool: str
    queue: str
    preemptible: bool
    ordinary: bool = True


class Surplus(NamedTuple):
    """What elastic jobs hold beyond their smallest gangs (`min_replicas`)."""

    units: int = 0
    replicas: int = 0

    def __neg__(self) -> Surplus:
        return Surplus(-self.units, -self.replicas)

    def __sub__(self, less: Surplus) -> Surplus:
        return Surplus(self.units - less.units, self.replicas - less.replicas)


NO_SURPLUS = Surplus()


class Amount(NamedTuple):
    """units: of devices, which have quotas.   cpu_milli, memory_bytes: which count for the dominant share.   surplus_:
    what of each is beyond elastic jobs' smallest gangs.   unusable: units of them on nodes that are no capacity now."""

    units: int
    cpu_milli: int = 0
    memory_bytes: int = 0
    surplus_units: int = 0
    surplus_cpu_milli: int = 0
    surplus_memory_bytes: int = 0
    unusable: int = 0


NOTHING = Amount(0)


class Accounts:
    """tenants: amounts of pool '' hold over all pools.   capacity: device units by pool, '' = all of them.   reserved:
    units of these that ordinary jobs may not hold.

    host: milli-CPUs and bytes that each tenant and its descendants hold.   surplus_host: the part of it beyond the
    smallest gangs of elastic jobs.

    Errors: ValueError as of `QuotaTree`.
    """

    def __init__(
        self,
        tenants: Iterable[Tenant],
        queues: Iterable[Queue],
        capacity: Mapping[str, int],
        reserved: Mapping[str, int] | None = None,
    ) -> None:
        by_pool: dict[str, list[Tenant]] = {"": []}
        for tenant in tenants:
            by_pool.setdefault(tenant.pool, []).append(tenant)
        self.tenants = {pool: QuotaTree(those, capacity.get(pool, 0)) for pool, those in by_pool.items()}
        self.firm = {pool: _lending_nothing(those) for pool, those in by_pool.items()}
        some = reserved is not None
        self.ordinary = {pool: _lending_nothing(those) for pool, those in by_pool.items() if some}
        self.queues = queue_tree(queues, capacity.get("", 0))
        self._usable_only = (*self.firm.values(), *self.ordinary.values())
        self._trees: dict[Account, tuple[tuple[QuotaTree, str], ...]] = {}
        self.host: dict[str, tuple[int, int]] = {}
        self.surplus_host: dict[str, tuple[int, int]] = {}
        self._guaranteed = {pool: sum(tenant.guaranteed for tenant in those) for pool, those in by_pool.items()}
        self.set_capacity(capacity, reserved)

    def set_capacity(self, capacity: Mapping[str, int], reserved: Mapping[str, int] | None = None) -> None:
        for pool, tree in self.tenants.items():
            units = capacity.get(pool, 0)
            tree.set_capacity(units)
            self._bound(self.firm[pool], units - self._guaranteed[pool])
            if reserved is not None and pool in self.ordinary:
                self._bound(self.ordinary[pool], units - self._guaranteed[pool] - reserved.get(pool, 0))
        self.queues.set_capacity(capacity.get("", 0))

    def _bound(self, tree: QuotaTree, unpromised: int) -> None:
        tree.set_capacity(sum(branch.subtree for branch in tree.root.children) + max(0, unpromised))
        tree.short = max(0, -unpromised)

    def trees(self, account: Account) -> tuple[tuple[QuotaTree, str], ...]:
        """(tree, name in it) of each tree that is charged."""
        found = self._trees.get(account)
        if found is None:
            kinds = [self.tenants]
            if not account.preemptible:
                kinds += [self.firm, *([self.ordinary] if account.ordinary and self.ordinary else [])]
            pools = [""] + [account.pool] * (account.pool in self.tenants and account.pool != "")
            pairs = [(kind[pool], account.tenant) for kind in kinds for pool in pools]
            pairs.append((self.queues, account.queue))
            for tree, name in pairs:
                tree.admit(name)
            found = self._trees[account] = tuple(pairs)
        return found

    def governing(self, pool: str) -> QuotaTree:
        """The tree of tenants whose guarantees decide who may reclaim what in a pool."""
        return self.tenants.get(pool, self.tenants[""])

    def add(self, account: Account, amount: Amount) -> None:
        for tree, name in self.trees(account):
            tree.add(name, *self._charged(tree, amount))
        self._lose(account, amount.unusable)
        self._add_host(account, amount, 1)

    def remove(self, account: Account, amount: Amount) -> None:
        for tree, name in self.trees(account):
            tree.remove(name, *self._charged(tree, amount))
        self._lose(account, -amount.unusable)
        self._add_host(account, amount, -1)

    def _charged(self, tree: QuotaTree, amount: Amount) -> tuple[int, int, int]:
        """Units, those of surpluses and unusable ones of an amount, as that tree counts them."""
        if amount.unusable and tree in self._usable_only:
            return amount.units - amount.unusable, amount.surplus_units, 0
        return amount.units, amount.surplus_units, amount.unusable

    def _lose(self, account: Account, units: int) -> None:
        for kind in (self.firm, self.ordinary) if units else ():
            for pool in {"", account.pool} & kind.keys():
                kind[pool].admit(account.tenant)
                kind[pool].lose(account.tenant, units)

    def _add_host(self, account: Account, amount: Amount, sign: int) -> None:
        self._add_to(self.host, account, sign * amount.cpu_milli, sign * amount.memory_bytes)
        self._add_to(self.surplus_host, account, sign * amount.surplus_cpu_milli, sign * amount.surplus_memory_bytes)

    def _add_to(self, held: dict[str, tuple[int, int]], account: Account, cpu_milli: int, memory_bytes: int) -> None:
        if cpu_milli or memory_bytes:
            for branch in self.tenants[""].path(account.tenant):
                cpu, memory = held.get(branch.name, (0, 0))
                held[branch.name] = (cpu + cpu_milli, memory + memory_bytes)

    def host_resources(self, name: str, firm: bool) -> tuple[int, int]:
        """Milli-CPUs and bytes that a tenant holds.   firm: count only smallest gangs."""
        cpu, memory = self.host.get(name, (0, 0))
        if not firm:
            return cpu, memory
        surplus_cpu, surplus_memory = self.surplus_host.get(name, (0, 0))
        return cpu - surplus_cpu, memory - surplus_memory

    def room(self, account: Account) -> int:
        """Units that the account may take now."""
        return min(tree.available(name) for tree, name in self.trees(account))

    def allowed(self, account: Account) -> int:
        """Units that limits allow the account to take now, if capacity were unlimited."""
        return min(tree.allowed(name) for tree, name in self.trees(account))

    def is_kept_short(self, account: Account) -> bool:
        """Whether more than limits may keep the account from what is free: guarantees of others, or what they do not
        lend."""
        return not account.preemptible or any(tree.keeps_some for tree, _ in self.trees(account))

    def allowed_ever(self, account: Account) -> int:
        """The same if nothing were held."""
        return min(tree.allowed_ever(name) for tree, name in self.trees(account))

    def entitlement(self, account: Account, units: int = 0) -> EntitlementClass:
        """Whether what the account holds, with `units` more, is guaranteed or borrowed."""
        tree = self.governing(account.pool)
        tree.admit(account.tenant)
        return "guaranteed" if tree.within_quota(account.tenant, units) else "borrowed"

    def covers(self, account: Account, units: int) -> bool:
        """Whether `units` more stay within the tenant's guarantee. A job without devices never does: CPUs are not
        guaranteed, and it would take them from jobs that need them for their devices."""
        return units > 0 and self.entitlement(account, units) == "guaranteed"


def _lending_nothing(tenants: Iterable[Tenant]) -> QuotaTree:
    alone = [replace(tenant, limit=None, borrowing_limit=None, lending_limit=0) for tenant in tenants]
    return QuotaTree(alone, 0)
