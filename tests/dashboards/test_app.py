"""The web application, asked over ASGI: every state of the page, the figures, and that nothing comes from elsewhere."""

from __future__ import annotations

import asyncio
import json
import re
from typing import Any

import httpx
import pytest

from dashboards.app import DashboardSettings, build_app, fleet, page
from warehouse.errors import StoreError
from warehouse.store import Store


def ask(store: Store, *requests: tuple[str, str, Any], allowed: tuple[str, ...] = ("*",)) -> list[httpx.Response]:
    app = build_app(store, DashboardSettings(version="9", allowed_hosts=allowed))

    async def run() -> list[httpx.Response]:
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://127.0.0.1") as client:
            return [await client.request(method, path, json=body) for method, path, body in requests]

    return asyncio.run(run())


def test_healthz_says_the_version(store: Store) -> None:
    (answer,) = ask(store, ("GET", "/healthz", None))
    assert answer.json() == {"status": "ok", "version": "9"}


def test_nothing_that_is_served_names_another_host(filled: Store) -> None:
    index, layout, css = ask(
        filled, ("GET", "/", None), ("GET", "/_dash-layout", None), ("GET", "/assets/gpuledger.css", None)
    )
    assert index.status_code == layout.status_code == css.status_code == 200
    for answer in (index, layout):
        assert not re.findall(r"(?:https?:)?//(?!www\.w3\.org)[a-z0-9]", answer.text.replace("<!--", ""))
    assert not re.findall(r"url\((?!['\"]?data:)['\"]?(?:https?:)?//", css.text)
    assert "fonts.g" not in css.text


def test_a_callback_answers_the_page_over_http(filled: Store) -> None:
    body = {
        "output": "..page.children...period.children..",
        "outputs": [{"id": "page", "property": "children"}, {"id": "period", "property": "children"}],
        "inputs": [
            {"id": "url", "property": "pathname", "value": "/"},
            {"id": "url", "property": "search", "value": "?period=2026-10"},
        ],
        "changedPropIds": ["url.search"],
    }
    _, answer = ask(filled, ("GET", "/", None), ("POST", "/_dash-update-component", body))
    assert answer.status_code == 200
    text = json.dumps(answer.json(), ensure_ascii=False)
    assert "October 2026" in text
    assert "€192" in text


def test_an_unknown_host_name_is_refused(store: Store) -> None:
    (answer,) = ask(store, ("GET", "/healthz", None), allowed=("ledger.example",))
    assert answer.status_code == 400


@pytest.mark.parametrize(("grain", "buckets"), [("day", 2), ("hour", 48)])
def test_the_figure_stacks_to_the_capacity(filled: Store, grain: str, buckets: int) -> None:
    figure = fleet(filled, grain, "")
    *kinds, capacity = figure.data
    assert len(capacity.x) == buckets
    assert (
        [sum(parts) for parts in zip(*(trace.y for trace in kinds), strict=True)] == list(capacity.y) == [4] * buckets
    )


def test_an_empty_store_says_what_to_do_next(store: Store) -> None:
    body, picker = page(store, "/", "")
    assert "gpuledger ingest devices" in str(body)
    assert picker is None


def test_a_store_that_was_never_closed_says_so(store: Store) -> None:
    store.command(
        "INSERT INTO devices (ts, device_id, model, units, state) VALUES (now64(3), 'a', 'H100', 1, 'available')"
    )
    assert "the books are not" in str(page(store, "/", "")[0])


def test_a_month_that_is_not_closed_is_not_shown_as_zero(filled: Store) -> None:
    body, _ = page(filled, "/", "?period=2025-01")
    assert "Nothing is closed in that period" in str(body)


def test_a_period_that_is_partly_closed_says_how_much(filled: Store) -> None:
    text = str(page(filled, "/", "")[0])
    assert "48 of 744 hours closed" in text
    assert "Coverage 75.0 %" in text


def test_what_is_not_counted_is_shown(filled: Store) -> None:
    filled.command(
        "INSERT INTO refused_claims (reason, start_at, end_at) "
        "VALUES ('units_already_claimed', '2026-10-01', '2026-10-02')"
    )
    text = str(page(filled, "/", "")[0])
    assert "1 record not counted" in text
    assert "units already claimed: 1" in text


def test_an_error_of_the_store_is_a_page_with_its_line(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise StoreError("chdb:///x", "cannot be reached", "Is the server running?")

    monkeypatch.setattr("dashboards.data.overview", fail)
    assert "cannot be reached" in str(page(store, "/", "")[0])


def test_an_unknown_path_is_no_page(store: Store) -> None:
    assert "No such page" in str(page(store, "/nowhere", "")[0])
