"""`gpuledger scheduler`: a real process that is killed and carries on, spoken with through the command line."""

from __future__ import annotations

import contextlib
import csv
import getpass
import io
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from gpuledger.commands import scheduler
from gpuledger.idle_feed import IdleFeed
from ingest.token_file import Reread
from scheduler.live.client import Client
from scheduler.live.http import build_app
from scheduler.live.idle import Feed
from scheduler.settings import parse_settings
from tests.dashboards.site import running as serving
from tests.patience import PATIENCE_SECONDS, until
from tests.ports import free_port
from tests.scheduler.live.idling import Idling
from warehouse.errors import LedgerError

RUN = """
import sys, typer
from gpuledger.cli import run
from gpuledger.commands import scheduler
from scheduler.live.client import Client
app = typer.Typer(pretty_exceptions_enable=False)
scheduler.register(app)
run(app, sys.argv[1:])
"""
CONFIG = """\
pools: [{name: p, hosts: {p-0: [GPU-aa, GPU-bb]}, model: A100}]
tenants: [{name: vision, guaranteed: 2}]
queues: [{name: batch}]
"""


def ask(*arguments: object, exit_code: int = 0) -> str:
    app = typer.Typer()
    scheduler.register(app)
    result = CliRunner().invoke(app, ["scheduler", *map(str, arguments)])
    if result.exception and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == exit_code, result.output
    return result.stdout


class Running:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "config.yaml").write_text(CONFIG)
        (folder / "token").write_text("a-token-of-the-tests\n")
        self.port = free_port()
        self.client = Client(f"http://127.0.0.1:{self.port}", "a-token-of-the-tests")
        self.events = folder / "events.jsonl"

    def start(self) -> None:
        command = [sys.executable, "-c", RUN, "scheduler", "--config", "config.yaml", "--data", "data"]
        command += ["--port", str(self.port), "--executor", "local", "--token-file", "token"]
        command += ["--run-as", getpass.getuser(), "--beside", "slurm", "--beside", "kubernetes"]
        command += ["--events", str(self.events), "--interval", "0.05", "--cluster", "c"]
        self.errors = (self.folder / "errors").open("a")
        environment = {**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[2])}
        self.process = subprocess.Popen(command, cwd=self.folder, stderr=self.errors, env=environment)

    def ask(self, *arguments: object) -> Any:
        there = ["--url", f"http://127.0.0.1:{self.port}", "--token-file", self.folder / "token", "--format", "json"]
        return json.loads(ask(*arguments, *there))

    def until(self, job_id: str, status: str) -> None:
        self.wait(lambda: self.client.explain(job_id)["status"] == status)

    def answers(self) -> None:
        self.wait(lambda: self.client.jobs() == [])

    def wait(self, found: Callable[[], bool]) -> None:
        def so() -> bool:
            with contextlib.suppress(LedgerError):
                return found()
            return False

        until(so, lambda: (self.folder / "errors").read_text(), every=0.05)


@pytest.fixture
def running(tmp_path: Path) -> Iterator[Running]:
    found = Running(tmp_path)
    found.start()
    yield found
    found.process.kill()
    found.process.wait()
    found.errors.close()


def test_a_scheduler_killed_in_the_middle_carries_on_where_it_was(running: Running) -> None:
    running.answers()
    gate = running.folder / "gate"
    wait_for_gate = [
        "--command",
        "/bin/sh",
        "--command",
        "-c",
        "--command",
        f"until test -e {gate}; do sleep 0.05; done",
    ]
    running.ask("submit", "--tenant", "vision", "--queue", "batch", "--gpus", 2, "--job-id", "a", *wait_for_gate)
    running.ask(
        "submit", "--tenant", "vision", "--queue", "batch", "--gpus", 1, "--job-id", "b", "--command", "/bin/true"
    )
    running.until("a", "running")
    os.kill(running.process.pid, signal.SIGKILL)
    running.process.wait()
    gate.touch()  # the job ends while nobody looks
    running.start()
    running.until("a", "finished")
    running.until("b", "finished")
    running.process.send_signal(signal.SIGTERM)
    assert running.process.wait(PATIENCE_SECONDS) == 0
    rows = [json.loads(line) for line in running.events.read_text().splitlines()]
    lives = [(row["allocation_id"], row["event"]) for row in rows if row["record"] == "events"]
    assert set(lives) == {(job, event) for job in ("a", "b") for event in ("submitted", "started", "finished")}
    keys = [
        (row["allocation_id"], row["event"], row["ts"], row.get("device_id"))
        for row in rows
        if row["record"] == "events"
    ]
    assert len([key for key in set(keys) if key[1] == "started"]) == 3  # two devices, then one
    replayed = json.loads(ask("replay", "--data", running.folder / "data", "--format", "json"))
    assert len(replayed) == 2
    assert all(row["same"] for row in replayed)
    ask("snapshot", running.folder / "snap.jsonl", "--data", running.folder / "data")
    assert ask("replay", running.folder / "snap.jsonl", "--format", "csv").count("True") == 2
    entries = [json.loads(line) for line in (running.folder / "snap.jsonl").read_text().splitlines()]
    last = max(place for place, entry in enumerate(entries) if entry["kind"] == "plan")
    entries[last]["body"]["actions"] = []
    (running.folder / "other.jsonl").write_text("".join(f"{json.dumps(entry)}\n" for entry in entries[: last + 1]))
    assert ask("replay", running.folder / "other.jsonl", "--format", "csv", exit_code=1).count("True") == 1


def test_who_may_run_commands_needs_a_token_and_a_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "c.yaml").write_text(CONFIG)
    there: list[object] = ["--config", tmp_path / "c.yaml", "--data", tmp_path / "data"]
    with pytest.raises(LedgerError, match=r"who can submit can run commands\. Give --token-file"):
        ask(*there, "--executor", "local")
    with pytest.raises(LedgerError, match="others can reach that address"):
        ask(*there, "--host", "0.0.0.0")
    (tmp_path / "token").write_text("a-token-of-the-tests\n")
    there += ["--token-file", tmp_path / "token"]
    with pytest.raises(LedgerError, match="--agent-tokens: nobody may speak for a node"):
        ask(*there, "--executor", "agents")
    with pytest.raises(LedgerError, match="--agent-tokens: is for --executor agents"):
        ask(*there, "--agent-tokens", tmp_path / "token")
    with pytest.raises(LedgerError, match="--events with --executor kubernetes: would count every pod twice"):
        ask(*there, "--executor", "kubernetes", "--events", "store")
    with pytest.raises(LedgerError, match="--kubeconfig, --context, --lease-namespace: are for --executor k"):
        ask(*there, "--kubeconfig", tmp_path / "token")
    with pytest.raises(LedgerError, match="--pools-from cluster: is for --executor kubernetes"):
        ask(*there, "--pools-from", "cluster")
    with pytest.raises(LedgerError, match="pools: come from ComputePools in the cluster"):
        ask(*there, "--executor", "kubernetes", "--pools-from", "cluster", "--kubeconfig", tmp_path / "token")
    with pytest.raises(LedgerError, match="--gated-pods: is for --executor kubernetes"):
        ask(*there, "--gated-pods")
    with pytest.raises(LedgerError, match=r"--idle-token-file: is for --idle-from\. Give --idle-from URL"):
        ask(*there, "--idle-token-file", tmp_path / "token")
    with pytest.raises(LedgerError, match="--idle-from books:9: is not the address of a server"):
        ask(*there, "--idle-from", "books:9")
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr("collectors.jobs.launchers.others", lambda: {})
    with pytest.raises(LedgerError, match="--run-as: commands of others would run as root"):
        ask(*there, "--executor", "local")
    monkeypatch.setattr("collectors.jobs.launchers.others", lambda: {"slurm": "slurmd runs, pid 1"})
    with pytest.raises(LedgerError, match="--executor local: Slurm starts the processes on this node"):
        ask(*there, "--executor", "local", "--run-as", "root")


def test_what_is_missing_or_misspelt_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(LedgerError, match="needs --config FILE and --data FOLDER"):
        ask()
    (tmp_path / "c.yaml").write_text("pools: []\nqueue: []\n")
    with pytest.raises(LedgerError, match="queue"):
        ask("--config", tmp_path / "c.yaml", "--data", tmp_path / "data")
    with pytest.raises(LedgerError, match="no log of a scheduler there"):
        ask("replay", "--data", tmp_path)


def test_an_explanation_reads_as_text() -> None:
    lines = scheduler.explained(
        {
            "job_id": "a",
            "status": "pending",
            "reasons": [{"code": "X", "text": "short by 2", "counts": {"nodes": 3}, "blockers": ["b"]}],
            "expected_start": "2026-10-01T00:00:00.545000Z",
            "expected_start_error_seconds": {"known": 3, "p50": 5.0, "p95": 90.0},
            "history": [
                {"sequence": 1, "at": "2026-10-01T00:00:00.406000Z", "what": "submit", "actor": "ada"},
                {"sequence": 2, "at": "2026-10-01T00:00:01Z", "what": "renew", "until": ["2026-10-01T01:00:00.5Z"]},
            ],
        }
    )
    assert lines[1] == "  X: short by 2 [nodes 3] (held by b)"
    assert lines[2] == "  first expected to start by 2026-10-01T00:00:00Z; past ones were off by p50 5 s, p95 90 s"
    assert lines[4:] == [
        '  2026-10-01T00:00:00Z  submit    {"actor": "ada"}',
        '  2026-10-01T00:00:01Z  renew     {"until": ["2026-10-01T01:00:00Z"]}',
    ]


def test_idle_jobs_are_listed_and_the_thread_that_asks_is_heard(tmp_path: Path) -> None:
    living = Idling(tmp_path, {"warn": "30m", "after": "2h", "then": "suspend"})
    living.run()
    with scheduler._watching_idleness(living.service, IdleFeed("http://127.0.0.1:1", None, "c", lambda: living.now)):
        until(lambda: "Is the server running" in living.service.idle_problem())
    living.at(50, a=40)
    with serving(build_app(living.service)) as url:
        (row,) = csv.DictReader(io.StringIO(ask("idle", "--url", url, "--format", "csv")))
        assert (row["job_id"], row["idle_seconds"], row["step"], row["next"]) == ("a", "2400.0", "warned", "suspend")
        assert "idle since 1970-01-02T03:56:40" in ask("explain", "a", "--url", url)
        ask("reclaim", "a", "--url", url)
        assert living.status("a") == "stopping"
        with pytest.raises(LedgerError, match="is stopping, not running"):
            ask("keep", "a", "--url", url)
        living.service.hear_idle(Feed(living.now, problem="it is gone"))
        found = json.loads(ask("idle", "--url", url, "--format", "json"))
        assert [(one["job_id"], one["step"]) for one in found.pop("jobs")] == [("a", "suspended")]
        assert found == {"cluster": "c", "problem": "it is gone", "heard_at": None}
        assert "idle since" not in ask("explain", "a", "--url", url)


def test_a_job_is_rescaled_from_the_command_line(tmp_path: Path) -> None:
    living = Idling(tmp_path)
    living.run(gpus=1, max_replicas=4)
    with serving(build_app(living.service)) as url:
        found = json.loads(ask("rescale", "a", "--max", 2, "--url", url, "--format", "json"))
        assert (len(found["ranks"]), living.size()) == (2, 2)
        with pytest.raises(LedgerError, match="replicas from 5 to 2 are not a range"):
            ask("rescale", "a", "--min", 5, "--url", url)
        policy = {"utilization": {"shrink_below": 0.2, "grow_above": 0.7}}
        living.run("b", gpus=1, max_replicas=4, scaling=policy)
        (line,) = [one for one in ask("explain", "b", "--url", url).splitlines() if "scaling:" in one]
        unknown = "its utilization is not known"
        assert line == (
            f"  scaling: asks from 1 to 4, has 1 to 1 (Utilization: {unknown}: at most 1); {unknown}, "
            "and changes nothing: this scheduler does not ask for it; start it with --idle-from URL"
        )
        with pytest.raises(LedgerError, match=r"rescale: says nothing\. Give --min, --max or both"):
            ask("rescale", "a", "--url", url)


def test_policies_for_idle_jobs_need_a_server_to_ask(caplog: pytest.LogCaptureFixture) -> None:
    settings = parse_settings({"idle": [{"warn": "30m", "after": "2h", "then": "suspend"}]})
    assert scheduler._idle_feed("", None, "c", settings) is None
    assert "these policies do nothing; give --idle-from URL" in caplog.text
    caplog.clear()
    assert scheduler._idle_feed("", None, "c", parse_settings({})) is None
    assert scheduler._idle_feed("https://books.example", None, "c", settings) is not None
    assert caplog.text == ""


def test_settings_are_read_again_until_they_could_be_written_down(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A full disk; what is no settings at all, or gone, is reported once, and keeps nothing from being decided."""
    config, asked = tmp_path / "config.yaml", list[Any]()

    class Full:
        answers = iter([LedgerError("log", "cannot be written (disk is full)"), None, None])

        def configure(self, settings: Any) -> None:
            asked.append(settings)
            if (problem := next(self.answers)) is not None:
                raise problem

    config.write_text(CONFIG)
    changes, full = Reread(config), Full()

    def rounds() -> tuple[int, list[str]]:
        """How often settings were applied in three rounds, and what was logged."""
        caplog.clear()
        asked.clear()
        for _ in range(3):
            scheduler._reload(full.configure, config, changes)
        return len(asked), [record.getMessage() for record in caplog.records]

    assert rounds() == (0, [])
    config.write_text(CONFIG + "# another\n")
    assert rounds() == (2, ["log: cannot be written (disk is full)"])
    config.write_text("pools: 7")
    applied, logged = rounds()
    assert (applied, len(logged)) == (0, 1) and "the previous settings stay in force" in logged[0]
    config.unlink()
    applied, logged = rounds()
    assert (applied, len(logged)) == (0, 1) and str(config) in logged[0]
    config.write_text(CONFIG)
    assert rounds() == (1, [])
