"""What people come for, in at most three clicks from the first page."""

from __future__ import annotations

from typing import Any

from tests.dashboards.browser import MARKS, tab
from tests.dashboards.pages.conftest import DAY
from tests.patience import until

pytestmark = MARKS


def test_a_bills_causes_and_an_invoice_to_export_are_two_clicks_away(url: str, opened: Any) -> None:
    from playwright.sync_api import expect

    with tab(opened) as (page, wrong):
        page.goto(f"{url}/?{DAY}")
        page.locator(".gl-nav").get_by_role("link", name="Changes", exact=True).click()
        page.locator("main .ag-row").get_by_role("link", name="vision").click()
        expect(page.locator("main h1")).to_contain_text("Changes")
        page.wait_for_url(lambda address: "tenant=vision" in address)
        page.evaluate("window.print = () => { window.printed = document.querySelectorAll('.ag-layout-print').length }")
        until(lambda: page.keyboard.press("Control+p") or page.evaluate("window.printed || 0"), every=0.5)
        page.evaluate("dispatchEvent(new Event('afterprint'))")
        page.locator(".gl-nav").get_by_role("link", name="Invoices", exact=True).click()
        expect(page.locator("#emissions")).to_contain_text("kg CO2e")
        with page.expect_download() as saved:
            page.get_by_role("link", name="FOCUS", exact=True).click()
        assert saved.value.suggested_filename == "focus-2026-10.csv"
        page.locator("#invoices-issued .ag-row a").first.click()
        for form in ("PDF", "CSV", "JSON"):
            expect(page.locator("main").get_by_role("link", name=form, exact=True)).to_be_visible()
        assert wrong == []


def test_who_is_idle_now_is_one_click_away(url: str, opened: Any) -> None:
    from playwright.sync_api import expect

    with tab(opened) as (page, wrong):
        page.goto(f"{url}/?{DAY}")
        page.locator("#alerts").get_by_role("link", name="GPUs idle now").click()
        expect(page.get_by_role("heading", name="Idle now, and what to do")).to_be_visible()
        page.goto(f"{url}/?{DAY}")
        page.locator("#alerts").get_by_role("link", name="idle-holder", exact=True).first.click()
        page.wait_for_url(lambda address: "/now" in address and "idle=1" in address)
        assert wrong == []
