"""Claims and device rows that the last close refused, by reason."""

from __future__ import annotations

from typing import Any

from warehouse.store import Store, read_sql


def refused_claims(store: Store) -> list[dict[str, Any]]:
    """A row for each reason: reason, claims (how many), example (one of them in words)."""
    return store.rows(read_sql(__file__, "refused_claims"))
