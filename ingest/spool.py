"""The agent's queue on disk: bounded, oldest first, and consistent after a kill at any moment.

An append is one transaction that is synced before it returns, so not even a power cut loses collected rows. Deletions
are not synced: a batch that reappears is sent again, which changes nothing.

Queue full (`max_bytes`): the oldest batches are dropped and counted. Disk full: batches stay in memory, also bounded,
and are delivered from there. File damaged: it is renamed and a new one begun. Each of these is a `Loss`, stored until
it is reported, and logged.
"""

from __future__ import annotations

import logging
import sqlite3
import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeVar

from ingest.spool_file import DiskError, Held, Loss, SpoolFile, delete, insert, note, waiting
from ingest.wire import WireBatch, batch_id
from warehouse.instants import epoch_ms, of_epoch_ms
from warehouse.store import read_sql

__all__ = ["Group", "Loss", "Spool", "SpoolState"]

log = logging.getLogger(__name__)
T = TypeVar("T")

IN_MEMORY = 1 << 62
"""Sequence numbers from here on are of batches that only memory holds."""
SET_ASIDE_SHARE = 0.1
"""Of `max_bytes`: how much of what the store refused is kept."""
SPARE_PAGES = 256
"""Pages that an empty file may keep; more go back to the disk."""


@dataclass(frozen=True, slots=True)
class Group:
    """Consecutive batches of one record type, oldest first, as one body.

    numbers: their sequence numbers.   rows: lines in the body.   first_at: when the oldest was spooled.
    """

    record: str
    suspect: bool
    numbers: tuple[int, ...]
    rows: int
    body: bytes
    first_at: datetime

    @property
    def id(self) -> str:
        return batch_id(self.record, self.body)


@dataclass(frozen=True, slots=True)
class SpoolState:
    """The state of the queue. bytes: on disk.   memory_bytes: of batches that the disk did not take.   set_aside:
    bodies that the store refused.   disk_error: why the disk takes nothing; empty if it does.   lost: since the file
    was created."""

    batches: int
    rows: int
    bytes: int
    memory_bytes: int
    oldest_at: datetime | None
    set_aside: int
    disk_error: str
    lost: tuple[Loss, ...]


class Spool:
    """The spool in a folder; owned by one process, safe to use from several threads.

    max_bytes: of the batches on disk.   memory_bytes: of batches that the disk does not take.   synced: whether an
    append waits for the disk; if not, a power cut (but no kill) may lose the last seconds.
    Errors: IngestError if the folder is unusable or another process has it.
    """

    def __init__(
        self, folder: Path, max_bytes: int = 1 << 30, memory_bytes: int = 8 << 20, synced: bool = True
    ) -> None:
        self.folder, self.max_bytes, self.memory_bytes = folder, max_bytes, memory_bytes
        self.disk_error = ""
        self._lock = threading.RLock()
        self._file = SpoolFile(folder, synced)
        self._memory: list[Held] = []
        self._next_number = IN_MEMORY
        self._gone: set[int] = set()  # acknowledged, but the disk did not take the deletion
        self._losses: dict[tuple[str, str], Loss] = {}  # not on disk yet

    def __enter__(self) -> Spool:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def append(self, batches: Sequence[WireBatch], now: datetime) -> bool:
        """Adds batches, all or none; returns whether they are on disk (else they are in memory)."""
        with self._lock:
            new = [Held(0, batch, epoch_ms(now)) for batch in batches if batch.rows]
            if not new and not self._memory:
                return not self.disk_error
            kept = [(held, batch_id(held.batch.record, held.batch.body)) for held in (*self._memory, *new)]
            if self._changed(lambda connection: self._insert(connection, kept)):
                self._memory.clear()
                return True
            for held in new:
                self._remember(held)
            return False

    def oldest(self, max_rows: int, max_bytes: int, without: frozenset[str] = frozenset()) -> Group | None:
        """The oldest batch and those of its type that follow, within the limits (but at least one). They stay until
        `acknowledge` or `set_aside`.

        without: record types to skip.
        """
        with self._lock:
            none: list[Held] = []
            on_disk = self._read(
                lambda connection: self._oldest_on_disk(connection, max_rows, max_bytes, without), none
            )
            if on_disk:
                return _group(on_disk)
            wanted = [held for held in self._memory if held.batch.record not in without]
            same = [held for held in wanted if _kind(held) == _kind(wanted[0])]
            return _group(_within(same, max_rows, max_bytes)) if same else None

    def acknowledge(self, group: Group) -> None:
        """Removes a group that the store has."""
        self._forget(group.numbers)

    def set_aside(self, group: Group, reason: str, now: datetime) -> None:
        """Moves a group that the store will never accept out of the queue; it is kept, with the reason, as long as
        there is room."""

        def work(connection: sqlite3.Connection) -> None:
            connection.execute(
                "INSERT INTO set_aside (record, rows, at_ms, reason, body) VALUES (?, ?, ?, ?, ?)",
                (group.record, group.rows, epoch_ms(now), reason, group.body),
            )
            connection.execute(read_sql(__file__, "spool_trim_set_aside"), (int(self.max_bytes * SET_ASIDE_SHARE),))

        with self._lock:
            self._lose(Loss("refused", group.record, len(group.numbers), group.rows, group.first_at, group.first_at))
            self._changed(work)
            self._forget(group.numbers)

    def take_up_again(self) -> int:
        """Puts set-aside batches back into the queue, in case the cause is fixed. Returns how many."""

        def work(connection: sqlite3.Connection) -> None:
            found = connection.execute("SELECT record, rows, at_ms, body FROM set_aside ORDER BY seq").fetchall()
            kept = [Held(0, WireBatch(record, rows, body), at_ms) for record, rows, at_ms, body in found]
            self._insert(connection, [(held, batch_id(held.batch.record, held.batch.body)) for held in kept])
            connection.execute("DELETE FROM set_aside")

        with self._lock:
            aside = self.state().set_aside
            if not aside or not self._changed(work):
                return 0
        log.info("spool: resending %d batches that the store had refused", aside)
        return aside

    def unreported(self) -> list[Loss]:
        """Losses that no finding has reported yet."""
        with self._lock:
            if self._losses:
                self._changed(lambda connection: None)
            return _merged([*self._noted(read_sql(__file__, "spool_unreported")), *self._losses.values()])

    def mark_reported(self, losses: Iterable[Loss]) -> None:
        """Marks losses as reported."""
        with self._lock:
            done = [(loss.batches, loss.rows, loss.reason, loss.record) for loss in losses]
            self._changed(lambda connection: connection.executemany(read_sql(__file__, "spool_reported"), done))

    def state(self) -> SpoolState:
        with self._lock:
            batches, rows, size, oldest, aside = self._read(
                lambda connection: connection.execute(read_sql(__file__, "spool_state")).fetchone(), (0, 0, 0, None, 0)
            )
            lost = self._noted("SELECT reason, record, batches, rows, first_ms, last_ms FROM losses")
            times = [at for at in (oldest, *(held.at_ms for held in self._memory[:1])) if at is not None]
            return SpoolState(
                batches + len(self._memory),
                rows + sum(held.batch.rows for held in self._memory),
                size,
                sum(held.bytes for held in self._memory),
                of_epoch_ms(min(times)) if times else None,
                aside,
                self.disk_error,
                tuple(_merged([*lost, *self._losses.values()])),
            )

    def close(self) -> None:
        """Writes batches that are only in memory, if the disk takes them now."""
        with self._lock:
            if self._memory and not self.append([], datetime.now(UTC)):
                log.error("spool: %d batches are lost with this process: %s", len(self._memory), self.disk_error)
            if self._gone or self._losses:
                self._changed(lambda connection: None)
            self._file.close()

    def _changed(self, work: Callable[[sqlite3.Connection], object], synced: bool = True) -> bool:
        """Does the work in one transaction, together with earlier changes that could not be written; returns whether it
        succeeded."""

        def whole(connection: sqlite3.Connection) -> None:
            delete(connection, self._gone)
            for loss in self._losses.values():
                note(connection, loss)
            work(connection)

        try:
            self._file.change(whole, synced)
        except DiskError as error:
            if str(error) != self.disk_error:
                log.error("spool: the disk of %s cannot be written (%s): batches stay in memory", self.folder, error)
            self.disk_error = str(error)
            return False
        if self.disk_error:
            log.warning("spool: the disk of %s can be written again", self.folder)
        self.disk_error = ""
        self._gone.clear()
        self._losses.clear()
        return True

    def _read(self, work: Callable[[sqlite3.Connection], T], otherwise: T) -> T:
        try:
            return self._file.read(work)
        except DiskError as error:
            log.error("spool: %s cannot be read: %s", self.folder, error)
            return otherwise

    def _noted(self, sql: str) -> list[Loss]:
        nothing: list[tuple[str, str, int, int, int, int]] = []
        found = self._read(lambda connection: connection.execute(sql).fetchall(), nothing)
        return [
            Loss(reason, record, batches, rows, of_epoch_ms(first), of_epoch_ms(last))
            for reason, record, batches, rows, first, last in found
        ]

    def _insert(self, connection: sqlite3.Connection, kept: Sequence[tuple[Held, str]]) -> None:
        insert(connection, kept)
        (size,) = connection.execute("SELECT bytes FROM totals").fetchone()
        if size > self.max_bytes:
            self._drop_oldest(connection, size - self.max_bytes)

    def _drop_oldest(self, connection: sqlite3.Connection, excess: int) -> None:
        """Makes room for the newest batches; a bit more than needed, so that not every append has to."""
        (newest,) = connection.execute("SELECT max(seq) FROM batches").fetchone()
        left = excess + self.max_bytes // 100
        dropped = []
        for number, record, rows, size, at_ms in connection.execute(
            "SELECT seq, record, rows, bytes, at_ms FROM batches WHERE seq < ? ORDER BY seq", (newest,)
        ):
            if left <= 0:
                break
            left -= size
            dropped.append((number, Loss("spool_full", record, 1, rows, of_epoch_ms(at_ms), of_epoch_ms(at_ms))))
        delete(connection, (number for number, _ in dropped))
        for loss in _merged(loss for _, loss in dropped):
            note(connection, loss)
        log.info("spool: full (%d bytes): dropped the %d oldest batches", self.max_bytes, len(dropped))

    def _oldest_on_disk(
        self, connection: sqlite3.Connection, max_rows: int, max_bytes: int, without: frozenset[str]
    ) -> list[Held]:
        damaged: list[Held] = []

        def whole(record: str, suspect: bool, first: int) -> Iterable[Held]:
            for held, name in waiting(connection, record, suspect, first):
                if held.number in self._gone:
                    continue
                if batch_id(record, held.batch.body) == name:
                    yield held
                else:
                    damaged.append(held)

        found: list[Held] = []
        for number, record, suspect in connection.execute("SELECT seq, record, suspect FROM batches ORDER BY seq"):
            if number not in self._gone and record not in without:
                found = _within(whole(record, bool(suspect), number), max_rows, max_bytes)
                if found:
                    break
        for held in damaged:
            log.error("spool: a batch of %s is damaged on disk and was left out", held.batch.record)
            at = of_epoch_ms(held.at_ms)
            self._lose(Loss("damaged", held.batch.record, 1, held.batch.rows, at, at))
        self._gone |= {held.number for held in damaged}
        return found

    def _forget(self, numbers: Sequence[int]) -> None:
        """Removes batches; if the disk does not even take that, remembers them as removed."""
        with self._lock:
            self._memory = [held for held in self._memory if held.number not in numbers]
            self._gone |= {number for number in numbers if number < IN_MEMORY}
            if self._gone and self._changed(lambda connection: None, synced=False):
                self._read(_shrink, None)

    def _remember(self, held: Held) -> None:
        self._memory.append(replace(held, number=self._next_number))
        self._next_number += 1
        while len(self._memory) > 1 and sum(held.bytes for held in self._memory) > self.memory_bytes:
            lost = self._memory.pop(0)
            at = of_epoch_ms(lost.at_ms)
            self._lose(Loss("disk_full", lost.batch.record, 1, lost.batch.rows, at, at))

    def _lose(self, loss: Loss) -> None:
        before = self._losses.get((loss.reason, loss.record))
        self._losses[loss.reason, loss.record] = before + loss if before else loss


def _shrink(connection: sqlite3.Connection) -> None:
    """Gives the pages of a backlog back to the disk once it is gone."""
    (batches,) = connection.execute("SELECT batches FROM totals").fetchone()
    (spare,) = connection.execute("PRAGMA freelist_count").fetchone()
    if not batches and spare > SPARE_PAGES:
        # A script: execute() stops after the first page, for it has no columns.
        connection.executescript(f"PRAGMA incremental_vacuum({spare - SPARE_PAGES})")


def _kind(held: Held) -> tuple[str, bool]:
    return held.batch.record, held.batch.suspect


def _within(held: Iterable[Held], max_rows: int, max_bytes: int) -> list[Held]:
    """The first ones, as far as the limits reach, but at least one."""
    found: list[Held] = []
    rows = size = 0
    for one in held:
        rows, size = rows + one.batch.rows, size + len(one.batch.body)
        if found and (rows > max_rows or size > max_bytes):
            break
        found.append(one)
    return found


def _group(held: Sequence[Held]) -> Group:
    record, suspect = _kind(held[0])
    return Group(
        record,
        suspect,
        tuple(one.number for one in held),
        sum(one.batch.rows for one in held),
        b"".join(one.batch.body for one in held),
        of_epoch_ms(held[0].at_ms),
    )


def _merged(losses: Iterable[Loss]) -> list[Loss]:
    """Losses with the same reason and record type, combined."""
    merged: dict[tuple[str, str], Loss] = {}
    for loss in losses:
        before = merged.get((loss.reason, loss.record))
        merged[loss.reason, loss.record] = before + loss if before else loss
    return list(merged.values())
