"""The web application, asked over ASGI: every state of the page, the figures, and that nothing comes from elsewhere."""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
import sys
from typing import Any

import httpx
import pytest

from access.principal import ANYBODY, Principal
from access.roles import Action, Role
from dashboards.app import DashboardSettings, build_app
from dashboards.frame import show
from dashboards.registry import all_pages
from tests.draws import seldom
from warehouse.errors import StoreError
from warehouse.store import Store


def ask(store: Store, *requests: tuple[str, str, Any], allowed: tuple[str, ...] = ("*",)) -> list[httpx.Response]:
    app = build_app(store, DashboardSettings(version="9", allowed_hosts=allowed))

    async def run() -> list[httpx.Response]:
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://127.0.0.1") as client:
            return [await client.request(method, path, json=body) for method, path, body in requests]

    return asyncio.run(run())


def said(store: Store, path: str = "/", search: str = "", who: Principal = ANYBODY) -> str:
    return str(show(store, who, path, search).page)


def test_a_store_with_one_server_has_its_leader(store: Store) -> None:
    ready, metrics = ask(store, ("GET", "/readyz", None), ("GET", "/metrics", None))
    assert (ready.status_code, ready.json()) == (200, {"status": "ok", "leader": True})
    assert "\ngpuledger_leader 1\n" in metrics.text


def test_healthz_says_the_version(store: Store) -> None:
    (answer,) = ask(store, ("GET", "/healthz", None))
    assert answer.json() == {"status": "ok", "version": "9"}


def test_a_head_is_answered_as_a_get_without_its_body(store: Store) -> None:
    for path in ("/healthz", "/", "/alerts", "/assets/frame.js", "/metrics", "/api/v1/health", "/nothing-here.js"):
        head, whole = ask(store, ("HEAD", path, None), ("GET", path, None))
        assert (head.status_code, head.content) == (whole.status_code, b""), path
        assert head.headers["content-type"] == whole.headers["content-type"], path


def test_nothing_that_is_served_names_another_host(filled: Store) -> None:
    index, layout, css, script = ask(
        filled,
        ("GET", "/", None),
        ("GET", "/_dash-layout", None),
        ("GET", "/assets/gpuledger.css", None),
        ("GET", "/assets/frame.js", None),
    )
    assert index.status_code == layout.status_code == css.status_code == script.status_code == 200
    for answer in (index, layout, script):
        assert not re.findall(r"(?:https?:)?//(?!www\.w3\.org)[a-z0-9]", answer.text.replace("<!--", ""))
    assert not re.findall(r"url\((?!['\"]?data:)['\"]?(?:https?:)?//", css.text)
    assert "fonts.g" not in css.text


def asked_for_the_overview() -> tuple[str, str, dict[str, Any]]:
    outputs = [("page", "children"), ("nav", "children"), ("bar", "children"), ("skip", "children"),
               ("tour", "children"), ("foot", "children"), ("meta", "data")]  # fmt: skip
    body = {
        "output": f"..{'...'.join('.'.join(one) for one in outputs)}..",
        "outputs": [{"id": name, "property": prop} for name, prop in outputs],
        "inputs": [
            {"id": "url", "property": "pathname", "value": "/"},
            {"id": "url", "property": "search", "value": "?period=2026-10"},
        ],
        "changedPropIds": ["url.search"],
    }
    return "POST", "/_dash-update-component", body


def test_a_callback_answers_the_page_over_http(filled: Store) -> None:
    _, answer = ask(filled, ("GET", "/", None), asked_for_the_overview())
    assert answer.status_code == 200
    text = json.dumps(answer.json(), ensure_ascii=False)
    assert "October 2026" in text
    assert "€192" in text


def test_what_keeps_an_answer_from_being_sent_is_in_the_log(
    filled: Store, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fails(_: object) -> str:
        raise AttributeError("partially initialized module")

    monkeypatch.setattr("dash._callback.to_json", fails)
    (answer,) = ask(filled, asked_for_the_overview())
    assert answer.status_code == 500
    assert "/_dash-update-component failed" in caplog.text
    assert "partially initialized module" in caplog.text


@seldom(6, "pages find pandas loaded whoever needs it")
def test_pages_find_pandas_loaded_whoever_needs_it_first() -> None:
    """Half loaded by another thread, it makes the charts fail that are drawn meanwhile."""
    code = "import dashboards.app, sys; sys.exit('pandas' not in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_pages_do_without_the_grammar_of_sql_until_somebody_asks() -> None:
    """It takes 30 MiB."""
    code = "import dashboards.app, sys; sys.exit('sqlglot' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_an_unknown_host_name_is_refused(store: Store) -> None:
    (answer,) = ask(store, ("GET", "/healthz", None), allowed=("ledger.example",))
    assert answer.status_code == 400


def test_an_empty_store_says_what_to_do_next(store: Store) -> None:
    for page in all_pages():
        if page.needs_books:
            assert "gpuledger ingest devices" in said(store, page.path)


def test_a_store_that_was_never_closed_says_so(store: Store) -> None:
    store.command(
        "INSERT INTO devices (ts, device_id, model, units, state) VALUES (now64(3), 'a', 'H100', 1, 'available')"
    )
    assert "the books are not" in said(store)


def test_a_month_that_is_not_closed_is_not_shown_as_zero(filled: Store) -> None:
    assert "No closed hours in this period" in said(filled, search="?period=2025-01")


def test_a_period_that_is_partly_closed_says_how_much(filled: Store) -> None:
    text = said(filled)
    assert "48 of 744 hours closed" in text
    assert "coverage 75.0%" in text


def test_what_is_not_counted_is_shown(filled: Store) -> None:
    filled.command(
        "INSERT INTO refused_claims (reason, tenant, start_at, end_at) "
        "VALUES ('units_already_claimed', 'vision', '2026-10-01', '2026-10-02')"
    )
    text = said(filled)
    assert "1 record excluded" in text
    assert "units already claimed: 1" in text
    assert "1 record excluded" in said(filled, search="?tenant=vision")
    assert "record excluded" not in said(filled, search="?tenant=speech"), "it is another tenant's"


def test_an_error_of_the_store_is_a_page_with_its_line(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise StoreError("chdb:///x", "cannot be reached", "Is the server running?")

    monkeypatch.setattr("dashboards.frame.filters_of", fail)
    text = said(store)
    assert "cannot be reached" in text
    assert "The store did not respond" in text


@pytest.mark.parametrize(
    ("path", "search", "why"),
    [
        ("/changes", "?tenant=vision&against=2026-13", "'2026-13': not a month"),
        ("/", f"?tenant={'x' * 5000}", "more than 4,096 characters are chosen"),
    ],
)
def test_an_address_without_an_answer_is_no_fault_of_the_store(filled: Store, path: str, search: str, why: str) -> None:
    text = said(filled, path, search)
    assert "This address asks for something that has no answer" in text
    assert why in text
    assert "The store did not respond" not in text
    assert "against=" not in text
    assert ("tenant=vision" in text) == ("vision" in search), "what is not wrong stays"


def test_an_unknown_path_is_no_page(store: Store) -> None:
    assert "Page not found" in said(store, "/nowhere")


def test_links_of_the_frame_keep_the_state_of_the_page(filled: Store) -> None:
    shown = show(filled, ANYBODY, "/", "?period=2026-10-01&tenant=vision&lang=zh&own=1")
    for page in all_pages():
        assert f"'{page.path}?period=2026-10-01&lang=zh&tenant=vision'" in str(shown.navigation)
    assert shown.meta["lang"] == "zh"
    assert "2026年10月1日" in str(shown.page)


def test_an_open_page_hears_of_news_alone(filled: Store) -> None:
    first, again = (show(filled, ANYBODY, "/", "").meta["books"] for _ in range(2))
    assert first == again
    filled.command("INSERT INTO closed_hours (hour, run, checked_by, inputs) VALUES ('2026-10-03 00:00:00', 2, 2, 1)")
    assert show(filled, ANYBODY, "/", "").meta["books"] != first


def test_pages_that_a_role_may_not_see_are_not_shown(filled: Store) -> None:
    tenant = Principal("t", frozenset({Role.tenant}), frozenset({"vision"}))
    for page in all_pages():
        if page.action != Action.see:
            shown = show(filled, tenant, page.path, "")
            assert "You don't have access to this page" in str(shown.page)
            assert f"'{page.path}" not in str(shown.navigation)
