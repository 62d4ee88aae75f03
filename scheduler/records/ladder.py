"""What was already done about a running job that is idle: the steps that the log has of its attempt. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

Step = Literal["noticed", "warned", "proposed", "shrunk", "busy", "kept"]
REASONS: Mapping[Step, str] = {
    "noticed": "IdleNoticed",
    "warned": "IdleWarned",
    "proposed": "IdleProposed",
    "busy": "IdleBusy",
    "kept": "IdleKept",
}
"""What callbacks and events call the steps."""
RECLAIMED = "IdleReclaimed"
"""Reason of a job that was made smaller, suspended or cancelled because it was idle."""
BY_IDLENESS = "idle policy"
"""Actor of what a policy does to idle jobs."""


@dataclass(frozen=True, slots=True)
class Ladder:
    """step: the last.   at: of it.   seconds, measured_at: for how long the job was idle, as of when; None where the
    step needed no evidence.   warned_at, policy: of the last warning.   by: who keeps it, or proposed to reclaim it; ''
    if the policy proposed it. What somebody proposed stays proposed after a warning."""

    step: Step
    at: float
    seconds: float | None = None
    measured_at: float = 0.0
    warned_at: float | None = None
    policy: str = ""
    by: str = ""

    @property
    def is_kept(self) -> bool:
        return self.step == "kept"

    @property
    def is_shrunk(self) -> bool:
        return self.step == "shrunk"


def climbed(before: Ladder | None, step: Step, at: float, body: Mapping[str, Any]) -> Ladder | None:
    """The ladder after a step; None: the job is used again, and is at the bottom.   body: of the step's entry."""
    if step == "busy":
        return None
    if step == "kept":
        return Ladder(step, at, by=body.get("actor", ""))
    before = before or Ladder(step, at)
    measured_at = max(before.measured_at, body["measured_at"])
    found = replace(before, step=step, at=at, seconds=body["seconds"], measured_at=measured_at)
    if step == "proposed":
        actor = body.get("actor", "")
        return replace(found, by="" if actor == BY_IDLENESS else actor)
    if step == "warned":
        return replace(found, warned_at=at, policy=body["policy"], step="proposed" if before.by else step)
    return found
