"""Daily sums of the ledger, so that pages read days and not hours.

A server sums each closed day in the background. Each sum has a fingerprint of the hours and runs that it covers; once
that no longer matches the books, the sum is ignored and the hours are read instead.
"""

from __future__ import annotations

import contextlib
import logging
import secrets
import threading
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime

from billing.ledger_report import billing_timezone
from dashboards.days.closed import Sums
from dashboards.measured import measure_hours
from warehouse.background import repeating
from warehouse.errors import LedgerError
from warehouse.leads import ALONE, Leads
from warehouse.sql import composed
from warehouse.store import Store, read_sql

log = logging.getLogger(__name__)

EVERY_SECONDS = 60.0
AT_ONCE = 8
"""Days summed by one statement, which bounds its memory."""


def days_sql(sums: Sums, ledger: Callable[[str], str]) -> str:
    """SQL to select from in place of the ledger. A statement that need not read hours, or sums, costs half as much.

    ledger: makes SQL that measures and filters what another selects (ledger.sql). Its parameters: zone, the filters'
    arrays, and those of `Sums.params`.
    """
    summed = summed_sql()
    if not sums.other_hours:
        return summed
    other = ledger(other_hours_sql())
    return composed(__file__, "both", summed=summed, other=other) if sums.days else other


def summed_sql() -> str:
    """SQL to select from in place of the ledger of summed days."""
    return read_sql(__file__, "summed")


def other_hours_sql() -> str:
    """SQL for the closed hours that no sum covers, to be measured and filtered."""
    return read_sql(__file__, "other_hours")


def sum_days(store: Store, zone: str, stop: threading.Event | None = None) -> int:
    """Sums the days of the zone (IANA name) whose sums are missing or outdated; returns their number."""
    due = [(row["day"], row["content"]) for row in store.rows(composed(__file__, "due"), {"zone": zone})]
    done = 0
    for start in range(0, len(due), AT_ONCE):
        if stop is not None and stop.is_set():
            break
        days = due[start : start + AT_ONCE]
        _sum(store, zone, days)
        done += len(days)
    if done:
        store.command(read_sql(__file__, "forget"))
    return done


def _sum(store: Store, zone: str, days: Sequence[tuple[datetime, int]]) -> None:
    """Marks a day as summed once all its sums are written: a kill in between leaves rows that nobody reads."""
    import pyarrow as pa

    version = secrets.randbits(62)
    store.command(
        read_sql(__file__, "sum"), {"zone": zone, "version": version, "days": [day for day, _ in days]},
        {"max_partitions_per_insert_block": 0},
    )  # fmt: skip
    columns = {
        "zone": pa.array([zone] * len(days), pa.string()),
        "day": pa.array([day for day, _ in days], pa.timestamp("s", "UTC")),
        "version": pa.array(range(version + 1, version + 1 + len(days)), pa.uint64()),
        "content": pa.array([content for _, content in days], pa.uint64()),
    }
    store.insert("summed_days", pa.table(columns))


@contextlib.contextmanager
def summing(store: Store, leads: Leads = ALONE) -> Iterator[None]:
    """Keeps the sums of the billing zone's days up to date, and what was measured, on its own connection."""

    def sum_due(own: Store, stop: threading.Event) -> None:
        try:
            sum_days(own, billing_timezone(own), stop)
            measure_hours(own, stop)
        except LedgerError as error:
            log.error("days were not summed, pages read their hours: %s", error)

    with repeating(store, sum_due, leads, seconds=EVERY_SECONDS):
        yield
