"""How used allocations were over a window: the figure of the rule low-utilization, of all that held devices throughout.

For schedulers whose jobs have a scaling policy (docs/scheduler-live.md).
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from alerts.rule_files import SHIPPED
from warehouse.sql import read_sql
from warehouse.store import Store

GRACE_SECONDS, MIN_COVERAGE = 600, 0.9
"""As in the rule: the time after a start that does not count, and the part of a window that must be measured."""


def utilization(store: Store, at: datetime, window_seconds: int, cluster: str = "") -> list[dict[str, Any]]:
    """A row for each allocation (alerts/rules/low_utilization.sql). cluster: '': of all."""
    params = {
        "at": at,
        "window_seconds": window_seconds,
        "grace_seconds": GRACE_SECONDS,
        "min_coverage": MIN_COVERAGE,
    }
    rows = store.rows(read_sql(str(SHIPPED / "rules"), "low_utilization"), params)
    return sorted(
        (row for row in rows if cluster in ("", row["cluster"])), key=lambda row: (row["cluster"], row["allocation_id"])
    )
