"""The API as an application of its own, mounted at /api/v1 of the web application."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fastapi import APIRouter, FastAPI
from fastapi.routing import APIRoute
from starlette.routing import Route

from access.scope import Stores
from access.store import AccessStore
from api.problems import RESPONSES, add_handlers
from api.reach import NOWHERE, Reach
from api.routes import access as people
from api.routes import (
    alerts,
    backups,
    books,
    capacity,
    files,
    held,
    idle_jobs,
    invoices,
    ledger,
    now,
    objectives,
    queries,
    retention,
    rules,
    utilization,
    views,
)
from gpuledger.documents import PREFIX

ROUTERS = tuple(
    module.router
    for module in (
        ledger,
        now,
        idle_jobs,
        utilization,
        capacity,
        invoices,
        rules,
        files,
        views,
        queries,
        books,
        backups,
        retention,
        held,
        alerts,
        objectives,
        people,
    )
)
DESCRIPTION = """The books of a shared GPU fleet. Decimals are strings, instants UTC with milliseconds, unknown is null.
Send `Authorization: Bearer TOKEN` (docs/access.md). Errors are application/problem+json (RFC 9457)."""


class Api(FastAPI):
    """Says in its description that every route takes a token."""

    def openapi(self) -> dict[str, Any]:
        document = super().openapi()
        schemes = document.setdefault("components", {}).setdefault("securitySchemes", {})
        schemes["token"] = {"type": "http", "scheme": "bearer", "description": "An API token (docs/access.md)."}
        document["security"] = [{"token": []}]
        return document


def build_api(
    stores: Stores, access: AccessStore, version: str, more: Sequence[APIRouter] = (), reach: Reach = NOWHERE
) -> FastAPI:
    """The routes over a store; the gate before them says who asks.   more: routes that answer with pages, of the floor
    above.   reach: what they ask beside the store."""
    routers = (*ROUTERS, *more)
    api = Api(
        title="gpuledger", version=version or "0", description=DESCRIPTION, docs_url=None, redoc_url=None,
        responses=RESPONSES, generate_unique_id_function=_name, servers=[{"url": PREFIX}], root_path_in_servers=False,
        redirect_slashes=False,
    )  # fmt: skip
    api.state.stores, api.state.access, api.state.reach = stores, access, reach
    for router in routers:
        api.include_router(router)
    add_handlers(api, [route for router in routers for route in router.routes if isinstance(route, Route)])
    return api


def _name(route: APIRoute) -> str:
    return route.name.rstrip("_")
