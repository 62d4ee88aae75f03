"""When to read a source: at whole multiples of the interval since 1970, in UTC milliseconds. Pure.

Rows whose times lie on that grid let the hourly close work from sums (docs/ledger.md), and rows of several nodes lie
side by side.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

HOUR_MS = 3_600_000
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def next_tick(now_ms: int, interval_ms: int) -> int:
    """The first tick after now, in ms since 1970."""
    return (now_ms // interval_ms + 1) * interval_ms


def missed(last_ms: int | None, tick_ms: int, interval_ms: int) -> int:
    """Ticks between the last one and this one; a clock that was set back missed none."""
    return 0 if last_ms is None else max(0, (tick_ms - last_ms) // interval_ms - 1)


def at(tick_ms: int) -> datetime:
    return EPOCH + timedelta(milliseconds=tick_ms)


@dataclass(frozen=True, slots=True)
class ClockWatch:
    """The wall clock beside the monotonic one, both in ms at one moment."""

    wall_ms: int
    steady_ms: int

    def jump_ms(self, wall_ms: int, steady_ms: int) -> int:
        """How far the wall clock has gone by itself since then; negative if it was set back."""
        return (wall_ms - self.wall_ms) - (steady_ms - self.steady_ms)
