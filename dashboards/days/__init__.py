"""Daily sums of the ledger, so that pages read days and not hours.

A server sums each closed day in the background. Each sum has a fingerprint of the hours and runs that it covers; once
that no longer matches the books, the sum is ignored and the hours are read instead.
"""

from __future__ import annotations

import contextlib
import logging
import secrets
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from billing.ledger_report import billing_timezone
from warehouse.background import repeating
from warehouse.errors import LedgerError
from warehouse.leads import ALONE, Leads
from warehouse.store import Store, read_sql

log = logging.getLogger(__name__)

EVERY_SECONDS = 60.0
AT_ONCE = 8
"""Days summed by one statement, which bounds its memory."""


@dataclass(frozen=True)
class Sums:
    """The summed part of a period: its days with the versions of their sums, and the hours (UTC) that no sum covers."""

    days: tuple[datetime, ...] = ()
    versions: tuple[int, ...] = ()
    other_hours: tuple[datetime, ...] = ()

    def params(self) -> dict[str, Any]:
        """Parameters of `days_sql`: summed_days, versions, other_hours (arrays)."""
        return {
            "summed_days": [int(day.timestamp()) for day in self.days],
            "versions": list(self.versions),
            "other_hours": [int(hour.timestamp()) for hour in self.other_hours],
        }


def sums_of(store: Store, start: datetime, end: datetime, zone: str) -> Sums:
    """The valid sums of whole days of the zone within [start, end)."""
    (row,) = store.rows(_with_contents("held"), {"start": start, "end": end, "zone": zone})
    return Sums(tuple(row["days"]), tuple(row["versions"]), tuple(row["other_hours"]))


def days_sql() -> str:
    """SQL to select from instead of the ledger (ledger.sql). Its parameters: zone, and those of `Sums.params`."""
    return read_sql(__file__, "ledger")


def sum_days(store: Store, zone: str, stop: threading.Event | None = None) -> int:
    """Sums the days of the zone (IANA name) whose sums are missing or outdated; returns their number."""
    due = [(row["day"], row["content"]) for row in store.rows(_with_contents("due"), {"zone": zone})]
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


def _with_contents(name: str) -> str:
    return read_sql(__file__, name).replace("({contents})", f"(\n{read_sql(__file__, 'contents')})")


@contextlib.contextmanager
def summing(store: Store, leads: Leads = ALONE) -> Iterator[None]:
    """Keeps the sums of the billing zone's days up to date, on its own connection."""

    def sum_due(own: Store, stop: threading.Event) -> None:
        try:
            sum_days(own, billing_timezone(own), stop)
        except LedgerError as error:
            log.error("days were not summed, pages read their hours: %s", error)

    with repeating(store, sum_due, leads, seconds=EVERY_SECONDS):
        yield
