"""Saved queries: statements that people keep by a name. They run at /sql, as whoever runs them, so not for tenants."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Annotated

from fastapi import APIRouter, Path, Query, Request
from pydantic import Field

from api.caller import AskSql, SaveQueries
from api.paging import Limit, Offset, Page, page_of
from api.problems import NotFoundError
from api.sql import saved
from api.sql.limits import Limits
from api.strict import Body, StrictRoute
from gpuledger import documents

router = APIRouter(prefix="/queries", tags=["queries"], route_class=StrictRoute)
Name = Annotated[str, Path(max_length=saved.LONGEST_NAME, description="One of its owner's, without slashes.")]
Owner = Annotated[str, Query(max_length=300, description="Whose; by default yours, then one that is shared.")]
Issuer = Annotated[str, Query(max_length=300, description="Who vouches for the owner, where two are called the same.")]


class WantedQuery(Body):
    """text: the statement, which is judged when it runs.   shared: whether others who may ask SQL see it."""

    text: Annotated[str, Field(min_length=1, max_length=Limits().text_bytes)]
    description: Annotated[str, Field(max_length=saved.LONGEST_DESCRIPTION)] = ""
    shared: bool = False


@router.get("")
def queries(
    request: Request, caller: AskSql, limit: Limit = 100, offset: Offset = 0
) -> Page[documents.SavedQueryDocument]:
    """Your saved queries and those that are shared, by name; an admin sees everybody's."""
    found = saved.saved_queries(caller.access, caller.principal)
    return page_of(request, found, documents.SavedQueryDocument.model_validate, limit, offset)


@router.get("/{name}")
def query(caller: AskSql, name: Name, owner: Owner = "", issuer: Issuer = "") -> documents.SavedQueryDocument:
    """One of them, with its text."""
    with _unknown():
        found = saved.saved_query(caller.access, caller.principal, name, owner, issuer)
    return documents.SavedQueryDocument.model_validate(found)


@router.put("/{name}")
def save_query(
    caller: SaveQueries, name: Name, wanted: WantedQuery, owner: Owner = "", issuer: Issuer = ""
) -> documents.SavedQueryDocument:
    """Saves a query of yours, or saves it anew; the same again changes nothing. An admin may change anybody's."""
    kept = saved.save_query(
        caller.access, caller.principal, caller.now, name, wanted.text, wanted.description, wanted.shared, owner, issuer
    )
    return documents.SavedQueryDocument.model_validate(kept)


@router.delete("/{name}")
def delete_query(
    caller: SaveQueries, name: Name, owner: Owner = "", issuer: Issuer = ""
) -> documents.SavedQueryDocument:
    """Deletes a query of yours; an admin anybody's."""
    with _unknown():
        gone = saved.delete_query(caller.access, caller.principal, caller.now, name, owner, issuer)
    return documents.SavedQueryDocument.model_validate(gone)


@contextlib.contextmanager
def _unknown() -> Iterator[None]:
    try:
        yield
    except saved.UnknownQueryError as error:
        raise NotFoundError(error.where, error.what, error.next_step) from error
