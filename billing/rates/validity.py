"""When and for what a price applies: what distinguishes two lines of one SKU."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from fnmatch import fnmatchcase

from billing.periods import Period
from billing.rates.rate_card import RateCard, RateRule
from warehouse.instants import rfc3339

_SHOWN_KEYS = ("tenant", "queue", "priority", "preemptible", "pool", "cluster", "partition_profile")
"""Of what a rule matches; the model is what the sku says."""


def price_validity(
    card: RateCard, tenant: str, sku: str, price: Decimal, period: Period
) -> list[dict[str, str | None]]:
    """The rules by which a tenant pays that price for the sku in the period: from, to (null = open), and what else they
    ask for, in words."""
    return [_held(rule) for rule in _paid_by(card, tenant, sku, price, period)]


def list_price_validity(
    card: RateCard, tenant: str, sku: str, price: Decimal, listed: Decimal, period: Period
) -> list[dict[str, str | None]]:
    """The same of the list price beside a contracted one: rules without a tenant, of that sku or for the same models.
    It may change in a month in which the contracted one holds throughout, and then there are two lines."""
    models = {rule.match.model for rule in _paid_by(card, tenant, sku, price, period)}
    return [
        _held(rule)
        for rule in card.rates
        if rule.match.tenant is None
        and listed in card.prices_of(rule).values()
        and (rule.sku == sku or rule.match.model in models)
        and _holds_in(rule, period)
    ]


def _paid_by(card: RateCard, tenant: str, sku: str, price: Decimal, period: Period) -> list[RateRule]:
    return [
        rule
        for rule in card.rates
        if rule.sku == sku
        and price in card.prices_of(rule).values()
        and (rule.match.tenant is None or fnmatchcase(tenant, rule.match.tenant))
        and _holds_in(rule, period)
    ]


def _holds_in(rule: RateRule, period: Period) -> bool:
    return (rule.effective_from is None or rule.effective_from < period.end) and (
        rule.effective_to is None or period.start < rule.effective_to
    )


def _held(rule: RateRule) -> dict[str, str | None]:
    since, until = (rfc3339(at) if at else None for at in (rule.effective_from, rule.effective_to))
    return {"from": since, "to": until, "only": _only(rule)}


def _only(rule: RateRule) -> str:
    match: Mapping[str, object] = dict(rule.match)
    conditions = [f"{key} {_shown(match[key])}" for key in _SHOWN_KEYS if match[key] is not None]
    foreign = f"{rule.price_per_gpu_hour} {rule.currency}" if rule.currency else ""
    return ", ".join([*filter(None, [rule.windows_in_words, foreign]), *conditions])


def _shown(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return str(value) or "none"
