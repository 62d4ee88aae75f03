"""Saved queries: statements that people keep by a name, for themselves or for all who may ask SQL.

A name is its owner's: two people may use the same, and two people who are called the same are two. A query is text
alone: it runs as whoever runs it, and shows what they may see.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from datetime import datetime

from sqlalchemy import Connection, select

from access import store as access_store
from access.people import find_person
from access.principal import ForbiddenError, Principal
from access.roles import Role
from access.store import AccessStore
from api.sql.limits import Limits
from warehouse.errors import LedgerError

LONGEST_NAME, LONGEST_DESCRIPTION = 100, 1000
_queries = access_store.saved_queries
_NAME = re.compile(r"[^\s/\\](?:[^/\\]*[^\s/\\])?")


class SavedQueryError(LedgerError):
    """A query that cannot be saved, does not exist, or is ambiguous."""


class UnknownQueryError(SavedQueryError):
    """There is no query of that name that the caller may see."""


@dataclass(frozen=True)
class SavedQuery:
    """issuer, subject: whose it is; owner: what they are called.   shared: whether others who may ask SQL see it.
    changed_by: its owner, or an admin."""

    issuer: str
    subject: str
    owner: str
    name: str
    text: str
    description: str
    shared: bool
    created_at: datetime
    changed_at: datetime
    changed_by: str

    @property
    def id(self) -> tuple[str, str]:
        """Identifies its owner."""
        return self.issuer, self.subject

    def may_be_changed_by(self, who: Principal) -> bool:
        """Whether the caller may change it."""
        return self.id == who.id or Role.admin in who.roles


def saved_queries(access: AccessStore, who: Principal) -> list[SavedQuery]:
    """One's own and those that are shared, by name; an admin sees everybody's."""
    with access.reading() as connection:
        return _seen(connection, who)


def saved_query(access: AccessStore, who: Principal, name: str, owner: str = "", issuer: str = "") -> SavedQuery:
    """The one of that name: one's own, else the shared one, else (for an admin) somebody's. owner, issuer: that
    person's.

    Errors: UnknownQueryError; SavedQueryError where several share one of that name.
    """
    with access.reading() as connection:
        found = _named(_seen(connection, who, name), owner, issuer)
    for nearest in (
        [one for one in found if one.id == who.id],
        [one for one in found if one.shared],
        found,
    ):
        if len(nearest) > 1:
            raise _ambiguous(name, nearest)
        if nearest:
            return nearest[0]
    whose = f" of {owner}" if owner else ""
    raise UnknownQueryError(
        f"query {name!r}{whose}", "does not exist, or you don't have access to it", "See: gpuledger queries list"
    )


def save_query(
    access: AccessStore,
    who: Principal,
    now: datetime,
    name: str,
    text: str,
    description: str = "",
    shared: bool = False,
    owner: str = "",
    issuer: str = "",
) -> SavedQuery:
    """Writes a query, or writes it anew; the same again changes nothing.

    owner, issuer: by default whoever saves it.   Errors: ForbiddenError for somebody else's, unless an admin saves it;
    SavedQueryError for a name or text of no use.
    """
    _check(name, text, description)
    with access.writing() as connection:
        before = _to_change(connection, who, name, owner, issuer)
        (its_issuer, subject), label = (before.id, before.owner) if before else _owner(connection, who, owner, issuer)
        wanted = SavedQuery(
            its_issuer, subject, label, name, text, description, shared, before.created_at if before else now, now,
            who.actor,
        )  # fmt: skip
        if before is not None:
            if replace(wanted, changed_at=before.changed_at, changed_by=before.changed_by) == before:
                return before
            _delete(connection, before)
        connection.execute(_queries.insert().values(**vars(wanted)))
        inputs = {"owner": label, "issuer": its_issuer, "shared": shared, "new": before is None}
        access.note(connection, now, who.actor, "query.save", name, description, inputs)
    return wanted


def delete_query(
    access: AccessStore, who: Principal, now: datetime, name: str, owner: str = "", issuer: str = ""
) -> SavedQuery:
    """Deletes a query, one's own or, for an admin, somebody's. Errors: as for `save_query`; UnknownQueryError."""
    with access.writing() as connection:
        gone = _to_change(connection, who, name, owner, issuer)
        if gone is None:
            raise UnknownQueryError(
                f"query {name!r} of {owner or who.name}", "is not there", "See: gpuledger queries list"
            )
        _delete(connection, gone)
        inputs = {"owner": gone.owner, "issuer": gone.issuer, "shared": gone.shared}
        access.note(connection, now, who.actor, "query.delete", name, "", inputs)
    return replace(gone, changed_at=now, changed_by=who.actor)


def _to_change(connection: Connection, who: Principal, name: str, owner: str, issuer: str) -> SavedQuery | None:
    """The query to change, or None. Errors: ForbiddenError if the caller may not change it."""
    of_that_name = _rows(connection, name)
    if _is_own(who, owner, issuer):
        return next((one for one in of_that_name if one.id == who.id), None)
    if Role.admin not in who.roles:
        what = f"query {name!r} of {owner} is not yours to change"
        raise ForbiddenError(who.actor, what, "Save one of your own, or ask an admin")
    meant = _named(of_that_name, owner, issuer)
    if len(meant) > 1:
        raise _ambiguous(name, meant)
    return meant[0] if meant else None


def _is_own(who: Principal, owner: str, issuer: str) -> bool:
    """Whether they name themselves as the owner, or nobody."""
    return owner in ("", who.name, who.id[1]) and issuer in ("", who.issuer)


def _owner(connection: Connection, who: Principal, owner: str, issuer: str) -> tuple[tuple[str, str], str]:
    """The owner of a new query: issuer, subject and name."""
    if _is_own(who, owner, issuer):
        return who.id, who.name
    person = find_person(connection, owner, issuer)
    return person.id, person.name


def _ambiguous(name: str, found: list[SavedQuery]) -> SavedQueryError:
    owners = ", ".join(one.owner if one.issuer == "local" else f"{one.owner} of {one.issuer}" for one in found)
    return SavedQueryError(f"query {name!r}", f"{owners} each have one of that name", "Say whose: owner and issuer")


def _check(name: str, text: str, description: str) -> None:
    if len(name) > LONGEST_NAME or not _NAME.fullmatch(name) or not name.isprintable() or not name.strip("."):
        fits = f"Up to {LONGEST_NAME} printable characters are allowed, without slashes or surrounding spaces"
        raise SavedQueryError(f"query {name[:LONGEST_NAME]!r}", "is not a valid name", fits)
    longest = Limits().text_bytes
    if not text.strip() or len(text.encode()) > longest:
        raise SavedQueryError(f"query {name!r}", "is empty or too long", f"Use 1 to {longest:,} bytes of SQL")
    if len(description) > LONGEST_DESCRIPTION:
        raise SavedQueryError(f"query {name!r}", f"its description has over {LONGEST_DESCRIPTION:,} characters")


def _seen(connection: Connection, who: Principal, name: str = "") -> list[SavedQuery]:
    """The queries that the caller may see, of that name or all."""
    return [one for one in _rows(connection, name) if one.shared or one.id == who.id or Role.admin in who.roles]


def _named(found: list[SavedQuery], owner: str, issuer: str) -> list[SavedQuery]:
    """The queries of that owner; empty: anybody's. An exact match of the owner is preferred to others of the same
    name."""
    exact = [one for one in found if one.id == (issuer, owner)]
    return exact or [one for one in found if owner in ("", one.owner, one.subject) and issuer in ("", one.issuer)]


def _rows(connection: Connection, name: str = "") -> list[SavedQuery]:
    asked = select(_queries).order_by(_queries.c.name, _queries.c.owner, _queries.c.issuer, _queries.c.subject)
    if name:
        asked = asked.where(_queries.c.name == name)
    return [SavedQuery(**row) for row in connection.execute(asked).mappings()]


def _delete(connection: Connection, one: SavedQuery) -> None:
    its = (_queries.c.issuer == one.issuer, _queries.c.subject == one.subject, _queries.c.name == one.name)
    connection.execute(_queries.delete().where(*its))
