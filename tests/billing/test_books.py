"""The ledger against the oracle on random fleets, others in each run, and what must be true of any ledger.

GPULEDGER_FLEETS=1000 tries that many fleets in each time zone; GPULEDGER_DRAW=7 the same as a run that said so.
"""

from __future__ import annotations

import json
import os
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from random import Random
from typing import Any

import pytest
import yaml

from tests.billing import fleets, oracle
from tests.billing.fleets import WORLDS, World, fleet
from tests.billing.oracle import HOUR, Entry, Facts, Kinds, Record, ms
from tests.billing.test_examples import gpuledger
from tests.draws import drawn, keep_seed, seldom
from tests.stores import fresh_store
from warehouse.instants import of_epoch_ms
from warehouse.records import DEVICES, EVENTS, SAMPLES
from warehouse.store import Store

FLEETS = int(os.environ.get("GPULEDGER_FLEETS", "20"))
SEED = int(keep_seed())
PRICED = ("Asia/Kolkata", "America/St_Johns")
"""Worlds without the model that has no price, so that their reports sum to amounts."""
NOW = datetime(2025, 11, 21, tzinfo=UTC)
LINES_SHOWN = 12


# --- the ledger equals the oracle ------------------------------------------------------------------------------------


@dataclass
class Closed:
    """What a store says of its fleets, once closed."""

    world: World
    facts: Facts
    found: dict[Entry, Kinds]
    balanced: bool
    failures: list[Any]
    estimated: list[Record]
    negative: int
    store: str

    @cached_property
    def expected(self) -> dict[Entry, Kinds]:
        return oracle.books(self.facts, self.world.rate_card["rates"], self.world.until, self.world.zone)


@pytest.fixture(scope="module", params=WORLDS)
def closed(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Closed:
    """Many random fleets in one store, a cluster each."""
    from billing.close import close
    from billing.verify import verify

    world = WORLDS[request.param]
    some = (fleet(seed, world) for seed in range(SEED, SEED + FLEETS))
    facts = together(one for one in some if world.zone not in PRICED or is_priced(one))
    folder = tmp_path_factory.mktemp("fleets")
    with opened(folder) as store:
        ingest(store, facts)
        apply_rates(store, world, folder)
        close(store, until=of_epoch_ms(world.until), now=NOW)
        verdict = verify(store)
        estimated = store.rows("SELECT DISTINCT cluster, allocation_id, estimated FROM ledger WHERE estimated != ''")
        negative = store.value(
            "SELECT countIf(used_unit_ms < 0 OR idle_unit_ms < 0 OR unmetered_unit_ms < 0 OR unallocated_unit_ms < 0 "
            "OR unavailable_unit_ms < 0) AS n FROM ledger"
        )
        found = ledger(store, world)
        return Closed(world, facts, found, verdict.balanced, list(verdict.failures), estimated, negative, store.url)


@pytest.mark.slow
def test_the_ledger_equals_the_oracle(closed: Closed, tmp_path: Path) -> None:
    wrong = disagreements(closed.found, closed.expected)

    if wrong:
        clusters = sorted(wrong, key=lambda cluster: (len(wrong[cluster]), cluster))
        smallest = shrink(only(closed.facts, clusters[0]), closed.world, tmp_path)
        pytest.fail(
            f"{closed.world.zone}: {len(wrong)} of {FLEETS} fleets disagree, e.g. {', '.join(clusters[:5])}\n"
            + "\n".join(wrong[clusters[0]][:LINES_SHOWN])
            + f"\n\nthe smallest that still disagrees:\n{smallest}"
        )


def test_the_books_balance(closed: Closed) -> None:
    assert closed.balanced, closed.failures[:LINES_SHOWN]
    assert not closed.failures


def test_no_time_is_negative(closed: Closed) -> None:
    assert closed.negative == 0


def test_nothing_is_estimated_where_every_end_is_known(closed: Closed) -> None:
    assert closed.estimated == []


def test_every_device_hour_is_accounted_for_exactly_once(closed: Closed) -> None:
    expected = oracle.books(
        Facts(devices=closed.facts.devices), closed.world.rate_card["rates"], closed.world.until, closed.world.zone
    )

    assert capacities(closed.found) == capacities(expected)


# --- reports ---------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.usefixtures("engine_stays")
@pytest.mark.parametrize("closed", PRICED, indirect=True)
def test_reports_are_cut_in_the_billing_time_zone_and_add_up(closed: Closed) -> None:
    books, until = closed.expected, closed.world.until
    month = {"Asia/Kolkata": "2025-10", "America/St_Johns": "2025-11"}[closed.world.zone]
    day = {"Asia/Kolkata": "2025-10-01", "America/St_Johns": "2025-11-02"}[closed.world.zone]
    a, b, c = until - 70 * HOUR, until - 33 * HOUR, until - 5 * HOUR

    def printed(period: str = "") -> dict[str, Any]:
        asked = ("--period", period) if period else ()
        return json.loads(gpuledger("ledger", *asked, "--by", "tenant", "--format", "json", "--store", closed.store))

    agree(printed(), oracle.report(books))
    agree(printed(day), oracle.report(books, lambda entry: entry.day == day))
    agree(printed(month), oracle.report(books, lambda entry: entry.day.startswith(month)))
    first, second, both = (printed(f"{fleets.iso(x)}..{fleets.iso(y)}") for x, y in ((a, b), (b, c), (a, c)))
    agree(both, oracle.report(books, lambda entry: a <= entry.hour < c))
    parts = [sum(pair) for pair in zip(totals(first), totals(second), strict=True)]
    assert totals(both) == pytest.approx(parts, abs=1e-6)


def agree(printed: dict[str, Any], expected: tuple[dict[str, oracle.Line], oracle.Line]) -> None:
    tenants, everything = expected
    rows = {row["tenant"]: row for row in printed["rows"]}
    assert rows.keys() == tenants.keys()
    for tenant, line in tenants.items():
        found = [rows[tenant][f"{kind}_gpu_hours"] for kind in ("allocated", "used", "idle", "unmetered")]
        found += [rows[tenant]["list_cost"], rows[tenant]["billed_cost"]]
        right = [line.allocated, line.used, line.idle, line.unmetered, line.allocated_cost, line.billed_cost]
        assert list(map(float, found)) == pytest.approx(list(map(float, right)), rel=1e-6, abs=2e-9), tenant
    right = [everything.unallocated, everything.unavailable]
    right += [everything.unallocated_cost, everything.unavailable_cost]
    right += [everything.capacity, everything.cost]
    assert totals(printed)[3:] == pytest.approx(list(map(float, right)), rel=1e-9, abs=2e-9)


def totals(printed: dict[str, Any]) -> list[float]:
    """The tenants' GPU-hours and cost, then those of the platform, then of everything."""
    platform, capacity = printed["platform"], printed["capacity"]
    of_tenants = ("allocated_gpu_hours", "used_gpu_hours", "billed_cost")
    names = ("unallocated_gpu_hours", "unavailable_gpu_hours", "unallocated_cost", "unavailable_cost")
    values = [sum(float(row[n]) for row in printed["rows"]) for n in of_tenants]
    return [*values, *(float(platform[n]) for n in names), float(capacity["gpu_hours"]), float(capacity["cost"])]


# --- delivery changes nothing ----------------------------------------------------------------------------------------


@seldom(6, "order repetition split and lateness of the")
@pytest.mark.slow
def test_order_repetition_split_and_lateness_of_the_facts_change_nothing(tmp_path: Path) -> None:
    """Once all at once; once shuffled, in several pushes, a third of it twice, some of it after closes of its hours."""
    from billing.close import close
    from billing.verify import verify

    world, random = WORLDS["Europe/Berlin"], Random(SEED)
    facts = together(fleet(seed, world) for seed in range(3000 + SEED, 3008 + SEED))
    closings = [world.until - hours * HOUR for hours in (*drawn((60, 40, 39, 24, 1), 0.4), 0)]

    with opened(tmp_path / "once") as store:
        ingest(store, facts)
        apply_rates(store, world, tmp_path)
        close(store, until=of_epoch_ms(world.until), now=NOW)
        once = contents(store)

    deliveries = [Facts() for _ in closings]
    last = len(closings) - 1
    for rows, *parts in zip(each(facts), *map(each, deliveries), strict=True):
        for row in rows:
            on_time = next((n for n, until in enumerate(closings) if row["ts"] < until), last)
            come = min(on_time + random.choice((0, 0, 0, 0, 1, 2, 6)), last)
            parts[come].append(row)
            if random.random() < 0.3:
                parts[random.randint(come, last)].append(row)
        for part in parts:
            random.shuffle(part)
    with opened(tmp_path / "gradually") as store:
        apply_rates(store, world, tmp_path)
        for number, until in enumerate(closings):
            ingest(store, deliveries[number])
            close(store, until=of_epoch_ms(until), now=NOW)
            assert verify(store).balanced, f"after closing {number}"
        gradually, runs = contents(store), hours(store)
        entries = store.value("SELECT count() AS n FROM ledger_entries")

        apply_rates(store, world, tmp_path)
        close(store, until=of_epoch_ms(world.until), now=NOW)

        assert (hours(store), contents(store)) == (runs, gradually), "closed again"
        assert store.value("SELECT count() AS n FROM ledger_entries") == entries

    assert once
    assert gradually == once


# --- records as a reader would type them -----------------------------------------------------------------------------


def clock(time: str) -> int:
    """The time of the quiet day, 2025-10-24; 25:00 is an hour into the next."""
    hour, minute = time.split(":")
    return ms("2025-10-24T00:00:00Z") + int(hour) * HOUR + int(minute) * 60_000


def device(time: str, device_id: str, state: str = "available", units: int = 1) -> Record:
    about = {"cluster": "c", "node": "n", "device_id": device_id, "vendor": "nvidia", "model": "NVIDIA L4"}
    return {"ts": clock(time), **about, "memory_bytes": 1, "units": units, "pool": "p", "state": state}


def event(time: str, allocation: str, kind: str, device_id: str = "", units: int | None = None) -> Record:
    about = {"cluster": "c", "source": "test", "allocation_id": allocation, "workload_id": f"uid-{allocation}"}
    who = {"event": kind, "tenant": "physics", "project": "p", "queue": "q", "preemptible": False}
    return {
        "ts": clock(time),
        **about,
        **who,
        "node": "",
        "gpus": None,
        "device_id": device_id,
        "partition_id": "",
        "units": units,
    }


def sample(time: str, device_id: str, utilization: float) -> Record:
    """A minute of the whole device."""
    what = {"cluster": "c", "node": "n", "device_id": device_id, "partition_id": "", "workload_id": ""}
    return {"ts": clock(time), "interval_seconds": 60.0, **what, "state": "ok", "utilization": utilization}


# --- late records ----------------------------------------------------------------------------------------------------


def a_quiet_day(store: Store) -> None:
    """Two devices, one job from 09:00 to 18:00 with a sample a minute but for 13:20 to 13:40, closed until 24:00."""
    from billing.close import close

    minutes = [minute for minute in range(9 * 60 + 1, 18 * 60 + 1) if not 13 * 60 + 20 < minute <= 13 * 60 + 40]
    ingest(
        store,
        Facts(
            devices=[device("00:00", "GPU-0"), device("00:00", "GPU-1")],
            events=[event("09:00", "a", "started", device_id="GPU-0"), event("18:00", "a", "finished")],
            samples=[sample(f"{minute // 60:02}:{minute % 60:02}", "GPU-0", 0.5) for minute in minutes],
        ),
    )
    apply_card(store, WORLDS["UTC"])
    close(store, until=of_epoch_ms(clock("24:00")), now=NOW)


@pytest.fixture
def day_store(tmp_path: Path) -> Iterator[Store]:
    with fresh_store(tmp_path, a_quiet_day) as opened:
        yield opened


LATE = {
    "an outage, in its hour": (
        Facts(devices=[device("03:30", "GPU-1", state="unavailable"), device("04:00", "GPU-1")]),
        [3],
    ),
    "a sample that ends on the hour, in the hour before it": (
        Facts(samples=[{**sample("11:00", "GPU-0", 1.0), "workload_id": "uid-a"}]),
        [10],
    ),
    "samples, in the hour that they measure": (
        Facts(samples=[sample(f"13:{minute}", "GPU-0", 0.5) for minute in range(21, 41)]),
        [13],
    ),
    "a sample that reaches back over the hour, in both": (
        Facts(samples=[{**sample("16:00", "GPU-0", 1.0), "workload_id": "uid-a", "ts": clock("16:00") + 10_000}]),
        [15, 16],
    ),
    "an allocation, in the hours that it held": (
        Facts(events=[event("19:30", "b", "started", device_id="GPU-1"), event("21:10", "b", "finished")]),
        [19, 20, 21],
    ),
    "an allocation of a later day, in none": (
        Facts(events=[event("25:00", "c", "started", device_id="GPU-1"), event("26:00", "c", "finished")]),
        [],
    ),
}
"""Late records of the quiet day and the hours that they change: no two in neighbouring hours, so that each tells."""


def test_late_records_reopen_the_hours_that_they_touch_and_no_others(day_store: Store) -> None:
    from billing.close import close

    before = hours(day_store)
    ingest(day_store, together(late for late, _ in LATE.values()))
    close(day_store, until=of_epoch_ms(clock("24:00")), now=NOW)
    after = hours(day_store)
    assert after.keys() == before.keys()
    reopened = sorted((hour - clock("00:00")) // HOUR for hour in after if after[hour] != before[hour])
    assert reopened == [hour for _, touched in LATE.values() for hour in touched]


def test_verify_finds_an_entry_that_is_there_twice_and_one_that_is_missing(day_store: Store) -> None:
    from billing.verify import verify

    assert verify(day_store).balanced
    day_store.command("INSERT INTO ledger_entries SELECT * FROM ledger WHERE unallocated_unit_ms > 0 LIMIT 1")
    assert not verify(day_store).balanced
    (hour,) = (row["hour"] for row in day_store.rows("SELECT hour FROM ledger ORDER BY hour LIMIT 1"))
    day_store.command(
        "ALTER TABLE ledger_entries DELETE WHERE hour = {h:DateTime64(3, 'UTC')}",
        {"h": hour},
        {"mutations_sync": 1},
    )
    verdict = verify(day_store)
    assert not verdict.balanced
    assert hour in {failure.hour for failure in verdict.failures}


# --- ends that were lost ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Case:
    """The facts of a cluster; for every allocation the unit-hours held, and whether that is estimated; which are
    refused, and why."""

    facts: Facts
    held: dict[str, tuple[float, bool]]
    refused: dict[str, str] = field(default_factory=dict)


def measured(time: str, device_id: str, allocation: str) -> Record:
    return {**sample(time, device_id, 0.5), "workload_id": f"uid-{allocation}"}


ENDED = {
    "one without an end runs until the close": Case(
        Facts([device("00:00", "GPU-0")], [event("09:00", "a", "started", device_id="GPU-0")]),
        {"a": (15.0, False)},
    ),
    "one whose units were given away ended at its last sign of life": Case(
        Facts(
            [device("00:00", "GPU-0")],
            [
                event("09:00", "a", "started", device_id="GPU-0"),
                event("12:00", "b", "started", device_id="GPU-0"),
                event("14:00", "b", "finished"),
            ],
            [measured("10:30", "GPU-0", "a"), sample("11:00", "GPU-0", 0.5), measured("13:00", "GPU-0", "b")],
        ),
        {"a": (1.5, True), "b": (2.0, False)},
    ),
    "two that fit beside each other are in nobody's way": Case(
        Facts(
            [device("00:00", "GPU-0", units=2)],
            [
                event("09:00", "a", "started", device_id="GPU-0", units=1),
                event("12:00", "b", "started", device_id="GPU-0", units=1),
                event("14:00", "b", "finished"),
            ],
        ),
        {"a": (15.0, False), "b": (2.0, False)},
    ),
    "one that ends before it starts is refused": Case(
        Facts(
            [device("00:00", "GPU-0")],
            [event("08:00", "a", "finished"), event("20:00", "a", "started", device_id="GPU-0")],
        ),
        {},
        {"a": "ends_before_it_starts"},
    ),
    "of two claims on the same units the second is shown and not charged": Case(
        Facts(
            [device("00:00", "GPU-0")],
            [
                event("09:00", "a", "started", device_id="GPU-0"),
                event("12:00", "a", "finished"),
                event("11:00", "b", "started", device_id="GPU-0"),
                event("14:00", "b", "finished"),
            ],
        ),
        {"a": (3.0, False)},
        {"b": "units_already_claimed"},
    ),
}


def fell_silent(job_at: str, device_at: str) -> Facts:
    """A job without an end event. When the last samples of it and of its device came."""
    return Facts(
        [device("00:00", "GPU-0")],
        [event("09:00", "a", "started", device_id="GPU-0")],
        [measured(job_at, "GPU-0", "a"), sample(device_at, "GPU-0", 0.0)],
    )


def on_others(*devices: str) -> Facts:
    """The same job has these devices as well."""
    return Facts(
        [device("00:00", one) for one in devices], [event("09:00", "a", "started", device_id=one) for one in devices]
    )


def on_node(time: str, allocation: str, gpus: float = 1.0) -> Record:
    return event(time, allocation, "started") | {"node": "n", "gpus": gpus}


SILENT = {
    "one silent for a day ended at its last sample": Case(fell_silent("10:30", "35:00"), {"a": (1.5, True)}),
    "one silent for less than a day is still held": Case(fell_silent("11:30", "35:00"), {"a": (27.0, False)}),
    "one whose device fell silent an hour after it is still held": Case(
        fell_silent("10:30", "11:30"), {"a": (27.0, False)}
    ),
    "where it was never seen it ended as where it was": Case(
        fell_silent("10:30", "35:00") + on_others("GPU-1"), {"a": (3.0, True)}
    ),
    "unless it is alive elsewhere": Case(
        fell_silent("10:30", "35:00")
        + on_others("GPU-1", "GPU-2")
        + Facts([], [], [measured("34:00", "GPU-2", "a"), sample("35:00", "GPU-2", 0.0)]),
        {"a": (1.5 + 27 + 27, True)},
    ),
    "or may be, as the device fell silent with it": Case(
        fell_silent("10:30", "35:00") + on_others("GPU-1", "GPU-2") + Facts([], [], [measured("10:30", "GPU-2", "a")]),
        {"a": (1.5 + 27 + 27, True)},
    ),
    "of a node only, it ended on the device that was assumed, too": Case(
        Facts(
            [device("00:00", "GPU-0"), device("00:00", "GPU-1")],
            [on_node("09:00", "a", 2.0)],
            [measured("10:30", "GPU-1", "a"), sample("35:00", "GPU-1", 0.0)],
        ),
        {"a": (3.0, True)},
    ),
    "one that named the device left it to a later one on the node": Case(
        fell_silent("10:30", "35:00") + Facts([], [on_node("12:00", "b")]), {"a": (1.5, True), "b": (24.0, True)}
    ),
    "so did one on the node": Case(
        Facts(
            [device("00:00", "GPU-0")],
            [on_node("09:00", "a"), on_node("12:00", "b"), on_node("13:00", "c")],
            [measured("10:30", "GPU-0", "a"), sample("35:00", "GPU-0", 0.0)],
        ),
        {"a": (1.5, True), "b": (24.0, True)},
        {"c": "no_free_device"},
    ),
}


@pytest.mark.parametrize(("cases", "until"), [(ENDED, "24:00"), (SILENT, "36:00")], ids=["ended", "silent"])
def test_an_allocation_ends_where_the_facts_say_though_its_end_was_lost(
    store: Store, cases: dict[str, Case], until: str
) -> None:
    from billing.close import close

    ingest(store, together(fleets.rename(case.facts, name) for name, case in cases.items()))
    apply_card(store, WORLDS["UTC"])
    close(store, until=of_epoch_ms(clock(until)), now=NOW)
    rows = store.rows(
        "SELECT cluster, allocation_id, max(estimated) != '' AS guessed, "
        "sum(toFloat64(used_unit_ms) + toFloat64(idle_unit_ms) + unmetered_unit_ms) / 3.6e6 AS unit_hours "
        "FROM ledger WHERE allocation_id != '' GROUP BY ALL"
    )
    held: dict[str, dict[str, Any]] = {name: {} for name in cases}
    for row in rows:
        held[row["cluster"]][row["allocation_id"]] = (pytest.approx(row["unit_hours"]), bool(row["guessed"]))
    refused: dict[str, dict[str, str]] = {name: {} for name in cases}
    for row in store.rows("SELECT DISTINCT cluster, allocation_id, reason FROM refused_claims"):
        refused[row["cluster"]][row["allocation_id"]] = row["reason"]
    assert held == {name: case.held for name, case in cases.items()}
    assert refused == {name: case.refused for name, case in cases.items()}


# --- the store -------------------------------------------------------------------------------------------------------


def opened(folder: Path) -> Store:
    return fresh_store(folder / "store")


def ingest(store: Store, facts: Facts) -> None:
    from ingest.pipeline import ingest_tables

    for record, rows in zip((DEVICES, EVENTS, SAMPLES), each(facts), strict=True):
        if rows:
            ingest_tables(store, record, "test", [fleets.table(rows)])


def apply_card(store: Store, world: World) -> None:
    from billing.rates import apply_rate_card, parse_rate_card

    apply_rate_card(store, parse_rate_card(world.rate_card), author="test", reason="test", now=NOW)


def apply_rates(store: Store, world: World, folder: Path) -> None:
    """The same from a file."""
    from billing.rates import apply_rate_card, load_rate_card

    path = folder / "rates.yaml"
    path.write_text(yaml.safe_dump(world.rate_card, allow_unicode=True))
    apply_rate_card(store, load_rate_card(path), author="test", reason="test", now=NOW)


def each(facts: Facts) -> tuple[list[Record], list[Record], list[Record]]:
    return facts.devices, facts.events, facts.samples


def is_priced(facts: Facts) -> bool:
    return all("unpriced" not in row["model"] for row in facts.devices)


def together(several: Iterable[Facts]) -> Facts:
    everything = Facts()
    for one in several:
        for rows, more in zip(each(everything), each(one), strict=True):
            rows.extend(more)
    return everything


def only(facts: Facts, cluster: str) -> Facts:
    return Facts(*([row for row in rows if row["cluster"] == cluster] for rows in each(facts)))


def hours(store: Store) -> dict[int, int]:
    """For every closed hour: the run whose entries are in force."""
    rows = store.rows("SELECT hour, argMax(run, checked_by) AS run FROM closed_hours GROUP BY hour")
    return {ms(row["hour"]): row["run"] for row in rows}


def contents(store: Store) -> list[dict[str, Any]]:
    """Every line of the ledger, but for the run that wrote it."""
    return store.rows("SELECT * EXCEPT (run) FROM ledger ORDER BY ALL")


def ledger(store: Store, world: World) -> dict[Entry, Kinds]:
    """The ledger as the oracle keeps it."""
    rows = store.rows(
        """
        SELECT cluster, device_id, hour, toString(toDate(charge_period_start, {zone:String})) AS day,
            tenant, project, workload_id, allocation_id, partition_id, device_units, model, pool, sku, list_unit_price,
            contracted_unit_price,
            toString(sum(used_unit_ms)) AS used, toString(sum(used_unit_ms) + sum(idle_unit_ms)) AS covered,
            sum(unmetered_unit_ms) AS unmetered, sum(unallocated_unit_ms) AS unallocated,
            sum(unavailable_unit_ms) AS unavailable
        FROM ledger GROUP BY ALL
        """,
        {"zone": world.zone},
    )
    found = {}
    for row in rows:
        *who, price, contracted, used, covered, unmetered, unallocated, unavailable = row.values()
        who[2] = ms(who[2])
        entry = Entry(*who, *(None if amount is None else Fraction(amount) for amount in (price, contracted)))
        kinds = Kinds(round(Fraction(used) * oracle.MICRO), Fraction(covered), unmetered, unallocated, unavailable)
        if kinds.capacity:
            found[entry] = kinds
    return found


def capacities(books: dict[Entry, Kinds]) -> dict[tuple[str, str, int], int]:
    sums: dict[tuple[str, str, int], int] = defaultdict(int)
    for entry, kinds in books.items():
        sums[entry.cluster, entry.device, entry.hour] += kinds.capacity
    return dict(sums)


# --- disagreements, and how to make one small ------------------------------------------------------------------------


def disagreements(found: dict[Entry, Kinds], expected: dict[Entry, Kinds]) -> dict[str, list[str]]:
    """By cluster, what the two books say differently. Only used time may differ at all, by 1e-6 of itself."""
    wrong: dict[str, list[str]] = defaultdict(list)
    for entry in sorted(found.keys() | expected.keys(), key=repr):
        got, right = found.get(entry, Kinds()), expected.get(entry, Kinds())
        exact = ("covered", "unmetered", "unallocated", "unavailable")
        same = all(getattr(got, name) == getattr(right, name) for name in exact)
        if not same or abs(got.used - right.used) > max(Fraction(1, 1000), right.used / 10**6):
            when = f"{fleets.iso(entry.hour)} ({entry.day})"
            wrong[entry.cluster].append(f"{when} {entry[4:]} on {entry.device}\n    found {got}\n    right {right}")
    return wrong


def shrink(facts: Facts, world: World, folder: Path) -> str:
    """The smallest fleet that still disagrees, found by leaving things out, and about what."""
    from billing.close import close

    report = "not again by itself"
    for attempt in range(15):
        variants = [facts, *fleets.smaller(facts)] if attempt == 0 else list(fleets.smaller(facts))
        named = {f"try-{number}": fleets.rename(variant, f"try-{number}") for number, variant in enumerate(variants)}
        everything = together(named.values())
        with opened(folder / f"shrink-{attempt}") as store:
            ingest(store, everything)
            apply_rates(store, world, folder)
            close(store, until=of_epoch_ms(world.until), now=NOW)
            found = ledger(store, world)
        expected = oracle.books(everything, world.rate_card["rates"], world.until, world.zone)
        wrong = disagreements(found, expected)
        if not wrong:
            break
        cluster = min(wrong, key=lambda name: sum(map(len, each(named[name]))))
        facts = named[cluster]
        report = "\n".join([*_shown(facts), *wrong[cluster][:LINES_SHOWN]])
    return report


def _shown(facts: Facts) -> Iterator[str]:
    for rows in each(facts):
        for row in sorted(rows, key=lambda row: (row["device_id"], row["ts"])):
            yield str(
                {name: value for name, value in {**row, "ts": fleets.iso(row["ts"])}.items() if value is not None}
            )
