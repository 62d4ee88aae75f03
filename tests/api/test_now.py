"""What holds now, over the API. What it says is compared with the pages in tests/dashboards/pages."""

from __future__ import annotations

from pathlib import Path

from access.settings import AccessSettings
from gpuledger.client import Client
from tests.dashboards.site import serving
from tests.stores import fresh_store


def test_where_nothing_ever_came_nothing_is_said(tmp_path: Path) -> None:
    with fresh_store(tmp_path / "store") as store, serving(store, AccessSettings()) as url, Client(url) as client:
        now, waiting = client.now(), client.waiting()
    assert (now.at, now.stopped, now.allocations, now.total.waste) == (None, True, [], None)
    assert (waiting.at, waiting.jobs) == (None, [])
