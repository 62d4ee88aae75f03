"""Prices: which rule of the rate card prices whom and when, and which card is in force.

A price that no rule gives is unknown: it has no interval here and no cost later, which is not a cost of zero.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from fnmatch import fnmatchcase
from itertools import pairwise
from typing import Any

from billing.rate_card import (
    MATCH_KEYS,
    Issuer,
    Match,
    RateCard,
    RateError,
    RateRule,
    load_rate_card,
    parse_rate_card,
)
from warehouse.store import Store, read_sql

__all__ = [
    "AppliedCard",
    "Issuer",
    "Match",
    "PriceInterval",
    "RateCard",
    "RateError",
    "RateRule",
    "Subject",
    "apply_rate_card",
    "current_rate_card",
    "cut_instants",
    "first_change",
    "list_rates",
    "load_rate_card",
    "parse_rate_card",
    "price_intervals",
    "rate_card_of",
]


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


@dataclass(frozen=True)
class AppliedCard:
    """A card as it was applied, by whom and why."""

    card: RateCard
    version: str
    applied_at: datetime
    author: str
    reason: str


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


def current_rate_card(store: Store) -> AppliedCard | None:
    """The card in force, or None before the first was applied."""
    rows = store.rows(read_sql(__file__, "current_rate_card"))
    return _applied(rows[0]) if rows else None


def rate_card_of(store: Store, version: str) -> AppliedCard | None:
    """A card that was applied at some time, by its version."""
    rows = store.rows(read_sql(__file__, "rate_card_of"), {"version": version})
    return _applied(rows[0]) if rows else None


def list_rates(store: Store) -> list[dict[str, Any]]:
    """The rules of the card in force, in its order, a dict each; none before a card was applied."""
    current = current_rate_card(store)
    if current is None:
        return []
    return [
        {
            "sku": rule.sku,
            **{key: getattr(rule.match, key) for key in ("model", "pool", "partition_profile", "tenant")},
            "price_per_gpu_hour": rule.price_per_gpu_hour,
            "currency": current.card.currency,
            "effective_from": rule.effective_from,
            "effective_to": rule.effective_to,
            "version": current.version,
        }
        for rule in current.card.rates
    ]


def apply_rate_card(store: Store, card: RateCard, author: str, reason: str, now: datetime) -> str:
    """Puts the card in force and answers its version; the card in force already is left as it is.

    Closed hours that no invoice covers are rated again by the next close.
    Errors: RateError if the card would change what an issued invoice was computed from.
    """
    import pyarrow as pa

    rows = store.rows(read_sql(__file__, "current_rate_card"))
    if rows and rows[0]["version"] == card.version:
        return card.version
    if rows:
        _refuse_changed_invoices(store, _applied(rows[0]).card, card)
    sequence = rows[0]["sequence"] + 1 if rows else 1
    row = pa.table(
        {
            "version": pa.array([card.version], pa.string()),
            "sequence": pa.array([sequence], pa.int64()),
            "applied_at": pa.array([now], pa.timestamp("ms", "UTC")),
            "author": pa.array([author], pa.string()),
            "reason": pa.array([reason], pa.string()),
            "card": pa.array([card.canonical()], pa.string()),
        }
    )
    store.insert("rate_cards", row)
    return card.version


def _applied(row: dict[str, Any]) -> AppliedCard:
    card = RateCard.model_validate_json(row["card"])
    return AppliedCard(card, row["version"], row["applied_at"], row["author"], row["reason"])


def _refuse_changed_invoices(store: Store, old: RateCard, new: RateCard) -> None:
    """A rule in use is never edited, only ended and followed: in use is what an issued invoice covers."""
    invoiced = store.rows(read_sql(__file__, "invoiced_subjects"))
    for key in ("currency", "timezone"):
        if invoiced and getattr(old, key) != getattr(new, key):
            what = f"found {getattr(new, key)}, but invoices were issued with {getattr(old, key)}"
            raise RateError(f"rate card: {key}", what, "Keep it, or start a store of its own")
    for row in invoiced:
        subject = Subject(row["model"], row["pool"], row["partition_profile"], row["tenant"])
        at = first_change(old, new, subject, row["period_start"], row["period_end"])
        if at is not None:
            before, after = (_shown(price_intervals(card, [subject]), at) for card in (old, new))
            raise RateError(
                f"rate card: the price of {subject.model!r} for {subject.tenant!r} at {at:%Y-%m-%d %H:%M}Z",
                f"would change from {before} to {after}, but invoice {row['number']} was computed from it",
                "Leave that rule as it was, end it with effective_to, and follow it with a new one",
            )


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


def _shown(intervals: Iterable[PriceInterval], at: datetime) -> str:
    price = _price_at(intervals, at)
    return "no price" if price is None else f"{price[2]} ({price[0]}, list {price[1]})"
