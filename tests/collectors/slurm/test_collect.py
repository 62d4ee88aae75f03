"""Asking Slurm: windows, commands, HTTP, what outlives a restart."""

from __future__ import annotations

import base64
import json
import socketserver
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from collectors.errors import CollectorError
from collectors.slurm import rest, sacct, scontrol
from collectors.slurm.collect import SlurmCollector
from collectors.slurm.inventory import GresDevice
from collectors.slurm.jobs import Job, Site, lifecycle
from collectors.slurm.nodes import Node
from collectors.slurm.parsed import Parsed
from collectors.slurm.position import Pace, ReadState, since
from collectors.slurm.sources import Commands, Rest
from collectors.slurm.tres import Gpus
from tests.collectors.slurm.records import TEN, accounted, controlled

SITE = Site(zone=ZoneInfo("Europe/Berlin"), cluster="alpha")
PLAIN = Site(cluster="alpha")
NOW = datetime(2026, 10, 5, 12, tzinfo=UTC)
HEADER = "JobID|JobIDRaw|Account|Partition|State|Submit|Start|End|NodeList|AllocTRES|ReqTRES"
INVENTORY = {("g1", 0): GresDevice("GPU-0", model="H100")}
DAYS = 4 * 86_400
NODE = "NodeName=g1\n   Gres={gres}\n   State={state} Weight=1\n   Reason=bad fan [root@2026-10-05T11:00:00]\n"


def record(state: str, start: str, end: str = "Unknown", job: int = 7) -> str:
    return f"{job}|{job}|chem|train|{state}|2026-10-05T09:00:00|2026-10-05T{start}|{end}|g1|gres/gpu=1|gres/gpu=1"


JOB = controlled(
    job_id=7, submit_time=TEN - 3600 + DAYS, start_time=TEN + DAYS, nodes="g1", node_count=1,
    tres_alloc_str="gres/gpu=1", tres_req_str="gres/gpu=1", gres_detail=["gpu:1(IDX:0)"], priority=None,
)  # fmt: skip


@dataclass
class Reported:
    """A Slurm that says what it was given, or is away."""

    lines: list[str] = field(default_factory=list)
    jobs: list[dict[str, Any]] = field(default_factory=list)
    node: str = "IDLE"
    gres: str = "gpu:1"
    away: set[str] = field(default_factory=set)
    asked: list[datetime] = field(default_factory=list)

    def accounted(self, begin: datetime, now: datetime) -> Parsed[Job]:
        self.asked.append(begin)
        self._check("accounted")
        return sacct.read("\n".join([HEADER, *self.lines]), PLAIN)

    def controlled(self) -> Parsed[Job]:
        self._check("controlled")
        return rest.read_jobs({"jobs": self.jobs})

    def nodes(self) -> Parsed[Node]:
        self._check("nodes")
        return scontrol.read_nodes(NODE.format(gres=self.gres, state=self.node), PLAIN)

    def _check(self, what: str) -> None:
        if what in self.away:
            raise CollectorError(what, "away")


def events(rows: dict[str, list[dict[str, Any]]]) -> list[tuple[str, str]]:
    return [(row["event"], row.get("device_id", "")) for row in rows.get("events", [])]


def test_rows_that_were_stored_are_not_handed_on_again_and_others_are(tmp_path: Path) -> None:
    reported = Reported([record("RUNNING", "10:00:00")], [JOB])
    collector = SlurmCollector(reported, PLAIN, INVENTORY, tmp_path / "slurm.json")
    first = events(collector.collect(NOW).rows)
    assert first == [("submitted", ""), ("started", ""), ("resized", "GPU-0")]
    assert events(collector.collect(NOW).rows) == first  # nobody said that it was kept
    collector.acknowledge()
    assert events(collector.collect(NOW + timedelta(minutes=1)).rows) == []
    collector.acknowledge()
    reported.lines = [record("COMPLETED", "10:00:00", "2026-10-05T11:59:00")]
    assert events(collector.collect(NOW + timedelta(minutes=2)).rows) == [("finished", "")]


def test_a_restart_goes_on_from_the_stored_position_with_the_same_keys(tmp_path: Path) -> None:
    reported = Reported([record("RUNNING", "10:00:00")], [JOB])
    collector = SlurmCollector(reported, PLAIN, INVENTORY, tmp_path / "slurm.json")
    first = collector.collect(NOW).rows["events"]
    collector.acknowledge()
    again = SlurmCollector(reported, PLAIN, INVENTORY, tmp_path / "slurm.json")
    assert again.collect(NOW + timedelta(minutes=5)).rows["events"] == first
    assert reported.asked == [NOW - timedelta(days=7), NOW - timedelta(hours=1)]


def test_a_source_that_is_away_is_a_finding_and_its_window_is_asked_again(tmp_path: Path) -> None:
    """The controller tells of its jobs meanwhile."""
    reported = Reported([record("RUNNING", "10:00:00")], [JOB], away={"accounted", "nodes"})
    collector = SlurmCollector(reported, PLAIN, INVENTORY, tmp_path / "slurm.json")
    rows = collector.collect(NOW).rows
    assert events(rows) == [("submitted", ""), ("started", ""), ("resized", "GPU-0")]
    assert [(row["finding"], row["severity"], row["message"]) for row in rows["findings"]] == [
        ("source_unreachable", "critical", "nodes: away"),
        ("source_unreachable", "critical", "accounted: away"),
    ]
    assert collector.away == ["nodes: away", "accounted: away"]
    collector.acknowledge()
    reported.jobs = [JOB | {"job_state": "COMPLETED", "end_time": TEN + DAYS + 60, "gres_detail": []}]
    ended = collector.collect(NOW + timedelta(minutes=2)).rows["events"]
    assert [(row["event"], row["ts"]) for row in ended] == [("finished", datetime(2026, 10, 5, 10, 1, tzinfo=UTC))]
    collector.acknowledge()
    reported.away = set()
    later = NOW + timedelta(days=3)
    assert events(collector.collect(later).rows) == []  # accounting says the same
    assert collector.away == []
    assert reported.asked[-1] == later - timedelta(days=7)


def test_a_job_of_which_accounting_has_no_record_begins_and_ends_as_the_controller_says(tmp_path: Path) -> None:
    """As found: Slurm 22.05 lost the records of two jobs that began while it restarted, and neither ever ended here."""
    reported = Reported([record("RUNNING", "10:00:00", job=8)], [JOB])
    collector = SlurmCollector(reported, PLAIN, INVENTORY, tmp_path / "slurm.json")
    first = collector.collect(NOW).rows
    assert [event for event in events(first) if event != ("submitted", "")] == [
        ("started", ""),  # job 8
        ("started", ""),
        ("resized", "GPU-0"),
    ]
    findings = [(row["finding"], row["workload_id"]) for row in first["findings"]]
    assert findings == [("record_missing", "7"), ("end_unknown", "8")]  # job 8 runs for accounting alone
    collector.acknowledge()
    over = NOW + timedelta(minutes=2)
    reported.jobs = [JOB | {"job_state": "COMPLETED", "end_time": int(over.timestamp()), "gres_detail": []}]
    rows = collector.collect(over + timedelta(minutes=1)).rows
    assert [(row["event"], row["allocation_id"], row["ts"]) for row in rows["events"]] == [("finished", "7", over)]
    collector.acknowledge()
    reported.lines.append(record("COMPLETED", "10:00:00", f"{over:%Y-%m-%dT%H:%M:%S}"))
    assert collector.collect(over + timedelta(minutes=2)).rows == {}  # accounting has it after all, and says the same


def test_a_run_that_accounting_makes_none_of_has_an_end(tmp_path: Path) -> None:
    """As found on a real Slurm: requeued in the second of its start, or told to start in that of its end, it never
    ended here."""
    began = datetime(2026, 10, 5, 10, tzinfo=UTC)
    now = began + timedelta(minutes=1)
    waiting = JOB | {"job_state": "PENDING", "start_time": 0, "nodes": "", "gres_detail": []}
    for number, (start, end) in enumerate((("09:59:59", "09:59:59"), ("09:59:58", "10:00:00"))):
        reported = Reported([record("RUNNING", "10:00:00")], [JOB | {"gres_detail": []}])
        collector = SlurmCollector(reported, PLAIN, INVENTORY, tmp_path / f"{number}.json")
        assert events(collector.collect(now).rows) == [("submitted", ""), ("started", "")]
        collector.acknowledge()
        reported.jobs = [waiting]
        assert events(collector.collect(now + timedelta(seconds=1)).rows) == []  # accounting says that it runs
        reported.lines = [record("REQUEUED", start, f"2026-10-05T{end}")]
        for _ in range(2):  # until it is kept
            rows = collector.collect(now + timedelta(seconds=2)).rows["events"]
            ends = {(row["event"], row["allocation_id"], row.get("gpus")) for row in rows if row["ts"] == began}
            assert ends == {("resized", "7", 0), ("cancelled", "7", None)}
        collector.acknowledge()
        assert collector.collect(now + timedelta(seconds=3)).rows == {}
        # A run of before ends none that began long after it, whose record is late.
        reported.lines.append(record("RUNNING", "10:00:50"))
        collector.collect(now + timedelta(seconds=4))
        collector.acknowledge()
        reported.lines.pop()
        assert collector.collect(now + timedelta(seconds=5)).rows == {}


@pytest.mark.parametrize("restarts", [0, 1])
def test_a_run_that_the_controller_alone_saw_has_an_end(tmp_path: Path, restarts: int) -> None:
    """As recorded on Slurm 22.05: accounting still said PENDING when the controller told of the devices; the
    job was requeued in that second, its record had no length, and it held three instances for good."""
    reported = Reported(
        [record("PENDING", "Unknown").replace("2026-10-05TUnknown", "Unknown")], [JOB | {"restart_cnt": restarts}]
    )
    collector = SlurmCollector(reported, PLAIN, INVENTORY, tmp_path / "slurm.json")
    now = datetime(2026, 10, 5, 10, 0, 1, tzinfo=UTC)
    rows = collector.collect(now).rows["events"]
    assert [(row["event"], row.get("device_id")) for row in rows] == [("submitted", None), ("resized", "GPU-0")]
    collector.acknowledge()
    reported.lines = [record("REQUEUED", "10:00:00", "2026-10-05T10:00:00")]
    reported.jobs = [JOB | {"job_state": "PENDING", "start_time": 0, "nodes": "", "gres_detail": []}]
    nothing, end = collector.collect(now + timedelta(seconds=2)).rows["events"]
    assert (nothing["event"], nothing["gpus"], nothing["ts"]) == ("resized", 0, now - timedelta(seconds=1))
    assert (end["event"], end["allocation_id"], end["reason"]) == ("cancelled", "7", "REQUEUED")
    assert end["ts"] == rows[1]["ts"]
    assert "device_id" not in end
    collector.acknowledge()
    assert collector.collect(now + timedelta(minutes=1)).rows == {}


@pytest.mark.parametrize("restarts", [0, 1])
def test_a_run_that_the_controller_saw_first_ends_once(tmp_path: Path, restarts: int) -> None:
    reported = Reported([], [JOB | {"restart_cnt": restarts}])
    collector = SlurmCollector(reported, PLAIN, INVENTORY, tmp_path / "slurm.json")
    now = datetime(2026, 10, 5, 10, 0, 1, tzinfo=UTC)
    collector.collect(now)
    collector.acknowledge()
    reported.lines = [record("COMPLETED", "10:00:00", "2026-10-05T10:00:40")]
    reported.jobs = [JOB | {"job_state": "COMPLETED", "end_time": TEN + DAYS + 40, "gres_detail": []}]
    assert events(collector.collect(now + timedelta(minutes=1)).rows) == [("finished", "")]


@pytest.mark.parametrize("who", ["accounting", "controller"])
@pytest.mark.parametrize("acknowledged", [True, False])
@pytest.mark.parametrize("restarted", [True, False])
def test_an_end_that_slurm_changes_keeps_its_first_value_and_is_a_finding(
    tmp_path: Path, acknowledged: bool, restarted: bool, who: str
) -> None:
    """As recorded on Slurm 22.05: component 7+1 of a heterogeneous job was cancelled in the second of its start; two
    seconds later the whole job was requeued, and sacct's record of the component became one of two seconds."""
    now = datetime(2026, 10, 5, 10, 0, 2, tzinfo=UTC)
    if who == "accounting":
        reported = Reported([record("CANCELLED by 0", "10:00:00", "2026-10-05T10:00:00")])
    else:
        reported = Reported([], [JOB | {"job_state": "CANCELLED", "end_time": TEN + DAYS, "gres_detail": []}])
    collector = SlurmCollector(reported, PLAIN, INVENTORY, tmp_path / "slurm.json")
    ends = [row for row in collector.collect(now).rows["events"] if row["event"] not in ("submitted", "started")]
    assert [(row["event"], row.get("gpus"), row.get("reason"), row["ts"].microsecond) for row in ends] == [
        ("resized", 0, None, 0),
        ("cancelled", None, "CANCELLED", 0),
    ]
    if acknowledged:
        collector.acknowledge()
    if restarted:
        collector = SlurmCollector(reported, PLAIN, INVENTORY, tmp_path / "slurm.json")
    reported.lines = [record("REQUEUED", "10:00:00", "2026-10-05T10:00:02")]
    reported.jobs = []
    rows = collector.collect(now + timedelta(seconds=1)).rows
    assert rows["events"][-1]["ts"] == now
    found = [(row["finding"], row["workload_id"], row["message"]) for row in rows.get("findings", ())]
    changed = (
        "Slurm reported its end as 2026-10-05 10:00:00Z, and reports 2026-10-05 10:00:02Z now: the earlier one is"
        " billed"
    )
    # An end that was not kept is in no ledger: the later one is the only one.
    assert found == ([("end_changed", "7", changed)] if acknowledged else [])
    collector.acknowledge()
    assert collector.collect(now + timedelta(seconds=30)).rows == {}
    (lost,) = collector.collect(now + timedelta(minutes=2)).rows["findings"]  # nothing came after the requeue
    assert (lost["finding"], lost["workload_id"]) == ("record_missing", "7")


@pytest.mark.parametrize("who", ["accounting", "controller"])
@pytest.mark.parametrize("restarted", [True, False])
def test_a_node_that_is_given_back_in_the_second_of_the_start_ends(tmp_path: Path, who: str, restarted: bool) -> None:
    """Accounting has a record of no length of both nodes, or none where it was submitted in that second, too."""
    both = JOB | {
        "nodes": "g[1-2]",
        "node_count": 2,
        "tres_alloc_str": "gres/gpu=2",
        "gres_detail": ["gpu:1(IDX:0)"] * 2,
    }
    began = record("RUNNING", "10:00:00").replace("|g1|gres/gpu=1|", "|g[1-2]|gres/gpu=2|")
    reported = Reported([began], [both])
    collector = SlurmCollector(reported, PLAIN, INVENTORY, tmp_path / "slurm.json")
    now = datetime(2026, 10, 5, 10, 0, 1, tzinfo=UTC)
    first = collector.collect(now).rows["events"]
    assert {row["allocation_id"] for row in first if row["event"] == "started"} == {"7", "7@g2"}
    if restarted:  # killed when it was delivered, before that was kept
        collector = SlurmCollector(reported, PLAIN, INVENTORY, tmp_path / "slurm.json")
    else:
        collector.acknowledge()
    if who == "accounting":
        ended = began.replace("RUNNING", "RESIZING").replace("|Unknown|", "|2026-10-05T10:00:00|")
        left = record("RUNNING", "10:00:00").replace("T09:00:00", "T10:00:00")
        reported.lines, reported.jobs = [ended, left], [JOB | {"resize_time": TEN + DAYS}]
    else:
        reported.lines, reported.jobs = [record("RUNNING", "10:00:00")], [JOB | {"resize_time": TEN + DAYS}]
    rows = collector.collect(now + timedelta(seconds=1)).rows["events"]
    ends = [
        (row["event"], row["allocation_id"], row["reason"]) for row in rows if row["event"] in ("finished", "cancelled")
    ]
    assert ends == [("finished", "7@g2", "RESIZING")]
    began_at = datetime(2026, 10, 5, 10, tzinfo=UTC)
    placed = {(row["allocation_id"], row["ts"] - began_at) for row in rows if row.get("device_id")}
    assert placed == {("7", timedelta(milliseconds=1))}
    nothing = {(row["allocation_id"], row["ts"]) for row in rows if row["event"] == "resized" and row.get("gpus") == 0}
    assert nothing == {("7@g2", began_at)}


def test_a_job_that_is_over_while_accounting_says_that_it_waits_is_over(tmp_path: Path) -> None:
    waits = record("PENDING", "Unknown").replace("2026-10-05TUnknown", "Unknown")
    reported = Reported([waits], [JOB])
    collector = SlurmCollector(reported, PLAIN, INVENTORY, tmp_path / "slurm.json")
    first = collector.collect(NOW).rows
    assert [(row["finding"], row["workload_id"]) for row in first["findings"]] == [("record_missing", "7")]
    assert ("started", "") in events(first)  # it is late by more than a minute
    collector.acknowledge()
    over = {"job_state": "COMPLETED", "submit_time": TEN + DAYS - 3600, "end_time": TEN + DAYS + 60, "gres_detail": []}
    reported.jobs = [JOB | over]
    rows = collector.collect(NOW + timedelta(minutes=1)).rows["events"]
    assert [(row["event"], row["ts"].minute) for row in rows] == [("finished", 1)]
    # An earlier run's end is none of the one that waits.
    reported.jobs = [JOB | over | {"submit_time": TEN + DAYS - 7200, "end_time": TEN + DAYS + 30}]
    collector = SlurmCollector(reported, PLAIN, INVENTORY, tmp_path / "other.json")
    assert events(collector.collect(datetime(2026, 10, 5, 10, 0, 40, tzinfo=UTC)).rows) == [("submitted", "")]


def test_what_was_concluded_stands_until_accounting_has_the_run(tmp_path: Path) -> None:
    """The controller's end was reported; that it forgets the job does not end it a second time, earlier."""
    before = record("REQUEUED", "09:00:00", "2026-10-05T09:00:30")
    reported = Reported([before], [JOB])
    collector = SlurmCollector(reported, PLAIN, INVENTORY, tmp_path / "slurm.json")
    now = datetime(2026, 10, 5, 10, 2, tzinfo=UTC)
    collector.collect(now)
    collector.acknowledge()
    over = {"job_state": "COMPLETED", "end_time": TEN + DAYS + 60, "gres_detail": []}
    ends = []
    for jobs in ([JOB | over], [], []):
        reported.jobs = jobs
        rows = collector.collect(now + timedelta(minutes=1)).rows.get("events", ())
        ends += [row["ts"].minute for row in rows]
        collector.acknowledge()
    assert ends == [1]
    reported.lines.append(record("COMPLETED", "10:00:00", "2026-10-05T10:01:00"))
    assert "findings" not in collector.collect(now + timedelta(minutes=2)).rows
    # An end that is later than what was concluded is a finding: it is not billed.
    reported.lines[-1] = record("COMPLETED", "10:00:00", "2026-10-05T10:01:09")
    (found,) = collector.collect(now + timedelta(minutes=3)).rows["findings"]
    assert (found["finding"], found["workload_id"]) == ("end_changed", "7")


def test_an_end_without_nodes_is_remembered_too(tmp_path: Path) -> None:
    """A component that was cancelled in the second of its start had a record without nodes before it was requeued."""
    cancelled = record("CANCELLED", "10:00:00", "2026-10-05T10:00:00").replace("|g1|", "|None assigned|")
    reported = Reported([cancelled])
    collector = SlurmCollector(reported, PLAIN, INVENTORY, tmp_path / "slurm.json")
    assert "findings" not in collector.collect(NOW).rows
    collector.acknowledge()
    waits = {"job_state": "PENDING", "submit_time": TEN + DAYS + 2, "start_time": 0, "nodes": "", "gres_detail": []}
    reported.lines, reported.jobs = [record("REQUEUED", "10:00:00", "2026-10-05T10:00:02")], [JOB | waits]
    (found,) = collector.collect(NOW + timedelta(seconds=1)).rows["findings"]
    assert (found["finding"], found["workload_id"]) == ("end_changed", "7")


def test_a_record_that_shows_another_to_be_lost_is_a_finding(tmp_path: Path) -> None:
    """What was requeued or resized has a next record, and what waits no later submission."""
    waits = record("PENDING", "Unknown").replace("2026-10-05TUnknown", "Unknown")
    again = record("COMPLETED", "11:00:00", "2026-10-05T11:05:00").replace("T09:00:00", "T10:30:00")
    for number, (lines, lost) in enumerate(
        (
            ([record("REQUEUED", "10:00:00", "2026-10-05T10:30:00")], True),
            ([record("REQUEUED", "10:00:00", "2026-10-05T10:30:00"), again], False),
            ([record("RESIZING", "10:00:00", "2026-10-05T10:30:00")], True),
            ([waits, again], True),
            ([record("COMPLETED", "10:00:00", "2026-10-05T10:30:00")], False),
        )
    ):
        collector = SlurmCollector(Reported(lines), PLAIN, INVENTORY, tmp_path / f"{number}.json")
        found = [(row["finding"], row["workload_id"]) for row in collector.collect(NOW).rows.get("findings", ())]
        assert found == [("record_missing", "7")] * lost, lines


def test_a_job_that_a_killed_slurmctld_forgot_ends_when_another_has_its_id(tmp_path: Path) -> None:
    """As found on Slurm 22.05: accounting took job 47 for running for good, and the next job was 47, too."""
    reported = Reported([record("RUNNING", "10:00:00")], [JOB])
    collector = SlurmCollector(reported, PLAIN, INVENTORY, tmp_path / "slurm.json")
    now = datetime(2026, 10, 5, 10, 0, 1, tzinfo=UTC)
    collector.collect(now)
    collector.acknowledge()
    other = {"job_state": "PENDING", "start_time": 0, "nodes": "", "gres_detail": [], "account": "bio"}
    reported.jobs = [JOB | other | {"submit_time": TEN + DAYS + 7}]
    rows = collector.collect(now + timedelta(seconds=9)).rows["events"]
    ends = [(row["event"], row["tenant"], row["ts"].second) for row in rows if row["event"] != "submitted"]
    assert ends == [("cancelled", "chem", 7)]


def test_a_task_that_waits_again_has_ended_though_accounting_has_no_record_of_it(tmp_path: Path) -> None:
    """As found on a real Slurm: it held its device until it was cancelled in the queue; the next job was refused."""
    reported = Reported([], [JOB | {"gres_detail": []}])
    collector = SlurmCollector(reported, PLAIN, INVENTORY, tmp_path / "slurm.json")
    now = datetime(2026, 10, 5, 10, 1, tzinfo=UTC)
    collector.collect(now)
    collector.acknowledge()
    requeued = {"job_state": "PENDING", "start_time": 0, "nodes": "", "gres_detail": [], "submit_time": TEN + DAYS + 2}
    reported.jobs = [JOB | requeued]
    rows = collector.collect(now + timedelta(seconds=1)).rows["events"]
    assert [(row["event"], row["ts"].second) for row in rows] == [("submitted", 2), ("cancelled", 2)]
    collector.acknowledge()
    assert "events" not in collector.collect(now + timedelta(seconds=2)).rows


def test_what_is_left_of_a_job_that_is_resized_in_its_last_second_ends() -> None:
    """Its end stands in the instant in which the record before it ends, and ended that one again."""
    left = replace(Job("7"), state="COMPLETED", submitted_at=NOW, started_at=NOW, ended_at=NOW, nodes=("g1",))
    rows = lifecycle(replace(left, held=Gpus(1)), PLAIN)
    assert [(row["event"], row["ts"]) for row in rows[1:]] == [
        ("started", NOW),
        ("resized", NOW),  # to nothing: it held what it had for no time
        ("finished", NOW + timedelta(milliseconds=1)),
    ]


@pytest.mark.parametrize("restarted", [True, False])
@pytest.mark.parametrize("ended", ["11:00:04", ""])
def test_a_run_that_accounting_never_wrote_ends_as_the_controller_says(
    tmp_path: Path, ended: str, restarted: bool
) -> None:
    """As found on a real Slurm: of two runs of an array's task the second was told to run, and then only the first was
    on record; 1,115 GPU-seconds were billed for one."""
    reported = Reported([record("RUNNING", "10:00:00")], [JOB | {"gres_detail": []}])
    collector = SlurmCollector(reported, PLAIN, INVENTORY, tmp_path / "slurm.json")
    collector.collect(NOW)
    collector.acknowledge()
    reported.lines = [record("REQUEUED", "10:00:00", "2026-10-05T10:00:01"), record("RUNNING", "11:00:00")]
    assert ("started", "") in events(collector.collect(NOW + timedelta(seconds=1)).rows)
    collector.acknowledge()
    if restarted:
        collector = SlurmCollector(reported, PLAIN, INVENTORY, tmp_path / "slurm.json")
    reported.lines.pop()
    began = datetime(2026, 10, 5, 11, tzinfo=UTC)
    end = int(began.timestamp()) + 4
    over = {"job_state": "CANCELLED", "start_time": end - 4, "end_time": end, "gres_detail": []}
    reported.jobs = [JOB | over] if ended else []  # or it is gone from the controller's memory
    found = collector.collect(NOW + timedelta(seconds=2)).rows
    if not ended:
        # Something must have followed the requeue; of the run that was told somebody may still say.
        assert [row["finding"] for row in found["findings"]] == ["record_missing"]
        collector.acknowledge()
        found = collector.collect(NOW + timedelta(hours=1)).rows
        assert [(row["finding"], row["workload_id"]) for row in found["findings"]] == [("end_unknown", "7")]
    over_at = began + timedelta(seconds=4 if ended else 0)
    last = [(row["event"], row["ts"]) for row in found["events"] if row["ts"] >= began]
    assert [end for end in last if end[0] not in ("submitted", "started", "resized")] == [("cancelled", over_at)]
    collector.acknowledge()
    assert collector.collect(NOW + timedelta(hours=1, seconds=3)).rows == {}


def test_a_run_that_was_overwritten_in_the_second_of_its_submission_held_nothing(tmp_path: Path) -> None:
    """Nobody asked the controller meanwhile; that the record of one submission begins later than the run says it."""
    began = datetime(2026, 10, 5, 10, tzinfo=UTC)
    at_once = record("RUNNING", "10:00:00").replace("T09:00:00", "T10:00:00")
    reported = Reported([at_once], [JOB | {"submit_time": TEN + DAYS}])
    collector = SlurmCollector(reported, PLAIN, INVENTORY, tmp_path / "slurm.json")
    collector.collect(began + timedelta(seconds=1))
    collector.acknowledge()
    over = {"job_state": "COMPLETED", "start_time": TEN + DAYS + 12, "end_time": TEN + DAYS + 20, "gres_detail": []}
    reported.jobs = [JOB | over | {"submit_time": TEN + DAYS}]
    reported.lines = [
        at_once.replace("RUNNING", "COMPLETED").replace("10:00:00|Unknown", "10:00:12|2026-10-05T10:00:20")
    ]
    rows = collector.collect(began + timedelta(minutes=1)).rows
    ends = [(row["event"], row.get("gpus"), row["ts"].second) for row in rows["events"] if row["event"] != "started"]
    assert ends == [("finished", None, 20), ("resized", 0, 0), ("cancelled", None, 0)]
    assert "findings" not in rows


def test_a_run_is_not_ended_again_once_its_record_is_older_than_what_accounting_is_asked_for(tmp_path: Path) -> None:
    """It was taken for one that accounting never wrote, and billed for a millisecond instead of ten minutes."""
    first = record("REQUEUED", "10:00:00", "2026-10-05T10:10:00")
    reported = Reported([first])
    collector = SlurmCollector(reported, PLAIN, INVENTORY, tmp_path / "slurm.json")
    now = datetime(2026, 10, 5, 10, 30, tzinfo=UTC)
    for at, lines in (
        (now, [first]),
        (now + timedelta(minutes=45), [record("COMPLETED", "11:10:00", "2026-10-05T11:12:00")]),
    ):
        reported.lines = lines
        rows = collector.collect(at).rows["events"]
        collector.acknowledge()
    assert [(row["event"], row["ts"].hour) for row in rows] == [("started", 11), ("finished", 11)]


def test_a_run_that_accounting_lost_while_unwatched_for_hours_is_a_finding(tmp_path: Path) -> None:
    reported = Reported([record("RUNNING", "10:00:00")], [JOB])
    now = datetime(2026, 10, 5, 10, 20, tzinfo=UTC)
    collector = SlurmCollector(reported, PLAIN, INVENTORY, tmp_path / "slurm.json")
    collector.collect(now)
    collector.acknowledge()
    reported.lines, reported.jobs = [], []
    rows = SlurmCollector(reported, PLAIN, INVENTORY, tmp_path / "slurm.json").collect(now + timedelta(hours=3)).rows
    (found,) = rows["findings"]
    assert (found["finding"], found["workload_id"]) == ("end_unknown", "7")
    assert found["message"].startswith(
        "accounting has no end of its run that began at 2026-10-05 10:00:00Z: billed until"
    )
    assert [row["ts"] for row in rows["events"] if row["event"] == "cancelled"] == [now]


def test_a_node_was_back_when_a_job_began_of_which_accounting_tells_later(tmp_path: Path) -> None:
    """As found on a real Slurm: the job was requeued after a second, and its node was taken for unavailable then."""
    reported = Reported(node="IDLE+DRAIN")
    collector = SlurmCollector(reported, PLAIN, INVENTORY, tmp_path / "slurm.json")
    collector.collect(NOW)
    collector.acknowledge()
    reported.node = "IDLE"
    (row,) = collector.collect(NOW + timedelta(seconds=9)).rows["devices"]
    assert (row["state"], row["ts"]) == ("available", NOW + timedelta(seconds=9))
    collector.acknowledge()
    reported.lines = [
        record("REQUEUED", "12:00:05", "2026-10-05T12:00:06"),
        record("REQUEUED", "10:59:00", "2026-10-05T10:59:01", 8),
    ]
    (row,) = collector.collect(NOW + timedelta(seconds=11)).rows["devices"]
    assert (row["state"], row["ts"]) == ("available", NOW + timedelta(seconds=5))
    collector.acknowledge()
    assert "devices" not in collector.collect(NOW + timedelta(seconds=13)).rows


def test_a_job_that_ended_before_the_queried_time_is_not_reported_again(tmp_path: Path) -> None:
    long_ago = JOB | {"job_state": "COMPLETED", "end_time": TEN, "start_time": TEN - 60, "submit_time": TEN - 90}
    collector = SlurmCollector(
        Reported([], [long_ago | {"gres_detail": []}]),
        PLAIN,
        INVENTORY,
        tmp_path / "slurm.json",
        Pace(first=timedelta(1)),
    )
    assert collector.collect(NOW).rows == {}


def test_accounting_knows_from_the_controller_on_which_node_the_gpu_is(tmp_path: Path) -> None:
    line = record("RUNNING", "10:00:00").replace("|g1|", "|g[1-2]|")
    placed = JOB | {"nodes": "g[1-2]", "gres_detail": ["", "gpu:1(IDX:0)"]}
    collector = SlurmCollector(Reported([line], [placed]), PLAIN, INVENTORY, tmp_path / "slurm.json")
    rows = collector.collect(NOW).rows["events"]
    assert [(row["event"], row["allocation_id"], row.get("node")) for row in rows] == [
        ("submitted", "7", None),
        ("started", "7@g2", "g2"),
        ("resized", "7", None),
        ("resized", "7@g2", "g2"),
    ]


def test_a_reason_for_waiting_comes_with_the_submission_and_again_when_it_changes(tmp_path: Path) -> None:
    line = "7|7|chem|train|PENDING|2026-10-05T09:00:00|Unknown|Unknown|None assigned||gres/gpu=1"
    waits = JOB | {"job_state": "PENDING", "state_reason": "Priority", "nodes": "", "gres_detail": []}
    reported = Reported([line], [waits])
    collector = SlurmCollector(reported, PLAIN, INVENTORY, tmp_path / "slurm.json")

    def reasons(now: datetime) -> list[tuple[str, Any, datetime]]:
        rows = collector.collect(now).rows.get("events", [])
        collector.acknowledge()
        return [(row["event"], row.get("reason"), row["ts"]) for row in rows]

    at = datetime(2026, 10, 5, 9, tzinfo=UTC)
    assert reasons(NOW) == [("submitted", "Priority", at)]
    assert reasons(NOW + timedelta(minutes=1)) == []
    reported.jobs = [waits | {"state_reason": "Resources"}]
    later = NOW + timedelta(minutes=2)
    assert reasons(later) == [("submitted", "Resources", later)]
    assert reasons(NOW + timedelta(minutes=3)) == []
    reported.lines, reported.jobs = [record("RUNNING", "10:00:00")], [JOB]
    assert [event for event, _, _ in reasons(NOW + timedelta(minutes=4))] == ["started", "resized"]


def test_a_node_repaired_while_unwatched_is_reported_after_a_restart(tmp_path: Path) -> None:
    reported = Reported(node="DOWN")
    collector = SlurmCollector(reported, PLAIN, INVENTORY, tmp_path / "slurm.json")
    (down,) = collector.collect(NOW).rows["devices"]
    assert (down["state"], down["ts"]) == ("unavailable", NOW - timedelta(hours=1))
    collector.acknowledge()
    reported.node = "IDLE"
    again = SlurmCollector(reported, PLAIN, INVENTORY, tmp_path / "slurm.json")
    (up,) = again.collect(NOW + timedelta(hours=2)).rows["devices"]
    assert (up["state"], up["ts"]) == ("available", NOW + timedelta(hours=2))


def test_bad_records_are_findings_that_name_the_job_at_once_and_once(tmp_path: Path) -> None:
    reported = Reported([record("RUNNING", "10:00:00"), "8|7", record("NAPPING", "10:00:00", job=9)], [JOB])
    collector = SlurmCollector(reported, PLAIN, INVENTORY, tmp_path / "slurm.json")
    collected = collector.collect(NOW)
    assert collected.dropped == {"accounting: number of columns": 1, "accounting: unreadable": 1}
    assert [
        (row["finding"], row["severity"], row["workload_id"], row["message"]) for row in collected.rows["findings"]
    ] == [
        ("record_unreadable", "critical", "8", "accounting: job 8: 2 columns, the header has 11"),
        ("record_unreadable", "critical", "9", "accounting: job 9: state 'NAPPING' is not known"),
    ]
    collector.acknowledge()
    assert "findings" not in collector.collect(NOW + timedelta(minutes=1)).rows


def test_of_many_bad_records_the_first_are_named_and_the_others_counted(tmp_path: Path) -> None:
    reported = Reported([record("NAPPING", "10:00:00", job=job) for job in range(1, 106)])
    findings = SlurmCollector(reported, PLAIN, INVENTORY, tmp_path / "slurm.json").collect(NOW).rows["findings"]
    assert len(findings) == 101
    assert findings[-1]["message"] == "accounting: 5 more records"


def test_an_unreported_profile_is_a_finding_that_names_the_job(tmp_path: Path) -> None:
    reported = Reported([record("COMPLETED", "10:00:00", "2026-10-05T11:00:00")])
    reported.gres = "gpu:a100_3g.20gb:2,gpu:a100_1g.5gb:2"
    rows = SlurmCollector(reported, PLAIN, INVENTORY, tmp_path / "slurm.json").collect(NOW).rows
    assert [(row["finding"], row["severity"], row["workload_id"]) for row in rows["findings"]] == [
        ("profile_unknown", "warning", "7")
    ]
    assert [row["units"] for row in rows["events"] if row["event"] == "started"] == [1]
    reported.gres = "gpu:a100_3g.20gb:2"
    rows = SlurmCollector(reported, PLAIN, INVENTORY, tmp_path / "slurm.json").collect(NOW).rows
    assert "findings" not in rows
    assert [row["units"] for row in rows["events"] if row["event"] == "started"] == [3]


def test_a_broken_state_file_and_a_cluster_without_a_name_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "slurm.json"
    for content in ("{", "[]", '{"until": "yesterday"}', '{"until": "2026-10-05T12:00:00"}'):
        path.write_text(content, encoding="utf-8")
        with pytest.raises(CollectorError, match="Remove it to read from a week ago"):
            SlurmCollector(Reported(), PLAIN, INVENTORY, path)
    path.unlink()
    path.with_name("slurm.json.runs").write_text("{" * 200, encoding="utf-8")
    with pytest.raises(CollectorError, match=r"slurm\.json\.runs.*Remove it to forget which runs began and ended"):
        SlurmCollector(Reported(), PLAIN, INVENTORY, path)
    with pytest.raises(CollectorError, match="no name"):
        SlurmCollector(Reported(), Site(), INVENTORY, path)


def test_windows_overlap_and_are_deep_now_and_then() -> None:
    minute, hour, day = timedelta(minutes=1), timedelta(hours=1), timedelta(days=1)
    pace = Pace()
    assert since(NOW, ReadState(), pace) == (NOW - 7 * day, True)
    assert since(NOW, ReadState(NOW - minute, NOW - 10 * minute), pace) == (NOW - minute - hour, False)
    assert since(NOW, ReadState(NOW - minute, NOW - hour), pace) == (NOW - minute - 2 * day, True)
    assert since(NOW, ReadState(NOW - 5 * day, NOW - 5 * day), pace) == (NOW - 7 * day, True)


MINUTES = st.integers(-200, 20_000).map(lambda minutes: timedelta(minutes=minutes))


@given(st.lists(st.tuples(MINUTES, st.booleans()), max_size=30))
def test_no_instant_falls_between_two_windows(cycles: list[tuple[timedelta, bool]]) -> None:
    """Clocks jump, cycles fail: what was read joins what was read before."""
    kept, now = ReadState(), NOW
    for step, succeeds in cycles:
        now += step
        begin, deep = since(now, kept, Pace())
        assert kept.until is None or begin < kept.until
        assert begin < now
        if succeeds:
            kept = ReadState(now, now if deep else kept.deep_until)


def script(path: Path, text: str) -> str:
    path.write_text("#!/bin/sh\n" + text, encoding="utf-8")
    path.chmod(0o755)
    return str(path)


@pytest.fixture
def slurm(tmp_path: Path) -> Commands:
    """Commands that answer with what is in files named as they are, and write down what they were asked."""
    (tmp_path / "sacct.json").write_text(json.dumps({"jobs": [accounted(job_id=7)]}), encoding="utf-8")
    (tmp_path / "sacct.text").write_text(f"{HEADER}\n{record('RUNNING', '10:00:00')}\n", encoding="utf-8")
    (tmp_path / "squeue.json").write_text(json.dumps({"jobs": [JOB]}), encoding="utf-8")
    (tmp_path / "scontrol.text").write_text(NODE.format(gres="gpu:1", state="IDLE"), encoding="utf-8")
    for name in ("sacct", "squeue", "scontrol"):
        answer = f'case "$*" in *--json*) kind=json;; *) kind=text;; esac\ncat {tmp_path}/{name}.$kind'
        script(tmp_path / name, f'echo "$TZ $@" > {tmp_path}/{name}.asked\n{answer}')
    accounting = (str(tmp_path / "sacct"), "$(touch /nothing); *")
    return Commands(SITE, accounting, (str(tmp_path / "squeue"),), (str(tmp_path / "scontrol"),))


def test_commands_are_run_in_utc_without_a_shell(slurm: Commands, tmp_path: Path) -> None:
    """The site's zone is for files; commands are told to speak UTC."""
    since = datetime(2026, 10, 5, 14, 30, tzinfo=ZoneInfo("Europe/Berlin"))
    (job,) = slurm.accounted(since, since + timedelta(hours=6)).records
    assert job.started_at == datetime(2026, 10, 1, 10, tzinfo=UTC)
    assert (tmp_path / "sacct.asked").read_text(encoding="utf-8").strip() == (
        "UTC $(touch /nothing); * --allocations --allusers --duplicates --starttime=2026-10-05T12:30:00 --json"
    )
    assert slurm.controlled().records[0].started_at == datetime(2026, 10, 5, 10, tzinfo=UTC)
    assert slurm.nodes().records[0].name == "g1"


def test_accounting_is_asked_for_six_hours_at_once(slurm: Commands, tmp_path: Path) -> None:
    script(tmp_path / "sacct", f'echo "$@" >> {tmp_path}/asked\ncat {tmp_path}/sacct.json')
    assert len(slurm.accounted(NOW, NOW + timedelta(hours=13)).records) == 3
    asked = (tmp_path / "asked").read_text(encoding="utf-8").splitlines()
    assert [line.split("--duplicates ")[1] for line in asked] == [
        "--starttime=2026-10-05T12:00:00 --endtime=2026-10-05T18:00:00 --json",
        "--starttime=2026-10-05T18:00:00 --endtime=2026-10-06T00:00:00 --json",
        "--starttime=2026-10-06T00:00:00 --json",
    ]
    seen: list[tuple[str, str]] = []
    with slurmrestd({"/openapi/v3": offered(38), "/slurmdb/v0.0.38/jobs": NO_JOBS}, seen) as url:
        Rest(url).accounted(NOW, NOW + timedelta(hours=7))
    start, end = int(NOW.timestamp()), int(NOW.timestamp()) + 6 * 3600
    assert [path.split("?")[1] for path, _ in seen[1:]] == [
        f"start_time=uts{start}&end_time=uts{end}",
        f"start_time=uts{end}",
    ]


def test_where_sacct_has_no_json_its_text_is_read_without_what_users_write(slurm: Commands, tmp_path: Path) -> None:
    (tmp_path / "sacct.json").unlink()
    (job,) = slurm.accounted(NOW, NOW).records
    assert job.started_at == datetime(2026, 10, 5, 10, tzinfo=UTC)
    assert f"--parsable2 --format={sacct.FORMAT}" in (tmp_path / "sacct.asked").read_text(encoding="utf-8")
    with pytest.raises(CollectorError, match="A wckey can only be read from JSON"):
        replace(slurm, site=replace(SITE, tenant="wckey")).accounted(NOW, NOW)


def test_an_answer_without_nodes_and_a_queue_without_json_are_refused(slurm: Commands, tmp_path: Path) -> None:
    (tmp_path / "scontrol.text").write_text("", encoding="utf-8")
    with pytest.raises(CollectorError, match="names no node"):
        slurm.nodes()
    (tmp_path / "squeue.json").write_text("JobId=7 JobName=x\n", encoding="utf-8")
    with pytest.raises(CollectorError, match="not JSON"):
        slurm.controlled()


@pytest.mark.parametrize(
    ("text", "seconds", "says"),
    [
        ("echo no connection to slurmdbd >&2; exit 1", 60, "exit status 1: no connection to slurmdbd"),
        ("exec sleep 300", 0.2, r"no answer in 0\.2 s"),
        (None, 60, "cannot be run"),
    ],
)
def test_a_command_that_fails_says_why(tmp_path: Path, text: str | None, seconds: float, says: str) -> None:
    command = script(tmp_path / "sacct", text) if text else str(tmp_path / "nope")
    with pytest.raises(CollectorError, match=says):
        Commands(SITE, (command,), timeout_seconds=seconds).accounted(NOW, NOW)


@contextmanager
def slurmrestd(answers: dict[str, tuple[int, bytes]], seen: list[tuple[str, str]]) -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            seen.append((self.path, self.headers.get("X-SLURM-USER-TOKEN", "")))
            status, body = answers.get(self.path.split("?")[0], (404, b"not here"))
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:
            """Quiet."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def offered(*versions: int) -> tuple[int, bytes]:
    """slurmrestd's description of itself; newer ones end their paths in a slash."""
    paths = [f"/{plugin}/v0.0.{number}/jobs" for plugin in ("slurm", "slurmdb") for number in versions]
    return 200, json.dumps({"paths": {path + "/" * (path[-6] == "1"): {} for path in paths}}).encode()


NO_JOBS = (200, b'{"jobs": []}')


def test_slurmrestd_is_asked_with_the_token_of_the_moment(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("first\n", encoding="utf-8")
    answers = {
        "/slurmdb/v0.0.41/jobs": (200, json.dumps({"jobs": [accounted(True, job_id=7, name="x")]}).encode()),
        "/slurm/v0.0.41/jobs": (401, b"Authentication failure"),
        "/slurm/v0.0.41/nodes": (200, b'{"nodes": [{"name": "g1", "state": ["IDLE"], "gres": "gpu:1"}]}'),
        "/openapi/v3": offered(40, 41),
    }
    seen: list[tuple[str, str]] = []
    with slurmrestd(answers, seen) as url:
        source = Rest(url, token)
        assert [found.job_id for found in source.accounted(NOW, NOW).records] == ["7"]
        token.write_text("second", encoding="utf-8")
        with pytest.raises(CollectorError, match=r"HTTP 401: Authentication failure\. Renew the token"):
            source.controlled()
        assert [node.name for node in source.nodes().records] == ["g1"]
    start = int(NOW.timestamp())
    assert seen == [
        ("/openapi/v3", "first"),
        (f"/slurmdb/v0.0.41/jobs?start_time={start}&show_duplicates=true&skip_steps=true", "first"),
        ("/slurm/v0.0.41/jobs?flags=DETAIL", "second"),
        ("/slurm/v0.0.41/nodes", "second"),
    ]
    with pytest.raises(CollectorError, match="no answer"):
        Rest(url, token).nodes()
    with pytest.raises(CollectorError, match="no answer"):
        Rest(url, tmp_path / "nope").nodes()


def jwt(claims: object) -> str:
    parts = (
        base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=") for part in ({"alg": "HS256"}, claims)
    )
    return ".".join((*parts, "signed"))


@pytest.mark.parametrize(
    ("token", "given", "named"),
    [
        (jwt({"exp": 1795746275, "iat": 1795646276, "sun": "root"}), "", "root"),
        (jwt({"sun": "ann"}), "bob", "bob"),
        *((token, "", None) for token in (jwt({"sub": "ann"}), jwt({"sun": 1}), jwt([]), "opaque", "a.%.c", "a.bé.c")),
    ],
)
def test_slurmrestd_gets_the_user_of_the_token(tmp_path: Path, token: str, given: str, named: str | None) -> None:
    """As found on Slurm 22.05: "missing header user name: X-SLURM-USER-NAME", and every request was a 401."""
    asked: list[str | None] = []

    def answer(request: httpx.Request) -> httpx.Response:
        asked.append(request.headers.get("X-SLURM-USER-NAME"))
        return httpx.Response(200, json={"nodes": []})

    (tmp_path / "token").write_text(token, encoding="utf-8")
    source = Rest("http://head", tmp_path / "token", "v0.0.38", given, transport=httpx.MockTransport(answer))
    if token.isascii():
        source.nodes()
        assert asked == [named]
    else:
        with pytest.raises(CollectorError, match="no answer"):
            source.nodes()


def test_slurmrestd_is_asked_over_its_socket_without_a_token(tmp_path: Path) -> None:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            status, body = {"/openapi/v3": offered(38), "/slurm/v0.0.38/jobs": NO_JOBS}[self.path]
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def address_string(self) -> str:
            return "a socket has none"

        def log_message(self, format: str, *args: Any) -> None:
            """Quiet."""

    path = tmp_path / "rest.socket"
    with socketserver.UnixStreamServer(str(path), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        assert Rest(f"unix:{path}").controlled().records == []
        server.shutdown()
        thread.join()
    with pytest.raises(CollectorError, match="no answer"):
        Rest(f"unix:{tmp_path}/nope").controlled()


def test_an_old_slurmrestd_is_asked_for_times_in_slurms_words(tmp_path: Path) -> None:
    seen: list[tuple[str, str]] = []
    answers = {"/openapi/v3": offered(37, 38), "/slurmdb/v0.0.38/jobs": NO_JOBS, "/slurm/v0.0.38/jobs": NO_JOBS}
    with slurmrestd(answers, seen) as url:
        source = Rest(url)
        source.accounted(NOW, NOW)
        source.controlled()
    assert [path for path, _ in seen[1:]] == [
        f"/slurmdb/v0.0.38/jobs?start_time=uts{int(NOW.timestamp())}",
        "/slurm/v0.0.38/jobs",
    ]


@pytest.mark.parametrize(
    ("versions", "says"), [((97,), r"offers v0\.0\.97\. Try --rest-version"), ((), "offers no accounting")]
)
def test_a_slurmrestd_of_another_time_says_what_it_offers(versions: tuple[int, ...], says: str) -> None:
    with slurmrestd({"/openapi/v3": offered(*versions)}, []) as url, pytest.raises(CollectorError, match=says):
        Rest(url).nodes()


def test_a_refusal_of_slurmrestd_is_reported_in_full() -> None:
    error = {"description": "Unable to parse time format", "error": "Query empty " + "x" * 200, "source": "start_time"}
    answers = {
        "/openapi/v3": offered(37, 38),
        "/slurmdb/v0.0.38/jobs": (500, json.dumps({"meta": {"x": "y" * 300}, "errors": [error]}).encode()),
    }
    with slurmrestd(answers, []) as url:
        with pytest.raises(CollectorError, match=r"HTTP 500: Unable to parse time format, Query empty x+, start_time"):
            Rest(url).accounted(NOW, NOW)
        with pytest.raises(CollectorError, match=r"v0\.0\.41/jobs: HTTP 404: .* offers v0\.0\.37, v0\.0\.38: name one"):
            Rest(url, version="v0.0.41").accounted(NOW, NOW)


def test_an_upgraded_slurmrestd_is_asked_again_for_its_version(tmp_path: Path) -> None:
    answers = {"/openapi/v3": offered(38), "/slurm/v0.0.38/jobs": NO_JOBS}
    with slurmrestd(answers, []) as url:
        source = Rest(url)
        source.controlled()
        answers.clear()
        answers |= {"/openapi/v3": offered(40), "/slurm/v0.0.40/jobs": NO_JOBS}
        with pytest.raises(CollectorError, match="HTTP 404"):
            source.controlled()
        assert source.controlled().records == []


def test_bytes_that_are_no_utf8_hide_no_job(slurm: Commands, tmp_path: Path) -> None:
    """squeue writes a job's name as its user wrote it."""
    text = json.dumps({"jobs": [JOB | {"name": "@@"}, JOB | {"job_id": 8, "account": "@@"}]}).encode()
    (tmp_path / "squeue.json").write_bytes(text.replace(b"@@", b"\xff\xfe\n\x01"))
    jobs = slurm.controlled().records
    assert [(job.job_id, job.words["account"]) for job in jobs] == [("7", "chem"), ("8", "\ufffd\ufffd\n\x01")]
