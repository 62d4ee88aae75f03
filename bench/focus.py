"""Export to FOCUS beside the engine's own SELECT ... INTO OUTFILE of the same ledger rows.

The outfile has the ledger's columns and their costs, FOCUS has twice as many, so the ratio per byte is shown too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from bench.apart import BenchError, load_libraries, needed, peak_bytes, reset_peak, run_apart, stopwatch
from bench.report import Line, Spread
from billing.exports.check import check_focus
from billing.exports.focus import FocusOptions, export_focus
from billing.invoicing.invoices import issue_all
from billing.periods import parse_month
from billing.rates import apply_rate_card, parse_rate_card
from warehouse.store import migrate, open_store, read_sql

GOAL_SECONDS = 20
GOAL_BYTES = 1 << 30
HOURS = 744
START = datetime(2026, 10, 1, tzinfo=UTC)
NOW = datetime(2026, 11, 2, tzinfo=UTC)
SECTION = "export focus"
CARD = {
    "currency": "EUR",
    "minimum_seconds": 0,
    "rates": [{"sku": "h100", "price_per_gpu_hour": "2.00"}],
    "discounts": [{"name": "early", "percent": "10"}],
}


def measure_focus(folder: Path, rows: int, most_bytes: int, say: Callable[[str], None]) -> Iterator[Line]:
    """The outfile, then each format, then the check of the CSV. Errors: BenchError if a file breaks a rule."""
    store = f"chdb://{folder}/focus"
    say(f"focus: a ledger of {rows:,} entries")
    needed(run_apart(make_ledger, most_bytes, store=store, rows=rows), "making the ledger")
    plain = _run(by_engine, most_bytes, store, folder / "plain.csv", say)
    yield Line(
        SECTION, "the engine: SELECT ... INTO OUTFILE", Spread.of([plain["seconds"]]), rows, plain["peak_bytes"], 1.0,
        note=f"{plain['bytes'] / 2**20:.0f} MiB",
    )  # fmt: skip
    for suffix in (".csv", ".csv.gz", ".parquet"):
        result = _run(by_export, most_bytes, store, folder / f"focus{suffix}", say)
        ratio = result["seconds"] / plain["seconds"]
        per_byte = ratio * plain["bytes"] / result["bytes"]
        note = f"{result['bytes'] / 2**20:.0f} MiB" + (f", {per_byte:.2f} a byte" if suffix == ".csv" else "")
        goal = GOAL_SECONDS / plain["seconds"]
        line = Line(
            SECTION, f"export focus {suffix}", Spread.of([result["seconds"]]), rows, result["peak_bytes"], ratio,
            goal if rows == 1_000_000 else None, note=note,
        )  # fmt: skip
        yield line.with_memory_goal(GOAL_BYTES)
    for suffix in (".csv", ".parquet"):
        result = _run(by_check, most_bytes, store, folder / f"focus{suffix}", say)
        if result["findings"]:
            raise BenchError(f"focus: {result['findings']}")
        ratio = result["seconds"] / plain["seconds"]
        yield Line(SECTION, f"export check {suffix}", Spread.of([result["seconds"]]), rows, result["peak_bytes"], ratio)


def make_ledger(store: str, rows: int) -> dict[str, Any]:
    """In a process of its own: closed, priced and invoiced."""
    with open_store(store) as opened:
        migrate(opened)
        apply_rate_card(opened, parse_rate_card(dict(CARD)), "bench", "", NOW)
        devices = -(-rows // HOURS)
        opened.command(read_sql(__file__, "focus_ledger"), {"rows": rows, "devices": devices, "start": START})
        opened.command(read_sql(__file__, "focus_closed"), {"hours": HOURS, "start": START})
        issue_all(opened, parse_month("2026-10", "UTC"), NOW)
    return {}


def by_engine(store: str, path: str) -> dict[str, Any]:
    """In a process of its own: the ledger as it is."""
    if set(path) & set("'\\"):
        raise BenchError(f"{path}: choose a folder without quotes and backslashes")
    sql = read_sql(__file__, "focus_outfile", path=path)
    load_libraries()
    with open_store(store) as opened:
        reset_peak()
        with stopwatch() as watch:
            opened.command(sql)
        return {"seconds": watch.seconds, "peak_bytes": peak_bytes(), "bytes": Path(path).stat().st_size}


def by_export(store: str, path: str) -> dict[str, Any]:
    """In a process of its own: as FOCUS."""
    load_libraries()
    with open_store(store) as opened:
        reset_peak()
        with stopwatch() as watch:
            export_focus(opened, parse_month("2026-10", "UTC"), Path(path), FocusOptions())
        return {"seconds": watch.seconds, "peak_bytes": peak_bytes(), "bytes": Path(path).stat().st_size}


def by_check(store: str, path: str) -> dict[str, Any]:
    """In a process of its own: our own rules on the file."""
    load_libraries()
    with open_store("chdb://memory") as engine:
        reset_peak()
        with stopwatch() as watch:
            findings = check_focus(engine, Path(path))
        return {"seconds": watch.seconds, "peak_bytes": peak_bytes(), "findings": [str(one) for one in findings]}


def _run(
    function: Callable[..., dict[str, Any]], most_bytes: int, store: str, path: Path, say: Callable[[str], None]
) -> dict[str, Any]:
    say(f"focus: {function.__name__} {path.name}")
    return needed(run_apart(function, most_bytes, store=store, path=str(path)), function.__name__)
