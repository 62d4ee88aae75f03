"""The rate card: dated prices by device model, pool, partition profile and tenant, as people write it in YAML.

    currency: EUR
    timezone: Europe/Berlin
    rates:
      - {sku: h100, match: {model: "NVIDIA H100*"}, price_per_gpu_hour: "2.50", effective_from: 2026-10-01}

Patterns are globs, case-sensitive; a key that is absent matches anything. `effective_to` is exclusive, absent = open.
A date is that day's first instant, and a time without an offset is local time, in the card's own zone.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime, time
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any, Literal
from zoneinfo import ZoneInfo

import yaml
from pydantic import BaseModel, Field, ValidationError, ValidationInfo, field_serializer, field_validator

from billing.rates.globs import can_overlap, is_glob
from billing.rates.policies import (
    Commitment,
    Component,
    Discount,
    ExchangeRate,
    InvoiceCurrency,
    Part,
    SharedCost,
    Tax,
    Tier,
    Usage,
)
from warehouse.errors import LedgerError

MATCH_KEYS = ("tenant", "partition_profile", "pool", "model")
"""What a rule can match, the most telling first."""


class RateError(LedgerError):
    """A rate card that cannot be used, or not now."""


class Match(Part):
    """What a rule prices: a glob for each; None = anything. An empty partition_profile is the whole device."""

    model: str | None = None
    pool: str | None = None
    partition_profile: str | None = None
    tenant: str | None = None


class Issuer(Part):
    """Who sends the invoices. `logo` is a data: URI, so that a document stays one file."""

    name: Annotated[str, Field(min_length=1)]
    address: Annotated[tuple[str, ...], Field(strict=False)] = ()
    contact: str = ""
    number_prefix: Annotated[str, Field(pattern=r"^[A-Za-z0-9]{1,12}$")] = "GL"
    logo: Annotated[str, Field(pattern=r"^(data:image/[a-z+.-]+;base64,[A-Za-z0-9+/=]+)?$")] = ""


class RateRule(Part):
    """One price per GPU-hour, in force during [effective_from, effective_to); None = open."""

    sku: Annotated[str, Field(min_length=1)]
    match: Match = Match()
    price_per_gpu_hour: Decimal
    effective_from: datetime | None = None
    effective_to: datetime | None = None

    @field_validator("price_per_gpu_hour", mode="before")
    @classmethod
    def _price(cls, value: object) -> Decimal:
        if not isinstance(value, str):
            raise ValueError(f'write it in quotes, such as "{value}", so that no digit of it is lost')
        if not re.fullmatch(r"[0-9]{1,9}(\.[0-9]{1,9})?", value):
            raise ValueError('a price is a decimal such as "2.50", not negative, with at most 9 digits each side')
        return Decimal(value)

    @field_validator("effective_from", "effective_to", mode="before")
    @classmethod
    def _instant(cls, value: object) -> datetime | None:
        if isinstance(value, str):
            try:
                value = datetime.fromisoformat(value)
            except ValueError:
                raise ValueError("a date or time such as 2026-10-01 or 2026-10-01T00:00:00Z fits") from None
        if isinstance(value, date) and not isinstance(value, datetime):
            value = datetime.combine(value, time())
        if not isinstance(value, datetime | None):
            raise ValueError("a date or time such as 2026-10-01 or 2026-10-01T00:00:00Z fits")
        if value is not None and value.microsecond % 1000:
            raise ValueError("the books count whole milliseconds")
        return value

    @field_serializer("price_per_gpu_hour")
    def _price_text(self, value: Decimal) -> str:
        return format(value, "f")

    def in_zone(self, zone: ZoneInfo) -> RateRule:
        """The same rule with its times in UTC, naive ones read as local time in the zone."""
        times = {name: getattr(self, name) for name in ("effective_from", "effective_to")}
        return self.model_copy(update={name: at and _utc(at, zone) for name, at in times.items()})

    @property
    def specificity(self) -> tuple[object, ...]:
        """Greater wins: more keys, more of them exact, the more telling keys, the more telling ones exact."""
        given = [getattr(self.match, key) is not None for key in MATCH_KEYS]
        exact = [has and not is_glob(getattr(self.match, key)) for has, key in zip(given, MATCH_KEYS, strict=True)]
        return (sum(given), sum(exact), tuple(given), tuple(exact))

    def overlaps(self, other: RateRule) -> bool:
        """Whether something at some time could match both rules."""
        return (
            _before(self.effective_from, other.effective_to)
            and _before(other.effective_from, self.effective_to)
            and all(
                ours is None or theirs is None or can_overlap(ours, theirs)
                for ours, theirs in ((getattr(self.match, key), getattr(other.match, key)) for key in MATCH_KEYS)
            )
        )


class RateCard(Part):
    """A whole card: prices, and the policies of `billing.rates.policies`."""

    currency: str
    timezone: str = "UTC"
    rates: Annotated[tuple[RateRule, ...], Field(strict=False)]
    issuer: Issuer = Issuer(name="GPU platform")
    minimum_seconds: Annotated[int, Field(ge=0, le=86_400)] = 60
    grace_days: Annotated[int, Field(ge=0, le=90)] = 0
    discounts: Annotated[tuple[Discount, ...], Field(strict=False)] = ()
    commitments: Annotated[tuple[Commitment, ...], Field(strict=False)] = ()
    components: Annotated[tuple[Component, ...], Field(strict=False)] = ()
    idle_policy: Literal["platform"] | Annotated[tuple[SharedCost, ...], Field(strict=False)] = "platform"
    taxes: Annotated[tuple[Tax, ...], Field(strict=False)] = ()
    invoice_currencies: Annotated[tuple[InvoiceCurrency, ...], Field(strict=False)] = ()
    exchange_rates: Annotated[tuple[ExchangeRate, ...], Field(strict=False)] = ()

    @property
    def zone(self) -> ZoneInfo:
        """The billing time zone."""
        return ZoneInfo(self.timezone)

    @field_validator("currency")
    @classmethod
    def _currency_is_a_code(cls, value: str) -> str:
        if not re.fullmatch("[A-Z]{3}", value):
            raise ValueError("an ISO 4217 code such as EUR fits")
        return value

    @field_validator("timezone")
    @classmethod
    def _zone_exists(cls, value: str) -> str:
        try:
            ZoneInfo(value)
        except (OSError, ValueError, KeyError):
            raise ValueError("an IANA time zone such as UTC or Europe/Berlin fits") from None
        return value

    @field_validator("rates")
    @classmethod
    def _rules_in_zone_without_ties(cls, rules: tuple[RateRule, ...], info: ValidationInfo) -> tuple[RateRule, ...]:
        if "timezone" not in info.data:  # already refused
            return rules
        dated = tuple(rule.in_zone(ZoneInfo(info.data["timezone"])) for rule in rules)
        for number, rule in enumerate(dated):
            if not _before(rule.effective_from, rule.effective_to):
                raise ValueError(f"rates[{number}] ({rule.sku}) ends before it starts; effective_to is exclusive")
        _refuse_ties(dated)
        return dated

    def canonical(self) -> str:
        """The card as JSON that depends on its content alone, not on how the YAML was laid out."""
        return json.dumps(
            self.model_dump(mode="json", exclude_defaults=True),
            sort_keys=True,
            ensure_ascii=False,
            separators=(",", ":"),
        )

    @property
    def version(self) -> str:
        """A hash of the content."""
        return hashlib.sha256(self.canonical().encode()).hexdigest()[:12]


def load_rate_card(path: Path | str) -> RateCard:
    """Reads a card from YAML. Errors: RateError naming the key, what was found there and what fits."""
    where = str(path)
    try:
        content = yaml.safe_load(Path(path).read_text(encoding="utf-8"))
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise RateError(where, "not YAML: " + " ".join(str(error).split()), "Check indentation and quotes") from error
    except IsADirectoryError as error:
        raise RateError(where, "a folder, not a rate card") from error
    if not isinstance(content, dict):
        raise RateError(where, "not a rate card", "It starts with the keys currency, timezone and rates")
    return parse_rate_card(content, where)


def parse_rate_card(content: dict[str, Any], where: str = "rate card") -> RateCard:
    """A card from what the YAML holds. Errors: RateError with the first thing that does not fit."""
    try:
        return RateCard.model_validate(content)
    except ValidationError as error:
        raise _rate_error(where, error) from error


def _rate_error(where: str, error: ValidationError) -> RateError:
    first = error.errors()[0]
    key = ""
    for step in first["loc"]:
        key += f"[{step}]" if isinstance(step, int) else f".{step}" if key else str(step)
    found = "" if isinstance(first["input"], dict | list | tuple) else f"found {first['input']!r}; "
    say = _SAY.get(first["type"])
    what = say(first) if say else found + first["msg"].removeprefix("Value error, ")
    return RateError(f"{where}: {key}", what)


_SAY: dict[str, Callable[[Any], str]] = {
    "tuple_type": lambda error: f"found {error['input']!r}; a list fits",
    "model_type": lambda error: f"found {error['input']!r}; keys fit",
    "string_type": lambda error: f"found {error['input']!r}; text fits, in quotes if it looks like something else",
    "missing": lambda _: "missing",
    "extra_forbidden": lambda error: (
        f"unknown key, or one that is not implemented yet; known here: {', '.join(_known_keys(error['loc']))}"
    ),
}


def _known_keys(location: Sequence[int | str]) -> Sequence[str]:
    parents = [step for step in location[:-1] if isinstance(step, str)]
    return list(
        _PARTS.get(parents[0] if parents else "", {}).get(parents[-1] if parents else "", RateCard).model_fields
    )


_PARTS: dict[str, dict[str, type[BaseModel]]] = {
    "rates": {"rates": RateRule, "match": Match},
    "issuer": {"issuer": Issuer},
    "discounts": {"discounts": Discount, "match": Usage, "tiers": Tier},
    "commitments": {"commitments": Commitment},
    "components": {"components": Component, "match": Usage},
    "idle_policy": {"idle_policy": SharedCost, "tuple[SharedCost, ...]": SharedCost},
    "taxes": {"taxes": Tax},
    "invoice_currencies": {"invoice_currencies": InvoiceCurrency},
    "exchange_rates": {"exchange_rates": ExchangeRate},
}
"""The parts of a card by the keys that lead to them."""


def _refuse_ties(rules: Sequence[RateRule]) -> None:
    by_specificity: dict[tuple[object, ...], list[tuple[int, RateRule]]] = {}
    for number, rule in enumerate(rules):
        rivals = by_specificity.setdefault(rule.specificity, [])
        for earlier, rival in rivals:
            if rule.overlaps(rival):
                raise ValueError(
                    f"rates[{earlier}] ({rival.sku}) and rates[{number}] ({rule.sku}) are equally specific and could "
                    "price the same GPU at the same time; end one where the other starts, or add a key to match"
                )
        rivals.append((number, rule))


def _before(start: datetime | None, end: datetime | None) -> bool:
    return start is None or end is None or start < end


def _utc(at: datetime, zone: ZoneInfo) -> datetime:
    return (at if at.tzinfo else at.replace(tzinfo=zone)).astimezone(UTC)
