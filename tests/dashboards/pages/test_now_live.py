"""The page of what is now, as a browser shows it by the clock, and with nothing to show."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from access.principal import ANYBODY
from access.settings import AccessSettings
from billing.insights.now import moment
from dashboards.frame import show
from dashboards.pages import now as page
from tests.dashboards import site
from tests.dashboards.browser import MARKS, browser, picture, tab
from tests.patience import until
from tests.stores import fresh_store
from warehouse.store import Store

pytestmark = pytest.mark.usefixtures("anybody")

HOUR, MINUTE = timedelta(hours=1), timedelta(minutes=1)


def test_nothing_told_is_nobody_knows(tmp_path: Path) -> None:
    with fresh_store(tmp_path / "store") as store:
        assert moment(store, datetime.now(UTC)) is None
        assert "No data has arrived yet" in str(show(store, ANYBODY, "/now", "").page)


def test_an_open_page_is_drawn_again_at_every_look() -> None:
    assert page.PAGE.live


class TestInTheBrowser:
    pytestmark = MARKS

    def test_who_holds_what_now_in_both_languages_and_on_a_phone(self, tmp_path: Path) -> None:
        from playwright.sync_api import expect

        with fresh_store(tmp_path / "store") as store:
            add_recent_samples(store)
            with site.serving(store, AccessSettings()) as url, browser() as opened:
                with tab(opened) as (shown, wrong):
                    shown.goto(f"{url}/now")
                    expect(shown.locator("#now-grid")).to_contain_text("w-live")
                    expect(shown.locator("#now-grid")).to_contain_text("Unmetered")
                    assert shown.locator(".gl-nav li a").nth(1).get_attribute("href") == "/now"
                    assert shown.locator(".gl-stopped").count() == 0
                    picture(shown, "now")
                    shown.goto(f"{url}/now?lang=zh")
                    expect(shown.locator("h1")).to_have_text("当前")
                    assert wrong == []
                with tab(opened, "dark", {"width": 390, "height": 844}) as (shown, wrong):
                    shown.goto(f"{url}/now")
                    expect(shown.locator("#now-grid")).to_contain_text("w-live")
                    assert shown.evaluate("document.documentElement.scrollWidth") <= 390
                    picture(shown, "now-phone")
                    assert wrong == []

    def test_the_idle_figure_leads_to_the_idle_by_keyboard(self, tmp_path: Path) -> None:
        from playwright.sync_api import expect

        with fresh_store(tmp_path / "store") as store:
            add_recent_samples(store)
            add_idle(store)
            with site.serving(store, AccessSettings()) as url, browser() as opened, tab(opened) as (shown, wrong):
                shown.goto(f"{url}/now")
                expect(shown.locator("#now-grid .ag-row")).to_have_count(2)
                keeps_its_place(shown)
                figure = shown.locator(".gl-figure", has_text="Idle now").get_by_role("link")
                figure.focus()
                shown.keyboard.press("Enter")
                shown.wait_for_url(lambda address: "idle=1" in address)
                expect(shown.locator("#now-idle")).to_contain_text("No alert yet: ask speech")
                expect(shown.locator("#now-idle .ag-row")).to_have_count(1)
                picture(shown, "now-idle")
                shown.get_by_role("link", name="All allocations").click()
                expect(shown.locator("#now-grid .ag-row")).to_have_count(2)
                shown.goto(f"{url}/now?idle=1&lang=zh")
                expect(shown.locator("#now-idle")).to_contain_text("尚无告警：询问 speech")
                assert wrong == []


def keeps_its_place(shown: Any) -> None:
    """The order and the cell that the reader chose, when the page is drawn again."""
    shown.locator("#now-grid .ag-header-cell", has_text="Tenant").click()
    shown.locator("#now-grid .ag-cell", has_text="vision").first.click()
    with shown.expect_response("**/_dash-update-component*"):
        shown.evaluate("dash_clientside.set_props('tick', {n_intervals: 99})")
    shown.wait_for_timeout(500)  # by now it is drawn, mostly
    order = "dash_ag_grid.getApi('now-grid').getColumnState().filter(one => one.sort).map(one => one.colId)"
    until(lambda: shown.evaluate(order) == ["tenant"], lambda: f"{shown.evaluate(order)}")
    until(lambda: shown.locator("#now-grid .ag-cell-focus").all_inner_texts() == ["vision"])


def add_idle(store: Store) -> None:
    """A second device, held by speech, which has done nothing for ten minutes."""
    now = datetime.now(UTC)
    store.command(
        "INSERT INTO devices (ts, cluster, node, device_id, vendor, model, units, pool, state) VALUES "
        f"('{now - HOUR:%F %T}', 'c', 'n1', 'GPU-b', 'NVIDIA', 'H100', 1, 'p', 'available')"
    )
    store.command(
        "INSERT INTO events (ts, cluster, source, allocation_id, workload_id, event, tenant, project, queue, gpus, "
        f"node, device_id) VALUES ('{now - HOUR:%F %T}', 'c', 's', 'idle', 'w-idle', 'started', 'speech', 'p', "
        "'main', 1, 'n1', 'GPU-b')"
    )
    samples = ", ".join(f"('{now - ago * MINUTE:%F %T}', 60, 'c', 'n1', 'GPU-b', 'ok', 0)" for ago in range(10))
    store.command(
        f"INSERT INTO samples (ts, interval_seconds, cluster, node, device_id, state, utilization) VALUES {samples}"
    )


def add_recent_samples(store: Store) -> None:
    """One device, held since an hour ago by the clock; its events came, no samples yet."""
    now = datetime.now(UTC)
    store.command(
        "INSERT INTO devices (ts, cluster, node, device_id, vendor, model, units, pool, state) VALUES "
        f"('{now - HOUR:%F %T}', 'c', 'n1', 'GPU-a', 'NVIDIA', 'H100', 1, 'p', 'available')"
    )
    store.command(
        f"INSERT INTO events (ts, cluster, source, allocation_id, workload_id, event, tenant, project, queue, gpus, "
        f"node, device_id) VALUES ('{now - HOUR:%F %T}', 'c', 's', 'live', 'w-live', 'started', 'vision', "
        f"'p', 'main', 1, 'n1', 'GPU-a'), ('{now - MINUTE:%F %T}', 'c', 's', 'next', 'w-next', "
        "'submitted', 'vision', 'p', 'main', 1, '', '')"
    )
