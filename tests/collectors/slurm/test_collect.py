"""Asking Slurm: windows, commands, HTTP, what outlives a restart."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collectors.errors import CollectorError
from collectors.slurm import sacct, scontrol
from collectors.slurm.collect import Kept, Pace, SlurmCollector, since
from collectors.slurm.inventory import Place
from collectors.slurm.jobs import Job, Site
from collectors.slurm.nodes import Node
from collectors.slurm.parsed import Parsed
from collectors.slurm.sources import Commands, Rest

SITE = Site(zone=ZoneInfo("Europe/Berlin"), cluster="alpha")
PLAIN = Site(cluster="alpha")
NOW = datetime(2026, 10, 5, 12, tzinfo=UTC)
HEADER = "JobID|JobIDRaw|Account|Partition|State|Submit|Start|End|NodeList|AllocTRES|ReqTRES"
INVENTORY = {("g1", 0): Place("GPU-0", model="H100")}
NODE = "NodeName=g1\n   Gres=gpu:1\n   State={} Weight=1\n   Reason=bad fan [root@2026-10-05T11:00:00]\n"


def record(state: str, start: str, end: str = "Unknown", job: int = 7) -> str:
    return f"{job}|{job}|chem|train|{state}|2026-10-05T09:00:00|2026-10-05T{start}|{end}|g1|gres/gpu=1|gres/gpu=1"


JOB = """\
JobId=7 JobName=x
   Account=chem QOS=normal
   JobState=RUNNING Reason=None
   SubmitTime=2026-10-05T09:00:00
   StartTime=2026-10-05T10:00:00 EndTime=2026-10-06T10:00:00
   Partition=train
   NodeList=g1
   AllocTRES=gres/gpu=1
     Nodes=g1 CPU_IDs=0 Mem=0 GRES=gpu:1(IDX:0)
"""


@dataclass
class Told:
    """A Slurm that says what it was given, or is away."""

    lines: list[str] = field(default_factory=list)
    jobs: str = ""
    node: str = "IDLE"
    away: set[str] = field(default_factory=set)
    asked: list[datetime] = field(default_factory=list)

    def accounted(self, begin: datetime) -> Parsed[Job]:
        self.asked.append(begin)
        self._check("accounted")
        return sacct.read("\n".join([HEADER, *self.lines]), PLAIN)

    def controlled(self) -> Parsed[Job]:
        self._check("controlled")
        return scontrol.read_jobs(self.jobs, PLAIN)

    def nodes(self) -> Parsed[Node]:
        self._check("nodes")
        return scontrol.read_nodes(NODE.format(self.node), PLAIN)

    def _check(self, what: str) -> None:
        if what in self.away:
            raise CollectorError(what, "away")


def events(rows: dict[str, list[dict[str, Any]]]) -> list[tuple[str, str]]:
    return [(row["event"], row.get("device_id", "")) for row in rows.get("events", [])]


def test_what_was_kept_is_not_handed_on_again_and_what_was_not_is(tmp_path: Path) -> None:
    told = Told([record("RUNNING", "10:00:00")], JOB)
    collector = SlurmCollector(told, PLAIN, INVENTORY, tmp_path / "slurm.json")
    first = events(collector.collect(NOW).rows)
    assert first == [("submitted", ""), ("started", ""), ("resized", "GPU-0")]
    assert events(collector.collect(NOW).rows) == first  # nobody said that it was kept
    collector.kept()
    assert events(collector.collect(NOW + timedelta(minutes=1)).rows) == []
    collector.kept()
    told.lines = [record("COMPLETED", "10:00:00", "2026-10-05T11:59:00")]
    assert events(collector.collect(NOW + timedelta(minutes=2)).rows) == [("finished", "")]


def test_a_restart_goes_on_from_the_kept_place_with_the_same_keys(tmp_path: Path) -> None:
    told = Told([record("RUNNING", "10:00:00")], JOB)
    collector = SlurmCollector(told, PLAIN, INVENTORY, tmp_path / "slurm.json")
    first = collector.collect(NOW).rows["events"]
    collector.kept()
    again = SlurmCollector(told, PLAIN, INVENTORY, tmp_path / "slurm.json")
    assert again.collect(NOW + timedelta(minutes=5)).rows["events"] == first
    assert told.asked == [NOW - timedelta(days=7), NOW - timedelta(hours=1)]


def test_a_source_that_is_away_is_a_finding_and_its_window_is_asked_again(tmp_path: Path) -> None:
    told = Told([record("RUNNING", "10:00:00")], JOB, away={"accounted", "nodes"})
    collector = SlurmCollector(told, PLAIN, INVENTORY, tmp_path / "slurm.json")
    rows = collector.collect(NOW).rows
    assert events(rows) == [("resized", "GPU-0")]
    assert [(row["finding"], row["severity"], row["message"]) for row in rows["findings"]] == [
        ("source_unreachable", "critical", "nodes: away"),
        ("source_unreachable", "critical", "accounted: away"),
    ]
    collector.kept()
    told.away = set()
    later = NOW + timedelta(days=3)
    assert events(collector.collect(later).rows) == [("submitted", ""), ("started", "")]
    assert told.asked[-1] == later - timedelta(days=7)


def test_a_node_that_was_mended_while_nobody_looked_is_told_after_a_restart(tmp_path: Path) -> None:
    told = Told(node="DOWN")
    collector = SlurmCollector(told, PLAIN, INVENTORY, tmp_path / "slurm.json")
    (down,) = collector.collect(NOW).rows["devices"]
    assert (down["state"], down["ts"]) == ("unavailable", NOW - timedelta(hours=1))
    collector.kept()
    told.node = "IDLE"
    again = SlurmCollector(told, PLAIN, INVENTORY, tmp_path / "slurm.json")
    (up,) = again.collect(NOW + timedelta(hours=2)).rows["devices"]
    assert (up["state"], up["ts"]) == ("available", NOW + timedelta(hours=2))


def test_bad_records_are_counted_by_source_and_kept_in_words(tmp_path: Path) -> None:
    told = Told([record("RUNNING", "10:00:00"), "7|7", record("NAPPING", "10:00:00")])
    collector = SlurmCollector(told, PLAIN, INVENTORY, tmp_path / "slurm.json")
    collected = collector.collect(NOW)
    assert collected.dropped == {"accounting: number of columns": 1, "accounting: unreadable": 1}
    assert [(problem.line, problem.reason) for problem in collector.problems] == [
        (3, "number of columns"),
        (4, "unreadable"),
    ]


def test_a_broken_state_file_and_a_cluster_without_a_name_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "slurm.json"
    for content in ("{", "[]", '{"until": "yesterday"}', '{"until": "2026-10-05T12:00:00"}'):
        path.write_text(content, encoding="utf-8")
        with pytest.raises(CollectorError, match="Remove it to ask from a week ago"):
            SlurmCollector(Told(), PLAIN, INVENTORY, path)
    with pytest.raises(CollectorError, match="no name"):
        SlurmCollector(Told(), Site(), INVENTORY, path)


def test_windows_overlap_and_are_deep_now_and_then() -> None:
    minute, hour, day = timedelta(minutes=1), timedelta(hours=1), timedelta(days=1)
    pace = Pace()
    assert since(NOW, Kept(), pace) == (NOW - 7 * day, True)
    assert since(NOW, Kept(NOW - minute, NOW - 10 * minute), pace) == (NOW - minute - hour, False)
    assert since(NOW, Kept(NOW - minute, NOW - hour), pace) == (NOW - minute - 2 * day, True)
    assert since(NOW, Kept(NOW - 5 * day, NOW - 5 * day), pace) == (NOW - 7 * day, True)


MINUTES = st.integers(-200, 20_000).map(lambda minutes: timedelta(minutes=minutes))


@given(st.lists(st.tuples(MINUTES, st.booleans()), max_size=30))
def test_no_instant_falls_between_two_windows(cycles: list[tuple[timedelta, bool]]) -> None:
    """Clocks jump, cycles fail: what was read joins what was read before."""
    kept, now = Kept(), NOW
    for step, succeeds in cycles:
        now += step
        begin, deep = since(now, kept, Pace())
        assert kept.until is None or begin < kept.until
        assert begin < now
        if succeeds:
            kept = Kept(now, now if deep else kept.deep_until)


def script(path: Path, text: str) -> str:
    path.write_text("#!/bin/sh\n" + text, encoding="utf-8")
    path.chmod(0o755)
    return str(path)


def test_commands_are_run_in_utc_without_a_shell(tmp_path: Path) -> None:
    """The site's zone is for files; commands are told to speak UTC."""
    (tmp_path / "answer").write_text(f"{HEADER}\n{record('RUNNING', '10:00:00')}\n", encoding="utf-8")
    (tmp_path / "job").write_text(JOB, encoding="utf-8")
    (tmp_path / "node").write_text(NODE.format("IDLE"), encoding="utf-8")
    accounting = script(tmp_path / "sacct", f'echo "$TZ $@" > {tmp_path}/asked\ncat {tmp_path}/answer')
    controller = script(tmp_path / "scontrol", f"cat {tmp_path}/$2")
    commands = Commands(SITE, (accounting, "$(touch /nothing); *"), (controller,))
    (job,) = commands.accounted(datetime(2026, 10, 5, 14, 30, tzinfo=ZoneInfo("Europe/Berlin"))).records
    assert job.started_at == datetime(2026, 10, 5, 10, tzinfo=UTC)
    asked = (tmp_path / "asked").read_text(encoding="utf-8")
    assert asked.startswith(
        "UTC $(touch /nothing); * --allocations --allusers --duplicates --parsable2 --format=JobID,"
    )
    assert asked.strip().endswith("--starttime=2026-10-05T12:30:00")
    assert commands.controlled().records[0].started_at == job.started_at
    assert commands.nodes().records[0].name == "g1"


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
        Commands(SITE, (command,), timeout_seconds=seconds).accounted(NOW)


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


def test_slurmrestd_is_asked_with_the_token_of_the_moment(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("first\n", encoding="utf-8")
    job = {
        "job_id": 7,
        "account": "chem",
        "state": {"current": ["RUNNING"]},
        "time": {"submission": 1790000000, "start": 1790000100},
        "nodes": "g1",
        "tres": {"allocated": [{"type": "gres", "name": "gpu", "count": 1}]},
    }
    answers = {
        "/slurmdb/v0.0.41/jobs": (200, json.dumps({"jobs": [job]}).encode()),
        "/slurm/v0.0.41/jobs": (401, b"Authentication failure"),
        "/slurm/v0.0.41/nodes": (200, b'{"nodes": [{"name": "g1", "state": ["IDLE"], "gres": "gpu:1"}]}'),
    }
    seen: list[tuple[str, str]] = []
    with slurmrestd(answers, seen) as url:
        source = Rest(url, token)
        assert [found.job_id for found in source.accounted(NOW).records] == ["7"]
        token.write_text("second", encoding="utf-8")
        with pytest.raises(CollectorError, match="HTTP 401: Authentication failure"):
            source.controlled()
        assert [node.name for node in source.nodes().records] == ["g1"]
    start = int(NOW.timestamp())
    assert seen == [
        (f"/slurmdb/v0.0.41/jobs?start_time={start}&show_duplicates=true&skip_steps=true", "first"),
        ("/slurm/v0.0.41/jobs?flags=DETAIL", "second"),
        ("/slurm/v0.0.41/nodes", "second"),
    ]
    with pytest.raises(CollectorError, match="no answer"):
        Rest(url, token).nodes()
    with pytest.raises(CollectorError, match="no answer"):
        Rest(url, tmp_path / "nope").nodes()
