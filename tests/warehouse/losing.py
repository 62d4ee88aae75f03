"""Turns that end while somebody works in them."""

from __future__ import annotations

from datetime import timedelta

from tests.warehouse.test_turns import SIGN
from warehouse.store import Store


def lose_turns(store: Store) -> None:
    """All turns are over, for those that have them and for others: as if nobody had given a sign of life for two
    minutes. New ones last again."""
    signs = store.rows("SELECT at, holder, who, alone, seen, state FROM turns")
    store.command("TRUNCATE TABLE turns")
    for row in signs:
        store.command(SIGN, {**row, "holder": str(row["holder"]), "seen": row["seen"] - timedelta(minutes=2)})
