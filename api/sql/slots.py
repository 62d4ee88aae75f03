"""Decides which statement runs next. Pure: no clock, no thread.

So many statements run at once, and of one person at most one fewer, so that nobody can take every slot. Whoever waits
is served by turns: first the person with the fewest statements running, then the one who was served longest ago.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable
from dataclasses import dataclass, field

REMEMBERED = 1000
"""People whose last turn is remembered, so that somebody who asks again and again does not count as new."""


@dataclass(eq=False)
class Turn:
    """A statement that runs or waits to. who: its user."""

    who: Hashable
    runs: bool = False


@dataclass
class _Person:
    running: int = 0
    served: int = 0
    waiting: deque[Turn] = field(default_factory=deque)


class Slots:
    """at_once: statements that run.   waiting: of one person, at most; waiting_all: of everybody together."""

    def __init__(self, at_once: int, waiting: int = 32, waiting_all: int = 256) -> None:
        self.at_once, self.of_one = at_once, max(1, at_once - 1)
        self._waiting, self._waiting_all = waiting, waiting_all
        self._people: dict[Hashable, _Person] = {}
        self._running = self._served = self._queued = 0

    def ask(self, who: Hashable) -> Turn | None:
        """A turn that waits until `next_turns` names it; None: too many wait already."""
        person = self._people.get(who)
        if self._queued >= self._waiting_all or (person and len(person.waiting) >= self._waiting):
            return None
        turn = Turn(who)
        self._people.setdefault(who, _Person()).waiting.append(turn)
        self._queued += 1
        return turn

    def leave(self, turn: Turn) -> None:
        """Removes a statement that has ended, or no longer waits."""
        person = self._people[turn.who]
        if turn.runs:
            turn.runs = False
            person.running -= 1
            self._running -= 1
        else:
            person.waiting.remove(turn)
            self._queued -= 1
        if len(self._people) > REMEMBERED:
            self._forget()

    def next_turns(self) -> list[Turn]:
        """The turns that may begin now."""
        begun = []
        while self._running < self.at_once:
            able = [one for one in self._people.values() if one.waiting and one.running < self.of_one]
            if not able:
                break
            person = min(able, key=lambda one: (one.running, one.served))
            turn = person.waiting.popleft()
            self._served += 1
            person.served = self._served
            person.running += 1
            self._running += 1
            self._queued -= 1
            turn.runs = True
            begun.append(turn)
        return begun

    def _forget(self) -> None:
        """Who has nothing here and was served longest ago."""
        idle = [who for who, person in self._people.items() if not person.running and not person.waiting]
        for who in sorted(idle, key=lambda one: self._people[one].served)[: len(self._people) - REMEMBERED]:
            del self._people[who]
