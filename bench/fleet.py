"""A large plain fleet for measuring: devices, jobs of some hours, one sample a minute, made by the engine itself."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

from warehouse.store import Store, read_sql


@dataclass(frozen=True)
class BenchFleet:
    """`devices` GPUs for `days` days from 2026-10-01; each holds one job after the other, 7 h 13 min long."""

    devices: int = 1000
    days: int = 30
    start: datetime = datetime(2026, 10, 1, tzinfo=UTC)

    @property
    def samples(self) -> int:
        return self.devices * self.days * 1440

    @property
    def end(self) -> datetime:
        return datetime.fromtimestamp(self.start.timestamp() + self.days * 86400, UTC)


def fill(store: Store, fleet: BenchFleet) -> None:
    """Writes the fleet's devices and events, and its samples a day at a time."""
    params = {"devices": fleet.devices, "start": fleet.start}
    store.command(read_sql(__file__, "fleet_devices"), params)
    store.command(read_sql(__file__, "fleet_events"), {**params, "days": fleet.days})
    for day in range(fleet.days):
        store.command(read_sql(__file__, "fleet_samples"), {**params, "day": day})
