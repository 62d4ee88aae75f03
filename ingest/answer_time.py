"""A limit for the whole of an HTTP answer: httpx has one for each read, and a peer may send a letter at a time."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

AGAIN_SECONDS = 1.0


@contextmanager
def ended_in_time(seconds: float, close: Callable[[], object]) -> Iterator[None]:
    """Calls `close`, which closes the connections, when the block takes longer, and again until it ends: one may only
    now have been connected."""
    done = threading.Event()

    def close_late() -> None:
        wait = seconds
        while not done.wait(wait):
            close()
            wait = AGAIN_SECONDS

    watch = threading.Thread(target=close_late, name="answer-time", daemon=True)
    watch.start()
    try:
        yield
    finally:
        done.set()
        watch.join()
