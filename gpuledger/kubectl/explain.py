"""Why an ElasticJob waits, as the operator says in its status, and where its pods are. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from collectors.kubernetes.objects import Object, at, child, condition, created, items, name, namespace, text
from warehouse.isolation import promise

WAITS = ("Pending", "Starting", "Suspended")
WORLD = "gpuledger.io/world"
"""The label of its pods (scheduler.kubernetes.pods, which needs more than a client has)."""


def explanation(job: Object, pods: Sequence[Object]) -> dict[str, Any]:
    """What is known of it. since: when the state began, as far as its conditions tell."""
    status, spec = child(job, "status"), child(job, "spec")
    expected = child(status, "expectedStart")
    return {
        "namespace": namespace(job),
        "name": name(job),
        "state": text(status, "state") or None,
        "since": _since(job),
        "reason": text(status, "reason"),
        "message": text(status, "message"),
        "tenant": text(status, "tenant") or text(spec, "tenant") or None,
        "queue": text(spec, "queue"),
        "attempt": status.get("attempt"),
        "gpus_per_replica": spec.get("gpusPerReplica", 1),
        "min_replicas": child(spec, "scaling").get("minReplicas", 1),
        "max_replicas": child(spec, "scaling").get("maxReplicas", 1),
        "replicas": status.get("replicas"),
        "ready_replicas": status.get("readyReplicas"),
        "nodes": status.get("nodes", []),
        "isolation_level": text(status, "isolationLevel"),
        "gpu_hours": text(status, "gpuHours"),
        "cost": text(status, "cost"),
        "expected_start": {key: at(expected.get(key)) for key in ("from", "to")} if expected else None,
        "job_id": text(status, "jobId"),
        "conditions": [
            {key: text(one, key) for key in ("type", "status", "reason", "message")}
            for one in items(status, "conditions")
        ],
        "pods": [_pod(one) for one in sorted(pods, key=name)],
    }


def _since(job: Object) -> datetime | None:
    state = text(child(job, "status"), "state")
    kind = {"Pending": "QuotaReserved", "Starting": "PodsReady", "Running": "PodsReady"}.get(state, "Finished")
    return at(condition(job, kind).get("lastTransitionTime")) or (created(job) if state in ("", "Pending") else None)


def _pod(pod: Object) -> dict[str, Any]:
    """world: which placement of the job it is of.   waits: why it has not started, in the words of the scheduler or the
    kubelet."""
    unscheduled = condition(pod, "PodScheduled")
    waits = text(unscheduled, "message") if text(unscheduled, "status") == "False" else ""
    for container in items(child(pod, "status"), "containerStatuses"):
        waiting = child(container, "state", "waiting")
        waits = waits or ": ".join(one for one in (text(waiting, "reason"), text(waiting, "message")) if one)
    return {
        "name": name(pod),
        "world": text(child(pod, "metadata", "labels"), WORLD),
        "phase": text(child(pod, "status"), "phase") or "Unknown",
        "node": text(child(pod, "spec"), "nodeName"),
        "waits": waits,
    }


def lines(job: Mapping[str, Any], now: datetime) -> list[str]:
    """The explanation as lines for people."""
    least, most, each = job["min_replicas"], job["max_replicas"], job["gpus_per_replica"]
    replicas = f"{least} to {most} replicas" if least != most else f"{least} replica{'s' * (least != 1)}"
    state = job["state"] or "not seen by the operator yet"
    found = [
        f"{job['namespace']}/{job['name']}: {state}{_age(job['since'], now)}",
        f"  asks for {replicas}, {each} GPU{'s' * (each != 1)} each, in queue {job['queue'] or 'default'}, "
        f"tenant {job['tenant'] or 'of its namespace'}",
    ]
    if job["state"] is None:
        return [*found, "  next: kubectl -n gpuledger get deployment gpuledger-operator"]
    if job["replicas"]:
        found.append(f"  {job['ready_replicas']} of {job['replicas']} pods are ready, on {', '.join(job['nodes'])}")
    if job["message"] or job["reason"]:
        why = "why it waits" if job["state"] in WAITS else "reason"
        found.append(f"  {why}: {job['reason']}{': ' if job['reason'] and job['message'] else ''}{job['message']}")
    policy = next((one for one in job["conditions"] if one["type"] == "ScaledByPolicy"), None)
    if policy is not None and policy["message"]:
        found.append(f"  scaling policy: {policy['message']}")
    if level := job["isolation_level"]:
        found.append(f"  isolation: {level}: {promise(level)}")
    if job["gpu_hours"]:
        cost = f", cost {job['cost']}" if job["cost"] else ""
        found.append(f"  so far: {job['gpu_hours']} GPU-hours{cost}")
    if expected := job["expected_start"]:
        found.append(f"  expected start: {_clock(expected['from'])} to {_clock(expected['to'])}{_due(expected, now)}")
    worlds = [int(one["world"]) for one in job["pods"] if one["world"].isascii() and one["world"].isdigit()]
    newest = str(max(worlds, default=""))  # of former placements, pods that have ended are kept for their logs
    waiting = [one for one in job["pods"] if one["phase"] not in ("Running", "Succeeded") and one["world"] == newest]
    return [*found, *(f"  pod {_pod_line(one)}" for one in waiting)]


def _due(expected: Mapping[str, datetime | None], now: datetime) -> str:
    """What has become of the interval, which is the one that was announced first."""
    if expected["from"] is None or expected["to"] is None or now < expected["from"]:
        return ""
    return ": due now" if now < expected["to"] else ": overdue"


def _pod_line(pod: Mapping[str, str]) -> str:
    place = f" on {pod['node']}" if pod["node"] else ""
    return f"{pod['name']}: {pod['phase']}{place}{', ' + pod['waits'] if pod['waits'] else ''}"


def _age(since: datetime | None, now: datetime) -> str:
    if since is None:
        return ""
    minutes = max(0, int((now - since).total_seconds()) // 60)
    days, hours = minutes // 1440, minutes // 60 % 24
    spoken = f"{days} d {hours} h" if days else f"{hours} h {minutes % 60} min" if hours else f"{minutes} min"
    return f" for {spoken}, since {_clock(since)}"


def _clock(when: datetime | None) -> str:
    return f"{when:%F %R}Z" if when else "unknown"
