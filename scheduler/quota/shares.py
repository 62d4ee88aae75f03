"""What share of a pool is fair: dominant share, division by deserved amounts and weights, runtime quota.

Sources: dominant share: Kueue, KEP-1714. Division over deserved, weight and past usage: KAI-Scheduler's resource
division. Runtime quota: Koordinator's multi-hierarchy elastic quota. Amounts are whole units, so that what is divided
always sums to what there was.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple

from scheduler.quota.tree import ROOT, UNLIMITED, Branch, QuotaTree


class Share(NamedTuple):
    """How much a tenant borrows, to be compared. weightless: a tenant of weight 0 that borrows at all ranks above all
    others.   value: of the dominant resource, borrowed over lendable, over the weight.   resource: the dominant one."""

    weightless: bool
    value: float
    resource: str = ""


def dominant_share(borrowed: Mapping[str, int], lendable: Mapping[str, int], weight: float = 1.0) -> Share:
    """The largest ratio of borrowed to lendable over the resources; of equal ones the first in the alphabet.

    Shape: 0 exactly where nothing is borrowed. A resource that nobody could lend does not count.
    """
    value, dominant = 0.0, ""
    for resource in sorted(borrowed):
        lent = lendable.get(resource, 0)
        if lent > 0 and borrowed[resource] / lent > value:
            value, dominant = borrowed[resource] / lent, resource
    if not value or not weight:
        return Share(bool(value), value, dominant)
    return Share(False, value / weight, dominant)


@dataclass(frozen=True, slots=True)
class Claim:
    """One side of a division. request: held and asked for.   usage: remembered, as a part of the whole capacity over
    the same time (see scheduler.quota.usage).   limit: None = none.   priority: higher is served before lower."""

    name: str
    deserved: int
    request: int
    limit: int | None = None
    weight: float = 1.0
    usage: float = 0.0
    priority: int = 0

    @property
    def requestable(self) -> int:
        return self.request if self.limit is None else min(self.request, self.limit)


def divide(total: int, claims: Sequence[Claim], k: float = 0.0) -> dict[str, int]:
    """Everybody's fair share: first what is deserved, then the rest by weight, priority by priority.

    k: how much past usage counts against a weight; 0 = not at all. What rounding down leaves goes one unit at a time
    to the largest fractions, of equal ones to the earlier claim. Deserved shares are given even where their sum is
    more than the total.
    """
    shares = {claim.name: min(claim.deserved, claim.requestable) for claim in claims}
    rest = max(0, total - sum(shares.values()))
    for priority in sorted({claim.priority for claim in claims}, reverse=True):
        level = [claim for claim in claims if claim.priority == priority]
        rest = _by_weight(rest, level, shares, k)
    return shares


def _by_weight(rest: int, claims: Sequence[Claim], shares: dict[str, int], k: float) -> int:
    """Hands out the rest among claims of one priority, in rounds as long as somebody is satisfied by one.

    Answers what nobody wanted.
    """
    while True:
        hungry = [claim for claim in claims if shares[claim.name] < claim.requestable and claim.weight > 0]
        parts = _parts(hungry, k)
        whole = sum(parts.values())
        if not rest or not whole:
            return rest
        start, satisfied, left_over = rest, False, {}
        for claim in hungry:
            exact = start * parts[claim.name] / whole
            wanted = claim.requestable - shares[claim.name]
            given = min(wanted, int(exact))
            satisfied |= wanted <= exact
            left_over[claim.name] = exact - given
            shares[claim.name] += given
            rest -= given
        if not satisfied:
            for claim in sorted(hungry, key=lambda claim: -left_over[claim.name])[:rest]:
                shares[claim.name] += 1
            return 0


def _parts(claims: Sequence[Claim], k: float) -> dict[str, Fraction]:
    """What part of the rest each deserves: its weight, corrected by how its past usage differs from it."""
    whole = sum(Fraction(claim.weight) for claim in claims)
    parts = {}
    for claim in claims:
        weight = Fraction(claim.weight) / whole
        parts[claim.name] = max(Fraction(0), weight + Fraction(k) * (weight - Fraction(claim.usage)))
    return parts


def runtime_quota(total: int, claims: Sequence[Claim]) -> dict[str, int]:
    """What each may use now: its minimum (`deserved`) as far as requested, then lent minima and the unreserved by
    weight, capped at request and limit. Minima that sum to more than the total are scaled down."""
    promised = sum(claim.deserved for claim in claims)
    if promised > total:
        claims = [Claim(c.name, c.deserved * total // promised, c.request, c.limit, c.weight, 0.0, 0) for c in claims]
    return divide(total, claims)


def tree_shares(
    tree: QuotaTree, requests: Mapping[str, int], usage: Mapping[str, float], k: float = 0.0
) -> dict[str, int]:
    """Every tenant's fair share, the parent's being what its children divide.

    requests: what a tenant itself holds and asks for; absent = 0.   usage: as in `Claim`, of a tenant with all below.
    """
    wanted: dict[str, int] = {}

    def want(branch: Branch) -> int:
        below = sum(want(child) for child in branch.children)
        limit = UNLIMITED if branch.limit is None else branch.limit
        wanted[branch.name] = min(requests.get(branch.name, 0) + below, limit)
        return wanted[branch.name]

    shares: dict[str, int] = {}

    def give(branch: Branch, total: int) -> None:
        own = min(requests.get(branch.name, 0), total)
        claims = [
            Claim(c.name, c.subtree, wanted[c.name], c.limit, c.weight, usage.get(c.name, 0.0)) for c in branch.children
        ]
        divided = divide(total - own, claims, k)
        for child in branch.children:
            shares[child.name] = divided[child.name]
            give(child, divided[child.name])

    want(tree.root)
    give(tree.root, tree.root.subtree)
    shares.pop(ROOT, None)
    return shares
