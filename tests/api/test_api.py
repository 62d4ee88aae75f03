"""The API over real HTTP: every route for every role, nothing of another tenant, and what it answers."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi.routing import APIRoute

from access.people import change_person
from access.roles import MAY, SCOPE_OF, Action, Role, Scope
from alerts.state import fingerprint
from api.app import ROUTERS as OWN_ROUTERS
from api.caller import RequireAction
from api.routes.views import FLEET_TIME_OF, TIME_OF
from billing import audit
from dashboards.reports import route as report_route
from gpuledger.client import ApiError, Client
from gpuledger.documents import PREFIX, instant
from tests.conftest import REPO
from tests.dashboards.site import NOW, ROLES, SPARE, Site, token_of
from tests.draws import seldom

ROUTERS = (*OWN_ROUTERS, report_route.router)
OTHERS = {"vision": ("speech", "GPU-b", "K-4711"), "speech": ("vision", "GPU-a")}
"""By tenant, words that stand in the other one's rows alone."""
DIMENSIONS = ("tenant", "project", "queue", "workload", "cluster", "node", "device", "model", "pool", "day", "hour")


def routes() -> list[tuple[str, str, Action]]:
    """Method, path and action of every route, as the API itself has them."""
    found = []
    for route in (route for router in ROUTERS for route in router.routes):
        assert isinstance(route, APIRoute)
        (action,) = [one.call.action for one in route.dependant.dependencies if isinstance(one.call, RequireAction)]
        found += [(method, route.path, action) for method in sorted(route.methods)]
    return found


ROUTES = routes()
READS = [(path, action) for method, path, action in ROUTES if method == "GET"]


def requests(path: str, other: str = "speech") -> Iterator[str]:
    """Ways to ask a route: each of its things, cut by everything, and for the other tenant by name."""
    things = {
        "{number}": ["GL-2026-00001", "GL-2026-00002"],
        "{version}": ["current"],
        "{view}": [*TIME_OF, *FLEET_TIME_OF, "access_tokens", "ledger"],
        "{id}": ["nothing"],
        "{name}": ["ada"],
        "{line}": ["1"],
        "{fingerprint}": [fingerprint("idle-holder", [("of", tenant)]) for tenant in OTHERS],
    }
    paths = [path]
    for place, values in things.items():
        paths = [one.replace(place, value) for one in paths for value in values] if place in path else paths
    month = "month=2026-10&" if path in ("/drafts", "/platform", "/exports/focus", "/budgets") else ""
    month = "period=2026-10-02&" if path == "/changes" else month
    for one in paths:
        yield f"{one}?{month}"
        yield f"{one}?{month}tenant={other}"
        if path in ("/ledger", "/efficiency", "/energy"):
            yield f"{one}?by={','.join(DIMENSIONS)}"
        if path == "/exports/focus":
            yield f"{one}?{month}platform=true"
        if path == "/invoices/{number}/file":
            yield from (f"{one}?format={format}" for format in ("csv", "html", "json"))
        if path == "/invoices/{number}/lines/{line}":
            yield f"{one}?by_hour=true"


def roles_of(name: str) -> Role:
    return Role(name) if name not in OTHERS else Role.tenant


@pytest.mark.parametrize("name", ROLES)
def test_a_route_answers_those_whose_role_may_ask_it_and_refuses_the_others(served_site: Site, name: str) -> None:
    with served_site.client(name) as client:
        for method, path, action in ROUTES:
            if path in ("/close", "/proof", "/health") and action in MAY[roles_of(name)]:
                continue
            # Asked for nothing, or for what there is not: that is found out only after who asks.
            asked = re.sub(r"\{line\}", "0", re.sub(r"\{(?!line)\w+\}", "nothing", path)) + "?limit=0&score=0&month="
            answer = client.request(method, PREFIX + asked, json={} if method in ("POST", "PATCH") else None)
            if action in MAY[roles_of(name)]:
                assert answer.status_code not in (401, 403), (method, path, answer.text)
                assert answer.status_code < 500, (method, path, answer.text)
            else:
                assert (answer.status_code, answer.json()["title"]) == (403, "Forbidden"), (method, path, answer.text)
                assert "may not do this; it requires the role" in answer.json()["detail"]


def test_nobody_gets_anything_without_a_token(served_site: Site) -> None:
    with served_site.client() as client:
        for method, path, _ in [*ROUTES, ("GET", "/openapi.json", None)]:
            answer = client.request(method, PREFIX + path)
            assert answer.status_code == 401, (method, path)
            assert answer.headers["content-type"] == "application/problem+json"
            assert answer.headers["www-authenticate"].startswith("Bearer")
        for token in ("nonsense", served_site.tokens["admin"][:-1], "gpl_000000000000_x"):
            answer = client.get(f"{PREFIX}/me", headers={"Authorization": f"Bearer {token}"})
            assert (answer.status_code, "unknown, expired or revoked" in answer.text) == (401, True)


@pytest.mark.parametrize("tenant", OTHERS)
def test_nothing_that_a_tenant_can_read_is_of_another_tenant(served_site: Site, tenant: str) -> None:
    (other,) = {*OTHERS} - {tenant}
    answered = 0
    with served_site.client(tenant) as client, served_site.client("admin") as admin:
        for path, action in READS:
            for asked in requests(path, other):
                answer = client.get(PREFIX + asked)
                text = answer.text.replace(f"tenant '{other}': is not one that you have access to", "")
                for word in OTHERS[tenant]:
                    assert word not in text, (asked, word, text[:2000])
                answered += answer.status_code == 200
                if f"tenant={other}" in asked:
                    assert answer.status_code != 200, asked
                assert action is Action.see or answer.status_code == 403, asked
        # The same words are there for who may see them, or the above would prove nothing.
        seen = "".join(admin.get(PREFIX + path).text for path in ("/views/v_charges", "/tenants/mapping"))
    assert answered > 40
    assert all(word in seen for word in OTHERS[tenant])


def test_a_tenants_sums_are_its_own_and_the_platforms_are_unknown_to_it(served_site: Site) -> None:
    with Client(served_site.url, served_site.tokens["vision"]) as vision:
        mine = vision.ledger("2026-10")
        assert (mine.platform, mine.capacity) == (None, None)
        assert [(row.tenant, row.allocated_gpu_hours) for row in mine.rows] == [("vision", Decimal(48))]
        assert (mine.total.billed_cost, mine.total.used_gpu_hours) == (Decimal(96), Decimal(24))
        assert vision.energy().platform is None
        waste = vision.savings("2026-10").waste
        assert waste and [one.tenant for one in waste.by_tenant] == ["vision"]
        assert (waste.unallocated_gpu_hours, waste.unallocated_cost) == (None, None)
        assert {rate.sku for rate in vision.rates()} == {"h100"}
        assert [one.month for one in vision.months() if one.invoices] == ["2026-10"]
        (draft,) = vision.drafts("2026-10")
        assert (draft.tenant, draft.totals["amount"]) == ("vision", "96.00")


def test_the_client_reads_what_the_server_says(served_site: Site, tmp_path: Path) -> None:
    with Client(served_site.url, served_site.tokens["finance"]) as client:
        ledger = client.ledger("2026-10-01", by=("tenant", "hour"))
        assert len(ledger.rows) == 48
        assert ledger.capacity is not None
        assert ledger.capacity.gpu_hours == Decimal(72)
        assert [one.number for one in client.invoices()] == ["GL-2026-00001", "GL-2026-00002"]
        assert client.invoice("GL-2026-00001").totals["due"] == "62.00"
        assert client.invoice_file("GL-2026-00001", "csv").startswith(b"number,status,tenant")
        assert client.explain("GL-2026-00002", 1).rows[0]["billed_cost"] == "96.000000000"
        assert client.efficiency().total.efficiency == Decimal("0.5")
        savings = client.savings("2026-10")
        assert savings.period.start == ledger.period.start
        assert savings.waste and savings.waste.unallocated_cost is not None
        everybody = client.anomalies()
        assert everybody.judged > 0
        alone = [client.anomalies(tenant=one) for one in ("speech", "vision")]
        assert sum(one.judged for one in alone) < everybody.judged, "the platform's days are among all"
        days = {one.judged + one.not_judged for one in alone}
        assert 2 * max(days) < everybody.judged + everybody.not_judged
        assert [one.pool for one in client.platform("2026-10")] == ["train"]
        assert client.rate_card().card["currency"] == "EUR"
        assert [one.rules for one in client.rate_cards()] == [2]
        assert {one.tenant for one in client.tenants()} == {"speech", "vision"}
        assert client.tenants_mapping().rules[0].cost_center == "K-4711"
        assert {one.tenant: one.actual for one in client.budgets("2026-10")} == {"vision": 96, "speech": 72}
        assert {one.tenant for one in client.credits()} == {"speech", "vision"}
        assert {one.available for one in client.balances()} == {Decimal(0)}
        assert client.health().quarantine[0].reason == "no_time"
        assert client.proof().balanced
        assert "invoice.issue" in {one.action for one in client.audit("invoice")}
        waits = {row["allocation_id"]: row["wait_seconds"] for row in client.view("v_queue_wait")}
        assert waits == {"1": 600, "2": 600, "waiting-vision": None, "waiting-speech": None}
        out = client.export_focus("2026-10", tmp_path / "focus.csv", grain="month", tenant="vision")
        assert out.read_text(encoding="utf-8").count("\n") >= 2
        with pytest.raises(ApiError, match="'2026-13'"):
            client.ledger("2026-13")
        with pytest.raises(ApiError, match="was never issued") as refused:
            client.invoice("nope x")
        assert refused.value.status == 404


def test_pages_of_rows_come_one_after_the_other_and_miss_nothing(served_site: Site) -> None:
    with served_site.client("analyst") as client:
        whole = client.get(f"{PREFIX}/views/v_charges?columns=charge_period_start,tenant").json()
        assert (whole["total"], len(whole["rows"]), whole["next"]) == (96, 96, None)
        rows, following = [], f"{PREFIX}/views/v_charges?columns=charge_period_start,tenant&limit=7"
        while following:
            page = client.get(following).json()
            rows += page["rows"]
            following = page["next"]
        assert rows == whole["rows"]
        cut = client.get(f"{PREFIX}/ledger?by=tenant,hour&limit=10&offset=90").json()
        assert (len(cut["rows"]), cut["rows_in_all"], cut["next"]) == (6, 96, None)


@pytest.mark.parametrize("view", TIME_OF)
def test_a_tenant_sees_all_of_its_own_rows_of_a_view(served_site: Site, view: str) -> None:
    with served_site.client("admin") as admin, served_site.client("vision") as vision:
        theirs = admin.get(f"{PREFIX}/views/{view}?tenant=vision").json()["total"]
        assert vision.get(f"{PREFIX}/views/{view}").json()["total"] == theirs
        assert theirs > 0


@pytest.mark.parametrize("view", ["v_invoices", "v_invoice_lines"])
def test_a_period_cuts_invoices_by_their_month_not_by_when_they_were_issued(served_site: Site, view: str) -> None:
    with served_site.client("finance") as client:
        totals = {
            period: client.get(f"{PREFIX}/views/{view}?period={period}").json()["total"]
            for period in ("2026-10", "2026-10-01", "2026-10-02", "2026-09", "2026-11", "2026-09..2026-12")
        }
    of_october = totals["2026-10"]
    assert of_october > 0
    assert totals == {
        "2026-10": of_october, "2026-10-01": of_october, "2026-10-02": 0, "2026-09": 0, "2026-11": 0,
        "2026-09..2026-12": of_october,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("path", "status", "said"),
    [
        ("/ledger?by=colour", 400, "by: 'colour' is not a dimension"),
        ("/ledger?period=soon", 400, "not a month, a day or a range"),
        ("/ledger?limit=0", 422, "query.limit"),
        ("/drafts", 422, "query.month"),
        ("/views/v_charges?columns=tenant,secret", 404, "has no such column"),
        ("/views/v_devices?period=2026-10", 400, "has no time column for a period"),
        ("/views/access_tokens", 404, "does not exist, or you don't have access to it"),
        ("/invoices/GL-2026-00001/lines/99", 404, "no such line"),
        ("/nowhere", 404, "Not Found"),
        ("/rates/cards/x", 404, "was never applied"),
    ],
)
def test_an_error_is_a_problem_that_says_what_is_wrong(served_site: Site, path: str, status: int, said: str) -> None:
    with served_site.client("analyst") as client:
        answer = client.get(PREFIX + path)
    assert (answer.status_code, answer.headers["content-type"]) == (status, "application/problem+json")
    assert said in answer.json()["detail"]
    assert "--" not in answer.json()["detail"], "a command's option is nothing of the API's"
    assert answer.json()["status"] == status


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b'{"reason": "a", "name": "b", "reason": "c"}', "the key 'reason' appears twice"),
        (b'{"reason": NaN}', "NaN is not a number"),
        (b"[" * 100_000, "nested too deep"),
        (b'{"reason": "a"', "Expecting ',' delimiter"),
    ],
)
def test_a_body_that_is_no_plain_json_is_refused_by_every_route(served_site: Site, body: bytes, said: str) -> None:
    takes = [route for router in ROUTERS for route in router.routes if isinstance(route, APIRoute) and route.body_field]
    assert len(takes) > 15
    with served_site.client("admin") as client:
        for route in takes:
            path = re.sub(r"\{\w+\}", "nothing", route.path)
            headers = {"Content-Type": "application/json"}
            answer = client.request(min(route.methods), f"{PREFIX}{path}", content=body, headers=headers)
            assert answer.status_code == 422, (route.path, answer.text)
            assert said in answer.json()["detail"], route.path


def test_a_parameter_that_a_route_does_not_have_is_refused_by_every_route(served_site: Site) -> None:
    """It would answer another question than was asked."""
    routes = [route for router in ROUTERS for route in router.routes if isinstance(route, APIRoute)]
    with served_site.client("admin") as client:
        for route in routes:
            path = f"{PREFIX}{re.sub(r'{[^}]+}', 'nothing', route.path)}"
            answer = client.request(min(route.methods), path, params={"perod": "2026-10"})
            assert answer.status_code == 422, (route.path, answer.text)
            assert answer.json()["detail"].startswith("query.perod: no parameter here"), route.path
        twice = client.get(f"{PREFIX}/ledger?period=2026-10&period=2026-09")
        assert (twice.status_code, twice.json()["detail"]) == (422, "query.period: given twice")


def test_a_field_that_a_body_does_not_have_is_refused(served_site: Site) -> None:
    with served_site.client("finance") as client:
        described = client.get(f"{PREFIX}/openapi.json").json()
        bodies = [
            operation["requestBody"]["content"]["application/json"]["schema"]["$ref"].rpartition("/")[2]
            for path in described["paths"].values() for operation in path.values() if "requestBody" in operation
        ]  # fmt: skip
        assert len(bodies) > 15
        assert {name for name in bodies if described["components"]["schemas"][name]["additionalProperties"]} == set()
        body = {"tenant": "vision", "month": "2026-10", "amount": "1.00", "reason": "x", "curency": "USD"}
        answer = client.post(f"{PREFIX}/credits", json=body)
        assert (answer.status_code, answer.json()["detail"]) == (422, "body.curency: Extra inputs are not permitted")


def test_finance_issues_credits_and_voids_under_its_own_name(served_site: Site) -> None:
    with Client(served_site.url, served_site.tokens["finance"]) as client:
        assert [one.number for one in client.issue("2026-10")] == ["GL-2026-00001", "GL-2026-00002"]
        note = client.credit("GL-2026-00002", "5.00", "late")
        assert (note.references, note.totals["net"]) == ("GL-2026-00002", "-5.00")
        assert client.void(str(note.number), "mistaken").status == "void"
        entry = next(client.audit("invoice.void"))
        assert (entry.actor, entry.object, entry.reason) == ("finance", note.number, "mistaken")
        with pytest.raises(ApiError, match="can still be credited") as refused:
            client.credit("GL-2026-00002", "5000.00", "too much")
        assert refused.value.status == 409
        assert not client.apply_rate_card(CARD_AGAIN).new
        added = client.add_credit("vision", "2026-11", "2.50", "again")
        assert added.new
        assert not client.add_credit("vision", "2026-11", "2.50", "again").new
        with pytest.raises(ApiError, match="not YAML"):
            client.apply_budgets("{")


CARD_AGAIN = """
currency: EUR
rates:
  - {sku: h100, match: {model: H100}, price_per_gpu_hour: "2.00"}
  - {sku: h100-speech, match: {model: H100, tenant: speech}, price_per_gpu_hour: "1.50"}
"""


def test_a_change_of_a_user_who_is_not_there_is_not_found(served_site: Site) -> None:
    admin = Client(served_site.url, served_site.tokens["admin"])
    with admin as client, pytest.raises(ApiError, match="is not known") as refused:
        client.change_user("nobody", disabled=True)
    assert refused.value.status == 404


def test_an_operator_closes_the_books_and_a_second_close_changes_nothing(served_site: Site) -> None:
    with Client(served_site.url, served_site.tokens["operator"]) as client:
        done = client.close_books()
        assert done.changed == 0
        with pytest.raises(ApiError, match="is in the future"):
            client.close_books(datetime(2999, 1, 1, tzinfo=UTC))
    noted = [(one["action"], one["actor"]) for one in audit.history(served_site.store, "books.close")]
    assert noted == [(f"books.close{end}", "operator") for end in ("", ".done", "", ".failed")]
    assert str(done.run) in audit.history(served_site.store, "books.close.done")[0]["inputs"]


def test_a_token_may_no_more_than_who_makes_it_and_ends_when_it_is_revoked(served_site: Site) -> None:
    with Client(served_site.url, served_site.tokens["vision"]) as vision:
        made = vision.create_token("notebook", 7, scopes=["read"])
        assert (made.roles, made.tenants, made.owner) == (["tenant"], ["vision"], "vision")
        for more in ({"roles": ["admin"]}, {"roles": ["tenant"], "tenants": ["speech"]}, {"owner": "ada"}):
            with pytest.raises(ApiError):
                vision.create_token("more", 7, **more)
        with Client(served_site.url, made.token) as notebook:
            assert notebook.me().scopes == ["read"]
            with pytest.raises(ApiError, match="no scope write"):
                notebook.create_token("another", 7)
        assert {one.owner for one in vision.tokens()} == {"vision"}
        assert vision.revoke_token(made.id).revoked
        with pytest.raises(ApiError, match="revoked"), Client(served_site.url, made.token) as notebook:
            notebook.me()
        with Client(served_site.url, served_site.tokens["admin"]) as admin:
            theirs = next(one.id for one in admin.tokens() if one.owner == "admin")
            with pytest.raises(ApiError, match="not one of yours"):
                vision.revoke_token(theirs)


@seldom(6, "a token is refused by every route")
@pytest.mark.parametrize("scope", Scope)
@pytest.mark.parametrize("name", ROLES)
def test_a_token_is_refused_by_every_route_whose_scope_it_lacks_whatever_its_role(
    served_site: Site, name: str, scope: Scope
) -> None:
    token = token_of(served_site.access, name, [scope])
    with httpx.Client(base_url=served_site.url, headers={"Authorization": f"Bearer {token}"}) as client:
        for method, path, action in ROUTES:
            if SCOPE_OF[action] is not scope:
                answer = client.request(method, PREFIX + path, json={} if method in ("POST", "PATCH") else None)
                assert (answer.status_code, f"no scope {SCOPE_OF[action]}" in answer.text) == (403, True), (
                    method,
                    path,
                )
            elif action is not Action.see and action not in MAY[roles_of(name)]:
                answer = client.request(method, PREFIX + path, json={} if method in ("POST", "PATCH") else None)
                assert (answer.status_code, "requires the role" in answer.text) == (403, True), (method, path)


def test_what_changes_something_takes_the_scope_write_and_what_asks_does_not() -> None:
    for method, path, action in ROUTES:
        if not path.endswith("/check"):  # which is for those who may do it then
            assert (method != "GET") == (SCOPE_OF[action] is Scope.write), (method, path)


@pytest.mark.parametrize("name", ROLES)
def test_a_token_of_somebody_disabled_gets_nothing(served_site: Site, name: str) -> None:
    token = token_of(served_site.access, name)
    token_of(served_site.access, SPARE)
    with httpx.Client(base_url=served_site.url, headers={"Authorization": f"Bearer {token}"}) as client:
        change_person(served_site.access, "test", NOW, name, disabled=True)
        try:
            for method, path, _ in ROUTES:
                answer = client.request(method, PREFIX + path)
                assert (answer.status_code, "its owner is disabled" in answer.text) == (401, True), (method, path)
        finally:
            change_person(served_site.access, "test", NOW, name, disabled=False)


def test_a_token_loses_with_its_owner_what_the_owner_loses(served_site: Site) -> None:
    """An analyst is made a tenant's viewer: their token asks no SQL, and sees that tenant alone."""
    token = token_of(served_site.access, "analyst")
    with httpx.Client(base_url=served_site.url, headers={"Authorization": f"Bearer {token}"}) as client:
        change_person(served_site.access, "test", NOW, "analyst", roles=["tenant"], tenants=["vision"])
        try:
            assert client.post("/sql", content="SELECT 1").status_code == 403
            assert client.get("/metrics").status_code == 403
            assert {row["tenant"] for row in client.get(f"{PREFIX}/ledger").json()["rows"]} == {"vision"}
            assert client.get(f"{PREFIX}/me").json()["tenants"] == ["vision"]
        finally:
            change_person(served_site.access, "test", NOW, "analyst", roles=["analyst"], tenants=[])
        assert client.post("/sql", content="SELECT 1").status_code == 200


def test_the_description_names_every_route_and_its_errors(served_site: Site) -> None:
    with served_site.client("vision") as client:
        document: dict[str, Any] = client.get(f"{PREFIX}/openapi.json").json()
    described = {
        (method.upper(), path) for path, methods in document["paths"].items() for method in methods
    }  # fmt: skip
    assert described == {(method, path) for method, path, _ in ROUTES}
    names = [one["operationId"] for methods in document["paths"].values() for one in methods.values()]
    assert len(set(names)) == len(names)
    for methods in document["paths"].values():
        for one in methods.values():
            assert "application/problem+json" in one["responses"]["403"]["content"]
    assert document["security"] == [{"token": []}]


def test_an_instant_is_utc_with_milliseconds() -> None:
    from datetime import datetime

    assert instant(datetime.fromisoformat("2026-10-01T02:00:00+02:00")) == "2026-10-01T00:00:00.000Z"


def test_the_document_names_every_route() -> None:
    rows = [line for line in (REPO / "docs" / "api.md").read_text(encoding="utf-8").splitlines() if line[:1] == "|"]
    for method, path, _ in ROUTES:
        assert any(f"`{method} " in row and f"{path}`" in row for row in rows), (method, path)
    there = {(method, path) for method, path, _ in ROUTES}
    for row in rows:
        method = "GET"
        for given, path in re.findall(r"`(?:([A-Z]+) )?(/[^`]*)`", row.split("|")[1]):
            method = given or method
            assert (method, path) in there, "a route that is named and is not there"


def test_a_method_that_a_path_has_not_is_told_those_that_it_has(served_site: Site) -> None:
    with served_site.client("admin") as client:
        answer = client.put(f"{PREFIX}/tokens")
    assert (answer.status_code, answer.headers["allow"]) == (405, "GET, POST")
