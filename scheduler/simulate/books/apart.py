"""Runs simulations in a subprocess with a time limit, so that a server stays responsive.

Each subprocess reads one question from standard input and writes its answer to standard output. One runs at a time; a
few may wait.
"""

from __future__ import annotations

import json
import math
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import asdict, astuple
from typing import Any

from scheduler.simulate.books.workload import BookJob, Change, Group, Outcome, Slot, Workload
from warehouse.errors import LedgerError
from warehouse.this_python import this_python

SECONDS = 60
"""Limit of CPU seconds of a simulation."""
BUSY = 4
"""Limit of wall-clock time, as a multiple of the CPU limit: simulations run at low priority on a busy machine."""
MOST_WAITING = 8
NICE = 5
STEP = "Ask for a shorter period"


class Simulations:
    """Those of a process.   seconds: of CPU time that one may take."""

    def __init__(self, seconds: float = SECONDS) -> None:
        self._seconds = seconds
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="simulation")
        self._places = threading.Semaphore(1 + MOST_WAITING)

    def submit(self, workload: Workload, changes: Sequence[Change]) -> Future[tuple[Outcome, ...]]:
        """The outcome as it was, and then of each change, when it is there.

        Errors: LedgerError if too many wait already; the future's, if it takes too long, or the change cannot be.
        """
        if not self._places.acquire(blocking=False):
            raise LedgerError("simulation", "too many wait already", "Try again in a minute")
        question = question_of(workload, changes)
        try:
            future = self._pool.submit(ask, question, self._seconds)
        except BaseException:
            self._places.release()
            raise
        future.add_done_callback(lambda _: self._places.release())
        return future


SIMULATIONS = Simulations()
"""The one queue of this process."""


def question_of(workload: Workload, changes: Sequence[Change]) -> str:
    """The question for the subprocess, as JSON."""
    return json.dumps(
        {
            "span": [workload.start, workload.end],
            "devices": [astuple(slot) for slot in workload.devices],
            "jobs": [[getattr(job, name) for name in BookJob.__slots__] for job in workload.jobs],
            "changes": [asdict(change) for change in changes],
        }
    )


def answer_of(question: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Computes the outcomes, in the subprocess."""
    from scheduler.simulate.books.what_if import as_it_was, simulated

    start, end = question["span"]
    devices, jobs = [Slot(*one) for one in question["devices"]], [BookJob(*one) for one in question["jobs"]]
    workload = Workload(Group("", "", ""), start, end, devices, jobs)
    changes = [Change(**one) for one in question["changes"]]
    return [asdict(as_it_was(workload)), *(asdict(simulated(workload, change)) for change in changes)]


def ask(question: str, seconds: float = SECONDS) -> tuple[Outcome, ...]:
    """Runs a subprocess. Errors: LedgerError if it takes too long, or the question has no answer."""
    try:
        done = subprocess.run(  # noqa: S603 (this very Python, with our own arguments)
            this_python(start, str(math.ceil(seconds))),
            input=question, capture_output=True, text=True, encoding="utf-8", timeout=seconds * BUSY, check=False,
            env={"LC_ALL": "C.UTF-8", "TZ": "UTC", "OPENBLAS_NUM_THREADS": "1"},
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        raise _too_long(seconds) from None
    if done.returncode == -signal.SIGXCPU:
        raise _too_long(seconds)
    if done.returncode:
        raise LedgerError("simulation", f"ended with {done.returncode}: {done.stderr.strip()[-300:]}", STEP)
    answer = json.loads(done.stdout)
    if "error" in answer:
        raise LedgerError(*answer["error"])
    return tuple(Outcome(**one) for one in answer["outcomes"])


def _too_long(seconds: float) -> LedgerError:
    return LedgerError("simulation", f"takes more than {seconds:g} s", STEP)


def start(limit: str) -> None:
    """Entry point of the subprocess.   limit: of CPU seconds."""
    import resource

    seconds = int(limit)
    os.nice(NICE)
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 1))
    try:
        answer: dict[str, Any] = {"outcomes": answer_of(json.load(sys.stdin))}
    except LedgerError as error:
        answer = {"error": [error.where, error.what, error.next_step]}
    json.dump(answer, sys.stdout)
