"""The close beside one plain scan of the same rows, by hand in DuckDB and Polars, and on a quarter of the fleet, with
clocks that keep the minute and with others."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from bench.apart import BenchError, load_libraries, needed, peak_bytes, reset_peak, run_apart, stopwatch
from bench.by_hand import by_duckdb, by_polars
from bench.fleet import BenchFleet, export_days, export_events, fill
from bench.report import Line, Spread
from billing.close import close
from billing.verify import verify
from warehouse.store import migrate, open_store, read_sql

GOAL = 3.0
GOAL_BYTES = 4 << 30
SCANS = 3
GOAL_JITTERED, JITTER_MS = 1.5, 500
"""The close of a fleet whose samples are up to so far from their minute, relative to one that keeps it."""
TOLERANCE = 1e-6

Say = Callable[[str], None]


def measure_close(
    folder: Path, fleet: BenchFleet, growth: bool, cores: int, most_bytes: int, say: Say
) -> Iterator[Line]:
    """Scan, close, close again, verify; by hand; and, if asked for, growth.

    Errors: BenchError if the books do not balance or the hand-written attributions differ from them.
    """
    say(f"close: making {fleet.samples:,} samples")
    made = _fleet_store(folder / "full", fleet, True, most_bytes)
    say("close: scan, close, close again, verify")
    full = _closed(folder / "full", fleet, most_bytes)
    yield from _close_lines(full, made, fleet)
    yield from _by_hand_lines(folder / "full", fleet, full, cores, most_bytes, say)
    if not growth:
        return
    quarter = BenchFleet(max(1, fleet.devices // 4), fleet.days)
    say(f"growth: {quarter.devices} devices")
    _fleet_store(folder / "quarter", quarter, False, most_bytes)
    of_quarter = _closed(folder / "quarter", quarter, most_bytes)
    yield from _growth_lines(of_quarter, quarter, full, fleet)
    off = replace(quarter, jitter_ms=JITTER_MS)
    clocks = {"on the minute": of_quarter}
    for name, of in ((f"{JITTER_MS} ms off", off), ("and says a minute", replace(off, says_minute=True))):
        say(f"clocks: {quarter.devices} devices, {name}")
        _fleet_store(folder / name, of, False, most_bytes)
        clocks[name] = _closed(folder / name, quarter, most_bytes)
    yield from _clock_lines(clocks, quarter)


def make_fleet(
    folder: str, devices: int, days: int, parquet: bool, jitter_ms: int = 0, says_minute: bool = False
) -> dict[str, Any]:
    """In a process of its own: a store with the fleet, settled into one part a day; the same rows as Parquet."""
    fleet = BenchFleet(devices, days, jitter_ms=jitter_ms, says_minute=says_minute)
    files: list[Path] = []
    with open_store(f"chdb://{folder}/store") as store:
        migrate(store)
        fill(store, fleet)
        store.command("OPTIMIZE TABLE samples FINAL")
        (size,) = store.rows(read_sql(__file__, "bytes_per_sample"))
        if parquet:
            export_events(store, Path(folder) / "events.parquet")
            files = export_days(store, fleet, Path(folder))
    return {**size, "parquet_bytes": sum(path.stat().st_size for path in files)}


def scan_and_close(folder: str, devices: int, days: int) -> dict[str, Any]:
    """In a process of its own: warm scans, then the close on the same machine at the same time."""
    fleet = BenchFleet(devices, days)
    result: dict[str, Any] = {}
    load_libraries()
    with open_store(f"chdb://{folder}/store") as store:
        scan = read_sql(__file__, "scan")
        store.value(scan)  # cold
        reset_peak()
        result["scans"] = [_timed(lambda: store.value(scan))[0] for _ in range(SCANS)]
        result["scan_peak_bytes"] = peak_bytes()
        reset_peak()
        result["close_seconds"], report = _timed(lambda: close(store, until=fleet.end, now=fleet.end))
        result["close_peak_bytes"] = peak_bytes()
        result["hours"] = report.checked
        result["again_seconds"], again = _timed(lambda: close(store, until=fleet.end, now=fleet.end))
        if report.refused or again.checked:
            raise BenchError(f"close: {report.refused} claims refused; {again.checked} hours to close a second time")
        reset_peak()
        result["verify_seconds"], proof = _timed(lambda: verify(store))
        result["verify_peak_bytes"] = peak_bytes()
        if not proof.balanced:
            raise BenchError(f"verify: the books do not balance: {proof.failures[0]}")
        rows = store.rows(read_sql(__file__, "ledger_by_tenant"))
        result["tenants"] = {row.pop("tenant"): row for row in rows}
    return result


def _timed(work: Callable[[], Any]) -> tuple[float, Any]:
    with stopwatch() as watch:
        answer = work()
    return watch.seconds, answer


def _fleet_store(folder: Path, fleet: BenchFleet, parquet: bool, most_bytes: int) -> dict[str, Any]:
    folder.mkdir()
    about = {
        "devices": fleet.devices,
        "days": fleet.days,
        "jitter_ms": fleet.jitter_ms,
        "says_minute": fleet.says_minute,
    }
    made = run_apart(make_fleet, most_bytes, folder=str(folder), parquet=parquet, **about)
    return needed(made, "making the fleet")


def _closed(folder: Path, fleet: BenchFleet, most_bytes: int) -> dict[str, Any]:
    result = run_apart(scan_and_close, most_bytes, folder=str(folder), devices=fleet.devices, days=fleet.days)
    return needed(result, "the close")


def _close_lines(full: dict[str, Any], made: dict[str, Any], fleet: BenchFleet) -> Iterator[Line]:
    rows = fleet.samples
    scan = Spread.of(full["scans"])

    def line(name: str, seconds: str, peak: str | None, goal: float | None = None, note: str = "") -> Line:
        peak_of = full[peak] if peak else None
        ratio = full[seconds] / scan.median
        return Line("close", name, Spread.of([full[seconds]]), rows, peak_of, ratio, goal, note=note)

    size = f"{made['bytes_per_sample']:.1f} bytes a sample in the store"
    yield Line("close", "one scan: GROUP BY device_id, hour", scan, rows, full["scan_peak_bytes"], 1.0, note=size)
    first = line("gpuledger close", "close_seconds", "close_peak_bytes", GOAL, f"{full['hours']} hours")
    yield first.with_memory_goal(GOAL_BYTES)
    yield line("close again, nothing to do", "again_seconds", None)
    yield line("verify", "verify_seconds", "verify_peak_bytes")


def _by_hand_lines(
    folder: Path, fleet: BenchFleet, full: dict[str, Any], cores: int, most_bytes: int, say: Say
) -> Iterator[Line]:
    section, rows = "the same attribution by hand", fleet.samples
    arguments = {
        "samples": [str(path) for path in sorted(folder.glob("samples-*.parquet"))],
        "events": str(folder / "events.parquet"),
        "until": fleet.end.isoformat(),
        "cores": cores,
    }
    yield Line(section, "gpuledger close", Spread.of([full["close_seconds"]]), rows, full["close_peak_bytes"], 1.0)
    for name, function, more in (("DuckDB", by_duckdb, {"scratch": str(folder)}), ("Polars", by_polars, {})):
        say(f"by hand: {name}")
        result = run_apart(function, most_bytes, **arguments, **more)
        if result is None:
            yield Line(section, name, None, rows, None, None, note=f"out of memory (over {most_bytes / 2**30:.0f} GiB)")
            continue
        agree(name, result["tenants"], full["tenants"])
        ratio = result["seconds"] / full["close_seconds"]
        note = f"agrees to {TOLERANCE:g}"
        yield Line(section, name, Spread.of([result["seconds"]]), rows, result["peak_bytes"], ratio, note=note)


def agree(name: str, theirs: dict[str, dict[str, float]], ours: dict[str, dict[str, float]]) -> None:
    if theirs.keys() != ours.keys():
        raise BenchError(f"{name} and the ledger know different tenants: {sorted(theirs.keys() ^ ours.keys())}")
    for tenant, hours in ours.items():
        for quantity, value in hours.items():
            other = theirs[tenant][quantity]
            if abs(other - value) > TOLERANCE * max(abs(value), 1e-9):
                raise BenchError(f"{name}: {tenant} has {other} GPU-hours {quantity}, the ledger says {value}")


def _growth_lines(
    quarter: dict[str, Any], small: BenchFleet, full: dict[str, Any], fleet: BenchFleet
) -> Iterator[Line]:
    """Ratio: seconds a sample, against the quarter; 1 is linear, less is better."""
    section = "growth of the close"
    one = quarter["close_seconds"] / small.samples
    for result, of in ((quarter, small), (full, fleet)):
        seconds, ratio = Spread.of([result["close_seconds"]]), result["close_seconds"] / of.samples / one
        name = f"{of.devices} devices"
        yield Line(section, name, seconds, of.samples, result["close_peak_bytes"], ratio, note="ratio is per sample")


def _clock_lines(clocks: Mapping[str, dict[str, Any]], fleet: BenchFleet) -> Iterator[Line]:
    """Ratio: to the first, the fleet that keeps the minute."""
    section = "clocks"
    aligned = next(iter(clocks.values()))
    for name, result in clocks.items():
        seconds, ratio = Spread.of([result["close_seconds"]]), result["close_seconds"] / aligned["close_seconds"]
        goal = None if result is aligned else GOAL_JITTERED
        yield Line(section, name, seconds, fleet.samples, result["close_peak_bytes"], ratio, goal)
