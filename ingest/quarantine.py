"""Reads the quarantine: how many rows were rejected for which reason, with examples."""

from __future__ import annotations

from typing import Any

from warehouse.store import Store, read_sql

EXAMPLES = 3
"""Newest rows shown of each reason."""


def quarantined(store: Store) -> list[dict[str, Any]]:
    """A row for each record type and reason: record_type, reason, rows, and `newest`, a few examples with source, row,
    detail and raw."""
    found = store.rows(read_sql(__file__, "quarantine"), {"examples": EXAMPLES})
    names = ("source", "row", "detail", "raw")
    return [{**group, "newest": [dict(zip(names, one[1:], strict=True)) for one in group["newest"]]} for group in found]
