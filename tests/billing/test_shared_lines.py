"""What a line of shared cost says: of which pool, how much, and by which measure."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

from billing.invoicing.shared import PoolCost, shared_lines


def test_a_line_names_the_pool_of_which_a_tenant_bears_a_part() -> None:
    shared = {"bio": Decimal("1.00"), "chem": Decimal(0), "phys": Decimal("0.50")}
    amounts = (Decimal("2.00"), Decimal("4.00"), shared, Decimal("2.50"), Decimal(0))
    lines = shared_lines([PoolCost("train", "evenly", *amounts), PoolCost("", "allocated_cost", *amounts)])
    assert [(line.tenant, line.description, line.cost, line.rule) for line in lines] == [
        (
            tenant,
            f"{percent:.2f} %, {how}, of 4.00 for 2.00 unallocated GPU-hours of {where}",
            cost,
            f"idle_policy {rule}",
        )
        for how, where, rule in (
            ("an even part", "pool train", "evenly"),
            ("by the cost of what was held there", "the devices without a pool", "allocated_cost"),
        )
        for tenant, percent, cost in (("bio", 25, 1), ("phys", 12.5, Fraction(1, 2)))
    ]
