"""TCP ports for servers that tests start in processes of their own."""

from __future__ import annotations

import contextlib
import socket


def free_port() -> int:
    """A port of 127.0.0.1 that nothing listens on."""
    return free_ports(1)[0]


def free_ports(count: int) -> list[int]:
    """Different ports of 127.0.0.1 that nothing listens on."""
    with contextlib.ExitStack() as stack:
        listeners = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(count)]
        return [int(listener.getsockname()[1]) for listener in listeners]
