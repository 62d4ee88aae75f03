"""Current allocations, within a page's filters; the answers are cached."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from functools import partial

from billing.insights import now
from billing.insights.now.asking import Row
from dashboards.filters import Filters
from warehouse.store import Store


def held(store: Store, filters: Filters, at: datetime, most: int, by_idle: bool = False) -> tuple[Sequence[Row], str]:
    """Rows and currency as `billing.insights.now.held` answers them."""
    return now.held(store, partial(filters.rows_now, store, now.ASKED), at, most, by_idle)
