"""Columns are as wide as what they show."""

from __future__ import annotations

from typing import Any

import pytest

from dashboards import grids, parts
from dashboards.column_widths import MOST, NARROWEST, PADDING, fitted, text_width
from dashboards.languages import language

NAMES = [{"name": "mig-notebook-187", "cost": 1234.5}, {"name": "tutor", "cost": -0.5}]


def test_a_name_and_an_amount_have_room() -> None:
    name = fitted(grids.link("name", "Workload"), NAMES)
    cost = fitted(grids.money("cost", "Cost", "USD"), NAMES)
    assert text_width("mig-notebook-187") <= name["minWidth"] - PADDING < MOST
    assert text_width("$1,234.50") <= cost["minWidth"] - PADDING < text_width("$1,234.50") + 16
    assert fitted(grids.number("cost", "x", shape=",.2~f"), [{"cost": 2.5}])["minWidth"] < 80, "2.5, not 2.50"


@pytest.mark.parametrize(
    ("column", "row", "shown"),
    [
        (grids.percent("x", "x"), {"x": 1.0}, "100.0%"),
        (grids.duration(language("en"), "x", "x"), {"x": 7200.0 * 20}, "40.0 h"),
        (grids.duration(language("en"), "x", "x"), {"x": 1.0, "x_text": "at least 40 hours"}, "at least 40 hours"),
        (grids.number("x", "x", shape=",d"), {"x": 1_000_000.0}, "1,000,000"),
        (grids.number("x", "x", unknown="unmetered"), {"x": None}, "unmetered"),
        (grids.number("x", "x", shape=",.2f", after=" ×"), {"x": 123456.5}, "123,456.50 ×"),
        (
            grids.moment("x", "x"),
            {"x": "2026-10-01T00:00:00Z", "x_text": "1 October 2026, 08:30"},
            "1 October 2026, 08:30",
        ),
        (grids.text("x", "x"), {"x": "研发一部的工作负载"}, "研发一部的工作负载"),
    ],
)
def test_what_is_measured_is_what_is_shown(column: dict[str, Any], row: dict[str, Any], shown: str) -> None:
    assert 0 <= fitted(column, [row])["minWidth"] - PADDING - max(text_width(shown), NARROWEST - PADDING) < 8


def test_the_widest_duration_is_neither_the_shortest_nor_the_longest() -> None:
    """As found: "23.4 小..." above "2.1 天", as only the extremes were measured."""
    rows = [{"x": 20.0}, {"x": 23.4 * 3600}, {"x": 50.0 * 3600}]
    column = fitted(grids.duration(language("zh"), "x", "x"), rows)
    assert column["minWidth"] - PADDING >= text_width("23.4 小时")


def test_a_long_text_has_a_limit_and_the_rest_of_the_width() -> None:
    summary = fitted(grids.text("why", "Why", minimum=240), [{"why": "a" * 400}])
    assert (summary["minWidth"], summary["flex"]) == (240, 456)
    assert fitted(grids.text("why", "Why"), [{"why": "a" * 400}])["minWidth"] == 8 * -(-(MOST + PADDING) // 8)


def test_a_text_that_would_be_cut_wraps() -> None:
    """As found: "18 个达标，10 个未达标，6 个未…" of the states of an objective."""
    state = "18 个达标，10 个未达标，6 个未知"
    columns = [grids.text("state", "状态"), grids.link("name", "名称"), grids.text("owner", "负责人")]
    rows = [{"state": state, "name": f"{state} {state}", "owner": "platform"}]
    drawn = grids.grid(columns, rows, language("zh"), "x")
    assert [bool(column.get("wrapText")) for column in drawn.columnDefs] == [True, False, False]
    assert drawn.columnDefs[0]["flex"] >= text_width(state), "as much of the card as its text is long"


def test_a_header_breaks_between_words_but_not_before_a_unit() -> None:
    empty = [{"burn": None}]
    one = fitted(grids.number("burn", "Burn rate 1 h"), empty)["minWidth"] - PADDING
    assert text_width("rate 1 h") <= one < text_width("Burn rate 1 h")


def test_what_is_for_measuring_is_not_sent_to_the_browser() -> None:
    assert fitted(grids.money("cost", "Cost", "USD"), NAMES)["context"] == {"unit": "USD"}
    assert "context" not in fitted(grids.link("name", "Workload"), NAMES)


def test_a_figure_that_would_need_two_lines_is_smaller() -> None:
    """As found: the last character of an expected start alone on a second line."""
    for value, is_long in (
        ("11月30日 03:27 前", True),
        ("by 30 Nov, 03:27", True),
        ("$1,234,568", False),
        ("3 h", False),
    ):
        shown = str(parts.headline([parts.Figure("", one) for one in (value, "", "", "", "")]))
        assert ("gl-long" in shown) == is_long, value


def test_a_number_that_would_part_from_its_unit_is_smaller() -> None:
    """As found: 24,100, and below it GPU-hours."""
    for value, unit, size in (
        ("24,100", "GPU-hours", "gl-snug"),
        ("124,100", "GPU-hours", "gl-long"),
        ("4,100", "GPU-hours", ""),
        ("56.0%", "of allocated", ""),
    ):
        shown = str(parts.headline([parts.Figure("", value, unit), *[parts.Figure("", "")] * 5]))
        assert [name for name in ("gl-snug", "gl-long") if name in shown] == [size][: bool(size)], value


def test_no_line_of_a_figures_detail_begins_with_the_point_between_its_parts() -> None:
    """As found: "AMD Instinct MI300X", and below it "· train"."""
    shown = str(parts.headline([parts.Figure("Node", "mi300x-01", "", "AMD Instinct MI300X · train")]))
    assert r"MI300X\xa0· train" in shown


def test_a_cell_that_is_drawn_keeps_its_width() -> None:
    assert fitted(grids.use_bar("Usage", ""), [{"use": 0.5}])["minWidth"] == 96
