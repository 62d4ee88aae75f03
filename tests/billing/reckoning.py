"""What tenants owe for a month, by hand: small, slow, and written from docs/billing.md alone.

No line of `billing` and no engine: jobs as people would write them down, fractions, and a loop over every hour. It
knows devices of one pool, of one or more shares, that are there in given spans; prices by model and tenant; and every
policy that books money by the month: minimum, commitments, discounts, shared cost, credits, taxes.

    owed = reckon(books, "2026-03")["chem"]        # Owed(net=..., tax=...)
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from fnmatch import fnmatchcase
from fractions import Fraction
from math import floor
from typing import Any
from zoneinfo import ZoneInfo

Span = tuple[datetime, datetime]
HOUR = timedelta(hours=1)


@dataclass
class Device:
    """There, and free or held, during `spans`; split in `shares` equal parts."""

    name: str
    model: str
    shares: int
    spans: Sequence[Span]


@dataclass
class Job:
    """Holds one share of a device."""

    name: str
    tenant: str
    project: str
    device: str
    start: datetime
    end: datetime


@dataclass
class GivenCredit:
    """In favour of the tenant; a reversal is one of the opposite amount in the same month."""

    tenant: str
    month: str
    amount: Decimal


@dataclass
class Books:
    """All that happened, in whatever order it was told. `card` is a rate card as people write it."""

    card: dict[str, Any]
    devices: Mapping[str, Device]
    jobs: dict[str, Job] = field(default_factory=dict)
    credits: list[GivenCredit] = field(default_factory=list)

    @property
    def zone(self) -> ZoneInfo:
        return ZoneInfo(self.card["timezone"])


@dataclass(frozen=True)
class Owed:
    net: Decimal
    tax: Decimal


@dataclass
class Piece:
    """What a job held within one hour: `held` GPU-hours at a price; what policies leave of them, and of their cost."""

    job: Job
    sku: str
    price: Fraction
    start: datetime
    hour: datetime
    held: Fraction
    left: Fraction
    cost_left: Fraction = Fraction(0)


def reckon(books: Books, month: str) -> dict[str, Owed]:
    """What each tenant that owes something for the month owes."""
    span = month_span(month, books.zone)
    pieces = [piece for job in books.jobs.values() for piece in _pieces(books, job, span)]
    exact: dict[str, Fraction] = defaultdict(Fraction)
    for piece in pieces:
        exact[piece.job.tenant] += piece.held * piece.price
    spare = _commitments(books, month, span, pieces, exact)
    _minimum(books, month, span, spare, exact)
    _discounts(books, month, span, pieces, exact)
    for tenant, amount in _shared(books, month, span, pieces).items():
        exact[tenant] += Fraction(amount)
    for credit in books.credits:
        if credit.month == month:
            exact[credit.tenant] -= Fraction(credit.amount)
    return {tenant: _taxed(books, tenant, month, cents(owed)) for tenant, owed in exact.items()}


def month_span(month: str, zone: ZoneInfo) -> Span:
    """From the first local midnight until the next month's."""
    year, number = int(month[:4]), int(month[5:])
    first = datetime(year, number, 1, tzinfo=zone).astimezone(UTC)
    after = datetime(year + number // 12, number % 12 + 1, 1, tzinfo=zone).astimezone(UTC)
    return first, after


def cents(exact: Fraction) -> Decimal:
    """Rounded once, half to even."""
    return Decimal(round(exact * 100)).scaleb(-2)


# --- usage -----------------------------------------------------------------------------------------------------------


def _pieces(books: Books, job: Job, span: Span) -> Iterator[Piece]:
    device = books.devices[job.device]
    sku, price = _price(books, device.model, job.tenant)
    for start, end in _hours(max(job.start, span[0]), min(job.end, span[1])):
        held = Fraction((end - start) // timedelta(milliseconds=1), 3_600_000 * device.shares)
        hour = start.replace(minute=0, second=0, microsecond=0)
        yield Piece(job, sku, price, start, hour, held, held, held * price)


def _hours(start: datetime, end: datetime) -> Iterator[Span]:
    while start < end:
        after = min(start.replace(minute=0, second=0, microsecond=0) + HOUR, end)
        yield start, after
        start = after


def _price(books: Books, model: str, tenant: str | None) -> tuple[str, Fraction]:
    """A tenant's own price goes before the list price (tenant None)."""
    fits = [rate for rate in books.card["rates"] if rate["match"]["model"] == model]
    own = [rate for rate in fits if rate["match"].get("tenant") == tenant and tenant is not None]
    listed = [rate for rate in fits if "tenant" not in rate["match"]]
    rate = (own or listed)[0]
    return rate["sku"], Fraction(rate["price_per_gpu_hour"])


# --- policies --------------------------------------------------------------------------------------------------------


def _in_force(books: Books, kind: str, month: str) -> list[dict[str, Any]]:
    return [
        policy
        for policy in books.card.get(kind, ())
        if policy.get("effective_from", month) <= month and month < policy.get("effective_to", "9999-99")
    ]


def _commitments(
    books: Books, month: str, span: Span, pieces: Sequence[Piece], exact: dict[str, Fraction]
) -> dict[tuple[str, datetime], list[tuple[str, Fraction]]]:
    """Quotas are paid for every hour; each covers, in the card's order, the dearest first. Answers what is unused: by
    tenant and hour, (sku, GPU-hours) of each."""
    spare: dict[tuple[str, datetime], list[tuple[str, Fraction]]] = defaultdict(list)
    by_hour: dict[tuple[str, datetime], list[Piece]] = defaultdict(list)
    for piece in pieces:
        by_hour[piece.job.tenant, piece.hour].append(piece)
    for quota in _in_force(books, "commitments", month):
        tenant, gpus = quota["tenant"], Fraction(quota["gpus"])
        exact[tenant] += (
            gpus * Fraction((span[1] - span[0]) // timedelta(seconds=1), 3600) * Fraction(quota["price_per_gpu_hour"])
        )
        for start, end in _hours(*span):
            hour = start.replace(minute=0, second=0, microsecond=0)
            unused = gpus * Fraction((end - start) // timedelta(seconds=1), 3600)
            for piece in sorted(by_hour.get((tenant, hour), ()), key=lambda one: (-one.price, one.start)):
                if fnmatchcase(piece.sku, quota.get("sku", "*")):
                    taken = min(piece.left, unused)
                    piece.left -= taken
                    piece.cost_left -= taken * piece.price
                    exact[tenant] -= taken * piece.price
                    unused -= taken
            spare[tenant, hour].append((quota.get("sku", "*"), unused))
    return spare


def _minimum(
    books: Books,
    month: str,
    span: Span,
    spare: dict[tuple[str, datetime], list[tuple[str, Fraction]]],
    exact: dict[str, Fraction],
) -> None:
    """A session that ended in the month is charged as if it had lasted the minimum, at the prices that it held at; not
    what its tenant's quotas leave unused in the hour in which it ended."""
    given = books.card["minimum_seconds"]
    if not isinstance(given, int):
        given = next((one["seconds"] for one in _in_force(books, "minimum_seconds", month)), 0)
    minimum = timedelta(seconds=given)
    lacking = []
    for job in books.jobs.values():
        length = job.end - job.start
        if span[0] < job.end <= span[1] and timedelta(0) < length < minimum:
            sku, price = _price(books, books.devices[job.device].model, job.tenant)
            seconds = Fraction((minimum - length) // timedelta(milliseconds=1), 1000)
            lacking.append((price, sku, job, seconds / 3600 / books.devices[job.device].shares))
    for price, sku, job, hours in sorted(lacking, key=lambda one: -one[0]):
        last = (job.end - timedelta(milliseconds=1)).replace(minute=0, second=0, microsecond=0)
        unused = spare.get((job.tenant, last), [])
        for place, (glob, free) in enumerate(unused):
            if fnmatchcase(sku, glob):
                taken = min(free, hours)
                unused[place] = glob, free - taken
                hours -= taken
        exact[job.tenant] += hours * price


def _discounts(books: Books, month: str, span: Span, pieces: Sequence[Piece], exact: dict[str, Fraction]) -> None:
    for discount in _in_force(books, "discounts", month):
        match = discount.get("match", {})
        by_tenant: dict[str, list[Piece]] = defaultdict(list)
        for piece in pieces:
            about = {"tenant": piece.job.tenant, "project": piece.job.project, "sku": piece.sku}
            if all(fnmatchcase(about[key], glob) for key, glob in match.items()):
                by_tenant[piece.job.tenant].append(piece)
        for tenant, matched in by_tenant.items():
            whole = sum((piece.left for piece in matched), Fraction(0))
            for piece in matched:
                off = piece.cost_left * _percent(books, discount, piece.job, span, whole) / 100
                piece.cost_left -= off
                exact[tenant] -= off


def _percent(books: Books, discount: Mapping[str, Any], job: Job, span: Span, whole: Fraction) -> Fraction:
    if "percent" in discount:
        return Fraction(discount["percent"])
    if discount.get("per", "month") == "month":
        return _earned(discount, Fraction(0), whole)
    shares = 1 if discount.get("measure") == "hours" else books.devices[job.device].shares
    before, after = (
        Fraction(max(timedelta(0), min(at, job.end) - job.start) // timedelta(milliseconds=1), 3_600_000 * shares)
        for at in span
    )
    return _earned(discount, before, after)


def _earned(discount: Mapping[str, Any], before: Fraction, after: Fraction) -> Fraction:
    """Percent on average of what lies between two quantities; `whole`: what the last tier reached says, of all."""
    if after <= before:
        return Fraction(0)
    bounds = [(Fraction(tier.get("from", tier.get("above"))), Fraction(tier["percent"])) for tier in discount["tiers"]]
    if discount.get("mode") == "whole":
        reached = [
            percent
            for (bound, percent), tier in zip(bounds, discount["tiers"], strict=True)
            if after > bound or (after == bound and "from" in tier)
        ]
        return reached[-1] if reached else Fraction(0)
    earned = Fraction(0)
    for number, (bound, percent) in enumerate(bounds):
        end = bounds[number + 1][0] if number + 1 < len(bounds) else after
        earned += percent * max(Fraction(0), min(after, end) - max(before, bound))
    return earned / (after - before)


def _shared(books: Books, month: str, span: Span, pieces: Sequence[Piece]) -> dict[str, Decimal]:
    """The list cost of what nobody held, in whole cents, by weight to who held something (or has a quota)."""
    rules = books.card.get("idle_policy", "platform")
    in_force = [] if rules == "platform" else _in_force(books, "idle_policy", month)
    share = next((rule["share"] for rule in in_force), "platform")
    cost = Fraction(0)
    for device in books.devices.values():
        _, price = _price(books, device.model, None)
        clipped = [(max(start, span[0]), min(end, span[1])) for start, end in device.spans]
        there = sum((end - start) // timedelta(milliseconds=1) for start, end in clipped if end > start)
        held = sum((piece.held for piece in pieces if piece.job.device == device.name), Fraction(0))
        cost += (Fraction(there, 3_600_000) - held) * price
    weights: dict[str, Fraction] = defaultdict(Fraction)
    if share == "guaranteed":
        for quota in _in_force(books, "commitments", month):
            weights[quota["tenant"]] += Fraction(quota["gpus"])
    elif share != "platform":
        for piece in pieces:
            weights[piece.job.tenant] += piece.held * piece.price if share == "allocated_cost" else 0
        if share == "evenly":
            weights = defaultdict(Fraction, dict.fromkeys(weights, Fraction(1)))
    weights.pop("", None)  # who has no name bears nothing
    bearers = sorted(tenant for tenant, weight in weights.items() if weight)
    total, whole = cents(cost), sum(weights.values(), Fraction(0))
    if not bearers:
        return {}
    exact = {tenant: Fraction(total) * 100 * weights[tenant] / whole for tenant in bearers}
    amounts = {tenant: floor(part) for tenant, part in exact.items()}
    missing = int(total * 100) - sum(amounts.values())
    for tenant in sorted(bearers, key=lambda one: (amounts[one] - exact[one], one))[:missing]:
        amounts[tenant] += 1
    return {tenant: Decimal(amount) / 100 for tenant, amount in amounts.items()}


def _taxed(books: Books, tenant: str, month: str, net: Decimal) -> Owed:
    """Of taxes of one name the first that fits."""
    taxes: dict[str, Decimal] = {}
    for tax in _in_force(books, "taxes", month):
        if fnmatchcase(tenant, tax.get("tenant", "*")):
            taxes.setdefault(tax["name"], cents(Fraction(net) * Fraction(tax["percent"]) / 100))
    return Owed(net, sum(taxes.values(), Decimal("0.00")))
