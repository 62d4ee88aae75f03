"""Every page passes axe-core's rules: light and dark, wide and on a phone, in both languages."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest

from dashboards.languages import NAMES
from dashboards.registry import all_pages
from tests.dashboards.browser import MARKS, WIDE, tab
from tests.dashboards.pages.conftest import DAY
from tests.draws import drawn

pytestmark = MARKS
PAGES = (
    "/", "/administration", "/alerts", "/capacity", "/changes", "/explore", "/fleet", "/invoices", "/now",
    "/objectives", "/queues", "/savings", "/tenants", "/workloads", "/tenants?tenant=vision",
    "/workloads?workload=w-vision", "/fleet?device=GPU-b", "/no-such-page",
)  # fmt: skip
PHONE = {"width": 390, "height": 844}
CASES = list(product(PAGES, ("light", "dark"), NAMES, ("wide", "phone")))


@pytest.mark.parametrize(("path", "scheme", "language", "screen"), drawn(CASES, 0.02))
def test_a_page_breaks_no_rule_of_accessibility(
    url: str, opened: Any, path: str, scheme: str, language: str, screen: str
) -> None:
    from axe_playwright_python.sync_playwright import Axe
    from playwright.sync_api import expect

    with tab(opened, scheme, WIDE if screen == "wide" else PHONE) as (page, _):
        page.goto(f"{url}{path}{'&' if '?' in path else '?'}{DAY}&lang={language}")
        expect(page.locator("h1")).to_be_visible()
        expect(page.locator("[class*=Skeleton]")).to_have_count(0)
        expect(page.locator("[role=row]:not(:has(*))")).to_have_count(0)  # a table that is being drawn
        found = Axe().run(page, options={"resultTypes": ["violations", "passes"]}).response
    assert len(found["passes"]) > 20, "the rules were applied to something"
    assert [f"{one['id']}: {one['help']} {one['nodes'][0]['html'][:300]}" for one in found["violations"]] == []


def test_every_page_is_among_them() -> None:
    assert {page.path for page in all_pages()} <= set(PAGES)
