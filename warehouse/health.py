"""The check behind /healthz: does the store answer?"""

from __future__ import annotations

import asyncio
from typing import Any

from warehouse.lanes import Lane
from warehouse.store import Store


class Health:
    """Queries the store on its own thread, so that a check never waits behind other work; concurrent checks share one
    query, so that many of them cost nothing. For one event loop."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._lane = Lane("health", 1)
        self._asked: asyncio.Future[Any] | None = None

    async def check(self) -> None:
        """Errors: LedgerError as the store's."""
        if self._asked is None or self._asked.done():
            self._asked = self._lane.run("", self._store.value, "SELECT 1 AS one")
        await asyncio.shield(self._asked)
