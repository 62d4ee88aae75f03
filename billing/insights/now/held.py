"""The current allocations, as of the newest instant with facts, and which facts lag behind it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from billing.insights.now.asking import Ask, Row
from billing.rates import current_rate_card
from billing.rates.prices import PriceBook, price_at
from billing.rates.staging import subject_of, subject_params
from warehouse.store import Store, read_sql

LATE = timedelta(minutes=15)
"""Older facts say nothing of now; as long as alert rules of idle holders wait for samples."""
IDLE_BELOW = 0.01
"""The part of full activity up to which a device does nothing, as in the alert rules of idle holders."""


@dataclass(frozen=True)
class Moment:
    """clock: when somebody looked.   at: the newest instant for which facts came.   samples: the newest of them.
    closed: until when hours are closed; None: none is."""

    clock: datetime
    at: datetime
    samples: datetime | None
    closed: datetime | None

    @property
    def after(self) -> datetime:
        """Before it lies what was reported at that instant, too."""
        return self.at + timedelta(milliseconds=1)

    @property
    def stopped(self) -> bool:
        """No facts have come for so long that the present state is unknown."""
        return self.clock - self.at > LATE

    @property
    def unmetered(self) -> bool:
        """Events come, samples do not."""
        return not self.stopped and (self.samples is None or self.at - self.samples > LATE)


def moment(store: Store, clock: datetime) -> Moment | None:
    """None where no fact has come."""
    (row,) = store.rows(read_sql(__file__, "moment"), {"clock": clock})
    facts = [row[name] for name in ("samples", "events", "devices", "evaluated") if row[name] is not None]
    closed = row["closed"]
    return Moment(clock, max(facts), row["samples"], closed and closed.astimezone(UTC)) if facts else None


def held(store: Store, ask: Ask, at: datetime, most: int, by_idle: bool = False) -> tuple[Sequence[Row], str]:
    """The rows of held.sql as the rate card in force prices them, and its currency ('': there is none).
    by_idle: those with idle GPUs first."""
    applied = current_rate_card(store)
    card = applied.card if applied else None
    keys = subject_params(card)
    subjects = ask("subjects", at=at, **keys)
    book = PriceBook(card, at, at + timedelta(seconds=1)) if card else None
    prices = {}
    for row in subjects:
        price = price_at(book.schedule(subject_of(row)), at) if book else None
        if price is not None:
            prices[row["subject"]] = price
    rows = ask(
        "held", at=at, most=most, **keys,
        subjects=list(prices),
        list_prices=[format(price.list_unit_price, "f") for price in prices.values()],
        billed_prices=[format(price.contracted_unit_price, "f") for price in prices.values()],
        currency=card.currency if card else "", idle_below=IDLE_BELOW, by_idle=int(by_idle),
    )  # fmt: skip
    return rows, card.currency if card else ""
