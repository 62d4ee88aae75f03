"""Accepts connections, counts them by address, and makes room when the limit is reached.

At the limit, the connection that has waited longest for its client is closed, among those of the address that has most.
So a flood displaces its own connections, and a client that sends a whole request at once is served. A request that is
being answered is never cut off. A TLS handshake counts from its first packet.
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
CANDIDATES = 64


@dataclass(eq=False)
class Peer:
    """A connection from its acceptance to its end.   connection: None during the TLS handshake."""

    address: str
    since: float
    starting: asyncio.Task[None] | None = None
    connection: Connection | None = None

    @property
    def waits_since(self) -> float | None:
        """Since when it has waited for its client; None while it is being answered."""
        if self.connection is None:
            return self.since
        return self.connection.since if self.connection.waits else None

    def leave(self) -> None:
        if self.connection is not None:
            self.connection.transport.abort()
        elif self.starting is not None:
            self.starting.cancel()


@dataclass
class Peers:
    """All accepted connections, by address."""

    limits: HttpLimits
    by_address: dict[str, dict[Peer, None]] = field(default_factory=lambda: defaultdict(dict))
    """In order of acceptance."""
    count: int = 0

    def __iter__(self) -> Iterator[Peer]:
        return (peer for peers in list(self.by_address.values()) for peer in list(peers))

    def admit(self, address: str, now: float) -> Peer | None:
        """Counts a new connection; None if the limit is reached and no connection can be closed."""
        mine = self.by_address.get(address, {})
        if len(mine) >= self.limits.per_address and not self._is_trusted(address) and not self._make_room(mine):
            return None
        if self.count >= self.limits.connections and not self._make_room(max(self.by_address.values(), key=len)):
            return None
        peer = Peer(address, now)
        self.by_address[address][peer] = None
        self.count += 1
        return peer

    def remove(self, peer: Peer) -> None:
        peers = self.by_address.get(peer.address, {})
        if peer not in peers:
            return
        del peers[peer]
        self.count -= 1
        if not peers:
            del self.by_address[peer.address]

    def _make_room(self, among: Mapping[Peer, None]) -> bool:
        waiting = (peer for peer in among if peer.waits_since is not None)
        # Only the first ones: under a flood this happens thousands of times a second.
        some = list(islice(waiting, CANDIDATES))
        if not some:
            return False
        peer = min(some, key=lambda one: one.waits_since or 0.0)
        self.remove(peer)
        peer.leave()
        return True

    def _is_trusted(self, address: str) -> bool:
        return any(ipaddress.ip_network(address).network_address in one for one in self.limits.trusted)


class Server(uvicorn.Server):
    """uvicorn's server with our own accept loop. Signals are handled elsewhere: uvicorn would raise them again at the
    end, and the process would not exit 0."""

    def __init__(
        self,
        app: ASGIApp,
        limits: HttpLimits,
        certificate: str | None = None,
        key: str | None = None,
        log_level: str = "warning",
    ) -> None:
        """certificate, key: PEM files for TLS.   Errors: OSError (ssl.SSLError is one) if they cannot be used."""
        super().__init__(
            uvicorn.Config(
                Exchanges(app, limits), log_level=log_level, access_log=False, workers=1, server_header=False,
                proxy_headers=False,  # uvicorn would trust this machine; the sign-in settings name the trusted ones
                http=Connection, ws="none", timeout_keep_alive=limits.idle_seconds, timeout_graceful_shutdown=3,
                ssl_certfile=certificate, ssl_keyfile=key,
            )
        )  # fmt: skip
        self.config.load()
        self.limits, self.peers = limits, Peers(limits)
        self._accepting: list[asyncio.Task[None]] = []
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
            self._accepting.append(asyncio.create_task(self._accept(listener)))
        self._accepting.append(asyncio.create_task(self._check()))
        self.started = True

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        for task in self._accepting:
            task.cancel()
        await asyncio.gather(*self._accepting, return_exceptions=True)
        for peer in self.peers:
            if peer.connection is None:
                peer.leave()
        await super().shutdown(sockets)

    async def _accept(self, listener: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                found, address = await loop.sock_accept(listener)
            except OSError as error:
                # The client is gone already, or no descriptor is left.
                log.warning("a connection could not be accepted: %s", error)
                await asyncio.sleep(0.1)
                continue
            peer = self.peers.admit(rate_limit_key(address[0]), loop.time())
            if peer is None:
                self._reject(found)
                continue
            peer.starting = loop.create_task(self._connect(peer, found))

    async def _connect(self, peer: Peer, found: socket.socket) -> None:
        """Does the TLS handshake and starts the protocol."""
        loop = asyncio.get_running_loop()

        def connection() -> Connection:
            return Connection(
                self.limits, lambda: self.peers.remove(peer), config=self.config, server_state=self.server_state,
                app_state=self.lifespan.state, _loop=loop,
            )  # fmt: skip

        try:
            tls: ssl.SSLContext | None = self.config.ssl
            times = {"ssl_handshake_timeout": self.limits.tls_seconds, "ssl_shutdown_timeout": self.limits.rest_seconds}
            found.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            _, protocol = await loop.connect_accepted_socket(connection, found, ssl=tls, **(times if tls else {}))
            peer.connection = protocol
        except (OSError, TimeoutError) as error:  # the handshake failed; ssl.SSLError is an OSError
            log.debug("no handshake with %s: %s", peer.address, error)
        finally:
            if peer.connection is None:
                self.peers.remove(peer)
                found.close()

    def _reject(self, found: socket.socket) -> None:
        with contextlib.suppress(OSError), found:
            found.setblocking(False)
            if self.config.ssl is None:
                found.send(FULL)
                found.shutdown(socket.SHUT_WR)
        self._refused += 1
        if time.monotonic() - self._logged_at > LOG_SECONDS:
            log.warning("%d connections are open, the limit: refused %d", self.peers.count, self._refused)
            self._logged_at, self._refused = time.monotonic(), 0

    async def _check(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(CHECK_SECONDS)
            for peer in self.peers:
                if peer.connection is not None:
                    peer.connection.check(loop.time())
