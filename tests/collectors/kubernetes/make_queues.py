"""Objects of Kueue and Volcano, written by hand from their documented API: the published CRDs were not at hand.

Source: https://kueue.sigs.k8s.io/docs/reference/kueue.v1beta1/, https://volcano.sh/en/docs/
"""

from __future__ import annotations

import copy
from typing import Any

from tests.collectors.kubernetes.make import container, stamp

Object = dict[str, Any]
WORKLOADS = "/apis/kueue.x-k8s.io/v1beta1/workloads"
LOCAL_QUEUES = "/apis/kueue.x-k8s.io/v1beta1/localqueues"
CLUSTER_QUEUES = "/apis/kueue.x-k8s.io/v1beta1/clusterqueues"
POD_GROUPS = "/apis/scheduling.volcano.sh/v1beta1/podgroups"
VOLCANO_QUEUES = "/apis/scheduling.volcano.sh/v1beta1/queues"


def workload(uid: str, at: float = 0, gpus: int = 1, count: int = 2, **more: Any) -> Object:
    """A suspended Job's. more: `labels` of its pods, `queue`, `spec`, `owner` (the Job's uid), `resources`."""
    resources = more.get("resources", {"nvidia.com/gpu": gpus} if gpus else {})
    template = {
        "metadata": {"labels": more.get("labels", {})},
        "spec": {"containers": [container(resources)]},
    }
    owner = more.get("owner", f"job-of-{uid}")
    return {
        "apiVersion": "kueue.x-k8s.io/v1beta1",
        "kind": "Workload",
        "metadata": {
            "uid": uid,
            "name": f"job-train-{uid}",
            "namespace": more.get("namespace", "chem"),
            "creationTimestamp": stamp(at),
            "ownerReferences": [
                {"apiVersion": "batch/v1", "kind": "Job", "name": f"train-{uid}", "uid": owner, "controller": True}
            ],
        },
        "spec": {
            "queueName": more.get("queue", "user-queue"),
            "priority": 10,
            "podSets": [{"name": "main", "count": count, "template": template}],
            **more.get("spec", {}),
        },
        "status": {},
    }


def said(before: Object, kind: str, status: str, at: float, reason: str = "", message: str = "") -> Object:
    """With a condition; its time changes with its status alone, as in Kubernetes."""
    after = copy.deepcopy(before)
    conditions = after.setdefault("status", {}).setdefault("conditions", [])
    old = next((one for one in conditions if one["type"] == kind), {})
    since = old["lastTransitionTime"] if old.get("status") == status else stamp(at)
    new = {"type": kind, "status": status, "lastTransitionTime": since, "reason": reason, "message": message}
    after["status"]["conditions"] = [*(one for one in conditions if one["type"] != kind), new]
    return after


def pending(before: Object, at: float, message: str = "insufficient unused quota for nvidia.com/gpu") -> Object:
    return said(before, "QuotaReserved", "False", at, "Pending", message)


def admit(before: Object, at: float) -> Object:
    """Quota was reserved, and there was no further check."""
    after = said(before, "QuotaReserved", "True", at, "QuotaReserved", "Quota reserved in ClusterQueue gpus")
    if any(one["type"] == "Evicted" for one in after["status"]["conditions"]):
        after = said(after, "Evicted", "False", at, "QuotaReserved", "Previously: Preempted")
    return said(after, "Admitted", "True", at, "Admitted", "The workload is admitted")


def evict(before: Object, at: float, reason: str = "Preempted", message: str = "Preempted to accommodate w2") -> Object:
    return said(before, "Evicted", "True", at, reason, message)


def requeue(before: Object, at: float) -> Object:
    """Its pods are gone, and it waits again."""
    after = said(before, "Admitted", "False", at, "NoReservation", "The workload has no reservation")
    return said(after, "QuotaReserved", "False", at, "Pending", "Preempted to accommodate w2")


def finish(before: Object, at: float) -> Object:
    return said(before, "Finished", "True", at, "Succeeded", "Job finished successfully")


def local_queue(name: str = "user-queue", cluster_queue: str = "gpus", namespace: str = "chem") -> Object:
    return {
        "metadata": {"name": name, "namespace": namespace, "uid": f"lq-{namespace}-{name}"},
        "spec": {"clusterQueue": cluster_queue},
    }


def cluster_queue(name: str = "gpus", cohort: str = "", used: str | None = "3", **quota: Any) -> Object:
    """quota: nominalQuota, borrowingLimit, lendingLimit of nvidia.com/gpu in the flavor a100."""
    resources = [{"name": "cpu", "nominalQuota": "96"}, {"name": "nvidia.com/gpu", "nominalQuota": "8", **quota}]
    flavors = [{"name": "a100", "resources": resources}]
    used_of = [{"name": "nvidia.com/gpu", "total": used, "borrowed": "0"}]
    return {
        "metadata": {"name": name, "uid": f"cq-{name}"},
        "spec": {
            "resourceGroups": [{"coveredResources": ["cpu", "nvidia.com/gpu"], "flavors": flavors}],
            **({"cohort": cohort} if cohort else {}),
        },
        "status": {"flavorsUsage": [{"name": "a100", "resources": used_of}]} if used is not None else {},
    }


def pod_group(uid: str, at: float = 0, gpus: Any = "4", phase: str = "Pending", **more: Any) -> Object:
    return {
        "metadata": {
            "uid": uid,
            "name": f"group-{uid}",
            "namespace": "chem",
            "creationTimestamp": stamp(at),
            "labels": more.get("labels", {}),
        },
        "spec": {"minMember": 4, "queue": "research", "minResources": {"cpu": "8", "requests.nvidia.com/gpu": gpus}},
        "status": {"phase": phase},
    }


def volcano_queue(name: str = "research", **spec: Any) -> Object:
    return {
        "metadata": {"name": name, "uid": f"q-{name}"},
        "spec": {"weight": 1, **spec},
        "status": {"state": "Open", "allocated": {"cpu": "1", "nvidia.com/gpu": "2"}},
    }
