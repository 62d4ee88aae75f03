"""What the log says of one job, as lines for people and programs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from scheduler.records.events import instant
from scheduler.records.log import Entry


def ended(history: Sequence[Entry]) -> str:
    """How a job that is over ended."""
    last = [entry for entry in history if entry.kind in ("end", "reject", "stop")]
    return "rejected" if last[-1].kind == "reject" else str(last[-1].body["ending"])


def lines(history: Sequence[Entry], job_id: str) -> list[dict[str, Any]]:
    """In order: sequence, at, what, and what belongs to it: actions with their decision, reasons, causes."""
    return [line for entry in history for line in _lines(entry, job_id)]


def _lines(entry: Entry, job_id: str) -> list[dict[str, Any]]:
    line: dict[str, Any] = {"sequence": entry.sequence, "at": instant(entry.at), "what": entry.kind}
    body = entry.body
    if entry.kind == "plan":
        return [
            {**line, "what": action["do"], **{key: value for key, value in action.items() if key != "do"}}
            for action in body["actions"]
            if job_id in (action["job_id"], action.get("by_job"))
        ]
    if entry.kind == "reasons":
        return [{**line, "what": "waits", "reasons": body[job_id]}]
    return [line | {key: body[key] for key in ("actor", "ending", "cause") if key in body}]
