"""State about runs that a watcher needs after a restart, in one SQLite file: ends that it delivered, and recent starts.

Slurm overwrites and loses records. Only a watcher that saw the earlier ones knows what they said, and can end a run
that has no record any more.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Hashable, Mapping
from contextlib import closing
from datetime import datetime
from pathlib import Path
from typing import TypeVar

from collectors.errors import CollectorError
from collectors.readings import Row
from warehouse.sql import read_sql

Run = tuple[str, datetime | None, datetime]
"""A job's id, its submission, its start."""
Start = tuple[str, str, datetime]
"""A job's id, the allocation's id, the start to the second."""
Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")


class Runs:
    """ends: of runs, as they were first reported.   starts: the events that said so.   Both are changed by who has
    them; `save` makes them outlive a restart.

    Errors: CollectorError if the file is none of these, or cannot be written.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with closing(sqlite3.connect(path)) as connection:
                connection.executescript(read_sql(__file__, "runs"))
                ends = connection.execute("SELECT job, submitted, started, ended FROM ends").fetchall()
                starts = connection.execute("SELECT job, allocation, started, event FROM starts").fetchall()
            self.ends: dict[Run, datetime] = {
                (job, _time(submitted) if submitted else None, _time(started)): _time(ended)
                for job, submitted, started, ended in ends
            }
            self.starts: dict[Start, Row] = {
                (job, allocation, _time(started)): _row(event) for job, allocation, started, event in starts
            }
        except (sqlite3.Error, OSError, ValueError) as mistake:
            raise CollectorError(
                str(path), f"cannot be read: {mistake}", "Remove it to forget which runs began and ended"
            ) from None
        self._saved = dict(self.ends), dict(self.starts)

    def save(self) -> None:
        """What has changed since the last time, in one transaction."""
        ends, starts = _changes(self._saved[0], self.ends), _changes(self._saved[1], self.starts)
        if not any((*ends, *starts)):
            return
        try:
            with closing(sqlite3.connect(self._path)) as connection, connection:
                connection.executemany(
                    "DELETE FROM ends WHERE job = ? AND submitted = ? AND started = ?", map(_run, ends[0])
                )
                connection.executemany(
                    "INSERT OR REPLACE INTO ends VALUES (?, ?, ?, ?)",
                    ((*_run(run), ended.isoformat()) for run, ended in ends[1].items()),
                )
                connection.executemany(
                    "DELETE FROM starts WHERE job = ? AND allocation = ? AND started = ?",
                    ((job, allocation, at.isoformat()) for job, allocation, at in starts[0]),
                )
                connection.executemany(
                    "INSERT OR REPLACE INTO starts VALUES (?, ?, ?, ?)",
                    ((job, name, at.isoformat(), _text(row)) for (job, name, at), row in starts[1].items()),
                )
        except sqlite3.Error as mistake:
            raise CollectorError(
                str(self._path), f"cannot be written: {mistake}", "Give a folder that can be written"
            ) from mistake
        self._saved = dict(self.ends), dict(self.starts)


def _changes(was: Mapping[Key, Value], now: Mapping[Key, Value]) -> tuple[set[Key], dict[Key, Value]]:
    """What is gone, and what is new or another."""
    return set(was) - set(now), {key: value for key, value in now.items() if key not in was or was[key] != value}


def _run(run: Run) -> tuple[str, str, str]:
    job, submitted, started = run
    return job, submitted.isoformat() if submitted else "", started.isoformat()


def _time(text: str) -> datetime:
    return datetime.fromisoformat(text)


def _text(row: Row) -> str:
    return json.dumps({**row, "ts": row["ts"].isoformat()})


def _row(text: str) -> Row:
    row: Row = json.loads(text)
    return {**row, "ts": _time(row["ts"])}
