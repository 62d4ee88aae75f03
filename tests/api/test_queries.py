"""Saved queries over the API: kept for whoever saves them, run as whoever runs them, and nothing for tenants."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from gpuledger.client import ApiError, Client
from gpuledger.documents import PREFIX
from tests.dashboards.site import Site

AUDITED = "SELECT count() AS n FROM audit"


def client(site: Site, who: str) -> Client:
    return Client(site.url, site.tokens[who])


@pytest.fixture(autouse=True)
def _nothing_stays(served_site: Site) -> Iterator[None]:
    yield
    with client(served_site, "admin") as admin:
        for one in list(admin.saved_queries()):
            admin.delete_query(one.name, one.owner)


def test_a_query_is_saved_listed_shared_and_deleted_under_its_owner_s_name(served_site: Site) -> None:
    with client(served_site, "analyst") as ann, client(served_site, "operator") as bob:
        made = ann.save_query("costs & waits", "SELECT 1", "one")
        assert (made.owner, made.shared) == ("analyst", False)
        assert list(bob.saved_queries()) == []
        ann.save_query("costs & waits", "SELECT 2", "one", shared=True)
        (seen,) = bob.saved_queries()
        assert (seen.text, seen.owner) == ("SELECT 2", "analyst")
        assert bob.saved_query("costs & waits").text == "SELECT 2"
        for refused in (lambda: bob.delete_query("costs & waits", "analyst"),
                        lambda: bob.save_query("costs & waits", "SELECT 3", owner="analyst")):  # fmt: skip
            with pytest.raises(ApiError, match="not yours to change") as error:
                refused()
            assert error.value.status == 403
        with pytest.raises(ApiError, match="is not there") as error:
            bob.delete_query("costs & waits")
        assert error.value.status == 404
        assert ann.delete_query("costs & waits").name == "costs & waits"
        assert list(bob.saved_queries()) == []
    with client(served_site, "finance") as finance:
        done = [(one.action, one.actor) for one in finance.audit("query", "costs & waits")]
    assert done == [("query.delete", "analyst"), ("query.save", "analyst"), ("query.save", "analyst")]


def test_a_shared_query_shows_its_reader_no_more_than_the_reader_may_see(served_site: Site) -> None:
    with client(served_site, "finance") as finance, client(served_site, "analyst") as analyst:
        finance.save_query("who did what", AUDITED, shared=True)
        text = analyst.saved_query("who did what").text
    with served_site.client("finance") as http:
        assert int(http.post("/sql", content=text).text) > 0
    with served_site.client("analyst") as http:
        assert (http.post("/sql", content=text).status_code, text) == (403, AUDITED)


def test_nobody_reads_others_queries_by_sql(served_site: Site) -> None:
    with client(served_site, "operator") as operator:
        operator.save_query("mine", "SELECT 'secret'")
    for who in ("analyst", "admin"):
        with served_site.client(who) as http:
            answer = http.post("/sql", content="SELECT text FROM saved_queries")
            assert (answer.status_code, "secret" in answer.text) == (403, False)


@pytest.mark.parametrize("tenant", ["vision", "speech"])
def test_a_tenant_has_no_queries_as_it_has_no_sql(served_site: Site, tenant: str) -> None:
    with client(served_site, "analyst") as analyst:
        analyst.save_query("all", "SELECT 1", shared=True)
    with served_site.client(tenant) as http:
        for method, path in (("GET", ""), ("GET", "/all"), ("PUT", "/all"), ("DELETE", "/all")):
            answer = http.request(method, f"{PREFIX}/queries{path}", json={"text": "SELECT 1"})
            assert (answer.status_code, "it requires the role" in answer.text) == (403, True)


def test_a_token_needs_the_scope_sql_to_read_and_write_to_save(served_site: Site) -> None:
    with client(served_site, "analyst") as analyst:
        made = {scope: analyst.create_token(scope, 1, scopes=[scope]).token for scope in ("read", "write", "sql")}
    with Client(served_site.url, made["write"]) as writes, Client(served_site.url, made["sql"]) as asks:
        writes.save_query("costs", "SELECT 1")
        assert asks.saved_query("costs").text == "SELECT 1"
        with pytest.raises(ApiError, match="no scope write"):
            asks.delete_query("costs")
        with pytest.raises(ApiError, match="no scope sql"):
            writes.saved_query("costs")
    with Client(served_site.url, made["read"]) as reads, pytest.raises(ApiError, match="no scope sql"):
        list(reads.saved_queries())


@pytest.mark.parametrize(
    ("path", "body", "status", "said"),
    [
        ("/nothing", {}, 422, "body.text"),
        ("/" + "x" * 101, {"text": "SELECT 1"}, 422, "path.name"),
        ("/%20x", {"text": "SELECT 1"}, 409, "is not a valid name"),
        ("/x", {"text": "  "}, 409, "is empty"),
    ],
)
def test_what_cannot_be_saved_is_a_problem_that_says_why(
    served_site: Site, path: str, body: dict[str, str], status: int, said: str
) -> None:
    with served_site.client("analyst") as http:
        answer = http.put(f"{PREFIX}/queries{path}", json=body)
    assert (answer.status_code, said in answer.json()["detail"]) == (status, True), answer.text


def test_lists_come_in_pages(served_site: Site) -> None:
    with client(served_site, "analyst") as analyst:
        for number in range(5):
            analyst.save_query(f"q{number}", "SELECT 1")
    with served_site.client("analyst") as http:
        page = http.get(f"{PREFIX}/queries?limit=2&offset=2").json()
    assert ([one["name"] for one in page["rows"]], page["total"]) == (["q2", "q3"], 5)
    assert page["next"].startswith(f"{PREFIX}/queries?limit=2&offset=4")
