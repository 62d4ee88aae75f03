"""What each role may do. A person or token has one or more."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from enum import StrEnum
from typing import TypeVar

from warehouse.errors import LedgerError

Word = TypeVar("Word", bound=StrEnum)


class AccessError(LedgerError):
    """Users, tokens or sign-in settings that cannot be used."""


class Role(StrEnum):
    """admin: everything; finance: prices, invoices, credits; operator: the fleet, the close, silences, idle jobs;
    analyst: sees everything, changes nothing but its own saved queries; tenant: sees what its tenants have, nothing
    else. Everybody who sees the fleet may propose to reclaim idle jobs."""

    admin = "admin"
    finance = "finance"
    operator = "operator"
    analyst = "analyst"
    tenant = "tenant"


class Action(StrEnum):
    """What a route does. Tenants may only `see` what is theirs, and manage their own tokens (`own_tokens`)."""

    see = "see"
    see_fleet = "see_fleet"
    sql = "sql"
    save_queries = "save_queries"
    own_tokens = "own_tokens"
    issue = "issue"
    set_prices = "set_prices"
    set_budgets = "set_budgets"
    close = "close"
    back_up = "back_up"
    silence = "silence"
    propose = "propose"
    reclaim = "reclaim"
    see_audit = "see_audit"
    see_held = "see_held"
    decide_held = "decide_held"
    see_access = "see_access"
    manage_access = "manage_access"


class Scope(StrEnum):
    """What a token may be used for: `read` asks, `write` changes, `sql` queries."""

    read = "read"
    write = "write"
    sql = "sql"


_OWN = frozenset({Action.see, Action.own_tokens})
_SEES = _OWN | {Action.see_fleet, Action.see_held, Action.sql, Action.save_queries, Action.propose}
MAY: dict[Role, frozenset[Action]] = {
    Role.admin: frozenset(Action),
    Role.finance: _SEES | {Action.issue, Action.set_prices, Action.set_budgets, Action.see_audit, Action.decide_held},
    Role.operator: _SEES | {Action.close, Action.back_up, Action.silence, Action.reclaim},
    Role.analyst: _SEES,
    Role.tenant: _OWN,
}
SCOPE_OF: dict[Action, Scope] = {
    Action.see: Scope.read,
    Action.see_fleet: Scope.read,
    Action.see_audit: Scope.read,
    Action.see_held: Scope.read,
    Action.see_access: Scope.read,
    Action.sql: Scope.sql,
    Action.save_queries: Scope.write,
    Action.own_tokens: Scope.write,
    Action.issue: Scope.write,
    Action.set_prices: Scope.write,
    Action.set_budgets: Scope.write,
    Action.close: Scope.write,
    Action.back_up: Scope.write,
    Action.decide_held: Scope.write,
    Action.silence: Scope.write,
    Action.propose: Scope.write,
    Action.reclaim: Scope.write,
    Action.manage_access: Scope.write,
}


def covers(mine: Collection[Role], theirs: Collection[Role]) -> bool:
    """Whether the first may do everything that the second may."""
    return _may(theirs) <= _may(mine)


def common_roles(one: Collection[Role], other: Collection[Role]) -> frozenset[Role]:
    """The roles whose rights both have; without those that another of them includes."""
    both = [role for role in Role if covers(one, {role}) and covers(other, {role})]
    return frozenset(role for role in both if not any(MAY[role] < MAY[more] for more in both))


def _may(roles: Collection[Role]) -> frozenset[Action]:
    return frozenset().union(*(MAY[role] for role in roles))


def roles_of(names: Iterable[str]) -> frozenset[Role]:
    """The roles named. Errors: AccessError naming the one that does not exist."""
    return frozenset(_named(Role, name, "role") for name in names)


def scopes_of(names: Iterable[str]) -> frozenset[Scope]:
    """The scopes named. Errors: AccessError naming the one that does not exist."""
    return frozenset(_named(Scope, name, "scope") for name in names)


def _named(kind: type[Word], name: str, where: str) -> Word:
    try:
        return kind(name)
    except ValueError:
        raise AccessError(where, f"found {name!r}", f"Choose from {', '.join(kind)}") from None
