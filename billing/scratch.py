"""Scratch stores whose facts are views of another store's, to close the books again with fewer or more of the facts."""

from __future__ import annotations

from warehouse.store import Store, read_sql


def facts_away(scratch: Store) -> None:
    """Makes room for views of the names of the facts' tables."""
    scratch.script(read_sql(__file__, "facts_away"))
