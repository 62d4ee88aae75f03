"""Periodic background work of a server."""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any

from warehouse.leads import ALONE, Leads
from warehouse.store import Store

# One run at a time is what we ask for: a run that takes longer than its interval is no news.
logging.getLogger("apscheduler.scheduler").setLevel(logging.ERROR)


class _Stop(threading.Event):
    """Set when the server ends, and while another one leads."""

    def __init__(self, leads: Leads) -> None:
        super().__init__()
        self._leads = leads

    def is_set(self) -> bool:
        return super().is_set() or not self._leads.leading()


@contextlib.contextmanager
def repeating(
    store: Store, work: Callable[[Store, threading.Event], None], leads: Leads = ALONE, **when: Any
) -> Iterator[None]:
    """Runs the work now, then on APScheduler's trigger (`seconds=60`, or `minute=20` of every hour), one run at a time,
    on its own connection, so that it does not block readers.

    leads: where several servers share the store, only the leader runs it, at once when it becomes that.
    Missing a run does no harm: the work reads from the store what is left to do. The event is set when the server shuts
    down (shutdown waits for the work) or no longer leads; the work should then finish soon.
    """
    from apscheduler.jobstores.base import JobLookupError
    from apscheduler.schedulers.background import BackgroundScheduler

    stop = _Stop(leads)
    own = store.another()
    scheduler = BackgroundScheduler(timezone=UTC)

    gained = threading.Event()

    def run() -> None:
        while not stop.is_set():
            gained.clear()
            work(own, stop)
            if not gained.is_set():  # meanwhile: what ended early for another leader goes on
                return

    job = scheduler.add_job(
        run,
        "interval" if "seconds" in when else "cron",
        next_run_time=datetime.now(UTC),
        coalesce=True,
        max_instances=1,
        misfire_grace_time=None,
        **when,
    )

    def at_once() -> None:
        gained.set()
        with contextlib.suppress(JobLookupError):  # of a server that is ending
            job.modify(next_run_time=datetime.now(UTC))

    leads.when_gained(at_once)
    scheduler.start()
    try:
        yield
    finally:
        stop.set()
        scheduler.shutdown(wait=True)
        own.close()
