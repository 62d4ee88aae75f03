"""Says on a pod that an idle policy takes its GPUs, before the pod is deleted: the books cannot know otherwise.

It is a condition of the pod's status, which whoever owns the pod may not write. Of a job that is made smaller, all pods
are replaced: only those of the ranks that it loses are marked. Gated pods are marked before they are evicted, unless a
controller makes another in their place: that asks for the GPUs again at once. What is decided is in the log, so a mark
that a crash left out is made, and one that was made is followed by the deletion.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from collectors.kubernetes.api import Absent
from collectors.kubernetes.connection import KubernetesError
from collectors.kubernetes.objects import Object, child, condition, name, namespace, text, uid, whole, written
from collectors.kubernetes.reclaims import CONDITION, EVICTED, REASONS, Reclaimed, has_controller
from scheduler.kubernetes import gated_pods, pods
from scheduler.kubernetes.calls import STRATEGIC, Call
from scheduler.kubernetes.elastic_jobs import job_id
from scheduler.kubernetes.executor import Create, Delete, Seen, Step
from scheduler.kubernetes.gates import Evict, Move
from scheduler.live.service import Service
from scheduler.records.book import Live
from scheduler.records.events import Cause, allocation_id
from scheduler.records.events import written as instant
from scheduler.records.ladder import RECLAIMED

_ENDS = {
    "shrink": "shrunk", "suspend": "suspended", "stop": "cancelled", "plan": "", "cancel": "", "vacate": "", "end": "",
}  # fmt: skip
"""What ends a world, by the kind of the entry: what an idle policy calls that."""


@dataclass(frozen=True, slots=True)
class Mark:
    """Says on a pod, in the version that was seen, why it is deleted next."""

    namespace: str
    name: str
    uid: str
    condition: Object
    version: Object

    @property
    def call(self) -> Call:
        body = {"metadata": self.version, "status": {"conditions": [self.condition]}}
        return Call("PATCH", f"/api/v1/namespaces/{self.namespace}/pods/{self.name}/status", body, STRATEGIC)


class Reclaims:
    def __init__(self, service: Service) -> None:
        self._service = service
        self._given_up: set[str] = set()

    def before(self, steps: Sequence[Step], seen: Seen, now: float) -> list[Step | Mark]:
        """The steps, with a mark in the place of each deletion that needs one first."""
        self._given_up &= {*map(uid, seen.pods.values()), *seen.gated} if self._given_up else set()
        deletions = [one for one in steps if isinstance(one, Delete) and one.uid not in self._given_up]
        placed = {one.uid: found for one in deletions if (found := _placed(one, seen)) is not None}
        if not placed:
            return list(steps)
        asked = {(job_id(one.job), one.world) for one in placed.values()}
        causes = self._service.measured(lambda service: {key: _why(service, *key) for key in asked})
        at = datetime.fromtimestamp(now, UTC)
        return [step if isinstance(step, Create) else _first(step, placed.get(step.uid), causes, at) for step in steps]

    def before_evictions(self, moves: Sequence[Move], now: float) -> list[Move | Mark]:
        """The moves, with a mark in the place of each eviction that needs one first."""
        evicted = {gated_pods.admitted_as(one.pod) for one in moves if isinstance(one, Evict)}
        if not evicted:
            return list(moves)
        causes = self._service.measured(lambda service: {job: _why_evicted(service, job) for job in evicted})
        at = datetime.fromtimestamp(now, UTC)
        return [self._evicted(one, causes, at) if isinstance(one, Evict) else one for one in moves]

    def _evicted(self, step: Evict, causes: Mapping[str, Reclaimed | None], now: datetime) -> Evict | Mark:
        why = causes[gated_pods.admitted_as(step.pod)]
        if why is None or uid(step.pod) in self._given_up or has_controller(step.pod):
            return step
        return _unless_said(step.pod, EVICTED, why, now) or step

    def carried(self, mark: Mark, outcome: Object | Exception) -> str:
        """Takes the result of a mark. A pod that cannot be marked is deleted without one. Returns a message for the
        log, or ''."""
        if isinstance(outcome, KubernetesError) or (isinstance(outcome, Absent) and outcome.forbidden):
            self._given_up.add(mark.uid)
            return f"pod {mark.name} cannot be marked as {RECLAIMED}, so that the books do not show it: {outcome}"
        return ""


@dataclass(frozen=True, slots=True)
class _Placed:
    """A pod on a node, in a placement of its job, of so many pods."""

    pod: Object
    job: Object
    world: int
    size: int


def _placed(step: Delete, seen: Seen) -> _Placed | None:
    """None: it holds nothing yet, or its job is gone."""
    pod = seen.pods.get((step.namespace, step.name))
    if pod is None or uid(pod) != step.uid or not text(child(pod, "spec"), "nodeName"):
        return None
    job, world, size = seen.jobs.get(pods.job_uid(pod)), whole(pods.world_of(pod)), whole(pods.size_of(pod))
    return None if job is None or world is None or size is None else _Placed(pod, job, world, size)


def _first(
    step: Delete, placed: _Placed | None, causes: Mapping[tuple[str, int], _Why | None], now: datetime
) -> Step | Mark:
    """The mark that the pod needs first, or its deletion."""
    why = None if placed is None else causes.get((job_id(placed.job), placed.world))
    if placed is None or why is None:
        return step
    left = max(0, placed.size - why.replicas) if why.replicas else 0
    if pods.rank_of(placed.pod) < left:
        return step
    limit, cause = _limit(why.limit_at), why.cause
    of = f"{step.namespace}/{name(placed.job)}"
    told = Reclaimed(cause.reason, why.act, cause.actor, of, why.allocation, placed.world, left, cause.text, limit)
    return _unless_said(placed.pod, CONDITION, told, now) or step


@dataclass(frozen=True, slots=True)
class _Why:
    """replicas: how many of the last it loses; 0: all.   limit_at: of the attempt; None: it has none."""

    cause: Cause
    act: str
    allocation: str
    replicas: int
    limit_at: float | None


def _why(service: Service, job_id_: str, world: int) -> _Why | None:
    """Why pods of that world of a job are deleted, if an idle policy had to do with it: what ended the world first."""
    live = service.book.jobs.get(job_id_)
    if live is None or not _is_reclaimed(live):
        return None
    for entry in service.log.of_job(job_id_):
        if entry.sequence > world and (entry.kind in _ENDS or (entry.kind == "rescale" and entry.body["replicas"])):
            cause = Cause(**entry.body["cause"]) if "cause" in entry.body else Cause()
            if cause.reason not in REASONS:
                return None
            allocation = allocation_id(job_id_, live.attempt)
            replicas = int(entry.body.get("replicas", 0))
            return _Why(cause, _ENDS.get(entry.kind, "shrunk"), allocation, replicas, live.limit_at)
    return None


def _is_reclaimed(live: Live) -> bool:
    """Whether an idle policy has made it smaller in this attempt, or ends it: of others the log need not be read."""
    ends = live.stop is not None and live.stop[1].reason == RECLAIMED
    return ends or (live.idle is not None and live.idle.is_shrunk)


def _why_evicted(service: Service, job: str) -> Reclaimed | None:
    """What an idle policy says of the pods of a gated job; None: it does not end the job."""
    live = service.book.jobs.get(job)
    if live is None or live.stop is None or live.stop[1].reason != RECLAIMED:
        return None
    cause, limit = live.stop[1], _limit(live.limit_at)
    return Reclaimed(
        cause.reason, "cancelled", cause.actor, "", allocation_id(job, live.attempt), 0, 0, cause.text, limit
    )


def _unless_said(pod: Object, kind: str, told: Reclaimed, now: datetime) -> Mark | None:
    """The mark of a pod; None: it has it."""
    message = told.message()
    if condition(pod, kind).get("message") == message:
        return None
    said = {"type": kind, "status": "True", "reason": told.reason, "message": message}
    condition_ = {**said, "lastTransitionTime": written(now)}
    return Mark(namespace(pod), name(pod), uid(pod), condition_, gated_pods.version(pod))


def _limit(at: float | None) -> str:
    return "" if at is None else instant(at)
