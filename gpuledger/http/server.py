"""Accepts connections, counts them by address, and makes room when the limit is reached.

When the house is full, a connection that waits for its own client gives way: one of the address that has most, the one
that waited longest. So a flood pushes itself out, and whoever sends a whole request at once is served. What is being
answered is never ended. A handshake counts from its first packet.
"""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import logging
import socket
import ssl
import sys
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice

import uvicorn
from starlette.types import ASGIApp
from uvicorn.config import STARTUP_FAILURE

from gpuledger.http.connection import Connection
from gpuledger.http.exchange import Exchanges
from gpuledger.http.limits import HttpLimits
from warehouse.addresses import rate_limit_key

log = logging.getLogger(__name__)

FULL = b"HTTP/1.1 503 Service Unavailable\r\nretry-after: 5\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
CHECK_SECONDS = 0.5
LOG_SECONDS = 60.0
LOOKED_AT = 64


@dataclass(eq=False)
class Guest:
    """A connection from its acceptance to its end. connection: None during the handshake."""

    address: str
    since: float
    welcome: asyncio.Task[None] | None = None
    connection: Connection | None = None

    @property
    def waits_since(self) -> float | None:
        """None where it is being answered."""
        if self.connection is None:
            return self.since
        return self.connection.since if self.connection.waits else None

    def leave(self) -> None:
        if self.connection is not None:
            self.connection.transport.abort()
        elif self.welcome is not None:
            self.welcome.cancel()


@dataclass
class Guests:
    """Those who are in."""

    limits: HttpLimits
    by_address: dict[str, dict[Guest, None]] = field(default_factory=lambda: defaultdict(dict))
    """In the order they came."""
    count: int = 0

    def __iter__(self) -> Iterator[Guest]:
        return (guest for guests in list(self.by_address.values()) for guest in list(guests))

    def enter(self, address: str, now: float) -> Guest | None:
        """None where there is no room, and none can be made."""
        mine = self.by_address.get(address, {})
        if len(mine) >= self.limits.per_address and not self._is_trusted(address) and not self._make_room(mine):
            return None
        if self.count >= self.limits.connections and not self._make_room(max(self.by_address.values(), key=len)):
            return None
        guest = Guest(address, now)
        self.by_address[address][guest] = None
        self.count += 1
        return guest

    def gone(self, guest: Guest) -> None:
        guests = self.by_address.get(guest.address, {})
        if guest not in guests:
            return
        del guests[guest]
        self.count -= 1
        if not guests:
            del self.by_address[guest.address]

    def _make_room(self, among: Mapping[Guest, None]) -> bool:
        waiting = (guest for guest in among if guest.waits_since is not None)
        # Those who came first, and not all: under a flood this happens thousands of times a second.
        some = list(islice(waiting, LOOKED_AT))
        if not some:
            return False
        guest = min(some, key=lambda one: one.waits_since or 0.0)
        self.gone(guest)
        guest.leave()
        return True

    def _is_trusted(self, address: str) -> bool:
        return any(ipaddress.ip_network(address).network_address in one for one in self.limits.trusted)


class Server(uvicorn.Server):
    """uvicorn's, with our own door. It leaves the signals to us: its own way raises them again at the end, so that the
    process would not exit 0."""

    def __init__(
        self,
        app: ASGIApp,
        limits: HttpLimits,
        certificate: str | None = None,
        key: str | None = None,
        log_level: str = "warning",
    ) -> None:
        """certificate, key: PEM files for TLS.   Errors: OSError (ssl.SSLError is one) if they are of no use."""
        super().__init__(
            uvicorn.Config(
                Exchanges(app, limits), log_level=log_level, access_log=False, workers=1, server_header=False,
                proxy_headers=False,  # uvicorn would believe this machine; whom we believe, the sign-in settings say

                http=Connection, ws="none", timeout_keep_alive=limits.idle_seconds, timeout_graceful_shutdown=3,
                ssl_certfile=certificate, ssl_keyfile=key,
            )
        )  # fmt: skip
        self.config.load()
        self.limits, self.guests = limits, Guests(limits)
        self._at_the_door: list[asyncio.Task[None]] = []
        self._refused = 0
        self._logged_at = -LOG_SECONDS

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await self.lifespan.startup()
        if self.lifespan.should_exit:
            sys.exit(STARTUP_FAILURE)
        self.servers = []
        for listener in sockets or ():
            listener.setblocking(False)
            listener.listen(self.config.backlog)
            self._at_the_door.append(asyncio.create_task(self._accept(listener)))
        self._at_the_door.append(asyncio.create_task(self._check()))
        self.started = True

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        for task in self._at_the_door:
            task.cancel()
        await asyncio.gather(*self._at_the_door, return_exceptions=True)
        for guest in self.guests:
            if guest.connection is None:
                guest.leave()
        await super().shutdown(sockets)

    async def _accept(self, listener: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                found, address = await loop.sock_accept(listener)
            except OSError as error:
                # Gone before it was let in, or no descriptor left after all.
                log.warning("a connection could not be accepted: %s", error)
                await asyncio.sleep(0.1)
                continue
            guest = self.guests.enter(rate_limit_key(address[0]), loop.time())
            if guest is None:
                self._turn_away(found)
                continue
            guest.welcome = loop.create_task(self._welcome(guest, found))

    async def _welcome(self, guest: Guest, found: socket.socket) -> None:
        """The handshake, and then its requests."""
        loop = asyncio.get_running_loop()

        def connection() -> Connection:
            return Connection(
                self.limits, lambda: self.guests.gone(guest), config=self.config, server_state=self.server_state,
                app_state=self.lifespan.state, _loop=loop,
            )  # fmt: skip

        try:
            tls: ssl.SSLContext | None = self.config.ssl
            times = {"ssl_handshake_timeout": self.limits.tls_seconds, "ssl_shutdown_timeout": self.limits.rest_seconds}
            found.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            _, protocol = await loop.connect_accepted_socket(connection, found, ssl=tls, **(times if tls else {}))
            guest.connection = protocol
        except (OSError, TimeoutError) as error:  # no handshake; ssl.SSLError is an OSError
            log.debug("no handshake with %s: %s", guest.address, error)
        finally:
            if guest.connection is None:
                self.guests.gone(guest)
                found.close()

    def _turn_away(self, found: socket.socket) -> None:
        with contextlib.suppress(OSError), found:
            found.setblocking(False)
            if self.config.ssl is None:
                found.send(FULL)
                found.shutdown(socket.SHUT_WR)
        self._refused += 1
        if time.monotonic() - self._logged_at > LOG_SECONDS:
            log.warning("%d connections are open, the limit: refused %d", self.guests.count, self._refused)
            self._logged_at, self._refused = time.monotonic(), 0

    async def _check(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(CHECK_SECONDS)
            for guest in self.guests:
                if guest.connection is not None:
                    guest.connection.check(loop.time())
