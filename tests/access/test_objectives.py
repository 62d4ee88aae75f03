"""Objectives and interference as tenants see them: their own, and of whom disturbed them no more than that it was
somebody else. On pages, over the API, and by SQL on a tenant's own connection."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from access.principal import Principal
from access.roles import Role
from access.scope import FILTERS, Stores, table_filters
from gpuledger.documents import PREFIX
from tests.access.test_matrix import body_of
from tests.dashboards.site import Site
from tests.draws import seldom

pytestmark = seldom(6, "all of objectives")

DAY = "?period=2026-10-02"
AT = "at=2026-10-04T00:00:00Z"
OWN = {"vision": {"main-wait", "vision-chat"}, "speech": {"main-wait", "speech-success", "speech-chat"}}
OTHERS = {"vision": "speech", "speech": "vision"}


def asked(client: httpx.Client, path: str) -> list[dict[str, Any]]:
    answer = client.get(PREFIX + path)
    assert answer.status_code == 200, answer.text
    rows: list[dict[str, Any]] = answer.json()["rows"]
    return rows


def tenants_store(site: Site, *tenants: str) -> Any:
    return Stores(site.store).scoped_to(Principal("somebody", frozenset({Role.tenant}), frozenset(tenants)))


@pytest.mark.parametrize("tenant", OWN)
def test_a_tenant_sees_the_objectives_that_are_about_it_and_its_own_series_of_them(
    served_site: Site, tenant: str
) -> None:
    with served_site.client(tenant) as client, served_site.client("analyst") as analyst:
        rows = asked(client, f"/objectives?{AT}")
        everybodys = asked(analyst, f"/objectives?{AT}")
    assert {row["objective"] for row in rows} == OWN[tenant]
    assert {row["tenant"] for row in rows} == {tenant, ""}
    assert {row["objective"] for row in rows if not row["tenant"]} == {f"{tenant}-chat"}, "unknown, and shown"
    assert [row for row in everybodys if row["tenant"] == tenant] == [row for row in rows if row["tenant"]]
    assert {row["objective"] for row in everybodys} == {*OWN["vision"], *OWN["speech"], "elsewhere"}


@pytest.mark.parametrize("name", ["speech-success", "speech-chat", "elsewhere", "nothing", "' OR 1 --"])
def test_an_objective_that_is_not_a_tenants_is_not_there_for_it(served_site: Site, name: str) -> None:
    with served_site.client("vision") as client:
        answer = client.get(f"{PREFIX}/objectives/{name}?{AT}")
        assert (answer.status_code, "does not exist, or you don't have access to it" in answer.text) == (404, True)
        assert "K-4711" not in answer.text
        mine = asked(client, f"/objectives/main-wait?{AT}")
        assert [(row["tenant"], row["subject"]) for row in mine] == [("vision", "main")]
        for route in ("objectives", "interference"):
            answers = [client.get(f"{PREFIX}/{route}?tenant={who}") for who in ("speech", "nobody")]
            assert [one.status_code for one in answers] == [403, 403]
            assert answers[0].text.replace("speech", "nobody") == answers[1].text, (
                "whether there is such a tenant is not told"
            )


@pytest.mark.parametrize("tenant", OWN)
def test_of_interference_a_tenant_sees_what_it_suffered_and_not_from_whom(served_site: Site, tenant: str) -> None:
    other = OTHERS[tenant]
    with served_site.client(tenant) as client, served_site.client("analyst") as analyst:
        (episode,) = asked(client, "/interference?period=2026-10-02")
        both = asked(analyst, "/interference?period=2026-10-02")
    assert (episode["workload_id"], episode["disturbed_windows"], episode["neighbours"]) == (f"w-{tenant}", 7, [None])
    assert {(one["workload_id"], *one["neighbours"]) for one in both} == {
        ("w-vision", "w-speech"),
        ("w-speech", "w-vision"),
    }
    with tenants_store(served_site, tenant) as store:
        rows = store.rows("SELECT * FROM interference")
        assert {row["workload_id"] for row in rows} == {f"w-{tenant}"}
        assert other not in str(rows)
        assert store.rows("SELECT workload_id FROM interference_samples WHERE workload_id = {w:String}",
                          {"w": f"w-{other}"}) == []  # fmt: skip
    with tenants_store(served_site, tenant, other) as store:
        assert {(row["workload_id"], *row["neighbours"]) for row in store.rows("SELECT * FROM interference")} >= {
            ("w-vision", "w-speech"),
            ("w-speech", "w-vision"),
        }


@seldom(6, "the page shows a tenant its own")
@pytest.mark.parametrize("tenant", OWN)
def test_the_page_shows_a_tenant_its_own(served_site: Site, tenant: str) -> None:
    other = OTHERS[tenant]
    with served_site.client(tenant) as client:
        known = client.get("/_dash-dependencies").json()
        text = ""
        for search in (DAY, f"{DAY}&tenant={other}", f"{DAY}&objective={other}-success"):
            for one in known:
                body = body_of(one, "/objectives")
                for value in (*body["inputs"], *body["state"]):
                    if value.get("property") == "search":
                        value["value"] = search
                answer = client.post("/_dash-update-component", json=body).text
                words = answer.replace(f"tenant={other}", "").replace(f"objective={other}-success", "")
                assert f"w-{other}" not in words and f"{other}-" not in words, (search, one["output"])
                text += answer
    assert f"{tenant}-chat" in text and f"w-{tenant}" in text
    assert "another tenant's workload" in text


def test_what_a_tenant_pays_for_decides_and_not_in_whose_name_it_was_told(served_site: Site) -> None:
    """What is told as `lab` and paid by vision is vision's; told as speech's and paid by vision it is not speech's.
    Once speech pays for some of what is told as `lab`, its series is neither's to see."""
    store = served_site.store
    columns = "cluster, allocation_id, workload_id, tenant, reported_tenant, start_at"
    paid = "('c9', 'p{0}', '{1}', '{2}', '{3}', '2026-10-01 00:00:00')"
    store.command(
        f"INSERT INTO allocations ({columns}) VALUES {paid.format(1, 'w-lab', 'vision', 'lab')}, "
        f"{paid.format(2, 'w-given', 'vision', 'speech')}"
    )
    (definition,) = store.rows("SELECT definition FROM slo_objectives WHERE name = 'main-wait'")
    store.command(
        "INSERT INTO slo_points (definition, run, hour, at, cluster, tenant, subject, good) "
        "SELECT {d:String}, max(run), '2026-10-02 05:00:00', '2026-10-02 05:05:00', 'c9', 'lab', 'q', 1 "
        "FROM slo_hours WHERE hour = '2026-10-02 05:00:00'",
        {"d": definition["definition"]},
    )
    store.command(
        "INSERT INTO interference_samples (run, hour, at, window_seconds, cluster, workload_id, tenant) VALUES "
        "(1, '2026-10-02 05:00:00', '2026-10-02 05:50:00', 60, 'c9', 'w-lab', 'lab'), "
        "(1, '2026-10-02 05:00:00', '2026-10-02 05:50:00', 60, 'c9', 'w-given', 'speech')"
    )

    def seen(tenant: str) -> tuple[set[str], set[str]]:
        with tenants_store(served_site, tenant) as scoped:
            windows = scoped.rows("SELECT DISTINCT workload_id AS w FROM interference WHERE cluster = 'c9'")
            series = scoped.rows("SELECT DISTINCT tenant AS t FROM slo_series WHERE cluster = 'c9'")
        return {row["w"] for row in windows}, {row["t"] for row in series}

    try:
        assert seen("vision") == ({"w-lab", "w-given"}, {"lab"})
        assert seen("speech") == (set(), set())
        store.command(f"INSERT INTO allocations ({columns}) VALUES {paid.format(3, 'w-lab-2', 'speech', 'lab')}")
        assert [series for _, series in (seen("vision"), seen("speech"))] == [set(), set()]
    finally:
        for table in ("allocations", "slo_points", "interference_samples"):
            store.command(f"DELETE FROM {table} WHERE cluster = 'c9'")


def test_a_tenant_with_no_name_sees_nothing(served_site: Site) -> None:
    with tenants_store(served_site) as store:
        for table in ("interference", "slo_series", "slo_objectives"):
            assert store.rows(f"SELECT * FROM {table}") == [], table


def test_each_rule_is_of_a_table_that_there_is(served_site: Site) -> None:
    filters = table_filters(served_site.store, frozenset({"vision"}))
    assert all(f"'{table}': '" in filters for table in FILTERS)
