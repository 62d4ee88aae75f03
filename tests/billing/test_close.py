"""The close: cases that a random fleet does not make."""

from __future__ import annotations

import os
import time
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from billing.close import close, hours
from billing.close.resolve import FOREVER, Claim, DeviceState, resolve
from billing.verify import verify
from tests.draws import seldom
from warehouse.errors import LedgerError
from warehouse.store import EmbeddedStore, Store

DAY = datetime(2026, 10, 1, tzinfo=UTC)
HOUR = 3_600_000
START = 1_790_812_800_000  # 2026-10-01T00:00Z


def at(hour: float) -> datetime:
    return datetime.fromtimestamp(START / 1000 + hour * 3600, UTC)


def put(store: Store, table: str, rows: list[dict[str, Any]], batch: int = 1, whole: bool = True) -> None:
    """Rows with ts as hours of the day, other columns as they are. whole: the batch is acknowledged."""
    names = [name for name in dict.fromkeys(key for row in rows for key in row) if name != "ts"]
    columns: dict[str, Any] = {
        "ts": pa.array([START + round(row["ts"] * HOUR) for row in rows], pa.timestamp("ms", "UTC")),
        **{name: [row.get(name) for row in rows] for name in names},
        "batch": pa.array([batch] * len(rows), pa.uint64()),
    }
    store.insert(table, pa.table(columns))
    if whole:
        acknowledge(store, table, batch)


def acknowledge(store: Store, table: str, batch: int) -> None:
    about = {"batch": batch, "table": table}
    store.command("INSERT INTO ingest_batches (batch, record_type) SELECT {batch:UInt64}, {table:String}", about)


def device(name: str, units: int = 1, hour: float = 0, **more: Any) -> dict[str, Any]:
    return {"ts": hour, "device_id": name, "node": "n1", "model": "L4", "state": "available", "units": units, **more}


def event(hour: float, name: str, kind: str, **more: Any) -> dict[str, Any]:
    return {"ts": hour, "allocation_id": name, "workload_id": f"w-{name}", "event": kind, "tenant": "t", **more}


def sample(hour: float, name: str, utilization: float, workload: str = "") -> dict[str, Any]:
    return {
        "ts": hour,
        "interval_seconds": 3600.0,
        "device_id": name,
        "workload_id": workload,
        "state": "ok",
        "utilization": utilization,
    }


def held(store: Store) -> dict[tuple[str, str], float]:
    """Hours held by allocation and device."""
    rows = store.rows(
        "SELECT allocation_id, device_id, "
        "sum(toFloat64(used_unit_ms + idle_unit_ms + unmetered_unit_ms) / device_units) / 3600000 AS hours "
        "FROM ledger WHERE allocation_id != '' GROUP BY 1, 2 ORDER BY 1, 2"
    )
    return {(row["allocation_id"], row["device_id"]): round(row["hours"], 6) for row in rows}


def test_a_lost_end_is_the_last_time_the_workload_was_seen(store: Store) -> None:
    """Its own samples stop a day before the device's do."""
    put(store, "devices", [device("g")])
    put(store, "events", [event(1, "a", "started", device_id="g", node="n1", gpus=1.0)])
    put(store, "samples", [sample(hour, "g", 0.5, "w-a") for hour in (2, 3, 5)])
    put(store, "samples", [sample(hour, "g", 0.5) for hour in (2, 4, 30)], batch=2)
    close(store, at(34), at(40))
    assert held(store) == {("a", "g"): 4}


def test_where_only_the_node_is_known_the_workloads_samples_name_the_device(store: Store) -> None:
    put(store, "devices", [device("GPU-0"), device("GPU-1"), device("GPU-2"), device("GPU-9", node="n2")])
    put(
        store,
        "events",
        [
            event(1, "a", "started", node="n1", device_id="", gpus=2.0),
            event(3, "a", "finished", node="", device_id="", gpus=None),
            event(2, "b", "started", node="n1", device_id="GPU-0", gpus=1.0),
            event(4, "b", "finished", node="", device_id="", gpus=None),
        ],
    )
    put(store, "samples", [sample(2, "GPU-2", 0.5, "w-a")])
    close(store, until=at(6))
    # GPU-2 by name; GPU-0 is somebody's from 02:00, so GPU-1 is assumed.
    assert held(store) == {("a", "GPU-1"): 2, ("a", "GPU-2"): 2, ("b", "GPU-0"): 2}
    estimated = store.rows(
        "SELECT DISTINCT device_id, estimated != '' AS guessed FROM ledger WHERE allocation_id = 'a'"
    )
    assert sorted((row["device_id"], row["guessed"]) for row in estimated) == [("GPU-1", 1), ("GPU-2", 0)]
    assert store.value("SELECT sum(toFloat64(used_unit_ms)) / 3600000 AS used FROM ledger") == 0.5
    assert verify(store).balanced


def test_what_no_device_of_the_node_can_hold_is_refused_and_units_left_out_are_all_that_the_device_has(
    store: Store,
) -> None:
    put(store, "devices", [device("GPU-0"), device("GPU-7", units=7, node="n7")])
    put(store, "events", [event(1, "a", "started", node="n1", gpus=3.0), event(2, "a", "failed", node="", gpus=None)])
    left_out = [event(1, "b", "started", device_id="GPU-7"), event(2, "b", "finished", device_id="")]
    put(store, "events", left_out, batch=2)
    close(store, until=at(3))
    assert held(store) == {("a", "GPU-0"): 1, ("b", "GPU-7"): 1}
    (left,) = store.rows("SELECT closed_until, horizon FROM close_carried")
    assert (left["closed_until"], left["horizon"]) == (at(3), at(3 - 24))
    assert store.rows("SELECT allocation_id, reason, detail FROM refused_claims") == [
        {
            "allocation_id": "a",
            "reason": "no_free_device",
            "detail": "node n1 has no free device for 2 of 3 GPUs",
        }
    ]


def test_more_devices_than_any_node_has_are_refused_at_once(store: Store) -> None:
    """Kubernetes 1.20 binds a pod that asks for the most that 64 bits hold."""
    put(store, "devices", [device("GPU-0"), device("GPU-1")])
    put(store, "events", [
        event(1, "a", "started", node="n1", gpus=float((1 << 63) - 1)), event(4, "a", "failed", node="", gpus=None),
    ])  # fmt: skip
    others = [event(0, "b", "started", device_id="GPU-1"), event(2, "b", "finished", device_id="")]
    put(store, "events", others, batch=2)
    close(store, until=at(5))
    assert held(store) == {("a", "GPU-0"): 3, ("a", "GPU-1"): 2, ("b", "GPU-1"): 2}
    refused = store.rows("SELECT detail FROM refused_claims ORDER BY start_at")
    assert [one["detail"].partition(" for ")[2] for one in refused] == [
        f"{(1 << 63) - 1} of 9.22337e+18 GPUs", f"{(1 << 63) - 2} of 9.22337e+18 GPUs",
    ]  # fmt: skip


def test_a_batch_completed_after_a_close_reopens_its_hours(store: Store) -> None:
    put(store, "devices", [device("GPU-0")])
    put(store, "events", [event(0, "a", "started", device_id="GPU-0"), event(3, "a", "finished", device_id="")])
    # The sender was killed before the second row: what it left counts once it is whole.
    put(store, "samples", [sample(1, "GPU-0", 1.0)], batch=7, whole=False)
    assert close(store, until=at(3)).changed == 3
    put(store, "samples", [sample(2, "GPU-0", 1.0)], batch=7)
    assert close(store, until=at(3)).changed == 2
    assert store.value("SELECT sum(toFloat64(used_unit_ms)) / 3600000 AS used FROM ledger") == 2.0


def test_a_workload_with_two_shares_of_a_device_uses_them_together(store: Store) -> None:
    put(store, "devices", [device("GPU-0", units=4)])
    rows = []
    for name, units in (("a", 1), ("b", 2)):
        rows += [event(0, name, "started", device_id="GPU-0", units=units), event(1, name, "finished", device_id="")]
    for row in rows:
        row["workload_id"] = "w"
    put(store, "events", rows)
    put(store, "samples", [sample(1, "GPU-0", 0.5, "w")])
    close(store, until=at(1))
    used = store.rows(
        "SELECT allocation_id, toFloat64(sum(used_unit_ms)) / 3600000 AS units FROM ledger GROUP BY 1 ORDER BY 1"
    )
    # Half of four units, in proportion to what each holds.
    assert {row["allocation_id"]: round(row["units"], 6) for row in used} == {"": 0, "a": 0.666667, "b": 1.333333}


def test_use_beyond_what_is_held_is_cut_to_it_to_the_last_digit(store: Store) -> None:
    """A quarter of a device is held. Its own samples speak of the whole device, each over an hour's end."""
    put(store, "devices", [device("GPU-0", 4), device("GPU-1", 4)])
    put(
        store,
        "events",
        [event(0, name, "started", device_id=on, units=1) for name, on in (("a", "GPU-0"), ("b", "GPU-1"))],
    )
    rows = [
        sample(n + 0.5, on, use, f"w-{name}")
        for n in range(4)
        for name, on, use in (("a", "GPU-0", 1.0), ("b", "GPU-1", 0.2))
    ]
    put(store, "samples", rows)
    close(store, until=at(3))
    sums = "sum(used_unit_ms) AS used, min(idle_unit_ms) AS idle, sum(unmetered_unit_ms) AS unmetered"
    assert store.rows(f"SELECT device_id, {sums} FROM ledger WHERE allocation_id != '' GROUP BY 1 ORDER BY 1") == [
        {"device_id": "GPU-0", "used": 3 * HOUR, "idle": 0, "unmetered": 0},
        {"device_id": "GPU-1", "used": 3 * HOUR * Decimal("0.8"), "idle": HOUR * Decimal("0.2"), "unmetered": 0},
    ]


def test_an_hour_that_is_computed_again_and_comes_out_the_same_is_not_written_again(store: Store) -> None:
    put(store, "devices", [device("GPU-0")])
    put(store, "events", [event(0, "a", "started", device_id="GPU-0"), event(3, "a", "finished")])
    put(store, "samples", [sample(n + 1, "GPU-0", 0.5) for n in range(3)])
    first = close(store, until=at(3))
    put(store, "samples", [sample(2, "GPU-9", 0.5)], batch=2)
    again = close(store, until=at(3))
    assert (again.checked > 0, again.changed) == (True, 0)
    assert store.value("SELECT max(run) AS run FROM ledger") == first.run


def test_what_a_killed_close_left_is_dropped_after_a_day_and_nothing_else(own_store: Store) -> None:
    store = own_store
    put(store, "devices", [device("GPU-0")])
    assert isinstance(store, EmbeddedStore) and store.path is not None
    tables = {"close_77_claims": 2, "close_78_claims": 0, "closely": 2}  # how many days ago it was made
    for name, days in tables.items():
        store.command(f"CREATE TABLE {name} (a UInt8) ENGINE = Memory")
        (made,) = store.path.glob(f"engine/store/*/*/{name}.sql")
        os.utime(made, (time.time() - 86_400 * days,) * 2)
    close(store, until=at(1))
    left = [row["name"] for row in store.rows("SELECT name FROM system.tables WHERE name LIKE 'close%' ORDER BY name")]
    for name in tables:
        store.command(f"DROP TABLE IF EXISTS {name}")
    assert [name for name in left if name in tables] == ["close_78_claims", "closely"]


@given(st.lists(st.integers(1, 30), min_size=2, max_size=30), st.integers(1, 40), st.integers(0, 100))
def test_portions_are_the_hours_in_order_and_none_is_heavier_than_memory_allows(
    weights: list[int], most: int, small: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(hours, "PORTION_WEIGHT", most)
        patch.setattr(hours, "SMALL_WEIGHT", small)
        found = hours.portions([hours.Hour(number, 0, weight) for number, weight in enumerate(weights)])
    assert [hour.hour for portion in found for hour in portion] == list(range(len(weights)))
    assert all(found)
    assert (len(found) > 1) == (sum(weights) > small), "two are worked on at a time"
    if sum(weights) > small:
        assert max(sum(hour.weight for hour in portion) for portion in found) <= most + max(weights)


@seldom(6, "a close in many portions is the")
def test_a_close_in_many_portions_is_the_same_close(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each hour is a portion, and two are worked on at a time."""
    monkeypatch.setattr(hours, "PORTION_WEIGHT", 1)
    monkeypatch.setattr(hours, "SMALL_WEIGHT", 0)
    put(store, "devices", [device("GPU-0")])
    put(store, "events", [event(0.5, "a", "started", device_id="GPU-0"), event(4.25, "a", "finished")])
    put(store, "samples", [sample(n + 1, "GPU-0", 0.5) for n in range(5)])
    report = close(store, until=at(5))
    assert (report.checked, report.changed) == (5, 5)
    assert held(store) == {("a", "GPU-0"): 3.75}
    assert store.value("SELECT sum(used_unit_ms) AS used FROM ledger") == 3.75 * HOUR / 2
    assert verify(store).balanced


def test_of_two_states_reported_for_one_instant_the_worse_counts_in_either_order(store: Store) -> None:
    reported = {"GPU-0": ("available", "unavailable"), "GPU-1": ("unavailable", "available")}
    for batch in (0, 1):
        put(store, "devices", [device(name, state=states[batch]) for name, states in reported.items()], batch + 1)
    put(store, "devices", [device(name, hour=1) for name in reported], batch=3)
    put(store, "events", [event(0, name, "started", device_id=name) for name in reported])
    put(store, "events", [event(3, name, "finished") for name in reported], batch=2)
    close(store, at(3), at(48))
    rows = store.rows(
        "SELECT sum(unavailable_unit_ms) AS unavailable, sum(unmetered_unit_ms) AS held FROM ledger GROUP BY device_id"
    )
    assert rows == [{"unavailable": HOUR, "held": 2 * HOUR}] * 2


def test_a_restart_in_the_millisecond_of_its_own_end_goes_on_and_a_job_of_no_length_does_not(store: Store) -> None:
    """a: an hour, and two more from the instant on at which the first ended. b: ended as it started."""
    put(store, "devices", [device("GPU-0"), device("GPU-1")])
    lives = [("a", 0, "started"), ("a", 1, "finished"), ("a", 1, "started"), ("a", 3, "finished"),
             ("b", 1, "started"), ("b", 1, "finished")]  # fmt: skip
    on = {"a": "GPU-0", "b": "GPU-1"}
    put(store, "events", [event(hour, name, kind, device_id=on[name] if kind == "started" else "")
                          for name, hour, kind in lives])  # fmt: skip
    close(store, at(4), at(48))
    assert held(store) == {("a", "GPU-0"): 3.0}


def test_a_start_and_a_resize_of_one_millisecond_are_both_replaced_by_the_next_start(store: Store) -> None:
    """One unit of four for an hour, then two for another: of many, since which of the two comes first is anybody's."""
    names = [f"{number}" for number in range(40)]
    put(store, "devices", [device(f"GPU-{name}", units=4) for name in names])
    lives = [(0, "started", 1), (0, "resized", 1), (1, "started", 2), (2, "finished", None)]
    put(store, "events", [event(hour, name, kind, units=units, device_id=f"GPU-{name}" if units else "")
                          for name in names for hour, kind, units in lives])  # fmt: skip
    close(store, at(3), at(48))
    assert held(store) == {(name, f"GPU-{name}"): 0.75 for name in names}


@pytest.mark.parametrize("until", [datetime(2026, 10, 1), datetime(2999, 1, 1, tzinfo=UTC)])  # noqa: DTZ001
def test_a_close_needs_an_instant_that_has_been(store: Store, until: datetime) -> None:
    with pytest.raises(LedgerError, match=r"time zone|in the future"):
        close(store, until=until)


def test_the_present_instant_can_be_closed_until_and_a_close_with_nothing_to_do_leaves_no_record(store: Store) -> None:
    put(store, "devices", [device("GPU-0")])
    assert close(store, until=at(2), now=at(2)).closed_until == at(2)
    close(store, until=at(2), now=at(2))
    assert store.value("SELECT count() AS n FROM close_runs") == 1
    with pytest.raises(LedgerError, match="in the future"):
        close(store, until=at(2) + timedelta(milliseconds=1), now=at(2))


def test_time_in_which_no_device_is_there_can_be_closed(store: Store) -> None:
    """Else its month could never be issued, and what comes late for the months before never billed."""
    put(store, "devices", [device("GPU-0"), device("GPU-0", hour=2, state="removed")])
    for until in (at(2), at(800), at(800)):
        assert close(store, until=until, now=at(900)).closed_until == until
        assert store.value("SELECT max(closed_until) AS last FROM close_runs") == until
    assert store.value("SELECT count() AS n FROM close_runs") == 2
    assert verify(store).balanced


@pytest.mark.parametrize("until", [None, at(3)])
def test_a_late_fact_changes_all_that_is_closed_also_past_the_last_fact(store: Store, until: datetime | None) -> None:
    put(store, "devices", [device("GPU-0")])
    close(store, until=at(10))
    put(store, "events", [event(1, "j", "started", device_id="GPU-0")], batch=2)
    assert close(store, until=until).closed_until == at(10)
    assert held(store) == {("j", "GPU-0"): 9.0}
    assert verify(store).balanced


def test_what_a_start_leaves_out_is_what_the_allocations_other_events_say(store: Store) -> None:
    """Of several names the first in order, of numbers the greatest, and preemptible if one of them says so."""
    names = ("tenant", "project", "queue", "workload_id")
    others = [
        {**dict.fromkeys(names, "b"), "preemptible": False, "gpus": 1.0, "priority": 10},
        {**dict.fromkeys(names, "a"), "preemptible": True, "gpus": 2.0, "priority": 5},
        {**dict.fromkeys(names, ""), "preemptible": None, "gpus": None, "priority": None},
    ]
    put(store, "devices", [device("GPU-0"), device("GPU-1"), device("GPU-2")])
    put(
        store,
        "events",
        [
            event(0, "j", "submitted", **others[0]),
            event(1, "j", "started", node="n1", **others[2]),
            event(2, "j", "finished", **others[1]),
        ],
    )
    close(store, until=at(3))
    assert sum(held(store).values()) == 2
    columns = "tenant, project, queue, workload_id, preemptible, priority"
    assert store.rows(f"SELECT DISTINCT {columns} FROM ledger WHERE allocation_id = 'j'") == [
        {**dict.fromkeys(names, "a"), "preemptible": True, "priority": 10}
    ]


def test_what_a_start_says_counts_whatever_the_allocations_other_events_say(store: Store) -> None:
    names = ("tenant", "project", "queue", "workload_id")
    put(store, "devices", [device("GPU-0"), device("GPU-1")])
    put(
        store,
        "events",
        [
            event(0, "j", "submitted", **{**dict.fromkeys(names, "a"), "gpus": 2.0, "priority": 10}),
            event(1, "j", "started", node="n1", **{**dict.fromkeys(names, "b"), "gpus": 1.0, "priority": 5}),
            event(2, "j", "finished"),
        ],
    )
    close(store, until=at(3))
    assert sum(held(store).values()) == 1
    columns = "tenant, project, queue, workload_id, priority"
    assert store.rows(f"SELECT DISTINCT {columns} FROM ledger WHERE allocation_id = 'j'") == [
        {**dict.fromkeys(names, "b"), "priority": 5}
    ]


def test_nothing_to_close_is_no_error(store: Store) -> None:
    assert close(store).closed_until is None


def test_a_share_ends_where_its_device_comes_to_have_fewer_units(store: Store) -> None:
    put(store, "devices", [device("GPU-0", units=7), device("GPU-0", units=2, hour=3)])
    put(
        store,
        "events",
        [
            event(0, "a", "started", device_id="GPU-0", units=2),
            event(1, "b", "started", device_id="GPU-0", units=4),
            event(5, "a", "finished", device_id=""),
            event(5, "b", "finished", device_id=""),
        ],
    )
    close(store, until=at(6))
    assert held(store) == {("a", "GPU-0"): round(3 * 2 / 7 + 2, 6), ("b", "GPU-0"): round(2 * 4 / 7, 6)}
    assert store.rows("SELECT allocation_id, toHour(start_at) AS hour, detail FROM refused_claims") == [
        {"allocation_id": "b", "hour": 3, "detail": "the device has 2 units from then on"}
    ]
    assert verify(store).balanced


def test_a_whole_device_that_comes_to_have_fewer_units_is_held_no_further(store: Store) -> None:
    """As found: who held all of it, alone, went on with 7 of 1 units, and the rest of the device was minus 6."""
    for name, hour in (("GPU-0", 0), ("GPU-1", 2)):
        put(store, "devices", [device(name, hour=hour, units=7), device(name, hour=3, units=1)])
    put(store, "events", [event(1, "a", "started", device_id="GPU-0"), event(1, "b", "started", device_id="GPU-1")])
    close(store, until=at(6))
    assert held(store) == {("a", "GPU-0"): 2.0, ("b", "GPU-1"): 1.0}
    assert store.rows("SELECT allocation_id, toHour(start_at) AS hour FROM refused_claims ORDER BY 1") == [
        {"allocation_id": "a", "hour": 3}, {"allocation_id": "b", "hour": 3},
    ]  # fmt: skip
    assert verify(store).balanced


# --- the decision alone ---------------------------------------------------------------------------------------------


def claim(name: str, start: int, end: int = FOREVER, units: int = 1, partition: str = "") -> Claim:
    return Claim(hash(name) % 1000, "c", name, name, "t", "n", "d", partition, units, 1.0, start, end)


STATES = [DeviceState("c", "d", "n", 4, 0, FOREVER)]


def test_first_come_first_served_and_refused_whole() -> None:
    resolution = resolve(
        [claim("late", 5, 20, units=2), claim("early", 0, 10, units=3), claim("after", 10, 20, units=4)],
        STATES,
        lambda *_: None,
        {},
    )
    assert [kept.allocation_id for kept in resolution.kept] == ["early", "after"]
    assert [(refused.claim.allocation_id, refused.reason) for refused in resolution.refused] == [
        ("late", "units_already_claimed")
    ]


def test_an_open_claim_ends_when_its_workload_was_last_seen() -> None:
    resolution = resolve([claim("open", 0, units=4), claim("next", 50, 60, units=4)], STATES, lambda *_: 30, {})
    assert [(kept.allocation_id, kept.end_ms, bool(kept.estimated)) for kept in resolution.kept] == [
        ("open", 30, True),
        ("next", 60, False),
    ]


def test_an_open_claim_in_the_way_that_was_never_seen_ends_where_it_started() -> None:
    resolution = resolve([claim("open", 0, units=4), claim("next", 50, 60, units=4)], STATES, lambda *_: None, {})
    assert resolution.kept[0].end_ms == 0


def test_an_open_claim_stays_if_the_next_would_not_fit_even_without_it() -> None:
    resolution = resolve(
        [claim("bounded", 0, 99, units=2), claim("open", 10, units=1), claim("next", 50, 60, units=3)],
        STATES,
        lambda *_: 30,
        {},
    )
    assert [(kept.allocation_id, kept.end_ms) for kept in resolution.kept] == [("bounded", 99), ("open", FOREVER)]
    assert [refused.claim.allocation_id for refused in resolution.refused] == ["next"]


def test_more_units_than_the_device_has_are_refused() -> None:
    (refused,) = resolve([claim("a", 0, 1, units=5)], STATES, lambda *_: None, {}).refused
    assert (refused.reason, refused.detail) == ("more_units_than_device", "claims 5 of 4 units")


def test_a_partition_has_one_holder() -> None:
    resolution = resolve(
        [
            claim("a", 0, 10, partition="MIG-1"),
            claim("b", 5, 10, partition="MIG-1"),
            claim("c", 5, 10, partition="MIG-2"),
        ],
        STATES,
        lambda *_: None,
        {},
    )
    assert [kept.allocation_id for kept in resolution.kept] == ["a", "c"]


def test_an_allocation_that_is_still_held_can_be_read_by_any_client(store: Store) -> None:
    """Clients read what stands beneath a NULL, too; it must be a time."""
    put(store, "devices", [device("g")])
    put(store, "events", [event(1, "a", "started", device_id="g", node="n1", units=1)])
    close(store, until=at(5), now=at(5))
    (row,) = store.rows("SELECT allocation_id, end_at, held_seconds FROM v_allocations")
    assert row == {"allocation_id": "a", "end_at": None, "held_seconds": None}


def test_of_what_is_placed_in_one_millisecond_a_resize_counts_before_a_resumption_and_that_before_a_start(
    store: Store,
) -> None:
    """And alone, whatever device it names. Each combination on devices of its own, with other units a kind."""
    units = {"started": 1, "resumed": 2, "resized": 4}
    rows, expected = [], {}
    for kinds in (("started", "resumed"), ("resumed", "resized"), ("started", "resized"), tuple(units)):
        for apart in (False, True):
            name = f"{'-'.join(kinds)}-{apart}"
            put_on = {kind: f"{name}-{kind if apart else 'all'}" for kind in units}
            put(store, "devices", [device(one, units=7) for one in sorted(set(put_on.values()))])
            rows += [event(0, name, "started", device_id=put_on["started"], units=7), event(1, name, "suspended")]
            rows += [event(2, name, kind, device_id=put_on[kind], units=units[kind]) for kind in kinds]
            rows += [event(3, name, "finished")]
            expected[name] = {(put_on["started"], 0, 7), (put_on[kinds[-1]], 2, units[kinds[-1]])}
    put(store, "events", rows)
    close(store, at(4), at(48))
    found = store.rows("SELECT allocation_id, device_id, start_at, units FROM allocations")
    assert len(found) == 2 * len(expected)
    for name, held_then in expected.items():
        of_it = [row for row in found if row["allocation_id"] == name]
        assert {(row["device_id"], (row["start_at"] - at(0)) / timedelta(hours=1), row["units"]) for row in of_it} == (
            held_then
        )
    assert verify(store).balanced


@seldom(6, "hours summed anew in many spans are the")
def test_hours_summed_anew_one_by_one_have_the_use_of_all_their_samples(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Samples say an hour and come every 24 minutes, so each covers the time since the one before; the first after the
    last hour that is closed reaches back into it."""
    monkeypatch.setattr(hours, "ANEW_WEIGHT", 1)
    ran: list[str] = []
    command = EmbeddedStore.command

    def heard(self: Store, sql: str, params: Any = None, settings: Any = None) -> None:
        ran.extend(["anew"] if "what a stream reported in an hour, from its" in sql else [])
        command(self, sql, params, settings)

    monkeypatch.setattr(EmbeddedStore, "command", heard)
    put(store, "devices", [device("GPU-0")])
    put(store, "events", [event(0, "a", "started", device_id="GPU-0"), event(5, "a", "finished")])
    put(store, "samples", [sample(n * 0.4, "GPU-0", n / 20) for n in range(1, 15)])
    close(store, until=at(5))
    assert len(ran) > 1
    used = sum(Decimal(n) / 20 * Decimal("0.4") for n in range(1, 13)) + Decimal(13) / 20 * Decimal("0.2")
    assert store.value("SELECT sum(used_unit_ms) AS used FROM ledger") == used * 3_600_000
