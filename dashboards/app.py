"""The web application: Dash on FastAPI. `gpuledger up` runs it with uvicorn, in the process that holds the store."""

from __future__ import annotations

import base64
import functools
import hashlib
import logging
import re
from contextlib import suppress
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path

import dash_ag_grid
import dash_mantine_components
from dash import Dash
from dash.exceptions import DependencyException, PreventUpdate
from fastapi import FastAPI
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from access import sign_in
from access.authenticator import Authenticator
from access.gate import Gate, problem
from access.opening import open_access
from access.proxies import Proxies
from access.roles import Action
from access.scope import Stores
from access.settings import AccessSettings
from api import metrics, opencost
from api.app import build_api
from api.reach import NOWHERE, Reach
from api.sql.endpoint import SqlMiddleware, is_sql_request
from api.sql.engine import Engine
from api.sql.limits import Limits
from dashboards import frame, shell
from dashboards.callbacks import CallbackValidation
from dashboards.registry import all_pages
from dashboards.reports import route
from gpuledger.documents import PREFIX
from warehouse.health import Health
from warehouse.leads import ALONE, Leads
from warehouse.store import Store

with suppress(ImportError):
    # Arrow imports it when it first needs it, on whichever thread. A chart that is drawn while it is half there fails:
    # Plotly asks what is loaded whether a value is one of its.
    import_module("pandas")

HERE = Path(__file__).parent
ACTIONS = {"/metrics": Action.see_fleet, f"{PREFIX}/openapi.json": Action.see}
"""What takes another action than its neighbours do."""
log = logging.getLogger(__name__)


@dataclass(frozen=True)
class DashboardSettings:
    """`title`: of the browser's tab.   `version`: what /healthz says.

    `allowed_hosts`: names the browser may call the server by; with no sign-in, this keeps other sites' pages out.
    `access`: how people sign in, by default not at all.   `leads`: whether this one of several servers does the
    background work.   `reach`: who is notified of alerts, and the scheduler whose jobs can be reclaimed.
    """

    title: str = "gpuledger"
    version: str = ""
    allowed_hosts: tuple[str, ...] = ("*",)
    access: AccessSettings = field(default_factory=AccessSettings)
    leads: Leads = ALONE
    reach: Reach = NOWHERE


def build_app(store: Store, settings: DashboardSettings = DashboardSettings()) -> FastAPI:
    """The ASGI app that shows the store; the caller runs it and closes the store afterwards.

    Dash runs plain callbacks on the event loop, so ours are coroutines that ask the store on worker threads.
    """
    stores, health = Stores(store), Health(store)
    server = FastAPI(
        title=settings.title, version=settings.version or "0", openapi_url=None, docs_url=None, redoc_url=None,
        lifespan=stores.lifespan,
    )  # fmt: skip

    @server.get("/healthz")
    @server.get(opencost.PREFIX + "/healthz")
    async def healthz() -> dict[str, str]:
        await health.check()
        return {"status": "ok", "version": settings.version}

    @server.get("/readyz")
    async def readyz() -> dict[str, str | bool]:
        await health.check()
        return {"status": "ok", "leader": settings.leads.leading()}

    access = open_access(store, settings.access)
    authenticator = Authenticator(access, settings.access)
    server.router.routes.extend(sign_in.routes())
    opencost.add_routes(server, stores)
    metrics.add_routes(server, stores, settings.leads)
    server.state.reach = settings.reach
    server.mount(PREFIX, build_api(stores, access, settings.version, [route.router], settings.reach))

    for page in all_pages():
        if page.formerly:
            server.get(page.formerly)(functools.partial(_moved, page.path))

    server.add_middleware(FailureLog)
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
        on_error=frame.failed,
    )
    server.add_middleware(HeadAsGet)
    server.add_middleware(CallbackValidation, pages=app)
    server.add_middleware(SqlMiddleware, engine=Engine(store, Limits()))
    server.add_middleware(
        Gate, authenticator=authenticator, page_policy=functools.partial(page_policy, app), action_of=action_of
    )
    server.add_middleware(TrustedHostMiddleware, allowed_hosts=list(settings.allowed_hosts))
    if settings.access.trusted_proxies:
        server.add_middleware(Proxies, trusted=settings.access.trusted_proxies)
    app.layout = shell.layout
    frame.add_callbacks(app, stores)
    # Dash on FastAPI does this at the first request of /, and not where a link into the pages is the first.
    app._setup_server()
    return server


async def _moved(path: str, request: Request) -> Response:
    return RedirectResponse(f"{path}?{request.url.query}" if request.url.query else path, 308)


def action_of(scope: Scope) -> Action | None:
    """The least that a request's caller must be allowed: what pages require, also for callbacks, websockets and any
    unknown path; None for the API, whose routes each name their own action."""
    path: str = scope["path"]
    if path in ACTIONS:
        return ACTIONS[path]
    if path == PREFIX or path.startswith(f"{PREFIX}/") or path == "/sign-out":
        return None
    if scope["type"] == "http" and is_sql_request(scope):
        return Action.sql
    return Action.see


class HeadAsGet:
    """Answers HEAD like GET, without the body: load balancers and `curl -I` use it, and routes only know GET."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope.get("method") != "HEAD":
            await self._app(scope, receive, send)
            return

        async def send_without_body(message: Message) -> None:
            await send({**message, "body": b""} if message["type"] == "http.response.body" else message)

        await self._app({**scope, "method": "GET"}, receive, send_without_body)


class FailureLog:
    """Logs errors that Dash would answer with a bare 500, such as a page that cannot be serialized as JSON."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await self._app(scope, receive, send)
        except PreventUpdate:
            raise
        except DependencyException:
            # A script of an unknown component library.
            await problem(404, "Not Found")(scope, receive, send)
        except Exception:
            log.exception("%s %s failed", scope.get("method", ""), scope.get("path", ""))
            raise


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


# Importing these registers their scripts with Dash, whether or not a first layout uses them.
COMPONENT_LIBRARIES = (dash_ag_grid, dash_mantine_components)
