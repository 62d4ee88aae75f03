"""Converts an ElasticJob of the Kubernetes API into a job of the scheduler. Pure functions."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from collectors.kubernetes.objects import Object, child, items, mark, name, namespace, text, uid
from collectors.kubernetes.resources import requests
from scheduler.codec import plain, read
from scheduler.live.payload import candidates
from scheduler.model import Job, Node
from scheduler.scaling import ScalingPolicy, problem
from warehouse.errors import LedgerError

GROUP = "gpuledger.io"
API_VERSION = f"{GROUP}/v1alpha1"
KIND = "ElasticJob"
PATH = f"/apis/{API_VERSION}/elasticjobs"
TENANTS = f"{GROUP}/tenants"
"""A namespace's annotation: the tenants that its jobs may name, with commas between them."""
NVIDIA = "nvidia.com/gpu"
RESOURCE = f"{GROUP}/resource"
"""A label of the scheduler's nodes, where ComputePools say which they are: in which resource they offer devices."""
LEVEL = f"{GROUP}/isolation"
"""The same, of what a workload there has of a device (scheduler.kubernetes.virtual)."""
LAUNCHER = "kubernetes"
"""The launcher of a pool whose pods this executor makes."""
ENDED = ("Succeeded", "Failed", "Cancelled", "Rejected")
"""States that do not change again."""


def path_of(of: Object) -> str:
    return f"/apis/{API_VERSION}/namespaces/{namespace(of)}/elasticjobs/{name(of)}"


def job_id(of: Object) -> str:
    """The scheduler's job id; unique even if an ElasticJob of the same name existed before."""
    return f"{namespace(of)}/{name(of)}@{uid(of)}"


def tenant_of(of: Object, home: Object, tenants: Mapping[str, Object]) -> str:
    """Who pays for an ElasticJob (see paying)."""
    return paying(text(child(of, "spec"), "tenant"), of, home, tenants)


def paying(wanted: str, of: Object, home: Object, tenants: Mapping[str, Object]) -> str:
    """The tenant `wanted`; '': its namespace's first. home: its namespace.   tenants: Tenants, which name namespaces
    too.   Errors: LedgerError if the namespace may not name that tenant."""
    written = [one.strip() for one in mark(home, (TENANTS,)).split(",") if one.strip()]
    naming = sorted(one for one, tenant in tenants.items() if namespace(of) in _namespaces(tenant))
    allowed = list(dict.fromkeys([*written, *naming])) or [namespace(of)]
    wanted = wanted or allowed[0]
    if wanted not in allowed:
        raise LedgerError(
            f"namespace {namespace(of)}",
            f"may not name tenant {wanted!r}",
            f"It may name {', '.join(allowed)}; its annotation {TENANTS} lists them, or a Tenant its namespace",
        )
    return wanted


def _namespaces(tenant: Object) -> Sequence[Any]:
    found = child(tenant, "spec").get("namespaces")
    return found if isinstance(found, list) else ()


def job_of(of: Object, tenant: str, labelled: bool = False) -> dict[str, Any]:
    """What is submitted (scheduler.model.Job), with the payload for the executor: all that its pods are made of.

    What the schema has defaults for may be missing here, as in an object that is older than them.   labelled: whether
    the scheduler's nodes say in which resource they offer their devices.
    """
    spec = child(of, "spec")
    least, most = scaling_of(of)
    resource = text(spec, "resourceName") or NVIDIA
    request = {"devices": spec.get("gpusPerReplica", 1), "pool": text(spec, "pool"), "models": spec.get("models", [])}
    level = text(spec, "isolationLevel")
    labels = {RESOURCE: resource} if labelled and request["devices"] else {}
    if labels or level:
        request["labels"] = labels | ({LEVEL: level} if level else {})
    job: dict[str, Any] = {
        "job_id": job_id(of),
        "tenant": tenant,
        "project": text(spec, "project"),
        "queue": text(spec, "queue"),
        "request": request,
        "min_replicas": least,
        "max_replicas": most,
        "priority": spec.get("priority", 0),
        "preemptible": spec.get("preemptible", True),
    }
    for ours, theirs in (("time_limit", "timeLimitSeconds"), ("checkpoint_seconds", "checkpointSeconds")):
        if theirs in spec:
            job[ours] = float(spec[theirs])
    payload = {
        "namespace": namespace(of),
        "name": name(of),
        "uid": uid(of),
        "resource": resource,
        "template": child(spec, "template"),
        "retries": spec.get("backoffLimit", 0),
    }
    policy = policy_of(of)
    return job | {"payload": payload} | ({} if policy is None else {"scaling": plain(policy)})


def policy_of(of: Object) -> ScalingPolicy | None:
    """How it is scaled between these.   Errors: LedgerError in one line if that cannot be."""
    spec = child(of, "spec", "scaling")
    if spec.get("policy") is None:
        return None
    where, policy = "spec.scaling.policy", child(spec, "policy")
    zone, windows = policy.get("timeZone"), items(policy, "windows")
    if zone is not None and not windows:
        raise LedgerError(f"{where}.timeZone", "is for windows, and there are none", "Leave it out")
    found: dict[str, Any] = {"cool_down_seconds": policy.get("coolDownSeconds", 600)}
    if policy.get("queueDepth") is not None:
        found["queue"] = _renamed(policy, "queueDepth", _QUEUE_RULE)
    if policy.get("utilization") is not None:
        rule = _renamed(policy, "utilization", _USE_RULE)
        shares = {key: rule[key] / 100 for key in ("shrink_below", "grow_above") if type(rule.get(key)) is int}
        found["utilization"] = rule | shares
    if windows:
        found["windows"] = [_renamed({"w": one}, "w", _WINDOW) | {"timezone": zone or "UTC"} for one in windows]
    result = read(ScalingPolicy, found, where)
    if what := problem(result):
        raise LedgerError(where, what, "`kubectl explain ej.spec.scaling.policy` says what fits")
    return result


def _renamed(of: Object, key: str, names: Mapping[str, str]) -> dict[str, Any]:
    """A part of it by our names; what has another name stays, to be refused."""
    return {names.get(theirs, theirs): value for theirs, value in child(of, key).items()}


_QUEUE_RULE = {"growBelow": "grow_below", "shrinkAt": "shrink_at", "waitedSeconds": "after_seconds"}
_USE_RULE = {
    "shrinkBelowPercent": "shrink_below", "growAbovePercent": "grow_above", "windowSeconds": "window_seconds",
}  # fmt: skip
_WINDOW = {"minReplicas": "min_replicas", "maxReplicas": "max_replicas"}


def scaling_of(of: Object) -> tuple[int, int]:
    """The fewest and the most replicas that it is to have."""
    scaling = child(of, "spec", "scaling")
    return scaling.get("minReplicas", 1), scaling.get("maxReplicas", 1)


def undeclared(queue: str, queues: Collection[str]) -> LedgerError | None:
    """Why a job waits whose Queue is none of the cluster's: it may be declared after its jobs. None: it is one, or
    there are none at all, and any name is a queue."""
    if not queues or queue in queues:
        return None
    known = ", ".join(sorted(queues)[:20])
    return LedgerError(f"queue {queue}", f"is not declared; Queues: {known}", "See kubectl get gq")


def unfit(payload: Mapping[str, Any]) -> str:
    """Why no pods can be made of a payload; '' if they can."""
    if not all(text(payload, key) for key in ("namespace", "name", "uid", "resource")):
        return "is no ElasticJob, and this scheduler runs nothing else: create one with kubectl"
    containers = items(child(payload, "template", "spec"), "containers")
    if not containers:
        return "its template has no containers"
    for container in containers:
        for kind in ("limits", "requests"):
            if payload["resource"] in child(container, "resources", kind):
                return (
                    f"container {text(container, 'name')} of its template asks for {payload['resource']}: "
                    "say gpusPerReplica instead"
                )
    return ""


def uncounted(payload: Mapping[str, Any]) -> str:
    """Which devices its pods would take beside those that the scheduler gives them; '' if none: a pod gets what its
    largest init container asks for, and each resource."""
    template = child(payload, "template")
    spec = child(template, "spec")
    pod, resource = {"metadata": child(template, "metadata"), "spec": spec}, text(payload, "resource")
    asked = [one.resource for one in requests(pod, (resource,))]
    if not asked:
        return ""
    return f"its template asks for {', '.join(asked[:3])}: say gpusPerReplica and resourceName instead"


def unplaceable(job: Job, nodes: Sequence[Node]) -> str:
    """Why a job could be placed on nodes without pods; '' if it cannot."""
    strange = next((node.name for node in candidates(job, nodes) if node.launcher != LAUNCHER), None)
    return "" if strange is None else f"may be placed on {strange}, whose pool does not say launcher: {LAUNCHER}"
