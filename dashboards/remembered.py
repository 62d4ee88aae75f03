"""A store that remembers what it answered, for functions of the books that a page calls."""

from __future__ import annotations

from typing import Any

from dashboards.data_version import DataVersion
from warehouse.store import Params, Store


class Remembered(Store):
    """A connection that answers from the pages' cache while nothing came of the tables that a statement names, whoever
    wrote the statement. Tables of the engine itself are no such tables: do not ask it for them."""

    def __init__(self, store: Store, version: DataVersion) -> None:
        super().__init__(store.url, None, store.database)
        self.nodes, self.tenants, self.longest_list = store.nodes, store.tenants, store.longest_list
        self._inner, self._version = store, version

    def rows(self, sql: str, params: Params | None = None, settings: Params | None = None) -> list[dict[str, Any]]:
        """As the store's; each call has rows of its own."""
        what = ("rows", sql, repr(sorted((params or {}).items())), repr(sorted((settings or {}).items())))
        found = self._version.cached(self._inner, what, sql, lambda: self._inner.rows(sql, params, settings))
        return [dict(row) for row in found]

    def close(self) -> None:
        """Its connection is another's to close."""
