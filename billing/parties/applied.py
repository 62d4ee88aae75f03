"""Applies and reads the parties' details, with author and reason. Documents hold the details of their day of issue."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from billing import audit
from billing.applied import add_version
from billing.parties.details import Parties
from warehouse.chain import head
from warehouse.store import Store, read_sql


@dataclass(frozen=True)
class AppliedParties:
    """The file as it was applied, by whom and why."""

    parties: Parties
    version: str
    sequence: int
    applied_at: datetime
    author: str
    reason: str


def current_parties(store: Store) -> AppliedParties | None:
    """The details in force, or None before the first were applied."""
    rows = store.rows(read_sql(__file__, "current_parties"))
    if not rows:
        return None
    row = rows[0]
    return AppliedParties(Parties.model_validate_json(row.pop("parties")), **row)


def apply_parties(store: Store, parties: Parties, author: str, reason: str, now: datetime) -> str:
    """Puts the details in force and answers their version; those in force already are left as they are.

    Documents that were issued before stay as they are.   Errors: TakenError if somebody else applied some meanwhile.
    """
    last = head(store, "parties")
    current = current_parties(store)
    if current and current.version == parties.version:
        return current.version
    add_version(store, "parties", "parties", parties, current.sequence if current else 0, author, reason, now, last)
    replaced = {"before": current.version} if current else {}
    audit.record(store, now, author, "parties.apply", parties.version, reason, replaced)
    return parties.version
