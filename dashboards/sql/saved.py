"""Saved queries: statements that people keep by a name, for themselves or for all who may ask SQL.

A name is its owner's: two people may use the same. Saving it again writes the next version, and the newest counts. A
query is text alone: it runs as whoever runs it, and shows what they may see.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from billing import audit
from dashboards.access.principal import ForbiddenError, Principal
from dashboards.access.roles import Role
from dashboards.sql.limits import Limits
from warehouse.errors import LedgerError
from warehouse.store import Store, read_sql

LONGEST_NAME, LONGEST_DESCRIPTION = 100, 1000
_NAME = re.compile(r"[^\s/\\](?:[^/\\]*[^\s/\\])?")


class SavedQueryError(LedgerError):
    """A query that cannot be saved, or of which there is none, or more than one."""


class UnknownQueryError(SavedQueryError):
    """There is none of that name, or none that whoever asks may see."""


@dataclass(frozen=True)
class SavedQuery:
    """shared: whether others who may ask SQL see it.   changed_by: its owner, or an admin."""

    owner: str
    name: str
    text: str
    description: str
    shared: bool
    created_at: datetime
    changed_at: datetime
    changed_by: str

    def is_changed_by(self, who: Principal) -> bool:
        """Whether it is theirs to change."""
        return self.owner == who.name or Role.admin in who.roles


def saved_queries(store: Store, who: Principal) -> list[SavedQuery]:
    """One's own and those that are shared, by name; an admin sees everybody's."""
    return _rows(store, who.name, Role.admin in who.roles)


def saved_query(store: Store, who: Principal, name: str, owner: str = "") -> SavedQuery:
    """The one of that name: one's own, else the shared one, else (for an admin) somebody's. owner: that person's.

    Errors: UnknownQueryError; SavedQueryError where several share one of that name.
    """
    found = [one for one in _rows(store, who.name, Role.admin in who.roles, name) if owner in ("", one.owner)]
    for nearest in (
        [one for one in found if one.owner == who.name],
        [one for one in found if one.shared],
        found,
    ):
        if len(nearest) > 1:
            owners = ", ".join(one.owner for one in nearest)
            raise SavedQueryError(f"query {name!r}", f"{owners} each have one of that name", "Say whose, by its owner")
        if nearest:
            return nearest[0]
    whose = f" of {owner}" if owner else ""
    raise UnknownQueryError(
        f"query {name!r}{whose}", "there is none of that name for you", "See: gpuledger queries list"
    )


def save_query(
    store: Store,
    who: Principal,
    now: datetime,
    name: str,
    text: str,
    description: str = "",
    shared: bool = False,
    owner: str = "",
) -> SavedQuery:
    """Writes a query, or its next version; the same again changes nothing.

    owner: by default whoever saves it.   Errors: ForbiddenError for somebody else's, unless an admin saves it;
    SavedQueryError for a name or text of no use.
    """
    whose = _to_change(who, name, owner)
    _check(name, text, description)
    before = _standing(store, whose, name)
    wanted = SavedQuery(whose, name, text, description, shared, before.created_at if before else now, now, who.name)
    if before is not None and replace(wanted, changed_at=before.changed_at, changed_by=before.changed_by) == before:
        return before
    _write(store, wanted)
    inputs = {"owner": whose, "shared": shared, "new": before is None}
    audit.record(store, now, who.name, "query.save", name, description, inputs)
    return wanted


def delete_query(store: Store, who: Principal, now: datetime, name: str, owner: str = "") -> SavedQuery:
    """Deletes a query, one's own or, for an admin, somebody's. Errors: as for `save_query`; UnknownQueryError."""
    whose = _to_change(who, name, owner)
    before = _standing(store, whose, name)
    if before is None:
        raise UnknownQueryError(f"query {name!r} of {whose}", "is not there", "See: gpuledger queries list")
    gone = replace(before, changed_at=now, changed_by=who.name)
    _write(store, gone, deleted_at=now)
    audit.record(store, now, who.name, "query.delete", name, "", {"owner": whose, "shared": before.shared})
    return gone


def _to_change(who: Principal, name: str, owner: str) -> str:
    """Whose query is meant."""
    if owner not in ("", who.name) and Role.admin not in who.roles:
        what = f"query {name!r} of {owner} is not yours to change"
        raise ForbiddenError(who.name, what, "Save one of your own, or ask an admin")
    return owner or who.name


def _check(name: str, text: str, description: str) -> None:
    if len(name) > LONGEST_NAME or not _NAME.fullmatch(name) or not name.isprintable() or not name.strip("."):
        fits = f"Up to {LONGEST_NAME} printable characters fit, without slashes or spaces around them"
        raise SavedQueryError(f"query {name[:LONGEST_NAME]!r}", "that is no name", fits)
    longest = Limits().text_bytes
    if not text.strip() or len(text.encode()) > longest:
        raise SavedQueryError(f"query {name!r}", "has no text, or too much", f"1 to {longest:,} bytes of SQL fit")
    if len(description) > LONGEST_DESCRIPTION:
        raise SavedQueryError(f"query {name!r}", f"its description has over {LONGEST_DESCRIPTION:,} characters")


def _standing(store: Store, owner: str, name: str) -> SavedQuery | None:
    return next((one for one in _rows(store, owner, False, name) if one.owner == owner), None)


def _rows(store: Store, owner: str, all_: bool, name: str = "") -> list[SavedQuery]:
    rows = store.rows(read_sql(__file__, "saved_queries"), {"owner": owner, "all": int(all_), "name": name})
    return [SavedQuery(**{**row, "shared": bool(row["shared"])}) for row in rows]


def _write(store: Store, one: SavedQuery, deleted_at: datetime | None = None) -> None:
    import pyarrow as pa

    moment = pa.timestamp("ms", "UTC")
    columns: dict[str, tuple[Sequence[Any], Any]] = {
        **{name: ([getattr(one, name)], pa.string()) for name in ("owner", "name", "text", "description")},
        "changed_by": ([one.changed_by], pa.string()),
        "shared": ([one.shared], pa.bool_()),
        "created_at": ([one.created_at], moment),
        "changed_at": ([one.changed_at], moment),
        "deleted_at": ([deleted_at], moment),
        "revision": ([int(one.changed_at.astimezone(UTC).timestamp() * 1_000_000)], pa.uint64()),
    }
    store.insert("saved_queries", pa.table({name: pa.array(*column) for name, column in columns.items()}))
