"""The SQL behind answers: statements that anybody whose token has the scope `sql` may ask again (docs/sql.md)."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from warehouse.sql import instant_literal, text_literal
from warehouse.store import read_sql, split_statements


def _statement(name: str, **parts: str) -> str:
    """Without its header."""
    (text,) = split_statements(read_sql(__file__, name, **parts))
    return text


def _equal(**equal: str | None) -> list[str]:
    """That columns have these values; None: any."""
    return [f"{name} = {text_literal(value)}" for name, value in equal.items() if value is not None]


def _where(column: str, span: tuple[datetime, datetime], **equal: str | None) -> str:
    """Within [start, end), and where columns have these values."""
    within = [f"{column} >= {instant_literal(span[0])}", f"{column} < {instant_literal(span[1])}"]
    return " AND ".join(within + _equal(**equal))


def usage(span: tuple[datetime, datetime], by: Sequence[str], **equal: str | None) -> str:
    return _statement("usage", by=", ".join(by), where=_where("hour", span, **equal))


def charges(span: tuple[datetime, datetime], by: Sequence[str], **equal: str | None) -> str:
    return _statement("charges", by=", ".join(by), where=_where("charge_period_start", span, **equal))


def daily(span: tuple[datetime, datetime], zone: str, **equal: str | None) -> str:
    return _statement("daily", zone=text_literal(zone), where=_where("charge_period_start", span, **equal))


def events(**equal: str | None) -> str:
    """Of an allocation or workload, the newest first."""
    return _statement("events", where=" AND ".join(_equal(**equal)) or "1")


def allocations_at(at: datetime, **equal: str | None) -> str:
    held = [f"start_at <= {instant_literal(at)}", f"(end_at IS NULL OR end_at > {instant_literal(at)})"]
    return _statement("allocations_at", where=" AND ".join(held + _equal(**equal)))


def invoice_lines(number: str) -> str:
    return _statement("invoice_lines", number=text_literal(number))
