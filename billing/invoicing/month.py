"""Computes what a month costs each tenant, by the current ledger and rate card, and the document that says so.

docs/billing.md has the order of the steps. Costs are exact until all lines exist; then the net total is their sum
rounded half to even, distributed to the lines by largest remainder, and taxes are rounded on that.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from decimal import Decimal
from fnmatch import fnmatchcase
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from billing.accounts.credits import credit_lines
from billing.energy.components import component_lines
from billing.exact import Scale, rounded
from billing.invoicing.adjustments import (
    MinimumKey,
    SessionLength,
    commitment_lines,
    discount_lines,
    long_enough,
    minimum_key,
    minimum_lines,
)
from billing.invoicing.documents import Invoice, text
from billing.invoicing.shared import PoolCost, pool_costs, shared_lines
from billing.invoicing.usage import MEASURES, MonthUsage, Session, month_usage, split_sessions_off
from billing.lines import KINDS, Line
from billing.money import largest_remainder, minor_digits
from billing.params import period_params, tenant_params
from billing.periods import Period, month_name
from billing.rates import AppliedCard, RateCard, current_rate_card
from billing.rates.policies import Commitment, Discount, in_force
from billing.rates.validity import list_price_validity, price_validity
from billing.sums import LedgerSum, one_currency
from warehouse.instants import rfc3339
from warehouse.store import Store, read_sql

if TYPE_CHECKING:
    import pyarrow as pa


Sessions = Mapping[Session, SessionLength]


@dataclass(frozen=True)
class Books:
    """The state of the ledger that drafts are computed from. `last_run`: the last close that closed an hour.

    version: another one as soon as any hour was closed again.
    """

    closed_until: datetime
    last_run: str
    closed_with: str
    current: AppliedCard | None
    version: int

    @property
    def any_closed(self) -> bool:
        return self.closed_until > datetime(1971, 1, 1, tzinfo=UTC)

    @property
    def card(self) -> RateCard | None:
        return self.current.card if self.current else None

    @property
    def timezone(self) -> str:
        return self.card.timezone if self.card else "UTC"


@dataclass(frozen=True)
class Month:
    """A month's lines before they are rounded, by tenant; taxes and corrections are not among them."""

    period: Period
    name: str
    currency: str
    books_run: str
    usage: MonthUsage
    lines: Mapping[str, Sequence[Line]]
    pools: Sequence[PoolCost]


@dataclass(frozen=True)
class Corrections:
    """By tenant lines, and by month GPU-hours that have no price; and the months that were computed again, whether
    anything in them differs or not."""

    lines: Mapping[str, Sequence[Line]]
    unpriced: Mapping[str, Mapping[str, Decimal]]
    months: Sequence[Month]


def books_of(store: Store) -> Books:
    (state,) = store.rows(read_sql(__file__, "state_of_the_books"))
    card = current_rate_card(store)
    return Books(state["closed_until"], state["last_run"], state["rate_card"], card, state["version"])


def month_of(store: Store, period: Period, tenant: str | None, books: Books) -> Month:
    """The lines of a month, of all tenants or of one."""
    name = month_name(period, books.timezone)
    card = books.card
    discounts = in_force(card.discounts, name) if card else []
    what = {**period_params(period), **tenant_params(tenant)}
    rows = store.rows(read_sql(__file__, "usage"), what)
    minimum = card.minimum_in(name) if card else 0
    short = store.rows(read_sql(__file__, "minimum"), {**what, "minimum_ms": 1000 * minimum}) if minimum else []
    scale = Scale.of(row["device_units"] for row in (*rows, *short))
    usage = month_usage(rows, scale)
    lines = list(usage.lines)
    pools: list[PoolCost] = []
    if card is not None:
        commitments = in_force(card.commitments, name)
        lines += component_lines(store, card, period, name, tenant)
        sessions = _sessions(store, what, discounts, usage)
        covered = _covered(store, what, books, commitments, usage, sessions, short)
        lines += minimum_lines(short, minimum, scale, covered.stretched)
        lines += covered.lines
        lines += [
            line for usages in usage.by_tenant.values() for line in discount_lines(discounts, usages, sessions, scale)
        ]
        if not isinstance(card.idle_policy, str):
            pools = pool_costs(store.rows(read_sql(__file__, "pools"), period_params(period)), card, name)
            lines += shared_lines(pools)
    lines += credit_lines(store, name, tenant)
    by_tenant: dict[str, list[Line]] = {}
    if card is not None:
        lines = [_with_validity(card, line, period) for line in lines]
    for line in sorted(lines, key=lambda line: KINDS.index(line.kind)):
        if tenant is None or line.tenant == tenant:
            by_tenant.setdefault(line.tenant, []).append(line)
    currency = one_currency(rows) or (card.currency if card else "")
    books_run = str(store.value(read_sql(__file__, "books_run"), period_params(period)))
    return Month(period, name, currency, books_run, usage, by_tenant, pools)


def _with_validity(card: RateCard, line: Line, period: Period) -> Line:
    """Of a line that is priced by the rates; so is what a quota covers, but not the quota."""
    price, listed = line.contracted_unit_price, line.list_unit_price
    if line.kind not in ("usage", "minimum", "commitment") or price is None or listed is None:
        return line
    at = (card, line.tenant, line.sku, price)
    return replace(
        line,
        price_validity=price_validity(*at, period),
        list_price_validity=None if listed == price else list_price_validity(*at, listed, period),
    )


def platform_costs(store: Store, period: Period) -> list[PoolCost]:
    """What the month's unallocated time cost, by pool, and who bears it; none before a rate card is applied."""
    books = books_of(store)
    if books.card is None:
        return []
    rows = store.rows(read_sql(__file__, "pools"), period_params(period))
    return pool_costs(rows, books.card, month_name(period, books.timezone))


@dataclass(frozen=True)
class _Covered:
    """The lines of the quotas, and by minimum line's key how much of it they cover."""

    lines: Sequence[Line]
    stretched: Mapping[MinimumKey, int]


def _covered(
    store: Store,
    what: Mapping[str, Any],
    books: Books,
    commitments: Sequence[Commitment],
    usage: MonthUsage,
    sessions: Sessions,
    short: Sequence[Mapping[str, Any]],
) -> _Covered:
    """Quotas run from the start of the month until its end, or until the books are closed.

    short: the rows of minimum.sql; what the quotas leave unused covers them.
    """
    start, until = what["start"], min(what["end"], books.closed_until)
    mine = [one for one in commitments if what["all_tenants"] or one.tenant == what["tenant"]]
    if not mine or until <= start:
        return _Covered((), {})
    import pyarrow as pa

    covered: dict[int, list[Mapping[str, Any]]] = {}
    stretched: dict[MinimumKey, int] = {}
    quotas = _quotas(mine, usage, short)
    if quotas["tenant"]:
        params = {**what, "end": until, "scale_units": usage.scale.device_units}
        tables = (pa.table(quotas), _keys(sessions), _stretches(short, usage.scale))
        with contextlib.ExitStack() as stack:
            staged = [stack.enter_context(store.staged(table)) for table in tables]
            for row in store.rows(_covered_sql(max(quotas["turn"]), *staged), params):
                if row["stretched"]:
                    key = minimum_key(row)
                    stretched[key] = stretched.get(key, 0) + row["covered_micro_ms"]
                else:
                    covered.setdefault(row["commitment"], []).append(row)
    hours = Fraction(int((until - start).total_seconds() * 1000), 3_600_000)
    lines = [
        line
        for number, one in enumerate(mine, 1)
        for line in commitment_lines(
            one, usage.by_tenant.get(one.tenant, ()), covered.get(number, ()), hours, usage.scale
        )
    ]
    return _Covered(lines, stretched)


def _stretches(short: Sequence[Mapping[str, Any]], scale: Scale) -> pa.Table:
    """What short sessions lack to the minimum, by the hour in which they ended, on the scale."""
    import pyarrow as pa

    rows = [row for row in short if row["contracted_unit_price"] is not None]
    texts = {
        **{name: [row[name] for row in rows] for name in ("tenant", "project", "sku")},
        **{name: [text(row[name]) for row in rows] for name in ("list_unit_price", "contracted_unit_price")},
        "lacking": [str(scale.quantity(row["lacking_micro_ms"], row["device_units"])) for row in rows],
    }
    columns = {name: pa.array(values, pa.string()) for name, values in texts.items()}
    columns["hour"] = pa.array([row["hour"] for row in rows], pa.timestamp("s", "UTC"))
    return pa.table(columns)


def _quotas(
    commitments: Sequence[Commitment], usage: MonthUsage, short: Sequence[Mapping[str, Any]]
) -> dict[str, list[Any]]:
    """Columns: the commitment (its number in the sequence, from 1) that covers a tenant's sku in a turn, and its quota
    per hour. A tenant's commitments take turns in the card's order."""
    columns: dict[str, list[Any]] = {"tenant": [], "sku": [], "turn": [], "commitment": [], "quota_micro_ms": []}
    turns: dict[str, int] = {}
    for number, one in enumerate(commitments, 1):
        turn = turns[one.tenant] = turns.get(one.tenant, 0) + 1
        skus = {used.sku for used in usage.by_tenant.get(one.tenant, ()) if used.sku}
        skus |= {row["sku"] for row in short if row["tenant"] == one.tenant and row["sku"]}
        for sku in sorted(sku for sku in skus if fnmatchcase(sku, one.sku)):
            row = (one.tenant, sku, turn, number, str(int(one.gpus * usage.scale.hour)))
            for column, value in zip(columns.values(), row, strict=True):
                column.append(value)
    return columns


def _covered_sql(turns: int, quotas: str, sessions: str, stretches: str) -> str:
    """covered.sql with so many turns, each of which reads what the one before left."""
    rows = "entries"
    for turn in range(1, turns + 1):
        text = read_sql(__file__, "covered_turn", turn=turn, before=turn - 1, rows=rows, quotas=quotas)
        rows = f"({text})"
    parts = ", ".join(f"(commitment_{turn}, covered_{turn})" for turn in range(1, turns + 1))
    return read_sql(
        __file__, "covered", quotas=quotas, sessions=sessions, stretches=stretches, turns=rows, parts=f"[{parts}]"
    )


def _sessions(store: Store, what: Mapping[str, Any], discounts: Sequence[Discount], usage: MonthUsage) -> Sessions:
    """The sessions that are long enough for a discount; what they held becomes usage of their own."""
    enough = long_enough(discounts, usage.scale)
    if enough is None:
        return {}
    params = {
        **what,
        "scale_units": usage.scale.device_units,
        "at_least_ms": enough[0],
        "at_least_micro_ms": str(enough[1]),
    }
    sessions = {
        (row["session_cluster"], row["session"]): SessionLength(
            row["before_ms"], row["after_ms"], row["before_micro_ms"], row["after_micro_ms"]
        )
        for row in store.rows(read_sql(__file__, "sessions"), params)
    }
    if sessions:
        with store.staged(_keys(sessions)) as staged:
            sql = read_sql(__file__, "usage_of_sessions", sessions=staged)
            split_sessions_off(usage, store.rows(sql, params))
    return sessions


def _keys(sessions: Sessions) -> pa.Table:
    import pyarrow as pa

    return pa.table(
        {
            "session_cluster": pa.array([cluster for cluster, _ in sessions], pa.string()),
            "session": pa.array([session for _, session in sessions], pa.string()),
        }
    )


def document_of(tenant: str, month: Month, books: Books, corrected: Corrections | None = None) -> Invoice:
    """The tenant's month as a draft, with corrections of other months."""
    corrections = corrected.lines.get(tenant, ()) if corrected else ()
    unpriced = corrected.unpriced.get(tenant, {}) if corrected else {}
    card, digits = books.card, minor_digits(month.currency)
    own = month.lines.get(tenant, ())
    known = [line for line in own if line.cost is not None]
    amounts, own_net = largest_remainder([line.cost for line in known if line.cost is not None], digits)
    amount_of = {id(line): amount for line, amount in zip(known, amounts, strict=True)}
    own_taxes = _taxes(tenant, own_net, card, month.name, digits)
    # What was billed for other months is whole minor units already, and changes nothing of the month's own rounding.
    amount_of |= {id(line): rounded(line.cost or Fraction(0), digits) for line in (*corrections, *own_taxes)}
    untaxed = [*own, *(line for line in corrections if line.kind != "tax")]
    taxes = [*(line for line in corrections if line.kind == "tax"), *own_taxes]
    net = sum((amount_of.get(id(line), Decimal(0)) for line in untaxed), Decimal(0)).quantize(own_net)
    tax = sum((amount_of[id(line)] for line in taxes), Decimal(0)).quantize(net)
    total = month.usage.totals.get(tenant, LedgerSum(month.usage.scale))
    estimated, assumed = (by.get(tenant, 0) for by in (month.usage.estimated, month.usage.assumed))
    notes = _notes(total, estimated, assumed, month.period, books)
    notes += [
        f"{_two_digits(hours)} GPU-hours of {of} have no price and are in no amount." for of, hours in unpriced.items()
    ]
    months: dict[str, Decimal] = {}
    for line in corrections:
        of = str((line.reference or {})["month"])
        months[of] = months.get(of, Decimal(0)) + amount_of[id(line)]
    payable = _payable(tenant, card, month.name, months, notes)
    draft = Invoice(
        {
            "document_type": "invoice",
            "number": None,
            "status": "draft",
            "issued_at": None,
            "issuer": card.issuer.model_dump(mode="json") if card else None,
            "tenant": tenant,
            "period": {
                "month": month.name,
                "start": rfc3339(month.period.start),
                "end": rfc3339(month.period.end),
                "timezone": books.timezone,
            },
            "currency": month.currency,
            "books_run": month.books_run,
            "run": str(month.usage.last_run.get(tenant, 0)),
            "as_of_run": books.last_run,
            "corrected_months": [one.name for one in corrected.months] if corrected else [],
            "rate_card": books.current.version if books.current else "",
            "lines": [
                _line(number, line, amount_of.get(id(line))) for number, line in enumerate([*untaxed, *taxes], 1)
            ],
            "totals": {
                **_measures(total),
                "net": text(net),
                "tax": text(tax),
                "amount": text(net + tax),
                **({"incomplete": True} if total.unpriced or unpriced else {}),
            },
            "payable": payable,
            "notes": notes,
        },
        unpriced,
    )
    return paid_by(draft, 0 * draft.amount, [])


def paid_by(draft: Invoice, paid: Decimal, draws: Sequence[Mapping[str, str | None]]) -> Invoice:
    """The draft with so much of it paid before; what is due is payable in the tenant's currency."""
    due = draft.amount - paid
    payable = draft.document["payable"]
    if payable:
        payable = {**payable, "amount": text(_converted(payable, draft.amount, due))}
    totals = {**draft.totals, "prepaid": text(paid), "due": text(due)}
    document = {**draft.document, "totals": totals, "payable": payable, "prepaid_draws": list(draws)}
    return replace(draft, document=document)


def _converted(payable: Mapping[str, Any], amount: Decimal, due: Decimal) -> Decimal | None:
    """What is due in the tenant's currency: its month's part at its month's rate, each correction at that of the month
    that it corrects; of what was paid before, as much of each. None: a rate is missing."""
    corrections = payable["corrections"]
    own = amount - sum((Decimal(one["amount"]) for one in corrections), Decimal(0))
    parts = [(own, payable["rate"]), *((Decimal(one["amount"]), one["rate"]) for one in corrections)]
    if any(rate is None for _, rate in parts):
        return None
    whole = sum((Fraction(part) * Fraction(rate) for part, rate in parts), Fraction(0))
    part_due = Fraction(due) / Fraction(amount) if due != amount else Fraction(1)
    return rounded(whole * part_due, minor_digits(payable["currency"]))


def _taxes(tenant: str, net: Decimal, card: RateCard | None, month: str, digits: int) -> list[Line]:
    lines: dict[str, Line] = {}
    for tax in in_force(card.taxes, month) if card else []:
        if fnmatchcase(tenant, tax.tenant) and tax.name not in lines:
            percent = f"{tax.percent.normalize():f}"
            lines[tax.name] = Line(
                tenant,
                "tax",
                description=f"{tax.name} {percent} % of {net:,}",
                cost=Fraction(net) * Fraction(tax.percent) / 100,
                rule=f"{tax.name} {percent} %",
            )
    return list(lines.values())


def _payable(
    tenant: str, card: RateCard | None, month: str, corrections: Mapping[str, Decimal], notes: list[str]
) -> dict[str, Any] | None:
    """The tenant's own currency with the rate of its month, and of each month that is corrected; None where that is the
    card's. A month that was invoiced in another currency is corrected at the rate of the correction's own."""
    currency = _currency_of(tenant, card, month)
    if card is None or currency is None:
        return None
    rates = {one.month: one.rate for one in card.exchange_rates if one.currency == currency}

    def rate(of: str) -> str | None:
        if of not in rates:
            notes.append(f"The rate card has no exchange rate from {card.currency} to {currency} for {of}.")
        return text(rates.get(of))

    return {
        "currency": currency,
        "rate": rate(month),
        "corrections": [
            {
                "month": of,
                "amount": text(amount),
                "rate": rate(of if _currency_of(tenant, card, of) == currency else month),
            }
            for of, amount in corrections.items()
        ],
        "amount": None,
    }


def _currency_of(tenant: str, card: RateCard | None, month: str) -> str | None:
    """In what a tenant is invoiced in a month; None: in the card's own."""
    wanted = [one for one in in_force(card.invoice_currencies, month) if one.tenant == tenant] if card else []
    return None if card is None or not wanted or wanted[0].currency == card.currency else wanted[0].currency


def _line(number: int, line: Line, amount: Decimal | None) -> dict[str, Any]:
    measures = line.measures or dict.fromkeys(MEASURES)
    return {
        "line": number,
        "kind": line.kind,
        "project": line.project,
        "sku": line.sku,
        "description": line.description,
        "quantity": _exact(line.quantity),
        "unit": line.unit,
        "list_unit_price": text(line.list_unit_price),
        "contracted_unit_price": text(line.contracted_unit_price),
        **{name: text(value) for name, value in measures.items()},
        "list_cost": _exact(line.list_cost),
        "billed_cost": _exact(line.cost),
        "amount": text(amount),
        "rule": line.rule,
        "charge_class": line.charge_class,
        "reference": line.reference,
        **{name: value for name in VALIDITIES if (value := getattr(line, name)) is not None},
    }


VALIDITIES = ("price_validity", "list_price_validity")
"""Keys that a line has where they say something; documents of earlier versions lack one or both."""


def _exact(value: Fraction | None) -> str | None:
    return None if value is None else text(rounded(value))


def _measures(line: LedgerSum) -> dict[str, str | None]:
    measures = line.measures(None)
    del measures["currency"]
    return {name: text(value) for name, value in measures.items()}


def _notes(total: LedgerSum, estimated: int, assumed: int, period: Period, books: Books) -> list[str]:
    notes = (
        [f"The prices are an example, not yours: {books.card.example}."] if books.card and books.card.example else []
    )
    if books.closed_until < period.end:
        notes.append(f"The books are closed until {rfc3339(books.closed_until)}; the month is not complete.")
    if total.unpriced:
        notes.append(f"{_hours(total, total.unpriced)} GPU-hours have no price and are in no amount.")
    if total.kinds["unmetered"]:
        hours = _hours(total, total.kinds["unmetered"])
        notes.append(f"{hours} GPU-hours were held while no telemetry said whether they were used.")
    if estimated:
        notes.append(f"{_hours(total, estimated)}{ESTIMATED}")
    if assumed:
        notes.append(f"{_hours(total, assumed)}{ASSUMED}")
    return notes


LITTLE = "Less than 0.01"
"""Of hours that are not zero; documents of earlier versions say 0.00."""


def _hours(total: LedgerSum, quantity: int) -> str:
    return _two_digits(total.scale.hours(quantity, 2))


def _two_digits(hours: Decimal) -> str:
    """Of hours that are not zero."""
    said = f"{hours:.2f}"
    return LITTLE if said == "0.00" else said


ESTIMATED = " GPU-hours are estimated: the end of the allocation was never reported."
ASSUMED = " GPU-hours were held on devices that are assumed: only the node was reported."
