"""The SQL behind answers: statements that any token with the scope `sql` can run again (docs/sql.md)."""

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
    return _statement("usage", by=", ".join(by), where=_where("charge_period_start", span, **equal))


def charges(span: tuple[datetime, datetime], by: Sequence[str], **equal: str | None) -> str:
    names = ", ".join(by)
    where = _where("charge_period_start", span, **equal)
    return _statement("charges", columns=names, by=names, order="billed_cost DESC", where=where)


def daily(span: tuple[datetime, datetime], zone: str, **equal: str | None) -> str:
    day = f"toDate(charge_period_start, {text_literal(zone)}) AS day"
    where = _where("charge_period_start", span, **equal)
    return _statement("charges", columns=f"{day}, tenant", by="day, tenant", order="day, tenant", where=where)


def events(**equal: str | None) -> str:
    """Of an allocation or workload, the newest first."""
    return _statement("events", where=" AND ".join(_equal(**equal)) or "1")


def allocations_at(at: datetime, **equal: str | None) -> str:
    held = [f"start_at <= {instant_literal(at)}", f"(end_at IS NULL OR end_at > {instant_literal(at)})"]
    return _statement("allocations_at", where=" AND ".join(held + _equal(**equal)))


def quotas(at: Sequence[datetime], **equal: str | None) -> str:
    """What schedulers reported of tenants at these instants."""
    instants = ", ".join(map(instant_literal, at))
    return _statement("quotas", where=" AND ".join([f"ts IN ({instants})", *_equal(**equal)]))


def months(spans: Sequence[tuple[datetime, datetime]], zone: str, **equal: str | None) -> str:
    """What the ledger charges in months of a zone."""
    within = " OR ".join(f"({_where('charge_period_start', span)})" for span in spans)
    where = " AND ".join([f"({within})", *_equal(**equal)])
    month = f"formatDateTime(toTimeZone(charge_period_start, {text_literal(zone)}), '%Y-%m') AS month"
    return _statement(
        "charges", columns=f"{month}, project, sku", by="month, project, sku", order="month, project, sku", where=where
    )


def bills(numbers: Sequence[str]) -> str:
    """Lines of invoices, as `bill_change` compares them."""
    return _statement("bills", numbers=", ".join(map(text_literal, numbers)))


def invoice_lines(number: str) -> str:
    return _statement("invoice_lines", number=text_literal(number))
