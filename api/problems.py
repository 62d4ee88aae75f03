"""Errors as RFC 9457 has them: application/problem+json, with the next step where there is one."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.routing import Match, Route

from access.gate import SAFE, problem
from access.people import UnknownPersonError
from access.principal import ForbiddenError
from billing.periods import PeriodError
from warehouse.errors import LedgerError, StoreError

log = logging.getLogger(__name__)


class Problem(BaseModel):
    """An error. detail: where and what; next_step: what to do about it."""

    type: str
    title: str
    status: int
    detail: str
    next_step: str | None = None


RESPONSES: dict[int | str, dict[str, Any]] = {
    status: {"model": Problem, "description": what, "content": {"application/problem+json": {}}}
    for status, what in (
        (400, "Asked for what there is not"),
        (401, "Not signed in"),
        (403, "May not"),
        (404, "No such thing"),
        (409, "Refused as it is, or as the books are"),
        (422, "Not understood"),
        (503, "The store cannot be asked"),
    )
}


class NotFoundError(LedgerError):
    """There is no such thing, or none that the caller may see."""


def add_handlers(api: FastAPI, routes: Sequence[Route]) -> None:
    """Turns every error of a route into a problem document, without stack traces and without values that were sent."""

    @api.exception_handler(LedgerError)
    async def ledger_error(request: Request, error: LedgerError) -> Response:
        return _problem(request, error)

    @api.exception_handler(RequestValidationError)
    async def not_understood(request: Request, error: RequestValidationError) -> Response:
        first = error.errors()[0]
        at = ".".join(str(part) for part in first["loc"])
        what = first["ctx"]["error"][:200] if first["type"] == "json_invalid" else first["msg"]
        return problem(422, f"{at}: {what}", next_step="See /api/v1/openapi.json")

    @api.exception_handler(HTTPException)
    async def http_error(request: Request, error: HTTPException) -> Response:
        answer = problem(error.status_code, str(error.detail))
        answer.headers.update(error.headers or {})
        if error.status_code == 405:
            # The framework names the methods of the first route of the path alone.
            of_path = [one for one in routes if one.matches(request.scope)[0] is not Match.NONE]
            answer.headers["Allow"] = ", ".join(sorted({method for one in of_path for method in one.methods or ()}))
        return answer

    @api.exception_handler(Exception)
    async def unexpected_error(request: Request, error: Exception) -> Response:
        log.exception("api: %s %s failed", request.method, request.url.path, exc_info=error)
        return problem(500, "an internal error; its log has the details")


def _problem(request: Request, error: LedgerError) -> Response:
    if isinstance(error, ForbiddenError):
        status = 403
    elif isinstance(error, NotFoundError | UnknownPersonError):
        status = 404
    elif isinstance(error, StoreError):
        log.error("api: %s %s: %s", request.method, request.url.path, error)
        return problem(503, "the store does not answer; the log says why", next_step="Try again")
    elif request.method in SAFE or isinstance(error, PeriodError):
        status = 400
    else:
        status = 409
    where = error.where.removeprefix("--")  # a command's option is a field here
    return problem(status, f"{where}: {error.what}", next_step=error.next_step or None)
