"""Every limit of the HTTP server; docs/limits.md is the table for people."""

from __future__ import annotations

import ipaddress
import resource
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ingest.admission import BODY_BYTES
from ingest.wire import PATH

KIB, MIB = 1 << 10, 1 << 20
Network = ipaddress.IPv4Network | ipaddress.IPv6Network


@dataclass(frozen=True)
class HttpLimits:
    """connections: open at the same time.   per_address: of these from one address (for IPv6, one /64).
    trusted: proxies, which many clients share, and which per_address does not apply to.

    tls_seconds: for the handshake.   head_seconds: from the connection, or the first byte of a further request, to the
    end of its head.   idle_seconds: between two requests.   head_bytes: of request line and headers.
    url_bytes: of the URL.   headers: how many.   pipelined: requests sent ahead of their answers.

    body_bytes: of a body on the wire; own_body_bytes: overrides it by prefix of the path.   bodies_bytes: of all bodies
    in memory at the same time.   body_grace_seconds, body_rate: a body may take the grace, and one second more for
    every `body_rate` bytes received.   body_framing: bytes of chunked framing beyond the body's own size.
    rest_seconds: to read the rest of a body after its response.

    answer_bytes: of a response made in memory; streamed responses have limits of their own.   answer_rate: bytes per
    second that a client must read of a waiting response, on average over answer_seconds.
    """

    connections: int = 512
    per_address: int = 256
    trusted: Sequence[Network] = ()

    tls_seconds: float = 10
    head_seconds: float = 10
    idle_seconds: int = 15  # more than Prometheus (5 s) and our agents (10 s) wait between two pushes
    head_bytes: int = 64 * KIB
    url_bytes: int = 32 * KIB
    headers: int = 100
    pipelined: int = 16

    body_bytes: int = 5 * MIB
    own_body_bytes: Mapping[str, int] = field(default_factory=lambda: {PATH + "/": BODY_BYTES})
    bodies_bytes: int = 128 * MIB
    body_grace_seconds: float = 20
    body_rate: int = 1 * KIB
    body_framing: int = 64 * KIB
    rest_seconds: float = 5

    answer_bytes: int = 64 * MIB
    answer_seconds: float = 30
    answer_rate: int = 1 * KIB

    def body_bytes_of(self, path: str) -> int:
        found = [limit for start, limit in self.own_body_bytes.items() if path.startswith(start)]
        return found[0] if found else self.body_bytes


MOST_CONNECTIONS = 4096
"""Maximum, however many descriptors there are: a connection needs memory, too."""


def limits_here(trusted: Sequence[Network] = ()) -> HttpLimits:
    """The limits of this process: half of its file descriptors are reserved for the engine and logs."""
    connections = min(MOST_CONNECTIONS, raise_descriptors() // 2)
    return HttpLimits(connections=connections, per_address=connections // 2, trusted=trusted)


def raise_descriptors() -> int:
    """Raises the soft limit of open file descriptors to the hard one, and returns it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        except (ValueError, OSError):
            return soft  # a sandbox may forbid it
    return hard if hard != resource.RLIM_INFINITY else 1 << 20
