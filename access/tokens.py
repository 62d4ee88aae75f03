"""API tokens: each belongs to somebody, expires, and has limited scopes; only its hash is stored.

A token may do what it was created for and its owner may do now: when its owner loses a right, so does the token.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Connection, RowMapping, Select, bindparam, select

from access import store as access_store
from access.people import (
    Kind,
    Person,
    UnknownPersonError,
    check_tenants,
    find_person,
    inputs,
    new_person,
    person_at,
    person_of,
    write_new,
)
from access.principal import SERVICE, Principal
from access.roles import AccessError, Action, Role, Scope, common_roles, covers, roles_of, scopes_of
from access.secrets import digest, new_token, same
from access.store import AccessStore

LONGEST = timedelta(days=366)
_tokens, _people = access_store.tokens, access_store.people
_NO_DIGEST = "0" * 64
"""No token's digest."""


@dataclass(frozen=True)
class Token:
    """A token without its secret. roles, tenants: upper limits; see `principal`."""

    id: str
    name: str
    owner: Person
    roles: frozenset[Role]
    tenants: frozenset[str]
    scopes: frozenset[Scope]
    created_at: datetime
    created_by: str
    expires_at: datetime
    revoked: bool

    def usable(self, now: datetime) -> bool:
        return not self.revoked and now < self.expires_at and not self.owner.disabled

    def principal(self) -> Principal | None:
        """The caller that it stands for: its owner's current rights, limited to the token's. None: none are left."""
        roles, owner = common_roles(self.roles, self.owner.roles), self.owner.principal()
        made_for = Principal(owner.name, self.roles, self.tenants)
        tenants = self.tenants if owner.sees_all else owner.tenants
        seen = tenants if made_for.sees_all else tenants & self.tenants
        if not roles or (roles == {Role.tenant} and not seen):
            return None
        return replace(owner, roles=roles, tenants=seen, scopes=self.scopes, how="token", expires_at=self.expires_at)

    def may_be_managed_by(self, who: Principal) -> bool:
        """Whether the caller may see and revoke it. A caller with a token cannot manage tokens with more rights, even
        of the same owner: a tenant's token that an admin made for themselves does not reach the admin's others."""
        no_more = covers(who.roles, self.roles) and (who.sees_all or self.tenants <= who.tenants)
        return Role.admin in who.roles or (self.owner.id == who.id and (no_more or who.how != "token"))


def create_token(
    access: AccessStore,
    maker: Principal,
    now: datetime,
    name: str,
    lasts: timedelta,
    owner: str = "",
    roles: Iterable[str] | None = None,
    tenants: Iterable[str] = (),
    scopes: Iterable[str] = ("read",),
    issuer: str = "",
) -> tuple[Token, str]:
    """Creates a token; returns it with its secret, which is shown only this once.

    lasts: at most; one that is created with a token ends with that one at the latest, so that whoever finds a token
    cannot keep what it may. Who manages access could keep it anyway.
    """
    wanted = maker.roles if roles is None else roles_of(roles)
    seen = frozenset(tenants) if roles is not None or tenants else maker.tenants
    asked, ends = scopes_of(scopes), now + lasts
    _check(maker, wanted, seen, asked, name, lasts)
    if maker.expires_at is not None and not maker.may(Action.manage_access):
        ends = min(ends, maker.expires_at)
    public, text = new_token()
    with access.writing() as connection:
        person, is_new = _owner(connection, maker, now, name, owner, issuer, wanted, seen)
        if not covers(person.roles, wanted) or not all(person.principal().sees(tenant) for tenant in seen):
            may = f"may {', '.join(sorted(person.roles))} {' '.join(sorted(person.tenants))}".strip()
            raise AccessError(f"token for {person.label}", f"would have more rights than its owner, who {may}",
                              "Leave out what is too much, or: gpuledger users set")  # fmt: skip
        token = Token(public, name, person, wanted, seen, asked, now, maker.actor, ends, False)
        columns = {name: value for name, value in vars(token).items() if name != "owner"}
        connection.execute(
            _tokens.insert().values(**columns, digest=digest(text), issuer=person.issuer, subject=person.subject)
        )
        if is_new:
            access.note(
                connection, now, maker.actor, "user.add", person.label, f"owns the token {name}", inputs(person)
            )
        access.note(connection, now, maker.actor, "token.create", public, name, _inputs(token))
    return token, text


def list_tokens(access: AccessStore, who: Principal | None = None) -> list[Token]:
    """All tokens, or those of a principal; the newest first."""
    with access.reading() as connection:
        rows = connection.execute(_with_owner().order_by(_tokens.c.created_at.desc(), _tokens.c.id)).mappings().all()
    found = [_token(row) for row in rows]
    return [one for one in found if who is None or one.may_be_managed_by(who)]


def revoke_token(access: AccessStore, who: Principal, now: datetime, token_id: str, reason: str = "") -> Token:
    """Revokes a token now; repeating it changes nothing."""
    with access.writing() as connection:
        row = connection.execute(_BY_ID, {"public": token_id}).mappings().first()
        token = _token(row) if row is not None else None
        if token is None or not token.may_be_managed_by(who):
            raise AccessError(f"token {token_id!r}", "is not one of yours", "See: gpuledger tokens list")
        if token.revoked:
            return token
        connection.execute(_tokens.update().where(_tokens.c.id == token_id).values(revoked=True))
        access.note(connection, now, who.actor, "token.revoke", token_id, reason)
    return replace(token, revoked=True)


def token_of(access: AccessStore, text: str, now: datetime) -> Token | None:
    """The token with that secret, with its owner's current rights. None: unknown, expired, revoked, or without an
    owner."""
    parts = text.split("_", 2)
    public = parts[1] if len(parts) == 3 else ""
    with access.reading() as connection:
        row = connection.execute(_BY_ID, {"public": public}).mappings().first()
    if not same(row["digest"] if row is not None else _NO_DIGEST, digest(text)) or row is None:
        return None
    token = _token(row)
    return token if token.usable(now) else None


def _owner(
    connection: Connection,
    maker: Principal,
    now: datetime,
    name: str,
    owner: str,
    issuer: str,
    roles: frozenset[Role],
    tenants: frozenset[str],
) -> tuple[Person, bool]:
    """The token's owner, and whether that is a new service account."""
    itself = None if owner or issuer else person_at(connection, maker.id)
    if itself is None and not owner:
        # Whoever opened the store, or came where no sign-in is needed, is nobody whom we know.
        owner, issuer = name, SERVICE
    try:
        found = itself or find_person(connection, owner, issuer)
    except UnknownPersonError:
        if issuer not in ("", SERVICE):
            raise
        maker.require(Action.manage_access)
        person = new_person(maker.actor, now, owner, roles, tenants, Kind.service)
        write_new(connection, person)
        return person, True
    if found.id != maker.id:
        maker.require(Action.manage_access)
    if found.disabled:
        raise AccessError(f"token for {found.label}", "its owner is disabled", "Enable it with: gpuledger users set")
    return found, False


def _check(
    maker: Principal,
    roles: frozenset[Role],
    tenants: frozenset[str],
    scopes: frozenset[Scope],
    name: str,
    lasts: timedelta,
) -> None:
    if not name.strip() or len(name) > 200:
        raise AccessError("token", "has no name, or a very long one", "Say what it is for, in up to 200 characters")
    if not name.isprintable():
        raise AccessError(f"token {name[:50]!r}", "is not a valid name", "Up to 200 printable characters are allowed")
    if not timedelta(0) < lasts <= LONGEST:
        raise AccessError("token", f"would last {lasts}", f"At most {LONGEST.days} days are allowed")
    if not roles or not scopes:
        raise AccessError("token", "may do nothing", "Give it a role and a scope")
    check_tenants("token", tenants)
    if Role.tenant in roles and not tenants:
        raise AccessError("token", "has the role tenant and no tenant", "Name the tenants it is for")
    if not covers(maker.roles, roles) or not all(maker.sees(tenant) for tenant in tenants):
        raise AccessError("token", "would have more rights than you", "Leave out roles and tenants that you don't have")
    if scopes - maker.scopes:
        raise AccessError(
            "token", f"you don't have the scope {', '.join(sorted(scopes - maker.scopes))}", "Leave it out"
        )


def _with_owner() -> Select[Any]:
    """Tokens, with the columns of their owners as owner_..."""
    of_owner = [column.label(f"owner_{column.name}") for column in _people.c]
    is_owner = (_tokens.c.issuer == _people.c.issuer) & (_tokens.c.subject == _people.c.subject)
    return select(_tokens, *of_owner).join(_people, is_owner)


_BY_ID = _with_owner().where(_tokens.c.id == bindparam("public"))


def _token(row: RowMapping) -> Token:
    return Token(
        **{name: row[name] for name in ("id", "name", "tenants", "created_at", "created_by", "expires_at", "revoked")},
        owner=person_of({column.name: row[f"owner_{column.name}"] for column in _people.c}),
        roles=roles_of(row["roles"]),
        scopes=scopes_of(row["scopes"]),
    )


def _inputs(token: Token) -> Mapping[str, Any]:
    sets = {name: sorted(getattr(token, name)) for name in ("roles", "tenants", "scopes")}
    return {"owner": token.owner.label, "expires_at": token.expires_at.isoformat(), **sets}
