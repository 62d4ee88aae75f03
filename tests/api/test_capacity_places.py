"""GPUs that come, go, are replaced and move: how many are there at once, against a count at each instant."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

import pytest

from billing.close import close
from billing.insights.capacity import asking, capacity
from billing.periods import Period
from scheduler.simulate.books.reading import read_workloads
from scheduler.simulate.books.workload import Slot
from tests.draws import keep_seed
from tests.stores import fresh_store
from warehouse.store import Store

MINUTE, HOUR = timedelta(minutes=1), timedelta(hours=1)
BOOKS = datetime(2026, 10, 4, tzinfo=UTC)
PERIOD = (BOOKS + 6 * HOUR, BOOKS + 18 * HOUR)
UNTIL = BOOKS + 20 * HOUR
END = 20 * 60


@dataclass
class Card:
    """spans: (from, to, node, pool, state), in minutes of the books, of the times in which it is there."""

    cluster: str
    name: str
    units: int = 1
    spans: list[tuple[int, int, str, str, str]] = field(default_factory=list)

    def at(self, minute: int) -> tuple[str, str] | None:
        """Node and pool."""
        return next(((node, pool) for since, to, node, pool, _ in self.spans if since <= minute < to), None)

    @property
    def last(self) -> tuple[str, str]:
        """Node and pool in the books of the period, at last."""
        return next(there for minute in range(18 * 60 - 1, -1, -1) if (there := self.at(minute)))


def cards(seed: str) -> list[Card]:
    """Of clusters in each of which a few things happen to some places."""
    found = []
    for number in range(6):
        draw = random.Random(f"{seed}-{number}")
        for place in range(draw.randint(4, 7)):
            found += succession(f"c{number}", f"n{place // 3}", f"{number}-{place}", draw)
    return found


def succession(cluster: str, node: str, name: str, draw: random.Random) -> list[Card]:
    """The cards of a place, one after the other."""
    found: list[Card] = []
    pool, at = draw.choice(("train", "dev")), 0
    units = draw.choice((1, 1, 4))
    if draw.random() < 0.2:
        at = draw.randint(1, 900)
    while at < END and len(found) < 4:
        card = Card(cluster, f"GPU-{name}-{len(found)}", units)
        found.append(card)
        kind = draw.choice(("stays", "stays", "replaced", "replaced later", "away", "moves", "down", "changes pool"))
        ends = END if kind == "stays" else min(END, at + draw.randint(30, 700))
        card.spans.append((at, ends, node, pool, "available"))
        if kind == "away":
            back = ends + draw.choice((5, 20, 90))
            card.spans.append((back, max(back + 1, END), node, pool, "available"))
        elif kind in ("moves", "down", "changes pool") and ends < END:
            other = {"moves": ("n9", pool, "available"), "down": (node, pool, "unavailable")}
            card.spans.append((ends, END, *other.get(kind, (node, "spare", "available"))))
        at = ends + (draw.choice((3, 40, 200)) if kind == "replaced later" else 0)
        if kind not in ("replaced", "replaced later", "moves"):
            break
    return found


def write(store: Store, drawn: Sequence[Card]) -> None:
    rows = []
    for card in drawn:
        for place, (since, to, node, pool, state) in enumerate(card.spans):
            rows.append((since, card, node, pool, state))
            follows = place + 1 < len(card.spans) and card.spans[place + 1][0] == to
            if to < END and not follows:
                rows.append((to, card, node, pool, "removed"))
    values = ", ".join(
        f"('{BOOKS + minute * MINUTE:%Y-%m-%d %H:%M:%S}', '{card.cluster}', '{node}', '{card.name}', 'NVIDIA', 'A100', "
        f"{card.units}, '{pool}', '{state}')"
        for minute, card, node, pool, state in rows
    )
    store.command(
        f"INSERT INTO devices (ts, cluster, node, device_id, vendor, model, units, pool, state) VALUES {values}"
    )


@pytest.fixture(scope="module")
def drawn() -> list[Card]:
    replaced = [
        Card("replaced", f"GPU-{name}", 1, [(since, to, "n0", "train", "available")])
        for name, since, to in (("old", 0, 468), ("new", 468, END), ("other", 0, END))
    ]
    return [*cards(keep_seed()), *replaced]


@pytest.fixture(scope="module")
def books(tmp_path_factory: pytest.TempPathFactory, drawn: Sequence[Card]) -> Iterator[Store]:
    with fresh_store(tmp_path_factory.mktemp("places") / "store") as store:
        write(store, drawn)
        close(store, until=UNTIL, now=UNTIL + HOUR)
        yield store


def most_at_once(drawn: Sequence[Card], first: int, last: int) -> Counter[tuple[str, str]]:
    """By cluster and pool."""
    found: Counter[tuple[str, str]] = Counter()
    for minute in range(first, last):
        found |= Counter((card.cluster, there[1]) for card in drawn if (there := card.at(minute)))
    return found


@pytest.mark.parametrize(("first", "last"), [(6, 18), (0, 20), (9, 10)])
def test_gpus_of_a_line_are_the_most_that_were_there_at_one_instant(
    books: Store, drawn: Sequence[Card], first: int, last: int
) -> None:
    """A card that is replaced, comes back or is moved is no card more."""
    found = capacity(asking(books, Period(BOOKS + first * HOUR, BOOKS + last * HOUR))).groups
    assert {(one.cluster, one.pool): one.gpus for one in found} == dict(most_at_once(drawn, first * 60, last * 60))


def test_a_workload_has_as_many_gpus_of_a_node_as_were_there_at_once(books: Store, drawn: Sequence[Card]) -> None:
    for work in read_workloads(books, *PERIOD, UNTIL):
        ours = [
            card for card in drawn
            if card.cluster == work.group.cluster and any(card.at(minute) for minute in range(360, 1080))
            and card.last[1] == work.group.pool
        ]  # fmt: skip
        expected: Counter[tuple[str, int]] = Counter()
        for minute in range(360, 1080):
            expected |= Counter((card.last[0], card.units) for card in ours if card.at(minute))
        assert Counter((slot.node, slot.units) for slot in work.devices) == expected


def test_a_card_replaced_at_one_instant_is_one_place_that_was_there_all_the_time(books: Store) -> None:
    asked = asking(books, Period(*PERIOD), clusters=["replaced"])
    assert [(one.gpus, one.capacity) for one in capacity(asked).groups] == [(2, 2.0)]
    (work,) = [one for one in read_workloads(books, *PERIOD, UNTIL) if one.group.cluster == "replaced"]
    assert (work.devices, work.partly) == ((Slot("n0"), Slot("n0")), 0)
