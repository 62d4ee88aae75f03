"""Suggests values for a filter: those of a property within a window, like OpenCost's autocomplete."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime

from billing.opencost.allocation import allocations
from billing.opencost.query import parse_query
from billing.opencost.words import UNALLOCATED, QueryError
from warehouse.store import Store

DEFAULT_LIMIT = 100
MOST = 1000


def suggestions(store: Store, params: Mapping[str, str], timezone: str, now: datetime) -> list[str]:
    """Values of `field` among what was held in `window` (and matches `filter`) that contain `search`, in order.

    Errors: QueryError naming the parameter that is of no use.
    """
    given = {name.lower(): value.strip() for name, value in params.items()}
    field, limit = given.pop("field", ""), given.pop("limit", "") or str(DEFAULT_LIMIT)
    search = given.pop("search", "").lower()
    if not field or "," in field:
        raise QueryError("field", f"{field!r} is not one property", "Name one: field=namespace")
    if re.fullmatch(r"[0-9]{1,9}", limit) is None or not 0 < int(limit) <= MOST:
        raise QueryError("limit", f"{limit!r} is not a number from 1 to {MOST:,}", f"Leave it out for {DEFAULT_LIMIT}")
    asked = {"window": given.get("window", ""), "filter": given.get("filter", ""), "aggregate": field}
    (found,) = allocations(store, parse_query(asked, timezone, now)).sets
    return [name for name in found if name != UNALLOCATED and search in name.lower()][: int(limit)]
