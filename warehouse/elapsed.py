"""Seconds that go on by themselves: no clock that somebody sets, and none that stops while the machine sleeps."""

from __future__ import annotations

import time

_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)  # BOOTTIME is Linux's alone


def elapsed() -> float:
    """Of this machine since it started: for differences alone."""
    return time.clock_gettime(_CLOCK)
