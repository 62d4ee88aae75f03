"""The bench runs, and what its unlike programs say of the same rows agrees; times prove nothing on a tiny fleet."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from bench.by_hand import by_duckdb, by_polars
from bench.closing import TOLERANCE
from bench.report import Line, Spread
from tests.draws import seldom

REPO = Path(__file__).resolve().parent.parent.parent
SIZE = ("--devices", "8", "--days", "1", "--rows", "2000", "--repeat", "1", "--entries", "2000", "--no-growth")


def bench(part: str, folder: Path) -> dict[tuple[str, str], Any]:
    """The lines of one part, by section and name."""
    command = [sys.executable, "-m", "bench", *SIZE, "--only", part, "--dir", str(folder), "--format", "json"]
    done = subprocess.run(command, cwd=REPO, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    lines = {(line["section"], line["name"]): line for line in json.loads(done.stdout)["lines"]}
    assert all(line["ratio"] > 0 and line["seconds"]["median"] > 0 for line in lines.values())
    assert not list(folder.iterdir()), "the scratch folder is removed"
    return lines


@seldom(8, "bench")
def test_a_tiny_bench_agrees_and_prints_its_ratios(tmp_path: Path) -> None:
    lines = bench("close", tmp_path)
    assert {section for section, _ in lines} == {"close", "the same attribution by hand"}
    assert lines["close", "gpuledger close"]["goal"] == 3.0
    for name in ("DuckDB", "Polars"):
        assert lines["the same attribution by hand", name]["note"] == f"agrees to {TOLERANCE:g}"


@pytest.mark.skipif("GPULEDGER_BENCH" not in os.environ, reason="15 processes: GPULEDGER_BENCH=1 runs them")
@pytest.mark.parametrize(
    ("part", "section"), [("ingest", "ingest"), ("invoices", "invoices"), ("focus", "export focus")]
)
def test_the_other_parts_of_a_tiny_bench_run(tmp_path: Path, part: str, section: str) -> None:
    assert {found for found, _ in bench(part, tmp_path)} == {section}


def test_by_hand_a_sample_over_a_full_hour_is_used_in_both_hours_and_a_gap_is_unmetered(tmp_path: Path) -> None:
    import polars as pl

    at = "2026-10-01T{}:00+00:00".format
    samples = [  # (end, length in seconds, workload, state, utilization)
        (at("00:40"), 600, "w", "ok", 1.0),  # before the start: only 00:35-00:40 is held
        (at("01:10"), 1200, "w", "ok", 0.5),  # 00:50-01:10
        (at("01:20"), 1200, "w", "blank", None),  # covers 01:10-01:20 and is of no use
        (at("01:40"), 1200, "", "ok", 0.25),  # everybody on the device: 01:20-01:30 is held
    ]
    table = {
        "ts": [row[0] for row in samples],
        "interval_seconds": [float(row[1]) for row in samples],
        "cluster": ["c"] * 4,
        "device_id": ["gpu"] * 4,
        "partition_id": [""] * 4,
        "workload_id": [row[2] for row in samples],
        "state": [row[3] for row in samples],
        "utilization": [row[4] for row in samples],
    }
    events = {
        "ts": [at("00:35"), at("01:30")],
        "cluster": ["c", "c"],
        "allocation_id": ["a", "a"],
        "workload_id": ["w", "w"],
        "event": ["started", "finished"],
        "tenant": ["physics", "physics"],
        "device_id": ["gpu", ""],
    }
    for name, columns in (("samples", table), ("events", events)):
        frame = pl.DataFrame(columns).with_columns(pl.col("ts").str.to_datetime("%Y-%m-%dT%H:%M:%S%z", time_unit="ms"))
        frame.write_parquet(tmp_path / f"{name}.parquet")
    paths = ([str(tmp_path / "samples.parquet")], str(tmp_path / "events.parquet"), at("02:00"))
    for answer in (by_duckdb(*paths, cores=1, scratch=str(tmp_path)), by_polars(*paths, cores=1)):
        hours = {name: round(value * 60, 6) for name, value in answer["tenants"]["physics"].items()}
        assert hours == {"used": 5 + 10 + 2.5, "covered": 5 + 20 + 10, "unmetered": 20}


def test_a_goal_is_missed_where_nothing_was_measured() -> None:
    once = Spread.of([2.0])
    assert Line("close", "scan", once, 1, None, 1.0).met is None
    assert Line("close", "ours", once, 1, 100, 2.9, 3.0, 100).met is True
    assert Line("close", "ours", once, 1, 101, 2.9, 3.0, 100).met is False
    assert Line("close", "ours", None, 1, None, None, 3.0).met is False
