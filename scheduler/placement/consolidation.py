"""Proposes moves of running replicas that make room for a request; moves nothing itself.

It tries chains: the request takes the place of one replica, which takes the place of another, until the last fits on
free capacity; the shortest chains first. And sets: several replicas leave one node, and each fits elsewhere. Smaller
replicas are moved before larger ones.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from scheduler.model import Grant, Request
from scheduler.placement.cluster import BoolArray, Cluster, IntArray
from scheduler.placement.engine import Policy, fits_somewhere, place
from scheduler.placement.holdings import Holding, Holdings

MOST_TRIED = 12
"""Chains, and sets, that are tried on the cluster before giving up."""
MOST_LONGER = 12
"""The cheapest chains of each length that are extended if none of that length succeeds."""
MOST_SWAPS = 6
"""Chains of each length that are tried though nothing is free for the last."""
MOST_TRIED_OF_A_KIND = 3
"""Replicas of one kind that are tried at a link of a chain; the cheapest first, and they are mostly alike."""


@dataclass(frozen=True, slots=True)
class Move:
    """A replica from where it is to another node."""

    holding: Holding
    to: Grant


@dataclass(frozen=True, slots=True)
class Proposal:
    """Moves, and the grants that fit after them, replica by replica.

    All that move stop before any starts again: two may change places.
    """

    moves: tuple[Move, ...]
    grants: tuple[Grant, ...]


def make_room(
    cluster: Cluster, holdings: Holdings, request: Request, policy: Policy, replicas: int = 1, most_moves: int = 4
) -> Proposal | None:
    """Moves after which all replicas fit; None if none are found with at most so many moves a replica.

    holdings: those that may be moved.   The cluster and the holdings are as before afterwards.
    """
    mark = cluster.mark()
    moves: list[Move] = []
    grants: list[Grant] = []
    try:
        for _ in range(replicas):
            found = _Search(cluster, holdings, request, policy, most_moves).proposal()
            if found is None:
                return None
            for move in found.moves:
                holdings.remove(move.holding.job_id, move.holding.replica)
            moves += found.moves
            grants += found.grants
            carry_out(cluster, found)
            cluster.take(found.grants[0], request)
    finally:
        cluster.rollback(mark)
        for move in moves:
            holdings.add(move.holding)
    return Proposal(tuple(moves), tuple(grants))


def carry_out(cluster: Cluster, proposal: Proposal) -> None:
    """Books the moves; the grants are the caller's to take.

    Errors: PlacementError if the cluster has changed so that a move is not possible any more.
    """
    for move in proposal.moves:
        held = move.holding
        cluster.give_back(held.grant, held.request)
    for move in proposal.moves:
        cluster.take(move.to, move.holding.request)


class _Search:
    """A search for room for one replica."""

    def __init__(self, cluster: Cluster, holdings: Holdings, request: Request, policy: Policy, most_moves: int) -> None:
        self.cluster, self.holdings, self.policy = cluster, holdings, policy
        self.request, self.most_moves = request, most_moves
        numbers = holdings.numbers()
        freed = holdings.freed(numbers)
        parts = (freed.units * cluster.factor[cluster.kind[holdings.node[numbers]]]).sum(axis=1)
        cheapest = np.lexsort((numbers, freed.cpu, parts))
        self.numbers: IntArray = numbers[cheapest]
        self.parts: IntArray = parts[cheapest]
        self.freed = holdings.freed(self.numbers)
        self.node: IntArray = holdings.node[self.numbers]
        self.kind: IntArray = holdings.kind[self.numbers]
        self.moved: set[int] = set()

    def proposal(self) -> Proposal | None:
        grant = place(self.cluster, self.request, self.policy)
        if grant is not None:
            return Proposal((), (grant,))
        for tried, path in enumerate(self._paths()):
            if tried == MOST_TRIED:
                break
            found = self._chain(self.request, path, None)
            if found is not None:
                return Proposal(tuple(reversed(found[1])), (found[0],))
        for chosen in self._sets() if self.most_moves > 1 else ():
            together = self._together(chosen)
            if together is not None:
                return together
        return None

    def _paths(self) -> Iterator[tuple[int, ...]]:
        """Chains of kinds, the shortest first: each could take the place of the next, and the last fits somewhere, or
        might fit where the first one was, since it needs less CPU.

        They are found link by link on the cluster as it is, so whether they hold together is yet to be tried.
        """
        seen: set[int] = set()
        level: list[tuple[int, ...]] = [()]
        requests = self.holdings.requests
        for _ in range(self.most_moves):
            longer, swaps = [], []
            for path in level:
                for kind in self._displaceable(requests[path[-1]] if path else self.request):
                    if path and requests[kind].cpu_milli < requests[path[0]].cpu_milli:
                        swaps.append((*path, kind))
                    if kind in seen:
                        continue
                    seen.add(kind)
                    longer.append((*path, kind))
                    if fits_somewhere(self.cluster, requests[kind], self.policy):
                        yield longer[-1]
            yield from swaps[:MOST_SWAPS]
            level = longer[:MOST_LONGER]

    def _displaceable(self, request: Request) -> list[int]:
        """Kinds of which one could make room for the request by itself, the cheapest first."""
        positions = np.flatnonzero(self._leaving_helps(request, np.arange(len(self.numbers))))
        kinds, first = np.unique(self.kind[positions], return_index=True)
        found: list[int] = kinds[np.argsort(first)].tolist()
        return [kind for kind in found if not _dominates(self.holdings.requests[kind], request)]

    def _leaving_helps(self, request: Request, positions: IntArray) -> BoolArray:
        """Whether the request fits on a position's node once that has left; CPU first, which rules most of them out."""
        shape = self.cluster.shape(request)
        cpu = self.cluster.cpu_free[self.node[positions]] + self.freed.cpu[positions] >= request.cpu_milli
        helps: BoolArray = cpu & shape.suits[self.node[positions]]
        likely = positions[helps]
        freed = type(self.freed)(*(rows[likely] for rows in self.freed))
        helps[helps] = shape.fits(self.node[likely], freed)
        return helps

    def _chain(self, request: Request, path: Sequence[int], left: int | None) -> tuple[Grant, list[Move]] | None:
        """A grant for the request and the moves that it takes along that path. left: the node that it comes from."""
        cluster = self.cluster
        if not path:
            elsewhere = None if left is None else ~self._only(left)
            grant = place(cluster, request, self.policy, elsewhere)
            return None if grant is None else (grant, [])
        positions = np.flatnonzero(self.kind == path[0])
        positions = positions[self._leaving_helps(request, positions)]
        tried = 0
        for position in positions.tolist():
            node = int(self.node[position])
            if position in self.moved or node == left:
                continue
            tried += 1
            if tried > MOST_TRIED_OF_A_KIND:
                break
            held = self.holdings.get(int(self.numbers[position]))
            mark = cluster.mark()
            self.moved.add(position)
            cluster.give_back(held.grant, held.request)
            grant = place(cluster, request, self.policy, self._only(node))
            if grant is not None:
                cluster.take(grant, request)
                rest = self._chain(held.request, path[1:], node)
                if rest is not None:
                    cluster.rollback(mark)
                    self.moved.clear()
                    return grant, [Move(held, rest[0]), *rest[1]]
            cluster.rollback(mark)
            self.moved.discard(position)
        return None

    def _sets(self) -> list[list[int]]:
        """For each node where it helps, the necessary positions to move; the cheapest set first."""
        fits = {
            kind: fits_somewhere(self.cluster, self.holdings.requests[kind], self.policy)
            for kind in set(self.kind.tolist())
        }
        movable = np.flatnonzero([fits[kind] for kind in self.kind.tolist()])
        nodes = np.unique(self.node[movable])
        shape = self.cluster.shape(self.request)
        helps = nodes[shape.fits(nodes, self.holdings.freed_together(self.numbers[movable], nodes))]
        sets = [self._needed(node, movable[self.node[movable] == node].tolist()) for node in helps.tolist()]
        few = [chosen for chosen in sets if len(chosen) <= self.most_moves]
        return sorted(few, key=lambda chosen: (len(chosen), int(self.parts[chosen].sum()), chosen))[:MOST_TRIED]

    def _needed(self, node: int, positions: list[int]) -> list[int]:
        """The first of these after which the request fits; then those put back, last first, who need not go."""
        at = np.array([node])
        shape = self.cluster.shape(self.request)

        def fits(chosen: Sequence[int]) -> bool:
            return bool(shape.fits(at, self.holdings.freed_together(self.numbers[list(chosen)], at))[0])

        count = next(n for n in range(1, len(positions) + 1) if fits(positions[:n]))
        chosen = positions[:count]
        for position in reversed(list(chosen)):
            rest = [other for other in chosen if other != position]
            if rest and fits(rest):
                chosen = rest
        return chosen

    def _together(self, positions: Sequence[int]) -> Proposal | None:
        """The proposal in which these make room on their node, if each finds another place."""
        cluster = self.cluster
        here = self._only(int(self.node[positions[0]]))
        movers = [self.holdings.get(int(self.numbers[position])) for position in positions]
        mark = cluster.mark()
        try:
            for held in movers:
                cluster.give_back(held.grant, held.request)
            grant = place(cluster, self.request, self.policy, here)
            if grant is None:
                return None
            cluster.take(grant, self.request)
            moves = []
            for held in sorted(movers, key=lambda held: -sum(held.grant.units)):
                to = place(cluster, held.request, self.policy, ~here)
                if to is None:
                    return None
                cluster.take(to, held.request)
                moves.append(Move(held, to))
            return Proposal(tuple(moves), (grant,))
        finally:
            cluster.rollback(mark)

    def _only(self, node: int) -> BoolArray:
        here = np.zeros(len(self.cluster.nodes), dtype=np.bool_)
        here[node] = True
        return here


def _dominates(request: Request, other: Request) -> bool:
    """It asks for more of the devices than the other, or the same all over: moving it instead gains nothing."""
    return _size(request) > _size(other) or (
        _size(request) == _size(other) and request.cpu_milli == other.cpu_milli and request.models == other.models
    )


def _size(request: Request) -> tuple[float, int]:
    return (request.devices * (request.units or float("inf")) if request.devices else 0, request.devices)
