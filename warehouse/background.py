"""Periodic background work of a server."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any

from warehouse.store import Store


@contextlib.contextmanager
def repeating(store: Store, work: Callable[[Store, threading.Event], None], **when: Any) -> Iterator[None]:
    """Does the work now, and then by APScheduler's trigger (`seconds=60`, or `minute=20` of every hour), one at a time,
    on a connection of its own, so that nobody who reads waits for it.

    A run that was missed is made up for by the next: what is to be done follows from the store, not from the clock that
    woke it. The event is set when the server ends; the work then comes to its end soon, and is waited for.
    """
    from apscheduler.schedulers.background import BackgroundScheduler

    stop = threading.Event()
    own = store.another()
    scheduler = BackgroundScheduler(timezone=UTC)
    scheduler.add_job(
        work,
        "interval" if "seconds" in when else "cron",
        args=(own, stop),
        next_run_time=datetime.now(UTC),
        coalesce=True,
        max_instances=1,
        misfire_grace_time=None,
        **when,
    )
    scheduler.start()
    try:
        yield
    finally:
        stop.set()
        scheduler.shutdown(wait=True)
        own.close()
