"""How well allocations were used, and what their idle and unmetered time cost.

Efficiency is the used part of the metered time, and coverage the metered part of the allocated time: unmetered time
lowers the coverage, never the efficiency. Costs are at the contracted price.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from billing.closed import Closed, closed_part, if_closed, period_document
from billing.exact import Scale, quotient
from billing.ledger_report import WITH_ISOLATION, check_dimensions, entries_by
from billing.periods import Period
from billing.sums import KINDS, LedgerSum, one_currency
from warehouse.store import Store

MEASURES = (
    "allocated_gpu_hours",
    "used_gpu_hours",
    "idle_gpu_hours",
    "unmetered_gpu_hours",
    "unpriced_gpu_hours",
    "efficiency",
    "coverage",
    "idle_cost",
    "unmetered_cost",
    "list_cost",
    "billed_cost",
    "currency",
)
"""What a row says after its dimensions. `efficiency` is None where nothing was metered. A cost is None where no price
is known at all; where some are not, it is the known part."""
IN_ORDER_OF_TIME = {"day", "hour"}


@dataclass(frozen=True)
class EfficiencyReport:
    """The answer. `closed` is None when nothing was ever closed; rows: the costliest idleness first, but by day or
    hour in the order of time. Where nothing of the period is closed, the sums are None."""

    closed: Closed | None
    by: tuple[str, ...]
    currency: str | None
    rows: tuple[Mapping[str, Any], ...]
    total: Mapping[str, Any]

    @property
    def columns(self) -> tuple[str, ...]:
        return (*self.by, *MEASURES)

    def document(self) -> dict[str, Any]:
        """The answer in the shape that the command line prints as JSON."""
        return {"period": period_document(self.closed), "rows": list(self.rows), "total": self.total}


class _Held:
    """Sums of what one holder has: everything, and its idle and unmetered parts for their cost."""

    def __init__(self, scale: Scale) -> None:
        self.all, self.idle, self.unmetered = (LedgerSum(scale) for _ in range(3))

    def add(self, row: Mapping[str, Any]) -> None:
        self.all.add(row, *KINDS)
        self.idle.add(row, "idle")
        self.unmetered.add(row, "unmetered")

    def measures(self, currency: str | None) -> dict[str, Any]:
        used, idle = self.all.kinds["used"], self.all.kinds["idle"]
        found = {
            **self.all.measures(currency),
            "efficiency": quotient(used, used + idle) if used + idle else None,
            "idle_cost": self.idle.measures(currency)["billed_cost"],
            "unmetered_cost": self.unmetered.measures(currency)["billed_cost"],
        }
        return {name: found[name] for name in MEASURES}


def efficiency(store: Store, period: Period | None, by: Sequence[str]) -> EfficiencyReport:
    """How well what was held in the closed hours of a period (None: all that is closed) was used, by the dimensions.

    Unit:   efficiency and coverage are parts of 1: an 8-GPU job at 100 % is 1, not 8 and not 1/8.
    Errors: LedgerError if `by` names no dimension, or if amounts of two currencies would be added.
    """
    dimensions = check_dimensions(by, WITH_ISOLATION)
    closed = closed_part(store, period)
    found = [row for row in entries_by(store, closed, dimensions) if row["held"]]
    currency = one_currency(found)
    scale = Scale.of(row["device_units"] for row in found)
    holders: dict[tuple[str, ...], _Held] = {}
    total = _Held(scale)
    for row in found:
        key = tuple(row[f"by_{name}"] for name in dimensions)
        holders.setdefault(key, _Held(scale)).add(row)
        total.add(row)
    measured = [{**dict(zip(dimensions, key, strict=True)), **held.measures(currency)} for key, held in holders.items()]
    if not IN_ORDER_OF_TIME & {*dimensions}:
        measured.sort(key=lambda row: (-(row["idle_cost"] or 0), -row["idle_gpu_hours"]))
    return EfficiencyReport(closed, dimensions, currency, tuple(measured), if_closed(closed, total.measures(currency)))
