"""Statements between a close's facts and its entries, each over drawn tables and reckoned row by row: who is disputed,
who is looked at again, which batches are read, what has moved, who fell silent."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa

import billing.close
from billing.close.facts import READ_BY, _all_are_recent, read_too, stage_facts
from billing.close.resolve import FOREVER, LOST, SILENT
from billing.close.stage import Stage
from billing.rates.staging import subject_keys
from tests.billing.hand_ledger import HOUR_MS
from warehouse.instants import of_epoch_ms
from warehouse.store import Store, read_sql

CLOSE = str(Path(str(billing.close.__file__)))
NOW = 496_000 * HOUR_MS
"""Ms since the epoch: an hour in 2026."""
TEXTS = ("cluster", "source", "allocation_id", "workload_id", "tenant", "project", "queue", "node", "device_id",
         "partition_id", "partition_profile", "estimated")  # fmt: skip
INTEGERS = {"claim": pa.uint64(), "units": pa.uint32(), "start_ms": pa.int64(), "end_ms": pa.int64(),
            "source_claim": pa.uint64(), "priority": pa.int64(), "batch": pa.uint64()}  # fmt: skip

Row = dict[str, Any]


KEYS_OF = {"settle": "claims", "paid": "reported", "held_then": "allocations"}
"""Statements that price what is held, and what of."""


def ask(store: Store, name: str, **params: Any) -> None:
    parts = {"keys": subject_keys(KEYS_OF[name], "priced_")} if name in KEYS_OF else {}
    store.command(read_sql(CLOSE, name, **parts), params)


def rows_of(store: Store, name: str, **params: Any) -> list[Row]:
    return store.rows(read_sql(CLOSE, name), params)


def fill(store: Store, table: str, rows: Sequence[Row]) -> None:
    """Instants (`ts`, `*_at`) are given in ms."""
    names = dict.fromkeys(name for row in rows for name in row)

    def kind(name: str) -> Any:
        is_time = name == "ts" or name.endswith("_at") or name == "hour"
        return pa.timestamp("ms", "UTC") if is_time else INTEGERS.get(name)

    if rows:
        store.insert(table, pa.table({name: pa.array([row.get(name) for row in rows], kind(name)) for name in names}))


def hashes(store: Store, pairs: Iterable[tuple[str, str]]) -> dict[tuple[str, str], int]:
    pairs = sorted(set(pairs))
    ask = "SELECT arrayMap((a, b) -> cityHash64(a, b), {a:Array(String)}, {b:Array(String)}) AS found"
    found = store.value(ask, {"a": [one for one, _ in pairs], "b": [other for _, other in pairs]})
    return dict(zip(pairs, found, strict=True))


def members(store: Store, table: str, values: Iterable[int]) -> set[int]:
    """Which of the values a table of the engine Set has."""
    ask = "SELECT arrayJoin({values:Array(UInt64)}) AS value WHERE value IN {table:Identifier}"
    return {row["value"] for row in store.rows(ask, {"values": sorted(set(values)), "table": table})}


def truth(dice: Random, share: float = 0.5) -> bool:
    return dice.random() < share


def drawn_states(dice: Random) -> list[Row]:
    """Of eight devices, whose units change."""
    found = []
    for device in range(8):
        place = {"cluster": dice.choice("cd"), "device_id": f"g{device}"}
        at = NOW - 90 * HOUR_MS
        for _ in range(dice.randint(1, 3)):
            until = at + dice.randint(1, 60) * HOUR_MS
            found.append(
                {**place, "node": dice.choice("mn"), "model": dice.choice("HL"), "pool": dice.choice(["", "p"]),
                 "units": dice.choice([1, 4, 4, 7]), "state": dice.choice(["available", "available", "unavailable"]),
                 "ts": at, "until": until, "batch": 1}
            )  # fmt: skip
            at = until
    return found


def drawn_claims(dice: Random, states: Sequence[Row]) -> list[Row]:
    """Of twice eight devices, one cluster's often not there; starts and ends meet."""
    found = []
    for number in range(dice.randint(12, 20)):
        start = NOW - dice.randint(0, 60) * HOUR_MS
        end = dice.choice([FOREVER, start, start + 1, *(start + dice.randint(1, 12) * HOUR_MS for _ in range(9))])
        where = dice.choice(states)
        device = "" if truth(dice, 0.04) else "ghost" if truth(dice, 0.05) else where["device_id"]
        found.append({
            "claim": 1000 + number, "source": dice.choice(["slurm", "k8s"]),
            "cluster": where["cluster"] if truth(dice, 0.9) else dice.choice("cd"),
            "allocation_id": f"a{dice.randrange(9)}", "workload_id": f"w{dice.randrange(5)}",
            "tenant": dice.choice("xy"), "project": dice.choice("pq"), "queue": dice.choice("vw"),
            "preemptible": truth(dice), "priority": dice.choice([None, 0, 5]), "node": dice.choice("mno"),
            "device_id": device, "partition_id": dice.choice(["", "", "i1", "i2"]),
            "partition_profile": dice.choice(["", "1g"]), "units": dice.choice([0, 1, 1, 2]), "gpus": 1.0,
            "start_ms": start, "end_ms": end, "ends_before_it_starts": truth(dice, 0.1), "estimated": "",
        })  # fmt: skip
    return found


def place(row: Row) -> tuple[str, str]:
    return row["cluster"], row["device_id"]


def session(row: Row) -> tuple[str, str]:
    return row["cluster"], row["allocation_id"]


def is_disputed(where: tuple[str, str], claims: Sequence[Row], states: Sequence[Row]) -> bool:
    """More is claimed of a device than it ever had at least, a part of it twice, or somebody holds its node."""
    its = [one for one in states if place(one) == where]
    nodes = {
        (one["cluster"], one["node"]) for one in claims if not one["device_id"] and not one["ends_before_it_starts"]
    }
    if any((one["cluster"], one["node"]) in nodes for one in its):
        return True
    believed = [one for one in claims if place(one) == where and not one["ends_before_it_starts"]]
    for at in {one["start_ms"] for one in believed} if its else ():
        held = [one for one in believed if one["start_ms"] <= at < one["end_ms"]]
        parts = [one["partition_id"] for one in held if one["partition_id"]]
        if len(parts) != len(set(parts)):
            return True
        most = max(one["units"] for one in its)
        if sum(one["units"] or most for one in held) > min(one["units"] for one in its):
            return True
    return False


def test_claims_are_believed_doubted_or_left_to_the_next_close(books: Store, stage: Stage, dice: Random) -> None:
    names = stage.names("batches", "claims", "states", "settled", "disputed", "decided", "unsettled")
    states = drawn_states(dice)
    claims = drawn_claims(dice, states)
    books.command(f"CREATE TABLE {stage('batches')} (batch UInt64) ENGINE = Set SETTINGS persistent = 0")
    books.command(f"INSERT INTO {stage('batches')} SELECT 1 AS batch")
    fill(books, "devices", [{name: value for name, value in one.items() if name != "until"} for one in states])
    for name in ("stage_claims", "states", "stage_decided", "stage_unsettled"):
        ask(books, name, **names, forever=FOREVER, by_cluster=0)
    fill(books, stage("claims"), claims)
    ask(books, "disputed", **names)

    disputed = {where for where in {place(one) for one in states} if is_disputed(where, claims, states)}
    found = [place(row) for row in books.rows(f"SELECT * FROM {stage('disputed')}")]
    assert set(found) == disputed and len(found) == len(disputed)

    def doubt(one: Row) -> str:
        if one["ends_before_it_starts"]:
            return "ends_before_it_starts"
        if not one["device_id"]:
            return "disputed"
        if place(one) not in {place(state) for state in states}:
            return "unknown_device"
        return "disputed" if place(one) in disputed else ""

    doubts = [{**one, "doubt": doubt(one)} for one in claims if doubt(one)]
    answers = rows_of(books, "doubtful", **names)
    expected = sorted(doubts, key=lambda one: (one["start_ms"], one["allocation_id"], one["claim"]))
    assert answers == [{name: one[name] for name in answers[0]} for one in expected]
    its_states = rows_of(books, "disputed_states", **names)
    assert [(*place(row), row["start_ms"]) for row in its_states] == sorted(
        (*place(row), row["start_ms"])
        for row in books.rows(f"SELECT * FROM {stage('states')}")
        if place(row) in disputed
    )

    # What was decided of a disputed claim: two pieces, with a device and a time of their own.
    decided = [
        {"source_claim": one["claim"], "claim": one["claim"] + piece * 5000, "device_id": f"g{piece}",
         "units": piece + 1, "start_ms": one["start_ms"] + piece, "end_ms": one["end_ms"] + piece,
         "estimated": "guessed"}
        for one in doubts if one["doubt"] == "disputed" for piece in range(2)
    ]  # fmt: skip
    fill(books, stage("decided"), decided)
    ask(books, "settle", **names, by_queue=0, by_preemptible=0, priority_bounds=[])
    settled = {row["claim"]: row for row in books.rows(f"SELECT * FROM {stage('settled')}")}
    by_claim = {one["claim"]: one for one in claims}
    known = books.rows(f"SELECT * FROM {stage('states')} ORDER BY start_ms")

    def units(one: Row) -> int:
        its = [row for row in known if place(row) == place(one)]
        before = [row["units"] for row in its if row["start_ms"] <= one["start_ms"]]
        return int(one["units"] or [*(row["units"] for row in its[:1]), *before][-1])

    wanted = {one["claim"]: {**one, "units": units(one)} for one in claims if not doubt(one)}
    wanted |= {one["claim"]: {**by_claim[one["source_claim"]], **one} for one in decided}
    assert settled.keys() == wanted.keys()
    for claim, one in wanted.items():
        assert {
            name: settled[claim][name] for name in (*TEXTS, "units", "start_ms", "end_ms", "preemptible", "priority")
        } == {name: one[name] for name in (*TEXTS, "units", "start_ms", "end_ms", "preemptible", "priority")}
        streams: dict[str, tuple[str, ...]] = {"device": (one["cluster"], one["device_id"])}
        for number, (part, workload) in enumerate(
            [(one["partition_id"], one["workload_id"]), (one["partition_id"], ""), ("", one["workload_id"]), ("", "")]
        ):
            streams[f"stream_{number + 1}"] = (one["cluster"], one["device_id"], part, workload)
        for name, texts in streams.items():
            text = ", ".join(f"'{text}'" for text in texts)
            assert settled[claim][name] == books.value(f"SELECT cityHash64({text}) AS hash")

    # Left to the next close: what ended after the horizon or not at all, and disputes that are not settled.
    horizon = dice.choice([one["end_ms"] for one in claims if one["end_ms"] != FOREVER]) - dice.choice([0, 0, 1])
    about: Row = {"closed_until": NOW - 3 * HOUR_MS, "read_at": NOW + 123, "rules": "1 m", "prices": "2 e"}
    numbers = {"run": 5, "facts": 7, "hours": 8, "allocations": 9}
    months: Row = {"names": ["0", "202610"], "parts": [3, 4], "fingerprints": [5, 4]}
    literals = {name: datetime.fromtimestamp(about[name] / 1000, UTC) for name in ("closed_until", "read_at")}
    unsettled = {one["claim"] for one in claims if dice.random() < 0.2}
    given_up = {one["claim"] for one in claims if one["end_ms"] == FOREVER and dice.random() < 0.5} - unsettled
    fill(books, stage("unsettled"), [{"claim": claim, "again": claim in unsettled} for claim in unsettled | given_up])
    ask(books, "carry", **names, **{**about, **literals}, **numbers, **months, horizon_ms=horizon)
    assert {name: rows_of(books, "carried_last")[0][name] for name in months} == months
    (row,) = books.rows("SELECT * FROM close_carried")
    assert {name: row[name] for name in numbers} == numbers
    assert (row["rules"], row["prices"], row["closed_until"], row["read_at"]) == ("1 m", "2 e", *literals.values())
    assert row["horizon"] == datetime.fromtimestamp(horizon / 1000, UTC)
    holding = [one for one in claims if one["end_ms"] > horizon and not one["ends_before_it_starts"]
               and one["claim"] not in given_up]  # fmt: skip
    carried = {session(one) for one in (*holding, *(one for one in claims if one["claim"] in unsettled))}
    refused = dice.sample(sorted({session(one) for one in claims}), 3)
    asked = {"horizon_ms": horizon, "allocations": [name for _, name in refused], "given_up": sorted(given_up)}
    held = {(row["cluster"], row["allocation_id"]) for row in rows_of(books, "held_elsewhere", **names, **asked)}
    assert held == {session(one) for one in holding if one["allocation_id"] in asked["allocations"]}
    assert sorted(row["carried"]) == sorted(hashes(books, carried).values())


def hour_of(ms: int) -> int:
    return ms // HOUR_MS


def test_a_close_looks_again_at_those_of_whom_new_facts_tell(books: Store, stage: Stage, dice: Random) -> None:
    names = stage.names("alive", "fresh", "late", "reached", "events_of_alive")
    horizon = NOW - 24 * HOUR_MS
    new = {3, 4}

    def batch() -> int:
        return dice.choices([0, 1, 2, 3, 4], [1, 9, 9, 2, 2])[0]

    def drawn(count: int, **more: Any) -> list[Row]:
        return [
            {"cluster": dice.choice("cd"), "device_id": f"g{dice.randrange(9)}" if truth(dice, 0.7) else "",
             "allocation_id": f"a{dice.randrange(12)}", "node": dice.choice(["", "m", "n", "o"]), "batch": batch(),
             "ts": horizon + dice.choice([-1, 0, 1, -30 * HOUR_MS, 10 * HOUR_MS]), **more}
            for _ in range(count)
        ]  # fmt: skip

    # Of rows with one key the store keeps one.
    events = list(
        {(*session(one), one["ts"], one["device_id"], one["node"]): one for one in drawn(25, event="started")}.values()
    )
    devices = list({(*place(one), one["ts"]): one for one in drawn(12, state="available") if one["device_id"]}.values())
    for one in devices:
        del one["allocation_id"]
    held = [one for one in drawn(14) if one["device_id"]]
    for number, one in enumerate(held):
        del one["ts"], one["batch"]
        one |= {"claim": number, "start_at": horizon + dice.choice([0, HOUR_MS]), "end_at": horizon + HOUR_MS,
                "estimated": dice.choice(["", "", LOST, "otherwise"])}  # fmt: skip
    samples = [{"hour": hour_of(NOW) * HOUR_MS + dice.randint(-9, 9) * HOUR_MS, "batch": batch()} for _ in range(6)]
    for table, rows in (("events", events), ("devices", devices), ("allocations", held), ("touched_hours", samples)):
        fill(books, table, rows)
    for run, carried in ((4, [1, 2]), (5, [2, 3])):
        books.command(f"INSERT INTO close_carried (run, carried) SELECT {run}, {carried}")
    # One of the two says its hours, and the other has to be looked for.
    said = {one: sorted({row["hour"] for row in samples if row["batch"] == one}) for one in new}
    (unsaid,) = dice.sample(sorted(new), 1)
    ask(books, "stage_fresh", **names)
    for one in new:
        hours = [] if one == unsaid else [hour // 1000 for hour in said[one]]
        books.command(f"INSERT INTO {stage('fresh')} SELECT {one}, true, CAST({hours}, 'Array(DateTime(''UTC''))')")

    def is_new(one: Row) -> bool:
        return one["batch"] in {0, *new}

    # Some are refused because their only end is older than their start, others for another reason.
    refused = [
        {**dict(zip(("cluster", "allocation_id"), session(one), strict=True)), "reason": reason}
        for reason in ("ends_before_it_starts", "unknown_device")
        for one in dice.sample(events, 4)
    ]
    fill(books, "refused_claims", refused)
    backwards = {session(one) for one in refused if one["reason"] == "ends_before_it_starts"}
    lost = {session(one) for one in held if one["estimated"] == LOST}
    late = {session(one) for one in events if is_new(one) and (one["ts"] < horizon or session(one) in backwards | lost)}
    named = [one for one in events if session(one) in late]
    nodes = {(one["cluster"], one["node"]) for one in named if not one["device_id"] and one["node"]}
    reached = {place(one) for one in devices if is_new(one) or (one["cluster"], one["node"]) in nodes}
    reached |= {place(one) for one in named if one["device_id"]}
    reached |= {place(one) for one in held if session(one) in late}
    alive = {session(one) for one in events if is_new(one)}
    all_of = hashes(books, {session(one) for one in [*events, *held]})
    params = {**names, "last": 5, "horizon_ms": horizon, "lost": LOST}
    for name in ("stage_alive", "alive"):
        ask(books, name, **params)
    assert members(books, stage("alive"), [1, 2, 3, *all_of.values()]) == {2, 3} | {all_of[one] for one in alive}
    for name in ("late", "reached", "reached_late", "alive_on", "events_of_alive"):
        ask(books, name, **params)
    assert {place(row) for row in books.rows("SELECT * FROM {reached:Identifier}", names)} == reached
    alive |= {session(one) for one in held if place(one) in reached}
    assert members(books, stage("alive"), all_of.values()) == {all_of[one] for one in alive}
    begins = {(*place(one), one["start_at"]) for one in held}
    looked_at = [one for one in held if session(one) in alive]
    reopened = {place(one) for one in looked_at if one["estimated"] == LOST}
    reopened |= {place(one) for one in looked_at if (*place(one), one["end_at"]) in begins}
    reopened -= reached
    assert {place(row) for row in rows_of(books, "reopened", **params)} == reopened
    of_alive = books.rows("SELECT * FROM {events_of_alive:Identifier}", names)
    assert sorted(map(session, of_alive)) == sorted(session(one) for one in events if session(one) in alive)

    its = [one["ts"] for one in devices if is_new(one)]
    (answer,) = rows_of(books, "earliest_device_change", **names)
    assert answer["hour"] == (hour_of(min(its)) if its else None)
    ends_in = {hour_of(one["hour"]) for one in samples if is_new(one)}
    anew = {row["hour"] for name in ("sampled_anew", "sampled_anew_unsaid") for row in rows_of(books, name, **names)}
    assert sorted(anew) == sorted(ends_in | {hour - 1 for hour in ends_in})


def test_a_close_reads_what_those_before_it_read_and_what_is_acknowledged(
    books: Store, stage: Stage, dice: Random
) -> None:
    """Closes that others do not follow were killed: what they alone read is new."""
    day = timedelta(days=1) // timedelta(milliseconds=1)
    follows: dict[int, int] = {}
    batches = list(range(1, 30))
    read_by: dict[int, list[int]] = {}
    for run in (10, 20, 30, 40, 50):
        follows[run] = max([one for one in follows if truth(dice, 0.8)], default=0)
        read_by[run] = dice.sample([0, *batches], dice.randint(0, 7))
    named_at = {run: NOW - day + dice.choice([-1, 0, 1, -5 * HOUR_MS, 5 * HOUR_MS]) for run in follows}
    acknowledged = {one: NOW + dice.choice([-1, 0, 1, -3 * day, HOUR_MS]) for one in batches if truth(dice, 0.7)}
    for run, some in read_by.items():
        books.command(f"INSERT INTO close_batches SELECT {run}, {follows[run]}, CAST({some}, 'Array(UInt64)')")
    fill(books, "close_named", [{"run": run, "named_at": at} for run, at in named_at.items()])
    fill(books, "ingest_batches", [
        {"batch": one, "record_type": dice.choice(["events", "samples"]), "ingested_at": at,
         "source": "push:x" if one % 2 else "file", "sender": f"s{one}"}
        for one, at in acknowledged.items()
    ])  # fmt: skip
    chain, last = [], 50
    while last in follows:
        chain.append(last)
        last = follows[last]
    read = {one for run in chain for one in read_by[run]}
    fresh = ({0} | set(acknowledged)) - read

    stage_facts(books, stage)
    assert sorted(row["batch"] for row in books.rows(f"SELECT batch FROM {stage('fresh')}")) == sorted(fresh)
    assert members(books, stage("batches"), [0, *batches]) == read | fresh
    pushed = [(row["batch"], row["sender"]) for row in rows_of(books, "pushed", **stage.names("fresh"))]
    assert pushed == [(one, f"s{one}") for one in sorted(fresh) if one % 2]
    ask(books, "name_batches", run=77, follows=50, **stage.names("fresh"))
    (named,) = books.rows("SELECT follows, batches FROM close_batches WHERE run = 77")
    assert (named["follows"], sorted(named["batches"])) == (50, sorted(fresh))
    books.command("ALTER TABLE close_batches DELETE WHERE run = 77")
    for table in ("fresh", "batches"):
        books.command("DROP TABLE {table:Identifier}", {"table": stage(table)})

    # Only what was acknowledged lately, beside what closes of late have read; older batches if they are asked for.
    recent = {one for run in chain for one in read_by[run] if named_at[run] >= NOW - day}
    soon = Stage(77, fresh_ms=NOW)
    unread = len(acknowledged) - sum(len(read_by[run]) for run in chain) + 1
    fresh = {one for one, at in acknowledged.items() if at >= NOW} - recent
    assert _all_are_recent(books, soon) == (unread <= len(fresh))
    assert sorted(row["batch"] for row in books.rows(f"SELECT batch FROM {soon('fresh')}")) == sorted(fresh)
    books.command(f"CREATE TABLE {soon('batches')} (batch UInt64) ENGINE = Set SETTINGS persistent = 0")
    books.command(f"INSERT INTO {soon('batches')} SELECT arrayJoin({sorted({0} | fresh)})")
    wanted = dice.sample([0, *batches], 12)
    read_too(books, soon, "SELECT arrayJoin({wanted:Array(UInt64)}) AS batch", {"wanted": wanted})
    old = {one for one in wanted if one in recent or acknowledged.get(one, NOW) < NOW}
    assert members(books, soon("batches"), [0, *batches]) == {0} | fresh | old

    for since in (NOW - day - 5 * HOUR_MS, NOW - day, NOW):
        are_dated = min(named_at.values()) < since
        assert books.value(read_sql(CLOSE, "all_are_dated"), {"since_ms": since}) == 1
        books.command("INSERT INTO close_batches SELECT 60, 50, CAST([], 'Array(UInt64)')")
        assert books.value(read_sql(CLOSE, "all_are_dated"), {"since_ms": since}) == are_dated
        books.command("ALTER TABLE close_batches DELETE WHERE run = 60")

    # A close that has read all that was acknowledged before, and some of what was since; then one that missed some.
    before = sorted(one for one, at in acknowledged.items() if at < NOW)
    since = sorted(set(acknowledged) - set(before))[:2]
    asked = {"last": 100, "others": [], "fresh_ms": NOW, "since_ms": NOW - day}
    whole = read_sql(CLOSE, "all_are_read", read=READ_BY)
    missed = dice.sample(before, 1) if truth(dice) else []
    strange = [99] if truth(dice) else []
    for known in ([0, *before, *since], [0, *since, *(one for one in before if one not in missed), *strange]):
        books.command("TRUNCATE TABLE close_batches")
        books.command("TRUNCATE TABLE close_named")
        books.command(f"INSERT INTO close_batches SELECT 100, 0, CAST({known}, 'Array(UInt64)')")
        fill(books, "close_named", [{"run": 100, "named_at": NOW}])
        assert books.value(whole, asked) == (sorted(known) == sorted([0, *before, *since]))


PUBLISHED = ("claim", *TEXTS, "units", "preemptible", "priority", "cost_center", "reported_tenant", "reported_project",
             "unmapped")  # fmt: skip
"""Columns of an allocation besides its time."""


ASSUMED = "device unknown: a free one of the node was assumed"


def drawn_allocation(dice: Random, claim: int) -> Row:
    start = NOW + dice.choice([0, 1, -1]) + dice.randint(-9, 9) * HOUR_MS
    lengths = [1, HOUR_MS, 5 * HOUR_MS, 800 * HOUR_MS]
    end = dice.choice([FOREVER, *(start + dice.choice(lengths) for _ in range(5))])
    found: Row = {name: dice.choice("abc") for name in TEXTS}
    return found | {
        "claim": claim, "units": dice.randint(1, 4), "preemptible": truth(dice),
        "priority": dice.choice([None, 0, 1, 5, 9]), "unmapped": truth(dice),
        "cost_center": dice.choice(["", "1"]), "reported_tenant": dice.choice("xy"),
        "reported_project": dice.choice("pq"), "start_ms": start, "end_ms": end,
    }  # fmt: skip


def otherwise(dice: Random, one: Row) -> Row:
    """The allocation, but for one thing."""
    name = dice.choice([*PUBLISHED[1:], "start_ms", "end_ms", "end_ms", "end_ms"])
    if name == "end_ms":
        return one | {"end_ms": dice.choice([FOREVER, one["start_ms"] + dice.randint(1, 9) * HOUR_MS])}
    value = one[name]
    if isinstance(value, bool):
        return one | {name: not value}
    return one | {name: f"{value}z" if isinstance(value, str) else 1 + (value or 0)}


def month_of(one: Row) -> str:
    """The partition of allocations in which it lies."""
    return "0" if one["end_ms"] == FOREVER else f"{of_epoch_ms(one['end_ms']):%Y%m}"


def as_published(one: Row) -> Row:
    row = {name: one[name] for name in PUBLISHED}
    return row | {"start_at": one["start_ms"], "end_at": None if one["end_ms"] == FOREVER else one["end_ms"]}


def make_settled(store: Store, stage: Stage) -> None:
    """An empty one."""
    names = stage.names("batches", "claims", "states", "settled", "disputed", "decided", "owners", "paid")
    store.command(f"CREATE TABLE {stage('batches')} (batch UInt64) ENGINE = Set SETTINGS persistent = 0")
    params = {
        **names,
        "forever": FOREVER,
        "by_queue": 0,
        "by_preemptible": 0,
        "by_cluster": 0,
        "priority_bounds": [],
        "workload_patterns": [],
    }
    for name in ("stage_claims", "states", "disputed", "stage_decided", "settle", "stage_owners", "paid"):
        ask(store, name, **params)
    store.exchange(stage("paid"), stage("settled"))
    store.command("DROP TABLE {paid:Identifier}", names)


def test_what_has_moved_is_where_those_looked_at_hold_another_thing_than_was_published(
    books: Store, stage: Stage, dice: Random
) -> None:
    make_settled(books, stage)
    names = stage.names("settled", "alive", "months")
    before = [drawn_allocation(dice, number) for number in range(30)]
    before += [one | {"end_ms": one["start_ms"] + 2 * HOUR_MS} for one in before[:3]]  # the same twice, of two lengths
    ask(books, "stage_alive", **names)
    sessions = hashes(books, {session(one) for one in before})
    alive = {one: hash for one, hash in sessions.items() if truth(dice, 0.7)}
    books.command(f"INSERT INTO {stage('alive')} SELECT arrayJoin({list(alive.values())}::Array(UInt64))")
    old = [one for one in before if session(one) in alive]
    now = []
    for one in old:
        how = dice.choice(["same", "same", "gone", "other", "other", "twice"])
        now += {"same": [one], "gone": [], "other": [otherwise(dice, one)], "twice": [one, otherwise(dice, one)]}[how]
    fill(books, "allocations", [as_published(one) for one in before])
    fill(books, stage("settled"), now)
    until = NOW + dice.choice([0, 2 * HOUR_MS, 5 * HOUR_MS + 1])

    held: dict[Any, tuple[list[int], list[int]]] = defaultdict(lambda: ([], []))
    for which, rows in enumerate((now, old)):
        for one in rows:
            held[*(one[name] for name in PUBLISHED), one["start_ms"]][which].append(one["end_ms"])
    expected = set()
    for (*_, start), (new_ends, old_ends) in held.items():
        if sorted(new_ends) != sorted(old_ends):
            since = min(new_ends[0], old_ends[0]) if len(new_ends) == len(old_ends) == 1 else start
            to = min(max(*new_ends, *old_ends, 0), until)
            if since < to:
                expected.add((hour_of(since), hour_of(to - 1) + 1))
    ask(books, "months_alive", **names)
    touched = {month_of(one) for one in old}
    months = {row["month"]: row["is_touched"] for row in books.rows("SELECT * FROM {months:Identifier}", names)}
    assert months == {month_of(one): month_of(one) in touched for one in before}
    moved = rows_of(books, "moved", **names, touched=sorted(touched), until_ms=until, forever=FOREVER)
    assert sorted((row["first"], row["next"]) for row in moved if row["is_past"]) == sorted(expected)
    assert bool(moved) == any(sorted(new_ends) != sorted(old_ends) for new_ends, old_ends in held.values())

    # What the others held in some hours, and what is published of both.
    runs = sorted(dice.sample(range(hour_of(NOW) - 10, hour_of(NOW) + 12), 4))
    looked = [(runs[0], runs[1]), (runs[2], runs[3])]
    bounds, by_queue, by_preemptible = dice.choice([[], [0], [1, 5]]), truth(dice), truth(dice)
    ask(books, "held_then", **names, forever=FOREVER, firsts=[first for first, _ in looked],
        nexts=[end for _, end in looked], by_queue=int(by_queue), by_preemptible=int(by_preemptible),
        priority_bounds=bounds, first_month=int(f"{of_epoch_ms(runs[0] * HOUR_MS):%Y%m}"))  # fmt: skip
    others = [one for one in before if session(one) not in alive]
    spans = [(first * HOUR_MS, end * HOUR_MS) for first, end in looked]
    then = [one for one in others if any(one["start_ms"] < end and one["end_ms"] > first for first, end in spans)]

    def known(rows: Iterable[Row]) -> list[Any]:
        return sorted((*(str(one[name]) for name in PUBLISHED), one["start_ms"], one["end_ms"]) for one in rows)

    settled = books.rows("SELECT * FROM {settled:Identifier}", names)
    assert known(settled) == known([*now, *then])
    for row in settled:
        if row["payer"]:
            level = 0 if row["priority"] is None or not bounds else 1 + sum(one <= row["priority"] for one in bounds)
            queue = row["queue"] if by_queue else ""
            of_payer = f"'{row['partition_profile']}', '{row['tenant']}', '{queue}', toUInt16({level})"
            of_payer += f", toUInt8({int(row['preemptible'] and by_preemptible)})"
            where = f"'{row['cluster']}', '{row['device_id']}'"
            part, workload = f"'{row['partition_id']}'", f"'{row['workload_id']}'"
            keys = {"payer": of_payer, "device": where, "stream_1": f"{where}, {part}, {workload}",
                    "stream_2": f"{where}, {part}, ''", "stream_3": f"{where}, '', {workload}",
                    "stream_4": f"{where}, '', ''"}  # fmt: skip
            hashed = ", ".join(f"cityHash64({values}) AS {name}" for name, values in keys.items())
            (wanted,) = books.rows(f"SELECT {hashed}")
            assert {name: row[name] for name in keys} == wanted
    assert sum(bool(row["payer"]) for row in settled) == len(then)

    for table in ("new", "kept"):
        books.create_like(stage(table), "allocations")
    condition = "cityHash64(toString(cluster), allocation_id) IN {alive:Identifier}"
    publish = read_sql(CLOSE, "publish_allocations", which=condition)
    books.command(publish, {**names, "new": stage("new"), "forever": FOREVER})
    # Of months in which none is looked at, the close takes over the parts.
    ask(books, "keep_allocations", **names, new=stage("kept"), touched=sorted(touched))
    others = [one for one in others if month_of(one) in touched]
    for table, rows in ((stage("new"), [one for one in now if session(one) in alive]), (stage("kept"), others)):
        found = books.rows("SELECT * FROM {table:Identifier}", {"table": table})
        for row in found:
            row["start_ms"] = round(row["start_at"].timestamp() * 1000)
            row["end_ms"] = round(row["end_at"].timestamp() * 1000) if row["end_at"] else FOREVER
        assert known(found) == known(rows)


def test_what_is_held_is_paid_for_by_whoever_a_mapping_says_while_it_does(
    books: Store, stage: Stage, dice: Random
) -> None:
    make_settled(books, stage)
    names = stage.names("settled", "owners", "paid")
    columns = [*TEXTS, "claim", "units", "preemptible", "priority", "start_ms", "end_ms"]
    claims = [drawn_allocation(dice, number) for number in range(20)]
    claims += [one | {"claim": 100 + one["claim"], "end_ms": one["start_ms"]} for one in claims[:3]]  # of no length
    # The claims before anybody's mapping.
    ask(books, "settle", **stage.names("claims", "states", "disputed", "decided"), settled=stage("believed"),
        by_queue=0, by_preemptible=0, priority_bounds=[])  # fmt: skip
    fill(books, stage("believed"), [{name: one[name] for name in columns} for one in claims])
    names["settled"] = stage("believed")
    patterns = ["^a", "b$"]

    def combination(one: Row) -> tuple[str, ...]:
        which = f"{int(one['workload_id'] == 'a')}{int(one['workload_id'] == 'b')}"
        return (*(one[name] for name in ("tenant", "project", "queue", "cluster", "source")), which)

    found = rows_of(books, "combinations", **names, workload_patterns=patterns)
    assert [tuple(row.values()) for row in found] == sorted({combination(one) for one in claims})
    periods: dict[tuple[str, ...], list[Row]] = {}
    for key in {combination(one) for one in claims}:
        if truth(dice, 0.6):
            cuts = sorted(
                {0, FOREVER, *(dice.choice(claims)["start_ms"] + dice.choice([0, 1, HOUR_MS]) for _ in range(2))}
            )
            periods[key] = [
                {"from_ms": first, "to_ms": end, "to_tenant": dice.choice("tu"), "to_project": dice.choice("pq"),
                 "cost_center": dice.choice(["", "9"]), "unmapped": int(truth(dice))}
                for first, end in pairwise(cuts)
            ]  # fmt: skip
    texts = ("tenant", "project", "queue", "cluster", "source", "workloads")
    owners = [dict(zip(texts, key, strict=True)) | one for key, some in periods.items() for one in some]
    times = {name: pa.array([one[name] for one in owners], pa.int64()) for name in ("from_ms", "to_ms")}
    others = [name for name in owners[0] if name not in times] if owners else []
    if owners:
        books.insert(stage("owners"), pa.table({name: [one[name] for one in owners] for name in others} | times))
    ask(books, "paid", **names, forever=FOREVER, workload_patterns=patterns, by_queue=1, by_preemptible=1,
        priority_bounds=[1, 5])  # fmt: skip
    expected = []
    for one in claims:
        unchanged = {"to_tenant": one["tenant"], "to_project": one["project"], "cost_center": "", "unmapped": 0}
        whole = [unchanged | {"from_ms": 0, "to_ms": FOREVER}]
        for piece in periods.get(combination(one), whole):
            since, until = max(one["start_ms"], piece["from_ms"]), min(one["end_ms"], piece["to_ms"])
            is_empty = one["start_ms"] == one["end_ms"] and piece["from_ms"] <= one["start_ms"] < piece["to_ms"]
            if since < until or is_empty:
                its = (piece["to_tenant"], piece["to_project"], piece["cost_center"], bool(piece["unmapped"]))
                expected.append((one["claim"], since, until, *its, one["tenant"], one["project"]))
    paid = books.rows("SELECT * FROM {paid:Identifier}", names)
    by_claim = {one["claim"]: one for one in claims}
    shown = [
        (row["source_claim"], row["start_ms"], row["end_ms"], row["tenant"], row["project"], row["cost_center"],
         row["unmapped"], row["reported_tenant"], row["reported_project"]) for row in paid
    ]  # fmt: skip
    assert sorted(shown) == sorted(expected)
    for row in paid:
        claim = by_claim[row["source_claim"]]
        same = [name for name in columns if name not in ("claim", "tenant", "project", "start_ms", "end_ms")]
        assert {name: row[name] for name in same} == {name: claim[name] for name in same}
        level = 0 if row["priority"] is None else 1 + (row["priority"] >= 1) + (row["priority"] >= 5)
        later = f"cityHash64(toUInt64({row['source_claim']}), toInt64({row['start_ms']}))"
        who = ", ".join(f"'{row[name]}'" for name in ("partition_profile", "tenant", "queue"))
        who += f", toUInt16({level}), toUInt8({int(row['preemptible'])})"
        (wanted,) = books.rows(f"SELECT {later} AS piece, cityHash64({who}) AS payer")
        is_first = row["start_ms"] == claim["start_ms"]
        assert (row["claim"], row["payer"]) == (claim["claim"] if is_first else wanted["piece"], wanted["payer"])


def test_a_claim_without_an_end_ends_when_its_workload_fell_silent_and_its_device_did_not(
    books: Store, stage: Stage, dice: Random
) -> None:
    make_settled(books, stage)
    names = stage.names("settled", "silent", "lost", "batches", "ended")
    silence = 24 * HOUR_MS
    newest = NOW + dice.randrange(HOUR_MS)
    claims = []
    for number in range(24):
        claim = drawn_allocation(dice, number) | {
            "start_ms": newest - dice.randint(1, 60) * HOUR_MS,
            "cluster": dice.choice("ab"),
        }
        estimated = dice.choice(["", "", "end lost: last sign of life before the next holder", ASSUMED])
        end = FOREVER if truth(dice, 0.8) else dice.choice([newest, claim["start_ms"]])
        whose = {"workload_id": dice.choice(["a", "b", "c", ""]), "allocation_id": dice.choice("abcdefgh")}
        claims.append(claim | whose | {"end_ms": end, "estimated": estimated})
    # Two of whom batches tell otherwise that the close does not read: of the first that it was alive since, of the
    # second that its device was.
    unread: list[Row] = []
    for number, (its, unread_of, of_device) in enumerate(((-silence - 1, "w", 0), (-silence, "", -1))):
        where = {"cluster": "a", "device_id": f"unread {number}"}
        life = {"start_ms": newest - 60 * HOUR_MS, "end_ms": FOREVER, "workload_id": "w"}
        claims.append(drawn_allocation(dice, 24 + number) | where | life)
        unread += [
            {**where, "workload_id": "w", "ts": newest + its, "batch": 1},
            {**where, "workload_id": "", "ts": newest + of_device, "batch": 1},
            {**where, "workload_id": unread_of, "ts": newest, "batch": 2},
        ]
    some = [{name: one[name] for name in ("cluster", "device_id")} for one in claims[:24]]
    samples: list[Row] = [
        {**dice.choice(some), "batch": dice.choice([1, 1, 1, 2]),
         "workload_id": dice.choice(["a", "b", "c", "", ""]),
         "ts": newest - dice.choice([silence, silence + 1, silence - 1, dice.randint(0, 60) * HOUR_MS])}
        for _ in range(30)
    ]  # fmt: skip
    # Of one the device's last sample comes just so long after its own.
    own = dice.choice(claims[:24])
    for length in dice.choice([[silence, silence - 1], [silence], [silence - 1]]):
        where = {"cluster": own["cluster"], "device_id": own["device_id"], "batch": 1}
        samples += [where | {"workload_id": own["workload_id"], "ts": newest - length}]
        samples += [where | {"workload_id": "", "ts": newest}]
    samples += [{"cluster": "z", "device_id": "z", "workload_id": "", "ts": newest, "batch": dice.choice([1, 2])}]
    # An allocation that fell silent on one device, on a second was never seen, and on a third is what it is.
    for number in range(6):
        third = dice.choice([None, None, dice.randint(0, 60) * HOUR_MS, silence])
        for place_of, ago in (("seen", silence + HOUR_MS), ("unseen", None), ("third", third)):
            where = {"cluster": "a", "device_id": f"{place_of} {number}"}
            whose = {"allocation_id": f"on several {number}", "workload_id": f"w{number}", "estimated": ""}
            life = {"start_ms": newest - dice.choice([61, 40, 10]) * HOUR_MS, "end_ms": FOREVER}
            claims.append(drawn_allocation(dice, len(claims)) | where | whose | life)
            if ago is not None:
                samples += [where | {"workload_id": f"w{number}", "ts": newest - ago, "batch": 1}]
            samples += [where | {"workload_id": "", "ts": newest - dice.choice([0, HOUR_MS]), "batch": 1}]
    # Of rows with one key the store keeps one.
    samples = list({(*place(one), one["workload_id"], one["ts"]): one for one in [*samples, *unread]}.values())
    fill(books, stage("settled"), claims)
    fill(books, "samples", [one | {"interval_seconds": 60.0, "state": "ok"} for one in samples])
    books.command(f"INSERT INTO {stage('batches')} SELECT 1")
    read = [one for one in samples if one["batch"] == 1]

    def of(rows: Iterable[Row], claim: Row, *columns: str) -> list[int]:
        return [one["ts"] for one in rows if all(one[name] == claim[name] for name in columns)]

    subject = ("cluster", "device_id", "workload_id")
    silent = [
        one for one in claims
        if one["end_ms"] == FOREVER and all(at <= newest - silence for at in of(read, one, *subject))
    ]  # fmt: skip
    params = {**names, "forever": FOREVER, "silence_ms": silence}
    ask(books, "silent", **params)
    found = books.rows("SELECT * FROM {silent:Identifier} ORDER BY claim", names)
    assert found == [{name: one[name] for name in found[0]} for one in silent]
    since = min((one["start_ms"] for one in silent), default=0)
    later = [one for one in read if one["ts"] > since]
    lost, unseen = {}, []
    for one in silent:
        its, device = of(later, one, *subject), of(later, one, "cluster", "device_id")
        was_seen = one["workload_id"] != "" and bool(its) and max(its) > one["start_ms"]
        if was_seen and max(device) - max(its) >= silence:
            lost[one["claim"]] = max(its)
        elif not was_seen:
            unseen.append(one)
    assert 24 in lost and 25 not in lost
    ends = {
        one["claim"]: one["end_ms"]
        for one in claims
        if one["end_ms"] < FOREVER and one["end_ms"] > one["start_ms"] and one["estimated"].startswith("end lost")
    } | lost
    for one in unseen:
        theirs = [other for other in claims if all(other[key] == one[key] for key in ("cluster", "allocation_id"))]
        undecided = [other for other in theirs if other["end_ms"] == FOREVER and other["claim"] not in lost]
        known = [ends[other["claim"]] for other in theirs if other["claim"] in ends]
        if known and max(known) > one["start_ms"] and all(other in unseen for other in undecided):
            lost[one["claim"]] = max(known)
    lost = dict(sorted(lost.items()))
    answers = rows_of(books, "lost_ends", **params)
    assert [(row["claim"], row["last_ms"]) for row in answers] == list(lost.items())

    books.command("CREATE TABLE {lost:Identifier} (claim UInt64, last_ms Int64) ENGINE = Memory", names)
    if lost:
        books.insert(
            stage("lost"),
            pa.table({"claim": pa.array(lost, pa.uint64()), "last_ms": pa.array(lost.values(), pa.int64())}),
        )
    ask(books, "end_lost", **names, why=SILENT)
    ended = {row["claim"]: row for row in books.rows("SELECT * FROM {ended:Identifier}", names)}
    assert ended.keys() == {one["claim"] for one in claims}
    reason = SILENT
    for one in claims:
        end = lost.get(one["claim"])
        why = f"{one['estimated']}; {reason}" if one["estimated"] else reason
        expected = one if end is None else one | {"end_ms": end, "estimated": why}
        assert {name: ended[one["claim"]][name] for name in one} == expected

    for one in dice.sample(claims, 4):
        its = of(read, one, *subject)
        before = dice.choice([newest, *its, *(at - 1 for at in its)])
        about = {
            "cluster": one["cluster"],
            "device": one["device_id"],
            "workload": one["workload_id"],
            "before": before,
        }
        (row,) = rows_of(books, "last_seen", batches=stage("batches"), **about)
        assert row["seen"] == max((at for at in its if at <= before), default=None)
    named = rows_of(books, "named", batches=stage("batches"), workloads=["a", "c"])
    assert [(row["cluster"], row["workload_id"], row["device_id"]) for row in named] == sorted(
        {(one["cluster"], one["workload_id"], one["device_id"]) for one in read if one["workload_id"] in ("a", "c")}
    )


def test_the_last_close_is_that_of_the_last_run(books: Store, dice: Random) -> None:
    runs = dice.sample(range(1, 99), 5)
    numbers = {name: [dice.choice([None, 0, run]) for run in runs] for name in ("allocations", "refused_claims")}
    texts = {name: [f"{name} {run}" for run in runs] for name in ("rate_card", "tenant_mapping")}
    columns = {name: pa.array(values, pa.uint64()) for name, values in {"run": runs, **numbers}.items()}
    books.insert("close_runs", pa.table(columns | texts))
    last = runs.index(max(runs))
    assert rows_of(books, "last_close") == [
        {"card": texts["rate_card"][last], "mapping": texts["tenant_mapping"][last],
         **{name: values[last] for name, values in numbers.items()}}
    ]  # fmt: skip
