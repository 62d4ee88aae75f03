"""Applies the rate card's policies to a tenant's usage: minimum, commitments, discounts. Pure, on integers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from fractions import Fraction
from typing import Any

from billing.exact import NANO, Scale, price_nano, rounded
from billing.invoicing.usage import NO_SESSION, Session, Usage
from billing.lines import Line
from billing.rates.policies import Commitment, Discount
from billing.rates.policies import Usage as Match

HOUR_MS = 3_600_000
HUNDRED = 100 * NANO
"""The whole, where percentages are counted in billionths of one."""


@dataclass(frozen=True)
class SessionLength:
    """How long an allocation had lasted (ms) and what it had held (on the scale) when the month began and ended."""

    before_ms: int
    after_ms: int
    before: int
    after: int


MinimumKey = tuple[Any, ...]
"""What makes short sessions one line."""


def minimum_key(row: Mapping[str, Any]) -> MinimumKey:
    return tuple(row[name] for name in ("tenant", "project", "sku", "list_unit_price", "contracted_unit_price"))


def minimum_lines(
    rows: Iterable[Mapping[str, Any]], minimum_seconds: int, scale: Scale, covered: Mapping[MinimumKey, int]
) -> list[Line]:
    """A line for each row of minimum.sql that has a price; sessions of unlike devices at one price are one line.

    covered: how much of each a quota pays for, in hours in which it would be paid and unused; that is not charged.
    """
    lacking: dict[MinimumKey, tuple[int, int]] = {}
    for row in rows:
        if row["contracted_unit_price"] is not None:
            sessions, quantity = lacking.get(minimum_key(row), (0, 0))
            more = scale.quantity(row["lacking_micro_ms"], row["device_units"])
            lacking[minimum_key(row)] = (sessions + row["sessions"], quantity + more)
    return [
        _priced(
            scale,
            Line(
                tenant,
                "minimum",
                project,
                sku,
                f"{sessions} {'session' if sessions == 1 else 'sessions'} shorter than {minimum_seconds} s, "
                f"charged as {minimum_seconds} s" + (", less what quotas cover" if (tenant, *rest) in covered else ""),
                list_unit_price=rest[-2],
                contracted_unit_price=rest[-1],
                rule=f"minimum_seconds {minimum_seconds}",
            ),
            quantity - covered.get((tenant, *rest), 0),
        )
        for (tenant, *rest), (sessions, quantity) in lacking.items()
        for project, sku in [rest[:2]]
        if quantity > covered.get((tenant, *rest), 0)
    ]


def commitment_lines(
    commitment: Commitment, usages: Sequence[Usage], covered: Iterable[Mapping[str, Any]], hours: Fraction, scale: Scale
) -> list[Line]:
    """The quota's price, used and unused apart, and what it covers of the usage, taken off at the usual price.

    covered: the rows of covered.sql.   hours: how long the quota ran.
    """
    by_key = {usage.key: usage for usage in usages}
    taken: dict[tuple[Any, ...], int] = {}
    for row in covered:
        names = ("project", "queue", "sku", "preemptible", "list_unit_price", "contracted_unit_price")
        session = (row["session_cluster"], row["session"])
        by_key[*(row[name] for name in names), session].cover(row["covered_micro_ms"])
        key = tuple(row[name] for name in ("project", "sku", "list_unit_price", "contracted_unit_price"))
        taken[key] = taken.get(key, 0) + row["covered_micro_ms"]
    bought = int(Fraction(commitment.gpus) * hours * scale.hour)
    used = sum(taken.values())
    quota = Line(
        commitment.tenant,
        "commitment",
        sku=commitment.sku,
        contracted_unit_price=commitment.price_per_gpu_hour,
        rule=commitment.name,
    )
    text = f"{_plain(commitment.gpus)} GPUs for {_plain(rounded(hours, 2))} h"
    lines = [
        _priced(scale, replace(quota, description=f"Quota of {text}, used"), used),
        _priced(scale, replace(quota, description=f"Quota of {text}, unused"), bought - used),
    ]
    for (project, sku, list_price, price), quantity in taken.items():
        line = replace(
            quota,
            project=project,
            sku=sku,
            description=f"Covered by {commitment.name}",
            list_unit_price=list_price,
            contracted_unit_price=price,
        )
        lines.append(_priced(scale, line, -quantity))
    return lines


def discount_lines(
    discounts: Sequence[Discount], usages: Sequence[Usage], sessions: Mapping[Session, SessionLength], scale: Scale
) -> list[Line]:
    """A line for each discount and project, each taken off what the ones before left."""
    lines = []
    for discount in discounts:
        of_all = discount.match == EVERYTHING
        matched = [one for one in usages if one.cost_left > 0 and (of_all or discount.match.matches(vars(one)))]
        base: dict[str, int] = {}
        off: dict[str, int] = {}
        held = sum(usage.left for usage in matched)
        for_all = None if discount.by_session else _percentage(discount, NO_SESSION, held, sessions, scale)
        for usage in matched:
            part, whole = for_all or _percentage(discount, usage.session, held, sessions, scale)
            cut = usage.cost_left * part // whole if whole else 0
            base[usage.project] = base.get(usage.project, 0) + usage.cost_left
            off[usage.project] = off.get(usage.project, 0) + cut
            usage.cost_left -= cut
        how = _in_words(discount, held, scale)
        lines += [
            Line(
                matched[0].tenant,
                "discount",
                project,
                description=f"{discount.name}: {how}, off {rounded(scale.money(base[project]), 2):,}",
                cost=-scale.money(cut),
                rule=discount.name,
            )
            for project, cut in off.items()
            if cut
        ]
    return lines


def long_enough(discounts: Sequence[Discount], scale: Scale) -> tuple[int, int] | None:
    """From what length (ms) or quantity on a session may earn something; None: no discount is by session."""
    by_session = [discount for discount in discounts if discount.by_session]
    if not by_session:
        return None
    longest = 1 << 62
    lengths = [one.tiers[0].first(HOUR_MS) for one in by_session if one.measure == "hours"]
    amounts = [one.tiers[0].first(scale.hour) for one in by_session if one.measure == "gpu_hours"]
    return min(lengths, default=longest), min(amounts, default=longest * NANO)


EVERYTHING = Match()


def _percentage(
    discount: Discount, session: Session, held: int, sessions: Mapping[Session, SessionLength], scale: Scale
) -> tuple[int, int]:
    """What part of the usage's cost is taken off, as a fraction of integers; (0, 0) where nothing was held."""
    if discount.percent is not None:
        return price_nano(discount.percent), HUNDRED
    if discount.per == "month":
        return _earned(discount, 0, held, scale.hour), held * HUNDRED
    length = sessions.get(session)
    if length is None:
        return 0, 0
    if discount.measure == "hours":
        part = _earned(discount, length.before_ms, length.after_ms, HOUR_MS)
        return part, (length.after_ms - length.before_ms) * HUNDRED
    return _earned(discount, length.before, length.after, scale.hour), (length.after - length.before) * HUNDRED


def _earned(discount: Discount, before: int, after: int, hour: int) -> int:
    """Percent (in billionths) times what lies in [before, after): by tier, or all at the tier that `after` reaches."""
    if discount.mode == "whole":
        reached = [price_nano(tier.percent) for tier in discount.tiers if after >= tier.first(hour)]
        return (after - before) * reached[-1] if reached else 0
    steps = [(int(tier.hours * hour), price_nano(tier.percent)) for tier in discount.tiers]
    ends = [start for start, _ in steps[1:]]
    return sum(
        percent * max(0, min(after, after if end is None else end) - max(before, start))
        for (start, percent), end in zip(steps, [*ends, None], strict=True)
    )


def _in_words(discount: Discount, held: int, scale: Scale) -> str:
    if discount.percent is not None:
        return f"{_plain(discount.percent)} %"
    unit = "GPU-hours" if discount.measure == "gpu_hours" else "h"
    tiers = ", ".join(f"{_plain(tier.percent)} % {tier.word} {_plain(tier.hours)}" for tier in discount.tiers)
    each = f"of {scale.hours(held, 2):,} in the month" if discount.per == "month" else "of each session"
    return f"{tiers} {unit} {each} ({discount.mode})"


def _priced(scale: Scale, line: Line, quantity: int) -> Line:
    """The line with a quantity on the scale, and what it costs at its prices."""
    hours = Fraction(quantity, scale.hour)
    prices = (line.list_unit_price, line.contracted_unit_price)
    list_cost, cost = (None if price is None else hours * Fraction(price) for price in prices)
    return replace(line, quantity=hours, unit="GPU-hours", list_cost=list_cost, cost=cost)


def _plain(value: Decimal) -> str:
    return f"{value.normalize():f}"
