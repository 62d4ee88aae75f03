"""The simulated fleet under the reference scheduler: what it decides is what is held, and nothing is held twice."""

from __future__ import annotations

import itertools
import json
from collections import Counter, defaultdict
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any

from collectors.simulated import FleetPlan, simulate
from collectors.simulated.fleet import Fleet, build, slots
from collectors.simulated.jobs import jobs
from collectors.simulated.placement import IMPOSSIBLE, Placed, place
from scheduler.records.events import SOURCE
from scheduler.simulate.fleet import ALL_AT_MINUTE, FleetScheduler
from tests.draws import seldom

WATCHED = datetime(2026, 10, 10, 3, tzinfo=UTC)
PLAN = FleetPlan(start=datetime(2026, 10, 5, tzinfo=UTC), days=6, watched_from=WATCHED)


@cache
def placed() -> tuple[Fleet, Placed, FleetScheduler]:
    fleet = build(PLAN)
    scheduler = FleetScheduler(PLAN, fleet)
    wanted = jobs(PLAN, Counter(slot.kind for slot in slots(PLAN, fleet)))
    return fleet, place(PLAN, fleet, wanted, scheduler), scheduler


@cache
def events() -> list[dict[str, Any]]:
    source = simulate(PLAN, FleetScheduler, SOURCE)
    next(source)
    rows: list[dict[str, Any]] = next(source)[1].to_pylist()
    return rows


@seldom(5, "a fleet is simulated")
def test_nothing_is_held_twice_nor_while_it_is_broken() -> None:
    fleet, found, _ = placed()
    spans: dict[tuple[int, str], list[tuple[int, int]]] = defaultdict(list)
    for holding in found.holdings:
        if holding.slot.units == 1 and not fleet.devices[holding.slot.device].group.name.endswith("shared"):
            spans[holding.slot.device, holding.slot.partition_id].append((holding.start_ms, holding.end_ms))
    assert len(spans) > 100
    for periods in spans.values():
        ordered = sorted(periods)
        assert all(before[1] <= after[0] for before, after in itertools.pairwise(ordered))
    for incident in (incident for incident in fleet.incidents if incident.fatal):
        for holding in found.holdings:
            if holding.slot.device in incident.devices:
                assert holding.end_ms <= incident.start_ms or holding.start_ms >= incident.end_ms


@seldom(5, "a fleet is simulated")
def test_what_runs_at_the_end_is_what_the_scheduler_thinks_runs() -> None:
    _, found, scheduler = placed()
    until = {
        h.allocation.allocation_id for h in found.holdings if h.end_ms == PLAN.end_ms and scheduler.decides(h.slot.kind)
    }
    lost = {e.allocation.allocation_id for e in found.events if e.allocation.job.end_is_lost}
    suspended = {e.allocation.allocation_id for e in found.events if e.event == "suspended"}
    assert until <= set(scheduler.core.running)
    assert set(scheduler.core.running) - until <= lost | suspended


@seldom(5, "a fleet is simulated")
def test_gangs_start_whole_and_every_decision_is_named() -> None:
    by_start: dict[tuple[str, datetime], list[dict[str, Any]]] = defaultdict(list)
    for row in events():
        if row["event"] == "started" and row["source"] == SOURCE and row["workload_id"] != IMPOSSIBLE:
            by_start[row["allocation_id"], row["ts"]].append(row)
    decided = [rows for rows in by_start.values() if rows[0]["message"]]
    assert len(decided) > 200
    for rows in decided:
        facts = json.loads(rows[0]["message"])
        assert {"sequence", "decision", "entitlement"} <= facts.keys()
        assert len({row["node"] for row in rows}) == 1 or rows[0]["queue"] == "inference"
    entitled = Counter(json.loads(rows[0]["message"])["entitlement"] for rows in decided)
    assert entitled["guaranteed"] and entitled["borrowed"]


def test_slurms_nodes_are_not_its_own() -> None:
    sources = {row["node"].split("-")[0]: row["source"] for row in events() if row["event"] == "started"}
    assert sources["h100"] == "slurm"
    assert {source for node, source in sources.items() if node != "h100"} == {SOURCE}


@seldom(6, "the same plan is decided alike")
def test_the_same_plan_is_decided_alike() -> None:
    """The rows are of another run than what was placed."""
    rows = Counter((row["ts"], row["event"], row["allocation_id"], row["message"]) for row in events())
    found = Counter(
        (datetime.fromtimestamp(e.ts_ms / 1000, UTC), e.event, e.allocation.allocation_id, e.message)
        for e in placed()[1].events
    )
    assert len(found) > 1000
    assert set(rows) == set(found), list((rows - found).items())[:3] + list((found - rows).items())[:3]


def test_what_waits_says_why() -> None:
    """A code as soon as it changes; at the end also in words, with the model of the books that fits."""
    fleet, found, scheduler = placed()
    kinds = {slot.kind: fleet.devices[slot.device].group.model for slot in slots(PLAN, fleet)}
    waiting = scheduler.core.pending
    assert waiting
    waits: dict[str, list[tuple[int, str, str]]] = defaultdict(list)
    for event in found.events:
        if event.event == "submitted" and event.reason:
            waits[event.allocation.allocation_id].append((event.ts_ms, event.reason, event.message))
    for job_id in waiting:
        at, reason, message = max(waits[job_id])
        assert at == PLAN.end_ms - 1
        assert reason
        assert json.loads(message)["text"]
        assert json.loads(message)["models"] == [kinds[waiting[job_id][0].request.pool]]
    changes = [[reason for _, reason, message in sorted(rows) if "text" not in message] for rows in waits.values()]
    assert all(before != after for codes in changes for before, after in itertools.pairwise(codes))
    assert sum(len(codes) > 1 for codes in changes) > 5


@seldom(5, "a fleet is simulated")
def test_whenever_it_is_watched_somebody_waits_and_is_expected_to_start() -> None:
    explained: dict[int, list[dict[str, Any]]] = defaultdict(list)
    for event in placed()[1].events:
        if event.event == "submitted" and event.ts_ms >= PLAN.seen_ms - 60_000 and '"text"' in event.message:
            explained[(event.ts_ms - PLAN.seen_ms + 60_000) // 3_600_000].append(json.loads(event.message))
    hours = range((PLAN.end_ms - PLAN.seen_ms) // 3_600_000 - 1)
    assert [at for at in hours if not explained[at]] == []
    # Five days are few outcomes to judge by; the demo has a month.
    expected = [one["expected_interval"] for at in hours for one in explained[at] if "expected_interval" in one]
    assert expected
    assert all(first < last for first, last in expected)


@seldom(5, "a fleet is simulated")
def test_guarantees_are_lent_and_reclaimed() -> None:
    _, found, scheduler = placed()
    taken = [event for event in found.events if event.event == "preempted" and event.reason == "ReclaimLentQuota"]
    assert len(taken) > 10
    assert all(event.allocation.job.kind.preemptible for event in taken)
    by_time: dict[datetime, dict[tuple[str, str, str], float]] = defaultdict(dict)
    for row in scheduler.reported():
        name, _, labels = row["metric"].partition("{")
        pool = labels.split(",")[0]
        by_time[row["ts"]][name, row["tenant"], pool] = row["value"]
    full = {at: values for at, values in by_time.items() if ("held_gpus", "", "") in values}
    before = WATCHED - timedelta(minutes=10)
    assert {at.minute for at in full if at < before} == {ALL_AT_MINUTE}
    assert {at.minute for at in full if at >= before} == set(range(0, 60, 10))
    assert max(full).timestamp() * 1000 == PLAN.end_ms
    borrowed = [
        values
        for values in full.values()
        for (name, tenant, pool), value in values.items()
        if name == "tenant_held_gpus" and value > values["tenant_guaranteed_gpus", tenant, pool] > 0
    ]
    assert len(borrowed) > 20
    for values in full.values():
        held, usable = values["held_gpus", "", ""], values["capacity_gpus", "", ""]
        assert 0 <= values["fragmented_gpus", "", ""] <= usable - held
        pools = sum(value for (name, *_), value in values.items() if name == "tenant_held_gpus")
        assert pools <= held
    assert max(values["fragmented_gpus", "", ""] for values in full.values()) > 0
