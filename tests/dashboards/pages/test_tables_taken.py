"""Tables that people take along: each can be, and in the file a time is an instant in UTC and a length a number."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest
import yaml
from dash.development.base_component import Component

from access.current import set_current
from access.opening import open_access
from access.principal import ANYBODY
from access.store import AccessStore
from billing.rates import apply_rate_card, parse_rate_card
from dashboards import exports
from dashboards.column_widths import PADDING, text_width
from dashboards.filters import filters_of
from dashboards.frame import show
from dashboards.languages import language
from dashboards.pages.admin import applied_files
from dashboards.pages.slo import interference
from tests.dashboards import site
from tests.dashboards.pages.conftest import DAY
from tests.dashboards.pages.operated import operate
from tests.draws import seldom
from warehouse.store import Store

EN = language("en")
PAGES = (
    "/now", "/tenants", "/changes", "/workloads", "/workloads?workload=w-speech", "/fleet", "/fleet?device=GPU-m",
    "/queues", "/objectives", "/invoices?number=GL-2026-00001&line=1", "/invoices", "/alerts", "/administration",
    "/administration?part=tenants", "/administration?part=audit", "/administration?part=held",
)  # fmt: skip
OTHERWISE = {"invoice-lines"}
"""Grids that are no file of their own: a document is one, and has its own link."""
INSTANT = re.compile(r"\d{4}-\d\d-\d\dT[\d:.]+(Z|\+00:00)")
SAID = re.compile(r"\d\d:\d\d|\b\d{1,2} (Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)[a-z]*\b|^\d+\.\d [hd]$")
"""A time or a length as people read it."""


def within(component: Any) -> Iterator[Component]:
    for one in component if isinstance(component, list | tuple) else (component,):
        if isinstance(one, Component):
            yield one
            yield from within(getattr(one, "children", None))


def taken_along(component: Any) -> dict[str, bool]:
    """Each grid's id, and whether something takes it along; what is said in its cells must not be for people alone."""
    parts = list(within(component))
    buttons = {one.to_plotly_json()["props"].get("data-csv-of") for one in parts}
    grids = [one for one in parts if type(one).__name__ == "AgGrid"]
    for grid in grids:
        for column in grid.columnDefs:
            cells = {row[column["field"]] for row in grid.rowData or () if isinstance(row.get(column["field"]), str)}
            said = [cell for cell in cells if SAID.search(INSTANT.sub("", cell))]
            assert not said, f"{grid.id}: {column['field']}: {said}"
    return {grid.id: grid.id in buttons for grid in grids}


@pytest.fixture(scope="module")
def fleet(house: Store) -> Iterator[tuple[Store, AccessStore]]:
    """With prices that change within a day."""
    operate(house)
    dated = site.CARD + (
        '  - {sku: l4, match: {model: L4}, price_per_gpu_hour: "1", effective_to: "2026-10-17T07:30:00Z"}\n'
        '  - {sku: l4, match: {model: L4}, price_per_gpu_hour: "2", effective_from: "2026-10-17T07:30:00Z"}\n'
    )
    apply_rate_card(house, parse_rate_card(yaml.safe_load(dated)), "fin", "", site.NOW)
    with open_access(house) as access:
        yield house, access


@pytest.fixture
def operated(fleet: tuple[Store, AccessStore]) -> Store:
    """An administrator looks at it."""
    set_current(ANYBODY, fleet[1])
    return fleet[0]


@seldom(5, "each table can be taken along")
def test_each_table_can_be_taken_along_with_instants_in_utc_and_numbers(operated: Store) -> None:
    found: dict[str, bool] = {}
    for page in PAGES:
        path, _, search = page.partition("?")
        found |= taken_along(show(operated, ANYBODY, path, f"?{DAY}&{search}").page)
    found |= taken_along(interference.interference_part(operated, filters_of(operated, f"?{DAY}"), EN))
    assert len(found) > 12, found
    assert {name for name, is_taken in found.items() if not is_taken} <= OTHERWISE


def test_a_table_that_carries_its_rows_writes_instants_in_utc_and_no_invisible_signs(house: Store) -> None:
    """As found: `2026-10-31 23:00:00+00:00` under Hour, where every other table has `...T23:00:00Z` under (UTC)."""
    filters = filters_of(house, f"?{DAY}")
    rows = [
        [
            datetime(2026, 11, 1, 1, tzinfo=timezone(timedelta(hours=2))),
            "11\u2060月\u20601\u2060日 1\u00a0位",
            0.5,
            None,
        ]
    ]
    button = exports.of_rows("x", ["a", "b", "c", "d"], rows, filters, language("zh"))
    assert button.to_plotly_json()["props"]["data-csv"] == "a,b,c,d\r\n2026-10-31T23:00:00Z,11月1日 1 位,0.5,\r\n"


def test_a_table_about_the_present_is_named_by_it_and_a_number_has_its_unit(operated: Store) -> None:
    """As found: Now's file was called after a month that the page does not show; demand was of nothing."""
    for search in ("", "idle=1"):
        names = file_names(show(operated, ANYBODY, "/now", f"?{DAY}&{search}").page)
        assert all(re.fullmatch(r"gpuledger-(now|idle)-\d{4}-\d\d-\d\dT\d{4}\.csv", one) for one in names), names
    (heads,) = (
        one.to_plotly_json()["props"]["data-csv"].splitlines()[0]
        for one in within(show(operated, ANYBODY, "/capacity", f"?{DAY}").page)
        if "demand" in str(one.to_plotly_json()["props"].get("data-file"))
    )
    assert heads == "Hour (UTC),Allocated (GPUs),Waiting (GPUs),Available (GPUs)"


def file_names(component: Any) -> list[str]:
    found = [one.to_plotly_json()["props"].get("data-file") for one in within(component)]
    return [name for name in found if name]


def test_a_price_that_changes_within_a_day_says_when(operated: Store) -> None:
    parts = applied_files.rates_part(operated, filters_of(operated, f"?{DAY}"), EN)
    (grid,) = (one for one in within(parts) if getattr(one, "id", "") == "admin-rates")
    assert [(row["from"], row["to"]) for row in grid.rowData][2:] == [
        (None, "2026-10-17T07:30:00Z"), ("2026-10-17T07:30:00Z", None),
    ]  # fmt: skip
    assert grid.rowData[3]["from_text"].split() == ["17", "October", "2026,", "07:30"]
    parts = applied_files.rates_part(operated, filters_of(operated, f"?{DAY}"), language("zh"))
    (grid,) = (one for one in within(parts) if getattr(one, "id", "") == "admin-rates")
    day, clock = grid.rowData[3]["from_text"].replace("\u2060", "").split("\n")
    assert not re.search(r"[年月](?=\d)", grid.rowData[3]["from_text"]), "a line may end there, unless it is joined"
    assert (day, clock) == ("2026年10月17日", "07:30"), "as found: with no gap to break at, the clock itself was broken"
    (column,) = (one for one in grid.columnDefs if one["field"] == "from")
    assert text_width(day) + PADDING <= column["minWidth"]
