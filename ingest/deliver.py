"""Delivers a spool's batches to their target: in order, one group at a time, deleted from disk once accepted.

Deliverer(spool, target(url, Sender("c1", "gpu-1"), token_file)).run(stop)
"""

from __future__ import annotations

import logging
import random
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime

from ingest.spool import Group, Spool
from ingest.targets import Answer, Outcome, Target
from warehouse.connection_errors import INTERNAL

log = logging.getLogger(__name__)

GROUP_ROWS = 200_000
GROUP_BYTES = 8 << 20
"""At most so much at once, compressed: about 60 MB of text, which the receiver reads and writes side by side."""
FIRST_PAUSE_SECONDS = 1.0
LONGEST_PAUSE_SECONDS = 120.0
HOLD_SECONDS = 300.0
"""How long rows of a record type wait that the server does not accept from us; others are sent meanwhile."""


def pause(failures: int, retry_after: float | None, chance: float) -> float:
    """Seconds to wait after so many failures in a row: anything up to a bound that doubles (full jitter), so that many
    agents do not come back at once; in addition to what the server asks for.

    chance: 0-1, drawn anew each time.
    Source: https://aws.amazon.com/blogs/architecture/exponential-backoff-and-jitter/
    """
    bound = min(LONGEST_PAUSE_SECONDS, FIRST_PAUSE_SECONDS * 2.0 ** min(failures - 1, 30))
    return (retry_after or 0.0) + chance * bound


@dataclass
class DeliveryState:
    """What was sent since the start. failing_since: None while it works.   problem: the last one, empty if it works.
    held: record types that the server refuses, with the time until which they wait (monotonic seconds)."""

    batches: int = 0
    rows: int = 0
    bytes: int = 0
    quarantined: int = 0
    answers: Counter[str] = field(default_factory=Counter)
    last_taken_at: datetime | None = None
    failing_since: datetime | None = None
    problem: str = ""
    held: dict[str, float] = field(default_factory=dict)


class Deliverer:
    """Sends what the spool has. A group is resent unchanged until its fate is known, so that the receiver recognizes a
    duplicate.

    every_seconds: how often it polls an empty spool, at a random phase, so that agents do not all send at once.
    """

    def __init__(
        self,
        spool: Spool,
        target: Target,
        every_seconds: float = 10.0,
        chance: Callable[[], float] = random.random,
    ) -> None:
        self.state = DeliveryState()
        self._spool, self._target, self._chance = spool, target, chance
        self._every = every_seconds
        self._group: Group | None = None
        self._failures = 0
        self._limits = (GROUP_ROWS, GROUP_BYTES)
        self._single_until = 0  # up to this sequence number, batches are sent one by one

    def run(self, stop: threading.Event) -> None:
        """Runs until `stop` is set; finishes the group being sent."""
        wait = self._chance() * self._every
        while not stop.wait(wait):
            wait = self._step()
        self._target.close()

    def _step(self) -> float:
        """A step that survives our own bugs: an unexpected error must not end delivery for good."""
        now = datetime.now(UTC)
        try:
            return self.step(time.monotonic(), now)
        except Exception:
            log.exception("deliver: an internal error")
            self.state.problem = INTERNAL
            self.state.failing_since = self.state.failing_since or now
            self._failures += 1
            return pause(self._failures, None, self._chance())

    def step(self, clock: float, now: datetime) -> float:
        """Sends one group, if there is one; returns the seconds to wait before the next step.

        clock: monotonic seconds.
        """
        self.state.held = {record: until for record, until in self.state.held.items() if until > clock}
        if self._group is None:
            limits = (1, 1) if self._single_until else self._limits
            self._group = self._spool.oldest(*limits, without=frozenset(self.state.held))
        if self._group is None:
            self._single_until = 0
            return self._every
        group = self._group
        answer = self._target.send(group)
        self.state.answers[answer.outcome] += 1
        if answer.outcome is Outcome.TAKEN:
            self._acknowledge(group, answer, now)
            return 0.0
        if self.state.problem != answer.message:
            log.warning("deliver: %s (%d rows of %s): %s", answer.outcome, group.rows, group.record, answer.message)
        self.state.problem = answer.message
        self.state.failing_since = self.state.failing_since or now
        if answer.outcome is Outcome.HOLD:
            self.state.held[group.record] = clock + HOLD_SECONDS
            self._group = None
            return 0.0
        if answer.outcome in (Outcome.REFUSED, Outcome.SMALLER):
            self._narrow_down(group, answer, now)
            return 0.0
        self._failures += 1
        return pause(self._failures, answer.retry_after, self._chance())

    def _acknowledge(self, group: Group, answer: Answer, now: datetime) -> None:
        self._spool.acknowledge(group)
        self._group = None
        self._failures = 0
        self._end_single(group)
        state = self.state
        state.batches += len(group.numbers)
        state.rows += group.rows
        state.bytes += len(group.body)
        state.quarantined += answer.quarantined
        state.last_taken_at = now
        if not state.held:
            state.failing_since, state.problem = None, ""

    def _narrow_down(self, group: Group, answer: Answer, now: datetime) -> None:
        """Sends a refused group's batches one by one, and sets the bad ones aside, so that they do not block the
        rest."""
        self._group = None
        if len(group.numbers) == 1:
            self._spool.set_aside(group, answer.message, now)
            self._end_single(group)
        elif answer.outcome is Outcome.SMALLER:
            self._limits = (group.rows // 2, len(group.body) // 2)
        else:
            self._single_until = group.numbers[-1]

    def _end_single(self, group: Group) -> None:
        if group.numbers[-1] >= self._single_until:
            self._single_until = 0
