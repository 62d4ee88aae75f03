"""The gate before every route: authenticates the caller, refuses cross-site requests, adds the security headers.

    token ─▶ principal      session cookie ─▶ same site? ─▶ principal      neither ─▶ /sign-in, or 401
    principal ─▶ may they do what the path is for (`ActionOf`)? ─▶ the route, which checks its own action again

The caller is looked up with each request, and every few seconds while one lasts: a websocket, a long answer or a live
page ends soon after its session or token does, or after its owner loses a right.

Requests that change something and come with a cookie (or need no sign-in) must come from our own pages: browsers say so
in Sec-Fetch-Site and Origin, which no page can forge. The same goes for websockets. Requests with a token are exempt,
because no other site can make a browser send one; but for those with Basic, which browsers remember and send again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from http.cookies import CookieError, SimpleCookie
from typing import Any
from urllib.parse import quote, urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from access.authenticator import Authenticator, is_basic, token_in
from access.current import set_current
from access.principal import ANYBODY, ForbiddenError, Principal
from access.roles import AccessError, Action
from access.settings import AccessSettings
from warehouse.errors import LedgerError

log = logging.getLogger(__name__)

SAFE = frozenset({"GET", "HEAD", "OPTIONS"})
PUBLIC = (
    "/healthz", "/readyz", "/model/healthz", "/ping", "/favicon.ico",
    "/sign-in", "/sign-in/oidc", "/sign-in/oidc/callback",
)  # fmt: skip
"""Paths that need no sign-in; and what lies in /assets/."""
COOKIE = "gpuledger"
HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
}
TLS_HEADERS = {"Strict-Transport-Security": "max-age=31536000"}


RECHECK_SECONDS = 2.0
"""How often the caller of a request that is still being answered is looked up again."""
ActionOf = Callable[[Scope], Action | None]
"""The least that the caller of a path must be allowed, whatever its route requires; None: the route alone decides."""


class Gate:
    """ASGI middleware. page_policy: the Content-Security-Policy of pages, asked for when one is answered."""

    def __init__(
        self, app: ASGIApp, authenticator: Authenticator, page_policy: Callable[[], str], action_of: ActionOf
    ) -> None:
        self._app, self._authenticator, self._page_policy, self._action_of = app, authenticator, page_policy, action_of

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        tls = is_tls(scope, self._authenticator.settings)
        begun: list[str] = []

        async def send_with_headers(message: Message) -> None:
            if not begun:
                begun.append(message["type"])
            if message["type"] == "http.response.start":
                self._add_headers(MutableHeaders(raw=message["headers"]), tls, scope["path"])
                message = {**message, "headers": message["headers"]}
            await send(message)

        try:
            refusal = self._cross_site(scope, headers)
            principal = None if refusal else await self._principal(scope, headers)
        except AccessError as error:
            refusal, principal = (401, str(error)), None
        except LedgerError as error:
            log.error("gate: %s", error)
            refusal, principal = (503, "the store cannot be asked who you are; try again"), None
        if refusal is None and principal is None and not _public(scope["path"]):
            refusal = (401, "sign in, or send Authorization: Bearer TOKEN")
        if refusal is None and principal is not None and not _public(scope["path"]):
            refusal = self._forbidden(scope, principal)
        if refusal is not None:
            await self._refuse(scope, headers, refusal)(scope, receive, send_with_headers)
            return
        scope.setdefault("state", {})["principal"] = principal
        scope["state"]["authenticator"] = self._authenticator
        scope["state"]["tls"] = tls
        set_current(principal, self._authenticator.access)
        answering = asyncio.ensure_future(self._app(scope, receive, send_with_headers))
        if await self._answer_while_authorized(answering, scope, headers, principal):
            return
        ended = self._refuse(scope, {}, (401, "you are signed out, or may do other things than before"))
        if not begun or scope["type"] == "websocket":
            await ended(scope, _disconnected, send_with_headers)
        # Else the answer stays incomplete: no last piece follows, and the connection is closed.

    async def _answer_while_authorized(
        self, answering: asyncio.Future[None], scope: Scope, headers: Headers, principal: Principal | None
    ) -> bool:
        """Waits for the answer; False: cut off, because the caller is no longer who they were when it began."""
        try:
            while not (await asyncio.wait({answering}, timeout=RECHECK_SECONDS))[0]:
                lasts = principal in (None, ANYBODY) or _signs_in_or_out(scope["path"])
                if not lasts and not await self._is_unchanged(principal, scope, headers):
                    return False
            answering.result()
            return True
        finally:
            if not answering.done():
                answering.cancel()
                await asyncio.gather(answering, return_exceptions=True)

    async def _is_unchanged(self, principal: Principal | None, scope: Scope, headers: Headers) -> bool:
        try:
            return await self._principal(scope, headers) == principal
        except LedgerError as error:
            log.info("gate: a request is broken off: %s", error)
            return False

    def _forbidden(self, scope: Scope, principal: Principal) -> tuple[int, str] | None:
        action = self._action_of(scope)
        try:
            if action is not None:
                principal.require(action)
        except ForbiddenError as error:
            return 403, str(error)
        return None

    async def _principal(self, scope: Scope, headers: Headers) -> Principal | None:
        now = datetime.now(UTC)
        if token_in(headers):
            return await asyncio.to_thread(self._authenticator.by_token, headers, now)
        cookie = session_cookie(headers, is_tls(scope, self._authenticator.settings))
        found = await asyncio.to_thread(self._authenticator.by_session, cookie, now) if cookie else None
        return found or self._authenticator.without_sign_in()

    def _cross_site(self, scope: Scope, headers: Headers) -> tuple[int, str] | None:
        """A refusal, if another site's page made the browser change something or open a websocket."""
        if scope["type"] == "http" and scope["method"] in SAFE:
            return None
        token = token_in(headers)
        if token and not is_basic(headers):
            return None
        site, origin = headers.get("sec-fetch-site"), headers.get("origin")
        if site in ("same-origin", "none"):
            return None
        if site is None and origin is None:
            # Not a browser. Where no sign-in is needed, there is no session that it could abuse.
            settings = self._authenticator.settings
            needs = not token and settings.sign_in and session_cookie(headers, is_tls(scope, settings))
            return (403, "a request with a session comes from our own pages alone") if needs else None
        ours = {headers.get("host"), urlsplit(self._authenticator.settings.url).netloc or None}
        if origin is not None and site is None and urlsplit(origin).netloc in ours:
            return None
        return 403, "another site's page may not ask this"

    def _refuse(self, scope: Scope, headers: Mapping[str, str], refusal: tuple[int, str]) -> ASGIApp:
        status, detail = refusal
        if scope["type"] == "websocket":
            return _close_websocket
        browses = scope["method"] == "GET" and "text/html" in headers.get("accept", "")
        if status == 401 and browses:
            asked = scope["path"] + (f"?{scope['query_string'].decode('latin-1')}" if scope["query_string"] else "")
            return RedirectResponse(f"/sign-in?next={quote(asked, safe='')}", 303)
        return problem(status, detail)

    def _add_headers(self, headers: MutableHeaders, tls: bool, path: str) -> None:
        for name, value in {**HEADERS, **(TLS_HEADERS if tls else {})}.items():
            headers.setdefault(name, value)
        if "content-security-policy" not in headers:
            page = headers.get("content-type", "").startswith("text/html")
            policy = self._page_policy() if page else "default-src 'none'; frame-ancestors 'none'"
            headers["Content-Security-Policy"] = policy
        if not path.startswith(("/assets/", "/_dash-component-suites/", "/_favicon")):
            headers.setdefault("Cache-Control", "no-store")


def problem(status: int, detail: str, **more: Any) -> Response:
    """An error as RFC 9457 has it."""
    titles = {400: "Bad request", 401: "Not signed in", 403: "Forbidden", 404: "Not found", 405: "Method not allowed",
              409: "Conflict", 413: "Too large", 422: "Not understood", 429: "Too many requests",
              503: "Not available"}  # fmt: skip
    document = {"type": "about:blank", "title": titles.get(status, "Error"), "status": status, "detail": detail, **more}
    headers = {"WWW-Authenticate": 'Bearer realm="gpuledger"'} if status == 401 else {}
    return JSONResponse(document, status, headers, media_type="application/problem+json")


def is_tls(scope: Scope, settings: AccessSettings) -> bool:
    """Whether browsers reach us over TLS: by the outer scheme if a trusted proxy sets it, or by the settings' url."""
    return scope["scheme"] in ("https", "wss") or settings.url.startswith("https://")


def session_cookie(headers: Mapping[str, str], tls: bool) -> str:
    return cookie_of(headers, cookie_name(COOKIE, tls))


def cookie_of(headers: Mapping[str, str], name: str) -> str:
    cookies: SimpleCookie = SimpleCookie()
    try:
        cookies.load(headers.get("cookie", ""))
    except CookieError:
        return ""
    found = cookies.get(name)
    return found.value if found is not None else ""


def cookie_name(name: str, tls: bool) -> str:
    """With the prefix __Host- over TLS, so that no other host or path of the domain can set it."""
    return f"__Host-{name}" if tls else name


def _public(path: str) -> bool:
    return path in PUBLIC or path.startswith("/assets/")


def _signs_in_or_out(path: str) -> bool:
    """Signing in or out: it ends the session that it came with."""
    return path in PUBLIC or path == "/sign-out"


async def _disconnected() -> Message:
    return {"type": "http.disconnect"}


async def _close_websocket(scope: Scope, receive: Receive, send: Send) -> None:
    await receive()
    await send({"type": "websocket.close", "code": 1008})
