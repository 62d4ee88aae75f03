"""Which steps are due about running jobs that are idle: what is known of them, and what was logged about that.

It takes no step itself: the service does, one at a time, and asks for the next.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from scheduler.cycle.queues import Queues
from scheduler.live.idle import (
    Evidence,
    Feed,
    Holders,
    Idle,
    Unknown,
    answer_problem,
    due,
    evidence,
    is_another_spell,
    outlook,
    words,
)
from scheduler.model import Job
from scheduler.records.book import Live
from scheduler.records.events import Cause, instant, written
from scheduler.records.ladder import BY_IDLENESS, RECLAIMED, Step
from scheduler.settings import IdlePart

log = logging.getLogger(__name__)

LOOK_SECONDS = 10.0
"""So often jobs are looked at, if nothing else happens."""


@dataclass(frozen=True, slots=True)
class Note:
    """body: of the entry that says so."""

    body: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Reclaim:
    """What the policy says is to be done.   actor: who said yes."""

    policy: IdlePart
    idle: Idle
    actor: str

    @property
    def cause(self) -> Cause:
        return Cause(RECLAIMED, words("act", self.policy, self.idle), self.actor)

    @property
    def evidence(self) -> dict[str, Any]:
        return _evidence(self.policy, self.idle)

    @property
    def proposal(self) -> dict[str, Any]:
        """The body of the entry that proposes it instead."""
        text = words("proposed", self.policy, self.idle)
        return {"step": "proposed", "text": text, "actor": self.actor, **self.evidence}


class IdleJobs:
    """What is known of idle jobs since the start: the last answer, and up to when each job was seen to be idle."""

    def __init__(self) -> None:
        self._feed: Feed | None = None
        self._seen: dict[str, tuple[int, float]] = {}
        self._logged: dict[str, str] = {}
        self._looked: tuple[Feed | None, int, float] = (None, -1, float("-inf"))

    def hear(self, feed: Feed, now: float) -> None:
        self._feed = feed
        self._log_once("", self.problem(now))

    def problem(self, now: float) -> str:
        """Why nothing is known of any job; '' if something is."""
        return answer_problem(self._feed, now)

    @property
    def heard_at(self) -> float | None:
        """When the server last answered; None: its last answer was an error, or there was none."""
        return None if self._feed is None or self._feed.problem else self._feed.heard_at

    def looks(self, jobs: Collection[str], last: int, now: float) -> bool:
        """Whether a step may be due since the last look: there is another answer, the log has grown, or time has
        passed. Forgets jobs that are no more."""
        feed, entry, at = self._looked
        if self._feed is None or (feed is self._feed and entry == last and 0 <= now - at < LOOK_SECONDS):
            return False
        self._looked = self._feed, last, now
        self._seen = {name: one for name, one in self._seen.items() if name in jobs}
        self._logged = {name: one for name, one in self._logged.items() if not name or name in jobs}
        self._log_once("", self.problem(now))
        return True

    def has_heard_of(self, holders: Holders | None) -> bool:
        """Whether the last answer says anything of all of these."""
        readings = self._feed.readings if self._feed is not None else {}
        return holders is not None and all(one in readings for one in holders.allocations)

    def evidence(self, holders: Holders | None, now: float) -> Evidence:
        return evidence(self._feed, holders, now)

    def due(self, live: Live, policy: IdlePart | None, holders: Holders | None, now: float) -> Iterator[Note | Reclaim]:
        """The steps that are due about a running job. Each is to be taken before the next is asked for."""
        job_id, found = live.job.job_id, self.evidence(holders, now)
        if isinstance(found, Unknown):
            if found.is_logged and (live.idle is not None or policy is not None):
                self._log_once(job_id, f"job {job_id}: {found.problem}; nothing is done about it")
            return
        self._log_once(job_id, "")
        if not isinstance(found, Idle):
            if live.idle is not None and not live.idle.is_kept:
                yield _note("busy", "is used again")
            return
        attempt, last_at = self._seen.get(job_id, (0, 0.0))
        self._seen[job_id] = live.attempt, found.at
        if is_another_spell(live.idle, last_at if attempt == live.attempt else 0.0, found):
            yield _note("busy", f"was used, or started anew, at {written(found.since)}")
        while policy is not None:
            step = due(policy, live.idle, found, now, obstacle(policy, live, holders))
            if step is None:
                return
            if step == "act":
                yield Reclaim(policy, found, BY_IDLENESS)
                return
            yield _note(step, words(step, policy, found), _evidence(policy, found))

    def shown(self, live: Live, policy: IdlePart | None, holders: Holders | None, now: float) -> dict[str, Any] | None:
        """What is known of a running job, and what happens next; None: it is not idle, and nothing was done."""
        found, ladder = self.evidence(holders, now), live.idle
        idle = found if isinstance(found, Idle) else None
        problem = found.problem if isinstance(found, Unknown) else ""
        if ladder is None and idle is None and not (isinstance(found, Unknown) and found.is_logged):
            return None
        ahead = outlook(policy, ladder, idle, "" if policy is None else obstacle(policy, live, holders))
        return {
            "job_id": live.job.job_id,
            "allocations": [] if holders is None else list(holders.allocations),
            "tenant": live.job.tenant,
            "queue": live.job.queue,
            "attempt": live.attempt,
            "idle_seconds": None if idle is None else idle.seconds,
            "idle_since": None if idle is None else instant(idle.since),
            "measured_at": None if idle is None else instant(idle.at),
            "step": "" if ladder is None else ladder.step,
            "by": "" if ladder is None else ladder.by,
            "next": ahead.what,
            "next_at": None if ahead.at is None else instant(ahead.at),
            "policy": "" if policy is None else policy.summary(),
            "problem": problem,
        }

    def suspended(self, live: Live) -> dict[str, Any]:
        """Of a job that was suspended because it was idle, and was not resumed."""
        return {
            "job_id": live.job.job_id,
            "allocations": [],
            "tenant": live.job.tenant,
            "queue": live.job.queue,
            "attempt": live.attempt,
            "idle_seconds": None,
            "idle_since": None,
            "measured_at": None,
            "step": "suspended",
            "by": live.aside.actor,
            "next": "it waits again, once somebody says `resume`",
            "next_at": None,
            "policy": "",
            "problem": "",
        }

    def _log_once(self, about: str, what: str) -> None:
        """Logs why nothing is known of a job, or ('') of any; nothing, if that was said already."""
        if self._logged.get(about, "") != what:
            self._logged[about] = what
            if what:
                log.warning("idle jobs: %s", what)


def policy_of(policies: Sequence[IdlePart], job: Job, queues: Queues) -> IdlePart | None:
    """The first policy that is for a job. Replicas of services scale with their demand."""
    if job.service:
        return None
    for one in policies:
        of_queue = not one.queues or any(queues.within(job.queue, name) for name in one.queues)
        if of_queue and job.tenant in (one.tenants or (job.tenant,)):
            return one
    return None


def obstacle(policy: IdlePart, live: Live, holders: Holders | None) -> str:
    """Why the policy would do nothing to a job; '' if it would."""
    if policy.then == "shrink" and len(live.grants) <= live.job.min_replicas:
        return "it holds nothing beyond its smallest gang"
    if policy.then == "suspend" and holders is not None and not holders.comes_back:
        return "its pods are not ours to make again, so that it cannot be suspended"
    return ""


def _note(step: Step, text: str, more: dict[str, Any] | None = None) -> Note:
    return Note({"step": step, "text": text, "actor": BY_IDLENESS, **(more or {})})


def _evidence(policy: IdlePart, idle: Idle) -> dict[str, Any]:
    return {"seconds": idle.seconds, "measured_at": idle.at, "policy": policy.summary()}
