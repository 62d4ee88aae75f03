"""The current allocations, as of the newest instant with facts, and which facts lag behind it."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from billing.insights.now.asking import Ask, Row
from billing.rates import current_rate_card
from billing.rates.prices import PriceBook, price_at
from billing.rates.rate_card import RateCard
from billing.rates.staging import subject_of, subject_params
from warehouse.isolation import level_of_share, weakest
from warehouse.store import Store, read_sql

LATE = timedelta(minutes=15)
"""Older facts say nothing of now; as long as alert rules of idle holders wait for samples."""
DAY = timedelta(days=1)
EARLIEST = datetime(1970, 1, 2, tzinfo=UTC)
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
    """None where no fact has come. Facts are looked for within a day before the last close or evaluation of alerts, so
    that no page reads a month of samples; of samples first those near it, of which there are some where any arrive."""
    (known,) = store.rows(read_sql(__file__, "known"), {"clock": clock})
    closed, evaluated = (at and at.astimezone(UTC) for at in (known["closed"], known["evaluated"]))
    newest = max((at for at in (closed, evaluated) if at is not None), default=EARLIEST)
    asked = {"clock": clock, "since": newest - DAY}
    (row,) = store.rows(read_sql(__file__, "facts"), {**asked, "sampled_since": newest - LATE})
    if row["samples"] is None:
        (row,) = store.rows(read_sql(__file__, "facts"), {**asked, "sampled_since": newest - DAY})
    facts = [at for at in (row["samples"], row["events"], row["devices"], evaluated) if at is not None]
    return Moment(clock, max(facts), row["samples"], closed) if facts else None


def isolation(row: Row) -> str:
    """The isolation level of an allocation in a row of held.sql: of several devices the weakest; '': not known."""
    return weakest(
        [
            level_of_share(device_id, profile, partition_id, units >= of if of else None, doubt)
            for device_id, partition_id, profile, units, of, doubt in row["devices"]
        ]
    )


class Subjects:
    """The kinds of holders that were found so far, by their numbers, which are hashes of what they are: what is held
    seldom has a kind that was never seen, so that one statement finds both what is held and its prices."""

    MOST = 5000
    """Of more it is cheaper to ask for those that there are now."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._found: dict[str, dict[int, Row]] = {}

    def found(self, keys: Mapping[str, Any]) -> Sequence[Row]:
        """keys: by what the rate card tells kinds apart."""
        with self._lock:
            return list(self._found.get(str(keys), {}).values())

    def add(self, keys: Mapping[str, Any], rows: Sequence[Row]) -> Sequence[Row]:
        """Those found so far, and these."""
        with self._lock:
            found = self._found.get(str(keys), {}) | {row["subject"]: row for row in rows}
            if len(found) > self.MOST:
                found = {row["subject"]: row for row in rows}
            self._found = {str(keys): found}
            return list(found.values())


SUBJECTS = Subjects()


def held(
    store: Store, ask: Ask, at: datetime, most: int, by_idle: bool = False, seen: Subjects = SUBJECTS
) -> tuple[Sequence[Row], str]:
    """The rows of held.sql as the rate card in force prices them, and its currency ('': there is none).
    by_idle: those with idle GPUs first."""
    applied = current_rate_card(store)
    card = applied.card if applied else None
    keys = subject_params(card)
    subjects = seen.found(keys) or (seen.add(keys, ask("subjects", at=at, **keys)) if card else [])
    rows = _priced(ask, card, keys, subjects, at, most, by_idle)
    if card and rows and rows[0]["all_unasked"]:
        rows = _priced(ask, card, keys, seen.add(keys, ask("subjects", at=at, **keys)), at, most, by_idle)
    return rows, card.currency if card else ""


def _priced(
    ask: Ask,
    card: RateCard | None,
    keys: Mapping[str, Any],
    subjects: Sequence[Row],
    at: datetime,
    most: int,
    by_idle: bool,
) -> Sequence[Row]:
    """subjects: those of which the price is looked up."""
    book = PriceBook(card, at, at + timedelta(seconds=1)) if card else None
    prices = {row["subject"]: price_at(book.schedule(subject_of(row)), at) for row in subjects} if book else {}
    priced = {subject: price for subject, price in prices.items() if price is not None}
    return ask(
        "held", at=at, most=most, **keys,
        subjects=list(priced),
        list_prices=[format(price.list_unit_price, "f") for price in priced.values()],
        billed_prices=[format(price.contracted_unit_price, "f") for price in priced.values()],
        unpriced=[subject for subject in prices if subject not in priced],
        currency=card.currency if card else "", idle_below=IDLE_BELOW, by_idle=int(by_idle),
    )  # fmt: skip
