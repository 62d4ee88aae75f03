"""A node that runs jobs: whom it listens to, what it refuses, and what it does with answers that are odd."""

from __future__ import annotations

import json
import os
import pwd
import threading
import time
from collections.abc import Iterator, Mapping
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from collectors.agent import running_jobs as node
from collectors.agent.running_jobs import running_jobs
from collectors.agent.settings import AgentSettings, read_settings
from collectors.errors import CollectorError
from collectors.jobs.launchers import others, refuse_beside
from collectors.jobs.processes import Processes
from collectors.jobs.wire import Answer, Report
from collectors.jobs.worker import RankEnvironment, Worker
from tests.patience import until


class Scheduler(HTTPServer):
    """Answers what the test says."""

    answer: tuple[int, bytes] = (200, b"")
    asked: list[tuple[str, str, dict[str, Any]]]


@pytest.fixture
def scheduler() -> Iterator[Scheduler]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            assert isinstance(self.server, Scheduler)
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            self.server.asked.append((self.path, self.headers["authorization"], body))
            status, text = self.server.answer
            self.send_response(status)
            self.send_header("content-length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, format: str, *args: Any) -> None: ...

    server = Scheduler(("127.0.0.1", 0), Handler)
    server.asked = []
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    yield server
    server.shutdown()
    server.server_close()


def settings(folder: Path, port: int, **jobs: Any) -> AgentSettings:
    (folder / "token").write_text("token-of-this-node\n")
    own = {"url": f"http://127.0.0.1:{port}", "token_file": folder / "token", "folder": folder / "jobs"}
    user = pwd.getpwuid(os.geteuid()).pw_name if os.geteuid() == 0 else None
    run_jobs = own | {"user": user, "beside": ("slurm", "kubernetes"), "every_seconds": 0.2, "grace_seconds": 1} | jobs
    return AgentSettings.model_validate({"node": "gpu 1/x", "run_jobs": run_jobs})


def answer(number: int = 1, **more: Any) -> dict[str, Any]:
    return {"number": number, "boot": "b", "lease_seconds": 60.0, "run": [], "stop": []} | more


def part(folder: Path, script: str, **more: Any) -> dict[str, Any]:
    return {
        "job": "a", "attempt": 1, "world": 3, "size": 1, "node_rank": 0, "nodes": 1,
        "ranks": [{"rank": 0, "devices": ["GPU-a"]}], "command": ["/bin/sh", "-c", script],
    } | more  # fmt: skip


def test_it_says_who_it_is_with_its_token_and_does_what_it_hears(tmp_path: Path, scheduler: Scheduler) -> None:
    scheduler.answer = 200, json.dumps(answer(run=[part(tmp_path, "echo $RANK of $WORLD_SIZE")])).encode()
    with running_jobs(settings(tmp_path, scheduler.server_port)) as worker:
        assert worker.round()
        until(lambda: worker.processes.look()[0].end)
        assert worker.round()
        path, token, report = scheduler.asked[-1]
        assert (path, token) == ("/api/v1/agents/gpu%201%2Fx", "Bearer token-of-this-node")
        (run,) = report["runs"]
        assert (run["code"], run["tail"], report["seen"]) == (0, "0 of 1\n", 1)
        scheduler.answer = 200, json.dumps(answer(2)).encode()
        worker.round()
        assert worker.processes.look() == [], "nobody asks for it any more"


@pytest.mark.parametrize(("status", "text"), [
    (401, b'{"detail": "give the token"}'), (403, b'{"detail": "this token speaks for another node"}'), (500, b""),
    (200, b"<html>"), (200, b"[]"), (200, b"{}"), (302, b"{}"), (200, json.dumps(answer(lease_seconds=0)).encode()),
    (200, json.dumps(answer(run=[{"job": "a"}])).encode()), (200, b"[" * 100_000), (200, b"\xff\x00"),
])  # fmt: skip
def test_an_invalid_answer_starts_and_stops_nothing_and_is_reported(
    tmp_path: Path, scheduler: Scheduler, status: int, text: bytes
) -> None:
    with running_jobs(settings(tmp_path, scheduler.server_port)) as worker:
        scheduler.answer = 200, json.dumps(answer(run=[part(tmp_path, "sleep 300")])).encode()
        worker.round()
        until(lambda: worker.processes.look()[0].began_at)
        lease = (tmp_path / "jobs" / "lease").read_text()
        scheduler.answer = status, text
        assert not worker.round()
        assert worker.state.problem
        assert worker.processes.look()[0].alive
        assert (tmp_path / "jobs" / "lease").read_text() == lease, "nobody renewed it"
        worker.processes.stop(worker.processes.look()[0].id)
        until(lambda: worker.processes.look()[0].end)


def test_a_lease_too_short_to_stop_in_runs_nothing(tmp_path: Path, scheduler: Scheduler) -> None:
    scheduler.answer = 200, json.dumps(answer(lease_seconds=1.2, run=[part(tmp_path, "sleep 300")])).encode()
    with running_jobs(settings(tmp_path, scheduler.server_port)) as worker:
        assert not worker.round()
        assert "leaves no time to stop ranks" in worker.state.problem
        assert worker.processes.look() == []


def test_a_lease_goes_on_from_when_it_was_asked_for_and_ends_before_the_scheduler_counts_it_out(tmp_path: Path) -> None:
    lease = tmp_path / "lease"
    processes = Processes(tmp_path / "jobs", 5, lease=lease)

    heard_at: list[float] = []

    def slowly(report: Report) -> Answer:
        heard_at.append(time.clock_gettime(time.CLOCK_BOOTTIME))
        time.sleep(0.1)
        return Answer.model_validate(answer())

    before = time.clock_gettime(time.CLOCK_BOOTTIME)
    assert Worker(processes, RankEnvironment("127.0.0.1"), slowly, 1.0, 5.0).round()
    assert before - 0.01 <= float(lease.read_text()) - (60 * 0.9 - 5) <= heard_at[0] + 0.01
    processes.close()


def test_commands_come_over_tls_or_from_this_machine(tmp_path: Path) -> None:
    for url in ("http://scheduler.example:8070", "http://127.0.0.1.example:8070", "http://10.0.0.1"):
        with (
            pytest.raises(CollectorError, match="its answers are run here"),
            running_jobs(settings(tmp_path, 1, url=url)),
        ):
            pass


def test_two_agents_cannot_share_a_folder_and_root_must_be_explicit(
    tmp_path: Path, scheduler: Scheduler, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = settings(tmp_path, scheduler.server_port)
    with (
        running_jobs(own),
        pytest.raises(CollectorError, match="another process keeps its ranks there"),
        running_jobs(own),
    ):
        pass
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    with (
        pytest.raises(CollectorError, match=r"run_jobs\.user: commands of others would run as root"),
        running_jobs(settings(tmp_path, scheduler.server_port, user=None)),
    ):
        pass


@pytest.mark.parametrize(("comm", "environment", "launcher"), [
    ("kubelet", {}, "kubernetes"), ("slurmd", {}, "slurm"), ("", {"KUBERNETES_SERVICE_HOST": "10.0.0.1"}, "kubernetes"),
    ("", {"SLURM_JOB_ID": "7"}, "slurm"),
])  # fmt: skip
def test_where_kubernetes_or_slurm_starts_the_processes_it_does_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, comm: str, environment: Mapping[str, str], launcher: str
) -> None:
    (tmp_path / "12").mkdir()
    (tmp_path / "12" / "comm").write_text(f"{comm or 'bash'}\n")
    found = others(tmp_path, environment)
    assert list(found) == [launcher]
    monkeypatch.setattr("collectors.jobs.launchers.others", lambda: found)
    with pytest.raises(CollectorError, match="starts the processes on this node"):
        refuse_beside((), "run_jobs")
    refuse_beside((launcher,), "run_jobs")
    assert others(tmp_path / "12", {}) == {}


def test_devices_that_are_not_here_are_refused_and_ranks_wait_for_who_leaves(tmp_path: Path) -> None:
    instructions = answer(run=[part(tmp_path, "sleep 300", ranks=[{"rank": 0, "devices": ["GPU-x"]}])])
    processes = Processes(tmp_path / "jobs", 5)
    place = RankEnvironment("127.0.0.1", devices=frozenset({"GPU-a"}))
    worker = Worker(processes, place, lambda report: Answer.model_validate(instructions))
    worker.round()
    (run,) = processes.look()
    assert run.end is not None
    assert (run.end.error, run.began_at) == ("device GPU-x is not on this node", None)
    deaf = "trap '' TERM; touch " + str(tmp_path / "deaf") + "; while :; do sleep 0.05; done"
    instructions = answer(2, run=[part(tmp_path, deaf, job="deaf")])
    worker.round()
    until((tmp_path / "deaf").exists)
    instructions = answer(3, run=[part(tmp_path, "sleep 300", job="next")])
    for _ in range(3):
        worker.round()
        assert [run.id.job for run in processes.look() if run.alive] == ["deaf"], "the device is still held"
    os.kill(int((tmp_path / "jobs" / "deaf.1.3.0" / "process").read_text().split()[0]), 9)
    until(lambda: worker.round() and [run.id.job for run in processes.look() if run.alive] == ["next"])
    instructions = answer(4)
    until(lambda: worker.round() and not processes.look())
    processes.close()


def test_the_world_before_ends_before_the_next_begins_and_other_ranks_wait_for_rank_0(tmp_path: Path) -> None:
    instructions: dict[str, Any] = {}
    reports: list[Report] = []

    def exchange(report: Report) -> Answer:
        reports.append(report)
        return Answer.model_validate(instructions)

    processes = Processes(tmp_path / "jobs", 5)
    worker = Worker(processes, RankEnvironment("127.0.0.1", ports=(29400, 29499)), exchange)
    slow = "trap 'sleep 0.3; exit 0' TERM; touch $0.$WORLD_SIZE; while :; do sleep 0.02; done"

    def world(number: int, size: int, first: int = 0, **more: Any) -> dict[str, Any]:
        ranks = [{"rank": rank, "devices": []} for rank in range(first, size)]
        command = ["/bin/sh", "-c", slow, str(tmp_path / "up")]
        return answer(number, run=[part(tmp_path, "", world=number, size=size, ranks=ranks, command=command, **more)])

    instructions = world(1, 2)
    worker.round()
    until((tmp_path / "up.2").exists)
    port = processes.look()[0].port
    assert port is not None
    assert 29400 <= port <= 29499
    instructions = world(2, 3)
    worker.round()
    assert {run.world for run in processes.look() if run.alive} == {1}
    until(lambda: worker.round() and {run.world for run in processes.look() if run.alive} == {2})
    assert len(processes.look()) == 3, "those that were told to end are forgotten"
    assert processes.look()[0].port != port
    instructions = world(3, 3, 1)
    until(lambda: worker.round() and not any(run.alive for run in processes.look()))
    worker.round()
    assert not any(run.alive for run in processes.look()), "nobody knows where rank 0 is met"
    instructions = world(4, 3, 1, rendezvous={"address": "10.0.0.9", "port": 4321})
    until(lambda: worker.round() and len([run for run in processes.look() if run.alive]) == 2)
    assert {run.world for run in processes.look() if run.alive} == {4}
    assert reports[-1].ports == ()
    instructions = answer(5)
    until(lambda: worker.round() and not processes.look())
    processes.close()


def test_settings_say_what_is_missing(tmp_path: Path) -> None:
    for text, why in (
        ("run_jobs: {url: 'http://localhost:1'}", "token_file is needed"),
        ("run_jobs: {url: 'ftp://x'}", "run_jobs.url"),
        ("run_jobs: {ports: [5000, 4000]}", "5000 is above 4000"),
        ("run_jobs: {beside: [docker]}", "run_jobs.beside"),
        ("run_jobs: {visible_devices: 'X=1; rm'}", "visible_devices"),
        ("run_jobs: {user_name: x}", "user_name"),
    ):
        (tmp_path / "agent.yaml").write_text(text)
        with pytest.raises(CollectorError, match=why):
            read_settings(tmp_path / "agent.yaml")
    assert read_settings(None).run_jobs.url is None, "off by default"
    with pytest.raises(CollectorError, match="no url"), node.running_jobs(AgentSettings()):
        pass


def test_a_worlds_rendezvous_is_reported_also_when_its_rank_0_is_over(tmp_path: Path) -> None:
    """A scheduler that is new asks the other node to join it: without the port its rank would never begin, nor end."""
    instructions: dict[str, Any] = {}
    reports: list[Report] = []

    def exchange(report: Report) -> Answer:
        reports.append(report)
        return Answer.model_validate(instructions)

    processes = Processes(tmp_path / "jobs", 5)
    worker = Worker(processes, RankEnvironment("127.0.0.1"), exchange)
    ranks = [{"rank": 0, "devices": []}]
    instructions = answer(1, run=[part(tmp_path, "", world=1, size=2, ranks=ranks, command=["/bin/true"])])
    until(lambda: worker.round() and processes.look() and not processes.look()[0].alive)
    worker.round()
    assert [one.port for one in reports[-1].ports] == [processes.look()[0].port]
    instructions = answer(2)
    until(lambda: worker.round() and not processes.look())
    processes.close()
