"""Invoice lines for measured energy and memory, priced by the rate card's components."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from billing.exact import rounded
from billing.lines import Line
from billing.params import period_params, tenant_params
from billing.periods import Period
from billing.rates.policies import Component, in_force
from billing.rates.rate_card import RateCard
from warehouse.store import Store, read_sql

MILLIJOULES_PER_KWH = 3_600_000_000
BYTE_MS_PER_GIB_HOUR = 2**30 * 3_600_000
HOUR_MS = 3_600_000
UNITS = {"energy": "kWh", "memory": "GiB-hours"}


@dataclass
class _Sum:
    """held, measured: GPU-hours; amount: kWh before PUE, or GiB-hours."""

    held: Fraction = Fraction()
    measured: Fraction = Fraction()
    amount: Fraction = Fraction()


def component_lines(store: Store, card: RateCard, period: Period, month: str, tenant: str | None = None) -> list[Line]:
    """A line for each component in force, tenant and project that held something which the component's globs fit.

    quantity: kWh times PUE, or GiB-hours, of what was measured. What was not is not charged, and the description says
    how much that is; where nothing was, the quantity is None and the cost 0.
    Shape:    by component in the card's order, then tenant, then project.
    """
    components = in_force(card.components, month)
    if not components:
        return []
    rows = store.rows(read_sql(__file__, "components"), period_params(period) | tenant_params(tenant))
    return [
        _line(component, *key, total)
        for component in components
        for key, total in _sums(component, rows).items()
        if total.held
    ]


def _sums(component: Component, rows: list[dict[str, Any]]) -> dict[tuple[str, str], _Sum]:
    sums: dict[tuple[str, str], _Sum] = {}
    for row in rows:
        if component.match.matches(row):
            _add(sums.setdefault((row["tenant"], row["project"]), _Sum()), row, component.kind)
    return sums


def _add(total: _Sum, row: Mapping[str, Any], kind: str) -> None:
    hour = row["device_units"] * HOUR_MS
    total.held += Fraction(row["held_unit_ms"], hour)
    if kind == "energy":
        total.measured += Fraction(row["measured_unit_ms"], hour)
        total.amount += Fraction(row["millijoules"], MILLIJOULES_PER_KWH)
    else:
        total.measured += Fraction(row["memory_measured_unit_ms"], hour)
        total.amount += Fraction(row["byte_ms"], BYTE_MS_PER_GIB_HOUR)


def _line(component: Component, tenant: str, project: str, total: _Sum) -> Line:
    factor = Fraction(component.pue) if component.kind == "energy" else Fraction(1)
    quantity = total.amount * factor if total.measured else None
    cost = (quantity or Fraction()) * Fraction(component.price)
    return Line(
        tenant=tenant,
        kind=component.kind,
        project=project,
        sku=component.sku,
        description=_description(component, total),
        quantity=quantity,
        unit=UNITS[component.kind],
        list_unit_price=component.price,
        contracted_unit_price=component.price,
        list_cost=cost,
        cost=cost,
        rule=component.sku,
    )


def _description(component: Component, total: _Sum) -> str:
    unmeasured = total.held - total.measured
    measured = (
        f"measured in {rounded(total.measured, 2)} of {rounded(total.held, 2)} allocated GPU-hours "
        f"({rounded(100 * total.measured / total.held, 1)} %)"
    )
    missing = f"; {rounded(unmeasured, 2)} GPU-hours unmeasured and not charged" if unmeasured else ""
    if component.kind == "energy":
        what = f"{rounded(total.amount, 3)} kWh x PUE {component.pue.normalize():f}"
    else:
        what = f"{rounded(total.amount, 3)} GiB-hours"
    return (f"{what}, " if total.measured else "") + measured + missing
