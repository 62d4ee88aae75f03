"""Who you are, API tokens and people."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query, Request
from pydantic import Field

from access import people, tokens
from access.people import Kind, Person
from access.roles import Action, Role, Scope
from api.caller import ManageAccess, OwnTokens, See, SeeAccess
from api.paging import Limit, Offset, Page, page_of
from api.strict import Body, StrictRoute
from gpuledger import documents

router = APIRouter(tags=["access"], route_class=StrictRoute)
Names = Annotated[list[Annotated[str, Field(max_length=300)]], Field(max_length=1000)]


Issuer = Annotated[
    str, Query(max_length=300, description="Who vouches for them: local, service or a provider; by default any.")
]


class WantedToken(Body):
    """roles, tenants: by default your own.   owner, issuer: by default you; another's is for an admin to make, and a
    name that nobody has becomes a service account."""

    name: Annotated[str, Field(min_length=1, max_length=200)]
    days: Annotated[int, Field(ge=1, le=366)] = 90
    scopes: list[Scope] = Field(default=[Scope.read])
    owner: Annotated[str, Field(max_length=300)] = ""
    issuer: Annotated[str, Field(max_length=300)] = ""
    roles: list[Role] | None = None
    tenants: Names = Field(default=[])


class NewUser(Body):
    """kind: a service account owns tokens and has no password."""

    name: Annotated[str, Field(min_length=1, max_length=200)]
    kind: Literal["local", "service"] = "local"
    password: Annotated[str, Field(max_length=1024)] = ""
    roles: list[Role]
    tenants: Names = Field(default=[])


class ChangedUser(Body):
    """What is absent stays."""

    password: Annotated[str, Field(min_length=1, max_length=1024)] | None = None
    roles: list[Role] | None = None
    tenants: Names | None = None
    disabled: bool | None = None


@router.get("/me")
def me(caller: See) -> documents.Me:
    """Who you are here, and what you may do."""
    who = caller.principal
    return documents.Me(
        name=who.name,
        issuer=who.id[0],
        subject=who.id[1],
        roles=sorted(who.roles),
        tenants=None if who.sees_all else sorted(who.tenants),
        scopes=sorted(who.scopes),
        may=[action for action in Action if who.may(action)],
    )


@router.get("/tokens")
def list_tokens(request: Request, caller: See, limit: Limit = 100, offset: Offset = 0) -> Page[documents.TokenDocument]:
    """Your API tokens; an admin sees everybody's."""
    found = tokens.list_tokens(caller.access, caller.principal)
    return page_of(request, found, lambda one: documents.TokenDocument(**_token(one)), limit, offset)


@router.post("/tokens", status_code=201)
def create_token(caller: OwnTokens, wanted: WantedToken) -> documents.NewToken:
    """Creates an API token with at most your own rights; its secret is shown only this once."""
    roles = None if wanted.roles is None else [str(role) for role in wanted.roles]
    made, text = tokens.create_token(
        caller.access, caller.principal, caller.now, wanted.name, timedelta(days=wanted.days), wanted.owner, roles,
        wanted.tenants, [str(scope) for scope in wanted.scopes], wanted.issuer,
    )  # fmt: skip
    return documents.NewToken(**_token(made), token=text)


@router.delete("/tokens/{id}")
def revoke_token(caller: OwnTokens, id: str, reason: str = "") -> documents.TokenDocument:
    """Ends a token of yours now; an admin anybody's."""
    gone = tokens.revoke_token(caller.access, caller.principal, caller.now, id, reason)
    return documents.TokenDocument(**_token(gone))


@router.get("/users")
def list_users(
    request: Request, caller: SeeAccess, limit: Limit = 100, offset: Offset = 0
) -> Page[documents.UserDocument]:
    """People: local users, those of single sign-on, service accounts."""
    found = people.list_people(caller.access)
    return page_of(request, found, lambda one: documents.UserDocument(**_shown(one)), limit, offset)


@router.post("/users", status_code=201)
def add_user(caller: ManageAccess, new: NewUser) -> documents.UserDocument:
    """Adds a local user, or a service account."""
    person = people.add_person(
        caller.access, caller.principal.actor, caller.now, new.name, new.password, [str(role) for role in new.roles],
        new.tenants, Kind(new.kind),
    )  # fmt: skip
    return documents.UserDocument(**_shown(person))


@router.patch("/users/{name}")
def change_user(caller: ManageAccess, name: str, new: ChangedUser, issuer: Issuer = "") -> documents.UserDocument:
    """Changes somebody; a new password and disabling end their sessions. Of single sign-on, `disabled` alone."""
    roles = None if new.roles is None else [str(role) for role in new.roles]
    person = people.change_person(
        caller.access, caller.principal.actor, caller.now, name, new.password, roles, new.tenants, new.disabled, issuer
    )
    return documents.UserDocument(**_shown(person))


def _token(one: tokens.Token) -> dict[str, Any]:
    owner = {"owner": one.owner.name, "issuer": one.owner.issuer, "subject": one.owner.subject}
    return {**_shown(one), **owner, "owner_disabled": one.owner.disabled}


def _shown(one: tokens.Token | Person) -> dict[str, Any]:
    return {name: sorted(value) if isinstance(value, frozenset) else value for name, value in vars(one).items()}
