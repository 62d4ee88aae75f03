"""People: local users with a password here, users of single sign-on, and service accounts, which only own tokens.

A person is identified by issuer and subject: `local` or `service` and a name, or a provider's address and its subject
for them. The displayed name is only a label: two people may have the same one.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from typing import Any

from sqlalchemy import Connection, RowMapping, or_, select

from access import store as access_store
from access.principal import LOCAL, SERVICE, Principal, label_of
from access.roles import AccessError, Role, roles_of
from access.secrets import LONGEST_PASSWORD, hash_password, matches
from access.store import AccessStore

SHORTEST_PASSWORD = 12
LONGEST_NAME = 200
_people = access_store.people


class Kind(StrEnum):
    """local: signs in with a password; sso: signs in at the provider; service: cannot sign in."""

    local = "local"
    sso = "sso"
    service = "service"


@dataclass(frozen=True)
class Person:
    """A person without the password. seen_at: their last sign-in; None: never."""

    issuer: str
    subject: str
    name: str
    kind: Kind
    roles: frozenset[Role]
    tenants: frozenset[str]
    disabled: bool
    created_at: datetime
    changed_at: datetime
    changed_by: str
    seen_at: datetime | None

    @property
    def id(self) -> tuple[str, str]:
        return self.issuer, self.subject

    @property
    def label(self) -> str:
        """Their name in the audit."""
        return label_of(self.issuer, self.subject, self.name)

    def principal(self) -> Principal:
        return Principal(self.name, self.roles, self.tenants, issuer=self.issuer, subject=self.subject)


def add_person(
    access: AccessStore,
    actor: str,
    now: datetime,
    name: str,
    password: str,
    roles: Iterable[str],
    tenants: Iterable[str] = (),
    kind: Kind = Kind.local,
) -> Person:
    """Adds a local user, or a service account, which has no password.

    Errors: AccessError if the name is taken, the password too short or the roles invalid.
    """
    person = new_person(actor, now, name, roles_of(roles), frozenset(tenants), kind)
    hashed = _hashed(password) if kind is Kind.local else ""
    with access.writing() as connection:
        write_new(connection, person, hashed)
        access.note(connection, now, actor, "user.add", person.label, "", inputs(person))
    return person


def new_person(
    actor: str, now: datetime, name: str, roles: frozenset[Role], tenants: frozenset[str], kind: Kind
) -> Person:
    """A new local user or service account that is not stored yet. Errors: AccessError for an invalid name or roles."""
    usable = name.strip() and len(name) <= LONGEST_NAME and name.isprintable() and not name.endswith(")")
    if not usable:
        what = f"Up to {LONGEST_NAME} printable characters are allowed, without a bracket at the end"
        raise AccessError(f"user {name[:50]!r}", "is not a valid name", what)
    plain = unicodedata.normalize("NFKC", name).strip()
    if name != plain:
        what = "looks like another one: it has spaces around it, or characters that Unicode writes otherwise (NFKC)"
        raise AccessError(f"user {name[:50]!a}", what, f"Write it as {plain[:50]!a}")
    issuer = LOCAL if kind is Kind.local else SERVICE
    return _checked(Person(issuer, name, name, kind, roles, tenants, False, now, now, actor, None))


def write_new(connection: Connection, person: Person, hashed: str = "") -> None:
    """Errors: AccessError if they exist already."""
    if _row(connection, person.id) is not None:
        where = "user" if person.kind is Kind.local else "service account"
        raise AccessError(f"{where} {person.name!r}", "already exists", "Change it with: gpuledger users set")
    connection.execute(_people.insert().values(**_values(person), password=hashed))


def change_person(
    access: AccessStore,
    actor: str,
    now: datetime,
    name: str,
    password: str | None = None,
    roles: Iterable[str] | None = None,
    tenants: Iterable[str] | None = None,
    disabled: bool | None = None,
    issuer: str = "",
) -> Person:
    """Changes what is given and leaves the rest; a new password and disabling end all sessions.

    name, issuer: as for `find_person`.   Errors: AccessError as for `add_person`, or if nobody has that name, for what
    only the provider decides, or if no admin who can sign in would be left.
    """
    hashed = None if password is None else _hashed(password)
    with access.writing() as connection:
        before = find_person(connection, name, issuer)
        if before.kind is Kind.sso and (roles is not None or tenants is not None):
            what = "has the roles and tenants that their provider tells at each sign-in"
            raise AccessError(f"user {name!r}", what, "Change their groups there, or disable them here")
        if before.kind is not Kind.local and password is not None:
            raise AccessError(f"user {name!r}", f"is of kind {before.kind}, which has no password", "Leave it out")
        person = replace(
            before,
            roles=before.roles if roles is None else roles_of(roles),
            tenants=before.tenants if tenants is None else frozenset(tenants),
            disabled=before.disabled if disabled is None else disabled,
            changed_at=now,
            changed_by=actor,
        )
        values = {**_values(_checked(person)), **({} if hashed is None else {"password": hashed})}
        connection.execute(_people.update().where(*_is(person.id)).values(**values))
        if _administers(before) and not any(map(_administers, _everybody(connection))):
            raise AccessError(person.label, "is the last admin who can sign in", "Make somebody else an admin first")
        if person.disabled or hashed is not None:
            end_sessions(connection, person.id)
        changed = {**inputs(person), "password": "unchanged" if hashed is None else "changed"}
        access.note(connection, now, actor, "user.change", person.label, "", changed)
    return person


def list_people(access: AccessStore) -> list[Person]:
    """All of them, by name."""
    with access.reading() as connection:
        return _everybody(connection)


def find_person(connection: Connection, name: str, issuer: str = "") -> Person:
    """The person with a name or a subject, of that issuer or of any."""
    if issuer and (exact := person_at(connection, (issuer, name))) is not None:
        return exact
    meant = or_(_people.c.name == name, _people.c.subject == name)
    asked = select(_people).where(meant, *([_people.c.issuer == issuer] if issuer else []))
    found = [person_of(row) for row in connection.execute(asked).mappings()]
    if not found:
        raise UnknownPersonError(f"user {name!r}", "is not known", "See: gpuledger users list")
    if len(found) > 1:
        who = ", ".join(sorted(f"{one.subject} of {one.issuer}" for one in found))
        raise AccessError(f"user {name!r}", f"may be {who}", "Say which: the subject, with --issuer")
    return found[0]


def person_at(connection: Connection, who: tuple[str, str]) -> Person | None:
    """The person of that issuer and subject."""
    row = _row(connection, who)
    return None if row is None else person_of(row)


class UnknownPersonError(AccessError):
    """Nobody has that name."""


def checked_password(access: AccessStore, name: str, password: str) -> tuple[Person, str] | None:
    """The local user with that name and password, and its hash; None otherwise. Unknown names take as long."""
    with access.reading() as connection:
        row = _row(connection, (LOCAL, name))
    stored = "" if row is None or row["disabled"] else row["password"]
    right = matches(password, stored)
    return (person_of(row), stored) if row is not None and right else None


def has_password(connection: Connection, person: Person, hashed: str) -> bool:
    """Whether that is still the hash of their password, and they are not disabled."""
    row = _row(connection, person.id)
    return row is not None and not row["disabled"] and row["password"] == hashed


def update_from_provider(
    connection: Connection,
    issuer: str,
    subject: str,
    name: str,
    roles: frozenset[Role],
    tenants: frozenset[str],
    now: datetime,
) -> Person:
    """Adds or updates a user of single sign-on as the provider just described them; who is disabled stays so."""
    row = _row(connection, (issuer, subject))
    if row is None:
        person = Person(issuer, subject, name, Kind.sso, roles, tenants, False, now, now, "sign-in", now)
        connection.execute(_people.insert().values(**_values(person), password=""))
        return person
    person = replace(person_of(row), name=name, roles=roles, tenants=tenants, seen_at=now)
    connection.execute(_people.update().where(*_is(person.id)).values(**_values(person)))
    return person


def record_sign_in(connection: Connection, person: Person, now: datetime) -> None:
    connection.execute(_people.update().where(*_is(person.id)).values(seen_at=now))


def person_of(row: RowMapping | Mapping[str, Any]) -> Person:
    return Person(
        **{name: row[name] for name in ("issuer", "subject", "name", "tenants", "disabled", "created_at", "changed_at",
                                        "changed_by", "seen_at")},
        kind=Kind(row["kind"]),
        roles=roles_of(row["roles"]),
    )  # fmt: skip


def inputs(person: Person) -> dict[str, Any]:
    """The person as the audit records them."""
    sets = {"roles": sorted(person.roles), "tenants": sorted(person.tenants)}
    return {"kind": person.kind, **sets, "disabled": person.disabled}


def _everybody(connection: Connection) -> list[Person]:
    rows = connection.execute(select(_people).order_by(_people.c.name, _people.c.issuer, _people.c.subject))
    return [person_of(row) for row in rows.mappings()]


def _administers(person: Person) -> bool:
    """Whether they can sign in and manage other people."""
    return Role.admin in person.roles and not person.disabled and person.kind is not Kind.service


def _values(person: Person) -> dict[str, Any]:
    return {**vars(person), "kind": str(person.kind)}


def _row(connection: Connection, who: tuple[str, str]) -> RowMapping | None:
    return connection.execute(select(_people).where(*_is(who))).mappings().first()


def _is(who: tuple[str, str]) -> tuple[Any, Any]:
    return _people.c.issuer == who[0], _people.c.subject == who[1]


def end_sessions(connection: Connection, who: tuple[str, str]) -> None:
    """Ends all sessions of a person."""
    sessions = access_store.sessions
    connection.execute(sessions.delete().where(sessions.c.issuer == who[0], sessions.c.subject == who[1]))


def _checked(person: Person) -> Person:
    if not person.roles and not person.disabled:
        raise AccessError(f"user {person.name!r}", "has no role", f"Choose from {', '.join(Role)}")
    if Role.tenant in person.roles and not person.tenants:
        raise AccessError(f"user {person.name!r}", "has the role tenant and no tenant", "Name the tenants")
    check_tenants(f"user {person.name!r}", person.tenants)
    return person


def check_tenants(where: str, tenants: Iterable[str]) -> None:
    """Errors: AccessError for an empty name: the rows without a tenant are the platform's."""
    if not all(tenant.strip() for tenant in tenants):
        raise AccessError(where, "has a tenant without a name", "Name the tenants")


def _hashed(password: str) -> str:
    if not SHORTEST_PASSWORD <= len(password) <= LONGEST_PASSWORD:
        raise AccessError(
            "password", f"has {len(password)} characters", f"Use {SHORTEST_PASSWORD} to {LONGEST_PASSWORD} characters"
        )
    return hash_password(password)
