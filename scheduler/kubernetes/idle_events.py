"""What is done about idle jobs, as events on their ElasticJobs and pods, and as an annotation of the pods.

Steps are read from the log, which also records up to which one they were delivered: so each is delivered once, after a
restart too. An annotation is written only where pods may be patched, as for gated pods.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from collectors.kubernetes.api import Conflict
from collectors.kubernetes.objects import Object
from scheduler.kubernetes import gated_pods, pods
from scheduler.kubernetes.admission import path_of
from scheduler.kubernetes.calls import MERGE, Call, event_on
from scheduler.kubernetes.elastic_jobs import API_VERSION, GROUP, KIND
from scheduler.kubernetes.executor import PodExecutor, Seen
from scheduler.live.service import Service
from scheduler.records.events import Cause
from scheduler.records.ladder import RECLAIMED
from scheduler.records.log import Entry
from scheduler.records.restore import idle_cause

IDLE = f"{GROUP}/idle"
"""The annotation: the last step, and its words."""
READER = "events about idle jobs"
HARMLESS = ("noticed", "busy", "kept")


class IdleEvents:
    """annotates: whether pods may be patched."""

    def __init__(self, service: Service, executor: PodExecutor, annotates: bool) -> None:
        self._service, self._executor, self._annotates = service, executor, annotates
        self._delivered = service.log.delivered(READER)
        self._read = self._delivered or service.log.last
        self._marks: dict[str, str | None] = {}
        if not self._delivered and service.log.last:
            self.delivered(service.log.last)  # what was before is of no use any more

    def calls(self, seen: Seen) -> list[Call]:
        """What is to be written about steps that the log has since the last call; then `delivered`."""
        found, last = list[Call](), self._service.log.last
        for entry in self._service.log.entries(self._read, last + 1) if last > self._read else ():
            cause = _cause(entry)
            if cause is not None:
                found += self._about(entry, cause, seen)
        self._read = last
        return found + self._annotations(seen) if self._marks else found

    def delivered(self, sequence: int = 0) -> None:
        """All of these calls were made.   Errors: LedgerError if that cannot be written down: after a restart they are
        made again, in the same words."""
        self._delivered = sequence or self._read
        self._service.log.set_delivered(READER, self._delivered)

    def carried(self, call: Call, outcome: Object | Exception) -> None:
        """An annotation is written again where the pod had changed meanwhile."""
        if call.method == "PATCH" and not isinstance(outcome, Conflict):
            self._marks.pop(call.path, None)

    def _annotations(self, seen: Seen) -> list[Call]:
        there = {path_of(pod): pod for pod in (*seen.gated.values(), *seen.pods.values())}
        self._marks = {path: wanted for path, wanted in self._marks.items() if path in there}
        return [Call("PATCH", path, _patch(there[path], wanted), MERGE) for path, wanted in self._marks.items()]

    def _about(self, entry: Entry, cause: Cause, seen: Seen) -> list[Call]:
        history = self._service.log.of_job(entry.job_id)
        submitted = next((one.body for one in history if one.kind == "submit"), {})
        payload: Mapping[str, Any] = submitted.get("payload") or {}
        step = str(entry.body.get("step", ""))
        event = ("Normal" if step in HARMLESS else "Warning", cause.reason, _text(cause))
        when = datetime.fromtimestamp(entry.at, UTC)
        job = seen.jobs.get(str(payload.get("uid")))
        running = self._pods(payload, entry.job_id, seen)
        found = [event_on(job, API_VERSION, KIND, event, when)] if job is not None else []
        found += [event_on(pod, "v1", "Pod", event, when) for pod in running]
        wanted = None if step in ("busy", "kept") else f"{cause.reason}: {cause.text}"[: gated_pods.MOST_WORDS]
        self._marks |= {path_of(pod): wanted for pod in running if self._annotates}
        return found

    def _pods(self, payload: Mapping[str, Any], job_id: str, seen: Seen) -> Sequence[Object]:
        members = gated_pods.members(payload)
        if members:
            there = [seen.gated[one] for _, one in members if one in seen.gated]
            return [pod for pod in there if gated_pods.admitted_as(pod) == job_id and not pods.is_over(pod)]
        return [pod for pod in self._executor.pods_of(str(payload.get("uid"))) if not pods.is_over(pod)]


def _cause(entry: Entry) -> Cause | None:
    """What the entry does about an idle job; None: it does nothing of the kind."""
    if entry.kind == "idle":
        return idle_cause(entry.body)
    cause = entry.body.get("cause") if entry.kind in ("shrink", "suspend", "stop") else None
    return Cause(**cause) if cause and cause["reason"] == RECLAIMED else None


def _patch(pod: Object, wanted: str | None) -> dict[str, Any]:
    return {"metadata": gated_pods.version(pod) | {"annotations": {IDLE: wanted}}}


def _text(cause: Cause) -> str:
    return f"{cause.text} (by {cause.actor})" if cause.actor else cause.text
