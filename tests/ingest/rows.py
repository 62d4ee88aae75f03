"""Samples typed or generated, and what the store holds after."""

from __future__ import annotations

import gzip
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq

from warehouse.store import Store

NOW = datetime(2026, 11, 1, tzinfo=UTC)
HEADER = "ts,interval_seconds,device_id,state,utilization"
START_MS = 1_790_812_800_000  # 2026-10-01T00:00:00Z


def samples(count: int, devices: int = 7, first: int = 0) -> pa.Table:
    """`count` good samples: one a minute of each device, some of them blank."""
    rows = range(first, first + count)
    blank = [i % 11 == 0 for i in rows]
    return pa.table(
        {
            "ts": pa.array([START_MS + 60_000 * (i // devices + 1) for i in rows], pa.timestamp("ms", "UTC")),
            "interval_seconds": pa.array([60.0] * count),
            "cluster": ["c1"] * count,
            "device_id": [f"GPU-{i % devices}" for i in rows],
            "workload_id": [f'it"s, {i % 3} 研发' for i in rows],
            "state": ["blank" if b else "ok" for b in blank],
            "utilization": pa.array([None if b else (i % 100) / 100 for i, b in zip(rows, blank, strict=True)]),
            "memory_used_bytes": pa.array([i * 1024 for i in rows], pa.uint64()),
        }
    )


def save(table: pa.Table, path: Path) -> Path:
    """The table as the file that the name asks for."""
    name = path.name.removesuffix(".gz")
    if name.endswith(".parquet"):
        pq.write_table(table, path, row_group_size=1000)
        return path
    if name.endswith(".csv"):
        sink = pa.BufferOutputStream()
        pa_csv.write_csv(table.set_column(0, "ts", _iso(table)), sink)
        data = sink.getvalue().to_pybytes()
    else:
        rows = table.set_column(0, "ts", _iso(table)).to_pylist()
        data = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows).encode()
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return path


def _iso(table: pa.Table) -> pa.Array:
    return pa.array([value.isoformat().replace("+00:00", "Z") for value in table["ts"].to_pylist()])


def content(store: Store, table: str = "samples") -> list[dict[str, Any]]:
    """Count and sums of what a table holds, merged."""
    return store.rows(
        "SELECT count() AS n, uniqExact(cluster, device_id, workload_id, ts) AS keys, "
        "sum(toInt64(round(utilization * 1e9))) AS used, "
        f"sum(memory_used_bytes) AS bytes, sum(toUnixTimestamp64Milli(ts)) AS clock FROM {table} FINAL"
    )


def facts(store: Store) -> dict[str, list[dict[str, Any]]]:
    """Everything that an ingest of samples writes, but for clocks."""
    return {
        "samples": store.rows("SELECT * EXCEPT (ingested_on) FROM samples FINAL ORDER BY ALL"),
        "touched_hours": store.rows("SELECT * FROM touched_hours ORDER BY ALL"),
        "quarantine": store.rows("SELECT * EXCEPT (quarantined_at) FROM quarantine FINAL ORDER BY ALL"),
        "batches": store.rows("SELECT * EXCEPT (ingested_at) FROM ingest_batches FINAL ORDER BY ALL"),
    }
