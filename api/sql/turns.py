"""Limits how many statements run: each waits for a turn, up to a time limit. Safe to use from any event loop."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import threading
from collections.abc import AsyncIterator, Hashable

from api.sql.errors import TOO_MANY, SqlError
from api.sql.slots import Slots, Turn


class Turns:
    """at_once: statements that run.   waiting_seconds: how long others may wait for a turn."""

    def __init__(self, at_once: int, waiting_seconds: float) -> None:
        self.at_once, self._waiting_seconds = at_once, waiting_seconds
        self._lock = threading.Lock()
        self._slots = Slots(at_once)
        self._begins: dict[Turn, concurrent.futures.Future[None]] = {}

    @contextlib.asynccontextmanager
    async def turn(self, who: Hashable) -> AsyncIterator[None]:
        """A place among the statements that run. Errors: SqlError if none is free in time."""
        with self._lock:
            turn = self._slots.ask(who)
            if turn is None:
                raise SqlError(TOO_MANY, "too many statements are waiting", "Try again in a while")
            begins = self._begins[turn] = concurrent.futures.Future()
            self._start_next()
        try:
            await asyncio.wait_for(asyncio.wrap_future(begins), self._waiting_seconds)
            yield
        except TimeoutError:
            if turn.runs:
                raise
            raise SqlError(TOO_MANY, "too many statements are running", "Try again in a while") from None
        finally:
            with self._lock:
                self._begins.pop(turn, None)
                self._slots.leave(turn)
                self._start_next()

    def refuse(self, why: Exception) -> None:
        """Raises the error in all that wait for a turn."""
        with self._lock:
            for begins in self._begins.values():
                with contextlib.suppress(concurrent.futures.InvalidStateError):
                    begins.set_exception(why)

    def _start_next(self) -> None:
        for turn in self._slots.next_turns():
            with contextlib.suppress(concurrent.futures.InvalidStateError):  # its caller has just left
                self._begins.pop(turn).set_result(None)
