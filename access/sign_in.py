"""The sign-in page and its endpoints; sign-out; the two endpoints of OpenID Connect."""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from html import escape
from typing import Any
from urllib.parse import parse_qsl, quote, urlsplit

from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Route

from access.authenticator import CALLBACK, Authenticator
from access.gate import COOKIE, cookie_name, cookie_of, session_cookie
from access.oidc import OidcError
from access.people import LONGEST_NAME
from access.roles import AccessError
from access.words import words
from billing import audit
from warehouse.lanes import LaneFullError

log = logging.getLogger(__name__)
FORM_BYTES = 16_384
FLOW = timedelta(minutes=10)
"""How long a sign-in at the provider may take."""
FLOW_COOKIE = "gpuledger-sign-in"
DEVICE = timedelta(days=400)
"""How long a browser is known to be its owner's; browsers keep no cookie for longer."""
DEVICE_COOKIE = "gpuledger-device"
BUSY_SECONDS = 5
LONGEST = LONGEST_NAME + 1
"""Of a name that is looked at: nobody has one of so many characters."""


def routes() -> list[Route]:
    return [
        Route("/sign-in", show),
        Route("/sign-in", sign_in, methods=["POST"]),
        Route("/sign-out", sign_out, methods=["POST"]),
        Route("/sign-in/oidc", to_provider),
        Route(CALLBACK, from_provider),
    ]


async def show(request: Request) -> Response:
    return _page(request, local_path(request.query_params.get("next", "")))


async def sign_in(request: Request) -> Response:
    authenticator = _authenticator(request)
    if not authenticator.settings.local_users:
        return _page(request, "/", "refused", 403)
    form, now = await _form(request), datetime.now(UTC)
    name, password, then = form.get("name", "")[:LONGEST], form.get("password", ""), local_path(form.get("next", ""))
    address, device = _address(request), _device(request, name, now)
    wait = authenticator.attempts.wait_seconds(name, address, device, time.monotonic())
    if wait > 0:
        answer = _page(request, then, "wait", 429, name)
        answer.headers["Retry-After"] = str(int(wait) + 1)
        return answer
    if authenticator.passwords.is_full(address):
        return _busy(request, then, name)
    # Counted before it is checked, so that parallel attempts count too.
    authenticator.attempts.failed(name, address, device, time.monotonic())
    found = await authenticator.passwords.run(address, authenticator.sessions.by_password, name, password, now, address)
    if found is None:
        await _refused(authenticator, now, name, {"address": address, "how": "password"})
        return _page(request, then, "refused", 401, name)
    _, cookie = found
    await _end_previous_session(request, now)
    authenticator.attempts.succeeded(name, address, device)
    answer = _signed_in(request, cookie, then)
    sealed = authenticator.signer.seal(f"device of {name}", {"id": device or secrets.token_hex(8)}, now + DEVICE)
    _set_cookie(request, answer, cookie_name(DEVICE_COOKIE, _tls(request)), sealed, DEVICE)
    return answer


async def sign_out(request: Request) -> Response:
    await _end_previous_session(request, datetime.now(UTC))
    answer = RedirectResponse("/sign-in", 303)
    name = cookie_name(COOKIE, _tls(request))
    answer.delete_cookie(name, path="/", secure=_tls(request), httponly=True, samesite="lax")
    return answer


async def _end_previous_session(request: Request, now: datetime) -> None:
    """Ends the browser's earlier session, whose cookie is about to be replaced."""
    if before := session_cookie(request.headers, _tls(request)):
        await asyncio.to_thread(_authenticator(request).sessions.end, before, now)


async def to_provider(request: Request) -> Response:
    authenticator = _authenticator(request)
    if authenticator.provider is None:
        return _page(request, "/", "refused", 404)
    try:
        address, note = await authenticator.asking.run(_address(request), authenticator.provider.begin)
    except LaneFullError:
        return _busy(request, "/")
    except OidcError as error:
        log.error("sign-in: %s", error)
        return _page(request, "/", "provider", 502)
    then = local_path(request.query_params.get("next", ""))[:1000]
    sealed = authenticator.signer.seal("oidc", {**note, "next": then}, datetime.now(UTC) + FLOW)
    answer = RedirectResponse(address, 303)
    _set_cookie(request, answer, FLOW_COOKIE, sealed, FLOW, "/sign-in")
    return answer


async def from_provider(request: Request) -> Response:
    authenticator, now = _authenticator(request), datetime.now(UTC)
    note = authenticator.signer.open("oidc", request.cookies.get(FLOW_COOKIE, ""), now)
    if authenticator.provider is None or note is None:
        return _page(request, "/", "again", 400)
    address = _address(request)
    try:
        identity = await authenticator.asking.run(
            address, authenticator.provider.finish, dict(request.query_params), note, now
        )
        _, cookie = await asyncio.to_thread(
            authenticator.sessions.by_provider, **vars(identity), now=now, address=address
        )
    except LaneFullError:
        return _busy(request, "/")
    except AccessError as error:
        log.error("sign-in: %s", error)
        await _refused(authenticator, now, error.where, {"address": address, "how": "oidc"})
        answer: Response = _page(request, "/", "provider", 403)
    else:
        await _end_previous_session(request, now)
        answer = _signed_in(request, cookie, note["next"])
    answer.delete_cookie(FLOW_COOKIE, path="/sign-in")
    return answer


def local_path(text: str) -> str:
    """A path on this server to continue at; `/` for anything that a browser might take for another host."""
    local = text.startswith("/") and not text.startswith(("//", "/\\")) and text.isprintable() and "\\" not in text
    return text if local else "/"


def _authenticator(request: Request) -> Authenticator:
    authenticator: Authenticator = request.state.authenticator
    return authenticator


def _signed_in(request: Request, session: str, then: str) -> Response:
    answer = RedirectResponse(then, 303)
    lasts = _authenticator(request).settings.session
    _set_cookie(request, answer, cookie_name(COOKIE, _tls(request)), session, lasts)
    return answer


def _set_cookie(request: Request, answer: Response, name: str, value: str, lasts: timedelta, path: str = "/") -> None:
    answer.set_cookie(
        name, value, max_age=int(lasts.total_seconds()), path=path, secure=_tls(request), httponly=True, samesite="lax"
    )


def _device(request: Request, name: str, now: datetime) -> str:
    """The id of a browser with which that user has signed in before; else empty."""
    sealed = cookie_of(request.headers, cookie_name(DEVICE_COOKIE, _tls(request)))
    note = _authenticator(request).signer.open(f"device of {name}", sealed, now)
    return note["id"] if note else ""


def _address(request: Request) -> str:
    return request.client.host if request.client else ""


def _tls(request: Request) -> bool:
    tls: bool = request.state.tls
    return tls


async def _form(request: Request) -> Mapping[str, str]:
    body = b""
    async for part in request.stream():
        body += part
        if len(body) > FORM_BYTES:
            return {}
    return dict(parse_qsl(body.decode("utf-8", errors="replace")))


def _busy(request: Request, then: str, name: str = "") -> Response:
    """The response when the server is too busy to check; it does not count as an attempt."""
    answer = _page(request, then, "busy", 503, name)
    answer.headers["Retry-After"] = str(BUSY_SECONDS)
    return answer


async def _refused(authenticator: Authenticator, now: datetime, who: str, inputs: Mapping[str, Any]) -> None:
    """Records a refused sign-in in the audit; there is no change of the access store to record it with."""
    await asyncio.to_thread(
        audit.record, authenticator.access.warehouse, now, "nobody", "access.refused", who, "", inputs
    )


def _asked_language(request: Request, then: str) -> str:
    """That of the link, or of the page that it leads to, as pages have it (`lang`); else what the browser accepts."""
    in_links = (request.query_params.get("lang"), dict(parse_qsl(urlsplit(then).query)).get("lang"))
    return next(filter(None, in_links), request.headers.get("accept-language", ""))


def _page(request: Request, then: str, message_key: str = "", status: int = 200, name: str = "") -> Response:
    authenticator, texts = _authenticator(request), words(_asked_language(request, then))
    message = f'<p role="alert" class="gl-sign-in-said">{escape(texts[message_key])}</p>' if message_key else ""
    local = _FORM.format(
        next=escape(then), name=escape(name), **{key: escape(texts[key]) for key in ("user", "password", "enter")}
    )
    other = f'<p><a href="/sign-in/oidc?next={quote(then)}">{escape(texts["single"])}</a></p>'
    ways = (local if authenticator.settings.local_users else "") + (other if authenticator.provider is not None else "")
    page = _PAGE.format(language=texts["language"], title=escape(texts["title"]), message=message, ways=ways)
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
body {{ font: 16px/1.5 var(--gl-font); }}
main {{ max-width: 22rem; min-height: 0; margin: 16vh auto 0; padding: 0 1rem; }}
label {{ display: block; margin: 1rem 0; }}
input:not([type=hidden]), button {{ display: block; width: 100%; font: inherit; padding: .5rem; }}
input, button {{ box-sizing: border-box; border: 1px solid var(--gl-line); border-radius: 9px; }}
input {{ background: var(--gl-card); color: var(--gl-ink); }}
button {{ background: #2f59cf; border-color: #2f59cf; color: #fff; font-weight: 600; cursor: pointer; }}
.gl-sign-in-said {{ color: var(--gl-bad); }}
.gl-sign-in-at {{ display: flex; align-items: center; gap: 10px; margin-bottom: 1.5rem; font-weight: 680; }}
</style></head><body><main>
<p class="gl-sign-in-at"><span class="gl-mark"></span>gpuledger</p><h1>{title}</h1>{message}{ways}</main></body></html>
"""
