"""How a pod ended: which event, when, and why; a pure function of its last object.

    preempted   PreemptionByScheduler, EvictionByEvictionAPI (kubectl drain, a descheduler), Kueue's and Volcano's
                evictions, the kubelet's for a critical pod: somebody with authority took the devices away
    failed      the phase Failed by itself (with the reason of the container that failed first, such as OOMKilled), and
                what the node did: Evicted, node shutdown, taints, a node that is gone
    rejected    the kubelet did not admit it: UnexpectedAdmissionError, OutOfnvidia.com/gpu; it held nothing
    cancelled   deleted before it was done
    finished    the phase Succeeded

It ends when its last container did; where no container tells, when the condition says; else when deletion was asked
for. A pod that was done before its deletion was asked for ended by itself.

Source: https://kubernetes.io/docs/concepts/workloads/pods/disruptions/#pod-disruption-conditions
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

from collectors.kubernetes import kueue
from collectors.kubernetes.objects import Object, at, child, condition, created, deletion_requested, items, text

DISRUPTIONS = {
    "PreemptionByScheduler": "preempted",
    "EvictionByEvictionAPI": "preempted",
    "DeletionByTaintManager": "failed",
    "DeletionByPodGC": "failed",
    "TerminationByKubelet": "failed",
}
"""Reasons of DisruptionTarget; one of somebody else's is a preemption."""
ADMISSION_REASONS = frozenset(
    {
        "UnexpectedAdmissionError",
        "TopologyAffinityError",
        "NodeAffinity",
        "NodeName",
        "NodePorts",
        "NodeUnschedulable",
        "TaintToleration",
        "AppArmor",
        "SysctlForbidden",
        "ForbiddenSysctl",
        "PodOSNotSupported",
        "PodOSSelectorNodeLabelDoesNotMatch",
        "PodFeatureUnsupported",
        "InvalidNodeInfo",
        "UnexpectedPredicateFailureType",
    }
)
"""With OutOf..., and Evicted where the node already was under pressure: the kubelet's reasons not to admit a pod."""


@dataclass(frozen=True, slots=True)
class Ending:
    """at: None if nothing in the object tells.   exact: the containers tell when."""

    event: str
    at: datetime | None
    reason: str = ""
    message: str = ""
    actor: str = ""
    exact: bool = False


@dataclass(frozen=True, slots=True)
class _Taken:
    """Somebody took it away."""

    event: str
    at: datetime | None
    reason: str
    message: str
    actor: str


def ending(pod: Object, eviction: kueue.Eviction | None = None, gone: bool = False) -> Ending | None:
    """How the pod ended, or would have if it were gone now; None if it goes on.

    gone: the object is no more.   eviction: Kueue's word on the workload that it belongs to.
    """
    status = child(pod, "status")
    phase, reason = text(status, "phase"), text(status, "reason")
    terminal = phase in ("Succeeded", "Failed")
    if not terminal and not gone:
        return None
    if rejected(pod):
        when = at(status.get("startTime")) or created(pod)
        return Ending("rejected", when, reason, text(status, "message"), "kubelet", exact=True)
    requested, finished = deletion_requested(pod), last_finish(pod)
    for taken in _taken(pod, eviction):
        if finished is None or taken.at is None or taken.at <= finished:
            when = finished or taken.at or requested
            kubelet = taken.reason == "TerminationByKubelet"
            why, what = (reason or taken.reason, text(status, "message")) if kubelet else (taken.reason, "")
            return Ending(taken.event, when, why, what or taken.message, taken.actor, finished is not None)
    if requested is not None and (not terminal or finished is None or finished >= requested):
        return Ending("cancelled", finished or requested, "Deleted", exact=finished is not None)
    if not terminal:
        return Ending("cancelled", finished, "Deleted", exact=finished is not None)
    when = finished or at(condition(pod, "Ready").get("lastTransitionTime")) or requested
    when = when or at(status.get("startTime")) or created(pod)
    if phase == "Succeeded":
        return Ending("finished", when, exact=finished is not None)
    failed_reason, failed_message = _failure(pod)
    return Ending(
        "failed", when, reason or failed_reason, text(status, "message") or failed_message, exact=finished is not None
    )


def rejected(pod: Object) -> bool:
    """The kubelet did not admit it: it failed, no container of it has a status, and the reason is one of admission."""
    status = child(pod, "status")
    reason = text(status, "reason")
    if text(status, "phase") != "Failed" or next(_container_statuses(pod), None) is not None:
        return False
    pressure = reason == "Evicted" and "had condition" in text(status, "message")
    return reason.startswith("OutOf") or reason in ADMISSION_REASONS or pressure


def last_finish(pod: Object) -> datetime | None:
    """When the last of its containers ended; None if one still runs, or none tells."""
    ends = []
    for status in _container_statuses(pod):
        state = child(status, "state")
        if "running" in state:
            return None
        ended = child(state, "terminated") or child(status, "lastState", "terminated")
        if (when := at(ended.get("finishedAt"))) is not None:
            ends.append(when)
    return max(ends, default=None)


def _container_statuses(pod: Object) -> Iterator[Object]:
    status = child(pod, "status")
    for kind in ("initContainerStatuses", "containerStatuses", "ephemeralContainerStatuses"):
        yield from items(status, kind)


def _taken(pod: Object, eviction: kueue.Eviction | None) -> Iterator[_Taken]:
    """Who took it away, the one who knows most first."""
    target = condition(pod, "TerminationTarget")
    if target.get("status") == "True":
        told = text(target, "reason")
        when, message = at(target.get("lastTransitionTime")), text(target, "message")
        if told.startswith(kueue.POD_REASON_PREFIX):
            reason = told.removeprefix(kueue.POD_REASON_PREFIX)
            yield _Taken(kueue.event_of(reason), when, reason, message, "kueue")
        else:
            yield _Taken("cancelled", when, told, message, "kueue")
    if eviction is not None and _while_it_ran(pod, eviction.at):
        yield _Taken(eviction.event, eviction.at, eviction.reason, eviction.message, "kueue")
    target = condition(pod, "DisruptionTarget")
    if target.get("status") == "True":
        reason, message = text(target, "reason"), text(target, "message")
        event = DISRUPTIONS.get(reason, "preempted")
        if reason == "TerminationByKubelet" and text(child(pod, "status"), "reason") == "Preempting":
            event = "preempted"
        actor = "kubelet" if reason == "TerminationByKubelet" else _author(message)
        yield _Taken(event, at(target.get("lastTransitionTime")), reason, message, actor)
    ready = condition(pod, "Ready")
    if ready.get("status") == "False" and ready.get("reason") == "Evict":
        yield _Taken("preempted", at(ready.get("lastTransitionTime")), "Evict", text(ready, "message"), "volcano")


def _while_it_ran(pod: Object, when: datetime) -> bool:
    """An eviction takes those pods that were there, and are then deleted; those made later belong to the next try."""
    made, requested = created(pod), deletion_requested(pod)
    return requested is not None and made is not None and made <= when <= requested


def _author(message: str) -> str:
    """The scheduler that a message names first, as in `default-scheduler: preempting to accommodate ...`."""
    match = re.match(r"([a-z0-9][\w.-]*): ", message)
    return match[1] if match else ""


def _failure(pod: Object) -> tuple[str, str]:
    """(reason, message) of the container that failed first."""
    failures = []
    for status in _container_statuses(pod):
        ended = child(status, "state", "terminated")
        if ended and ended.get("exitCode", 0) != 0:
            where = text(status, "name")
            said = text(ended, "message") or f"container {where} exited with {ended.get('exitCode')}"
            failures.append((text(ended, "finishedAt") or "9", where, text(ended, "reason") or "Error", said[:1000]))
    return min(failures)[2:] if failures else ("", "")
