"""The client's real address and scheme behind a trusted proxy."""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from typing import Any, cast

from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware

_PEER = "gpuledger.peer"


class Proxies:
    """ASGI middleware: the client's address and scheme as a trusted proxy forwards them. If what it forwards is not an
    address, the proxy's own counts."""

    def __init__(self, app: ASGIApp, trusted: Sequence[str]) -> None:
        self._app = app
        self._outer: Any = ProxyHeadersMiddleware(cast("Any", self._checked), trusted_hosts=list(trusted))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] in ("http", "websocket"):
            scope[_PEER] = scope.get("client")
        await self._outer(scope, receive, send)

    async def _checked(self, scope: Scope, receive: Receive, send: Send) -> None:
        peer = scope.pop(_PEER, None)
        client = scope.get("client")
        if client is not None and not _is_address(client[0]):
            scope["client"] = peer
        await self._app(scope, receive, send)


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True
