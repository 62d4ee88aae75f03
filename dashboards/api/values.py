"""Values as documents show them: decimals as strings, instants in UTC with milliseconds."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, PlainSerializer, WithJsonSchema


def instant(at: datetime) -> str:
    return at.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def aware(at: datetime) -> datetime:
    """An instant that somebody sent; without a zone it is UTC."""
    return at if at.tzinfo else at.replace(tzinfo=UTC)


def plain(value: Any) -> Any:
    """The same for a value of any shape."""
    if isinstance(value, Decimal):
        return format(value, "f")
    if isinstance(value, datetime):
        return instant(value)
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return value


Amount = Annotated[
    Decimal,
    PlainSerializer(lambda value: format(value, "f"), return_type=str),
    WithJsonSchema({"type": "string", "format": "decimal", "examples": ["12.500000000"]}),
]
"""Exact: GPU-hours, a price, money."""
Instant = Annotated[
    datetime,
    PlainSerializer(instant, return_type=str),
    WithJsonSchema({"type": "string", "format": "date-time", "examples": ["2026-10-01T00:00:00.000Z"]}),
]


class Document(BaseModel):
    """What a route answers. Made from objects of the floors below by their attributes."""

    model_config = ConfigDict(from_attributes=True, frozen=True)
