"""Figures that take all tenants are asked of the whole store, and kept to the caller by two fences: with either of them
gone, a tenant still sees its own alone."""

from __future__ import annotations

import json

import pytest

from access import scope
from access.principal import Principal
from access.roles import Action
from dashboards.pages.admin import PARTS
from gpuledger.documents import PREFIX
from tests.access.test_matrix import OTHERS, body_of
from tests.api.test_api import READS, requests
from tests.dashboards.site import Site

ROUTES = (
    "/alerts",
    "/alerts?state=firing&state=resolved&state=pending",
    "/drafts?month=2026-10",
    "/budgets?month=2026-10",
)


def asked(site: Site, who: str, path: str) -> str:
    with site.client(who) as client:
        answer = client.get(PREFIX + path)
    assert answer.status_code == 200, answer.text
    return json.dumps(answer.json(), ensure_ascii=False)


@pytest.mark.parametrize("path", ROUTES)
def test_what_the_routes_let_through_the_connection_or_the_question_keeps(
    served_site: Site, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    assert "speech" in asked(served_site, "analyst", path), "it has something to keep back"
    monkeypatch.setattr(Principal, "sees", lambda *_: True)
    assert "speech" not in asked(served_site, "vision", path)


@pytest.mark.parametrize("path", ["/alerts", "/rates", "/budgets?month=2026-10", "/drafts?month=2026-10"])
def test_what_the_connection_lets_through_the_routes_keep(
    served_site: Site, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(scope.Stores, "scoped_to", lambda self, _: self.unscoped())
        own = asked(served_site, "vision", path)
    assert "speech" not in own and "vision" in own + "vision" * (path == "/rates")


OF_ALL = ("/invoices/{number}/proof", "/proof", "/users")
"""What takes all tenants' facts to answer one yes or no; and who there is, which no connection to the books holds."""
FILES = {
    "/rates/cards": 'currency: EUR\nrates: [{sku: x, price_per_gpu_hour: "1.00"}]',
    "/tenants/mapping": 'rules: [{match: {tenant: vision}, cost_center: "1"}]',
    "/budgets": 'currency: EUR\nbudgets: [{tenant: vision, amount: "1.00"}]',
    "/objectives": "objectives: [{name: x, kind: job_success, target: '0.9'}]",
}
"""Of each applied file another: what it would change names what is in force."""


def test_who_gets_past_the_fence_of_the_role_finds_nothing_of_another(
    served_site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every route and part of the administration that a tenant is refused, if it were not: the connection keeps the
    others' rows, and who reads a file that is one cell keeps its parts."""
    monkeypatch.setattr(Principal, "require", lambda *_: None)
    monkeypatch.setattr(Principal, "may", lambda *_: True)
    found: dict[str, str] = {}
    with served_site.client("vision") as client:
        for path, action in READS:
            if action is not Action.see and path not in OF_ALL:
                found |= {one: client.get(PREFIX + one).text for one in requests(path)}
        for name, file in FILES.items():
            found[name] = client.post(f"{PREFIX}{name}/check", json={"yaml": file}).text
        known = client.get("/_dash-dependencies").json()
        (drawn,) = (one for one in known if "nav.children" in one["output"])
        for part in PARTS:
            asked = body_of(drawn, "/administration")
            for one in asked["inputs"]:
                one["value"] = f"?part={part}" if one["property"] == "search" else one["value"]
            found[part] = client.post("/_dash-update-component", json=asked).text
    assert "speech" in found.pop("users"), "this part has drawn what it is asked for"
    shown = {
        one: text.replace("tenant 'speech': is not one that you have access to", "") for one, text in found.items()
    }
    assert {one: word for one, text in shown.items() for word in OTHERS["vision"] if word in text} == {}
    assert "vision" in found["budgets"] and "vision-chat" in found["objectives"]
