"""The rate card: dated prices by what is held, where, by whom and how, as people write it in YAML.

    currency: EUR
    timezone: Europe/Berlin
    rates:
      - {sku: h100, match: {model: "NVIDIA H100*"}, price_per_gpu_hour: "2.50", effective_from: 2026-10-01}

Patterns are globs, case-sensitive; a key that is absent matches anything. `effective_to` is exclusive, absent = open.
A date is that day's first instant, and a time without an offset is local time, in the card's own zone. A rule with
`windows` holds in these hours of the week only (see `billing.rates.windows`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from decimal import Decimal
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated, Any, Literal, Self
from zoneinfo import ZoneInfo

from pydantic import (
    ConfigDict,
    Field,
    ValidationError,
    ValidationInfo,
    field_serializer,
    field_validator,
    model_validator,
)

from billing.rates.matching import Pattern, can_both_fit, first_tie, fits, specificity
from billing.rates.policies import (
    Commitment,
    Component,
    Currency,
    Discount,
    ExchangeRate,
    InvoiceCurrency,
    Minimum,
    Part,
    SharedCost,
    Tax,
    WholeFile,
    first_collision,
)
from billing.rates.reading import Instant, before, utc, zone_that_exists
from billing.rates.windows import Window, in_words, share_a_time
from warehouse.errors import LedgerError
from warehouse.written_files import first_error, place_of, read_yaml

ALWAYS_HOURS = 24 * 366 * 400
MATCH_KEYS = ("tenant", "partition_profile", "queue", "priority", "preemptible", "pool", "cluster", "model")
"""What a rule can match, the most telling first."""

POLICIES = ("discounts", "commitments", "components", "idle_policy", "taxes", "invoice_currencies", "exchange_rates")
"""Which keys of a card have policies that hold for months."""


class RateError(LedgerError):
    """A rate card that cannot be used, or not now."""


class Match(Part):
    """What a rule prices: a glob for each; None = anything. An empty partition_profile is the whole device.

    `priority` is a class that the card declares. What nobody holds has no queue, no priority, and is not preemptible.
    """

    model: str | None = None
    pool: str | None = None
    cluster: str | None = None
    partition_profile: str | None = None
    tenant: str | None = None
    queue: str | None = None
    priority: str | None = None
    preemptible: bool | None = None


class PriorityClass(Part):
    """Priorities as the source reported them, at least `from` and less than `to`; None = no limit."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True, populate_by_name=True)

    at_least: Annotated[int | None, Field(alias="from")] = None
    below: Annotated[int | None, Field(alias="to")] = None

    def holds(self, priority: int) -> bool:
        return (self.at_least is None or self.at_least <= priority) and (self.below is None or priority < self.below)

    @model_validator(mode="after")
    def _holds_something(self) -> Self:
        if self.at_least is None and self.below is None:
            raise ValueError("from, to or both; to is exclusive")
        if self.at_least is not None and self.below is not None and self.below <= self.at_least:
            raise ValueError(f"to {self.below} is not above from {self.at_least}; to is exclusive")
        return self


class Issuer(Part):
    """Who sends the invoices. `logo` is a data: URI, so that a document stays one file."""

    name: Annotated[str, Field(min_length=1)]
    address: Annotated[tuple[str, ...], Field(strict=False)] = ()
    contact: str = ""
    number_prefix: Annotated[str, Field(pattern=r"^[A-Za-z0-9]{1,12}$")] = "GL"
    logo: Annotated[str, Field(pattern=r"^(data:image/[a-z+.-]+;base64,[A-Za-z0-9+/=]+)?$")] = ""


class RateRule(Part):
    """One price per GPU-hour, in force during [effective_from, effective_to), None = open; within that only in the
    `windows`, if there are any. timezone: of its dates and windows, such as a cluster's elsewhere; '': the card's.
    currency: of the price, if it is not the card's, which it becomes at the month's exchange rate."""

    sku: Annotated[str, Field(min_length=1)]
    match: Match = Match()
    price_per_gpu_hour: Decimal
    effective_from: Instant = None
    effective_to: Instant = None
    windows: Annotated[tuple[Window, ...], Field(strict=False, min_length=1)] = ()
    timezone: str = ""
    currency: Currency | None = None

    @field_validator("timezone")
    @classmethod
    def _zone_exists(cls, value: str) -> str:
        return zone_that_exists(value)

    @field_validator("price_per_gpu_hour", mode="before")
    @classmethod
    def _price(cls, value: object) -> Decimal:
        if not isinstance(value, str):
            raise ValueError(f'write it in quotes, such as "{value}", so that no digit is lost')
        if not re.fullmatch(r"[0-9]{1,9}(\.[0-9]{1,9})?", value):
            raise ValueError('a price is a decimal such as "2.50", not negative, with at most 9 digits each side')
        return Decimal(value)

    @field_serializer("price_per_gpu_hour")
    def _price_text(self, value: Decimal) -> str:
        return format(value, "f")

    def in_zone(self, zone: ZoneInfo) -> RateRule:
        """The same rule with its times in UTC, naive ones read as local time in its own zone, or in this one."""
        zone = ZoneInfo(self.timezone) if self.timezone else zone
        times = {name: getattr(self, name) for name in ("effective_from", "effective_to")}
        return self.model_copy(update={name: at and utc(at, zone) for name, at in times.items()})

    @property
    def patterns(self) -> tuple[Pattern, ...]:
        """What it matches, in the order of MATCH_KEYS."""
        return tuple(getattr(self.match, key) for key in MATCH_KEYS)

    @property
    def windows_in_words(self) -> str:
        """Like `mon-fri 08:00-20:00`, with the zone if it is not the card's; '': none."""
        return " ".join(filter(None, (in_words(self.windows), self.timezone))) if self.windows else ""

    @property
    def specificity(self) -> tuple[object, ...]:
        """Greater wins: what it matches decides; of two that are alike in this, the one with windows."""
        return (*specificity(self.patterns), bool(self.windows))

    @property
    def besides(self) -> tuple[object, ...]:
        """What decides when it holds besides its dates."""
        return (self.windows, self.timezone) if self.windows else ()

    def overlaps(self, other: RateRule) -> bool:
        """Whether something at some time could match both rules."""
        return (
            before(self.effective_from, other.effective_to)
            and before(other.effective_from, self.effective_to)
            and can_both_fit(self.patterns, other.patterns)
            and (
                not self.windows
                or not other.windows
                or self.timezone != other.timezone
                or share_a_time(self.windows, other.windows)
            )
        )


class RateCard(WholeFile):
    """A whole card: prices, and the policies of `billing.rates.policies`.

    example: where the prices come from, if they are not the site's own: drafts show it, and cannot be issued.
    """

    example: str = ""
    currency: Currency
    timezone: str = "UTC"
    priority_classes: dict[Annotated[str, Field(min_length=1)], PriorityClass] = Field(default={})
    rates: Annotated[tuple[RateRule, ...], Field(strict=False, min_length=1)]
    issuer: Issuer = Issuer(name="GPU platform")
    minimum_seconds: (
        Annotated[int, Field(ge=0, le=86_400)] | Annotated[tuple[Minimum, ...], Field(strict=False, min_length=1)]
    ) = 60
    grace_days: Annotated[int, Field(ge=0, le=90)] = 0
    discounts: Annotated[tuple[Discount, ...], Field(strict=False)] = ()
    commitments: Annotated[tuple[Commitment, ...], Field(strict=False)] = ()
    components: Annotated[tuple[Component, ...], Field(strict=False)] = ()
    idle_policy: Literal["platform"] | Annotated[tuple[SharedCost, ...], Field(strict=False, min_length=1)] = "platform"
    taxes: Annotated[tuple[Tax, ...], Field(strict=False)] = ()
    invoice_currencies: Annotated[tuple[InvoiceCurrency, ...], Field(strict=False)] = ()
    exchange_rates: Annotated[tuple[ExchangeRate, ...], Field(strict=False)] = ()

    @property
    def zone(self) -> ZoneInfo:
        """The billing time zone."""
        return ZoneInfo(self.timezone)

    @field_validator("timezone")
    @classmethod
    def _zone_exists(cls, value: str) -> str:
        return zone_that_exists(value)

    @field_validator("rates")
    @classmethod
    def _rules_in_zone_without_ties(cls, rules: tuple[RateRule, ...], info: ValidationInfo) -> tuple[RateRule, ...]:
        if "timezone" not in info.data:  # already refused
            return rules
        dated = tuple(rule.in_zone(ZoneInfo(info.data["timezone"])) for rule in rules)
        for number, rule in enumerate(dated):
            if not before(rule.effective_from, rule.effective_to):
                raise ValueError(f"rates[{number}] ({rule.sku}) ends before it starts; effective_to is exclusive")
        _refuse_unknown_classes(dated, info.data.get("priority_classes", {}))
        _refuse_ties(dated, ZoneInfo(info.data["timezone"]))
        return dated

    @field_validator("priority_classes")
    @classmethod
    def _a_priority_has_one_class(cls, classes: dict[str, PriorityClass]) -> dict[str, PriorityClass]:
        for number, (name, one) in enumerate(classes.items()):
            for rival, other in list(classes.items())[:number]:
                lowest = max((c.at_least for c in (one, other) if c.at_least is not None), default=None)
                highest = min((c.below for c in (one, other) if c.below is not None), default=None)
                if lowest is None or highest is None or lowest < highest:
                    raise ValueError(f"{rival} and {name} share priorities; end one where the other starts")
        return classes

    @model_validator(mode="after")
    def _policies_do_not_collide(self) -> Self:
        for kind in POLICIES:
            policies = getattr(self, kind)
            collision = None if isinstance(policies, str) else first_collision(kind, policies)
            if collision:
                raise ValueError(collision)
        for number, rate in enumerate(self.exchange_rates):
            if rate.currency == self.currency:
                raise ValueError(f"exchange_rates[{number}] is from {rate.currency} to itself; leave it out")
        for number, rule in enumerate(self.rates):
            if rule.currency == self.currency:
                raise ValueError(f"rates[{number}] ({rule.sku}) is in {rule.currency}, as the card; leave it out")
            if any(price >= 10**9 for price in self.prices_of(rule).values()):
                raise ValueError(f"rates[{number}] ({rule.sku}) comes to more than nine digits of {self.currency}")
            if not self.prices_of(rule):
                raise ValueError(
                    f"rates[{number}] ({rule.sku}) is in {rule.currency}, of which exchange_rates has no month"
                )
        return self

    def prices_of(self, rule: RateRule) -> dict[str | None, Decimal]:
        """What a rule costs in the card's currency, to nine digits: by the month of each exchange rate of its own
        currency, or without one always (None)."""
        if rule.currency is None:
            return {None: rule.price_per_gpu_hour}
        return {
            one.month: (rule.price_per_gpu_hour / one.rate).quantize(Decimal("1e-9"))
            for one in self.exchange_rates
            if one.currency == rule.currency
        }

    def minimum_in(self, month: str) -> int:
        """The minimum in force in a month (like 2026-10), in seconds; 0: none."""
        if isinstance(self.minimum_seconds, int):
            return self.minimum_seconds
        return next((one.seconds for one in self.minimum_seconds if one.in_force(month)), 0)

    @property
    def longest_minimum_seconds(self) -> int:
        if isinstance(self.minimum_seconds, int):
            return self.minimum_seconds
        return max((one.seconds for one in self.minimum_seconds), default=0)

    @property
    def reach_hours(self) -> int:
        """How many hours before a month it is computed from too: sessions that began earlier."""
        if any(discount.by_session for discount in self.discounts):
            return ALWAYS_HOURS
        return -(-self.longest_minimum_seconds // 3600)

    @field_validator("minimum_seconds")
    @classmethod
    def _a_month_has_one_minimum(cls, value: int | tuple[Minimum, ...]) -> int | tuple[Minimum, ...]:
        for number, one in enumerate(() if isinstance(value, int) else value):
            for other in () if isinstance(value, int) else value[:number]:
                if one.shares_a_month(other):
                    raise ValueError(f"{other.seconds} and {one.seconds} share a month; end one where the other starts")
        return value

    def priority_class(self, priority: int | None) -> str:
        """The class of a priority as the source reported it; '' where there is none, or none was reported."""
        if priority is None:
            return ""
        return next((name for name, one in self.priority_classes.items() if one.holds(priority)), "")

    @property
    def priority_bounds(self) -> list[int]:
        """The priorities at which a class starts or ends, in order."""
        bounds = {at for one in self.priority_classes.values() for at in (one.at_least, one.below) if at is not None}
        return sorted(bounds)

    def asks_for(self, key: str) -> bool:
        """Whether some price depends on this key of `match`."""
        return any(getattr(rule.match, key) is not None for rule in self.rates)


def load_rate_card(path: Path | str) -> RateCard:
    """Reads a card from YAML. Errors: RateError naming the key, what was found there and what fits."""
    return parse_rate_card(
        read_yaml(path, "a rate card", "It starts with the keys currency, timezone and rates", RateError), str(path)
    )


def parse_rate_card(content: dict[str, Any], where: str = "rate card") -> RateCard:
    """A card from what the YAML holds. Errors: RateError with the first thing that does not fit."""
    try:
        card = RateCard.model_validate(content)
    except ValidationError as error:
        raise first_error(where, error, RateCard, RateError, "See docs/rates.md", content=content) from error
    _refuse_unknown_skus(card, where, content)
    return card


def _refuse_unknown_skus(card: RateCard, where: str, content: object) -> None:
    """A policy about an SKU that no rate has would never apply, and a quota would be paid for nothing. (Cards that were
    applied once stay readable.)"""
    known = dict.fromkeys(sorted({rule.sku for rule in card.rates}))
    wanted: list[tuple[Sequence[int | str], str | None]] = [
        (("commitments", number, "sku"), one.sku) for number, one in enumerate(card.commitments)
    ]
    for kind in ("discounts", "components"):
        wanted += [((kind, number, "match", "sku"), one.match.sku) for number, one in enumerate(getattr(card, kind))]
    for steps, pattern in wanted:
        if pattern is not None and pattern not in known and not any(fnmatchcase(sku, pattern) for sku in known):
            raise RateError(
                place_of(where, steps, content),
                f"found {pattern!r}; no rate has such an SKU",
                f"There are {', '.join(known)}",
            )


def _refuse_unknown_classes(rules: Sequence[RateRule], classes: Mapping[str, PriorityClass]) -> None:
    for number, rule in enumerate(rules):
        wanted = rule.match.priority
        if wanted and not any(fits(wanted, name) for name in classes):
            declared = ", ".join(classes) or "none"
            raise ValueError(
                f"rates[{number}] ({rule.sku}) is for priority {wanted!r}, which is not a class; priority_classes "
                f"declares {declared}"
            )


def _refuse_ties(rules: Sequence[RateRule], zone: ZoneInfo) -> None:
    if tie := first_tie(MATCH_KEYS, rules, zone):
        earlier, number, why = tie
        raise ValueError(
            f"rates[{earlier}] ({rules[earlier].sku}) and rates[{number}] ({rules[number].sku}) are equally specific "
            f"and could price the same GPU at the same time{why}; end one where the other starts, or add a key to match"
        )
