"""Every route of the application for every role and tenant: what is not allowed is refused with a reason, and nothing
of another tenant gets out. (The API's own routes, asked in every way, are in tests/api.)"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from access.gate import PUBLIC
from access.people import change_person
from access.roles import MAY, SCOPE_OF, Action, Role, Scope
from api.opencost import PATHS as OPENCOST_PATHS
from api.opencost import REST as OPENCOST_REST
from api.sql.endpoint import PATHS as SQL_PATHS
from dashboards.app import build_app
from dashboards.registry import all_pages
from gpuledger.documents import PREFIX
from tests.dashboards.site import NOW, ROLES, SPARE, Site, token_of
from tests.draws import seldom

DASH = {
    "/": Action.see,
    "/_dash-layout": Action.see,
    "/_dash-dependencies": Action.see,
    "/_reload-hash": Action.see,
    "/_favicon.ico": Action.see,
    "/_dash-component-suites/{package_name}/{fingerprinted_path:path}": Action.see,
}
FORMERLY = [page.formerly for page in all_pages() if page.formerly]
ACTIONS = {
    **DASH,
    "/metrics": Action.see_fleet,
    **dict.fromkeys((*OPENCOST_PATHS, *OPENCOST_REST, *FORMERLY), Action.see),
}
"""What a GET of each route takes. A route that is not here has not been thought of, and fails a test."""
ASKED = {
    **{path: f"{path}?window=2026-10&aggregate=label:tenant" for path in OPENCOST_PATHS},
    **{
        path: f"{path}?window=2026-10&aggregate=namespace,node,label:device&includeIdle=true"
        for path in OPENCOST_PATHS
        if path.endswith("/compute")
    },
    **{path: f"{path}?window=2026-10&field=label:tenant" for path in OPENCOST_PATHS if path.endswith("/autocomplete")},
    OPENCOST_REST[-1]: "/model/assets",
    "/_dash-component-suites/{package_name}/{fingerprinted_path:path}": "/_dash-component-suites/dash/deps/nothing.js",
}
ELSEWHERE = {"/assets", PREFIX, "/_dash-update-component", "/_dash-ws-callback", "/sign-out"}
"""Static files; the API; callbacks, asked below; a session's own end."""
SQL = [
    *((("POST", path, "SELECT tenant FROM v_charges")) for path in SQL_PATHS),
    ("GET", "/?query=SELECT%20tenant%20FROM%20v_charges", ""),
    ("GET", "/sql?query=SELECT%20tenant%20FROM%20v_charges", ""),
]
OTHERS = {"vision": ("speech", "GPU-b", "K-4711"), "speech": ("vision", "GPU-a")}


def role_of(name: str) -> Role:
    return Role.tenant if name in OTHERS else Role(name)


def test_no_route_is_there_that_nobody_thought_of(served_site: Site) -> None:
    paths = {route.path for route in build_app(served_site.store).routes}
    assert paths - set(PUBLIC) - ELSEWHERE == set(ACTIONS) - ELSEWHERE


@seldom(6, "each route answers those whose role may")
@pytest.mark.parametrize("name", [None, *ROLES])
def test_each_route_answers_those_whose_role_may_and_tells_the_others_why_not(
    served_site: Site, name: str | None
) -> None:
    with served_site.client(name) as client:
        for method, path, body, action in doors():
            answer = client.request(method, path, content=body or None)
            if name is None:
                assert (answer.status_code, "sign in, or send" in answer.text) == (401, True), (method, path)
            elif action in MAY[role_of(name)]:
                assert answer.status_code not in (401, 403), (method, path, answer.text)
            else:
                assert (answer.status_code, "it requires the role" in answer.text) == (403, True), (method, path)


def doors() -> list[tuple[str, str, str, Action]]:
    """Method, path, body and action of every way in that is no route of the API."""
    asked = [("GET", ASKED.get(path, path), "", action) for path, action in ACTIONS.items()]
    asked += [(method, path, body, Action.sql) for method, path, body in SQL]
    asked += [("GET", f"{PREFIX}/openapi.json", "", Action.see), ("GET", "/no/such/page", "", Action.see)]
    return [*asked, ("POST", "/_dash-update-component", "{}", Action.see)]


@seldom(6, "a token gets through a door if")
@pytest.mark.parametrize("scope", Scope)
@pytest.mark.parametrize("name", ROLES)
def test_a_token_gets_through_a_door_if_it_has_its_scope_and_its_role_may(
    served_site: Site, name: str, scope: Scope
) -> None:
    token = token_of(served_site.access, name, [scope])
    with httpx.Client(base_url=served_site.url, headers={"Authorization": f"Bearer {token}"}) as client:
        for method, path, body, action in doors():
            if SCOPE_OF[action] is not scope:
                answer = client.request(method, path, content=body or None)
                assert (answer.status_code, f"no scope {SCOPE_OF[action]}" in answer.text) == (403, True), (
                    method,
                    path,
                )
            elif name in ("analyst", "vision"):
                answer = client.request(method, path, content=body or None)
                assert (answer.status_code == 403) == (action not in MAY[role_of(name)]), (method, path)


@pytest.mark.parametrize("name", ROLES)
def test_a_token_of_somebody_disabled_gets_through_no_door_and_through_the_same_ones_afterwards(
    served_site: Site, name: str
) -> None:
    token = token_of(served_site.access, name)
    token_of(served_site.access, SPARE)
    with httpx.Client(base_url=served_site.url, headers={"Authorization": f"Bearer {token}"}) as client:
        change_person(served_site.access, "test", NOW, name, disabled=True)
        try:
            for method, path, body, _ in [*doors(), ("POST", "/sign-out", "", Action.see)]:
                answer = client.request(method, path, content=body or None)
                assert (answer.status_code, "its owner is disabled" in answer.text) == (401, True), (method, path)
        finally:
            change_person(served_site.access, "test", NOW, name, disabled=False)
        assert client.get(f"{PREFIX}/me").status_code == 200


def test_a_callback_of_a_page_takes_what_the_page_takes(served_site: Site) -> None:
    """One of Explore's, asked for by somebody who may see and not ask SQL; and of the administration's."""
    read = token_of(served_site.access, "admin", ["read"])
    for headers in ({"Authorization": f"Bearer {read}"}, {"Authorization": f"Bearer {served_site.tokens['vision']}"}):
        with httpx.Client(base_url=served_site.url, headers=headers) as client:
            known = {one["output"]: one for one in client.get("/_dash-dependencies").json()}
            body = body_of(known["explore-result.children"], "/explore")
            body["state"][0]["value"] = "?sql=SELECT+K-4711"
            answer = client.post("/_dash-update-component", json=body)
            assert "K-4711" not in answer.text
            reason = "no scope sql" if read in headers["Authorization"] else "requires the role"
            assert reason in answer.text


@pytest.mark.parametrize("tenant", OTHERS)
def test_no_page_callback_or_document_shows_a_tenant_anything_of_another(served_site: Site, tenant: str) -> None:
    with served_site.client(tenant) as client:
        found = {path: client.get(ASKED.get(path, path)).text for path in ACTIONS}
        found |= dict(callbacks(client))
    for asked, text in found.items():
        for word in OTHERS[tenant]:
            assert word not in text, (asked, word, text[:2000])
    own = [path for path in OPENCOST_PATHS if not path.endswith(("/compute", "/getConfigs"))]
    assert all(tenant in found[path] for path in own)
    label_of = [text for asked, text in found.items() if asked.startswith("callback") and tenant in text]
    assert label_of, "no page shows the tenant's own"
    pages = {asked.rpartition(" ")[2] for asked in found if asked.startswith("callback")}
    assert {page.path for page in all_pages() if page.action is Action.see} <= pages
    with served_site.client("analyst") as client:
        everybodys = "".join(text for _, text in callbacks(client))
    assert all(other in everybodys for other in OTHERS)


@pytest.mark.parametrize("tenant", OTHERS)
def test_no_byte_of_an_export_is_of_another_tenant(served_site: Site, tenant: str) -> None:
    """Also where no reader of the rows would see it, as in a dictionary of Parquet."""
    asked = f"{PREFIX}/exports/focus?month=2026-10&format="
    with served_site.client(tenant) as client:
        found = {format: client.get(asked + format, timeout=60) for format in ("csv", "parquet")}
    for format, answer in found.items():
        assert answer.status_code == 200
        assert tenant.encode() in answer.content
        assert [word for word in OTHERS[tenant] if word.encode() in answer.content] == [], format


def callbacks(client: httpx.Client) -> Iterator[tuple[str, str]]:
    """What each callback of the pages answers for each path that a page links to, as a browser would ask it first."""
    known = client.get("/_dash-dependencies").json()
    waiting, seen = ["/"], set()
    while waiting and len(seen) < 40:
        path = waiting.pop(0)
        seen.add(path)
        for one in known:
            answer = client.post("/_dash-update-component", json=body_of(one, path))
            # Dash writes `/` and letters beyond ASCII as escapes, in which no link and no name would be found.
            text = json.dumps(answer.json(), ensure_ascii=False) if answer.content else ""
            yield f"callback {one['output']} {path}", text
            links = re.findall(r'"href": "(/[a-z/-]*)[?"]', text)
            waiting += [link for link in dict.fromkeys(links) if link not in {*seen, *waiting}]


def body_of(callback: dict[str, Any], path: str) -> dict[str, Any]:
    values = {"pathname": path, "search": "?period=2026-10"}
    inputs, states = (
        [{**one, "id": identity(one["id"]), "value": values.get(one["property"])} for one in callback[kind]]
        for kind in ("inputs", "state")
    )
    outputs = [
        {"id": identity(part.rpartition(".")[0]), "property": part.rpartition(".")[2]}
        for part in callback["output"].strip(".").split("...")
    ]
    several = callback["output"].startswith("..")
    return {
        "output": callback["output"],
        "outputs": outputs if several else outputs[0],
        "inputs": inputs,
        "state": states,
        "changedPropIds": [],
    }


def identity(text: str) -> Any:
    return json.loads(text) if text.startswith("{") else text


def test_the_lines_of_a_draft_come_from_the_whole_store_to_whoever_sees_its_tenant(served_site: Site) -> None:
    """As the browser asks, also with forged inputs."""
    registered = served_site.client("vision").get("/_dash-dependencies").json()
    (callback,) = (one for one in registered if one["output"] == "invoices-draft.children")
    for name, draft, is_there in (
        ("analyst", "vision", True), ("analyst", "speech", True),
        ("vision", "vision", True), ("vision", "speech", False), ("speech", "vision", False),
    ):  # fmt: skip
        asked = {
            "output": callback["output"], "outputs": {"id": "invoices-draft", "property": "children"},
            "inputs": [{"id": "invoices-draft-asked", "property": "data", "value": "2026-10"}],
            "state": [{"id": "url", "property": "search", "value": f"?month=2026-10&draft={draft}"}],
            "changedPropIds": ["invoices-draft-asked.data"],
        }  # fmt: skip
        with served_site.client(name) as client:
            answer = client.post("/_dash-update-component", json=asked)
        assert answer.status_code == 200, answer.text
        assert ("draft-lines" in answer.text) == is_there, (name, draft, answer.text[:300])
