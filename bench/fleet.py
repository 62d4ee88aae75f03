"""A large plain fleet for measuring: devices, jobs of some hours, one sample a minute, made by the engine itself."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from bench.apart import peak_bytes, stopwatch
from warehouse.store import Store, migrate, open_store, read_sql

MINUTES_A_DAY = 1440


@dataclass(frozen=True)
class BenchFleet:
    """`devices` GPUs for `days` days from 2026-10-01; each holds one job after the other, 7 h 13 min long.

    jitter_ms: how far a sample may be from its minute.   says_minute: its interval is a minute nevertheless; else the
    time since the one before.
    """

    devices: int = 1000
    days: int = 30
    start: datetime = datetime(2026, 10, 1, tzinfo=UTC)
    jitter_ms: int = 0
    says_minute: bool = False

    @property
    def samples(self) -> int:
        return self.devices * self.days * MINUTES_A_DAY

    @property
    def end(self) -> datetime:
        return self.start + timedelta(days=self.days)


def fill(store: Store, fleet: BenchFleet) -> None:
    """Writes the fleet's devices and events, and its samples a day at a time."""
    params = {"devices": fleet.devices, "start": fleet.start}
    store.command(read_sql(__file__, "fleet_devices"), params)
    store.command(read_sql(__file__, "fleet_events"), {**params, "days": fleet.days})
    clock = {"jitter_ms": fleet.jitter_ms, "says_minute": fleet.says_minute}
    for day in range(fleet.days):
        store.command(read_sql(__file__, "fleet_samples"), {**params, **clock, "day": day})
    store.command(read_sql(__file__, "fleet_acknowledged"))


def export_days(store: Store, fleet: BenchFleet, folder: Path) -> list[Path]:
    """The samples as Parquet, a file a day, in order of time."""
    paths = []
    for day in range(fleet.days):
        path = folder / f"samples-{day:03}.parquet"
        since = fleet.start + timedelta(days=day)
        export_samples(store, path, since, since + timedelta(days=1))
        paths.append(path)
    return paths


def export_samples(store: Store, path: Path, first_at: datetime, last_at: datetime, most: int = 1 << 62) -> None:
    """The samples that end in (first_at, last_at], `most` at most, as one Parquet file in order of time."""
    store.command(
        read_sql(__file__, "export_samples"),
        {"path": str(path), "first_at": first_at, "last_at": last_at, "most": most},
    )


def export_events(store: Store, path: Path) -> None:
    """All events as one Parquet file."""
    store.command(read_sql(__file__, "export_events"), {"path": str(path)})


def make_files(folder: str, devices: int, days: int, start: str) -> dict[str, Any]:
    """In a process of its own: devices.parquet, events.parquet and samples-DAY.parquet, without a store of samples."""
    fleet, at = BenchFleet(devices, days, datetime.fromisoformat(start)), Path(folder)
    params = {"devices": devices, "start": fleet.start}
    with stopwatch() as watch, open_store(f"chdb://{folder}/facts") as store:
        migrate(store)
        store.command(read_sql(__file__, "fleet_devices"), params)
        store.command(read_sql(__file__, "fleet_events"), {**params, "days": days})
        store.command(read_sql(__file__, "export_devices"), {"path": f"{folder}/devices.parquet"})
        export_events(store, at / "events.parquet")
        for day in range(days):
            path = f"{folder}/samples-{day:03}.parquet"
            store.command(read_sql(__file__, "fleet_day"), {**params, "day": day, "path": path})
    size = sum(path.stat().st_size for path in at.glob("samples-*.parquet"))
    return {"seconds": watch.seconds, "cpu_seconds": watch.cpu_seconds, "peak_bytes": peak_bytes(), "bytes": size}
