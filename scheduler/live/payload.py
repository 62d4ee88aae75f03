"""The payload that describes a job's processes, validated before the job is accepted."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from scheduler.model import Job, Node
from scheduler.placement.shapes import suits

KEYS = ("command", "env", "directory", "resize", "retries")
MOST_RETRIES = 100
RESIZES = ("restart", "signal")
MOST_BYTES = 100_000
"""Maximum bytes of command and environment: below the kernel's limit, so that accepted jobs can be started."""
STARTED_BY = {"kubernetes": "Kubernetes", "slurm": "Slurm"}


def unfit(payload: Mapping[str, Any]) -> str:
    """Why a payload describes no process; '' if it does."""
    unknown = sorted(set(payload) - set(KEYS))
    if unknown:
        return f"payload.{unknown[0]}: unknown field; known: {', '.join(KEYS)}"
    command, env, directory = (payload.get(key) for key in KEYS[:3])
    if not isinstance(command, list) or not command or not all(_is_word(word) for word in command) or not command[0]:
        return "payload.command is not a list of words, and processes are started here"
    if env is not None and not (
        isinstance(env, dict)
        and all(re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name) and _is_word(value) for name, value in env.items())
    ):
        return "payload.env is not an object of names and texts"
    if directory is not None and not (_is_word(directory) and directory.startswith("/")):
        return "payload.directory is not an absolute path"
    if payload.get("resize", "restart") not in RESIZES:
        return f"payload.resize is {str(payload['resize'])[:40]!r}; expected {' or '.join(RESIZES)}"
    retries = payload.get("retries", 0)
    if type(retries) is not int or not 0 <= retries <= MOST_RETRIES:
        return f"payload.retries is {str(retries)[:40]!r}; expected a whole number up to {MOST_RETRIES}"
    size = sum(len(text.encode()) for text in [*command, *(env or {}), *(env or {}).values()])
    return f"payload is of {size:,} bytes, at most {MOST_BYTES:,} can be started" if size > MOST_BYTES else ""


def candidates(job: Job, nodes: Sequence[Node]) -> list[Node]:
    """Nodes on which a replica of the job could be placed at some time."""
    request = job.request
    return [
        node
        for node in nodes
        if suits(node, request)
        and sum(not request.models or device.model in request.models for device in node.devices) >= request.devices
    ]


def unstartable(job: Job, nodes: Sequence[Node]) -> str:
    """Why a job's processes cannot be started on some node where it could be placed; '' if they can."""
    for node in candidates(job, nodes):
        if node.launcher:
            return (
                f"may be placed on {node.name}, where {STARTED_BY[node.launcher]} starts the processes:"
                f" submit it there, or ask for another pool"
            )
        if not job.request.devices:
            continue
        if not node.named:
            return f"may be placed on {node.name}, whose devices the settings do not name: list them under hosts"
        if job.request.profile and not any(
            name.startswith(f"{job.request.profile}@") for device in node.devices for name, _ in device.instances
        ):
            return f"may be placed on {node.name}, where no MIG instance is named: list them under instances"
    return ""


def _is_word(value: Any) -> bool:
    if not isinstance(value, str) or "\0" in value:
        return False
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True
