"""A close reads what is new since the one before, and finds what one finds that reads everything.

The facts are as bad as can be: claims that contradict each other, ends that are lost or come late, devices that nobody
named, nodes in place of devices, rows of days ago. What they mean is for other tests; these hold only that it does
not matter how many closes read them.

    GPULEDGER_CARRIED=0-99 make check PYTEST="-k carried"  # these seeds
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from billing.close import close, facts
from billing.close.run import _next_run
from billing.close.stage import Stage
from billing.rates import apply_rate_card, parse_rate_card
from billing.tenants import apply_mapping, parse_mapping
from tests.billing.dying import dying
from tests.billing.facts import put
from tests.billing.whole_close import check_as_whole, closed_books, reads_everything
from tests.draws import dice_of, seeds, seldom
from tests.stores import emptied
from warehouse.store import Store

START = datetime(2026, 2, 26, tzinfo=UTC)
DAYS = 5
END = START + timedelta(days=DAYS)
AFTER = END + timedelta(days=60)
HOUR = 3_600_000
SEEDS = seeds("GPULEDGER_CARRIED")
Row = tuple[int, str, dict[str, Any]]
"""Which delivery it comes with, its kind, the row."""


def without_the_dead(store: Store) -> Store:
    """An empty store, without the working tables of closes that were killed."""
    for row in store.rows("SELECT name FROM system.tables WHERE match(name, '^close_[0-9]+_')"):
        store.command("DROP TABLE {table:Identifier}", {"table": row["name"]})
    emptied(store)
    return store


def instant(hours: float) -> datetime:
    return START + timedelta(milliseconds=round(hours * HOUR))


def device_facts(dice: random.Random) -> Iterator[tuple[float, str, dict[str, Any]]]:
    for number in range(5):
        node, units = f"n{number % 2}", dice.choice((1, 1, 2, 4))
        since = 0.0 if number < 4 else dice.uniform(1, 90)
        for at in sorted({since, *(dice.uniform(since, DAYS * 24) for _ in range(dice.choice((0, 0, 1, 2))))}):
            state = "available" if at == since else dice.choice(("available", "unavailable", "removed"))
            reported_units = dice.choice((units, units, 1, 2))
            model = dice.choice(("H100", "H100", "A30"))
            yield (
                at,
                "devices",
                {"device_id": f"d{number}", "node": node, "units": reported_units, "state": state, "model": model},
            )


def job_facts(dice: random.Random) -> Iterator[tuple[float, str, dict[str, Any]]]:
    nodes_only = dice.choice((0.0, 0.12))
    stamped: list[tuple[float, str]] = []
    for number in range(dice.randrange(10, 26)):
        since = dice.choice((dice.uniform(0, DAYS * 24), float(dice.randrange(DAYS * 24))))
        took = dice.choice((0.0, 0.2, 1.0, 3.0, 20.0, 60.0)) * dice.uniform(0.5, 1.5)
        name = f"j{number}" if dice.random() < 0.9 else f"j{max(0, number - 4)}"
        about = {
            "allocation_id": name,
            "workload_id": dice.choice((name, "shared")),
            "tenant": dice.choice(("", "phys", "chem")),
        }
        places = dice.sample([f"d{n}" for n in range(dice.choice((3, 5, 6)))], dice.choice((1, 1, 2)))
        if stamped and dice.random() < 0.2:  # begins in the second before the one in which another ended
            before, device = dice.choice(stamped)
            since, places = before - 1 / 3600, [device]
        by_node = dice.random() < nodes_only
        if by_node:
            placed = [{"node": f"n{dice.randrange(2)}", "device_id": "", "gpus": float(dice.choice((1, 2)))}]
        else:
            units, part = dice.choice((None, None, 1, 2)), dice.choice(("", "", "p1", "p2"))
            placed = [{"device_id": device, "units": units, "partition_id": part} for device in places]
        for place in placed:
            yield since, "events", {**about, **place, "event": "started"}
        times = sorted(dice.uniform(since, since + took) for _ in range(2))
        if dice.random() < 0.2:
            yield times[0], "events", {**about, "event": "suspended"}
            if dice.random() < 0.8:
                yield times[1], "events", {**about, "event": "resumed"}
        elif dice.random() < 0.15:
            yield times[0], "events", {**about, **placed[0], "event": "resized"}
        if dice.random() < 0.85:
            end = since + took if dice.random() < 0.95 else since - 1.5
            if dice.random() < 0.5:
                end = round(end * 3600) / 3600
                stamped += [(end, place) for place in places]
            yield (
                end,
                "events",
                {**about, "tenant": dice.choice(("", "phys")), "event": dice.choice(("finished", "preempted"))},
            )
        for _ in range(dice.choice((0, 0, 4, 12))):
            on = dice.choice(places)
            workload = dice.choice((about["workload_id"], ""))
            at = dice.uniform(since, min(since + max(took, 0.5), DAYS * 24.0))
            seconds = dice.choice((60.0, 60.0, 1800.0))
            yield (
                at,
                "samples",
                {
                    "device_id": on,
                    "workload_id": workload,
                    "state": "ok",
                    "utilization": round(dice.random(), 3),
                    "interval_seconds": seconds,
                },
            )


def deliveries(dice: random.Random, closings: list[float]) -> list[Row]:
    """Most come with the close after them, some with any later one."""
    rows: list[Row] = []
    for at, kind, row in (*device_facts(dice), *job_facts(dice)):
        at = min(max(at, 0.0), DAYS * 24.0)
        on_time = next((n for n, until in enumerate(closings) if at <= until), len(closings) - 1)
        late = dice.choice((0, 0, 0, 0, 0, 0, 1, 2, 9))
        rows.append((min(on_time + late, len(closings) - 1), kind, {"ts": instant(at), "cluster": "c", **row}))
    return rows


def card(dice: random.Random) -> dict[str, Any]:
    since = instant(dice.uniform(0, DAYS * 24)).replace(microsecond=0)
    rates = [
        {"sku": "big", "match": {"model": "H100"}, "price_per_gpu_hour": str(dice.randrange(1, 9))},
        {
            "sku": "own",
            "match": {"model": "H100", "tenant": "phys"},
            "price_per_gpu_hour": "2.5",
            "effective_from": since.isoformat(),
        },
    ]
    return {"currency": "EUR", "rates": rates[: dice.choice((1, 2))]}


def mostly_over(store: Store) -> Store:
    """A device, a job of some days ago and one that goes on, closed until the end."""
    put(
        store,
        "devices",
        [
            {
                "ts": START,
                "cluster": "c",
                "device_id": "d0",
                "node": "n",
                "units": 1,
                "state": "available",
                "model": "H100",
            }
        ],
    )
    put(store, "events", [*run_of("old", 2, 5), *run_of("new", DAYS * 24 - 3, None)])
    close(store, END, AFTER)
    assert not reads_everything(store)
    return store


def run_of(name: str, since: float, until: float | None) -> list[dict[str, Any]]:
    about = {"cluster": "c", "allocation_id": name, "workload_id": name, "tenant": "phys"}
    rows = [{**about, "ts": instant(since), "event": "started", "device_id": "d0"}]
    return rows if until is None else [*rows, {**about, "ts": instant(until), "event": "finished"}]


def held(store: Store) -> list[tuple[str, float]]:
    """Allocations and how many hours the ledger says that they held."""
    rows = store.rows(
        "SELECT allocation_id, toFloat64(sum(used_unit_ms + idle_unit_ms + unmetered_unit_ms)) / 3600000 AS hours "
        "FROM ledger WHERE allocation_id != '' GROUP BY allocation_id ORDER BY allocation_id"
    )
    return [(row["allocation_id"], row["hours"]) for row in rows]


def test_a_late_event_and_a_late_sample_are_two_hours_to_compute(empty: Store) -> None:
    store = mostly_over(without_the_dead(empty))
    put(store, "events", run_of("late", 6.25, 7.5))
    put(
        store,
        "samples",
        [
            {
                "ts": instant(2.5),
                "cluster": "c",
                "device_id": "d0",
                "workload_id": "old",
                "state": "ok",
                "utilization": 0.5,
                "interval_seconds": 60.0,
            }
        ],
    )
    report = close(store, END, AFTER)
    assert (report.checked, report.changed) == (3, 3)
    check_as_whole(store)
    assert held(store) == [("late", 1.25), ("new", 3.0), ("old", 3.0)]


@pytest.mark.parametrize("margin", [facts.MARGIN, timedelta(0)])
def test_a_batch_is_read_once_it_is_acknowledged_and_not_before(
    empty: Store, margin: timedelta, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Beside samples of the same hour that closes have read, of days ago by the clock of the margin."""
    monkeypatch.setattr(facts, "MARGIN", margin)
    store = without_the_dead(empty)
    sample = {"cluster": "c", "device_id": "d0", "workload_id": "old", "state": "ok", "utilization": 1.0}
    long = {**sample, "interval_seconds": 1800.0}
    put(store, "samples", [{**long, "ts": instant(2.5)}])
    mostly_over(store)
    batch = 4711
    rows = {
        "ts": instant(3),
        "cluster": "c",
        "device_id": "d0",
        "workload_id": "old",
        "interval": 1800.0,
        "batch": batch,
    }
    store.command(
        "INSERT INTO samples (ts, interval_seconds, cluster, device_id, workload_id, state, utilization, batch) "
        "SELECT {ts:DateTime64(3, 'UTC')}, {interval:Float64}, {cluster:String}, {device_id:String}, "
        "{workload_id:String}, 'ok', 1, {batch:UInt64}",
        rows,
    )
    put(store, "samples", [{**long, "ts": instant(4)}])
    for acknowledged in (False, True):
        if acknowledged:
            store.command("INSERT INTO ingest_batches (batch, record_type) SELECT 4711, 'samples'")
        assert not reads_everything(store)
        close(store, END, AFTER)
        check_as_whole(store)
        used = store.value("SELECT toFloat64(sum(used_unit_ms)) / 3600000 AS hours FROM ledger")
        assert used == (1.5 if acknowledged else 1.0)


def test_the_first_close_of_a_day_finds_what_was_acknowledged_long_ago_and_never_read(empty: Store) -> None:
    """By a clock that is days behind: the closes of the day look at the last day's acknowledgements."""
    store = mostly_over(without_the_dead(empty))

    def knows(read_at: datetime) -> bool:
        return facts.fresh_since(store, Stage(_next_run(store)), read_at) > 0

    now, yesterday = datetime.now(UTC), datetime.now(UTC) - timedelta(days=1)
    assert knows(yesterday)
    ago = {"at": now - timedelta(days=9)}
    store.command(
        "INSERT INTO ingest_batches (batch, record_type, ingested_at) SELECT 4712, 'samples', {at:DateTime64(3)}", ago
    )
    assert knows(now) or datetime.now(UTC).date() != now.date()
    assert not knows(yesterday)
    close(store, END, AFTER, whole=True)
    assert knows(yesterday)


@pytest.mark.parametrize("forgotten", ["by a clock that is days behind", "by the store, which keeps a week of them"])
def test_what_is_acknowledged_and_not_among_the_recent_is_read_by_the_next_close(empty: Store, forgotten: str) -> None:
    store = mostly_over(without_the_dead(empty))
    put(store, "events", run_of("late", 6.25, 7.5))
    if "clock" in forgotten:
        late = store.value("SELECT batch FROM events WHERE allocation_id = 'late' LIMIT 1")
        for table in ("ingest_batches", "recent_batches"):
            store.command(
                f"ALTER TABLE {store.altered(table)} DELETE WHERE batch = {{late:UInt64}} SETTINGS mutations_sync = 2",
                {"late": late},
            )
        close(store, END, AFTER)
        ago = {"at": datetime.now(UTC) - timedelta(days=9), "late": late}
        store.command(
            "INSERT INTO ingest_batches (batch, record_type, ingested_at) SELECT {late:UInt64}, 'events', "
            "{at:DateTime64(3, 'UTC')}",
            ago,
        )
    else:
        store.command("TRUNCATE TABLE recent_batches")
    assert not reads_everything(store)
    close(store, END, AFTER)
    check_as_whole(store)
    assert ("late", 1.25) in held(store)
    close(store, END, AFTER)
    assert not reads_everything(store)


def test_an_end_that_makes_a_refused_claim_count_is_heard_by_those_who_held_the_device_meanwhile(empty: Store) -> None:
    """Its first end was older than its start. What it held ends before the horizon for everybody else."""
    store = mostly_over(without_the_dead(empty))
    backwards = run_of("backwards", 40, 30)
    put(store, "events", [*backwards, *run_of("meanwhile", 41, 50), *run_of("after", 60, 70)])
    close(store, END, AFTER)
    assert {"backwards"}.isdisjoint(dict(held(store)))
    put(store, "events", [{**backwards[1], "ts": instant(DAYS * 24 - 12)}])
    assert not reads_everything(store)
    close(store, END, AFTER)
    check_as_whole(store)
    assert held(store) == [("backwards", 68.0), ("new", 3.0), ("old", 3.0)]


@pytest.mark.parametrize("what", ["its end", "a start elsewhere", "a late sample", "nothing"])
def test_a_lost_end_is_settled_until_something_is_heard_of_it(empty: Store, what: str) -> None:
    """Else closes would get dearer with every end that was ever lost."""
    store = mostly_over(without_the_dead(empty))
    put(store, "devices", [{"ts": START, "cluster": "c", "device_id": "d1", "node": "n", "units": 1,
                            "state": "available", "model": "H100"}])  # fmt: skip
    sample = {"cluster": "c", "device_id": "d0", "workload_id": "open", "state": "ok", "utilization": 0.5,
              "interval_seconds": 60.0}  # fmt: skip
    put(store, "samples", [{**sample, "ts": instant(21)}])
    put(store, "events", [*run_of("open", 20, None), *run_of("next", 24, 26), *run_of("after", 60, 70)])
    close(store, END, AFTER)
    hours = {"old": 3.0, "new": 3.0, "open": 1.0, "next": 2.0, "after": 10.0}
    assert dict(held(store)) == hours
    for _ in range(2):
        assert store.value("SELECT argMax(length(carried), run) AS still FROM close_carried") == 1, "of new alone"
        close(store, END, AFTER)
    if what == "its end":
        put(store, "events", [run_of("open", 20, DAYS * 24 - 12)[1]])
        hours = {"old": 3.0, "new": 3.0, "open": 88.0}
    elif what == "a start elsewhere":
        put(store, "events", [{**run_of("open", DAYS * 24 - 2, None)[0], "device_id": "d1"}])
        hours["open"] += 2.0
    elif what == "a late sample":
        put(store, "samples", [{**sample, "ts": instant(22.5)}])
        hours["open"] += 1.5
    assert not reads_everything(store)
    close(store, END, AFTER)
    check_as_whole(store)
    assert dict(held(store)) == hours


def test_who_gave_way_by_a_second_is_settled_until_something_is_heard_of_it(empty: Store) -> None:
    """As of every job of a scheduler that stamps whole seconds and fills its devices at once."""
    store = mostly_over(without_the_dead(empty))
    second = 1 / 3600
    jobs = [run_of(f"j{number}", 20 + number, 21 + number + second) for number in range(5)]
    put(store, "events", [row for job in jobs for row in job])
    close(store, END, AFTER)
    assert store.value("SELECT argMax(length(carried), run) AS still FROM close_carried") == 1, "of new alone"
    put(store, "events", run_of("j2", DAYS * 24 - 9, DAYS * 24 - 8))
    assert not reads_everything(store)
    close(store, END, AFTER)
    check_as_whole(store)
    hours = {name: round(held_for, 6) for name, held_for in held(store)}
    assert hours["j1"] == 1.0 and hours["j2"] == 2.0 and hours["j4"] == round(1 + second, 6)


REVIVALS: dict[str, tuple[str, dict[str, Any], dict[str, float]]] = {
    "who was refused starts again": (
        "events",
        {**run_of("refused", DAYS * 24 - 2, None)[0], "device_id": "d1"},
        {"holder": 8.0, "refused": 2.0},
    ),
    "who was in the way ended earlier": (
        "events",
        run_of("holder", 20, 23)[1],
        {"holder": 3.0, "refused": 2.0},
    ),
    "the device had more room": (
        "devices",
        {
            "ts": instant(10),
            "cluster": "c",
            "device_id": "d0",
            "node": "n",
            "units": 2,
            "state": "available",
            "model": "H100",
        },
        {"holder": 8.0, "refused": 2.0, "new": 6.0},
    ),
}


@pytest.mark.parametrize("what", REVIVALS)
def test_a_dispute_that_is_over_is_decided_again_only_where_a_new_fact_may_change_it(empty: Store, what: str) -> None:
    store = mostly_over(without_the_dead(empty))
    kind, fact, hours = REVIVALS[what]
    put(store, "devices", [{"ts": START, "cluster": "c", "device_id": "d1", "node": "n", "units": 1,
                            "state": "available", "model": "H100"}])  # fmt: skip
    disputed = [*run_of("holder", 20, 28), *run_of("refused", 24, 26)]
    put(store, "events", [{**row, "units": 1} for row in disputed])
    close(store, END, AFTER)
    check_as_whole(store)
    assert dict(held(store)) == {"old": 3.0, "new": 3.0, "holder": 8.0}
    assert store.value("SELECT argMax(length(carried), run) AS still FROM close_carried") == 1, "of new alone"
    for _ in range(2):
        close(store, END, AFTER)
        assert store.value("SELECT count() AS refused FROM refused_claims") == 1
    put(store, kind, [fact])
    assert not reads_everything(store)
    close(store, END, AFTER)
    check_as_whole(store)
    assert dict(held(store)) == {"old": 3.0, "new": 3.0} | hours


def test_deleted_events_are_noticed_although_nothing_new_was_reported(empty: Store) -> None:
    store = mostly_over(without_the_dead(empty))
    store.command("ALTER TABLE events DELETE WHERE allocation_id = 'old' SETTINGS mutations_sync = 2")
    assert reads_everything(store)
    report = close(store, END, AFTER)
    assert report.changed == 3
    check_as_whole(store)
    assert held(store) == [("new", 3.0)]


def test_another_price_is_computed_without_reading_events_again(empty: Store) -> None:
    store = mostly_over(without_the_dead(empty))
    rate = {
        "sku": "big",
        "match": {"model": "H100"},
        "price_per_gpu_hour": "2",
        "effective_from": instant(3).isoformat(),
        "effective_to": instant(4).isoformat(),
    }
    apply_rate_card(store, parse_rate_card({"currency": "EUR", "rates": [rate]}), "me", "", AFTER)
    assert not reads_everything(store)
    report = close(store, END, AFTER)
    assert report.changed == 1
    check_as_whole(store)


@pytest.mark.parametrize("what", ["mapping", "hours", "allocations", "refused_claims", "close"])
def test_everything_is_read_again_where_the_books_are_not_as_a_close_left_them(empty: Store, what: str) -> None:
    store = mostly_over(without_the_dead(empty))
    if what == "mapping":
        apply_mapping(
            store, parse_mapping({"rules": [{"match": {"tenant": "phys"}, "tenant": "bio"}]}), "me", "", AFTER
        )
    elif what == "hours":
        store.command(
            "ALTER TABLE closed_hours DELETE WHERE hour = {hour:DateTime64(3, 'UTC')} SETTINGS mutations_sync = 2",
            {"hour": instant(3)},
        )
    elif what == "refused_claims":
        store.command("INSERT INTO refused_claims (reason, allocation_id) SELECT 'ends_before_it_starts', 'other'")
    elif what == "allocations":
        store.command("ALTER TABLE allocations DELETE WHERE allocation_id = 'old' SETTINGS mutations_sync = 2")
    else:
        with dying(store, 12, True) as kill:
            put(store, "events", run_of("late", 6.25, 7.5))
            close(store, END, AFTER)
        assert kill.came
        store.command(
            "INSERT INTO close_batches (run, follows, batches) SELECT max(run) + 1, max(run), [] FROM close_batches"
        )
    assert reads_everything(store)
    close(store, END, AFTER)
    assert not reads_everything(store)
    check_as_whole(store)
    assert ("old", 3.0) in held(store)


@seldom(3, "facts that come bit by bit")
@pytest.mark.parametrize("seed", SEEDS)
def test_facts_that_come_bit_by_bit_are_carried_from_close_to_close(
    empty: Store, seed: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    dice = dice_of(seed)
    monkeypatch.setattr(facts, "MARGIN", dice.choice((facts.MARGIN, timedelta(0))))
    store = without_the_dead(empty)
    closings = sorted(dice.uniform(6, DAYS * 24) for _ in range(dice.randrange(5, 10)))
    closings += [DAYS * 24.0] * 2
    rows = deliveries(dice, closings)
    quick = killed = 0
    for number, until in enumerate(closings):
        come: dict[str, list[dict[str, Any]]] = defaultdict(list)
        for delivery, kind, row in rows:
            if delivery == number:
                come[kind].append(row)
        for kind, some in come.items():
            put(store, kind, some)
        if dice.random() < 0.25:
            apply_rate_card(store, parse_rate_card(card(dice)), "me", "", AFTER)
        if dice.random() < 0.08:
            rules = [
                {
                    "match": {"tenant": "phys"},
                    "tenant": dice.choice(("bio", "geo")),
                    "effective_from": instant(until / 2).isoformat(),
                }
            ]
            apply_mapping(store, parse_mapping({"rules": rules}), "me", "", AFTER)
        if dice.random() < 0.15:
            with dying(store, dice.randrange(1, 70), dice.random() < 0.5) as kill:
                close(store, instant(until), AFTER)
            killed += kill.came
        quick += not reads_everything(store)
        close(store, instant(until), AFTER)
        check_as_whole(store)
    print(f"{quick} of {len(closings)} closes read what was new alone; {killed} were killed before")
    assert quick
    bit_by_bit = closed_books(store)
    for table in ("closed_hours", "close_carried", "ledger_entries", "energy_entries"):
        store.command(f"TRUNCATE TABLE {store.altered(table)}")
    close(store, END, AFTER)
    assert closed_books(store) == bit_by_bit
