"""Figures that take all tenants are asked of the whole store, and kept to the caller by two fences: with either of them
gone, a tenant still sees its own alone."""

from __future__ import annotations

import json

import pytest

from access import scope
from access.principal import Principal
from gpuledger.documents import PREFIX
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
