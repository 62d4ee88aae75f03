"""Workloads that wait in a batch scheduler's queue before they have pods: pure functions of Kueue's Workloads and
Volcano's PodGroups.

    submitted   at the object's creation, or at the eviction that put it back; again whenever its reason changes
    started     when it was admitted, without a node or a device: its pods hold those, and it nothing
    cancelled   with it, reason `Admitted`; or when it was deleted, deactivated or done without having been admitted;
                or, reason `PodsWait`, once pods of its own wait in its place

The workload is the object's UID, and so is its first wait's allocation; a wait after an eviction has UID/TIME.

Source: https://kueue.sigs.k8s.io/docs/concepts/workload/, pkg/workload/workload.go;
        https://volcano.sh/en/docs/podgroup/, pkg/scheduler/api (conditions)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal

from collectors.kubernetes.kueue import CANCELLATIONS, WORKLOAD_ANNOTATION
from collectors.kubernetes.objects import (
    Object,
    at,
    child,
    condition,
    created,
    deletion_requested,
    items,
    mark,
    name,
    namespace,
    text,
    uid,
)
from collectors.kubernetes.resources import NodeFacts, Sum, gpus_of_each, parts, requests, strict_quantity
from collectors.kubernetes.settings import Settings

ADMITTED, PODS_WAIT = "Admitted", "PodsWait"
POD_GROUP_LABEL = "kueue.x-k8s.io/pod-group-name"
VOLCANO_GROUP_MARKS = ("scheduling.k8s.io/group-name", "scheduling.volcano.sh/group-name")
WAITING_PHASES = ("", "Pending", "Inqueue")
MOST_PODS = 1_000_000

QueueOf = Callable[[str, str], str]
"""The ClusterQueue of a namespace's LocalQueue; the LocalQueue's own name where that is not known."""


@dataclass(frozen=True, slots=True)
class End:
    """How a wait ended.   at: None if the object does not say."""

    event: Literal["started", "cancelled"]
    at: datetime | None
    reason: str
    message: str = ""


@dataclass(frozen=True, slots=True)
class Wait:
    """What a version of an object says of its latest wait.

    allocation: empty if the object does not say when the wait began: then it is the one that is known.   links: names
    that its pods share with it (`links_of_pod`).   first: nothing of it ran before.   reason_at: since when.
    local_queue: the base's queue is a LocalQueue.   done: the work is, too.
    """

    allocation: str
    since: datetime
    base: Mapping[str, Any]
    gpus: float | None
    links: tuple[str, ...]
    first: bool = True
    reason: str = ""
    message: str = ""
    reason_at: datetime | None = None
    title: str = ""
    local_queue: bool = False
    done: bool = False
    end: End | None = None


@dataclass(frozen=True, slots=True)
class Read:
    """wait: None for a workload without accelerators, or that cannot be read.   problems: why, for people."""

    wait: Wait | None = None
    problems: tuple[str, ...] = field(default=())


def links_of_pod(pod: Object) -> tuple[str, ...]:
    """Names by which a pod's workload can be found."""
    where, metadata = namespace(pod), child(pod, "metadata")
    found = [f"uid {owner}" for one in items(metadata, "ownerReferences") if (owner := text(one, "uid"))]
    for marks, kind in (
        ((WORKLOAD_ANNOTATION, POD_GROUP_LABEL), "workload"),
        (VOLCANO_GROUP_MARKS, "podgroup"),
    ):
        if named := mark(pod, marks):
            found.append(f"{kind} {where}/{named}")
    return tuple(sorted({f"uid {uid(pod)}", *found}))


def of_workload(workload: Object, settings: Settings) -> Read:
    """Of one of Kueue's."""
    identity, made, spec = uid(workload), created(workload), child(workload, "spec")
    if not identity or made is None:
        return Read(problems=("has no uid, or no time of creation",))
    pod_sets = items(spec, "podSets")
    gpus, asks, problems = _asked(spec, settings)
    if not asks:
        return Read(problems=problems)
    template = child(pod_sets[0], "template") if pod_sets else {}
    base = _base(workload, (template, workload), settings)
    base["queue"] = text(spec, "queueName")
    priority = spec.get("priority")
    if isinstance(priority, int) and not isinstance(priority, bool):
        base["priority"] = priority
    evicted, admitted = condition(workload, "Evicted"), condition(workload, "Admitted")
    evicted_at, stopping = at(evicted.get("lastTransitionTime")), evicted.get("status") == "True"
    # There is a condition Admitted once it was admitted for the first time. One that was deactivated waits anew.
    again = bool(evicted and (admitted or text(evicted, "reason").startswith(CANCELLATIONS)))
    allocation, since = identity, made
    if again:
        begins = stopping and evicted_at is not None and spec.get("active") is not False
        allocation = f"{identity}/{text(evicted, 'lastTransitionTime')}" if begins else ""
        since = evicted_at or made
    reason, message, reason_at = _why_kueue(workload)
    wait = Wait(
        allocation, since, base, gpus, _links(workload, "workload"), not again, reason, message, reason_at,
        _title(workload, "Workload"), True, condition(workload, "Finished").get("status") == "True",
        _end_kueue(workload, stopping),
    )  # fmt: skip
    return Read(wait, problems)


def _asked(spec: Object, settings: Settings) -> tuple[float | None, bool, tuple[str, ...]]:
    """(GPUs of all pods, None if unknown; whether there are any; what could not be read)."""
    given = spec.get("podSets")
    if given is not None and (not isinstance(given, list) or not all(isinstance(one, dict) for one in given)):
        return None, False, ("spec.podSets is not a list of objects",)
    total, asks, problems = Sum(), False, []
    for pod_set in items(spec, "podSets"):
        template, count = child(pod_set, "template"), pod_set.get("count", 1)
        asked = requests(template, settings.resources, settings.share_by)
        claims = items(child(template, "spec"), "resourceClaims")
        if not asked and not claims:
            continue
        if isinstance(count, bool) or not isinstance(count, int) or not 0 <= count <= MOST_PODS:
            problems.append(
                f"count of pod set {text(pod_set, 'name') or '?'} is {str(count)[:40]!r}, not a number from 0"
            )
            total.add(None)
            asks = True
            continue
        for part in parts(asked, NodeFacts()):
            total.add(None if part.gpus is None else count * part.gpus)
        if claims:
            total.add(None)
        asks = asks or count > 0
    return total.value, asks, tuple(problems)


def _why_kueue(workload: Object) -> tuple[str, str, datetime | None]:
    """(reason, message, since when) of Kueue's for that it waits."""
    reserved, evicted = condition(workload, "QuotaReserved"), condition(workload, "Evicted")
    put_back = evicted.get("status") == "True"
    if reserved.get("status") == "True" and not put_back:
        checks = items(child(workload, "status"), "admissionChecks")
        pending = [one for one in checks if text(one, "state") != "Ready"]
        message = "; ".join(
            " ".join(filter(None, (text(one, "name"), text(one, "state"), text(one, "message")))) for one in pending
        )
        return "AdmissionGated", message, at(reserved.get("lastTransitionTime"))
    blocked = {} if reserved.get("status") == "True" else reserved
    newest = max(
        (one for one in (blocked, evicted if put_back else {}) if text(one, "reason")),
        key=lambda one: text(one, "lastTransitionTime"),
        default={},
    )
    return text(newest, "reason"), text(newest, "message"), at(newest.get("lastTransitionTime"))


def _end_kueue(workload: Object, stopping: bool) -> End | None:
    admitted, finished = condition(workload, "Admitted"), condition(workload, "Finished")
    if admitted.get("status") == "True" and not stopping:
        return End("started", at(admitted.get("lastTransitionTime")), ADMITTED, text(admitted, "message"))
    if finished.get("status") == "True":
        when = at(finished.get("lastTransitionTime"))
        return End("cancelled", when, text(finished, "reason") or "Finished", text(finished, "message"))
    if child(workload, "spec").get("active") is False:
        evicted = condition(workload, "Evicted")
        when = at(evicted.get("lastTransitionTime")) if stopping else None
        return End("cancelled", when, "Deactivated", text(evicted, "message"))
    return _deleted(workload)


def of_pod_group(group: Object, settings: Settings) -> Read:
    """Of one of Volcano's. What it asks for is `minResources`; one without accelerators there is none of ours."""
    identity, made, spec = uid(group), created(group), child(group, "spec")
    if not identity or made is None:
        return Read(problems=("has no uid, or no time of creation",))
    given = spec.get("minResources")
    if given is not None and not isinstance(given, dict):
        return Read(problems=("spec.minResources is not an object",))
    total, asks, problems = Sum(), False, []
    for resource, amount in sorted(child(spec, "minResources").items()):
        # Of jobs it is made as a quota would count them.
        bare = resource.removeprefix("requests.")
        each = gpus_of_each(bare, settings.resources)
        if each is None or (bare != resource and bare in child(spec, "minResources")):
            continue
        found = strict_quantity(amount)
        if found is None or found < 0:
            problems.append(f"minResources of {bare} is {str(amount)[:40]!r}, not a quantity from 0")
            total.add(None)
            asks = True
            continue
        asks = asks or found > 0
        total.add(found * each if each or not found else None)
    if not asks:
        return Read(problems=tuple(problems))
    base = _base(group, (group,), settings)
    base["queue"] = text(spec, "queue")
    phase = text(child(group, "status"), "phase")
    blocked = condition(group, "Unschedulable")
    waits = blocked.get("status") == "True"
    reason, message = (text(blocked, "reason"), text(blocked, "message")) if waits else ("", "")
    end = _deleted(group)
    if phase not in WAITING_PHASES:
        scheduled = condition(group, "Scheduled")
        since = at(scheduled.get("lastTransitionTime")) if scheduled.get("status") == "True" else None
        end = End("started", since, ADMITTED, f"phase {phase}")
    wait = Wait(
        identity, made, base, total.value, _links(group, "podgroup"), True,
        reason or ("Unschedulable" if waits else ""), message, at(blocked.get("lastTransitionTime")),
        _title(group, "PodGroup"), False, phase == "Completed", end,
    )  # fmt: skip
    return Read(wait, tuple(problems))


def _deleted(of: Object) -> End | None:
    asked = deletion_requested(of)
    return End("cancelled", asked, "Deleted") if asked is not None else None


def _links(of: Object, kind: str) -> tuple[str, ...]:
    owners = [owner for one in items(child(of, "metadata"), "ownerReferences") if (owner := text(one, "uid"))]
    return tuple(sorted({f"{kind} {namespace(of)}/{name(of)}", *(f"uid {owner}" for owner in owners)}))


def _title(of: Object, kind: str) -> str:
    owner = next(iter(items(child(of, "metadata"), "ownerReferences")), {})
    made_for = f" of {text(owner, 'kind')}/{text(owner, 'name')}" if owner else ""
    return f"{kind} {namespace(of)}/{name(of)}{made_for}"


def _base(of: Object, marked: Sequence[Object], settings: Settings) -> dict[str, Any]:
    """Columns common to all rows.   marked: objects whose labels name the tenant, as a pod's do."""

    def named(marks: tuple[str, ...]) -> str:
        return next((found for one in marked if (found := mark(one, marks))), "") or namespace(of)

    return {
        "cluster": settings.cluster,
        "source": settings.source,
        "workload_id": uid(of),
        "tenant": named(settings.tenant_marks),
        "project": named(settings.project_marks),
    }
