"""What the operator says on a pod of an ElasticJob before it takes its GPUs because they were idle; pure functions.

It is a condition of the pod, DisruptionTarget, with the reason IdleReclaimed (or Rescaled: somebody made smaller a job
that an idle policy had made smaller before), and with this as its message, a JSON object that is also the message of
the pod's end:

time_limit_at   when the attempt's time limit would have stopped it; absent: it had none
act             shrunk, suspended or cancelled: what became of the job
actor           `idle policy`, or who said yes to it
job             the ElasticJob, as namespace/name
allocation      its attempt, as the scheduler calls it: another is another attempt, or another job of that name
world           the number of the placement that the pod was of
left            how many replicas the job keeps; 0 unless it is shrunk
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

CONDITION = "DisruptionTarget"
REASONS = IDLE, RESCALED = "IdleReclaimed", "Rescaled"
_TEXTS = ("actor", "job", "allocation", "text", "time_limit_at")
ACTS = ("shrunk", "suspended", "cancelled")
GROUP, KIND = "gpuledger.io", "ElasticJob"
ALLOCATION, RANK, SIZE = (f"{GROUP}/{what}" for what in ("allocation", "rank", "world-size"))


@dataclass(frozen=True, slots=True)
class Reclaimed:
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
        order = ("time_limit_at", "act", "actor", "job", "allocation", "world", "left", "text")
        said = {key: value for key in order if (value := asdict(self)[key]) != ""}
        return json.dumps(said, ensure_ascii=False, separators=(",", ":"))


def reclaimed(pod: Object) -> Reclaimed | None:
    """What its condition says; None: nothing of the kind, or nothing that the operator wrote."""
    said, job = condition(pod, CONDITION), elastic_job(pod)
    if not job or said.get("status") != "True" or said.get("reason") not in REASONS:
        return None
    try:
        found: Any = json.loads(text(said, "message"))
    except (ValueError, RecursionError):
        return None
    act, world, left = text(found, "act"), *(_number(found, key) for key in ("world", "left"))
    if act not in ACTS or world is None or left is None or text(found, "job") != f"{namespace(pod)}/{job}":
        return None
    actor, whose, allocation, words, limit = (text(found, key) for key in _TEXTS)
    return Reclaimed(text(said, "reason"), act, actor, whose, allocation, world, left, words, limit)


def elastic_job(pod: Object) -> str:
    """The name of the ElasticJob that owns the pod; '' if none does."""
    owners = items(child(pod, "metadata"), "ownerReferences")
    return next((text(one, "name") for one in owners if _is_elastic(one)), "")


def place(pod: Object) -> str:
    """Which rank of its job it is, for the message of its submission, from which the books know when the job has GPUs
    again; '' if it is none of an ElasticJob."""
    job, rank, size = elastic_job(pod), mark(pod, (RANK,)), mark(pod, (SIZE,))
    called = re.fullmatch(re.escape(job) + r"-(\d{1,18})-(\d{1,9})", name(pod))
    if not job or called is None or called[2] != rank or re.fullmatch(r"[1-9]\d{0,8}", size) is None:
        return ""
    return f": rank {rank} of {size} in placement {called[1]}, {mark(pod, (ALLOCATION,))}"


def _number(of: Any, key: str) -> int | None:
    found = of.get(key) if isinstance(of, dict) else None
    return found if type(found) is int and 0 <= found < 1 << 53 else None


def _is_elastic(owner: Object) -> bool:
    is_controller = owner.get("controller") is True and owner.get("kind") == KIND
    return is_controller and text(owner, "apiVersion").startswith(f"{GROUP}/")
