"""A forged push of every kind leaves an issued month's ledger as it was until somebody agrees; then it does what it was
said to do. Real HTTP, the real engine, real closes."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import httpx
import pytest

from billing import audit
from billing.close import close
from billing.held import accept, effect, refuse
from billing.invoicing.invoices import draft_all, issued
from billing.invoicing.rederive import rederive
from billing.ledger_report import ledger_report
from billing.periods import parse_period
from billing.verify import verify
from ingest.held import held_pushes
from ingest.wire import plain
from tests.ingest import issued_fleet
from tests.ingest.issued_fleet import NOW, OCTOBER, Forged, Row, forged, honest, issued_fleet as fill
from tests.ingest.receiving import Served, receiving
from tests.stores import fresh_store
from warehouse.store import Store

LEDGER = "SELECT * EXCEPT run FROM ledger WHERE hour >= '2026-10-01' AND hour < '2026-11-01' ORDER BY ALL"
ENTRIES = [
    *("hour", "cluster", "device_id", "model", "pool", "tenant", "project", "queue", "allocation_id", "units"),
    *("preemptible", "used_unit_ms", "idle_unit_ms", "unmetered_unit_ms", "unallocated_unit_ms", "list_unit_price"),
]


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    with fresh_store(tmp_path_factory.mktemp("store")) as store:
        fill(store)
        yield store


@pytest.fixture(scope="module")
def served(fleet: Store, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    tokens = tmp_path_factory.mktemp("tokens") / "senders.yaml"
    tokens.write_text(issued_fleet.SENDERS)
    with receiving(fleet, tokens, now=lambda: NOW) as running:
        yield running


def push(served: Served, one: Forged, form: str = "lines") -> httpx.Response:
    """form: lines, json, or gzip."""
    rows = [plain(row) for row in one.rows]
    text = json.dumps(rows) if form == "json" else "\n".join(json.dumps(row) for row in rows)
    headers = {"Authorization": f"Bearer {one.token}"}
    headers["Content-Type"] = "application/json" if form == "json" else "application/x-ndjson"
    body = text.encode()
    if form == "gzip":
        body, headers["Content-Encoding"] = gzip.compress(body), "gzip"
    return httpx.post(f"{served.url}/api/v1/records/{one.record}", content=body, headers=headers, timeout=60)


def ledger(store: Store) -> list[Any]:
    return store.rows(LEDGER)


def cost(store: Store) -> dict[str, Any]:
    return {row["tenant"]: row["billed_cost"] for row in ledger_report(store, OCTOBER, ("tenant",)).rows}


def test_every_forged_push_leaves_the_issued_month_as_it_was(fleet: Store, served: Served) -> None:
    before, numbers = ledger(fleet), [one.number or "" for one in issued(fleet, OCTOBER)]
    assert before
    for form, one in zip(["lines", "json", "gzip"] * 100, forged(), strict=False):
        answer = push(served, one, form)
        assert answer.status_code in (200, 403), (one.what, answer.text)
        if answer.status_code == 200:
            report = answer.json()
            assert report["stored"] == 0, (one.what, report)
            assert sum(report["held"].values()) + sum(report["quarantined"].values()) == len(one.rows), one.what
    close(fleet, NOW - timedelta(hours=2), NOW)
    assert ledger(fleet) == before
    assert verify(fleet).balanced
    assert [rederive(fleet, number).differences for number in numbers] == [()] * len(numbers)
    november = draft_all(fleet, parse_period("2026-11", "UTC"))
    assert not [line for one in november for line in one.lines if line["charge_class"] == "Correction"]
