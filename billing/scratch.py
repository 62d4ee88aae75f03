"""Scratch stores whose facts are views of the store's: books are closed anew in them, with some of them or more."""

from __future__ import annotations

from warehouse.store import Store, read_sql


def facts_away(scratch: Store) -> None:
    """Makes room for views of the names of the facts' tables."""
    scratch.script(read_sql(__file__, "facts_away"))
