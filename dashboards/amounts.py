"""GPU-hours of each kind and their cost: the basis of most figures on the pages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from dashboards.kinds import ALLOCATED, KINDS


@dataclass(frozen=True)
class Amounts:
    """GPU-hours of each kind; `costs`: of each kind at list price, None if nothing has a price; `unknown`: kinds
    of which nothing has one, as far as rows tell."""

    hours: Mapping[str, float]
    costs: Mapping[str, float] | None = None
    unpriced: float = 0.0
    list_cost: Decimal | None = None
    billed_cost: Decimal | None = None
    unknown: frozenset[str] = frozenset()

    @property
    def capacity(self) -> float:
        return sum(self.hours[kind.key] for kind in KINDS)

    @property
    def allocated(self) -> float:
        return sum(self.hours[kind.key] for kind in ALLOCATED)

    @property
    def metered(self) -> float:
        return self.hours["used"] + self.hours["idle"]

    @property
    def efficiency(self) -> float | None:
        """The used part of what is metered; None where nothing is."""
        return self.hours["used"] / self.metered if self.metered else None

    @property
    def coverage(self) -> float | None:
        """The metered part of what is allocated; None where nothing is."""
        return self.metered / self.allocated if self.allocated else None

    @property
    def allocated_cost(self) -> float | None:
        return None if self.costs is None else sum(self.costs[kind.key] for kind in ALLOCATED)


def amounts(rows: Sequence[Mapping[str, Any]]) -> Amounts:
    """The sum of rows that have a column of each kind, <kind>_cost, unpriced, list_cost
    and billed_cost, as pages/overview/by_tenant.sql has; a cost that no row knows stays unknown."""
    hours = {kind.key: float(sum(row[kind.key] for row in rows)) for kind in KINDS}
    priced = [row for row in rows if row["used_cost"] is not None]
    costs = {kind.key: float(sum(row[f"{kind.key}_cost"] for row in priced)) for kind in KINDS}
    return Amounts(
        hours,
        costs if priced else None,
        float(sum(row["unpriced"] for row in rows)),
        _exact(row["list_cost"] for row in rows),
        _exact(row["billed_cost"] for row in rows),
        frozenset(name for name, held in hours.items() if 0 < held <= _unpriced(rows, name) * (1 + 1e-9)),
    )


def _unpriced(rows: Sequence[Mapping[str, Any]], kind: str) -> float:
    return float(sum(row.get(f"{kind}_unpriced", 0) for row in rows))


def _exact(values: Any) -> Decimal | None:
    known = [value for value in values if value is not None]
    return sum(known, Decimal(0)) if known else None
