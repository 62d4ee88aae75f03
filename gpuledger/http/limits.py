"""Every limit of the HTTP server; docs/limits.md is the table for people."""

from __future__ import annotations

import ipaddress
import resource
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ingest.door import BODY_BYTES
from ingest.wire import PATH

KIB, MIB = 1 << 10, 1 << 20
Network = ipaddress.IPv4Network | ipaddress.IPv6Network


@dataclass(frozen=True)
class HttpLimits:
    """connections: open at the same time.   per_address: of them from one address (an IPv6 network of 64 bits).
    trusted: proxies, which many people share: per_address does not hold for them.

    tls_seconds: for the handshake.   head_seconds: from the connection, or the first byte of a further request, to the
    end of its head.   idle_seconds: between two requests.   head_bytes: of request line and headers.
    url_bytes: of the URL.   headers: how many.   pipelined: requests sent ahead of their answers.

    body_bytes: of a body as it travels; own_body_bytes: the same by the start of the path.   bodies_bytes: of all
    bodies that are held at the same time.   body_grace_seconds, body_rate: a body may be waited for so long, and a
    second longer for every so many bytes of it that came.   body_framing: bytes of chunks' frames beyond as many as
    the body has.   rest_seconds: for the rest of a body that nobody wants any more.

    answer_bytes: of an answer made in memory; streamed answers have limits of their own.   answer_seconds,
    answer_rate: of an answer that waits, so many bytes a second are read, looked at over so many seconds.
    """

    connections: int = 512
    per_address: int = 256
    trusted: Sequence[Network] = ()

    tls_seconds: float = 10
    head_seconds: float = 10
    idle_seconds: int = 15  # longer than Prometheus (5 s) and our agents (10 s) wait between two pushes
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
"""Whatever the number of descriptors: a connection costs memory, too."""


def limits_here(trusted: Sequence[Network] = ()) -> HttpLimits:
    """Those for this process: half of the file descriptors it may have are kept for the engine and the logs."""
    connections = min(MOST_CONNECTIONS, raise_descriptors() // 2)
    return HttpLimits(connections=connections, per_address=connections // 2, trusted=trusted)


def raise_descriptors() -> int:
    """How many file descriptors this process may have open, after asking for as many as it may ask for."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        except (ValueError, OSError):
            return soft  # a sandbox may forbid it
    return hard if hard != resource.RLIM_INFINITY else 1 << 20
