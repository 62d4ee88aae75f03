"""`python -m bench.painting`: when a person first sees something in a browser, when they see a page's figures, and how
long the server takes to answer what they do then.

A real server process over the demo (or over a store that is given), asked by Debian's Chromium on the same machine,
by the one without windows if it is installed. Cold: nothing of the page is in the browser's cache. Warm: the page
once more, as a reload does. Then a click on the period before, and on the other language.

On two cores the demo takes two minutes to make, and each page some ten seconds a turn; nothing is waited for longer
than `PATIENCE_MS`.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Annotated, Any

import httpx
import typer
from rich.console import Console
from rich.table import Table

from bench.apart import BenchError, speed_of_machine
from bench.pages import end_when_told, serving
from warehouse.sql import read_sql

GOAL_MS, ANSWER_GOAL_MS = 1500.0, 200.0
PATIENCE_MS = 30_000
CHROMIUM = shutil.which("chromium-headless-shell") or shutil.which("chromium")
SETTLED_SECONDS = 20
"""Until the server's first close and look at its alerts are over."""
progress = Console(stderr=True, highlight=False)

WATCH = """
new MutationObserver((_, watch) => {
  if (!document.querySelector(SHOWS)) return;
  watch.disconnect();
  requestAnimationFrame(() => setTimeout(() => { window.figuresAt = performance.now(); }));
}).observe(document, {childList: true, subtree: true});
"""
"""Marks the moment after the frame in which the page's figures were painted."""
HEADLINE = "main .gl-headline .gl-value strong"
FIGURES = {
    "overview": ("/", HEADLINE),
    "tenants": ("/tenants", HEADLINE),
    "a tenant": ("/tenants?tenant={tenant}", HEADLINE),
    "workloads": ("/workloads", "main .ag-center-cols-container .ag-row"),
    "a workload": ("/workloads?workload={workload}", HEADLINE),
    "fleet": ("/fleet", HEADLINE),
    "a device": ("/fleet?device={device}", HEADLINE),
    "queues": ("/queues", HEADLINE),
    "capacity": ("/capacity", HEADLINE),
    "savings": ("/savings", HEADLINE),
    "objectives": ("/objectives", "main .gl-card h2"),
    "invoices": ("/invoices", HEADLINE),
    "an invoice": ("/invoices?number={invoice}", HEADLINE),
    "alerts": ("/alerts", HEADLINE),
    "now": ("/now", HEADLINE),
    "changes": ("/changes", "main .gl-card h2"),
    "explore": ("/explore", "main #explore-sql"),
    "administration": ("/administration", "main .ag-center-cols-container .ag-row"),
}
"""By page: its address, and the first of its own that it shows (its frame and outline stand before)."""


ANSWERS = "**/_dash-update-component*"
CLICKS = ("a.gl-arrow", ".gl-languages li:not([aria-current]) a")
"""The period before (or after, where there is none before), and the other language."""


@dataclass
class Seen:
    """visits: (first contentful paint, figures) in ms since the navigation, cold and then warm.   answers: the
    server's to each of the clicks that the page offers, in ms."""

    visits: list[tuple[float, float]] = field(default_factory=list)
    answers: list[float] = field(default_factory=list)


def painted(browser: Any, url: str, shows: str) -> Seen:
    seen = Seen()
    context = browser.new_context(viewport={"width": 1440, "height": 900})
    try:
        context.set_default_timeout(PATIENCE_MS)
        page = context.new_page()
        page.add_init_script(WATCH.replace("SHOWS", repr(shows)))
        for visit in (page.goto, lambda _: page.reload()):
            visit(url)
            page.locator(shows).first.wait_for()
            page.wait_for_timeout(500)
            paint = page.evaluate("performance.getEntriesByName('first-contentful-paint')[0].startTime")
            seen.visits.append((paint, page.evaluate("window.figuresAt")))
        for click in CLICKS:
            if page.locator(click).count():
                with page.expect_response(ANSWERS) as answer:
                    page.locator(click).first.click()
                answer.value.finished()
                timing = answer.value.request.timing
                seen.answers.append(timing["responseStart"] - timing["requestStart"])
                page.wait_for_timeout(500)
    finally:
        context.close()
    return seen


def main(
    store: Annotated[Path | None, typer.Option(help="Folder of a store; without it the demo is made.")] = None,
    turns: Annotated[int, typer.Option(min=1, help="Of each page.")] = 3,
    only: Annotated[str, typer.Option(help="Pages, with commas; '': all.")] = "",
) -> None:
    """First paint and first figures of each page, and answers to clicks: the median of the turns, and the slowest."""
    from playwright.sync_api import Error, sync_playwright

    if CHROMIUM is None:
        raise BenchError("chromium is not installed (apt-get install chromium-headless-shell)")
    chosen = only.split(",") if only else list(FIGURES)
    with tempfile.TemporaryDirectory(prefix="gpuledger-bench-") as name:
        folder = store.parent if store else Path(name)
        if store is None:
            progress.print("making the demo: two minutes")
            command = ["up", "--demo", "--no-serve", "--store", f"chdb://{folder}/store", "--out", f"{folder}/invoices"]
            subprocess.run([sys.executable, "-m", "gpuledger", *command], check=True, stdout=subprocess.DEVNULL)
        elif store.name != "store":
            raise BenchError(f"{store}: the folder of the store must be called 'store'")
        with serving(folder) as url, sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
            time.sleep(SETTLED_SECONDS)
            answer = httpx.post(f"{url}/sql", content=read_sql(__file__, "painting_shown"), timeout=60)
            known = answer.raise_for_status().json()
            table = Table("page", "cold: first paint", "figures", "slowest", "warm: first paint", "figures", "slowest",
                          "goal 1,500", "click: median", "slowest", "goal 200", box=None)  # fmt: skip
            try:
                for page in chosen:
                    progress.print(page)
                    path, shows = FIGURES[page]
                    table.add_row(
                        page, *_cells([painted(browser, url + path.format(**known), shows) for _ in range(turns)])
                    )
            except Error as error:
                raise BenchError(f"{page}: {error.message.splitlines()[0]}") from error
            finally:
                Console(width=140).print(table)
            progress.print(f"ms, median of {turns}; {os.cpu_count()} cores; {speed_of_machine()}")


def _cells(seen: Sequence[Seen]) -> list[str]:
    cells: list[float] = []
    for visit in (0, 1):
        paints, figures = ([one.visits[visit][at] for one in seen] for at in (0, 1))
        cells += [median(paints), median(figures), max(figures)]
    answers = [answer for one in seen for answer in one.answers]
    clicks = [f"{median(answers):,.0f}", f"{max(answers):,.0f}"] if answers else ["", ""]
    return [
        *(f"{cell:,.0f}" for cell in cells),
        "met" if max(cells[1], cells[4]) <= GOAL_MS else "missed",
        *clicks,
        "" if not answers else "met" if max(answers) <= ANSWER_GOAL_MS else "missed",
    ]


if __name__ == "__main__":
    end_when_told()
    try:
        typer.run(main)
    except BenchError as error:
        sys.exit(str(error))
