"""How and when a pod released its devices; pure functions of its last object.

    preempted   PreemptionByScheduler, EvictionByEvictionAPI (kubectl drain, a descheduler), Kueue's and Volcano's
                evictions, the kubelet's for a critical pod: somebody with authority took the devices away
    failed      the phase Failed by itself (with the reason of the container that failed first, such as OOMKilled), and
                what the node did: Evicted, node shutdown, taints, a node that is gone
    rejected    the kubelet did not admit it: UnexpectedAdmissionError, OutOfnvidia.com/gpu
    cancelled   deleted before it was done; with the reason IdleReclaimed, and who, if our operator said before that its
                job was idle (see `reclaims`), and it did not end by itself in between
    finished    the phase Succeeded

The scheduler gives a pod's devices to others once its phase is Succeeded or Failed, or its object is gone; nothing that
a container does ends it before. Then it ended, by what is known best:

    when its last container did, if every container says so and none of them would have been restarted
    when the phase was written, by the time that its writer has in managedFields
    when it was deleted, if that took no time at all
    else nothing in the object tells

Source: https://kubernetes.io/docs/concepts/workloads/pods/disruptions/#pod-disruption-conditions,
        https://kubernetes.io/docs/concepts/workloads/pods/pod-lifecycle/#pod-phase
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta

from collectors.kubernetes import kueue
from collectors.kubernetes.objects import (
    Object,
    at,
    child,
    condition,
    created,
    deletion_requested,
    items,
    last_written,
    text,
)
from collectors.kubernetes.reclaims import REASONS, reclaimed

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
SKEW = timedelta(seconds=5)
"""By which the API server's clock may be behind ours."""


@dataclass(frozen=True, slots=True)
class Before:
    """What earlier versions of the object showed."""

    admitted: bool = False
    lingers: bool = False
    alive: datetime | None = None


@dataclass(frozen=True, slots=True)
class Ending:
    """at: None if nothing in the object shows it; then it was not before `earliest`."""

    event: str
    at: datetime | None
    earliest: datetime | None = None
    reason: str = ""
    message: str = ""
    actor: str = ""


@dataclass(frozen=True, slots=True)
class _Taken:
    """A preemption or an eviction: the devices were taken away."""

    event: str
    at: datetime | None
    reason: str
    message: str
    actor: str


def terminal(pod: Object) -> bool:
    return text(child(pod, "status"), "phase") in ("Succeeded", "Failed")


def ending(
    pod: Object, before: Before = Before(), eviction: kueue.Eviction | None = None, gone: bool = False
) -> Ending | None:
    """How the pod ended, or would have ended if it vanished now; None if it is running."""
    status = child(pod, "status")
    final, reason = terminal(pod), text(status, "reason")
    if not final and not gone:
        return None
    earliest = latest_stamp(pod)
    if rejected(pod, before):
        when = at(status.get("startTime")) or created(pod)
        return Ending("rejected", when, when, reason, text(status, "message"), "kubelet")
    takers = list(_taken(pod, eviction))
    requested, when = deletion_requested(pod), _ended_at(pod, before, takers)
    for taken in takers:
        if when is None or taken.at is None or taken.at <= when:
            kubelet = taken.reason == "TerminationByKubelet"
            why, what = (reason or taken.reason, text(status, "message")) if kubelet else (taken.reason, "")
            return Ending(taken.event, when, earliest, why, what or taken.message, taken.actor)
    # A deleted pod's own reason (Evicted, DeadlineExceeded) was there before its deletion.
    deleted_first = not reason if when is None else requested is not None and when >= requested
    if not final or (requested is not None and deleted_first):
        return Ending("cancelled", when, earliest, "Deleted")
    if text(status, "phase") == "Succeeded":
        return Ending("finished", when, earliest)
    failed_reason, failed_message = _failure(pod)
    return Ending("failed", when, earliest, reason or failed_reason, text(status, "message") or failed_message)


def rejected(pod: Object, before: Before = Before()) -> bool:
    """The kubelet never admitted it: it failed, no container of it has a status, and the reason is one of admission."""
    status = child(pod, "status")
    reason = text(status, "reason")
    if before.admitted or text(status, "phase") != "Failed" or next(_container_statuses(pod), None) is not None:
        return False
    pressure = reason == "Evicted" and "had condition" in text(status, "message")
    return reason.startswith("OutOf") or reason in ADMISSION_REASONS or pressure


def latest_stamp(pod: Object, deletion: bool = True) -> datetime | None:
    """The latest instant that the object names in the past: it was there then.   deletion: that of its request, too."""
    status = child(pod, "status")
    stamps = [created(pod), at(status.get("startTime")), deletion_requested(pod) if deletion else None]
    # What our operator says is by its clock, and tells nothing of the pod that its deletion does not.
    told = [each for each in items(status, "conditions") if each.get("reason") not in REASONS]
    stamps += [at(each.get("lastTransitionTime")) for each in told]
    for container in _container_statuses(pod):
        for kind in ("state", "lastState"):
            stamps.append(at(child(container, kind, "running").get("startedAt")))
            stamps.append(at(child(container, kind, "terminated").get("finishedAt")))
    return max((stamp for stamp in stamps if stamp is not None), default=None)


def _ended_at(pod: Object, before: Before, takers: list[_Taken]) -> datetime | None:
    finished = _finished_at(pod, takers)
    if finished is not None:
        return finished
    if terminal(pod):
        wrote, known = last_written(pod, "status", "phase"), latest_stamp(pod, deletion=False)
        fits = wrote is not None and (known is None or known <= wrote)
        return wrote if fits and wrote is not None and (before.alive is None or before.alive <= wrote + SKEW) else None
    metadata = child(pod, "metadata")
    at_once = metadata.get("deletionGracePeriodSeconds") == 0 and not before.lingers
    return at(metadata.get("deletionTimestamp")) if at_once else None


def takes_time(pod: Object) -> bool:
    """Whether it is being deleted gracefully: the kubelet, or the owner of a finalizer, will finish it."""
    metadata = child(pod, "metadata")
    if not text(metadata, "deletionTimestamp"):
        return False
    return metadata.get("deletionGracePeriodSeconds") != 0 or bool(metadata.get("finalizers"))


def _finished_at(pod: Object, takers: list[_Taken]) -> datetime | None:
    """When the last of its containers ended for good; None if one may still run, would have run again, or does not
    say when it ended."""
    main = items(child(pod, "status"), "containerStatuses")
    ends: list[datetime] = []
    failed_init = False
    for status in items(child(pod, "status"), "initContainerStatuses"):
        ended = child(status, "state", "terminated")
        if "running" in child(status, "state"):
            return None
        if ended:
            when = at(ended.get("finishedAt"))
            if when is None:
                return None
            ends.append(when)
            failed_init |= ended.get("exitCode", 0) != 0
    for status in items(child(pod, "status"), "ephemeralContainerStatuses"):
        if "running" in child(status, "state"):
            return None
        if (when := at(child(status, "state", "terminated").get("finishedAt"))) is not None:
            ends.append(when)
    stops = [at(child(status, "state", "terminated").get("finishedAt")) for status in main]
    if stops and None not in stops:
        ends += [stop for stop in stops if stop is not None]
    elif not (failed_init and not any(_began(status) for status in main)):
        return None  # an init container that fails ends a pod whose others never began; nothing else of one does
    finished = max(ends, default=None)
    return finished if finished is not None and _for_good(pod, finished, takers) else None


def _began(status: Object) -> bool:
    """Whether the container ever ran."""
    ended = child(status, "state", "terminated")
    return "running" in child(status, "state") or bool(child(status, "lastState")) or bool(ended.get("startedAt"))


def _for_good(pod: Object, finished: datetime, takers: list[_Taken]) -> bool:
    """Whether containers that had all ended by then stayed down: else it was one more exit of a loop of crashes."""
    policy, main = text(child(pod, "spec"), "restartPolicy"), items(child(pod, "status"), "containerStatuses")
    done = all(child(status, "state", "terminated").get("exitCode") == 0 for status in main)
    if policy not in ("Always", "OnFailure") or (policy == "OnFailure" and done):
        return True
    asked = [deletion_requested(pod), *(taken.at for taken in takers)]
    known = [when for when in asked if when is not None]
    return bool(known) and finished >= max(known)


def _container_statuses(pod: Object) -> Iterator[Object]:
    status = child(pod, "status")
    for kind in ("initContainerStatuses", "containerStatuses", "ephemeralContainerStatuses"):
        yield from items(status, kind)


def _taken(pod: Object, eviction: kueue.Eviction | None) -> Iterator[_Taken]:
    """Who took the devices away; the best-informed source comes first."""
    target = condition(pod, "TerminationTarget")
    if target.get("status") == "True":
        reported = text(target, "reason")
        when, message = at(target.get("lastTransitionTime")), text(target, "message")
        if reported.startswith(kueue.POD_REASON_PREFIX):
            reason = reported.removeprefix(kueue.POD_REASON_PREFIX)
            yield _Taken(kueue.event_of(reason), when, reason, message, "kueue")
        else:
            yield _Taken("cancelled", when, reported, message, "kueue")
    if eviction is not None and _while_it_ran(pod, eviction.at):
        yield _Taken(eviction.event, eviction.at, eviction.reason, eviction.message, "kueue")
    target = condition(pod, "DisruptionTarget")
    told, requested = reclaimed(pod), deletion_requested(pod)
    if told is not None:
        if requested is not None or not terminal(pod):
            yield _Taken("cancelled", requested, told.reason, told.message(), told.actor)
    elif target.get("status") == "True":
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
            message = text(ended, "message") or f"container {where} exited with {ended.get('exitCode')}"
            failures.append((text(ended, "finishedAt") or "9", where, text(ended, "reason") or "Error", message[:1000]))
    return min(failures)[2:] if failures else ("", "")
