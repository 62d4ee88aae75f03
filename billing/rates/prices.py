"""Prices: which rule of the rate card prices whom and when.

A price that no rule gives is unknown: it has no interval here and no cost later, which is not a cost of zero.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from fnmatch import fnmatchcase
from itertools import pairwise

from billing.rates.rate_card import MATCH_KEYS, RateCard, RateRule


@dataclass(frozen=True)
class Subject:
    """What has a price: a device's model and pool, the profile of the part that is held ('' = the whole device),
    and the tenant that holds it ('' = nobody: the platform)."""

    model: str
    pool: str
    partition_profile: str
    tenant: str


@dataclass(frozen=True)
class PriceInterval:
    """The prices per GPU-hour of a subject during [effective_from, effective_to); None = open.

    `contracted_unit_price` is the most specific rule's, `list_unit_price` that of the most specific rule that names
    no tenant (the contracted one where there is none).
    """

    subject: Subject
    effective_from: datetime | None
    effective_to: datetime | None
    sku: str
    list_unit_price: Decimal
    contracted_unit_price: Decimal


def cut_instants(card: RateCard) -> list[datetime]:
    """Every instant at which a price of the card starts or ends, in order."""
    bounds = {at for rule in card.rates for at in (rule.effective_from, rule.effective_to)}
    return sorted(at for at in bounds if at is not None)


def price_intervals(card: RateCard, subjects: Iterable[Subject]) -> list[PriceInterval]:
    """For each subject the times at which it has a price: in order, without overlap, neighbours that differ.

    Times that no rule covers are absent.
    """
    best_first = sorted(card.rates, key=lambda rule: rule.specificity, reverse=True)
    return [
        interval
        for subject in dict.fromkeys(subjects)
        for interval in _merged(_intervals(subject, [rule for rule in best_first if _matches(rule, subject)]))
    ]


def _intervals(subject: Subject, rules: Sequence[RateRule]) -> Iterator[PriceInterval]:
    bounds = {at for rule in rules for at in (rule.effective_from, rule.effective_to) if at is not None}
    for start, end in pairwise([None, *sorted(bounds), None]):
        in_force = [rule for rule in rules if _covers(rule, start, end)]
        if in_force:
            listed = next((rule for rule in in_force if rule.match.tenant is None), in_force[0])
            yield PriceInterval(
                subject, start, end, in_force[0].sku, listed.price_per_gpu_hour, in_force[0].price_per_gpu_hour
            )


def _merged(intervals: Iterable[PriceInterval]) -> list[PriceInterval]:
    merged: list[PriceInterval] = []
    for interval in intervals:
        if merged and merged[-1].effective_to == interval.effective_from and _price(merged[-1]) == _price(interval):
            last = merged.pop()
            interval = PriceInterval(last.subject, last.effective_from, interval.effective_to, *_price(interval))
        merged.append(interval)
    return merged


def _price(interval: PriceInterval) -> tuple[str, Decimal, Decimal]:
    return interval.sku, interval.list_unit_price, interval.contracted_unit_price


def _matches(rule: RateRule, subject: Subject) -> bool:
    return all(
        pattern is None or fnmatchcase(getattr(subject, key), pattern)
        for key, pattern in ((key, getattr(rule.match, key)) for key in MATCH_KEYS)
    )


def _covers(rule: RateRule, start: datetime | None, end: datetime | None) -> bool:
    """Whether the rule is in force throughout [start, end), which none of its own bounds cuts."""
    starts_in_time = rule.effective_from is None or (start is not None and rule.effective_from <= start)
    ends_in_time = rule.effective_to is None or (end is not None and end <= rule.effective_to)
    return starts_in_time and ends_in_time


def first_change(old: RateCard, new: RateCard, subject: Subject, start: datetime, end: datetime) -> datetime | None:
    """The first instant in [start, end) at which the subject's sku or prices differ; None: nowhere."""
    before, after = (price_intervals(card, [subject]) for card in (old, new))
    cuts = sorted({*cut_instants(old), *cut_instants(new)})
    for at in (start, *(cut for cut in cuts if start < cut < end)):
        if _price_at(before, at) != _price_at(after, at):
            return at
    return None


def _price_at(intervals: Iterable[PriceInterval], at: datetime) -> tuple[str, Decimal, Decimal] | None:
    for interval in intervals:
        if (interval.effective_from or at) <= at and (interval.effective_to is None or at < interval.effective_to):
            return _price(interval)
    return None


def shown_price(intervals: Iterable[PriceInterval], at: datetime) -> str:
    price = _price_at(intervals, at)
    return "no price" if price is None else f"{price[2]} ({price[0]}, list {price[1]})"
