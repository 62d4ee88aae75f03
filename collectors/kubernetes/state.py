"""A watch's position in one SQLite file: a restart continues from it without losing or repeating anything.

Rows go to the sink first, then the state is committed. After a crash in between, the same rows are reported again, with
the same keys; only an end without a timestamp is reported anew, later or as an estimate. A transaction is complete or
absent after a crash.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any, Literal

from collectors.errors import CollectorError
from warehouse.sql import read_sql

Kind = Literal["pod", "waiting", "node", "wait"]
"""waiting: pods whose claims were not seen yet.   wait: workloads that wait in a queue without pods."""
FORMAT = "1"


class State:
    """The file, or nothing at all (path None): then a restart lists everything again.

    Errors: CollectorError if the file is no state, of another cluster, or of another version.
    """

    def __init__(self, path: Path | None, cluster: str) -> None:
        self.path = path
        try:
            if path is not None:
                path.parent.mkdir(parents=True, exist_ok=True)
            self._connection = sqlite3.connect(":memory:" if path is None else path, isolation_level=None, timeout=1.0)
            # Two watches with one state would each forget what the other reported.
            self._connection.execute("PRAGMA locking_mode = EXCLUSIVE")
            self._connection.execute("PRAGMA journal_mode = WAL")
            self._connection.execute("PRAGMA synchronous = NORMAL")
            self._connection.executescript(read_sql(__file__, "state"))
            for name, value in (("format", FORMAT), ("cluster", cluster)):
                self._connection.execute("INSERT OR IGNORE INTO facts VALUES (?, ?)", (name, value))
                if (found := self._fact(name)) != value:
                    raise CollectorError(
                        str(path), f"is the state of {name} {found!r}, not {value!r}", "Next: another --state FILE"
                    )
        except sqlite3.OperationalError as error:
            if "locked" in str(error):
                raise CollectorError(str(path), "another process has this state", "Next: end it, or --state") from None
            raise CollectorError(str(path), f"cannot hold the state: {error}", "Next: another --state FILE") from None
        except (sqlite3.Error, OSError) as error:
            raise CollectorError(str(path), f"cannot hold the state: {error}", "Next: another --state FILE") from None

    def close(self) -> None:
        self._connection.close()

    @property
    def version(self) -> str:
        """The resourceVersion that the pods are known up to; empty: none."""
        return self._fact("version")

    @property
    def seen_at(self) -> datetime | None:
        """When the pods were last known to be as the state has them."""
        return datetime.fromisoformat(found) if (found := self._fact("seen_at")) else None

    def objects(self, kind: Kind) -> dict[str, Any]:
        rows = self._connection.execute("SELECT key, value FROM objects WHERE kind = ?", (kind,))
        return {key: json.loads(value) for key, value in rows}

    def save(
        self,
        version: str,
        seen_at: datetime | None,
        changed: Iterable[tuple[Kind, str, Mapping[str, Any] | None]],
    ) -> None:
        """One transaction; None forgets the object."""
        connection = self._connection
        connection.execute("BEGIN IMMEDIATE")
        for name, value in (("version", version), ("seen_at", seen_at.isoformat() if seen_at else "")):
            connection.execute("INSERT OR REPLACE INTO facts VALUES (?, ?)", (name, value))
        for kind, key, plain in changed:
            if plain is None:
                connection.execute("DELETE FROM objects WHERE kind = ? AND key = ?", (kind, key))
            else:
                text = json.dumps(plain, separators=(",", ":"))
                connection.execute("INSERT OR REPLACE INTO objects VALUES (?, ?, ?)", (kind, key, text))
        connection.execute("COMMIT")

    def _fact(self, name: str) -> str:
        row = self._connection.execute("SELECT value FROM facts WHERE name = ?", (name,)).fetchone()
        return "" if row is None else str(row[0])
