"""Iterates in a background thread, so that reading the next batch overlaps with writing this one."""

from __future__ import annotations

import contextlib
import queue
import threading
from collections.abc import Iterable, Iterator
from typing import Generic, TypeVar

T = TypeVar("T")


class _End(Generic[T]):
    def __init__(self, error: BaseException | None) -> None:
        self.error = error


def prefetch(items: Iterable[T], depth: int = 1) -> Iterator[T]:
    """The same items, computed up to `depth` ahead in a background thread; its errors are raised here."""
    waiting: queue.Queue[T | _End[T]] = queue.Queue(depth)
    stopped = threading.Event()

    def offer(item: T | _End[T]) -> None:
        while not stopped.is_set():
            with contextlib.suppress(queue.Full):
                waiting.put(item, timeout=0.1)
                return

    def work() -> None:
        try:
            for item in items:
                offer(item)
                if stopped.is_set():
                    return
            offer(_End(None))
        except BaseException as error:  # noqa: BLE001 -- handed over to the thread that iterates
            offer(_End(error))

    thread = threading.Thread(target=work, name="ingest-ahead", daemon=True)
    thread.start()
    try:
        while True:
            item = waiting.get()
            if isinstance(item, _End):
                if item.error is not None:
                    raise item.error
                return
            yield item
    finally:
        stopped.set()
        thread.join()
