"""From one page to the next in a real browser, without complaint."""

from __future__ import annotations

import re
from typing import Any

from tests.dashboards.browser import MARKS, picture, tab
from tests.dashboards.pages.conftest import DAY
from tests.draws import seldom
from tests.patience import until

pytestmark = MARKS


@seldom(6, "from a tenant down to an hour")
def test_from_a_tenant_down_to_an_hour(url: str, opened: Any) -> None:
    from playwright.sync_api import expect

    with tab(opened, color_scheme="light") as (page, wrong):
        page.goto(f"{url}/tenants?{DAY}&pool=train")
        grid = page.locator("#tenants-grid")
        expect(grid).to_contain_text("€48.00")
        expect(grid).not_to_contain_text("€54.86")
        grid.get_by_role("link", name="vision").click()
        expect(page.locator("h1")).to_have_text("vision")
        expect(page.locator("#tenants-advice")).to_contain_text("Based on")
        page.locator("#tenants-grid").get_by_role("link", name="p-vision").click()
        expect(page.locator("h1")).to_have_text("p-vision")
        page.locator("#tenants-grid").get_by_role("link", name="w-vision").click()
        expect(page.locator("h1")).to_have_text("w-vision")
        expect(page.locator("#workload-timeline")).to_contain_text("Slowdown")
        expect(page.locator("#workload-advice")).to_contain_text("Based on")
        page.locator("#workload-hours").get_by_role("link", name="2 Oct, 05:00").click()
        expect(page.locator(".gl-scope")).to_have_text("2 Oct, 05:00 – 2 Oct, 06:00 · UTC")
        assert "pool=train" in page.url
        assert wrong == []


@seldom(6, "from the heat map to a holder")
def test_from_the_heat_map_to_a_holder(url: str, opened: Any) -> None:
    from playwright.sync_api import expect

    with tab(opened, color_scheme="dark") as (page, wrong):
        page.goto(f"{url}/fleet?{DAY}")
        expect(page.locator(".gl-cells .gl-cell")).to_have_count(4)
        page.locator(".gl-choice", has_text="Errors").click()
        expect(page.locator(".gl-cell.gl-hot-7[aria-label^='GPU-b']")).to_have_count(1)
        assert "by=errors" in page.url
        page.locator(".gl-cell[aria-label^='GPU-m']").click()
        expect(page.locator("h1")).to_have_text("GPU-m")
        expect(page.locator("#fleet-holders")).to_contain_text("3g.40gb")
        page.locator("#fleet-holders").get_by_role("link", name="w-mig-speech").click()
        expect(page.locator("h1")).to_have_text("w-mig-speech")
        page.go_back()
        expect(page.locator("h1")).to_have_text("GPU-m")
        assert wrong == []


@seldom(6, "the heat map is one stop for the keyboard")
def test_the_heat_map_is_one_stop_for_the_keyboard(url: str, opened: Any) -> None:
    """As found: each of its cells was one, two hundred of them before the table below."""
    from playwright.sync_api import expect

    with tab(opened) as (page, wrong):
        page.goto(f"{url}/fleet?{DAY}")
        cells = page.locator(".gl-heat a.gl-cell")
        expect(cells).to_have_count(4)
        page.locator(".gl-choice").last.focus()
        page.keyboard.press("Tab")
        expect(cells.nth(0)).to_be_focused()
        for key, at in (
            ("ArrowRight", 1),
            ("ArrowLeft", 0),
            ("Control+End", 3),
            ("ArrowRight", 3),
            ("Control+Home", 0),
        ):
            page.keyboard.press(key)
            expect(cells.nth(at)).to_be_focused()
        assert cells.nth(0).evaluate("cell => getComputedStyle(cell).outlineStyle") == "solid"
        places = cells.evaluate_all("all => all.map(one => one.getBoundingClientRect().top)")
        page.keyboard.press("ArrowDown")
        below = cells.evaluate_all("all => all.indexOf(document.activeElement)")
        assert places[below] == min(place for place in places if place > places[0])
        page.keyboard.press("Tab")
        expect(page.locator(".gl-layouts a").first).to_be_focused()
        page.keyboard.press("ArrowRight")
        expect(page.locator(".gl-layouts a.gl-share").first).to_be_focused()
        page.keyboard.press("Tab")
        assert page.evaluate("!document.activeElement.closest('.gl-layouts')")
        page.locator(".gl-layouts a").nth(1).focus()
        page.keyboard.press("Shift+Tab")
        expect(cells.nth(below)).to_be_focused()
        device = str(cells.nth(below).get_attribute("aria-label")).partition(" ")[0]
        page.keyboard.press("Enter")
        expect(page.locator("h1")).to_have_text(device)
        assert wrong == []


@seldom(6, "a day of a chart is opened by the keyboard")
def test_a_day_of_a_chart_is_opened_by_the_keyboard(url: str, opened: Any) -> None:
    """As found: by a click alone."""
    from playwright.sync_api import expect

    with tab(opened) as (page, wrong):
        page.goto(f"{url}/?period=2026-10")
        chart = page.get_by_role("slider").first
        expect(chart.locator(".bars .point").first).to_be_attached()
        chart.focus()
        page.keyboard.press("ArrowRight")
        expect(chart).to_have_attribute("aria-valuenow", "2")
        expect(chart).to_have_attribute("aria-valuetext", re.compile("Used.*2 Oct"))
        expect(chart.locator(".hoverlayer")).to_contain_text("2 Oct")
        page.keyboard.press("Enter")
        page.wait_for_url("**period=2026-10-02**")
        expect(page.locator(".gl-scope")).to_contain_text("2 Oct")
        page.go_back()
        page.wait_for_url("**period=2026-10*")
        assert wrong == []


@seldom(6, "a workload is found by a part")
def test_a_workload_is_found_by_a_part_of_its_name(url: str, opened: Any) -> None:
    from playwright.sync_api import expect

    with tab(opened, color_scheme="light") as (page, wrong):
        page.goto(f"{url}/workloads?{DAY}")
        expect(page.locator("#workload-grid .ag-center-cols-container .ag-row")).to_have_count(4)
        page.locator("#workload-find").fill("MIG")
        page.keyboard.press("Enter")
        expect(page.locator("#workload-grid .ag-center-cols-container .ag-row")).to_have_count(2)
        assert page.url.endswith("find=MIG")
        assert wrong == []


@seldom(6, "a long table on a phone")
def test_a_long_table_scrolls_with_the_page_on_a_phone_and_shows_all_when_asked(url: str, opened: Any) -> None:
    from playwright.sync_api import expect

    with tab(opened, viewport={"width": 390, "height": 844}) as (page, wrong):
        page.goto(f"{url}/workloads?period=2026-10-01..2026-10-03&workload=w-vision")
        grid = page.locator("#workload-hours")
        cards = grid.locator(".ag-center-cols-container > .ag-row:visible")
        expect(cards).to_have_count(5)
        picture(page, "long-table-phone")
        grid.get_by_role("button", name="Show all 48 rows").click()
        expect(cards).to_have_count(48)
        expect(grid.locator(".gl-unfold")).to_have_count(0)
        assert grid.evaluate("grid => grid.scrollHeight <= grid.clientHeight"), "it scrolls within the page"
        page.set_viewport_size({"width": 1440, "height": 900})
        expect(grid).to_have_css("height", "600px")
        fade = "grid => getComputedStyle(grid.querySelector('.ag-body'), '::after').height"
        assert grid.evaluate(fade) == "44px", "as found: a row cut through looked like the end; its text met the count"
        assert grid.locator(".ag-body").get_attribute("data-rows") == "48 rows", "as found: a total of rows unseen"
        grid.locator(".ag-body-viewport").evaluate("rows => rows.scrollTo(0, rows.scrollHeight)")
        expect(grid).not_to_have_class(re.compile("gl-goes-on"))
        page.set_viewport_size({"width": 1440, "height": 1180})
        expect(grid).to_have_css("height", "760px")
        assert wrong == []


def test_a_long_list_scrolls_with_the_page_on_a_phone_and_shows_all_when_asked(url: str, opened: Any) -> None:
    """As found: 43 alerts in a box of 560 px, in a page that scrolls."""
    from playwright.sync_api import expect

    with tab(opened, viewport={"width": 390, "height": 844}) as (page, wrong):
        page.goto(f"{url}/alerts?period=2026-10")
        ours = page.locator("main ul.gl-alerts")
        items = ours.locator("> li:visible")
        items.first.wait_for()
        ours.evaluate("list => { while (list.children.length < 30) list.append(list.firstChild.cloneNode(true)); }")
        expect(items).to_have_count(20)
        page.set_viewport_size({"width": 1440, "height": 900})
        expect(items).to_have_count(30)
        expect(ours).to_have_css("max-height", "560px")
        page.set_viewport_size({"width": 390, "height": 844})
        page.get_by_role("button", name="Show all 30", exact=True).click()
        expect(items).to_have_count(30)
        expect(page.locator(".gl-unfold-list")).to_have_count(0)
        assert ours.evaluate("list => list.scrollHeight <= list.clientHeight + 1"), "it scrolls within the page"
        assert wrong == []


def test_a_name_is_not_broken_beside_numbers_on_a_phone(url: str, opened: Any) -> None:
    """As found: "interacti ve" beside the waits of a queue, on a phone."""
    with tab(opened, viewport={"width": 390, "height": 844}) as (page, wrong):
        page.goto(f"{url}/?{DAY}")
        row = page.locator("main .gl-plain tbody tr", has_text="main").first
        lines = row.evaluate(
            """row => {
              row.querySelector("th a").textContent = "interactive";
              row.querySelectorAll("td").forEach(cell => { cell.textContent = "23.4 h"; });
              return row.querySelector("th a").getClientRects().length;
            }"""
        )
        assert lines == 1
        assert page.evaluate("document.scrollingElement.scrollWidth <= innerWidth")
        assert wrong == []


def test_charges_of_thousands_fit_a_phone(url: str, opened: Any) -> None:
    """As found: billed cost cut off at "$1,994" where charges go into thousands."""
    with tab(opened, viewport={"width": 390, "height": 844}) as (page, wrong):
        page.goto(f"{url}/workloads?{DAY}&workload=w-vision&lang=zh")
        charges = page.locator(".gl-scroll:has(> .gl-with-sum)")
        charges.wait_for()
        beyond = """charges => {
          charges.querySelectorAll("td:not(:empty)").forEach(cell => { cell.textContent = "$101,994.72"; });
          return charges.scrollWidth - charges.clientWidth;
        }"""
        assert charges.evaluate(beyond) == 0
        assert not charges.locator("td:visible").filter(has_not_text=re.compile(r"\S")).count(), "a name of nothing"
        assert wrong == []


def test_cards_have_no_holes_and_a_pair_of_columns_is_a_table_on_a_phone(url: str, opened: Any) -> None:
    """As found: beside a node a blank, and its pool in the next row; a trend named in a total that has none; cards of
    one number each."""
    from playwright.sync_api import expect

    top = "cell => cell.getBoundingClientRect().top"
    with tab(opened, viewport={"width": 390, "height": 844}) as (page, wrong):
        page.goto(f"{url}/fleet?{DAY}")
        card = page.locator("#fleet-grid .ag-center-cols-container > .ag-row").first
        card.wait_for()
        node, pool = (card.locator(f"[col-id={name}]").evaluate(top) for name in ("node", "pool"))
        assert node == pool
        page.goto(f"{url}/tenants?{DAY}")
        total = page.locator("#tenants-grid .ag-floating-bottom .ag-row")
        expect(total.locator("[col-id=billed_cost]")).to_be_visible()
        expect(total.locator("[col-id=trend]")).to_be_hidden()
        page.goto(f"{url}/explore?sql=SELECT+tenant,+sum(billed_cost)+AS+cost+FROM+v_charges+GROUP+BY+tenant")
        pair = page.locator("#explore-grid")
        expect(pair.locator(".ag-center-cols-container > .ag-row").first).to_be_visible()
        expect(pair).not_to_have_class(re.compile("gl-cards"))
        assert page.evaluate("document.scrollingElement.scrollWidth <= innerWidth")
        assert wrong == []


def test_a_quantity_has_its_unit_on_every_screen(url: str, opened: Any) -> None:
    """As found: "31.26GPU-hours" on cards, and 312.26 of nothing in the table of a tablet."""
    with tab(opened) as (page, wrong):
        for width in (390, 700, 820, 1000):
            page.set_viewport_size({"width": width, "height": 900})
            page.goto(f"{url}/invoices?month=2026-10")
            page.locator("#invoices-issued .ag-row a").first.click()
            row = page.locator("#invoice-lines .ag-row").first
            row.wait_for()
            said = page.wait_for_function(
                """row => {
                  const text = name => row.querySelector(`[col-id=${name}]`)?.innerText.trim() || "";
                  const said = text("quantity") + (text("unit") && " ") + text("unit");
                  return /^[\\d,.]+\\s+GPU-hours$/.test(said) && said;  // a column goes a moment after the cards come
                }""",
                arg=row.element_handle(),
            ).json_value()
            assert re.fullmatch(r"[\d,.]+\s+GPU-hours", said), (width, said)
        assert wrong == []


def test_rows_of_figures_are_full_on_a_tablet(url: str, opened: Any) -> None:
    """As found: five tiles in rows of three, the last cell blank; as seven in rows of four."""
    with tab(opened, viewport={"width": 820, "height": 1000}) as (page, wrong):
        for path in ("tenants", "savings", "queues", "objectives", "alerts"):
            page.goto(f"{url}/{path}?{DAY}")
            tiles = page.locator("main .gl-headline .gl-figure")
            tiles.first.wait_for()
            rows: dict[float, list[float]] = {}
            for box in map(dict, tiles.evaluate_all("found => found.map(one => one.getBoundingClientRect().toJSON())")):
                rows.setdefault(round(box["y"]), []).append(box["width"])
            for widths in rows.values():
                assert max(widths) - min(widths) < 3, (path, rows)
        assert wrong == []


def test_a_table_is_as_wide_on_paper_as_on_the_screen(url: str, opened: Any) -> None:
    """As found: with Ctrl-P each column took a width of its own, and the amounts of an invoice lay beyond the paper."""
    from playwright.sync_api import expect

    widths = "grid => [...grid.querySelectorAll('.ag-header-cell')].map(cell => [cell.ariaColIndex, cell.offsetWidth])"
    with tab(opened) as (page, wrong):
        page.goto(f"{url}/invoices?month=2026-10")
        grid = page.locator("#invoices-issued")
        grid.locator(".ag-row").first.wait_for()
        page.wait_for_timeout(500)
        before = sorted(grid.evaluate(widths))
        page.evaluate("dispatchEvent(new Event('beforeprint'))")  # by the browser's menu
        page.set_viewport_size({"width": 900, "height": 900})
        page.wait_for_timeout(500)
        assert sorted(grid.evaluate(widths)) == before  # as found: narrower ones, whose texts were cut off below
        page.evaluate("dispatchEvent(new Event('afterprint'))")
        page.set_viewport_size({"width": 1440, "height": 900})
        until(lambda: sorted(grid.evaluate(widths)) == before)
        page.evaluate("window.print = () => { window.printed = true }")
        for _ in range(2):  # as pressed twice before the browser asks
            page.keyboard.press("Control+p")
        expect(grid.locator(".ag-layout-print").first).to_be_visible()
        page.wait_for_function("window.printed")
        assert sorted(grid.evaluate(widths)) == before
        page.emulate_media(media="print")
        assert page.evaluate("document.scrollingElement.scrollWidth <= innerWidth")
        page.emulate_media(media="screen")
        page.evaluate("dispatchEvent(new Event('afterprint'))")
        page.set_viewport_size({"width": 1200, "height": 900})
        expect(grid.locator(".ag-layout-print")).to_have_count(0)
        fits = "grid => grid.querySelector('.ag-center-cols-container').offsetWidth <= grid.clientWidth"
        page.wait_for_function(fits, arg=grid.element_handle())
        page.goto(f"{url}/invoices?number=GL-2026-00001")
        voiding = page.get_by_role("region", name="Void", exact=True)
        expect(voiding).to_be_visible()
        page.emulate_media(media="print")
        expect(voiding).to_be_hidden()  # as found: a card of that name, and nothing in it, on a printed invoice
        page.goto(f"{url}/alerts?{DAY}")
        expect(page.locator(".gl-card:has(.gl-tall)").first).to_have_css(
            "break-inside", "auto"
        )  # else a sheet of its own
        page.emulate_media(media="screen")
        assert wrong == []


def test_what_is_longer_than_an_address_may_be_is_said(url: str, opened: Any) -> None:
    """As found: nothing happened after Run, and the console had an error of Dash's own."""
    from playwright.sync_api import expect

    with tab(opened) as (page, wrong):
        page.goto(f"{url}/explore?lang=zh")
        page.locator("#explore-sql").fill(f"SELECT '{'研' * 9000}'")
        page.locator("#explore-run").click()
        expect(page.locator("#unfit")).to_contain_text("服务器未接受")
        page.locator(".gl-side a", has_text="概览").click()
        expect(page.locator("#unfit")).to_be_hidden()
        assert all("status of 400" in one for one in wrong), wrong


def test_what_a_reader_opened_or_types_outlasts_a_page_that_is_drawn_again(url: str, opened: Any) -> None:
    """As found: an alert that somebody read closed, and their note went, as soon as any alert changed."""
    from playwright.sync_api import expect

    older = {"title": "", "lang": "en", "books": "older", "refreshes": True, "zone": "UTC", "period": "2026-10-02"}
    with tab(opened, color_scheme="light") as (page, wrong):
        page.goto(f"{url}/alerts?{DAY}")
        page.locator(".gl-alerts summary").first.click()
        note = page.locator(".gl-alerts").get_by_label("Note to the owner")
        expect(note).to_be_visible()
        page.evaluate("window.before = document.querySelector('.gl-alerts')")
        page.evaluate("data => dash_clientside.set_props('meta', {data})", older)
        page.evaluate("dash_clientside.set_props('tick', {n_intervals: 99})")
        until(lambda: page.evaluate("document.querySelector('.gl-alerts') !== null && !before.isConnected"))
        expect(note).to_be_visible()
        page.evaluate(RECORDED)
        note.fill("Is it yours?")
        assert page.evaluate("told") == [["tick", {"disabled": True}]]
        page.locator(".gl-alerts details[open]").get_by_role("button", name="Notify the owner").click()
        expect(page.locator(".gl-acts .gl-refused")).to_be_visible()
        assert ["tick", {"disabled": False}] not in page.evaluate("told"), "as found: refused, the note went"
        assert [one for one in wrong if "409" not in one] == []


RECORDED = """() => {
  const tell = dash_clientside.set_props;
  window.told = [];
  dash_clientside.set_props = (...said) => { told.push(said); tell(...said); };
}"""


def test_of_a_change_without_an_answer_nobody_knows_whether_it_was_made(url: str, opened: Any) -> None:
    from playwright.sync_api import expect

    with tab(opened) as (page, wrong):
        page.goto(f"{url}/invoices?lang=zh")
        form = page.locator("form.gl-act", has_text="立即结账")
        for lose in (lambda one: one.abort(), lambda one: one.fulfill(status=502, body="<h1>Bad Gateway</h1>")):
            page.route("**/api/v1/close", lose)
            form.get_by_role("button").click()
            expect(form.locator(".gl-refused")).to_have_text(re.compile("^服务器没有响应，操作可能已经完成"))
            expect(form.get_by_role("button")).to_be_enabled()
            page.unroute("**/api/v1/close")
        assert all("Failed to load resource" in one for one in wrong), wrong


def test_a_server_that_comes_back_draws_no_page_under_somebody_who_types(url: str, opened: Any) -> None:
    from playwright.sync_api import expect

    with tab(opened) as (page, _):
        page.goto(f"{url}/alerts?{DAY}")
        expect(page.locator("h1")).to_have_text("Alerts")
        page.evaluate("document.getElementById('page').appendChild(document.createElement('input')).id = 'typed'")
        drawn: list[str] = []
        page.on("request", lambda one: drawn.append(one.url) if "_dash-update-component" in one.url else None)
        for text, redraws in (("a no", 0), ("", 1)):
            if text:
                page.locator("#typed").press_sequentially(text)
            else:  # as a page that is drawn, or a form that is sent
                page.evaluate("dash_clientside.gl.meta({title: 'Alerts', lang: 'en', zone: 'UTC', period: ''})")
            drawn.clear()
            page.route("**/healthz", lambda route: route.abort())
            expect(page.locator("#lost")).to_be_visible()
            page.unroute("**/healthz")
            expect(page.locator("#lost")).to_be_hidden()
            until(lambda wanted=redraws: len(drawn) >= wanted)
            page.wait_for_timeout(300)
            assert len(drawn) == redraws
