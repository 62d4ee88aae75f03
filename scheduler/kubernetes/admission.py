"""Follows the pods that others made and that wait at our gate: submits them as jobs, says why they wait, lets them in.

Each round starts from the pods and the log: a job is named after its pods' UIDs, so none is submitted twice, and a pod
that is made anew is another job.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from collectors.kubernetes.objects import Object, created, mark, name, namespace, uid, written
from scheduler.kubernetes import gated_pods, pods
from scheduler.kubernetes.calls import MERGE, Call, event_on
from scheduler.kubernetes.elastic_jobs import LAUNCHER, RESOURCE, paying, undeclared
from scheduler.kubernetes.executor import AGAIN_SECONDS, Seen
from scheduler.kubernetes.gates import Admit, Evict, GatedPodExecutor, Move
from scheduler.kubernetes.status import KUEUE
from scheduler.live.service import RefusedError, Service
from scheduler.model import COMES_BACK, Reason
from scheduler.records.book import Live
from warehouse.errors import LedgerError

ACTOR = "kubernetes"
SAME_REASON_SECONDS = 60.0
"""While its reason stays the same, a pod gets other numbers at most this often."""


@dataclass(frozen=True, slots=True)
class _Gang:
    """Pods at the gate that are to be one job.   problem: why they are none."""

    pods: Sequence[Object]
    problem: Reason | None = None


class Admission:
    """labelled: whether the scheduler's nodes say in which resource they offer devices (--pools-from cluster)."""

    def __init__(self, service: Service, executor: GatedPodExecutor, labelled: bool) -> None:
        self._service, self._executor, self._labelled = service, executor, labelled
        self._of_pod: dict[str, str] = {}
        self._problems: dict[str, Reason] = {}
        self._annotated_at: dict[str, float] = {}
        self._looked: tuple[int, int] = (-1, -1)
        self._known: dict[str, frozenset[str]] = {}
        self._noted: tuple[int, int] = (-1, -1)
        self._noted_at = float("-inf")

    # From pods to the scheduler

    def see(self, seen: Seen) -> None:
        self._executor.see(seen.gated, seen.number)
        if self._known:
            admitted = set(map(gated_pods.admitted_as, seen.gated.values()))
            self._known = {job: of for job, of in self._known.items() if job in admitted}

    def follow(self, seen: Seen) -> None:
        if self._looked == (self._service.log.last, seen.number):
            return
        live = self._live()
        for job_id, one in live.items():
            if self._is_gone(one, seen.gated):
                self._cancel(job_id)
        self._of_pod = {pod: job for job, one in live.items() for _, pod in gated_pods.members(one.payload)}
        self._problems = {}
        pools = self._pools(seen)
        for gang in _gangs([pod for pod in seen.gated.values() if self._is_free(pod)]):
            problem = gang.problem or self._submit(gang.pods, seen, pools)
            if problem is not None:
                self._problems |= dict.fromkeys(map(uid, gang.pods), problem)
        self._service.gated_without_job = [problem.code for problem in self._problems.values()]
        self._looked = (self._service.log.last, seen.number)

    def _live(self) -> dict[str, Live]:
        def found(service: Service) -> dict[str, Live]:
            return {job: live for job, live in service.book.jobs.items() if gated_pods.members(live.payload)}

        jobs: dict[str, Live] = self._service.measured(found)
        return jobs

    def _is_free(self, pod: Object) -> bool:
        return gated_pods.is_waiting(pod) and uid(pod) not in self._of_pod

    def _is_gone(self, live: Live, seen: Mapping[str, Object]) -> bool:
        """Whether a job cannot go on, or run again, with the pods that are left. A job whose pods have ended does end
        by itself."""
        if live.stop is not None and live.stop[0] not in COMES_BACK:
            return False
        there = [seen.get(one) for _, one in gated_pods.members(live.payload)]
        if all(pod is not None and gated_pods.is_waiting(pod) for pod in there):
            return False
        if live.status not in ("starting", "running"):
            return True
        if gated_pods.vacated(live.payload) is not None:
            return False
        ours = [pod for pod in there if pod is not None and gated_pods.admitted_as(pod) == live.job.job_id]
        return not any(pods.is_over(pod) or not pods.is_leaving(pod) for pod in ours)

    def _cancel(self, job_id: str) -> None:
        with contextlib.suppress(RefusedError):  # it has ended meanwhile
            self._service.cancel(job_id, ACTOR)

    def _pools(self, seen: Seen) -> dict[str, list[Object]]:
        """The nodes of each pool in which pods are started."""
        found: dict[str, list[Object]] = {}
        for node in self._service.measured(lambda service: service.restored.setup.nodes):
            there = seen.nodes.get(pods.node_of(node.name))
            if node.launcher == LAUNCHER and node.name not in self._executor.elastic.left and there is not None:
                found.setdefault(node.pool, []).append(there)
        return found

    def _submit(self, gang: Sequence[Object], seen: Seen, pools: Mapping[str, Sequence[Object]]) -> Reason | None:
        """Why these pods are no job; None: they are one now."""
        first, job_id = gang[0], gated_pods.job_id(gang)
        ended = self._service.measured(lambda service: service.log.of_job(job_id))
        if ended:
            return self._ended(job_id)
        try:
            home = seen.namespaces.get(namespace(first), {})
            tenants = {paying(mark(pod, (pods.TENANT,)), pod, home, seen.tenants) for pod in gang}
            if len(tenants) > 1:
                raise LedgerError(f"group {gated_pods.gang_of(first)}", "names several tenants", "Name one")
            pool = gated_pods.pool_of(gang, pools)
            nodes = self._service.measured(lambda service: service.restored.setup.nodes)
            weighs = {"cpu": any(one.cpu_milli for one in nodes), "memory": any(one.memory_bytes for one in nodes)}
            weighed = frozenset(what for what, does in weighs.items() if does)
            offered = frozenset(one.labels[RESOURCE] for one in nodes if RESOURCE in one.labels)
            job = gated_pods.job_of(gang, tenants.pop(), pool, self._labelled, weighed, offered)
            queues = self._service.measured(lambda service: service.restored.core.queues)
            if self._labelled and (problem := undeclared(job["queue"], queues)):
                raise problem
            self._service.submit(job, ACTOR)
        except LedgerError as error:
            return self._ended(job_id) if self._service.log.of_job(job_id) else Reason("Misconfigured", str(error))
        self._of_pod |= dict.fromkeys(map(uid, gang), job_id)
        return None

    def _ended(self, job_id: str) -> Reason:
        """Why pods wait whose job is over already: it was cancelled by somebody, or is rejected."""
        found = self._service.explain(job_id)
        causes = [line["cause"] for line in found["history"] if line.get("cause")]
        cause = causes[-1] if causes else {}
        return Reason(cause.get("reason") or str(found["status"]).capitalize(), cause.get("text", ""))

    # From the scheduler to pods

    def moves(self) -> list[Move]:
        return self._executor.moves(self._is_ours)

    def _is_ours(self, job_id: str, pod: str) -> bool:
        if job_id not in self._known:
            first = next((one for one in self._service.log.of_job(job_id) if one.kind == "submit"), None)
            named = gated_pods.members(first.body.get("payload") or {}) if first is not None else []
            if first is None:
                return False
            self._known[job_id] = frozenset(one for _, one in named)
        return pod in self._known[job_id]

    def carried(self, move: Move, outcome: Object | Exception) -> str:
        return self._executor.carried(move, outcome)

    def notes(self, seen: Seen, now: float) -> list[Call]:
        """Annotations of pods that wait, and events where the reason changes."""
        calls: list[Call] = []
        state = (self._service.log.last, seen.number)
        if state == self._noted and now - self._noted_at < AGAIN_SECONDS:
            return calls
        self._noted, self._noted_at = state, now
        waiting = {identity: pod for identity, pod in seen.gated.items() if gated_pods.is_waiting(pod)}
        for identity in self._annotated_at.keys() - waiting.keys():
            del self._annotated_at[identity]
        standings: dict[str, dict[str, str] | None] = {}
        for identity, pod in waiting.items():
            job = self._of_pod.get(identity, "")
            if job not in standings:
                standings[job] = self._standing(job) if job else None
            wanted = standings[job] if job else _annotations(self._problems.get(identity))
            if wanted is None:
                continue
            patch = gated_pods.note(pod, wanted)
            same = wanted[gated_pods.REASON] == mark(pod, (gated_pods.REASON,))
            if not patch or (same and now - self._annotated_at.get(identity, float("-inf")) < SAME_REASON_SECONDS):
                continue
            self._annotated_at[identity] = now
            calls.append(Call("PATCH", path_of(pod), patch, MERGE))
            if not same:
                words = wanted.get(gated_pods.MESSAGE, "")
                when = datetime.fromtimestamp(now, UTC)
                calls.append(event_on(pod, "v1", "Pod", ("Normal", wanted[gated_pods.REASON], words), when))
        return calls

    def _standing(self, job_id: str) -> dict[str, str] | None:
        """Annotations that say why a job waits; None: it does not."""

        def found(service: Service) -> dict[str, str] | None:
            live = service.book.jobs.get(job_id)
            if live is None or live.status not in ("pending", "held", "suspended"):
                refused = self._executor.refused(job_id, live.attempt) if live is not None else ""
                return {gated_pods.REASON: "WaitForStart", gated_pods.MESSAGE: refused} if refused else None
            wanted = _annotations(*service.why(job_id))
            interval = service.expected(job_id)
            if wanted is not None and interval is not None:
                wanted[gated_pods.EXPECTED] = "/".join(map(written, interval))
            return wanted

        annotations: dict[str, str] | None = self._service.measured(found)
        return annotations

    def happened(self, move: Move, outcome: Any, now: float) -> list[Call]:
        """Events of what was done."""
        if isinstance(outcome, Exception):
            return []
        when = datetime.fromtimestamp(now, UTC)
        if isinstance(move, Admit):
            event = ("Normal", "QuotaReserved", f"{move.attempt[0]}: on {move.node}")
        else:
            event = ("Warning", "Evicted", self._why_evicted(gated_pods.admitted_as(move.pod)))
        return [event_on(move.pod, "v1", "Pod", event, when)]

    def _why_evicted(self, job_id: str) -> str:
        stops = [one for one in self._service.log.of_job(job_id) if one.kind in ("stop", "plan", "suspend", "cancel")]
        live = self._service.measured(lambda service: service.book.jobs.get(job_id))
        if live is not None and live.stop is not None:
            return f"{live.stop[0]}: {live.stop[1].text or live.stop[1].reason}"
        return f"{job_id} does not run any more" if stops else job_id


def _annotations(*reasons: Reason | None) -> dict[str, str] | None:
    known = [one for one in reasons if one is not None]
    if not known:
        return None
    words = "; ".join(one.text for one in known if one.text)[: gated_pods.MOST_WORDS]
    found = {gated_pods.REASON: KUEUE.get(known[0].code, known[0].code)}
    return found | ({gated_pods.MESSAGE: words} if words else {})


def _gangs(waiting: Sequence[Object]) -> list[_Gang]:
    """Single pods, and as many of a group as it says, the oldest first."""
    found: list[_Gang] = []
    groups: dict[tuple[str, str], list[Object]] = {}
    for pod in sorted(waiting, key=lambda pod: (str(created(pod)), namespace(pod), name(pod))):
        if called := gated_pods.gang_of(pod):
            groups.setdefault((namespace(pod), called), []).append(pod)
        else:
            found.append(_Gang([pod]))
    for group in groups.values():
        try:
            size = gated_pods.gang_size(group)
        except LedgerError as error:
            found.append(_Gang(group, Reason("Misconfigured", str(error))))
            continue
        whole = len(group) // size * size
        found += [_Gang(group[at : at + size]) for at in range(0, whole, size)]
        if group[whole:]:
            text = f"{len(group) - whole} of {size} pods of its group are there"
            found.append(_Gang(group[whole:], Reason("PendingEvaluation", text)))
    return found


def path_of(pod: Object) -> str:
    return f"/api/v1/namespaces/{namespace(pod)}/pods/{name(pod)}"


def call_of(move: Move) -> Call:
    if isinstance(move, Admit):
        patch = gated_pods.admission(move.pod, move.node, move.attempt[0], move.tenant)
        return Call("PATCH", path_of(move.pod), patch, MERGE)
    assert isinstance(move, Evict)
    body = gated_pods.eviction(move.pod)
    if not move.forced:
        return Call("POST", f"{path_of(move.pod)}/eviction", body)
    options = {"kind": "DeleteOptions", "apiVersion": "v1", **body["deleteOptions"]}
    return Call("DELETE", path_of(move.pod), options)
