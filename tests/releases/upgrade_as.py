"""A program: opens a release's store and upgrades it, with the rights of the engine's configuration. Arguments: the
folder of the store, that file. Prints how many hours balance then."""

from __future__ import annotations

import sys
from typing import Any
from unittest.mock import patch

import clickhouse_connect

from billing.verify import verify
from warehouse.store import migrate, open_store

REAL = clickhouse_connect.get_client


def client(**how: Any) -> Any:
    return REAL(**how, chdb_options={"config-file": sys.argv[2]})


with patch.object(clickhouse_connect, "get_client", client), open_store(f"chdb://{sys.argv[1]}") as store:
    assert migrate(store)
    found = verify(store)
    assert found.balanced
    print(found.hours)
