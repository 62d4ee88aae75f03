"""The tour, as somebody takes it by the keyboard."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

import pytest

from dashboards.languages import NAMES, language
from dashboards.registry import all_pages
from dashboards.tour import STOPS, stops
from tests.dashboards.browser import MARKS, tab
from tests.dashboards.pages.conftest import DAY


def test_every_stop_is_a_page_with_texts_in_each_language() -> None:
    assert {path for _, path in STOPS} <= {page.path for page in all_pages()}
    for code in NAMES:
        words = language(code)
        assert all(words(f"tour.{name}{part}") for name, _ in STOPS for part in ("", "_is"))


def test_stops_that_the_reader_may_not_see_are_left_out() -> None:
    found = stops({"/", "/now"}, lambda path: path, language("en"))
    assert found is not None and len(found.children.children) == 2
    assert "stop 2 of 2" in str(found) and "Who is idle now" in str(found)
    shown = {"/now", "/queues"}
    assert "href='/now?idle=1'" in str(stops(shown, lambda path: path, language("en")))
    assert "href='/now?lang=zh&idle=1'" in str(stops(shown, lambda path: f"{path}?lang=zh", language("zh")))
    assert stops(set(), lambda path: path, language("en")) is None


@pytest.mark.parametrize("code", NAMES)
class TestInTheBrowser:
    pytestmark = MARKS

    def test_five_stops_by_the_keyboard(self, url: str, opened: Any, code: str) -> None:
        from playwright.sync_api import expect

        words = language(code)
        with tab(opened) as (page, wrong):
            page.goto(f"{url}/?{DAY}&lang={code}")
            expect(page.locator("h1")).to_be_visible()
            expect(page.locator(".gl-tour")).to_be_hidden()
            page.get_by_role("link", name=words("tour.start")).press("Enter")
            for at, (name, path) in enumerate(STOPS):
                question = page.locator(".gl-tour-question:visible")
                expect(question).to_have_text(words(f"tour.{name}"))
                expect(question).to_be_focused()
                assert urlsplit(page.url).path == path
                if at + 1 < len(STOPS):
                    page.keyboard.press("Tab")
                    if at:
                        page.keyboard.press("Tab")
                    page.keyboard.press("Enter")
            page.locator(".gl-nav a", has_text=words("fleet.title")).click()
            expect(page.locator("h1")).to_have_text(words("fleet.title"))
            expect(page.locator(".gl-tour")).to_be_hidden()  # as found: the stop stood above every other page
            page.reload()
            expect(page.locator("h1")).to_have_text(words("fleet.title"))
            expect(page.locator(".gl-tour")).to_be_hidden()
            page.locator(".gl-nav a[href^='/now']").click()
            expect(page.locator(".gl-tour-question:visible")).to_have_text(words("tour.idle"))
            page.reload()
            expect(page.locator(".gl-tour-question:visible")).to_have_text(words("tour.idle"))
            page.get_by_role("button", name=words("tour.done")).press("Escape")
            expect(page.locator(".gl-tour")).to_be_hidden()
            page.goto(f"{url}/?{DAY}&lang={code}#tour")  # as `gpuledger up --demo` names it
            expect(page.locator(".gl-tour-question:visible")).to_be_focused()
            assert wrong == []
