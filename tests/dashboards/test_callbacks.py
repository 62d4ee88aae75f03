"""Forged callbacks: whatever is sent, the answer is a page's or a clean refusal, and no larger than a page."""

from __future__ import annotations

import copy
import json
import logging
import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import pytest
from dash import Dash, get_app
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dashboards import callbacks
from dashboards.callbacks import BODY_BYTES, CallbackError, checked
from dashboards.registry import all_pages
from tests.dashboards.site import Site
from tests.draws import drawn, keep_seed

ANSWER_BYTES = 3_000_000
"""Of the largest page here, and far less than what was once answered to 200 kB."""


def ours(app: Dash) -> dict[str, dict[str, Any]]:
    return {name: one for name, one in app.callback_map.items() if "callback" in one}


@pytest.fixture(scope="module")
def app(served_site: Site) -> Dash:
    return get_app()


def honest(name: str, callback: dict[str, Any], path: str = "/", search: str = "?period=2026-10") -> dict[str, Any]:
    """As a browser asks it."""
    values = {"pathname": path, "search": search, "n_clicks": 1, "n_intervals": 1}

    def element(one: dict[str, Any]) -> Any:
        text = one["id"]
        identity = json.loads(text) if text.startswith("{") else text
        listed = isinstance(identity, dict) and ["ALL"] in identity.values()
        if isinstance(identity, dict):
            identity = {key: "x" if isinstance(value, list) else value for key, value in identity.items()}
        found = {"id": identity, "property": one["property"], "value": values.get(one["property"])}
        return [found] if listed else found

    inputs, state = ([element(one) for one in callback[kind]] for kind in ("inputs", "state"))
    return {"output": name, "outputs": [], "inputs": inputs, "state": state, "changedPropIds": []}


@contextmanager
def no_errors_logged(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    caplog.clear()
    with caplog.at_level(logging.ERROR):
        yield
    assert not [record for record in caplog.records if record.exc_info], caplog.text[:2000]


def ask(client: httpx.Client, body: Any) -> httpx.Response:
    return client.post(callbacks.PATH, content=json.dumps(body), headers={"content-type": "application/json"})


def test_every_property_that_a_callback_gets_has_a_type_and_a_size(app: Dash) -> None:
    for callback in ours(app).values():
        for one in [*callback["inputs"], *callback["state"]]:
            assert one["property"] in callbacks._VALUES


def test_an_honest_callback_is_handed_on_as_it_came(app: Dash) -> None:
    for name, callback in ours(app).items():
        asked = honest(name, callback)
        first = (asked["inputs"] + asked["state"])[0]
        first = first[0] if isinstance(first, list) else first
        asked["changedPropIds"] = [callbacks._prop_id(first), "nobody.value"]
        found = checked(asked, app.callback_map)
        assert (found["inputs"], found["state"]) == (asked["inputs"], asked["state"])
        assert found["changedPropIds"] == [callbacks._prop_id(first)]


@pytest.mark.parametrize("body", [b"", b"null", b"[]", b"{}", b"{", b"[" * 100_000, b'{"output": {"a": []}}', b"\xff"])
def test_what_is_no_callback_is_refused(served_site: Site, body: bytes) -> None:
    with served_site.client("analyst") as client:
        answer = client.post(callbacks.PATH, content=body)
    assert answer.status_code == 400
    assert answer.headers["content-type"] == "application/problem+json"


def test_a_large_callback_is_refused(served_site: Site, app: Dash) -> None:
    name = next(iter(ours(app)))
    asked = honest(name, ours(app)[name])
    with served_site.client("analyst") as client:
        assert ask(client, {**asked, "more": "x" * BODY_BYTES}).status_code == 400
        assert ask(client, {**asked, "more": "applied-yaml" + "x" * 6_000_000}).status_code in (400, 413)


def test_outputs_of_the_request_are_not_believed(served_site: Site, app: Dash) -> None:
    """A page once for each time that its output was named."""
    name = next(name for name in ours(app) if name.startswith("..page.children...nav"))
    asked = honest(name, ours(app)[name])
    with served_site.client("analyst") as client:
        plain = ask(client, asked)
        forged = ask(client, {**asked, "outputs": [{"id": f"x{n}", "property": "children"} for n in range(3000)]})
    assert plain.json()["response"].keys() == forged.json()["response"].keys() == {
        "page", "nav", "bar", "skip", "tour", "foot", "meta"
    }  # fmt: skip


def test_a_url_that_every_link_would_repeat_makes_no_large_answer(served_site: Site, app: Dash) -> None:
    name = next(name for name in ours(app) if name.startswith("..page.children...nav"))
    with served_site.client("analyst") as client:
        for path in (page.path for page in all_pages()):
            for search in (
                "?tenant=" + "x" * 30_000,
                "?" + "tenant=x&" * 3000,
                "?tenant=" + "&tenant=".join("abc" * 999),
            ):
                answer = ask(client, honest(name, ours(app)[name], path, search))
                assert answer.status_code == 200
                assert len(answer.content) < ANSWER_BYTES
        assert ask(client, honest(name, ours(app)[name], "/", "?tenant=" + "x" * 33_000)).status_code == 400


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)


@settings(
    max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
@given(data=st.data())
def test_forged_parts_are_refused_or_are_what_the_callback_takes(app: Dash, data: st.DataObject) -> None:
    """Any part of an honest request replaced by anything: a refusal, or the callback's own outputs and elements."""
    name = data.draw(st.sampled_from(sorted(ours(app))))
    callback = ours(app)[name]
    asked = copy.deepcopy(honest(name, callback))
    forged = data.draw(JSON_VALUES)
    places: list[tuple[Any, Any]] = [(asked, key) for key in asked]
    for kind in ("inputs", "state"):
        for at, one in enumerate(asked[kind]):
            places.append((asked[kind], at))
            for part in one if isinstance(one, list) else [one]:
                places += [(part, key) for key in part]
                if isinstance(part["id"], dict):
                    places += [(part["id"], key) for key in part["id"]]
    where, key = data.draw(st.sampled_from(places))
    where[key] = forged
    try:
        found = checked(asked, app.callback_map)
    except CallbackError:
        return
    expected = checked(honest(found["output"], app.callback_map[found["output"]]), app.callback_map)
    assert len(found["inputs"]) == len(expected["inputs"])
    assert len(found["state"]) == len(expected["state"])
    for kind in ("inputs", "state"):
        for one, other in zip(found[kind], expected[kind], strict=True):
            elements = one if isinstance(one, list) else [one]
            assert isinstance(one, list) == isinstance(other, list)
            assert all(element.keys() == {"id", "property", "value"} for element in elements)
    written = found["outputs"] if isinstance(found["outputs"], list) else [found["outputs"]]
    registered = callback["output"] if isinstance(callback["output"], list | tuple) else [callback["output"]]
    assert [one["property"] for one in written] == [one.component_property for one in registered]


ODD = (
    "", "x", "-1", "0", "1e999", "99999999999999999999", "0001-01-01..9999-12-31", "2026-13", "..", "%00", "\u202e",
    "[" * 50, "'; --", "\x00", "a" * 3000, "../../etc/passwd", "NaN", "1970-01-01..2970-01-01", "{}", "*",
)  # fmt: skip
NAMES = (
    "period", "lang", "tenant", "project", "queue", "pool", "model", "cluster", "find", "workload", "grain", "page",
    "invoice", "number", "rule", "objective", "sql", "saved", "run", "device", "node", "month", "by", "kind", "tab",
    "file", "alert",
)  # fmt: skip


def test_every_callback_answers_forged_urls_and_values_without_an_error_of_our_own(
    served_site: Site, app: Dash, caplog: pytest.LogCaptureFixture
) -> None:
    """Also through the deeper code, over HTTP."""
    dice = random.Random(keep_seed())
    paths = [page.path for page in all_pages()]
    with served_site.client("admin") as client, no_errors_logged(caplog):
        for name, callback in ours(app).items():
            rounds = 60 if name.startswith("..page.children...nav") else 6
            for turn in drawn(range(rounds), 1 / 3):
                chosen = dice.sample(NAMES, 4)
                search = "?" + "&".join(f"{one}={dice.choice(ODD)}" for one in chosen)
                asked = honest(name, callback, dice.choice([*paths, "/nowhere", "//x", ""]), search)
                parts = [one for kind in ("inputs", "state") for one in asked[kind]]
                for part in parts:
                    if isinstance(part, dict) and part["property"] == "value":
                        part["value"] = dice.choice(ODD)
                if turn % 2:
                    asked["changedPropIds"] = [callbacks._prop_id(one) for one in parts if isinstance(one, dict)]
                answer = ask(client, asked)
                assert answer.status_code in (200, 204, 400), (asked, answer.text[:300])
                assert len(answer.content) < ANSWER_BYTES
                assert "state.failed" not in answer.text
