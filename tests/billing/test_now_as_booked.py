"""Now says of the use of an hour what its close books, whoever shares a device and whoever is measured."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest

from access.principal import Principal
from access.roles import Role
from access.scope import Stores
from billing.close import close
from billing.insights.now import asking, held
from tests.draws import dice_of
from tests.stores import fresh_store
from warehouse.store import Store

HOUR, MINUTE = timedelta(hours=1), timedelta(minutes=1)
START = datetime(2026, 10, 5, 12, tzinfo=UTC)
END = START + HOUR
SPEECH = Principal("s", frozenset({Role.tenant}), frozenset({"speech"}))


@dataclass
class Fleet:
    """devices: (name, units).   jobs: (allocation, workload, tenant, device, partition, units).
    streams: (device, partition, workload), with the utilization of each minute; None: not reported."""

    devices: list[tuple[str, int]] = field(default_factory=list)
    jobs: list[tuple[str, str, str, str, str, int]] = field(default_factory=list)
    streams: dict[tuple[str, str, str], list[float | None]] = field(default_factory=dict)

    def add(self, device: str, units: int, *jobs: tuple[str, str, str, int], **streams: float) -> None:
        """jobs: (allocation, workload, partition, units).   streams: the steady utilization of a workload, of a
        partition (p_NAME), of everybody (all)."""
        self.devices.append((device, units))
        self.jobs += [(job, workload, "speech", device, part, held) for job, workload, part, held in jobs]
        for name, used in streams.items():
            of = ("", "") if name == "all" else (name, "") if name.startswith("p_") else ("", name)
            self.streams[device, *of] = [used] * 60


def written(store: Store, fleet: Fleet) -> None:
    def insert(table: str, rows: list[dict[str, Any]]) -> None:
        store.insert(table, pa.Table.from_pylist([{"cluster": "c", "node": "n", **row} for row in rows]))

    since = START - HOUR
    insert("devices", [{"ts": since, "device_id": name, "model": "H100", "units": units,
                        "pool": "p", "state": "available"} for name, units in fleet.devices])  # fmt: skip
    insert("events", [
        {"ts": since, "source": "s", "allocation_id": job, "workload_id": workload, "event": "started",
         "tenant": tenant, "gpus": 1, "device_id": device, "partition_id": part, "units": units}
        for job, workload, tenant, device, part, units in fleet.jobs
    ])  # fmt: skip
    insert("samples", [
        {"ts": START + (minute + 1) * MINUTE, "interval_seconds": 60, "device_id": device, "partition_id": part,
         "workload_id": workload, "state": "ok", "utilization": used}
        for (device, part, workload), rates in fleet.streams.items()
        for minute, used in enumerate(rates) if used is not None
    ])  # fmt: skip


def shown(store: Store) -> dict[str, float | None]:
    return {row["allocation_id"]: row["used_60"] for row in held(store, asking(store), END, 1000)[0]}


def booked(store: Store) -> dict[str, float | None]:
    rows = store.rows(
        "SELECT allocation_id, sum(used_unit_ms / device_units) AS used, "
        "sum((used_unit_ms + idle_unit_ms) / device_units) AS metered "
        "FROM ledger WHERE allocation_id != '' AND hour = {hour:DateTime64(3, 'UTC')} GROUP BY allocation_id",
        {"hour": START},
    )
    return {row["allocation_id"]: float(row["used"] / row["metered"]) if row["metered"] else None for row in rows}


def both(path: Path, fleet: Fleet) -> tuple[dict[str, float | None], dict[str, float | None], dict[str, float | None]]:
    """What Now shows to whoever sees all, what the books have, what Now shows a tenant."""
    with fresh_store(path) as store:
        written(store, fleet)
        close(store, until=END, now=END)
        with Stores(store).scoped_to(SPEECH) as scoped:
            return shown(store), booked(store), shown(scoped)


def test_use_of_a_share_is_what_it_used_of_its_share(tmp_path: Path) -> None:
    """As found: three tenths of a GPU that kept it 0.15 busy were shown as 15 % used, not as half."""
    fleet = Fleet()
    fleet.add("whole", 1, ("whole", "w1", "", 1), all=0.4)
    fleet.add("alone", 10, ("alone", "w2", "", 3), all=0.15)
    fleet.add("slices", 10, ("a", "wa", "", 3), ("b", "wb", "", 7), wa=0.15, wb=0.35, all=0.5)
    fleet.add("over", 4, ("c", "wc", "", 1), ("d", "wd", "", 3), wc=0.9, wd=0.6)
    fleet.add("blind", 4, ("e", "we", "", 1), ("f", "wf", "", 3), all=0.5)
    fleet.add("twice", 10, ("g1", "wg", "", 2), ("g2", "wg", "", 3), ("h", "wh", "", 5), wg=0.2, wh=0.1)
    fleet.add("one", 10, ("i1", "wi", "", 2), ("i2", "wi", "", 3), all=0.2)
    fleet.add("mig", 7, ("j", "wj", "p_1", 2), ("k", "wk", "p_2", 4), p_1=0.5, p_2=0.25, all=0.4)
    fleet.add("mig-seen-whole", 7, ("l", "wl", "p_1", 2), all=0.1)
    fleet.add("two", 10, ("two", "w", "", 5), w=0.25)
    fleet.add("more", 1, ("two", "w", "", 1), w=0.8)
    every, books, mine = both(tmp_path / "store", fleet)
    assert books == {
        name: None if used is None else pytest.approx(used)
        for name, used in {
            "whole": 0.4, "alone": 0.5, "a": 0.5, "b": 0.5, "c": 1, "d": 0.8, "e": None, "f": None, "g1": 0.4,
            "g2": 0.4, "h": 0.2, "i1": 0.4, "i2": 0.4, "j": 0.5, "k": 0.25, "l": 0.35, "two": 0.7,
        }.items()
    }  # fmt: skip
    assert every == {name: None if used is None else pytest.approx(used) for name, used in books.items()}
    hidden = {"alone", "i1", "i2", "l"}
    assert mine == {name: None if name in hidden else used for name, used in every.items()}, (
        "who sees some tenants cannot tell whether a share is alone"
    )


def drawn(dice: Random) -> Fleet:
    fleet = Fleet()
    for number in range(40):
        units, device = dice.choice([1, 2, 4, 7, 10, 100]), f"d{number}"
        fleet.devices.append((device, units))
        left, parted, workloads = units, dice.random() < 0.4, [f"w{number}-{one}" for one in range(3)]
        for one in range(dice.randint(1, 3)):
            if not left:
                break
            held = dice.choice([left, dice.randint(1, left)])
            left -= held
            workload, part = dice.choice(workloads), f"p{one}" if parted else ""
            fleet.jobs.append((f"a{number}-{one}", workload, "speech", device, part, held))
            for stream in ((device, part, workload), (device, part, ""), (device, "", workload), (device, "", "")):
                if dice.random() < 0.4:
                    began, ended = sorted(dice.choice([0, 60, dice.randint(0, 60)]) for _ in range(2))
                    said = [began <= minute < ended and dice.random() < 0.95 for minute in range(60)]
                    fleet.streams[stream] = [dice.choice([0.0, 0.04, 0.3, 0.8, 1.0]) if yes else None for yes in said]
    return fleet


def test_what_now_shows_of_an_hour_is_what_its_close_books(tmp_path: Path) -> None:
    """As found: of a device that two collectors reported one after the other, only what the better one said counted."""
    fleet = drawn(dice_of(None))
    every, books, mine = both(tmp_path / "store", fleet)
    assert len([used for used in books.values() if used]) > 5
    assert every == {name: None if used is None else pytest.approx(used, abs=1e-6) for name, used in books.items()}
    held = {name: sum(units for *_, device, _, units in fleet.jobs if device == name) for name, _ in fleet.devices}
    shared = {name for name, units in fleet.devices if held[name] < units}
    hidden = {stream for stream in fleet.streams if stream[0] in shared and stream[1:] == ("", "")}
    fleet.streams = {stream: rates for stream, rates in fleet.streams.items() if stream not in hidden}
    every, _, _ = both(tmp_path / "less", fleet)
    assert mine == every, "who sees some tenants sees what is said of theirs, and of devices that they have whole"
