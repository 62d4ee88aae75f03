"""The same attribution as a competent user of DuckDB and of Polars would write it, on the same rows as Parquet.

Both know more than the close may assume: whole devices, one holder at a time, no row twice, and that rows of a device
and of its holder never speak of the same time. They price nothing, prove nothing and keep nothing.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.apart import peak_bytes, stopwatch
from warehouse.store import read_sql

if TYPE_CHECKING:
    import polars as pl

HOUR_MS = 3_600_000
STREAM = ("cluster", "device_id", "partition_id", "workload_id")


def by_duckdb(samples: Sequence[str], events: str, until: str, cores: int, scratch: str) -> dict[str, Any]:
    """In a process of its own: seconds, CPU seconds, peak memory and GPU-hours by tenant."""
    import duckdb

    with duckdb.connect(config={"threads": cores, "temp_directory": str(Path(scratch) / "duckdb")}) as connection:
        connection.execute("SET preserve_insertion_order = false")
        parameters = {"samples": list(samples), "events": events, "until": datetime.fromisoformat(until)}
        try:
            with stopwatch() as watch:
                rows = connection.execute(read_sql(__file__, "by_duckdb"), parameters).fetchall()
        except duckdb.OutOfMemoryException as error:
            raise MemoryError(str(error)) from error
    names = ("tenant", "used", "covered", "unmetered")
    tenants = _by_tenant(dict(zip(names, row, strict=True)) for row in rows)
    cost = {"seconds": watch.seconds, "cpu_seconds": watch.cpu_seconds, "peak_bytes": peak_bytes()}
    return {**cost, "tenants": tenants}


def by_polars(samples: Sequence[str], events: str, until: str, cores: int) -> dict[str, Any]:
    """In a process of its own: seconds, CPU seconds, peak memory and GPU-hours by tenant."""
    os.environ["POLARS_MAX_THREADS"] = str(cores)  # read when the module is loaded
    import polars as pl

    until_ms = int(datetime.fromisoformat(until).timestamp() * 1000)
    with stopwatch() as watch:
        plan = _ledger(_held_hours(pl.scan_parquet(events), until_ms), _span_hours(pl.scan_parquet(list(samples))))
        table = plan.collect(engine="streaming")
    cost = {"seconds": watch.seconds, "cpu_seconds": watch.cpu_seconds, "peak_bytes": peak_bytes()}
    return {**cost, "tenants": _by_tenant(table.iter_rows(named=True))}


def _held_hours(events: pl.LazyFrame, until_ms: int) -> pl.LazyFrame:
    """Allocations, a row for each hour that they touch."""
    import polars as pl

    at, start, end, hour = pl.col("ts").dt.epoch("ms"), pl.col("start_ms"), pl.col("end_ms"), pl.col("hour")
    held = events.group_by("cluster", "allocation_id").agg(
        pl.col("workload_id", "tenant").first(),
        pl.col("device_id").max(),
        start_ms=at.filter(pl.col("event") == "started").min(),
        end_ms=at.filter(pl.col("event") == "finished").max().fill_null(until_ms).clip(upper_bound=until_ms),
    )
    hours = pl.int_ranges(start // HOUR_MS, (end - 1) // HOUR_MS + 1)
    return (
        held.filter(start < end)
        .with_columns(hour=hours)
        .explode("hour")
        .with_columns(
            start_ms=pl.max_horizontal(start, hour * HOUR_MS), end_ms=pl.min_horizontal(end, (hour + 1) * HOUR_MS)
        )
    )


def _span_hours(samples: pl.LazyFrame) -> pl.LazyFrame:
    """What each usable sample covers, once for each hour that it touches (two at most)."""
    import polars as pl

    at = pl.col("ts").dt.epoch("ms")
    length = (pl.col("interval_seconds") * 1000).cast(pl.Int64)
    spans = (
        samples.select(*STREAM, "state", "utilization", until=at, since=at - length)
        .with_columns(since=pl.max_horizontal("since", pl.col("until").shift(1).over(STREAM, order_by="until")))
        .filter(pl.col("state").is_in(["ok", "idle"]))
        .select("cluster", "device_id", "utilization", "since", "until", reported_of="workload_id")
    )
    first, last = pl.col("since") // HOUR_MS, (pl.col("until") - 1) // HOUR_MS
    return pl.concat([spans.with_columns(hour=last), spans.filter(first < last).with_columns(hour=first)])


def _ledger(held_hours: pl.LazyFrame, span_hours: pl.LazyFrame) -> pl.LazyFrame:
    """GPU-hours by tenant."""
    import polars as pl

    covered = pl.min_horizontal("until", "end_ms") - pl.max_horizontal("since", "start_ms")
    measured = (
        span_hours.join(held_hours, on=["cluster", "device_id", "hour"])
        .filter((pl.col("reported_of") == "") | (pl.col("reported_of") == pl.col("workload_id")))
        .with_columns(covered=covered)
        .filter(pl.col("covered") > 0)
        .group_by("allocation_id", "hour")
        .agg(covered_ms=pl.col("covered").sum(), used_ms=(pl.col("covered") * pl.col("utilization")).sum())
    )
    held_ms = (pl.col("end_ms") - pl.col("start_ms")).sum()
    return (
        held_hours.join(measured, on=["allocation_id", "hour"], how="left")
        .group_by("tenant")
        .agg(
            used=pl.col("used_ms").sum() / HOUR_MS,
            covered=pl.col("covered_ms").sum() / HOUR_MS,
            unmetered=(held_ms - pl.col("covered_ms").sum()) / HOUR_MS,
        )
    )


def _by_tenant(rows: Any) -> dict[str, Mapping[str, float]]:
    return {
        row["tenant"]: {name: float(row[name]) for name in ("used", "covered", "unmetered")}
        for row in sorted(rows, key=lambda row: row["tenant"])
    }
