"""What is shown beside a held push is what a yes does to the documents, to the cent, under every policy of a card."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest

from billing.close import close
from billing.held import Effect, accept, effect
from billing.invoicing.invoices import draft_all, issue_all
from billing.periods import parse_month
from billing.rates import apply_rate_card, parse_rate_card
from ingest.held import HeldPush, hash_of, held_pushes, hold
from ingest.permissions import Doubt
from tests.billing.facts import SAMPLE, Facts, job, put_all, samples
from tests.billing.hand_ledger import at
from tests.billing.test_issued_fence import let_through
from tests.draws import drawn_seed, seldom
from tests.stores import fresh_store
from warehouse.records import RECORD_TYPES
from warehouse.store import Store

ZONE = "Europe/Berlin"
FEBRUARY, MARCH = (parse_month(month, ZONE) for month in ("2026-02", "2026-03"))
CLOSED, NOW = MARCH.end, at("2026-04-05 00:00")
YESES = int(os.environ.get("GPULEDGER_YESES", "1"))
"""Random held pushes; ad hoc many more."""
SEED = str(drawn_seed(__name__))
CARD: dict[str, Any] = {
    "currency": "EUR",
    "timezone": ZONE,
    "minimum_seconds": 600,
    "rates": [
        {"sku": "big", "match": {"model": "H100"}, "price_per_gpu_hour": "3.07"},
        {"sku": "small", "match": {"model": "L40S"}, "price_per_gpu_hour": "1.13"},
    ],
    "commitments": [{"name": "quota", "tenant": "chem", "sku": "*", "gpus": "0.5", "price_per_gpu_hour": "0.11"}],
    "discounts": [
        {"name": "more", "tiers": [{"above": "1", "percent": "10"}, {"above": "2", "percent": "20"}]},
        {"name": "long", "per": "session", "measure": "hours", "tiers": [{"from": "1", "percent": "60"}]},
    ],
    "components": [
        {"sku": "power", "kind": "energy", "price": "5.00", "pue": "1.2"},
        {"sku": "memory", "kind": "memory", "price": "0.02"},
    ],
    "idle_policy": [{"share": "allocated_cost"}],
    "taxes": [{"name": "VAT", "percent": "19"}],
    "invoice_currencies": [{"tenant": "kyoto", "currency": "JPY"}],
    "exchange_rates": [{"month": f"2026-0{n}", "currency": "JPY", "rate": f"16{n}.5"} for n in (2, 3)],
}
DEVICES = {"g0": "H100", "g1": "H100", "g2": "L40S"}
DAYS = ("2026-02-10", "2026-02-28", "2026-03-10")


def fleet(store: Store) -> None:
    """Three hours of three devices on three days; February is issued, March is closed."""
    apply_rate_card(store, parse_rate_card(CARD), "ann", "first", at("2026-01-01 00:00"))
    facts: Facts = {"devices": [], "events": [], "samples": []}
    for day in DAYS:
        for device, model in DEVICES.items():
            about = {"device_id": device, "model": model, "units": 1, "node": "n1", "pool": "p", "cluster": "c1"}
            spans = ((f"{day} 08:00", "available"), (f"{day} 11:00", "removed"))
            facts["devices"] += [{**about, "ts": at(start), "state": state} for start, state in spans]
        for name, tenant, device, start, end in (
            ("a", "chem", "g0", "08:00", "09:20"), ("b", "phys", "g1", "08:30", "10:45"),
            ("k", "kyoto", "g2", "08:00", "10:10"), ("s", "chem", "g0", "10:00", "10:02"),
            ("t", "phys", "g2", "10:30", "10:32"), ("w", "kyoto", "g0", "10:50", "12:00"),
        ):  # fmt: skip
            span = (f"{day} {start}", f"{day} {end}")
            facts["events"] += job(f"{name}{day}", tenant, device, *span, project="p", cluster="c1")
        reported = samples("g0", f"{day} 08:00", range(60)) + samples("g1", f"{day} 08:30", range(30), 0.25)
        drawn = {"energy_joules": 36e3, "memory_used_bytes": 2**33, "cluster": "c1"}
        facts["samples"] += [{**one, **drawn} for one in reported]
    put_all(store, facts)
    close(store, CLOSED, NOW)
    issue_all(store, FEBRUARY, at("2026-03-05 00:00"))


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with fresh_store(tmp_path, fleet) as opened:
        yield opened


def documented(store: Store) -> dict[tuple[str, str], Decimal]:
    """What the next documents say, by tenant and month: corrections of February, and March itself."""
    found: dict[tuple[str, str], Decimal] = {}
    for one in draft_all(store, MARCH):
        late = [Decimal(line["amount"]) for line in one.lines if line["charge_class"] == "Correction"]
        found[one.tenant, "2026-02"] = sum(late, Decimal(0))
        found[one.tenant, "2026-03"] = one.amount - found[one.tenant, "2026-02"]
    return found


def some_rows(dice: Random, number: int) -> tuple[str, list[dict[str, Any]]]:
    day, device = dice.choice(DAYS), dice.choice(sorted(DEVICES))
    instant = at(f"{day} 08:00") + timedelta(minutes=dice.randrange(1, 178))
    kind = dice.choice(("energy", "use", "samples", "end", "job", "devices"))
    row = {**SAMPLE, "ts": instant, "interval_seconds": 1200.0, "device_id": device, "cluster": "c1", "node": "n1"}
    if kind == "energy":
        return "samples", [{**row, "energy_joules": 7.2e6, "utilization": 1.0}]
    if kind == "use":
        return "samples", [{**row, "utilization": dice.random(), "memory_used_bytes": dice.randrange(2**36)}]
    if kind == "samples":
        return "samples", [{**row, "ts": instant + timedelta(seconds=n), "power_watts": 9e4} for n in range(3)]
    if kind == "end":
        about = {"allocation_id": f"{dice.choice('abk')}{day}", "event": "finished", "cluster": "c1"}
        return "events", [{**about, "ts": instant}]
    if kind == "job":
        tenant = dice.choice(("bio", "chem", "kyoto"))
        end = f"{instant + timedelta(minutes=dice.choice((1, 5, 90))):%Y-%m-%d %H:%M}"
        return "events", job(f"late{number}", tenant, device, f"{instant:%Y-%m-%d %H:%M}", end, cluster="c1")
    about = {"device_id": device, "model": DEVICES[device], "node": "n1", "pool": "p", "cluster": "c1"}
    return "devices", [{**about, "units": 1, "ts": instant, "state": "unavailable"}]


def held(store: Store, record: str, rows: list[dict[str, Any]]) -> HeldPush:
    doubt = Doubt("issued_month", "reaches into a month that is issued")
    kept = [{name: value for name, value in row.items() if value is not None} for row in rows]
    hold(store, "all", RECORD_TYPES[record], "push:all", {hash_of(row): (row, doubt) for row in kept})
    (push,) = held_pushes(store)
    return push


def differences(found: Effect) -> dict[tuple[str, str], Decimal]:
    return {(one.tenant, one.month): one.difference for one in found.changes if one.tenant}


def check(store: Store, record: str, rows: list[dict[str, Any]]) -> dict[tuple[str, str], Decimal]:
    """Shows, accepts and closes; answers what was shown."""
    push = held(store, record, rows)
    before = documented(store)
    shown = differences(effect(store, push))
    accept(store, push.id, NOW, "ann", "seen")
    close(store, CLOSED, NOW)
    after = documented(store)
    keys = {*before, *after}
    moved = {key: after.get(key, Decimal(0)) - before.get(key, Decimal(0)) for key in keys}
    assert {key: one for key, one in shown.items() if one} == {key: one for key, one in moved.items() if one}, rows
    return shown


class Copy:
    """A scratch store that holds nothing."""

    database = "copy"

    @contextmanager
    def scratch(self) -> Iterator[Copy]:
        yield self

    def command(self, sql: str) -> None:
        """Does nothing."""

    def value(self, sql: str) -> int:
        return 1


def test_a_copy_is_not_closed_when_the_time_is_over_and_a_close_stops_when_it_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    module = sys.modules["billing.held.effect"]
    books, begun = SimpleNamespace(closed_until=CLOSED), list[str]()
    left = iter([True, True, False, False])

    def check() -> None:
        if not next(left):
            raise TimeoutError

    def closes(*_: object, on_progress: Callable[[str, int, int], None], **__: object) -> None:
        for step in ("one", "two", "three"):
            begun.append(step)
            on_progress(step, 1, 3)

    monkeypatch.setattr(module, "close", closes)
    monkeypatch.setattr(module, "facts_away", lambda _: None)
    for _ in range(2):
        with pytest.raises(TimeoutError), module._closed(Copy(), Copy(), books, check):
            pytest.fail("nothing is there to be read")
    # The first stopped at its second step, before which the time was looked at twice; the other did not begin.
    assert begun == ["one", "two"]


@pytest.mark.parametrize("steps", [1, 2])
def test_no_month_is_computed_when_the_time_is_over(monkeypatch: pytest.MonkeyPatch, steps: int) -> None:
    """Nor a document, when it is over once the month is there."""
    module = sys.modules["billing.held.effect"]
    done = list[str]()

    def check() -> None:
        if len(done) == steps:
            raise TimeoutError

    def does(what: str, answer: Any) -> Callable[..., Any]:
        return lambda *_: done.append(what) or answer

    platform = dict.fromkeys(("unallocated_cost", "unallocated_gpu_hours"))
    monkeypatch.setattr(module, "books_of", lambda _: SimpleNamespace(card=CARD))
    monkeypatch.setattr(module, "ledger_report", does("report", SimpleNamespace(rows=[], platform=platform)))
    monkeypatch.setattr(module, "month_of", does("month", SimpleNamespace(lines={"chem": ()})))
    monkeypatch.setattr(module, "document_of", does("document", None))
    with pytest.raises(TimeoutError):
        module._owed(Copy(), MARCH, check)
    assert done == ["report", "month"][:steps]


@seldom(8, "energy alone is shown with its tax")
def test_energy_alone_is_shown_with_its_tax(store: Store) -> None:
    drawn = {**SAMPLE, "ts": at("2026-02-10 10:30"), "interval_seconds": 1800.0, "device_id": "g1", "cluster": "c1"}
    push = held(store, "samples", [{**drawn, "node": "n1", "utilization": 1.0, "energy_joules": 7.2e6}])
    # 2 kWh, times 1.2, at 5.00, and 19 % on that. The other tenants owe what they owed.
    assert differences(effect(store, push)) == {("phys", "2026-02"): Decimal("14.28")}
    found = effect(store, push, most_seconds=0)
    assert (found.known, found.changes) == (False, ()), "what takes too long is said to be unknown"
    assert [row["name"] for row in store.rows("SHOW DATABASES") if row["name"].startswith("scratch")] == []


@seldom(6, "energy alone of an issued month waits")
def test_energy_alone_of_an_issued_month_waits_and_of_an_open_one_counts(store: Store) -> None:
    """Samples of which no use is known: the ledger stays as it was."""
    before = store.value("SELECT sum(energy_millijoules) AS energy FROM energy")
    drawn = {**SAMPLE, "state": "unsupported", "utilization": None, "interval_seconds": 1800.0, "energy_joules": 7.2e6}
    for day, kept in (("2026-02-10", 1), ("2026-03-10", 0)):
        place = {"cluster": "c1", "node": "n1", "device_id": "g2"}
        let_through(store, "samples", [{**drawn, **place, "ts": at(f"{day} 09:00")}])
        assert close(store, CLOSED, NOW).held == kept, day
    assert store.value("SELECT sum(energy_millijoules) AS energy FROM energy") - before == 7_200_000_000


@seldom(8, "a short session that goes on later")
def test_a_short_session_that_goes_on_later_is_shown_in_the_month_that_charged_it_the_minimum(store: Store) -> None:
    again = job("t2026-02-28", "phys", "g2", "2026-03-10 10:50", "2026-03-10 10:51", project="p", cluster="c1")
    assert ("phys", "2026-02") in check(store, "events", again)


@seldom(8, "a session that is shorter by time")
def test_a_session_that_is_shorter_by_time_in_which_its_device_was_away_is_shown(store: Store) -> None:
    """It held the device for ten minutes, and lasts 40 minutes in place of 70."""
    end = {"allocation_id": "w2026-02-28", "event": "finished", "cluster": "c1", "ts": at("2026-02-28 11:30")}
    assert check(store, "events", [end])["kyoto", "2026-02"] > 0


@seldom(8, "what is shown is what a yes")
def test_what_is_shown_is_what_a_yes_changes_on_the_documents(store: Store) -> None:
    print(f"GPULEDGER_SEED={SEED}")
    dice = Random(f"held {SEED}")
    for number in range(YESES):
        record, rows = some_rows(dice, number)
        shown = check(store, record, rows)
        print(f"seed {SEED}, {number}: {record} {len(rows)} {shown}")
