"""A job's life becomes rows of the contract, and no more than the contract has columns for."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from collectors.tables import schema
from scheduler.model import Device, Grant, Job, Node, Request
from scheduler.records.events import ORDER, Cause, Writer, message, shares
from warehouse.records import EVENTS

NODES = [
    Node("n0", tuple(Device(f"n0/{gpu}", "A100") for gpu in range(2)), pool="train"),
    Node("n1", (Device("n1/0", "T4", units=1000, memory_bytes=16 << 30),)),
    Node("n2", (Device("n2/0", "H100", units=7, geometry="h100-80gb"),)),
]
WRITER = Writer("c1", NODES)
JOB = Job("j", "vision", "batch", Request(2), 100.0, priority=3, project="cats")


def message_of(row: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(row["message"])
    return found


def test_rows_have_only_columns_of_the_contract_and_their_types() -> None:
    grants = (Grant(0, (0, 1), (1, 1)),)
    rows = [
        *WRITER.submitted(JOB, 100.0, 1),
        *WRITER.started(JOB, grants, "borrowed", 101.5, 2),
        *WRITER.ended("finished", JOB, 160.25, 3, quota_released_at=160.25),
    ]
    assert set().union(*rows) <= {column.name for column in EVENTS.columns}
    table = pa.Table.from_pylist(rows, schema(EVENTS))
    assert table["event"].to_pylist() == ["submitted", "started", "started", "finished"]
    assert [str(at) for at in table["ts"].to_pylist()][1] == "1970-01-01 00:01:41.500000+00:00"


def test_a_job_that_waits_says_where_it_may_run_if_that_is_not_anywhere() -> None:
    asked = Job("j", "vision", "batch", Request(2, models=frozenset({"H100", "A100"}), pool="train"), 100.0)
    for job, where in ((JOB, {}), (asked, {"pool": "train", "models": ["A100", "H100"]})):
        for row in (*WRITER.submitted(job, 100.0, 1), *WRITER.waits(job, 101.0, 1, 1, Cause())):
            assert message_of(row) == {"sequence": 1, **where}


def test_a_start_is_a_row_for_each_device_with_what_is_held_of_it() -> None:
    first, second = WRITER.started(
        JOB, (Grant(0, (0, 1), (1, 1)),), "guaranteed", 1.0, 7, cause=Cause(decision_id="d1")
    )
    assert (first["node"], first["device_id"], first["units"], first["gpus"]) == ("n0", "n0/0", 1, 2.0)
    assert second["device_id"] == "n0/1"
    assert message_of(first) == {"sequence": 7, "decision": "d1", "entitlement": "guaranteed"}


def test_replicas_that_share_a_device_are_one_row_with_their_units_together() -> None:
    job = Job("j", "t", "q", Request(1, units=250), 0.0, min_replicas=3, max_replicas=3)
    (row,) = WRITER.started(job, (Grant(1, (0,), (250,)),) * 3, "guaranteed", 1.0, 1)
    assert (row["units"], row["gpus"]) == (750, 0.75)


def test_mig_instances_on_one_device_are_distinguished_by_where_they_start() -> None:
    grants = (Grant(2, (0, 0), (1, 1), "1g.10gb", (0, 3)),)
    found = shares(NODES, grants)
    assert [share.partition_id for share in found] == ["n2/0/1g.10gb@0", "n2/0/1g.10gb@3"]
    assert {share.profile for share in found} == {"1g.10gb"}


def test_gpus_asked_in_units_of_devices_that_differ_are_unknown_not_guessed() -> None:
    asked = Job("j", "t", "q", Request(1, units=500), 0.0)
    assert WRITER.submitted(asked, 0.0, 1)[0]["gpus"] is None
    only_t4 = Job("j", "t", "q", Request(1, units=500, models=frozenset({"T4"})), 0.0)
    assert WRITER.submitted(only_t4, 0.0, 1)[0]["gpus"] == 0.5


def test_a_preemption_says_who_by_which_right_and_when_quota_and_devices_were_free() -> None:
    cause = Cause("ReclaimLentQuota", "gives way to k", "k", "d9")
    (row,) = WRITER.ended("preempted", JOB, 30.0, 5, attempt=2, cause=cause, quota_released_at=20.0)
    assert (row["allocation_id"], row["workload_id"]) == ("j/2", "j")
    assert (row["reason"], row["actor"]) == ("ReclaimLentQuota", "k")
    assert message_of(row) == {
        "sequence": 5,
        "decision": "d9",
        "quota_released_at": "1970-01-01T00:00:20.000Z",
        "resources_freed_at": "1970-01-01T00:00:30.000Z",
        "text": "gives way to k",
    }


def test_a_job_without_gpus_starts_with_one_row_and_no_device() -> None:
    (row,) = WRITER.started(Job("j", "t", "q", Request(0), 0.0), (Grant(0, (), ()),), "guaranteed", 1.0, 1)
    assert "device_id" not in row
    assert row["gpus"] == 0


@given(
    st.dictionaries(
        st.sampled_from(ORDER),
        st.one_of(st.integers(), st.text(), st.lists(st.text(), max_size=2)),
    )
)
def test_a_message_is_compact_json_with_its_keys_in_order_whatever_it_says(facts: dict[str, Any]) -> None:
    written = message(facts)
    assert written == json.dumps(json.loads(written), ensure_ascii=False, separators=(",", ":"))
    assert list(json.loads(written).items()) == [(key, facts[key]) for key in ORDER if key in facts]
