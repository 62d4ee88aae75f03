"""The status of an ElasticJob, from the scheduler's view of the job and its pods. Pure functions.

Conditions are those of Kueue's Workloads, and so are the reasons, if Kueue has one; ScalingLimited is that of
HorizontalPodAutoscalers.

Source: https://kueue.sigs.k8s.io/docs/concepts/workload/, KEP-10852 (reasons of workloads that wait)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from collectors.kubernetes.objects import Object, at, child, items, text, written
from scheduler.model import Reason

State = Literal[
    "Pending", "Starting", "Running", "Stopping", "Suspended", "Succeeded", "Failed", "Cancelled", "Rejected"
]
STATES: Mapping[str, State] = {
    "pending": "Pending",
    "held": "Pending",
    "starting": "Starting",
    "running": "Running",
    "stopping": "Stopping",
    "suspended": "Suspended",
    "finished": "Succeeded",
    "failed": "Failed",
    "cancelled": "Cancelled",
    "rejected": "Rejected",
}
"""The state of an ElasticJob for each status of the scheduler, and each ending."""
KUEUE: Mapping[str, str] = {
    "Held": "OnHold",
    "NeverFits": "NoMatchingFlavor",
    "UnknownQueue": "Misconfigured",
    "ParentQueue": "Misconfigured",
    "PoolNotNamed": "Misconfigured",
    "CannotRun": "Misconfigured",
}
"""The scheduler's reasons that have another name in Kueue. ExceedsMaxQuota, WaitingForQuota, TopologyPlacementFailed,
PendingEvaluation, Suspended and Misconfigured have the same name; the others have none."""
MOST_WORDS = 2000
"""Maximum characters of a message."""
SCALED, NO_POLICY = "ScaledByPolicy", "NoPolicy"
Conditions = Mapping[str, tuple[bool, str, str]]
"""By type: whether it holds, the reason, the message."""


@dataclass(frozen=True, slots=True)
class Standing:
    """The scheduler's view of a job. status: or its ending.   reasons: why it waits; or one, why it ended, is stopped
    or has no pods.   interval: of its expected start; None if unknown.   ready: pods that have started.   unready: why
    others have not.   whole: the world whose pods all existed.   evicted: it was preempted, and will run again.
    limited: why it has not the replicas that its spec says.   position: in its queue; None: unknown, or not waiting.
    scaled: what its policy has made of them (scheduler.live.service.Service.scaling); None: it has none.
    level: what it has of its devices (scheduler.kubernetes.virtual); '': not known."""

    status: str
    tenant: str
    job_id: str
    attempt: int = 1
    replicas: int = 0
    ready: int = 0
    nodes: Sequence[str] = ()
    reasons: Sequence[Reason] = ()
    interval: tuple[datetime, datetime] | None = None
    unready: str = ""
    whole: int | None = None
    evicted: bool = False
    limited: Reason | None = None
    position: int | None = None
    scaled: Mapping[str, Any] | None = None
    level: str = ""

    @property
    def state(self) -> State:
        return STATES[self.status]

    @property
    def is_over(self) -> bool:
        return self.state in ("Succeeded", "Failed", "Cancelled", "Rejected")


def status_of(standing: Standing, before: Object, now: datetime) -> dict[str, Any]:
    """The whole status.   before: the current one; unchanged conditions keep their times."""
    limited = [] if standing.limited is None else [standing.limited]
    first = next(iter([*standing.reasons, *limited]), Reason(""))
    words = "; ".join(one.text or one.code for one in standing.reasons if one.code)[:MOST_WORDS]
    found: dict[str, Any] = {
        "state": standing.state,
        "jobId": standing.job_id,
        "tenant": standing.tenant,
        "attempt": standing.attempt,
        "replicas": standing.replicas,
        "readyReplicas": standing.ready,
        "conditions": _merged(_conditions(standing, words), items(before, "conditions"), now),
    }
    more: dict[str, Any] = {
        "world": standing.whole,
        "nodes": list(standing.nodes) or None,
        "position": standing.position,
        "isolationLevel": standing.level,
        "reason": first.code,
        "message": "; ".join(filter(None, [words or standing.unready, *(one.text for one in limited)]))[:MOST_WORDS],
    }
    if standing.interval is not None:
        more["expectedStart"] = {"from": written(standing.interval[0]), "to": written(standing.interval[1])}
    if standing.is_over:
        more["completionTime"] = text(before, "completionTime") or written(now)
    # Empty texts are left out; old API servers take them for null.
    return {key: value for key, value in (found | more).items() if value not in (None, "")}


def _conditions(standing: Standing, words: str) -> Conditions:
    reason = KUEUE.get(code, code) if (code := standing.reasons[0].code if standing.reasons else "") else ""
    limited = standing.limited
    found: dict[str, tuple[bool, str, str]] = {}
    found["ScalingLimited"] = (True, limited.code, limited.text) if limited else (False, "DesiredWithinRange", "")
    if standing.is_over:
        found["Finished"] = (True, standing.state, words)
        return found
    found[SCALED] = _scaled(standing.scaled)
    has_quota = standing.state in ("Starting", "Running")
    found["QuotaReserved"] = (True, "QuotaReserved", "") if has_quota else (False, reason or "PendingEvaluation", words)
    ready = has_quota and standing.ready == standing.replicas
    waits = "WaitForStart" if has_quota else "NotAdmitted"
    found["PodsReady"] = (True, "Started", "") if ready else (False, waits, standing.unready if has_quota else "")
    if standing.evicted:
        reason_is_current = standing.state in ("Stopping", "Suspended")
        found["Evicted"] = (True, reason or "Preempted", words) if reason_is_current else (True, "Preempted", "")
    elif has_quota:
        found["Evicted"] = (False, "QuotaReserved", "")
    return found


def _scaled(found: Mapping[str, Any] | None) -> tuple[bool, str, str]:
    """Whether a policy leaves the job less than it asks for, or makes it wait for more."""
    if found is None:
        return False, NO_POLICY, ""
    message = "; ".join(filter(None, [found["text"], found["problem"]]))
    return [found["min_replicas"], found["max_replicas"]] != found["asked"], found["reason"], message


def scaled_event(standing: Standing, before: Object) -> tuple[str, str, str] | None:
    """(type, reason, message) of an event that says what a policy has made of a job; None if it said so already."""
    if standing.scaled is None or standing.is_over:
        return None
    old = next((one for one in items(before, "conditions") if text(one, "type") == SCALED), {})
    words = str(standing.scaled["text"])
    return None if text(old, "message").startswith(words) else ("Normal", SCALED, words)


def _merged(found: Conditions, before: Sequence[Object], now: datetime) -> list[dict[str, Any]]:
    """The conditions, with those that are not set now as they were."""
    known = {text(one, "type"): dict(one) for one in before}
    for kind, (holds, reason, message) in found.items():
        condition = {"type": kind, "status": str(holds), "reason": reason}
        condition |= {"message": message[:MOST_WORDS]} if message else {}
        old = known.get(kind, {})
        if (kind in ("Evicted", "ScalingLimited") or reason == NO_POLICY) and not holds and not old:
            continue  # it never held
        same = old.get("status") == condition["status"]
        if same and holds and not message:
            continue  # keeps the reason of the eviction
        known[kind] = condition | {"lastTransitionTime": old["lastTransitionTime"] if same else written(now)}
    return [known[kind] for kind in sorted(known)]


def patch_of(wanted: Mapping[str, Any], before: Object) -> dict[str, Any]:
    """The merge patch from `before` to the wanted status; empty if they are equal."""
    changed = {key: value for key, value in wanted.items() if before.get(key) != value}
    return changed | {key: None for key in before if key not in wanted}


def event_of(wanted: Mapping[str, Any], before: Object) -> tuple[str, str, str] | None:
    """(type, reason, message) of an event to write; None if nothing notable changed.

    Notable: the state, the attempt, the size, and the reason for waiting.
    """
    keys = ("state", "attempt", "replicas", "reason")
    if all(wanted.get(key) == before.get(key) for key in keys):
        return None
    state, reason = str(wanted["state"]), str(wanted.get("reason", ""))
    is_bad = state in ("Failed", "Rejected") or (state == "Stopping" and reason not in ("Suspended", "Cancelled"))
    is_bad |= state == "Running" and reason == "Misconfigured"
    resized = state == "Running" == before.get("state") and wanted["replicas"] != before.get("replicas")
    is_limited = state == "Running" == before.get("state") and reason
    called = "Resized" if resized else "ScalingLimited" if is_limited else state
    called = KUEUE.get(reason, reason) if state == "Pending" and reason else called
    where = f" on {', '.join(wanted['nodes'])}" if state in ("Starting", "Running") and wanted.get("nodes") else ""
    size = f"{wanted['replicas']} replica{'' if wanted['replicas'] == 1 else 's'}"
    words = f"{state}: {size}{where}" if state in ("Starting", "Running") else state
    message = str(wanted.get("message", ""))
    return ("Warning" if is_bad else "Normal"), called, f"{words}; {message}" if message else words


def due_for_deletion(job: Object, now: datetime) -> bool:
    """Whether an ended job's time to live (ttlSecondsAfterFinished) is over."""
    ttl, ended_at = child(job, "spec").get("ttlSecondsAfterFinished"), at(child(job, "status").get("completionTime"))
    return isinstance(ttl, int) and ended_at is not None and (now - ended_at).total_seconds() >= ttl
