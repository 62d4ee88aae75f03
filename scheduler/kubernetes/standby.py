"""What an operator answers over HTTP while another one acts."""

from __future__ import annotations

from collections.abc import Callable

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route


def build_standby(why: Callable[[], str]) -> Starlette:
    """why: it does not act. It is healthy, and not ready."""

    async def healthz(request: Request) -> Response:
        return JSONResponse({"status": "standby", "problem": why()})

    async def anything(request: Request) -> Response:
        return JSONResponse({"detail": f"this operator waits: {why()}"}, 503)

    methods = ["GET", "POST", "PUT", "DELETE", "PATCH"]
    return Starlette(routes=[Route("/healthz", healthz), Route("/{path:path}", anything, methods=methods)])
