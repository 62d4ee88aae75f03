"""What people change on pages: files that are applied, invoices made void and issued again, queries that are kept."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from access.current import set_current
from access.opening import open_access
from access.principal import ANYBODY, Principal
from access.roles import Role
from access.scope import Stores
from access.store import AccessStore
from api.sql.saved import save_query
from dashboards.filters import filters_of
from dashboards.frame import show
from dashboards.languages import language
from dashboards.pages.admin.apply_form import comparison
from tests.dashboards.browser import MARKS, picture, tab
from tests.dashboards.site import CARD, NOW
from tests.draws import seldom
from warehouse.store import Store

ANALYST, FINANCE = (Principal(role.value, frozenset({role})) for role in (Role.analyst, Role.finance))
VISION = Principal("vera", frozenset({Role.tenant}), frozenset({"vision"}))
B200 = CARD + '  - {sku: b200, match: {model: B200}, price_per_gpu_hour: "9.00"}\n'


def page(store: Store, who: Principal, path: str, access: AccessStore | None = None) -> str:
    set_current(who, access)
    address, _, search = path.partition("?")
    with Stores(store).scoped_to(who) as own:
        return str(show(own, who, address, search).page)


def compared(store: Store, who: Principal, part: str, text: str | None) -> str:
    set_current(who)
    return str(comparison(store, filters_of(store, f"?part={part}"), language("en"), text))


def test_a_file_is_compared_in_words_and_lines_or_refused_in_one_line(house: Store) -> None:
    reported = compared(house, FINANCE, "rates", B200)
    assert "added b200 (model B200): 9.00" in reported
    assert "+  sku: b200" in reported
    assert "POST /rates/cards" in reported
    assert "is already in force" in compared(house, FINANCE, "rates", CARD)
    for text, why in ((None, "not keys and values"), ("a: [", "not YAML"), ("rates: 3", "currency: missing"),
                      (CARD.replace('"1.50"', '"1.40"'), "GL-2026-00001 was computed from it")):  # fmt: skip
        refused = compared(house, FINANCE, "rates", text)
        assert "This version cannot be applied" in refused
        assert why in refused
        assert "POST /rates/cards" not in refused
    for who in (ANALYST, VISION):
        assert "it requires the role admin, finance" in compared(house, who, "rates", B200)


@pytest.mark.parametrize("part", ["rates", "tenants", "budgets", "objectives", "energy"])
def test_every_file_has_a_form_for_its_next_version(house: Store, part: str) -> None:
    text = page(house, FINANCE, f"/administration?part={part}")
    assert "applied-yaml" in text
    assert "History" in text or "No carbon intensity" in text or "No objectives" in text


def test_invoices_are_made_void_and_issued_by_those_who_may(house: Store) -> None:
    path = "/invoices?number=GL-2026-00001&line=1"
    assert "POST /invoices/GL-2026-00001/void" in page(house, FINANCE, path)
    assert "Credit line 1" in page(house, FINANCE, path)
    assert "Credit line" not in page(house, FINANCE, "/invoices?number=GL-2026-00001")
    for who in (ANALYST, VISION):
        assert "/void" not in page(house, who, "/invoices?number=GL-2026-00002&line=1")


def test_explore_lists_one_s_own_queries_and_what_others_share(house: Store) -> None:
    with open_access(house) as access:
        for name, shared in (("theirs", False), ("ours", True)):
            save_query(access, FINANCE, NOW, name, f"SELECT '{name}'", "an answer", shared)
        save_query(access, ANALYST, NOW, "mine", "SELECT 'mine'")
        text = page(house, ANALYST, "/explore?saved=ours", access)
        assert "theirs" not in text
        assert "SELECT 'ours'" in text
        assert "DELETE /queries" not in text
        assert "This query belongs to finance" in text
        own = page(house, ANALYST, "/explore?saved=mine", access)
        assert "DELETE /queries/mine?owner=analyst" in own
        assert "H2('mine')" in own, "its answer is called what it is"
        assert "There is no saved query named theirs" in page(house, ANALYST, "/explore?saved=theirs", access)
        assert "theirs" not in page(house, ANYBODY, "/explore", access)  # an admin's page is no list of everybody's


class TestInABrowser:
    pytestmark = MARKS

    @seldom(6, "a rate card is opened compared and")
    def test_a_rate_card_is_opened_compared_and_applied_with_a_reason(
        self, url: str, opened: Any, house: Store, tmp_path: Path
    ) -> None:
        from playwright.sync_api import expect

        card = tmp_path / "rates.yaml"
        card.write_text(B200 + "# Größe\n", encoding="utf-8")
        with tab(opened, color_scheme="light") as (page, wrong):
            page.goto(f"{url}/administration?part=rates&lang=en")
            editor = page.get_by_label("YAML file").locator("visible=true").last
            editor.fill("currency: EUR\nrates: 3\n")
            page.get_by_role("button", name="Compare").click()
            expect(page.locator("#applied-compared .gl-refused")).to_contain_text("expected a list")
            page.locator("#applied-file input").set_input_files(card)
            expect(editor).to_have_value(B200 + "# Größe\n")
            expect(page.locator("#applied-compared")).to_be_empty()
            page.get_by_role("button", name="Compare").click()
            expect(page.locator(".gl-added")).to_have_count(4)
            picture(page, "admin-compared-light-en")
            page.on("dialog", lambda dialog: dialog.accept())
            page.get_by_label("Reason").fill("B200 come in")
            page.get_by_role("button", name="Apply").click()
            expect(page.locator("#admin-rates")).to_contain_text("b200")
            assert wrong == []
        (done,) = house.rows("SELECT actor, reason FROM audit FINAL WHERE reason = 'B200 come in'")
        assert done["actor"] == ANYBODY.name

    @seldom(6, "an invoice is made void and issued")
    def test_an_invoice_is_made_void_and_issued_again(self, url: str, opened: Any, house: Store) -> None:
        from playwright.sync_api import expect

        with tab(opened, color_scheme="dark") as (page, wrong):
            page.goto(f"{url}/invoices?number=GL-2026-00001&lang=en")
            form = page.locator("section", has_text="the number stays assigned")
            form.get_by_label("Reason").fill("the wrong address")
            page.get_by_role("button", name="Void GL-2026-00001").click()
            page.get_by_role("button", name="Reissue").click()
            expect(page.locator("h1")).to_have_text("GL-2026-00003")
            assert wrong == []
        rows = house.rows("SELECT number, status FROM v_invoices WHERE tenant = 'speech' ORDER BY number")
        assert [tuple(row.values()) for row in rows] == [("GL-2026-00001", "void"), ("GL-2026-00003", "issued")]

    @seldom(6, "a query is saved chosen changed and")
    def test_a_query_is_saved_chosen_changed_and_deleted(self, url: str, opened: Any) -> None:
        from playwright.sync_api import expect

        with tab(opened, color_scheme="light") as (page, wrong):
            page.goto(f"{url}/explore?lang=en")
            editor = page.get_by_label("Statement").locator("visible=true").last
            editor.fill("SELECT 'first' AS said")
            page.get_by_text("Save this statement").click()
            page.get_by_label("Name", exact=True).fill("what & {why}")
            page.get_by_label("Description").fill("a test")
            page.get_by_role("button", name="Save", exact=True).click()
            expect(page.locator("#explore-grid")).to_contain_text("first")
            editor.fill("SELECT 'second' AS said")
            page.get_by_text("Save changes").click()
            page.get_by_label("Visible to").select_option("true")
            page.get_by_role("button", name="Save", exact=True).click()
            expect(page.locator("#explore-grid")).to_contain_text("second")
            expect(page.locator(".gl-kept")).to_contain_text("shared · a test")
            picture(page, "explore-saved-light-en")
            page.goto(f"{url}/explore")
            page.get_by_role("link", name="what & {why}").click()
            expect(page.locator("#explore-grid")).to_contain_text("second")
            page.on("dialog", lambda dialog: dialog.accept())
            page.get_by_role("button", name="Delete").click()
            expect(page.get_by_role("link", name="what & {why}")).to_have_count(0)
            assert wrong == []
