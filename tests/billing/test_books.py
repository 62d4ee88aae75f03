"""The ledger against the oracle on random fleets, and what must be true of any ledger.

GPULEDGER_FLEETS=1000 tries that many fleets in each time zone, GPULEDGER_SEED=7 others than the usual ones.
"""

from __future__ import annotations

import json
import os
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from fractions import Fraction
from pathlib import Path
from random import Random
from typing import Any

import pytest
import yaml

from tests.billing import fleets, oracle
from tests.billing.fleets import WORLDS, World, fleet
from tests.billing.oracle import HOUR, Entry, Facts, Kinds, Record, ms
from tests.billing.test_examples import gpuledger
from tests.stores import fresh_store
from warehouse.records import DEVICES, EVENTS, SAMPLES
from warehouse.store import Store

FLEETS = int(os.environ.get("GPULEDGER_FLEETS", "40"))
SEED = int(os.environ.get("GPULEDGER_SEED", "0"))
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


@pytest.fixture(scope="module", params=WORLDS)
def closed(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Closed:
    """Many random fleets in one store, a cluster each."""
    from billing.close import close
    from billing.verify import verify

    world = WORLDS[request.param]
    facts = together(fleet(seed, world) for seed in range(SEED, SEED + FLEETS))
    folder = tmp_path_factory.mktemp("fleets")
    with opened(folder) as store:
        ingest(store, facts)
        apply_rates(store, world, folder)
        close(store, until=at(world.until), now=NOW)
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
    expected = oracle.books(closed.facts, closed.world.rate_card["rates"], closed.world.until, closed.world.zone)

    wrong = disagreements(closed.found, expected)

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
@pytest.mark.parametrize("zone", ["Asia/Kolkata", "America/St_Johns"])
def test_reports_are_cut_in_the_billing_time_zone_and_add_up(zone: str, tmp_path: Path) -> None:
    from billing.close import close

    world = WORLDS[zone]
    candidates = (fleet(seed, world) for seed in range(1000 + SEED, 1040 + SEED))
    facts = together(one for one in candidates if all("unpriced" not in row["model"] for row in one.devices))
    with opened(tmp_path) as store:
        ingest(store, facts)
        apply_rates(store, world, tmp_path)
        close(store, until=at(world.until), now=NOW)
        url = store.url
    books = oracle.books(facts, world.rate_card["rates"], world.until, world.zone)
    month = {"Asia/Kolkata": "2025-10", "America/St_Johns": "2025-11"}[zone]
    day = {"Asia/Kolkata": "2025-10-01", "America/St_Johns": "2025-11-02"}[zone]
    a, b, c = world.until - 70 * HOUR, world.until - 33 * HOUR, world.until - 5 * HOUR

    def printed(period: str = "") -> dict[str, Any]:
        asked = ("--period", period) if period else ()
        return json.loads(gpuledger("ledger", *asked, "--by", "tenant", "--format", "json", "--store", url))

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
    assert totals(printed)[1:] == pytest.approx(list(map(float, right)), rel=1e-9, abs=2e-9)


def totals(printed: dict[str, Any]) -> list[float]:
    """Allocated GPU-hours, then those and the cost of the platform, then of everything."""
    platform, capacity = printed["platform"], printed["capacity"]
    names = ("unallocated_gpu_hours", "unavailable_gpu_hours", "unallocated_cost", "unavailable_cost")
    values = [sum(float(row["allocated_gpu_hours"]) for row in printed["rows"]), *(float(platform[n]) for n in names)]
    return [*values, float(capacity["gpu_hours"]), float(capacity["cost"])]


# --- delivery changes nothing ----------------------------------------------------------------------------------------


def test_order_repetition_and_split_of_the_input_change_nothing(tmp_path: Path) -> None:
    world, random = WORLDS["Asia/Kolkata"], Random(SEED)
    facts = together(fleet(seed, world) for seed in range(2000 + SEED, 2015 + SEED))
    shuffled = Facts(*([*rows, *random.sample(rows, len(rows) // 3)] for rows in each(facts)))
    for rows in each(shuffled):
        random.shuffle(rows)

    def books(folder: Path, deliver: Callable[[Store], None]) -> list[dict[str, Any]]:
        from billing.close import close

        with opened(folder) as store:
            deliver(store)
            apply_rates(store, world, tmp_path)
            close(store, until=at(world.until), now=NOW)
            return contents(store)

    def in_pieces(store: Store) -> None:
        ingest(store, shuffled, pieces=7)
        ingest(store, facts, pieces=2)

    once = books(tmp_path / "once", lambda store: ingest(store, facts))
    assert once
    assert books(tmp_path / "pieces", in_pieces) == once


@pytest.mark.slow
def test_closing_as_time_goes_by_with_late_data_equals_closing_once(tmp_path: Path) -> None:
    from billing.close import close
    from billing.verify import verify

    world, random = WORLDS["Europe/Berlin"], Random(SEED)
    facts = together(fleet(seed, world) for seed in range(3000 + SEED, 3015 + SEED))
    closings = [world.until - hours * HOUR for hours in (60, 40, 39, 24, 1, 0)]

    with opened(tmp_path / "once") as store:
        ingest(store, facts)
        apply_rates(store, world, tmp_path)
        close(store, until=at(world.until), now=NOW)
        once = contents(store)

    deliveries = defaultdict(Facts)
    for kind in ("devices", "events", "samples"):
        for row in getattr(facts, kind):
            on_time = next((n for n, until in enumerate(closings) if row["ts"] < until), len(closings) - 1)
            late = random.choice((0, 0, 0, 0, 1, 2, 6))
            getattr(deliveries[min(on_time + late, len(closings) - 1)], kind).append(row)
    with opened(tmp_path / "gradually") as store:
        apply_rates(store, world, tmp_path)
        for number, until in enumerate(closings):
            ingest(store, deliveries[number])
            close(store, until=at(until), now=NOW)
            assert verify(store).balanced, f"after closing {number}"
        gradually = contents(store)

    assert once
    assert gradually == once


def test_closing_again_changes_nothing(tmp_path: Path) -> None:
    from billing.close import close

    world = WORLDS["UTC"]
    with opened(tmp_path) as store:
        ingest(store, together(fleet(seed, world) for seed in range(4000 + SEED, 4015 + SEED)))
        apply_rates(store, world, tmp_path)
        close(store, until=at(world.until), now=NOW)
        runs, before = hours(store), contents(store)
        entries = store.value("SELECT count() AS n FROM ledger_entries")

        close(store, until=at(world.until), now=NOW)
        apply_rates(store, world, tmp_path)
        close(store, until=at(world.until), now=NOW)

        assert hours(store) == runs
        assert contents(store) == before
        assert store.value("SELECT count() AS n FROM ledger_entries") == entries


def test_verify_finds_an_entry_that_is_there_twice_and_one_that_is_missing(tmp_path: Path) -> None:
    from billing.close import close
    from billing.verify import verify

    world = WORLDS["UTC"]
    with opened(tmp_path) as store:
        ingest(store, together(fleet(seed, world) for seed in range(5000 + SEED, 5003 + SEED)))
        apply_rates(store, world, tmp_path)
        close(store, until=at(world.until), now=NOW)
        assert verify(store).balanced

        store.command("INSERT INTO ledger_entries SELECT * FROM ledger WHERE unallocated_unit_ms > 0 LIMIT 1")
        assert not verify(store).balanced
        (hour,) = (row["hour"] for row in store.rows("SELECT hour FROM ledger ORDER BY hour LIMIT 1"))
        store.command(
            "ALTER TABLE ledger_entries DELETE WHERE hour = {h:DateTime64(3, 'UTC')}",
            {"h": hour},
            {"mutations_sync": 1},
        )
        verdict = verify(store)
        assert not verdict.balanced
        assert hour in {failure.hour for failure in verdict.failures}


# --- late records ----------------------------------------------------------------------------------------------------


@pytest.fixture
def a_quiet_day(store: Store, tmp_path: Path) -> Store:
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
    apply_rates(store, WORLDS["UTC"], tmp_path)
    close(store, until=at(clock("24:00")), now=NOW)
    return store


def reopened(store: Store, late: Facts) -> list[int]:
    """The hours of the day that late records changed."""
    from billing.close import close

    before = hours(store)
    ingest(store, late)
    close(store, until=at(clock("24:00")), now=NOW)
    after = hours(store)
    assert after.keys() == before.keys()
    return sorted((hour - clock("00:00")) // HOUR for hour in after if after[hour] != before[hour])


def test_late_samples_reopen_the_hour_they_measure(a_quiet_day: Store) -> None:
    late = [sample(f"13:{minute}", "GPU-0", 0.5) for minute in range(21, 41)]
    assert reopened(a_quiet_day, Facts(samples=late)) == [13]


def test_a_late_sample_that_reaches_back_over_the_hour_reopens_both(a_quiet_day: Store) -> None:
    late = [{**sample("15:00", "GPU-0", 1.0), "workload_id": "uid-a", "ts": clock("15:00") + 10_000}]
    assert reopened(a_quiet_day, Facts(samples=late)) == [14, 15]


def test_a_late_sample_that_ends_on_the_hour_reopens_the_hour_before_it(a_quiet_day: Store) -> None:
    late = [{**sample("15:00", "GPU-0", 1.0), "workload_id": "uid-a"}]
    assert reopened(a_quiet_day, Facts(samples=late)) == [14]


def test_a_late_allocation_reopens_the_hours_it_held(a_quiet_day: Store) -> None:
    late = [event("17:30", "b", "started", device_id="GPU-1"), event("19:10", "b", "finished")]
    assert reopened(a_quiet_day, Facts(events=late)) == [17, 18, 19]


def test_a_late_outage_reopens_its_hours(a_quiet_day: Store) -> None:
    late = [device("03:30", "GPU-1", state="unavailable"), device("04:00", "GPU-1")]
    assert reopened(a_quiet_day, Facts(devices=late)) == [3]


def test_records_of_a_later_day_reopen_nothing(a_quiet_day: Store) -> None:
    late = Facts(events=[event("25:00", "b", "started", device_id="GPU-1"), event("26:00", "b", "finished")])
    assert reopened(a_quiet_day, late) == []


# --- ends that were lost ---------------------------------------------------------------------------------------------


def held(store: Store, facts: Facts, tmp_path: Path, until: str = "24:00") -> dict[str, tuple[float, bool]]:
    """For every allocation: the unit-hours it held, and whether that is estimated."""
    from billing.close import close

    ingest(store, facts)
    apply_rates(store, WORLDS["UTC"], tmp_path)
    close(store, until=at(clock(until)), now=NOW)
    rows = store.rows(
        "SELECT allocation_id, max(estimated) != '' AS guessed, "
        "sum(toFloat64(used_unit_ms) + toFloat64(idle_unit_ms) + unmetered_unit_ms) / 3.6e6 AS unit_hours "
        "FROM ledger WHERE allocation_id != '' GROUP BY allocation_id"
    )
    return {row["allocation_id"]: (pytest.approx(row["unit_hours"]), bool(row["guessed"])) for row in rows}


def test_an_allocation_without_an_end_runs_until_the_close(store: Store, tmp_path: Path) -> None:
    facts = Facts([device("00:00", "GPU-0")], [event("09:00", "a", "started", device_id="GPU-0")])
    assert held(store, facts, tmp_path) == {"a": (15.0, False)}


def test_an_allocation_whose_units_were_given_away_ended_at_its_last_sign_of_life(store: Store, tmp_path: Path) -> None:
    facts = Facts(
        [device("00:00", "GPU-0")],
        [
            event("09:00", "a", "started", device_id="GPU-0"),
            event("12:00", "b", "started", device_id="GPU-0"),
            event("14:00", "b", "finished"),
        ],
        [
            {**sample("10:30", "GPU-0", 0.5), "workload_id": "uid-a"},
            sample("11:00", "GPU-0", 0.5),
            {**sample("13:00", "GPU-0", 0.5), "workload_id": "uid-b"},
        ],
    )
    assert held(store, facts, tmp_path) == {"a": (1.5, True), "b": (2.0, False)}


def test_two_that_fit_beside_each_other_are_in_nobodys_way(store: Store, tmp_path: Path) -> None:
    facts = Facts(
        [device("00:00", "GPU-0", units=2)],
        [
            event("09:00", "a", "started", device_id="GPU-0", units=1),
            event("12:00", "b", "started", device_id="GPU-0", units=1),
            event("14:00", "b", "finished"),
        ],
    )
    assert held(store, facts, tmp_path) == {"a": (15.0, False), "b": (2.0, False)}


def test_an_allocation_silent_for_a_day_ended_at_its_last_sample(store: Store, tmp_path: Path) -> None:
    facts = Facts(
        [device("00:00", "GPU-0")],
        [event("09:00", "a", "started", device_id="GPU-0")],
        [{**sample("10:30", "GPU-0", 0.5), "workload_id": "uid-a"}, sample("35:00", "GPU-0", 0.0)],
    )
    assert held(store, facts, tmp_path, until="36:00") == {"a": (1.5, True)}


def test_an_allocation_silent_for_less_than_a_day_is_still_held(store: Store, tmp_path: Path) -> None:
    facts = Facts(
        [device("00:00", "GPU-0")],
        [event("09:00", "a", "started", device_id="GPU-0")],
        [{**sample("10:30", "GPU-0", 0.5), "workload_id": "uid-a"}, sample("34:00", "GPU-0", 0.0)],
    )
    assert held(store, facts, tmp_path, until="36:00") == {"a": (27.0, False)}


def test_an_allocation_that_ends_before_it_starts_is_refused(store: Store, tmp_path: Path) -> None:
    facts = Facts(
        [device("00:00", "GPU-0")],
        [event("08:00", "a", "finished"), event("20:00", "a", "started", device_id="GPU-0")],
    )
    assert held(store, facts, tmp_path) == {}
    assert store.rows("SELECT allocation_id, reason FROM refused_claims") == [
        {"allocation_id": "a", "reason": "ends_before_it_starts"}
    ]


def test_two_claims_on_the_same_units_are_shown_and_the_second_is_not_charged(store: Store, tmp_path: Path) -> None:
    facts = Facts(
        [device("00:00", "GPU-0")],
        [
            event("09:00", "a", "started", device_id="GPU-0"),
            event("12:00", "a", "finished"),
            event("11:00", "b", "started", device_id="GPU-0"),
            event("14:00", "b", "finished"),
        ],
    )
    assert held(store, facts, tmp_path) == {"a": (3.0, False)}
    assert [row["allocation_id"] for row in store.rows("SELECT DISTINCT allocation_id FROM refused_claims")] == ["b"]


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
    return {"ts": clock(time), **about, **who, "device_id": device_id, "partition_id": "", "units": units}


def sample(time: str, device_id: str, utilization: float) -> Record:
    """A minute of the whole device."""
    what = {"cluster": "c", "node": "n", "device_id": device_id, "partition_id": "", "workload_id": ""}
    return {"ts": clock(time), "interval_seconds": 60.0, **what, "state": "ok", "utilization": utilization}


# --- the store -------------------------------------------------------------------------------------------------------


def opened(folder: Path) -> Store:
    return fresh_store(folder / "store")


def ingest(store: Store, facts: Facts, pieces: int = 1) -> None:
    from ingest.pipeline import ingest_tables

    for record, rows in zip((DEVICES, EVENTS, SAMPLES), each(facts), strict=True):
        for piece in range(pieces):
            if part := rows[piece::pieces]:
                ingest_tables(store, record, f"{record.name} {piece + 1} of {pieces}", [fleets.table(part)])


def apply_rates(store: Store, world: World, folder: Path) -> None:
    from billing.rates import apply_rate_card, load_rate_card

    path = folder / "rates.yaml"
    path.write_text(yaml.safe_dump(world.rate_card, allow_unicode=True))
    apply_rate_card(store, load_rate_card(path), author="test", reason="test", now=NOW)


def at(instant: int) -> datetime:
    return datetime.fromtimestamp(instant / 1000, UTC)


def each(facts: Facts) -> tuple[list[Record], list[Record], list[Record]]:
    return facts.devices, facts.events, facts.samples


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
            close(store, until=at(world.until), now=NOW)
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
