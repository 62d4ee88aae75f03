"""The rate card in force: applied by whom and why, listed, and never changed under an issued invoice."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from billing.rates.prices import Subject, first_change, price_intervals, shown_price
from billing.rates.rate_card import RateCard, RateError
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
    """The card in force, or None before the first was applied."""
    rows = store.rows(read_sql(__file__, "current_rate_card"))
    return _applied(rows[0]) if rows else None


def rate_card_of(store: Store, version: str) -> AppliedCard | None:
    """A card that was applied at some time, by its version."""
    rows = store.rows(read_sql(__file__, "rate_card_of"), {"version": version})
    return _applied(rows[0]) if rows else None


def list_rates(store: Store) -> list[dict[str, Any]]:
    """The rules of the card in force, in its order, a dict each; none before a card was applied."""
    current = current_rate_card(store)
    if current is None:
        return []
    return [
        {
            "sku": rule.sku,
            **{key: getattr(rule.match, key) for key in ("model", "pool", "partition_profile", "tenant")},
            "price_per_gpu_hour": rule.price_per_gpu_hour,
            "currency": current.card.currency,
            "effective_from": rule.effective_from,
            "effective_to": rule.effective_to,
            "version": current.version,
        }
        for rule in current.card.rates
    ]


def apply_rate_card(store: Store, card: RateCard, author: str, reason: str, now: datetime) -> str:
    """Puts the card in force and answers its version; the card in force already is left as it is.

    Closed hours that no invoice covers are rated again by the next close.
    Errors: RateError if the card would change what an issued invoice was computed from.
    """
    import pyarrow as pa

    rows = store.rows(read_sql(__file__, "current_rate_card"))
    if rows and rows[0]["version"] == card.version:
        return card.version
    if rows:
        _refuse_changed_invoices(store, _applied(rows[0]).card, card)
    sequence = rows[0]["sequence"] + 1 if rows else 1
    row = pa.table(
        {
            "version": pa.array([card.version], pa.string()),
            "sequence": pa.array([sequence], pa.int64()),
            "applied_at": pa.array([now], pa.timestamp("ms", "UTC")),
            "author": pa.array([author], pa.string()),
            "reason": pa.array([reason], pa.string()),
            "card": pa.array([card.canonical()], pa.string()),
        }
    )
    store.insert("rate_cards", row)
    return card.version


def _applied(row: dict[str, Any]) -> AppliedCard:
    card = RateCard.model_validate_json(row["card"])
    return AppliedCard(card, row["version"], row["applied_at"], row["author"], row["reason"])


def _refuse_changed_invoices(store: Store, old: RateCard, new: RateCard) -> None:
    """A rule in use is never edited, only ended and followed: in use is what an issued invoice covers."""
    invoiced = store.rows(read_sql(__file__, "invoiced_subjects"))
    for key in ("currency", "timezone"):
        if invoiced and getattr(old, key) != getattr(new, key):
            what = f"found {getattr(new, key)}, but invoices were issued with {getattr(old, key)}"
            raise RateError(f"rate card: {key}", what, "Keep it, or start a store of its own")
    for row in invoiced:
        subject = Subject(row["model"], row["pool"], row["partition_profile"], row["tenant"])
        at = first_change(old, new, subject, row["period_start"], row["period_end"])
        if at is not None:
            before, after = (shown_price(price_intervals(card, [subject]), at) for card in (old, new))
            raise RateError(
                f"rate card: the price of {subject.model!r} for {subject.tenant!r} at {at:%Y-%m-%d %H:%M}Z",
                f"would change from {before} to {after}, but invoice {row['number']} was computed from it",
                "Leave that rule as it was, end it with effective_to, and follow it with a new one",
            )
