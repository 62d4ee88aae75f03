"""What starts and stops jobs: nothing at all, or processes on this machine.

An executor may be told the same twice, after a crash of the scheduler; it does it once. It never decides.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol

from scheduler.model import Device, Job
from warehouse.private_files import users_umask

Result = Literal["finished", "failed", "stopped"]


@dataclass(frozen=True, slots=True)
class Launch:
    """An attempt to run. devices: by node.   payload: what the job's submitter gave for the executor."""

    job: Job
    attempt: int
    devices: Sequence[tuple[str, Device]]
    payload: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Over:
    """An attempt of which nothing runs any more. text: for people."""

    job_id: str
    attempt: int
    result: Result
    text: str = ""


class Executor(Protocol):
    def start(self, launch: Launch) -> None:
        """Errors: LedgerError if it cannot be started here; it then counts as failed."""

    def stop(self, job_id: str, attempt: int) -> None:
        """Begins to stop it, or goes on to; `poll` tells when it is over. Unknown attempts are over at once."""

    def poll(self) -> list[Over]:
        """What is over and was not confirmed yet."""

    def confirm(self, over: Over) -> None:
        """It is in the log."""


class Recorder:
    """Starts nothing: somebody else runs the jobs and tells when they are finished. What is stopped is over at once."""

    def __init__(self) -> None:
        self._over: dict[tuple[str, int], Over] = {}

    def start(self, launch: Launch) -> None:
        """Recorded by the scheduler itself."""

    def stop(self, job_id: str, attempt: int) -> None:
        self._over[job_id, attempt] = Over(job_id, attempt, "stopped")

    def poll(self) -> list[Over]:
        return list(self._over.values())

    def confirm(self, over: Over) -> None:
        self._over.pop((over.job_id, over.attempt), None)


_WRAPPER = """\
mkdir "$0/claimed" || exit 0
echo "$$ $(cut -d' ' -f22 /proc/$$/stat)" >"$0/process.new" && mv "$0/process.new" "$0/process"
"$@" >"$0/output" 2>&1
echo "$?" >"$0/exit.new" && mv "$0/exit.new" "$0/exit"
"""
"""Claims the attempt first: of two shells that were started for it, around a crash, one goes on."""


class LocalProcesses:
    """Runs `payload["command"]`, a list of words, in a session of its own, on the devices that it was given.

    folder: of an attempt's pid, output and exit status: they outlive the scheduler, so that a restart finds what went
    on without it.   grace: seconds from SIGTERM to SIGKILL.
    """

    def __init__(self, folder: Path, grace: float = 10.0) -> None:
        self.folder, self.grace = folder, grace
        self._children: dict[Path, subprocess.Popen[bytes]] = {}
        self._told_at: dict[Path, float] = {}

    def start(self, launch: Launch) -> None:
        """Errors: OSError if the folder or the shell is of no use; KeyError, TypeError without a command."""
        run = self._run(launch.job.job_id, launch.attempt)
        if (run / "claimed").exists() or run in self._children:
            return
        words = [str(word) for word in launch.payload["command"]]
        self._note(run, launch.job.job_id, launch.attempt)
        devices = ",".join(device.device_id for _, device in launch.devices)
        self._children[run] = subprocess.Popen(  # noqa: S603 (running what was submitted is what this is for)
            ["/bin/sh", "-c", _WRAPPER, str(run), *words],
            stdin=subprocess.DEVNULL,
            env={**os.environ, "CUDA_VISIBLE_DEVICES": devices, "GPULEDGER_JOB": launch.job.job_id},
            start_new_session=True,
            umask=users_umask(),
        )

    def stop(self, job_id: str, attempt: int) -> None:
        run = self._run(job_id, attempt)
        self._note(run, job_id, attempt)
        (run / "stop").touch()
        if run not in self._told_at:
            self._told_at[run] = time.monotonic()
            self._signal(run, signal.SIGTERM)
        elif time.monotonic() >= self._told_at[run] + self.grace:
            self._signal(run, signal.SIGKILL)

    def poll(self) -> list[Over]:
        found = []
        for note in sorted(self.folder.glob("*/attempt")):
            run = note.parent
            job_id, attempt = json.loads(note.read_text())
            stopping = (run / "stop").exists()
            if self._alive(run):
                if stopping:
                    self.stop(job_id, attempt)
            elif stopping or (run / "claimed").exists():
                found.append(self._result(run, job_id, attempt))
        return found

    def confirm(self, over: Over) -> None:
        """The output stays; what names the run as one of ours goes."""
        run = self._run(over.job_id, over.attempt)
        for name in ("attempt", "stop", "process"):
            (run / name).unlink(missing_ok=True)
        self._told_at.pop(run, None)
        self._children.pop(run, None)

    def _note(self, run: Path, job_id: str, attempt: int) -> None:
        run.mkdir(parents=True, exist_ok=True)
        _write(run / "attempt", json.dumps([job_id, attempt]))

    def _run(self, job_id: str, attempt: int) -> Path:
        safe = "".join(c if c.isalnum() or c in "-_" else f"%{ord(c):x}" for c in job_id)
        return self.folder / f"{safe}.{attempt}"

    def _result(self, run: Path, job_id: str, attempt: int) -> Over:
        stopped = (run / "stop").exists()
        code = (run / "exit").read_text().strip() if (run / "exit").exists() else ""
        if stopped:
            return Over(job_id, attempt, "stopped", f"exit status {code}" if code else "killed")
        if code == "0":
            return Over(job_id, attempt, "finished")
        return Over(job_id, attempt, "failed", f"exit status {code}" if code else "ended without an exit status")

    def _process(self, run: Path) -> int | None:
        """The process that was started, if it is still the same one."""
        try:
            pid, born = (run / "process").read_text().split()
        except (FileNotFoundError, ValueError):
            return None
        return int(pid) if _born(int(pid)) == born else None

    def _alive(self, run: Path) -> bool:
        child = self._children.get(run)
        return child.poll() is None if child is not None else self._process(run) is not None

    def _signal(self, run: Path, number: int) -> None:
        child = self._children.get(run)
        pid = self._process(run) if child is None or child.poll() is not None else child.pid
        if pid is not None:
            with contextlib.suppress(ProcessLookupError):  # it ended by itself
                os.killpg(pid, number)


def _born(pid: int) -> str:
    """When the process started, in ticks since boot: a pid that was given anew has another. '' = there is none.

    Source: proc(5), /proc/pid/stat field 22; a zombie (state Z) runs no more.
    """
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return ""
    return "" if fields[0] == "Z" else fields[19]


def _write(path: Path, text: str) -> None:
    """Whole or not at all."""
    draft = path.with_suffix(".new")
    draft.write_text(text)
    draft.replace(path)
