"""Energy, carbon and memory: whose it was, what it cost and emitted, by figures computed by hand."""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from random import Random
from typing import Any

import pytest
from typer.testing import CliRunner

from billing.audit import history
from billing.close import CloseReport, close
from billing.energy.components import component_lines
from billing.energy.report import EnergyReport, energy_report
from billing.energy.settings import (
    apply_energy_settings,
    current_energy_settings,
    parse_energy_settings,
)
from billing.lines import Line
from billing.periods import Period, parse_period
from billing.rates import RateCard, apply_rate_card, parse_rate_card
from billing.verify import verify
from gpuledger.cli import build
from tests.billing.test_close import START, at, device, event, put
from tests.draws import drawn_seed, seldom
from tests.stores import fresh_store
from warehouse.store import Store

pytestmark = seldom(6, "all of energy")

NOW = at(49)
GIB = 1 << 30
OCTOBER = parse_period("2026-10", "UTC")
UNTIL = 60
"""The hour until which the cases' books are closed."""

Rows = list[dict[str, Any]]


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


def hold(name: str, start: float, end: float, gpu: str, units: int | None = None, **more: Any) -> Rows:
    said = {"units": units, "project": "", "queue": "", "partition_id": "", "preemptible": None, **more}
    return [
        event(start, name, "started", device_id=gpu, **said),
        event(end, name, "finished", device_id="", **{**said, "units": None}),
    ]


def settle(store: Store, **content: Any) -> str:
    return apply_energy_settings(store, parse_energy_settings(content), "jo", "because", NOW)


LIST = {"sku": "l4", "price_per_gpu_hour": "1"}


def card(*components: dict[str, Any], **keys: Any) -> RateCard:
    return parse_rate_card({"currency": "EUR", "rates": [LIST], "components": components, **keys})


# --- the cases: each has devices, jobs and mostly hours of its own, and all are closed at once ------------------------

CASES: dict[str, Rows] = {"devices": [], "events": [], "samples": []}
"""What is told before the first close."""
LATER: dict[str, Rows] = {"samples": []}
"""What is told between the first and the second."""


def case(gpus: dict[str, dict[str, Any]], events: Rows, samples: Rows, hours: tuple[float, float] = (0, 3)) -> None:
    """Tells of devices that are there during these hours, of the jobs on them, and of samples."""
    for name, more in gpus.items():
        CASES["devices"] += [
            {"cluster": "", "pool": "", **device(name, hour=hours[0], **more)},
            {"cluster": "", "pool": "", **device(name, hour=hours[1], **{**more, "state": "removed"})},
        ]
    CASES["events"] += [{"cluster": "", **one} for one in events]
    CASES["samples"] += [{"cluster": "", **one} for one in samples]


@dataclass(frozen=True)
class Books:
    """What the books say after a close: `energy` and `ledger` as they are published, an hour's runs (whose entries are
    in force, which looked at it last)."""

    report: CloseReport
    energy: Rows
    ledger: Rows
    hours: dict[int, tuple[int, int]]

    def whose(self, device: str) -> dict[tuple[int, str], float | None]:
        """Joules of the device by hour and allocation ('' = the platform)."""
        rows = [row for row in self.energy if row["device_id"] == device]
        found = {(row["at"], row["allocation_id"]): None if row["mj"] is None else row["mj"] / 1000 for row in rows}
        assert len(found) == len(rows)
        return found

    def of(self, hour: int) -> tuple[Rows, Rows]:
        """Energy and ledger of the hour."""
        return [row for row in self.energy if row["at"] == hour], [row for row in self.ledger if row["at"] == hour]

    def checked(self) -> dict[int, bool]:
        """The hours that this close looked at, and whether it changed them."""
        run = self.report.run
        return {hour: entries == run for hour, (entries, by) in self.hours.items() if by == run}


def closed(store: Store) -> Books:
    report = close(store, until=at(UNTIL))
    hour = f"intDiv(toUnixTimestamp(hour), 3600) - {START // 3_600_000} AS at"
    hours = store.rows(
        f"SELECT {hour}, argMax(run, checked_by) AS run, max(checked_by) AS by FROM closed_hours GROUP BY hour"
    )
    return Books(
        report,
        store.rows(
            f"SELECT {hour}, * EXCEPT (hour, energy_millijoules), energy_millijoules AS mj FROM energy ORDER BY ALL"
        ),
        store.rows(f"SELECT {hour}, * EXCEPT (hour, run) FROM ledger ORDER BY ALL"),
        {row["at"]: (row["run"], row["by"]) for row in hours},
    )


@dataclass(frozen=True)
class Closes:
    """The books close after close, what was reported of them, and where they are.

    first: all cases.   later: what came late or again, with other idle powers.   again: nothing came.
    """

    store: str
    first: Books
    later: Books
    again: Books
    balanced: bool
    nothing: EnergyReport
    gap: EnergyReport
    lines: list[Line]
    lines_of_one: list[Line]
    lines_by_sku: list[Line]
    at_noon: EnergyReport
    hourly: EnergyReport
    exact: list[EnergyReport]


def between(first: int, last: int) -> Period:
    return Period(at(first), at(last))


@pytest.fixture(scope="module")
def books(tmp_path_factory: pytest.TempPathFactory) -> Closes:
    folder = tmp_path_factory.mktemp("energy")
    with fresh_store(folder) as store:
        nothing = energy_report(store, None, ["tenant"])
        assert energy_report(store, Period(at(0), at(1)), []).rows == ()
        for table, rows in CASES.items():
            put(store, table, rows)
        apply_rate_card(store, card(), "", "", NOW)
        dated = {
            "model": "D4",
            "watts": "70",
            "effective_from": "2026-10-03T03:00Z",
            "effective_to": "2026-10-03T04:00Z",
        }
        settle(store, idle_power=[{"model": "H*", "watts": "99"}, {"model": "S*", "watts": "70"}, dated])
        first = closed(store)
        for table, rows in LATER.items():
            put(store, table, rows, batch=2)
        idle = [{"model": "H*", "watts": "99"}, {"model": "S4", "watts": "70"}, {"model": "T*", "watts": "100"}, dated]
        settle(store, idle_power=idle, **AT_NOON)
        later, again = closed(store), closed(store)
        balanced = verify(store).balanced
        gap = energy_report(store, between(*GAP), ["device"])
        lines = component_lines(store, PRICED, OCTOBER, "2026-10")
        of_one = component_lines(store, PRICED, OCTOBER, "2026-10", "component")
        by_sku = component_lines(store, PRICED_BY_SKU, OCTOBER, "2026-10", "by-sku")
        at_noon = energy_report(store, between(*DAY), ["workload", "device", "day"])
        apply_rate_card(store, card({"sku": "power", "kind": "energy", "price": "1", "pue": "1.1"}), "", "", NOW)
        settle(store, **HOURLY)
        hourly = energy_report(store, between(DAY[0], DAY[0] + 4), ["cluster"])
        settle(store, intensity=[{"grams_per_kwh": "333.333333333", "pue": "1.111111111", "source": "s"}])
        exact = [energy_report(store, between(*EXACT), [by]) for by in ("tenant", "hour", "pool")]
    return Closes(
        f"chdb://{folder}", first, later, again, balanced, nothing, gap, lines, of_one, by_sku, at_noon,
        hourly, exact,
    )  # fmt: skip


def test_the_books_of_all_cases_balance(books: Closes) -> None:
    assert books.balanced


# --- whose energy it was ---------------------------------------------------------------------------------------------


def shared(name: str, hour: int = 1, **power: Any) -> Rows:
    """Two hold five of ten units each for an hour; they use 35 % and 15 % of the device: 70 to 30."""
    holds = hold(f"{name}-a", hour - 1, hour, name, 5) + hold(f"{name}-b", hour - 1, hour, name, 5)
    samples = [
        reading(hour, name, f"w-{name}-a", utilization=0.35),
        reading(hour, name, f"w-{name}-b", utilization=0.15),
        reading(hour, name, utilization=0.5, **power),
    ]
    case({name: {"units": 10}}, holds, samples, (hour - 1, hour))
    return samples


shared("metered", power_watts=300.0)
shared("counted", energy_joules=1_080_000.0)


@pytest.mark.parametrize("name", ["metered", "counted"])
def test_two_holders_of_a_device_share_its_energy_by_use_whether_counted_or_metered(books: Closes, name: str) -> None:
    # 300 W for an hour = 1,080,000 J; 70 % and 30 % of it.
    assert books.first.whose(name) == {(0, f"{name}-a"): 756_000, (0, f"{name}-b"): 324_000}


case(
    {"idling": {"units": 10, "model": "T4"}},
    hold("idling-a", 0, 1, "idling", 2) + hold("idling-b", 0, 1, "idling", 3),
    [
        reading(1, "idling", "w-idling-a", utilization=0.1),
        reading(1, "idling", "w-idling-b", utilization=0.3),
        reading(1, "idling", utilization=0.4, power_watts=300.0),
    ],
)


def test_with_idle_power_the_floor_goes_by_what_is_held_and_the_rest_by_what_is_used(books: Closes) -> None:
    # Without idle power: 1:3, nothing for the five units that nobody holds.
    assert books.first.whose("idling") == {(0, "idling-a"): 270_000, (0, "idling-b"): 810_000, (0, ""): 0}
    # 360,000 J idle by 2:3:5 units held, 720,000 J by 1:3 used.
    assert books.later.whose("idling") == {(0, "idling-a"): 252_000, (0, "idling-b"): 648_000, (0, ""): 180_000}
    assert books.later.checked()[0] is True


case(
    {"same": {"units": 2, "model": "S4"}},
    hold("same-a", 11, 12, "same", 1),
    [reading(12, "same", "w-same-a", utilization=0.1), reading(12, "same", power_watts=100.0)],
    (11, 12),
)


def test_the_same_idle_power_by_another_rule_changes_nothing(books: Closes) -> None:
    # 252,000 J idle by 1:1 units, 108,000 J to the only one who used it.
    assert books.first.whose("same") == {(11, "same-a"): 234_000, (11, ""): 126_000}
    assert books.later.checked()[11] is False
    assert books.later.of(11) == books.first.of(11)


case(
    {"dated": {"units": 2, "model": "D4"}},
    hold("dated-a", 50, 53, "dated", 1),
    [
        one
        for hour in (51, 52, 53)
        for one in (reading(hour, "dated", "w-dated-a", utilization=0.1), reading(hour, "dated", power_watts=100.0))
    ],
    (50, 53),
)


def test_idle_power_counts_from_its_first_hour_until_before_its_end(books: Closes) -> None:
    # As of "same" in the hour in which the rule is in force; in those beside it all goes to the only one who used it.
    assert books.first.whose("dated") == {
        (50, "dated-a"): 360_000, (50, ""): 0,
        (51, "dated-a"): 234_000, (51, ""): 126_000,
        (52, "dated-a"): 360_000, (52, ""): 0,
    }  # fmt: skip


case(
    {"quiet": {"units": 4}},
    hold("quiet-a", 0, 1, "quiet", 1) + hold("quiet-b", 0, 1, "quiet", 2),
    [
        reading(1, "quiet", "w-quiet-a", state="idle", utilization=0.0),
        reading(1, "quiet", "w-quiet-b", state="idle", utilization=0.0),
        reading(1, "quiet", state="idle", utilization=0.0, power_watts=60.0),
    ],
)


def test_the_energy_of_an_allocated_device_that_does_nothing_goes_by_what_is_held(books: Closes) -> None:
    # 216,000 J: a quarter, a half, and a quarter that nobody holds.
    assert books.first.whose("quiet") == {(0, "quiet-a"): 54_000, (0, "quiet-b"): 108_000, (0, ""): 54_000}


case(
    {"half-known": {"units": 4}},
    hold("known", 0, 1, "half-known", 1) + hold("unknown", 0, 1, "half-known", 3),
    [reading(1, "half-known", "w-known", utilization=0.2), reading(1, "half-known", power_watts=100.0)],
)


def test_use_that_is_not_known_is_not_counted_as_none(books: Closes) -> None:
    # Nobody knows what the other did: 360,000 J by 1:3 held, not all to the one that is known.
    assert books.first.whose("half-known") == {(0, "known"): 90_000, (0, "unknown"): 270_000}


case(
    {"quarters": {}},
    hold("quarters-a", 0.25, 1.75, "quarters"),
    [reading((n + 1) / 4, "quarters", minutes=15, utilization=0.5, power_watts=100.0 * (n + 1)) for n in range(8)],
)
CASES["devices"].append({"cluster": "", "pool": "", **device("quarters", hour=1.5, state="unavailable")})


def test_energy_of_unallocated_and_unavailable_time_is_the_platforms(books: Closes) -> None:
    # Quarters of an hour at 100, 200, ... 800 W, 900 s each; a job holds the 2nd to 6th, then the device is down.
    assert books.first.whose("quarters") == {
        (0, ""): 90_000,
        (0, "quarters-a"): 900 * (200 + 300 + 400),
        (1, "quarters-a"): 900 * (500 + 600),
        (1, ""): 900 * (700 + 800),
    }


case(
    {"overlap": {}},
    [],
    [
        reading(0.5, "overlap", minutes=30, utilization=0.5, power_watts=100.0),
        # Says 60 minutes, of which the first 15 are said already: 75 % of its 180,000 J, a third of that in hour 0.
        reading(1.25, "overlap", utilization=0.5, energy_joules=180_000.0),
    ],
)


def test_a_sample_covers_what_lies_since_the_one_before_and_is_cut_at_the_hour(books: Closes) -> None:
    # 50 W from 00:30 to 01:15; the interval begins at 00:15, but 00:30 is known already.
    assert books.first.whose("overlap") == {(0, ""): 180_000 + 90_000, (1, ""): 45_000}
    rows = [row for row in books.first.energy if row["device_id"] == "overlap"]
    assert {row["at"]: row["measured_unit_ms"] for row in rows} == {0: 3_600_000, 1: 900_000}


case(
    {"reach": {}, "no-reach": {}},
    [],
    [
        row
        for name, longer in (("reach", 0.001), ("no-reach", 0.0))
        for row in (
            reading(0.5, name, minutes=30, power_watts=100.0),
            # The first of an hour in which samples have several lengths: it reaches back 1 ms, or not at all.
            {**reading(1.25, name, power_watts=70.0), "interval_seconds": 900 + longer},
            reading(1.75, name, minutes=20, power_watts=10.0),
        )
    ],
)


def test_the_one_millisecond_that_a_sample_reaches_back_into_an_hour_counts(books: Closes) -> None:
    before = 100 * 1800
    after = 70 * 900 + 10 * 1200
    assert books.first.whose("reach") == {(0, ""): before + 70 * 0.001, (1, ""): after}
    assert books.first.whose("no-reach") == {(0, ""): before, (1, ""): after}
    rows = [row for row in books.first.energy if row["device_id"] in ("reach", "no-reach")]
    assert {(row["device_id"], row["at"]): row["measured_unit_ms"] for row in rows} == {
        ("reach", 0): 1_800_001, ("reach", 1): 2_100_000, ("no-reach", 0): 1_800_000, ("no-reach", 1): 2_100_000,
    }  # fmt: skip


GAP = (4, 6)
case(
    {"gap": {}, "none": {}},
    hold("gap-a", 4, 6, "gap") + hold("none-a", 4, 6, "none"),
    [
        reading(4.5, "gap", minutes=30, utilization=0.5, power_watts=100.0),
        reading(5.0, "gap", minutes=30, state="blank", power_watts=100.0),
        reading(5.5, "gap", minutes=30, state="stale", power_watts=100.0),
        reading(6.0, "gap", minutes=30, utilization=0.5, power_watts=float("nan")),
        reading(6.0, "none", minutes=120, power_watts=0.0),
    ],
    GAP,
)


def test_a_gap_is_unmeasured_and_not_zero(books: Closes) -> None:
    assert books.first.whose("gap") == {(4, "gap-a"): 180_000}
    assert books.first.whose("none") == {}
    assert [(row["device"], row["kwh"], row["coverage"]) for row in books.gap.rows] == [
        ("gap", Decimal("0.05"), Decimal("0.25")),
        ("none", None, 0),
    ]
    assert books.gap.unmeasured_gpu_hours == Decimal("3.5")
    assert "3.50 device-hours are unmeasured" in books.gap.notes[0]


case(
    {"alone": {}, "pair": {"units": 2}},
    hold("alone-a", 10.25, 11, "alone") + hold("pair-a", 10, 11, "pair", 1) + hold("pair-b", 10, 11, "pair", 1),
    [
        reading(10.25, "alone", minutes=15, utilization=0.0, power_watts=40.0),
        reading(11.0, "alone", "w-alone-a", minutes=45, utilization=0.5, power_watts=400.0),
        # A row for each of two that share a device may tell the whole device's power twice: no use for it.
        reading(11.0, "pair", "w-pair-a", utilization=0.5, power_watts=400.0),
        reading(11.0, "pair", "w-pair-b", utilization=0.5, power_watts=400.0),
    ],
    (10, 11),
)
LATER["samples"].append(reading(11.0, "alone", minutes=45, utilization=0.5, power_watts=400.0))


def test_the_workloads_own_row_tells_the_devices_power_where_it_is_alone(books: Closes) -> None:
    found = {(10, ""): 900 * 40, (10, "alone-a"): 2700 * 400}
    assert books.first.whose("alone") == found
    assert books.first.whose("pair") == {}
    assert 10 in books.later.checked()
    assert books.later.whose("alone") == found  # told twice, counted once


case(
    {"thirds": {"units": 3}},
    [row for name in "abc" for row in hold(f"thirds-{name}", 0, 1, "thirds", 1)],
    [reading(1, "thirds", energy_joules=0.004)],
)


def test_millijoules_that_do_not_divide_are_dealt_out_and_none_is_lost(books: Closes) -> None:
    assert sorted(joules or 0 for joules in books.first.whose("thirds").values()) == [0.001, 0.001, 0.002]


# --- re-sent, late, again --------------------------------------------------------------------------------------------

LATER["samples"] += shared("resent", 9, power_watts=300.0)


def test_samples_that_come_again_change_nothing(books: Closes) -> None:
    assert books.later.checked()[8] is False
    assert books.later.of(8) == books.first.of(8)


shared("late", 10)
LATER["samples"] += [
    reading(9 + (n + 1) / 2, "late", minutes=30, state="unsupported", power_watts=300.0) for n in range(2)
]


def test_power_that_comes_late_is_published_though_the_ledger_stays_as_it_was(books: Closes) -> None:
    assert books.first.whose("late") == {}
    assert books.later.checked()[9] is True
    assert books.later.of(9)[1] == books.first.of(9)[1] != []
    assert sum(joules or 0 for joules in books.later.whose("late").values()) == 1_080_000


def test_only_hours_with_other_energy_are_changed_and_once(books: Closes) -> None:
    assert {hour for hour, changed in books.later.checked().items() if changed} == {0, 9}
    assert books.later.report.changed == 2
    assert books.again.report.checked == 0


# --- memory ----------------------------------------------------------------------------------------------------------

case(
    {"memory-0": {"units": 2}, "memory-1": {}},
    hold("memory-a", 0, 1, "memory-0", 1)
    + hold("memory-b", 0, 1, "memory-0", 1)
    + hold("memory-c", 0.5, 1, "memory-1"),
    [
        reading(1, "memory-0", "w-memory-a", utilization=0.1, memory_used_bytes=10 * GIB),
        reading(1, "memory-0", utilization=0.1, memory_used_bytes=15 * GIB),  # whose it is nobody knows: not b's
        reading(1, "memory-1", utilization=0.1, memory_used_bytes=40 * GIB),
    ],
)


def test_memory_is_what_the_best_stream_says_of_the_holder(books: Closes) -> None:
    rows = [row for row in books.first.energy if row["device_id"].startswith("memory")]
    assert sorted((row["allocation_id"], row["memory_byte_ms"], row["mj"]) for row in rows) == [
        ("memory-a", 10 * GIB * 3_600_000, None),
        ("memory-c", 40 * GIB * 1_800_000, None),
    ]


# --- money -----------------------------------------------------------------------------------------------------------

PRICED = card(
    {"sku": "power", "kind": "energy", "price": "0.30", "pue": "1.25", "match": {"tenant": "component*"}},
    {"sku": "hbm", "kind": "memory", "price": "0.01", "match": {"project": "p1"}},
    {"sku": "later", "kind": "energy", "price": "9", "effective_from": "2026-11"},
)
case(
    {"component-0": {}, "component-1": {}},
    hold("c0", 0, 2, "component-0", tenant="component", project="p1")
    + hold("c1", 0, 2, "component-1", tenant="component", project="p2")
    + hold("c2", 2, 3, "component-1", tenant="component-other"),
    [
        reading(1, "component-0", utilization=0.5, power_watts=500.0, memory_used_bytes=20 * GIB),
        reading(1.5, "component-0", minutes=30, utilization=0.5, power_watts=600.0),
    ],
)


def test_components_price_what_was_measured_and_say_what_was_not(books: Closes) -> None:
    lines = books.lines_of_one
    assert [(line.sku, line.tenant, line.project, line.quantity, line.unit, line.cost) for line in lines] == [
        # 0.5 + 0.3 = 0.8 kWh x 1.25 = 1 kWh
        ("power", "component", "p1", Fraction(1), "kWh", Fraction(3, 10)),
        ("power", "component", "p2", None, "kWh", Fraction(0)),
        ("hbm", "component", "p1", Fraction(20), "GiB-hours", Fraction(1, 5)),
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
    assert {line.tenant for line in books.lines} == {"component", "component-other"}


PRICED_BY_SKU = card(
    {"sku": "spot", "kind": "energy", "price": "1", "match": {"preemptible": True, "sku": "l4"}},
    {"sku": "none", "kind": "energy", "price": "1", "match": {"sku": "h100"}},
    rates=[
        {"sku": "l4", "price_per_gpu_hour": "1"},
        {"sku": "h100", "match": {"model": "H100"}, "price_per_gpu_hour": "1"},
    ],
)
case(
    {"spot-0": {}, "spot-1": {}},
    hold("s0", 0, 1, "spot-0", tenant="by-sku", preemptible=True)
    + hold("s1", 0, 1, "spot-1", tenant="by-sku", preemptible=False),
    [reading(1, name, utilization=0.5, power_watts=1000.0) for name in ("spot-0", "spot-1")],
)


def test_a_component_applies_where_sku_and_preemptibility_match(books: Closes) -> None:
    assert [(line.rule, line.quantity) for line in books.lines_by_sku] == [("spot", Fraction(1))]


# --- carbon ----------------------------------------------------------------------------------------------------------

DAY = (24, 48)
"""A day in which each of two devices draws one kilowatt."""
case(
    {"fra": {"cluster": "fra-1", "pool": "train"}, "osl": {"cluster": "osl-1", "pool": "x"}},
    hold("in-fra", 24, 42, "fra", cluster="fra-1") + hold("in-osl", 24, 48, "osl", cluster="osl-1"),
    [
        reading(hour + 1, name, utilization=0.5, power_watts=1000.0, cluster=f"{name}-1")
        for hour in range(*DAY)
        for name in ("fra", "osl")
    ],
    DAY,
)
FRA = {"cluster": "fra*", "pool": "train", "source": "grid"}
AT_NOON: dict[str, Any] = {
    "timezone": "Europe/Berlin",  # 14:00 there is 12:00Z in October
    "intensity": [
        {**FRA, "grams_per_kwh": "400", "pue": "1.5", "effective_to": "2026-10-02T14:00"},
        {**FRA, "grams_per_kwh": "100.5", "pue": "1.2", "effective_from": "2026-10-02T14:00"},
    ],
}
HOURLY: dict[str, Any] = {
    "intensity": [
        {"hourly": ["100", "200", "300"], "effective_from": "2026-10-02T00:00Z", "source": "meter", "cluster": "fra*"},
        {"grams_per_kwh": "50", "source": "yearly mean"},
    ]
}


def test_an_intensity_that_changes_at_noon_counts_from_noon(books: Closes) -> None:
    report = books.at_noon
    shown = {(row["workload"], row["held_by"]): row for row in report.rows}
    a, b, free = shown["w-in-fra", "tenant"], shown["w-in-osl", "tenant"], shown[None, "platform"]
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
    assert [row["day"] for row in report.rows] == ["2026-10-02"] * 3


def test_intensity_by_the_hour_and_the_pue_of_the_card_where_no_place_has_one(books: Closes) -> None:
    assert [(row["cluster"], row["kwh_with_pue"], row["kgco2e"]) for row in books.hourly.rows] == [
        ("fra-1", Decimal("4.4"), Decimal("0.715")),  # 1.1 x (0.1 + 0.2 + 0.3 + 0.05)
        ("osl-1", Decimal("4.4"), Decimal("0.22")),
    ]
    assert books.hourly.notes == ()


EXACT = (12, 13)
case(
    {f"exact-{n}": {"units": 3} for n in range(3)},
    [
        row
        for n in range(3)
        for share in "ab"
        for row in hold(f"exact-{n}{share}", 12.1, 12.9, f"exact-{n}", 1, tenant=f"{n}{share}")
    ],
    [reading(13, f"exact-{n}", energy_joules=1.0 + n) for n in range(3)],
    EXACT,
)


def test_rows_sum_to_the_total_to_the_last_digit_by_any_dimension(books: Closes) -> None:
    for report in books.exact:
        for name in ("kwh", "kwh_with_pue", "kgco2e"):
            assert sum(row[name] for row in report.rows) == report.total[name]
        assert report.total["kwh"] == Decimal("0.000001667")  # 6 J
    for report in (books.gap, books.at_noon):  # by device, workload and day
        assert sum(row["kwh"] or 0 for row in report.rows) == report.total["kwh"]


def test_nothing_closed_is_an_empty_report(books: Closes) -> None:
    report = books.nothing
    assert (report.closed, report.rows, report.total["kwh"], report.notes) == (None, (), None, ())


# --- what always holds -----------------------------------------------------------------------------------------------


@dataclass
class Reported:
    """A sample of one device: minutes from the start, length in minutes, watts or None."""

    end: int
    length: int
    watts: int | None


def test_the_parts_of_a_device_and_hour_sum_to_what_its_samples_say(store: Store) -> None:
    """Twelve random devices, each of a model of its own, half of which have an idle power."""
    seed = str(drawn_seed())
    print(f"GPULEDGER_SEED={seed}")
    dice = Random(f"energy {seed}")
    rows: Rows = []
    events: Rows = []
    gpus: dict[str, list[Reported]] = {}
    idle: Rows = []
    for number in range(12):
        name, units = f"GPU-{number}", dice.randint(1, 4)
        for place in range(dice.randint(0, 4)):
            start = dice.randint(0, 170)
            end = min(180, start + dice.randint(1, 90)) / 60
            events += hold(f"{number}-{place}", start / 60, end, name, dice.randint(1, units))
            rows += [reading(hour, name, f"w-{number}-{place}", utilization=place / 8) for hour in (1, 2)]
        gpus[name] = [
            Reported(end, dice.randint(1, 60), dice.choice((None, 0, dice.randint(0, 700))))
            for end in dice.sample(range(1, 181), dice.randint(0, 8))
        ]
        rows += [
            reading(
                reported.end / 60, name, minutes=reported.length, utilization=0.5,
                power_watts=None if reported.watts is None else float(reported.watts),
            )
            for reported in gpus[name]
        ]  # fmt: skip
        if number % 2:
            idle.append({"model": f"M{number}", "watts": str(dice.randint(1, 200))})
        put(store, "devices", [device(name, units=units, model=f"M{number}")])
    put(store, "events", events)
    put(store, "samples", rows)
    settle(store, idle_power=idle)
    close(store, until=at(3))
    expected: dict[tuple[int, str], int] = {}
    for name, samples in gpus.items():
        for hour in range(3):
            energy, measured = _by_the_minute(samples, hour)
            if measured:
                expected[hour, name] = energy * 60_000
    found: dict[tuple[int, str], int] = defaultdict(int)
    for row in store.rows("SELECT toHour(hour) AS at, device_id, energy_millijoules AS mj FROM energy"):
        if row["mj"] is not None:
            assert row["mj"] >= 0
            found[row["at"], row["device_id"]] += row["mj"]
    assert dict(found) == expected


def _by_the_minute(samples: list[Reported], hour: int) -> tuple[int, int]:
    """(watt-minutes, minutes) that the samples tell of the hour, minute by minute."""
    energy = measured = 0
    for minute in range(hour * 60, hour * 60 + 60):
        reported = min((s for s in samples if s.end > minute), key=lambda s: s.end, default=None)
        if reported and reported.watts is not None and reported.end - reported.length <= minute:
            energy, measured = energy + reported.watts, measured + 1
    return energy, measured


# --- what people state -----------------------------------------------------------------------------------------------


@seldom(6, "a price that begins within an hour")
def test_a_price_that_begins_within_an_hour_cuts_its_segments_whoever_pays_it(store: Store) -> None:
    """Both hold half of a device of 100 W for an hour. On average both use half of it: 180 kJ for each. With a price of
    somebody else from half past on there are two segments: a uses twice as much as b in the first, and nothing in the
    second."""
    put(store, "devices", [device("g", hour=1, units=2), device("g", hour=2, units=2, state="removed")])
    put(store, "events", [*hold("a", 1, 2, "g", 1), *hold("b", 1, 2, "g", 1)])
    use = [("a", 1.5, 0.5), ("a", 2, 0.0), ("b", 1.5, 0.25), ("b", 2, 0.25)]
    reported = [reading(end, "g", f"w-{name}", 30, utilization=share) for name, end, share in use]
    put(store, "samples", [*reported, reading(2, "g", power_watts=100.0)])

    def energy() -> dict[str, int]:
        close(store, at(3), NOW)
        rows = store.rows("SELECT allocation_id, sum(energy_millijoules) AS energy FROM energy GROUP BY allocation_id")
        return {row["allocation_id"]: row["energy"] for row in rows}

    apply_rate_card(store, card(), "me", "", NOW)
    assert energy() == {"a": 180_000_000, "b": 180_000_000}
    other = {"sku": "other", "match": {"tenant": "nobody"}, "price_per_gpu_hour": "2"}
    rates = [LIST, {**other, "effective_from": at(1.5).isoformat()}]
    apply_rate_card(store, card(rates=rates), "me", "", NOW)
    assert energy() == {"a": 120_000_000, "b": 240_000_000}
    assert verify(store).balanced


def test_settings_are_stored_with_author_and_version_and_applying_them_again_changes_nothing(store: Store) -> None:
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
    assert [(row["action"], row["object"], json.loads(row["inputs"])) for row in history(store, "energy")] == [
        ("energy.apply", first, {}),
        ("energy.apply", second, {"before": first}),
    ]


# --- the command line ------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("engine_stays")
def test_the_command_prints_the_report_and_takes_settings(books: Closes, tmp_path: Path) -> None:
    app = build()

    def run(*arguments: str, store: str = books.store) -> str:
        result = CliRunner().invoke(app, ["energy", *arguments, "--store", store])
        assert result.exit_code == 0, result.output
        return result.output

    assert "nothing is closed yet" in run(store="chdb://memory")
    grid = tmp_path / "grid.yaml"
    grid.write_text('intensity: [{region: DE, grams_per_kwh: "400", pue: "1.5", source: mean}]')
    assert "are in force: 1 intensity, 0 idle power. Next: gpuledger energy" in run("intensity", "apply", str(grid))
    assert "are in force already" in run("intensity", "apply", str(grid))
    assert run("intensity", "list", "--format", "csv").splitlines()[1].startswith("intensity,DE,*,*,,400,,1.5,,,,mean,")
    hour = ("--period", "2026-10-01T08:00Z..2026-10-01T09:00Z")
    document = json.loads(run(*hour, "--by", "workload", "--format", "json"))
    assert [(row["workload"], row["kwh"], row["kwh_with_pue"], row["kgco2e"]) for row in document["rows"]] == [
        ("w-resent-a", "0.210000000", "0.315000000", "0.126000000"),
        ("w-resent-b", "0.090000000", "0.135000000", "0.054000000"),
    ]
    assert document["total"]["kgco2e"] == "0.180000000"
    columns = "tenant,held_by,kwh,kwh_with_pue,kgco2e,kwh_without_intensity,gpu_hours,measured_gpu_hours,coverage"
    assert run("--format", "csv").splitlines()[0] == columns
    assert "0.300" in run(*hour)
