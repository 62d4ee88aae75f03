"""Prepaid balances: grants, what issued invoices drew from them, and what is left.

A balance is never stored: it is grants - draws of issued invoices that are not void - what expired unused. Grants are
used up in the order of `billing.accounts.drawing`. Until a month is issued, its draws are estimated from the ledger,
without discounts, taxes and credits.
"""

from __future__ import annotations

import hashlib
import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from enum import StrEnum
from fractions import Fraction
from math import ceil
from zoneinfo import ZoneInfo

from billing import audit
from billing.accounts.costs import Span, Target, cost_of_spans, reached
from billing.accounts.credits import CreditError, card_in_force, following
from billing.accounts.drawing import Grant, accrued, draw, in_order, left_at, pieces
from billing.closed import closed_period
from billing.exact import rounded
from billing.ledger_report import billing_timezone
from billing.money import largest_remainder, minor_digits
from billing.params import tenant_params
from billing.periods import parse_month
from warehouse.chain import Head, append, head
from warehouse.store import Store, read_sql

__all__ = [
    "Balance",
    "BalanceState",
    "Draw",
    "Grant",
    "add_grant",
    "balances",
    "draw_down",
    "grants_of",
    "revoke_grant",
]


@dataclass(frozen=True)
class Draw:
    """What an invoice takes from a grant."""

    grant_id: str
    amount: Decimal


class BalanceState(StrEnum):
    """`low`: at or below the tenant's threshold; `exhausted`: no grant is left that could pay."""

    ok = "ok"
    low = "low"
    exhausted = "exhausted"


@dataclass(frozen=True)
class Balance:
    """A tenant's account in one currency. granted - drawn - expired = balance, always.

    granted:      of grants that have started.   upcoming: of those that have not.
    drawn:        by issued invoices.   expired: what nobody can use any more.
    running:      drawn so far by months that are not issued: an estimate from the ledger, in whole minor units.
    available:    balance - running.
    low_below:    the tenant's threshold; None: none is set.
    exhausted_at: the millisecond at which charges had used up all that could pay, if nothing came since.
    next_expiry:  when the first of what is left expires.
    known_until:  how far the ledger is known; None: nothing is closed.
    """

    tenant: str
    currency: str
    granted: Decimal
    upcoming: Decimal
    drawn: Decimal
    expired: Decimal
    balance: Decimal
    running: Decimal
    available: Decimal
    low_below: Decimal | None
    state: BalanceState
    exhausted_at: datetime | None
    next_expiry: datetime | None
    known_until: datetime | None


def grants_of(store: Store, tenant: str | None = None) -> list[Grant]:
    """The grants of a tenant (None: all), each tenant's in the order of drawing."""
    rows = store.rows(read_sql(__file__, "grants"), tenant_params(tenant))
    return [Grant(**row) for row in rows]


def grant_id(grant: Grant) -> str:
    """A hash of what is granted; who wrote it down is not part of it."""
    content = [
        grant.tenant, format(grant.amount.normalize(), "f"), grant.currency, grant.starts_at.isoformat(),
        grant.expires_at.isoformat(), grant.reason,
    ]  # fmt: skip
    return hashlib.sha256(json.dumps(content, ensure_ascii=False).encode()).hexdigest()[:12]


def add_grant(store: Store, grant: Grant, now: datetime) -> bool:
    """Stores a grant; False if it is there already, as granted or revoked since.

    Errors: CreditError if its amount is not in whole minor units of the rate card's currency, or if its id belongs to
    another grant.
    """
    last = head(store, "grants")
    known = next((one for one in grants_of(store) if one.id == grant.id), None)
    if known is not None:
        if _essence(known) != _essence(grant) or (known.revision == 1 and known.expires_at != grant.expires_at):
            raise CreditError(f"grant {grant.id}", "another grant has this id", "Give it an id of its own")
        return False
    _check(grant, card_in_force(store).currency)
    _insert(store, replace(grant, at=now), last)
    audit.record(store, now, grant.author, "credits.grant", grant.id, grant.reason, _inputs(grant))
    return True


def revoke_grant(store: Store, grant_id: str, author: str, reason: str, now: datetime) -> Grant:
    """Lets a grant expire now: it pays for what accrued until now and no more. Doing it again changes nothing.

    Errors: CreditError if there is no such grant.
    """
    last = head(store, "grants")
    grant = next((one for one in grants_of(store) if one.id == grant_id), None)
    if grant is None:
        raise CreditError(f"grant {grant_id!r}", "no such grant", "See: gpuledger credits list --grants")
    if grant.expires_at <= now:
        return grant
    at = max(now, grant.starts_at)
    revoked = replace(grant, expires_at=at, revision=grant.revision + 1, at=now)
    _insert(store, revoked, last)
    audit.record(store, now, author, "credits.revoke", grant_id, reason, _inputs(revoked))
    return revoked


def draw_down(store: Store, tenant: str, month_end: datetime, due: Decimal, currency: str) -> list[Draw]:
    """What the tenant's grants pay of the amount due for the month that ends at month_end, in the order of drawing."""
    grants = [grant for grant in grants_of(store, tenant) if grant.currency == currency]
    timezone = billing_timezone(store)
    local = (month_end - timedelta(milliseconds=1)).astimezone(ZoneInfo(timezone))
    month = parse_month(local.strftime("%Y-%m"), timezone)
    if due <= 0 or not any(one.starts_at < month.end and one.expires_at > month.start for one in grants):
        return []
    left = {one.id: Fraction(one.amount) for one in grants}
    for given in _Issued.read(store, tenant, timezone).draws.get(tenant, {}).values():
        for grant, amount in given.items():
            if grant in left:
                left[grant] -= Fraction(amount)
    spans = pieces(grants, month.start, month.end)
    costs = cost_of_spans(store, [Span(tenant, *span, currency=currency) for span in spans]) if len(spans) > 1 else []
    shares = accrued(Fraction(due), [cost.known for cost in costs] or [Fraction(1)], spans)
    amounts, _ = largest_remainder(shares, _digits(due, currency))
    total: dict[str, Fraction] = defaultdict(Fraction)
    for (start, _), amount in zip(spans, amounts, strict=True):
        for grant, given_amount in draw(grants, left, start, Fraction(amount)).items():
            total[grant] += given_amount
    digits = _digits(due, currency)
    return [Draw(one.id, rounded(total[one.id], digits)) for one in grants if total[one.id]]


def balances(
    store: Store, now: datetime, tenant: str | None = None, low_below: Mapping[tuple[str, str], Decimal] | None = None
) -> list[Balance]:
    """The accounts of the tenants that were ever granted anything, by tenant.

    An account pays costs and invoices in its own currency alone.

    low_below: thresholds by tenant and currency.
    """
    accounts: dict[tuple[str, str], list[Grant]] = defaultdict(list)
    for grant in grants_of(store, tenant):
        accounts[grant.tenant, grant.currency].append(grant)
    timezone = billing_timezone(store)
    issued = _Issued.read(store, tenant, timezone)
    closed = closed_period(store)
    known_until = min(now, closed.end) if closed else None
    runs = [
        _Run(owner, in_order(grants), issued, known_until, timezone) for (owner, _), grants in sorted(accounts.items())
    ]
    spans = [Span(run.tenant, *piece, currency=run.currency) for run in runs for piece in run.pieces]
    costs = iter(cost_of_spans(store, spans))
    for run in runs:
        run.replay([next(costs).known for _ in run.pieces])
    instants = iter(reached(store, [run.target for run in runs if run.target]))
    low = low_below or {}
    return [
        run.balance(now, next(instants) if run.target else None, low.get((run.tenant, run.currency))) for run in runs
    ]


@dataclass(frozen=True)
class _Issued:
    """By first instant of a month: a tenant's draws by grant, and what the month came to before them in a currency.

    A month that a later invoice has among its corrections gets no invoice of its own: it comes to 0.
    """

    draws: Mapping[str, Mapping[datetime, Mapping[str, Decimal]]]
    totals: Mapping[tuple[str, str], Mapping[datetime, Decimal]]

    @classmethod
    def read(cls, store: Store, tenant: str | None, timezone: str) -> _Issued:
        draws: dict[str, dict[datetime, dict[str, Decimal]]] = defaultdict(lambda: defaultdict(dict))
        totals: dict[tuple[str, str], dict[datetime, Decimal]] = defaultdict(dict)
        for row in store.rows(read_sql(__file__, "issued_draws"), tenant_params(tenant)):
            months = totals[row["tenant"], row["currency"]]
            if row["billed_month"]:
                months.setdefault(parse_month(row["billed_month"], timezone).start, Decimal(0))
            elif row["grant_id"]:
                draws[row["tenant"]][row["period_start"]][row["grant_id"]] = row["amount"]
            else:
                months[row["period_start"]] = row["amount"]
        return cls(draws, totals)


class _Run:
    """A simulation of a tenant's account, month by month, from the first grant to the end of the ledger.

    left: of each grant. What invoices drew, of whatever month, is gone from the beginning, as it is for the next draft.
    """

    def __init__(
        self, tenant: str, grants: list[Grant], issued: _Issued, known_until: datetime | None, timezone: str
    ) -> None:
        self.tenant, self.grants, self.known_until = tenant, grants, known_until
        self.currency = grants[0].currency
        self._draws, self._totals = issued.draws.get(tenant, {}), issued.totals.get((tenant, self.currency), {})
        self._months: list[tuple[datetime, list[tuple[datetime, datetime]]]] = []
        month = min(grant.starts_at for grant in grants).astimezone(ZoneInfo(timezone)).strftime("%Y-%m")
        while known_until is not None and (period := parse_month(month, timezone)).start < known_until:
            end = period.end if period.start in self._totals else min(period.end, known_until)
            self._months.append((period.start, pieces(grants, period.start, end)))
            month = following(month)
        self.left = {grant.id: Fraction(grant.amount) for grant in grants}
        for drawn in self._draws.values():
            for one in drawn.keys() & self.left.keys():
                self.left[one] -= Fraction(drawn[one])
        self.running: dict[str, Fraction] = defaultdict(Fraction)
        self.target: Target | None = None
        self._fallback: datetime | None = None

    @property
    def pieces(self) -> Sequence[tuple[datetime, datetime]]:
        return [piece for _, parts in self._months for piece in parts]

    def replay(self, costs: Sequence[Fraction]) -> None:
        """Draws down in order; `costs` are the ledger's of each piece. Leaves the last exhaustion as `target`."""
        place = 0
        for start, parts in self._months:
            part_costs = costs[place : place + len(parts)]
            place += len(parts)
            issued = start in self._totals
            due = accrued(Fraction(self._totals[start]), part_costs, parts) if issued else part_costs
            before = dict(self.left)
            for grant, given in self._draws.get(start, {}).items() if issued else ():
                if grant in self.left:
                    self.left[grant] += Fraction(given)
            for piece, cost, amount in zip(parts, part_costs, due, strict=True):
                self._pass(piece, cost, amount, open_month=not issued)
            if issued:
                self.left = before

    def _pass(self, piece: tuple[datetime, datetime], cost: Fraction, due: Fraction, open_month: bool) -> None:
        has = left_at(self.grants, self.left, piece[0])
        if has > 0:
            self.target = self._fallback = None
        given = draw(self.grants, self.left, piece[0], due)
        if open_month:
            for grant, amount in given.items():
                self.running[grant] += amount
        if has > 0 and due >= has:
            if cost:
                self.target = Target(Span(self.tenant, *piece, currency=self.currency), has * cost / due)
            else:
                ms = (piece[1] - piece[0]) // timedelta(milliseconds=1)
                self._fallback = piece[0] + ceil(has / due * ms) * timedelta(milliseconds=1)

    def balance(self, now: datetime, exhausted_at: datetime | None, low_below: Decimal | None) -> Balance:
        started = [grant for grant in self.grants if grant.starts_at <= now]
        digits = minor_digits(self.currency)
        running = {one.id: rounded(self.running[one.id], digits) for one in started}
        drawn = {one.id: sum((d.get(one.id, Decimal(0)) for d in self._draws.values()), Decimal(0)) for one in started}
        expired = sum(
            (one.amount - drawn[one.id] - running[one.id] for one in started if one.expires_at <= now), Decimal(0)
        )
        granted = sum((one.amount for one in started), Decimal(0))
        balance = granted - sum(drawn.values(), Decimal(0)) - expired
        available = balance - sum(running.values(), Decimal(0))
        state = BalanceState.exhausted if available <= 0 else BalanceState.ok
        if available > 0 and low_below is not None and available <= low_below:
            state = BalanceState.low
        usable = [one.expires_at for one in started if one.expires_at > now and self.left[one.id] > 0]
        nanos = {"granted": granted, "drawn": sum(drawn.values(), Decimal(0)), "expired": expired, "balance": balance}
        return Balance(
            tenant=self.tenant,
            currency=self.currency,
            upcoming=_money(sum((one.amount for one in self.grants if one.starts_at > now), Decimal(0)), digits),
            running=_money(sum(running.values(), Decimal(0)), digits),
            available=_money(available, digits),
            low_below=low_below,
            state=state,
            exhausted_at=(exhausted_at or self._fallback) if state is BalanceState.exhausted else None,
            next_expiry=min(usable, default=None),
            known_until=self.known_until,
            **{name: _money(amount, digits) for name, amount in nanos.items()},
        )


def _money(amount: Decimal, digits: int) -> Decimal:
    """The amount with the currency's digits; more where it has more."""
    return amount.quantize(Decimal(1).scaleb(-max(digits, -_exponent(amount.normalize()))))


def _digits(due: Decimal, currency: str) -> int:
    return max(minor_digits(currency), -_exponent(due.normalize()))


def _exponent(amount: Decimal) -> int:
    exponent = amount.as_tuple().exponent
    return exponent if isinstance(exponent, int) else 0


def _check(grant: Grant, currency: str) -> None:
    if grant.currency != currency:
        raise CreditError(
            "currency", f"found {grant.currency}, but the rate card is in {currency}", f"State it in {currency}"
        )
    if grant.amount <= 0:
        raise CreditError("amount", f"found {grant.amount}", "A grant must be above zero")
    if -_exponent(grant.amount.normalize()) > minor_digits(currency):
        raise CreditError("amount", f"found {grant.amount}", f"{currency} has {minor_digits(currency)} digits")
    if grant.expires_at <= grant.starts_at:
        raise CreditError("expires", "not after it starts", "The end is not part of it")
    for name in ("tenant", "reason"):
        if not getattr(grant, name).strip():
            raise CreditError(name, "missing", "A grant needs a tenant and a reason")


def _essence(grant: Grant) -> tuple[object, ...]:
    return grant.tenant, grant.amount, grant.currency, grant.starts_at, grant.reason


def _insert(store: Store, grant: Grant, last: Head) -> None:
    import pyarrow as pa

    texts = ("id", "tenant", "currency", "author", "reason")
    columns = {name: pa.array([getattr(grant, name)], pa.string()) for name in texts}
    for name in ("at", "starts_at", "expires_at"):
        columns[name] = pa.array([getattr(grant, name)], pa.timestamp("ms", "UTC"))
    columns["revision"] = pa.array([grant.revision], pa.uint32())
    columns["amount"] = pa.array([format(grant.amount, "f")], pa.string())
    append(store, "grants", pa.table(columns), last)


def _inputs(grant: Grant) -> dict[str, object]:
    return {
        "tenant": grant.tenant,
        "amount": format(grant.amount, "f"),
        "currency": grant.currency,
        "starts_at": grant.starts_at.astimezone(UTC).isoformat(),
        "expires_at": grant.expires_at.astimezone(UTC).isoformat(),
    }
