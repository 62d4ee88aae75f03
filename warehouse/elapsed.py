"""A monotonic clock that runs on while the machine is suspended."""

from __future__ import annotations

import time

_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)  # BOOTTIME is Linux's alone


def elapsed() -> float:
    """Seconds since this machine started; only differences mean anything."""
    return time.clock_gettime(_CLOCK)
