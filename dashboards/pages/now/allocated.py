"""Current allocations and what nobody has, within a page's filters; the answers are cached."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from functools import partial

from access.current import current
from billing.insights import now
from billing.insights.now.asking import Row
from dashboards.filters import Filters
from warehouse.store import Store


def held(store: Store, filters: Filters, at: datetime, most: int, by_idle: bool = False) -> tuple[Sequence[Row], str]:
    """Rows and currency as `billing.insights.now.held` answers them."""
    return now.held(store, partial(filters.rows_now, store, now.ASKED), at, most, by_idle)


def free(store: Store, filters: Filters, at: datetime) -> now.Free | None:
    """None to who does not see the whole fleet, or has chosen some holders."""
    if not current().sees_all or any(filters.address.chosen.get(name) for name in ("tenant", "project", "queue")):
        return None
    return now.free(store, partial(filters.rows_now, store, now.ASKED), at)
