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
    """Runs the work now, then on APScheduler's trigger (`seconds=60`, or `minute=20` of every hour), one run at a time,
    on its own connection, so that it does not block readers.

    Missing a run does no harm: the work reads from the store what is left to do. The event is set when the server shuts
    down; the work should then finish soon, because shutdown waits for it.
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
