"""Daily summaries of what senders pushed, for doctor, the audit and the API."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from warehouse.store import Store, read_sql


def sender_days(store: Store, now: datetime, days: int) -> list[dict[str, Any]]:
    """Pushes and rows by sender, record type, outcome and reason, of the last so many days, the newest first."""
    since = now.astimezone(UTC).date() - timedelta(days=days - 1)
    return store.rows(read_sql(__file__, "senders"), {"since": since.isoformat()})
