"""Counts what each sender pushed and what happened to it; `doctor` and `audit` show the counts by day.

They are kept in memory and written about once a minute, so a crash loses the last minute's; the rows themselves are in
`ingest_batches`.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter
from collections.abc import Callable
from datetime import UTC, date, datetime

import pyarrow as pa

from warehouse.errors import LedgerError
from warehouse.store import Store

log = logging.getLogger(__name__)

WRITTEN_SECONDS = 60.0
MOST_KEYS = 10_000
"""Senders, record types and reasons are few; what is made up by others than us is no key."""

Key = tuple[date, str, str, str, str]
"""Day, sender, record type, outcome, reason."""


class Tally:
    """clock: monotonic seconds."""

    def __init__(self, store: Store, clock: Callable[[], float] = time.monotonic) -> None:
        self._store, self._clock = store, clock
        self._lock = threading.Lock()
        self._pushes: Counter[Key] = Counter()
        self._rows: Counter[Key] = Counter()
        self._last: dict[Key, datetime] = {}
        self._written_at = clock()

    def add(self, now: datetime, sender: str, record: str, outcome: str, reason: str = "", rows: int = 0) -> None:
        key = now.astimezone(UTC).date(), sender, record, outcome, reason
        with self._lock:
            self._pushes[key] += 1
            self._rows[key] += rows
            self._last[key] = now

    @property
    def due(self) -> bool:
        return self._clock() >= self._written_at + WRITTEN_SECONDS or len(self._pushes) > MOST_KEYS

    def write(self) -> None:
        """Writes the counts since the last call; if the store fails, they are written with the next."""
        with self._lock:
            pushes, rows, last = self._pushes, self._rows, self._last
            self._pushes, self._rows, self._last = Counter(), Counter(), {}
            self._written_at = self._clock()
        if not pushes:
            return
        for (_, sender, record, outcome, reason), count in sorted(pushes.items()):
            if outcome == "denied":
                log.warning("receive: %s: %d pushes of %s denied (%s)", sender or "nobody known", count, record, reason)
        keys = list(pushes)
        names = ("day", "sender", "record_type", "outcome", "reason")
        columns = {name: [key[place] for key in keys] for place, name in enumerate(names)}
        table = pa.table(
            {
                **{name: pa.array(columns[name], pa.string()) for name in names[1:]},
                "day": pa.array([f"{day:%F}" for day in columns["day"]], pa.string()),
                "pushes": pa.array([pushes[key] for key in keys], pa.uint64()),
                "rows": pa.array([rows[key] for key in keys], pa.uint64()),
                "last_at": pa.array([last[key] for key in keys], pa.timestamp("ms", "UTC")),
            }
        )
        try:
            self._store.insert("sender_days", table)
        except LedgerError as error:
            log.error("receive: the counts of senders cannot be written: %s", error)
            with self._lock:
                self._pushes += pushes
                self._rows += rows
                self._last = {**last, **self._last}
