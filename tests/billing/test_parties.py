"""Seller and buyer on documents: dated, frozen on the day of issue, and all that it takes to pay."""

from __future__ import annotations

import csv
import io
import json
import re
from datetime import date, timedelta
from decimal import Decimal
from html import unescape
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from billing import audit
from billing.documents.invoice_files import as_csv, as_html, as_json, as_pdf
from billing.invoicing.documents import Invoice
from billing.invoicing.drafts import draft_all
from billing.invoicing.invoices import credit, issue_all, issued
from billing.parties.applied import apply_parties, current_parties
from billing.parties.details import Parties, PartiesError, parse_parties
from billing.periods import parse_month
from billing.rates import apply_rate_card, parse_rate_card
from tests.billing.hand_ledger import HOUR_MS, Row, at, fill
from warehouse.store import Store

ZONE = "Europe/Berlin"
OCTOBER, NOVEMBER = parse_month("2026-10", ZONE), parse_month("2026-11", ZONE)
ISSUED = at("2026-11-02 23:30")
"""The 3rd of November in Berlin."""
CARD: dict[str, Any] = {
    "currency": "EUR",
    "timezone": ZONE,
    "minimum_seconds": 0,
    "taxes": [{"name": "USt", "percent": "19"}],
    "rates": [
        {"sku": "h100", "price_per_gpu_hour": "2.00", "effective_to": "2026-10-16"},
        {"sku": "h100", "price_per_gpu_hour": "2.50", "effective_from": "2026-10-16"},
        {"sku": "h100", "price_per_gpu_hour": "1.50", "match": {"queue": "batch"}},
    ],
}
BANK = {"holder": "RZ Köln GmbH", "name": "Sparkasse", "iban": "DE89 3704 0044 0532 0130 00", "bic": "COLSDE33"}
SELLER = {
    "name": "RZ Köln GmbH", "address": ["Zülpicher Str. 1", "50674 Köln"], "tax_id": "DE123456789",
    "payment_days": 30, "terms": "Net, no discount.", "bank": BANK,
}  # fmt: skip
BUYER = {
    "tenant": "研发", "name": "研发一部 有限公司", "address": ["北京市"], "tax_id": "91110000",
    "purchase_order": "PO-7", "payment_days": 14,
}  # fmt: skip
DETAILS: dict[str, Any] = {"seller": [SELLER], "buyers": [BUYER]}


@pytest.fixture
def october(books: Store) -> Store:
    books.command("TRUNCATE TABLE parties")
    apply_rate_card(books, parse_rate_card(CARD), "me", "", at("2026-10-01 00:00"))
    early, late = at("2026-10-05 12:00"), at("2026-10-20 12:00")
    fill(
        books,
        [
            Row(early, "研发", "nlp", used=str(HOUR_MS)),
            Row(late, "研发", "nlp", used=str(HOUR_MS), price="2.50"),
            Row(late, "研发", "nlp", device="gpu-1", used=str(HOUR_MS), price="2.50", contracted="1.50", queue="batch"),
            Row(late, "physics", "qcd", device="gpu-2", used=str(HOUR_MS), price="2.50"),
        ],
        closed=[at("2026-10-31 22:00")],
    )
    return books


def details(**more: Any) -> Parties:
    return parse_parties({**DETAILS, **more})


def of(invoices: list[Invoice], tenant: str) -> Invoice:
    return next(one for one in invoices if one.tenant == tenant)


def text_of(invoice: Invoice) -> str:
    body = re.sub(r"<style>.*?</style>|<[^>]+>", " ", as_html(invoice), flags=re.DOTALL)
    return " ".join(unescape(body).split())


def test_an_invoice_says_who_pays_whom_how_much_by_when_and_how(october: Store) -> None:
    apply_parties(october, details(), "me", "", at("2026-10-02 09:00"))
    issued_now = issue_all(october, OCTOBER, ISSUED)
    invoice = of(issued_now, "研发")
    said = text_of(invoice)
    # 2.00 + 2.50 + 1.50 and 19 %; 14 days after the 3rd of November in Berlin
    for words in (
        "RZ Köln GmbH Zülpicher Str. 1 50674 Köln Tax ID DE123456789",
        "研发一部 有限公司 北京市 Tax ID 91110000 Purchase order PO-7 Tenant 研发",
        "Due 17 November 2026",
        "To pay 7.14 EUR By 17 November 2026 14 days after the day of issue To RZ Köln GmbH Sparkasse, BIC COLSDE33",
        "Account IBAN DE89 3704 0044 0532 0130 00 Reference GL-2026-0000",
        "Terms Net, no discount.",
    ):
        assert words in said, said
    assert as_pdf(invoice).startswith(b"%PDF")
    row = next(csv.DictReader(io.StringIO(as_csv(invoice))))
    assert (row["due_date"], row["buyer"], row["purchase_order"]) == ("2026-11-17", "研发一部 有限公司", "PO-7")
    assert json.loads(as_json(invoice))["parties"]["seller"]["bank"]["iban"] == "DE89370400440532013000"
    # who has no details of its own gets the seller's terms, and its tenant's name
    other = of(issued_now, "physics")
    assert other.document["parties"]["due_date"] == "2026-12-03"
    assert "Billed to physics Issued" in text_of(other)


def test_two_lines_of_one_sku_say_when_their_prices_hold_and_for_what(october: Store) -> None:
    invoice = of(draft_all(october, OCTOBER), "研发")
    said = {line["contracted_unit_price"]: line["price_validity"] for line in invoice.lines if line["kind"] == "usage"}
    start = "2026-10-15T22:00:00.000Z"  # the 16th in Berlin
    assert said == {
        "2.000000000": [{"from": None, "to": start, "only": ""}],
        "2.500000000": [{"from": start, "to": None, "only": ""}],
        "1.500000000": [{"from": None, "to": None, "only": "queue batch"}],
    }
    shown = text_of(invoice)
    for words in ("price until 15 October 2026", "price from 16 October 2026 on", "price for queue batch"):
        assert words in shown, shown


def test_what_was_issued_stays_byte_for_byte_and_what_is_issued_next_has_the_new_details(october: Store) -> None:
    first = of(issue_all(october, OCTOBER, ISSUED, "physics"), "physics")
    before = as_pdf(first), as_json(first)
    assert "parties" not in first.document
    assert "How to pay" not in text_of(first)
    apply_parties(october, details(), "me", "we moved", at("2026-11-03 09:00"))
    (again,) = issued(october, number=first.number or "")
    assert (as_pdf(again), as_json(again)) == before
    second = of(issue_all(october, OCTOBER, ISSUED), "研发")
    moved = details(seller=[{**SELLER, "address": ["Elsewhere"]}])
    apply_parties(october, moved, "me", "", at("2026-11-04 09:00"))
    (again,) = issued(october, number=second.number or "")
    assert again.document == second.document
    assert "Zülpicher Str. 1" in text_of(again)
    note = credit(october, second.number or "", Decimal("1.00"), at("2026-11-05 09:00"), "me", "slow")
    assert note.document["parties"]["seller"]["address"] == ["Elsewhere"]
    assert note.document["parties"]["due_date"] is None
    assert "How to pay" not in text_of(note)


def test_details_are_those_of_the_day_of_issue(october: Store) -> None:
    """Dated to the 3rd: the instant of issue is the 3rd in Berlin, and still the 2nd in UTC."""
    sellers = [
        {**SELLER, "name": "Old", "effective_to": date(2026, 11, 3)},
        {**SELLER, "name": "New", "effective_from": date(2026, 11, 3)},
    ]
    apply_parties(october, details(seller=sellers), "me", "", at("2026-10-02 09:00"))
    assert of(issue_all(october, OCTOBER, ISSUED, "研发"), "研发").document["parties"]["seller"]["name"] == "New"
    draft = of(draft_all(october, OCTOBER), "physics").document
    assert (draft["parties"]["seller"]["name"], draft["parties"]["due_date"]) == ("Old", None)  # 1 November


def test_where_nothing_is_due_nothing_is_to_be_paid(october: Store) -> None:
    card = {**CARD, "discounts": [{"name": "granted", "percent": "100"}]}
    apply_rate_card(october, parse_rate_card(card), "me", "", at("2026-10-02 00:00"))
    apply_parties(october, details(), "me", "", at("2026-10-02 09:00"))
    invoice = of(issue_all(october, OCTOBER, ISSUED), "physics")
    assert (invoice.amount, invoice.document["parties"]["due_date"]) == (0, None)
    assert "To pay nothing" in text_of(invoice)
    assert "IBAN" not in text_of(invoice)


def test_applying_is_audited_and_the_same_again_changes_nothing(october: Store) -> None:
    assert current_parties(october) is None
    version = apply_parties(october, details(), "ada", "new bank", at("2026-10-02 09:00"))
    assert apply_parties(october, details(), "bob", "", at("2026-10-03 09:00")) == version
    found = current_parties(october)
    assert found is not None
    assert (found.author, found.reason, found.sequence, found.parties) == ("ada", "new bank", 1, details())
    (row,) = audit.history(october, "parties.apply")
    assert (row["actor"], row["reason"]) == ("ada", "new bank")


@pytest.mark.parametrize(
    ("content", "reported"),
    [
        ({"seller": [{**SELLER, "bank": {**BANK, "iban": "DE88370400440532013000"}}]}, "its check digits are wrong"),
        ({"seller": [{**SELLER, "bank": {**BANK, "account": "1"}}]}, "give either iban or account, not both"),
        ({"seller": [{**SELLER, "bank": {"holder": "x"}}]}, "give either iban or account, not both"),
        ({"seller": [SELLER, {**SELLER, "effective_from": date(2026, 1, 1)}]}, "in force on the same day"),
        ({"buyers": [BUYER, BUYER]}, "buyers[0] and buyers[1] of tenant '研发'"),
        ({"buyers": [{**BUYER, "effective_from": "2026-02-30"}]}, "expected a day such as 2026-10-01"),
        ({"buyers": [{**BUYER, "effective_from": "2026-02-02", "effective_to": "2026-02-02"}]}, "is not after"),
        ({"buyers": [{**BUYER, "purchase_oder": "1"}]}, "known here: effective_from, effective_to, tenant, name"),
        ({"buyers": [{"tenant": "x"}]}, "buyers[0].name: missing"),
    ],
)
def test_details_of_no_use_are_refused_with_what_fits(content: dict[str, Any], reported: str) -> None:
    with pytest.raises(PartiesError) as refused:
        parse_parties(content)
    assert reported in str(refused.value)


def test_buyers_that_follow_each_other_are_fine() -> None:
    first = {**BUYER, "effective_to": date(2026, 11, 1)}
    parse_parties({"buyers": [first, {**BUYER, "effective_from": date(2026, 11, 1)}, {**BUYER, "tenant": "other"}]})


@given(st.lists(st.integers(0, 40), min_size=2, max_size=6, unique=True), st.integers(-5, 45))
def test_on_any_day_at_most_the_one_in_force_is_named(cuts: list[int], day: int) -> None:
    """Sellers that follow each other without a gap: before the first cut and after the last there is none."""
    first = date(2026, 1, 1)
    days = [first + timedelta(days=cut) for cut in sorted(cuts)]
    sellers = [
        {**SELLER, "name": str(number), "effective_from": since, "effective_to": until}
        for number, (since, until) in enumerate(pairwise(days))
    ]
    named = parse_parties({"seller": sellers}).on_document("x", first + timedelta(days=day), to_pay=True)
    passed = [cut for cut in sorted(cuts) if cut <= day]
    expected = str(len(passed) - 1) if passed and day < max(cuts) else None
    assert (named["seller"] or {"name": None})["name"] == expected
    assert (named["due_date"] is None) == (expected is None)
