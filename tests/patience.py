"""No test is about how fast the machine is: what is waited for may take ten times as long as here."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

PATIENCE_SECONDS = 120.0
"""Nothing that comes at all takes so long; what never comes fails its test after it."""
LOOP_SECONDS = 0.03
"""Of CPU, for the loop of `slowness` on the machine that the tests were written on."""


def until(found: Callable[[], T], missing: object = "", every: float = 0.01, within: float = PATIENCE_SECONDS) -> T:
    """What `found` answers, once that is something. missing: said if it never is; may be a function. within: shorter
    where it would come later even if the program were broken."""
    end = time.monotonic() + within
    while not (answer := found()):
        assert time.monotonic() < end, missing() if callable(missing) else missing or "it did not come to that"
        time.sleep(every)
    return answer


def slowness() -> float:
    """How many times slower this machine computes now than the one that bounds of CPU seconds were written on; 1 where
    it is as fast."""
    began = time.process_time()
    for _ in range(1_000_000):
        pass
    return max(1.0, (time.process_time() - began) / LOOP_SECONDS)
