"""Spools a tick's rows: labels them with their source, checks them against the contract, and counts losses."""

from __future__ import annotations

import logging
import threading
from collections import Counter
from collections.abc import Iterable
from datetime import datetime, timedelta

from collectors.readings import Collected, Row
from ingest.check_rows import check_rows
from ingest.spool import Loss, Spool
from ingest.wire import WireBatch, pack
from warehouse.records import RECORD_TYPES

log = logging.getLogger(__name__)

AGAIN = timedelta(minutes=10)
"""How often a loss that goes on is reported."""


class Outbox:
    """Safe from several threads. rows, bad_rows: by record type, since the start; dropped: by source and reason."""

    def __init__(self, spool: Spool, cluster: str, node: str) -> None:
        self.rows: Counter[str] = Counter()
        self.bad_rows: Counter[tuple[str, str]] = Counter()
        self.dropped: Counter[tuple[str, str]] = Counter()
        self._spool, self._cluster, self._node = spool, cluster, node
        self._lock = threading.Lock()
        self._logged: set[tuple[str, str]] = set()
        self._reported_at: datetime | None = None

    def put(self, source: str, collected: Collected, now: datetime) -> bool:
        """Spools all that a tick gave, at once; whether it is on disk."""
        batches: list[WireBatch] = []
        with self._lock:
            for reason, count in collected.dropped.items():
                self.dropped[source, reason] += count
            for record, rows in collected.rows.items():
                batches += self._batches(source, record, rows, now)
        return self._spool.append(batches, now)

    def _batches(self, source: str, record: str, rows: Iterable[Row], now: datetime) -> list[WireBatch]:
        kind = RECORD_TYPES[record]
        named = {column.name for column in kind.columns}
        whose = {"cluster": self._cluster, **({"node": self._node} if "node" in named and record != "events" else {})}
        checked = check_rows(kind, [{**whose, **row} for row in rows], now)
        self.rows[record] += len(checked.good)
        for reason, count in checked.reasons.items():
            self.bad_rows[record, reason] += count
            if (record, reason) not in self._logged:
                self._logged.add((record, reason))
                log.error("agent: %s returned invalid %s: %s: %s", source, record, reason, checked.example)
        return [batch for batch in (pack(record, checked.good), pack(record, checked.bad, suspect=True)) if batch.rows]

    def report_losses(self, now: datetime) -> None:
        """A finding for each kind of loss that none tells of yet; not again and again while it goes on, for findings
        need room, too."""
        if self._reported_at is not None and now - self._reported_at < AGAIN:
            return
        losses = self._spool.unreported()
        if not losses:
            return
        self._reported_at = now
        for loss in losses:
            log.error("agent: %s", message(loss))
        rows = [self.finding(now, _FINDINGS[loss.reason], "critical", message(loss), "spool") for loss in losses]
        if self._spool.append([pack("findings", rows)], now):
            self._spool.mark_reported(losses)

    def finding(self, now: datetime, finding: str, severity: str, text: str, source: str) -> Row:
        return {
            "ts": now,
            "cluster": self._cluster,
            "node": self._node,
            "finding": finding,
            "severity": severity,
            "message": text,
            "source": source,
        }


_FINDINGS = {
    "spool_full": "spool_overflow",
    "disk_full": "spool_overflow",
    "damaged": "spool_damaged",
    "refused": "batch_refused",
}


def message(loss: Loss) -> str:
    """A loss as a sentence."""
    between = f"of {loss.first_at:%Y-%m-%dT%H:%M:%SZ} to {loss.last_at:%Y-%m-%dT%H:%M:%SZ}"
    what = f"{loss.rows} rows of {loss.record} in {loss.batches} batches {between}"
    if loss.reason == "spool_full":
        return f"the spool was full for too long: {what} are lost"
    if loss.reason == "disk_full":
        return f"the disk was full for too long: {what} are lost"
    if loss.reason == "refused":
        return f"the store refused {what}; they are set aside in the spool"
    if not loss.record:
        return f"the spool's file was damaged at {loss.first_at:%Y-%m-%dT%H:%M:%SZ}: what waited in it was set aside"
    return f"{what} were damaged on disk and are lost"
