"""The loop of one source, tick after tick, on its own thread, so that a slow source delays no other."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from collectors.agent.outbox import Outbox
from collectors.agent.sources import Planned
from collectors.agent.ticks import ClockWatch, at, missed, next_tick
from collectors.readings import Collected
from warehouse.connection_errors import INTERNAL, reason
from warehouse.errors import LedgerError

log = logging.getLogger(__name__)

LATE_SHARE = 0.1
"""Of the interval: a tick that begins later than this after its time is late."""
JUMP_MS = 1000
"""A wall clock that goes so far by itself between two ticks has jumped."""
AGAIN_SECONDS = 600.0
"""Trouble that stays is reported again after so long."""
STALLED_INTERVALS = 3


class Watcher(Protocol):
    """Receives the rows of every tick after they were spooled."""

    def __call__(self, source: str, collected: Collected, now: datetime) -> None: ...


@dataclass
class CycleState:
    """How a source does. tick_ms: the last tick that is over.   busy_since: monotonic seconds, None if it is idle.
    rows: of the last tick.   error: of the last tick, empty if there was none."""

    ticks: int = 0
    late: int = 0
    missed: int = 0
    failed: int = 0
    seconds: float = 0.0
    last_seconds: float = 0.0
    tick_ms: int | None = None
    rows: int = 0
    busy_since: float | None = None
    error: str = ""


class Cycle:
    """The loop of one source.

    wall, steady: clocks in seconds.
    """

    def __init__(
        self,
        planned: Planned,
        outbox: Outbox,
        show: Watcher | None = None,
        wall: Callable[[], float] = time.time,
        steady: Callable[[], float] = time.monotonic,
    ) -> None:
        self.name, self.interval_seconds = planned.name, planned.interval_seconds
        self.state = CycleState()
        self.source = planned.source
        self._interval_ms = round(planned.interval_seconds * 1000)
        self._outbox, self._show = outbox, show
        self._wall, self._steady = wall, steady
        self._clock = ClockWatch(self._wall_ms(), self._steady_ms())
        self._reported, self._reported_at = "", 0.0

    def run(self, stop: threading.Event) -> None:
        """Runs until stopped."""
        while (tick_ms := self._wait(stop)) is not None:
            try:
                self.tick(tick_ms)
            except Exception:  # what a source gave must not end it for good
                log.exception("agent: %s failed with an internal error", self.name)
                self.state.failed += 1
                self.state.error = INTERNAL
                self.state.busy_since = None

    def stalled(self) -> bool:
        """Whether the source has not answered for several intervals."""
        since = self.state.busy_since
        return since is not None and self._steady() - since > STALLED_INTERVALS * self.interval_seconds

    def tick(self, tick_ms: int) -> None:
        """Reads the source once and spools its rows; a source that fails is a finding."""
        state, now = self.state, at(tick_ms)
        began = self._steady()
        self._note_times(tick_ms)
        state.busy_since = began
        collected = self._collected(now)
        self._say_jump(collected, now)
        state.rows = sum(len(rows) for rows in collected.rows.values())
        if self._outbox.put(self.name, collected, now):
            self._kept()
        if self._show is not None:
            self._show(self.name, collected, now)
        state.busy_since = None
        state.ticks += 1
        state.tick_ms = tick_ms
        state.last_seconds = self._steady() - began
        state.seconds += state.last_seconds

    def _wait(self, stop: threading.Event) -> int | None:
        """Sleeps until the next tick; None if it is time to stop. A clock that is set changes which tick is next."""
        tick_ms = next_tick(self._wall_ms(), self._interval_ms)
        while (left_ms := tick_ms - self._wall_ms()) > 0:
            if left_ms > self._interval_ms:
                tick_ms = next_tick(self._wall_ms(), self._interval_ms)
                continue
            if stop.wait(min(left_ms / 1000, 5.0)):
                return None
        return None if stop.is_set() else tick_ms

    def _note_times(self, tick_ms: int) -> None:
        state = self.state
        state.missed += missed(state.tick_ms, tick_ms, self._interval_ms)
        if self._wall_ms() - tick_ms > LATE_SHARE * self._interval_ms:
            state.late += 1

    def _collected(self, now: datetime) -> Collected:
        try:
            collected = self.source.collect(now)
        except Exception as error:  # one source that fails must not end the agent
            self.state.failed += 1
            if not isinstance(error, LedgerError):
                log.exception("agent: %s failed with an internal error", self.name)
            what = reason(error) if isinstance(error, OSError) else str(error)
            return self._trouble(what or INTERNAL, now)
        self.state.error = ""
        return collected

    def _trouble(self, what: str, now: datetime) -> Collected:
        collected = Collected()
        self.state.error = what
        if what != self._reported or self._steady() - self._reported_at >= AGAIN_SECONDS:
            self._reported, self._reported_at = what, self._steady()
            log.warning("agent: %s: %s", self.name, what)
            finding = self._outbox.finding(now, "source_unreachable", "warning", what, self.name)
            collected.add("findings", finding)
        return collected

    def _say_jump(self, collected: Collected, now: datetime) -> None:
        before, self._clock = self._clock, ClockWatch(self._wall_ms(), self._steady_ms())
        jump = before.jump_ms(self._clock.wall_ms, self._clock.steady_ms)
        if abs(jump) >= JUMP_MS:
            text = f"the clock went {jump / 1000:+.1f} s by itself since the tick before"
            log.warning("agent: %s: %s", self.name, text)
            collected.add("findings", self._outbox.finding(now, "clock_jumped", "warning", text, self.name))

    def _kept(self) -> None:
        try:
            self.source.acknowledge()
        except Exception:  # it will give the same again
            log.exception("agent: %s could not note that its rows are kept", self.name)

    def _wall_ms(self) -> int:
        return int(self._wall() * 1000)

    def _steady_ms(self) -> int:
        return int(self._steady() * 1000)
