"""Values of rows as JSON documents show them."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from decimal import Decimal
from typing import Any

from warehouse.instants import rfc3339


def as_json(value: Any) -> Any:
    """A value for JSON, whatever is in it: decimals as strings, instants in UTC with milliseconds."""
    if isinstance(value, Decimal):
        return format(value, "f")
    if isinstance(value, datetime):
        return rfc3339(value)
    if isinstance(value, Mapping):
        return {key: as_json(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [as_json(item) for item in value]
    return value
