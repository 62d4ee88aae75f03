"""What an executor is: it starts and stops jobs, and never decides.

After a crash it may get the same order twice, and carries it out once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, runtime_checkable

from scheduler.live.idle import Holders
from scheduler.live.ranks import Rank
from scheduler.model import Job, Node, NodeState

Result = Literal["finished", "failed", "stopped", "lost"]
JUST_NOW = float("inf")
AttemptName = tuple[str, int]
"""(job id, number of the attempt)."""


@dataclass(frozen=True, slots=True)
class Launch:
    """An attempt to run. world: a number that grows with each change of its ranks.   payload: what the job's submitter
    gave for the executor."""

    job: Job
    attempt: int
    world: int
    ranks: Sequence[Rank]
    payload: Mapping[str, Any] = field(default_factory=dict)


@dataclass
class Attempt:
    """What an executor knows of an attempt.   result: how it ends, once known; then none of it is wanted any more."""

    launch: Launch
    result: Result | None = None
    text: str = ""

    @property
    def name(self) -> AttemptName:
        return self.launch.job.job_id, self.launch.attempt

    def ends(self, result: Result, text: str = "") -> None:
        """Unless it is known already how it ends."""
        if self.result is None:
            self.result, self.text = result, text


@dataclass(frozen=True, slots=True)
class Over:
    """An ended attempt, of which nothing runs any more.

    result: `lost` if it lost a node, so that it is unknown how it would have ended.   text: for people.   began_at:
    None: it never ran.   ended_at: None: unknown.   output: the last of a rank's output.
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
        """Why such a job could not run correctly here, wherever it is placed; '' if it could."""

    def start(self, launch: Launch) -> float | None:
        """Brings the attempt to this world, from none or from another. Returns since when it has run, in seconds since
        the epoch; None: not yet, call again.

        Errors: LedgerError if it cannot be started here; it then counts as failed."""

    def stop(self, launch: Launch) -> None:
        """Begins or continues to stop an attempt; `poll` returns it once it has ended."""

    def poll(self) -> list[Over]:
        """Ended attempts that are not confirmed yet."""

    def confirm(self, over: Over) -> None:
        """The end of an attempt is in the log."""


@runtime_checkable
class SeesNodes(Protocol):
    """An executor that notices which nodes can be used."""

    def outage(self, node: str) -> NodeState | None:
        """The node's state as the executor sees it; None: not known yet."""


@runtime_checkable
class NamesHolders(Protocol):
    """An executor whose jobs the books know by other names than the scheduler's."""

    def holders(self, job_id: str, attempt: int, world: int) -> Holders | None:
        """The allocations of a running attempt, in that world; None: not all of it is there."""


@runtime_checkable
class SaysSize(Protocol):
    """An executor some of whose jobs get their size from elsewhere, so that nobody changes it here."""

    def says_size(self, payload: Mapping[str, Any]) -> str:
        """What says a job's size instead, and what to do; '' if a request may."""


@dataclass(frozen=True, slots=True)
class Vacated:
    """ranks: of a running attempt that have ended for good, while others go on.   payload: the job's, of these."""

    job_id: str
    attempt: int
    ranks: Sequence[int]
    payload: Mapping[str, Any]


@runtime_checkable
class VacatesRanks(Protocol):
    """An executor whose jobs go on when some of their ranks have ended, so that these hold nothing any more."""

    def vacated(self) -> Sequence[Vacated]:
        """Of each running attempt, those that it was not yet started without."""


@dataclass(frozen=True, slots=True)
class Completing:
    """ranks: of an attempt, in that world, that have finished while others run."""

    job_id: str
    attempt: int
    world: int
    ranks: Sequence[int]


@runtime_checkable
class SeesRanksFinish(Protocol):
    """An executor that would run the finished ranks of a job again, if it were brought to another world."""

    def completing(self) -> Sequence[Completing]:
        """Attempts of which a rank has finished while others run."""


@runtime_checkable
class HearsOfRanks(Protocol):
    """An executor that is told by others how ranks fare, some time after it begins."""

    def unheard(self) -> Mapping[AttemptName, Sequence[str]]:
        """By attempt, the nodes with ranks of it that have not reported since this process began."""


class Recorder:
    """Starts nothing: another system runs the jobs and reports when they finish. A stopped job ends at once."""

    def __init__(self) -> None:
        self._over: dict[AttemptName, Over] = {}

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
