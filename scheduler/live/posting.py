"""Posts to a configured URL, protected against server-side request forgery.

The name is resolved once, and that address is used: never a link-local one, where clouds serve credentials, nor a
multicast or unspecified one; this machine only if the URL names it. Redirects and proxies are not followed.
"""

from __future__ import annotations

import ipaddress
import socket
import ssl
from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import urlsplit

import httpcore

from ingest.answer_time import ended_in_time
from warehouse.connection_errors import reason
from warehouse.hosts import is_loopback

TIMEOUT_SECONDS = 10.0
"""Timeout of each step of a request; the whole request has twice as long."""
REFUSALS = (400, 410, 413, 422)
"""Statuses after which a retry is pointless."""
_BROKEN = (httpcore.UnsupportedProtocol, httpcore.NetworkError, httpcore.TimeoutException, httpcore.ProtocolError)


class PostError(Exception):
    """The request failed.   refused: a retry is pointless."""

    def __init__(self, detail: str, refused: bool = False) -> None:
        super().__init__(detail)
        self.refused = refused


def post(url: str, body: bytes, headers: Mapping[str, str]) -> None:
    """Errors: PostError, unless the answer was a success."""
    host = urlsplit(url).netloc
    sent: list[tuple[str, str]] = [("Host", host), ("Content-Length", str(len(body))), *headers.items()]
    timeout = dict.fromkeys(("connect", "read", "write", "pool"), TIMEOUT_SECONDS)
    try:
        with (
            httpcore.ConnectionPool(ssl_context=ssl.create_default_context(), network_backend=_Guarded(url)) as pool,
            ended_in_time(2 * TIMEOUT_SECONDS, pool.close),
            pool.stream(
                "POST",
                url,
                headers=sent,
                content=body,
                extensions={"timeout": timeout},
            ) as answer,
        ):
            status = answer.status
    except (OSError, RuntimeError, *_BROKEN) as error:
        raise PostError(reason(error)) from None
    if not 200 <= status < 300:
        raise PostError(f"answered {status}", status in REFUSALS)


class _Guarded(httpcore.NetworkBackend):
    def __init__(self, url: str) -> None:
        self._backend, self._own = httpcore.SyncBackend(), is_loopback(urlsplit(url).hostname or "")

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.NetworkStream:
        try:
            found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        except OSError as error:
            raise httpcore.ConnectError(f"{host} cannot be resolved ({error.strerror})") from None
        problem = "no address"
        for *_, place in found:
            address = ipaddress.ip_address(str(place[0]).partition("%")[0])
            problem = _forbidden(address, self._own)
            if not problem:
                return self._backend.connect_tcp(str(address), port, timeout, local_address, socket_options)
        raise PostError(f"{host} is {problem}, which is never called")

    def connect_unix_socket(
        self, path: str, timeout: float | None = None, socket_options: Iterable[Any] | None = None
    ) -> httpcore.NetworkStream:
        raise PostError("a socket of this machine cannot be a webhook")

    def sleep(self, seconds: float) -> None:
        self._backend.sleep(seconds)


CREDENTIALS = frozenset(map(ipaddress.ip_address, ("100.100.100.200", "168.63.129.16", "fd00:ec2::254")))
"""Addresses other than link-local ones at which clouds serve credentials."""
NAT64 = ipaddress.IPv6Network("64:ff9b::/96")
"""IPv4 addresses in IPv6 networks (RFC 6052)."""


def _forbidden(address: ipaddress.IPv4Address | ipaddress.IPv6Address, own: bool) -> str:
    if isinstance(address, ipaddress.IPv6Address):
        behind = ipaddress.IPv4Address(int(address) & 0xFFFFFFFF) if address in NAT64 else None
        address = address.ipv4_mapped or address.sixtofour or behind or address
    if address.is_loopback:
        return "" if own else "this machine"
    if address in CREDENTIALS:
        return "where a cloud keeps credentials"
    for name in ("is_link_local", "is_multicast", "is_unspecified", "is_reserved"):
        if getattr(address, name):
            return name.removeprefix("is_").replace("_", "-")
    return ""
