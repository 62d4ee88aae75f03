"""Which of several servers of one store does what only one should do (the leader)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from warehouse.errors import LedgerError


class NotLeadingError(LedgerError):
    """This server does not lead, or does no longer: another one does what was begun here."""


class Leads(Protocol):
    """Whether this server leads. It may end at any moment: ask right before each thing that others would notice."""

    def leading(self) -> bool: ...

    def when_gained(self, call: Callable[[], None]) -> None:
        """Has it called, from another thread, each time this server becomes the leader."""


class Alone:
    """Of a store that belongs to one process."""

    def leading(self) -> bool:
        return True

    def when_gained(self, call: Callable[[], None]) -> None:
        """It always was."""


ALONE = Alone()


def check(leads: Leads) -> None:
    """Errors: NotLeadingError."""
    if not leads.leading():
        raise NotLeadingError("server", "does not lead any more", "The one that does carries on")
