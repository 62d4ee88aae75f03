"""Rows to be delivered to the books: in memory, and reproducible from the log until their delivery is recorded.

A crash loses nothing: undelivered rows are made again from the log, and are identical, so that the store recognizes
duplicates.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Sequence
from itertools import islice

from collectors.readings import Row
from scheduler.records.log import Log
from warehouse.errors import LedgerError

log_to = logging.getLogger(__name__)

READER = "events"
TOGETHER = 10_000
"""About how many rows are delivered at once."""
Deliver = Callable[[str, Sequence[Row]], None]
"""Takes rows of a record type, and returns once they are stored.   Errors: LedgerError, which is logged; then
retried."""


class Outbox:
    """deliver: None: events are discarded.   problem: why delivery fails; '' if it does not.

    Set `number` to an entry's number before adding its rows.
    """

    def __init__(self, log: Log, deliver: Deliver | None) -> None:
        self._log, self._deliver = log, deliver
        self._delivered = log.delivered(READER)
        self._waiting: deque[tuple[int, str, Sequence[Row]]] = deque()
        self.number = 0
        self.problem = ""

    def put(self, record: str, rows: Sequence[Row]) -> None:
        """Adds rows of the entry `number`, unless they were delivered before a restart."""
        if self._deliver is not None and self.number > self._delivered and rows:
            self._waiting.append((self.number, record, rows))

    @property
    def waiting(self) -> int:
        """The number of undelivered rows."""
        return sum(len(rows) for _, _, rows in self._waiting)

    def hand_over(self) -> None:
        """Delivers the waiting rows, in order."""
        if self._deliver is None:
            return
        while self._waiting:
            record, rows, pieces, number = self._next()
            try:
                self._deliver(record, rows)
            except LedgerError as error:
                if self.problem != str(error):
                    log_to.error("events wait: %s", error)
                self.problem = str(error)
                return
            for _ in range(pieces):
                self._waiting.popleft()
            self.problem = ""
            if not self._waiting or self._waiting[0][0] != number:
                self._delivered = number
                self._log.set_delivered(READER, number)

    def _next(self) -> tuple[str, list[Row], int, int]:
        """The next batch: (record type, rows, number of queue items, number of the last one's entry)."""
        number, record, _ = self._waiting[0]
        rows: list[Row] = []
        pieces = 0
        for later, kind, more in islice(self._waiting, TOGETHER):
            if kind != record or len(rows) >= TOGETHER:
                break
            number, pieces = later, pieces + 1
            rows += more
        return record, rows, pieces, number
