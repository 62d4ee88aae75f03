"""Converts a rank into a pod, and reads a rank's state from its pod. Pure functions.

A pod's name is derived from job, world and rank, so that no pod is created twice. Its node affinity leaves Kubernetes'
scheduler one node, as for a DaemonSet's pods: so the pod waits while the node is not yet free.
"""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

from collectors.kubernetes.objects import (
    Object,
    at,
    child,
    condition,
    deletion_requested,
    items,
    mark,
    text,
    uid,
    whole,
)
from collectors.kubernetes.resources import NodeFacts, parts, requests
from scheduler.kubernetes.elastic_jobs import API_VERSION, GROUP, KIND
from scheduler.live.executors import Launch
from scheduler.live.idle import Holders
from scheduler.live.ranks import Rank

JOB, WORLD, RANK, SIZE = (f"{GROUP}/{what}" for what in ("job", "world", "rank", "world-size"))
"""Labels of each pod."""
TENANT, PROJECT, QUEUE, ALLOCATION = (f"{GROUP}/{what}" for what in ("tenant", "project", "queue", "allocation"))
"""Annotations, because their values may be any text. The books take tenant, project and queue of a pod from them."""
MASTER_PORT = 29500
"""Where rank 0 listens, as torchrun's default: each pod has its own ports."""
AGAIN = "~"
"""Before the number of a node that the scheduler knows several times: no name in Kubernetes has it."""
DISRUPTED = frozenset({"Evicted", "NodeLost", "NodeShutdown", "Preempting", "Shutdown", "Terminated"})
"""Reasons of failures that the pod did not cause."""


def node_of(host: str) -> str:
    """What Kubernetes calls a node of the scheduler (see inventory)."""
    return host.partition(AGAIN)[0]


def pod_name(job: str, world: int, rank: int) -> str:
    return f"{job}-{world}-{rank}"


def service_name(payload: Mapping[str, Any]) -> str:
    """The name of the headless service by which ranks find each other: of this ElasticJob alone. Its predecessor of the
    same name may still have one, which is collected once its owner is gone."""
    return f"{payload['name']}-ranks-{hashlib.sha256(payload['uid'].encode()).hexdigest()[:8]}"


def allocation_id(launch: Launch) -> str:
    return launch.job.job_id + (f"/{launch.attempt}" if launch.attempt > 1 else "")


def owner(payload: Mapping[str, Any]) -> dict[str, Any]:
    reference = {"apiVersion": API_VERSION, "kind": KIND, "name": payload["name"], "uid": payload["uid"]}
    return reference | {"controller": True}


def service_of(payload: Mapping[str, Any]) -> dict[str, Any]:
    """The headless service. It publishes addresses of pods that are not ready, because ranks meet before that."""
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {
            "name": service_name(payload),
            "namespace": payload["namespace"],
            "ownerReferences": [owner(payload)],
        },
        "spec": {"clusterIP": "None", "selector": {JOB: payload["name"]}, "publishNotReadyAddresses": True},
    }


def pod_of(launch: Launch, rank: Rank) -> dict[str, Any]:
    """The pod of a rank: the template with node, devices, name and environment variables."""
    payload, job = launch.payload, launch.job
    template = copy.deepcopy(dict(payload["template"]))
    spec = dict(template["spec"])
    own = {
        JOB: payload["name"],
        WORLD: str(launch.world),
        RANK: str(rank.number),
        SIZE: str(len(launch.ranks)),
        "app.kubernetes.io/managed-by": "gpuledger",
    }
    annotations = {TENANT: job.tenant, PROJECT: job.project, QUEUE: job.queue, ALLOCATION: allocation_id(launch)}
    called = pod_name(payload["name"], launch.world, rank.number)
    spec |= {
        "restartPolicy": text(spec, "restartPolicy") or "Never",
        "hostname": called,
        "subdomain": service_name(payload),
        "affinity": bound_to(spec.get("affinity"), node_of(rank.node)),
        "containers": [_container(launch, rank, one, number) for number, one in enumerate(spec["containers"])],
    }
    spec.pop("nodeName", None)
    if rank.devices and isinstance(spec.get("tolerations") or [], list):
        # Of the devices' own taint, as the admission plugin ExtendedResourceToleration does.
        spec["tolerations"] = [*(spec.get("tolerations") or []), {"key": payload["resource"], "operator": "Exists"}]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": called,
            "namespace": payload["namespace"],
            "labels": _others(child(template, "metadata", "labels")) | own,
            "annotations": _others(child(template, "metadata", "annotations"))
            | {key: value for key, value in annotations.items() if value},
            "ownerReferences": [owner(payload)],
        },
        "spec": spec,
    }


def _others(marks: Mapping[str, Any]) -> dict[str, Any]:
    """Labels or annotations without ours: a template may not set who pays."""
    return {key: value for key, value in marks.items() if not key.startswith(f"{GROUP}/")}


def bound_to(affinity: Any, node: str) -> dict[str, Any]:
    """The template's affinity, with each of its alternatives restricted to the node."""
    found = dict(affinity) if isinstance(affinity, dict) else {}
    of_node = dict(child(found, "nodeAffinity"))
    key = "requiredDuringSchedulingIgnoredDuringExecution"
    here = {"key": "metadata.name", "operator": "In", "values": [node]}
    terms = items(child(of_node, key), "nodeSelectorTerms") or [{}]
    of_node[key] = {
        "nodeSelectorTerms": [{**term, "matchFields": [*items(term, "matchFields"), here]} for term in terms]
    }
    return found | {"nodeAffinity": of_node}


def _container(launch: Launch, rank: Rank, container: Mapping[str, Any], number: int) -> dict[str, Any]:
    """A container with the variables; the first one also gets the devices."""
    found, variables = dict(container), _variables(launch, rank)
    if number == 0 and rank.devices:
        resources = dict(child(found, "resources"))
        resources["limits"] = {**child(resources, "limits"), launch.payload["resource"]: str(len(rank.devices))}
        found["resources"] = resources
    own = [one for one in items(found, "env") if one.get("name") not in variables]
    return found | {"env": [{"name": key, "value": value} for key, value in variables.items()] + own}


def _variables(launch: Launch, rank: Rank) -> dict[str, str]:
    """The environment variables that agents set, too (docs/scheduler-live.md); each pod counts as a node."""
    size, name_, space = str(len(launch.ranks)), launch.payload["name"], launch.payload["namespace"]
    first = pod_name(name_, launch.world, 0)
    return {
        "RANK": str(rank.number),
        "WORLD_SIZE": size,
        "LOCAL_RANK": "0",
        "LOCAL_WORLD_SIZE": "1",
        "GROUP_RANK": str(rank.number),
        "NODE_RANK": str(rank.number),
        "GROUP_WORLD_SIZE": size,
        "MASTER_ADDR": f"{first}.{service_name(launch.payload)}.{space}.svc",
        "MASTER_PORT": str(MASTER_PORT),
        "GPULEDGER_JOB": launch.job.job_id,
        "GPULEDGER_ATTEMPT": str(launch.attempt),
        "GPULEDGER_WORLD_NUMBER": str(launch.world),
    }


# Reading a pod


def is_ours(pod: Object) -> bool:
    """Whether an ElasticJob owns the pod; a label is no proof, anybody can write one."""
    return bool(job_uid(pod)) and bool(text(child(pod, "metadata", "labels"), JOB))


def job_uid(pod: Object) -> str:
    """The uid of the ElasticJob that owns the pod; '' if none does."""
    owners = items(child(pod, "metadata"), "ownerReferences")
    return next((uid_of for one in owners if one.get("kind") == KIND and (uid_of := text(one, "uid"))), "")


def world_of(pod: Object) -> str:
    return mark(pod, (WORLD,))


def rank_of(pod: Object) -> int:
    """The pod's rank; -1 if it has none."""
    rank = whole(mark(pod, (RANK,)))
    return -1 if rank is None else rank


def allocation_of(pod: Object) -> str:
    """The id of the pod's attempt."""
    return mark(pod, (ALLOCATION,))


def size_of(pod: Object) -> str:
    """The number of pods in its world, as text."""
    return mark(pod, (SIZE,))


def phase(pod: Object) -> str:
    return text(child(pod, "status"), "phase")


def is_over(pod: Object) -> bool:
    """Whether the pod has ended for good."""
    return phase(pod) in ("Succeeded", "Failed")


def is_leaving(pod: Object) -> bool:
    """Whether the pod is being deleted."""
    return bool(child(pod, "metadata").get("deletionTimestamp"))


def ended_by_itself(pod: Object) -> bool:
    """Whether the pod ended before its deletion was requested: a process that is asked to stop may exit with 0."""
    asked, states = deletion_requested(pod), items(child(pod, "status"), "containerStatuses")
    ended = [at(child(one, "state", "terminated").get("finishedAt")) for one in states]
    return is_over(pod) and (asked is None or (bool(ended) and all(one is not None and one <= asked for one in ended)))


def has_finished(pod: Object) -> bool:
    return phase(pod) == "Succeeded" and ended_by_itself(pod)


def has_begun(pod: Object) -> bool:
    """Whether it runs or ran; one that a kubelet refused, or evicted before that, has failed and did not."""
    if phase(pod) != "Failed":
        return phase(pod) in ("Running", "Succeeded")
    states = [child(one, "state", "terminated") for one in items(child(pod, "status"), "containerStatuses")]
    return bool(child(pod, "status").get("startTime")) or any(states)


def holders(found: Sequence[Object | None], comes_back: bool = True) -> Holders | None:
    """The allocations of pods that run, as the books name them (collectors.kubernetes.pods); None: not all of them run,
    or not since a time that is known."""
    running = [pod for pod in found if pod is not None and has_begun(pod) and not is_over(pod)]
    began = [when for pod in running if (when := at(child(pod, "status").get("startTime"))) is not None]
    if not found or len(began) < len(found):
        return None
    allocations = [one for pod in running for one in _allocations(pod)]
    return Holders(allocations, max(when.timestamp() for when in began), comes_back)


def _allocations(pod: Object) -> list[str]:
    """Its UID; of one with several partitions or replicas, UID/2 and so on for the others."""
    each = len(parts(requests(pod), NodeFacts()))
    return [uid(pod) if number == 1 else f"{uid(pod)}/{number}" for number in range(1, max(1, each) + 1)]


def all_begun_at(found: Sequence[Object]) -> float | None:
    """Since when all of these pods ran; None where a kubelet does not say so."""
    began = [at(child(pod, "status").get("startTime")) for pod in found]
    known = [when.timestamp() for when in began if when is not None]
    return max(known) if known and len(known) == len(began) else None


def all_ended_at(found: Sequence[Object]) -> float | None:
    """Since when none of these pods runs any more; None where a kubelet does not say so."""
    states = [items(child(pod, "status"), "containerStatuses") for pod in found]
    ended = [at(child(one, "state", "terminated").get("finishedAt")) for of_pod in states for one in of_pod]
    known = [when.timestamp() for when in ended if when is not None]
    return max(known) if known and len(known) == len(ended) and all(states) else None


def was_disrupted(pod: Object) -> bool:
    """Whether the pod failed for a reason that it did not cause."""
    target = condition(pod, "DisruptionTarget").get("status") == "True"
    return phase(pod) == "Failed" and (target or text(child(pod, "status"), "reason") in DISRUPTED)


def why_failed(pod: Object) -> str:
    """Why the pod failed: the failed container, else the kubelet's reason."""
    status = child(pod, "status")
    for one in items(status, "containerStatuses") + items(status, "initContainerStatuses"):
        ended = child(one, "state", "terminated")
        if ended.get("exitCode"):
            reason = text(ended, "reason")
            why = f"container {text(one, 'name')}: exit status {ended['exitCode']}"
            return why + (f" ({reason})" if reason not in ("", "Error") else "")
    return ": ".join(part for part in (text(status, "reason"), text(status, "message")) if part) or "it failed"


def why_not_running(pod: Object) -> str:
    """Why a pod has not started, as far as Kubernetes reports."""
    unplaced = condition(pod, "PodScheduled")
    if unplaced.get("status") == "False":
        return f"{text(unplaced, 'reason')}: {text(unplaced, 'message')}"
    for one in items(child(pod, "status"), "containerStatuses"):
        waits = child(one, "state", "waiting")
        if text(waits, "reason"):
            return f"container {text(one, 'name')}: {text(waits, 'reason')} {text(waits, 'message')}".rstrip()
    return "it has not begun"
