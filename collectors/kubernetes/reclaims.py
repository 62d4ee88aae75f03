"""What the operator says on a pod before it takes its GPUs because they were idle; pure functions.

It is a condition of the pod with the reason IdleReclaimed (or Rescaled: somebody made smaller a job that an idle policy
had made smaller before), and with this as its message, a JSON object that is also the message of the pod's end. It is
DisruptionTarget on an ElasticJob's pod. On a gated one, which is evicted, it is a condition of our own, since the
Eviction API replaces what that one says.

time_limit_at   when the attempt's time limit would have stopped it; absent: it had none
act             shrunk, suspended or cancelled: what became of the job
actor           `idle policy`, or who said yes to it
job             the ElasticJob, as namespace/name; absent: a gated pod
allocation      its attempt, as the scheduler calls it: another is another attempt, or another job of that name
world           of an ElasticJob: the number of the placement that the pod was of
left            of an ElasticJob: how many replicas the job keeps; 0 unless it is shrunk
text            for people; begins with the evidence

Who owns a pod may delete it, but may not write its status: `edit` and `admin` have no pods/status. Nothing of this
changes what is charged.
"""

from __future__ import annotations

import json
import re
from dataclasses import asdict, dataclass
from typing import Any

from collectors.kubernetes.objects import Object, child, condition, items, mark, name, namespace, text

GROUP, KIND = "gpuledger.io", "ElasticJob"
CONDITION, EVICTED = "DisruptionTarget", f"{GROUP}/Reclaimed"
"""Types of the condition: of an ElasticJob's pod, and of a gated one.

Source: k8s.io/kubernetes pkg/registry/core/pod/storage/eviction.go (addConditionAndDeletePod, since 1.26)
"""
REASONS = IDLE, RESCALED = "IdleReclaimed", "Rescaled"
_TEXTS = ("actor", "job", "allocation", "text", "time_limit_at")
ACTS = ("shrunk", "suspended", "cancelled")
ALLOCATION, RANK, SIZE = (f"{GROUP}/{what}" for what in ("allocation", "rank", "world-size"))


@dataclass(frozen=True, slots=True)
class Reclaimed:
    """job: '' of a gated pod, whose world and left are nothing."""

    reason: str
    act: str
    actor: str
    job: str
    allocation: str
    world: int
    left: int
    text: str
    time_limit_at: str = ""

    def message(self) -> str:
        of_job = ("world", "left") if self.job else ()
        order = ("time_limit_at", "act", "actor", "job", "allocation", *of_job, "text")
        said = {key: value for key in order if (value := asdict(self)[key]) != ""}
        return json.dumps(said, ensure_ascii=False, separators=(",", ":"))


def reclaimed(pod: Object) -> Reclaimed | None:
    """What its condition says; None: nothing of the kind, or nothing that the operator wrote."""
    job = elastic_job(pod)
    said = condition(pod, CONDITION if job else EVICTED)
    if said.get("status") != "True" or said.get("reason") not in REASONS:
        return None
    try:
        found: Any = json.loads(text(said, "message"))
    except (ValueError, RecursionError):
        return None
    actor, whose, allocation, words, limit = (text(found, key) for key in _TEXTS)
    act, world, left = text(found, "act"), *(_number(found, key) for key in ("world", "left"))
    if not job:
        world, left = 0, 0
        is_ours = act == "cancelled" and not whose and _is_attempt(allocation, mark(pod, (ALLOCATION,)))
    else:
        is_ours = act in ACTS and whose == f"{namespace(pod)}/{job}"
    if not is_ours or world is None or left is None:
        return None
    return Reclaimed(text(said, "reason"), act, actor, whose, allocation, world, left, words, limit)


def _is_attempt(allocation: str, job: str) -> bool:
    """Whether it is one of the scheduler's job as which a gated pod was let in."""
    return bool(job) and (allocation == job or allocation.startswith(f"{job}/"))


def elastic_job(pod: Object) -> str:
    """The name of the ElasticJob that owns the pod; '' if none does."""
    return next((text(one, "name") for one in _owners(pod) if _is_elastic(one)), "")


def has_controller(pod: Object) -> bool:
    """Whether something owns the pod that may make another in its place."""
    return any(one.get("controller") is True for one in _owners(pod))


def place(pod: Object) -> str:
    """Which rank of its job it is, for the message of its submission, from which the books know when the job has GPUs
    again; '' if it is none of an ElasticJob."""
    job, rank, size = elastic_job(pod), mark(pod, (RANK,)), mark(pod, (SIZE,))
    called = re.fullmatch(re.escape(job) + r"-(\d{1,18})-(\d{1,9})", name(pod))
    if not job or called is None or called[2] != rank or re.fullmatch(r"[1-9]\d{0,8}", size) is None:
        return ""
    return f": rank {rank} of {size} in placement {called[1]}, {mark(pod, (ALLOCATION,))}"


def _owners(pod: Object) -> list[Object]:
    return items(child(pod, "metadata"), "ownerReferences")


def _number(of: Any, key: str) -> int | None:
    found = of.get(key) if isinstance(of, dict) else None
    return found if type(found) is int and 0 <= found < 1 << 53 else None


def _is_elastic(owner: Object) -> bool:
    is_controller = owner.get("controller") is True and owner.get("kind") == KIND
    return is_controller and text(owner, "apiVersion").startswith(f"{GROUP}/")
