"""In whatever order the shards of a Prometheus arrive, in how many pieces and through which restarts: the books are
those of one push that has everything. Targets do not answer, a Prometheus is killed and asks at another phase.

GPULEDGER_SCENES=20 tries more; GPULEDGER_SEED repeats one.
"""

from __future__ import annotations

import os
import random
import threading
from collections import defaultdict
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from billing.close import close
from ingest import ingest_tables
from tests.collectors.receivers.pushing import STALE_NAN, Pushed, receiving, snappy, write_v1
from tests.collectors.receivers.test_memory import restart
from tests.draws import keep_seed
from tests.ingest.receiving import tokens_file
from tests.stores import emptied
from warehouse.records import EVENTS
from warehouse.store import Store

BASE = (datetime.now(UTC) - timedelta(hours=3)).replace(minute=0, second=0, microsecond=0)
PERIOD, LAST = 5.0, 300.0
SCENES = int(os.environ.get("GPULEDGER_SCENES", "1"))
SEED = int(os.environ.get("GPULEDGER_SEED") or random.Random(keep_seed()).randrange(10**6))
DIVIDED = "2"
INSTANCES = {"1": "3g.40gb", "5": "2g.20gb"}
PARTS = ("0", "1", DIVIDED, *(f"{DIVIDED}/{number}" for number in INSTANCES))
HELD = ("0", "1", f"{DIVIDED}/1", f"{DIVIDED}/5"), ("0", "1", DIVIDED)  # each part by somebody, or the whole
MEASURES = {  # of what a device reports, its name and what of it
    "0": {"DCGM_FI_DEV_GPU_UTIL": 100.0, "DCGM_FI_PROF_GR_ENGINE_ACTIVE": 1.0, "DCGM_FI_PROF_SM_ACTIVE": 0.25},
    "1": {"DCGM_FI_DEV_GPU_UTIL": 100.0},
    DIVIDED: {"DCGM_FI_PROF_GR_ENGINE_ACTIVE": 1.0},
    "whole of parts": {"DCGM_FI_DEV_GPU_UTIL": 0.0},  # nothing of it is measured
}
Point = tuple[dict[str, str], tuple[int, float]]


@pytest.fixture
def pushed(shared_store: Store, tmp_path: Path) -> Iterator[Pushed]:
    emptied(shared_store)
    with receiving(shared_store, tokens_file(tmp_path)) as served:
        yield served


def scene(chance: random.Random) -> Iterator[tuple[float, dict[str, float], bool]]:
    """The instants of a target: seconds, what each device says, and whether it answered. It answers at first: of
    devices that begin while their shards are behind, what may still come is known for two minutes only."""
    at = first = 60.0
    while at < LAST:
        what = chance.random()
        if what < 0.04 and at > first:
            yield at, dict.fromkeys(PARTS, STALE_NAN), False
        else:
            if what < 0.07:  # another Prometheus, which asks at another phase
                at += chance.uniform(0.5, 25)
            yield at, {part: chance.choice([1.0, 0.5, 0.0]) for part in PARTS}, True
        at += PERIOD + chance.choice([0, 0, 0, 0.001, -0.001, 0.004])


def points(some: list[tuple[float, dict[str, float], bool]], cluster: str) -> Iterator[Point]:
    target = {"job": "dcgm", "instance": "n1:9400", "cluster": cluster}
    for seconds, devices, up in some:
        at = round((BASE.timestamp() + seconds) * 1000)
        yield {"__name__": "up", **target}, (at, float(up))
        for part, value in devices.items():
            device, _, instance = part.partition("/")
            of = {"UUID": f"GPU-{cluster}-{device}", "gpu": device, "Hostname": "n1", "modelName": "H100"}
            if instance:
                of |= {"GPU_I_ID": instance, "GPU_I_PROFILE": INSTANCES[instance]}
            yield {"__name__": "DCGM_FI_DEV_FB_USED", **target, **of}, (at, value)
            for name, share in MEASURES[device if instance or part != DIVIDED else "whole of parts"].items():
                yield {"__name__": name, **target, **of}, (at, value * share if up else STALE_NAN)


def push(to: Pushed, some: list[Point]) -> None:
    body = snappy(write_v1([(labels, [sample]) for labels, sample in some]))
    assert to.write(body).status_code == 204


def shards(chance: random.Random, some: list[Point]) -> Iterator[list[Point]]:
    """Each series has its shard, a shard sends in order, and may send again. They begin together with the first
    instant; from then on they do not wait for each other."""
    first = min(at for _, (at, _) in some)
    of: dict[str, int] = defaultdict(lambda: chance.randrange(3))
    waiting: dict[int, list[Point]] = defaultdict(list)
    for labels, sample in (one for one in some if one[1][0] > first):
        waiting[of[str(labels)]].append((labels, sample))
    yield [one for one in some if one[1][0] == first]
    while any(waiting.values()):
        shard = chance.choice([shard for shard, left in waiting.items() if left])
        many = chance.choice([7, 20, 60, 200])
        piece, waiting[shard] = waiting[shard][:many], waiting[shard][many:]
        yield piece
        if chance.random() < 0.1:
            yield piece


def books(to: Pushed, seed: int) -> dict[str, list[dict[str, Any]]]:
    """Who held what, used and unmetered, where all came at once, and where it came in pieces."""
    chance = random.Random(seed)
    some = list(scene(chance))
    held = [(part, chance.uniform(0, 150), chance.uniform(170, LAST + 20)) for part in chance.choice(HELD)]
    for cluster in ("whole", "pieces"):
        events = []
        for n, (part, begun, over) in enumerate(held):
            about = {"cluster": cluster, "allocation_id": f"{cluster}-{n}", "workload_id": f"w{n}", "tenant": "t"}
            device, _, instance = part.partition("/")
            place = {"device_id": f"GPU-{cluster}-{device}", "partition_id": "", "units": None}
            if instance:
                place |= {"partition_id": f"GPU-{cluster}-{part}", "units": int(INSTANCES[instance][0])}
            begins = {"ts": BASE + timedelta(seconds=begun), "event": "started", **place}
            events.append(about | begins)
            events.append({**about, **begins, "ts": BASE + timedelta(seconds=over), "event": "finished"})
        ingest_tables(to.store, EVENTS, "test", [pa.Table.from_pylist(events)])
    push(to, list(points(some, "whole")))
    to.assemble()
    for piece in shards(chance, list(points(some, "pieces"))):
        push(to, piece)
        if chance.random() < 0.4:
            to.assembler.run(to.store, threading.Event())
        if chance.random() < 0.1:
            restart(to)
    to.assemble()
    close(to.store, until=BASE + timedelta(hours=1), now=BASE + timedelta(hours=2))
    sql = (
        "SELECT workload_id, sum(used_unit_ms) AS used, sum(idle_unit_ms) AS idle, sum(unmetered_unit_ms) AS unmetered"
    )
    sql += (
        " FROM ledger WHERE cluster = {cluster:String} AND workload_id != '' GROUP BY workload_id ORDER BY workload_id"
    )
    return {cluster: to.store.rows(sql, {"cluster": cluster}) for cluster in ("whole", "pieces")}


@pytest.mark.parametrize("seed", range(SEED, SEED + SCENES))
def test_what_comes_in_any_order_makes_the_books_of_what_came_at_once(pushed: Pushed, seed: int) -> None:
    print(f"GPULEDGER_SEED={seed}")
    found = books(pushed, seed)
    assert found["pieces"] == found["whole"]
    assert len(found["whole"]) in {len(held) for held in HELD}


def test_missed_scrapes_do_not_change_a_targets_interval(pushed: Pushed) -> None:
    """As found: by two gaps of 5 s and 7.4 s it was 6.2 s, and the sample after a silence told of 1.2 s too much."""
    times = [60.0, 65.0, 72.4, 120.0]
    push(pushed, list(points([(at, {"0": 1.0, "1": 1.0}, True) for at in times], "c1")))
    pushed.assemble()
    sql = "SELECT DISTINCT ts, interval_seconds FROM samples ORDER BY ts"
    assert [row["interval_seconds"] for row in pushed.store.rows(sql)] == [5.0, 5.0, 7.4, 5.0]


def test_a_device_whose_shard_comes_last_is_there_from_its_first_instant(pushed: Pushed) -> None:
    """As found: what came after its neighbours was in no device row, and what was held there in no book."""
    chance = random.Random(1)
    some = [(60 + n * PERIOD, {"0": 1.0, "1": 1.0}, True) for n in range(20)]
    all_points = list(points(some, "c1"))
    last = [one for one in all_points if one[0].get("gpu") == "1"]
    push(pushed, [one for one in all_points if one not in last])
    pushed.assemble()
    for n in range(0, len(last), 8):
        push(pushed, last[n : n + 8])
        pushed.assemble()
        if chance.random() < 0.5:
            restart(pushed)
    first = BASE + timedelta(seconds=60)
    reported = pushed.store.rows("SELECT device_id, min(ts) AS at FROM devices GROUP BY device_id ORDER BY device_id")
    assert reported == [{"device_id": f"GPU-c1-{n}", "at": first} for n in range(2)]


def divided(first: int, last: int, every: float = PERIOD) -> list[tuple[float, dict[str, float], bool]]:
    return [(60 + n * every, dict.fromkeys((DIVIDED, *PARTS[3:]), 0.5), True) for n in range(first, last)]


def units(store: Store) -> list[tuple[float, int]]:
    """The seconds from which a device has so many units: of rows of one instant the larger number counts."""
    rows = store.rows("SELECT ts, max(units) AS many FROM devices GROUP BY ts ORDER BY ts")
    return [((row["ts"] - BASE).total_seconds(), row["many"]) for row in rows]


def test_parts_whose_shards_come_last_divide_their_device_from_their_first_instant(pushed: Pushed) -> None:
    """As found: a device was divided from when its shards were level, and what parts held before was in no book."""
    every = list(points(divided(0, 30), "c1"))
    parts = [one for one in every if "GPU_I_ID" in one[0]]
    push(pushed, [one for one in every if one not in parts])
    pushed.assemble()
    assert units(pushed.store) == [(60, 1)]
    for n in range(0, len(parts), 40):
        push(pushed, parts[n : n + 40])
        pushed.assemble()
        if n == 80:
            restart(pushed)
    reported = units(pushed.store)
    assert reported[0] == (60, 7) and {many for _, many in reported} == {7}


def test_a_device_is_undivided_once_no_part_was_seen_for_ten_minutes_from_when_that_began(pushed: Pushed) -> None:
    some = divided(0, 40, every=60)
    whole = [(at, {DIVIDED: 0.5}, up) for at, _, up in some]
    push(pushed, list(points([*some[:10], *whole[10:19], *some[19:22]], "c1")))  # a shard that was behind for good
    pushed.assemble()
    assert units(pushed.store) == [(60, 7)]
    push(pushed, list(points(whole[22:32], "c1")))
    pushed.assemble()
    assert units(pushed.store) == [(60, 7)]
    push(pushed, list(points(whole[32:], "c1")))
    pushed.assemble()
    assert units(pushed.store) == [(60, 7), (60 + 22 * 60, 1)]


def test_a_zero_of_a_divided_device_measures_nothing_although_its_parts_come_later(pushed: Pushed) -> None:
    every = list(points(divided(0, 12), "c1"))
    late = [one for one in every if "GPU_I_ID" in one[0] and one[1][0] > (BASE.timestamp() + 85) * 1000]
    push(pushed, [one for one in every if one not in late])
    pushed.assemble()
    push(pushed, late)
    pushed.assemble()
    sql = "SELECT toString(state) AS state, count() AS many FROM samples WHERE partition_id = '' GROUP BY state"
    assert {row["state"] for row in pushed.store.rows(sql)} == {"unsupported"}
