"""The server's part: reports that are due are sent, looked for every few minutes, for as long as it serves.

with reporting(store, Path("reports.yaml")):
    ...
"""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from alerts.transports import SendError
from dashboards.reports.schedule import Schedule, due, load_schedule, send
from warehouse.background import repeating
from warehouse.errors import LedgerError
from warehouse.leads import ALONE, Leads
from warehouse.store import Store

log = logging.getLogger(__name__)
EVERY_SECONDS = 600


def send_due(store: Store, schedule: Schedule, now: datetime, stop: threading.Event | None = None) -> tuple[int, int]:
    """Sends what is due: how many went out, and how many did not. A failure is logged, and tried again the next time.

    Errors: StoreError.
    """
    sent = failed = 0
    for one in due(store, schedule, now):
        if stop is not None and stop.is_set():
            break
        try:
            send(store, schedule, one, now)
        except (SendError, LedgerError) as error:
            failed += 1
            log.error("report %s was not sent: %s", one.name, error)
        else:
            sent += 1
            log.info("report %s was sent", one.name)
    return sent, failed


@contextlib.contextmanager
def reporting(store: Store, path: Path, every_seconds: int = EVERY_SECONDS, leads: Leads = ALONE) -> Iterator[None]:
    """Looks now and then every so many seconds. The file is read anew each time; one that
    is of no use is logged, and nothing is sent.

    Errors: ReportError if the file is of no use at the start.
    """
    load_schedule(path)

    def look(own: Store, stop: threading.Event) -> None:
        try:
            send_due(own, load_schedule(path), datetime.now(UTC), stop)
        except LedgerError as error:
            log.error("due reports could not be determined: %s", error)

    with repeating(store, look, leads, seconds=every_seconds):
        yield
