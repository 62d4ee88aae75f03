"""Processes on this machine: started once, found again by the next scheduler, stopped with all that they started."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from scheduler.live.executors import Launch, LocalProcesses, Over, Recorder
from scheduler.model import Device, Job, Request
from tests.patience import PATIENCE_SECONDS, until


def launch(job_id: str, *command: str, attempt: int = 1) -> Launch:
    job = Job(job_id, "t", "q", Request(2), 0.0)
    devices = [("n0", Device("GPU-aa", "A100")), ("n0", Device("GPU-bb", "A100"))]
    return Launch(job, attempt, devices, {"command": list(command)})


def over(executor: LocalProcesses) -> list[Over]:
    until(executor.poll)
    return executor.poll()


def test_a_command_runs_on_its_devices_and_its_exit_status_decides(tmp_path: Path) -> None:
    executor = LocalProcesses(tmp_path)
    executor.start(launch("good", "/bin/sh", "-c", 'echo "$CUDA_VISIBLE_DEVICES $GPULEDGER_JOB"'))
    assert over(executor) == [Over("good", 1, "finished")]
    assert (tmp_path / "good.1" / "output").read_text() == "GPU-aa,GPU-bb good\n"
    executor.confirm(Over("good", 1, "finished"))
    assert executor.poll() == []
    executor.start(launch("bad", "/bin/sh", "-c", "exit 3"))
    assert over(executor) == [Over("bad", 1, "failed", "exit status 3")]


def test_told_twice_it_starts_once_also_after_a_restart(tmp_path: Path) -> None:
    command = ("/bin/sh", "-c", f"echo x >> {tmp_path}/count; sleep 300")
    first = LocalProcesses(tmp_path / "jobs")
    first.start(launch("a", *command))
    first.start(launch("a", *command))
    until((tmp_path / "count").exists)
    second = LocalProcesses(tmp_path / "jobs")
    second.start(launch("a", *command))
    time.sleep(0.2)
    assert (tmp_path / "count").read_text() == "x\n"
    assert second.poll() == []  # it goes on
    second.stop("a", 1)
    first._children[tmp_path / "jobs" / "a.1"].wait(PATIENCE_SECONDS)
    assert [(found.result, found.job_id) for found in over(second)] == [("stopped", "a")]


def test_a_job_that_ended_while_nobody_looked_is_found(tmp_path: Path) -> None:
    first = LocalProcesses(tmp_path)
    first.start(launch("a", "/bin/true"))
    first._children[tmp_path / "a.1"].wait(PATIENCE_SECONDS)
    assert LocalProcesses(tmp_path).poll() == [Over("a", 1, "finished")]


def test_who_does_not_hear_sigterm_is_killed_after_its_grace(tmp_path: Path) -> None:
    executor = LocalProcesses(tmp_path, grace=0.3)
    executor.start(launch("deaf", "/bin/sh", "-c", f"trap '' TERM; touch {tmp_path}/ready; while :; do sleep 1; done"))
    until((tmp_path / "ready").exists)
    executor.stop("deaf", 1)
    assert over(executor)[0].result == "stopped"


def test_stopping_what_never_ran_is_over_at_once(tmp_path: Path) -> None:
    executor = LocalProcesses(tmp_path)
    executor.stop("ghost", 2)
    assert [(found.job_id, found.attempt, found.result) for found in executor.poll()] == [("ghost", 2, "stopped")]
    recorder = Recorder()
    recorder.stop("a", 1)
    assert recorder.poll() == [Over("a", 1, "stopped")]
    recorder.confirm(Over("a", 1, "stopped"))
    assert recorder.poll() == []


def test_a_job_without_a_command_cannot_be_started(tmp_path: Path) -> None:
    job = Job("a", "t", "q", Request(0), 0.0)
    with pytest.raises(KeyError):
        LocalProcesses(tmp_path).start(Launch(job, 1, []))


def test_a_name_cannot_lead_out_of_the_folder(tmp_path: Path) -> None:
    executor = LocalProcesses(tmp_path / "jobs")
    executor.start(launch("../../evil/x", "/bin/true"))
    assert over(executor)[0].job_id == "../../evil/x"
    assert [path.name for path in (tmp_path / "jobs").iterdir()] == ["%2e%2e%2f%2e%2e%2fevil%2fx.1"]
