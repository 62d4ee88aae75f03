"""API objects as a cluster would have them, with as much as a test needs to say."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

ZERO = datetime(2026, 10, 1, 8, 0, 0, tzinfo=UTC)
Pod = dict[str, Any]


def second(offset: float) -> datetime:
    return ZERO + timedelta(seconds=offset)


def stamp(offset: float) -> str:
    return second(offset).strftime("%Y-%m-%dT%H:%M:%SZ")


def container(resources: Mapping[str, str | int], name: str = "main") -> dict[str, Any]:
    return {"name": name, "resources": {"limits": {key: str(value) for key, value in resources.items()}}}


def pod(uid: str, at: float = 0, gpus: int = 1, **more: Any) -> Pod:
    """A pod as it is created. more: `resources`, `labels`, `annotations`, `spec`, `namespace`."""
    resources = more.get("resources", {"nvidia.com/gpu": gpus} if gpus else {})
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "uid": uid,
            "name": f"train-{uid}",
            "namespace": more.get("namespace", "chem"),
            "creationTimestamp": stamp(at),
            "labels": more.get("labels", {}),
            "annotations": more.get("annotations", {}),
            "managedFields": [{"manager": "kubelet", "fieldsV1": {"f:status": {}}}],
        },
        "spec": {
            "containers": [container(resources)],
            "priority": 100,
            "terminationGracePeriodSeconds": 30,
            **more.get("spec", {}),
        },
        "status": {"phase": "Pending"},
    }


def with_condition(before: Pod, kind: str, status: str, at: float, reason: str = "", message: str = "") -> Pod:
    after = copy.deepcopy(before)
    conditions = [each for each in after["status"].get("conditions", []) if each["type"] != kind]
    entry = {"type": kind, "status": status, "lastTransitionTime": stamp(at)}
    if reason:
        entry |= {"reason": reason}
    if message:
        entry |= {"message": message}
    after["status"]["conditions"] = [*conditions, entry]
    return after


def unschedulable(
    before: Pod, at: float, message: str = "0/3 nodes are available: 3 Insufficient nvidia.com/gpu."
) -> Pod:
    return with_condition(before, "PodScheduled", "False", at, "Unschedulable", message)


def bound(before: Pod, at: float, node: str = "n1") -> Pod:
    after = with_condition(before, "PodScheduled", "True", at)
    after["spec"]["nodeName"] = node
    return after


def admitted(before: Pod, at: float) -> Pod:
    """The kubelet took it; images are being pulled."""
    after = copy.deepcopy(before)
    after["status"]["startTime"] = stamp(at)
    after["status"]["containerStatuses"] = [
        {"name": each["name"], "state": {"waiting": {"reason": "ContainerCreating"}}, "restartCount": 0}
        for each in after["spec"]["containers"]
    ]
    return after


def running(before: Pod, at: float) -> Pod:
    after = with_condition(before, "Ready", "True", at)
    after["status"]["phase"] = "Running"
    for status in after["status"]["containerStatuses"]:
        status["state"] = {"running": {"startedAt": stamp(at)}}
    return after


def ended(before: Pod, at: float, code: int = 0, reason: str = "", phase: str = "") -> Pod:
    """All containers ended; the phase becomes final, unless another is given."""
    after = with_condition(before, "Ready", "False", at, "PodCompleted")
    after["status"]["phase"] = phase or ("Succeeded" if code == 0 else "Failed")
    for status in after["status"]["containerStatuses"]:
        began = status["state"].get("running", {}).get("startedAt", after["status"]["startTime"])
        reported = {"exitCode": code, "reason": reason or ("Completed" if code == 0 else "Error")}
        status["state"] = {"terminated": {**reported, "startedAt": began, "finishedAt": stamp(at)}}
    return after


def deleting(before: Pod, at: float, grace: int = 30) -> Pod:
    after = copy.deepcopy(before)
    after["metadata"]["deletionTimestamp"] = stamp(at + grace)
    after["metadata"]["deletionGracePeriodSeconds"] = grace
    return after


def last(before: Pod) -> Pod:
    """As the kubelet's final deletion leaves it: the grace shortened to nothing, and the stamp with it."""
    after = copy.deepcopy(before)
    metadata = after["metadata"]
    if grace := metadata.get("deletionGracePeriodSeconds"):
        due = datetime.strptime(metadata["deletionTimestamp"], "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC)
        metadata["deletionTimestamp"] = (due - timedelta(seconds=grace)).strftime("%Y-%m-%dT%H:%M:%SZ")
        metadata["deletionGracePeriodSeconds"] = 0
    return after


def rejected(before: Pod, at: float, reason: str = "UnexpectedAdmissionError") -> Pod:
    """The kubelet's word on a pod that it does not admit replaces all conditions."""
    after = copy.deepcopy(before)
    after["status"] = {
        "phase": "Failed",
        "reason": reason,
        "message": "Pod was rejected: Allocate failed",
        "startTime": stamp(at),
    }
    return after


def node(name: str = "n1", at: float = -86400, **more: Any) -> dict[str, Any]:
    ready = more.get("ready", "True")
    gpus = more.get("gpus", 8)
    return {
        "metadata": {
            "name": name,
            "creationTimestamp": stamp(at),
            "labels": more.get("labels", {}),
            "annotations": more.get("annotations", {}),
        },
        "spec": more.get("spec", {}),
        "status": {
            "capacity": {"cpu": "96", "nvidia.com/gpu": str(gpus)},
            "allocatable": {"cpu": "95", "nvidia.com/gpu": str(more.get("allocatable", gpus))},
            "conditions": [{"type": "Ready", "status": ready, "lastTransitionTime": stamp(more.get("ready_at", at))}],
            "nodeInfo": {"systemUUID": more.get("machine", f"uuid-of-{name}")},
        },
    }
