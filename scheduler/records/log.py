"""The log: everything that happened to a scheduler, in order, in a crash-safe file.

One SQLite file in WAL mode, synced with every transaction: entries for which `append` returned survive a kill or power
cut; a transaction is written completely or not at all. A line of JSON with fsync would be as safe; SQLite also finds a
job's entries without reading the others, and lets `explain` and `replay` read while the scheduler writes.

The state is what the entries make of an empty one (scheduler.records.book), and so are the events for billing: they
are made again from the entries that the store has not confirmed, so none is lost and none reported in two ways.
"""

from __future__ import annotations

import json
import sqlite3
import threading
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, Literal

from warehouse.errors import LedgerError
from warehouse.private_files import HeldError, hold, private_folder
from warehouse.sql import read_sql

Kind = Literal[
    "configured",
    "submit",
    "reject",
    "hold",
    "release",
    "suspend",
    "resume",
    "renew",
    "warn",
    "given_back",
    "plan",
    "launched",
    "freed",
    "stop",
    "cancel",
    "end",
    "reasons",
    "cycle",
    "node",
    "demand",
    "ready",
    "idle",
    "shrink",
    "rescale",
    "vacate",
    "completing",
    "unheard",
    "heard",
]
FREEING = ("configured", "node", "stop", "given_back", "shrink")
FREED_AT_END = ("finished", "failed")
"""Kinds of entries, and endings, by which capacity or quota certainly comes free."""
FORMAT = 2
"""Of the file. 1: its table `delivered` has another name; the writer renames it."""


@dataclass(frozen=True, slots=True)
class Entry:
    """Something that happened. at: seconds since the epoch.   job_id: '' where it concerns several jobs, or none.

    sequence: 0 until it is written.   jobs: those that a plan concerns.
    """

    kind: Kind
    at: float
    job_id: str = ""
    body: dict[str, Any] = field(default_factory=dict)
    jobs: tuple[str, ...] = ()
    sequence: int = 0


class Log:
    """One writer at a time; readers at any time. alone: this is the writer, and no other can open the log as its writer
    before this one is closed.

    Errors: LedgerError if the file is no log, is of a later format, has another writer, or cannot be written.
    """

    def __init__(self, path: Path, alone: bool = False) -> None:
        self.path = path
        self._lock = threading.Lock()
        self._held: IO[str] | None = None
        try:
            private_folder(path.parent)
            self._held = hold(path.parent) if alone else None
            self._db = sqlite3.connect(path, timeout=5, isolation_level=None, check_same_thread=False)
            self._db.execute("PRAGMA journal_mode = WAL")
            self._db.execute("PRAGMA synchronous = FULL")
            (found,) = self._db.execute("PRAGMA user_version").fetchone()
            if found == 0:
                self._db.executescript(read_sql(__file__, "log_schema", format=FORMAT))
            elif found > FORMAT:
                raise LedgerError(str(path), f"is of format {found}, this version writes {FORMAT}", "Upgrade gpuledger")
            elif found < FORMAT and alone:  # not under an older writer that is still there
                self._db.executescript(read_sql(__file__, "log_upgrade", format=FORMAT))
            (last,) = self._db.execute("SELECT coalesce(max(sequence), 0) FROM entries").fetchone()
        except HeldError as error:
            what = f"{error.holder} is its scheduler; a log belongs to one"
            raise LedgerError(str(path), what, "Stop that one, or give another --data") from None
        except (sqlite3.Error, OSError) as error:
            raise LedgerError(str(path), f"cannot be used as a log ({error})", "Give another --data") from error
        self.last = int(last)

    def close(self) -> None:
        with self._lock:
            self._db.close()
            if self._held is not None:
                self._held.close()

    def append(self, entries: Iterable[Entry]) -> list[Entry]:
        """Writes all of them or none, and returns them with their numbers, when they are on disk."""
        with self._lock:
            written = [
                Entry(entry.kind, entry.at, entry.job_id, entry.body, entry.jobs, number)
                for number, entry in enumerate(entries, self.last + 1)
            ]
            if not written:
                return []
            try:
                self._db.execute("BEGIN IMMEDIATE")
                self._db.executemany(
                    "INSERT INTO entries VALUES (?, ?, ?, ?, ?)",
                    [(e.sequence, e.at, e.kind, e.job_id, _text(e.body)) for e in written],
                )
                self._db.executemany(
                    "INSERT OR IGNORE INTO jobs_of_plan VALUES (?, ?)",
                    [(job_id, e.sequence) for e in written for job_id in e.jobs],
                )
                self._db.execute("COMMIT")
            except BaseException as error:
                if self._db.in_transaction:
                    self._db.execute("ROLLBACK")
                if not isinstance(error, sqlite3.Error):
                    raise
                raise LedgerError(
                    str(self.path), f"cannot be written ({error})", "Make room; nothing was decided"
                ) from error
            self.last = written[-1].sequence
            return written

    def entries(self, after: int = 0, before: int | None = None) -> Iterator[Entry]:
        """In order, with after < sequence < before."""
        limit = before if before is not None else 1 << 62
        while rows := self._rows("sequence > ? AND sequence < ?", (after, limit), 1000):
            yield from rows
            after = rows[-1].sequence

    def of_job(self, job_id: str) -> list[Entry]:
        """What happened to a job, plans that concern it included."""
        return self._rows(read_sql(__file__, "log_of_job"), (job_id,))

    def of_kind(self, kind: Kind) -> list[Entry]:
        """All of a kind, in order; meant for kinds that are few."""
        return self._rows("kind = ?", (kind,))

    def last_freed(self) -> int:
        """The last entry by which capacity or quota certainly came free; 0 = none."""
        with self._lock:
            sql = read_sql(__file__, "log_last_freed", kinds=FREEING, endings=FREED_AT_END)
            found = self._db.execute(sql).fetchone()
        return int(found[0]) if found else 0

    def entry(self, sequence: int) -> Entry:
        """Errors: LedgerError if there is none of that number."""
        found = self._rows("sequence = ?", (sequence,))
        if not found:
            raise LedgerError(f"{self.path}, entry {sequence}", "there is none", f"The last one is {self.last}")
        return found[0]

    def delivered(self, reader: str) -> int:
        """Up to which entry everything was delivered to a reader; 0 = nothing."""
        with self._lock:
            found = self._db.execute("SELECT sequence FROM delivered WHERE reader = ?", (reader,)).fetchone()
        return int(found[0]) if found else 0

    def set_delivered(self, reader: str, sequence: int) -> None:
        """Errors: LedgerError if it cannot be written: after a crash, it is delivered again."""
        with self._lock:
            try:
                self._db.execute("INSERT OR REPLACE INTO delivered VALUES (?, ?)", (reader, sequence))
            except sqlite3.Error as error:
                raise LedgerError(str(self.path), f"cannot be written ({error})", "Make room") from error

    def _rows(self, which: str, values: tuple[Any, ...], most: int = -1) -> list[Entry]:
        sql = read_sql(__file__, "log_entries", which=which, most=most)
        with self._lock:
            rows = self._db.execute(sql, values).fetchall()
        return [Entry(kind, at, job_id, json.loads(body), (), number) for kind, at, job_id, body, number in rows]


def _text(body: dict[str, Any]) -> str:
    return json.dumps(body, ensure_ascii=False, separators=(",", ":"))
