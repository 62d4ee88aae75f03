"""An operator's settings for a cluster."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from collectors.kubernetes.resources import ShareBy

Scheduler = Literal["kueue", "volcano"]
"""Schedulers whose queues, quotas and waiting workloads can be read."""
LOCAL_QUEUE_MARKS = ("kueue.x-k8s.io/queue-name", "kueue.x-k8s.io/local-queue-name")
"""They name a LocalQueue of the pod's namespace."""

QUEUE_MARKS = (
    "gpuledger.io/queue",
    *LOCAL_QUEUE_MARKS,
    "kai.scheduler/queue",
    "runai/queue",
    "scheduling.volcano.sh/queue-name",
    "volcano.sh/queue-name",
    "yunikorn.apache.org/queue",
    "kueue.x-k8s.io/cluster-queue-name",
)
"""Labels or annotations that name a pod's queue, the first that is there."""


@dataclass(frozen=True, slots=True)
class Settings:
    """cluster: as in the records.   tenant_marks, project_marks, user_marks: labels or annotations of the pod, the
    first that is there; its namespace stands in for a tenant or project that no mark names.   pool_marks: labels of
    the node that name its pool.   resources: names of further resources that count whole accelerators.
    share_by: what part of a device a pod holds that asks for parts of its memory and of its cores.   queues_of:
    schedulers whose own objects are read, too.
    """

    cluster: str = ""
    tenant_marks: tuple[str, ...] = ()
    project_marks: tuple[str, ...] = ()
    user_marks: tuple[str, ...] = ("hub.jupyter.org/username",)
    queue_marks: tuple[str, ...] = QUEUE_MARKS
    pool_marks: tuple[str, ...] = ("cloud.google.com/gke-nodepool", "eks.amazonaws.com/nodegroup", "agentpool")
    resources: tuple[str, ...] = ()
    share_by: ShareBy = "larger"
    queues_of: tuple[Scheduler, ...] = ()
    source: str = "kubernetes"
