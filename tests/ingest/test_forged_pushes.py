"""A forged push of every kind leaves an issued month's ledger as it was until somebody agrees; then it does what it was
said to do. Real HTTP, the real engine, real closes."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Iterable, Iterator
from datetime import timedelta
from decimal import Decimal

import pytest

from billing import audit
from billing.held import accept, refuse
from billing.invoicing.invoices import draft_all, issued, void
from billing.ledger_report import ledger_report
from billing.periods import parse_period
from billing.senders import sender_days
from billing.verify import verify
from ingest.errors import IngestError
from ingest.held import HeldPush, held_push, held_pushes
from ingest.judge import REFUSALS_SECONDS
from ingest.wire import plain
from tests.draws import keep_seed, seldom
from tests.ingest import issued_fleet
from tests.ingest.issued_fleet import (
    LIVE,
    MID_OCTOBER,
    NOW,
    OCTOBER,
    REFUSED,
    WATCH,
    Forged,
    closed,
    device,
    event,
    forged,
    honest,
    sample,
)
from tests.ingest.pushing import ledger, push
from tests.ingest.receiving import Served, receiving
from tests.stores import fresh_store
from warehouse.store import Store

NOVEMBER = parse_period("2026-11", "UTC")


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    with fresh_store(tmp_path_factory.mktemp("store"), issued_fleet.closed_fleet, issued_fleet.issue_october) as store:
        yield store


@pytest.fixture(scope="module")
def served(fleet: Store, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    tokens = tmp_path_factory.mktemp("tokens") / "senders.yaml"
    tokens.write_text(issued_fleet.SENDERS)
    with receiving(fleet, tokens, now=lambda: NOW) as running:
        yield running


def costs(store: Store) -> dict[str, Decimal]:
    return {row["tenant"]: row["billed_cost"] for row in ledger_report(store, OCTOBER, ("tenant",)).rows}


def only(store: Store, subject: str, reason: str = "issued_month") -> HeldPush:
    (push,) = [one for one in held_pushes(store) if (one.subject, one.reason, one.sender) == (subject, reason, "watch")]
    return push


def together(some: Iterable[Forged], most: int) -> Iterator[Forged]:
    """What a sender says of a record type, up to so many of these in one push."""
    said: dict[tuple[str, str], list[Forged]] = {}
    for one in some:
        said.setdefault((one.token, one.record), []).append(one)
    for (token, record), left in said.items():
        while left:
            part, left = left[:most], left[most:]
            yield Forged("; ".join(one.what for one in part), token, record, [row for one in part for row in one.rows])


@seldom(5, "forged pushes")
def test_every_forged_push_leaves_the_issued_month_as_it_was(fleet: Store, served: Served) -> None:
    before = ledger(fleet)
    assert before
    chance = random.Random(f"{keep_seed()} forged")
    shuffled = chance.sample([*forged()], len([*forged()]))
    for form, one in zip(["lines", "json", "gzip"] * 100, together(shuffled, 4), strict=False):
        answer = push(served, one, form)
        assert answer.status_code == 200, (one.what, answer.text)
        report = answer.json()
        assert report["stored"] == 0, (one.what, report)
        assert sum(report["held"].values()) + sum(report["quarantined"].values()) == len(one.rows), one.what
        if form == "gzip":  # Sent again it is not held twice, whatever its form.
            waits = sum(one.rows for one in held_pushes(fleet))
            assert push(served, one, "json").json()["held"] == report["held"], one.what
            assert sum(one.rows for one in held_pushes(fleet)) == waits
    closed(fleet)
    assert ledger(fleet) == before
    assert verify(fleet).balanced
    november = draft_all(fleet, NOVEMBER)
    assert not [line for one in november for line in one.lines if line["charge_class"] == "Correction"]


def test_what_is_said_every_day_is_stored_as_it_comes(fleet: Store, served: Served) -> None:
    before = ledger(fleet)
    for one in honest():
        report = push(served, one).json()
        assert report["stored"] == len(one.rows), (one.record, one.rows[0], report)
    assert closed(fleet) == 0
    assert ledger(fleet) == before


def test_good_rows_beside_forged_ones_are_stored(fleet: Store, served: Served) -> None:
    good = sample("g1", "n1", LIVE + timedelta(seconds=7), interval_seconds=7.0)
    foreign, old = sample("g2", "n2", LIVE), sample("g1", "n1", MID_OCTOBER + timedelta(minutes=7), "whole")
    mixed = Forged("", issued_fleet.AGENT, "samples", [foreign, good, old])
    report = push(served, mixed).json()
    assert (report["stored"], report["quarantined"], report["held"]) == (1, {"out_of_place": 1}, {"beyond_window": 1})
    kept = fleet.rows("SELECT row, source FROM quarantine WHERE reason = 'out_of_place' AND record_type = 'samples'"
                      " AND JSONExtractString(raw, 'ts') = {ts:String}", {"ts": plain(foreign)["ts"]})  # fmt: skip
    assert kept == [{"row": 1, "source": "push:n1"}]


def test_a_replay_of_what_the_store_has_changes_nothing_and_waits_for_nobody(fleet: Store, served: Served) -> None:
    for record, rows in (("samples", list(issued_fleet.samples())), ("events", list(issued_fleet.events()))):
        known = Forged("", issued_fleet.ANYBODY, record, [row for row in rows if row["ts"] < OCTOBER.end])
        batches = fleet.value(f"SELECT count() FROM {record}")
        assert push(served, known).json()["stored"] == len(known.rows)
        assert fleet.value(f"SELECT count() FROM {record}") == batches, "nothing is written a second time"


def test_a_sender_whose_past_is_refused_has_nothing_held(fleet: Store, served: Served) -> None:
    waits = len(held_pushes(fleet))
    report = push(served, Forged("", REFUSED, "devices", [device("g2", "n2", MID_OCTOBER, units=3)])).json()
    assert (report["quarantined"], report["held"], report["stored"]) == ({"issued_month": 1}, {}, 0)
    assert len(held_pushes(fleet)) == waits


def interrupted(*_: object) -> None:
    raise KeyboardInterrupt


def test_a_yes_does_what_was_promised_and_becomes_a_correction(
    fleet: Store, served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    cheap = Forged("", WATCH, "devices", [device("g3", "n3", MID_OCTOBER, model="CHEAP")])
    assert push(served, cheap).json()["held"] == {"issued_month": 1}
    waits, before = only(fleet, "c1/g3"), costs(fleet)
    with monkeypatch.context() as killed, pytest.raises(KeyboardInterrupt):
        killed.setattr(audit, "record", interrupted)
        accept(fleet, waits.id, NOW, "ada", "the card was wrong")
    assert held_push(fleet, waits.id).state == "held", "nothing is decided before it is in the audit"
    done = accept(fleet, waits.id, NOW, "ada", "the card was wrong")
    assert (done.state, done.decided_by, done.why) == ("accepted", "ada", "the card was wrong")
    closed(fleet)
    after = costs(fleet)
    difference = round(after["bio"], 2) - round(before["bio"], 2)
    assert (after | {"bio": before["bio"]}, difference < -500) == (before, True)
    (bio,) = draft_all(fleet, NOVEMBER, "bio")
    corrections = [line for line in bio.lines if line["charge_class"] == "Correction"]
    assert sum(Decimal(line["amount"]) for line in corrections) == difference
    (entry,) = [one for one in audit.history(fleet, "held") if one["object"] == waits.id]
    assert (entry["actor"], entry["action"], entry["reason"]) == ("ada", "held.accept", "the card was wrong")
    assert json.loads(entry["inputs"])["sender"] == "watch"
    assert fleet.value("SELECT count() FROM ingest_batches WHERE sender = 'watch' AND source LIKE 'held push %'") == 1
    assert accept(fleet, waits.id, NOW, "ada") == done, "said again it changes nothing"
    again = push(served, cheap).json()
    assert (again["stored"], again["held"]) == (1, {})


def test_after_a_no_the_same_rows_are_refused_and_nothing_else_happens(fleet: Store, served: Served) -> None:
    late = Forged("", WATCH, "events", [event("whole", "failed", MID_OCTOBER)])
    push(served, late)
    (waits,) = [one for one in held_pushes(fleet) if one.subject == "c1/whole" and one.sender == "watch"]
    before = ledger(fleet)
    assert refuse(fleet, waits.id, NOW, "ada", "nonsense").state == "refused"
    report = push(served, late).json()
    assert (report["stored"], report["held"], report["refused"], report["quarantined"]) == (0, {}, 1, {})
    with pytest.raises(IngestError, match="was refused by ada"):
        accept(fleet, waits.id, NOW, "bob")
    # A no is a no when there is nothing left to hold the row for, too.
    for one in issued(fleet, OCTOBER):
        void(fleet, one.number or "", NOW, "ada", "to be issued again")
    time.sleep(REFUSALS_SECONDS)
    both = Forged("", WATCH, "events", [event("whole", "failed", MID_OCTOBER), event("nothing", "submitted", NOW)])
    report = push(served, both).json()
    assert (report["stored"], report["held"], report["refused"]) == (1, {}, 1)
    closed(fleet)
    assert ledger(fleet) == before
    issued_fleet.issue_october(fleet)


def test_nobody_agrees_to_rows_that_they_have_not_seen(fleet: Store, served: Served) -> None:
    one = Forged("", WATCH, "events", [event("other", "cancelled", MID_OCTOBER)])
    more = Forged("", WATCH, "events", [event("other", "failed", MID_OCTOBER)])
    push(served, one)
    (shown,) = [push for push in held_pushes(fleet) if push.subject == "c1/other" and push.sender == "watch"]
    push(served, Forged("", WATCH, "events", [event("other", "finished", MID_OCTOBER + timedelta(hours=1))]))
    push(served, more)
    with pytest.raises(IngestError, match="has other rows now"):
        accept(fleet, shown.id, NOW, "ada")
    assert held_push(fleet, only(fleet, "c1/other").id).rows > shown.rows


@seldom(6, "the day of a sender and what")
def test_the_day_of_a_sender_and_what_it_changed_are_on_record(fleet: Store, served: Served) -> None:
    """Whatever the tests before did: they may run elsewhere."""
    late = Forged("", WATCH, "events", [event("other", "rejected", MID_OCTOBER)])
    for one in [
        *together((one for one in forged() if one.record in ("samples", "events")), 100),
        *honest(),
        Forged("", issued_fleet.ANYBODY, "events", [event("pod", "cancelled", NOW)]),
        late,
    ]:
        push(served, one)
    for one in [one for one in held_pushes(fleet) if (one.subject, one.sender) == ("c1/other", "watch")]:
        refuse(fleet, one.id, NOW, "ada", "nonsense")
    push(served, late)
    served.receiver.tally.write()
    rows = {(row["sender"], row["record_type"], row["outcome"]): row for row in sender_days(fleet, NOW, 1)}
    assert rows["n1", "samples", "out_of_place"]["rows"] > 1
    assert rows["watch", "events", "held"]["rows"] > 10
    assert rows["watch", "events", "refused"]["rows"] >= 1
    days = {entry["actor"]: json.loads(entry["inputs"]) for entry in audit.history(fleet, "push.day")}
    assert days["sender watch"]["refused events"] >= 1
    actions = {(entry["actor"], entry["action"], entry["object"]) for entry in audit.history(fleet, "push")}
    assert ("sender n1", "push.inventory", "c1/g1c") in actions
    assert ("sender watch", "push.inventory", "c1/g2") in actions
    assert ("sender anybody", "push.ended", "c1/pod") in actions
    assert ("sender watch", "push.ended", "c1/today") not in actions, "it had begun it itself"
    assert "sender watch" in {actor for actor, action, _ in actions if action == "push.held"}
