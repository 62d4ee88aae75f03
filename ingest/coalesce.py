"""Combines many small batches into few large inserts; a batch is done only when its rows are in the store.

One thread writes. Meanwhile batches queue up, and those of one record type are written as one. So a thousand agents
cause no more inserts than the store can take, and a single agent waits less than half a second.

While a batch is written, no server can issue a month (`Store.turn`). A batch that was judged by an older version of the
books is judged again first, so that no row slips into a month that was issued meanwhile.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, field

from ingest.batches import assemble
from ingest.issued_months import BooksVersion, books_version
from ingest.normalise import Clean
from ingest.write import write
from warehouse.errors import LedgerError
from warehouse.records import RecordType
from warehouse.store import Store

log = logging.getLogger(__name__)

LINGER_SECONDS = 0.4
"""How long the first batch waits for others."""
LONGEST = 1.5
"""Of this time: how long it waits while others are being judged, or it would be written a moment before they come, and
they, few, by themselves."""
ENOUGH_ROWS = 20_000
"""With so many rows, batches no longer wait for others, but for those that are being judged."""
MOST_ROWS = 500_000
"""The most rows of one insert."""


@dataclass
class PendingBatch:
    """A judged batch that waits to be written. source: who sent it, from where.   at: monotonic seconds.
    sender: its name.   judged_by: the version of the books it was judged by; None: they do not matter.
    rejudge: judges it by the current books.   done: set when its rows, good and bad, are in the store, or to the
    error."""

    record: RecordType
    source: str
    clean: Clean
    at: float
    sender: str = ""
    judged_by: BooksVersion | None = None
    rejudge: Callable[[], Clean] | None = None
    done: Future[None] = field(default_factory=Future)


class Coalescer:
    """Writes submitted batches on its own thread; nobody else uses its store connection.

    most_waiting: rows that may wait; more are refused (`full`).
    """

    def __init__(self, store: Store, linger_seconds: float = LINGER_SECONDS, most_waiting: int = 4 * MOST_ROWS) -> None:
        self._store, self._linger, self._most_waiting = store, linger_seconds, most_waiting
        self._changed = threading.Condition()
        self._waiting: dict[str, deque[PendingBatch]] = {}
        self._rows = 0
        self._coming = 0
        self._ending = False
        self.inserts = 0
        self._thread = threading.Thread(target=self._run, name="receive-write", daemon=True)
        self._thread.start()

    @property
    def waiting_rows(self) -> int:
        """Rows that wait or are being written."""
        return self._rows

    @property
    def full(self) -> bool:
        return self._ending or self._rows >= self._most_waiting

    @contextmanager
    def coming(self) -> Iterator[None]:
        """While a batch is being judged: a group that is due waits for it, if it has not waited long."""
        with self._changed:
            self._coming += 1
        try:
            yield
        finally:
            with self._changed:
                self._coming -= 1
                if not self._coming:
                    self._changed.notify()

    def put(self, arrived: PendingBatch) -> Future[None]:
        arrived.done.set_running_or_notify_cancel()  # nobody can cancel it from now on
        with self._changed:
            if self._ending:
                arrived.done.set_exception(LedgerError("receiver", "the server ends", "Send it again"))
                return arrived.done
            queue = self._waiting.setdefault(arrived.record.name, deque())
            queue.append(arrived)
            self._rows += arrived.clean.rows
            if len(queue) == 1 or self._rows >= ENOUGH_ROWS:
                self._changed.notify()
        return arrived.done

    def close(self) -> None:
        """Writes what is queued, then stops."""
        with self._changed:
            self._ending = True
            self._changed.notify()
        self._thread.join()

    def _run(self) -> None:
        while batch := self._next():
            rows = sum(arrived.clean.rows for arrived in batch)
            try:
                with self._store.turn(together=True):
                    self._write(self._judged(batch))
            except LedgerError as error:  # of the turn: nothing was written
                log.error("receive: %s of %s: %s", batch[0].record.name, batch[0].source, error)
                for arrived in batch:
                    if not arrived.done.done():
                        arrived.done.set_exception(error)
            with self._changed:
                self._rows -= rows

    def _next(self) -> list[PendingBatch]:
        """The batches of the record type that waits longest, once they have gathered; none at the end."""
        with self._changed:
            while True:
                queues = [queue for queue in self._waiting.values() if queue]
                now = time.monotonic()
                due_at = {id(queue): self._due_at(queue) for queue in queues}
                due = [queue for queue in queues if self._ending or due_at[id(queue)] <= now]
                if due:
                    return _pop(min(due, key=lambda queue: queue[0].at))
                if self._ending:
                    return []
                first = min(due_at.values(), default=None)
                self._changed.wait(None if first is None else first - now)

    def _due_at(self, queue: deque[PendingBatch]) -> float:
        """Monotonic seconds: when a queue's first batch has waited long enough."""
        rows = sum(arrived.clean.rows for arrived in queue)
        if self._coming and rows < MOST_ROWS:
            return queue[0].at + self._linger * LONGEST
        return queue[0].at + (self._linger if rows < ENOUGH_ROWS else 0)

    def _judged(self, batch: Sequence[PendingBatch]) -> list[PendingBatch]:
        """The batches, judged by the current books; those that cannot be judged now are left out."""
        if not any(arrived.judged_by for arrived in batch):
            return list(batch)
        judged: list[PendingBatch] = []
        version: BooksVersion | None = None
        for arrived in batch:
            try:
                if arrived.judged_by is not None and arrived.rejudge is not None:
                    version = version or books_version(self._store)
                    if arrived.judged_by != version:
                        arrived.clean = arrived.rejudge()
            except Exception as error:  # any error at all: the senders wait for the outcome
                log.exception("receive: %s of %s cannot be judged", arrived.record.name, arrived.source)
                arrived.done.set_exception(error)
            else:
                judged.append(arrived)
        return judged

    def _write(self, batch: Sequence[PendingBatch]) -> None:
        """Writes flawless batches together; batches with bad rows one by one, so that the quarantine names their
        sender; those that change the inventory or end jobs by sender, so that the batch shows who did it."""
        together: dict[str, list[PendingBatch]] = {}
        for arrived in batch:
            if not arrived.clean.rejects:
                apart = arrived.record.name in ("devices", "events")
                together.setdefault(arrived.sender if apart else "", []).append(arrived)
        alone = [[arrived] for arrived in batch if arrived.clean.rejects]
        for part in [*together.values(), *alone]:
            if not self._write_part(part, quiet=len(part) > 1) and len(part) > 1:
                # A batch that the engine refuses must not block the others.
                for arrived in part:
                    self._write_part([arrived])

    def _write_part(self, part: Sequence[PendingBatch], quiet: bool = False) -> bool:
        sources = {arrived.source for arrived in part}
        source = next(iter(sources)) if len(sources) == 1 else f"push: {len(part)} batches of {len(sources)} senders"
        record = part[0].record
        senders = ", ".join(sorted({arrived.sender for arrived in part}))
        try:
            write(self._store, record, source, assemble(record, source, 1, [one.clean for one in part]), senders)
        except Exception as error:  # any error at all: the senders wait for the outcome
            log.log(logging.WARNING if quiet else logging.ERROR, "receive: %s of %s: %s", record.name, source, error)
            if not isinstance(error, LedgerError):
                log.exception("receive: an internal error")
            if not quiet:
                for arrived in part:
                    arrived.done.set_exception(error)
            return False
        self.inserts += 1
        for arrived in part:
            arrived.done.set_result(None)
        return True


def _pop(queue: deque[PendingBatch]) -> list[PendingBatch]:
    taken = [queue.popleft()]
    rows = taken[0].clean.rows
    while queue and rows + queue[0].clean.rows <= MOST_ROWS:
        rows += queue[0].clean.rows
        taken.append(queue.popleft())
    return taken
