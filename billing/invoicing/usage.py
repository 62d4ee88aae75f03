"""A month's usage as input for the rate card's policies: integers on one scale (see `billing.exact`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from billing.exact import Scale, price_nano
from billing.lines import Line
from billing.sums import KINDS, LedgerSum

Session = tuple[str, str]
"""(cluster, allocation)."""


@dataclass
class Usage:
    """What a tenant held that is alike in all that policies ask about, and what is left of it to be paid.

    left:      on the scale of the month: what no commitment covers.
    cost_left: quantities times prices in billionths, what commitments and discounts left of the contracted cost.
    """

    tenant: str
    project: str
    queue: str
    sku: str
    preemptible: bool
    list_unit_price: Decimal | None
    contracted_unit_price: Decimal | None
    session: Session
    left: int = 0
    cost_left: int = 0

    def add(self, quantity: int) -> None:
        self.left += quantity
        if self.contracted_unit_price is not None:
            self.cost_left += quantity * price_nano(self.contracted_unit_price)

    @property
    def key(self) -> tuple[object, ...]:
        """What a commitment's coverage is grouped by."""
        return (
            self.project,
            self.queue,
            self.sku,
            self.preemptible,
            self.list_unit_price,
            self.contracted_unit_price,
            self.session,
        )

    def cover(self, quantity: int) -> None:
        """A commitment pays for part of it."""
        self.left -= quantity
        if self.contracted_unit_price is not None:
            self.cost_left -= quantity * price_nano(self.contracted_unit_price)


@dataclass(frozen=True)
class MonthUsage:
    """All usage of a month (or of one tenant in it), its lines, and each tenant's figures that apply to the whole
    invoice. estimated: held until an end that is estimated; assumed: on a device that was."""

    scale: Scale
    by_tenant: Mapping[str, list[Usage]]
    lines: Sequence[Line]
    totals: Mapping[str, LedgerSum]
    estimated: Mapping[str, int]
    assumed: Mapping[str, int]
    last_run: Mapping[str, int]


NO_SESSION: Session = ("", "")
"""Of usage in sessions that no policy distinguishes."""


def split_sessions_off(usage: MonthUsage, rows: Sequence[Mapping[str, Any]]) -> None:
    """Makes what single sessions held (rows of usage_of_sessions.sql) usage of their own."""
    whole = {(one.tenant, *one.key): one for usages in usage.by_tenant.values() for one in usages}
    for row in rows:
        alike = {name: row[name] for name in _ALIKE}
        one = Usage(**alike, session=(row["session_cluster"], row["session"]))
        rest = whole[one.tenant, *one.key[:-1], NO_SESSION]
        one.add(row["micro_ms"])
        rest.add(-row["micro_ms"])
        usage.by_tenant[one.tenant].append(one)


def month_usage(rows: Sequence[Mapping[str, Any]], scale: Scale) -> MonthUsage:
    """From the rows of usage.sql, in their order. Rows that differ in the devices' units alone are one usage."""
    usages: dict[tuple[Any, ...], Usage] = {}
    sums: dict[tuple[Any, ...], LedgerSum] = {}
    totals: dict[str, LedgerSum] = {}
    estimated: dict[str, int] = {}
    assumed: dict[str, int] = {}
    last_run: dict[str, int] = {}
    for row in rows:
        tenant, units = row["tenant"], row["device_units"]
        quantity = sum(scale.quantity(row[f"{kind}_micro_ms"], units) for kind in KINDS)
        alike = tuple(row[name] for name in _ALIKE)
        if alike not in usages:
            usages[alike] = Usage(**{name: row[name] for name in _ALIKE}, session=NO_SESSION)
        usages[alike].add(quantity)
        line = tuple(row[name] for name in _LINE)
        sums.setdefault(line, LedgerSum(scale)).add(row, *KINDS)
        totals.setdefault(tenant, LedgerSum(scale)).add(row, *KINDS)
        on_assumed = scale.quantity(row["assumed_micro_ms"], units)
        assumed[tenant] = assumed.get(tenant, 0) + on_assumed
        ended = scale.quantity(row["estimated_micro_ms"], units) - on_assumed
        estimated[tenant] = estimated.get(tenant, 0) + ended
        last_run[tenant] = max(last_run.get(tenant, 0), row["last_run"])
    by_tenant: dict[str, list[Usage]] = {}
    for usage in usages.values():
        by_tenant.setdefault(usage.tenant, []).append(usage)
    lines = [_line(key, line) for key, line in sums.items() if line.quantity]
    return MonthUsage(scale, by_tenant, lines, totals, estimated, assumed, last_run)


_LINE = ("tenant", "project", "sku", "list_unit_price", "contracted_unit_price")
_ALIKE = ("tenant", "project", "queue", "sku", "preemptible", "list_unit_price", "contracted_unit_price")


def _line(key: tuple[Any, ...], line: LedgerSum) -> Line:
    tenant, project, sku, list_price, contracted_price = key
    measures = line.measures(None)
    return Line(
        tenant,
        "usage",
        project,
        sku,
        quantity=line.exact_hours(),
        unit="GPU-hours",
        list_unit_price=list_price,
        contracted_unit_price=contracted_price,
        list_cost=None if list_price is None else line.list_billed(),
        cost=None if line.unpriced else line.billed(),
        measures={name: measures[name] for name in MEASURES},
    )


MEASURES = (
    "allocated_gpu_hours", "used_gpu_hours", "idle_gpu_hours", "unmetered_gpu_hours", "unpriced_gpu_hours", "coverage",
)  # fmt: skip
"""What a usage line says of the ledger."""
