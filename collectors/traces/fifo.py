"""First come, first served, on whole GPUs: who starts when and where.

Strict: nobody overtakes, so a large job at the head of the queue holds back the small ones behind it.
A job takes the fullest machine that still fits it whole; if none does, it spans the emptiest ones.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Job:
    """What was asked for. Times in ms since the epoch."""

    submit_ms: int
    duration_ms: int
    gpus: int


@dataclass(frozen=True)
class Placement:
    """Job number `job` (its place in the input) holds `devices` during [start_ms, end_ms).

    devices: (machine, GPU number in it), in that order.
    """

    job: int
    start_ms: int
    end_ms: int
    devices: tuple[tuple[int, int], ...]


class Machines:
    """Free GPUs. For each free count, a bit mask of the machines that have it: the lowest bit is the next to take."""

    def __init__(self, gpus: Sequence[int]) -> None:
        self._free: list[list[int]] = [list(range(count)) for count in gpus]
        self._with = [0] * (max(gpus, default=0) + 1)
        for machine, count in enumerate(gpus):
            self._with[count] |= 1 << machine
        self.free_gpus = sum(gpus)

    def take(self, gpus: int) -> tuple[tuple[int, int], ...]:
        """GPUs for a job that fits (gpus <= free_gpus)."""
        fitting = next((count for count in range(gpus, len(self._with)) if self._with[count]), 0)
        if fitting:
            return self._take_of(_lowest(self._with[fitting]), gpus)
        emptiest = next(count for count in range(len(self._with) - 1, 0, -1) if self._with[count])
        return self._take_of(_lowest(self._with[emptiest]), emptiest) + self.take(gpus - emptiest)

    def give_back(self, devices: Sequence[tuple[int, int]]) -> None:
        for machine, gpu in devices:
            self._toggle(machine)
            heapq.heappush(self._free[machine], gpu)
            self._toggle(machine)
        self.free_gpus += len(devices)

    def _take_of(self, machine: int, gpus: int) -> tuple[tuple[int, int], ...]:
        self._toggle(machine)
        taken = tuple((machine, heapq.heappop(self._free[machine])) for _ in range(gpus))
        self._toggle(machine)
        self.free_gpus -= gpus
        return taken

    def _toggle(self, machine: int) -> None:
        """Takes the machine out of the mask of its free count, or puts it in: once before a change, once after."""
        self._with[len(self._free[machine])] ^= 1 << machine


def _lowest(mask: int) -> int:
    return (mask & -mask).bit_length() - 1


def place(jobs: Sequence[Job], machines: Sequence[int]) -> Iterator[Placement]:
    """Placements in the order of starts; jobs submitted in the same ms keep the order of the input.

    Errors: ValueError if a job asks for more GPUs than the machines have together.
    """
    free = Machines(machines)
    total = free.free_gpus
    running: list[tuple[int, int, tuple[tuple[int, int], ...]]] = []
    now = 0
    for number in sorted(range(len(jobs)), key=lambda n: jobs[n].submit_ms):
        job = jobs[number]
        if job.gpus > total:
            raise ValueError(f"job {number + 1} asks for {job.gpus} GPUs, the machines have {total}")
        now = max(now, job.submit_ms)
        while running and (running[0][0] <= now or free.free_gpus < job.gpus):
            end_ms, _, devices = heapq.heappop(running)
            now = max(now, end_ms)
            free.give_back(devices)
        devices = tuple(sorted(free.take(job.gpus)))
        heapq.heappush(running, (now + job.duration_ms, number, devices))
        yield Placement(number, now, now + job.duration_ms, devices)
