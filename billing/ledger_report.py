"""The ledger report: GPU-hours and cost of a period, by tenant or other dimensions.

Rows are about holders; the platform's own time (unallocated, unavailable) is separate, and all of it together is the
capacity. Quantities and costs are exact sums, rounded once, to nine digits, half to even.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from billing.closed import Closed, closed_part, if_closed, period_document
from billing.exact import Scale
from billing.periods import Period
from billing.sums import KINDS, LedgerSum, one_currency
from warehouse.errors import LedgerError
from warehouse.store import Store, read_sql

DIMENSIONS = (
    "tenant", "project", "queue", "workload", "cluster", "node", "device", "model", "pool", "day", "hour",
)  # fmt: skip
"""What a report can be cut by. A day is local to the billing zone, an hour UTC."""
WITH_ISOLATION = (*DIMENSIONS, "isolation")
"""The same for reports from the ledger itself, which knows what was had of a device: see warehouse.isolation."""
MEASURES = (
    "allocated_gpu_hours",
    "used_gpu_hours",
    "idle_gpu_hours",
    "unmetered_gpu_hours",
    "unpriced_gpu_hours",
    "list_cost",
    "billed_cost",
    "currency",
    "coverage",
)
"""What a row says after its dimensions. A cost is None where no price is known at all; where some are not, it is the
known part and `unpriced_gpu_hours` says how much is missing. `coverage` is the metered part of the allocated time."""


@dataclass(frozen=True)
class LedgerReport:
    """The answer. `closed` is None when nothing was ever closed; `rows` are one for each value of `by` that held. Where
    nothing of the period is closed, the sums are None."""

    closed: Closed | None
    by: tuple[str, ...]
    currency: str | None
    rows: tuple[Mapping[str, Any], ...]
    total: Mapping[str, Any]
    platform: Mapping[str, Any]
    capacity: Mapping[str, Any]

    @property
    def columns(self) -> tuple[str, ...]:
        return (*self.by, *MEASURES)

    def document(self) -> dict[str, Any]:
        """The answer in the shape that the command line prints as JSON."""
        period = period_document(self.closed)
        return {"period": period, "rows": list(self.rows), "platform": self.platform, "capacity": self.capacity}


def billing_timezone(store: Store) -> str:
    """The zone in which days and months are cut: the rate card's, UTC before there is one."""
    found = store.rows(read_sql(__file__, "billing_timezone"))
    return str(found[0]["timezone"]) if found and found[0]["timezone"] else "UTC"


def check_dimensions(by: Iterable[str], among: Sequence[str] = DIMENSIONS) -> tuple[str, ...]:
    """The dimensions, each once. Errors: LedgerError naming the one that does not exist."""
    asked = tuple(dict.fromkeys(by))
    for name in asked:
        if name not in among:
            raise LedgerError("--by", f"{name!r} is not a dimension", f"Choose from {', '.join(among)}")
    return asked


def ledger_report(store: Store, period: Period | None, by: Sequence[str]) -> LedgerReport:
    """The ledger of the closed hours of a period (None: all that is closed), cut by the dimensions.

    Errors: LedgerError if `by` names no dimension, or if amounts of two currencies would be added.
    """
    dimensions = check_dimensions(by, WITH_ISOLATION)
    closed = closed_part(store, period)
    found = entries_by(store, closed, dimensions)
    currency = one_currency(found)
    scale = Scale.of(row["device_units"] for row in found)
    columns = [f"by_{name}" for name in dimensions]
    holders: dict[tuple[str, ...], LedgerSum] = {}
    total, unallocated, unavailable, capacity = (LedgerSum(scale) for _ in range(4))
    for row in found:
        if row["held"]:
            key = tuple(row[name] for name in columns)
            if key not in holders:
                holders[key] = LedgerSum(scale)
            holders[key].add(row, *KINDS)
        if row["unallocated_micro_ms"]:
            unallocated.add(row, "unallocated")
        if row["unavailable_micro_ms"]:
            unavailable.add(row, "unavailable")
    for holder in holders.values():
        total.merge(holder)
    for part in (total, unallocated, unavailable):
        capacity.merge(part)
    return LedgerReport(
        closed=closed,
        by=dimensions,
        currency=currency,
        rows=tuple(
            {**dict(zip(dimensions, key, strict=True)), **holder.measures(currency)} for key, holder in holders.items()
        ),
        total=if_closed(closed, total.measures(currency)),
        platform=if_closed(
            closed,
            {
                "unallocated_gpu_hours": unallocated.hours(),
                "unavailable_gpu_hours": unavailable.hours(),
                "unallocated_cost": unallocated.list_cost(),
                "unavailable_cost": unavailable.list_cost(),
            },
        ),
        capacity=if_closed(
            closed,
            {
                "gpu_hours": capacity.hours(),
                "cost": capacity.list_cost(),
                "unpriced_gpu_hours": scale.hours(capacity.unpriced),
            },
        ),
    )


def entries_by(store: Store, closed: Closed | None, dimensions: Sequence[str]) -> list[dict[str, Any]]:
    """The rows of ledger_report.sql."""
    if closed is None:
        return []
    period = {"start": closed.period.start, "end": closed.period.end}
    params = {**period, "by": list(dimensions), "timezone": billing_timezone(store)}
    return store.rows(read_sql(__file__, "ledger_report"), params)
