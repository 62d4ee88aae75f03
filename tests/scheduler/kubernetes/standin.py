"""A cluster in memory: the API that the operator asks, a scheduler and kubelets that do as a test says."""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from collectors.kubernetes.api import Absent, Conflict, Interrupted, Refused
from collectors.kubernetes.connection import KubernetesError
from collectors.kubernetes.objects import child, items, written
from scheduler.kubernetes import gated_pods, pods
from scheduler.kubernetes.calls import STRATEGIC, Call
from scheduler.kubernetes.executor import Seen
from scheduler.kubernetes.operator import Outcome

Thing = dict[str, Any]
SPACE = "chem"
CLUSTER_WIDE = ("computepools", "queues", "tenants")
EVICTION = {
    "type": "DisruptionTarget",
    "status": "True",
    "reason": "EvictionByEvictionAPI",
    "message": "Eviction API: evicting",
}
"""What the API server writes on a pod that it evicts (k8s.io/kubernetes pkg/registry/core/pod/storage/eviction.go)."""


class Killed(BaseException):
    """The operator's process ends here."""


class StandIn:
    """objects: by plural, namespace and name.   created: how often a pod of that name was.   answer: what becomes of
    a call: "done", "lost" (it never arrived), "unheard" (it was done, and nobody heard so), or an error."""

    def __init__(self) -> None:
        self.objects: dict[tuple[str, str, str], Thing] = {}
        self.unlisted = 0
        """Rounds until an operator's first lists are complete."""
        self.created: Counter[str] = Counter()
        self.answer: Callable[[Call], str | Exception] = lambda call: "done"
        self.number = 0
        self.events: list[Thing] = []
        self.ended: list[tuple[Thing, bool]] = []
        """Pods as an operator asked to delete them, and whether their ElasticJobs were there."""
        self.unmarked: set[str] = set()
        """Paths of pods on which it could not say why."""

    # As the operator sees it

    def look(self) -> Seen | None:
        if self.unlisted:
            self.unlisted -= 1
            return None
        found = copy.deepcopy(self.objects)
        return Seen(
            {(space, name): one for (kind, space, name), one in found.items() if kind == "pods" and pods.is_ours(one)},
            {one["metadata"]["uid"]: one for (kind, _, _), one in found.items() if kind == "elasticjobs"},
            {name: one for (kind, _, name), one in found.items() if kind == "nodes"},
            {name: one for (kind, _, name), one in found.items() if kind == "namespaces"},
            self.number,
            *({name: one for (kind, _, name), one in found.items() if kind == plural} for plural in CLUSTER_WIDE),
            {
                one["metadata"]["uid"]: one
                for (kind, _, _), one in found.items()
                if kind == "pods" and gated_pods.queue_of(one)
            },
        )

    def carry_out(self, calls: Sequence[Call]) -> list[Outcome]:
        return [self._one(call) for call in calls]

    def _one(self, call: Call) -> Outcome:
        how = self.answer(call)
        if isinstance(how, Absent) and call.method == "PATCH" and "/pods/" in call.path:
            self.unmarked.add(call.path)
        if isinstance(how, Absent | Conflict | Interrupted | KubernetesError):
            return how
        if how == "lost":
            return Interrupted("lost")
        try:
            found = self._done(call)
        except (Absent, Conflict, Interrupted, Refused) as error:
            found = error
        return Interrupted("unheard") if how == "unheard" else found

    def _done(self, call: Call) -> Thing:
        *_, space, kind, name = [*call.path.split("/"), ""] if call.method == "POST" else call.path.split("/")
        if call.path.endswith("/eviction"):
            *_, space, kind, name, _ = call.path.split("/")
            return self._evicted(space, name, call.body)
        if name == "status":
            *_, space, kind, name, _ = call.path.split("/")
        if kind in CLUSTER_WIDE:
            space = ""
        if call.method == "POST":
            return self._add(kind, space, dict(call.body))
        if (kind, space, name) not in self.objects:
            raise Absent(f"no {kind} {name}", forbidden=False)
        if call.method == "PATCH":
            one = self.objects[kind, space, name]
            if kind == "pods" and call.path.endswith("/status"):
                return self._changed(_marked(one, call))
            if kind == "pods":
                return self._changed(_patched(one, call.body))
            status = {**one.get("status", {}), **call.body["status"]}
            one["status"] = {key: value for key, value in status.items() if value is not None}
            return self._changed(one)
        return self._deleted(kind, space, name, call.body)

    def _deleted(self, kind: str, space: str, name: str, options: Mapping[str, Any]) -> Thing:
        metadata = self.objects[kind, space, name]["metadata"]
        if any(metadata[key] != wanted for key, wanted in options["preconditions"].items()):
            raise Conflict("it is another, or has changed")
        if kind == "pods":
            pod = copy.deepcopy(self.objects[kind, space, name])
            self.ended.append((pod, pods.job_uid(pod) in {one["metadata"]["uid"] for one in self.jobs()}))
        self.delete(kind, name, space)
        return {}

    def _evicted(self, space: str, name: str, body: Mapping[str, Any]) -> Thing:
        """As policy/v1 has it: 429 while a PodDisruptionBudget does not allow it; what a condition said is replaced."""
        if ("pods", space, name) not in self.objects:
            raise Absent(f"no pod {name}", forbidden=False)
        if self.objects["pods", space, name]["metadata"]["labels"].get("budget"):
            raise Interrupted("Cannot evict pod as it would violate the pod's disruption budget.")
        pod, wanted = self.objects["pods", space, name], body["deleteOptions"]["preconditions"]
        if all(pod["metadata"][key] == value for key, value in wanted.items()):
            others = [one for one in items(pod["status"], "conditions") if one.get("type") != EVICTION["type"]]
            pod["status"] = {**pod["status"], "conditions": [*others, EVICTION]}
        return self._deleted("pods", space, name, body["deleteOptions"])

    def _add(self, kind: str, space: str, body: Thing) -> Thing:
        name = body["metadata"]["name"]
        if (kind, space, name) in self.objects:
            raise Conflict(f"{kind} {name} is there")
        body = copy.deepcopy(body)
        body["metadata"]["uid"] = body["metadata"].get("uid") or f"u{self.number}"
        if kind == "pods":
            self.created[name] += 1
            body["status"] = {"phase": "Pending"}
        if kind == "events":
            self.events.append(body)
        self.objects[kind, space, name] = body
        return self._changed(body)

    def _changed(self, one: Thing) -> Thing:
        self.number += 1
        one["metadata"]["resourceVersion"] = str(self.number)
        return copy.deepcopy(one)

    # What a test does

    def put(self, kind: str, one: Thing, space: str = "") -> None:
        self.objects[kind, space, one["metadata"]["name"]] = one
        self._changed(one)

    def delete(self, kind: str, name: str, space: str = SPACE) -> None:
        """What runs on a node leaves it; the rest is gone at once."""
        one = self.objects[kind, space, name]
        if kind == "pods" and child(one, "spec").get("nodeName") and not pods.is_over(one):
            one["metadata"]["deletionTimestamp"] = "2026-10-01T08:00:00Z"
        else:
            del self.objects[kind, space, name]
        self._changed(one)

    def forget(self, name: str) -> None:
        """A pod is gone, whatever it did."""
        del self.objects["pods", SPACE, name]
        self.number += 1

    def pods(self) -> list[Thing]:
        return [one for (kind, _, _), one in self.objects.items() if kind == "pods"]

    def jobs(self) -> list[Thing]:
        return [one for (kind, _, _), one in self.objects.items() if kind == "elasticjobs"]

    def alive(self) -> list[Thing]:
        return [one for one in self.pods() if not pods.is_over(one)]

    def bind(self, pod: Thing) -> None:
        pod["spec"]["nodeName"] = node_of(pod)
        self._changed(pod)

    def says(self, pod: Thing, phase: str, **more: Any) -> None:
        marks = {key: one for key, one in pod["status"].items() if key == "conditions"}
        pod["status"] = {"phase": phase, **marks, **more}
        self._changed(pod)

    def ends(self, pod: Thing, code: int, when: float | None = None) -> None:
        """when: as its kubelet says; None: it does not."""
        ended = {"exitCode": code, "reason": "Error" if code else "Completed"}
        began = {key: one for key, one in pod["status"].items() if key == "startTime"}
        if when is not None:
            ended["finishedAt"] = written(datetime.fromtimestamp(when, UTC))
        state = [{"name": "main", "state": {"terminated": ended}}]
        self.says(pod, "Failed" if code else "Succeeded", containerStatuses=state, **began)


def _marked(pod: Thing, call: Call) -> Thing:
    """A strategic merge patch of conditions, which keeps those of other types; for one version of the pod."""
    assert call.content == STRATEGIC
    assert call.body.keys() == {"metadata", "status"}
    if call.body["metadata"] != {"resourceVersion": pod["metadata"]["resourceVersion"]}:
        raise Conflict("the object has been modified")
    said = {one["type"]: one for one in (*items(pod["status"], "conditions"), *call.body["status"]["conditions"])}
    pod["status"] = {**pod["status"], "conditions": [*said.values()]}
    return pod


def _patched(pod: Thing, patch: Mapping[str, Any]) -> Thing:
    """A merge patch of a pod, with what the API server lets be changed of one with scheduling gates.

    Source: k8s.io/kubernetes pkg/apis/core/validation, ValidatePodUpdate: "Only deletion is allowed, but found new
    scheduling gate"; validateNodeAffinityMutation
    """
    metadata, spec = patch.get("metadata", {}), patch.get("spec", {})
    if metadata.get("uid", pod["metadata"]["uid"]) != pod["metadata"]["uid"]:
        raise Refused("pods", "metadata.uid: field is immutable")
    if metadata["resourceVersion"] != pod["metadata"]["resourceVersion"]:
        raise Conflict("the object has been modified")
    if metadata.keys() - {"uid", "resourceVersion", "annotations"} or spec.keys() - {"schedulingGates", "affinity"}:
        raise Refused("pods", "pod updates may not change fields other than these")
    before = pod["spec"].get("schedulingGates", [])
    if any(one not in before for one in spec.get("schedulingGates", [])):
        raise Refused("pods", "only deletion is allowed, but found new scheduling gate")
    if "affinity" in spec:
        if not before:
            raise Refused("pods", "pod updates may not change fields other than these")
        _narrowed(pod["spec"].get("affinity") or {}, spec["affinity"])
    pod["spec"] |= copy.deepcopy(dict(spec))
    merged = {**pod["metadata"].get("annotations", {}), **metadata.get("annotations", {})}
    pod["metadata"]["annotations"] = {key: value for key, value in merged.items() if value is not None}
    return pod


def _narrowed(old: Thing, new: Thing) -> None:
    """Existing terms get requirements, and nothing else of an affinity changes."""
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    rest = [{**one, "nodeAffinity": {**one.get("nodeAffinity", {}), required: None}} for one in (old, new)]
    if rest[0] != rest[1]:
        raise Refused("pods", "only node affinity's required terms may be changed here")
    before, after = (items(child(one, "nodeAffinity", required), "nodeSelectorTerms") for one in (old, new))
    if before and len(before) != len(after):
        raise Refused("pods", "no additions/deletions to non-empty NodeSelectorTerms list are allowed")
    for one, other in zip(before, after, strict=False):
        kept = all(
            items(other, key)[: len(items(one, key))] == items(one, key) for key in ("matchExpressions", "matchFields")
        )
        if not kept or not any(items(one, key) for key in ("matchExpressions", "matchFields")):
            raise Refused("pods", "only additions are allowed (no mutations or deletions)")


def gated_pod(name: str, uid: str, gpus: int = 1, resource: str = "nvidia.com/gpu", **labels: str) -> Thing:
    """One that another controller makes, for the queue `batch`. labels: dashes are written as underscores."""
    limits = {resource: str(gpus)} if gpus else {}
    own = {f"gpuledger.io/{key.replace('_', '-')}": value for key, value in ({"queue": "batch"} | labels).items()}
    return {
        "metadata": {"name": name, "namespace": SPACE, "uid": uid, "labels": own},
        "spec": {
            "containers": [{"name": "main", "resources": {"limits": limits}}],
            "schedulingGates": [{"name": gated_pods.GATE}],
        },
        "status": {"phase": "Pending"},
    }


def node(name: str, ready: bool = True, cordoned: bool = False) -> Thing:
    said = {"type": "Ready", "status": "True" if ready else "Unknown"}
    return {"metadata": {"name": name}, "spec": {"unschedulable": cordoned}, "status": {"conditions": [said]}}


def gpu_node(name: str, gpus: int = 4, ready: bool = True, cordoned: bool = False, **labels: str) -> Thing:
    """labels: dashes are written as underscores."""
    found = node(name, ready, cordoned)
    found["metadata"]["labels"] = {key.replace("_", "-"): value for key, value in labels.items()}
    found["status"]["allocatable"] = {"cpu": "64", "nvidia.com/gpu": str(gpus)}
    return found


def declared(name: str, **spec: Any) -> Thing:
    """A ComputePool, Queue or Tenant."""
    return {"metadata": {"name": name, "generation": 1}, "spec": spec}


def space(tenants: str) -> Thing:
    return {"metadata": {"name": SPACE, "annotations": {"gpuledger.io/tenants": tenants}}}


def node_of(pod: Thing) -> str:
    """The one node that is left to it."""
    required = child(pod, "spec", "affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution")
    (term,) = items(required, "nodeSelectorTerms")
    (field,) = items(term, "matchFields")
    (name,) = field["values"]
    return str(name)


def gpus_of(pod: Thing) -> int:
    return int(child(pod["spec"]["containers"][0], "resources", "limits").get("nvidia.com/gpu", 0))


def elastic_job(name: str, uid: str, least: int = 1, most: int | None = None, **spec: Any) -> Thing:
    template = {"metadata": {}, "spec": {"containers": [{"name": "main", "image": "train"}]}}
    return {
        "metadata": {"name": name, "namespace": SPACE, "uid": uid},
        "spec": {
            "queue": "batch",
            "scaling": {"minReplicas": least, "maxReplicas": least if most is None else most},
            "template": template,
            **spec,
        },
    }
