"""What is in no book: claims and device rows that the last close refused, and rows that could not be read."""

from __future__ import annotations

from typing import Any

from billing.params import period_params
from billing.periods import Period
from warehouse.store import Store, read_sql


def refused_claims(store: Store) -> list[dict[str, Any]]:
    """A row for each reason: reason, claims (how many), example (one of them in words)."""
    return store.rows(read_sql(__file__, "refused_claims"))


def refused_in(store: Store, period: Period) -> int:
    """How many refused claims are on time in the period; nobody pays for that."""
    return int(store.value(read_sql(__file__, "refused_of_period"), period_params(period)))


def unread_rows(store: Store, period: Period) -> int:
    """How many rows in the quarantine may be of the period: those that arrived since it began."""
    return int(store.value(read_sql(__file__, "unread_rows"), {"start": period.start}))
