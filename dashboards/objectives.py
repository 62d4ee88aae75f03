"""How objectives stand at a period's end, for the pages that show it: asked for once, and cached."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any

from alerts.slo import status
from alerts.slo.status import SeriesStatus
from dashboards.filters import Filters
from warehouse.store import Store, read_sql


def all_series(store: Store, filters: Filters) -> Sequence[SeriesStatus]:
    """Of all objectives, whatever is chosen."""
    if filters.period is None:
        raise filters.nothing_closed()
    at = filters.period.end

    def cached(name: str, ask: Callable[[Store, datetime], Any]) -> Callable[[Store], Any]:
        sql = read_sql(status.__file__, name)
        return lambda one: filters.data_version.cached(one, (name, at), sql, lambda: ask(one, at))

    series, parts = filters.at_once(
        store, cached("status", status.measured), cached("shared_part", status.shared_parts)
    )
    return status.with_shared_parts(series, parts)
