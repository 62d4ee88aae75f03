"""The history of a job, from the log."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from scheduler.codec import read
from scheduler.live.ranks import ranks_of
from scheduler.model import Grant, Node
from scheduler.records.events import instant
from scheduler.records.log import Entry

DETAILS = (
    "actor", "why", "ending", "step", "seconds", "measured_at", "policy", "text", "replicas", "ranks", "min_replicas",
    "max_replicas", "cause", "output", "nodes",
)  # fmt: skip
"""Of an entry that concerns one job."""


def ended(history: Sequence[Entry]) -> str:
    """How an ended job ended."""
    last = [entry for entry in history if entry.kind in ("end", "reject", "stop", "cancel")]
    return "rejected" if last[-1].kind == "reject" else str(last[-1].body["ending"])


def lines(history: Sequence[Entry], job_id: str, nodes: Sequence[Node]) -> list[dict[str, Any]]:
    """The entries in order: sequence, at, what, and its details: actions with decision and ranks, reasons, causes."""
    return [line for entry in history for line in _lines(entry, job_id, nodes)]


def _lines(entry: Entry, job_id: str, nodes: Sequence[Node]) -> list[dict[str, Any]]:
    line: dict[str, Any] = {"sequence": entry.sequence, "at": instant(entry.at), "what": entry.kind}
    body = entry.body
    if entry.kind == "plan":
        return [
            {**line, "what": action["do"], **_named(action, nodes)}
            for action in body["actions"]
            if job_id in (action["job_id"], action.get("by_job"))
        ]
    if entry.kind == "reasons":
        return [{**line, "what": "waits", "reasons": body[job_id]}]
    found = {key: body[key] for key in DETAILS if key in body}
    if "measured_at" in found:
        found["measured_at"] = instant(found["measured_at"])
    return [line | found]


def _named(action: Mapping[str, Any], nodes: Sequence[Node]) -> dict[str, Any]:
    """An action with names of nodes and devices instead of their numbers."""
    found = {key: value for key, value in action.items() if key not in ("do", "grants")}
    if "grants" in action:
        grants = [read(Grant, grant, "grant") for grant in action["grants"]]
        found["ranks"] = [rank.plain() for rank in ranks_of(nodes, grants)]
    return found
