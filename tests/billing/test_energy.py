"""Energy, carbon and memory: whose it was, what it cost and emitted, by figures computed by hand."""

from __future__ import annotations

import json
from collections import defaultdict
from contextlib import nullcontext
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
import typer
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from billing.audit import history
from billing.close import close
from billing.energy.components import component_lines
from billing.energy.report import EnergyReport, energy_report
from billing.energy.settings import (
    EnergySettingsError,
    apply_energy_settings,
    current_energy_settings,
    load_energy_settings,
    parse_energy_settings,
)
from billing.periods import Period, parse_period
from billing.rates import RateCard, apply_rate_card, parse_rate_card
from billing.verify import verify
from tests.billing.test_close import at, device, event, put
from tests.stores import emptied
from warehouse.chain import adopt
from warehouse.store import Store

NOW = at(48)
MINUTE = 1 / 60
GIB = 1 << 30
OCTOBER = parse_period("2026-10", "UTC")


TABLES = (
    "samples", "events", "devices", "touched_hours", "stream_hours", "ledger_entries", "energy_entries",
    "closed_hours", "close_runs",
    "rate_cards", "energy_settings", "audit", "chain_heads",
)  # fmt: skip


def empty(store: Store) -> None:
    for table in TABLES:
        store.command(f"TRUNCATE TABLE {table}")
    adopt(store)  # the chains begin anew


@pytest.fixture
def store(shared_store: Store) -> Store:
    """A store of this module, emptied."""
    return emptied(shared_store)


def reading(hour: float, name: str, workload: str = "", minutes: float = 60, **more: Any) -> dict[str, Any]:
    """A sample of `minutes` that ends at `hour`; a utilization that is not given is not known."""
    usable = more.get("utilization") is not None
    return {
        "ts": hour,
        "interval_seconds": minutes * 60.0,
        "device_id": name,
        "partition_id": "",
        "workload_id": workload,
        "state": "ok" if usable else "unsupported",
        "utilization": None,
        "power_watts": None,
        "energy_joules": None,
        "memory_used_bytes": None,
        **more,
    }


def hold(name: str, start: float, end: float, gpu: str, units: int | None = None, **more: Any) -> list[dict[str, Any]]:
    said = {"units": units, "project": "", "queue": "", "partition_id": "", **more}
    return [
        event(start, name, "started", device_id=gpu, **said),
        event(end, name, "finished", device_id="", **{**said, "units": None}),
    ]


def whose(store: Store) -> dict[tuple[int, str, str], float | None]:
    """Joules by hour of the day, device and allocation ('' = the platform)."""
    rows = store.rows("SELECT toHour(hour) AS at, device_id, allocation_id, energy_millijoules AS mj FROM energy")
    assert len({(row["at"], row["device_id"], row["allocation_id"]) for row in rows}) == len(rows)
    return {
        (row["at"], row["device_id"], row["allocation_id"]): None if row["mj"] is None else row["mj"] / 1000
        for row in rows
    }


def shared_device(store: Store, **power: Any) -> None:
    """Two hold five of ten units each for an hour; they use 35 % and 15 % of the device: 70 to 30."""
    put(store, "devices", [device("GPU-0", units=10)])
    put(store, "events", hold("a", 0, 1, "GPU-0", 5) + hold("b", 0, 1, "GPU-0", 5))
    samples = [
        reading(1, "GPU-0", "w-a", utilization=0.35),
        reading(1, "GPU-0", "w-b", utilization=0.15),
        reading(1, "GPU-0", utilization=0.5, **power),
    ]
    put(store, "samples", samples)


def settle(store: Store, **content: Any) -> str:
    return apply_energy_settings(store, parse_energy_settings(content), "jo", "because", NOW)


# --- whose energy it was ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("power", [{"power_watts": 300.0}, {"energy_joules": 1_080_000.0}])
def test_two_holders_of_a_device_share_its_energy_by_use_whether_counted_or_metered(
    store: Store, power: dict[str, float]
) -> None:
    shared_device(store, **power)
    close(store, until=at(1))
    # 300 W for an hour = 1,080,000 J; 70 % and 30 % of it.
    assert whose(store) == {(0, "GPU-0", "a"): 756_000, (0, "GPU-0", "b"): 324_000}


def test_with_idle_power_the_floor_goes_by_what_is_held_and_the_rest_by_what_is_used(store: Store) -> None:
    put(store, "devices", [device("GPU-0", units=10)])
    put(store, "events", hold("a", 0, 1, "GPU-0", 2) + hold("b", 0, 1, "GPU-0", 3))
    samples = [
        reading(1, "GPU-0", "w-a", utilization=0.1),
        reading(1, "GPU-0", "w-b", utilization=0.3),
        reading(1, "GPU-0", utilization=0.4, power_watts=300.0),
    ]
    put(store, "samples", samples)
    close(store, until=at(1))
    # Without idle power: 1:3, nothing for the five units that nobody holds.
    assert whose(store) == {(0, "GPU-0", "a"): 270_000, (0, "GPU-0", "b"): 810_000, (0, "GPU-0", ""): 0}
    settle(store, idle_power=[{"model": "H*", "watts": "99"}, {"model": "L*", "watts": "100"}])
    assert close(store, until=at(1)).changed == 1
    # 360,000 J idle by 2:3:5 units held, 720,000 J by 1:3 used.
    assert whose(store) == {(0, "GPU-0", "a"): 252_000, (0, "GPU-0", "b"): 648_000, (0, "GPU-0", ""): 180_000}
    settle(store, idle_power=[{"watts": "100"}], intensity=[{"grams_per_kwh": "1", "source": "s"}])
    report = close(store, until=at(1))
    assert report.changed == 0  # the same figure by another rule


def test_the_energy_of_an_allocated_device_that_does_nothing_goes_by_what_is_held(store: Store) -> None:
    put(store, "devices", [device("GPU-0", units=4)])
    put(store, "events", hold("a", 0, 1, "GPU-0", 1) + hold("b", 0, 1, "GPU-0", 2))
    workloads = [reading(1, "GPU-0", name, state="idle", utilization=0.0) for name in ("w-a", "w-b")]
    put(store, "samples", [*workloads, reading(1, "GPU-0", state="idle", utilization=0.0, power_watts=60.0)])
    close(store, until=at(1))
    # 216,000 J: a quarter, a half, and a quarter that nobody holds.
    assert whose(store) == {(0, "GPU-0", "a"): 54_000, (0, "GPU-0", "b"): 108_000, (0, "GPU-0", ""): 54_000}


def test_use_that_is_not_known_is_not_counted_as_none(store: Store) -> None:
    put(store, "devices", [device("GPU-0", units=4)])
    put(store, "events", hold("a", 0, 1, "GPU-0", 1) + hold("b", 0, 1, "GPU-0", 3))
    put(store, "samples", [reading(1, "GPU-0", "w-a", utilization=0.2), reading(1, "GPU-0", power_watts=100.0)])
    close(store, until=at(1))
    # Nobody knows what b did: 360,000 J by 1:3 held, not all to a.
    assert whose(store) == {(0, "GPU-0", "a"): 90_000, (0, "GPU-0", "b"): 270_000}


def test_energy_of_unallocated_and_unavailable_time_is_the_platforms(store: Store) -> None:
    put(store, "devices", [device("GPU-0"), device("GPU-0", hour=1.5, state="unavailable")])
    put(store, "events", hold("a", 0.25, 1.75, "GPU-0"))
    samples = [
        reading((n + 1) / 4, "GPU-0", minutes=15, utilization=0.5, power_watts=100.0 * (n + 1)) for n in range(8)
    ]
    put(store, "samples", samples)
    close(store, until=at(2))
    # Quarters of an hour at 100, 200, ... 800 W, 900 s each; a holds the 2nd to 6th, then the device is down.
    assert whose(store) == {
        (0, "GPU-0", ""): 90_000,
        (0, "GPU-0", "a"): 900 * (200 + 300 + 400),
        (1, "GPU-0", "a"): 900 * (500 + 600),
        (1, "GPU-0", ""): 900 * (700 + 800),
    }
    assert verify(store).balanced


def test_a_sample_covers_what_lies_since_the_one_before_and_is_cut_at_the_hour(store: Store) -> None:
    put(store, "devices", [device("GPU-0")])
    samples = [
        reading(0.5, "GPU-0", minutes=30, utilization=0.5, power_watts=100.0),
        # Says 60 minutes, of which the first 15 are said already: 75 % of its 180,000 J, a third of that in hour 0.
        reading(1.25, "GPU-0", utilization=0.5, energy_joules=180_000.0),
    ]
    put(store, "samples", samples)
    close(store, until=at(2))
    # 50 W from 00:30 to 01:15; the interval begins at 00:15, but 00:30 is known already.
    assert whose(store) == {(0, "GPU-0", ""): 180_000 + 90_000, (1, "GPU-0", ""): 45_000}
    measured = store.rows("SELECT toHour(hour) AS at, measured_unit_ms AS ms FROM energy ORDER BY at")
    assert measured == [{"at": 0, "ms": 3_600_000}, {"at": 1, "ms": 900_000}]


def test_a_gap_is_unmeasured_and_not_zero(store: Store) -> None:
    put(store, "devices", [device("GPU-0"), device("GPU-1")])
    put(store, "events", hold("a", 0, 2, "GPU-0") + hold("b", 0, 2, "GPU-1"))
    samples = [
        reading(0.5, "GPU-0", minutes=30, utilization=0.5, power_watts=100.0),
        reading(1.0, "GPU-0", minutes=30, state="blank", power_watts=100.0),
        reading(1.5, "GPU-0", minutes=30, state="stale", power_watts=100.0),
        reading(2.0, "GPU-0", minutes=30, utilization=0.5, power_watts=float("nan")),
        reading(2.0, "GPU-1", minutes=120, power_watts=0.0),
    ]
    put(store, "samples", samples)
    close(store, until=at(2))
    assert whose(store) == {(0, "GPU-0", "a"): 180_000}
    report = energy_report(store, None, ["device"])
    assert [(row["device"], row["kwh"], row["coverage"]) for row in report.rows] == [
        ("GPU-0", Decimal("0.05"), Decimal("0.25")),
        ("GPU-1", None, 0),
    ]
    assert report.unmeasured_gpu_hours == Decimal("3.5")
    assert "3.50 device-hours are unmeasured" in report.notes[0]


def test_the_workloads_own_row_tells_the_devices_power_where_it_is_alone(store: Store) -> None:
    put(store, "devices", [device("GPU-0"), device("GPU-1", units=2)])
    put(store, "events", hold("a", 0.25, 1, "GPU-0") + hold("b", 0, 1, "GPU-1", 1) + hold("c", 0, 1, "GPU-1", 1))
    samples = [
        reading(0.25, "GPU-0", minutes=15, utilization=0.0, power_watts=40.0),
        reading(1.0, "GPU-0", "w-a", minutes=45, utilization=0.5, power_watts=400.0),
        # A row for each of two that share a device may tell the whole device's power twice: no use for it.
        reading(1.0, "GPU-1", "w-b", utilization=0.5, power_watts=400.0),
        reading(1.0, "GPU-1", "w-c", utilization=0.5, power_watts=400.0),
    ]
    put(store, "samples", samples)
    close(store, until=at(1))
    assert whose(store) == {(0, "GPU-0", ""): 900 * 40, (0, "GPU-0", "a"): 2700 * 400}
    put(store, "samples", [reading(1.0, "GPU-0", minutes=45, utilization=0.5, power_watts=400.0)], batch=2)
    close(store, until=at(1))
    assert whose(store) == {(0, "GPU-0", ""): 900 * 40, (0, "GPU-0", "a"): 2700 * 400}  # told twice, counted once


def test_millijoules_that_do_not_divide_are_dealt_out_and_none_is_lost(store: Store) -> None:
    put(store, "devices", [device("GPU-0", units=3)])
    put(store, "events", [row for name in "abc" for row in hold(name, 0, 1, "GPU-0", 1)])
    put(store, "samples", [reading(1, "GPU-0", energy_joules=0.004)])
    close(store, until=at(1))
    assert sorted(joules or 0 for joules in whose(store).values()) == [0.001, 0.001, 0.002]


# --- re-sent, late, again --------------------------------------------------------------------------------------------


def test_samples_that_come_again_change_nothing(store: Store) -> None:
    shared_device(store, power_watts=300.0)
    close(store, until=at(1))
    before = store.rows("SELECT * FROM energy ORDER BY allocation_id")
    again = [
        reading(1, "GPU-0", "w-a", utilization=0.35),
        reading(1, "GPU-0", "w-b", utilization=0.15),
        reading(1, "GPU-0", utilization=0.5, power_watts=300.0),
    ]
    put(store, "samples", again, batch=2)
    report = close(store, until=at(1))
    assert (report.checked, report.changed) == (1, 0)
    assert store.rows("SELECT * FROM energy ORDER BY allocation_id") == before


def test_power_that_comes_late_is_published_though_the_ledger_stays_as_it_was(store: Store) -> None:
    shared_device(store)
    close(store, until=at(1))
    ledger = store.rows("SELECT * EXCEPT run FROM ledger ORDER BY allocation_id")
    assert whose(store) == {}
    late = [reading((n + 1) / 2, "GPU-0", minutes=30, state="unsupported", power_watts=300.0) for n in range(2)]
    put(store, "samples", late, batch=2)
    assert close(store, until=at(1)).changed == 1
    assert store.rows("SELECT * EXCEPT run FROM ledger ORDER BY allocation_id") == ledger
    assert sum(joules or 0 for joules in whose(store).values()) == 1_080_000
    assert close(store, until=at(1)).checked == 0


@dataclass
class Told:
    """A sample of one device: minutes from the start, length in minutes, watts or None."""

    end: int
    length: int
    watts: int | None


fleets = st.lists(
    st.tuples(
        st.integers(1, 4),
        st.lists(st.tuples(st.integers(0, 170), st.integers(1, 90), st.integers(1, 4)), max_size=4),
        st.lists(
            st.builds(Told, st.integers(1, 180), st.integers(1, 60), st.none() | st.integers(0, 700)),
            max_size=8,
            unique_by=lambda told: told.end,
        ),
    ),
    min_size=1,
    max_size=3,
)


@settings(max_examples=6, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(fleet=fleets, idle=st.none() | st.integers(1, 200))
def test_the_parts_of_a_device_and_hour_sum_to_what_its_samples_say(store: Store, fleet: Any, idle: int | None) -> None:
    emptied(store)
    rows: list[dict[str, Any]] = []
    events: list[dict[str, Any]] = []
    for number, (units, holds, samples) in enumerate(fleet):
        for place, (start, minutes, share) in enumerate(holds):
            end = min(180, start + minutes) / 60
            events += hold(f"{number}-{place}", start / 60, end, f"GPU-{number}", min(share, units))
            share_used = place / 8
            rows += [reading(hour, f"GPU-{number}", f"w-{number}-{place}", utilization=share_used) for hour in (1, 2)]
        rows += [
            reading(told.end / 60, f"GPU-{number}", minutes=told.length, utilization=0.5, power_watts=told.watts)
            for told in samples
        ]
    put(store, "devices", [device(f"GPU-{number}", units=units) for number, (units, _, _) in enumerate(fleet)])
    if events:
        put(store, "events", events)
    if rows:
        for row in rows:
            row["power_watts"] = None if row["power_watts"] is None else float(row["power_watts"])
        put(store, "samples", rows)
    if idle:
        settle(store, idle_power=[{"watts": str(idle)}])
    close(store, until=at(3))
    expected: dict[tuple[int, str], int] = {}
    for number, (_, _, samples) in enumerate(fleet):
        for hour in range(3):
            energy, measured = _by_the_minute(samples, hour)
            if measured:
                expected[hour, f"GPU-{number}"] = energy * 60_000
    found: dict[tuple[int, str], int] = defaultdict(int)
    for row in store.rows("SELECT toHour(hour) AS at, device_id, energy_millijoules AS mj FROM energy"):
        if row["mj"] is not None:
            assert row["mj"] >= 0
            found[row["at"], row["device_id"]] += row["mj"]
    assert dict(found) == expected


def _by_the_minute(samples: list[Told], hour: int) -> tuple[int, int]:
    """(watt-minutes, minutes) that the samples tell of the hour, minute by minute."""
    energy = measured = 0
    for minute in range(hour * 60, hour * 60 + 60):
        told = min((s for s in samples if s.end > minute), key=lambda s: s.end, default=None)
        if told and told.watts is not None and told.end - told.length <= minute:
            energy, measured = energy + told.watts, measured + 1
    return energy, measured


# --- memory ----------------------------------------------------------------------------------------------------------


def test_memory_is_what_the_best_stream_says_of_the_holder(store: Store) -> None:
    put(store, "devices", [device("GPU-0", units=2), device("GPU-1")])
    put(store, "events", hold("a", 0, 1, "GPU-0", 1) + hold("b", 0, 1, "GPU-0", 1) + hold("c", 0.5, 1, "GPU-1"))
    samples = [
        reading(1, "GPU-0", "w-a", utilization=0.1, memory_used_bytes=10 * GIB),
        reading(1, "GPU-0", utilization=0.1, memory_used_bytes=15 * GIB),  # whose it is nobody knows: not b's
        reading(1, "GPU-1", utilization=0.1, memory_used_bytes=40 * GIB),
    ]
    put(store, "samples", samples)
    close(store, until=at(1))
    rows = store.rows(
        "SELECT allocation_id AS who, memory_byte_ms AS held, energy_millijoules AS mj FROM energy ORDER BY 1"
    )
    assert rows == [
        {"who": "a", "held": 10 * GIB * 3_600_000, "mj": None},
        {"who": "c", "held": 40 * GIB * 1_800_000, "mj": None},
    ]


# --- money -----------------------------------------------------------------------------------------------------------


def card(*components: dict[str, Any], **keys: Any) -> RateCard:
    return parse_rate_card(
        {"currency": "EUR", "rates": [{"sku": "l4", "price_per_gpu_hour": "1"}], "components": components, **keys}
    )


def test_components_price_what_was_measured_and_say_what_was_not(store: Store) -> None:
    put(store, "devices", [device("GPU-0"), device("GPU-1")])
    events = hold("a", 0, 2, "GPU-0", project="p1") + hold("b", 0, 2, "GPU-1", project="p2")
    put(store, "events", events + hold("c", 2, 3, "GPU-1", tenant="other"))
    samples = [
        reading(1, "GPU-0", utilization=0.5, power_watts=500.0, memory_used_bytes=20 * GIB),
        reading(1.5, "GPU-0", minutes=30, utilization=0.5, power_watts=600.0),
    ]
    put(store, "samples", samples)
    priced = card(
        {"sku": "power", "kind": "energy", "price": "0.30", "pue": "1.25"},
        {"sku": "hbm", "kind": "memory", "price": "0.01", "match": {"project": "p1"}},
        {"sku": "later", "kind": "energy", "price": "9", "effective_from": "2026-11"},
    )
    apply_rate_card(store, priced, "", "", NOW)
    close(store, until=at(3))
    lines = component_lines(store, priced, OCTOBER, "2026-10", "t")
    assert [(line.sku, line.tenant, line.project, line.quantity, line.unit, line.cost) for line in lines] == [
        # 0.5 + 0.3 = 0.8 kWh x 1.25 = 1 kWh
        ("power", "t", "p1", Fraction(1), "kWh", Fraction(3, 10)),
        ("power", "t", "p2", None, "kWh", Fraction(0)),
        ("hbm", "t", "p1", Fraction(20), "GiB-hours", Fraction(1, 5)),
    ]
    assert [line.description for line in lines] == [
        "0.800 kWh x PUE 1.25, measured in 1.50 of 2.00 allocated GPU-hours (75.0 %); "
        "0.50 GPU-hours unmeasured and not charged",
        "measured in 0.00 of 2.00 allocated GPU-hours (0.0 %); 2.00 GPU-hours unmeasured and not charged",
        "20.000 GiB-hours, measured in 1.00 of 2.00 allocated GPU-hours (50.0 %); "
        "1.00 GPU-hours unmeasured and not charged",
    ]
    for line in lines:
        assert line.contracted_unit_price is not None
        assert line.quantity is None or line.quantity * Fraction(line.contracted_unit_price) == line.cost
    assert {line.tenant for line in component_lines(store, priced, OCTOBER, "2026-10")} == {"t", "other"}


def test_a_component_is_for_those_whose_sku_and_preemptibility_fit(store: Store) -> None:
    put(store, "devices", [device("GPU-0"), device("GPU-1")])
    put(store, "events", hold("a", 0, 1, "GPU-0", preemptible=True) + hold("b", 0, 1, "GPU-1", preemptible=False))
    put(store, "samples", [reading(1, name, utilization=0.5, power_watts=1000.0) for name in ("GPU-0", "GPU-1")])
    priced = card(
        {"sku": "spot", "kind": "energy", "price": "1", "match": {"preemptible": True, "sku": "l4"}},
        {"sku": "none", "kind": "energy", "price": "1", "match": {"sku": "h100"}},
        rates=[
            {"sku": "l4", "price_per_gpu_hour": "1"},
            {"sku": "h100", "match": {"model": "H100"}, "price_per_gpu_hour": "1"},
        ],
    )
    apply_rate_card(store, priced, "", "", NOW)
    close(store, until=at(1))
    assert [(line.rule, line.quantity) for line in component_lines(store, priced, OCTOBER, "2026-10")] == [
        ("spot", Fraction(1))
    ]


# --- carbon ----------------------------------------------------------------------------------------------------------


def day_of_one_kilowatt(store: Store) -> None:
    put(store, "devices", [device("GPU-0", cluster="fra-1", pool="train"), device("GPU-1", cluster="osl-1", pool="x")])
    put(store, "events", hold("a", 0, 18, "GPU-0", cluster="fra-1") + hold("b", 0, 24, "GPU-1", cluster="osl-1"))
    samples = [
        reading(hour + 1, name, utilization=0.5, power_watts=1000.0, cluster=cluster)
        for hour in range(24)
        for name, cluster in (("GPU-0", "fra-1"), ("GPU-1", "osl-1"))
    ]
    put(store, "samples", samples)
    close(store, until=at(24))


def test_an_intensity_that_changes_at_noon_counts_from_noon(store: Store) -> None:
    day_of_one_kilowatt(store)
    fra = {"cluster": "fra*", "pool": "train", "source": "grid"}
    settle(
        store,
        timezone="Europe/Berlin",  # 14:00 there is 12:00Z in October
        intensity=[
            {**fra, "grams_per_kwh": "400", "pue": "1.5", "effective_to": "2026-10-01T14:00"},
            {**fra, "grams_per_kwh": "100.5", "pue": "1.2", "effective_from": "2026-10-01T14:00"},
        ],
    )
    report = energy_report(store, None, ["workload", "device", "day"])
    shown = {(row["workload"], row["held_by"]): row for row in report.rows}
    a, b, free = shown["w-a", "tenant"], shown["w-b", "tenant"], shown[None, "platform"]
    assert (a["kwh"], a["kwh_with_pue"]) == (18, Decimal("25.2"))  # 12 x 1.5 + 6 x 1.2
    assert a["kgco2e"] == Decimal("7.9236")  # 12 x 1.5 x 0.4 + 6 x 1.2 x 0.1005
    assert (free["kwh"], free["kgco2e"]) == (6, Decimal("0.7236"))
    assert (b["kwh"], b["kwh_with_pue"], b["kgco2e"], b["kwh_without_intensity"]) == (24, 24, None, 24)
    assert (report.total["kwh"], report.total["kgco2e"]) == (48, Decimal("8.6472"))
    assert report.platform["kwh"] == 6
    assert report.platform == {name: free[name] for name in report.platform}  # it has one row
    assert report.notes == (
        "24.000 kWh have no carbon intensity and are in no kgCO2e.",
        "24.000 kWh have no PUE and are counted with 1.",
    )
    assert [row["day"] for row in report.rows] == ["2026-10-01"] * 3


def test_intensity_by_the_hour_and_the_pue_of_the_card_where_no_place_has_one(store: Store) -> None:
    day_of_one_kilowatt(store)
    apply_rate_card(store, card({"sku": "power", "kind": "energy", "price": "1", "pue": "1.1"}), "", "", NOW)
    hourly = {"hourly": ["100", "200", "300"], "effective_from": "2026-10-01T00:00Z", "source": "meter"}
    settle(store, intensity=[{**hourly, "cluster": "fra*"}, {"grams_per_kwh": "50", "source": "yearly mean"}])
    report = energy_report(store, parse_period("2026-10-01T00:00Z..2026-10-01T04:00Z", "UTC"), ["cluster"])
    assert [(row["cluster"], row["kwh_with_pue"], row["kgco2e"]) for row in report.rows] == [
        ("fra-1", Decimal("4.4"), Decimal("0.715")),  # 1.1 x (0.1 + 0.2 + 0.3 + 0.05)
        ("osl-1", Decimal("4.4"), Decimal("0.22")),
    ]
    assert report.notes == ()


def test_rows_sum_to_the_total_to_the_last_digit_by_any_dimension(store: Store) -> None:
    put(store, "devices", [device(f"GPU-{n}", units=3) for n in range(3)])
    names = [f"{n}{share}" for n in range(3) for share in "ab"]
    put(store, "events", [row for name in names for row in hold(name, 0.1, 0.9, f"GPU-{name[0]}", 1, tenant=name)])
    put(store, "samples", [reading(1, f"GPU-{n}", energy_joules=1.0 + n) for n in range(3)])
    settle(store, intensity=[{"grams_per_kwh": "333.333333333", "pue": "1.111111111", "source": "s"}])
    close(store, until=at(1))
    for by in ("tenant", "device", "workload", "day", "hour", "pool"):
        report = energy_report(store, None, [by])
        for name in ("kwh", "kwh_with_pue", "kgco2e"):
            assert sum(row[name] for row in report.rows) == report.total[name]
        assert report.total["kwh"] == Decimal("0.000001667")  # 6 J


def test_nothing_closed_is_an_empty_report(store: Store) -> None:
    report: EnergyReport = energy_report(store, None, ["tenant"])
    assert (report.period, report.rows, report.total["kwh"], report.notes) == (None, (), None, ())
    assert energy_report(store, Period(at(0), at(1)), []).rows == ()


# --- what people state -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (
            "intensity: [{grams_per_kwh: 380, source: x}]",
            r"intensity\[0\]\.grams_per_kwh: found 380; write it in quotes",
        ),
        ('intensity: [{grams_per_kwh: "380"}]', r"intensity\[0\]\.source: missing"),
        ("intensity: [{source: x}]", "grams_per_kwh, hourly or pue is missing"),
        ('intensity: [{pue: "0.9", source: x}]', r"pue: found '0\.9'; Input should be greater than or equal to 1"),
        (
            'intensity: [{grams_per_kwh: "1", source: x, effective_from: "2026-10-01T00:30Z"}]',
            r"intensity\[0\]: effective_from 2026-10-01T00:30:00Z is not a whole hour UTC",
        ),
        (
            'intensity: [{grams_per_kwh: "1", source: x, effective_from: 2026-10-02, effective_to: 2026-10-01}]',
            "is not after effective_from",
        ),
        ('intensity: [{hourly: ["1"], source: x}]', "hourly stands with effective_from"),
        ('idle_power: [{watts: "70", modle: H}]', "modle"),
        ("timezone: Mars", "found 'Mars'; an IANA time zone"),
        ("- 1", "not energy settings"),
        ("intensity: [", "not YAML: "),
    ],
)
def test_settings_that_do_not_fit_are_one_line_with_the_key_and_what_fits(tmp_path: Path, text: str, says: str) -> None:
    (tmp_path / "grid.yaml").write_text(text)
    with pytest.raises(EnergySettingsError, match=says) as caught:
        load_energy_settings(tmp_path / "grid.yaml")
    assert "\n" not in str(caught.value)


def test_settings_are_kept_with_author_and_version_and_applying_them_again_changes_nothing(store: Store) -> None:
    assert current_energy_settings(store) is None
    rule = {"grams_per_kwh": "380", "source": "s", "effective_from": "2026-10-01"}
    first = settle(store, intensity=[rule], timezone="Europe/Berlin")
    assert settle(store, intensity=[rule], timezone="Europe/Berlin") == first
    current = current_energy_settings(store)
    assert current is not None
    assert (current.version, current.author, current.reason, current.sequence) == (first, "jo", "because", 1)
    assert current.settings.intensity[0].effective_from == datetime(2026, 9, 30, 22, tzinfo=UTC)
    assert current.settings.version == first
    second = settle(store, intensity=[{**rule, "grams_per_kwh": "381"}])
    assert [(row["action"], row["object"], json.loads(row["inputs"])) for row in history(store, "energy")] == sorted(
        [("energy.apply", first, {}), ("energy.apply", second, {"before": first})], key=lambda row: row[1]
    )


def test_hours_beyond_an_hourly_series_have_no_figure_of_it() -> None:
    stated = parse_energy_settings(
        {"intensity": [{"hourly": ["1", "2"], "effective_from": "2026-10-01", "source": "s", "pue": "1.5"}]}
    )
    start = datetime(2026, 10, 1, tzinfo=UTC)
    figures = [stated.grid("c", "p", start + timedelta(hours=hour)) for hour in (-1, 0, 1, 2)]
    assert figures == [(None, None), (1, Decimal("1.5")), (2, Decimal("1.5")), (None, None)]


# --- the command line ------------------------------------------------------------------------------------------------


def test_the_command_prints_the_report_and_takes_settings(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import gpuledger.commands.energy as command

    monkeypatch.setattr(command, "open_store", lambda _: nullcontext(store))  # this process holds one store
    app = typer.Typer()
    command.register(app)
    app.command("other")(lambda: None)

    def run(*arguments: str) -> str:
        result = CliRunner().invoke(app, ["energy", *arguments])
        assert result.exit_code == 0, result.output
        return result.output

    assert "nothing is closed yet" in run()
    shared_device(store, power_watts=300.0)
    close(store, until=at(1))
    grid = tmp_path / "grid.yaml"
    grid.write_text('intensity: [{region: DE, grams_per_kwh: "400", pue: "1.5", source: mean}]')
    assert "are in force: 1 intensity, 0 idle power. Next: gpuledger energy" in run("intensity", "apply", str(grid))
    assert "are in force already" in run("intensity", "apply", str(grid))
    assert run("intensity", "list", "--format", "csv").splitlines()[1].startswith("intensity,DE,*,*,,400,,1.5,,,,mean,")
    document = json.loads(run("--period", "2026-10", "--by", "workload", "--format", "json"))
    assert [(row["workload"], row["kwh"], row["kwh_with_pue"], row["kgco2e"]) for row in document["rows"]] == [
        ("w-a", "0.210000000", "0.315000000", "0.126000000"),
        ("w-b", "0.090000000", "0.135000000", "0.054000000"),
    ]
    assert document["total"]["kgco2e"] == "0.180000000"
    columns = "tenant,held_by,kwh,kwh_with_pue,kgco2e,kwh_without_intensity,gpu_hours,measured_gpu_hours,coverage"
    assert run("--format", "csv").splitlines()[0] == columns
    assert "0.300" in run()
