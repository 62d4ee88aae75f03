"""The web application: Dash on FastAPI. `gpuledger up` runs it with uvicorn, in the process that holds the store."""

from __future__ import annotations

import asyncio
import base64
import functools
import hashlib
import logging
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import dash
import dash_ag_grid
import dash_mantine_components
from dash import Dash, Input, Output, State
from fastapi import FastAPI
from starlette.middleware.trustedhost import TrustedHostMiddleware

from billing.ledger_report import billing_timezone
from dashboards import data, figures, metrics, opencost_api, overview, shell, states
from dashboards.access import sign_in
from dashboards.access.current import current
from dashboards.access.doorkeeper import Doorkeeper
from dashboards.access.gate import Gate
from dashboards.access.scope import Stores
from dashboards.access.settings import AccessSettings
from dashboards.api.app import PREFIX, build_api
from dashboards.periods import asked, choose
from dashboards.sql.endpoint import SqlDoor
from dashboards.sql.engine import Engine
from dashboards.sql.limits import Limits
from warehouse.errors import LedgerError
from warehouse.store import Store

log = logging.getLogger(__name__)
HERE = Path(__file__).parent


@dataclass(frozen=True)
class DashboardSettings:
    """`title`: of the browser's tab.   `version`: what /healthz says.

    `allowed_hosts`: names the browser may call the server by; with no sign-in, this keeps other sites' pages out.
    `access`: how people sign in, by default not at all.
    """

    title: str = "gpuledger"
    version: str = ""
    allowed_hosts: tuple[str, ...] = ("*",)
    access: AccessSettings = field(default_factory=AccessSettings)


def build_app(store: Store, settings: DashboardSettings = DashboardSettings()) -> FastAPI:
    """The ASGI app that shows the store; the caller runs it and closes the store afterwards.

    Dash runs plain callbacks on the event loop, so ours are coroutines that ask the store on worker threads.
    """
    stores = Stores(store)
    server = FastAPI(
        title=settings.title, version=settings.version or "0", openapi_url=None, docs_url=None, redoc_url=None,
        lifespan=stores.kept,
    )  # fmt: skip

    @server.get("/healthz")
    async def healthz() -> dict[str, str]:
        await asyncio.to_thread(store.value, "SELECT 1 AS one")
        return {"status": "ok", "version": settings.version}

    doorkeeper = Doorkeeper(store, settings.access)
    server.router.routes.extend(sign_in.routes())
    opencost_api.add_routes(server, stores)
    metrics.add_routes(server, stores)
    server.mount(PREFIX, build_api(stores, settings.version))

    app = Dash(
        name="gpuledger",
        server=server,
        title=settings.title,
        update_title="",
        assets_folder=str(HERE / "assets"),
        index_string=(HERE / "index.html").read_text(encoding="utf-8").replace("{%assets%}", "/assets/"),
        meta_tags=[
            {"name": "viewport", "content": "width=device-width, initial-scale=1"},
            {"name": "color-scheme", "content": "light dark"},
        ],
        suppress_callback_exceptions=True,
        add_log_handler=False,
    )
    server.add_middleware(SqlDoor, engine=Engine(store, Limits()))
    server.add_middleware(Gate, doorkeeper=doorkeeper, page_policy=functools.partial(page_policy, app))
    server.add_middleware(TrustedHostMiddleware, allowed_hosts=list(settings.allowed_hosts))
    app.layout = shell.layout
    _add_callbacks(app, stores)
    return server


def page_policy(app: Dash) -> str:
    """The Content-Security-Policy of pages: our own scripts, and those written into the page, by their hash.

    Styles stand in elements (Plotly, Mantine and AG Grid set them); workers are made from blobs.
    """
    written = " ".join([*_script_hashes(app.index_string), *app.csp_hashes()])
    return (
        f"default-src 'self'; script-src 'self' {written}; style-src 'self' 'unsafe-inline'; "
        "img-src 'self' data: blob:; font-src 'self' data:; connect-src 'self'; worker-src 'self' blob:; "
        "object-src 'none'; base-uri 'self'; form-action 'self'; frame-ancestors 'none'"
    )


def _script_hashes(page: str) -> list[str]:
    scripts = re.findall(r"<script>(.*?)</script>", page, re.S)
    return [f"'sha256-{base64.b64encode(hashlib.sha256(one.encode()).digest()).decode()}'" for one in scripts]


def _add_callbacks(app: Dash, stores: Stores) -> None:
    """Each asks the store as whoever looks at the page may see it."""

    def asked_as_seen(answer: Callable[..., Any], *arguments: str) -> Any:
        with stores.lend(current()) as store:
            return answer(store, *arguments)

    async def show_page(path: str, search: str) -> tuple[Any, Any]:
        shown: tuple[Any, Any] = await asyncio.to_thread(asked_as_seen, page, path, search)
        return shown

    async def show_fleet(grain: str, search: str) -> Any:
        return await asyncio.to_thread(asked_as_seen, fleet, grain, search)

    app.callback(
        Output("page", "children"),
        Output("period", "children"),
        Input("url", "pathname"),
        Input("url", "search"),
        running=[(Output("page", "className"), "gl-busy", "")],
    )(show_page)
    app.callback(Output("fleet", "figure"), Input("grain", "value"), State("url", "search"), prevent_initial_call=True)(
        show_fleet
    )


def page(store: Store, path: str, search: str) -> tuple[Any, Any]:
    """The page at a URL and its period picker; an error of the store is a page, too."""
    if path not in ("", "/", None):
        return states.not_found(path), None
    try:
        answer = data.overview(store, asked(search))
    except LedgerError as error:
        return states.error(str(error)), None
    except Exception:  # the page says so; Dash would show nothing
        log.exception("a page failed: %s", search)
        return states.error("An error of gpuledger's own; its log has the details."), None
    picker = shell.period_picker(answer.months, answer.period)
    return (overview.body(answer) if answer.period else states.empty(answer)), picker


def fleet(store: Store, grain: str, search: str) -> Any:
    """The figure of the fleet over time in the step asked for."""
    zone = billing_timezone(store)
    period = choose(asked(search), data.closed_months(store, zone), zone)
    if period is None:
        return dash.no_update
    step: data.Grain = "hour" if grain == "hour" else "day"
    return figures.fleet_over_time(data.fleet_over_time(store, period, zone, step), step)


# Importing these registers their scripts with Dash, whether or not a first layout uses them.
COMPONENT_LIBRARIES = (dash_ag_grid, dash_mantine_components)
