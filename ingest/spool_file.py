"""The SQLite file of a spool: transactions, and how it survives a full disk or a damaged file."""

from __future__ import annotations

import contextlib
import logging
import sqlite3
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, TypeVar

from ingest.errors import IngestError
from ingest.wire import WireBatch
from warehouse.instants import epoch_ms
from warehouse.private_files import HeldError, hold
from warehouse.store import read_sql

log = logging.getLogger(__name__)
T = TypeVar("T")

NAME = "spool.db"
OVERHEAD_BYTES = 256
"""About what a batch takes in the file beside its body."""
_DAMAGED = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)


class DiskError(Exception):
    """The disk takes no writes: full, read-only or broken."""


@dataclass(frozen=True, slots=True)
class Held:
    """A batch with its sequence number and when it was spooled (ms since the epoch)."""

    number: int
    batch: WireBatch
    at_ms: int

    @property
    def bytes(self) -> int:
        return len(self.batch.body) + OVERHEAD_BYTES


@dataclass(frozen=True, slots=True)
class Loss:
    """Batches that did not reach the store.

    reason: spool_full (the oldest were dropped), disk_full (and memory, too), damaged (on disk; a whole file counts as
    one batch with an unknown number of rows), refused (by the store; set aside).
    first_at, last_at: when they were spooled.
    """

    reason: str
    record: str
    batches: int
    rows: int
    first_at: datetime
    last_at: datetime

    def __add__(self, other: Loss) -> Loss:
        return Loss(
            self.reason,
            self.record,
            self.batches + other.batches,
            self.rows + other.rows,
            min(self.first_at, other.first_at),
            max(self.last_at, other.last_at),
        )


class SpoolFile:
    """One connection to the file in a folder; starts a new file if it is damaged. The owner serializes access.

    Errors: IngestError if the folder is unusable, another process has it, or the file cannot be opened the first time.
    """

    def __init__(self, folder: Path, synced: bool) -> None:
        self.folder = folder
        self._synchronous = "FULL" if synced else "NORMAL"
        self._connection: sqlite3.Connection | None = None
        self._closed = False
        self._holder = _hold(folder)
        try:
            self.change(lambda connection: None)
        except DiskError as error:
            self.close()
            raise IngestError(
                str(folder / NAME), f"cannot be opened ({error})", "Is the disk full, or read only? Else choose another"
            ) from error

    def change(self, work: Callable[[sqlite3.Connection], None], synced: bool = True) -> None:
        """Does the work in one transaction; synced: on disk when this returns, else soon after.

        Errors: DiskError; nothing has changed then.
        """

        def whole(connection: sqlite3.Connection) -> None:
            connection.execute(f"PRAGMA synchronous = {self._synchronous if synced else 'NORMAL'}")
            connection.execute("BEGIN IMMEDIATE")
            try:
                work(connection)
                connection.execute("COMMIT")
            except BaseException:
                # Gone already where the engine itself gave up the transaction.
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                raise

        self.read(whole)

    def read(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Returns what the work reads; if the file turns out damaged, repeats it on a new file. Errors: DiskError."""
        if self._closed:
            raise DiskError("the spool is closed")
        for last in (False, True):
            try:
                if self._connection is None:
                    self._connection = _connected(self.folder / NAME)
                return work(self._connection)
            except sqlite3.DatabaseError as error:
                if last or error.sqlite_errorcode & 0xFF not in _DAMAGED:
                    raise DiskError(str(error)) from error
                self._begin_anew(error)
        raise AssertionError("unreachable")

    def close(self) -> None:
        self._closed = True
        if self._connection is not None:
            self._connection.close()
            self._connection = None
        self._holder.close()

    def _begin_anew(self, error: sqlite3.DatabaseError) -> None:
        """Renames the damaged file, so that a person can look at it; how much it held is unknown."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None
        now = datetime.now(UTC)
        path, aside = self.folder / NAME, self.folder / f"damaged-{now:%Y%m%dT%H%M%S%f}.db"
        for suffix in ("", "-wal", "-shm"):
            with contextlib.suppress(FileNotFoundError):
                path.with_name(NAME + suffix).rename(f"{aside}{suffix}")
        log.error("spool: %s is damaged (%s): set aside as %s, and a new one started", path, error, aside.name)
        self.change(lambda connection: note(connection, Loss("damaged", "", 1, 0, now, now)))


def _connected(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False, timeout=10)
    try:
        # Before the first table: the file shrinks when a backlog is gone.
        connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute(f"PRAGMA journal_size_limit = {8 << 20}")
        connection.executescript(read_sql(__file__, "spool_schema"))
    except BaseException:
        connection.close()
        raise
    return connection


def _hold(folder: Path) -> IO[str]:
    """Locks the folder for this process, and writes our pid into the lock file."""
    try:
        return hold(folder)
    except OSError as error:
        raise IngestError(str(folder), f"cannot be used ({error.strerror})", "Choose another spool folder") from error
    except HeldError as error:
        what = f"held by {error.holder}; a spool belongs to one process"
        raise IngestError(str(folder), what, "Stop it, or choose another spool folder") from None


def insert(connection: sqlite3.Connection, held: Iterable[tuple[Held, str]]) -> None:
    """Adds batches, each with the hash of its content."""
    connection.executemany(
        "INSERT INTO batches (record, suspect, rows, bytes, at_ms, id, body) VALUES (?, ?, ?, ?, ?, ?, ?)",
        [(h.batch.record, h.batch.suspect, h.batch.rows, h.bytes, h.at_ms, name, h.batch.body) for h, name in held],
    )


def delete(connection: sqlite3.Connection, numbers: Iterable[int]) -> None:
    connection.executemany("DELETE FROM batches WHERE seq = ?", [(number,) for number in numbers])


def note(connection: sqlite3.Connection, loss: Loss) -> None:
    """Adds to the losses of a reason and record type; times are of what was not reported yet."""
    connection.execute(
        read_sql(__file__, "spool_note_loss"),
        (loss.reason, loss.record, loss.batches, loss.rows, epoch_ms(loss.first_at), epoch_ms(loss.last_at)),
    )


def waiting(connection: sqlite3.Connection, record: str, suspect: bool, first: int) -> Iterator[tuple[Held, str]]:
    """The batches of a type from a sequence number on, in order, each with the hash of its content."""
    for number, rows, at_ms, name, body in connection.execute(
        "SELECT seq, rows, at_ms, id, body FROM batches WHERE record = ? AND suspect = ? AND seq >= ? ORDER BY seq",
        (record, suspect, first),
    ):
        yield Held(number, WireBatch(record, rows, body, suspect), at_ms), name
