"""Random lives of pods, and the log of changes that an API server would keep of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st

from tests.collectors.kubernetes.make import (
    Pod,
    admitted,
    bound,
    deleting,
    ended,
    last,
    pod,
    rejected,
    running,
    unschedulable,
    with_condition,
)


@dataclass(frozen=True)
class Change:
    """At `at` seconds the object became this; deleted: it was gone, and this was its last version."""

    at: int
    object: Pod
    deleted: bool

    @property
    def uid(self) -> str:
        return str(self.object["metadata"]["uid"])


RESOURCES: list[dict[str, int]] = [
    {"nvidia.com/gpu": 1},
    {"nvidia.com/gpu": 8},
    {"nvidia.com/mig-1g.10gb": 2},
    {"amd.com/gpu": 2},
    {"cpu": 4},
]


@st.composite
def lives(draw: st.DrawFn, uid: str) -> list[Change]:
    """One pod's life; stamps and changes are at whole seconds, each step later than the last."""
    clock = draw(st.integers(0, 300))
    log: list[Change] = []
    last_of = pod(uid, clock, resources=draw(st.sampled_from(RESOURCES)), namespace=draw(st.sampled_from(["a", "b"])))

    def note(after: Pod, deleted: bool = False) -> None:
        nonlocal last_of
        last_of = after
        log.append(Change(clock, after, deleted))

    def wait() -> int:
        nonlocal clock
        clock += draw(st.integers(1, 90))
        return clock

    note(last_of)
    if draw(st.booleans()):
        note(unschedulable(last_of, wait()))
    steps = ["bound", "admitted", "running"][: draw(st.integers(0, 3))]
    for step in steps:
        note({"bound": bound, "admitted": admitted, "running": running}[step](last_of, wait()))
    if steps == ["bound"] and draw(st.booleans()):
        note(rejected(last_of, wait()))
    elif len(steps) >= 2 and draw(st.booleans()):
        if draw(st.booleans()):
            reason = draw(st.sampled_from(["PreemptionByScheduler", "DeletionByTaintManager"]))
            note(with_condition(last_of, "DisruptionTarget", "True", wait(), reason))
            note(deleting(last_of, wait()))
        note(ended(last_of, wait(), draw(st.sampled_from([0, 1, 137]))))
    if draw(st.booleans()):
        wait()
        if draw(st.booleans()):
            note(deleting(last_of, clock, draw(st.sampled_from([0, 30]))))
            if len(steps) == 3 and last_of["status"]["phase"] == "Running" and draw(st.booleans()):
                # An older kubelet leaves the phase alone.
                phase = draw(st.sampled_from(["Running", ""]))
                note(ended(last_of, wait(), 143, phase=phase))
        wait()
        note(last(last_of), deleted=True)
    return log


@st.composite
def histories(draw: st.DrawFn) -> list[Change]:
    """What happened to a handful of pods, in order."""
    count = draw(st.integers(1, 6))
    logs = [draw(lives(f"pod-{number}")) for number in range(count)]
    return sorted((change for log in logs for change in log), key=lambda change: change.at)


def present(log: list[Change], upto: int) -> list[Pod]:
    """The objects that there are after the first `upto` changes."""
    found: dict[str, Pod] = {}
    for change in log[:upto]:
        if change.deleted:
            found.pop(change.uid, None)
        else:
            found[change.uid] = change.object
    return [found[uid] for uid in sorted(found)]


def key(row: dict[str, Any]) -> tuple[Any, ...]:
    """The natural key of an event."""
    return tuple(
        row.get(column, "") for column in ("cluster", "allocation_id", "event", "ts", "device_id", "partition_id")
    )
