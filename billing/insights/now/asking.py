"""How statements about the present are run: a page caches the answers, a route queries the store."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from warehouse.sql import composed
from warehouse.store import Store

Row = Mapping[str, Any]
Ask = Callable[..., Sequence[Row]]
"""ask(name, **parameters): the rows of `name`.sql of this folder. The filters (tenants, projects, queues, pools,
models, clusters; empty: all) are parameters that it adds."""
ASKED = __file__
"""Beside it lie the statements."""
FILTERS = ("tenants", "projects", "queues", "pools", "models", "clusters")


def asking(store: Store, **chosen: Sequence[str]) -> Ask:
    """One that asks the store each time."""
    filters = {name: list(chosen.get(name, ())) for name in FILTERS}

    def ask(name: str, **params: Any) -> Sequence[Row]:
        return store.rows(composed(ASKED, name), {**filters, **params})

    return ask
