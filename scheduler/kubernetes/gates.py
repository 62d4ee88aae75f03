"""The executor of jobs whose pods others made: it lets them in, and evicts them. It passes ElasticJobs to theirs.

A job's payload names its pods by UID, so the log and the API say together what is to be done, after a restart too. A
pod that was let in bears the job's id; one whose job is not to run (any more) is evicted.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from collectors.kubernetes.api import Absent, Conflict, Interrupted, Refused
from collectors.kubernetes.objects import Object, name, namespace, uid
from scheduler.kubernetes import gated_pods, pods
from scheduler.kubernetes.elastic_jobs import unplaceable
from scheduler.kubernetes.executor import AGAIN_SECONDS, PodAttempt, PodExecutor
from scheduler.live.executors import JUST_NOW, AttemptName, Completing, Launch, Over, Result, Vacated
from scheduler.live.idle import Holders
from scheduler.model import Job, Node, NodeState

EVICT_SECONDS = 60.0
"""For which an eviction that is refused, as by a PodDisruptionBudget, is asked for again; then the pod is deleted."""


@dataclass(frozen=True, slots=True)
class Admit:
    """Pins a pod to a node and removes its gate."""

    attempt: AttemptName
    pod: Object
    node: str
    tenant: str


@dataclass(frozen=True, slots=True)
class Evict:
    """forced: by deletion, because its eviction was refused for too long."""

    pod: Object
    forced: bool


Move = Admit | Evict


@dataclass
class _GatedAttempt(PodAttempt):
    """ended: how its pods did, by UID, also of those that are gone since.   last: these pods as they were seen last."""

    ended: dict[str, tuple[Result, str]] = field(default_factory=dict)
    last: dict[str, Object] = field(default_factory=dict)

    def places(self) -> list[tuple[str, str]]:
        """(UID, node) by rank."""
        nodes = [pods.node_of(rank.node) for rank in self.launch.ranks]
        return [(one, node) for (_, one), node in zip(gated_pods.members(self.launch.payload), nodes, strict=True)]

    def look(self, seen: Mapping[str, Object]) -> None:
        own = {one: seen[one] for one, _ in self.places() if one in seen}
        # One whose gate somebody else removed is as good as gone.
        there = {one: pod for one, pod in own.items() if gated_pods.is_gated(pod) or self._entered(pod)}
        for one, pod in there.items():
            if self._entered(pod) and pods.is_over(pod):
                self.last[one] = pod
                did: Result = "finished" if pods.phase(pod) == "Succeeded" else "failed"
                self.ended[one] = (did, "" if did == "finished" else f"pod {name(pod)}: {pods.why_failed(pod)}")
        remaining = there.keys() | self.ended.keys()
        known = [there.get(one) or self.last[one] for one in remaining]
        begun = [pod for pod in known if pods.has_begun(pod)]
        if self.begun_at is None and begun and all(pods.is_over(pod) for pod in known if not pods.has_begun(pod)):
            since = pods.all_begun_at(begun)
            self.begun_at = JUST_NOW if since is None else since
        vacated = gated_pods.vacated(self.launch.payload)
        if self.result is None and (self.ended or vacated) and there.keys() <= self.ended.keys():
            failed = [*filter(None, [vacated and vacated.failed]), *self._failures()]
            self.result, self.text = ("failed", failed[0]) if failed else ("finished", "")

    def _failures(self) -> list[str]:
        return [why for how, why in self.ended.values() if how == "failed"]

    def vacated(self, seen: Mapping[str, Object]) -> Vacated | None:
        """Ranks whose pods have ended or are gone, while others run; None: there are none."""
        if self.result is not None or self.begun_at is None:
            return None
        ranks = [n for n, (one, _) in enumerate(self.places()) if one in self.ended or one not in seen]
        if not 0 < len(ranks) < len(self.launch.ranks):
            return None
        payload = gated_pods.without(self.launch.payload, ranks, next(iter(self._failures()), ""))
        return Vacated(*self.name, ranks, payload)

    def ended_at(self) -> float | None:
        """When the last of its pods ended; None if that is not known of each that there was until then."""
        is_complete = dict(self.places()).keys() <= self.last.keys()
        return pods.all_ended_at(list(self.last.values())) if is_complete else None

    def is_held(self, seen: Mapping[str, Object]) -> bool:
        """Whether a pod of it is on its node, or may be."""
        there = [seen[one] for one, _ in self.places() if one in seen]
        return any(self._entered(pod) and not pods.is_over(pod) for pod in there)

    def _entered(self, pod: Object) -> bool:
        return gated_pods.admitted_as(pod) == self.name[0]


class GatedPodExecutor:
    """Methods may be called by any thread.   elastic: for all other jobs.   clock: seconds that only go on."""

    def __init__(self, elastic: PodExecutor, clock: Callable[[], float] = time.monotonic) -> None:
        self.elastic, self._clock = elastic, clock
        self._attempts: dict[AttemptName, _GatedAttempt] = {}
        self._seen: Mapping[str, Object] | None = None
        self._number = -1
        self._refused_at: dict[str, float] = {}
        self._lock = threading.RLock()

    # As an executor

    def refusal(self, job: Job, payload: Mapping[str, Any], nodes: Sequence[Node]) -> str:
        named = gated_pods.members(payload)
        if not named:
            return self.elastic.refusal(job, payload, nodes)
        with self._lock:
            found = [(self._seen or {}).get(one) for _, one in named]
        if any(
            pod is None or not gated_pods.is_waiting(pod) or namespace(pod) != payload.get("namespace") for pod in found
        ):
            return "names pods that do not wait at the gate"
        return unplaceable(job, nodes)

    def says_size(self, payload: Mapping[str, Any]) -> str:
        if not gated_pods.members(payload):
            return self.elastic.says_size(payload)
        return "has as many replicas as it has pods, and whoever makes them says how many"

    def start(self, launch: Launch) -> float | None:
        if not gated_pods.members(launch.payload):
            return self.elastic.start(launch)
        with self._lock:
            return self._know(launch).begun_at

    def stop(self, launch: Launch) -> None:
        if not gated_pods.members(launch.payload):
            self.elastic.stop(launch)
            return
        with self._lock:
            attempt = self._know(launch)
            attempt.ends("stopped")

    def poll(self) -> list[Over]:
        with self._lock:
            over = [
                one.over(one.result, one.ended_at())
                for one in self._attempts.values()
                if one.result is not None and self._seen is not None and not one.is_held(self._seen)
            ]
        return [*self.elastic.poll(), *over]

    def vacated(self) -> list[Vacated]:
        with self._lock:
            seen = self._seen
            found = [] if seen is None else [one.vacated(seen) for one in self._attempts.values()]
        return [one for one in found if one is not None]

    def completing(self) -> list[Completing]:
        """Of gated pods there is none: what theirs have ended, the job goes on without."""
        return self.elastic.completing()

    def confirm(self, over: Over) -> None:
        with self._lock:
            self._attempts.pop((over.job_id, over.attempt), None)
        self.elastic.confirm(over)

    def holders(self, job_id: str, attempt: int, world: int) -> Holders | None:
        with self._lock:
            found = self._attempts.get((job_id, attempt))
            if found is None:
                return self.elastic.holders(job_id, attempt, world)
            if found.launch.world != world or found.result is not None or self._seen is None:
                return None
            return pods.holders([self._seen.get(one) for one, _ in found.places() if one not in found.ended], False)

    def outage(self, node: str) -> NodeState | None:
        return self.elastic.outage(node)

    # For the operator

    def see(self, seen: Mapping[str, Object], number: int) -> None:
        """seen: pods with the label of a queue, by UID.   number: as in executor.Seen."""
        with self._lock:
            if number == self._number and self._seen is not None:
                return
            self._seen, self._number = seen, number
            for attempt in self._attempts.values():
                attempt.look(seen)
            for gone in self._refused_at.keys() - seen.keys():
                del self._refused_at[gone]

    def moves(self, is_ours: Callable[[str, str], bool]) -> list[Move]:
        """is_ours: whether the log knows a job, by its id, as one of that pod's UID."""
        with self._lock:
            if self._seen is None:
                return []
            running = {one.launch.job.job_id: one for one in self._attempts.values() if one.result is None}
            found: list[Move] = []
            for attempt in running.values():
                found += self._admissions(attempt)
            for identity, pod in self._seen.items():
                job = gated_pods.admitted_as(pod)
                if not job or pods.is_leaving(pod) or pods.is_over(pod):
                    continue
                wanted = running.get(job)
                if (wanted is None or identity not in dict(wanted.places())) and is_ours(job, identity):
                    late = self._clock() - self._refused_at.get(identity, self._clock()) >= EVICT_SECONDS
                    found.append(Evict(pod, late))
            return found

    def _admissions(self, attempt: _GatedAttempt) -> list[Move]:
        """Of the pods that are still at the gate. If one of them is gone before any was let in, there is no attempt."""
        assert self._seen is not None
        if self._clock() < attempt.again_at:
            return []
        found: list[Move] = []
        for identity, node in attempt.places():
            pod = self._seen.get(identity)
            if pod is not None and gated_pods.is_waiting(pod):
                found.append(Admit(attempt.name, pod, node, attempt.launch.job.tenant))
        return found

    def carried(self, move: Move, outcome: Object | Exception) -> str:
        """Takes the result of a move. Returns a message for the log, or ''."""
        identity = uid(move.pod)
        with self._lock:
            if isinstance(move, Evict):
                if not isinstance(outcome, Exception):
                    self._refused_at.pop(identity, None)
                    return ""
                if isinstance(outcome, Conflict):
                    return ""
                is_gone = isinstance(outcome, Absent) and not outcome.forbidden  # so it says; the watch will tell
                is_final = not isinstance(outcome, Interrupted) and not is_gone
                at = self._clock() - (EVICT_SECONDS if is_final else 0.0)
                self._refused_at[identity] = min(at, self._refused_at.get(identity, at))
                return "" if is_gone else f"pod {name(move.pod)} could not be evicted: {outcome}"
            attempt = self._attempts.get(move.attempt)
            if attempt is None or not isinstance(outcome, Exception) or isinstance(outcome, Conflict):
                return ""
            message = f"pod {name(move.pod)} could not be let in: {outcome}"
            if isinstance(outcome, Refused):
                attempt.result, attempt.text = attempt.result or "failed", attempt.text or message
            attempt.refused, attempt.again_at = message, self._clock() + AGAIN_SECONDS
            return message

    def refused(self, job_id: str, attempt: int) -> str:
        with self._lock:
            found = self._attempts.get((job_id, attempt))
            return found.refused if found is not None else ""

    def _know(self, launch: Launch) -> _GatedAttempt:
        attempt = self._attempts.get((launch.job.job_id, launch.attempt))
        if attempt is None or attempt.launch.world != launch.world:
            attempt = self._attempts.setdefault((launch.job.job_id, launch.attempt), _GatedAttempt(launch))
            attempt.launch = launch
            if self._seen is not None:
                attempt.look(self._seen)
        return attempt
