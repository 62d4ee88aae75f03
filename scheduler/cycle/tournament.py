"""Kueue's tournament down a tree of tenants or queues: each branch is represented by the best of its children's heads.

A charge or a new head changes comparisons only along one path from a tenant to the root, and only these are repeated:
each branch has a heap of its children by key, in which outdated entries are skipped.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any, Generic, Protocol, TypeVar

from scheduler.quota.tree import Branch

Key = tuple[Any, ...]
Head = TypeVar("Head")
Heads = TypeVar("Heads", contravariant=True)


class Judge(Protocol[Heads]):
    """How heads are compared."""

    def path(self, head: Heads) -> Sequence[Branch]:
        """The branches that a head competes in, from below the root down to its own."""

    def key(self, branch: Branch, head: Heads) -> Key:
        """The key of a branch with the head that won below it; the lowest wins. Keys are unique.

        Within a cycle, it may depend only on what the branches from this one down to the head's own hold.
        """


@dataclass(eq=False, slots=True)
class _Seat(Generic[Head]):
    """A branch in the tournament. own: the head of the branch itself, which comes before its children's.
    winner: the best head at or below the branch; None if there is none.   key: of the branch with it.
    below: heap of (key, entry number, child); an entry is current while its key is the child's own object."""

    branch: Branch | None
    above: _Seat[Head] | None
    depth: int
    own: Head | None = None
    winner: Head | None = None
    key: Key | None = None
    below: list[tuple[Key, int, _Seat[Head]]] = field(default_factory=list)


_DEPTH = attrgetter("depth")


class Tournament(Generic[Head]):
    """A tournament among tenants or queues, by name, each with its head."""

    def __init__(self, judge: Judge[Head]) -> None:
        self._judge = judge
        self._root: _Seat[Head] = _Seat(None, None, 0)
        self._seats: dict[int, _Seat[Head]] = {}
        self._named: dict[str, list[_Seat[Head]]] = {}
        self._by_name: dict[str, _Seat[Head]] = {}
        self._stale: set[_Seat[Head]] = set()
        self._entries = 0

    def __len__(self) -> int:
        return len(self._by_name)

    def __contains__(self, name: str) -> bool:
        return name in self._by_name

    def anybody(self) -> str | None:
        """Some name with a head; None if there is none."""
        return next(iter(self._by_name), None)

    def put(self, name: str, head: Head | None) -> None:
        """Sets the head of a name; None removes it."""
        before = self._by_name.pop(name, None)
        if before is not None:
            before.own = None
            self._touch(before)
        if head is not None:
            seat = self._by_name[name] = self._seat(self._judge.path(head))
            seat.own = head
            self._touch(seat)

    def charged(self, names: Iterable[str]) -> None:
        """The holdings of these branches have changed."""
        for name in names:
            for seat in self._named.get(name, ()):
                self._touch(seat)

    def winner(self) -> Head:
        """The next head. There must be one."""
        for seat in sorted(self._stale, key=_DEPTH, reverse=True):
            self._renew(seat)
        self._stale.clear()
        assert self._root.winner is not None
        return self._root.winner

    def _seat(self, path: Sequence[Branch]) -> _Seat[Head]:
        above = self._root
        for branch in path:
            seat = self._seats.get(id(branch))
            if seat is None:
                seat = self._seats[id(branch)] = _Seat(branch, above, above.depth + 1)
                self._named.setdefault(branch.name, []).append(seat)
            above = seat
        return above

    def _touch(self, seat: _Seat[Head] | None) -> None:
        while seat is not None and seat not in self._stale:
            self._stale.add(seat)
            seat = seat.above

    def _renew(self, seat: _Seat[Head]) -> None:
        """Recomputes a branch's winner and key, once those below it are current."""
        seat.winner = seat.own if seat.own is not None else self._best_below(seat)
        if seat.branch is None or seat.above is None:
            return
        key = None if seat.winner is None else self._judge.key(seat.branch, seat.winner)
        if key != seat.key:
            seat.key = key
            if key is not None:
                self._entries += 1
                heapq.heappush(seat.above.below, (key, self._entries, seat))

    def _best_below(self, seat: _Seat[Head]) -> Head | None:
        below = seat.below
        while below and below[0][0] is not below[0][2].key:
            heapq.heappop(below)
        return below[0][2].winner if below else None
