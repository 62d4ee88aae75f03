"""The rate card's policies besides prices: minimum, discounts, commitments, components, shared cost, taxes, currencies.

A policy holds for whole months of the billing zone, [effective_from, effective_to), so that a month is computed by one
set of them. Amounts, percentages and quantities are decimal strings.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Sequence
from decimal import Decimal
from fnmatch import fnmatchcase
from itertools import combinations
from typing import Annotated, Any, Literal, Self, TypeVar

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, PlainSerializer, model_validator

from billing.money import known_currency
from billing.rates.globs import is_glob
from billing.rates.matching import Pattern, can_both_fit


def _decimal(value: object) -> Decimal:
    if not isinstance(value, str):
        raise ValueError(f'write it in quotes, such as "{value}", so that no digit is lost')
    if not re.fullmatch(r"[0-9]{1,9}(\.[0-9]{1,9})?", value):
        raise ValueError('a decimal such as "2.50", not negative, with at most 9 digits each side')
    return Decimal(value)


DecimalText = Annotated[
    Decimal, BeforeValidator(_decimal), PlainSerializer(lambda value: format(value, "f"), return_type=str)
]
"""A decimal of at most nine digits each side of the point, written in quotes."""
Percent = Annotated[DecimalText, Field(le=100)]


def _month(value: object) -> object:
    if isinstance(value, str) and not re.fullmatch(MONTH, value):
        raise ValueError("expected a month such as 2026-10")
    return value


MONTH = r"^[0-9]{4}-(0[1-9]|1[0-2])$"
MonthText = Annotated[str, BeforeValidator(_month), Field(pattern=MONTH)]
"""A month of the billing zone, such as 2026-10."""
Name = Annotated[str, Field(min_length=1)]
Currency = Annotated[str, AfterValidator(known_currency)]
Positive = Annotated[DecimalText, Field(gt=0)]


def _one_tenant(value: str) -> str:
    if is_glob(value):
        raise ValueError("expected the name of one tenant, not a pattern")
    return value


TenantName = Annotated[Name, AfterValidator(_one_tenant)]
"""Of one tenant: what is agreed with it."""


class Part(BaseModel):
    """A part of a rate card: unknown keys are refused, nothing is converted silently."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True, allow_inf_nan=False)


class WholeFile(Part):
    """A file that is applied whole: its version depends on its content alone, not on how the YAML was laid out."""

    def canonical(self) -> str:
        """The content as JSON, keys in order, without what is left at its default."""
        content = self.model_dump(mode="json", exclude_defaults=True, by_alias=True)
        return json.dumps(content, sort_keys=True, ensure_ascii=False, separators=(",", ":"))

    @property
    def version(self) -> str:
        """A hash of the content."""
        return hashlib.sha256(self.canonical().encode()).hexdigest()[:12]


class Policy(Part):
    """In force during the months [effective_from, effective_to); None = open."""

    effective_from: MonthText | None = None
    effective_to: MonthText | None = None

    def in_force(self, month: str) -> bool:
        return (self.effective_from or month) <= month and (self.effective_to is None or month < self.effective_to)

    def shares_a_month(self, other: Policy) -> bool:
        """Whether both are in force in some month."""
        return (self.effective_to is None or (other.effective_from or "") < self.effective_to) and (
            other.effective_to is None or (self.effective_from or "") < other.effective_to
        )

    @property
    def subject(self) -> object:
        """What it is about; policies of one kind about different subjects do not meet."""
        raise NotImplementedError

    def repeats(self, other: Any) -> bool:
        """Whether both say something about the same thing, so that one card cannot mean both of a month."""
        return True

    @model_validator(mode="after")
    def _starts_before_it_ends(self) -> Self:
        if self.effective_from and self.effective_to and self.effective_to <= self.effective_from:
            raise ValueError(f"effective_to {self.effective_to} is not after effective_from {self.effective_from}")
        return self


class Usage(Part):
    """What usage a policy is about: a glob for each; None = any."""

    tenant: str | None = None
    project: str | None = None
    queue: str | None = None
    sku: str | None = None
    preemptible: bool | None = None

    @property
    def patterns(self) -> tuple[Pattern, ...]:
        return (self.tenant, self.project, self.queue, self.sku, self.preemptible)

    def matches(self, row: Any) -> bool:
        """Whether it fits a row that gives these names as keys."""
        return (self.preemptible is None or bool(row["preemptible"]) == self.preemptible) and all(
            pattern is None or fnmatchcase(row[key], pattern)
            for key, pattern in (
                ("tenant", self.tenant),
                ("project", self.project),
                ("queue", self.queue),
                ("sku", self.sku),
            )
        )


class Tier(Part):
    """From so many hours on, so many percent: `from` counts who reaches it exactly, `above` does not."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True, populate_by_name=True)

    at_least: Annotated[DecimalText | None, Field(alias="from")] = None
    above: DecimalText | None = None
    percent: Percent

    @property
    def hours(self) -> Decimal:
        """Where it starts."""
        return self.above if self.at_least is None else self.at_least  # type: ignore[return-value]  # one of them is given

    @property
    def word(self) -> str:
        return "above" if self.at_least is None else "from"

    def first(self, hour: int) -> int:
        """The first quantity that reaches it, where an hour is so much."""
        return int(self.hours * hour) + (self.at_least is None)

    @model_validator(mode="after")
    def _one_bound(self) -> Self:
        if (self.at_least is None) == (self.above is None):
            raise ValueError("either from (who reaches it counts) or above (only what is beyond it), and not both")
        return self


class Discount(Policy):
    """Percent off the cost of usage: at once (`percent`), or by tiers of what was used.

    per month:    tiers of the GPU-hours of a tenant in the month.
    per session:  tiers of each allocation's GPU-hours (`measure: gpu_hours`) or of its length (`measure: hours`).
    graduated:    the mean of the hours' own tiers' percentages, off all; whole: that of the tier that is reached.
    A tier is reached `from` so many hours on; with `above` in its place, beyond them only.
    Discounts follow each other in the card's order, each on what the ones before left.
    """

    name: Name
    match: Usage = Usage()
    percent: Percent | None = None
    per: Literal["month", "session"] = "month"
    measure: Literal["gpu_hours", "hours"] = "gpu_hours"
    mode: Literal["graduated", "whole"] = "graduated"
    tiers: Annotated[tuple[Tier, ...], Field(strict=False, min_length=1)] = ()

    @property
    def by_session(self) -> bool:
        """Whether its tiers are each session's own."""
        return self.per == "session" and bool(self.tiers)

    @model_validator(mode="after")
    def _one_way(self) -> Self:
        if (self.percent is None) == (not self.tiers):
            raise ValueError("give either percent or tiers, not both")
        if [tier.hours for tier in self.tiers] != sorted({tier.hours for tier in self.tiers}):
            raise ValueError("tiers must rise, each from a different number of hours")
        if self.measure == "hours" and self.per == "month":
            raise ValueError("measure: hours is a session's length; per month count gpu_hours")
        return self

    @property
    def subject(self) -> object:
        return self.name

    def repeats(self, other: Any) -> bool:
        return can_both_fit(self.match.patterns, other.match.patterns)


class Minimum(Policy):
    """So many seconds a session is charged for at least."""

    seconds: Annotated[int, Field(ge=0, le=86_400)]


class Commitment(Policy):
    """A quota of GPUs that a tenant pays for in every hour, used or not; what it holds beyond costs the usual price.

    Several of one tenant follow each other in the card's order: each covers what those before it left.
    """

    name: Name
    tenant: TenantName
    sku: Name = "*"
    gpus: Positive
    price_per_gpu_hour: DecimalText

    @property
    def subject(self) -> object:
        return self.name, self.tenant


class Component(Policy):
    """A price for measured energy (kWh times PUE) or held memory (GiB-hours) besides that of the GPU-hour."""

    sku: Name
    kind: Literal["energy", "memory"]
    price: DecimalText
    pue: Annotated[DecimalText, Field(ge=1)] = Decimal(1)
    match: Usage = Usage()

    @model_validator(mode="after")
    def _pue_is_of_energy(self) -> Self:
        if self.kind != "energy" and self.pue != 1:
            raise ValueError("pue is of energy")
        return self

    @property
    def subject(self) -> object:
        return self.sku

    def repeats(self, other: Any) -> bool:
        return can_both_fit(self.match.patterns, other.match.patterns)


class SharedCost(Policy):
    """Who bears the cost of a pool's unallocated time: the first rule whose glob matches; without one, the platform."""

    pool: str = "*"
    share: Literal["platform", "allocated_cost", "evenly", "guaranteed"]

    @property
    def subject(self) -> object:
        return "pools"

    def repeats(self, other: Any) -> bool:
        return bool(self.pool == other.pool)


class Tax(Policy):
    """Percent on a tenant's net amount; of one name the first whose glob fits."""

    name: Name
    percent: Percent
    tenant: str = "*"

    @property
    def subject(self) -> object:
        return self.name

    def repeats(self, other: Any) -> bool:
        return bool(self.tenant == other.tenant)


class InvoiceCurrency(Policy):
    """A tenant is invoiced in another currency than the card's, at the month's exchange rate."""

    tenant: TenantName
    currency: Currency

    @property
    def subject(self) -> object:
        return self.tenant


class ExchangeRate(Part):
    """Units of `currency` for one of the card's, frozen for the month."""

    month: MonthText
    currency: Currency
    rate: Positive

    @property
    def subject(self) -> object:
        return self.month, self.currency


def first_collision(kind: str, policies: Sequence[Any]) -> str | None:
    """Of policies of one kind, which two say something about the same thing in the same months, or which one never has
    its turn; in words. None: each counts, and counts once."""
    by_subject: dict[object, list[tuple[int, Any]]] = {}
    for number, policy in enumerate(policies):
        by_subject.setdefault(policy.subject, []).append((number, policy))
    pairs = (pair for alike in by_subject.values() for pair in combinations(alike, 2))
    found = (_collision(kind, *pair) for pair in pairs)
    return next((collision for collision in found if collision), None)


def _collision(kind: str, earlier: tuple[int, Any], later: tuple[int, Any]) -> str | None:
    (first, one), (second, other) = earlier, later
    both = f"{kind}[{first}] and {kind}[{second}]"
    if isinstance(one, ExchangeRate):
        return f"{both} are both rates of {one.currency} for {one.month}; leave one out"
    if not one.shares_a_month(other):
        return None
    if one.repeats(other):
        return f"{both} are the same thing{_called(one)} in the same months; end one where the other starts"
    if _goes_before(one, other):
        return f"{kind}[{second}] can never apply: {kind}[{first}] matches everything it matches; put it first"
    return None


def _goes_before(one: Any, other: Any) -> bool:
    """Where the first that fits counts: whether there is no month left for the other."""
    fits_all = (isinstance(one, Tax) and one.tenant == "*") or (isinstance(one, SharedCost) and one.pool == "*")
    starts = one.effective_from is None or one.effective_from <= (other.effective_from or "")
    ends = one.effective_to is None or (other.effective_to is not None and other.effective_to <= one.effective_to)
    return fits_all and starts and ends


def _called(policy: Any) -> str:
    name = getattr(policy, "name", None) or getattr(policy, "sku", None) or getattr(policy, "tenant", None)
    return f" ({name})" if name else ""


P = TypeVar("P", bound=Policy)


def in_force(policies: Sequence[P], month: str) -> list[P]:
    """Those that hold in the month, in the card's order."""
    return [policy for policy in policies if policy.in_force(month)]
