"""Headline figures that several pages show of the same amounts: what was allocated, cost, efficiency and waste."""

from __future__ import annotations

from dashboards.amounts import Amounts
from dashboards.format import fixed, hours, money, percent
from dashboards.languages import Language
from dashboards.parts import Figure


def allocated(gpu_hours: float, closed: int, words: Language) -> Figure:
    """GPU-hours, and how many GPUs that is.   closed: hours of the period that are closed."""
    gpus = words("overview.gpus", n=fixed(gpu_hours / closed if closed else 0.0, 1))
    return Figure(words("overview.allocated"), hours(gpu_hours), words("unit.gpu_hours"), gpus)


def cost(total: Amounts, currency: str, words: Language) -> Figure:
    """At list price, and what is billed of it."""
    billed = words("overview.billed", amount=money(total.billed_cost, currency))
    return Figure(words("overview.cost"), money(total.list_cost, currency), "", billed)


def efficiency(total: Amounts, words: Language) -> Figure:
    """The used part of metered time, and how much was metered."""
    coverage = words("part.coverage", share=percent(total.coverage))
    return Figure(words("tenants.efficiency"), percent(total.efficiency), words("tenants.of_metered"), coverage, "used")


def waste(total: Amounts, currency: str, words: Language, href: str = "") -> Figure:
    """The cost of idle time, and its share of the cost of allocated time."""
    idle = total.costs["idle"] if total.costs else None
    share = words("overview.waste_is", share=percent(idle, total.allocated_cost))
    return Figure(words("overview.waste"), money(idle, currency), "", share, "idle", href)
