"""Runs a call that may hang on its own thread, so that its caller can stop waiting when asked to."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

from warehouse.errors import LedgerError

Answer = TypeVar("Answer")
LOOK_SECONDS = 0.1


class InterruptedAskError(LedgerError):
    """Asked to stop before the call returned."""


def answered(ask: Callable[[], Answer], stop: threading.Event, name: str) -> Answer:
    """The result of `ask`, which runs on its own thread; the thread is abandoned if we are asked to stop."""
    outcome: Future[Answer] = Future()

    def run() -> None:
        try:
            outcome.set_result(ask())
        except Exception as error:  # noqa: BLE001 - raised again for whoever waits
            outcome.set_exception(error)

    threading.Thread(target=run, name=name, daemon=True).start()
    while not stop.is_set():
        with contextlib.suppress(TimeoutError):
            return outcome.result(LOOK_SECONDS)
        if outcome.done():
            break
    if outcome.done():
        return outcome.result()
    raise InterruptedAskError(name, "had not answered when it was asked to stop", "Run it again")
