"""Paging: `limit` and `offset`, and the address of the next page."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated, Generic, TypeVar

from fastapi import Query, Request
from pydantic import BaseModel

from gpuledger.documents import MOST_ROWS

Row = TypeVar("Row")
One = TypeVar("One")

Limit = Annotated[int, Query(ge=1, le=MOST_ROWS, description="Rows of a page.")]
Offset = Annotated[int, Query(ge=0, le=100_000_000, description="Rows before the page.")]


class Page(BaseModel, Generic[Row]):
    """Rows, in an order that stays. total: of all pages.   next: the address of the next page; null on the last."""

    rows: list[Row]
    total: int
    next: str | None = None


def page_of(
    request: Request, found: Sequence[One], document: Callable[[One], Row], limit: int, offset: int
) -> Page[Row]:
    """The page of what was found that the request asks for, each as its document."""
    rows = [document(one) for one in part(found, limit, offset)]
    return Page(rows=rows, total=len(found), next=next_page(request, len(found), limit, offset))


def part(rows: Sequence[Row], limit: int, offset: int) -> Sequence[Row]:
    return rows[offset : offset + limit]


def next_page(request: Request, total: int, limit: int, offset: int) -> str | None:
    """Its path and query, as relative as the request's."""
    if offset + limit >= total:
        return None
    url = request.url.include_query_params(limit=limit, offset=offset + limit)
    return f"{url.path}?{url.query}"
