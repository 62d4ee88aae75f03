"""What an agent's check lets pass, the receiver takes; what it holds back, the receiver would quarantine."""

from __future__ import annotations

import gzip
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ingest.check_rows import check_rows, problem_of
from ingest.json_files import lines_piece
from ingest.normalise import normalise
from ingest.wire import pack
from warehouse.records import DEVICES, EVENTS, METRICS, RECORD_TYPES, SAMPLES, Column, RecordType

NOW = datetime(2026, 11, 1, tzinfo=UTC)
NAIVE = NOW.replace(tzinfo=None)
GOOD: dict[str, Any] = {
    "ts": NOW,
    "interval_seconds": 10.0,
    "device_id": "GPU-0",
    "state": "ok",
    "utilization": 0.5,
}


def verdict(record: RecordType, row: dict[str, Any]) -> str | None:
    """The receiver's: the reason for the quarantine, None if the row is taken."""
    lines = gzip.decompress(pack(record.name, [row]).body).splitlines()
    rejects = normalise(record, lines_piece(record, lines)[0], NOW).rejects
    return rejects[0].reason if rejects else None


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({}, None),
        ({"memory_used_bytes": 5.0, "power_watts": 3}, None),
        ({"state": "blank", "utilization": None}, None),
        ({"state": "unsupported", "utilization": 0.3}, None),
        ({"device_id": ""}, "missing_device_id"),
        ({"ts": None}, "missing_ts"),
        ({"ts": NOW + timedelta(hours=2)}, "future_timestamp"),
        ({"ts": NOW.replace(year=1999)}, "out_of_range_ts"),
        ({"utilization": 1.5}, "out_of_range_utilization"),
        ({"utilization": float("nan")}, "not_a_number"),
        ({"power_watts": float("inf")}, "not_a_number"),
        ({"power_watts": 1e39}, "not_a_number"),
        ({"power_watts": 1e38}, None),
        ({"temperature_celsius": -1e39}, "not_a_number"),
        ({"energy_joules": 1e39}, None),
        ({"power_watts": -1.0}, "out_of_range_power_watts"),
        ({"utilization": None}, "missing_utilization"),
        ({"state": "idle"}, "idle_but_active"),
        ({"state": "busy"}, "unknown_state"),
        ({"memory_used_bytes": -1}, "out_of_range_memory_used_bytes"),
        ({"memory_used_bytes": 2**64}, "out_of_range_memory_used_bytes"),
        ({"memory_used_bytes": 1.5}, "not_a_whole_number"),
        ({"interval_seconds": 0.0}, "out_of_range_interval_seconds"),
        ({"node": "\ud800"}, "bad_json"),
    ],
)
def test_the_check_and_the_receiver_give_the_same_reason(change: dict[str, Any], reason: str | None) -> None:
    row = {**GOOD, **change}
    found = problem_of(SAMPLES, row, NOW)
    assert (found and found[0]) == reason
    assert verdict(SAMPLES, row) == reason


def test_an_unset_zone_and_a_number_where_text_belongs_are_held_back() -> None:
    assert problem_of(SAMPLES, {**GOOD, "ts": NOW.replace(tzinfo=None)}, NOW)
    assert problem_of(SAMPLES, {**GOOD, "node": 5}, NOW)
    assert problem_of(EVENTS, {"ts": NOW, "allocation_id": "a", "event": "started", "preemptible": 1}, NOW)


def test_rows_are_parted_in_order_with_their_reasons() -> None:
    rows = [{**GOOD, "node": "a"}, {**GOOD, "utilization": 7}, {**GOOD, "node": "b"}, {**GOOD, "utilization": 8}]
    checked = check_rows(SAMPLES, rows, NOW)
    assert [row.get("node") for row in checked.good] == ["a", "b"]
    assert [row["utilization"] for row in checked.bad] == [7, 8]
    assert checked.reasons == {"out_of_range_utilization": 2}
    assert checked.example.startswith("utilization 7")


def value_of(column: Column) -> st.SearchStrategy[Any]:
    odd = st.sampled_from([None, "", "x", -1, 0, 0.5, 2, 10**400, True, float("nan"), float("-inf"), NOW])
    usual = {
        "time": st.datetimes(NAIVE.replace(1990), NAIVE.replace(2030), timezones=st.just(UTC)),
        "text": st.sampled_from(column.choices) if column.choices else st.text(max_size=5),
        "float": st.floats(0, 2),
        "uint": st.integers(0, 2**64 - 1),
        "int": st.integers(-(2**63), 2**63 - 1),
        "bool": st.booleans(),
    }[column.type]
    return st.one_of(usual, usual, usual, odd)


@settings(max_examples=150)
@given(st.data())
def test_whatever_passes_the_check_the_receiver_takes(data: st.DataObject) -> None:
    record = data.draw(st.sampled_from([SAMPLES, EVENTS, DEVICES, METRICS, *RECORD_TYPES.values()]))
    row = {column.name: data.draw(value_of(column), label=column.name) for column in record.columns}
    if problem_of(record, row, NOW) is None:
        assert verdict(record, row) is None
