"""Dropping working tables: those of a close, which exist only while it needs them."""

from __future__ import annotations

from collections.abc import Iterable

from warehouse.store import Store, identifier


def drop_tables(store: Store, names: Iterable[str]) -> None:
    """Drops working tables, all at once; that there is none of a name is fine."""
    if names := [identifier(name) for name in names]:
        store.command(f"DROP TABLE IF EXISTS {', '.join(names)}")
