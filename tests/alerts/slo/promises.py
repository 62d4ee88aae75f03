"""Objectives, and the facts that they are measured from, for tests of objectives."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any

import pyarrow as pa

from alerts.slo.applied import apply_objectives
from alerts.slo.measure import measure
from alerts.slo.objectives import parse_objectives
from alerts.slo.status import SeriesStatus, slo_status
from ingest import ingest_tables
from tests.alerts.facts import NOON, Fact
from warehouse.records import RECORD_TYPES
from warehouse.store import Store

WAIT: dict[str, Any] = {"name": "wait", "kind": "queue_wait", "within": "30m", "target": "0.9"}
LATENCY: dict[str, Any] = {
    "name": "fast",
    "kind": "latency",
    "metric": "request_latency_seconds",
    "quantile": "0.95",
    "at_most_seconds": "0.5",
    "target": "0.99",
}
ERRORS: dict[str, Any] = {"name": "errors", "kind": "error_rate", "target": "0.99"}


def promise(store: Store, *objectives: dict[str, Any]) -> None:
    apply_objectives(store, parse_objectives({"objectives": list(objectives)}), "me", "", NOON)


def status(store: Store, at: datetime = NOON) -> list[SeriesStatus]:
    """Measured and read."""
    measure(store, at)
    return slo_status(store, at)


def known(store: Store, at: datetime = NOON) -> dict[tuple[str, str, str], tuple[float, float, float]]:
    """Measured: (objective, tenant, subject) -> good, bad, missing."""
    measure(store, at)
    rows = store.rows(
        "SELECT o.name AS name, tenant, subject, sum(good) AS good, sum(bad) AS bad, sum(missing) AS missing "
        "FROM slo_series AS s INNER JOIN (SELECT name, definition FROM slo_objectives) AS o USING definition "
        "GROUP BY ALL"
    )
    return {
        (row["name"], row["tenant"], row["subject"]): (
            round(row["good"], 3),
            round(row["bad"], 3),
            round(row["missing"], 3),
        )
        for row in rows
    }


def arrive(store: Store, facts: Iterable[Fact]) -> None:
    """Facts by way of the real ingest, which knows what came when."""
    for record, row in facts:
        table = pa.table({name: [value] for name, value in row.items()})
        ingest_tables(store, RECORD_TYPES[record], "test", [table])
