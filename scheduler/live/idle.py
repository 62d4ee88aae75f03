"""Running jobs that are idle: what is known of them, and which step is due. Pure functions.

    noticed ──warn──▶ warned ──after──▶ shrunk, suspended, cancelled; or proposed, which waits for an operator's yes
       └─────────── busy: it is used again, and the next spell begins with `noticed` ───────────┘

That a job is idle is measured by a gpuledger server, by its rule idle-holder-notice. What is not known moves nothing:
a server that does not answer, an alert that was not evaluated lately (as where samples are missing), an allocation that
is not of the running attempt.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol

from scheduler.records.events import allocation_id, written
from scheduler.records.ladder import Ladder
from scheduler.settings import IdlePart
from warehouse.durations import format_duration

RULE = "idle-holder-notice"
FRESH_SECONDS = 900.0
"""How old a measurement may be; the rule is evaluated every five minutes."""
ANSWER_SECONDS = 300.0
"""How old the server's last answer may be; it is asked every minute."""
NOTICED_BY = 35 * 60.0
"""Seconds after its start by which an allocation that was never used is in an answer: the rule's 10 minutes of grace
and 15 of idleness, an interval of 5, and what it takes to measure, evaluate and ask."""
SLACK = 60.0
"""By which the clocks of scheduler and server may differ unnoticed."""
Due = Literal["noticed", "warned", "proposed", "act"]
VERBS: Mapping[str, str] = {"shrink": "made smaller", "suspend": "suspended", "cancel": "cancelled"}


@dataclass(frozen=True, slots=True)
class Reading:
    """seconds: for how long an allocation was idle, as of `at`; None: unknown."""

    seconds: float | None
    at: float

    @classmethod
    def of(cls, seconds: float | None, at: float) -> Reading:
        """A reading of what a server says; what cannot be a duration is unknown. To the millisecond, so that the rule's
        whole window is not a little less."""
        fits = seconds is not None and math.isfinite(seconds) and seconds >= 0
        return cls(round(seconds, 3) if seconds is not None and fits else None, round(at, 3))


@dataclass(frozen=True, slots=True)
class Feed:
    """A server's answer.   heard_at: when, by the scheduler's clock.   readings: of allocations for which the alert
    fires.   problem: why there is none."""

    heard_at: float
    readings: Mapping[str, Reading] = field(default_factory=dict)
    problem: str = ""


@dataclass(frozen=True, slots=True)
class Holders:
    """The allocations by which the books know a running attempt; all of them are idle if it is.   since: when the last
    began.   comes_back: whether it can be suspended."""

    allocations: Sequence[str]
    since: float
    comes_back: bool = True


def one_holder(job_id: str, attempt: int, since: float) -> Holders:
    """Of a job whose events the scheduler itself reports."""
    return Holders((allocation_id(job_id, attempt),), since)


@dataclass(frozen=True, slots=True)
class Idle:
    seconds: float
    at: float

    @property
    def since(self) -> float:
        return self.at - self.seconds

    def text(self) -> str:
        return f"idle for {format_duration(self.seconds)}, as measured at {written(self.at)}"


@dataclass(frozen=True, slots=True)
class Busy:
    """It was used lately."""


@dataclass(frozen=True, slots=True)
class Unknown:
    """problem: why.   is_logged: whether the log gets a line for it: only if the job was thought to be idle."""

    problem: str
    is_logged: bool = True


Evidence = Idle | Busy | Unknown


class Answer(Protocol):
    """What a server said.   heard_at: when, by the scheduler's clock.   problem: why there is no answer."""

    @property
    def heard_at(self) -> float: ...

    @property
    def problem(self) -> str: ...


def answer_problem(feed: Answer | None, now: float) -> str:
    """Why nothing is known of any job; '' if the server's answer can be used."""
    if feed is None:
        return "the server was not asked yet"
    if feed.problem:
        return feed.problem
    if now - feed.heard_at > ANSWER_SECONDS:
        return f"the server has not answered since {written(feed.heard_at)}"
    return ""


def evidence(feed: Feed | None, holders: Holders | None, now: float) -> Evidence:
    """What is known of a job.   holders: None: not all of it is there."""
    problem = answer_problem(feed, now)
    if problem or feed is None:
        return Unknown(problem, is_logged=False)  # logged once, not for each job
    if holders is None or not holders.allocations:
        return Unknown("not all of it runs", is_logged=False)
    found = [feed.readings.get(one) for one in holders.allocations]
    readings = [one for one in found if one is not None]
    if len(readings) < len(found):
        return Busy() if now - holders.since >= NOTICED_BY else Unknown("it has not run for long", is_logged=False)
    at = min(one.at for one in readings)
    if now - at > FRESH_SECONDS:
        return Unknown(f"last measured at {written(at)}, {format_duration(now - at)} ago")
    if max(one.at for one in readings) > now + FRESH_SECONDS:
        return Unknown(f"measured at {written(max(one.at for one in readings))}, which is yet to come")
    if any(one.seconds is None for one in readings):
        return Unknown("the server does not know whether it is idle")
    seconds = min(one.seconds for one in readings if one.seconds is not None)
    if seconds > at - holders.since + SLACK:
        return Unknown(f"it would have been idle since {written(at - seconds)}, before it began: another had its name")
    return Idle(seconds, at)


def is_another_spell(ladder: Ladder | None, last_at: float, idle: Idle) -> bool:
    """Whether a job was used since it was last seen to be idle, by a reading as of `last_at`: so earlier steps do not
    count. A job that was made smaller may have been restarted for that, which is no use of it."""
    if ladder is None or ladder.is_kept or ladder.is_shrunk:
        return False
    return idle.since > max(last_at, ladder.measured_at)


def due(policy: IdlePart, ladder: Ladder | None, idle: Idle, now: float, obstacle: str) -> Due | None:
    """The next step; None: none yet.   obstacle: why the policy's last step would do nothing; '' if it would."""
    if ladder is None:
        return "noticed"
    if ladder.is_kept or ladder.is_shrunk:
        return None
    if ladder.warned_at is None or ladder.policy != policy.summary():
        return "warned" if idle.seconds >= policy.warn else None
    if obstacle or idle.seconds < policy.after or now < ladder.warned_at + policy.grace:
        return None
    if policy.approval:
        return None if ladder.step == "proposed" else "proposed"
    return "act"


@dataclass(frozen=True, slots=True)
class Outlook:
    """what: happens next, in words; '' for nothing.   at: when, if it stays idle; None: that depends on somebody."""

    what: str
    at: float | None = None


def outlook(policy: IdlePart | None, ladder: Ladder | None, idle: Idle | None, obstacle: str) -> Outlook:
    if ladder is not None and ladder.is_kept:
        return Outlook(f"nothing: {ladder.by or 'somebody'} keeps it")
    if ladder is not None and ladder.is_shrunk:
        return Outlook("it grows once it is used again, or `keep` says so")
    if policy is None:
        return Outlook("nothing: no idle policy applies to it")
    if idle is None:
        return Outlook("nothing, while that is unknown")
    if policy.approval and ladder is not None and ladder.step == "proposed" and ladder.by:
        return Outlook(f"{policy.then}, once an operator says `reclaim`")
    if ladder is None or ladder.warned_at is None or ladder.policy != policy.summary():
        return Outlook("warning", idle.since + policy.warn)
    if obstacle:
        return Outlook(f"nothing: {obstacle}")
    if policy.approval and ladder.step == "proposed":
        return Outlook(f"{policy.then}, once an operator says `reclaim`")
    at = max(idle.since + policy.after, ladder.warned_at + policy.grace)
    return Outlook(f"{'proposal: ' if policy.approval else ''}{policy.then}", at)


def words(step: str, policy: IdlePart, idle: Idle) -> str:
    """The text of a step, with its numbers."""
    grace = format_duration(policy.grace)
    match step:
        case "noticed":
            more = f"a warning follows after {format_duration(policy.warn)}"
        case "warned" if policy.approval:
            more = (
                f"if it stays idle, it is to be {VERBS[policy.then]} in {grace} at the earliest, if an operator says so"
            )
        case "warned":
            more = f"if it stays idle, it is {VERBS[policy.then]} in {grace} at the earliest, unless somebody keeps it"
        case "proposed":
            more = f"to be {VERBS[policy.then]}, once an operator says so"
        case _:
            more = f"so it is {VERBS[policy.then]}"
    return f"{idle.text()}; {more} (policy {policy.summary()})"
