"""What a receiver let through, and would change an issued month, a close lets wait for a person; and nothing else."""

from __future__ import annotations

import contextlib
import itertools
import random
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from billing.close import close, issued
from billing.close.issued import MOST_IN_ALL, Pushed, movers
from billing.energy.settings import apply_energy_settings, parse_energy_settings
from billing.held import accept, effect, refuse
from billing.invoicing.invoices import draft_all, issue_all
from billing.periods import parse_period
from billing.rates import apply_rate_card, parse_rate_card
from billing.verify import verify
from ingest.batches import assemble
from ingest.held import HeldPush, held_pushes, take_back
from ingest.normalise import normalise
from ingest.pieces import table_pieces
from ingest.write import write
from tests.billing.hand_ledger import at
from tests.draws import seldom
from tests.ingest import issued_fleet
from tests.ingest.issued_fleet import (
    CARD,
    LIVE,
    NODE_WATCH,
    NOW,
    OCTOBER,
    Forged,
    Row,
    device,
    event,
    forged,
    sample,
)
from tests.ingest.pushing import ledger
from tests.stores import emptied, fresh_store
from warehouse.records import RECORD_TYPES
from warehouse.store import Store

pytestmark = seldom(6, "all of issued fence")

NOVEMBER = parse_period("2026-11", "UTC")
MONEY = ("samples", "events", "devices")
UNTIL = NOW - timedelta(hours=2)


@pytest.fixture
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    made = (issued_fleet.closed_fleet, issued_fleet.issue_october)
    with fresh_store(tmp_path_factory.mktemp("store"), *made) as store:
        yield store


def let_through(store: Store, record: str, rows: Sequence[Row], sender: str = "n1", source: str = "push:") -> None:
    """As a receiver writes what it does not doubt."""
    kind = RECORD_TYPES[record]
    names = dict.fromkeys(name for row in rows for name in row)
    columns = {name: [row.get(name) for row in rows] for name in names}
    (piece,) = table_pieces(kind, "test", [pa.table(columns)])
    batch = assemble(kind, source, 1, [normalise(kind, piece, NOW)])
    assert not batch.rejects
    write(store, kind, f"{source}{sender}", batch, sender)


def closed(store: Store) -> int:
    """How many rows were held."""
    return close(store, UNTIL, NOW).held


def used(store: Store, device: str) -> Any:
    """Unit-milliseconds used on a device since the last hours of October."""
    since = "hour >= '2026-10-31 18:00:00' AND device_id = {device:String}"
    return store.value(f"SELECT sum(used_unit_ms) AS used FROM ledger WHERE {since}", {"device": device})


def changes_october(one: Forged) -> bool:
    """Whether it would by itself: what a device was before October is said anew on its first day."""
    early = one.record == "devices" and all(row["ts"] < OCTOBER.start for row in one.rows)
    return one.record in MONEY and not early and one.token != NODE_WATCH


@seldom(6, "every forged push that is let through")
def test_every_forged_push_that_is_let_through_waits_and_what_is_honest_beside_it_counts(fleet: Store) -> None:
    seed, before = random.randrange(10**6), ledger(fleet)
    print(f"seed {seed}")
    # Of anybody, so that where they come from is no matter.
    every = random.Random(seed).sample([one for one in forged() if changes_october(one)], 2)
    for one in every:
        let_through(fleet, one.record, one.rows, f"sender {one.what}")
    live = [sample("g3", "n3", LIVE - timedelta(hours=hour), "lively") for hour in range(4)]
    was = used(fleet, "g3")
    let_through(fleet, "samples", live, "honest")
    rows = closed(fleet)
    assert ledger(fleet) == before
    waits = held_pushes(fleet)
    assert rows == sum(push.rows for push in waits)
    assert {push.reason for push in waits} == {"issued_month"}
    assert {push.detail for push in waits} == {"would change 2026-10, which is issued"}
    assert not any(push.sender == "honest" for push in waits)
    assert used(fleet, "g3") > was
    assert closed(fleet) == 0
    assert verify(fleet).balanced


@contextmanager
def small_fleet(path: Path, events: Sequence[Row], since: str = "2026-10-01 00:00", **card: Any) -> Iterator[Store]:
    """One device and what ran on it in October, which is issued."""
    with fresh_store(path) as store:
        apply_rate_card(store, parse_rate_card(CARD | card), "me", "", at(since))
        let_through(store, "devices", [device("g1", "n1", at(since))], source="file ")
        let_through(store, "events", events, source="file ")
        close(store, at("2026-11-10 00:00"), NOW)
        issue_all(store, parse_period("2026-10", card.get("timezone", "UTC")), NOW)
        yield store


OF_INDIA = "SELECT * EXCEPT run FROM ledger WHERE charge_period_start < '2026-10-31 18:30:00' ORDER BY ALL"


BUSY = [
    event("job", "started", at("2026-10-30 10:00"), device_id="g1", node="n1", tenant="chem", gpus=1.0),
    event("job", "finished", at("2026-10-30 20:00")),
]
CHEAPER = device("g1", "n1", at("2026-10-30 15:00"), model="CHEAP")


def only(store: Store) -> HeldPush:
    (push,) = held_pushes(store)
    return push


@seldom(8, "a yes")
def test_a_yes_makes_it_a_correction_and_a_no_keeps_it_out(tmp_path: Path) -> None:
    with small_fleet(tmp_path, BUSY, "2026-10-29 00:00") as store:
        before = ledger(store)
        let_through(store, "devices", [CHEAPER])
        # What a close reads is read for good, and also of hours that it leaves to a later one.
        assert close(store, at("2026-10-15 00:00"), NOW).held == 1
        refuse(store, only(store).id, NOW, "fin", "no such card")
        assert closed(store) == 0
        assert ledger(store) == before
        # Of a batch about many, as the samples of many agents are written together, the one alone waits.
        live = [device(f"g{number}", "n1", LIVE - timedelta(hours=2)) for number in range(2, 5)]
        let_through(store, "devices", [*live, CHEAPER], "n1, n2")
        assert closed(store) == 1
        assert (ledger(store), only(store).subject) == (before, "c1/g1")
        assert store.value("SELECT uniqExact(device_id) AS devices FROM ledger") == 4
        # Beside it, what a person's file says of then, and what is set for energy, holds.
        apply_energy_settings(store, parse_energy_settings({"idle_power": [{"watts": "70"}]}), "me", "", NOW)
        let_through(store, "events", [event("job", "finished", at("2026-10-30 18:00"))], source="file ")
        let_through(store, "devices", [CHEAPER | {"units": 2}], "n3")
        assert closed(store) == 1
        reported = [row for row in ledger(store) if row["allocation_id"] == "job"]
        assert max(row["charge_period_end"] for row in reported) == at("2026-10-30 18:00")
        assert {row["model"] for row in reported} == {"H100"}
        accept(store, next(push.id for push in held_pushes(store) if push.sender == "n1, n2"), NOW, "fin", "so it was")
        assert closed(store) == 0, "somebody said yes"
        assert {row["model"] for row in ledger(store)} >= {"CHEAP", "H100"}
        (draft,) = draft_all(store, NOVEMBER)
        assert {line["charge_class"] for line in draft.lines} == {"Correction"}
        assert verify(store).balanced


@seldom(8, "rows that come again")
def test_what_is_decided_of_rows_that_come_again_meanwhile_holds(tmp_path: Path) -> None:
    """An agent that had no answer sends again what waits already, before somebody decides."""
    used_more = sample("g1", "n1", at("2026-10-30 15:00"), "job", 1.0, power_watts=123.456)
    early = [event("job", "finished", at("2026-10-30 12:00"))]
    with small_fleet(tmp_path, BUSY, "2026-10-29 00:00") as store:
        before = ledger(store)
        let_through(store, "samples", [used_more])
        let_through(store, "events", early)
        assert closed(store) == 2
        end = next(push for push in held_pushes(store) if push.record_type == "events")
        shown = effect(store, end).changes
        assert shown
        # As the samples of many agents are written: together.
        let_through(store, "samples", [used_more, sample("g1", "n1", LIVE)], "n1, n2")
        let_through(store, "events", early)
        assert effect(store, end).changes == shown, "that it came again hides nothing"
        for push in held_pushes(store):
            (refuse if push.record_type == "events" else accept)(store, push.id, NOW, "fin", "")
        assert closed(store) == 0
        after = ledger(store)
        assert {row["hour"] for row in after if row not in before} == {at("2026-10-30 14:00")}
        assert sorted(push.state for push in held_pushes(store, "")) == ["accepted", "refused"]
        let_through(store, "events", early, "n2")
        assert closed(store) == 1, "a no to one is none to another"
        assert only(store).sender == "n2"
        assert ledger(store) == after
        assert verify(store).balanced


@seldom(8, "what others tell")
def test_what_others_tell_too_is_not_gone_with_a_push_that_is_taken_back(tmp_path: Path) -> None:
    """An early end that n1 pushed, n2 pushes too, among others, and then a person's file tells."""
    early = event("job", "finished", at("2026-10-30 12:00"))
    others = [event(name, "submitted", LIVE - timedelta(hours=2)) for name in ("one", "another")]
    with small_fleet(tmp_path, BUSY, "2026-10-29 00:00") as store:
        before = ledger(store)
        let_through(store, "events", [early])
        let_through(store, "events", [early, others[0]], "n2")
        assert closed(store) == 2
        assert ledger(store) == before
        first = next(push for push in held_pushes(store) if push.sender == "n1")
        refuse(store, first.id, NOW, "fin", "")
        assert only(store).sender == "n2"
        let_through(store, "events", [early], "n3")
        let_through(store, "events", [early, others[1]], source="file ")
        assert closed(store) == 0, "a person's file says it, so nobody's push changes anything"
        reported = [row for row in ledger(store) if row["allocation_id"] == "job"]
        assert max(row["charge_period_end"] for row in reported) == at("2026-10-30 12:00")


class Killed(BaseException):
    pass


@seldom(6, "killed anywhere while it takes rows back")
def test_killed_anywhere_while_it_takes_rows_back_no_row_is_lost_or_counted_twice(store: Store) -> None:
    """Each statement of it is the last before a kill, once."""
    rows = [device(f"g{number}", "n1", LIVE) for number in range(2)]
    read = "SELECT device_id FROM devices WHERE batch IN (SELECT batch FROM ingest_batches) ORDER BY device_id"
    for dies_after in itertools.count():
        emptied(store)
        let_through(store, "devices", rows)
        left = [dies_after]

        def counted(done: Callable[..., None], left: list[int] = left) -> Callable[..., None]:
            def work(*arguments: Any, **named: Any) -> None:
                if not left[0]:
                    raise Killed
                left[0] -= 1
                done(*arguments, **named)

            return work

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(store, "command", counted(store.command))
            with contextlib.suppress(Killed):
                takes_back(store)
        held = {push.subject.removeprefix("c1/") for push in held_pushes(store)}
        kept = {row["device_id"] for row in store.rows(read)} | held
        assert kept == {"g0", "g1"}, dies_after
        for _ in range(2):
            takes_back(store)
        assert store.rows(read) == []
        assert {push.subject: push.rows for push in held_pushes(store)} == {"c1/g0": 1, "c1/g1": 1}
        if left[0]:
            return


def takes_back(store: Store) -> None:
    batches = [row["batch"] for row in store.rows("SELECT DISTINCT batch FROM ingest_batches")]
    take_back(store, dict.fromkeys(batches, "would change it"), "issued_month")


def test_a_short_session_that_goes_on_waits_where_there_is_a_minimum(tmp_path: Path) -> None:
    held: dict[str, Any] = {"device_id": "g1", "node": "n1", "tenant": "chem", "gpus": 1.0}
    starts = at("2026-10-30 10:00")
    run = [event("short", "started", starts, **held), event("short", "finished", starts + timedelta(seconds=60))]
    again = [event("short", "started", LIVE, **held), event("short", "finished", LIVE + timedelta(minutes=1))]
    with small_fleet(tmp_path, run, minimum_seconds=300) as store:
        let_through(store, "events", again)
        assert closed(store) == 2
        assert only(store).subject == "c1/short"


def test_what_is_of_now_alone_is_not_even_looked_at_twice(fleet: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    looks: list[object] = []
    without = issued._Look.without

    def counted(look: issued._Look, batches: Collection[int]) -> Any:
        looks.append(batches)
        return without(look, batches)

    monkeypatch.setattr(issued._Look, "without", counted)
    let_through(fleet, "samples", [sample("g1", "n1", LIVE)])
    let_through(fleet, "events", [event("new", "started", LIVE, device_id="g1b", node="n1", gpus=1.0)])
    assert closed(fleet) == 0
    assert not looks


@seldom(6, "the hour that two months share may")
def test_the_hour_that_two_months_share_may_change_in_the_later_one(tmp_path: Path) -> None:
    """Midnight in India is at 18:30 UTC."""
    run = [event("job", "started", at("2026-10-31 18:00"), device_id="g1", node="n1", tenant="chem", gpus=1.0)]
    with small_fleet(tmp_path, run, "2026-10-29 00:00", timezone="Asia/Kolkata") as store:
        before = store.rows(OF_INDIA)
        let_through(store, "samples", [sample("g1", "n1", at("2026-10-31 18:50"), "job", interval_seconds=600.0)])
        assert closed(store) == 0
        assert used(store, "g1") > 0
        let_through(store, "samples", [sample("g1", "n1", at("2026-10-31 18:35"), "job", interval_seconds=600.0)])
        assert closed(store) == 1
        assert store.rows(OF_INDIA) == before


@seldom(6, "what a session held before an issued")
def test_what_a_session_held_before_an_issued_month_waits_where_it_counts_there(tmp_path: Path) -> None:
    """September is not issued, and may change; the discount of October goes by what each session held in both."""
    run = [
        event("job", "started", at("2026-09-30 10:00"), device_id="g1", node="n1", tenant="chem", gpus=1.0),
        event("job", "finished", at("2026-10-01 19:30")),
    ]
    long = {"name": "long", "per": "session", "tiers": [{"from": "24", "percent": "50"}]}
    away = device("g1", "n1", at("2026-09-30 11:00"), state="unavailable")
    with small_fleet(tmp_path, run, "2026-09-20 00:00", discounts=[long]) as store:
        let_through(store, "samples", [sample("g1", "n1", at("2026-09-30 15:00"), "job")])
        assert closed(store) == 0, "how it was used is no matter"
        let_through(store, "devices", [away])
        assert closed(store) == 1
        assert only(store).detail == "would change 2026-10, which is issued"
        assert not any(line["charge_class"] for draft in draft_all(store, NOVEMBER) for line in draft.lines)


def test_one_that_moves_something_is_found_among_many_senders_by_few_questions() -> None:
    batches = [Pushed(number, f"n{number % 500}") for number in range(1000)]
    asked: list[int] = []

    def moves(some: Collection[int]) -> bool:
        asked.append(len(some))
        return 637 in some

    assert movers(batches, moves) == [637]
    assert len(asked) <= 1 + 2 * 10 + 1


def test_movers_are_found_whatever_moves() -> None:
    """What is left moves nothing; where each moves by itself, or none does, exactly those are found."""
    seed = random.randrange(10**6)
    print(f"seed {seed}")
    chance = random.Random(seed)
    for _ in range(300):
        size, senders = chance.randint(1, 40), chance.randint(1, 5)
        batches = [Pushed(number, f"s{chance.randrange(senders)}") for number in range(size)]
        guilty = {number for number in range(size) if chance.random() < chance.choice([0, 0.05, 0.3])}
        pairs = [set(chance.sample(range(size), 2)) for _ in range(chance.choice([0, 0, 2])) if size > 1]

        def moves(some: Collection[int], guilty: set[int] = guilty, pairs: list[set[int]] = pairs) -> bool:
            return bool(guilty & set(some)) or any(pair <= set(some) for pair in pairs)

        asked = 0

        def counted(some: Collection[int], moves: Any = moves) -> bool:
            nonlocal asked
            asked += 1
            return bool(moves(some))

        found = set(movers(batches, counted))
        assert not moves({one.batch for one in batches} - found)
        assert asked <= MOST_IN_ALL + 2
        if not pairs and len(guilty) <= 2:
            assert found == guilty
        if not guilty and not pairs:
            assert asked == 1
