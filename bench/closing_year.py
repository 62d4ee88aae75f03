"""One new hour on the books of a long time, and what each step of its close costs.

A fleet has been closed for so many days; of the days before the last two the samples themselves are left out, but not
the notes of their batches, so that a year is made in a minute. Then an hour comes and is closed: the hours' CPU seconds
and the process's peak of memory are the result, beside those of its statements.
"""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from unittest.mock import patch

from bench.apart import load_libraries, peak_bytes, reset_peak
from bench.fleet import BenchFleet
from billing.close import close
from billing.rates import apply_rate_card, parse_rate_card
from warehouse.store import Store, migrate, open_store, read_sql

SAMPLED_DAYS = 2
"""The last days, of which the samples are there."""
MINUTE = timedelta(minutes=1)
SCANS = 5
"""Of the samples that are there, of which the fastest is the yardstick: how fast this machine reads, now."""
LARGE_BLOCKS = {
    "min_insert_block_size_rows": 4_000_000,
    "min_insert_block_size_bytes": 0,
    "optimize_aggregation_in_order": 1,
    "optimize_on_insert": 0,
}
"""Of the batches of a year, which are all different: in smaller parts, or looked through for equal ones as they are
written, they would take three times as long."""
CARD = {"currency": "EUR", "rates": [{"sku": "gpu", "price_per_gpu_hour": "1.75"}]}
START = datetime.fromisoformat("2020-01-01T00:00:00+00:00")


def make_year(folder: str, devices: int, days: int) -> dict[str, Any]:
    """In a process of its own: a store that is closed until the last full hour."""
    fleet = BenchFleet(devices, days + 1, START)
    end = START + timedelta(days=days)
    params = {"devices": devices, "start": START, "days": fleet.days}
    with open_store(f"chdb://{folder}/store") as store:
        migrate(store)
        apply_rate_card(store, parse_rate_card(CARD), "bench", "", START)
        store.command(read_sql(__file__, "fleet_devices"), params)
        began, sampled = START - timedelta(days=1), days - SAMPLED_DAYS
        lately = START + timedelta(days=sampled)

        def tell_events(after: datetime, until: datetime) -> None:
            store.command(
                read_sql(__file__, "year_events"),
                {**params, "after": after, "until": until},
                {"max_partitions_per_insert_block": 0},
            )

        tell_events(began, lately)
        touches = {"start": START, "groups": math.ceil(devices / 16), "from_minute": 0, "minutes": sampled * 1440}
        store.command(read_sql(__file__, "year_touches"), touches, LARGE_BLOCKS)
        for table in ("events", "touched_hours"):
            store.command(f"OPTIMIZE TABLE {table} FINAL")
        _acknowledge(store, began, MINUTE)
        store.command("OPTIMIZE TABLE ingest_batches FINAL")
        reset_peak()
        cpu = _close(store, lately)
        renamed = "ALTER TABLE close_named UPDATE named_at = {at:DateTime64(3, 'UTC')} WHERE true"
        store.command(renamed, {"at": START}, {"mutations_sync": 2})
        # What came lately is read by a close of its own, as at a site whose hours are closed one by one.
        tell_events(lately, end)
        for day in range(sampled, days):
            store.command(read_sql(__file__, "year_samples"), {**params, "from_minute": day * 1440, "minutes": 1440})
        _acknowledge(store, lately, datetime.now(UTC) - end)
        cpu += _close(store, end)
        for table in ("ledger_entries", "energy_entries"):
            store.command(f"OPTIMIZE TABLE {table} FINAL")
        (size,) = store.rows(read_sql(__file__, "year_sizes"))
        return {**size, "cpu": cpu, "peak": peak_bytes()}


def _acknowledge(store: Store, after: datetime, later: timedelta) -> None:
    told = {"after": after, "later_ms": later // timedelta(milliseconds=1)}
    store.command(read_sql(__file__, "year_acknowledged"), told, LARGE_BLOCKS)


def _close(store: Store, until: datetime) -> float:
    """CPU seconds."""
    began = time.process_time()
    close(store, until=until, now=until)
    return time.process_time() - began


def close_hours(folder: str, devices: int, days: int, hours: int) -> dict[str, Any]:
    """In a process of its own: closes what comes after, an hour at a time, then once more; and scans the samples."""
    end = START + timedelta(days=days)
    params = {"devices": devices, "start": START, "days": days + 1}
    closes: dict[str, Any] = {}
    load_libraries()
    with open_store(f"chdb://{folder}/store") as store:
        for hour in range(1, hours + 1):
            since, until = end + timedelta(hours=hour - 1), end + timedelta(hours=hour)
            store.command(read_sql(__file__, "year_events"), {**params, "after": since, "until": until})
            minutes = {"from_minute": days * 1440 + (hour - 1) * 60, "minutes": 60}
            store.command(read_sql(__file__, "year_samples"), {**params, **minutes})
            _acknowledge(store, since, datetime.now(UTC) - until)
            closes[f"new hour {hour}"] = _measured(store, lambda until=until: close(store, until, until))
        closes["nothing new"] = _measured(store, lambda: close(store, until, until))
        scan = read_sql(__file__, "scan")
        scanned = min(_measured(store, lambda: store.value(scan))["cpu"] for _ in range(SCANS))
        samples = int(store.value("SELECT count() AS samples FROM samples"))
    return {"closes": closes, "scan": {"cpu": scanned, "samples": samples}}


def _measured(store: Store, work: Callable[[], Any]) -> dict[str, Any]:
    reset_peak()
    rest = peak_bytes()
    with _steps(store) as steps:
        began = time.process_time()
        work()
        cpu = time.process_time() - began
    return {"cpu": cpu, "grown": peak_bytes() - rest, "steps": dict(steps.most_common())}


@contextmanager
def _steps(store: Store) -> Iterator[Counter[str]]:
    """CPU seconds of the process by statement, those of its threads with it."""
    names = {
        path.read_text(encoding="utf-8")[:200]: f"{path.parent.name}/{path.name}"
        for path in (Path(__file__).parent.parent / "billing").rglob("*.sql")
    }
    steps: Counter[str] = Counter()
    kind = type(store)

    def timed(method: Any) -> Any:
        def run(self: Store, sql: str, *given: Any, **named: Any) -> Any:
            began = time.process_time()
            try:
                return method(self, sql, *given, **named)
            finally:
                steps[names.get(sql[:200], " ".join(sql.split())[:100])] += time.process_time() - began

        return run

    with patch.object(kind, "command", timed(kind.command)), patch.object(kind, "rows", timed(kind.rows)):
        yield steps
