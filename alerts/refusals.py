"""Reports a permanently refused notification as a finding, like a collector's."""

from __future__ import annotations

from datetime import datetime

from ingest import ingest_tables
from warehouse.records import FINDINGS
from warehouse.store import Store

FINDING = "delivery_refused"


def report_refused(store: Store, now: datetime, message: str) -> None:
    import pyarrow as pa

    at = pa.array([now], pa.timestamp("ms", "UTC"))
    columns = {"finding": FINDING, "severity": "warning", "message": message, "source": "gpuledger"}
    ingest_tables(
        store, FINDINGS, "gpuledger", [pa.table({"ts": at, **{name: [text] for name, text in columns.items()}})]
    )
