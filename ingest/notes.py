"""Audit entries for pushes: who changed the inventory, ended an allocation that another sender reported, or had rows
held. Telemetry appears only in the daily summary by sender (`sender_days`)."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import pyarrow as pa

from ingest.inventory import Inventory
from ingest.judge import Judged
from warehouse.chain import append_anyway
from warehouse.records import TERMINAL_EVENTS, RecordType
from warehouse.store import Store, read_sql

NAMED = 20
"""Devices or allocations that an entry names."""
AGAIN = timedelta(hours=1)
"""Rows held again for the same reason are noted at most this often."""
MOST_KEYS = 10_000
ASKED_AT_ONCE = 5000
"""Allocations of a push that are looked at."""


@dataclass(frozen=True)
class Note:
    """action: as `push.inventory`.   subjects: of what."""

    action: str
    reason: str
    subjects: Sequence[str]


class Notes:
    def __init__(self, store: Store, inventory: Inventory) -> None:
        self._store, self._inventory = store, inventory
        self._held_at: dict[tuple[str, str, str], datetime] = {}

    def on(self, sender: str, record: RecordType, judged: Judged, now: datetime) -> list[Note]:
        """What is to be noted of a push; asked before it is written."""
        found = []
        if record.name == "devices" and len(judged.clean.table):
            found.append(Note("push.inventory", "", self._changed(judged.clean.table)))
        if record.name == "events" and len(judged.clean.table):
            found.append(Note("push.ended", "begun by another sender", self._ended(sender, judged.clean.table)))
        for reason, rows in judged.held.items():
            key = sender, record.name, reason
            if now >= self._held_at.get(key, now) + AGAIN or key not in self._held_at:
                if len(self._held_at) > MOST_KEYS:
                    self._held_at.clear()
                self._held_at[key] = now
                found.append(Note("push.held", reason, [f"{rows} {record.name} of {sender}"]))
        return [note for note in found if note.subjects]

    def write(self, sender: str, source: str, notes: Sequence[Note], now: datetime) -> None:
        if not notes:
            return
        rows = []
        for note in notes:
            inputs: Mapping[str, Any] = {"source": source, "count": len(note.subjects), "named": note.subjects[:NAMED]}
            rest = len(note.subjects) - 1
            what = note.subjects[0] + (f" and {rest} more" if rest else "")
            rows.append((note.action, what, note.reason, json.dumps(inputs, sort_keys=True, ensure_ascii=False)))
        names = ("action", "object", "reason", "inputs")
        columns = dict(zip(names, (pa.array(values, pa.string()) for values in zip(*rows, strict=True)), strict=True))
        columns["at"] = pa.array([now] * len(rows), pa.timestamp("ms", "UTC"))
        columns["actor"] = pa.array([f"sender {sender}"] * len(rows), pa.string())
        append_anyway(self._store, "audit", pa.table(columns))

    def _changed(self, table: pa.Table) -> list[str]:
        """Devices of which the rows say something new."""
        devices = table["device_id"].unique().to_pylist()
        before = self._inventory.rows(devices)
        self._inventory.forget(devices)  # new ones, too: that they are nowhere is remembered as well
        names = ("cluster", "node", "model", "pool", "units", "state")
        changed = {}
        for row in table.select(["device_id", *names]).to_pylist():
            known = before.get(row["device_id"])
            if known is None or any(row[name] != known[name] for name in names):
                changed[f"{row['cluster']}/{row['device_id']}"[:300]] = True
        return list(changed)

    def _ended(self, sender: str, table: pa.Table) -> list[str]:
        """Allocations that end by these rows, and of which others reported before."""
        rows = table.select(["cluster", "allocation_id", "event"]).to_pylist()
        ends = {
            (row["cluster"], row["allocation_id"]) for row in rows if row["event"] in (*TERMINAL_EVENTS, "suspended")
        }
        if not ends:
            return []
        names = sorted({name for _, name in ends})[:ASKED_AT_ONCE]
        reported = self._store.rows(read_sql(__file__, "reported_by"), {"allocations": names})
        return [
            f"{row['cluster']}/{row['allocation_id']}"[:300]
            for row in reported
            if (row["cluster"], row["allocation_id"]) in ends and set(row["senders"]) - {sender, ""}
        ]
