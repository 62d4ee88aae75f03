"""Answers that take seconds and up to a gigabyte each: so many at once, the others by turns, which hold no thread.

Else forty requests, also of a tenant, would hold all threads, and more memory than there is.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator

from fastapi import Depends, HTTPException, Request

from api.sql.errors import SqlError
from api.sql.turns import Turns

AT_ONCE = 2
"""Of one person one less (api/sql/slots.py)."""
WAITING_SECONDS = 300.0
_TURNS = Turns(AT_ONCE, WAITING_SECONDS)


async def _turn(request: Request) -> AsyncIterator[None]:
    async with contextlib.AsyncExitStack() as stack:
        try:
            await stack.enter_async_context(_TURNS.turn(request.state.principal.actor))
        except SqlError as error:
            busy = "exports, drafts, proofs and simulations take turns, and too many wait: ask again in a while"
            raise HTTPException(503, busy, {"Retry-After": "5"}) from error
        if await _has_left(request):
            raise HTTPException(408, "you left before it was your turn")
        yield


async def _has_left(request: Request) -> bool:
    """Whether nobody waits for the answer any more. A request of no body says first that it has none."""
    return await request.is_disconnected() or await request.is_disconnected()


HEAVY = Depends(_turn, scope="function")
"""For `dependencies` of a route. The turn ends with the work: whoever reads its answer slowly holds up nobody."""
