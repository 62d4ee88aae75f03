"""The process beside a rank: it starts the command once, writes down how it ended, and ends it when it must.

It is a program of its own, `python -I -S keeper.py FOLDER`, and imports nothing of ours, so that it costs little and
outlives the agent that started it. All that the command starts stays below it (a subreaper, proc(5) and prctl(2)), so
when it has no child left, nothing of the rank runs. The command dies with it (PR_SET_PDEATHSIG). A disk that is full
does not end what runs: what the keeper has to say then waits for room.

The folder has `run.json`: what to run. It leaves there `claimed` (of two keepers that were started for a rank, around a
crash, one goes on), `process`, `started`, `output`, and `exit` once everything has ended.
SIGTERM ends the rank; SIGUSR1 says that `world.json` there is another.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from pathlib import Path
from typing import Any

PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36
RLIMIT_LOCKS = 10
"""A limit that has had no effect since Linux 2.4.25 (getrlimit(2)). What a rank starts inherits it and cannot raise it,
so its number is a mark that neither another session nor an empty environment takes off."""
LOOK_SECONDS = 0.25
LOADING_SECONDS = 60.0
"""How long a program may load before it handles SIGUSR1."""
STARTING_SECONDS = 5.0
"""One that blocks all signals for longer does so for good, and takes them by sigwait."""
SIGTIMEDWAIT = {"x86_64": 128, "aarch64": 137, "riscv64": 137}
"""The number of the system call rt_sigtimedwait (syscalls(2)) by machine."""
PIECE = 1 << 20
ERROR_CHARACTERS = 500
HEARD = (signal.SIGTERM, signal.SIGUSR1, signal.SIGCHLD)


def main(folder: Path) -> None:
    os.umask(0o077)
    signal.pthread_sigmask(signal.SIG_BLOCK, HEARD)
    spec = json.loads((folder / "run.json").read_text())
    try:
        (folder / "claimed").mkdir()
    except FileExistsError:
        return
    write(folder / "process", f"{os.getpid()} {born(os.getpid())} {boot_id()}")
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "prctl")
    shared = Path(tempfile.mkdtemp(prefix="gpuledger-rank-"))
    try:
        Rank(folder, spec, shared, libc).keep()
    finally:
        shutil.rmtree(shared, ignore_errors=True)


class Rank:
    """shared: a folder that the command may read and not write: its world."""

    def __init__(self, folder: Path, spec: dict[str, Any], shared: Path, libc: ctypes.CDLL) -> None:
        self.folder, self.spec, self.shared, self.libc = folder, spec, shared, libc
        self.pid = 0
        self.code: int | None = None
        self.stopped = ""
        self.kill_at = self.signal_by = self.closed_at = float("inf")
        self.looked_at = 0.0
        self.began_at: float | None = None
        self.is_alone = False

    def keep(self) -> None:
        if self._lease_is_over():
            return self._end("stopped before it began", "lease")
        try:
            self._start()
        except (OSError, ValueError, KeyError) as error:
            return self._end(f"cannot be started: {error}")
        while True:
            heard = signal.sigtimedwait(HEARD, LOOK_SECONDS)
            number = heard.si_signo if heard else 0
            if number == signal.SIGTERM:
                self._stop("asked")
            if number == signal.SIGUSR1:
                self._tell_world()
            self._reap()
            if self._is_over():
                self._tell_start(patiently=True)
                trim(self.folder, self.spec["log_bytes"])
                return self._end("")

    def _start(self) -> None:
        """Errors: OSError and others if the command cannot be run here."""
        spec, user = self.spec, self.spec["user"]
        self.shared.chmod(0o755 if user else 0o700)
        world = self._share_world()
        environment = {**spec["env"], "GPULEDGER_WORLD": str(world), "GPULEDGER_RUN": str(self.folder)}

        def child() -> None:
            if user and spec["directory"]:
                os.chdir(spec["directory"])  # by now as that user, who may not go everywhere
            self.libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
            if spec.get("mark"):
                resource.setrlimit(RLIMIT_LOCKS, (spec["mark"], spec["mark"]))
            signal.pthread_sigmask(signal.SIG_SETMASK, ())

        output = os.open(self.folder / "output", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            process = subprocess.Popen(  # noqa: S603 (running what was submitted is what this is for)
                spec["command"],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                cwd=None if user else spec["directory"] or None,
                env=environment,
                start_new_session=True,
                umask=spec["umask"],
                preexec_fn=child,
                **({"user": user["uid"], "group": user["gid"], "extra_groups": user["groups"]} if user else {}),
            )
        except subprocess.SubprocessError:
            raise PermissionError(f"{user['name'] if user else 'nobody'} cannot go to {spec['directory']}") from None
        finally:
            os.close(output)
        self.pid = process.pid
        process.returncode = 0  # we wait for it ourselves
        self.began_at = time.time()
        self._tell_start()

    def _share_world(self) -> Path:
        path = self.shared / "world.json"
        write(path, (self.folder / "world.json").read_text())
        if self.spec["user"]:
            path.chmod(0o644)
        return path

    def _tell_start(self, patiently: bool = False) -> None:
        if self.began_at is not None and say(self.folder / "started", json.dumps({"at": self.began_at}), patiently):
            self.began_at = None

    def _tell_world(self) -> None:
        try:
            self._share_world()
        except OSError:
            traceback.print_exc()
        self.signal_by = time.monotonic() + LOADING_SECONDS
        self._signal_world()

    def _signal_world(self) -> None:
        """As soon as the command expects it: until a program has loaded, the signal would end it."""
        now, ready = time.monotonic(), expects(self.pid, signal.SIGUSR1)
        self.closed_at = min(self.closed_at, now) if ready is None else float("inf")
        if self.code is None and (ready or now >= min(self.signal_by, self.closed_at + STARTING_SECONDS)):
            self.signal_by = float("inf")
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGUSR1)

    def _reap(self) -> None:
        """Takes what has ended, the command and what it left behind."""
        try:
            while True:
                pid, status = os.waitpid(-1, os.WNOHANG)
                if pid == 0:
                    return
                if pid == self.pid:
                    self.code = os.waitstatus_to_exitcode(status)
                    self._stop("")  # what it left behind
        except ChildProcessError:
            self.is_alone = True

    def _is_over(self) -> bool:
        now = time.monotonic()
        if now - self.looked_at >= LOOK_SECONDS:
            self.looked_at = now
            if not self.stopped and self.code is None and self._lease_is_over():
                self._stop("lease")
            self._tell_start()
            if self.signal_by < float("inf"):
                self._signal_world()
            trim(self.folder, self.spec["log_bytes"])
        if now >= self.kill_at:
            self._signal(signal.SIGKILL)
        return self.is_alone

    def _stop(self, why: str) -> None:
        """Everything of the rank is to end: asked now, made to after its grace."""
        if self.code is None:
            self.stopped = self.stopped or why
        if self.kill_at == float("inf"):
            self.kill_at = time.monotonic() + self.spec["grace_seconds"]
            self._signal(signal.SIGTERM)

    def _signal(self, number: signal.Signals) -> None:
        for pid in below(os.getpid()):
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, number)

    def _lease_is_over(self) -> bool:
        """Whether the agent has not heard of its scheduler for so long that others may take this rank for gone."""
        if not self.spec["lease"]:
            return False
        try:
            return float(Path(self.spec["lease"]).read_text()) <= time.clock_gettime(time.CLOCK_BOOTTIME)
        except (OSError, ValueError):
            return True

    def _end(self, error: str, stopped: str = "") -> None:
        text = {"code": self.code, "at": time.time(), "stopped": stopped or self.stopped, "error": error}
        say(self.folder / "exit", json.dumps(text | {"error": error[:ERROR_CHARACTERS]}), patiently=True)


def below(pid: int) -> list[int]:
    """All descendants of a process."""
    parents: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            fields = status_of(int(entry.name))
            if runs(fields):
                parents.setdefault(int(fields[1]), []).append(int(entry.name))
    found, next_ones = [], [pid]
    while next_ones:
        children = parents.get(next_ones.pop(), [])
        found += children
        next_ones += children
    return found


def status_of(pid: int) -> list[str]:
    """Fields of /proc/pid/stat from the third on: state, parent, ...; empty if there is no such process."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return []


def runs(fields: list[str]) -> bool:
    """Whether a process is running. One whose first thread has ended looks like a zombie, although its others go on."""
    return bool(fields) and (fields[0] != "Z" or int(fields[17]) > 1)


def born(pid: int) -> str:
    """When the process started, in ticks since boot, which tells it from a later one with the same pid. '' = none
    runs."""
    fields = status_of(pid)
    return fields[19] if runs(fields) else ""


def mark_of(pid: int) -> int:
    """0: it has none, or that is unknown.   Source: proc(5), /proc/pid/limits."""
    try:
        lines = Path(f"/proc/{pid}/limits").read_text().splitlines()
    except OSError:
        return 0
    found = [line.split()[-2] for line in lines if line.startswith("Max file locks")]
    return int(found[0]) if found and found[0].isdigit() else 0


def expects(pid: int, number: int) -> bool | None:
    """Whether the process handles, blocks, ignores or awaits this signal (proc(5)), so that it does not end by it.

    None: it blocks all signals, as shells, Python and the C library do while they start a program, after which it is
    as before: a signal that came meanwhile may end it.
    """
    try:
        lines = Path(f"/proc/{pid}/status").read_text(errors="replace").splitlines()
    except OSError:
        return False
    masks = {line[:6]: int(line.split()[1], 16) for line in lines if line.startswith(("SigBlk:", "SigIgn:", "SigCgt:"))}

    def has(what: str, which: int) -> bool:
        return bool(masks.get(what, 0) >> (which - 1) & 1)

    if has("SigIgn", number) or has("SigCgt", number) or awaits(pid, number):
        return True
    return None if has("SigBlk", signal.SIGSEGV) else has("SigBlk", number)


def awaits(pid: int, number: int) -> bool:
    """Whether the process stands in sigwait(3) for this signal: until it is there, the kernel shows it as not blocked.
    False where the kernel does not tell (proc(5), /proc/pid/syscall and mem)."""
    try:
        call, awaited, *_ = Path(f"/proc/{pid}/syscall").read_text().split()
        if int(call) != SIGTIMEDWAIT.get(os.uname().machine):
            return False
        with Path(f"/proc/{pid}/mem").open("rb") as memory:
            memory.seek(int(awaited, 16))
            return bool(int.from_bytes(memory.read(8), sys.byteorder) >> (number - 1) & 1)
    except (OSError, ValueError):
        return False


def boot_id() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def trim(folder: Path, most: int) -> None:
    """Bounds a rank's output: when it gets too long, its last part moves to `output.old`, if there is room."""
    path = folder / "output"
    try:
        size = path.stat().st_size
    except OSError:
        return
    if size <= most // 2:
        return
    draft = folder / "old.new"
    try:
        with path.open("rb") as source, draft.open("wb") as target:
            source.seek(size - most // 2)
            for _ in range(0, most // 2, PIECE):  # more may come while this reads
                target.write(source.read(PIECE))
        draft.replace(folder / "output.old")
    except OSError:
        with contextlib.suppress(OSError):
            draft.unlink(missing_ok=True)
    with contextlib.suppress(OSError):
        os.truncate(path, 0)


def say(path: Path, text: str, patiently: bool = False) -> bool:
    """Whether it is written.   patiently: until it is, unless its folder is gone."""
    while True:
        try:
            write(path, text)
            return True
        except FileNotFoundError:
            return False
        except OSError:
            if not patiently:
                return False
            time.sleep(LOOK_SECONDS)


def write(path: Path, text: str) -> None:
    """Whole or not at all, also after a power cut."""
    draft = path.with_name(f"{path.name}.new")
    with draft.open("w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    draft.replace(path)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
