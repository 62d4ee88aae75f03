"""Who has access: API tokens and people."""

from __future__ import annotations

from datetime import UTC, datetime
from urllib.parse import quote, urlencode

from dash import html
from dash.development.base_component import Component

from access.current import current, current_access
from access.people import SHORTEST_PASSWORD, Kind, Person, list_people
from access.principal import LOCAL, SERVICE
from access.roles import Role
from access.tokens import Token, list_tokens
from dashboards import forms, parts, states
from dashboards.filters import Filters
from dashboards.languages import Language
from warehouse.store import Store

MOST = 200
"""Newest tokens that are shown; the API has all of them."""
SCOPES = ("read", "read,sql", "read,write", "read,write,sql")


def tokens_part(store: Store, filters: Filters, words: Language) -> list[Component]:
    """The user's own tokens; for an admin, everybody's."""
    now = datetime.now(UTC)
    found = list_tokens(current_access(), current())
    heads = [words(f"admin.{name}") for name in ("token", "owner_name", "may", "scopes", "expires", "state")]
    rows = [
        [
            html.Span([one.name, html.Small(one.id)]),
            _name(one.owner, words),
            _roles(one, words),
            ", ".join(sorted(one.scopes)),
            words.day(filters.local(one.expires_at)),
            _token_state(one, now, words),
        ]
        for one in found[:MOST]
    ]
    roles = [("", words("admin.own_roles")), *((role, words(f"role.{role}")) for role in _roles_to_give())]
    make = forms.form(
        "POST /tokens",
        words("admin.create"),
        words,
        forms.field("name", words("admin.token_name"), hint=words("admin.token_for")),
        forms.field("days", words("admin.days"), "90", "number"),
        forms.choice("scopes", words("admin.scopes"), [(one, one.replace(",", ", ")) for one in SCOPES], "list"),
        forms.choice("roles", words("admin.role"), roles, "list"),
        forms.field("tenants", words("admin.tenants_of_role"), kind="list", hint=words("admin.tenants_hint")),
        shows="token",
    )
    said = words("admin.tokens_is", rows=words.rows(min(len(found), MOST), len(found)))
    listed = parts.table(heads, rows, "gl-texts", cards=True) if rows else states.nothing_here(words("admin.no_token"))
    return [
        parts.card(words("admin.new_token"), words("admin.new_token_is"), make),
        parts.card(words("admin.tokens"), said, listed),
    ]


def _roles_to_give() -> list[Role]:
    return [role for role in Role if Role.admin in current().roles or role in current().roles or role is Role.tenant]


def _roles(one: Token | Person, words: Language) -> str:
    roles = ", ".join(words(f"role.{role}") for role in sorted(one.roles))
    return f"{roles}{words('part.colon')}{', '.join(sorted(one.tenants))}" if one.tenants else roles


def _token_state(one: Token, now: datetime, words: Language) -> Component:
    if not one.usable(now):
        return _state(False, words(f"admin.{_over(one)}"))
    sure = words("admin.revoke_sure", name=one.name)
    act = forms.form(f"DELETE /tokens/{quote(one.id, safe='')}", words("admin.revoke"), words, sure=sure, small=True)
    return html.Div([_state(True, words("admin.token_valid")), act], className="gl-acts")


def _state(is_good: bool, said: str) -> Component:
    return html.Span([html.Span(className=f"gl-dot {'gl-good' if is_good else 'gl-warn'}"), said], className="gl-state")


def _over(one: Token) -> str:
    if one.revoked:
        return "revoked"
    return "owner_disabled" if one.owner.disabled else "expired"


def _name(one: Person, words: Language) -> Component:
    """The label, and whose it is where it is no local user's."""
    said = {LOCAL: "", SERVICE: words("admin.service")}.get(one.issuer, one.issuer)
    return (
        html.Span([one.name, html.Small(said, className="gl-words")], title=one.subject)
        if said
        else html.Span(one.name)
    )


def _user_state(one: Person, words: Language) -> Component:
    """Whether it may sign in, and the button that changes that."""
    act = forms.form(
        f"PATCH /users/{quote(one.subject, safe='')}?{urlencode({'issuer': one.issuer})}",
        words("admin.enable" if one.disabled else "admin.disable"),
        words,
        body={"disabled": not one.disabled},
        sure="" if one.disabled else words("admin.disable_sure", name=one.name),
        small=True,
    )
    state = _state(not one.disabled, words("admin.user_disabled" if one.disabled else "admin.user_active"))
    return html.Div([state, act], className="gl-acts")


def users_part(store: Store, filters: Filters, words: Language) -> list[Component]:
    heads = [words(f"admin.{name}") for name in ("user", "may", "seen", "changed", "actor", "state")]
    rows = [
        [
            _name(one, words),
            _roles(one, words),
            words.day(filters.local(one.seen_at)) if one.seen_at else words("admin.never"),
            words.day(filters.local(one.changed_at)),
            one.changed_by,
            _user_state(one, words),
        ]
        for one in list_people(current_access())
    ]
    add = forms.form(
        "POST /users",
        words("admin.add"),
        words,
        forms.field("name", words("admin.user")),
        forms.field("password", words("admin.password", n=SHORTEST_PASSWORD), secret=True),
        forms.choice(
            "kind", words("admin.kind"), [(kind, words(f"admin.{kind}")) for kind in (Kind.local, Kind.service)]
        ),
        forms.choice("roles", words("admin.role"), [(role, words(f"role.{role}")) for role in reversed(Role)], "list"),
        forms.field("tenants", words("admin.tenants_of_role"), kind="list", hint=words("admin.tenants_hint")),
    )
    listed = parts.table(heads, rows, "gl-texts", cards=True) if rows else states.nothing_here(words("admin.no_user"))
    return [
        parts.card(words("admin.new_user"), words("admin.new_user_is"), add),
        parts.card(words("admin.users"), words("admin.users_is"), listed),
    ]
