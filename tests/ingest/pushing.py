"""Pushes over HTTP as senders make them, and the ledger of the issued month, which they must not change."""

from __future__ import annotations

import gzip
import json
from typing import Any

import httpx

from ingest.wire import plain
from tests.ingest.issued_fleet import Forged
from tests.ingest.receiving import Served
from warehouse.store import Store

LEDGER = "SELECT * EXCEPT run FROM ledger WHERE hour >= '2026-10-01' AND hour < '2026-11-01' ORDER BY ALL"


def push(served: Served, one: Forged, form: str = "lines") -> httpx.Response:
    """form: lines, json, or gzip."""
    rows = [plain(row) for row in one.rows]
    text = json.dumps(rows) if form == "json" else "\n".join(json.dumps(row) for row in rows)
    headers = {"Authorization": f"Bearer {one.token}"}
    headers["Content-Type"] = "application/json" if form == "json" else "application/x-ndjson"
    body = text.encode()
    if form == "gzip":
        body, headers["Content-Encoding"] = gzip.compress(body), "gzip"
    return httpx.post(f"{served.url}/api/v1/records/{one.record}", content=body, headers=headers)


def ledger(store: Store) -> list[Any]:
    return store.rows(LEDGER)
