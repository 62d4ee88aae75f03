"""Why a workload was evicted, from Kueue's Workload objects and the pods of its plain-pod integration.

Kueue suspends a Job, and the Job's controller deletes the pods: the pods themselves do not say that they were
preempted. The Workload does, in its Evicted condition, and names the preemptor in its message.

Source: https://kueue.sigs.k8s.io/docs/concepts/workload/, kueue.x-k8s.io/v1beta1
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from collectors.kubernetes.objects import Object, at, child, condition, items, mark, namespace, text

WORKLOAD_ANNOTATION = "kueue.x-k8s.io/workload"
POD_REASON_PREFIX = "WorkloadEvictedDueTo"
FAILURES = frozenset({"PodsReadyTimeout", "NodeFailures", "MaximumExecutionTimeExceeded"})
"""Evictions because something did not work; of the others, those in the next set were asked for by somebody."""
CANCELLATIONS = ("Deactivated", "InactiveWorkload")


@dataclass(frozen=True, slots=True)
class Eviction:
    """A workload was evicted.   reason: Kueue's, such as Preempted.   event: the event that this is for a pod's
    allocation."""

    at: datetime
    reason: str
    message: str

    @property
    def event(self) -> str:
        return event_of(self.reason)


def event_of(reason: str) -> str:
    """The terminal event for an eviction with this reason."""
    if reason in FAILURES:
        return "failed"
    return "cancelled" if reason.startswith(CANCELLATIONS) else "preempted"


def read_eviction(workload: Object) -> Eviction | None:
    """The workload's eviction, if it is evicted at present."""
    evicted = condition(workload, "Evicted")
    when = at(evicted.get("lastTransitionTime"))
    if evicted.get("status") != "True" or when is None:
        return None
    return Eviction(when, text(evicted, "reason"), text(evicted, "message"))


class Evictions:
    """The latest eviction of each workload, kept after the workload is admitted again."""

    def __init__(self) -> None:
        self._by_workload: dict[tuple[str, str], tuple[Eviction, frozenset[str]]] = {}

    def put(self, workload: Object) -> None:
        found = read_eviction(workload)
        metadata = child(workload, "metadata")
        if found is not None:
            owners = frozenset(text(owner, "uid") for owner in items(metadata, "ownerReferences"))
            self._by_workload[namespace(workload), text(metadata, "name")] = found, owners

    def drop(self, key: tuple[str, str]) -> None:
        self._by_workload.pop(key, None)

    def of(self, pod: Object) -> Eviction | None:
        """The eviction of the workload that the pod belongs to, by its annotation or else by its owner."""
        named = mark(pod, (WORKLOAD_ANNOTATION,))
        if named:
            return self._by_workload.get((namespace(pod), named), (None,))[0]
        owners = {text(owner, "uid") for owner in items(child(pod, "metadata"), "ownerReferences")}
        for eviction, of in self._by_workload.values() if owners else ():
            if owners & of:
                return eviction
        return None
