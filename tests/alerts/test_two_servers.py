"""Two people at two servers over one ClickHouse server: the real engine behind HTTP, and a connection of each."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from alerts.silences import _write, acknowledge, silences
from billing import audit
from tests.alerts.facts import NOON, ago
from tests.patience import PATIENCE_SECONDS
from tests.stores import fresh_store
from tests.warehouse.engine_over_http import served
from warehouse.store import Store, open_store


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Store, Store]]:
    """One ClickHouse server, as two processes are connected to it."""
    folder = tmp_path_factory.mktemp("server")
    fresh_store(folder).close()
    with served(folder) as url, open_store(url) as first, open_store(url) as second:
        yield first, second


def test_of_two_servers_first_acknowledgements_in_one_instant_one_counts(
    two: tuple[Store, Store], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each would write before the other reads, if it could."""
    together = threading.Barrier(2)

    def slow(*row: Any) -> None:
        with contextlib.suppress(threading.BrokenBarrierError):
            together.wait(1)
        _write(*row)

    monkeypatch.setattr("alerts.silences._write", slow)
    with ThreadPoolExecutor(2) as pool:
        asked = [
            pool.submit(acknowledge, store, "f1", ago(5), {"alertname": "idle"}, author, "mine", NOON)
            for store, author in zip(two, ("ann", "bob"), strict=True)
        ]
        answers = [one.result(PATIENCE_SECONDS) for one in asked]
    ((counts, _),) = [one for one in answers if one[1]]
    assert [one for one, _ in answers] == [counts, counts]
    assert silences(two[0], NOON) == [counts]
    assert [row["actor"] for row in audit.history(two[1], "alert.acknowledge", "f1")] == [counts.author]
