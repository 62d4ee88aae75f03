"""The page in a real browser: it draws, it switches, it complains of nothing and asks nobody else."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from typing import Any

import pytest

CHROMIUM = shutil.which("chromium") or "/usr/bin/chromium"
QUIET = (
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
)  # fmt: skip

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(shutil.which("chromium") is None, reason="chromium is not installed (apt-get install chromium)"),
]


@pytest.fixture
def watched() -> Iterator[tuple[Any, list[str]]]:
    """A tab, and the list of everything that went wrong in it or left the machine."""
    api = pytest.importorskip("playwright.sync_api")
    with api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=list(QUIET))
        tab = browser.new_page(viewport={"width": 1440, "height": 900})
        wrong: list[str] = []
        tab.on("console", lambda message: wrong.append(message.text) if message.type == "error" else None)
        tab.on("pageerror", lambda error: wrong.append(str(error)))
        tab.on("request", lambda request: None if _local(request.url) else wrong.append(request.url))
        yield tab, wrong
        browser.close()


def _local(url: str) -> bool:
    return url.startswith(("http://127.0.0.1:", "data:", "blob:"))


def test_the_overview_draws_and_switches(served: str, watched: tuple[Any, list[str]]) -> None:
    from playwright.sync_api import expect

    tab, wrong = watched
    tab.goto(served)
    tab.wait_for_selector("#fleet .bars path", timeout=60_000)
    assert tab.locator("h1").inner_text() == "October 2026"
    assert tab.locator("#fleet .bars .point").count() == 2 * 5

    tab.wait_for_selector("#tenants .ag-row[row-id] >> text=vision", timeout=30_000)
    assert "€96.00" in tab.locator("#tenants").inner_text()

    tab.locator("#grain label", has_text="Hours").click()
    expect(tab.locator("#fleet .bars .point")).to_have_count(240, timeout=30_000)

    tab.click("#theme")
    assert tab.evaluate("document.documentElement.dataset.mantineColorScheme") == "dark"

    tab.keyboard.press("Escape")
    tab.focus(".gl-period-button")
    tab.keyboard.press("Enter")
    tab.click("text=All closed time")
    expect(tab.locator("h1")).to_have_text("All closed time", timeout=30_000)
    assert tab.url.endswith("?period=all")
    tab.go_back()
    expect(tab.locator("h1")).to_have_text("October 2026", timeout=30_000)
    assert wrong == []


def test_a_narrow_screen_does_not_scroll_sideways(served: str, watched: tuple[Any, list[str]]) -> None:
    tab, wrong = watched
    tab.set_viewport_size({"width": 390, "height": 844})
    tab.goto(served)
    tab.wait_for_selector("#fleet .bars path", timeout=60_000)
    assert tab.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert wrong == []
