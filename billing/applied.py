"""Stores versions of applied files (rate card, tenant mapping, budgets, energy settings, parties) in hash-chained
tables.
"""

from __future__ import annotations

from datetime import datetime
from typing import Protocol

from warehouse.chain import Head, append
from warehouse.store import Store


class Versioned(Protocol):
    """A file as it is stored: its content as JSON, and the hash of that."""

    def canonical(self) -> str: ...

    @property
    def version(self) -> str: ...


def add_version(
    store: Store,
    table: str,
    column: str,
    file: Versioned,
    before: int,
    author: str,
    reason: str,
    now: datetime,
    last: Head,
) -> None:
    """Adds the file to the table's chain, its content in `column`; before: the sequence in force, 0 for none.

    last: the chain's head, asked for before what was in force was read.
    Errors: TakenError if somebody else applied some meanwhile.
    """
    import pyarrow as pa

    row = {
        "version": pa.array([file.version], pa.string()),
        "sequence": pa.array([before + 1], pa.uint64()),
        "applied_at": pa.array([now], pa.timestamp("ms", "UTC")),
        "author": pa.array([author], pa.string()),
        "reason": pa.array([reason], pa.string()),
        column: pa.array([file.canonical()], pa.string()),
    }
    append(store, table, pa.table(row), last)
