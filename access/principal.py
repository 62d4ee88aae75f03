"""The authenticated caller, and the one place that decides what they may see and do."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from access.roles import MAY, SCOPE_OF, AccessError, Action, Role, Scope

LOCAL, SERVICE, OPEN = "local", "service", "open"
"""Issuers of our own; a provider's is an address."""


class ForbiddenError(AccessError):
    """An authenticated caller may not do this."""


@dataclass(frozen=True)
class Principal:
    """name: a label; issuer and subject identify the caller (an empty subject is the name).   tenants: those that the
    role tenant sees; other roles see all.   scopes: what the token may be used for; a session has all.   how: `open`
    (no sign-in), `session` or `token`.   expires_at: of the token.
    """

    name: str
    roles: frozenset[Role]
    tenants: frozenset[str] = frozenset()
    scopes: frozenset[Scope] = frozenset(Scope)
    how: str = "session"
    issuer: str = LOCAL
    subject: str = ""
    expires_at: datetime | None = None

    @property
    def id(self) -> tuple[str, str]:
        """Identifies the caller, whatever their name."""
        return self.issuer, self.subject or self.name

    @property
    def actor(self) -> str:
        """Their name in the audit."""
        return label_of(self.issuer, self.subject, self.name)

    @property
    def sees_all(self) -> bool:
        """Whether they see all tenants and the platform's own time."""
        return bool(self.roles - {Role.tenant})

    def sees(self, tenant: str) -> bool:
        """An empty name is no tenant: what has none is the platform's."""
        return self.sees_all or (tenant != "" and tenant in self.tenants)

    def may(self, action: Action) -> bool:
        return SCOPE_OF[action] in self.scopes and any(action in MAY[role] for role in self.roles)

    def require(self, action: Action) -> None:
        """Errors: ForbiddenError, saying what is missing."""
        if self.may(action):
            return
        if SCOPE_OF[action] not in self.scopes:
            raise ForbiddenError(self.name, f"this token has no scope {SCOPE_OF[action]}", "Ask for one that has it")
        able = ", ".join(role for role in Role if action in MAY[role])
        raise ForbiddenError(self.name, f"may not do this; it requires the role {able}", "Ask an admin")

    def params(self) -> dict[str, Any]:
        """Parameters for SQL that filters by scope itself: WHERE {all_tenants:Bool} OR has({tenants:Array(String)},
        tenant)."""
        return {"all_tenants": int(self.sees_all), "tenants": sorted(self.tenants - {""})}


def label_of(issuer: str, subject: str, name: str) -> str:
    """A name, with its issuer unless it is a local user's. No local name can look like that (access/people.py)."""
    if issuer in (LOCAL, OPEN):
        return name
    return f"{name} ({issuer})" if issuer == SERVICE else f"{name} ({issuer}#{subject})"


ANYBODY = Principal("anybody on this machine", frozenset({Role.admin}), how="open", issuer=OPEN)
"""The caller where no sign-in is needed: anybody who reaches the server's loopback address."""
