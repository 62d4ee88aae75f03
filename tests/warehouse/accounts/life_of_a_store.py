"""A program: the life of a store from nothing to its verified books, with the rights of the engine's configuration.
Arguments: the folder of the store, that file. What is staged for an insert lies in a table, as on a server."""

from __future__ import annotations

import sys
from typing import Any
from unittest.mock import patch

import clickhouse_connect

from billing.verify import verify
from tests.dashboards.site import fill, promise
from warehouse.store import EmbeddedStore, ServerStore, migrate, open_store

REAL = clickhouse_connect.get_client


def client(**how: Any) -> Any:
    return REAL(**how, chdb_options={"config-file": sys.argv[2]})


with (
    patch.object(clickhouse_connect, "get_client", client),
    patch.object(EmbeddedStore, "staged", ServerStore.staged),
    open_store(f"chdb://{sys.argv[1]}") as store,
):
    migrate(store)
    fill(store)
    promise(store)
    assert verify(store).balanced
    with store.scratch() as scratch:
        assert scratch.value("SELECT count() AS n FROM samples") == 0
    print(store.value("SELECT count() AS n FROM v_charges"))
