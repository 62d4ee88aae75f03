"""Executors start and stop jobs. After a crash they may get the same order twice; they carry it out once.
It never decides.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, runtime_checkable

from scheduler.live.ranks import Rank
from scheduler.model import Job, Node, NodeState

Result = Literal["finished", "failed", "stopped", "lost"]
JUST_NOW = float("inf")


@dataclass(frozen=True, slots=True)
class Launch:
    """An attempt to run. world: a number that grows with each change of its ranks.   payload: what the job's submitter
    gave for the executor."""

    job: Job
    attempt: int
    world: int
    ranks: Sequence[Rank]
    payload: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Over:
    """An attempt of which nothing runs any more. lost: a node of it is, so nobody knows how it would have ended.

    text: for people.   began_at: None: it never ran.   ended_at: None: unknown.   output: the last that a rank said.
    """

    job_id: str
    attempt: int
    result: Result
    text: str = ""
    began_at: float | None = JUST_NOW
    ended_at: float | None = None
    output: str = ""


class Executor(Protocol):
    def refusal(self, job: Job, payload: Mapping[str, Any], nodes: Sequence[Node]) -> str:
        """Why such a job would not run rightly here, wherever it may be placed; '': it would."""

    def start(self, launch: Launch) -> float | None:
        """Brings the attempt to this world, from none or from another. Answers since when it runs, seconds since the
        epoch; None: not yet, ask again.

        Errors: LedgerError if it cannot be started here; it then counts as failed."""

    def stop(self, launch: Launch) -> None:
        """Begins to stop it, or goes on to; `poll` tells when it is over."""

    def poll(self) -> list[Over]:
        """What is over and was not confirmed yet."""

    def confirm(self, over: Over) -> None:
        """It is in the log."""


@runtime_checkable
class SeesNodes(Protocol):
    """An executor that notices which nodes can be used."""

    def outage(self, node: str) -> NodeState | None:
        """available, or what keeps jobs from it; None: not known yet."""


class Recorder:
    """Starts nothing: somebody else runs the jobs and tells when they are finished. What is stopped is over at once."""

    def __init__(self) -> None:
        self._over: dict[tuple[str, int], Over] = {}

    def refusal(self, job: Job, payload: Mapping[str, Any], nodes: Sequence[Node]) -> str:
        return ""

    def start(self, launch: Launch) -> float | None:
        return JUST_NOW

    def stop(self, launch: Launch) -> None:
        name = (launch.job.job_id, launch.attempt)
        self._over[name] = Over(*name, "stopped")

    def poll(self) -> list[Over]:
        return list(self._over.values())

    def confirm(self, over: Over) -> None:
        self._over.pop((over.job_id, over.attempt), None)
