"""Invoices from raw facts, through a real close: explained to the hour, and computed again from their cut-offs."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path

import pytest

from billing.accounts.prepaid import Grant, add_grant, revoke_grant
from billing.close import close
from billing.documents.page import page_of
from billing.invoicing.documents import Invoice
from billing.invoicing.explain import explain
from billing.invoicing.invoices import InvoiceError, issue_all, issued
from billing.invoicing.month import ASSUMED, ESTIMATED
from billing.invoicing.rederive import as_then, rederive
from billing.periods import parse_period
from billing.rates import apply_rate_card, parse_rate_card
from tests.billing.facts import devices, job, put, samples
from tests.billing.hand_ledger import at
from tests.draws import drawn, seldom
from tests.stores import fresh_store
from warehouse.instants import rfc3339
from warehouse.store import Store

OCTOBER, NOVEMBER = (parse_period(month, "UTC") for month in ("2026-10", "2026-11"))


def two_jobs(opened: Store) -> None:
    """Two jobs of two tenants in October, metered, with a discount and a tax, of which phys has paid two euros before;
    one more hour of chem in November."""
    card = {
        "currency": "EUR",
        "minimum_seconds": 60,
        "rates": [
            {"sku": "h100", "price_per_gpu_hour": "2.00"},
            {"sku": "their-own", "match": {"tenant": "phys"}, "price_per_gpu_hour": "2.00"},
        ],
        "discounts": [{"name": "tenth", "percent": "10"}],
        "taxes": [{"name": "VAT", "percent": "19"}],
    }
    apply_rate_card(opened, parse_rate_card(card), "me", "", at("2026-10-01 00:00"))
    put(opened, "devices", devices("2026-10-01 00:00", "g0", "g1"))
    put(opened, "events", job("a", "chem", "g0", "2026-10-05 10:00", "2026-10-05 13:30"))
    put(opened, "events", job("b", "phys", "g1", "2026-10-05 10:00", "2026-10-05 11:00"))
    put(opened, "events", job("s", "chem", "g1", "2026-10-06 10:00:00", "2026-10-06 10:00:20"))
    put(opened, "events", job("n", "chem", "g0", "2026-11-05 10:00", "2026-11-05 11:00"))
    put(opened, "samples", samples("g0", "2026-10-05 10:00", range(180)))
    held = {"tenant": "phys", "amount": Decimal("1.00"), "currency": "EUR", "reason": "paid before"}
    for name, expires in (("soon", "2026-12-31 00:00"), ("late", "2027-12-31 00:00")):
        grant = Grant(name, **held, starts_at=at("2026-10-01 00:00"), expires_at=at(expires))
        add_grant(opened, grant, at("2026-10-01 00:00"))


def october_issued(opened: Store) -> None:
    """GL-2026-00001 is chem's, GL-2026-00002 phys's."""
    close(opened, NOVEMBER.start, at("2026-11-10 00:00"))
    issue_all(opened, OCTOBER, at("2026-11-10 00:00"))


@pytest.fixture
def open_month(tmp_path: Path) -> Iterator[Store]:
    """The facts alone: nothing is closed."""
    with fresh_store(tmp_path, two_jobs) as opened:
        yield opened


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with fresh_store(tmp_path, two_jobs, october_issued) as opened:
        yield opened


def test_an_invoice_follows_from_the_facts_of_its_time_and_one_that_was_tampered_with_is_found_out(
    store: Store,
) -> None:
    (chem,) = issued(store, number="GL-2026-00001")
    # 3.5 h and 20 s, stretched to 60 s: 7.00 + 0.0333..; a tenth off the usage of 7.0111.., 19 % on that.
    assert [(line["kind"], line["amount"]) for line in chem.lines] == [
        ("usage", "7.01"), ("minimum", "0.02"), ("discount", "-0.70"), ("tax", "1.20"),
    ]  # fmt: skip
    store.command(
        'ALTER TABLE invoices UPDATE document = replaceOne(document, \'"amount":"7.01"\', \'"amount":"6.01"\') '
        "WHERE number = 'GL-2026-00001' SETTINGS mutations_sync = 2"
    )
    answer = rederive(store, "GL-2026-00001")
    (difference,) = answer.differences
    assert (difference.where, difference.stored, difference.computed) == ("lines[0].amount", "6.01", "7.01")
    assert answer.hours > 0
    assert [row["name"] for row in store.rows("SHOW DATABASES") if row["name"].startswith("scratch")] == []


def why(store: Store, invoice: Invoice) -> list[tuple[str, str, str, Decimal, Decimal, Decimal]]:
    """What made the correction of its usage: allocation, hours, GPU-hours that were billed and that are due, cost."""
    (number,) = [
        line["line"] for line in invoice.lines if line["charge_class"] == "Correction" and line["kind"] == "usage"
    ]
    return [
        (
            row["allocation"],
            f"{row['from']:%Y-%m-%dT%H:%M}",
            f"{row['to']:%Y-%m-%dT%H:%M}",
            row["billed_gpu_hours"],
            row["due_gpu_hours"],
            row["cost"],
        )
        for row in explain(store, invoice, number).rows
    ]


@seldom(6, "facts and closes that came later change")
def test_facts_and_closes_that_came_later_change_nothing_of_the_answer(store: Store) -> None:
    """November is closed, then late jobs of October come and are billed with it; then more, of both months."""
    november, december = (parse_period(month, "UTC") for month in ("2026-11", "2026-12"))
    close(store, december.start, at("2026-12-02 00:00"))
    put(store, "samples", samples("g1", "2026-10-05 10:00", range(60)))
    for name, tenant, day in (("late", "bio", 7), ("its-own", "chem", 8)):
        put(store, "events", job(name, tenant, "g1", f"2026-10-0{day} 10:00", f"2026-10-0{day} 12:00"))
    close(store, november.start, at("2026-12-02 00:00"))  # October alone
    bio, chem = issue_all(store, NOVEMBER, at("2026-12-02 00:00"))
    assert (bio.tenant, bio.totals["net"], chem.totals["net"]) == ("bio", "3.60", "5.40")
    assert [line["charge_class"] for line in chem.lines].count("Correction") == 3
    assert chem.document["corrected_months"] == ["2026-10"]
    assert why(store, chem) == [("its-own", "2026-10-08T10:00", "2026-10-08T12:00", 0, 2, 4)]
    assert why(store, bio) == [("late", "2026-10-07T10:00", "2026-10-07T12:00", 0, 2, 4)]
    (said,) = [note for note in page_of(bio).notes if note.startswith("Why October 2026 is corrected")]
    seen = store.value("SELECT max(ingest_cutoff) AS at FROM close_runs")
    assert [change["closed_at"] for change in bio.document["changes"]] == [rfc3339(seen)]
    changed = "from 7 October 2026, 10:00 to 7 October 2026, 12:00 the ledger has other hours than were billed for late"
    assert f"{changed} (+2.00 GPU-hours). Closed with the facts until " in said
    put(store, "events", job("open", "chem", "g1", "2026-11-07 10:00", "2026-11-07 12:00"))
    put(store, "events", job("later", "chem", "g1", "2026-10-09 10:00", "2026-10-09 12:00"))
    close(store, december.end, at("2027-01-02 00:00"))
    numbers = drawn(["GL-2026-00001", str(bio.number), str(chem.number)], 2 / 3)
    assert {number: rederive(store, number).differences for number in numbers} == dict.fromkeys(numbers, ())


@seldom(6, "a session reported as ended")
def test_a_session_reported_as_ended_before_the_month_does_not_change_the_answer(open_month: Store) -> None:
    """Its hours of the month before counted towards a discount's tier, and are not in the books any more; nor are the
    hours whose energy was billed."""
    card = {
        "currency": "EUR",
        "rates": [{"sku": "h100", "price_per_gpu_hour": "2.00"}],
        "components": [{"sku": "power", "kind": "energy", "price": "0.50", "pue": "1.2"}],
        "discounts": [
            {"name": "long", "per": "session", "measure": "gpu_hours", "tiers": [{"from": "3", "percent": "50"}]}
        ],
    }
    apply_rate_card(open_month, parse_rate_card(card), "me", "", at("2026-10-02 00:00"))
    put(open_month, "events", job("night", "bio", "g1", "2026-10-31 20:00", "2026-11-01 02:00"))
    readings = [{**one, "power_watts": 500.0} for one in samples("g1", "2026-11-01 00:00", range(60))]
    put(open_month, "samples", readings)
    close(open_month, NOVEMBER.end, at("2026-12-02 00:00"))
    bio, *_ = issue_all(open_month, NOVEMBER, at("2026-12-02 00:00"))
    # 500 W for an hour are 0.5 kWh, with PUE 0.6; 0.6 x 0.50.
    assert [(line["kind"], line["amount"]) for line in bio.lines] == [
        ("usage", "4.00"), ("energy", "0.30"), ("discount", "-2.00"),
    ]  # fmt: skip
    (energy,) = [line for line in bio.lines if line["kind"] == "energy"]
    assert (energy["quantity"], energy["unit"]) == ("0.600000000", "kWh")
    end = {"allocation_id": "night", "tenant": "bio", "workload_id": "night", "event": "finished", "device_id": ""}
    put(open_month, "events", [{**end, "ts": at("2026-10-31 21:00")}])
    close(open_month, NOVEMBER.end, at("2026-12-05 00:00"))
    assert rederive(open_month, str(bio.number)).differences == ()


def test_facts_that_were_sent_again_in_other_batches_came_when_they_came_first(store: Store) -> None:
    put(store, "devices", devices("2026-10-01 00:00", "g1", "g2", "g0"))
    again = job("a", "chem", "g0", "2026-10-05 10:00", "2026-10-05 13:30")
    put(store, "events", [*again, *job("z", "bio", "g2", "2026-11-06 10:00", "2026-11-06 11:00")])
    put(store, "samples", samples("g0", "2026-10-05 10:00", range(200)))
    for table in ("devices", "events", "samples"):
        store.command(f"OPTIMIZE TABLE {table} FINAL")
    assert store.value("SELECT uniqExact(batch) AS n FROM samples") == 2, "the twenty new minutes are stored"
    assert rederive(store, "GL-2026-00001").differences == ()


def test_an_invoice_of_which_the_facts_make_none_is_found_out(store: Store) -> None:
    store.command("ALTER TABLE events DELETE WHERE tenant = 'phys' SETTINGS mutations_sync = 1")
    (found,) = rederive(store, "GL-2026-00002").differences
    assert (found.where, found.stored) == ("the document", "issued")
    assert "has no allocations in 2026-10" in str(found.computed)


def test_a_grant_that_was_revoked_later_was_drawn_on_in_the_order_of_its_time(store: Store) -> None:
    (phys,) = issued(store, number="GL-2026-00002")
    assert [draw["grant"] for draw in phys.document["prepaid_draws"]] == ["soon", "late"]
    revoke_grant(store, "late", "me", "sent back", at("2026-11-20 00:00"))
    store.command("OPTIMIZE TABLE grants FINAL")
    assert rederive(store, str(phys.number)).differences == ()


def test_of_a_document_of_before_the_figures_are_computed_again(store: Store) -> None:
    """It names no close, and some of it is said in other words today; none of that is a difference, and a figure is."""
    for pattern, instead in (
        ('"as_of_run":"[0-9]*",', ""), ('"corrected_months":\\[\\],', ""), ('"price_validity":\\[[^]]*\\],', ""),
        ('"description":"[^"]*"', '"description":"in other words"'), ('"amount":"7.01"', '"amount":"6.01"'),
    ):  # fmt: skip
        changed = "replaceRegexpAll(document, {pattern:String}, {instead:String})"
        sql = f"ALTER TABLE invoices UPDATE document = {changed} WHERE 1 SETTINGS mutations_sync = 2"
        store.command(sql, {"pattern": pattern, "instead": instead})
    document = str(store.value("SELECT document FROM invoices LIMIT 1"))
    assert "as_of_run" not in document
    assert "corrected_months" not in document
    (found,) = rederive(store, "GL-2026-00001").differences
    assert (found.where, found.stored, found.computed) == ("lines[0].amount", "6.01", "7.01")


def test_a_line_is_explained_to_the_hour(store: Store) -> None:
    (chem,) = issued(store, number="GL-2026-00001")
    by_allocation = explain(store, chem, 1)
    assert [(row["allocation"], row["allocated_gpu_hours"], row["billed_cost"]) for row in by_allocation.rows] == [
        ("a", Decimal("3.500000000"), Decimal("7.000000000")), ("s", Decimal("0.005555556"), Decimal("0.011111111")),
    ]  # fmt: skip
    by_hour = explain(store, chem, 1, by_hour=True)
    assert [row["used_gpu_hours"] for row in by_hour.rows][:4] == [
        Decimal("0.5"),
        Decimal("0.5"),
        Decimal("0.5"),
        Decimal(0),
    ]
    assert by_hour.rules == [{"sku": "h100", "price_per_gpu_hour": "2.00"}], "and not what another tenant has agreed"
    assert explain(store, chem, 3).rules == [{"name": "tenth", "percent": "10"}]
    with pytest.raises(InvoiceError, match="lines 1 to 4"):
        explain(store, chem, 5)


def test_a_document_of_before_assumed_devices_were_told_apart_is_the_same() -> None:
    ended, assumed, other = "2.00" + ESTIMATED, "3.33" + ASSUMED, "another"
    assert as_then(["5.34" + ESTIMATED, other], [other, ended, assumed]) == [other, "5.34" + ESTIMATED]
    assert as_then([assumed, other], [other, assumed]) == [other, assumed]
    assert as_then(["6.00" + ESTIMATED], [assumed]) == [assumed]
    assert as_then(["0.00" + ESTIMATED], ["Less than 0.01" + ESTIMATED]) == ["0.00" + ESTIMATED]
    assert as_then(["1.00" + ESTIMATED], ["Less than 0.01" + ESTIMATED]) == ["Less than 0.01" + ESTIMATED]
