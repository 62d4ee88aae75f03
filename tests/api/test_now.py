"""What holds now, over the API. What it says is compared with the pages in tests/dashboards/pages."""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from access.settings import AccessSettings
from billing.insights.now import held
from billing.insights.now.held import Subjects
from billing.rates import parse_rate_card
from gpuledger.client import Client
from tests.dashboards.site import serving
from tests.stores import fresh_store
from warehouse.store import Store


def test_where_nothing_ever_came_nothing_is_said(tmp_path: Path) -> None:
    with fresh_store(tmp_path / "store") as store, serving(store, AccessSettings()) as url, Client(url) as client:
        now, waiting = client.now(), client.waiting()
    assert (now.at, now.stopped, now.allocations, now.total.waste) == (None, True, [], None)
    assert (waiting.at, waiting.jobs) == (None, [])


def test_kinds_of_holders_are_asked_for_where_one_was_never_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    card = parse_rate_card({"currency": "EUR", "rates": [{"sku": "gpu", "price_per_gpu_hour": "2"}]}, "a card")
    monkeypatch.setattr(sys.modules[Subjects.__module__], "current_rate_card", lambda _: SimpleNamespace(card=card))
    kind = {"model": "H100", "pool": "", "partition_profile": "", "queue": "", "priority": None, "preemptible": 0,
            "cluster": ""}  # fmt: skip
    there, asked = [{**kind, "subject": 1, "tenant": "vision"}], list[str]()

    def ask(name: str, **params: Any) -> list[dict[str, Any]]:
        asked.append(name)
        if name == "subjects":
            return there
        return [{"all_unasked": len({row["subject"] for row in there} - {*params["subjects"], *params["unpriced"]})}]

    def statements() -> list[str]:
        asked.clear()
        rows, currency = held(cast("Store", None), ask, datetime(2026, 10, 1, tzinfo=UTC), 10, seen=seen)
        assert (rows[0]["all_unasked"], currency) == (0, "EUR")
        return list(asked)

    seen = Subjects()
    assert statements() == ["subjects", "held"]
    assert statements() == ["held"]
    there.append({**kind, "subject": 2, "tenant": "speech"})
    assert statements() == ["held", "subjects", "held"]
    assert statements() == ["held"]
