"""What is sent to the API: calls, and events about objects. Pure."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from datetime import datetime

from collectors.kubernetes.objects import Object, name, namespace, uid, written

MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
"""Of lists, such as conditions, it changes what it names and keeps the rest."""


@dataclass(frozen=True, slots=True)
class Call:
    """A write request to the API."""

    method: str
    path: str
    body: Object
    content: str = "application/json"


def event_on(of: Object, version: str, kind: str, event: tuple[str, str, str], now: datetime) -> Call:
    """Named by what it says and when, so that one that is sent twice is there once."""
    grade, reason, message = event
    identity = f"{uid(of)} {written(now)} {reason} {message}"
    body = {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {
            "name": f"{name(of)}.{hashlib.sha256(identity.encode()).hexdigest()[:16]}",
            "namespace": namespace(of),
        },
        "involvedObject": {
            "apiVersion": version,
            "kind": kind,
            "name": name(of),
            "namespace": namespace(of),
            "uid": uid(of),
        },
        "type": grade,
        "reason": reason,
        "message": message[:1000],
        "source": {"component": "gpuledger"},
        "firstTimestamp": written(now),
        "lastTimestamp": written(now),
        "count": 1,
    }
    return Call("POST", f"/api/v1/namespaces/{namespace(of)}/events", body)
