"""The sign-in page and what it posts to; sign-out; OpenID Connect's two ends."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from html import escape
from typing import Any
from urllib.parse import parse_qsl

from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Route

from billing import audit
from dashboards.access import users
from dashboards.access.doorkeeper import CALLBACK, Doorkeeper
from dashboards.access.gate import cookie_name, session_cookie
from dashboards.access.oidc import OidcError
from dashboards.access.words import words

log = logging.getLogger(__name__)
FORM_BYTES = 16_384
FLOW = timedelta(minutes=10)
"""How long a sign-in at the provider may take."""
FLOW_COOKIE = "gpuledger-sign-in"


def routes() -> list[Route]:
    return [
        Route("/sign-in", show, methods=["GET"]),
        Route("/sign-in", sign_in, methods=["POST"]),
        Route("/sign-out", sign_out, methods=["POST"]),
        Route("/sign-in/oidc", to_provider, methods=["GET"]),
        Route(CALLBACK, from_provider, methods=["GET"]),
    ]


async def show(request: Request) -> Response:
    return _page(request, local_path(request.query_params.get("next", "")))


async def sign_in(request: Request) -> Response:
    keeper = _keeper(request)
    if not keeper.settings.local_users:
        return _page(request, "/", "refused", 403)
    form = await _form(request)
    name, password, then = form.get("name", ""), form.get("password", ""), local_path(form.get("next", ""))
    address = request.client.host if request.client else ""
    wait = keeper.attempts.wait_seconds(name, address, time.monotonic())
    if wait > 0:
        answer = _page(request, then, "wait", 429, name)
        answer.headers["Retry-After"] = str(int(wait) + 1)
        return answer
    # Counted before it is looked at: many at once are as many.
    keeper.attempts.failed(name, address, time.monotonic())
    user = await asyncio.to_thread(users.sign_in, keeper.store, name, password)
    now = datetime.now(UTC)
    if user is None:
        await _note(keeper, now, name[:200], "access.refused", {"address": address, "how": "password"})
        return _page(request, then, "refused", 401, name)
    keeper.attempts.succeeded(name)
    await _note(keeper, now, user.name, "access.sign_in", {"address": address, "how": "password"})
    return _signed_in(request, keeper.sessions.begin(user.name, "local", now), then)


async def sign_out(request: Request) -> Response:
    keeper, now = _keeper(request), datetime.now(UTC)
    session = keeper.sessions.known(session_cookie(request.headers, request.url.scheme), now)
    if session is not None:
        keeper.sessions.end(session, now)
        await _note(keeper, now, session.name, "access.sign_out", {})
    answer = RedirectResponse("/sign-in", 303)
    answer.delete_cookie(cookie_name(request.url.scheme), path="/", secure=_tls(request), httponly=True, samesite="lax")
    return answer


async def to_provider(request: Request) -> Response:
    keeper = _keeper(request)
    if keeper.provider is None:
        return _page(request, "/", "refused", 404)
    try:
        address, note = await asyncio.to_thread(keeper.provider.begin)
    except OidcError as error:
        log.error("sign-in: %s", error)
        return _page(request, "/", "provider", 502)
    then = local_path(request.query_params.get("next", ""))[:1000]
    sealed = keeper.signer.seal("oidc", {**note, "next": then}, datetime.now(UTC) + FLOW)
    answer = RedirectResponse(address, 303)
    answer.set_cookie(
        FLOW_COOKIE, sealed, max_age=int(FLOW.total_seconds()), path="/sign-in", secure=_tls(request), httponly=True,
        samesite="lax",
    )  # fmt: skip
    return answer


async def from_provider(request: Request) -> Response:
    keeper, now = _keeper(request), datetime.now(UTC)
    note = keeper.signer.open("oidc", request.cookies.get(FLOW_COOKIE, ""), now)
    if keeper.provider is None or note is None:
        return _page(request, "/", "again", 400)
    address = request.client.host if request.client else ""
    try:
        told = await asyncio.to_thread(keeper.provider.finish, dict(request.query_params), note, now)
        session = keeper.sessions.begin(
            told.name, "oidc", now, tuple(sorted(told.roles)), tuple(sorted(told.tenants))
        )  # fmt: skip
    except (OidcError, ValueError) as error:
        log.error("sign-in: %s", error)
        await _note(keeper, now, getattr(error, "where", "?"), "access.refused", {"address": address, "how": "oidc"})
        answer: Response = _page(request, "/", "provider", 403)
    else:
        await _note(keeper, now, told.name, "access.sign_in", {"address": address, "how": "oidc"})
        answer = _signed_in(request, session, note["next"])
    answer.delete_cookie(FLOW_COOKIE, path="/sign-in")
    return answer


def local_path(text: str) -> str:
    """A path of ours to go on to; anything that a browser might take for another host is `/`."""
    local = text.startswith("/") and not text.startswith(("//", "/\\")) and text.isprintable() and "\\" not in text
    return text if local else "/"


def _keeper(request: Request) -> Doorkeeper:
    keeper: Doorkeeper = request.state.doorkeeper
    return keeper


def _signed_in(request: Request, session: str, then: str) -> Response:
    answer = RedirectResponse(then, 303)
    answer.set_cookie(
        cookie_name(request.url.scheme), session, max_age=int(_keeper(request).settings.session.total_seconds()),
        path="/", secure=_tls(request), httponly=True, samesite="lax",
    )  # fmt: skip
    return answer


def _tls(request: Request) -> bool:
    return request.url.scheme == "https"


async def _form(request: Request) -> Mapping[str, str]:
    body = b""
    async for part in request.stream():
        body += part
        if len(body) > FORM_BYTES:
            return {}
    return dict(parse_qsl(body.decode("utf-8", errors="replace"), keep_blank_values=True))


async def _note(keeper: Doorkeeper, now: datetime, name: str, action: str, inputs: Mapping[str, Any]) -> None:
    await asyncio.to_thread(audit.record, keeper.store, now, name, action, name, "", inputs)


def _page(request: Request, then: str, said: str = "", status: int = 200, name: str = "") -> Response:
    keeper, say = _keeper(request), words(request.headers.get("accept-language", ""))
    told = f'<p role="alert" class="gl-sign-in-said">{escape(say[said])}</p>' if said else ""
    local = _FORM.format(
        next=escape(then), name=escape(name), **{key: escape(say[key]) for key in ("user", "password", "enter")}
    )
    other = f'<p><a href="/sign-in/oidc?next={escape(then)}">{escape(say["single"])}</a></p>'
    ways = (local if keeper.settings.local_users else "") + (other if keeper.provider is not None else "")
    page = _PAGE.format(language=say["language"], title=escape(say["title"]), told=told, ways=ways)
    return HTMLResponse(page, status)


_FORM = """<form method="post" action="/sign-in"><input type="hidden" name="next" value="{next}">
<label>{user}<input name="name" value="{name}" autocomplete="username" required autofocus></label>
<label>{password}<input name="password" type="password" autocomplete="current-password" required></label>
<button>{enter}</button></form>"""
_PAGE = """<!DOCTYPE html>
<html lang="{language}"><head><meta charset="utf-8"><title>{title} · gpuledger</title>
<meta name="viewport" content="width=device-width, initial-scale=1"><meta name="color-scheme" content="light dark">
<link rel="icon" type="image/svg+xml" href="/assets/favicon.svg"><link rel="stylesheet" href="/assets/gpuledger.css">
<style>
body {{ font: 16px/1.5 system-ui, sans-serif; }}
main {{ max-width: 22rem; margin: 16vh auto; padding: 0 1rem; }}
label {{ display: block; margin: 1rem 0; }}
input:not([type=hidden]), button {{ display: block; width: 100%; font: inherit; padding: .5rem; }}
input, button {{ box-sizing: border-box; }}
.gl-sign-in-said {{ color: #c92a2a; }}
</style></head><body><main><h1>{title}</h1>{told}{ways}</main></body></html>
"""
