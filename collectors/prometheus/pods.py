"""Turns the series of kube-state-metrics about a pod into the pod as the API server would show it: pure functions.

`collectors.kubernetes` then makes its events, so that a site gets the same rows either way. The pod's timestamps are in
the series as seconds: created, bound, started, completed. What no series reports is absent.
Source: https://github.com/kubernetes/kube-state-metrics/blob/main/docs/metrics/workload/pod-metrics.md
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

from collectors.exporters.exposition import Series
from collectors.kubernetes.objects import Object, written
from collectors.kubernetes.resources import COMPANIONS, PERCENTAGES
from collectors.kubernetes.settings import Settings

REQUESTS = ("kube_pod_container_resource_requests", "kube_pod_init_container_resource_requests")
FACTS = (
    "kube_pod_info", "kube_pod_created", "kube_pod_status_scheduled_time", "kube_pod_start_time",
    "kube_pod_completion_time", "kube_pod_labels", "kube_pod_status_phase", "kube_pod_status_reason",
)  # fmt: skip
DOMAINS = (
    "nvidia.com", "amd.com", "google.com", "habana.ai", "gpu.intel.com", "huawei.com", "aws.amazon.com",
    "cambricon.com", "metax-tech.com", "hygon.com", "iluvatar.ai", "mthreads.com", "volcano.sh", "koordinator.sh",
    "tencent.com",
)  # fmt: skip
"""Of the resources that may be accelerators; `collectors.kubernetes.resources` says which are."""


def sanitized(name: str) -> str:
    """A label name as kube-state-metrics writes it."""
    return re.sub(r"[^a-zA-Z0-9_]", "_", name)


RESOURCES = "|".join(f"{sanitized(domain)}_.+" for domain in DOMAINS)
"""A pattern of the label `resource`."""
_EXACT = {
    sanitized(name): name
    for name in (
        "nvidia.com/gpu.shared",
        *COMPANIONS,
        *PERCENTAGES,
        *(name for one in COMPANIONS.values() for name in (one.memory, one.memory_percent, one.cores) if name),
    )
}
_MIG = re.compile(r"nvidia_com_mig_(\d+g)_(\d+gb)(\w*)")


def resource_of(label: str) -> str:
    """The resource name behind a sanitized one."""
    if label in _EXACT:
        return _EXACT[label]
    if found := _MIG.fullmatch(label):
        return f"nvidia.com/mig-{found[1]}.{found[2]}{found[3].replace('_', '.')}"
    for domain in DOMAINS:
        start = f"{sanitized(domain)}_"
        if label.startswith(start):
            rest = label.removeprefix(start)
            return f"{domain}/{rest.replace('_', '-') if domain == 'huawei.com' else rest}"
    return label


def sanitized_marks(settings: Settings) -> Settings:
    """The settings, with pod labels in kube-state-metrics' spelling."""

    def named(marks: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(map(sanitized, marks))

    return replace(
        settings,
        tenant_marks=named(settings.tenant_marks),
        project_marks=named(settings.project_marks),
        user_marks=named(settings.user_marks),
        queue_marks=named(settings.queue_marks),
    )


def own(labels: Mapping[str, str], name: str) -> str:
    """A label of the series: where Prometheus did not honour it, it is the `exported_` one, and the plain is the
    target's."""
    return labels.get(f"exported_{name}") or labels.get(name, "")


def target_of(one: Series) -> tuple[str, str]:
    return one.labels.get("job", ""), one.labels.get("instance", "")


@dataclass
class PodReport:
    """The series about one pod. first, last: when its requests were seen, in seconds.   target: who said so, as (job,
    instance).   asked: (container, whether it is an init container, resource) -> how much.   facts: name -> (labels,
    value), the last of each.   phase, reason: those that are 1."""

    uid: str
    first: float
    last: float
    target: tuple[str, str]
    asked: dict[tuple[str, bool, str], float] = field(default_factory=dict)
    facts: dict[str, tuple[Mapping[str, str], float]] = field(default_factory=dict)
    phase: str = ""
    reason: str = ""

    def take(self, one: Series) -> None:
        if one.value == 1 and one.name == "kube_pod_status_phase":
            self.phase = own(one.labels, "phase")
        elif one.value == 1 and one.name == "kube_pod_status_reason":
            self.reason = own(one.labels, "reason")
        else:
            self.facts[one.name] = one.labels, float(one.value)

    def stamp(self, name: str) -> float | None:
        """Seconds since 1970 that a series says."""
        found = self.facts.get(name)
        return found[1] if found is not None and found[1] > 0 else None

    def label(self, name: str) -> str:
        return next((text for labels, _ in self.facts.values() if (text := own(labels, name))), "")


def pod_reports(requests: Iterable[tuple[float, Series]], facts: Iterable[Series]) -> dict[str, PodReport]:
    """By UID, the reports on pods that request accelerators. requests: with their instants, in their order."""
    found: dict[str, PodReport] = {}
    for at, one in requests:
        uid = own(one.labels, "uid")
        if not uid:
            continue
        target = target_of(one)
        report = found.setdefault(uid, PodReport(uid, at, at, target))
        report.last, report.target = at, target
        is_init = one.name == REQUESTS[1]
        report.asked[own(one.labels, "container"), is_init, own(one.labels, "resource")] = float(one.value)
        report.facts[one.name] = one.labels, float(one.value)
    for one in facts:
        named = found.get(own(one.labels, "uid"))
        # What another target said before kube-state-metrics was moved is older.
        if named is not None and named.target == target_of(one):
            named.take(one)
    return found


def pod_object(report: PodReport, not_before: float) -> Object:
    """The pod. not_before: instants before it are moved to it, because the history begins there."""

    def at(*names: str) -> str:
        stamps = (report.stamp(name) for name in names)
        stamp = next((one for one in stamps if one is not None), None)
        return "" if stamp is None else _written(max(stamp, not_before))

    scheduled = at("kube_pod_status_scheduled_time", "kube_pod_start_time")
    created = at("kube_pod_created", "kube_pod_start_time", "kube_pod_status_scheduled_time")
    completed = report.stamp("kube_pod_completion_time")
    is_over = report.phase in ("Succeeded", "Failed")
    labels, _ = report.facts.get("kube_pod_labels", ({}, 0.0))
    owner = {"kind": report.label("created_by_kind"), "name": report.label("created_by_name")}
    ended = {"terminated": {"finishedAt": _written(max(completed or 0, not_before)), "exitCode": 0}}
    status: dict[str, Any] = {"phase": report.phase, "reason": report.reason}
    if scheduled:
        status |= {
            "startTime": scheduled,
            "conditions": [{"type": "PodScheduled", "status": "True", "lastTransitionTime": scheduled}],
        }
    if is_over and completed is not None:
        status["containerStatuses"] = [{"name": "", "state": ended}]
    return {
        "metadata": {
            "uid": report.uid,
            "namespace": report.label("namespace"),
            "name": report.label("pod"),
            "creationTimestamp": created or _written(max(report.first, not_before)),
            "labels": {name.removeprefix("label_"): text for name, text in labels.items() if name.startswith("label_")},
            "ownerReferences": [owner] if owner["kind"] not in ("", "<none>") else [],
        },
        "spec": {
            "nodeName": report.label("node"),
            "containers": _containers(report, False),
            "initContainers": _containers(report, True),
        },
        "status": status,
    }


def _containers(report: PodReport, init: bool) -> list[dict[str, Any]]:
    found: dict[str, dict[str, str]] = {}
    for (container, is_init, resource), amount in sorted(report.asked.items()):
        if is_init is init:
            found.setdefault(container, {})[resource_of(resource)] = f"{amount:.15g}"
    return [{"name": name, "resources": {"requests": asks}} for name, asks in found.items()]


def _written(seconds: float) -> str:
    return written(datetime.fromtimestamp(seconds, UTC))
