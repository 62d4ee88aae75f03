"""Makes rows of what was pushed, again and again: `run` is one pass.

An instant of a target is assembled when nothing of it has come for `settle_seconds`. Its rows are stored with the
rights that its sender has now, and then it is marked; killed in between, it is assembled again, into the same rows.
What comes later still (a shard of Prometheus that had to wait) is assembled once more, with what lies around it: such
rows stand beside those that were told before, as whatever is told in other words does.
"""

from __future__ import annotations

import logging
import threading
import time
import uuid
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from itertools import groupby

from collectors.readings import Row
from collectors.receivers.assemble import LOOKBACK_SECONDS, TOGETHER_SECONDS, Instant, Memory, assemble, instants
from collectors.receivers.log import Pending, PointLog, Reading
from collectors.receivers.points import Target
from ingest.receive import Receiver
from warehouse.errors import LedgerError
from warehouse.store import Store

log = logging.getLogger(__name__)

EVERY_SECONDS = 5.0
SETTLE_SECONDS = 10.0
"""Prometheus sends what it scraped within five seconds (`batch_send_deadline`)."""
SECOND_SECONDS = 120.0
"""How long a target's first instant waits for its second, which tells how often it is asked."""
HELD_UP_SECONDS = 900.0
"""Nothing more is taken in when the oldest instant has waited so long: something keeps them from being assembled."""
ROWS_AT_ONCE = 50_000
LEASE_SECONDS = 60.0
"""Of several servers over one store one assembles; another goes on when it has not for so long."""
LOG_SECONDS = 60.0
FORGET_SECONDS = 3600.0
"""A target of which nothing came for so long is forgotten."""
LOOKBACK, AROUND = timedelta(seconds=LOOKBACK_SECONDS), timedelta(seconds=LOOKBACK_SECONDS)

Key = tuple[str, str]
"""Sender and target."""


class Assembler:
    """receiver: where rows go.   pushed: the log that is filled meanwhile, or None where nobody fills one here."""

    def __init__(
        self,
        receiver: Receiver,
        pushed: PointLog | None = None,
        settle_seconds: float = SETTLE_SECONDS,
        lease_seconds: float = LEASE_SECONDS,
    ) -> None:
        self._receiver, self._pushed, self._settle, self._lease = receiver, pushed, settle_seconds, lease_seconds
        self._mine = uuid.uuid4()
        self._memories: dict[Key, tuple[Memory, float]] = {}
        self._looked_at = 0.0
        self._troubled_at = -LOG_SECONDS
        self._troubled: set[Key] = set()
        self.dropped: Counter[str] = Counter()
        """Series that were read and not used, by reason, since the server began."""

    def run(self, store: Store, stop: threading.Event) -> None:
        """One pass. What goes wrong is logged, and tried again with the next."""
        try:
            with store.turn("assembling"):
                self._pass(Reading(store, self._mine), stop)
        except LedgerError as error:
            self._memories.clear()  # they are ahead of what is stored
            if self._to_be_logged():
                log.error("receive: pushed points wait to be assembled: %s", error)
        except Exception:  # the next pass goes on where this one stopped
            self._memories.clear()
            log.exception("receive: pushed points wait to be assembled")

    def _pass(self, reading: Reading, stop: threading.Event) -> None:
        now = time.monotonic()
        others = reading.seconds_since_others()
        if others < now - self._looked_at + EVERY_SECONDS:
            self._memories.clear()  # they know what happened meanwhile; the log tells it
        self._looked_at = now
        if others < self._lease:
            return
        pending = reading.pending()
        if self._pushed is not None:
            waits = (one.waits_seconds for one in pending if (one.sender, one.target) not in self._troubled)
            self._pushed.held_up = max(waits, default=0.0) > HELD_UP_SECONDS
        self._troubled.clear()
        batch = _Batch(self._receiver, reading)
        for key, some in groupby(pending, lambda one: (one.sender, one.target)):
            if stop.is_set():
                break
            try:
                self._target(key, list(some), reading, batch)
            except LedgerError:
                raise
            except Exception:  # of this target alone: it must not keep the others from being assembled
                log.exception("receive: what %s pushed of %s waits to be assembled", *key)
                self._troubled.add(key)
                self._memories.pop(key, None)
            if batch.rows >= ROWS_AT_ONCE:
                self._store(batch)
        self._store(batch)
        self._memories = {key: kept for key, kept in self._memories.items() if kept[1] > now - FORGET_SECONDS}

    def _to_be_logged(self) -> bool:
        """Once a while: a store that is away is away with every pass."""
        due = time.monotonic() >= self._troubled_at + LOG_SECONDS
        self._troubled_at = time.monotonic() if due else self._troubled_at
        return due

    def _store(self, batch: _Batch) -> None:
        """Errors: LedgerError of a sender whose rows the store did not take; the others' are there."""
        for trouble in batch.store():
            raise trouble

    def _target(self, key: Key, pending: Sequence[Pending], reading: Reading, batch: _Batch) -> None:
        target = Target.of(key[1])
        ready = [one for one in pending if one.age_seconds >= self._settle]
        memory, _ = self._memories.get(key, (None, 0.0))
        at = memory.at if memory is not None else None
        late = [one for one in ready if at is not None and one.ts.timestamp() <= at]
        unready = [one.ts for one in pending if one.age_seconds < self._settle]
        first_unready = min((ts for ts in unready if at is None or ts.timestamp() > at), default=None)
        next_ones = [
            one
            for one in ready
            if (at is None or one.ts.timestamp() > at) and (first_unready is None or one.ts < first_unready)
        ]
        together = TOGETHER_SECONDS[target.way]
        if at is not None and late:
            self._late(key, at, late, together, reading, batch)
        if not next_ones:
            return
        if memory is None:
            memory = Memory()
            first = next_ones[0].ts - LOOKBACK
        else:
            first = next_ones[0].ts
        some = instants(reading.points(*key, first, next_ones[-1].ts), together)
        if at is None and len(some) == 1 and next_ones[0].waits_seconds < SECOND_SECONDS:
            return
        wanted = {one.ts for one in next_ones}
        self._told(key, target, memory, some, wanted, batch)
        batch.done[key[0]] += next_ones
        self._memories[key] = memory, time.monotonic()

    def _late(
        self, key: Key, at: float, late: Sequence[Pending], together: float, reading: Reading, batch: _Batch
    ) -> None:
        """What came after its instant was assembled: this instant again and those after it, which it may change, as far
        as they were assembled (at: seconds since 1970)."""
        target = Target.of(key[1])
        new = sorted(reading.new(late))
        for first, last in _spans(new):
            some = instants(reading.points(*key, first - LOOKBACK, last + AROUND), together)
            wanted = {ts for one in some for ts in one.members if first <= ts and ts.timestamp() <= at}
            self._told(key, target, Memory(), some, wanted, batch)
        batch.done[key[0]] += late

    def _told(
        self, key: Key, target: Target, memory: Memory, some: Sequence[Instant], wanted: set[datetime], batch: _Batch
    ) -> None:
        collected = assemble(target, memory, some, lambda instant: not wanted.isdisjoint(instant.members))
        self.dropped += collected.dropped
        batch.add(key[0], collected.rows)


class _Batch:
    """Rows of several targets that are stored together, and by sender the instants that they were made of."""

    def __init__(self, receiver: Receiver, reading: Reading) -> None:
        self._receiver, self._reading = receiver, reading
        self.done: dict[str, list[Pending]] = defaultdict(list)
        self.rows = 0
        self._rows: dict[str, dict[str, list[Row]]] = {}

    def add(self, sender: str, rows: dict[str, list[Row]]) -> None:
        own = self._rows.setdefault(sender, {})
        for record, some in rows.items():
            own.setdefault(record, []).extend(some)
            self.rows += len(some)

    def store(self) -> list[LedgerError]:
        """Answers why the store did not take the rows of some senders: theirs are not marked, and come again."""
        troubles = []
        for name, done in self.done.items():
            sender = self._receiver.senders.named(name)
            try:
                if sender is not None:
                    self._receiver.take(sender, f"push:{name} metrics", self._rows.get(name, {}))
                else:
                    log.warning("receive: %s may send no more: what it pushed last is not taken", name)
                self._reading.assembled(done)
            except LedgerError as trouble:
                troubles.append(trouble)
        self.done, self.rows, self._rows = defaultdict(list), 0, {}
        return troubles


def _spans(times: Iterable[datetime]) -> list[list[datetime]]:
    """Those that lie near each other, as their first and last."""
    spans: list[list[datetime]] = []
    for ts in times:
        if spans and ts - spans[-1][1] <= AROUND:
            spans[-1][1] = ts
        else:
            spans.append([ts, ts])
    return spans
