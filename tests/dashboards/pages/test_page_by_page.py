"""Every page as a person uses it: a figure that SQL confirms, the filter bar, the way down, the file to take along.

Nothing may be complained of on the console or asked of another machine; a run opens some of them (tests/draws.py), and
with GPULEDGER_PICTURES=1 leaves pictures in build/screenshots.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from dashboards.format import money
from tests.dashboards.browser import MARKS, asks, picture, speaks, tab, taken
from tests.dashboards.pages.conftest import DAY
from tests.dashboards.pages.operated import operate
from tests.draws import drawn
from tests.patience import until
from warehouse.store import Store

pytestmark = MARKS
SPLIT = "/explore?sql=SELECT+tenant,+sum(billed_cost)+AS+cost+FROM+v_charges+GROUP+BY+tenant+ORDER+BY+tenant"
COST = "SELECT sum(list_cost) FROM v_charges WHERE charge_period_start >= '2026-10-02' AND charge_period_start < "
COST += "'2026-10-03' AND {}"
WAITING = "SELECT countIf(started_at IS NULL AND ended_at IS NULL) FROM v_queue_wait WHERE {}"
INVOICED = "SELECT sum(amount) FROM v_invoices WHERE month = '2026-10' AND {}"
MISSED = "SELECT uniqExact(tenant) FROM slo_series WHERE {}"
EUROS, CENTS, COUNT = partial(money, currency="EUR"), "€{:,.2f}".format, "{:,}".format


def headline(name: str) -> str:
    return f".gl-headline .gl-figure:has(dt:text-is('{name}')) strong"


@dataclass(frozen=True)
class Used:
    """path: of the page.   shows: where its figure stands.   figure: what it says of the value that `sql` tells.

    sql: with {} where a condition goes.   filter: the bar's name, the choice, the condition that means the same; None
    where there is nothing to narrow.   down: the link one level down, and what its address then says.
    takes: the beginning of the file's name, and how many rows it has.
    """

    path: str
    shows: str
    figure: Callable[[Any], str]
    sql: str
    filter: tuple[str, str, str] | None
    down: tuple[str, dict[str, str]] | None
    takes: tuple[str, int]


PAGES = {
    "overview": Used(
        "/", headline("Cost"), EUROS, COST, ("Tenant", "vision", "tenant = 'vision'"),
        (".gl-cost-name >> text=vision", {"tenant": "vision"}), ("gpuledger-costs-2026-10-02.csv", 2),
    ),
    "tenants": Used(
        "/tenants", headline("Cost"), EUROS, COST,
        ("Pool", "train", "pool = 'train'"), ("#tenants-grid a >> text=vision", {"tenant": "vision"}),
        ("gpuledger-tenants-2026-10-02.csv", 2),
    ),
    "tenant": Used(
        "/tenants?tenant=vision", headline("Cost"), EUROS,
        COST.replace("{}", "tenant = 'vision' AND {}"), ("Pool", "research", "pool = 'research'"),
        ("#tenants-grid a >> text=p-vision", {"tenant": "vision", "project": "p-vision"}),
        ("gpuledger-projects-2026-10-02-vision.csv", 1),
    ),
    "changes": Used(
        "/changes", headline("Now"), EUROS, COST.replace("list_cost", "billed_cost"),
        ("Pool", "train", "pool = 'train'"), ("#changes-grid a >> text=vision", {"tenant": "vision"}),
        ("gpuledger-changes-2026-10-02.csv", 2),
    ),
    "workloads": Used(
        "/workloads", "#workload-grid .ag-row[row-index='0'] [col-id=list_cost]", EUROS,
        COST.replace("sum(list_cost)", "sum(list_cost) AS c").replace("{}", "{} GROUP BY workload_id ORDER BY c DESC")
        + " LIMIT 1", ("Pool", "research", "pool = 'research'"),
        ("#workload-grid a >> text=w-speech", {"workload": "w-speech"}), ("gpuledger-workloads-2026-10-02.csv", 4),
    ),
    "workload": Used(
        "/workloads?workload=w-mig-vision", headline("Cost"), EUROS,
        COST.replace("{}", "workload_id = 'w-mig-vision' AND {}"), None,
        ("#workload-hours a >> text=2 Oct, 05:00", {"period": "2026-10-02T05:00..2026-10-02T06:00"}),
        ("gpuledger-w-mig-vision-hours-2026-10-02.csv", 24),
    ),
    "fleet": Used(
        "/fleet", headline("GPUs"), COUNT, "SELECT count() FROM v_devices WHERE {}",
        ("Pool", "research", "pool = 'research'"), (".gl-cell[aria-label^='GPU-m']", {"device": "GPU-m"}),
        ("gpuledger-devices-2026-10-02.csv", 4),
    ),
    "device": Used(
        "/fleet?device=GPU-m", "#fleet-holders .ag-row:has-text('w-mig-vision') [col-id=list_cost]", EUROS,
        COST.replace("{}", "workload_id = 'w-mig-vision' AND {}"), None,
        ("#fleet-holders a >> text=w-mig-vision", {"workload": "w-mig-vision"}),
        ("gpuledger-GPU-m-holders-2026-10-02.csv", 2),
    ),
    "queues": Used(
        "/queues", headline("Waiting"), COUNT, WAITING,
        ("Tenant", "vision", "tenant = 'vision'"), ("#queues-grid a >> text=main", {"queue": "main"}),
        ("gpuledger-queues-2026-10-02.csv", 1),
    ),
    "capacity": Used(
        "/capacity", headline("Allocated"), "{:,.1f}".format,
        "SELECT toFloat64(sum(allocated_gpu_hours)) / 24 FROM v_usage_hourly WHERE toDate(hour) = '2026-10-02' AND {}",
        ("Pool", "research", "pool = 'research'"), ("#capacity-grid a >> text=H100 · train", {"pool": "train"}),
        ("gpuledger-capacity-2026-10-02.csv", 2),
    ),
    "slo": Used(
        "/objectives", headline("Missed"), COUNT, MISSED,
        ("Tenant", "vision", "tenant = 'vision'"),
        ("#slo-objectives a >> nth=0", {"queue": "main"}), ("gpuledger-objectives-2026-10-02.csv", 2),
    ),
    "invoices": Used(
        "/invoices?month=2026-10", headline("Amount"), CENTS, INVOICED,
        ("Tenant", "speech", "tenant = 'speech'"),
        ("#invoices-issued a >> text=GL-2026-00001", {"number": "GL-2026-00001"}),
        ("gpuledger-invoices-2026-10.csv", 2),
    ),
    "invoice": Used(
        "/invoices?number=GL-2026-00001&line=1", headline("Amount"), CENTS,
        INVOICED.replace("{}", "number = 'GL-2026-00001' AND {}"), None,
        ("#invoice-explained a >> nth=0", {"workload": "w-speech"}), ("gpuledger-GL-2026-00001-line-1.csv", 1),
    ),
    "alerts": Used(
        "/alerts", headline("Warning"), COUNT,
        "SELECT count() FROM alerts WHERE state = 'firing' AND severity = 'warning' AND {}",
        ("Tenant", "vision", "JSONExtractString(labels, 'tenant') = 'vision'"),
        ("#alerts-history a >> text=long-queue", {"rule": "long-queue"}), ("gpuledger-alerts-2026-10-02.csv", 1),
    ),
    "explore": Used(
        SPLIT, "#explore-grid .ag-row[row-index='0'] [col-id=c1]", "{:,.6f}".format,
        "SELECT sum(billed_cost) FROM v_charges WHERE tenant = 'speech' AND {}", None, None, ("answer.csv", 2),
    ),
}  # fmt: skip
"""Administration is what its own tests change; it has no figure to narrow."""


@pytest.fixture(scope="module")
def house(house: Store) -> Store:
    operate(house)
    return house


DARK = {
    "overview": (f"/?{DAY}", "#overview-fleet .bars path"),
    "tenants": (f"/tenants?{DAY}", "#tenants-costs .bars path"),
    "changes": (f"/changes?{DAY}", "#changes-walk .trace"),
    "workloads": (f"/workloads?{DAY}", "#workload-grid .ag-row[row-id]"),
    "workload": (f"/workloads?workload=w-vision&{DAY}", "#workload-timeline .bars path"),
    "fleet": (f"/fleet?{DAY}", ".gl-cells .gl-cell"),
    "device": (f"/fleet?device=GPU-m&{DAY}", "#device-time .bars path"),
    "alerts": (f"/alerts?{DAY}", "#alerts-fired .bars path"),
    "queues": (f"/queues?{DAY}", "#queues-why .bars path"),
    "capacity": (f"/capacity?{DAY}", "#capacity-demand .bars path"),
    "savings": (f"/savings?{DAY}", "#savings-report .gl-headline"),
    "slo": (f"/objectives?{DAY}", "#slo-episodes .ag-row[row-id]"),
    "invoices": ("/invoices?month=2026-10", "#invoices-issued .ag-row[row-id]"),
    "invoice": ("/invoices?number=GL-2026-00001&line=1", "#invoice-explained .ag-row[row-id]"),
    "explore": (SPLIT, "#explore-chart .bars path"),
    "admin-rates": ("/administration?part=rates", "#admin-rates .ag-row[row-id]"),
    "admin-tenants": ("/administration?part=tenants", "#admin-unmapped-grid .ag-row[row-id]"),
    "admin-users": ("/administration?part=users", ".gl-act"),
    "admin-audit": ("/administration?part=audit", "#admin-audit .ag-row[row-id]"),
}
"""Where each page is, and what it has drawn at last."""
SIDEWAYS = """[...document.querySelectorAll(".gl-grid")].filter(grid => {
    const view = grid.querySelector(".ag-body-horizontal-scroll-viewport");
    return view && view.scrollWidth > view.clientWidth + 1;
}).map(grid => grid.id)"""
"""Tables wider than their cards on a usual screen."""
PHONE = {"width": 390, "height": 844}
SIDEWAYS_ON_A_PHONE = """[...document.querySelectorAll("html, body *")].filter(one =>
    (one.tagName === "HTML" || ["auto", "scroll"].includes(getComputedStyle(one).overflowX)) && one.clientWidth
    && one.offsetHeight && one.scrollWidth > one.clientWidth + 1 && !["PRE", "TEXTAREA"].includes(one.tagName)
).map(one => (one.closest("[id]") || one).id + " " + one.className)"""
"""What scrolls sideways: on a phone nothing but statements."""
CROOKED = """[
    ...[...document.querySelectorAll(".js-plotly-plot text:is(.xtick *, .ytick *, .annotation *, .g-ytitle *)")].filter(
        one => {
            const box = one.getBoundingClientRect(), edge = one.closest(".main-svg").getBoundingClientRect();
            const turned = (one.getAttribute("transform") || "").match(/rotate\\((-?[0-9.]+)/);
            const isCut = box.bottom > edge.bottom + 1 || box.left < edge.left - 1 || box.right > edge.right + 1;
            return isCut || (turned && Number(turned[1]));
        }
    ),
    ...[...document.querySelectorAll("main *")].filter(
        one => getComputedStyle(one).writingMode !== "horizontal-tb"
    ),
    ...[...document.querySelectorAll(".mantine-Pill-label")].filter(one => one.scrollWidth > one.clientWidth),
].map(one => one.textContent.trim())"""
"""Texts that lie on their side, are cut off at the edge of a chart, or end in dots in the filter bar."""


@pytest.mark.parametrize("name", drawn(list(DARK), 1 / 6))
def test_a_page_draws_in_the_dark_and_in_chinese(name: str, url: str, opened: Any) -> None:
    """By day and in English the tests of its file see it."""
    from playwright.sync_api import expect

    path, last = DARK[name]
    with tab(opened, color_scheme="dark") as (page, wrong):
        page.goto(f"{url}{path}&lang=zh")
        page.locator(last).locator("visible=true").first.wait_for()
        speaks(page, "zh")
        expect(page.locator("html")).to_have_attribute("data-mantine-color-scheme", "dark")
        expect(page.locator("h1")).to_have_count(1)
        expect(page.locator("main")).to_have_count(1)
        expect(page.locator(".ag-delay-render")).to_have_count(0)  # tables below the screen are drawn too
        picture(page, f"{name}-dark-zh")
        until(lambda: page.evaluate(SIDEWAYS) == [], lambda: f"scroll sideways: {page.evaluate(SIDEWAYS)}")
        until(lambda: page.evaluate(CROOKED) == [], lambda: f"on their side or cut off: {page.evaluate(CROOKED)}")
        page.set_viewport_size(PHONE)
        until(lambda: page.evaluate(SIDEWAYS_ON_A_PHONE) == [], lambda: f"{page.evaluate(SIDEWAYS_ON_A_PHONE)}")
        page.reload()  # a chart is made for the width that it is drawn at
        page.locator(last).locator("visible=true").first.wait_for()
        until(lambda: page.evaluate(CROOKED) == [], lambda: f"on their side or cut off: {page.evaluate(CROOKED)}")
        assert page.evaluate("document.elementFromPoint(0, 0).closest('.gl-grid')") is None, "it lies on the navigation"
        assert wrong == []


@pytest.mark.parametrize("name", drawn(list(PAGES), 1 / 6))
def test_a_page_is_opened_narrowed_followed_down_and_taken_along(
    name: str, url: str, opened: Any, house: Store, tmp_path: Path
) -> None:
    from playwright.sync_api import expect

    used = PAGES[name]

    def said(condition: str) -> str:
        return used.figure(house.value(used.sql.replace("{}", condition)))

    with tab(opened, color_scheme="light") as (page, wrong):
        page.goto(f"{url}{used.path}{'&' if '?' in used.path else '?'}{DAY}")
        figure = page.locator(used.shows)
        expect(figure).to_have_text(said("true"))
        picture(page, f"{name}-light-en")

        file, rows = used.takes
        table = taken(page, file, tmp_path)
        assert len(table) == rows, table

        if used.filter:
            bar, choice, condition = used.filter
            assert said(condition) != said("true"), "a filter that changes nothing shows nothing"
            page.locator(".gl-filters").get_by_role("combobox", name=bar).or_(
                page.locator(".gl-filters").get_by_role("textbox", name=bar)
            ).first.click()
            page.get_by_role("option", name=choice, exact=True).click()
            expect(figure).to_have_text(said(condition))
            asks(page, **{bar.lower(): choice})
            page.go_back()
            expect(figure).to_have_text(said("true"))

        if used.down:
            link, reported = used.down
            page.locator(link).first.click()
            asks(page, **reported)
            expect(page.locator("h1")).to_be_visible()
        assert wrong == []


def test_a_file_has_every_row_in_full_as_the_engine_has_it(url: str, opened: Any, house: Store, tmp_path: Path) -> None:
    with tab(opened, color_scheme="light") as (page, wrong):
        page.goto(f"{url}/tenants?period=2026-10")
        page.locator("#tenants-grid a").first.wait_for()
        rows = taken(page, "gpuledger-tenants-2026-10.csv", tmp_path)
        reported = house.rows("SELECT tenant, sum(billed_cost) AS cost FROM v_charges GROUP BY tenant")
        assert {row["Tenant"]: pytest.approx(float(row["Billed cost (EUR)"]), abs=1e-8) for row in rows} == {
            row["tenant"]: float(row["cost"]) for row in reported
        }
        page.goto(f"{url}/workloads?workload=w-vision&{DAY}")
        page.locator("#workload-hours a").first.wait_for()
        hours = taken(page, "gpuledger-w-vision-hours-2026-10-02.csv", tmp_path)
        assert [row["Hour (UTC)"] for row in hours] == [f"2026-10-02T{hour:02}:00:00Z" for hour in range(24)]
        assert wrong == []
