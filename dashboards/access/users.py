"""Local users, for sites without single sign-on."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from billing import audit
from dashboards.access.principal import Principal
from dashboards.access.roles import AccessError, Role, roles_of
from dashboards.access.secrets import LONGEST_PASSWORD, fits, hash_password
from warehouse.store import Store, read_sql

SHORTEST_PASSWORD = 12


@dataclass(frozen=True)
class User:
    """A local user as it is shown: all but the password."""

    name: str
    roles: frozenset[Role]
    tenants: frozenset[str]
    disabled: bool
    created_at: datetime
    changed_at: datetime
    changed_by: str

    def principal(self) -> Principal:
        return Principal(self.name, self.roles, self.tenants)


def add_user(
    store: Store, actor: str, now: datetime, name: str, password: str, roles: Iterable[str], tenants: Iterable[str] = ()
) -> User:
    """Adds a user. Errors: AccessError if the name is taken, the password short or the roles of no use."""
    if not name.strip() or len(name) > 200 or any(ord(character) < 32 for character in name):
        raise AccessError(f"user {name[:50]!r}", "that is no name", "Up to 200 printable characters fit")
    if _row(store, name) is not None:
        raise AccessError(f"user {name!r}", "is there already", "Change it with: gpuledger users set")
    user = User(name, roles_of(roles), frozenset(tenants), False, now, now, actor)
    _write(store, _checked(user), _hashed(password), now)
    audit.record(store, now, actor, "user.add", name, "", _inputs(user))
    return user


def change_user(
    store: Store,
    actor: str,
    now: datetime,
    name: str,
    password: str | None = None,
    roles: Iterable[str] | None = None,
    tenants: Iterable[str] | None = None,
    disabled: bool | None = None,
) -> User:
    """Changes what is given and leaves the rest. Errors: AccessError as for `add_user`, or if there is no such user."""
    row = _row(store, name)
    if row is None:
        raise AccessError(f"user {name!r}", "is not known", "See: gpuledger users list")
    user = _user(row)
    user = replace(
        user,
        roles=user.roles if roles is None else roles_of(roles),
        tenants=user.tenants if tenants is None else frozenset(tenants),
        disabled=user.disabled if disabled is None else disabled,
        changed_at=now,
        changed_by=actor,
    )
    _write(store, _checked(user), row["password"] if password is None else _hashed(password), now)
    changed = {**_inputs(user), "password": "unchanged" if password is None else "changed"}
    audit.record(store, now, actor, "user.change", name, "", changed)
    return user


def list_users(store: Store) -> list[User]:
    """All of them, by name."""
    return [_user(row) for row in store.rows(read_sql(__file__, "users"), {"name": ""})]


def user_named(store: Store, name: str) -> User | None:
    """The user, None where there is none or it is disabled."""
    row = _row(store, name)
    return _user(row) if row is not None and not row["disabled"] else None


def sign_in(store: Store, name: str, password: str) -> User | None:
    """The user, if the password is theirs. Takes as long for a name that nobody has."""
    row = _row(store, name)
    usable = row is not None and not row["disabled"]
    right = fits(password, row["password"] if row is not None and usable else "")
    return _user(row) if row is not None and usable and right else None


def _row(store: Store, name: str) -> Mapping[str, Any] | None:
    rows = store.rows(read_sql(__file__, "users"), {"name": name}) if name else []
    return rows[0] if rows else None


def _user(row: Mapping[str, Any]) -> User:
    return User(
        row["name"], roles_of(row["roles"]), frozenset(row["tenants"]), bool(row["disabled"]), row["created_at"],
        row["changed_at"], row["changed_by"],
    )  # fmt: skip


def _checked(user: User) -> User:
    if not user.roles:
        raise AccessError(f"user {user.name!r}", "has no role", f"Choose from {', '.join(Role)}")
    if Role.tenant in user.roles and not user.tenants:
        raise AccessError(f"user {user.name!r}", "has the role tenant and no tenant", "Name the tenants")
    return user


def _hashed(password: str) -> str:
    if not SHORTEST_PASSWORD <= len(password) <= LONGEST_PASSWORD:
        raise AccessError(
            "password", f"has {len(password)} characters", f"{SHORTEST_PASSWORD} to {LONGEST_PASSWORD} characters fit"
        )
    return hash_password(password)


def _write(store: Store, user: User, password: str, now: datetime) -> None:
    store.command(
        read_sql(__file__, "write_user"),
        {
            **{name: getattr(user, name) for name in ("name", "created_at", "changed_at", "changed_by")},
            "roles": sorted(user.roles),
            "tenants": sorted(user.tenants),
            "disabled": int(user.disabled),
            "password": password,
            "revision": int(now.astimezone(UTC).timestamp() * 1_000_000),
        },
    )


def _inputs(user: User) -> dict[str, Any]:
    return {"roles": sorted(user.roles), "tenants": sorted(user.tenants), "disabled": user.disabled}
