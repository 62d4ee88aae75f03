"""Second check that pushes do not change an issued month: before it reads them, a close finds the batches that would,
and their rows are held for approval.

The receiver makes the first check, of what it can see cheaply (ingest.issued_months). Before a close names the facts
that it reads, this module asks whether the batches pushed since the last close change what the books say of an issued
month, given everything else that is new (files, prices, approvals). Usually no fact of such a month differs, as the
fingerprints of its hours show. Otherwise the entries are computed without the pushed batches, and then with some of
them, until those that change them are found.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import groupby
from typing import NamedTuple

from billing.close.carried import HOUR_MS
from billing.close.facts import stage_facts_without
from billing.close.hours import (
    Hour,
    attributed,
    drop_stage,
    hours_before,
    portions,
    stage_claims_and_prices,
)
from billing.close.resolve import FOREVER
from billing.close.stage import WHICH, Stage
from billing.rates import AppliedCard
from billing.tenants import AppliedMapping
from ingest import held
from ingest.issued_months import issued_months
from ingest.permissions import ISSUED_MONTH
from warehouse.store import Store, read_sql
from warehouse.turns import Held

log = logging.getLogger(__name__)

MOST_LOOKS = 32
"""How often the months are computed to tell which batches of one sender change them; then all that are left of its."""
MOST_IN_ALL = 4 * MOST_LOOKS
"""The same for all senders together."""


class Pushed(NamedTuple):
    """A pushed batch that no close has read."""

    batch: int
    sender: str


@dataclass(frozen=True)
class IssuedMonths:
    """spans: [start, end) of each in ms since the epoch.   minimum_ms: sessions that were shorter are charged as that
    long, so that going on later changes the month in which one had ended; 0: they are not.

    reach_ms: how long before a month what its sessions held counts for it, too (RateCard.reach_hours).
    """

    spans: tuple[tuple[int, int], ...]
    minimum_ms: int
    reach_ms: int

    @property
    def until(self) -> datetime:
        """The end of the last one's last hour."""
        last = max(end for _, end in self.spans)
        return datetime.fromtimestamp(-(-last // HOUR_MS) * 3600, UTC)

    def has(self, hour: int) -> bool:
        """Whether one of them is computed from an hour (since the epoch)."""
        return any(self._reaches(hour, span) for span in self.spans)

    def names(self, hours: Collection[int]) -> str:
        """Those that are computed from some of the hours, as 2026-10; all if none is."""
        of_hours = [span for span in self.spans if any(self._reaches(hour, span) for hour in hours)]
        middles = [datetime.fromtimestamp((start + end) / 2000, UTC) for start, end in of_hours or self.spans]
        return ", ".join(f"{middle:%Y-%m}" for middle in middles)

    def _reaches(self, hour: int, span: tuple[int, int]) -> bool:
        return hour * HOUR_MS < span[1] and (hour + 1) * HOUR_MS > span[0] - self.reach_ms

    @property
    def params(self) -> Mapping[str, list[int]]:
        return {"starts_ms": [start for start, _ in self.spans], "ends_ms": [end for _, end in self.spans]}


@dataclass
class Fence:
    """Of one close.   turn: that it has.   harmless: pushed batches that were looked at already, and together change
    nothing beside all that is new and was not pushed (others)."""

    store: Store
    card: AppliedCard | None
    mapping: AppliedMapping | None
    turn: Held
    harmless: set[int] = field(default_factory=set)
    others: set[int] = field(default_factory=set)

    def is_open(self, stage: Stage, dirty: Collection[int], limit: datetime) -> bool:
        """Whether no issued month is another than it was: then there is nothing to take back."""
        months = self._months()
        return not months.spans or self._is_same(stage, months, dirty, limit)

    def _months(self) -> IssuedMonths:
        rules = self.card.card if self.card else None
        minimum_ms, reach_ms = (1000 * rules.longest_minimum_seconds, HOUR_MS * rules.reach_hours) if rules else (0, 0)
        return IssuedMonths(issued_months(self.store), minimum_ms, reach_ms)

    def _is_same(self, stage: Stage, months: IssuedMonths, dirty: Collection[int], limit: datetime) -> bool:
        return (
            limit >= months.until
            and not any(map(months.has, dirty))
            and _sessions(self.store, months, stage) == _sessions(self.store, months, None)
        )

    def take_back(self, stage: Stage, dirty: Collection[int], limit: datetime) -> int | None:
        """Lets the pushed rows wait that would change an issued month, and takes them out of the facts. Answers how
        many there were, the facts being others now; None: none would. A batch of which some rows may be harmless is
        divided: after a 0 the same question has another answer.

        stage: of a close that has named no facts yet.   dirty: the hours (since the epoch) that it would compute again.
        limit: before which; what it reads is read for good, also what changes later hours.
        """
        months = self._months()
        if not months.spans or self._is_same(stage, months, dirty, limit):
            return None
        batches = [Pushed(**row) for row in self.store.rows(read_sql(__file__, "pushed"), stage.names("fresh"))]
        every = {one.batch for one in batches}
        fresh = self.store.rows("SELECT batch FROM {fresh:Identifier}", stage.names("fresh"))
        others = {row["batch"] for row in fresh} - every
        harmless = self.harmless & every if others == self.others else set()
        new = [one for one in batches if one.batch not in harmless]
        if not new:
            return None
        look = _Look(self.store, stage, months, limit, self.card, self.mapping)
        with look.without(every) as base:
            found = movers(new, lambda some: look.differs(base, every - harmless - set(some)))
        self.harmless, self.others = every - set(found), others
        if not found:
            return None
        names = months.names(dirty)
        effects = dict.fromkeys(found, f"would change {names}, which is issued")
        rows = held.take_back(self.store, effects, ISSUED_MONTH, self.turn)
        if rows:
            log.warning(
                "close: %s pushed rows would change %s, which is issued; they are held for approval", rows, names
            )
        return rows


@dataclass
class _View:
    """The books of the issued months, by some of the facts.   fingerprints: of entries, for the hours that were
    computed."""

    stage: Stage
    hours: Mapping[int, Hour]
    sessions: int
    fingerprints: dict[int, int] = field(default_factory=dict)


@dataclass
class _Look:
    """Computes issued months by some of the facts; publishes nothing.   stage, limit: of the close that asks."""

    store: Store
    stage: Stage
    months: IssuedMonths
    limit: datetime
    card: AppliedCard | None
    mapping: AppliedMapping | None
    looks: int = 0

    @contextmanager
    def without(self, batches: Collection[int]) -> Iterator[_View]:
        if not batches and self.limit >= self.months.until:
            yield self._view(self.stage, self.limit)  # as the close has it
            return
        self.looks += 1
        stage = Stage(self.stage.run, f"look{self.looks}_")
        try:
            stage_facts_without(self.store, stage, self.stage, batches)
            stage_claims_and_prices(self.store, stage, self.months.until, self.card, self.mapping)
            yield self._view(stage, self.months.until)
        finally:
            drop_stage(self.store, stage)

    def _view(self, stage: Stage, limit: datetime) -> _View:
        hours = hours_before(self.store, stage, limit, self.card)
        kept = {hour.hour: hour for hour in hours if self.months.has(hour.hour)}
        return _View(stage, kept, _sessions(self.store, self.months, stage))

    def differs(self, base: _View, without: Collection[int]) -> bool:
        """Whether the months are others with all facts but these than they are in the view."""
        with self.without(without) as other:
            if base.sessions != other.sessions:
                return True
            both = {hour: (base.hours.get(hour), other.hours.get(hour)) for hour in base.hours.keys() | other.hours}
            unlike = {hour for hour, (one, two) in both.items() if not one or not two or one.inputs != two.inputs}
            return self._fingerprints(base, unlike) != self._fingerprints(other, unlike)

    def _fingerprints(self, view: _View, hours: Collection[int]) -> dict[int, int]:
        settled = view.stage.names("settled")
        new = [view.hours[hour] for hour in sorted(hours) if hour in view.hours and hour not in view.fingerprints]
        for portion in portions(new):
            view.fingerprints.update(dict.fromkeys((hour.hour for hour in portion), 0))
            with attributed(self.store, view.stage, portion, self.card) as (stage, energy):
                for table in ("entries", "energy") if energy else ("entries",):
                    asked = {**stage.names(table), **settled, **self.months.params, "reach_ms": self.months.reach_ms}
                    for row in self.store.rows(read_sql(__file__, f"issued_{table}"), asked):
                        view.fingerprints[row["hour"]] = (view.fingerprints[row["hour"]] + row["content"]) % 2**64
        return {hour: found for hour in hours if (found := view.fingerprints.get(hour, 0))}


def _sessions(store: Store, months: IssuedMonths, stage: Stage | None) -> int:
    """Fingerprint of the short sessions that ended in the months. stage: with whose claims; None: the last close's."""
    if not months.minimum_ms:
        return 0
    published = read_sql(__file__, "published_claims")
    of_alive = read_sql(__file__, "claims_of_alive", which=WHICH, published=published)
    claims = published if stage is None else of_alive if stage.of_alive else SETTLED
    statement = read_sql(__file__, "issued_sessions", claims=claims)
    names = {} if stage is None else stage.names("settled", "alive")
    return int(store.value(statement, {**names, **months.params, "minimum_ms": months.minimum_ms, "forever": FOREVER}))


SETTLED = "SELECT cluster, allocation_id, start_ms, end_ms FROM {settled:Identifier}"
"""The claims of a close."""


def movers(batches: Sequence[Pushed], moves: Callable[[Collection[int]], bool]) -> list[int]:
    """The batches without which the others change nothing. moves: whether a set of batches, together, changes
    anything."""
    kept: list[int] = []
    found: list[int] = []
    looks: Counter[str | None] = Counter()
    ordered = sorted(batches, key=lambda one: (one.sender, one.batch))
    parts = [[list(of_sender) for _, of_sender in groupby(ordered, key=lambda one: one.sender)]] if batches else []
    while parts:
        senders = parts.pop()
        if looks.total() > MOST_IN_ALL:
            senders, parts = [*senders, *(one for part in parts for one in part)], []
        batches_of = [one.batch for of_sender in senders for one in of_sender]
        alone = senders[0][0].sender if len(senders) == 1 else None
        looks[alone] += 1
        if not moves([*kept, *batches_of]):
            kept += batches_of
        elif len(batches_of) == 1 or (alone is not None and looks[alone] > MOST_LOOKS) or looks.total() > MOST_IN_ALL:
            found += batches_of
        elif alone is not None:
            half = len(batches_of) // 2
            parts += [[senders[0][half:]], [senders[0][:half]]]
        else:
            half = len(senders) // 2
            parts += [senders[half:], senders[:half]]
    return found
