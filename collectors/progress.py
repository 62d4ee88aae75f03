"""Tells the node's agent how fast a training goes. Two lines in the training loop:

    from collectors.progress import progress
    ...
        progress.step(samples=samples_of_this_step)

Counts add up here and go out now and then in one datagram to the agent's unix socket, without waiting: no agent, a
full queue or a wrong argument cost a number in `progress.lost`, never an exception and never a pause. Counts are
totals, so that a lost datagram loses nothing but its moment. Nothing but the standard library is needed: this file
may be copied beside the training alone.

Only rank 0 speaks (RANK, SLURM_PROCID, OMPI_COMM_WORLD_RANK), so `samples` are those of all ranks together. Which
workload it is, the agent finds by itself where it sees the host's processes; else the environment says it
(GPULEDGER_WORKLOAD, or POD_UID, or SLURM_JOB_ID). GPULEDGER_PROGRESS is the socket's path, GPULEDGER_SERVICE a name
for the rows; docs/services.md.
"""

from __future__ import annotations

import atexit
import json
import os
import socket
import time
from collections.abc import Callable, Mapping
from numbers import Real

SOCKET = "/run/gpuledger/progress.sock"
SERVICE = "training"
EVERY_SECONDS = 10.0
MOST = 1e15
"""No step has more samples; the agent refuses larger numbers."""
_RANKS = ("RANK", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK")
_WORKLOADS = ("GPULEDGER_WORKLOAD", "POD_UID", "SLURM_JOB_ID")


class Progress:
    """Counts steps and samples of one training, and sends them to the agent."""

    def __init__(
        self,
        path: str | None = None,
        *,
        service: str = "",
        workload: str = "",
        rank: int | None = None,
        every_seconds: float = EVERY_SECONDS,
        environment: Mapping[str, str] = os.environ,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.lost = 0
        self._path = path or environment.get("GPULEDGER_PROGRESS") or SOCKET
        self._about = {
            "service": service or environment.get("GPULEDGER_SERVICE") or SERVICE,
            "workload": workload or next(filter(None, map(environment.get, _WORKLOADS)), ""),
        }
        reported = next(filter(None, map(environment.get, _RANKS)), "0") if rank is None else str(rank)
        self._silent = reported != "0" or not hasattr(socket, "AF_UNIX")
        self._every, self._clock = every_seconds, clock
        self._run = os.urandom(8).hex()
        self._steps = 0.0
        self._samples = 0.0
        self._reported_steps = 0.0
        self._next = -1.0
        self._socket: socket.socket | None = None

    def step(self, samples: float = 0, steps: float = 1) -> None:
        """A step is done, or several, with so many samples in all."""
        if self._silent:
            return
        if not (_is_count(samples) and _is_count(steps)):
            self.lost += 1
            return
        self._samples += samples
        self._steps += steps
        now = self._clock()
        if now >= self._next:
            self._next = now + self._every
            self._reported_steps = self._steps
            self._send({"at": now, "steps": float(self._steps), "samples": float(self._samples)})

    def rate(self, steps_per_second: float | None = None, samples_per_second: float | None = None) -> None:
        """A rate that the training measures itself; it is reported at once, so call it every few seconds at most."""
        if self._silent:
            return
        reported = {"steps_per_second": steps_per_second, "samples_per_second": samples_per_second}
        given = {name: value for name, value in reported.items() if value is not None}
        if not all(_is_count(value) for value in given.values()):
            self.lost += 1
            return
        self._send({name: float(value) for name, value in given.items()})

    def close(self) -> None:
        """Tells what was not reported yet. The interpreter's end calls it for `progress`."""
        if self._steps != self._reported_steps:
            self._next = -1.0
            self.step(steps=0)
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def _send(self, message: Mapping[str, float]) -> None:
        try:
            if self._socket is None:
                self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
                self._socket.setblocking(False)
            # The process's number keeps the counts of a forked child apart.
            text = json.dumps({**self._about, "run": f"{self._run}-{os.getpid()}", **message})
            self._socket.sendto(text.encode(), self._path)
        except (OSError, ValueError, OverflowError):
            self.lost += 1


def _is_count(value: object) -> bool:
    """Also of numpy's numbers; not of tensors, which would have to come from the GPU first."""
    if not isinstance(value, int | float):
        try:
            value = float(value) if isinstance(value, Real) else -1.0
        except OverflowError:
            return False
    return 0 <= value <= MOST  # one NaN would spoil all totals to come


progress = Progress()
"""The training of this process."""
atexit.register(progress.close)
