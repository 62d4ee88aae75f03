"""Headline figures that several pages show of the same amounts: cost, efficiency and waste."""

from __future__ import annotations

from dashboards.amounts import Amounts
from dashboards.format import money, percent
from dashboards.languages import Language
from dashboards.parts import Figure


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
