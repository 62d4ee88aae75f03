"""The web application: Dash on FastAPI. `gpuledger up` runs it with uvicorn, in the process that holds the store."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import dash
import dash_ag_grid
import dash_mantine_components
from dash import Dash, Input, Output, State
from fastapi import FastAPI
from starlette.middleware.trustedhost import TrustedHostMiddleware

from billing.ledger_report import billing_timezone
from dashboards import data, figures, opencost_api, overview, shell, states
from dashboards.periods import asked, choose
from warehouse.errors import LedgerError
from warehouse.store import Store

log = logging.getLogger(__name__)
HERE = Path(__file__).parent


@dataclass(frozen=True)
class DashboardSettings:
    """`title`: of the browser's tab.   `version`: what /healthz says.

    `allowed_hosts`: names the browser may call the server by; with no sign-in, this keeps other sites' pages out.
    """

    title: str = "gpuledger"
    version: str = ""
    allowed_hosts: tuple[str, ...] = ("*",)


def build_app(store: Store, settings: DashboardSettings = DashboardSettings()) -> FastAPI:
    """The ASGI app that shows the store; the caller runs it and closes the store afterwards.

    Dash runs plain callbacks on the event loop, so ours are coroutines that ask the store on worker threads.
    """
    server = FastAPI(title=settings.title, version=settings.version or "0", docs_url=None, redoc_url=None)

    @server.get("/healthz")
    async def healthz() -> dict[str, str]:
        await asyncio.to_thread(store.value, "SELECT 1 AS one")
        return {"status": "ok", "version": settings.version}

    opencost_api.add_routes(server, store)

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
    server.add_middleware(TrustedHostMiddleware, allowed_hosts=list(settings.allowed_hosts))
    app.layout = shell.layout
    _add_callbacks(app, store)
    return server


def _add_callbacks(app: Dash, store: Store) -> None:
    async def show_page(path: str, search: str) -> tuple[Any, Any]:
        return await asyncio.to_thread(page, store, path, search)

    async def show_fleet(grain: str, search: str) -> Any:
        return await asyncio.to_thread(fleet, store, grain, search)

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
