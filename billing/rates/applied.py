"""Applies and lists rate cards, with author and reason; refuses one that would change an issued invoice."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from billing import audit
from billing.applied import add_version
from billing.periods import Period, month_name
from billing.rates.frozen import advice, changed_policy, concerns
from billing.rates.prices import PriceBook, differences, shown_price
from billing.rates.rate_card import MATCH_KEYS, POLICIES, RateCard, RateError
from billing.rates.staging import subject_keys, subject_of, subject_params
from billing.rates.windows import window_json
from warehouse.chain import head
from warehouse.store import Store, read_sql


@dataclass(frozen=True)
class AppliedCard:
    """A card as it was applied, by whom and why."""

    card: RateCard
    version: str
    applied_at: datetime
    author: str
    reason: str


def current_rate_card(store: Store) -> AppliedCard | None:
    """The card in force, for a tenant's connection without what others have agreed; None before the first was
    applied."""
    rows = store.rows(read_sql(__file__, "current_rate_card"))
    return _applied(store, rows[0]) if rows else None


def example_prices(store: Store) -> str:
    """The publisher whose example prices the card in force has; '' if they are the site's own, or there is no card."""
    rows = store.rows(read_sql(__file__, "example_prices"))
    return str(rows[0]["example"]) if rows else ""


def rate_card_of(store: Store, version: str) -> AppliedCard | None:
    """A card that was applied at some time, by its version; cut like the one in force."""
    rows = store.rows(read_sql(__file__, "rate_card_of"), {"version": version})
    return _applied(store, rows[0]) if rows else None


def history(store: Store) -> list[dict[str, Any]]:
    """Every application, the oldest first: version, applied_at, author, reason, rules (how many)."""
    return store.rows(read_sql(__file__, "history"))


def list_rates(store: Store) -> list[dict[str, Any]]:
    """The rules of the card in force that the store may show, in its order, a dict each; none before a card was
    applied."""
    current = current_rate_card(store)
    if current is None:
        return []
    return [
        {
            "sku": rule.sku,
            **{key: getattr(rule.match, key) for key in MATCH_KEYS},
            "price_per_gpu_hour": rule.price_per_gpu_hour,
            "currency": rule.currency or current.card.currency,
            "effective_from": rule.effective_from,
            "effective_to": rule.effective_to,
            "windows": rule.windows_in_words or None,
            "timezone": rule.timezone or current.card.timezone,
            "windows_json": window_json(rule.windows),
            "version": current.version,
        }
        for rule in current.card.rates
    ]


def apply_rate_card(store: Store, card: RateCard, author: str, reason: str, now: datetime) -> str:
    """Puts the card in force and answers its version; the card in force already is left as it is.

    Closed hours that no invoice covers are rated again by the next close.
    Errors: RateError if the card would change what an issued invoice was computed from.
    """
    last = head(store, "rate_cards")
    rows = store.rows(read_sql(__file__, "current_rate_card"))
    if rows and rows[0]["version"] == card.version:
        return card.version
    check_rate_card(store, card)
    add_version(store, "rate_cards", "card", card, rows[0]["sequence"] if rows else 0, author, reason, now, last)
    inputs = {"rules": len(card.rates), "before": rows[0]["version"] if rows else None}
    audit.record(store, now, author, "rates.apply", card.version, reason, inputs)
    return card.version


def check_rate_card(store: Store, card: RateCard) -> None:
    """Errors: RateError if the card would change what an issued invoice was computed from."""
    current = current_rate_card(store)
    if current is not None:
        _refuse_changed_invoices(store, current.card, card)


def _applied(store: Store, row: dict[str, Any]) -> AppliedCard:
    card = _seen_by(store, RateCard.model_validate_json(row["card"]))
    return AppliedCard(card, row["version"], row["applied_at"], row["author"], row["reason"])


def _seen_by(store: Store, card: RateCard) -> RateCard:
    """The engine's filters keep a tenant from others' rows, but the card is a single cell."""
    if store.tenants is None:
        return card
    own = {
        kind: tuple(one for one in rules if concerns(one, store.tenants))
        for kind in ("rates", *POLICIES)
        if not isinstance(rules := getattr(card, kind), str)
    }
    return card.model_copy(update=own)


def _refuse_changed_invoices(store: Store, old: RateCard, new: RateCard) -> None:
    """A rule in use is never edited, only ended and followed: in use is what an issued invoice covers."""
    invoices = store.rows(read_sql(__file__, "invoiced_months"))
    for key in ("currency", "timezone"):
        if invoices and getattr(old, key) != getattr(new, key):
            what = f"found {getattr(new, key)}, but invoices were issued with {getattr(old, key)}"
            raise RateError(f"rate card: {key}", what, "Keep it, or start a store of its own")
    for row in invoices:
        _refuse_changed_policy(old, new, row)
    books: dict[Period, tuple[PriceBook, PriceBook]] = {}
    parts = {"invoiced_months": read_sql(__file__, "invoiced_months"), "keys": subject_keys("ledger")}
    subjects = read_sql(__file__, "invoiced_subjects", **parts)
    for row in store.rows(subjects, subject_params(old, new)):
        month = Period(row["period_start"], row["period_end"])
        if month not in books:
            books[month] = PriceBook(old, month.start, month.end), PriceBook(new, month.start, month.end)
        subject = subject_of(row)
        # No invoice was computed from what has no price: such time came late, and may get one.
        priced = (one for one in differences(*books[month], subject, month.start) if one[1] is not None)
        change = next(priced, None)
        if change is not None:
            at, before, after = change
            raise RateError(
                f"rate card: the price of {subject.model!r} for {subject.tenant!r} at {at:%Y-%m-%d %H:%M}Z",
                f"would change from {shown_price(before)} to {shown_price(after)}, but invoice {row['number']} was "
                "computed from it",
                "Leave that rule as it was, end it with effective_to, and follow it with a new one",
            )


def _refuse_changed_policy(old: RateCard, new: RateCard, invoice: Mapping[str, Any]) -> None:
    month = month_name(Period(invoice["period_start"], invoice["period_end"]), old.timezone)
    change = changed_policy(old, new, month, invoice["tenant"])
    if change is not None:
        policy, before, after = change
        raise RateError(
            f"rate card: {policy} in {month}",
            f"would change from {before} to {after}, but invoice {invoice['number']} was computed with it",
            advice(old, policy, before),
        )
