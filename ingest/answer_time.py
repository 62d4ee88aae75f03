"""A time limit for a whole answer: clients have one for each read, and a peer may send one byte at a time."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

AGAIN_SECONDS = 1.0


@contextmanager
def ended_in_time(seconds: float, close: Callable[[], object]) -> Iterator[threading.Event]:
    """Calls `close`, which closes the connections, when the block takes longer, and again until it ends: one may only
    now have been connected. The event says that the time was over."""
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
    """Ends reads of this socket, also those through a file that was made of it."""
    if connection is not None:
        with contextlib.suppress(OSError):
            connection.shutdown(socket.SHUT_RDWR)
