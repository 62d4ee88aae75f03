"""API tokens: made for somebody, for a while and for some purposes; kept as their hash alone."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from billing import audit
from dashboards.access.principal import Principal
from dashboards.access.roles import AccessError, Role, Scope, roles_of, scopes_of
from dashboards.access.secrets import digest, new_token, same
from warehouse.store import Store, read_sql

LONGEST = timedelta(days=366)
FRESH_SECONDS = 5.0
"""How old the list may be that tokens are looked up in; a revoked one works no longer than that."""


@dataclass(frozen=True)
class Token:
    """A token as it is shown: all but its text."""

    id: str
    name: str
    owner: str
    roles: frozenset[Role]
    tenants: frozenset[str]
    scopes: frozenset[Scope]
    created_at: datetime
    created_by: str
    expires_at: datetime
    revoked: bool

    def usable(self, now: datetime) -> bool:
        return not self.revoked and now < self.expires_at

    def principal(self) -> Principal:
        return Principal(self.owner, self.roles, self.tenants, self.scopes, "token")

    def is_of(self, who: Principal) -> bool:
        """Whether it is theirs to see and to end. To a token, one that may more than it is not, whatever name it bears:
        a tenant's token that an admin made in their own name does not reach the admin's others."""
        no_more = self.roles <= who.roles and (who.sees_all or self.tenants <= who.tenants)
        return Role.admin in who.roles or (self.owner == who.name and (no_more or who.how != "token"))


def create_token(
    store: Store,
    maker: Principal,
    now: datetime,
    name: str,
    lasts: timedelta,
    owner: str = "",
    roles: Iterable[str] | None = None,
    tenants: Iterable[str] = (),
    scopes: Iterable[str] = ("read",),
) -> tuple[Token, str]:
    """Makes a token and answers it with its text, which is told this once.

    owner: who uses it, by default the maker.   roles, tenants: by default the maker's own.
    Errors: AccessError if it would last too long, or may more than its maker.
    """
    wanted = maker.roles if roles is None else roles_of(roles)
    seen = frozenset(tenants) if roles is not None or tenants else maker.tenants
    asked = scopes_of(scopes)
    _check(maker, wanted, seen, asked, name, lasts)
    public, text = new_token()
    token = Token(public, name, owner or maker.name, wanted, seen, asked, now, maker.name, now + lasts, False)
    _write(store, token, digest(text), now)
    audit.record(store, now, maker.name, "token.create", public, name, _inputs(token))
    return token, text


def list_tokens(store: Store, who: Principal | None = None) -> list[Token]:
    """All tokens, or those of a principal; the newest first."""
    found = [_token(row) for row in store.rows(read_sql(__file__, "tokens"))]
    return [one for one in found if who is None or one.is_of(who)]


def revoke_token(store: Store, who: Principal, now: datetime, token_id: str, reason: str = "") -> Token:
    """Ends a token now; doing it again changes nothing.

    Errors: AccessError if there is none, or if it is somebody else's and `who` is no admin.
    """
    found = [row for row in store.rows(read_sql(__file__, "tokens")) if row["id"] == token_id]
    token = _token(found[0]) if found else None
    if token is None or not token.is_of(who):
        raise AccessError(f"token {token_id!r}", "there is none of yours", "See: gpuledger tokens list")
    if token.revoked:
        return token
    gone = Token(**{**vars(token), "revoked": True})
    _write(store, gone, found[0]["digest"], now)
    audit.record(store, now, who.name, "token.revoke", token_id, reason)
    return gone


class Tokens:
    """Whose a token is. Reads the list again when it is a few seconds old."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._lock = threading.Lock()
        self._known: Mapping[str, tuple[str, Token]] = {}
        self._read_at = -FRESH_SECONDS

    def of(self, text: str, now: datetime) -> Principal | None:
        """None for a token that is unknown, expired or revoked."""
        parts = text.split("_", 2)
        hashed = digest(text)
        digest_known, token = self._tokens().get(parts[1] if len(parts) == 3 else "", ("0" * 64, None))
        fits = same(digest_known, hashed)
        return token.principal() if fits and token is not None and token.usable(now) else None

    def _tokens(self) -> Mapping[str, tuple[str, Token]]:
        with self._lock:
            if time.monotonic() - self._read_at >= FRESH_SECONDS:
                rows = self._store.rows(read_sql(__file__, "tokens"))
                self._known = {row["id"]: (row["digest"], _token(row)) for row in rows}
                self._read_at = time.monotonic()
            return self._known

    def forget(self) -> None:
        """The list changed: the next look-up reads it."""
        with self._lock:
            self._read_at = -FRESH_SECONDS


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
    if not timedelta(0) < lasts <= LONGEST:
        raise AccessError("token", f"would last {lasts}", f"Up to {LONGEST.days} days fit")
    if not roles or not scopes:
        raise AccessError("token", "may do nothing", "Give it a role and a scope")
    if Role.tenant in roles and not tenants:
        raise AccessError("token", "has the role tenant and no tenant", "Name the tenants it is for")
    more = roles - maker.roles
    if Role.admin not in maker.roles and (more - {Role.tenant} or not all(maker.sees(tenant) for tenant in tenants)):
        raise AccessError("token", "would see or do more than who makes it", "Leave out roles and tenants not yours")
    if scopes - maker.scopes:
        raise AccessError("token", f"its maker has no scope {', '.join(sorted(scopes - maker.scopes))}", "Leave it out")


def _write(store: Store, token: Token, hashed: str, now: datetime) -> None:
    store.command(
        read_sql(__file__, "write_token"),
        {
            **{
                name: getattr(token, name) for name in ("id", "name", "owner", "expires_at", "created_at", "created_by")
            },
            **{name: sorted(getattr(token, name)) for name in ("roles", "tenants", "scopes")},
            "revoked": int(token.revoked),
            "digest": hashed,
            "revision": int(now.astimezone(UTC).timestamp() * 1_000_000),
        },
    )


def _token(row: Mapping[str, Any]) -> Token:
    return Token(
        **{name: row[name] for name in ("id", "name", "owner", "created_at", "created_by", "expires_at")},
        roles=roles_of(row["roles"]),
        tenants=frozenset(row["tenants"]),
        scopes=scopes_of(row["scopes"]),
        revoked=bool(row["revoked"]),
    )


def _inputs(token: Token) -> dict[str, Any]:
    sets = {name: sorted(getattr(token, name)) for name in ("roles", "tenants", "scopes")}
    return {"owner": token.owner, "expires_at": token.expires_at.isoformat(), **sets}
