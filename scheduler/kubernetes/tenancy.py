"""What Kubernetes itself is to know of the scheduler's tenants, as objects: quotas, limits, priorities, and who may
name which tenant; and where a cluster differs from them. Pure.

Source: https://kubernetes.io/docs/concepts/policy/resource-quotas/, .../policy/limit-range/,
        .../scheduling-eviction/pod-priority-preemption/,
        https://kubernetes.io/docs/reference/access-authn-authz/validating-admission-policy/,
        https://open-policy-agent.github.io/gatekeeper/website/docs/constrainttemplates/
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from collectors.kubernetes.objects import Object, child, deletion_requested, mark, name, namespace
from scheduler.kubernetes.elastic_jobs import LAUNCHER, TENANTS
from scheduler.quota.tree import QuotaTree
from scheduler.settings import Settings

MANAGER = "gpuledger-tenants"
"""The field manager, and the value of the label by which our objects are known."""
MARK = "app.kubernetes.io/managed-by"
NAME = "gpuledger"
ALL = ""
"""Of tenants whose amounts are of all pools together."""
TENANT = "gpuledger.io/tenant"
POLICIES_GROUP = "admissionregistration.k8s.io/v1"
TEMPLATES_GROUP = "templates.gatekeeper.sh/v1"
CONSTRAINTS_GROUP = "constraints.gatekeeper.sh/v1beta1"
CONSTRAINT = "GpuledgerTenants"
REGO = Path(__file__).with_name("gatekeeper.rego")
_DNS = re.compile(r"[a-z0-9]([-a-z0-9]{0,50}[a-z0-9])?(\.[a-z0-9]([-a-z0-9]{0,50}[a-z0-9])?)*")
MOST_LETTERS = 200
_ALLOWED = (
    f"(has(namespaceObject.metadata.annotations) && '{TENANTS}' in namespaceObject.metadata.annotations"
    f" ? namespaceObject.metadata.annotations['{TENANTS}'] : '').split(',').map(t, t.trim()).filter(t, t != '')"
)
_OR_ITS_NAME = "variables.written.size() > 0 ? variables.written : [namespaceObject.metadata.name]"
_MESSAGE = f"'this namespace may name the tenants ' + variables.allowed.join(', ') + ' (its annotation {TENANTS})'"


class Enforcer(StrEnum):
    """What a cluster has to refuse pods and ElasticJobs that name another's tenant."""

    ADMISSION_POLICY = "ValidatingAdmissionPolicy"
    GATEKEEPER = "Gatekeeper"
    NONE = ""


@dataclass(frozen=True, slots=True)
class Wanted:
    """objects: in the order in which they are applied.   notes: what could not be made, and why; one line each."""

    objects: Sequence[dict[str, Any]]
    notes: Sequence[str]


def tenants_of(home: Object) -> list[str]:
    """Those that a namespace may name (elastic_jobs.tenant_of)."""
    written = [one.strip() for one in mark(home, (TENANTS,)).split(",")]
    return [one for one in written if one] or [name(home)]


def wanted(settings: Settings, namespaces: Iterable[Object], resource: str, enforcer: Enforcer) -> Wanted:
    """What the settings ask for. resource: in which nodes offer their GPUs.   enforcer: what the cluster has."""
    # Nothing can be made in a namespace that is being deleted.
    namespaces = sorted((one for one in namespaces if not deletion_requested(one)), key=name)
    notes: list[str] = []
    objects = list(_priorities(settings, notes))
    capacity = _capacity(settings)
    most, there = _most(settings, capacity), sum(gpus for pool, gpus in capacity.items() if pool != ALL)
    widest = max((len(node.devices) for node in settings.nodes() if node.pool in capacity), default=0)
    notes += [
        f"pool {pool.name}: its devices have {pool.units} units, and Kubernetes counts devices: no quota counts them"
        for pool in settings.pools
        if pool.launcher == LAUNCHER and pool.units != 1
    ]
    if not widest:
        notes.append(f"settings: no pool says launcher: {LAUNCHER}, so no namespace gets quotas or limits")
    for home in namespaces if widest else ():
        named = tenants_of(home)
        known = [one for one in named if one in most]
        if mark(home, (TENANTS,)):
            notes += [
                f"namespace {name(home)}: may name tenant {one}, which the settings do not have"
                for one in named
                if one not in most
            ]
        if known:
            objects += _of_namespace(name(home), min(there, sum(most[one] for one in known)), widest, resource)
    if enforcer == Enforcer.ADMISSION_POLICY:
        objects += _policies()
    elif enforcer == Enforcer.GATEKEEPER:
        objects += _gatekeeper(namespaces)
    else:
        notes.append(
            "cluster: neither ValidatingAdmissionPolicy (Kubernetes 1.30) nor Gatekeeper, so pods may bear any "
            "tenant's mark; the operator checks ElasticJobs"
        )
    return Wanted(objects, notes)


def _capacity(settings: Settings) -> dict[str, int]:
    """GPUs of each of the operator's pools; of '', those of all pools, others' as well."""
    operators = {pool.name for pool in settings.pools if pool.launcher == LAUNCHER and pool.units == 1}
    found = {ALL: 0, **dict.fromkeys(operators, 0)}
    for node in settings.nodes():
        for pool in {ALL, node.pool} & found.keys():
            found[pool] += len(node.devices)
    return found


def _most(settings: Settings, capacity: Mapping[str, int]) -> dict[str, int]:
    """The GPUs that each tenant could ever hold in the operator's pools, with everybody else idle. A tenant that a pool
    does not list may borrow there."""
    trees = {
        pool: QuotaTree([one.build() for one in settings.tenants if one.pool == pool], there)
        for pool, there in capacity.items()
        if any(one.pool == pool for one in settings.tenants)
    }

    def most(tenant: str, pool: str) -> int:
        if pool not in trees:
            return capacity[pool]
        trees[pool].admit(tenant)
        return max(0, min(capacity[pool], trees[pool].potential_available(tenant)))

    return {
        one.name: min(most(one.name, ALL), sum(most(one.name, pool) for pool in capacity if pool != ALL))
        for one in settings.tenants
        if one.pool in capacity
    }


def _object(version: str, kind: str, called: str, home: str = "", **content: Any) -> dict[str, Any]:
    metadata = {"name": called, **({"namespace": home} if home else {}), "labels": {MARK: MANAGER}}
    return {"apiVersion": version, "kind": kind, "metadata": metadata, **content}


def _priorities(settings: Settings, notes: list[str]) -> Iterator[dict[str, Any]]:
    """One of each queue that jobs stand in: pods wait for their nodes in the order of queues, and push nobody out."""
    parents = {queue.parent for queue in settings.queues}
    for queue in settings.queues:
        if queue.name in parents:
            continue
        if len(queue.name) > MOST_LETTERS or not _DNS.fullmatch(queue.name):
            notes.append(f"queue {queue.name}: no name for a PriorityClass, which has a-z, 0-9, dashes and dots")
            continue
        yield _object(
            "scheduling.k8s.io/v1", "PriorityClass", f"{NAME}-{queue.name}",
            value=max(-2_000_000_000, min(1_000_000_000, queue.priority)), preemptionPolicy="Never",
            description=f"Pods of the queue {queue.name}. gpuledger's scheduler decides who gives way.",
        )  # fmt: skip


def _of_namespace(home: str, most: int, widest: int, resource: str) -> list[dict[str, Any]]:
    limits = {
        "type": "Container",
        "max": {resource: str(widest)},
        # Without these the maximum would be the default: every container would ask for so many.
        "default": {resource: "0"},
        "defaultRequest": {resource: "0"},
    }
    return [
        _object("v1", "ResourceQuota", NAME, home, spec={"hard": {f"requests.{resource}": str(most)}}),
        _object("v1", "LimitRange", NAME, home, spec={"limits": [limits]}),
    ]


def _policies() -> list[dict[str, Any]]:
    """ElasticJobs, and pods, whose mark the watcher reads, name a tenant that their namespace may name. One that is
    named already stays, or an object could lose no finalizer once its namespace may not name it any more."""
    job = (
        "!has(object.spec.tenant) || object.spec.tenant in variables.allowed || (oldObject != null && "
        "has(oldObject.spec.tenant) && oldObject.spec.tenant == object.spec.tenant)"
    )
    marks = (
        f"!has(object.metadata.{part}) || !('{TENANT}' in object.metadata.{part}) || "
        f"object.metadata.{part}['{TENANT}'] in variables.allowed || (oldObject != null && "
        f"has(oldObject.metadata.{part}) && '{TENANT}' in oldObject.metadata.{part} && "
        f"oldObject.metadata.{part}['{TENANT}'] == object.metadata.{part}['{TENANT}'])"
        for part in ("labels", "annotations")
    )
    return [*_policy("elasticjobs", "gpuledger.io", [job]), *_policy("pods", "", [*marks])]


def _policy(resource: str, group: str, expressions: Sequence[str]) -> list[dict[str, Any]]:
    rule = {"apiGroups": [group], "apiVersions": ["*"], "operations": ["CREATE", "UPDATE"], "resources": [resource]}
    called = f"{NAME}-tenants-of-{resource}"
    spec = {
        "failurePolicy": "Fail",
        "matchConstraints": {"resourceRules": [rule]},
        "variables": [
            {"name": "written", "expression": _ALLOWED},
            {"name": "allowed", "expression": _OR_ITS_NAME},
        ],
        # Forbidden, as a quota's refusal is: whoever makes pods tries again, where Invalid is for good.
        "validations": [
            {"expression": one, "messageExpression": _MESSAGE, "reason": "Forbidden"} for one in expressions
        ],
    }
    binding = {"policyName": called, "validationActions": ["Deny"]}
    return [
        _object(POLICIES_GROUP, "ValidatingAdmissionPolicy", called, spec=spec),
        _object(POLICIES_GROUP, "ValidatingAdmissionPolicyBinding", called, spec=binding),
    ]


def _gatekeeper(namespaces: Sequence[Object]) -> list[dict[str, Any]]:
    """The same by Gatekeeper, which shows a policy no namespace: the constraint has their annotations."""
    bindings = [{"name": name(home), "tenants": tenants_of(home)} for home in namespaces if mark(home, (TENANTS,))]
    text = {"type": "string"}
    one = {"type": "object", "properties": {"name": text, "tenants": {"type": "array", "items": text}}}
    schema = {"type": "object", "properties": {"namespaces": {"type": "array", "items": one}}}
    crd = {"spec": {"names": {"kind": CONSTRAINT}, "validation": {"openAPIV3Schema": schema}}}
    target = {"target": "admission.k8s.gatekeeper.sh", "rego": REGO.read_text(encoding="utf-8")}
    kinds = [{"apiGroups": [""], "kinds": ["Pod"]}, {"apiGroups": ["gpuledger.io"], "kinds": ["ElasticJob"]}]
    spec = {"enforcementAction": "deny", "match": {"kinds": kinds}, "parameters": {"namespaces": bindings}}
    return [
        # Gatekeeper wants a template's name to be its kind's in lower case.
        _object(TEMPLATES_GROUP, "ConstraintTemplate", CONSTRAINT.lower(), spec={"crd": crd, "targets": [target]}),
        _object(CONSTRAINTS_GROUP, CONSTRAINT, f"{NAME}-tenants", spec=spec),
    ]


# Where a cluster differs -------------------------------------------------------------------------------------------

_PLURALS = {
    "ResourceQuota": "resourcequotas", "LimitRange": "limitranges", "PriorityClass": "priorityclasses",
    "ValidatingAdmissionPolicy": "validatingadmissionpolicies",
    "ValidatingAdmissionPolicyBinding": "validatingadmissionpolicybindings",
    "ConstraintTemplate": "constrainttemplates", CONSTRAINT: CONSTRAINT.lower(),
}  # fmt: skip
_ENFORCED = {
    Enforcer.ADMISSION_POLICY: dict.fromkeys(
        ("ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"), POLICIES_GROUP
    ),
    Enforcer.GATEKEEPER: {"ConstraintTemplate": TEMPLATES_GROUP, CONSTRAINT: CONSTRAINTS_GROUP},
    Enforcer.NONE: {},
}
"""Kinds and their apiVersions."""


def path_of(of: Object) -> str:
    """Of an object in the API."""
    home = f"/namespaces/{namespace(of)}" if namespace(of) else ""
    return f"{_root(str(of['apiVersion']))}{home}/{_PLURALS[str(of['kind'])]}/{name(of)}"


def lists(enforcer: Enforcer) -> dict[str, tuple[str, str]]:
    """(apiVersion, kind) by the path that lists all of a kind."""
    versions = {"ResourceQuota": "v1", "LimitRange": "v1", "PriorityClass": "scheduling.k8s.io/v1"}
    versions |= _ENFORCED[enforcer]
    return {f"{_root(version)}/{_PLURALS[kind]}": (version, kind) for kind, version in versions.items()}


def _root(version: str) -> str:
    return f"/apis/{version}" if "/" in version else f"/api/{version}"


def described(of: Object) -> str:
    return f"{of['kind']} {namespace(of) + '/' if namespace(of) else ''}{name(of)}"


def drift(objects: Sequence[Object], there: Sequence[Object]) -> list[str]:
    """A line for each object that is missing, differs in what we say, or is ours and not wanted any more.

    there: of the cluster, those with our label, and those of our names.
    """
    found, live = [], {_key(one): one for one in there}
    for one in objects:
        is_now = live.get(_key(one))
        if is_now is None:
            found.append(f"{described(one)}: is missing")
            continue
        for path, ours, theirs in _differences(one, is_now, ""):
            found.append(f"{described(one)}: {path} is {_shown(theirs)}, not {_shown(ours)}")
    named = {_key(one) for one in objects}
    for key, one in live.items():
        if key not in named and child(one, "metadata", "labels").get(MARK) == MANAGER:
            found.append(f"{described(one)}: is not wanted any more")
    return found


def _key(of: Object) -> tuple[str, str, str]:
    return str(of["kind"]), namespace(of), name(of)


def _differences(ours: Any, theirs: Any, path: str) -> Iterator[tuple[str, Any, Any]]:
    """What we say and the cluster does not; what it adds is its own."""
    if isinstance(ours, Mapping) and isinstance(theirs, Mapping):
        for key, value in ours.items():
            yield from _differences(value, theirs.get(key), f"{path}.{key}" if path else str(key))
    elif isinstance(ours, list) and isinstance(theirs, list) and len(ours) == len(theirs):
        for index, (one, other) in enumerate(zip(ours, theirs, strict=True)):
            yield from _differences(one, other, f"{path}[{index}]")
    elif ours != theirs:
        yield path, ours, theirs


def _shown(value: Any) -> str:
    return "absent" if value is None else str(value)[:100]
