"""Who did what to prices, tenants, credits and invoices, when and from what."""

from __future__ import annotations

import getpass
import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from warehouse.store import Store


def record(
    store: Store,
    at: datetime,
    actor: str,
    action: str,
    what: str,
    reason: str = "",
    inputs: Mapping[str, Any] | None = None,
) -> None:
    """Notes an action after it was done. `action` is like `rates.apply`; `what` names what it was done to."""
    record_all(store, at, actor, action, [what], reason, [inputs or {}])


def record_all(
    store: Store,
    at: datetime,
    actor: str,
    action: str,
    what: Sequence[str],
    reason: str,
    inputs: Sequence[Mapping[str, Any]],
) -> None:
    """Notes one action on several things, each with its own inputs."""
    store.command(
        "INSERT INTO audit (at, actor, action, object, reason, inputs) "
        "SELECT {at:DateTime64(3, 'UTC')}, {actor:String}, {action:String}, done.1, {reason:String}, done.2 "
        "FROM (SELECT arrayJoin(arrayZip({objects:Array(String)}, {inputs:Array(String)})) AS done)",
        {
            "at": at,
            "actor": actor,
            "action": action,
            "objects": list(what),
            "reason": reason,
            "inputs": [json.dumps(one, sort_keys=True, ensure_ascii=False, default=str) for one in inputs],
        },
    )


def history(store: Store, action: str = "", what: str = "") -> list[dict[str, Any]]:
    """The actions, the oldest first; of one kind (`invoice`, or `invoice.void`) or on one thing alone."""
    return store.rows(
        "SELECT at, actor, action, object, reason, inputs FROM audit FINAL "
        "WHERE ({action:String} = '' OR action = {action:String} OR startsWith(action, concat({action:String}, '.'))) "
        "AND ({object:String} = '' OR object = {object:String}) ORDER BY at, action, object",
        {"action": action, "object": what},
    )


def whoever(author: str = "") -> str:
    """The author named, or the user that this process belongs to."""
    try:
        return author or getpass.getuser()
    except (KeyError, OSError):
        return "unknown"
