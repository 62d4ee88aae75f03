"""Bounded thread pools (lanes), one for each kind of slow work that unauthenticated clients can trigger.

Waiting for an API server, an identity provider or a password hash happens in a lane of its own, so that it holds up
nothing else. A full lane refuses at once, and one client address can take only a share of it.
"""

from __future__ import annotations

import asyncio
import contextvars
import functools
import threading
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import ParamSpec, TypeVar

from warehouse.addresses import rate_limit_key

P = ParamSpec("P")
T = TypeVar("T")


class LaneFullError(Exception):
    """The lane is full; retry a moment later."""


class Lane:
    """threads: concurrent calls.   waiting: further calls that may queue for a thread.
    per_address: limit on both together for one client address (an IPv6 /64)."""

    def __init__(self, name: str, threads: int, waiting: int = 0, per_address: int | None = None) -> None:
        self._pool = ThreadPoolExecutor(threads, f"lane-{name}")
        self._places = threads + waiting
        self._per_address = self._places if per_address is None else per_address
        self._lock = threading.Lock()
        self._taken: Counter[str] = Counter()

    def is_full(self, address: str = "") -> bool:
        """Whether `run` would raise LaneFullError now."""
        with self._lock:
            return self._is_full(rate_limit_key(address))

    def run(self, address: str, work: Callable[P, T], /, *args: P.args, **more: P.kwargs) -> asyncio.Future[T]:
        """Runs it on one of the lane's threads. Its place is taken until it has ended, whether or not anybody still
        waits for it.   Errors: LaneFullError, before anything is begun."""
        by = rate_limit_key(address)
        with self._lock:
            if self._is_full(by):
                raise LaneFullError
            self._taken[by] += 1
        try:
            future = self._pool.submit(contextvars.copy_context().run, functools.partial(work, *args, **more))
        except BaseException:
            self._free_place(by)
            raise
        future.add_done_callback(lambda _: self._free_place(by))
        return asyncio.wrap_future(future)

    def _is_full(self, by: str) -> bool:
        return self._taken.total() >= self._places or self._taken[by] >= self._per_address

    def _free_place(self, by: str) -> None:
        with self._lock:
            self._taken[by] -= 1
            if not self._taken[by]:
                del self._taken[by]
