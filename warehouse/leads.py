"""Whether this server leads: of several servers on one store, only the leader does the background work."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from warehouse.errors import LedgerError


class NotLeadingError(LedgerError):
    """This server does not lead, or no longer: another one continues what was begun here."""


class Leads(Protocol):
    """Whether this server leads. That may end at any moment, so ask right before each effect on others."""

    def leading(self) -> bool: ...

    def when_gained(self, call: Callable[[], None]) -> None:
        """Registers a function to call, on another thread, each time this server becomes the leader."""


class SoleServer:
    """The only server of a store that belongs to one process: it always leads."""

    def leading(self) -> bool:
        return True

    def when_gained(self, call: Callable[[], None]) -> None:
        """Never called: it has always led."""


ALONE = SoleServer()


def check(leads: Leads) -> None:
    """Errors: NotLeadingError."""
    if not leads.leading():
        raise NotLeadingError("server", "does not lead any more", "The one that does carries on")
