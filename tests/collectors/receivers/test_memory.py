"""What outlives a server that takes pushes: units, devices, and that somebody has fallen silent."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest

from collectors.receivers import assembler
from collectors.receivers.assembler import Assembler
from tests.billing.facts import put
from tests.collectors.receivers.pushing import SENDERS, Given, Pushed, receiving, snappy, write_v1
from tests.collectors.receivers.test_remote_write import NOW, at, labels, samples, util
from tests.ingest.receiving import tokens_file
from tests.stores import emptied
from warehouse.store import Store

PERIOD = 15
SAMPLES_ALONE = "a token that tells samples"
MOVES = "a token that may move devices"
MORE = f"""  - {{name: samples, token: {SAMPLES_ALONE}, records: [samples], clusters: [c1], nodes: all}}
  - {{name: moves, token: {MOVES}, records: all, clusters: all, nodes: all, inventory: true}}
"""


@pytest.fixture(scope="module")
def running(shared_store: Store, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pushed]:
    with receiving(shared_store, tokens_file(tmp_path_factory.mktemp("tokens"), SENDERS + MORE)) as pushed:
        yield pushed


@pytest.fixture
def pushed(running: Pushed) -> Pushed:
    emptied(running.store)
    restart(running)
    return running


def restart(pushed: Pushed) -> None:
    """Another server over the store, which knows nothing but what is there, and has waited for the other's lease."""
    before, pushed.assembler = pushed.assembler, Assembler(pushed.receiver, pushed.log, 0.0, 0.0)
    pushed.assembler._mine = before._mine


def push(pushed: Pushed, *series: Given, **given: Any) -> None:
    assert pushed.write(snappy(write_v1(series)), **given).status_code == 204
    pushed.assemble()


def findings(store: Store, finding: str) -> list[dict[str, Any]]:
    sql = "SELECT DISTINCT ts, cluster, node, severity, message FROM findings"
    sql += " WHERE finding = {finding:String} ORDER BY ts"
    return store.rows(sql, {"finding": finding})


# --- units


def test_a_gpu_that_is_pegged_for_longer_than_is_read_again_keeps_its_unit(pushed: Pushed) -> None:
    """dcgm-exporter 4.9: 1.0 is all of it, not a hundredth, and nothing in the last twenty minutes says so."""
    last = 80 * PERIOD
    push(pushed, util([(0, 0.87), *((n * PERIOD, 1.0) for n in range(1, 80))]))
    restart(pushed)
    push(pushed, util([(last, 1.0)]))
    assert {row[2] for row in samples(pushed.store, "utilization")} == {0.87, 1.0}
    assert not findings(pushed.store, "unit_undecided")
    # As if nothing had been kept: it is left blank, and that is said.
    pushed.store.command("TRUNCATE TABLE pushed_memory")
    restart(pushed)
    push(pushed, util([(last + PERIOD, 1.0)]))
    assert samples(pushed.store, "state, utilization")[-1][2:] == ("blank", None)
    (reported,) = findings(pushed.store, "unit_undecided")
    assert reported["node"] == "n1" and "DCGM_FI_DEV_GPU_UTIL" in reported["message"]


@pytest.mark.parametrize("restarted", [False, True])
def test_an_exporter_that_was_away_is_not_believed_until_it_shows_its_unit_again(
    pushed: Pushed, restarted: bool
) -> None:
    push(pushed, util([(0, 57), (PERIOD, 2), (2 * PERIOD, 1)]))
    if restarted:
        restart(pushed)
    push(pushed, util([(6 * PERIOD, 1), (7 * PERIOD, 0.5), (8 * PERIOD, 1)]))
    assert [row[2] for row in samples(pushed.store, "utilization")] == [0.57, 0.02, 0.01, None, 0.5, 1.0]
    (reported,) = findings(pushed.store, "unit_changed")
    assert "was percent, is ratio now" in reported["message"] and reported["severity"] == "warning"


def test_what_comes_late_from_before_a_change_of_unit_is_not_read_by_the_new_one(pushed: Pushed) -> None:
    both = [util([(0, 57), (PERIOD, 1), (2 * PERIOD, 0.5), (3 * PERIOD, 1)])]
    push(pushed, *both)
    push(pushed, util([(PERIOD, 1), (3 * PERIOD, 1)], "GPU-late"))
    reported = {(row[0], row[2]) for row in samples(pushed.store, "utilization") if row[1] == "GPU-late"}
    assert reported <= {(PERIOD, 0.01), (PERIOD, None), (3 * PERIOD, 1.0), (3 * PERIOD, None)}
    assert {one[0] for one in reported} == {PERIOD, 3 * PERIOD}


def test_random_fleets_pushed_through_restarts_are_right_or_blank_with_a_finding(pushed: Pushed) -> None:
    chance = random.Random(49)
    truth: dict[tuple[str, float], float] = {}
    fleet: dict[int, list[tuple[float, float]]] = {}
    for target in range(6):
        ratio, fleet[target] = target % 2 == 0, []
        for n in range(36):
            pegged = chance.choice((0, 100, 100) if ratio else (0, 1, 1))
            percent = chance.randrange(101) if chance.random() < 0.1 else pegged
            truth[f"GPU-{target}", n * PERIOD] = percent / 100
            fleet[target].append((n * PERIOD, percent / 100 if ratio else percent))
    for start in range(0, 36, 12):
        restart(pushed)
        series = {target: some[start : start + 12] for target, some in fleet.items()}
        push(pushed, *(util(some, f"GPU-{n}", instance=f"n{n}:9400") for n, some in series.items()))
    blanks = 0
    for second, device, state, value in samples(pushed.store, "state, utilization"):
        blanks += state == "blank"
        assert (state, value) in (("ok", truth[device, second]), ("blank", None)), (device, second)
    assert 0 < blanks < len(truth) / 2
    assert findings(pushed.store, "unit_undecided")


# --- devices


def devices(store: Store) -> list[tuple[Any, ...]]:
    sql = "SELECT device_id, node, model, vendor, toString(state) FROM devices WHERE node != '' ORDER BY ALL"
    return [tuple(row.values()) for row in store.rows(sql)]


def test_devices_are_reported_once_and_those_of_another_source_are_left_to_it(pushed: Pushed) -> None:
    known = {"cluster": "c1", "node": "n1", "model": "H100", "state": "available"}
    before = NOW - timedelta(hours=1)
    put(pushed.store, "devices", [{**known, "ts": before, "device_id": "GPU-agent", "units": 7}])
    removed = {**known, "ts": before, "device_id": "GPU-back"}
    put(pushed.store, "devices", [removed, {**removed, "ts": before + timedelta(minutes=1), "state": "removed"}])
    names = ("GPU-0", "GPU-1", "GPU-agent", "GPU-back")
    count = "SELECT device_id, count() AS many FROM devices WHERE ts > {since:DateTime64(3, 'UTC')} GROUP BY device_id"
    for n in range(3):
        push(pushed, *(util([(2 * n * PERIOD, 50), ((2 * n + 1) * PERIOD, 60)], name, cluster="c1") for name in names))
    reported = {
        row["device_id"]: row["many"] for row in pushed.store.rows(count, {"since": NOW - timedelta(minutes=1)})
    }
    assert reported == {"GPU-0": 1, "GPU-1": 1, "GPU-back": 1}
    assert ("GPU-0", "n1", "H100", "nvidia", "available") in devices(pushed.store)


def test_a_device_follows_its_measuring_source_once_the_agent_that_reported_it_is_gone(
    pushed: Pushed, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As found: it kept the node of an agent that was gone, for ever."""
    monkeypatch.setattr(assembler, "OTHERS_SECONDS", 0.0)
    reported = {"cluster": "c1", "node": "old", "model": "H100", "state": "available", "ts": NOW - timedelta(hours=9)}
    put(pushed.store, "devices", [{**reported, "device_id": f"GPU-{name}"} for name in ("alive", "gone", "file")])
    for name, hours in (("alive", 0), ("gone", 3)):
        measured = {"ts": NOW - timedelta(hours=hours), "interval_seconds": 10, "cluster": "c1", "node": "old"}
        measured |= {"device_id": f"GPU-{name}", "state": "ok", "utilization": 0.5}
        put(pushed.store, "samples", [measured])

    def nodes() -> dict[str, str]:
        sql = "SELECT device_id, argMax(node, ts) AS node FROM devices GROUP BY device_id"
        return {row["device_id"]: row["node"] for row in pushed.store.rows(sql)}

    names = ("GPU-alive", "GPU-gone", "GPU-file")
    push(pushed, *(util([(0, 50), (PERIOD, 60)], name, cluster="c1") for name in names), token=MOVES)
    assert nodes() == {"GPU-alive": "old", "GPU-gone": "n1", "GPU-file": "old"}
    # An hour later nobody but the metrics speaks of the other, and it need not be told anew.
    monkeypatch.setattr(assembler, "AGENT_GONE", timedelta())
    pushed.assembler.run(pushed.store, threading.Event())
    assert nodes() == {"GPU-alive": "n1", "GPU-gone": "n1", "GPU-file": "old"}


def test_a_device_that_its_nodes_others_outlive_is_removed(pushed: Pushed) -> None:
    push(pushed, *(util([(-7200, 50), (-7200 + PERIOD, 50)], f"GPU-{n}") for n in range(2)))
    for minutes in range(10, 91, 10):
        if minutes == 30:
            restart(pushed)  # its hour begins anew
        assert "removed" not in {row[-1] for row in devices(pushed.store)}
        push(pushed, util([(-7200 + 60 * minutes, 50)]))
    assert [row[0] for row in devices(pushed.store) if row[-1] == "removed"] == ["GPU-1"]


def test_a_sender_that_may_send_samples_alone_is_denied_nothing(pushed: Pushed) -> None:
    power = labels("DCGM_FI_DEV_POWER_USAGE"), [(at(0), 300.0), (at(PERIOD), 301.0)]
    push(pushed, util([(0, 1), (PERIOD, 60)]), power, token=SAMPLES_ALONE)
    pushed.receiver.tally.write()
    assert len(samples(pushed.store)) == 2
    for record in ("metrics", "findings", "devices"):
        assert pushed.store.value(f"SELECT count() FROM {record}") == 0
    denied = "SELECT record_type, outcome FROM sender_days WHERE sender = 'samples' AND outcome NOT IN ('stored', '')"
    assert pushed.store.rows(denied) == []


# --- silence


def test_a_silent_sender_is_reported_once_by_the_servers_clock(pushed: Pushed, monkeypatch: pytest.MonkeyPatch) -> None:
    def look() -> list[dict[str, Any]]:
        pushed.assembler.run(pushed.store, threading.Event())
        return findings(pushed.store, "source_unreachable")

    push(pushed, util([(0, 50), (PERIOD, 60)]))
    assert look() == []  # five minutes at least
    monkeypatch.setattr(assembler, "SILENT_SECONDS", 0.0)
    assert look() == []  # and five periods
    monkeypatch.setattr(assembler, "SILENT_PERIODS", 0)
    reported = look()
    assert len(reported) == 1 and reported[0]["node"] == "n1" and reported[0]["ts"] > NOW + timedelta(minutes=5)
    assert reported[0]["message"].startswith("prometheus dcgm n1:9400: nothing of it was pushed for")
    assert look() == reported
    restart(pushed)
    assert look() == reported
    assert len(samples(pushed.store)) == 2  # nothing is said of its devices
    monkeypatch.undo()
    push(pushed, util([(2 * PERIOD, 50)]))
    assert look() == reported
    monkeypatch.setattr(assembler, "SILENT_SECONDS", 0.0)
    monkeypatch.setattr(assembler, "SILENT_PERIODS", 0)
    assert len(look()) == 2
