"""Retention: what goes and what stays, and that no book and no issued document changes by it."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from billing import audit
from billing.close import close
from billing.invoicing.invoices import issue_all, issued
from billing.invoicing.rederive import rederive
from billing.retention.run import Retention, RetentionError, remove, retention, set_days
from billing.verify import verify
from tests.billing.facts import job, put, samples
from tests.billing.hand_ledger import at
from tests.billing.test_rederive import NOVEMBER, OCTOBER, october_issued, two_jobs
from tests.draws import dice_of, seeds
from tests.stores import fresh_store
from warehouse.store import Store

LATER = datetime.now(UTC) + timedelta(days=40)
"""A day on which all that arrives now is old."""


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    """October is issued; samples of it and of 5 November."""
    with fresh_store(tmp_path, two_jobs, october_issued) as opened:
        put(opened, "samples", samples("g0", "2026-11-05 10:00", range(60)))
        put(opened, "samples", samples("g1", "2026-11-07 10:00", range(60)))
        close(opened, at("2026-11-09 00:00"), at("2026-11-10 00:00"))
        yield opened


def set_to(store: Store, **days: int | None) -> None:
    set_days(store, days, "ann", "room", LATER)


def books(store: Store) -> list[dict[str, Any]]:
    return store.rows("SELECT * FROM ledger ORDER BY ALL")


def days(store: Store) -> list[tuple[str, int]]:
    sql = "SELECT toString(toDate(ts, 'UTC')) AS day, count() AS rows FROM samples GROUP BY day ORDER BY day"
    return [(row["day"], row["rows"]) for row in store.rows(sql)]


def taken(found: Retention) -> list[str]:
    return [f"{day:%m-%d}" for day in found.days]


def test_nothing_goes_until_it_is_set_and_then_nothing_that_an_issued_invoice_rests_on(store: Store) -> None:
    assert taken(retention(store, LATER, even_invoiced=True)) == []
    set_to(store, samples=30)
    before = books(store)
    found = remove(store, "ann", LATER, reason="room")
    assert (taken(found), found.held_back, found.invoices) == (["11-05", "11-07"], 1, ())
    assert days(store) == [("2026-10-05", 180), ("2026-11-05", 1), ("2026-11-07", 1)]
    for one in issued(store):
        answer = rederive(store, str(one.number))
        assert (answer.same, answer.unknown) == (True, "")
    assert close(store, at("2026-11-09 00:00"), at("2026-11-10 00:00"), whole=True).changed == 0
    assert books(store) == before
    assert verify(store).balanced
    assert taken(remove(store, "ann", LATER)) == []


def test_what_an_issued_invoice_rests_on_goes_when_told_and_then_its_check_says_so(store: Store) -> None:
    set_to(store, samples=30)
    found = retention(store, LATER, even_invoiced=True)
    assert (taken(found), found.invoices) == (["10-05", "11-05", "11-07"], ("GL-2026-00001", "GL-2026-00002"))
    assert days(store) == [("2026-10-05", 180), ("2026-11-05", 60), ("2026-11-07", 60)], "a look removes nothing"
    before = books(store)
    remove(store, "ann", LATER, even_invoiced=True)
    answer = rederive(store, "GL-2026-00001")
    assert answer.unknown == f"samples of 2026-10-05 were removed on {LATER:%Y-%m-%d} by ann"
    assert not answer.same and not answer.differences and not answer.chain_failures
    assert close(store, at("2026-11-09 00:00"), at("2026-11-10 00:00"), whole=True).changed == 0
    assert books(store) == before
    assert verify(store).balanced
    (entry,) = audit.history(store, "retention.remove", "samples 2026-10-05")
    assert '"invoices": ["GL-2026-00001", "GL-2026-00002"]' in entry["inputs"]


def test_late_facts_of_a_removed_day_leave_its_hours_as_they_are(store: Store) -> None:
    set_to(store, samples=30)
    remove(store, "ann", LATER)
    before = books(store)
    put(store, "samples", samples("g0", "2026-11-05 10:00", [5], 0.9), source="late")
    put(store, "events", job("more", "bio", "g1", "2026-11-05 10:00", "2026-11-05 10:30"))
    close(store, at("2026-11-09 00:00"), at("2026-11-10 00:00"))
    assert books(store) == before


def test_a_day_with_facts_that_no_close_has_read_stays(store: Store) -> None:
    set_to(store, samples=30)
    put(store, "samples", samples("g1", "2026-11-07 12:00", range(3)), source="late")
    found = remove(store, "ann", LATER)
    assert (taken(found), found.unread) == (["11-05"], at("2026-11-07 12:00"))


def test_a_removal_that_was_killed_between_note_and_deed_is_finished(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_to(store, samples=30)
    record = audit.record

    def killed(*told: Any) -> None:
        record(*told)
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(audit, "record", killed)
        with pytest.raises(KeyboardInterrupt):
            remove(store, "ann", LATER)
    assert days(store)[1:] == [("2026-11-05", 60), ("2026-11-07", 60)]
    assert close(store, at("2026-11-09 00:00"), at("2026-11-10 00:00"), whole=True).changed == 0
    assert taken(remove(store, "ann", LATER)) == ["11-05", "11-07"]
    assert days(store)[1:] == [("2026-11-05", 1), ("2026-11-07", 1)]


def test_signs_of_life_stay_so_that_an_end_that_was_lost_stays_where_it_was(store: Store) -> None:
    """Its own samples stop on the 5th, those of its device go on: so it ended then."""
    start = [
        row for row in job("gone", "bio", "g1", "2026-11-05 09:00", "2026-11-05 10:00") if row["event"] == "started"
    ]
    put(store, "events", start)
    own = [{**row, "workload_id": start[0]["workload_id"]} for row in samples("g1", "2026-11-05 09:00", range(1, 30))]
    put(store, "samples", own, source="own")
    close(store, at("2026-11-09 00:00"), at("2026-11-10 00:00"))
    sql = "SELECT allocation_id, end_at FROM allocations WHERE estimated != ''"
    ended = store.rows(sql)
    assert [row["allocation_id"] for row in ended] == ["gone"]
    set_to(store, samples=30)
    before = books(store)
    assert taken(remove(store, "ann", LATER)) == ["11-05", "11-07"]
    assert close(store, at("2026-11-09 00:00"), at("2026-11-10 00:00"), whole=True).changed == 0
    assert store.rows(sql) == ended
    assert books(store) == before


def interrupted(*_: object) -> None:
    raise KeyboardInterrupt


def test_superseded_entries_go_but_not_those_that_an_issued_document_saw(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(store, "events", job("late", "bio", "g1", "2026-10-07 10:00", "2026-10-07 12:00"))
    close(store, at("2026-11-09 00:00"), at("2026-11-10 00:00"))  # October's entries, which the invoices saw
    put(store, "events", job("late2", "bio", "g1", "2026-11-06 10:00", "2026-11-06 12:00"))
    close(store, at("2026-11-09 00:00"), at("2026-11-10 00:00"))  # November's, which none saw
    set_to(store, superseded=30)
    before = books(store)
    old = "SELECT count() AS n FROM ledger_entries WHERE (hour, run) NOT IN (SELECT hour, run FROM ledger)"
    of_november = f"{old} AND hour >= '2026-11-01 00:00:00'"
    assert (store.value(of_november), store.value(old) > store.value(of_november)) == (4, True)
    with monkeypatch.context() as killed, pytest.raises(KeyboardInterrupt):
        killed.setattr(audit, "record", interrupted)
        remove(store, "ann", LATER)
    assert store.value(of_november) == 4, "nothing goes before it is in the audit"
    found = remove(store, "ann", LATER)
    (superseded,) = [one for one in found.tables if one.name == "superseded"]
    assert superseded.goes_rows == 4
    assert (store.value(of_november), store.value(old)) == (0, 4)
    assert books(store) == before
    assert verify(store).balanced
    assert rederive(store, "GL-2026-00001").same


def test_metrics_and_sums_are_left_to_the_engine(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as killed, pytest.raises(KeyboardInterrupt):
        killed.setattr(audit, "record", interrupted)
        set_to(store, metrics=40)
    assert next(one.days for one in retention(store, LATER).tables if one.name == "metrics") != 40
    set_to(store, metrics=30, sums=60)
    kept = {one.name: one.days for one in retention(store, LATER).tables}
    assert kept == {"samples": None, "sums": 60, "metrics": 30, "findings": 400, "superseded": None}
    assert close(store, at("2026-11-09 00:00"), at("2026-11-10 00:00"), whole=True).changed == 0


@pytest.mark.parametrize(
    ("days", "says"),
    [
        ({"invoices": 30}, "--keep invoices: is no kind of rows. Choose from samples, sums"),
        ({"samples": 1}, "--keep samples=1: is not 2 to 36500 days"),
        ({"metrics": None}, "--keep metrics: the engine needs a number of days"),
    ],
)
def test_what_does_not_fit_is_named(store: Store, days: dict[str, int | None], says: str) -> None:
    with pytest.raises(RetentionError) as caught:
        set_to(store, **days)
    assert str(caught.value).startswith(says)


@pytest.mark.parametrize("seed", seeds("GPULEDGER_RETAINED"))
def test_of_random_months_what_stays_proves_every_invoice_and_no_book_changes(store: Store, seed: int | None) -> None:
    dice = dice_of(seed)
    for number in range(6):
        device, day, hour = dice.choice(["g0", "g1"]), dice.randint(10, 28), dice.randint(0, 22)
        start = f"2026-1{dice.choice('01')}-{day} {hour:02}:00"
        put(store, "samples", samples(device, start, range(dice.randint(1, 90)), dice.random()), source=f"s{number}")
        end = f"{start[:10]} {hour + 1:02}:{dice.randint(0, 59):02}"
        put(store, "events", job(f"r{number}", dice.choice(["chem", "bio"]), device, start, end))
    close(store, at("2026-12-01 00:00"), at("2026-12-02 00:00"))
    if dice.random() < 0.5:
        issue_all(store, NOVEMBER, at("2026-12-02 00:00"))
    set_to(store, samples=30, superseded=30)
    before = books(store)
    proven = {str(one.number): rederive(store, str(one.number)).same for one in issued(store, OCTOBER)}
    remove(store, "ann", LATER)
    assert {number: rederive(store, number).same for number in proven} == proven
    assert all(proven.values())
    close(store, at("2026-12-01 00:00"), at("2026-12-02 00:00"), whole=True)
    assert books(store) == before
    found = remove(store, "ann", LATER, even_invoiced=True)
    for one in issued(store):
        answer = rederive(store, str(one.number))
        assert answer.differences == () and bool(answer.unknown) == (str(one.number) in found.invoices)
    close(store, at("2026-12-01 00:00"), at("2026-12-02 00:00"), whole=True)
    assert books(store) == before
    assert verify(store).balanced
