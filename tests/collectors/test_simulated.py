"""The simulated fleet keeps the contract, never gives away the same thing twice, and is the same for the same seed."""

from __future__ import annotations

import itertools
from collections import defaultdict
from dataclasses import replace
from datetime import UTC, datetime
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
import yaml

from collectors.simulated import FleetPlan, rate_card, simulate
from collectors.simulated.fleet import Fleet, build
from collectors.simulated.jobs import TENANTS, jobs
from collectors.simulated.placement import IMPOSSIBLE, Holding, place
from collectors.tables import schema
from warehouse.records import RECORD_TYPES

SMALL = FleetPlan(start=datetime(2026, 10, 5, tzinfo=UTC), days=3)
MONTH = FleetPlan()


@cache
def tables(plan: FleetPlan) -> dict[str, pa.Table]:
    found: dict[str, list[pa.Table]] = defaultdict(list)
    for record, table in simulate(plan):
        found[record.name].append(table)
    return {name: pa.concat_tables(parts).combine_chunks() for name, parts in found.items()}


@cache
def month() -> tuple[Fleet, tuple[Holding, ...], list[dict[str, Any]]]:
    """Fleet, holdings and event rows of the default month (without its samples, which take longer)."""
    source = simulate(MONTH)
    next(source)
    events = next(source)[1].to_pylist()
    fleet = build(MONTH)
    from collections import Counter

    from collectors.simulated.fleet import slots

    wanted = jobs(MONTH, Counter(slot.kind for slot in slots(MONTH, fleet)))
    return fleet, tuple(place(MONTH, fleet, wanted).holdings), events


@pytest.mark.parametrize("name", ["devices", "events", "samples"])
def test_tables_have_the_contract_columns_and_values(name: str) -> None:
    record, table = RECORD_TYPES[name], tables(SMALL)[name]
    assert table.schema == schema(record)
    for column in record.columns:
        values = table[column.name]
        if column.required:
            assert values.null_count == 0, column.name
        if column.choices:
            assert set(pc.unique(values).to_pylist()) <= set(column.choices)
        if column.type in ("float", "uint") and values.null_count < len(values):
            assert not pc.any(pc.is_nan(values.cast(pa.float64()))).as_py(), column.name
            assert column.minimum is None or pc.min(values).as_py() >= column.minimum
            assert column.maximum is None or pc.max(values).as_py() <= column.maximum


def test_same_seed_gives_the_same_bytes_and_another_seed_does_not() -> None:
    first = tables(SMALL)
    again: dict[str, list[pa.Table]] = defaultdict(list)
    for record, table in simulate(replace(SMALL)):
        again[record.name].append(table)
    for name, table in first.items():
        assert pa.concat_tables(again[name]).combine_chunks().equals(table), name
    others: set[str] = set()
    for record, table in simulate(replace(SMALL, seed=8)):
        if record.name not in others:
            assert not table.equals(first[record.name].slice(0, len(table))), record.name
        others.add(record.name)
        if others == first.keys():
            break
    assert others == first.keys()


def test_nothing_is_held_twice_and_mig_instances_never_sum_past_seven() -> None:
    fleet, holdings, _ = month()
    changes: dict[int, list[tuple[int, int]]] = defaultdict(list)
    spans: dict[tuple[int, str], list[tuple[int, int]]] = defaultdict(list)
    for holding in holdings:
        assert MONTH.start_ms <= holding.start_ms < holding.end_ms <= MONTH.end_ms
        slot = holding.slot
        changes[slot.device] += [(holding.start_ms, slot.units), (holding.end_ms, -slot.units)]
        if slot.partition_id:
            spans[slot.device, slot.partition_id].append((holding.start_ms, holding.end_ms))
    for device, moments in changes.items():
        held = 0
        for _, units in sorted(moments):  # at the same ms, ends (negative) come first
            held += units
            assert held <= fleet.devices[device].group.units
    for periods in spans.values():
        ordered = sorted(periods)
        assert all(before[1] <= after[0] for before, after in itertools.pairwise(ordered))


def test_jobs_on_a_failing_device_end_before_it_goes_down() -> None:
    fleet, holdings, _ = month()
    for incident in (incident for incident in fleet.incidents if incident.fatal):
        for holding in holdings:
            if holding.slot.device in incident.devices:
                assert holding.end_ms <= incident.start_ms or holding.start_ms >= incident.end_ms


def test_every_allocation_starts_before_it_ends_and_only_one_claim_is_impossible() -> None:
    _, _, events = month()
    started: dict[str, datetime] = {}
    ended: dict[str, datetime] = {}
    for row in events:
        if row["event"] == "started":
            started[row["allocation_id"]] = row["ts"]
        if row["event"] in ("preempted", "finished", "failed", "cancelled", "rejected"):
            assert row["allocation_id"] not in ended
            ended[row["allocation_id"]] = row["ts"]
    assert all(at <= ended[name] for name, at in started.items() if name in ended)
    assert IMPOSSIBLE in started


def test_the_month_has_the_troubles_it_promises() -> None:
    fleet, _, events = month()
    kinds = {row["event"] for row in events}
    assert kinds >= {"submitted", "started", "resized", "suspended", "resumed", "preempted", "failed", "rejected"}
    assert {row["reason"] for row in events} >= {"NodeFailure", "XID 79", "HigherPriority", "QuotaExceeded"}
    assert {row["tenant"] for row in events} == set(TENANTS)
    assert 100 <= len(fleet.devices) <= 130
    submitted = {row["allocation_id"]: row["ts"] for row in events if row["event"] == "submitted"}
    waits = [
        (row["ts"] - submitted[row["allocation_id"]]).total_seconds()
        for row in events
        if row["event"] == "started" and row["allocation_id"] in submitted
    ]
    assert min(waits) == 0
    assert np.quantile(waits, 0.9) > 600


def test_samples_lie_within_the_allocation_they_name() -> None:
    events = tables(SMALL)["events"].to_pylist()
    ends = ("preempted", "finished", "failed", "cancelled")
    start = {row["workload_id"]: row["ts"] for row in reversed(events) if row["event"] == "started"}
    end = {row["workload_id"]: row["ts"] for row in events if row["event"] in ends}
    samples = tables(SMALL)["samples"]
    named = samples.filter(pc.not_equal(samples["workload_id"], ""))
    spans = named.group_by("workload_id").aggregate([("ts", "min"), ("ts", "max")]).to_pylist()
    assert len(spans) > 50
    for row in spans:
        assert start[row["workload_id"]] < row["ts_min"]
        assert row["workload_id"] not in end or row["ts_max"] <= end[row["workload_id"]]


def test_unknown_is_never_a_number() -> None:
    samples = tables(SMALL)["samples"]
    usable = pc.is_in(samples["state"], pa.array(["ok", "idle"]))
    assert pc.all(pc.equal(usable, pc.is_valid(samples["utilization"]))).as_py()
    idle = samples.filter(pc.equal(samples["state"], "idle"))
    assert pc.max(idle["utilization"]).as_py() == 0
    assert set(pc.unique(samples["state"]).to_pylist()) >= {"blank", "stale", "unsupported", "no_permission"}


def test_parts_of_a_shared_device_add_up_to_the_whole() -> None:
    samples = tables(SMALL)["samples"]
    shared = samples.filter(pc.starts_with(samples["node"], "l4-")).to_pylist()
    whole = {(r["device_id"], r["ts"]): r["utilization"] for r in shared if not r["workload_id"]}
    parts: dict[tuple[str, datetime], dict[str, float | None]] = defaultdict(dict)
    for row in shared:
        if row["workload_id"]:
            parts[row["device_id"], row["ts"]][row["workload_id"]] = row["utilization"]
    checked = 0
    for key, values in parts.items():
        known = [value for value in values.values() if value is not None]
        assert sum(known) <= 1.0001
        if len(known) == len(values) and whole.get(key) is not None:
            assert sum(known) == pytest.approx(whole[key], abs=1e-3)
            checked += 1
    assert checked > 1000


def test_a_few_samples_come_twice_and_exactly_alike() -> None:
    samples = tables(SMALL)["samples"]
    key = list(RECORD_TYPES["samples"].key)
    counts = samples.group_by([*key, "state", "utilization", "power_watts"]).aggregate([([], "count_all")])
    keys = samples.group_by(key).aggregate([([], "count_all")])
    assert counts.num_rows == keys.num_rows < samples.num_rows


def test_rate_card_prices_every_pool_and_changes_in_the_middle() -> None:
    card = yaml.safe_load(rate_card(SMALL))
    assert (card["currency"], card["timezone"]) == ("USD", "Europe/Berlin")
    assert all(isinstance(rate["price_per_gpu_hour"], str) for rate in card["rates"])
    models = {rate["match"].get("model") for rate in card["rates"]}
    assert models >= {device.group.model for device in build(SMALL).devices}
    changes = {rate["effective_from"] for rate in card["rates"] if "effective_from" in rate}
    assert len(changes) == 1
    assert SMALL.start < changes.pop() < SMALL.start.replace(day=8)


def test_scale_multiplies_the_fleet() -> None:
    assert len(build(replace(SMALL, scale=10)).devices) == 1001
