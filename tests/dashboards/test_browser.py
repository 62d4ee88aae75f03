"""The frame in a real browser: it draws, it switches, it complains of nothing and asks nobody else."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import pytest

from dashboards.registry import all_pages
from tests.dashboards.browser import MARKS, asks, browser, speaks, tab
from tests.dashboards.conftest import serving, two_days
from tests.draws import seldom
from tests.stores import fresh_store
from warehouse.errors import StoreError
from warehouse.store import Store

pytestmark = MARKS


@pytest.fixture(scope="module")
def opened() -> Iterator[Any]:
    with browser() as found:
        yield found


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    with fresh_store(tmp_path_factory.mktemp("frame") / "store", two_days) as store:
        yield store


@pytest.fixture(scope="module")
def served(house: Store) -> Iterator[str]:
    with serving(house) as url:
        yield url


@seldom(6, "the frame keeps its state in the")
def test_the_frame_keeps_its_state_in_the_url(served: str, opened: Any) -> None:
    from playwright.sync_api import expect

    with tab(opened, color_scheme="light") as (page, wrong):
        page.goto(served)
        expect(page.locator("#overview-fleet .bars .point")).to_have_count(2 * 5)
        expect(page).to_have_title("Overview · gpuledger")
        expect(page.locator("#month .gl-inset")).to_contain_text("So far")
        expect(page.locator("#overview-month .scatterlayer .point").first).to_be_visible()

        page.keyboard.press("Tab")
        expect(page.locator(".gl-skip")).to_be_focused()

        page.locator("#overview-grain label", has_text="Hourly").click()
        expect(page.locator("#overview-fleet .bars .point")).to_have_count(240)
        asks(page, grain="hour")
        page.reload()  # as whoever is sent it
        expect(page.locator("#overview-fleet .bars .point")).to_have_count(240)

        place = {"x": 30, "y": 100}
        page.locator("#overview-fleet .nsewdrag").first.hover(position=place)
        expect(page.locator("#overview-fleet .hoverlayer .legend")).to_be_visible()
        page.locator("#overview-fleet .nsewdrag").first.click(position=place)
        expect(page.locator(".gl-scope")).to_contain_text("1 Oct, ")
        page.go_back()
        expect(page.locator(".gl-scope")).to_have_text("October 2026 · UTC")

        page.focus(".gl-period-button")
        page.keyboard.press("Enter")
        page.locator(".gl-period-menu a", has_text="All closed time").click()
        expect(page.locator(".gl-scope")).to_have_text("All closed time · UTC")
        asks(page, period="all", grain="hour")

        filter_of = page.get_by_role("combobox", name="Tenant").or_(page.get_by_role("textbox", name="Tenant")).first
        filter_of.click()
        page.get_by_role("option", name="vision").click()
        expect(page.locator(".gl-headline")).to_contain_text("€96")
        asks(page, period="all", tenant="vision", grain="hour")

        page.locator(".gl-language", has_text="中").click()
        expect(page.locator("h1")).to_have_text("概览")
        speaks(page, "zh")
        expect(page.locator("#theme")).to_have_attribute("aria-label", "浅色或深色主题")
        page.locator(".gl-clear").click()
        expect(page.locator(".gl-headline")).to_contain_text("€192")

        page.click("#theme")
        expect(page.locator("html")).to_have_attribute("data-mantine-color-scheme", "dark")

        page.go_back()
        expect(page.locator(".gl-headline")).to_contain_text("€96")
        page.goto(served)
        expect(page.locator("h1")).to_have_text("概览")
        page.wait_for_url("**/?lang=zh&period=2026-10")

        page.goto(f"{served}?lang=en")  # as a link that somebody sent
        speaks(page, "en")
        page.goto(served)
        speaks(page, "zh")
        assert wrong == []


@seldom(3, "a lost server")
def test_a_server_that_is_gone_is_said_and_comes_back_with_what_was_asked_for(house: Store, opened: Any) -> None:
    from playwright.sync_api import expect

    with tab(opened) as (page, wrong):
        with serving(house) as url:
            page.goto(f"{url}?lang=en")
            expect(page.locator(".gl-headline")).to_contain_text("€192")
            page.wait_for_url("**/?lang=en&period=2026-10")  # who is sent this link sees the same
            expect(page.locator("#lost")).to_be_hidden()
        expect(page.locator("#lost")).to_contain_text("No answer from the server. These figures are from")
        page.locator(".gl-tab", has_text="Tenants").click()
        with serving(house, urlsplit(url).port or 0):
            expect(page.locator("h1")).to_have_text("Tenants")
            expect(page.locator("#lost")).to_be_hidden()
            page.wait_for_url("**/tenants?lang=en&period=2026-10")
        # It failed to connect, and nothing else went wrong.
        assert all("ERR_CONNECTION" in one or "server did not respond" in one for one in wrong), wrong


def test_addresses_that_pages_had_lead_to_them(served: str) -> None:
    import httpx

    for page in all_pages():
        if page.formerly:
            moved = httpx.get(f"{served.rstrip('/')}{page.formerly}?period=2026-10&workload=a%20b")
            assert (moved.status_code, moved.headers["location"]) == (308, f"{page.path}?period=2026-10&workload=a%20b")
            assert httpx.get(moved.url.join(moved.headers["location"])).status_code == 200


@seldom(6, "a narrow screen does not scroll sideways")
def test_a_narrow_screen_does_not_scroll_sideways_whatever_page_is_a_server_s_first(house: Store, opened: Any) -> None:
    with serving(house) as served, tab(opened, viewport={"width": 390, "height": 844}) as (page, wrong):
        for path, drawn in (("tenants", "#tenants-costs"), ("", "#overview-fleet"), ("fleet", "#fleet-grid")):
            page.goto(f"{served}{path}")
            page.locator(drawn).wait_for()
            assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), path
        assert wrong == []


@seldom(6, "a table is read sorted followed and")
def test_a_table_is_read_sorted_followed_and_left_by_keyboard_alone(served: str, opened: Any) -> None:
    from playwright.sync_api import expect

    with tab(opened) as (page, wrong):
        page.goto(f"{served}tenants")
        grid = page.locator("#tenants-grid")
        first = grid.locator("[row-index='0'] [col-id=name]")
        expect(first).to_be_visible()
        page.locator("[data-csv-of=tenants-grid]").focus()
        page.keyboard.press("Tab")
        expect(grid.locator(".ag-header-cell").first).to_be_focused()
        page.keyboard.press("Enter")
        expect(first).to_have_text("vision")
        page.keyboard.press("Enter")
        expect(first).to_have_text("speech")
        page.keyboard.press("ArrowDown")
        expect(first).to_be_focused()
        page.keyboard.press("Shift+Tab")
        expect(page.locator("[data-csv-of=tenants-grid]")).to_be_focused()
        page.keyboard.press("Tab")
        page.keyboard.press("ArrowDown")
        page.keyboard.press("ArrowDown")
        page.keyboard.press("Enter")
        page.wait_for_url("**tenant=vision**")
        assert wrong == []


@seldom(6, "the keyboard keeps its place")
def test_the_keyboard_keeps_its_place_on_a_page_that_is_drawn_anew(served: str, opened: Any) -> None:
    """As found: after each filter, period or tab the focus was nowhere, and Tab began anew."""
    from playwright.sync_api import expect

    with tab(opened) as (page, wrong):
        page.goto(served)
        page.wait_for_url("**period=2026-10**")
        tenants = page.locator(".gl-tab", has_text="Tenants")
        tenants.press("Enter")
        expect(page.locator("h1")).to_have_text("Tenants")
        expect(tenants).to_be_focused()

        tenant = page.get_by_role("combobox", name="Tenant").or_(page.get_by_role("textbox", name="Tenant")).first
        tenant.focus()
        page.keyboard.press("ArrowDown")
        page.keyboard.press("Enter")
        expect(page.locator(".gl-clear")).to_be_visible()
        expect(tenant).to_be_focused()
        expect(page.get_by_role("option").first).to_be_hidden()
        page.locator(".gl-clear").press("Enter")
        expect(page.locator(".gl-clear")).to_have_count(0)
        expect(page.locator(".gl-bar :focus")).to_have_count(1)

        page.locator(".gl-period-button").press("Enter")
        page.locator(".gl-period-menu a", has_text="All closed time").press("Enter")
        expect(page.locator(".gl-scope")).to_have_text("All closed time · UTC")
        expect(page.locator(".gl-period-button")).to_be_focused()

        page.locator("#page a.gl-cost-name, #page a[href*='tenant=']").first.press("Enter")
        page.wait_for_url("**tenant=**")
        expect(page.locator("#page")).to_be_focused()  # what led there is gone
        assert wrong == []


@seldom(6, "a part that cannot be shown says")
def test_a_part_that_cannot_be_shown_says_so(served: str, opened: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from playwright.sync_api import expect

    def fail(*_: object, **__: object) -> None:
        raise StoreError("chdb:///x", "cannot be reached", "Is it full?")

    with tab(opened) as (page, wrong):
        with monkeypatch.context() as patch:
            patch.setattr("dashboards.pages.tenants.of_tenant", fail)
            page.goto(f"{served}tenants?tenant=vision")
            expect(page.locator("#failed")).to_contain_text("cannot be reached")
        expect(page.locator(".gl-headline")).to_contain_text("€96")
        page.locator(".gl-side a", has_text="Overview").click()
        expect(page.locator("#overview-fleet")).to_be_visible()
        expect(page.locator("#failed")).to_be_empty()
        assert wrong == []
