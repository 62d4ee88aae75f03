"""What a recorded share of a device says of its isolation: in Python, and in the views as SQL."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from alerts.slo.objectives import KINDS
from billing.close import close
from billing.insights.efficiency import efficiency
from billing.insights.now import asking, held, isolation
from billing.ledger_report import ledger_report
from tests.billing.facts import devices, job, put, samples
from tests.billing.hand_ledger import at
from tests.conftest import REPO
from tests.stores import fresh_store
from warehouse.isolation import ANY_LEVEL, OBJECTIVES, OWN_DEVICE, PROMISES, level_of_share, weakest
from warehouse.store import Store

CASES = (  # profile, partition, units held, units of the device, what that says
    ("", "", 1, 1, "exclusive"),
    ("", "", 7, 7, "exclusive"),
    ("", "", 1, 4, "shared"),
    ("1g.10gb", "", 1, 7, "partitioned"),
    ("1g.10gb", "MIG-1", 1, 1, "partitioned"),
    ("1g.10gb+me", "n1/gpu0/7", 1, 7, "partitioned"),
    ("1c.3g.20gb", "", 3, 7, "partitioned"),
    ("a100_3g.20gb", "n1/a100_3g.20gb/0", 3, 7, "partitioned"),
    ("MIG 7G.80GB", "", 7, 7, "partitioned"),
    ("", "MIG-1c0ffee", 1, 7, "partitioned"),
    ("", "n1/gpu0/7", 7, 7, ""),
    ("CPX", "", 1, 8, ""),
    ("vir04", "0", 1, 2, ""),
    ("A100-10C", "", 1, 8, ""),
    ("GRID4g.x", "", 1, 8, ""),
    ("", "GPU-1405::3", 1, 4, "shared"),
    ("", "GPU-1405::0", 4, 4, "shared"),
    ("1g.10gb", "MIG-1::1", 1, 7, "shared"),
    ("nvidia.com/gpu.shared", "GPU-1405::0", 1, 4, "shared"),
    ("", "::1", 1, 4, "shared"),
    ("", "GPU-1405::", 1, 4, ""),
    ("", "GPU-1405:3", 1, 4, ""),
    ("", "GPU-1405::3/0", 1, 4, ""),
)


@pytest.mark.parametrize("profile, partition, units, of, level", CASES)
def test_a_share_says_its_level_or_nothing(profile: str, partition: str, units: int, of: int, level: str) -> None:
    assert level_of_share("GPU-1", profile, partition, units >= of) == level
    if not profile and not partition:
        assert level_of_share("GPU-1", profile, partition, None) == "", "a device that is not in the inventory"


@pytest.mark.parametrize("is_whole", [True, False, None])
@pytest.mark.parametrize("doubt", ["", "contested", "assumed"])
def test_a_replica_is_shared_whatever_else_is_recorded(is_whole: bool | None, doubt: str) -> None:
    """Also one that an inventory lists as a device of its own."""
    assert level_of_share("GPU-1", "", "GPU-1::0", is_whole, doubt) == "shared"
    assert level_of_share("GPU-1::0", "", "", is_whole, doubt) == "shared"


def test_of_several_shares_the_weakest_counts_and_an_unknown_one_is_weaker() -> None:
    assert weakest(["exclusive", "partitioned"]) == "partitioned"
    assert weakest(["shared", "", "exclusive"]) == weakest([]) == ""


def test_every_kind_of_objective_is_judged_and_a_shared_device_promises_the_fewest() -> None:
    assert {*ANY_LEVEL, *OWN_DEVICE} == KINDS.keys()
    assert OBJECTIVES.keys() == PROMISES.keys()
    assert set(OBJECTIVES["exclusive"]) == set(OBJECTIVES["partitioned"]) == KINDS.keys()
    assert not set(OBJECTIVES["shared"]) & {"latency", "completion_time", "error_rate", "job_success"}


def test_the_views_say_the_same(tmp_path: Path) -> None:
    with fresh_store(tmp_path / "store") as store:
        store.command(
            "INSERT INTO closed_hours (hour, run, checked_by, content) VALUES ('2026-10-01 00:00:00', 1, 1, 1)"
        )
        replica = ("", "", 1, 1, "shared")
        for number, (profile, partition, units, of, _) in enumerate((*CASES, replica)):
            device = f"{number:02}" if number < len(CASES) else "GPU-1405::0"
            store.command(
                "INSERT INTO ledger_entries (run, hour, allocation_id, device_id, partition_id, partition_profile, "
                "units, device_units, used_unit_ms, charge_period_start) VALUES (1, '2026-10-01 00:00:00', {a:String}, "
                "{g:String}, {i:String}, {p:String}, {u:UInt32}, {d:UInt32}, 1, '2026-10-01 00:00:00')",
                {"a": f"{number:02}", "g": device, "i": partition, "p": profile, "u": units, "d": of},
            )
        for view in ("v_charges", "v_usage_hourly"):
            rows = store.rows(f"SELECT allocation_id, isolation_level FROM {view} ORDER BY allocation_id")
            assert [row["isolation_level"] for row in rows] == [level for *_, level in (*CASES, replica)], view
        report = ledger_report(store, None, ["device", "isolation"])
        assert {row["device"]: row["isolation"] for row in report.rows} == {
            "GPU-1405::0": "shared",
            **{f"{number:02}": level or "unknown" for number, (*_, level) in enumerate(CASES)},
        }
        assert {row["isolation"] for row in efficiency(store, None, ["isolation"]).rows} == {*OBJECTIVES, "unknown"}


def test_a_device_that_the_books_assume_promises_nothing(store: Store) -> None:
    """A source named a node only: that the device which was free there is whole says nothing of who shares it."""
    put(store, "devices", [*devices("2026-10-01 00:00", "GPU-1"), *devices("2026-10-01 00:00", "GPU-2", node="n2")])
    pod = {"allocation_id": "pod", "workload_id": "pod", "tenant": "vision", "node": "n2", "gpus": 1}
    put(store, "events", [{**pod, "ts": at("2026-10-01 00:00"), "event": "started"}])
    put(store, "events", job("job", "vision", "GPU-1", "2026-10-01 00:00", "2026-10-01 02:00", node="n1"))
    close(store, at("2026-10-01 01:00"), at("2026-10-01 01:00"))
    levels = {"GPU-1": "exclusive", "GPU-2": ""}
    for view in ("v_charges", "v_usage_hourly"):
        rows = store.rows(f"SELECT DISTINCT device_id, isolation_level FROM {view}")
        assert {row["device_id"]: row["isolation_level"] for row in rows} == levels, view
    report = ledger_report(store, None, ["device", "isolation"])
    assert {row["device"]: row["isolation"] for row in report.rows} == {"GPU-1": "exclusive", "GPU-2": "unknown"}
    now, _ = held(store, asking(store), at("2026-10-01 01:00"), 10)
    assert {one[0]: isolation(row) for row in now for one in row["devices"]} == levels


def test_what_two_hold_at_once_promises_neither_and_a_divided_device_leaves_its_holder_its_units(store: Store) -> None:
    """A time-slice that is reported as a whole device, a replica of a MIG partition, and what was divided since."""
    named = devices("2026-10-01 00:00", "turns", "cut") + devices("2026-10-01 00:00", "mig", units=7)
    put(store, "devices", [*named, *devices("2026-10-01 00:30", "cut", units=7)])
    held_by = {"a": "turns", "b": "turns", "cut": "cut", "p": "mig", "q": "mig", "r": "mig"}
    for name, device in held_by.items():
        part = {"p": "MIG-1", "q": "MIG-1", "r": "MIG-2"}.get(name)
        more = {"partition_id": part, "partition_profile": "1g.10gb", "units": 1} if part else {}
        put(store, "events", job(name, "vision", device, "2026-10-01 00:00", "2026-10-01 02:00", node="n1", **more))
    close(store, at("2026-10-01 01:00"), at("2026-10-01 01:00"))
    now, _ = held(store, asking(store), at("2026-10-01 01:00"), 10)
    assert {row["allocation_id"]: (isolation(row), row["devices"][0][-1]) for row in now} == {
        **dict.fromkeys("abpq", ("", "contested")), "r": ("partitioned", ""), "cut": ("shared", ""),
    }  # fmt: skip
    (cut,) = [row for row in now if row["allocation_id"] == "cut"]
    assert (cut["devices"], round(cut["gpus"], 3)) == ([("cut", "", "", 1, 7, "")], 0.143)
    whole = {"allocation_id": "cut", "workload_id": "cut", "tenant": "vision", "node": "n1", "device_id": "cut"}
    put(store, "events", [{**whole, "ts": at("2026-10-01 01:10"), "event": "resized"}])
    now, _ = held(store, asking(store), at("2026-10-01 01:20"), 10)
    (cut,) = [row for row in now if row["allocation_id"] == "cut"]
    assert cut["devices"] == [("cut", "", "", 7, 7, "")], "it has been given all of it since the books were closed"


def test_statements_that_judge_a_share_judge_it_alike() -> None:
    """The newest views, the reports, and a workload's page."""
    files = ("warehouse/migrations/0124_replicas_are_shared.sql", "billing/ledger_report.sql",
             "dashboards/pages/workload/charges.sql")  # fmt: skip
    texts = [
        " ".join(found.split()).replace("'unknown'", "''")
        for file in files
        for found in re.findall(r"multiIf\(\s+match\(partition_id.*?\n +'shared'\)", (REPO / file).read_text(), re.S)
    ]
    assert len(texts) == 4 and len(set(texts)) == 1


def test_a_lost_end_makes_no_assumed_device_a_known_one(store: Store) -> None:
    """Of two GPUs that a node's pod holds, its own samples name one; they stop a day before the devices' do."""
    put(store, "devices", devices("2026-10-01 00:00", "GPU-1", "GPU-2", "GPU-3", node="n2"))
    pod = {"allocation_id": "pod", "workload_id": "pod", "tenant": "vision", "node": "n2", "gpus": 2}
    put(store, "events", [{**pod, "ts": at("2026-10-01 00:00"), "event": "started"}])
    own = [{**one, "workload_id": "pod"} for one in samples("GPU-2", "2026-10-01 00:10", range(3))]
    every = [one for name in ("GPU-1", "GPU-2", "GPU-3") for one in samples(name, "2026-10-02 02:00", [0])]
    put(store, "samples", [*own, *every])
    close(store, at("2026-10-02 03:00"), at("2026-10-02 03:00"))
    rows = store.rows("SELECT device_id, estimated FROM allocations ORDER BY device_id")
    assert [(row["device_id"], row["estimated"].partition(":")[0]) for row in rows] == [
        ("GPU-1", "device unknown"),
        ("GPU-2", "end lost"),
    ]
    for view in ("v_charges", "v_usage_hourly"):
        levels = store.rows(f"SELECT DISTINCT device_id, isolation_level FROM {view} ORDER BY device_id")
        assert [tuple(row.values()) for row in levels] == [("GPU-1", ""), ("GPU-2", "exclusive")], view
