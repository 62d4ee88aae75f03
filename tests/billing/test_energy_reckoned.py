"""Energy and memory of a month, as reports and invoices have it: of a drawn ledger, reckoned entry by entry, in a zone
of half hours."""

from __future__ import annotations

from collections import defaultdict
from datetime import UTC, datetime
from decimal import Decimal
from fractions import Fraction
from random import Random
from typing import Any

import pyarrow as pa

from billing.energy.components import component_lines
from billing.energy.report import energy_report
from billing.energy.settings import apply_energy_settings, parse_energy_settings
from billing.lines import Line
from billing.rates import apply_rate_card, parse_rate_card
from tests.billing.hand_ledger import HOUR_MS
from tests.billing.test_reckoned import (
    END,
    MILLION,
    OCTOBER,
    PLAIN,
    QUANTITIES,
    START,
    ZONE,
    Entry,
    day_of,
    entry,
    fill,
    times,
)
from warehouse.store import Store

NOW = datetime(2026, 12, 1, tzinfo=UTC)
KWH, GIB_HOUR, NANO = 3_600_000_000, 2**30 * HOUR_MS, 10**9
"""In millijoules, in byte-ms."""
COLUMNS = {"tenant": "tenant", "project": "project", "queue": "queue", "workload": "workload_id", "cluster": "cluster",
           "node": "node", "device": "device_id", "model": "model", "pool": "pool"}  # fmt: skip
HOLDERS = ("tenant", "project", "queue", "workload")


def drawn_energy(dice: Random, entries: list[Entry]) -> list[Entry]:
    """Of most entries what was measured of them; of one project nothing, of another all of the time."""
    found = []
    dark, bright = dice.sample([("bio", "p"), ("bio", "q"), ("chem", "p"), ("chem", "q")], 2)
    for one in entries:
        whose = one["tenant"], one["project"]
        if whose == bright or dice.random() < 0.8:
            most = one["units"] * (one["end"] - one["start"])
            measured = dice.choice([0, most, dice.randint(0, most)])
            memory = dice.choice([0, most, dice.randint(0, most)]) if one["allocation_id"] else 0
            if whose in (dark, bright):
                measured = memory = allocated(one) if whose == bright else 0
            found.append(one | {
                "measured": measured, "mj": dice.choice([0, dice.randrange(10**10)]) if measured else None,
                "memory": memory, "bytes": dice.randrange(10**18) if memory else None,
            })  # fmt: skip
    return found


def fill_energy(store: Store, energy: list[Entry]) -> None:
    names = [name for name in PLAIN if name not in ("partition_profile", "estimated", "units", "priority")]
    store.insert("energy_entries", pa.table({
        **{name: pa.array([one[name] for one in energy]) for name in names},
        "run": pa.array([one["run"] for one in energy], pa.uint64()), "hour": times(one["hour"] for one in energy),
        "charge_period_start": times(one["start"] for one in energy),
        "energy_millijoules": pa.array([one["mj"] for one in energy], pa.int64()),
        "measured_unit_ms": pa.array([one["measured"] for one in energy], pa.int64()),
        "memory_byte_ms": pa.array([one["bytes"] for one in energy], pa.int64()),
        "memory_measured_unit_ms": pa.array([one["memory"] for one in energy], pa.int64()),
    }))  # fmt: skip


COMPONENTS: list[dict[str, Any]] = [
    {"sku": "chem power", "kind": "energy", "price": "0.30", "pue": "1.3",
     "match": {"tenant": "chem", "preemptible": True}, "effective_from": "2026-10"},
    {"sku": "power", "kind": "energy", "price": "0.20", "pue": "1.1", "match": {"queue": "v"}},
    {"sku": "memory", "kind": "memory", "price": "0.01", "match": {"project": "p"}},
    {"sku": "later", "kind": "memory", "price": "7", "effective_from": "2026-11"},
]  # fmt: skip


def fits(one: Entry, component: dict[str, Any]) -> bool:
    return all(one[name] == value for name, value in component.get("match", {}).items())


def hours_of(one: Entry, unit_ms: int) -> Fraction:
    return Fraction(unit_ms, one["device_units"] * HOUR_MS)


def whole(one: Entry) -> int:
    """Unit-ms of an entry, whoever had them; parts of one are cut off in each."""
    return int((one["used"] + one["idle"]) // MILLION + sum(one[name] // MILLION for name in QUANTITIES[2:]))


def allocated(one: Entry) -> int:
    return int((one["used"] + one["idle"]) // MILLION + one["unmetered"] // MILLION)


def prepare(store: Store, dice: Random) -> tuple[list[Entry], list[Entry]]:
    entries = [entry(dice) for _ in range(250)]
    for number, one in enumerate(entries[:24]):  # where the month begins and ends
        start = (START, END, START - 1, END - 1)[number % 4]
        one |= {"start": start, "end": start + 1, "hour": start // HOUR_MS * HOUR_MS, "run": 7 + start // HOUR_MS % 3}
    energy = drawn_energy(dice, entries)
    fill(store, entries)
    fill_energy(store, energy)
    card = {
        "currency": "EUR",
        "timezone": ZONE,
        "rates": [{"sku": "s", "price_per_gpu_hour": "2"}],
        "components": COMPONENTS,
    }
    apply_rate_card(store, parse_rate_card(card), "me", "", NOW)
    within = [[one for one in some if START <= one["start"] < END] for some in (entries, energy)]
    return within[0], within[1]


def test_components_are_priced_by_what_was_measured_of_what_they_are_about(books: Store, dice: Random) -> None:
    entries, energy = prepare(books, dice)
    card = parse_rate_card(
        {"currency": "EUR", "rates": [{"sku": "s", "price_per_gpu_hour": "2"}], "components": COMPONENTS}
    )
    for tenant in (None, "chem"):
        wanted = []
        for component in COMPONENTS[:3]:
            for key in sorted({(one["tenant"], one["project"]) for one in [*entries, *energy]}):
                mine = [
                    [one for one in some if (one["tenant"], one["project"]) == key and one["allocation_id"]
                     and fits(one, component) and tenant in (None, key[0])]
                    for some in (entries, energy)
                ]  # fmt: skip
                held = sum((hours_of(one, allocated(one)) for one in mine[0]), Fraction(0))
                if held:
                    wanted.append(component_line(component, *key, held, mine[1]))
        found = component_lines(books, card, OCTOBER, "2026-10", tenant)
        assert sorted(found, key=str) == sorted(wanted, key=str)
        assert [one.rule for one in found] == [one.rule for one in wanted]


def component_line(component: dict[str, Any], tenant: str, project: str, held: Fraction, energy: list[Entry]) -> Line:
    is_energy = component["kind"] == "energy"
    amount = Fraction(
        sum((one["mj"] if is_energy else one["bytes"]) or 0 for one in energy), KWH if is_energy else GIB_HOUR
    )
    measured = sum((hours_of(one, one["measured" if is_energy else "memory"]) for one in energy), Fraction(0))
    factor = Fraction(component.get("pue", 1))
    quantity = amount * factor if measured else None
    unit = "kWh" if is_energy else "GiB-hours"
    text = f"{shown(amount, 3)} {unit}" + (f" x PUE {component['pue']}" if is_energy else "") + ", " if measured else ""
    part = shown(100 * measured / held, 1)
    text += f"measured in {shown(measured, 2)} of {shown(held, 2)} allocated GPU-hours ({part} %)"
    if held != measured:
        text += f"; {shown(held - measured, 2)} GPU-hours unmeasured and not charged"
    price, cost = Decimal(component["price"]), (quantity or 0) * Fraction(component["price"])
    return Line(tenant, component["kind"], project, component["sku"], text, quantity, unit, price, price,
                Fraction(cost), Fraction(cost), component["sku"])  # fmt: skip


def shown(value: Fraction, digits: int) -> Decimal:
    return Decimal(round(value * 10**digits)).scaleb(-digits)


SETTINGS: dict[str, Any] = {
    "intensity": [
        {"cluster": "c1", "grams_per_kwh": "100", "pue": "1.5", "effective_to": "2026-10-16T06:00", "source": "x"},
        {"pool": "big", "grams_per_kwh": "333.333333333", "effective_from": "2026-10-01T00:00", "source": "y"},
        {"cluster": "c2", "pool": "", "pue": "1.25", "effective_from": "2026-10-16T06:00", "source": "z"},
    ]
}


def of_grid(one: Entry) -> tuple[Fraction | None, Fraction | None]:
    """Grams per kWh, PUE."""
    at = datetime.fromtimestamp(one["hour"] / 1000, UTC)
    turn = datetime(2026, 10, 16, 6, tzinfo=UTC)
    rules: list[tuple[bool, str | None, str | None]] = [
        (one["cluster"] == "c1" and at < turn, "100", "1.5"),
        (one["pool"] == "big" and at >= datetime(2026, 10, 1, tzinfo=UTC), "333.333333333", None),
        (one["cluster"] == "c2" and one["pool"] == "" and at >= turn, None, "1.25"),
    ]
    grams = next((Fraction(grams) for covers, grams, _ in rules if covers and grams), None)
    return grams, next((Fraction(pue) for covers, _, pue in rules if covers and pue), None)


def test_a_report_of_energy_is_that_of_its_entries_with_what_is_known_of_their_grid(books: Store, dice: Random) -> None:
    entries, energy = prepare(books, dice)
    apply_energy_settings(books, parse_energy_settings(SETTINGS), "me", "", NOW)
    names = [*COLUMNS, "day", "hour"]
    for by in ([], dice.sample(names[:4], 2), dice.sample(names, 3)):
        report = energy_report(books, OCTOBER, by)
        assert not books.rows("SHOW TABLES LIKE 'energy_grid_%'") + books.rows("SHOW TABLES LIKE 'energy_payers_%'")
        sums: dict[tuple[Any, ...], dict[str, Any]] = defaultdict(lambda: defaultdict(Fraction))
        for one in [*entries, *energy]:
            is_held = bool(one["allocation_id"])
            key = []
            for name in by:
                if name == "day":
                    key.append(day_of(one["start"]))
                elif name == "hour":
                    key.append(f"{datetime.fromtimestamp(one['hour'] / 1000, UTC):%Y-%m-%dT%H:00:00.000Z}")
                else:
                    key.append(one[COLUMNS[name]] if is_held or name not in HOLDERS else None)
            its = sums[(*key, "tenant" if is_held else "platform")]
            if "mj" not in one:
                its["held"] += hours_of(one, whole(one))
                continue
            grams, pue = of_grid(one)
            if pue is None:
                component = next((rule for rule in COMPONENTS[:2] if fits(one, rule)), None)
                pue = Fraction(component["pue"]) if component else None
            kwh = Fraction(one["mj"] or 0, KWH)
            its["measured"] += hours_of(one, one["measured"])
            its["kwh"] += kwh
            its["with_pue"] += kwh * (pue or 1)
            its["kg"] += kwh * (pue or 1) * (grams or 0) / 1000
            its["no_grams"] += kwh if grams is None else 0
            its["no_pue"] += kwh if pue is None else 0
        rows = {(*(row[name] for name in by), row["held_by"]): row for row in report.rows}
        assert len(rows) == len(report.rows) and rows.keys() == sums.keys()
        for key, its in sums.items():
            check(rows[key], its)
        parts = [row for row in report.rows if row["held_by"] == "platform"]
        for some, row in ((parts, report.platform), (list(report.rows), report.total)):
            for name in ("kwh", "kwh_with_pue", "kgco2e", "kwh_without_intensity"):
                known = [one[name] for one in some if one[name] is not None]
                assert row[name] == (sum(known) if known else None)
        total: dict[str, Fraction] = defaultdict(Fraction)
        nobodys: dict[str, Fraction] = defaultdict(Fraction)
        for key, its in sums.items():
            for name, value in its.items():
                total[name] += value
                nobodys[name] += value if key[-1] == "platform" else 0
        for its, row in ((total, report.total), (nobodys, report.platform)):
            assert (row["gpu_hours"], row["measured_gpu_hours"]) == (shown(its["held"], 9), shown(its["measured"], 9))
            assert row["coverage"] == shown(its["measured"] / its["held"], 9)
        assert report.unmeasured_gpu_hours == shown(total["held"] - total["measured"], 9)
        lacking = shown(total["held"] - total["measured"], 2)
        assert list(report.notes) == [
            *([f"{lacking} device-hours are unmeasured: no usable sample reported the power; they are in no kWh."]
              if total["held"] > total["measured"] else []),
            f"{shown(total['no_grams'], 3)} kWh have no carbon intensity and are in no kgCO2e.",
            f"{shown(total['no_pue'], 3)} kWh have no PUE and are counted with 1.",
        ]  # fmt: skip


def check(row: Any, its: dict[str, Any]) -> None:
    """To a digit, since the rows sum to their rounded sum."""
    assert (row["gpu_hours"], row["measured_gpu_hours"]) == (shown(its["held"], 9), shown(its["measured"], 9))
    assert row["coverage"] == (shown(its["measured"] / its["held"], 9) if its["held"] else None)
    is_known = its["measured"] and (its["no_grams"] < its["kwh"] or not its["no_grams"])
    for name, value in (
        ("kwh", its["kwh"] if its["measured"] else None),
        ("kwh_with_pue", its["with_pue"] if its["measured"] else None),
        ("kgco2e", its["kg"] if is_known else None),
        ("kwh_without_intensity", its["no_grams"] if its["measured"] else None),
    ):
        assert (row[name] is None) == (value is None), name
        assert value is None or abs(Fraction(row[name]) - value) < Fraction(1, NANO), name
