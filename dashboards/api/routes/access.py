"""Who you are, API tokens and local users."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated, Any

from fastapi import APIRouter, Request
from pydantic import BaseModel, Field

from dashboards.access import tokens, users
from dashboards.access.doorkeeper import Doorkeeper
from dashboards.access.principal import ForbiddenError
from dashboards.access.roles import Action, Role, Scope
from dashboards.api import documents
from dashboards.api.caller import Caller, ManageAccess, See
from dashboards.api.paging import Limit, Offset, Page, next_page, part

router = APIRouter(tags=["access"])
Names = Annotated[list[Annotated[str, Field(max_length=300)]], Field(max_length=1000)]


class WantedToken(BaseModel):
    """roles, tenants: by default your own.   owner: by default you; another's is for an admin to make."""

    name: Annotated[str, Field(min_length=1, max_length=200)]
    days: Annotated[int, Field(ge=1, le=366)] = 90
    scopes: list[Scope] = [Scope.read]
    owner: Annotated[str, Field(max_length=200)] = ""
    roles: list[Role] | None = None
    tenants: Names = []


class NewUser(BaseModel):
    name: Annotated[str, Field(min_length=1, max_length=200)]
    password: Annotated[str, Field(min_length=1, max_length=1024)]
    roles: list[Role]
    tenants: Names = []


class ChangedUser(BaseModel):
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
        roles=sorted(who.roles),
        tenants=None if who.sees_all else sorted(who.tenants),
        scopes=sorted(who.scopes),
        may=[action for action in Action if who.may(action)],
    )


@router.get("/tokens")
def list_tokens(request: Request, caller: See, limit: Limit = 100, offset: Offset = 0) -> Page[documents.TokenDocument]:
    """Your API tokens; an admin sees everybody's."""
    with caller.whole_store() as store:
        found = tokens.list_tokens(store, caller.principal)
    rows = [documents.TokenDocument(**_shown(one)) for one in part(found, limit, offset)]
    return Page(rows=rows, total=len(found), next=next_page(request, len(found), limit, offset))


@router.post("/tokens", status_code=201)
def create_token(request: Request, caller: See, wanted: WantedToken) -> documents.NewToken:
    """Makes an API token, which may not do more than you, and tells it this once."""
    who = caller.principal
    _refuse_readers(caller)
    if wanted.owner not in ("", who.name):
        who.require(Action.manage_access)
    roles = None if wanted.roles is None else [str(role) for role in wanted.roles]
    with caller.whole_store() as store:
        made, text = tokens.create_token(
            store, who, caller.now, wanted.name, timedelta(days=wanted.days), wanted.owner, roles, wanted.tenants,
            [str(scope) for scope in wanted.scopes],
        )  # fmt: skip
    _keeper(request).tokens.forget()
    return documents.NewToken(**_shown(made), token=text)


@router.delete("/tokens/{id}")
def revoke_token(request: Request, caller: See, id: str, reason: str = "") -> documents.TokenDocument:
    """Ends a token of yours now; an admin anybody's."""
    _refuse_readers(caller)
    with caller.whole_store() as store:
        gone = tokens.revoke_token(store, caller.principal, caller.now, id, reason)
    _keeper(request).tokens.forget()
    return documents.TokenDocument(**_shown(gone))


@router.get("/users")
def list_users(
    request: Request, caller: ManageAccess, limit: Limit = 100, offset: Offset = 0
) -> Page[documents.UserDocument]:
    """Local users."""
    found = users.list_users(caller.store)
    rows = [documents.UserDocument(**_shown(one)) for one in part(found, limit, offset)]
    return Page(rows=rows, total=len(found), next=next_page(request, len(found), limit, offset))


@router.post("/users", status_code=201)
def add_user(caller: ManageAccess, new: NewUser) -> documents.UserDocument:
    """Adds a local user."""
    with caller.writing() as store:
        user = users.add_user(
            store, caller.principal.name, caller.now, new.name, new.password, [str(role) for role in new.roles],
            new.tenants,
        )  # fmt: skip
    return documents.UserDocument(**_shown(user))


@router.patch("/users/{name}")
def change_user(caller: ManageAccess, name: str, new: ChangedUser) -> documents.UserDocument:
    """Changes a local user; a new password or other roles end their sessions."""
    roles = None if new.roles is None else [str(role) for role in new.roles]
    with caller.writing() as store:
        user = users.change_user(
            store, caller.principal.name, caller.now, name, new.password, roles, new.tenants, new.disabled
        )
    return documents.UserDocument(**_shown(user))


def _refuse_readers(caller: Caller) -> None:
    """A token that may read alone makes no token that outlives it, and ends none."""
    if Scope.write not in caller.principal.scopes:
        raise ForbiddenError(caller.principal.name, "this token has no scope write", "Sign in, or use one that has it")


def _keeper(request: Request) -> Doorkeeper:
    keeper: Doorkeeper = request.state.doorkeeper
    return keeper


def _shown(one: tokens.Token | users.User) -> dict[str, Any]:
    return {name: sorted(value) if isinstance(value, frozenset) else value for name, value in vars(one).items()}
