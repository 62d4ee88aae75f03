"""A deadline for a whole response: clients only limit each read, and a slow peer may send one byte at a time."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

AGAIN_SECONDS = 1.0


@contextmanager
def ended_in_time(seconds: float, close: Callable[[], object]) -> Iterator[threading.Event]:
    """Calls `close`, which closes the connections, if the block takes longer, and again until the block ends, because a
    connection may have been opened meanwhile. The event is set if the deadline passed."""
    done, late = threading.Event(), threading.Event()

    def close_late() -> None:
        wait = seconds
        while not done.wait(wait):
            late.set()
            close()
            wait = AGAIN_SECONDS

    watch = threading.Thread(target=close_late, name="answer-time", daemon=True)
    watch.start()
    try:
        yield late
    finally:
        done.set()
        watch.join()


def hang_up(connection: socket.socket | None) -> None:
    """Shuts the socket down, which ends pending reads, also those through a file object made from it."""
    if connection is not None:
        with contextlib.suppress(OSError):
            connection.shutdown(socket.SHUT_RDWR)
