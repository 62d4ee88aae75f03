"""The lines of a draft on the page of invoices."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import playwright
import pytest

from access.current import set_current
from access.principal import ANYBODY, Principal
from access.roles import Role
from access.scope import Stores
from billing.invoicing.drafts import draft_all
from billing.invoicing.month_states import Month, MonthState
from billing.periods import parse_month
from dashboards.filters import filters_of
from dashboards.frame import show
from dashboards.languages import language
from dashboards.pages.invoices import _headline, _until
from dashboards.pages.invoices.document import lines_table
from dashboards.pages.invoices.draft import lines
from tests.conftest import REPO
from tests.patience import PATIENCE_SECONDS
from warehouse.store import Store

SUMS = {"month": "2026-11", "invoices": 1, "credit_notes": 0, "currency": "EUR", "net": 1, "tax": 0, "amount": 1}
ASKED = "?month=2026-10&draft=vision"
TENANT = Principal("v", frozenset({Role.tenant}), frozenset({"vision"}))


def test_the_lines_of_a_draft_are_those_that_would_be_issued(house: Store, anybody: None) -> None:
    (draft,) = draft_all(house, parse_month("2026-10", "UTC"), "vision")
    found: Any = lines(house, filters_of(house, ASKED), language("en"), "2026-10")
    assert [row["amount"] for row in found.rowData] == [float(line["amount"]) for line in draft.lines]
    assert found.dashGridOptions["pinnedBottomRowData"][0]["amount"] == float(draft.totals["amount"])
    heads = {column["field"]: column["headerName"] for column in found.columnDefs}
    assert (heads["price"], heads["amount"]) == ("Unit price, EUR", "Amount, EUR"), "as found: in no currency"
    assert "Draft for vision" in str(show(house, ANYBODY, "/invoices", ASKED).page)
    owes_nothing: Any = lines(house, filters_of(house, "?draft=nobody-here"), language("en"), "2026-10")
    assert "Nothing left to invoice" in str(owes_nothing)


def test_who_sees_some_tenants_has_the_lines_of_their_own_drafts_and_of_no_other(house: Store) -> None:
    """They depend on what the others held, which their own connection does not see: the amounts are the operator's."""
    (draft,) = draft_all(house, parse_month("2026-10", "UTC"), "vision")
    set_current(TENANT)
    with Stores(house).scoped_to(TENANT) as store:
        own: Any = lines(house, filters_of(store, ASKED), language("en"), "2026-10")
        assert [row["amount"] for row in own.rowData] == [float(line["amount"]) for line in draft.lines]
        assert "Draft for vision" in str(show(store, TENANT, "/invoices", ASKED).page)
        for other in ("speech", "nobody-here", "Vision", "vision ", ""):
            asked = f"?month=2026-10&draft={other}"
            assert lines(house, filters_of(store, asked), language("en"), "2026-10") is None
            page = str(show(store, TENANT, "/invoices", asked).page)
            assert "Draft for" not in page and "speech" not in page.replace(other or "-", "")


@pytest.mark.parametrize(
    ("lines_", "total"),
    [
        ([("usage", "GPU-hours", "1.25"), ("minimum", "GPU-hours", "0.50"), ("tax", "", None)], (1.75, "GPU-hours")),
        ([("usage", "GPU-hours", "1.25"), ("usage", "GPU-hours", "-0.25")], (1.0, "GPU-hours")),
        ([("usage", "GPU-hours", "1.25"), ("energy", "kWh", "3.00")], (None, None)),
        ([("tax", "", None), ("credit", "", None)], (None, None)),
    ],
)
def test_the_total_has_the_quantity_of_lines_of_one_unit(
    lines_: list[tuple[str, str, str | None]], total: tuple[float | None, str | None]
) -> None:
    """GPU-hours and kWh do not add up; before, the total never had a quantity."""
    document = {
        "lines": [
            {"kind": kind, "unit": unit, "quantity": quantity, "project": "p", "sku": "h100", "description": "d",
             "contracted_unit_price": None, "amount": "1.00", "rule": "", "charge_class": None, "reference": None}
            for kind, unit, quantity in lines_
        ],
        "totals": {"amount": "3.00"},
        "period": {"timezone": "UTC"},
    }  # fmt: skip
    grid: Any = lines_table(document, language("en"), "lines")
    last = grid.dashGridOptions["pinnedBottomRowData"][0]
    assert (last.get("quantity"), last.get("unit")) == total
    for column in (one for one in grid.columnDefs if one["field"] == "quantity"):
        assert "params.value == null ? ''" in column["valueFormatter"]["function"], "no quantity is not an unknown one"


def test_a_line_has_its_unit_wherever_it_has_a_quantity() -> None:
    """As found: on a tablet "Quantity 312.26" of nothing, as its unit was the one column to be left out; and a credit
    note of three blank columns."""
    line = {"kind": "usage", "unit": "GPU-hours", "quantity": "1.25", "project": "p", "sku": "h100", "description": "d",
            "contracted_unit_price": None, "amount": "1.00", "rule": "", "charge_class": None}  # fmt: skip
    document = {"lines": [line], "totals": {"amount": "1.00"}, "period": {"timezone": "UTC"}}
    grid: Any = lines_table(document, language("en"), "lines")
    columns = {one["field"]: one for one in grid.columnDefs}
    assert not {"project", "quantity", "unit"} & {name for name, one in columns.items() if one.get("initialHide")}
    assert columns["unit"]["context"]["cards"] is False
    note = {**document, "lines": [{**line, "kind": "credit", "unit": "", "quantity": None, "project": ""}]}
    grid = lines_table(note, language("en"), "lines")
    assert [one["field"] for one in grid.columnDefs] == ["what", "kind", "amount"]


def test_a_month_that_has_begun_shows_the_sum_of_its_drafts(house: Store, anybody: None) -> None:
    """As found: three figures of an open month were "–" beside drafts of 94,064 dollars."""
    month = parse_month("2026-11", "UTC")
    open_now = Month("2026-11", month, MonthState.open, month.end, 0)
    shown = [str(_headline(open_now, "until", sums, language("en"))) for sums in ([], [SUMS])]
    assert ["invoices-drafted" in one for one in shown] == ["Net" not in one for one in shown] == [True, False]
    assert "no invoices yet" in shown[0] and "no credit notes" in shown[1] and "0.0% of net" in shown[1]
    ends = {days: _until(replace(open_now, closes_at=month.end + timedelta(days=days)), month.start, month.end,
                         filters_of(house, ASKED), language("en")) for days in (0, 3)}  # fmt: skip
    assert "no grace period" in ends[0] and "late records accepted until" in ends[3]


def test_the_total_of_lines_has_the_quantity_and_list_cost_of_its_own_month() -> None:
    """As found: 14,373.5 GPU-hours among the drafts, 14,325.61 below the draft's lines, and no list cost."""
    own = {"kind": "usage", "sku": "h100", "project": "p", "quantity": "10", "unit": "GPU-hours", "list_cost": "20",
           "description": "h100",
           "contracted_unit_price": "2", "amount": "20.00"}  # fmt: skip
    corrected = {**own, "charge_class": "Correction", "quantity": "-3", "list_cost": None, "amount": "-6.00"}
    for those, said in (
        ([own, own], "Total"),
        ([own, own, corrected], "Total; quantity and list cost without corrections"),
    ):
        document = {"lines": those, "totals": {"amount": "34.00"}, "period": {"timezone": "UTC"}}
        (total,) = lines_table(document, language("en"), "lines").dashGridOptions["pinnedBottomRowData"]
        assert {name: total[name] for name in ("what", "quantity", "list_cost", "amount")} == {
            "what": said, "quantity": 20, "list_cost": 40, "amount": 34,
        }  # fmt: skip


BROWSER = """
globalThis.window = { dash_clientside: {} };
globalThis.sessionStorage = { getItem() { return null; }, removeItem() {} };
globalThis.document = { addEventListener() {}, documentElement: {} };
globalThis.MutationObserver = class { observe() {} };
globalThis.fetch = async () => ({ ok: true, json: async () => ({ rows: given }) });
"""
"""As much of one as forms.js needs to load drafts."""


@pytest.mark.parametrize(
    ("amounts", "shown", "corrected"),
    [
        (["0.10", "0.20"], "€0.30", 0.3),
        (["0.10", "0.20", "-0.30"], "€0.00", 0),
        (["-0.10", "-0.20", "0.30"], "€0.00", 0),
        (["-8.00", "1.25"], "−€6.75", -6.75),
        (["90071992547.01", "0.01", "-90071992546.99"], "€0.03", 0.03),
    ],
)
def test_the_drafts_of_a_month_sum_to_the_cent(amounts: list[str], shown: str, corrected: float) -> None:
    """As fractions of the browser, 0.1 and 0.2 are 0.30000000000000004, and what sums to nothing could be "−€0.00"."""
    drafts = [
        {"tenant": "a", "currency": "EUR", "totals": {"amount": amount, "incomplete": False},
         "lines": [{"amount": one, "charge_class": "Correction"} for one in amounts]}
        for amount in amounts
    ]  # fmt: skip
    rows, refused, is_empty, total, among_months = loaded(drafts)
    assert (refused, is_empty, total, among_months) == ("", False, shown, shown)
    assert {row["corrections"] for row in rows} == {corrected}


def test_the_drafts_have_the_quantity_that_stands_below_their_lines() -> None:
    """As found: 14,458.8 GPU-hours of a draft whose lines have 14,458.89, as a minimum was left out."""
    lines_ = [
        {"kind": kind, "unit": unit, "quantity": quantity, "project": "p", "sku": "h100", "description": "d",
         "contracted_unit_price": None, "amount": "1.00", "rule": "", "charge_class": charge, "reference": None}
        for kind, unit, quantity, charge in (
            ("usage", "GPU-hours", "14458.8251", None), ("minimum", "GPU-hours", "0.0625", None),
            ("usage", "GPU-hours", "-5", "Correction"), ("tax", "", None, None),
        )
    ]  # fmt: skip
    totals = {"amount": "4.00", "incomplete": False, "allocated_gpu_hours": "14458.8251"}
    document = {"lines": lines_, "totals": totals, "period": {"timezone": "UTC"}}
    grid: Any = lines_table(document, language("en"), "lines")
    (row,), *_ = loaded([{"tenant": "nlp", "currency": "EUR", "totals": totals, "lines": lines_}])
    assert row["hours"] == pytest.approx(grid.dashGridOptions["pinnedBottomRowData"][0]["quantity"]) == 14458.8876


def loaded(drafts: Sequence[dict[str, Any]]) -> Any:
    """What the browser makes of drafts: the table's rows, and what else it fills in."""
    asked = {"month": "2026-10", "issued": [], "tenants": [], "symbols": {"EUR": "€"}, "incomplete": "?"}
    code = f"""{BROWSER}; const given = {json.dumps(drafts)};
        require({json.dumps(str(REPO / "dashboards/assets/forms.js"))});
        window.dash_clientside.glforms.drafts({json.dumps(asked)}).then(found => console.log(JSON.stringify(found)));"""
    node = str(Path(playwright.__file__).with_name("driver") / "node")  # it brings its own
    done = subprocess.run([node, "-e", code], capture_output=True, text=True, check=True, timeout=PATIENCE_SECONDS)
    return json.loads(done.stdout)
