"""FOCUS files: figures by hand, sums against invoices and ledger, and what the checks see."""

from __future__ import annotations

import csv
import gzip
import json
import os
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from zoneinfo import ZoneInfo

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from billing.exports import check, focus
from billing.exports.check import check_focus
from billing.exports.columns import FOCUS_1_2
from billing.exports.errors import ExportError
from billing.exports.focus import FocusOptions, FocusReport, export_focus
from billing.exports.lines import statement_of
from billing.invoicing.documents import Invoice
from billing.invoicing.invoices import credit, issue_all
from billing.periods import Period, parse_period
from billing.rates import apply_rate_card, parse_rate_card
from tests.billing.hand_ledger import HOUR_MS, Row, at, fill
from tests.draws import seldom
from tests.stores import emptied
from warehouse.store import Store

OCTOBER = parse_period("2026-10", "UTC")
NOON, NOW = at("2026-10-05 12:00"), at("2026-11-02 09:00")
CARD: dict[str, Any] = {
    "currency": "EUR",
    "minimum_seconds": 0,
    "rates": [{"sku": "h100", "price_per_gpu_hour": "2.00"}],
}


def price(books: Store, **policies: Any) -> None:
    apply_rate_card(books, parse_rate_card({**CARD, **policies}), "me", "", NOW)


def write_october(books: Store) -> Store:
    """October, closed: physics with a contract price and two projects, o'brien a third of an hour, an idle GPU."""
    price(books)
    fill(
        books,
        [
            Row(NOON, "physics", "qcd", used=str(HOUR_MS // 2), idle=str(HOUR_MS // 4), unmetered=HOUR_MS // 4),
            Row(NOON, "physics", "bsm", device="gpu-2", units=7, used=str(HOUR_MS), contracted="1.50"),
            Row(NOON, "o'brien", 'say "hi", 研发', device="gpu-2", units=7, used=str(2 * HOUR_MS), queue="a,b"),
            Row(NOON, device="gpu-4", unallocated=HOUR_MS),
        ],
        closed=[at("2026-10-31 23:00")],
    )
    return books


@pytest.fixture
def october(books: Store) -> Store:
    return write_october(books)


def exported(
    store: Store, folder: Path, name: str = "focus.csv", **options: Any
) -> tuple[list[dict[str, str]], FocusReport]:
    """The rows of a CSV that keeps all rules, and the report."""
    report = export_focus(store, OCTOBER, folder / name, FocusOptions(**options))
    assert [str(one) for one in check_focus(store, report.path, report)] == []
    return read(report.path), report


def read(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def of(rows: list[dict[str, str]], kind: str) -> list[dict[str, str]]:
    return [row for row in rows if row["x_LineKind"] == kind]


def total(rows: list[dict[str, str]], column: str) -> Fraction:
    return sum((Fraction(row[column] or "0") for row in rows), Fraction(0))


@dataclass(frozen=True)
class Exports:
    """October's files: as a draft; with the columns of 1.3 (`parts`); and with what it came to, once it was issued."""

    drafted: list[dict[str, str]]
    parts: list[dict[str, str]]
    parts_file: Path
    issued: list[Invoice]
    invoiced: list[dict[str, str]]
    report: FocusReport
    parquet: pa.Table
    zipped: Path


@pytest.fixture(scope="module")
def exports(shared_store: Store, tmp_path_factory: pytest.TempPathFactory) -> Exports:
    folder = tmp_path_factory.mktemp("focus")
    october = write_october(emptied(shared_store))
    drafted, _ = exported(october, folder, "draft.csv", which="draft")
    parts, draft = exported(october, folder, "parts.csv", version="1.3", which="draft")
    issued = issue_all(october, OCTOBER, NOW)
    invoiced, report = exported(october, folder, which="invoiced")
    export_focus(october, OCTOBER, folder / "focus.parquet", FocusOptions())
    export_focus(october, OCTOBER, folder / "focus.csv.gz", FocusOptions())
    table = pq.read_table(folder / "focus.parquet")
    return Exports(drafted, parts, draft.path, issued, invoiced, report, table, folder / "focus.csv.gz")


def test_a_row_is_an_hour_of_a_device_and_holder(exports: Exports) -> None:
    (row,) = [row for row in exports.drafted if row["x_Project"] == "qcd"]
    expected = {
        "SubAccountId": "physics", "SubAccountType": "Tenant", "BillingAccountId": "physics", "InvoiceId": "",
        "ChargeCategory": "Usage", "ChargeClass": "", "ChargeFrequency": "Usage-Based", "PricingCategory": "Standard",
        "ChargePeriodStart": "2026-10-05T12:00:00Z", "ChargePeriodEnd": "2026-10-05T13:00:00Z",
        "BillingPeriodStart": "2026-10-01T00:00:00Z", "BillingPeriodEnd": "2026-11-01T00:00:00Z",
        "ConsumedQuantity": "1.0", "ConsumedUnit": "Hours", "PricingQuantity": "1.0", "ListUnitPrice": "2.0",
        "ListCost": "2.0", "ContractedCost": "2.0", "BilledCost": "2.0", "EffectiveCost": "2.0",
        "BillingCurrency": "EUR", "ProviderName": "GPU platform", "InvoiceIssuerName": "GPU platform",
        "ServiceName": "GPU Compute", "SkuId": "h100", "Tags": '{"project":"qcd"}', "ResourceId": "physics/qcd",
        "x_GpuAllocatedSeconds": "3600.0", "x_GpuUsedSeconds": "1800.0", "x_GpuIdleSeconds": "900.0",
        "x_GpuUnmeteredSeconds": "900.0", "x_Coverage": "0.75", "x_UsedCost": "1.0", "x_Node": "n1",
        "x_DeviceId": "gpu-0", "x_AllocationId": "physics/qcd", "x_Run": "7",
    }  # fmt: skip
    assert {name: row[name] for name in expected} == expected
    assert json.loads(row["SkuPriceDetails"]) == {"GpuCount": 1, "x_GpuModel": "H100"}


def test_a_seventh_of_a_device_costs_its_quantity_times_its_price_exactly(exports: Exports) -> None:
    (row,) = [row for row in exports.drafted if row["x_Project"] == "bsm"]
    assert (row["PricingQuantity"], row["ListCost"]) == ("0.142857142857143", "0.285714285714286")
    assert (row["ContractedUnitPrice"], row["ContractedCost"]) == ("1.5", "0.2142857142857145")


def test_texts_arrive_as_they_are(exports: Exports) -> None:
    (row,) = [row for row in exports.drafted if row["SubAccountId"] == "o'brien"]
    assert (row["x_Project"], row["x_Queue"]) == ('say "hi", 研发', "a,b")
    assert json.loads(row["Tags"]) == {"project": 'say "hi", 研发', "queue": "a,b"}


def test_rows_sum_to_the_invoice_with_one_row_for_its_rounding(exports: Exports) -> None:
    amounts = {one.number: one.amount for one in exports.issued}
    # o'brien: 2/7 h x 2.00 = 0.571428...; physics: 2.00 + 1/7 h x 1.50 = 2.214285...
    assert amounts == {"GL-2026-00001": Decimal("0.57"), "GL-2026-00002": Decimal("2.21")}
    rows = exports.invoiced
    for number, amount in amounts.items():
        assert total([row for row in rows if row["InvoiceId"] == number], "BilledCost") == Fraction(amount)
    roundings = {row["InvoiceId"]: row for row in of(rows, "rounding")}
    assert roundings["GL-2026-00001"]["ChargeCategory"] == "Adjustment"
    assert roundings["GL-2026-00001"]["BilledCost"] == "-0.001428571428572"
    assert roundings["GL-2026-00001"]["PricingQuantity"] == ""
    assert exports.report.invoices == amounts


def test_discounts_and_quotas_are_inside_the_rows(october: Store, tmp_path: Path) -> None:
    quota = {"name": "quota", "tenant": "physics", "sku": "h100", "gpus": "0.5", "price_per_gpu_hour": "1.00"}
    price(october, discounts=[{"name": "early", "percent": "10"}], commitments=[quota])
    (invoice,) = [one for one in issue_all(october, OCTOBER, NOW) if one.tenant == "physics"]
    rows, _ = exported(october, tmp_path, tenant="physics")
    # The quota covers half an hour of qcd (the dearest), 1.00 of its 2.00; 10 % come off what is left.
    (qcd,) = [row for row in of(rows, "usage") if row["x_Project"] == "qcd"]
    assert (qcd["ListCost"], qcd["ContractedCost"]) == ("2.0", "2.0")
    assert Fraction(qcd["BilledCost"]) == pytest.approx(0.9)
    # 744 h x 0.5 GPUs = 372 GPU-hours were bought; half an hour of it was used.
    assert Fraction(qcd["EffectiveCost"]) == pytest.approx(0.9 + 0.5)
    assert [row["EffectiveCost"] for row in rows if row["ChargeCategory"] == "Purchase"] == ["0.0", "0.0"]
    assert total([row for row in rows if row["ChargeCategory"] == "Purchase"], "BilledCost") == 372
    (unused,) = [row for row in rows if row["CommitmentDiscountStatus"] == "Unused"]
    assert (unused["BilledCost"], unused["EffectiveCost"], unused["ConsumedQuantity"]) == ("0.0", "371.5", "")
    assert all(Fraction(row["BilledCost"]) >= 0 for row in rows if row["ChargeCategory"] == "Usage")
    assert total(rows, "BilledCost") == Fraction(invoice.amount)
    assert total(rows, "EffectiveCost") == pytest.approx(float(invoice.amount))


def test_taxes_credits_and_corrections_have_their_categories(october: Store, tmp_path: Path) -> None:
    price(october, taxes=[{"name": "VAT", "percent": "19"}])
    issue_all(october, OCTOBER, NOW)
    credit(october, "GL-2026-00002", Decimal("1.00"), NOW, "me", "it was slow")
    rows, _ = exported(october, tmp_path)
    vat = [row for row in rows if row["ChargeCategory"] == "Tax" and row["InvoiceId"] == "GL-2026-00002"]
    assert [row["BilledCost"] for row in vat] == ["0.42"]
    (given,) = [row for row in rows if row["ChargeCategory"] == "Credit"]
    assert (given["BilledCost"], given["InvoiceId"]) == ("-1.0", "GL-2026-00003")
    assert given["x_CorrectsInvoiceId"] == "GL-2026-00002"
    assert total([row for row in rows if row["InvoiceId"] == "GL-2026-00003"], "BilledCost") == Fraction("-1.19")


def test_what_changed_after_the_invoice_is_exported_as_it_was_invoiced(october: Store, tmp_path: Path) -> None:
    issue_all(october, OCTOBER, NOW)
    rows = [
        Row(NOON, "physics", "qcd", used=str(HOUR_MS // 2)),
        Row(NOON, "physics", "bsm", device="gpu-2", units=7, used=str(HOUR_MS), contracted="1.50"),
        Row(NOON, "o'brien", 'say "hi", 研发', device="gpu-2", units=7, used=str(2 * HOUR_MS), queue="a,b"),
    ]
    fill(october, rows, run=8)
    found, report = exported(october, tmp_path, which="invoiced")
    assert report.by_line == ["physics"]
    (qcd,) = [row for row in of(found, "usage") if row["x_Project"] == "qcd"]
    assert (qcd["ConsumedQuantity"], qcd["BilledCost"], qcd["x_DeviceId"]) == ("1.0", "2.0", "")
    assert (qcd["ChargePeriodStart"], qcd["ChargePeriodEnd"]) == ("2026-10-01T00:00:00Z", "2026-11-01T00:00:00Z")
    (bsm,) = [row for row in of(found, "usage") if row["x_Project"] == "bsm"]
    assert bsm["x_DeviceId"] == "gpu-2"
    assert total(found, "BilledCost") == Fraction("2.78")


def test_a_correction_names_the_month_and_the_invoice_it_corrects(october: Store, tmp_path: Path) -> None:
    issue_all(october, OCTOBER, NOW)
    late = Row(at("2026-10-07 12:00"), "physics", "qcd", used=str(HOUR_MS))
    fill(october, [late], run=8)
    fill(october, [Row(at("2026-11-03 00:00"), "physics", "qcd", used=str(HOUR_MS))], run=9)
    november = parse_period("2026-11", "UTC")
    report = export_focus(october, november, tmp_path / "focus.csv", FocusOptions(which="draft"))
    assert [str(one) for one in check_focus(october, report.path, report)] == []
    (row,) = [row for row in read(report.path) if row["ChargeClass"] == "Correction"]
    expected = {
        "ChargeCategory": "Usage", "BilledCost": "2.0", "x_CorrectsInvoiceId": "GL-2026-00002",
        "ChargePeriodStart": "2026-10-01T00:00:00Z", "ChargePeriodEnd": "2026-11-01T00:00:00Z",
        "BillingPeriodStart": "2026-11-01T00:00:00Z", "ConsumedQuantity": "1.0", "ContractedUnitPrice": "",
    }  # fmt: skip
    assert {name: row[name] for name in expected} == expected


def test_with_the_platform_rows_cost_what_the_fleet_costs(october: Store, tmp_path: Path) -> None:
    whole = Row(NOON, "physics", "mig", device="gpu-7", units=7, used=str(6 * HOUR_MS), idle=str(HOUR_MS))
    parts = {"used": str(HOUR_MS // 2), "idle": str(HOUR_MS // 8), "unmetered": HOUR_MS // 8 * 3}
    orphan = Row(NOON, "", "orphan", device="gpu-5", **parts)
    fill(october, [whole, orphan, Row(NOON, device="gpu-8", units=7, unallocated=7 * HOUR_MS)])
    rows, _ = exported(october, tmp_path, which="draft", platform=True)
    idle, shared = sorted(of(rows, "unallocated"), key=lambda row: row["ResourceId"])
    assert (idle["ServiceName"], idle["BillingAccountId"], idle["SubAccountId"]) == ("GPU Idle", "platform", "")
    assert (idle["ResourceId"], idle["ResourceType"], idle["BilledCost"]) == ("gpu-4", "GPU", "2.0")
    (row,) = of(rows, "unattributed")
    assert (row["BilledCost"], row["SubAccountId"], row["x_UsedCost"]) == ("2.0", "", "1.0")
    seconds = [row[f"x_Gpu{kind}Seconds"] for kind in ("Allocated", "Used", "Idle", "Unmetered")]
    assert seconds == ["3600.0", "1800.0", "450.0", "1350.0"]
    # A whole device of seven units is an hour.
    (row,) = [row for row in rows if row["x_Project"] == "mig"]
    assert (row["ConsumedQuantity"], row["BilledCost"]) == ("1.0", "2.0")
    assert (row["x_GpuUsedSeconds"], row["x_UsedCost"]) == ("3085.714285714", "1.714285714285714")
    assert (shared["ResourceId"], shared["BilledCost"]) == ("gpu-8", "2.0")
    # At list: 2 h + 3/7 h held, 2 h idle, 1 h of nobody; 2.00 each.
    assert total(rows, "ListCost") == pytest.approx(2 * (2 + 3 / 7 + 2 + 1))


def test_what_tenants_bear_is_not_the_platforms_too(october: Store, tmp_path: Path) -> None:
    price(october, idle_policy=[{"pool": "*", "share": "evenly"}])
    rows, _ = exported(october, tmp_path, which="draft", platform=True)
    shared = of(rows, "shared")
    assert sorted(row["BilledCost"] for row in shared) == ["-2.0", "1.0", "1.0"]
    assert {row["ChargeCategory"] for row in shared} == {"Adjustment"}
    assert total([row for row in rows if row["BillingAccountType"] == "Platform"], "BilledCost") == 0


def test_a_price_that_is_unknown_is_no_zero(october: Store, tmp_path: Path) -> None:
    fill(october, [Row(NOON, "physics", "new", device="gpu-9", used=str(HOUR_MS), price=None)], run=7)
    with pytest.raises(ExportError, match=r"1.00 GPU-hours have no price"):
        export_focus(october, OCTOBER, tmp_path / "focus.csv", FocusOptions(which="draft"))
    assert list(tmp_path.iterdir()) == []
    rows, report = exported(october, tmp_path, which="draft", skip_unpriced=True)
    assert report.unpriced_hours == 1
    assert "new" not in {row["x_Project"] for row in rows}


def test_a_month_without_invoices_and_another_suffix_are_refused(october: Store, tmp_path: Path) -> None:
    with pytest.raises(ExportError, match="2026-10: no invoice was issued"):
        export_focus(october, OCTOBER, tmp_path / "focus.csv", FocusOptions(which="invoiced"))
    with pytest.raises(ExportError, match=r"focus.xlsx: unknown suffix. Use .csv, .csv.gz, .parquet"):
        export_focus(october, OCTOBER, tmp_path / "focus.xlsx", FocusOptions())


@seldom(6, "hours days and months sum to the")
def test_hours_days_and_months_sum_to_the_same(october: Store, tmp_path: Path) -> None:
    fill(october, [Row(at("2026-10-05 13:00"), "physics", "qcd", used=str(HOUR_MS))], run=7)
    fill(october, [Row(at("2026-10-06 00:00"), "physics", "qcd", used=str(HOUR_MS))], run=7)
    issue_all(october, OCTOBER, NOW)
    wanted = (("1.2", "hour"), ("1.2", "month"), ("1.3", "day"))
    files = [exported(october, tmp_path, version=version, grain=grain)[0] for version, grain in wanted]
    counts = [len([row for row in of(rows, "usage") if row["x_Project"] == "qcd"]) for rows in files]
    assert counts == [3, 1, 2]
    for column in ("BilledCost", "ListCost", "ConsumedQuantity", "x_GpuUsedSeconds"):
        assert len({total(rows, column) for rows in files}) == 1


def test_the_same_rows_in_every_format_and_the_same_bytes_again(exports: Exports, books: Store) -> None:
    rows = exports.invoiced
    assert gzip.decompress(exports.zipped.read_bytes()) == exports.report.path.read_bytes()
    table = exports.parquet
    assert table.column_names == list(rows[0])
    assert sum(table["BilledCost"].to_pylist()) == total(rows, "BilledCost")
    assert str(table.schema.field("BilledCost").type) == "decimal128(38, 24)"
    assert str(table.schema.field("ChargePeriodStart").type) == "timestamp[ms, tz=UTC]"
    assert check_focus(books, exports.zipped) == []


def test_parts_of_a_device_sum_to_one_in_1_3(exports: Exports) -> None:
    parts = {row["AllocatedResourceId"]: row for row in exports.parts if row["ResourceId"] == "gpu-2"}
    assert len(parts) == 2
    ratios = [json.loads(row["AllocatedMethodDetails"])["Elements"][0]["AllocatedRatio"] for row in parts.values()]
    assert sorted(ratios) == pytest.approx([1 / 3, 2 / 3])
    assert {row["ResourceType"] for row in parts.values()} == {"GPU"}
    assert parts["physics/bsm"]["ServiceProviderName"] == parts["physics/bsm"]["HostProviderName"] == "GPU platform"


BREAKS: dict[str, Callable[[dict[str, str]], dict[str, str]]] = {
    "ChargeCategory is none of Usage, Purchase, Tax, Credit, Adjustment": lambda row: {"ChargeCategory": "Rental"},
    "ServiceCategory is none of FOCUS's nineteen": lambda row: {"ServiceCategory": "GPUs"},
    "ServiceSubcategory does not belong to ServiceCategory": lambda row: {"ServiceSubcategory": "Containers"},
    "ChargeFrequency is none of One-Time, Recurring, Usage-Based": lambda row: {"ChargeFrequency": "Daily"},
    "BilledCost is null": lambda row: {"BilledCost": ""},
    "ContractedUnitPrice x PricingQuantity is not ContractedCost": lambda row: {
        "ContractedCost": str(Decimal(row["ContractedCost"]) + 1)
    },
    "ListUnitPrice x PricingQuantity is not ListCost": lambda row: {"ListCost": "0.29"},
    "a date is not like 2026-10-01T00:00:00Z": lambda row: {"ChargePeriodStart": "2026-10-05 12:00:00"},
    "a period does not end after it starts": lambda row: {"ChargePeriodEnd": row["ChargePeriodStart"]},
    "a charge that is no Correction lies outside its billing period": lambda row: {
        "ChargePeriodEnd": "2026-11-02T00:00:00Z"
    },
    "ChargeClass is neither null nor Correction": lambda row: {"ChargeClass": "Corrected"},
    "a Correction does not say what it corrects": lambda row: {"ChargeClass": "Correction"},
    "a Usage has no ConsumedQuantity": lambda row: {"ConsumedQuantity": "", "ConsumedUnit": ""},
    "a quantity is without its unit": lambda row: {"PricingUnit": ""},
    "is not JSON object": lambda row: {"Tags": '{"project": '},
    "a cost, quantity or price is no plain decimal": lambda row: {"EffectiveCost": "1,5"},
    "no code of three letters": lambda row: {"BillingCurrency": "Euro"},
    "a cost or quantity of Usage or Purchase is negative, and it is no Correction": lambda row: {
        "EffectiveCost": "-1.0"
    },
    "used, idle and unmetered seconds are not the allocated seconds": lambda row: {"x_GpuIdleSeconds": "1.0"},
    "is not in printable ASCII": lambda row: {"SubAccountName": "研发"},
}
"""By what is found: a row that breaks this rule and no other."""
BREAKS_TOGETHER: dict[str, Callable[[dict[str, str]], dict[str, str]]] = {
    "several ListUnitPrices": lambda row: {
        "ListUnitPrice": "3.0",
        "ListCost": str(Decimal(row["PricingQuantity"]) * 3),
    },
    "several accounts": lambda row: {"BillingAccountId": "else", "BillingAccountName": "else"},
    "its rows sum to": lambda row: {"BilledCost": "0.01"},
    "GPU-hours are in the file": lambda row: {"ConsumedQuantity": "0.2"},
}
"""What is found of rows together, or beside the books."""


def written(path: Path, rows: list[dict[str, str]]) -> Path:
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    return path


def test_one_row_that_breaks_a_rule_is_seen(exports: Exports, books: Store, tmp_path: Path) -> None:
    """A row for each rule: each is counted once, so none is seen for another's."""
    bsm = next(row for row in exports.invoiced if row["x_Project"] == "bsm")
    rows = [*exports.invoiced, *({**bsm, **change(bsm)} for change in BREAKS.values())]
    found = [str(one) for one in check_focus(books, written(tmp_path / "focus.csv", rows))]
    assert {rule: sum(rule in one and "times" not in one for one in found) for rule in BREAKS} == dict.fromkeys(
        BREAKS, 1
    )


def test_rows_that_break_a_rule_together_or_beside_the_books_are_seen(
    exports: Exports, books: Store, tmp_path: Path
) -> None:
    unseen = {}
    for rule, change in BREAKS_TOGETHER.items():
        rows = [{**row, **change(row)} if row["x_Project"] == "bsm" else row for row in exports.invoiced]
        path = written(tmp_path / "focus.csv", rows)
        findings = [str(one) for one in check_focus(books, path, exports.report)]
        if not any(rule in one for one in findings):
            unseen[rule] = findings
    assert unseen == {}


def test_an_invoice_without_rows_is_seen_unless_it_comes_to_nothing(exports: Exports, books: Store) -> None:
    """Whatever it comes to: no amount but none at all may be missing from the file."""
    amounts = {"GL-0": "0.00", "GL-1": "1", "GL-2": "0.01", "GL-3": "-1.00"}
    report = replace(
        exports.report, invoices={**exports.report.invoices, **{n: Decimal(a) for n, a in amounts.items()}}
    )
    assert [one.rule for one in check_focus(books, report.path, report)] == [
        "invoice GL-1: its rows sum to None, its amount is 1",
        "invoice GL-2: its rows sum to None, its amount is 0.01",
        "invoice GL-3: its rows sum to None, its amount is -1.00",
    ]


def test_ratios_that_do_not_sum_to_one_and_missing_columns_are_seen(
    exports: Exports, books: Store, tmp_path: Path
) -> None:
    text, path = exports.parts_file.read_text(encoding="utf-8"), tmp_path / "focus.csv"
    path.write_text(text.replace("0.333333333334", "0.333333333"), encoding="utf-8")
    assert [one.rule for one in check_focus(books, path)] == [
        "AllocatedRatios of one device and period do not sum to 1"
    ]
    other = path.rename(path.with_suffix(".txt"))
    with pytest.raises(ExportError, match=r"focus.txt: is not a readable FOCUS file. Use .csv, .csv.gz, .parquet"):
        check_focus(books, other)
    path.write_text(text.replace('"BilledCost"', '"Cost"', 1), encoding="utf-8")
    assert [one.rule for one in check_focus(books, path)] == ["column BilledCost is missing"]
    path.write_text(text.replace("\n", "\r\n"), encoding="utf-8-sig")  # as a spreadsheet saves it
    assert check_focus(books, path) == []
    head, first, _ = text.split("\n", 2)
    path.write_text(f'{head},"my column"\n{first},1\n', encoding="utf-8")
    assert [one.rule for one in check_focus(books, path)] == [
        "column 'my column' has other signs than letters, digits and _"
    ]


def test_what_is_no_table_or_no_file_is_refused_in_one_line(books: Store, tmp_path: Path) -> None:
    packed = gzip.compress(b"a,b\n" * 1000)
    for name, content in (
        ("long.csv", b'"' + b"x" * 200_000 + b'"\n'),
        ("cut.csv.gz", packed[:14]),
        ("broken.csv.gz", packed[:12] + b"\xff" * 30),
        ("text.parquet", b"no Parquet"),
    ):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(ExportError, match="cannot be read") as error:
            check_focus(books, tmp_path / name)
        assert "\n" not in str(error.value)
    lines = b'"a\r\nb",c\r\n'
    for name, content in (("lines.csv", lines), ("lines.csv.gz", gzip.compress(lines))):
        (tmp_path / name).write_bytes(content)
        assert {one.rule for one in check_focus(books, tmp_path / name)} == {
            f"column {missing} is missing" for missing in FOCUS_1_2
        }
    os.mkfifo(tmp_path / "pipe.csv")
    with pytest.raises(ExportError, match="is not a file"):
        check_focus(books, tmp_path / "pipe.csv")


def test_a_damaged_file_is_refused_with_its_row_or_what_is_wrong(
    exports: Exports, books: Store, tmp_path: Path
) -> None:
    whole = exports.parts_file.read_bytes()
    head, first, rest = whole.split(b"\n", 2)
    packed = gzip.compress(whole)
    cases = {
        "short.csv": (whole + b"a,b\n", "cells"),
        "long.csv": (b"\n".join([head, first + b",more", rest]), "row 1 has not as many cells"),
        "open.csv": (whole + b'"open', "a quote in it never ends"),
        "bytes.csv": (
            b"\n".join([head, first.replace(b"USD", b"\xff\xfe").replace(b"EUR", b"\xff\xfe"), rest]),
            "utf-8",
        ),
        "cut.csv.gz": (packed[:-200], "ended before the end-of-stream"),
        "after.csv.gz": (packed + b"junk", "it goes on after the end of its gzip data"),
        "sum.csv.gz": (packed[:-8] + b"\1\2\3\4" + packed[-4:], "CRC check failed"),
    }
    for name, (content, said) in cases.items():
        (tmp_path / name).write_bytes(content)
        with pytest.raises(ExportError, match=rf"{name}: cannot be read: [^\n]*{said}") as error:
            check_focus(books, tmp_path / name)
        assert not re.search("Exception|Code|chdb", str(error.value)), str(error.value)
    (tmp_path / "twice.csv").write_bytes(b"\n".join([head + b',"BilledCost"', first + b",1", b""]))
    assert [one.rule for one in check_focus(books, tmp_path / "twice.csv")] == [
        "column BilledCost is there more than once"
    ]
    pq.write_table(pa.table({name: ["x"] * 1000 for name in head.decode().replace('"', "").strip().split(",")}),
                   tmp_path / "damaged.parquet")  # fmt: skip
    content = (tmp_path / "damaged.parquet").read_bytes()
    (tmp_path / "damaged.parquet").write_bytes(content[:4] + b"X" * 40 + content[44:])
    with pytest.raises(ExportError, match=r"damaged.parquet: cannot be read") as error:
        check_focus(books, tmp_path / "damaged.parquet")
    assert not re.search("Exception|Code|chdb", str(error.value)), str(error.value)


def test_what_was_just_written_is_not_read_once_more_for_damage(exports: Exports, books: Store) -> None:
    read: list[Any] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(check, "_read_on", read.append)
        assert check_focus(books, exports.parts_file, is_new=True) == check_focus(books, exports.parts_file) == []
    assert len(read) == 1


def test_energy_of_which_nothing_was_measured_is_no_row(exports: Exports) -> None:
    invoice = exports.issued[0]
    nothing = {"kind": "energy", "project": "p", "sku": "energy", "description": "unmeasured", "rule": "e",
               "quantity": None, "unit": "kWh", "list_unit_price": "10.00", "contracted_unit_price": "10.00",
               "list_cost": "0", "billed_cost": "0", "amount": "0.00", "charge_class": None}  # fmt: skip
    some = {**nothing, "quantity": "2", "billed_cost": "20", "amount": "20.00"}
    for line, rows in ((nothing, 0), (some, 1), ({**nothing, "charge_class": "Correction", "billed_cost": "-1"}, 1)):
        document = {**invoice.document, "lines": [*invoice.document["lines"], line]}
        found = statement_of(replace(invoice, document=document)).rows
        assert sum(row["kind"] == "energy" for row in found) == rows


@pytest.mark.parametrize(("name", "day"), [("America/Havana", 1), ("America/Havana", 2), ("Asia/Kolkata", 1)])
def test_an_export_by_days_is_computed_in_whole_local_days(
    name: str, day: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In Havana 2026-11-01 has two midnights: nothing may begin at the second one."""
    monkeypatch.setattr(focus, "SLICE_ENTRIES", 1)
    zone = ZoneInfo(name)
    first = datetime(2026, 11, day, 0, 30, tzinfo=zone, fold=1).astimezone(UTC).replace(minute=0)
    hours = [{"hour": first + timedelta(hours=number), "entries": 1} for number in range(-2, 40) if number != -1]
    export = SimpleNamespace(
        period=Period(hours[0]["hour"] - timedelta(days=1), hours[-1]["hour"] + timedelta(hours=1)),
        books=SimpleNamespace(timezone=name),
        options=FocusOptions(grain="day"),
        store=SimpleNamespace(rows=lambda *_: hours),
    )
    starts = [one["start"] for one in focus._Export._slices(export)][1:]  # type: ignore[arg-type]
    assert starts
    for start in starts:
        before = (start - timedelta(milliseconds=1)).astimezone(zone)
        assert before.date() < start.astimezone(zone).date(), start
