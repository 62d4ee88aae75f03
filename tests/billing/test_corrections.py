"""Late facts after an invoice, by hand; void invoices, credit notes and their numbers."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest

from billing import audit
from billing.invoicing.invoices import Invoice, InvoiceError, credit, draft_all, issue_all, issued, void
from billing.invoicing.month_states import month_states
from billing.periods import parse_period
from tests.billing.hand_ledger import HOUR_MS, Row, at, close, fill
from tests.billing.test_adjustments import apply, hours, lines
from warehouse.store import Store

OCTOBER, NOVEMBER, DECEMBER = (parse_period(month, "UTC") for month in ("2026-10", "2026-11", "2026-12"))
LAST = [at("2026-10-31 23:00")]
LATER = [at("2026-11-30 23:00"), at("2026-12-31 23:00")]
IN_NOVEMBER, IN_DECEMBER, IN_JANUARY = at("2026-11-02 09:00"), at("2026-12-02 09:00"), at("2027-01-02 09:00")


def correct(store: Store, rows: list[Row], run: int) -> None:
    """The hours are computed again: these entries are theirs from now on."""
    fill(store, rows, run=run)


def corrections(invoice: Invoice, *names: str) -> list[list[Any]]:
    return [[line[name] for name in names] for line in invoice.lines if line["charge_class"] == "Correction"]


def test_late_data_is_corrected_in_the_next_month_once(books: Store) -> None:
    apply(books)
    fill(books, hours("chem", 3, project="p"), closed=LAST)
    (october,) = issue_all(books, OCTOBER, IN_NOVEMBER)
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


def test_a_correction_alone_is_an_invoice(books: Store) -> None:
    apply(books)
    fill(books, hours("chem", 3), closed=LAST)
    issue_all(books, OCTOBER, IN_NOVEMBER)
    correct(books, [Row(at("2026-10-05 00:00"), unallocated=HOUR_MS)], 8)
    close(books, LATER, 8)
    (november,) = issue_all(books, NOVEMBER, IN_DECEMBER)
    assert (november.totals["amount"], len(november.lines)) == ("-2.00", 1)
    assert draft_all(books, DECEMBER) == []


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


def test_a_correction_is_corrected_in_its_turn(books: Store) -> None:
    apply(books)
    fill(books, hours("chem", 2), closed=LAST)
    issue_all(books, OCTOBER, IN_NOVEMBER)
    correct(books, [Row(at("2026-10-05 00:00"), unallocated=HOUR_MS)], 8)
    close(books, LATER, 8)
    issue_all(books, NOVEMBER, IN_DECEMBER)
    correct(books, [Row(at("2026-10-05 00:00"), "chem", used=str(HOUR_MS))], 9)
    (december,) = draft_all(books, DECEMBER)
    assert corrections(december, "amount", "description") == [["2.00", "2026-10: 2.00 was billed, 4.00 is due"]]


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


def test_what_is_referred_to_is_not_made_void(books: Store) -> None:
    apply(books)
    fill(books, hours("chem", 3), closed=LAST)
    issue_all(books, OCTOBER, IN_NOVEMBER)
    credit(books, "GL-2026-00001", Decimal("1.00"), IN_NOVEMBER, "ada", "outage")
    with pytest.raises(InvoiceError, match=r"GL-2026-00002 refers to it. Void GL-2026-00002 first"):
        void(books, "GL-2026-00001", IN_NOVEMBER, "ada", "x")
    with pytest.raises(InvoiceError, match="without a reason"):
        void(books, "GL-2026-00002", IN_NOVEMBER, "ada", "")
    with pytest.raises(InvoiceError, match="was never issued"):
        void(books, "GL-2026-00009", IN_NOVEMBER, "ada", "x")


def test_a_credit_note_gives_its_taxes_back_and_never_more_than_was_asked(books: Store) -> None:
    apply(books, taxes=[{"name": "VAT", "percent": "19"}])
    fill(books, hours("chem", 50), closed=LAST)
    issue_all(books, OCTOBER, IN_NOVEMBER)
    note = credit(books, "GL-2026-00001", Decimal("40.00"), IN_NOVEMBER, "ada", "outage")
    assert (note.number, note.document["references"]) == ("GL-2026-00002", "GL-2026-00001")
    assert [note.totals[name] for name in ("net", "tax", "amount")] == ["-40.00", "-7.60", "-47.60"]
    with pytest.raises(InvoiceError, match=r"60.00 EUR of it can still be credited"):
        credit(books, "GL-2026-00001", Decimal("60.01"), IN_NOVEMBER, "ada", "outage")
    # It is no invoice of the month and is not corrected away.
    assert [one.number for one in issue_all(books, OCTOBER, IN_DECEMBER)] == ["GL-2026-00001"]
    correct(books, [Row(at("2026-10-05 00:00"), unallocated=HOUR_MS)], 8)
    close(books, LATER, 8)
    (november,) = draft_all(books, NOVEMBER)
    assert corrections(november, "kind", "amount") == [["usage", "-2.00"], ["tax", "-0.38"]]


def test_grace_keeps_a_month_open_for_late_records(books: Store) -> None:
    apply(books, grace_days=3)
    fill(books, hours("chem", 3), closed=LAST)
    with pytest.raises(InvoiceError, match="late records are waited for until 2026-11-04T00:00"):
        issue_all(books, OCTOBER, IN_NOVEMBER)
    correct(books, [Row(at("2026-10-05 00:00"), unallocated=HOUR_MS)], 8)
    (invoice,) = issue_all(books, OCTOBER, at("2026-11-04 00:00"))
    assert (lines(invoice, "usage", "amount"), corrections(invoice, "amount")) == ([["4.00"]], [])


def test_a_month_goes_from_open_to_closing_to_closed_to_issued(books: Store) -> None:
    def states(now: str) -> list[tuple[str, str, int]]:
        return [(one.name, one.state.value, one.invoices) for one in month_states(books, at(now))]

    apply(books, grace_days=3)
    fill(books, hours("chem", 3), closed=LAST)
    assert states("2026-10-20 00:00") == [("2026-10", "open", 0)]
    assert states("2026-11-02 00:00") == [("2026-10", "closing", 0), ("2026-11", "open", 0)]
    assert states("2026-11-04 00:00") == [("2026-10", "closed", 0), ("2026-11", "open", 0)]
    issue_all(books, OCTOBER, at("2026-11-04 00:00"))
    assert states("2026-12-02 00:00")[:2] == [("2026-10", "issued", 1), ("2026-11", "closing", 0)]
