"""The audit: who changed prices, tenants, credits, invoices and held pushes, when, and from which inputs; and what
senders pushed.

An action is noted before it is done, once it is certain that it may be: killed in between, the audit says more than
was done, never less. Only actions that are rows of a chained table with an author are noted afterwards, as each such
row itself says who, when and why.
"""

from __future__ import annotations

import contextlib
import getpass
import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from warehouse.chain import append_anyway
from warehouse.errors import LedgerError, UnansweredError
from warehouse.store import Store, read_sql


def record(
    store: Store,
    at: datetime,
    actor: str,
    action: str,
    what: str,
    reason: str = "",
    inputs: Mapping[str, Any] | None = None,
) -> None:
    """Notes an action. `action` is like `rates.apply`; `what` names what it is done to."""
    record_all(store, at, actor, action, [what], reason, [inputs or {}])


@contextlib.contextmanager
def around(
    store: Store,
    at: datetime,
    actor: str,
    action: str,
    what: str,
    reason: str,
    inputs: Mapping[str, Any],
) -> Iterator[dict[str, Any]]:
    """Notes an action that takes long, or that others carry out, before it begins, and what came of it: as
    `ACTION.done` with what the caller puts into the dict, as `ACTION.failed` with the error, or as `ACTION.unknown` if
    whoever was asked did not say. With none of these, this process was killed meanwhile, and nobody knows."""
    record(store, at, actor, action, what, reason, inputs)
    outcome: dict[str, Any] = {}
    try:
        yield outcome
    except UnansweredError as error:
        record(store, at, actor, f"{action}.unknown", what, "", {"error": str(error)})
        raise
    except LedgerError as error:
        record(store, at, actor, f"{action}.failed", what, "", {"error": str(error)})
        raise
    record(store, at, actor, f"{action}.done", what, "", outcome)


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
    import pyarrow as pa

    count = len(what)
    texts = [as_json(one) for one in inputs]
    columns = {
        "at": pa.array([at] * count, pa.timestamp("ms", "UTC")),
        "actor": pa.array([actor] * count, pa.string()),
        "action": pa.array([action] * count, pa.string()),
        "object": pa.array(list(what), pa.string()),
        "reason": pa.array([reason] * count, pa.string()),
        "inputs": pa.array(texts, pa.string()),
    }
    append_anyway(store, "audit", pa.table(columns))


def as_json(inputs: Mapping[str, Any]) -> str:
    """The inputs of an action, as the audit stores them."""
    return json.dumps(inputs, sort_keys=True, ensure_ascii=False, default=str)


def is_recorded(store: Store, entry: Mapping[str, Any]) -> bool:
    """Whether exactly that entry exists; compares all of its columns, inputs as written by `as_json`."""
    return bool(store.value(read_sql(__file__, "audit_has"), entry))


def history(store: Store, action: str = "", what: str = "") -> list[dict[str, Any]]:
    """The actions, the oldest first; of one kind (`invoice`, or `invoice.void`) or on one thing alone. What a sender
    pushed on a day is one of them (`push.day`)."""
    return store.rows(read_sql(__file__, "history"), {"action": action, "object": what})


def whoever(author: str = "") -> str:
    """The given author, or the user that this process runs as."""
    try:
        return author or getpass.getuser()
    except (KeyError, OSError):
        return "unknown"
