"""A real browser for the tests of pages: what went wrong in a tab, and screenshots of it."""

from __future__ import annotations

import contextlib
import csv
import os
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

CHROMIUM = shutil.which("chromium-headless-shell") or shutil.which("chromium")
"""The one without windows draws no frame around each page: a third less CPU."""
QUIET = (
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
)  # fmt: skip
MARKS = [
    pytest.mark.browser,
    pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed (apt-get install chromium-headless-shell)"),
]
PATIENCE_MS = 40_000
SCREENSHOTS = Path(__file__).parents[2] / "build" / "screenshots"
"""Of the last run with GPULEDGER_PICTURES, for people to look at; git ignores it."""
PICTURES = "GPULEDGER_PICTURES" in os.environ
WIDE = {"width": 1440, "height": 900}


@contextlib.contextmanager
def browser() -> Iterator[Any]:
    api = pytest.importorskip("playwright.sync_api")
    api.expect.set_options(timeout=PATIENCE_MS)
    with api.sync_playwright() as playwright:
        found = playwright.chromium.launch(executable_path=CHROMIUM, args=list(QUIET))
        yield found
        found.close()


@contextlib.contextmanager
def tab(
    opened: Any, color_scheme: str = "light", viewport: Mapping[str, int] = WIDE
) -> Iterator[tuple[Any, list[str]]]:
    """A tab without a memory, and the list of everything that went wrong in it or left the machine. Tabs share the
    scripts that the browser has read; where nobody looks, a page has a quarter of the dots."""
    if not opened.contexts:
        opened.new_context(viewport=WIDE, locale="en-GB", device_scale_factor=1 if PICTURES else 0.5)
    (context,) = opened.contexts
    page = context.new_page()
    page.emulate_media(color_scheme=color_scheme)
    page.set_viewport_size(viewport)
    page.set_default_timeout(PATIENCE_MS)
    wrong: list[str] = []
    page.on("console", lambda message: wrong.append(message.text) if message.type == "error" else None)
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.on("request", lambda request: None if _local(request.url) else wrong.append(request.url))
    try:
        yield page, wrong
    finally:
        page.evaluate("localStorage.clear()")
        page.close()
        context.clear_cookies()


def speaks(page: Any, language: str) -> None:
    """The document comes to say which language it is in, which it does after its words have changed."""
    from playwright.sync_api import expect

    expect(page.locator("html")).to_have_attribute("lang", language)


def asks(page: Any, **reported: str) -> None:
    """The page's address comes to ask for what is told, which it does when a click has been answered."""
    page.wait_for_url(
        lambda url: parse_qs(urlsplit(url).query).items() >= {key: [value] for key, value in reported.items()}.items()
    )


def taken(page: Any, file: str, folder: Path) -> list[dict[str, str]]:
    """The rows of a CSV that a button or a link of the page saves; of a grid once it is filled in, or says that it has
    no rows."""
    button = page.locator(f"[data-file='{file}'], a[download='{file}']")
    if grid := button.get_attribute("data-csv-of"):
        page.locator(f"#{grid} :is(.ag-row, .ag-overlay-no-rows-center)").first.wait_for()
    with page.expect_download() as saved:
        button.click()
    assert saved.value.suggested_filename == file
    saved.value.save_as(folder / file)
    text = (folder / file).read_text(encoding="utf-8-sig")
    assert "\u2060" not in text and "\u00a0" not in text, (
        "as found: in no search is `30日` with an invisible sign within"
    )
    assert all(next(csv.reader(text.splitlines()))), "a column without a name, such as one of links"
    return list(csv.DictReader(text.splitlines()))


def picture(page: Any, name: str) -> None:
    """A screenshot of the whole page, where somebody wants to look at it."""
    if PICTURES:
        page.mouse.move(0, 0)
        page.screenshot(path=SCREENSHOTS / f"{name}.png", full_page=True)


def _local(url: str) -> bool:
    return url.startswith(("http://127.0.0.1:", "data:", "blob:"))
