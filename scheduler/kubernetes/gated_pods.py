"""Pods that others make and that wait at our gate: what they ask of the scheduler, and how they are let in. Pure.

A gate can only be removed, and while a pod has one its node affinity may be narrowed: so one patch does both.

Source: https://kubernetes.io/docs/concepts/scheduling-eviction/pod-scheduling-readiness/,
        k8s.io/kubernetes pkg/apis/core/validation (ValidatePodUpdate, validateNodeAffinityMutation)
"""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any, NamedTuple

from collectors.kubernetes.objects import Object, child, items, mark, name, namespace, text, uid, whole
from collectors.kubernetes.resources import quantity, requests
from scheduler.kubernetes.elastic_jobs import GROUP, LEVEL, RESOURCE
from scheduler.kubernetes.pods import ALLOCATION, QUEUE, TENANT, bound_to, is_leaving, is_over
from warehouse.errors import LedgerError

GATE = f"{GROUP}/admission"
PATH = "/api/v1/pods"
GANG, GANG_SIZE, PRIORITY, POOL, PROJECT = (
    f"{GROUP}/{what}" for what in ("group", "group-size", "priority", "pool", "project")
)
"""Labels of a pod, beside that of its queue."""
REASON, MESSAGE, EXPECTED = (f"{GROUP}/{what}" for what in ("reason", "message", "expected-start"))
"""Annotations that say why it waits."""
MOST_WORDS = 1000
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def queue_of(pod: Object) -> str:
    return text(child(pod, "metadata", "labels"), QUEUE)


def is_gated(pod: Object) -> bool:
    return any(one.get("name") == GATE for one in items(child(pod, "spec"), "schedulingGates"))


def is_waiting(pod: Object) -> bool:
    """Whether it waits at the gate for a queue: only such pods are ever let in."""
    return is_gated(pod) and bool(queue_of(pod)) and not is_leaving(pod) and not is_over(pod)


def admitted_as(pod: Object) -> str:
    """The job that it says it was let in for, which the log must confirm: anybody can write that."""
    return "" if is_gated(pod) else text(child(pod, "metadata", "annotations"), ALLOCATION)


def gang_of(pod: Object) -> str:
    """'' for a pod that is a job alone."""
    return text(child(pod, "metadata", "labels"), GANG)


def gang_size(gang: Sequence[Object]) -> int:
    """How many pods are to be there.   Errors: LedgerError if they do not agree on a number."""
    sizes = {text(child(pod, "metadata", "labels"), GANG_SIZE) for pod in gang}
    (one, *others) = sorted(sizes)
    if others or not 1 <= (size := whole(one) or 0) <= 10_000:
        raise LedgerError(
            f"group {gang_of(gang[0])}", f"has the label {GANG_SIZE} {' and '.join(map(repr, sorted(sizes)))}",
            "All its pods say the same number",
        )  # fmt: skip
    return size


def in_order(gang: Sequence[Object]) -> list[Object]:
    """As ranks: worker-2 before worker-10."""
    return sorted(gang, key=lambda pod: [(len(part), part) for part in re.split(r"(\d+)", name(pod))])


def job_id(gang: Sequence[Object]) -> str:
    """Of these pods alone: a pod that is made anew is another job."""
    first = gang[0]
    if not gang_of(first):
        return f"{namespace(first)}/{name(first)}@{uid(first)}"
    of_all = hashlib.sha256(" ".join(sorted(map(uid, gang))).encode()).hexdigest()[:16]
    return f"{namespace(first)}/{gang_of(first)}@{of_all}"


def members(payload: Mapping[str, Any]) -> list[tuple[str, str]]:
    """(name, uid) of the pods by rank; empty: it is no job of gated pods."""
    return [(text(one, "name"), text(one, "uid")) for one in items(payload, "gated")]


class Left(NamedTuple):
    """What is known of pods that ended while others of their job ran.   failed: why one of them did; '' if none."""

    many: int
    failed: str


def vacated(payload: Mapping[str, Any]) -> Left | None:
    """None: all pods of the job are still its own."""
    found = payload.get("vacated")
    return Left(int(found["many"]), str(found["failed"])) if isinstance(found, Mapping) else None


def without(payload: Mapping[str, Any], ranks: Sequence[int], failed: str) -> dict[str, Any]:
    """The payload once these ranks have ended.   failed: as in `Left`."""
    before = vacated(payload) or Left(0, "")
    left = [one for number, one in enumerate(items(payload, "gated")) if number not in ranks]
    now = Left(before.many + len(ranks), before.failed or failed)
    return {**payload, "gated": left, "vacated": now._asdict()}


def job_of(
    gang: Sequence[Object],
    tenant: str,
    pool: str,
    labelled: bool,
    weighs: frozenset[str],
    offered: frozenset[str] = frozenset(),
) -> dict[str, Any]:
    """What is submitted (scheduler.model.Job).   labelled: as for elastic_jobs.job_of.   weighs: which of cpu and
    memory the scheduler's nodes have.   offered: in which resources they say that they offer devices; some may be known
    to nothing else.   Errors: LedgerError if it cannot be placed as one job."""
    gang = in_order(gang)
    asked = [_request(pod, labelled, offered) for pod in gang]
    where = f"pods of group {gang_of(gang[0])}" if gang_of(gang[0]) else f"pod {name(gang[0])}"
    for what, values in (("accelerators", asked), ("queues", [queue_of(pod) for pod in gang])):
        if any(one != values[0] for one in values):
            raise LedgerError(where, f"name different {what}", "All pods of a group ask for the same")
    request = {**asked[0], "pool": pool}
    if "cpu" in weighs:
        request["cpu_milli"] = max(math.ceil(_amount(pod, "cpu") * 1000) for pod in gang)  # up, as Kubernetes rounds
    if "memory" in weighs:
        request["host_memory_bytes"] = max(math.ceil(_amount(pod, "memory")) for pod in gang)
    job = {
        "job_id": job_id(gang),
        "tenant": tenant,
        "project": mark(gang[0], (PROJECT,)),
        "queue": queue_of(gang[0]),
        "request": request,
        "min_replicas": len(gang),
        "max_replicas": len(gang),
        "priority": max(map(_priority, gang)),
    }
    limits = [many for pod in gang if type(many := child(pod, "spec").get("activeDeadlineSeconds")) is int and many > 0]
    if len(limits) == len(gang):
        job["time_limit"] = float(max(limits))
    pods = [{"name": name(pod), "uid": uid(pod)} for pod in gang]
    return job | {"payload": {"namespace": namespace(gang[0]), "gated": pods}}


def _request(pod: Object, labelled: bool, offered: frozenset[str]) -> dict[str, Any]:
    found = requests(pod, sorted(offered))
    if not found:
        return {"devices": 0}
    one, where = found[0], f"pod {name(pod)}"
    if len(found) > 1:
        raise LedgerError(where, f"asks for {' and '.join(each.resource for each in found)}", "Ask for one of them")
    if one.kind == "fraction" or (one.kind == "replica" and not labelled):
        raise LedgerError(where, f"asks for a share of {one.resource}", "Only devices and MIG partitions are placed")
    request: dict[str, Any] = {"devices": one.count}
    if labelled:
        request["labels"] = {RESOURCE: one.resource}
    elif one.kind == "partition":
        request["profile"] = one.profile
    if level := text(child(pod, "metadata", "labels"), LEVEL):
        request["labels"] = {**request.get("labels", {}), LEVEL: level}
    return request


def _amount(pod: Object, resource: str) -> Fraction:
    """Of cpu or memory, as Kubernetes counts: of the pod if it says so itself; else containers and sidecars together,
    or the largest init container with the sidecars started before it, whichever is more. Overhead comes on top.

    Nothing counts as less than nothing. Source: k8s.io/component-helpers/resource (PodRequests)
    """
    spec = child(pod, "spec")
    running, peak = Fraction(0), Fraction(0)
    for container in items(spec, "initContainers"):
        amount = _asked(container, resource)
        peak = max(peak, running + amount)
        running += amount if container.get("restartPolicy") == "Always" else 0
    running += sum(_asked(container, resource) for container in items(spec, "containers"))
    whole = child(spec, "resources", "requests").get(resource)
    together = max(running, peak) if whole is None else _exact(whole)
    return together + _exact(child(spec, "overhead").get(resource))


def _asked(container: Object, resource: str) -> Fraction:
    requested = child(container, "resources", "requests").get(resource)
    return _exact(child(container, "resources", "limits").get(resource) if requested is None else requested)


def _exact(value: Any) -> Fraction:
    """A quantity, of which billionths are the smallest part."""
    return Fraction(max(0.0, quantity(value))).limit_denominator(10**9)


def _priority(pod: Object) -> int:
    """Of the label; else of its PriorityClass, which the API server has written into the spec."""
    label = text(child(pod, "metadata", "labels"), PRIORITY)
    if re.fullmatch(r"-?[0-9]{1,10}", label):
        return int(label)
    found = child(pod, "spec").get("priority")
    return found if type(found) is int else 0


# Where it may run


def pool_of(gang: Sequence[Object], pools: Mapping[str, Sequence[Object]]) -> str:
    """The pool to ask for: of its label, else the only one whose nodes all suit these pods; '' where all pools do.

    pools: the nodes of each.   Errors: LedgerError if the pod could be pinned to a node that it excludes.
    """
    named = {text(child(pod, "metadata", "labels"), POOL) for pod in gang}
    where = f"pod {name(gang[0])}"
    if len(named) > 1:
        raise LedgerError(where, f"names another {POOL} than others of its group", "All pods of a group name the same")
    (pool,) = named
    if pool and pool not in pools:
        raise LedgerError(where, f"names the pool {pool!r}", f"Pools: {', '.join(sorted(pools))}")
    suited = {one for one, nodes in pools.items() if all(_suits(pod, node) for pod in gang for node in nodes)}
    if pool in suited or (not pool and suited == set(pools)):
        return pool
    if pool:
        raise LedgerError(where, f"excludes nodes of pool {pool} by its nodeSelector or affinity", "Name another pool")
    if len(suited) != 1:
        which = f"suits several pools ({', '.join(sorted(suited))})" if suited else "excludes nodes of every pool"
        raise LedgerError(where, f"{which} by its nodeSelector or affinity", f"Name one with the label {POOL}")
    return suited.pop()


def _suits(pod: Object, node: Object) -> bool:
    """Whether its nodeSelector and its required affinity allow the node."""
    labels, spec = child(node, "metadata", "labels"), child(pod, "spec")
    if any(labels.get(key) != value for key, value in child(spec, "nodeSelector").items()):
        return False
    terms = items(child(spec, "affinity", "nodeAffinity", REQUIRED), "nodeSelectorTerms")
    names = {"metadata.name": name(node)}
    return not terms or any(
        (items(term, "matchExpressions") or items(term, "matchFields"))
        and all(_matches(one, labels) for one in items(term, "matchExpressions"))
        and all(_matches(one, names) for one in items(term, "matchFields"))
        for term in terms
    )


_INTEGER = re.compile(r"-?[0-9]{1,18}")


def _matches(asked: Object, labels: Mapping[str, Any]) -> bool:
    label, found = labels.get(text(asked, "key")), asked.get("values")
    values: list[Any] = found if isinstance(found, list) else []
    match text(asked, "operator"):
        case "In":
            return label in values
        case "NotIn":
            return label not in values
        case "Exists":
            return label is not None
        case "DoesNotExist":
            return label is None
        case "Gt" | "Lt" as which if values and all(_INTEGER.fullmatch(str(one)) for one in (label, values[0])):
            return int(str(label)) > int(values[0]) if which == "Gt" else int(str(label)) < int(values[0])
    return False


# What is written


def admission(pod: Object, node: str, job: str, tenant: str) -> dict[str, Any]:
    """The patch that pins a pod to a node and removes the gate, of that version alone."""
    gates = [one for one in items(child(pod, "spec"), "schedulingGates") if one.get("name") != GATE]
    outdated = dict.fromkeys((REASON, MESSAGE, EXPECTED))
    return {
        "metadata": version(pod) | {"annotations": {**outdated, ALLOCATION: job, TENANT: tenant}},
        "spec": {"schedulingGates": gates, "affinity": bound_to(child(pod, "spec").get("affinity"), node)},
    }


def note(pod: Object, annotations: Mapping[str, str]) -> dict[str, Any]:
    """The patch that says why a pod waits; empty if it says so already."""
    now = child(pod, "metadata", "annotations")
    wanted = {key: annotations.get(key) for key in (REASON, MESSAGE, EXPECTED)}
    changed = {key: value for key, value in wanted.items() if now.get(key) != value}
    return {"metadata": version(pod) | {"annotations": changed}} if changed else {}


def version(pod: Object) -> dict[str, Any]:
    """Makes a patch of any other version a conflict, also of another pod of that name: no two objects share a version.
    Another UID would not be one, but be refused for good (422)."""
    return {"resourceVersion": text(child(pod, "metadata"), "resourceVersion")}


def eviction(pod: Object) -> dict[str, Any]:
    """Of that pod alone; with its own grace period."""
    return {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": name(pod), "namespace": namespace(pod)},
        "deleteOptions": {"preconditions": {"uid": uid(pod)} | version(pod)},
    }
