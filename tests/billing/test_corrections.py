"""Late facts after an invoice, by hand; void invoices, credit notes and their numbers."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest

from billing import audit
from billing.accounts.credits import Credit, add_credit, reverse_credit
from billing.close import close as close_books
from billing.invoicing.corrections import changed_months
from billing.invoicing.explain import explain
from billing.invoicing.invoices import Invoice, InvoiceError, credit, draft_all, issue_all, issued, void
from billing.invoicing.month import books_of
from billing.invoicing.month_states import month_states
from billing.periods import Period, parse_period
from billing.verify.run import documents
from tests.billing import facts
from tests.billing.hand_ledger import HOUR_MS, Row, at, close, fill
from tests.billing.test_adjustments import allocate, apply, hours, lines
from tests.draws import drawn, seldom
from tests.stores import refilled
from warehouse.store import Store

pytestmark = seldom(6, "all of corrections")

OCTOBER, NOVEMBER, DECEMBER = (parse_period(month, "UTC") for month in ("2026-10", "2026-11", "2026-12"))
LAST = [at("2026-10-31 23:00")]
LATER = [at("2026-11-30 23:00"), at("2026-12-31 23:00")]
IN_NOVEMBER, IN_DECEMBER, IN_JANUARY = at("2026-11-02 09:00"), at("2026-12-02 09:00"), at("2027-01-02 09:00")


def correct(store: Store, rows: list[Row], run: int) -> None:
    """The hours are computed again: these entries are theirs from now on."""
    fill(store, rows, run=run)


def corrections(invoice: Invoice, *names: str) -> list[list[Any]]:
    return [[line[name] for name in names] for line in invoice.lines if line["charge_class"] == "Correction"]


def three_hours(store: Store) -> None:
    """October: chem has held a device for three hours, at 2.00, and is billed on GL-2026-00001."""
    apply(store)
    fill(store, hours("chem", 3, project="p"), closed=LAST)
    issue_all(store, OCTOBER, IN_NOVEMBER)


@pytest.fixture
def billed(shared_store: Store) -> Store:
    return refilled(shared_store, three_hours)


def test_late_data_is_corrected_in_the_next_month_once(billed: Store) -> None:
    books = billed
    (october,) = issued(books)
    assert october.totals["amount"] == "6.00"
    # The first hour was held on a second device too, by another project; the second hour was not held at all.
    noon = at("2026-10-05 00:00")
    correct(books, [Row(noon, "chem", "p", used=str(HOUR_MS)), Row(noon, "chem", "q", "g1", used=str(HOUR_MS))], 8)
    correct(books, [Row(noon + timedelta(hours=1), unallocated=HOUR_MS)], 9)
    assert issue_all(books, OCTOBER, IN_DECEMBER) == [october]
    fill(books, hours("chem", 1, "2026-11-03 00:00", project="p"), closed=LATER, run=9)
    (november,) = issue_all(books, NOVEMBER, IN_DECEMBER)
    reference = {"invoice": "GL-2026-00001", "month": "2026-10"}
    assert corrections(november, "kind", "project", "quantity", "amount", "reference", "description") == [
        ["usage", "p", "-1.000000000", "-2.00", reference, "2026-10: 6.00 was billed, 4.00 is due"],
        ["usage", "q", "1.000000000", "2.00", reference, "2026-10: 0 was billed, 2.00 is due"],
    ]
    assert november.totals["amount"] == "2.00"
    assert draft_all(books, DECEMBER) == []


@seldom(6, "a month is computed again for the")
@pytest.mark.parametrize(
    ("zone", "minimum", "leave", "change"),
    [
        # A session that ends in October may begin an hour before it.
        ("UTC", 3600, ["2026-09-30 22:00", "2026-11-01 00:00"],
         ["2026-09-30 23:00", "2026-10-01 00:00", "2026-10-31 23:00"]),
        # October begins at 18:30.
        ("Asia/Kolkata", 0, ["2026-09-30 17:00", "2026-10-31 19:00"], ["2026-09-30 18:00", "2026-10-31 18:00"]),
    ],
)  # fmt: skip
def test_a_month_is_computed_again_for_the_hours_that_it_is_computed_from_and_no_others(
    books: Store, zone: str, minimum: int, leave: list[str], change: list[str]
) -> None:
    apply(books, timezone=zone, minimum_seconds=minimum)
    october, november = (parse_period(month, zone) for month in ("2026-10", "2026-11"))
    fill(books, hours("chem", 3), closed=LAST)
    issue_all(books, october, IN_NOVEMBER)

    def found(*closed_again: str) -> list[Period]:
        """What a close of these hours changes."""
        books.command("TRUNCATE TABLE closed_hours")
        fill(books, [], closed=[*(row.hour for row in hours("chem", 3)), *LAST])
        close(books, [at(hour) for hour in closed_again], run=8)
        return changed_months(books, november, books_of(books))

    assert found() == [], "what was closed by the run that it was issued from"
    assert found(*leave) == []
    assert [found(hour) for hour in change] == [[october]] * len(change)


def test_a_month_of_which_every_invoice_is_void_is_open_and_not_corrected(billed: Store) -> None:
    """Late data of it is in its own next invoice: four hours at 2.00; November owes nothing for October."""
    books = billed
    correct(books, hours("chem", 4), 8)
    void(books, "GL-2026-00001", IN_DECEMBER, "me", "test")
    assert changed_months(books, NOVEMBER, books_of(books)) == []
    fill(books, hours("chem", 1, "2026-11-03 00:00"), closed=LATER, run=8)
    (november,) = issue_all(books, NOVEMBER, IN_DECEMBER)
    assert (corrections(november, "amount"), november.totals["amount"]) == ([], "2.00")
    (again,) = draft_all(books, OCTOBER)
    assert again.totals["amount"] == "8.00"


def test_a_tier_crossed_by_late_data_is_computed_for_the_whole_month(books: Store) -> None:
    apply(
        books,
        discounts=[{"name": "v", "mode": "whole", "tiers": [{"above": "100", "percent": "10"}]}],
        taxes=[{"name": "VAT", "percent": "20"}],
    )
    fill(books, hours("chem", 100), closed=LAST)
    (october,) = issue_all(books, OCTOBER, IN_NOVEMBER)
    assert (october.totals["net"], october.totals["tax"]) == ("200.00", "40.00")
    correct(books, [Row(at("2026-10-20 00:00"), "chem", used=str(HOUR_MS))], 8)
    close(books, LATER, 8)
    (november,) = draft_all(books, NOVEMBER)
    # 101 h are 202.00, of which 10 % go: 181.80 net and 36.36 tax.
    assert corrections(november, "kind", "rule", "amount") == [
        ["usage", "", "2.00"],
        ["discount", "v", "-20.20"],
        ["tax", "VAT 20 %", "-3.64"],
    ]
    assert november.totals["amount"] == "-21.84"


def test_a_correction_alone_is_an_invoice_and_is_corrected_in_its_turn(billed: Store) -> None:
    books = billed
    correct(books, [Row(at("2026-10-05 00:00"), unallocated=HOUR_MS)], 8)
    close(books, LATER, 8)
    (november,) = issue_all(books, NOVEMBER, IN_DECEMBER)
    assert (november.totals["amount"], len(november.lines)) == ("-2.00", 1)
    assert draft_all(books, DECEMBER) == []
    # November, whose only document has nothing of its own, is issued all the same.
    late = [Row(at(when), "chem", "p", used=str(HOUR_MS)) for when in ("2026-10-05 00:00", "2026-11-05 00:00")]
    correct(books, late, 9)
    (december,) = draft_all(books, DECEMBER)
    assert corrections(december, "amount", "description") == [
        ["2.00", "2026-10: 4.00 was billed, 6.00 is due"],
        ["2.00", "2026-11: 0 was billed, 2.00 is due"],
    ]


def test_what_a_correction_is_explained_by_stays_when_later_documents_are_issued(billed: Store) -> None:
    """October is corrected twice: a later correction, or another month's document, is nothing that it goes back to. Nor
    do they change what October's own invoice is explained by."""
    books = billed
    (october,) = issued(books, number="GL-2026-00001")
    of_october = explain(books, october, 1).rows
    assert sum(row["billed_cost"] for row in of_october) == Decimal(october.lines[0]["billed_cost"])
    noon = at("2026-10-05 00:00")
    correct(books, [Row(noon, unallocated=HOUR_MS)], 8)
    # September is issued late: its document saw the close that changed October, and says nothing of October.
    fill(books, hours("chem", 1, "2026-09-05 00:00", project="p"), closed=[at("2026-09-30 23:00"), *LATER], run=8)
    (september,) = issue_all(books, parse_period("2026-09", "UTC"), IN_NOVEMBER + timedelta(days=1))
    assert corrections(september, "amount") == []
    (november,) = issue_all(books, NOVEMBER, IN_DECEMBER)

    def said() -> list[list[Any]]:
        rows = explain(books, november, 1).rows
        return [[str(row[name]) for name in ("billed_gpu_hours", "due_gpu_hours", "cost")] for row in rows]

    first = said()
    assert [[Decimal(text) for text in row] for row in first] == [[1, 0, -2]]
    assert explain(books, october, 1).rows == of_october
    correct(books, [Row(noon, "chem", "p", used=str(HOUR_MS)), Row(at("2026-12-05 00:00"), "chem", "p", used="1")], 9)
    (december,) = issue_all(books, DECEMBER, IN_JANUARY)
    assert corrections(december, "amount", "description") == [["2.00", "2026-10: 4.00 was billed, 6.00 is due"]]
    assert said() == first


def test_billing_late_data_at_once_or_later_comes_to_the_same(books: Store) -> None:
    apply(books, taxes=[{"name": "VAT", "percent": "19"}], discounts=[{"name": "d", "percent": "7"}])
    fill(books, hours("chem", 5, project="p") + hours("chem", 3, device="g1", project="q"), closed=LAST)
    (october,) = issue_all(books, OCTOBER, IN_NOVEMBER)
    late = [Row(at("2026-10-05 00:00"), "chem", "r", used=str(HOUR_MS // 3), idle=str(HOUR_MS // 3))]
    correct(books, late, 8)
    close(books, LATER, 8)
    (november,) = issue_all(books, NOVEMBER, IN_DECEMBER)
    void(books, str(november.number), IN_DECEMBER, "me", "test")
    void(books, str(october.number), IN_DECEMBER, "me", "test")
    (anew,) = issue_all(books, OCTOBER, IN_DECEMBER)
    assert Decimal(october.totals["amount"]) + Decimal(november.totals["amount"]) == Decimal(anew.totals["amount"])


@seldom(6, "a reversed credit is due once with")
def test_a_reversed_credit_is_due_once_with_its_tax_whatever_is_corrected_after_it(books: Store) -> None:
    """50 h at 2.00 less a credit of 25.00 are 75.00 and 14.25 tax; without the credit 100.00 and 19.00."""
    apply(books, taxes=[{"name": "VAT", "percent": "19"}])
    fill(books, hours("chem", 50), closed=LAST)
    given = Credit("chem", "2026-10", Decimal(25), "EUR", "switch down", id="c")
    add_credit(books, given, IN_NOVEMBER)
    (october,) = issue_all(books, OCTOBER, IN_NOVEMBER)
    assert [october.totals[name] for name in ("net", "tax")] == ["75.00", "14.25"]
    reverse_credit(books, "c", "ada", "it was up", IN_NOVEMBER)
    close(books, LATER, 7)
    (november,) = issue_all(books, NOVEMBER, IN_DECEMBER)
    reference = {"invoice": october.number, "month": "2026-10"}
    assert corrections(november, "kind", "rule", "amount", "reference") == [
        ["credit", "credit:c-reversed", "25.00", reference],
        ["tax", "VAT 19 %", "4.75", reference],
    ]
    assert "Credit c taken back: it was up (by ada)" in november.lines[0]["description"]
    assert draft_all(books, DECEMBER) == []
    # One hour more was held: it alone is owed now.
    correct(books, [Row(at("2026-10-20 00:00"), "chem", used=str(HOUR_MS))], 8)
    assert [corrections(one, "kind", "amount") for one in draft_all(books, DECEMBER)] == [
        [["usage", "2.00"], ["tax", "0.38"]]
    ]
    # And where everything is issued anew, October bears the credit and its reversal itself.
    for number in (november.number, october.number):
        void(books, str(number), IN_DECEMBER, "ada", "test")
    (anew,) = issue_all(books, OCTOBER, IN_DECEMBER)
    assert [anew.totals[name] for name in ("net", "tax")] == ["102.00", "19.38"]
    assert draft_all(books, NOVEMBER) == []


@seldom(6, "a tenant that first appears in an")
def test_a_tenant_that_first_appears_in_an_issued_month_is_billed_with_the_next(books: Store) -> None:
    apply(books, idle_policy=[{"share": "allocated_cost"}], taxes=[{"name": "VAT", "percent": "10"}])
    idle = [Row(at("2026-10-05 00:00"), device="g9", unallocated=HOUR_MS)]
    fill(books, hours("chem", 3) + idle, closed=LAST)
    (october,) = issue_all(books, OCTOBER, IN_NOVEMBER)
    assert october.totals["net"] == "8.00"  # 3 h, and all of the hour that nobody held
    rows = [Row(at("2026-10-05 00:00"), "chem", used=str(HOUR_MS)), *hours("late", 1, device="g8"), *idle]
    correct(books, rows, 8)
    close(books, LATER, 8)
    assert [one.tenant for one in draft_all(books, NOVEMBER, "late")] == ["late"]
    chem, late = issue_all(books, NOVEMBER, IN_DECEMBER)
    reference = {"invoice": None, "month": "2026-10"}
    assert corrections(chem, "kind", "amount") == [["shared", "-0.50"], ["tax", "-0.05"]]
    assert corrections(late, "kind", "amount", "reference") == [
        ["usage", "2.00", reference], ["shared", "0.50", reference], ["tax", "0.25", reference],
    ]  # fmt: skip
    assert late.lines[0]["description"] == "2026-10: 0 was billed, 2.00 is due"
    assert draft_all(books, DECEMBER) == []
    # October is billed now: it is not issued for `late` again, until the invoice that billed it is void.
    assert issue_all(books, OCTOBER, IN_DECEMBER) == [october]
    with pytest.raises(InvoiceError, match=f"2026-10 of 'late': is billed on {late.number}"):
        issue_all(books, OCTOBER, IN_DECEMBER, "late")
    void(books, str(late.number), IN_DECEMBER, "ada", "test")
    assert [one.totals["net"] for one in issue_all(books, OCTOBER, IN_DECEMBER, "late")] == ["2.50"]
    assert draft_all(books, DECEMBER) == []


@seldom(6, "whoever owes something for an issued month")
@pytest.mark.parametrize("why", ["hours", "commitment", "credit"])
def test_whoever_owes_something_for_an_issued_month_without_an_invoice_is_billed_with_the_next(
    billed: Store, why: str
) -> None:
    """Also where the month was issued again since, so that none of its hours is newer than its invoice."""
    books = billed
    if why == "hours":
        correct(books, [Row(at("2026-10-05 00:00"), "late", used=str(HOUR_MS))], 8)
        void(books, "GL-2026-00001", IN_NOVEMBER, "ada", "address")
        issue_all(books, OCTOBER, IN_NOVEMBER, "chem")
    elif why == "commitment":
        promise = {"name": "q", "tenant": "late", "gpus": "1", "price_per_gpu_hour": "1.00", "effective_to": "2026-11"}
        apply(books, commitments=[promise])
    else:
        add_credit(books, Credit("late", "2026-10", Decimal(5), "EUR", "sorry"), IN_NOVEMBER)
    close(books, LATER, 8)
    (late,) = issue_all(books, NOVEMBER, IN_DECEMBER)
    due = {"hours": "2.00", "commitment": "744.00", "credit": "-5.00"}[why]
    assert (late.tenant, late.totals["amount"]) == ("late", due)
    assert draft_all(books, DECEMBER) == []


def test_a_session_that_was_shorter_last_month_earns_less_this_month(books: Store) -> None:
    """50 h of September and 60 of October are 110: the last 10 earn 50 %. Without 40 of September none does."""
    apply(books, discounts=[{"name": "d", "per": "session", "tiers": [{"above": "100", "percent": "50"}]}])
    september = parse_period("2026-09", "UTC")
    fill(books, hours("chem", 110, "2026-09-28 22:00", project="p"), closed=[at("2026-09-30 23:00"), *LAST])
    allocate(books, {"chem/p": (at("2026-09-28 22:00"), at("2026-10-03 12:00"))})
    first, second = issue_all(books, september, IN_NOVEMBER)[0], issue_all(books, OCTOBER, IN_NOVEMBER)[0]
    assert (first.totals["amount"], second.totals["amount"]) == ("100.00", "110.00")
    correct(books, [Row(at("2026-09-28 22:00") + timedelta(hours=n), unallocated=HOUR_MS) for n in range(40)], 8)
    close(books, LATER, 8)
    (november,) = draft_all(books, NOVEMBER)
    assert corrections(november, "kind", "amount", "reference") == [
        ["usage", "-80.00", {"invoice": first.number, "month": "2026-09"}],
        ["discount", "10.00", {"invoice": second.number, "month": "2026-10"}],
    ]


@seldom(6, "a session that goes on after a")
@pytest.mark.parametrize(
    ("card", "amounts"),
    [
        # 15 s of 60 were charged as a minute; the session was over two minutes later, in November, and lasted longer.
        ({"minimum_seconds": 60}, [["minimum", "-2.70"]]),
        # How long it is by the end of October is not changed by what it holds later.
        ({"discounts": [{"name": "long", "per": "session", "measure": "hours",
                         "tiers": [{"from": "0.005", "percent": "10"}]}]}, []),
    ],
)  # fmt: skip
def test_a_session_that_goes_on_after_a_month_is_corrected_in_the_month_in_which_it_had_ended(
    books: Store, card: dict[str, Any], amounts: list[list[str]]
) -> None:
    start = at("2026-10-31 23:59:00")
    apply(books, rates=[{"sku": "h100", "price_per_gpu_hour": "216.00"}], **card)
    price = {"price": "216.00"}
    fill(books, [Row(start, "chem", "p", used="15000", **price)], closed=LAST)
    allocate(books, {"chem/p": (start, start + timedelta(seconds=15))})
    issue_all(books, OCTOBER, IN_NOVEMBER)
    allocate(books, {"chem/p": (at("2026-11-05 12:00:00"), at("2026-11-05 12:01:00"))})
    fill(books, [Row(at("2026-11-05 12:00"), "chem", "p", used="60000", **price)], closed=LATER, run=8)
    (november,) = issue_all(books, NOVEMBER, IN_DECEMBER)
    assert corrections(november, "kind", "amount") == amounts
    assert [one for draft in draft_all(books, DECEMBER) for one in corrections(draft, "amount")] == []


def test_a_session_that_held_nothing_later_after_all_is_corrected_in_the_month_in_which_it_ends(books: Store) -> None:
    """What it held in November went to a job that was there first, as it turned out; no hour of October changed. Its 15
    seconds are charged as a minute."""
    start, later = at("2026-10-31 23:59:00"), at("2026-11-05 12:00:00")
    apply(books, rates=[{"sku": "h100", "price_per_gpu_hour": "216.00"}], minimum_seconds=60)
    price = {"price": "216.00"}
    fill(books, [Row(start, "chem", "p", used="15000", **price)], closed=LAST)
    fill(books, [Row(later, "chem", "p", used="15000", **price)])
    lives = {"chem/p": (start, start + timedelta(seconds=15))}
    allocate(books, lives)
    allocate(books, {"chem/p": (later, later + timedelta(seconds=15))})
    issue_all(books, OCTOBER, IN_NOVEMBER)
    books.command("TRUNCATE TABLE allocations")
    allocate(books, lives)
    fill(books, [Row(later, "bio", "q", used="15000", **price)], closed=LATER, run=8)
    bio, chem = issue_all(books, NOVEMBER, IN_DECEMBER)
    assert corrections(chem, "kind", "amount") == [["minimum", "2.70"]]
    assert corrections(bio, "kind") == []
    assert [one for draft in draft_all(books, DECEMBER) for one in corrections(draft, "amount")] == []


@seldom(6, "a session that was shorter by time")
def test_a_session_that_was_shorter_by_time_in_which_its_device_was_away_is_corrected(books: Store) -> None:
    """Eight hours get 10 % off the two that the device was there; four get nothing. No entry of the ledger changes."""
    tiers = [{"from": "5", "percent": "10"}]
    apply(books, discounts=[{"name": "long", "per": "session", "measure": "hours", "mode": "whole", "tiers": tiers}])
    there = facts.devices("2026-10-10 10:00", "g1") + facts.devices("2026-10-10 12:00", "g1", state="unavailable")
    facts.put(books, "devices", there)
    run = facts.job("j", "chem", "g1", "2026-10-10 10:00", "2026-10-10 18:00")
    facts.put(books, "events", run)
    close_books(books, NOVEMBER.start, IN_NOVEMBER)
    (october,) = issue_all(books, OCTOBER, IN_NOVEMBER)
    assert lines(october, "discount", "billed_cost") == [["-0.400000000"]]
    facts.put(books, "events", [{**run[1], "ts": at("2026-10-10 14:00")}])
    close_books(books, DECEMBER.start, IN_DECEMBER)
    (november,) = issue_all(books, NOVEMBER, IN_DECEMBER)
    assert corrections(november, "kind", "amount") == [["discount", "0.40"]]


def test_a_void_number_stays_taken_and_the_month_is_issued_again(books: Store) -> None:
    apply(books)
    fill(books, hours("chem", 3) + hours("phys", 1, device="g1"), closed=LAST)
    chem, phys = issue_all(books, OCTOBER, IN_NOVEMBER)
    gone = void(books, "GL-2026-00001", IN_NOVEMBER, "ada", "wrong address")
    assert gone.document["void"] == {"at": "2026-11-02T09:00:00.000Z", "author": "ada", "reason": "wrong address"}
    assert void(books, "GL-2026-00001", IN_DECEMBER, "bob", "again") == gone
    again, same = issue_all(books, OCTOBER, IN_NOVEMBER)
    assert (again.number, again.tenant, same) == ("GL-2026-00003", "chem", phys)
    assert [(one.number, one.document["status"]) for one in issued(books)] == [
        ("GL-2026-00001", "void"), ("GL-2026-00002", "issued"), ("GL-2026-00003", "issued"),
    ]  # fmt: skip
    assert [line["amount"] for line in again.lines] == [line["amount"] for line in chem.lines]
    assert [row["action"] for row in audit.history(books, "invoice.void")] == ["invoice.void"]


def test_a_credit_note_gives_its_taxes_back_never_more_than_was_asked_and_its_invoice_is_not_made_void(
    books: Store,
) -> None:
    apply(books, taxes=[{"name": "VAT", "percent": "19"}])
    fill(books, hours("chem", 50), closed=LAST)
    issue_all(books, OCTOBER, IN_NOVEMBER)
    note = credit(books, "GL-2026-00001", Decimal("40.00"), IN_NOVEMBER, "ada", "outage")
    assert (note.number, note.document["references"]) == ("GL-2026-00002", "GL-2026-00001")
    assert [note.totals[name] for name in ("net", "tax", "amount")] == ["-40.00", "-7.60", "-47.60"]
    with pytest.raises(InvoiceError, match=r"60.00 EUR of it can still be credited"):
        credit(books, "GL-2026-00001", Decimal("60.01"), IN_NOVEMBER, "ada", "outage")
    with pytest.raises(InvoiceError, match=r"GL-2026-00002 refers to it. Void GL-2026-00002 first"):
        void(books, "GL-2026-00001", IN_NOVEMBER, "ada", "x")
    with pytest.raises(InvoiceError, match="needs a reason"):
        void(books, "GL-2026-00002", IN_NOVEMBER, "ada", "")
    with pytest.raises(InvoiceError, match="was never issued"):
        void(books, "GL-2026-00009", IN_NOVEMBER, "ada", "x")
    # It is no invoice of the month and is not corrected away.
    assert [one.number for one in issue_all(books, OCTOBER, IN_DECEMBER)] == ["GL-2026-00001"]
    correct(books, [Row(at("2026-10-05 00:00"), unallocated=HOUR_MS)], 8)
    close(books, LATER, 8)
    (november,) = draft_all(books, NOVEMBER)
    assert corrections(november, "kind", "amount") == [["usage", "-2.00"], ["tax", "-0.38"]]


def test_a_credit_is_money_however_its_amount_is_typed(books: Store) -> None:
    apply(books, taxes=[{"name": "VAT", "percent": "19"}])
    fill(books, hours("chem", 50), closed=LAST)
    issue_all(books, OCTOBER, IN_NOVEMBER)
    notes = [
        credit(books, "GL-2026-00001", Decimal(typed), IN_NOVEMBER, "ada", "x")
        for typed in ("20", "5.5", "1E+1", "7.0000")
    ]
    parts = [[note.totals[name] for name in ("net", "tax", "amount", "prepaid", "due")] for note in notes]
    assert parts == [
        ["-20.00", "-3.80", "-23.80", "0.00", "-23.80"],
        ["-5.50", "-1.04", "-6.54", "0.00", "-6.54"],  # 1.045, half to even
        ["-10.00", "-1.90", "-11.90", "0.00", "-11.90"],
        ["-7.00", "-1.33", "-8.33", "0.00", "-8.33"],
    ]
    assert not list(documents(books))


def test_a_credit_note_gives_back_no_more_than_the_corrections_left_and_the_last_one_the_last_cent_of_tax(
    books: Store,
) -> None:
    apply(books, taxes=[{"name": "VAT", "percent": "19"}])
    fill(books, hours("chem", 50), closed=LAST)
    issue_all(books, OCTOBER, IN_NOVEMBER)
    # 35 of 50 hours were not held: 30.00 of 100.00 are left, and November's own 10.00 are its own invoice's.
    correct(books, [Row(at("2026-10-05 00:00") + timedelta(hours=n), unallocated=HOUR_MS) for n in range(35)], 8)
    fill(books, hours("chem", 5, "2026-11-05 00:00"), closed=LATER)
    (november,) = issue_all(books, NOVEMBER, IN_DECEMBER)
    assert november.totals["net"] == "-60.00"
    with pytest.raises(InvoiceError, match=r"30.00 EUR of it can still be credited"):
        credit(books, "GL-2026-00001", Decimal("30.01"), IN_DECEMBER, "ada", "outage")
    with pytest.raises(InvoiceError, match=r"10.00 EUR of it can still be credited"):
        credit(books, str(november.number), Decimal("10.01"), IN_DECEMBER, "ada", "outage")
    parts = [
        credit(books, "GL-2026-00001", Decimal(n), IN_DECEMBER, "ada", why)
        for n, why in (("0.05", "x"), ("0.05", "y"), ("29.90", "x"))
    ]
    assert [note.totals["tax"] for note in parts] == ["-0.01", "-0.01", "-5.68"]  # 5.70 in all, 19 % of 30.00
    with pytest.raises(InvoiceError, match=r"0.00 EUR of it can still be credited"):
        credit(books, "GL-2026-00001", Decimal("0.01"), IN_DECEMBER, "ada", "x")


def test_a_credit_note_that_is_asked_for_again_is_no_second_one(books: Store) -> None:
    """As by somebody whose server was killed before it answered."""
    apply(books)
    fill(books, hours("chem", 50), closed=LAST)
    issue_all(books, OCTOBER, IN_NOVEMBER)
    note = credit(books, "GL-2026-00001", Decimal("5"), IN_NOVEMBER, "ada", "outage")
    with pytest.raises(InvoiceError, match=r"GL-2026-00002 credits 5.00 EUR for this reason.* give another reason"):
        credit(books, "GL-2026-00001", Decimal("5.00"), IN_NOVEMBER, "ada", "outage")
    assert [one.number for one in issued(books)] == ["GL-2026-00001", note.number]
    void(books, str(note.number), IN_NOVEMBER, "ada", "mistaken")
    others = [("5.00", "outage"), ("5.00", "outage of the 7th"), ("5.01", "outage")]
    assert all(credit(books, "GL-2026-00001", Decimal(n), IN_NOVEMBER, "ada", why) for n, why in others)


def test_a_month_without_an_invoice_is_credited_on_the_first_invoice_that_bills_it_alone(billed: Store) -> None:
    books = billed
    correct(books, hours("late", 3, "2026-10-06 00:00"), 8)
    fill(books, hours("late", 2, "2026-11-05 00:00"), closed=LATER, run=8)
    (november,) = issue_all(books, NOVEMBER, IN_DECEMBER)
    correct(books, hours("late", 4, "2026-10-07 00:00"), 9)
    fill(books, hours("late", 1, "2026-12-05 00:00"), closed=LATER, run=9)
    (december,) = issue_all(books, DECEMBER, IN_JANUARY)
    assert [one.totals["net"] for one in (november, december)] == ["10.00", "10.00"]
    # 6.00 and 8.00 for October are November's, with its own 4.00; December has its own 2.00.
    for number, left in ((november.number, "18.00"), (december.number, "2.00")):
        with pytest.raises(InvoiceError, match=f"{left} EUR of it can still be credited"):
            credit(books, str(number), Decimal(left) + Decimal("0.01"), IN_JANUARY, "ada", "x")
        credit(books, str(number), Decimal(left), IN_JANUARY, "ada", "x")


@seldom(6, "a correction converts at the rate of")
def test_a_correction_converts_at_the_rate_of_the_month_that_it_corrects(books: Store) -> None:
    kyoto: dict[str, Any] = {"invoice_currencies": [{"tenant": "kyoto", "currency": "JPY"}]}
    rates = [{"month": f"2026-{n}", "currency": "JPY", "rate": rate} for n, rate in ((10, "100"), (11, "150"))]
    apply(books, **kyoto, exchange_rates=rates[:1])
    fill(books, hours("kyoto", 3), closed=LAST)
    (october,) = issue_all(books, OCTOBER, IN_NOVEMBER)
    assert october.document["payable"]["amount"] == "600"
    correct(books, [Row(at("2026-10-05 00:00"), unallocated=HOUR_MS)], 8)
    fill(books, hours("kyoto", 1, "2026-11-05 00:00"), closed=LATER)
    with pytest.raises(InvoiceError, match="2026-11, tenant 'kyoto': is invoiced in JPY, and the rate card has no"):
        issue_all(books, NOVEMBER, IN_DECEMBER)
    apply(books, **kyoto, exchange_rates=rates)
    # -2.00 at 100 and 2.00 at 150: nothing in euros, and 100 yen.
    (november,) = issue_all(books, NOVEMBER, IN_DECEMBER)
    assert (november.totals["amount"], november.document["payable"]["amount"]) == ("0.00", "100")
    # A tenant that has no invoice of October needs October's rate of its currency.
    correct(books, [Row(at("2026-10-05 00:00"), "osaka", used=str(HOUR_MS))], 9)
    kyoto["invoice_currencies"].append({"tenant": "osaka", "currency": "KRW"})
    apply(books, **kyoto, exchange_rates=[*rates, {"month": "2026-12", "currency": "KRW", "rate": "9"}])
    close(books, [at("2026-12-31 23:00")], 9)
    with pytest.raises(InvoiceError, match="2026-10, tenant 'osaka': is invoiced in KRW"):
        issue_all(books, DECEMBER, IN_JANUARY, "osaka")


def test_late_time_without_a_price_keeps_the_next_invoices_back(billed: Store) -> None:
    books = billed
    correct(books, [Row(at("2026-10-06 00:00"), "late", used=str(HOUR_MS), price=None)], 8)
    close(books, LATER, 8)
    (late,) = draft_all(books, NOVEMBER)
    assert (late.lines, late.document["notes"][-1]) == (
        [], "1.00 GPU-hours of 2026-10 have no price and are in no amount.",
    )  # fmt: skip
    assert (late.is_incomplete, late.known_amount) == (True, None)
    with pytest.raises(InvoiceError, match=r"allocated GPU-hours have no price \(late 1.00 of 2026-10\)"):
        issue_all(books, NOVEMBER, IN_DECEMBER)


ENDS = [
    ("Asia/Kolkata", "2026-10", "2026-10-31 18:00", "2026-10-31T19:00"),  # ends at 18:30 UTC
    ("Asia/Kathmandu", "2026-10", "2026-10-31 18:00", "2026-10-31T19:00"),  # at 18:15
    ("Australia/Lord_Howe", "2026-05", "2026-05-31 13:00", "2026-05-31T14:00"),  # at 13:30
    ("Australia/Lord_Howe", "2026-10", "2026-10-31 12:00", "2026-10-31T13:00"),  # at 13:00, in summer
    ("America/St_Johns", "2026-10", "2026-11-01 02:00", "2026-11-01T03:00"),  # at 02:30
]


@pytest.mark.parametrize(("zone", "month", "ends", "asked"), drawn(ENDS, 0.25))
def test_in_any_zone_the_close_that_issue_asks_for_is_enough_and_one_hour_less_is_not(
    books: Store, zone: str, month: str, ends: str, asked: str
) -> None:
    """The books close whole hours UTC."""
    apply(books, timezone=zone)
    period = parse_period(month, zone)
    fill(books, [Row(at(f"{month}-05 00:00"), "chem", used=str(HOUR_MS))], closed=[at(ends) - timedelta(hours=1)])
    with pytest.raises(InvoiceError, match=f"Run: gpuledger close --until {asked}:00.000Z"):
        issue_all(books, period, IN_NOVEMBER)
    close(books, [at(ends)])
    assert len(issue_all(books, period, IN_NOVEMBER)) == 1


def test_grace_keeps_a_month_open_for_late_records_and_it_goes_from_open_to_closing_to_closed_to_issued(
    books: Store,
) -> None:
    def states(now: str) -> list[tuple[str, str, int]]:
        return [(one.name, one.state.value, one.invoices) for one in month_states(books, at(now))]

    apply(books, grace_days=3)
    fill(books, hours("chem", 3), closed=LAST)
    assert states("2026-10-20 00:00") == [("2026-10", "open", 0)]
    assert states("2026-11-02 00:00") == [("2026-10", "closing", 0), ("2026-11", "open", 0)]
    assert states("2026-11-04 00:00") == [("2026-10", "closed", 0), ("2026-11", "open", 0)]
    with pytest.raises(InvoiceError, match="late records are accepted until 2026-11-04T00:00"):
        issue_all(books, OCTOBER, IN_NOVEMBER)
    correct(books, [Row(at("2026-10-05 00:00"), unallocated=HOUR_MS)], 8)
    (invoice,) = issue_all(books, OCTOBER, at("2026-11-04 00:00"))
    assert (lines(invoice, "usage", "amount"), corrections(invoice, "amount")) == ([["4.00"]], [])
    assert states("2026-12-02 00:00")[:2] == [("2026-10", "issued", 1), ("2026-11", "closing", 0)]


def test_a_month_is_partly_issued_until_every_tenant_that_owes_something_has_an_invoice(books: Store) -> None:
    """bio only has a credit, and phys only a commitment; a void invoice does not count. Grace that begins anew closes
    what is not issued yet."""

    def states(*sees: str) -> list[tuple[str, int, int | None]]:
        found = month_states(books, IN_NOVEMBER, lambda tenant: not sees or tenant in sees)
        return [(one.state.value, one.invoices, one.tenants) for one in found]

    promise = {"name": "c", "tenant": "phys", "sku": "*", "gpus": "1", "price_per_gpu_hour": "1.00"}
    apply(books, commitments=[promise])
    fill(books, hours("chem", 3), closed=LAST)
    add_credit(books, Credit("bio", "2026-10", Decimal(1), "EUR", "goodwill"), IN_NOVEMBER)
    assert states() == [("closed", 0, 3), ("open", 0, None)]
    (chem,) = issue_all(books, OCTOBER, IN_NOVEMBER, "chem")
    assert states() == [("partly_issued", 1, 3), ("open", 0, None)]
    assert (states("chem")[0], states("bio", "phys")[0]) == (("issued", 1, 1), ("closed", 0, 2))
    assert len(issue_all(books, OCTOBER, IN_NOVEMBER)) == 3
    assert states()[0] == ("issued", 3, 3)
    void(books, str(chem.number), IN_NOVEMBER, "sam", "wrong buyer")
    assert states()[0] == ("partly_issued", 2, 3)
    apply(books, commitments=[promise], grace_days=9)
    assert states()[0] == ("closing", 2, 3)
