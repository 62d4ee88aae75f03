"""Credits: amounts in a tenant's favour (negative: against it) on the draft of a month.

A credit is never changed: one that was wrong is reversed by another, of the same month. An issued month takes no new
credit any more; it goes to the tenant's next open month. A reversal in an issued month changes what the month owes, so
the next invoice corrects it, with its taxes.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from fractions import Fraction
from typing import Any

from billing import audit
from billing.lines import Line
from billing.params import tenant_params
from billing.periods import parse_month
from billing.rates import RateCard, current_rate_card
from warehouse.chain import Head, append, head
from warehouse.errors import LedgerError
from warehouse.json_text import parse_json
from warehouse.store import Store, read_sql

KINDS = ("manual", "slo", "interference")
_TITLES = {"manual": "Credit", "slo": "Credit for a missed service level", "interference": "Credit for interference"}
_AMOUNT = re.compile(r"-?[0-9]{1,9}(\.[0-9]{1,9})?")
_REVERSES = "reverses"


class CreditError(LedgerError):
    """The credit cannot be given, or not in that month."""


@dataclass(frozen=True)
class Credit:
    """An amount in a tenant's favour. `evidence`: what it was computed from. Without an id, it gets a hash of its
    content."""

    tenant: str
    month: str
    amount: Decimal
    currency: str
    reason: str
    kind: str = "manual"
    project: str = ""
    author: str = ""
    evidence: Mapping[str, Any] = field(default_factory=dict)
    id: str = ""

    def __post_init__(self) -> None:
        for name in ("tenant", "reason"):
            if not getattr(self, name).strip():
                raise CreditError(name, "missing", "A credit needs a tenant and a reason")
        if self.kind not in KINDS:
            raise CreditError("kind", f"found {self.kind!r}", f"Choose from {', '.join(KINDS)}")
        if not self.amount:
            raise CreditError("amount", "cannot be zero", "There is nothing to credit")
        parse_month(self.month, "UTC")
        if not self.id:
            object.__setattr__(self, "id", self._hash())

    def content(self) -> dict[str, Any]:
        """What must be the same for two credits to be one; who wrote it down is not part of it."""
        return {
            "tenant": self.tenant,
            "month": self.month,
            "amount": format(self.amount.normalize(), "f"),
            "currency": self.currency,
            "reason": self.reason,
            "kind": self.kind,
            "project": self.project,
            "evidence": dict(self.evidence),
        }

    def _hash(self) -> str:
        return hashlib.sha256(_json(self.content()).encode()).hexdigest()[:12]

    @property
    def reverses(self) -> str | None:
        """The id of the credit that this one takes back."""
        value = self.evidence.get(_REVERSES)
        return str(value) if value else None


@dataclass(frozen=True)
class StoredCredit:
    """A credit as it is in the store; `invoice` is the issued invoice that bears it, None while none does."""

    credit: Credit
    at: datetime
    invoice: str | None


def parse_amount(text: str, where: str = "amount") -> Decimal:
    """A signed decimal with at most nine digits each side of the point. Errors: CreditError."""
    if not _AMOUNT.fullmatch(text.strip()):
        raise CreditError(
            where, f"found {text!r}", 'Expected a decimal such as "25.00", with at most 9 digits on each side'
        )
    return Decimal(text.strip())


def credit_lines(store: Store, period_month: str, tenant: str | None = None) -> list[Line]:
    """The credits of a month (like 2026-10) as lines of drafts, by tenant; costs are negative in the tenant's favour.

    `rule` is `credit:` and the credit's id.
    """
    return [_line(kept.credit) for kept in list_credits(store, period_month, tenant)]


def list_credits(
    store: Store, month: str = "", tenant: str | None = None, ids: Sequence[str] = ()
) -> list[StoredCredit]:
    """The credits of a month ('' : all), of a tenant (None: all), in the order in which drafts show them."""
    params = {"month": month, **tenant_params(tenant), "ids": list(ids)}
    return [
        StoredCredit(
            Credit(
                row["tenant"], row["month"], row["amount"], row["currency"], row["reason"], row["kind"],
                row["project"], row["author"], json.loads(row["evidence"] or "{}"), row["id"],
            ),
            row["at"],
            row["invoice"] or None,
        )
        for row in store.rows(read_sql(__file__, "credits"), params)
    ]  # fmt: skip


def add_credit(store: Store, credit: Credit, now: datetime) -> bool:
    """Puts a credit on its month's draft; False if it is there already.

    Errors: CreditError if its month has an issued invoice of the tenant, its currency is not the rate card's, or its
    id belongs to another credit.
    """
    (outcome,) = add_credits(store, [credit], now)
    if isinstance(outcome, CreditError):
        raise outcome
    if outcome:
        audit.record(store, now, credit.author, "credits.add", credit.id, credit.reason, _inputs(credit))
    return outcome


def add_credits(store: Store, credits: Sequence[Credit], now: datetime) -> list[bool | CreditError]:
    """Adds many credits; returns the outcome for each. The caller records it in the audit."""
    judged = judged_credits(store, credits)
    judged.write(store, now)
    return judged.outcomes


@dataclass(frozen=True)
class Judged:
    """Credits that may be added.   outcomes: for each, True if it is new, False if it is there already, or why it is
    refused.   fresh: the new ones.   last: of the chain, when they were judged; None: there are none."""

    outcomes: list[bool | CreditError]
    fresh: list[Credit]
    last: Head | None

    def write(self, store: Store, now: datetime) -> None:
        if self.last is not None:
            _insert(store, self.fresh, now, self.last)


def judged_credits(store: Store, credits: Sequence[Credit]) -> Judged:
    """Judges many credits, each after those before it; adds none."""
    if not credits:
        return Judged([], [], None)
    last = head(store, "credits")
    card = card_in_force(store)
    known = {kept.credit.id: kept.credit for kept in _known(store, [credit.id for credit in credits])}
    months = InvoicedMonths(store, card.timezone)
    outcomes: list[bool | CreditError] = []
    fresh: list[Credit] = []
    for credit in credits:
        try:
            new = _is_new(credit, known, card, months)
        except CreditError as error:
            outcomes.append(error)
            continue
        outcomes.append(new)
        if new:
            fresh.append(credit)
            known[credit.id] = credit
    return Judged(outcomes, fresh, last)


def reverse_credit(store: Store, credit_id: str, author: str, reason: str, now: datetime) -> Credit:
    """Takes a credit back by another of the opposite amount in its month; where that is issued, the tenant's next
    invoice corrects it. Doing it again changes nothing.

    Errors: CreditError if there is no such credit, if it is a reversal itself, or if another has the reversal's id.
    """
    last = head(store, "credits")
    found = list_credits(store, ids=[credit_id])
    if not found:
        raise CreditError(f"credit {credit_id!r}", "no such credit", "See: gpuledger credits list")
    credit = found[0].credit
    if credit.reverses:
        raise CreditError(f"credit {credit_id}", f"reverses {credit.reverses}", "Add the credit again instead")
    reversal_id = f"{credit_id}-reversed"
    done = list_credits(store, ids=[reversal_id])
    if done and done[0].credit.reverses != credit_id:
        step = f"Reverse it by hand: gpuledger credits add --amount {-credit.amount:f} --id ANOTHER"
        raise CreditError(f"credit {reversal_id}", f"is another credit, and has the id that reverses {credit_id}", step)
    if done:
        return done[0].credit
    reversal = Credit(
        credit.tenant, credit.month, -credit.amount, credit.currency, reason, credit.kind, credit.project, author,
        {_REVERSES: credit_id}, reversal_id,
    )  # fmt: skip
    _insert(store, [reversal], now, last)
    audit.record(store, now, author, "credits.reverse", credit_id, reason, _inputs(reversal))
    return reversal


def card_in_force(store: Store) -> RateCard:
    """The rate card in force. Errors: CreditError if there is none."""
    current = current_rate_card(store)
    if current is None:
        raise CreditError("rate card", "none is in force", "Run: gpuledger rates apply FILE")
    return current.card


class InvoicedMonths:
    """Which months of which tenants have an issued invoice that is not void."""

    def __init__(self, store: Store, timezone: str) -> None:
        self._timezone = timezone
        self._issued: dict[str, list[tuple[datetime, datetime, str]]] = {}
        for row in store.rows(read_sql(__file__, "invoiced_months"), tenant_params(None)):
            spans = self._issued.setdefault(row["tenant"], [])
            spans.append((row["period_start"], row["period_end"], row["invoice"]))

    def invoice(self, tenant: str, month: str) -> str | None:
        """The number of an invoice of the month."""
        period = parse_month(month, self._timezone)
        return next(
            (n for start, end, n in self._issued.get(tenant, ()) if start < period.end and end > period.start), None
        )

    def next_open(self, tenant: str, month: str) -> str:
        """The month, or the first after it that has no invoice."""
        while self.invoice(tenant, month):
            month = following(month)
        return month


def following(month: str) -> str:
    """The next month: 2027-01 after 2026-12."""
    year, number = int(month[:4]), int(month[5:])
    return f"{year + number // 12:04d}-{number % 12 + 1:02d}"


def _is_new(credit: Credit, known: Mapping[str, Credit], card: RateCard, months: InvoicedMonths) -> bool:
    if credit.id in known:
        if known[credit.id].content() != credit.content():
            raise CreditError(f"credit {credit.id}", "another credit has this id", "Give it an id of its own")
        return False
    if credit.reverses and not _is_reversal(credit, known.get(credit.reverses)):
        what = f"a credit of one's own cannot say that it reverses {credit.reverses}"
        raise CreditError("evidence", what, f"Use: gpuledger credits reverse {credit.reverses}")
    if credit.currency != card.currency:
        raise CreditError(
            "currency",
            f"found {credit.currency}, but the rate card is in {card.currency}",
            f"State it in {card.currency}",
        )
    number = months.invoice(credit.tenant, credit.month)
    if number:
        raise CreditError(
            f"month {credit.month}",
            f"invoice {number} of {credit.tenant!r} is issued",
            f"It goes to the next open month: {months.next_open(credit.tenant, credit.month)}",
        )
    return True


def _is_reversal(credit: Credit, original: Credit | None) -> bool:
    """Whether it is what `reverse_credit` made of the original, as where a list of credits is imported elsewhere."""
    if original is None or credit.id != f"{original.id}-reversed":
        return False
    same = ("tenant", "month", "currency", "kind", "project")
    return credit.amount == -original.amount and all(getattr(credit, one) == getattr(original, one) for one in same)


def _known(store: Store, ids: Sequence[str]) -> Iterable[StoredCredit]:
    for first in range(0, len(ids), 500):
        yield from list_credits(store, ids=ids[first : first + 500])


def _insert(store: Store, credits: Sequence[Credit], now: datetime, last: Head) -> None:
    import pyarrow as pa

    if not credits:
        return
    texts = ("id", "month", "tenant", "project", "kind", "currency", "author", "reason")
    columns = {name: pa.array([getattr(one, name) for one in credits], pa.string()) for name in texts}
    columns["at"] = pa.array([now] * len(credits), pa.timestamp("ms", "UTC"))
    columns["amount"] = pa.array([format(one.amount, "f") for one in credits], pa.string())
    columns["evidence"] = pa.array([_json(one.evidence) for one in credits], pa.string())
    append(store, "credits", pa.table(columns), last)


def _line(credit: Credit) -> Line:
    return Line(
        credit.tenant,
        "credit",
        credit.project,
        description=_description(credit),
        cost=-Fraction(credit.amount),
        rule=f"credit:{credit.id}",
    )


def _description(credit: Credit) -> str:
    title = f"Credit {credit.reverses} taken back" if credit.reverses else _TITLES[credit.kind]
    facts = [] if credit.reverses else [f"{key} {_plain(value)}" for key, value in sorted(credit.evidence.items())]
    by = f" (by {credit.author})" if credit.author else ""
    return f"{title}: {credit.reason}{by}" + (f"; {', '.join(facts)}" if facts else "")


def _plain(value: Any) -> str:
    return value if isinstance(value, str) else _json(value)


def _inputs(credit: Credit) -> dict[str, Any]:
    return {**credit.content(), "id": credit.id}


def _json(value: Any) -> str:
    return json.dumps(value, sort_keys=True, ensure_ascii=False, separators=(",", ":"), default=str)


def evidence_of(text: str, where: str = "evidence") -> dict[str, Any]:
    """Evidence from JSON text; '' is none. Errors: CreditError if it is not JSON object."""
    if not text.strip():
        return {}
    try:
        value = parse_json(text, parse_float=str)
    except ValueError as error:
        raise CreditError(
            where, f"not JSON ({error})", 'Expected an object such as {"availability": "0.987"}'
        ) from None
    if not isinstance(value, dict):
        raise CreditError(where, f"found {text!r}", 'Expected an object such as {"availability": "0.987"}')
    return value
