"""The cost of unallocated time: the platform's own, or shared among the tenants of the pool."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fnmatch import fnmatchcase
from fractions import Fraction
from typing import Any

from billing.exact import Scale, price_nano, rounded
from billing.lines import Line
from billing.money import largest_remainder, minor_digits
from billing.rates import RateCard
from billing.rates.policies import SharedCost, in_force


@dataclass(frozen=True)
class PoolCost:
    """What a pool's unallocated time cost in a month, in whole minor units, and who bears it.

    `shared` + `kept` = `unallocated`, to the last digit. `unpriced_gpu_hours` have no price and are in no amount.
    """

    pool: str
    share: str
    unallocated_gpu_hours: Decimal
    unallocated: Decimal
    shared: Mapping[str, Decimal]
    kept: Decimal
    unpriced_gpu_hours: Decimal


def pool_costs(rows: Sequence[Mapping[str, Any]], card: RateCard, month: str) -> list[PoolCost]:
    """From the rows of pools.sql, by the card's idle policy. Tenants without a name bear nothing."""
    scale = Scale.of(row["device_units"] for row in rows)
    idle: dict[str, int] = {}
    cost: dict[str, int] = {}
    unpriced: dict[str, int] = {}
    allocated: dict[str, dict[str, int]] = {}
    for row in rows:
        pool = row["pool"]
        quantity = scale.quantity(row["micro_ms"], row["device_units"])
        price = row["unit_price"]
        if row["held"]:
            if row["tenant"]:
                bearers = allocated.setdefault(pool, {})
                held = 0 if price is None else quantity * price_nano(price)
                bearers[row["tenant"]] = bearers.get(row["tenant"], 0) + held
            continue
        idle[pool] = idle.get(pool, 0) + quantity
        if price is None:
            unpriced[pool] = unpriced.get(pool, 0) + quantity
        else:
            cost[pool] = cost.get(pool, 0) + quantity * price_nano(price)
    guaranteed: dict[str, Fraction] = {}
    for commitment in in_force(card.commitments, month):
        guaranteed[commitment.tenant] = guaranteed.get(commitment.tenant, Fraction(0)) + Fraction(commitment.gpus)
    digits = minor_digits(card.currency)
    found = []
    for pool in sorted(idle):
        share = _policy(card, pool, month)
        total = rounded(scale.money(cost.get(pool, 0)), digits)
        shared = _shares(share, total, allocated.get(pool, {}), guaranteed, digits)
        found.append(
            PoolCost(
                pool,
                share,
                scale.hours(idle[pool]),
                total,
                shared,
                total - sum(shared.values(), Decimal(0)),
                scale.hours(unpriced.get(pool, 0)),
            )
        )
    return found


def shared_lines(costs: Sequence[PoolCost]) -> list[Line]:
    """A line for each tenant and pool of which it bears a part."""
    return [
        Line(
            tenant,
            "shared",
            description=f"{100 * amount / cost.unallocated:.2f} %, {_HOW[cost.share]}, of {cost.unallocated:,} for "
            f"{cost.unallocated_gpu_hours:.2f} unallocated "
            f"GPU-hours of {f'pool {cost.pool}' if cost.pool else 'the devices without a pool'}",
            cost=Fraction(amount),
            rule=f"idle_policy {cost.share}",
        )
        for cost in costs
        for tenant, amount in cost.shared.items()
        if amount
    ]


_HOW = {
    "allocated_cost": "by the cost of what was held there",
    "evenly": "an even part",
    "guaranteed": "by guaranteed GPUs",
}


def _policy(card: RateCard, pool: str, month: str) -> str:
    if isinstance(card.idle_policy, str):
        return card.idle_policy
    rules: list[SharedCost] = in_force(card.idle_policy, month)
    return next((rule.share for rule in rules if fnmatchcase(pool, rule.pool)), "platform")


def _shares(
    share: str, total: Decimal, allocated: Mapping[str, int], guaranteed: Mapping[str, Fraction], digits: int
) -> dict[str, Decimal]:
    """What each tenant that held something of the pool (or is guaranteed something) bears; nobody: the platform."""
    weights: Mapping[str, Fraction] = {}
    if share == "allocated_cost":
        weights = {tenant: Fraction(cost) for tenant, cost in allocated.items()}
    elif share == "evenly":
        weights = dict.fromkeys(allocated, Fraction(1))
    elif share == "guaranteed":
        weights = guaranteed
    weights = {tenant: weight for tenant, weight in sorted(weights.items()) if weight}
    whole = sum(weights.values(), Fraction(0))
    if not whole:
        return {}
    amounts, _ = largest_remainder([Fraction(total) * weight / whole for weight in weights.values()], digits)
    return dict(zip(weights, amounts, strict=True))
