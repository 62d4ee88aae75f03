"""Which workload a device's processes belong to: looks up the driver's pids in the host's /proc.

The cgroup names the pod or Slurm job. For a job whose ranks the agent runs, all its processes descend from the rank's
keeper: it is their subreaper, so nothing that a rank starts can escape it.

A pid is reused; (pid, start time) is not. If /proc no longer has a pid that the driver named, or has it only since
after the driver was asked, its owner is `unknown`: never `none`, and never dropped.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from collectors.attribution.cgroup import Owner, owner_of
from collectors.readings import State

_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
_KTHREADD = 2
_READ_BYTES = 1 << 16
_MOST_ANCESTORS = 256

Keepers = Mapping[tuple[int, int], str]
"""By (pid, start in ticks since boot) of a rank's keeper: the job."""


@dataclass(frozen=True, slots=True)
class Process:
    """A process listed by a driver.

    start_ticks: when it started, in clock ticks since boot; None if unknown.   command: at most 15 characters, chosen
    by the process itself.
    """

    pid: int
    owner: Owner
    start_ticks: int | None = None
    command: str = ""


@dataclass(frozen=True)
class Owners:
    """What /proc reported about the pids of one cycle.

    state: `ok`, or `no_permission` if this /proc is not the host's: then nobody's absence means anything.
    """

    state: State = "ok"
    processes: Mapping[int, Process] = field(default_factory=dict)

    def of(self, pid: int) -> Process:
        reason = "not_looked_up" if self.state == "ok" else "not_the_hosts_proc"
        return self.processes.get(pid) or Process(pid, Owner("unknown", reason=reason))


class ProcessTable:
    """Looks pids up in a /proc, and remembers those of the last cycle, to notice that one is another's now.

    root: the host's /proc. In a container that is its own /proc only under `hostPID: true`; a mount of the host's does
    as well.   keepers: answers those of the ranks that run now.
    """

    def __init__(self, root: Path = Path("/proc"), keepers: Callable[[], Keepers] | None = None) -> None:
        self.root = root
        self._keepers = keepers
        self._last: dict[int, Process] = {}

    def state(self) -> State:
        """`no_permission` if this /proc shows no kernel threads: they exist in the host's PID namespace alone.

        A /proc mounted with `hidepid` for others than its reader looks the same, and is as useless.
        """
        try:
            name = (self.root / str(_KTHREADD) / "comm").read_text(errors="replace").strip()
        except OSError:
            return "no_permission"
        return "ok" if name == "kthreadd" else "no_permission"

    def owners(self, pids: Iterable[int], asked_at: float | None = None) -> Owners:
        """Owners of the pids that the driver named.

        asked_at: when the driver had answered, in seconds since boot (`seconds_since_boot`); what started later is not
        what it spoke of.
        """
        wanted = set(pids)
        if (state := self.state()) != "ok":
            self._last = {}
            return Owners(state)
        keepers = self._keepers() if wanted and self._keepers else {}
        found = {pid: self._below(self._look_up(pid, asked_at), keepers) for pid in wanted}
        known = {pid: _same_as_before(process, self._last.get(pid)) for pid, process in found.items()}
        self._last = found
        return Owners("ok", known)

    def _below(self, process: Process, keepers: Keepers) -> Process:
        """With the job as its owner, if it is below a rank's keeper and in no pod or Slurm job."""
        if not keepers or process.start_ticks is None or process.owner.kind in ("pod", "slurm"):
            return process
        pid, ticks = process.pid, process.start_ticks
        for _ in range(_MOST_ANCESTORS):
            if (pid, ticks) in keepers:
                return replace(process, owner=Owner("job", keepers[pid, ticks]))
            try:
                parent = _parent(self._stat_of(pid))
                born = _stat(self._stat_of(parent))[1] if parent else None
                is_known = not parent or (born is not None and born <= ticks)
            except OSError:
                is_known = False
            if not is_known:  # one of them ended meanwhile, and its pid may be another's
                return replace(process, owner=Owner("unknown", reason="vanished"))
            if not parent or born is None:
                return process
            pid, ticks = parent, born
        return process

    def _stat_of(self, pid: int) -> str:
        return (self.root / str(pid) / "stat").read_text(errors="replace")

    def _look_up(self, pid: int, asked_at: float | None) -> Process:
        try:
            process = self._read(pid)
        except (FileNotFoundError, ProcessLookupError, NotADirectoryError):
            return Process(pid, Owner("unknown", reason="vanished"))
        except OSError:
            return Process(pid, Owner("unknown", reason="unreadable"))
        started = process.start_ticks
        if asked_at is not None and started is not None and started / _TICKS_PER_SECOND > asked_at:
            return Process(pid, Owner("unknown", reason="pid_reused"), started, process.command)
        return process

    def _read(self, pid: int) -> Process:
        """What /proc says of the pid; all of it of one process, since an open directory does not pass to the next."""
        folder = os.open(self.root / str(pid), os.O_RDONLY | os.O_DIRECTORY)
        try:
            command, start_ticks = _stat(_text(folder, "stat"))
            return Process(pid, owner_of(_text(folder, "cgroup")), start_ticks, command)
        finally:
            os.close(folder)


def seconds_since_boot() -> float:
    """The clock in which the kernel reports when a process started."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def _same_as_before(now: Process, before: Process | None) -> Process:
    """The process, with an unknown owner if its pid passed to another workload since the last cycle: the interval then
    has work of both."""
    if before is None or None in (before.start_ticks, now.start_ticks) or before.start_ticks == now.start_ticks:
        return now
    if (before.owner.kind, before.owner.workload_id) == (now.owner.kind, now.owner.workload_id):
        return now
    return Process(now.pid, Owner("unknown", reason="pid_reused"), now.start_ticks, now.command)


def _text(folder: int, name: str) -> str:
    file = os.open(name, os.O_RDONLY, dir_fd=folder)
    try:
        parts = []
        while part := os.read(file, _READ_BYTES):
            parts.append(part)
        return b"".join(parts).decode(errors="replace")
    finally:
        os.close(file)


def _stat(text: str) -> tuple[str, int | None]:
    """(command, start in ticks since boot) of /proc/PID/stat. The command may hold blanks and parentheses."""
    opened, closed = text.find("("), text.rfind(")")
    if opened < 0 or closed < opened:
        return "", None
    fields = text[closed + 1 :].split()
    # Field 22 of proc_pid_stat(5); the first behind the command is field 3.
    start = fields[22 - 3] if len(fields) > 22 - 3 else ""
    return text[opened + 1 : closed], int(start) if start.isascii() and start.isdigit() else None


def _parent(text: str) -> int:
    """Field 4 of proc_pid_stat(5); 0: none."""
    fields = text[text.rfind(")") + 1 :].split()
    return int(fields[1]) if len(fields) > 1 and fields[1].isascii() and fields[1].isdigit() else 0
