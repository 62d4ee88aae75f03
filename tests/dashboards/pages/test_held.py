"""Held pushes on the Administration page: what waits, what a yes would change, and who may say it."""

from __future__ import annotations

import functools
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from access.current import set_current
from access.principal import Principal
from access.roles import Role, Scope
from billing.held import effect
from dashboards.filters import filters_of
from dashboards.languages import language
from dashboards.pages.admin import held
from dashboards.pages.admin.held import effect_of
from ingest.held import held_pushes, hold
from ingest.permissions import ISSUED_MONTH, Doubt
from ingest.tally import Tally
from tests.dashboards.browser import MARKS, picture, speaks, tab, taken
from tests.dashboards.pages.test_apply_form import page
from tests.draws import seldom
from warehouse.records import RECORD_TYPES
from warehouse.store import Store

FINANCE = Principal("fin", frozenset({Role.finance}))
READER = Principal("reader", frozenset({Role.finance}), frozenset(), frozenset({Scope.read}))
TENANT = Principal("vera", frozenset({Role.tenant}), frozenset({"vision"}))
CHEAPER = {"ts": datetime(2026, 10, 1, 1, tzinfo=UTC), "cluster": "c1", "node": "n1", "device_id": "GPU-a",
           "vendor": "NVIDIA", "model": "CHEAP", "units": 1, "pool": "research", "state": "available"}  # fmt: skip


@pytest.fixture(scope="module")
def waits(house: Store) -> Store:
    """A device row of GPU-a waits: vision's October would have no price any more."""
    doubt = Doubt(ISSUED_MONTH, "reaches into 2026-10, which is issued")
    hold(house, "watch", RECORD_TYPES["devices"], "push:watch", {"0" * 32: (CHEAPER, doubt)})
    tally = Tally(house)
    tally.add(datetime.now(UTC), "watch", "devices", "held", ISSUED_MONTH, 1)
    tally.add(datetime.now(UTC), "", "", "denied", "wrong token")
    tally.write()
    return house


def shown(store: Store, who: Principal, id: str) -> str:
    set_current(who)
    return str(effect_of(store, filters_of(store, f"?part=held&push={id}"), language("en")))


def test_what_waits_is_listed_with_its_reason_and_senders_with_what_they_pushed(waits: Store) -> None:
    text = page(waits, FINANCE, "/administration?part=held")
    for said in ("c1/GPU-a", "watch", "Could change an issued month", "reaches into 2026-10", "wrong token", "denied"):
        assert said in text, said
    assert "admin-held-effect" not in text, "nothing is computed until one is chosen"
    assert "admin-held-effect" in page(waits, FINANCE, f"/administration?part=held&push={held_pushes(waits)[0].id}")
    assert "does not exist" in page(waits, FINANCE, "/administration?part=held&push=nonsense")


def test_only_those_who_may_are_asked_for_a_decision(waits: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    found = effect(waits, held_pushes(waits)[0])
    monkeypatch.setattr(held, "effect", lambda *_: found)  # the same for all, and dear
    id = held_pushes(waits)[0].id
    assert f"POST /held/{id}/accept" in shown(waits, FINANCE, id)
    seen = shown(waits, READER, id)
    assert "admin-held-changes" in seen
    assert "'month': 'October 2026'" in seen, "as found: 2026-10, as no other page says it"
    assert "POST /held" not in seen
    assert "c1/GPU-a" not in page(waits, TENANT, f"/administration?part=held&push={id}")


def test_an_effect_that_takes_too_long_is_not_called_none(waits: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(held, "effect", functools.partial(effect, most_seconds=0))
    seen = shown(waits, FINANCE, held_pushes(waits)[0].id)
    assert "is unknown: computing it takes too long" in seen
    assert "would not change the books" not in seen


class TestInABrowser:
    pytestmark = MARKS

    @seldom(6, "what waits is chosen seen in money")
    def test_what_waits_is_chosen_seen_in_money_and_refused(
        self, url: str, opened: Any, waits: Store, tmp_path: Path
    ) -> None:
        from playwright.sync_api import expect

        with tab(opened, color_scheme="dark") as (page, wrong):
            page.goto(f"{url}/administration?part=held&lang=zh")
            page.locator("#admin-held .ag-row[row-id]").first.wait_for()
            speaks(page, "zh")
            picture(page, "admin-held-dark-zh")
            page.goto(f"{url}/administration?part=held&lang=en")
            assert [row["Record type"] for row in taken(page, "gpuledger-held.csv", tmp_path)] == ["devices"]
            cell = page.locator("#admin-held .gl-cell-name").first
            cell.click()
            page.keyboard.press("Enter")
            page.locator("#admin-held-changes .ag-row[row-id]").first.wait_for()
            expect(page.locator("#admin-held-changes")).to_contain_text("vision")
            picture(page, "admin-held-effect-dark-en")
            asked: list[str] = []

            def agree(dialog: Any) -> None:
                asked.append(dialog.message)
                dialog.accept()

            page.on("dialog", agree)
            refuse = page.locator("form", has=page.get_by_role("button", name="Refuse"))
            refuse.get_by_label("Reason (recorded in the audit log)").fill("nonsense")
            refuse.get_by_role("button", name="Refuse").click()
            expect(page.locator("main")).to_contain_text("nonsense")
            assert asked == ["Permanently discard the rows pushed for c1/GPU-a (1 in total)?"]
            assert wrong == []
        assert held_pushes(waits) == []
        (one,) = held_pushes(waits, "refused")
        assert one.why == "nonsense"
