"""Whether a store answers: what /healthz asks."""

from __future__ import annotations

import asyncio
from typing import Any

from warehouse.lanes import Lane
from warehouse.store import Store


class Health:
    """Asks on a thread of its own, so that whoever looks need not wait for other work; and once for all who look at the
    same time, so that those who look are no work either. For one event loop."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._lane = Lane("health", 1)
        self._asked: asyncio.Future[Any] | None = None

    async def check(self) -> None:
        """Errors: LedgerError as the store's."""
        if self._asked is None or self._asked.done():
            self._asked = self._lane.run("", self._store.value, "SELECT 1 AS one")
        await asyncio.shield(self._asked)
