"""Helpers to read API objects as parsed JSON (dicts and lists), in which every field may be missing."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

from warehouse.instants import rfc3339

Object = Mapping[str, Any]

_TIME = re.compile(r"(\d{4}-\d\d-\d\d)T(\d\d:\d\d:\d\d)(?:\.(\d+))?(Z|[+-]\d\d:\d\d)")


def at(stamp: Any) -> datetime | None:
    """An RFC 3339 stamp as an aware UTC datetime; None if there is none (Go's zero time is none)."""
    match = _TIME.fullmatch(stamp) if isinstance(stamp, str) else None
    if match is None:
        return None
    day, clock, fraction, zone = match.groups()
    try:
        found = datetime.fromisoformat(f"{day}T{clock}{'+00:00' if zone == 'Z' else zone}").astimezone(UTC)
    except (ValueError, OverflowError):
        return None
    found = found.replace(microsecond=int(((fraction or "") + "000")[:3]) * 1000)
    return found if found.year > 1970 else None


def written(when: datetime) -> str:
    """An instant as the API writes it."""
    return rfc3339(when, "seconds")


def child(of: Any, *path: str) -> Mapping[str, Any]:
    """The object at a path of keys, empty if anything on the way is missing or no object."""
    for key in path:
        of = of.get(key) if isinstance(of, dict) else None
    return of if isinstance(of, dict) else {}


def items(of: Any, key: str) -> list[Mapping[str, Any]]:
    """The objects in a list field."""
    found = of.get(key) if isinstance(of, dict) else None
    return [item for item in found if isinstance(item, dict)] if isinstance(found, list) else []


def text(of: Any, key: str) -> str:
    found = of.get(key) if isinstance(of, dict) else None
    return found if isinstance(found, str) else ""


def whole(said: str) -> int | None:
    """The number that a label or an annotation says; None if it is none of at most 18 digits. Whoever owns an object
    writes them, and Python reads no number of thousands of digits."""
    return int(said) if re.fullmatch(r"[0-9]{1,18}", said) else None


def uid(of: Object) -> str:
    return text(child(of, "metadata"), "uid")


def name(of: Object) -> str:
    return text(child(of, "metadata"), "name")


def namespace(of: Object) -> str:
    return text(child(of, "metadata"), "namespace")


def created(of: Object) -> datetime | None:
    return at(child(of, "metadata").get("creationTimestamp"))


def condition(of: Object, kind: str) -> Mapping[str, Any]:
    """The status condition of that type, empty if it has none."""
    return next((found for found in items(child(of, "status"), "conditions") if found.get("type") == kind), {})


def mark(of: Object, keys: Iterable[str]) -> str:
    """The first label or annotation among `keys` that has a value."""
    labels, annotations = child(of, "metadata", "labels"), child(of, "metadata", "annotations")
    for key in keys:
        if found := text(labels, key) or text(annotations, key):
            return found
    return ""


def deletion_requested(of: Object) -> datetime | None:
    """When deletion was asked for. The stamp in the object is that plus the grace period, and stays so when shortened.

    Source: k8s.io/apiserver registry/rest/delete.go
    """
    metadata = child(of, "metadata")
    due, grace = at(metadata.get("deletionTimestamp")), metadata.get("deletionGracePeriodSeconds")
    if due is None:
        return None
    seconds = grace if isinstance(grace, int) and not isinstance(grace, bool) and 0 < grace < 10**9 else 0
    return datetime.fromtimestamp(due.timestamp() - seconds, UTC)


def last_written(of: Object, part: str, field: str) -> datetime | None:
    """When whoever owns `part.field` (as status.phase) last changed anything of theirs there.

    None where the server does not keep that time up to date: before 1.25 it is the first write's, and before 1.22 the
    entry does not name its subresource.

    Source: metadata.managedFields; kubernetes/kubernetes#110058
    """
    times = [
        at(entry.get("time"))
        for entry in items(child(of, "metadata"), "managedFields")
        if text(entry, "subresource") == part and f"f:{field}" in child(entry, "fieldsV1", f"f:{part}")
    ]
    return max((found for found in times if found is not None), default=None)
