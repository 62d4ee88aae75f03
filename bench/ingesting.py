"""Ingest beside the engine's own INSERT ... FROM INFILE: the same Parquet file into two fresh stores."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from bench.apart import BenchError, load_libraries, needed, peak_bytes, reset_peak, run_apart, stopwatch
from bench.fleet import MINUTES_A_DAY, BenchFleet, export_samples, fill
from bench.report import Line, Spread
from ingest import ingest_file
from warehouse.records import SAMPLES
from warehouse.store import Store, migrate, open_store, read_sql

GOAL = 1.5
SECTION = "ingest"


def measure_ingest(
    folder: Path, devices: int, rows: int, repeat: int, most_bytes: int, say: Callable[[str], None]
) -> Iterator[Line]:
    """The engine's way and ours, in turn, `repeat` times; the median counts.

    Errors: BenchError if the two stores differ in any value.
    """
    path = folder / "ingest.parquet"
    say(f"ingest: writing {rows:,} samples as Parquet")
    needed(run_apart(write_parquet, most_bytes, path=str(path), devices=devices, rows=rows), "writing Parquet")
    path.read_bytes()  # so that both find the file in the page cache
    engine: list[dict[str, Any]] = []
    ours: list[dict[str, Any]] = []
    for turn in range(repeat):
        say(f"ingest: turn {turn + 1} of {repeat}")
        for results, function in ((engine, by_engine), (ours, by_ingest)):
            store = f"chdb://{folder}/{function.__name__}-{turn}"
            result = run_apart(function, most_bytes, path=str(path), store=store)
            results.append(needed(result, function.__name__))
        if engine[-1]["digest"] != ours[-1]["digest"]:
            raise BenchError(f"ingest: the stores differ: engine {engine[-1]['digest']}, ours {ours[-1]['digest']}")
        if engine[-1]["digest"]["stored"] != rows:
            raise BenchError(f"ingest: {rows:,} rows went in, {engine[-1]['digest']['rows']:,} are there")
    yardstick = Spread.of([result["seconds"] for result in engine])
    seconds = Spread.of([result["seconds"] for result in ours])
    yield Line(SECTION, "the engine: INSERT ... FROM INFILE", yardstick, rows, _peak(engine), 1.0)
    yield Line(SECTION, "gpuledger ingest", seconds, rows, _peak(ours), seconds.median / yardstick.median, GOAL)


def write_parquet(path: str, devices: int, rows: int) -> dict[str, Any]:
    """In a process of its own: the first `rows` samples of a fleet, in order of time."""
    fleet = BenchFleet(devices, math.ceil(rows / devices / MINUTES_A_DAY))
    with open_store(f"chdb://{path}.store") as store:
        migrate(store)
        fill(store, fleet)
        export_samples(store, Path(path), fleet.start, fleet.end, rows)
    return {}


def by_engine(path: str, store: str) -> dict[str, Any]:
    """In a process of its own: the engine reads the file itself."""
    if set(path) & set("'\\"):
        raise BenchError(f"{path}: choose a --dir without quotes and backslashes")
    sql = read_sql(__file__, "insert_from_infile", path=path)
    return _measured(store, lambda opened: opened.command(sql))


def by_ingest(path: str, store: str) -> dict[str, Any]:
    """In a process of its own: checked, deduplicated, acknowledged, batch by batch."""
    # The fleet lives in fixed days; a sample from the future would go to quarantine.
    now = datetime.now(UTC) + timedelta(days=3660)
    return _measured(store, lambda opened: ingest_file(opened, SAMPLES, Path(path), now=now))


def _measured(url: str, work: Callable[[Store], object]) -> dict[str, Any]:
    load_libraries()
    with open_store(url) as store:
        migrate(store)
        reset_peak()
        with stopwatch() as watch:
            work(store)
        peak = peak_bytes()
        (digest,) = store.rows(read_sql(__file__, "samples_digest"))
    return {"seconds": watch.seconds, "peak_bytes": peak, "digest": digest}


def _peak(results: list[dict[str, Any]]) -> int:
    return max(int(result["peak_bytes"]) for result in results)
