"""An operator's settings for a cluster."""

from __future__ import annotations

from dataclasses import dataclass

from collectors.kubernetes.resources import ShareBy

QUEUE_MARKS = (
    "gpuledger.io/queue",
    "kueue.x-k8s.io/queue-name",
    "kueue.x-k8s.io/local-queue-name",
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
    share_by: what part of a device a pod holds that asks for parts of its memory and of its cores.
    """

    cluster: str = ""
    tenant_marks: tuple[str, ...] = ()
    project_marks: tuple[str, ...] = ()
    user_marks: tuple[str, ...] = ("hub.jupyter.org/username",)
    queue_marks: tuple[str, ...] = QUEUE_MARKS
    pool_marks: tuple[str, ...] = ("cloud.google.com/gke-nodepool", "eks.amazonaws.com/nodegroup", "agentpool")
    resources: tuple[str, ...] = ()
    share_by: ShareBy = "larger"
    source: str = "kubernetes"
