"""Invoices and credit notes as files: what they say, that they say it the same each time, and that it fits the page."""

from __future__ import annotations

import csv
import hashlib
import io
import json
import logging
import os
import re
import struct
import subprocess
import sys
import zlib
from dataclasses import asdict, replace
from decimal import Decimal
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from billing.documents.cjk import CHARACTERS
from billing.documents.figures import days_in_words, hours, money, percent, price, shortened
from billing.documents.invoice_files import COLUMNS, FORMATS, as_csv, as_html, as_pdf, file_stem, write_invoice
from billing.documents.page import Page, page_of, validity
from billing.documents.pdf import LATIN, SHIPPED, compiled, faces
from billing.invoicing.documents import Invoice, text
from gpuledger.commands.invoice import print_table
from tests.billing.sample_documents import PARTIES, credit_note, every_kind, invoice_of, many_lines, other, usage

VOID = {"at": "2026-11-05T08:00:00.000Z", "author": "kim", "reason": "sent to the wrong cost centre"}
EVIL = "<script>alert('&')</script> #panic() $x$"


def old_document() -> Invoice:
    """As documents were before there were kinds of lines."""
    new = ("kind", "description", "quantity", "unit", "rule", "charge_class", "reference")
    lines = [{key: value for key, value in line.items() if key not in new} for line in every_kind().lines[:2]]
    document = {**every_kind().document, "lines": lines}
    measures = {key: value for key, value in document["totals"].items() if key.endswith(("_hours", "_cost"))}
    del document["document_type"], document["payable"]
    return Invoice({**document, "totals": {**measures, "coverage": None, "amount": "13769.29"}})


@given(st.decimals(-1000, 1000, places=2))
def test_zero_has_no_sign_in_a_document_whatever_it_was_reckoned_from(amount: Decimal) -> None:
    assert text(0 * amount) == "0.00"  # what is prepaid of a negative amount, for example
    assert text(amount) == str(amount).removeprefix("-" if not amount else "")


@given(st.integers(1, 3), st.integers(0, 2000))
def test_of_what_corrects_a_month_the_first_are_named_and_the_others_counted(named: int, others: int) -> None:
    first = [{"allocation": f"job-{n}", "gpu_hours": "1.5"} for n in range(named)]
    change = {"month": "2026-09", "from": "2026-09-03T10:00:00.000Z", "to": "2026-09-20T22:00:00.000Z"}
    changes = [{**change, "closed_at": None, "allocations": named + others, "first": first}]
    said = str(asdict(page_of(every_kind(changes=changes))))
    names = ", ".join(f"job-{n} (+1.50 GPU-hours)" for n in range(named))
    assert f"{names} and {others:,} more." in said if others else f"{names}." in said


# --- what a page says ------------------------------------------------------------------------------------------------


def test_the_sums_lead_from_list_prices_to_what_is_due() -> None:
    sums = [(step.label, step.amount) for step in page_of(every_kind()).sums]
    assert sums == [
        ("GPU time at list prices", "18,906.10"),
        ("Contract prices", "−2,310.23"),
        ("Minimum duration", "3.42"),
        ("Energy", "1,204.56"),
        ("Memory", "61.20"),
        ("Commitments", "−998.29"),
        ("Discounts", "−310.80"),
        ("Shared cost", "218.03"),
        ("Credits", "−150.00"),
        ("Corrections of earlier months", "−40.47"),
        ("Net", "16,583.52"),
        ("VAT 19 % of 16,623.99", "3,158.56"),
        ("VAT 19 % on the correction of September 2026", "−7.69"),
        ("Total", "19,734.39"),
        ("Paid from the prepaid balance", "−5,000.00"),
        ("Due", "14,734.39"),
    ]


def test_every_line_stands_in_one_place() -> None:
    invoice = every_kind()
    page = page_of(invoice)
    groups = [*page.projects, *page.adjustments, *page.corrections]
    shown = sorted(row.amount for group in groups for row in group.rows)
    assert shown == sorted(money(line["amount"]) for line in invoice.lines)
    assert [group.title for group in page.projects] == ["llm-pretraining", "研发一部 / 推理", "notebooks"]
    assert [group.title for group in page.adjustments] == [
        "Minimum duration", "Commitments", "Discounts", "Shared cost", "Credits", "Tax",
    ]  # fmt: skip
    (corrected,) = page.corrections
    assert (corrected.title, corrected.amount) == ("Corrects invoice MB-2026-00007, September 2026", "−40.47")
    assert [(row.title, row.more) for row in corrected.rows] == [
        ("L40S", "18 September: allocation job-4711 ended two hours earlier than was known · project notebooks"),
        ("Discounts", "5 % above 1,000 GPU-hours in the month, graduated · rule volume"),
    ]
    (late,) = [row for row in page.adjustments[-1].rows if row.title.startswith("VAT 19 % on the correction of")]
    assert late.more == "VAT 19 % of -40.47 · Corrects invoice MB-2026-00007, September 2026"


def test_an_adjustment_says_its_rule_and_its_project() -> None:
    (minimum,) = page_of(every_kind()).adjustments[0].rows
    assert minimum.title == "41 sessions shorter than 60 seconds, charged as 60 seconds"
    assert minimum.more == "project notebooks · rule minimum_seconds"


def test_within_a_project_usage_comes_before_energy_and_prices_show_their_discount() -> None:
    first = page_of(every_kind()).projects[0]
    assert [(row.title, row.unit, row.list_price, row.price, row.discounted) for row in first.rows] == [
        ("H100-SXM5-80GB", "GPU-hours", "2.90", "2.45", True),
        ("H200-SXM5-141GB", "GPU-hours", "3.80", "3.40", True),
        ("Energy", "kWh", "", "0.24", False),
    ]
    assert (first.hours, first.amount) == ("5,232.75", "14,973.85")
    assert first.rows[0].used == "90.1%"
    assert first.rows[2].bar is None


def test_dates_are_those_of_the_billing_zone() -> None:
    page = page_of(every_kind(issued_at="2026-11-01T23:30:00.000Z"))
    assert [(fact.text, fact.more) for fact in page.facts[:2]] == [
        ("2 November 2026", ""),
        ("October 2026", "1 – 31 October 2026, Europe/Berlin"),
    ]
    assert page.issued == (2026, 11, 2)


def test_a_document_of_before_there_were_kinds_is_usage_alone() -> None:
    page = page_of(old_document())
    assert [step.label for step in page.sums] == ["GPU time at list prices", "Contract prices", "Total"]
    assert (page.hero_amount, page.adjustments, page.corrections) == ("13,769.29", [], [])
    assert [row.quantity for row in page.projects[0].rows] == ["4,233.75", "999.00"]


def test_an_unknown_kind_is_shown_under_its_own_name() -> None:
    page = page_of(invoice_of([other("late_fee", "12.00", "14 days")]))
    assert [(group.title, group.amount) for group in page.adjustments] == [("Late fee", "12.00")]
    assert ("Late fee", "12.00") in [(step.label, step.amount) for step in page.sums]


def test_unpriced_time_is_unknown_and_never_zero() -> None:
    line = usage("p", "", ("1", "1", "0"), "1", "1", "0.00")
    line |= dict.fromkeys(("list_unit_price", "contracted_unit_price", "list_cost", "billed_cost", "amount"))
    page = page_of(invoice_of([line]))
    (row,) = page.projects[0].rows
    assert (row.title, row.price, row.amount, page.projects[0].amount) == ("(no rate)", "unknown", "unknown", "unknown")
    assert ("GPU time", "unknown") in [(step.label, step.amount) for step in page.sums]


def test_the_total_of_a_draft_with_unpriced_time_says_that_it_is_incomplete(capsys: pytest.CaptureFixture[str]) -> None:
    known = usage("p", "a100", ("1", "1", "0"), "2", "2", "4.00")
    line = usage("p", "", ("1", "1", "0"), "1", "1", "0.00")
    line |= dict.fromkeys(("list_unit_price", "contracted_unit_price", "list_cost", "billed_cost", "amount"))
    draft: dict[str, Any] = {"number": None, "status": "draft", "issued_at": None, "payable": None}
    for rows, amount in (([known, line], "4.00"), ([line], "unknown")):
        whole = invoice_of(rows, **draft)
        totals = {**whole.totals, "unpriced_gpu_hours": "2.5", "amount": "4.00", "incomplete": True}
        invoice = invoice_of(rows, **draft, totals=totals)
        page = page_of(invoice)
        total = next(step for step in page.sums if step.style == "total")
        assert (page.hero_label, page.hero_amount, total.label) == (
            "Amount so far, incomplete", amount, "Total, incomplete",
        )  # fmt: skip
        assert (total.amount, total.more) == (amount, "2.50 GPU-hours have no price")
        print_table(invoice, among_others=False)
        (printed,) = [row for row in capsys.readouterr().out.splitlines() if "total (incomplete)" in row]
        assert ("4.00" in printed) == (amount == "4.00")


def test_a_credit_note_refers_to_its_invoice_and_credits_a_positive_amount() -> None:
    page = page_of(credit_note())
    assert (page.title, page.hero_label, page.hero_amount) == ("Credit note", "Credited to you", "5,950.00")
    assert [(fact.label, fact.text) for fact in page.facts][-1] == ("Refers to", "MB-2026-00012")
    assert (page.parts, page.adjustments_title) == ([], "What is credited")


def test_a_void_invoice_says_so_and_why() -> None:
    page = page_of(every_kind(status="void", void=VOID))
    assert (page.look, page.watermark, page.hero_label) == ("void", "VOID", "Was due")
    assert page.badge == "void, nothing is due: sent to the wrong cost centre"


def test_a_missing_exchange_rate_is_reported() -> None:
    page = page_of(every_kind(payable={"currency": "USD", "rate": None, "amount": None}))
    assert page.hero_more == "payable in USD; the exchange rate is not known yet"
    assert page_of(every_kind()).hero_more == (
        "payable as 15,986.09 USD (1 EUR = 1.085 USD; corrections of September 2026 at 1.10)"
    )


@pytest.mark.parametrize(
    ("text", "shown"),
    [("2.900000000", "2.90"), ("0.001", "0.001"), ("1234.5", "1,234.50"), ("3", "3.00"), ("-0.125", "−0.125")],
)
def test_a_price_has_two_digits_at_least_and_no_idle_zeros(text: str, shown: str) -> None:
    assert price(text) == shown


def test_figures_group_digits_and_a_part_of_nothing_is_a_dash() -> None:
    assert (money("-1234567.80"), money("1000"), hours("0.005")) == ("−1,234,567.80", "1,000", "0.00")
    assert (percent(Decimal(1), Decimal(3)), percent(Decimal(0), Decimal(0))) == ("33.3%", "–")
    assert (shortened("训练平台", 6), shortened("train", 5), shortened("training", 5)) == ("训练平…", "train", "train…")
    across = {"start": "2025-12-31T23:00:00Z", "end": "2026-02-28T23:00:00Z", "timezone": "Europe/Berlin"}
    assert days_in_words(across) == "1 January 2026 – 28 February 2026"


# --- HTML ------------------------------------------------------------------------------------------------------------


class Texts(HTMLParser):
    """Collects a page's tags and texts."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.texts: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.tags.add(tag)

    def handle_data(self, data: str) -> None:
        self.texts.append(data.strip())


def evil() -> Invoice:
    """Every text that people give tries to be markup."""
    lines = [usage(EVIL, EVIL, ("1", "0", "0"), "2", "2", None), other("credit", "-1.00", EVIL, EVIL)]
    parties: dict[str, Any] = {**PARTIES, "seller": {**PARTIES["seller"], "terms": EVIL, "address": [EVIL]}}
    parties["seller"]["bank"] = {**PARTIES["seller"]["bank"], "holder": EVIL, "name": EVIL, "bic": ""}
    parties["buyer"] = {**PARTIES["buyer"], "name": EVIL, "address": [EVIL]}
    issuer = {"name": EVIL, "address": [EVIL], "contact": EVIL}
    return invoice_of(lines, tenant=EVIL, notes=[EVIL], issuer=issuer, parties=parties)


def test_the_page_escapes_every_text_and_needs_nothing_from_elsewhere() -> None:
    page = as_html(evil())
    seen = Texts(page)
    assert "script" not in seen.tags
    assert seen.texts.count(EVIL) >= 10  # buyer, project, sku, credit, note, addresses, bank, holder, terms
    assert "http" not in page


def test_the_page_shows_each_kind_of_line_its_amount_and_the_watermark_of_a_draft() -> None:
    texts = set(Texts(as_html(every_kind(status="draft", number=None, issued_at=None))).texts)
    assert {"Minimum duration", "Commitments", "−10,372.69", "DRAFT", "−40.47", "14,734.39"} <= texts
    assert "not issued, not a demand for payment" in texts
    assert "DRAFT" not in set(Texts(as_html(every_kind())).texts)


# --- CSV and JSON ----------------------------------------------------------------------------------------------------


def test_a_price_s_validity_says_days_and_the_time_where_it_is_no_midnight() -> None:
    midnight, morning = "2026-10-15T22:00:00.000Z", "2026-10-16T07:30:00.000Z"
    for since, until, said in (
        (midnight, None, "price from 16 October 2026 on"),
        (morning, None, "price from 16 October 2026, 09:30 on"),
        (None, midnight, "price until 15 October 2026"),
        (None, morning, "price until 16 October 2026, 09:30"),
        (midnight, "2026-10-31T23:00:00.000Z", "price from 16 October 2026 to 31 October 2026"),
        (None, None, ""),
    ):
        line = {"price_validity": [{"from": since, "to": until, "only": ""}]}
        assert validity(line, "Europe/Berlin") == said
    both = [{"from": None, "to": midnight, "only": "sat-sun"}, {"from": None, "to": None, "only": "queue batch"}]
    said = "price until 15 October 2026, for sat-sun and for queue batch"
    assert validity({"price_validity": both}, "Europe/Berlin") == said
    listed = {"price_validity": both, "list_price_validity": [{"from": midnight, "to": None, "only": ""}]}
    assert validity(listed, "Europe/Berlin") == f"{said}; list price from 16 October 2026 on"


def test_csv_has_a_row_for_each_line_with_its_rule_and_reference() -> None:
    rows = list(csv.DictReader(io.StringIO(as_csv(every_kind()))))
    assert tuple(rows[0]) == COLUMNS
    assert [row["line"] for row in rows] == [str(number) for number in range(1, 18)]
    late = rows[13]
    assert (late["kind"], late["charge_class"], late["reference_invoice"], late["reference_month"], late["amount"]) == (
        "usage", "Correction", "MB-2026-00007", "2026-09", "-42.60",
    )  # fmt: skip
    assert (rows[10]["rule"], rows[10]["quantity"], rows[10]["allocated_gpu_hours"]) == ("volume", "", "")


def test_rows_of_one_sku_are_ordered_by_price_and_a_document_without_tax_says_so() -> None:
    rows = [
        usage("a", "h100", ("1", "0", "0"), "2", "2", None)
        | {"price_validity": [{"from": "2026-10-17T00:00:00.000Z", "to": None, "only": ""}]},
        usage("a", "h100", ("2", "0", "0"), "3", "3", None)
        | {"price_validity": [{"from": None, "to": "2026-10-17T00:00:00.000Z", "only": ""}]},
    ]
    page = page_of(invoice_of(rows, parties=PARTIES, payable=None))
    assert [row.price for row in page.projects[0].rows] == ["3.00", "2.00"]
    assert [(step.label, step.amount) for step in page.sums[-2:]] == [("Tax", "none"), ("Total", "8.00")]


def test_a_buyer_that_is_called_as_its_tenant_is_not_named_twice() -> None:
    rows = [usage("a", "h100", ("1", "0", "0"), "2", "2", None)]
    for name, lines in (("chem", ["Campus 4"]), ("Chemistry", ["Campus 4", "Tenant chem"])):
        buyer = {**PARTIES["buyer"], "tenant": "chem", "name": name, "purchase_order": ""}
        page = page_of(invoice_of(rows, parties={**PARTIES, "buyer": buyer}, payable=None))
        assert page.tenant_address == lines


def test_contract_prices_are_a_step_only_where_there_are_any_and_not_for_a_cent_of_rounding() -> None:
    """0.005 and 0.005 are two amounts of 0.00 and one sum of 0.01, at the same prices."""
    lines = [usage(name, "h100", ("0.0025", "0", "0"), "2", "2", "0.00") for name in "ab"]
    assert [step.label for step in page_of(invoice_of(lines, parties=None)).sums] == ["GPU time", "Total"]
    lines[0] |= {"contracted_unit_price": "1"}
    steps = page_of(invoice_of(lines, parties=None)).sums
    assert [(step.label, step.amount) for step in steps[:2]] == [
        ("GPU time at list prices", "0.01"), ("Contract prices", "−0.01"),
    ]  # fmt: skip


def test_a_quota_s_price_stands_before_what_it_covers_and_every_row_says_what_it_is_first() -> None:
    late = {"charge_class": "Correction", "reference": {"invoice": "A-1", "month": "2026-09"}}
    lines = [
        other("energy", "1.00", "10 kWh x PUE 1.2, measured", "power", sku="power", project="a"),
        other("commitment", "5.00", "Quota of 2 GPUs for 720 h, used", "reserved", sku="h*"),
        other("commitment", "-3.00", "Covered by reserved", "reserved", sku="h100", project="a"),
        other("discount", "0.13", "2026-09: -1.00 was billed, -0.87 is due", "volume", project="a", **late),
    ]
    page = page_of(invoice_of(lines))
    groups = (*page.projects, *page.adjustments, *page.corrections)
    assert [[(row.title, row.more) for row in group.rows] for group in groups] == [
        [("Energy: power", "10 kWh x PUE 1.2, measured")],
        [
            ("Quota of 2 GPUs for 720 h, used", "SKU h* · rule reserved"),
            ("Covered by reserved", "SKU h100 · project a"),
        ],
        [("Discounts", "2026-09: -1.00 was billed, -0.87 is due · project a · rule volume")],
    ]


def test_a_credit_note_in_another_currency_says_both_amounts_in_the_tenant_s_favour() -> None:
    payable = {"currency": "CHF", "rate": "0.93", "corrections": [], "amount": "-5533.50"}
    page = page_of(replace(credit_note(), document={**credit_note().document, "payable": payable}))
    assert (page.tenant_label, page.hero_label, page.hero_amount) == ("Credited to", "Credited to you", "5,950.00")
    assert page.hero_more == "credited as 5,533.50 CHF (1 EUR = 0.93 CHF)"


def test_no_cell_of_the_csv_is_a_formula() -> None:
    document = json.loads(json.dumps(every_kind().document, default=str))
    for line in document["lines"]:
        line["project"] = "=cmd|'/c calc'!A0"
    text = as_csv(replace(every_kind(), document={**document, "tenant": "@SUM(A1)"}))
    rows = list(csv.DictReader(io.StringIO(text)))
    assert {row["project"] for row in rows} == {"'=cmd|'/c calc'!A0"}
    assert {row["tenant"] for row in rows} == {"'@SUM(A1)"}
    assert "-42.60" in {row["amount"] for row in rows}


def test_csv_of_a_document_of_before_there_were_kinds_has_the_same_columns() -> None:
    first = next(csv.DictReader(io.StringIO(as_csv(old_document()))))
    assert (first["kind"], first["unit"], first["quantity"]) == ("usage", "GPU-hours", "4233.750000000")
    assert (first["document_type"], first["rule"]) == ("invoice", "")


# --- PDF -------------------------------------------------------------------------------------------------------------

PRINT_HASH = """
import hashlib
from billing.documents.invoice_files import as_pdf
from tests.billing.sample_documents import every_kind
print(hashlib.sha256(as_pdf(every_kind())).hexdigest())
"""


def test_the_same_document_is_the_same_bytes_in_another_process_zone_and_year() -> None:
    root = Path(__file__).parents[2]
    hashes = {hashlib.sha256(as_pdf(every_kind())).hexdigest()}
    other = {"PYTHONHASHSEED": "1", "TZ": "Asia/Shanghai", "SOURCE_DATE_EPOCH": "1900000000", "PYTHONPATH": str(root)}
    done = subprocess.run(
        [sys.executable, "-c", PRINT_HASH],
        cwd=root, env={**os.environ, **other}, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert hashes == {done.stdout.strip()}


def test_the_pdf_is_dated_with_the_day_of_issue_and_a_draft_is_not_dated() -> None:
    assert b"D:20261102" in as_pdf(every_kind())
    draft = as_pdf(every_kind(status="draft", number=None, issued_at=None))
    assert b"CreationDate" not in draft
    assert b"ModDate" not in draft


def test_ideographs_are_set_in_the_face_that_is_shipped_whatever_the_machine_has() -> None:
    for found in (faces(), faces(())):
        assert b"gpuledger-CJK" in as_pdf(every_kind(), found)
        assert b"CJK" not in as_pdf(old_document_in_latin(), found)


def test_the_shipped_face_has_what_it_says() -> None:
    face = (SHIPPED / "gpuledger-cjk.otf").read_bytes()
    assert mapped(face) >= {ord(letter) for letter in CHARACTERS}
    assert set("研发一部繁體語言ひらカナ한국어，。「」") <= CHARACTERS


def mapped(face: bytes) -> set[int]:
    """Code points of the font's character map (format 4: ranges, all in the basic plane)."""
    tables = {
        face[at : at + 4]: struct.unpack(">II", face[at + 8 : at + 16]) for at in range(12, 12 + 16 * face[5], 16)
    }
    start = tables[b"cmap"][0]
    (count,) = struct.unpack(">H", face[start + 2 : start + 4])
    offsets = [struct.unpack(">I", face[start + 8 + 8 * one : start + 12 + 8 * one])[0] for one in range(count)]
    (at,) = {start + offset for offset in offsets if face[start + offset : start + offset + 2] == b"\0\4"}
    segments = struct.unpack(">H", face[at + 6 : at + 8])[0] // 2
    lasts = struct.unpack(f">{segments}H", face[at + 14 : at + 14 + 2 * segments])
    firsts = struct.unpack(f">{segments}H", face[at + 16 + 2 * segments : at + 16 + 4 * segments])
    return {code for first, last in zip(firsts, lasts, strict=True) for code in range(first, last + 1)}


def old_document_in_latin() -> Invoice:
    return Invoice({**old_document().document, "tenant": "Physics"})


def test_of_a_rare_ideograph_that_no_font_has_the_log_speaks_and_the_page_does_not(
    caplog: pytest.LogCaptureFixture,
) -> None:
    bare = faces(())
    assert not bare.all_cjk
    with caplog.at_level(logging.WARNING):
        as_pdf(every_kind(), bare)
        assert caplog.records == []
        rare = Invoice({**old_document().document, "tenant": "研𠮷"})
        assert as_pdf(rare, bare).startswith(b"%PDF")
    (record,) = caplog.records
    assert "no font has 𠮷, shown as boxes" in record.getMessage()
    assert "fonts-noto-cjk" in record.getMessage()
    assert "font" not in as_html(rare).partition("<body>")[2]


def test_texts_are_never_markup() -> None:
    assert as_pdf(evil()).startswith(b"%PDF")


@pytest.mark.parametrize("logo", ["data:image/png;base64,AAAA", "data:image/x-icon;base64,AAAA", ""])
def test_a_logo_that_cannot_be_drawn_is_replaced(logo: str, caplog: pytest.LogCaptureFixture) -> None:
    issuer = {**every_kind().document["issuer"], "logo": logo}
    assert as_pdf(every_kind(issuer=issuer)).startswith(b"%PDF")
    assert ("a monogram stands in" in caplog.text) == ("png" in logo)


@pytest.mark.parametrize(
    "invoice",
    [many_lines(120), every_kind(), every_kind(parties=PARTIES), credit_note(), every_kind(status="void", void=VOID)],
    ids=["120 lines with long names", "every kind", "with parties", "credit note", "void"],
)
def test_nothing_leaves_the_printed_area(invoice: Invoice) -> None:
    pages = rendered(page_of(invoice))
    assert (len(pages) > 5) == (len(invoice.lines) == 120)
    for width, height, pixels in pages:
        margin = width * 14 // 210  # 14 of the 16 mm
        for row in range(height):
            assert set(pixels[row][:margin]) == {255}
            assert set(pixels[row][width - margin :]) == {255}
        footer = pixels[height * 283 // 297 : height * 290 // 297]
        assert any(set(row[width // 2 :]) != {255} for row in footer)  # the number of the page


def rendered(page: Page) -> list[tuple[int, int, list[bytes]]]:
    """The pages as grey pixels: width, height, rows. Enough of PNG to read what typst writes: 8 bits, RGB(A)."""
    images = compiled("invoice", asdict(page), format="png", ppi=20)
    return [_grey(image) for image in ([images] if isinstance(images, bytes) else images)]


def _grey(image: bytes) -> tuple[int, int, list[bytes]]:
    width, height = (int.from_bytes(image[at : at + 4], "big") for at in (16, 20))
    channels = {2: 3, 6: 4}[image[25]]
    data, at = b"", 8
    while at < len(image):
        size, kind = int.from_bytes(image[at : at + 4], "big"), image[at + 4 : at + 8]
        data += image[at + 8 : at + 8 + size] if kind == b"IDAT" else b""
        at += 12 + size
    raw, stride, rows, before = zlib.decompress(data), width * channels, [], bytes(width * channels)
    for number in range(height):
        start = number * (stride + 1)
        line = bytearray(raw[start + 1 : start + 1 + stride])
        for index in range(stride):
            left = line[index - channels] if index >= channels else 0
            up, corner = before[index], before[index - channels] if index >= channels else 0
            line[index] = (line[index] + _predicted(raw[start], left, up, corner)) & 255
        before = bytes(line)
        rows.append(before[1::channels])
    return width, height, rows


def _predicted(method: int, left: int, up: int, corner: int) -> int:
    if method < 4:
        return (0, left, up, (left + up) // 2)[method]
    guess = left + up - corner
    return min((left, up, corner), key=lambda value: abs(guess - value))


def test_the_faces_are_those_that_are_named() -> None:
    if LATIN[0] not in faces().families:
        pytest.skip(f"{LATIN[0]} is not installed (Debian: fonts-inter)")
    named = set(re.findall(rb"/BaseFont ?/[A-Z]{6}\+([A-Za-z]+)", as_pdf(every_kind())))
    assert named <= {b"Inter", b"gpuledger"}


# --- files -----------------------------------------------------------------------------------------------------------


def test_files_are_written_over_and_say_the_same(tmp_path: Path) -> None:
    invoice = every_kind()
    paths = write_invoice(invoice, tmp_path / "out")
    assert [path.suffix[1:] for path in paths] == list(FORMATS)
    assert json.loads(paths[1].read_text()) == invoice.document
    before = [path.read_bytes() for path in paths]
    assert [path.read_bytes() for path in write_invoice(invoice, tmp_path / "out")] == before
    assert len(list((tmp_path / "out").iterdir())) == 4


@settings(max_examples=40)
@given(st.text(max_size=80), st.text(max_size=80))
def test_file_names_stay_in_their_folder_and_differ_for_different_tenants(one: str, other: str) -> None:
    stems = [
        file_stem(Invoice({"number": None, "tenant": tenant, "period": {"month": "2026-10"}}))
        for tenant in (one, other)
    ]
    assert (stems[0] == stems[1]) == (one == other)
    for stem in stems:
        assert stem.startswith("draft-2026-10-")
        assert not set(stem) & set("/\\:\0.<>|\n")
        assert len(stem.encode()) < 120


def test_a_plain_tenant_keeps_its_name_in_the_file() -> None:
    named = Invoice({"number": "GL-2026-00001", "tenant": "研发一部", "period": {"month": "2026-10"}})
    assert file_stem(named) == "GL-2026-00001-研发一部"
