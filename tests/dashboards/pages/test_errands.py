"""What people come for, in at most three clicks from the first page."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import httpx

from tests.dashboards.browser import MARKS, tab
from tests.dashboards.pages.conftest import DAY
from tests.patience import until
from warehouse.store import Store

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
        expect(page.locator("main .ag-layout-print")).to_have_count(0)
        page.set_viewport_size(
            {"width": 390, "height": 844}
        )  # where tables are cards, before and after they are printed
        cards = page.locator("main .gl-cards .ag-root.ag-layout-print").first
        expect(cards).to_be_visible()
        page.evaluate("dispatchEvent(new Event('afterprint'))")
        expect(cards).to_be_visible()
        page.set_viewport_size({"width": 1440, "height": 900})
        page.locator(".gl-nav").get_by_role("link", name="Invoices", exact=True).click()
        expect(page.locator("#emissions")).to_contain_text("kg CO2e")
        with page.expect_download() as saved:
            page.get_by_role("link", name="FOCUS", exact=True).click()
        assert saved.value.suggested_filename == "focus-2026-10.csv"
        page.locator("#invoices-issued .ag-row a").first.click()
        for form in ("PDF", "CSV", "JSON"):
            expect(page.locator("main").get_by_role("link", name=form, exact=True)).to_be_visible()
        assert wrong == []


@dataclass
class Errand:
    """From the first page, with its clicks counted."""

    page: Any
    clicks: int = 0

    def go(self, name: str) -> Errand:
        """To a page of the navigation."""
        return self.click(self.page.locator(".gl-nav").get_by_role("link", name=name, exact=True))

    def click(self, what: Any) -> Errand:
        what.click()
        self.clicks += 1
        assert self.clicks <= 3
        return self

    def submit(self, name: str) -> None:
        """Presses a form's button, and waits for the page that comes after it."""
        with self.page.expect_event("load"):
            self.click(self.page.get_by_role("button", name=name))


def test_five_people_have_what_they_came_for_within_three_clicks(url: str, opened: Any, house: Store) -> None:
    from playwright.sync_api import expect

    with tab(opened) as (page, wrong):

        def begin() -> Errand:
            page.goto(f"{url}/?{DAY}")  # with none of the filters of the errand before
            page.locator("#alerts").wait_for()
            return Errand(page)

        def asked(dialog: Any) -> None:
            wrong.append(f"a click more: {dialog.message}")
            dialog.accept()

        def newest() -> list[Any]:
            (row,) = house.rows("SELECT document_type, tenant, net FROM v_invoices ORDER BY number DESC LIMIT 1")
            return list(row.values())

        page.goto(f"{url}/?{DAY}")
        page.on("dialog", asked)
        # Who is idle now, and what to do?
        begin().click(page.locator("#alerts").get_by_role("link", name="GPUs idle now"))
        expect(page.get_by_role("heading", name="Idle now, and what to do")).to_be_visible()
        begin().click(page.locator("#alerts").get_by_role("link", name="idle-holder", exact=True).first)
        page.wait_for_url(lambda address: "/now" in address and "idle=1" in address)
        # Why did my bill change?
        begin().go("Changes").click(page.locator("main .ag-row").get_by_role("link", name="vision"))
        page.wait_for_url(lambda address: "tenant=vision" in address)
        # Why does my job wait?
        begin().go("Queues").click(page.locator("#queues-waiters").get_by_role("link", name="w2-vision"))
        expect(page.get_by_role("heading", name="Why it waits")).to_be_visible()
        # Do we buy?
        begin().go("Capacity").click(page.get_by_role("button", name="Simulate"))
        expect(page.locator("#capacity-answer .gl-formula")).to_contain_text("With +8 GPUs")
        # Close, as who does not wait for the hour.
        begin().go("Invoices").submit("Close hours until now")
        expect(page.locator("form", has_text="Close hours until now")).to_contain_text("hours that changed: 0")
        # Export, correct, take back and issue a month.
        with page.expect_download() as saved:
            begin().go("Invoices").click(page.get_by_role("link", name="FOCUS", exact=True))
        assert saved.value.suggested_filename == "focus-2026-10.csv"
        speech = page.locator("#invoices-issued .ag-row", has_text="speech").get_by_role("link").last
        errand = begin().go("Invoices").click(speech)
        page.get_by_label("Net amount").fill("1.25")
        page.get_by_label("Reason").first.fill("an outage")
        errand.submit("Issue credit note")
        until(lambda: newest() == ["credit_note", "speech", Decimal("-1.25")], lambda: str(newest()))
        vision = page.locator("#invoices-issued .ag-row", has_text="vision").get_by_role("link").last
        errand = begin().go("Invoices").click(vision)
        page.get_by_label("Reason").last.fill("a wrong address")
        errand.submit("Void GL-")
        until(lambda: house.value("SELECT count() AS n FROM v_invoices WHERE status = 'void'") == 1)
        # Its draft is read line by line before it is issued.
        errand = begin().go("Invoices").click(page.locator("#invoices-drafts").get_by_role("link", name="vision"))
        lines = page.locator("#draft-lines .ag-center-cols-container .ag-row")
        expect(lines.first).to_contain_text("p-vision")
        (draft,) = httpx.get(f"{url}/api/v1/drafts", params={"month": "2026-10", "tenant": "vision"}).json()["rows"]
        expect(lines).to_have_count(len(draft["lines"]))
        expect(page.locator("#draft-lines .ag-floating-bottom")).to_contain_text(draft["totals"]["amount"])
        errand.submit("Issue October 2026")
        until(lambda: newest()[:2] == ["invoice", "vision"], lambda: str(newest()))
        expect(page.locator("#invoices-issued .ag-row")).to_have_count(4)
        assert wrong == []
