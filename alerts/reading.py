"""Alerts, their history and delivery attempts, for pages, the API and the command line."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from alerts.deliver import notified_alerts
from alerts.routing import Routing, held_back
from alerts.silences import silences
from warehouse.store import Store, read_sql

CURRENT = ("firing", "pending")


def alerts(
    store: Store,
    now: datetime,
    routing: Routing | None = None,
    states: Sequence[str] = CURRENT,
    rule: str = "",
    whole: Store | None = None,
) -> list[dict[str, Any]]:
    """Current alerts; labels, evidence and annotations are dicts. held_back: why it is not sent; empty: it is.

    whole: sees all alerts and silences, from which that follows, where the store sees some tenants only.
    """
    everything = whole or store
    quiet = held_back(notified_alerts(everything, now), routing or Routing(), silences(everything, now), now)
    rows = store.rows(read_sql(__file__, "alert_rows"), {"states": list(states), "rule": rule})
    return [{**parsed(row), "held_back": quiet.get(row["fingerprint"], "")} for row in rows]


def history(store: Store, rule: str = "", fingerprint: str = "", most: int = 100) -> list[dict[str, Any]]:
    """Changes of state, the newest first."""
    params = {"rule": rule, "fingerprint": fingerprint, "most": most}
    return [parsed(row) for row in store.rows(read_sql(__file__, "history_rows"), params)]


def attempts(store: Store, rule: str = "", fingerprint: str = "", most: int = 100) -> list[dict[str, Any]]:
    """Attempts to deliver, the newest first."""
    params = {"rule": rule, "fingerprint": fingerprint, "most": most}
    return store.rows(read_sql(__file__, "delivery_rows"), params)


def parsed(row: Mapping[str, Any]) -> dict[str, Any]:
    """A row with its labels, evidence and annotations as dicts."""
    return {**row, **{name: json.loads(row[name]) for name in ("labels", "evidence", "annotations")}}
