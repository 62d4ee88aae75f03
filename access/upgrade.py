"""Moves access data that earlier versions kept in the warehouse: copied into the access store in one transaction, then
dropped from the warehouse.

A kill does no harm: before the commit, nothing is copied; after it, the copied tables are known by their UUID and only
dropped. The owners of old tokens and saved queries, which were plain names, become people: the local user of that name,
else a service account with the rights of that name's tokens.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, select

from access.principal import ANYBODY, LOCAL, SERVICE
from access.store import AccessStore, AccessStoreError, copied, migrations, people, saved_queries, tokens
from warehouse.store import MOVED_OUT, identifier, read_sql, split_statements

log = logging.getLogger(__name__)
ACTOR = "upgrade"
RENAMED_COLUMNS = "0003_renamed_columns"
"""The migration that renames columns in saved queries; applied to copied ones too."""


def move_from_warehouse(access: AccessStore, now: datetime) -> None:
    """Copies and drops old tables, if there are any."""
    listed = read_sql(__file__, "old_tables")
    if not access.warehouse.rows(listed, {"names": list(MOVED_OUT)}):
        return
    with access.writing() as connection:
        # Asked again: while we waited for our turn another server may have done it.
        sources = {row["name"]: row["source"] for row in access.warehouse.rows(listed, {"names": list(MOVED_OUT)})}
        done = set(connection.scalars(select(copied.c.source)))
        rows = {
            name: access.warehouse.rows(read_sql(__file__, f"old_{name}")) if source not in done else []
            for name, source in sources.items()
        }
        _copy(connection, access, rows, now)
        for name, source in sources.items():
            if source not in done:
                connection.execute(copied.insert().values(source=source, name=name, copied_at=now))
        if any(rows.values()):
            counts = {name: len(found) for name, found in rows.items()}
            access.note(connection, now, ACTOR, "access.moved", access.url, "out of the analytics engine", counts)
    if any(rows.values()):
        log.warning("access store: users, tokens and saved queries moved to %s. Look over the service accounts that "
                    "own tokens now: gpuledger users list", access.url)  # fmt: skip
    _drop(access)


def _drop(access: AccessStore) -> None:
    for name in MOVED_OUT:
        access.warehouse.command(f"DROP TABLE IF EXISTS {identifier(name)} SYNC")


def _copy(connection: Connection, access: AccessStore, rows: Mapping[str, list[dict[str, Any]]], now: datetime) -> None:
    users = rows.get("access_users", [])
    known = set(connection.scalars(select(people.c.subject).where(people.c.issuer == LOCAL)))
    both = known & {row["name"] for row in users}
    if both:
        what = f"has a user {min(both)!r} already, and so has the warehouse"
        raise AccessStoreError(access.url, what, "Give this warehouse an access store of its own")
    for row in users:
        account = {**row, "disabled": bool(row["disabled"]), "issuer": LOCAL, "subject": row["name"], "kind": "local"}
        connection.execute(people.insert().values(**account))
        known.add(row["name"])
    old_tokens, old_queries = rows.get("access_tokens", []), rows.get("saved_queries", [])
    _add_services(connection, known, old_tokens, old_queries, now)
    for row in old_tokens:
        issuer, subject = _owner(known, row.pop("owner"))
        values = {**row, "revoked": bool(row["revoked"]), "issuer": issuer, "subject": subject}
        connection.execute(tokens.insert().values(**values))
    for row in old_queries:
        issuer, subject = ANYBODY.id if row["owner"] == ANYBODY.name else _owner(known, row["owner"])
        values = {**row, "shared": bool(row["shared"]), "issuer": issuer, "subject": subject}
        connection.execute(saved_queries.insert().values(**values))
    for statement in split_statements(next(text for _, name, text in migrations() if name == RENAMED_COLUMNS)):
        connection.exec_driver_sql(statement)


def _owner(known: set[str], name: str) -> tuple[str, str]:
    return (LOCAL if name in known else SERVICE), name


def _add_services(
    connection: Connection,
    known: set[str],
    old_tokens: Iterable[Mapping[str, Any]],
    old_queries: Iterable[Mapping[str, Any]],
    now: datetime,
) -> None:
    """Accounts for owners that are no local users."""
    roles: dict[tuple[str, str], set[str]] = {}
    tenants: dict[tuple[str, str], set[str]] = {}
    for row in old_tokens:
        owner = _owner(known, row["owner"])
        roles.setdefault(owner, set()).update(row["roles"])
        tenants.setdefault(owner, set()).update(row["tenants"])
    for row in old_queries:
        if row["owner"] != ANYBODY.name:
            roles.setdefault(_owner(known, row["owner"]), set())
    there = {(row.issuer, row.subject) for row in connection.execute(select(people.c.issuer, people.c.subject))}
    for (issuer, subject), its_roles in roles.items():
        if (issuer, subject) not in there:
            connection.execute(
                people.insert().values(
                    issuer=issuer, subject=subject, name=subject, kind="service", roles=frozenset(its_roles),
                    tenants=frozenset(tenants.get((issuer, subject), ())), disabled=False, password="",
                    created_at=now, changed_at=now, changed_by=ACTOR,
                )
            )  # fmt: skip
