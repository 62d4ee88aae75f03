"""The SQL behind answers: statements that any token with the scope `sql` can run again (docs/sql.md)."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from warehouse.sql import instant_literal, text_literal

HOURS = "allocated_gpu_hours, used_gpu_hours, idle_gpu_hours, unmetered_gpu_hours"


def _where(column: str, span: tuple[datetime, datetime], **equal: str | None) -> str:
    """A condition: within [start, end), and columns equal to these values; None: any value."""
    parts = [f"{column} >= {instant_literal(span[0])}", f"{column} < {instant_literal(span[1])}"]
    parts += [f"{name} = {text_literal(value)}" for name, value in equal.items() if value is not None]
    return " AND ".join(parts)


def usage(span: tuple[datetime, datetime], by: Sequence[str], **equal: str | None) -> str:
    sums = ", ".join(f"sum({name}) AS {name}" for name in HOURS.split(", "))
    return (
        f"SELECT {', '.join(by)}, {sums} FROM v_usage_hourly WHERE {_where('hour', span, **equal)}"
        f" GROUP BY {', '.join(by)} ORDER BY idle_gpu_hours DESC"
    )


def charges(span: tuple[datetime, datetime], by: Sequence[str], **equal: str | None) -> str:
    return (
        f"SELECT {', '.join(by)}, sum(consumed_quantity) AS gpu_hours, sum(billed_cost) AS billed_cost"
        f" FROM v_charges WHERE {_where('charge_period_start', span, **equal)}"
        f" GROUP BY {', '.join(by)} ORDER BY billed_cost DESC"
    )


def daily(span: tuple[datetime, datetime], zone: str, **equal: str | None) -> str:
    return (
        f"SELECT toDate(charge_period_start, {text_literal(zone)}) AS day, tenant, sum(billed_cost) AS billed_cost"
        f" FROM v_charges WHERE {_where('charge_period_start', span, **equal)}"
        " GROUP BY day, tenant ORDER BY day, tenant"
    )


def events(**equal: str | None) -> str:
    """Events of an allocation or workload, newest first."""
    parts = [f"{name} = {text_literal(value)}" for name, value in equal.items() if value is not None]
    return (
        "SELECT ts, event, queue, priority, gpus, reason, message FROM v_events"
        f" WHERE {' AND '.join(parts) or '1'} ORDER BY ts DESC LIMIT 20"
    )


def allocations_at(at: datetime, **equal: str | None) -> str:
    parts = [f"start_at <= {instant_literal(at)}", f"(end_at IS NULL OR end_at > {instant_literal(at)})"]
    parts += [f"{name} = {text_literal(value)}" for name, value in equal.items() if value is not None]
    return (
        "SELECT cluster, allocation_id, tenant, project, queue, node, device_id, units, start_at FROM v_allocations"
        f" WHERE {' AND '.join(parts)} ORDER BY start_at"
    )


def invoice_lines(number: str) -> str:
    return (
        "SELECT line, kind, project, sku, quantity, unit, contracted_unit_price, amount, currency FROM v_invoice_lines"
        f" WHERE number = {text_literal(number)} ORDER BY line"
    )
