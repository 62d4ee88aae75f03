"""The GPUs that nobody has: available, and not allocated."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal

from billing.insights.now.asking import Ask
from billing.rates import current_rate_card
from billing.rates.prices import PriceBook, Subject, price_at
from billing.rates.staging import subject_params
from warehouse.store import Store


@dataclass(frozen=True)
class Free:
    """gpus: shares as fractions.   list_hour: what an hour of them costs; None: some have no price, or something is
    allocated of which nobody knows the device."""

    gpus: float
    list_hour: Decimal | None
    currency: str


def free(store: Store, ask: Ask, at: datetime) -> Free:
    """Of the whole fleet, so for those who see it, without filters by holder."""
    applied = current_rate_card(store)
    card = applied.card if applied else None
    rows = ask("free", at=at, by_cluster=subject_params(card)["by_cluster"])
    gpus = max(0.0, sum(row["gpus"] for row in rows))
    if card is None or any(row["gpus"] < 0 for row in rows):
        return Free(gpus, None, card.currency if card else "")
    book, cost = PriceBook(card, at, at + timedelta(seconds=1)), Decimal(0)
    for row in rows:
        price = price_at(book.schedule(Subject(row["model"], row["pool"], "", "", cluster=row["cluster"])), at)
        if price is None:
            return Free(gpus, None, card.currency)
        cost += price.list_unit_price * Decimal(f"{row['gpus']:.9f}")
    return Free(gpus, cost, card.currency)
