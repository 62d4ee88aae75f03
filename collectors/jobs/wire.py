"""The protocol between a node's agent and its scheduler, in one place for both.

The agent sends what it has (a report), the scheduler replies with what it wants (an answer). Each message is complete
and repeated, so a lost, duplicate or late one does no harm. The agent stops and forgets an attempt that an answer
mentions neither as wanted nor as to be stopped.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from collectors.errors import CollectorError
from warehouse.written_model import Written

T = TypeVar("T", bound=BaseModel)
MOST_RUNS = 10_000
TAIL_CHARACTERS = 4096
ERROR_CHARACTERS = 500
SAME_CLOCK_SECONDS = 10.0
Mode = Literal["restart", "signal"]
Stopped = Literal["", "asked", "lease"]


class _Message(Written):
    model_config = ConfigDict(extra="ignore", frozen=True, allow_inf_nan=False)


Name = Annotated[str, Field(min_length=1, max_length=1000)]
Number = Annotated[int, Field(ge=0, le=1 << 53)]
Port = Annotated[int, Field(ge=1, le=65535)]
Instant = Annotated[float, Field(ge=0, le=1e11)]


class RankOf(_Message):
    """A rank that should run on this node. devices: as the driver names them."""

    rank: Number
    devices: tuple[Name, ...] = ()


class Rendezvous(_Message):
    """The address of rank 0 of a world, where the others meet it."""

    address: Name
    port: Port


class Assignment(_Message):
    """The part of an attempt that should run on this node, in its current world."""

    job: Name
    attempt: Number
    world: Number
    size: Annotated[int, Field(ge=1)]
    node_rank: Number
    nodes: Annotated[int, Field(ge=1)]
    ranks: tuple[RankOf, ...]
    command: Annotated[tuple[str, ...], Field(min_length=1)]
    env: Annotated[dict[str, str], Field(default_factory=dict)]
    directory: str = ""
    resize: Mode = "restart"
    rendezvous: Rendezvous | None = None

    @property
    def key(self) -> tuple[str, int]:
        return self.job, self.attempt


class Answer(_Message):
    """number, boot: of this answer, and of the scheduler's process.   lease_seconds: from the report that it answers,
    ranks may run for so long without another; None: for ever."""

    number: Number
    boot: str
    lease_seconds: Annotated[float, Field(gt=0)] | None
    run: tuple[Assignment, ...] = ()
    stop: tuple[tuple[Name, Number], ...] = ()


class RunOf(_Message):
    """A rank as the agent has it. world: the last that it was given.   began_at: None: it never ran.   code: None:
    unknown.   stopped: by whom, if it did not end by itself.   tail: the last of its output, once it is over."""

    job: Name
    attempt: Number
    world: Number
    rank: Number
    alive: bool
    began_at: Instant | None = None
    ended_at: Instant | None = None
    code: Annotated[int, Field(ge=-(1 << 16), le=1 << 16)] | None = None
    stopped: Stopped = ""
    error: Annotated[str, Field(max_length=ERROR_CHARACTERS)] = ""
    tail: Annotated[str, Field(max_length=TAIL_CHARACTERS)] = ""

    @field_validator("error", "tail")
    @classmethod
    def _harmless(cls, text: str) -> str:
        """Without what would move a terminal's cursor: a rank says what it likes."""
        return harmless(text)


class PortOf(_Message):
    """The address of rank 0 of a world, if it is on this node."""

    job: Name
    attempt: Number
    world: Number
    port: Port


class Report(_Message):
    """instance: of the agent's folder, so that two agents never pass for one.   at: when it was made, by the node's
    clock, as all times in it.   seen, seen_boot: the last answer that it has carried out.   address: where ranks of
    this node are met."""

    instance: Annotated[str, Field(pattern=r"^[0-9a-f]{32}$")]
    at: Instant | None = None
    seen: Number = 0
    seen_boot: Annotated[str, Field(max_length=64)] = ""
    address: Annotated[str, Field(pattern=r"^[A-Za-z0-9_.:\-]{1,253}$")]
    runs: Annotated[tuple[RunOf, ...], Field(max_length=MOST_RUNS)] = ()
    ports: Annotated[tuple[PortOf, ...], Field(max_length=MOST_RUNS)] = ()

    def by_clock(self, now: float) -> Report:
        """The same in the time of whoever hears it now: a node's clock makes no job longer or shorter. Clocks
        that differ by less than a message may take are one."""
        ahead = 0.0 if self.at is None else self.at - now
        if abs(ahead) < SAME_CLOCK_SECONDS:
            return self
        runs = tuple(
            run.model_copy(update={"began_at": _less(run.began_at, ahead), "ended_at": _less(run.ended_at, ahead)})
            for run in self.runs
        )
        return self.model_copy(update={"runs": runs})


def _less(at: float | None, seconds: float) -> float | None:
    return None if at is None else at - seconds


def harmless(text: str) -> str:
    return "".join(c if c.isprintable() or c in "\n\t" else "�" for c in text)


def read_answer(document: Any) -> Answer:
    """Errors: CollectorError."""
    return _read(Answer, document)


def read_report(document: Any) -> Report:
    """Errors: CollectorError."""
    return _read(Report, document)


def _read(kind: type[T], document: Any) -> T:
    try:
        return kind.model_validate(document)
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False)[0]
        where = ".".join(str(step) for step in first["loc"])
        raise CollectorError(f"{kind.__name__.lower()} {where}".strip(), str(first["msg"])[:200]) from None
