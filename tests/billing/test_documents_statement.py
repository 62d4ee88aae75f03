"""Statements from entries typed here: days, workloads, pools, and what is not closed."""

from __future__ import annotations

import json
from decimal import Decimal
from html.parser import HTMLParser
from pathlib import Path

import pytest

from billing.accounts.credits import Credit, add_credit
from billing.documents.invoice_files import write_statement
from billing.documents.statement import Statement, platform_statement, tenant_statements
from billing.documents.statement_page import as_html, as_pdf, chart_of, platform_page, tenant_page
from billing.invoicing.documents import InvoiceError
from billing.invoicing.invoices import issue_all
from billing.periods import parse_period
from billing.rates import apply_rate_card, parse_rate_card
from tests.billing.hand_ledger import HOUR_MS, Row, at, fill
from warehouse.store import Store

BERLIN = "Europe/Berlin"
OCTOBER = parse_period("2026-10", BERLIN)
NOW = at("2026-11-02 09:00")
HALF = str(HOUR_MS // 2)


@pytest.fixture
def october(books: Store) -> Store:
    """October in Berlin, closed until the 20th: physics on the 5th, also an hour before midnight, and on the 6th."""
    card = {"currency": "EUR", "timezone": BERLIN, "rates": [{"sku": "h100", "price_per_gpu_hour": "2.00"}]}
    apply_rate_card(books, parse_rate_card(card), "me", "", at("2026-09-01 00:00"))
    fill(
        books,
        [
            Row(at("2026-10-05 12:00"), "physics", "qcd", used=HALF, unmetered=HOUR_MS // 2, workload="long"),
            Row(at("2026-10-05 21:00"), "physics", "qcd", used=HALF, idle=HALF, workload="long"),
            Row(at("2026-10-05 22:00"), "physics", "bsm", device="gpu-1", units=7, idle=str(7 * HOUR_MS), workload="w"),
            Row(
                at("2026-10-05 22:00"), "physics", "bsm", device="gpu-2", unmetered=HOUR_MS, workload="dark", price=None
            ),
            Row(at("2026-10-05 12:00"), "physics-lab", "x", device="gpu-3", used=str(HOUR_MS), workload="theirs"),
            Row(at("2026-10-05 12:00"), device="gpu-4", units=7, unallocated=7 * HOUR_MS),
            Row(at("2026-10-06 12:00"), device="gpu-4", unavailable=HOUR_MS),
        ],
        closed=[at("2026-09-30 22:00"), at("2026-10-19 21:00")],
    )
    return books


def days(statement: Statement, *names: str) -> dict[str, list[str | None]]:
    return {day["day"][8:]: [day[f"{name}_gpu_hours"] for name in names] for day in statement.document["days"]}


def test_a_day_is_local_and_an_hour_before_utc_midnight_is_the_next_one(october: Store) -> None:
    (statement,) = tenant_statements(october, OCTOBER, "physics")
    found = days(statement, "allocated", "used", "idle", "unmetered")
    assert found["05"] == ["2.000000000", "1.000000000", "0.500000000", "0.500000000"]
    assert found["06"] == ["2.000000000", "0.000000000", "1.000000000", "1.000000000"]
    assert len(found) == 31


def test_a_closed_day_without_use_is_zero_and_an_open_one_is_unknown(october: Store) -> None:
    (statement,) = tenant_statements(october, OCTOBER, "physics")
    found = days(statement, "allocated")
    assert (found["01"], found["19"]) == (["0.000000000"], ["0.000000000"])
    assert (found["20"], found["31"]) == ([None], [None])
    assert "the month is not complete" in statement.document["notes"][0]


def test_workloads_come_by_cost_and_efficiency_is_of_the_metered_time(october: Store) -> None:
    (statement,) = tenant_statements(october, OCTOBER, "physics")
    names = ("workload", "project", "allocated_gpu_hours", "billed_cost", "efficiency")
    assert [[row[name] for name in names] for row in statement.document["workloads"]] == [
        ["long", "qcd", "2.000000000", "4.000000000", "0.666666667"],
        ["w", "bsm", "1.000000000", "2.000000000", "0.000000000"],
        ["dark", "bsm", "1.000000000", None, None],
    ]
    assert statement.document["workloads_in_all"] == 3


def test_ten_workloads_are_named_at_most(october: Store) -> None:
    noon = at("2026-10-07 12:00")
    rows = [Row(noon, "physics", "p", device=f"g{n}", used=str(HOUR_MS), workload=f"n{n:02}") for n in range(12)]
    fill(october, rows)
    (statement,) = tenant_statements(october, OCTOBER, "physics")
    assert [row["workload"] for row in statement.document["workloads"]] == [
        "long",
        "w",
        *(f"n{n:02}" for n in range(8)),
    ]
    assert statement.document["workloads_in_all"] == 15


def test_the_platform_statement_has_unallocated_time_by_pool_and_day(october: Store) -> None:
    statement = platform_statement(october, OCTOBER)
    (pool,) = statement.document["pools"]
    assert {name: pool[name] for name in pool if name != "pool"} == {
        "capacity_gpu_hours": "7.000000000",
        "allocated_gpu_hours": "5.000000000",
        "unallocated_gpu_hours": "1.000000000",
        "unavailable_gpu_hours": "1.000000000",
        "unpriced_gpu_hours": "0.000000000",
        "unallocated_cost": "2.000000000",
        "unavailable_cost": "2.000000000",
        "idle_policy": "platform",
        "shared": "0.00",
        "kept": "2.00",
    }
    found = days(statement, "allocated", "unallocated", "unavailable")
    assert found["05"] == ["3.000000000", "1.000000000", "0.000000000"]
    assert found["06"] == ["2.000000000", "0.000000000", "1.000000000"]
    page = platform_page(statement)
    assert [(step.label, step.amount) for step in page.sums] == [
        ("Unallocated time", "2.00"),
        ("borne by tenants", "0.00"),
        ("Unavailable time", "2.00"),
        ("Left to the platform", "4.00"),
    ]


def test_of_an_issued_month_the_statement_names_the_invoice_and_what_changed_since(october: Store) -> None:
    fill(october, [], closed=[at("2026-10-31 22:00")])
    fill(october, [Row(at("2026-10-05 22:00"), "physics", "bsm", idle=str(HOUR_MS), workload="w")], run=8)
    invoices = {one.tenant: one for one in issue_all(october, OCTOBER, NOW)}
    (statement,) = tenant_statements(october, OCTOBER, "physics")
    assert statement.document["number"] == invoices["physics"].number
    assert statement.document["notes"] == invoices["physics"].document["notes"]
    fact = tenant_page(statement).facts[0]
    assert (fact.label, fact.text, fact.more) == ("Invoice", invoices["physics"].number, "2 November 2026")
    late = [Row(at("2026-10-08 12:00"), "physics", "bsm", idle=str(HOUR_MS), workload="late")]
    fill(october, late, run=9)
    (again,) = tenant_statements(october, OCTOBER, "physics")
    assert "The ledger says 4.00 GPU-hours now" in again.document["notes"][-1]
    assert again.document["totals"] == statement.document["totals"]


def test_every_tenant_gets_one_also_if_it_held_nothing(october: Store) -> None:
    assert [one.tenant for one in tenant_statements(october, OCTOBER)] == ["physics", "physics-lab"]
    with pytest.raises(InvoiceError, match="tenant 'chemistry': has no allocations in 2026-10"):
        tenant_statements(october, OCTOBER, "chemistry")
    with pytest.raises(InvoiceError, match="2025-01: nothing of it is closed"):
        platform_statement(october, parse_period("2025-01", BERLIN))


def test_the_months_with_a_clock_change_have_all_their_days(october: Store) -> None:
    (statement,) = tenant_statements(october, OCTOBER, "physics")
    assert [day["day"][8:] for day in statement.document["days"]] == [f"{number:02}" for number in range(1, 32)]


def test_columns_of_the_chart_stand_on_a_round_scale() -> None:
    held = {"used_gpu_hours": "30", "idle_gpu_hours": "15", "unmetered_gpu_hours": "0"}
    unknown = dict.fromkeys(held)
    chart = chart_of([{"day": "2026-10-01", **held}, {"day": "2026-10-02", **unknown}], ("used", "idle", "unmetered"))
    assert (chart.top, chart.middle) == ("50 h", "25 h")
    assert [(part.kind, part.percent, part.start) for part in chart.days[0].parts] == [
        ("used", "60.000", "0.000"), ("idle", "30.000", "60.000"), ("unmetered", "0.000", "90.000"),
    ]  # fmt: skip
    assert chart.days[1].parts == []


class Texts(HTMLParser):
    """Collects a page's texts."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.texts: list[str] = []
        self.feed(page)

    def handle_data(self, data: str) -> None:
        self.texts.append(data.strip())


def test_statements_are_files_of_three_formats(october: Store, tmp_path: Path) -> None:
    found = [*tenant_statements(october, OCTOBER), platform_statement(october, OCTOBER)]
    paths = [path for one in found for path in write_statement(one, tmp_path)]
    assert sorted(path.name for path in paths) == sorted(
        f"statement-2026-10-{whose}.{kind}"
        for whose in ("tenant-physics", "tenant-physics-lab", "platform")
        for kind in ("html", "json", "pdf")
    )
    assert json.loads((tmp_path / "statement-2026-10-platform.json").read_text()) == found[-1].document
    assert {"long", "66.7%", "dark", "unknown"} <= set(Texts(as_html(found[0])).texts)
    assert as_pdf(found[0]) == as_pdf(found[0])
    assert {"(no pool)", "7.00", "By pool"} <= set(Texts(as_html(found[-1])).texts)


def test_a_tenant_that_held_nothing_has_a_statement_without_workloads(october: Store) -> None:
    add_credit(october, Credit("bio", "2026-10", Decimal("5.00"), "EUR", "paid twice", author="me"), NOW)
    fill(october, [], closed=[at("2026-10-31 22:00")])
    (statement,) = tenant_statements(october, OCTOBER, "bio")
    assert (statement.document["workloads"], statement.document["workloads_in_all"]) == ([], 0)
