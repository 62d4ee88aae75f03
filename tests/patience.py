"""Waiting for asynchronous results, and CPU limits, on machines of any speed."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

PATIENCE_SECONDS = 120.0
"""Longer than any result takes on a slow machine; then the test fails."""
LOOP_SECONDS = 0.03
"""CPU seconds of the loop in `slowness` on the machine that limits were written for."""


def until(found: Callable[[], T], missing: object = "", every: float = 0.01, within: float = PATIENCE_SECONDS) -> T:
    """Calls `found` until its result is true, and returns it.   missing: the failure's message, or a function that
    makes it.   within: seconds; shorter only if a broken program would succeed later."""
    end = time.monotonic() + within
    while not (answer := found()):
        assert time.monotonic() < end, missing() if callable(missing) else missing or "it did not come to that"
        time.sleep(every)
    return answer


def slowness() -> float:
    """How many times slower this machine is now than the one that limits of CPU seconds were written for; at least
    1."""
    began = time.process_time()
    for _ in range(1_000_000):
        pass
    return max(1.0, (time.process_time() - began) / LOOP_SECONDS)
