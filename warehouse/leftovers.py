"""Drops temporary tables and databases that killed processes left in a store, once they are a day old.

A close drops its own, and those of closes before it (billing/close/hours.py).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from warehouse.sql import read_sql

if TYPE_CHECKING:
    from warehouse.store import Store

TABLES = (
    "^(staged_[0-9a-f]{32}|rates_[0-9a-f]{16}_.*|energy_(grid|payers)_[0-9a-f]{16}"
    "|focus_[a-z]+_[0-9a-f]{32}(_[0-9]+)?)$"
)
"""The names that they have: a word, and what was drawn."""
DATABASES = "^scratch_[0-9a-f]{32}$"


def drop_leftovers(store: Store) -> None:
    params = {"tables": TABLES, "databases": DATABASES}
    for row in store.rows(read_sql(__file__, "leftovers"), params):
        if row["name"]:
            store.command("DROP TABLE IF EXISTS {table:Identifier}", {"table": row["name"]})
        else:
            store.command("DROP DATABASE IF EXISTS {database:Identifier} SYNC", {"database": row["database"]})
