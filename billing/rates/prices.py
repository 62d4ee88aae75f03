"""Prices: which rule of the rate card prices whom and when.

A price that no rule gives is unknown: it has no interval here and no cost later, which is not a cost of zero.
"""

from __future__ import annotations

import functools
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from itertools import pairwise
from typing import NamedTuple
from zoneinfo import ZoneInfo

from billing.periods import parse_month
from billing.rates.matching import Matcher, numbers
from billing.rates.rate_card import MATCH_KEYS, RateCard, RateRule
from billing.rates.windows import Span, Window, window_spans

LONG_AGO = datetime.min.replace(tzinfo=UTC)
NEVER = datetime.max.replace(tzinfo=UTC)


@dataclass(frozen=True)
class Subject:
    """What has a price: a device's model and pool, the profile of the part that is held ('' = the whole device),
    the tenant that holds it ('' = nobody: the platform), what was asked for: queue, priority as the source reported it
    (None: it did not), preemptible; and the device's cluster ('' where no price depends on it)."""

    model: str
    pool: str
    partition_profile: str
    tenant: str
    queue: str = ""
    priority: int | None = None
    preemptible: bool = False
    cluster: str = ""


class Price(NamedTuple):
    """Per GPU-hour. `contracted` is the most specific rule's, `list` that of the most specific rule that names no
    tenant (the contracted one where there is none)."""

    sku: str
    list_unit_price: Decimal
    contracted_unit_price: Decimal


class PricePeriod(NamedTuple):
    """A price during [start, end)."""

    start: datetime
    end: datetime
    price: Price


@dataclass(frozen=True)
class PriceInterval:
    """The prices per GPU-hour of a subject during [effective_from, effective_to); None = open."""

    subject: Subject
    effective_from: datetime | None
    effective_to: datetime | None
    sku: str
    list_unit_price: Decimal
    contracted_unit_price: Decimal


class PriceBook:
    """What a card says of anybody in [start, end); None = always, which a card with windows cannot say.

    Many subjects fit the same rules and then share a schedule, so a card with a rule for each of hundreds of tenants
    and windows on every day is computed once for each different set of rules, not for each subject.
    """

    def __init__(self, card: RateCard, start: datetime | None = None, end: datetime | None = None) -> None:
        self.card = card
        self._start, self._end = start or LONG_AGO, end or NEVER
        self._rules = sorted(card.rates, key=lambda rule: rule.specificity, reverse=True)
        self._matcher = Matcher(MATCH_KEYS, [rule.match.model_dump() for rule in self._rules])
        self._schedules: dict[int, tuple[PricePeriod, ...]] = {}
        self._windows: dict[tuple[tuple[Window, ...], str], list[Span]] = {}

    def rules_of(self, subject: Subject) -> int:
        """The rules that could price the subject, as bits; subjects of the same rules have the same schedule."""
        return self._matcher.fitting(
            lambda key: self.card.priority_class(subject.priority) if key == "priority" else getattr(subject, key)
        )

    def schedule(self, subject: Subject) -> tuple[PricePeriod, ...]:
        """The times at which it has a price: in order, without overlap, neighbours that differ; others are absent."""
        return self.schedule_of(self.rules_of(subject))

    def schedule_of(self, rules: int) -> tuple[PricePeriod, ...]:
        known = self._schedules.get(rules)
        if known is None:
            fitting = [self._rules[number] for number in numbers(rules)]
            known = self._schedules[rules] = tuple(_merged(self._periods(fitting)))
        return known

    def _periods(self, rules: Sequence[RateRule]) -> Iterator[PricePeriod]:
        """From change to change of the rules in force; the rules come best first."""
        changes: dict[datetime, list[int]] = defaultdict(list)
        offers = [offer for rule in rules for offer in self._offers(rule)]
        for number, (_, _, spans) in enumerate(offers):
            for start, end in spans:
                changes[start].append(number)
                changes[end].append(number)
        in_force: set[int] = set()
        for start, end in pairwise(sorted(changes)):
            for number in changes[start]:
                in_force ^= {number}
            if in_force:
                best, price, _ = offers[min(in_force)]
                public = [number for number in in_force if offers[number][0].match.tenant is None]
                listed = offers[min(public)][1] if public else price
                if price is not None and listed is not None:
                    yield PricePeriod(start, end, Price(best.sku, listed, price))

    def _offers(self, rule: RateRule) -> Iterator[tuple[RateRule, Decimal | None, list[Span]]]:
        """A rule's prices in the card's currency and when each holds, the best first: in months without an exchange
        rate it has none, and no other rule stands in for it."""
        spans = list(self._in_force(rule))
        for month, price in self.card.prices_of(rule).items():
            if month is None:
                yield rule, price, spans
                return
            of = parse_month(month, self.card.timezone)
            clipped = ((max(start, of.start), min(end, of.end)) for start, end in spans)
            yield rule, price, [(start, end) for start, end in clipped if start < end]
        yield rule, None, spans

    def _in_force(self, rule: RateRule) -> Iterator[Span]:
        """When the rule holds: in order, without overlap, neighbours apart."""
        first, last = max(rule.effective_from or LONG_AGO, self._start), min(rule.effective_to or NEVER, self._end)
        if first >= last:
            return
        if not rule.windows:
            yield first, last
            return
        for start, end in self._spans(rule):
            if max(first, start) < min(last, end):
                yield max(first, start), min(last, end)

    def _spans(self, rule: RateRule) -> list[Span]:
        known = self._windows.get((rule.windows, rule.timezone))
        if known is None:
            if self._start == LONG_AGO or self._end == NEVER:
                raise ValueError("a card with windows has prices between two instants only")
            zone = ZoneInfo(rule.timezone) if rule.timezone else self.card.zone
            known = window_spans(rule.windows, zone, self._start, self._end)
            self._windows[rule.windows, rule.timezone] = known
        return known

    def cut_instants(self) -> list[datetime]:
        """Every instant at which a price starts or ends within the book's time, in order."""
        bounds = {at for rule in self._rules for at in (rule.effective_from, rule.effective_to) if at is not None}
        bounds |= {at for rule in self._rules for span in self._spans_or_none(rule) for at in span}
        months = {month for rule in self._rules for month in self.card.prices_of(rule) if month is not None}
        for month in months:
            of = parse_month(month, self.card.timezone)
            bounds |= {of.start, of.end}
        return sorted(at for at in bounds if self._start <= at <= self._end)

    def _spans_or_none(self, rule: RateRule) -> list[Span]:
        return self._spans(rule) if rule.windows else []


def cut_instants(card: RateCard, start: datetime | None = None, end: datetime | None = None) -> list[datetime]:
    """Every instant of [start, end] at which a price of the card starts or ends, in order.

    Errors: ValueError if the card has windows and no time is named.
    """
    return PriceBook(card, start, end).cut_instants()


def price_intervals(
    card: RateCard, subjects: Iterable[Subject], start: datetime | None = None, end: datetime | None = None
) -> list[PriceInterval]:
    """For each subject the times within [start, end) at which it has a price: in order, without overlap, neighbours
    that differ. Times that no rule covers are absent.

    Errors: ValueError if the card has windows and no time is named.
    """
    book = PriceBook(card, start, end)
    return [
        PriceInterval(
            subject,
            None if period.start == LONG_AGO else period.start,
            None if period.end == NEVER else period.end,
            *period.price,
        )
        for subject in dict.fromkeys(subjects)
        for period in book.schedule(subject)
    ]


def _merged(periods: Iterable[PricePeriod]) -> list[PricePeriod]:
    merged: list[PricePeriod] = []
    for period in periods:
        if merged and merged[-1].end == period.start and merged[-1].price == period.price:
            period = PricePeriod(merged.pop().start, period.end, period.price)
        merged.append(period)
    return merged


def first_change(old: RateCard, new: RateCard, subject: Subject, start: datetime, end: datetime) -> datetime | None:
    """The first instant in [start, end) at which the subject's sku or prices differ; None: nowhere."""
    change = first_difference(_book(_Same(old), start, end), _book(_Same(new), start, end), subject, start)
    return change and change[0]


class _Same:
    """A card by identity, so that asking again about it finds its book: comparing whole cards would take longer."""

    def __init__(self, card: RateCard) -> None:
        self.card = card

    def __hash__(self) -> int:
        return id(self.card)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and other.card is self.card


@functools.lru_cache(maxsize=4)
def _book(same: _Same, start: datetime, end: datetime) -> PriceBook:
    return PriceBook(same.card, start, end)


def first_difference(
    old: PriceBook, new: PriceBook, subject: Subject, start: datetime
) -> tuple[datetime, Price | None, Price | None] | None:
    """The first instant at which two books of one time [start, ...) differ about the subject, and what they say."""
    return next(differences(old, new, subject, start), None)


def differences(
    old: PriceBook, new: PriceBook, subject: Subject, start: datetime
) -> Iterator[tuple[datetime, Price | None, Price | None]]:
    """Each instant from which two books say other things about the subject, and what they say."""
    before, after = old.schedule(subject), new.schedule(subject)
    if before == after:
        return
    for at in sorted({start, *(at for period in (*before, *after) for at in (period.start, period.end))}):
        was, becomes = price_at(before, at), price_at(after, at)
        if was != becomes:
            yield at, was, becomes


def price_at(schedule: Iterable[PricePeriod], at: datetime) -> Price | None:
    """The price at the instant; None: unknown."""
    return next((period.price for period in schedule if period.start <= at < period.end), None)


def shown_price(price: Price | None) -> str:
    if price is None:
        return "no price"
    return f"{price.contracted_unit_price} ({price.sku}, list {price.list_unit_price})"
