"""How objectives stand at a period's end, for the pages that show it: asked for once, and cached."""

from __future__ import annotations

from collections.abc import Sequence

from alerts.slo import status
from alerts.slo.status import SeriesStatus
from dashboards.filters import Filters
from warehouse.store import Store, read_sql


def all_series(store: Store, filters: Filters) -> Sequence[SeriesStatus]:
    """Of all objectives, whatever is chosen."""
    if filters.period is None:
        raise filters.nothing_closed()
    at = filters.period.end
    series: Sequence[SeriesStatus] = filters.data_version.cached(
        store, ("slo_status", at), read_sql(status.__file__, "status"), lambda: status.slo_status(store, at)
    )
    return series
