"""OpenCost's allocation API over HTTP, as the server serves it."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Iterator

import httpx
import pytest
from fastapi import FastAPI

from billing.opencost.query import parse_query
from billing.opencost.words import QueryError
from billing.rates import apply_rate_card, parse_rate_card
from dashboards.app import DashboardSettings, build_app
from tests.dashboards.conftest import two_days
from tests.dashboards.site import NOW
from warehouse.store import Store

WINDOW = "2026-10-01T00:00:00Z,2026-10-03T00:00:00Z"


@pytest.fixture(scope="module")
def filled(shared_store: Store) -> Iterator[Store]:
    two_days(shared_store)
    yield shared_store
    app_of.cache_clear()


@functools.cache
def app_of(store: Store, allowed: tuple[str, ...]) -> FastAPI:
    return build_app(store, DashboardSettings(allowed_hosts=allowed))


def get(store: Store, path: str, allowed: tuple[str, ...] = ("*",), **params: str) -> httpx.Response:
    app = app_of(store, allowed)

    async def run() -> httpx.Response:
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://127.0.0.1") as client:
            return await client.get(path, params=params)

    return asyncio.run(run())


@pytest.mark.parametrize("path", ["/allocation", "/model/allocation/compute"])
def test_two_days_in_two_sets(filled: Store, path: str) -> None:
    answer = get(filled, path, window=WINDOW, aggregate="label:tenant", step="1d", includeIdle="true")
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "application/json"
    document = answer.json()
    assert (document["code"], document["status"]) == (200, "success")
    first, second = document["data"]
    # vision and speech hold a GPU each; c lies idle; d is down on the first day and idle on the second
    assert {name: one["gpuHours"] for name, one in first.items()} == {
        "__idle__": 24.0, "__unavailable__": 24.0, "speech": 24.0, "vision": 24.0,
    }  # fmt: skip
    assert {name: one["gpuHours"] for name, one in second.items()} == {"__idle__": 48.0, "speech": 24.0, "vision": 24.0}
    assert first["vision"]["gpuEfficiency"] == 0.75
    assert first["speech"]["gpuEfficiency"] == 1.0  # of what was metered; the other half is unknown
    assert first["speech"]["gpuledger"]["unmeteredGpuHours"] == "12.000000000"
    assert first["vision"]["totalCost"] == 48.0
    assert second["vision"]["window"] == {"start": "2026-10-02T00:00:00Z", "end": "2026-10-03T00:00:00Z"}


def test_accumulate_makes_one_set(filled: Store) -> None:
    document = get(filled, "/allocation", window=WINDOW, aggregate="cluster", step="1d", accumulate="true").json()
    assert [{name: one["gpuHours"] for name, one in found.items()} for found in document["data"]] == [
        {"__unallocated__": 96.0}
    ]


def test_hours_that_are_not_closed_are_a_warning_and_not_zero(filled: Store) -> None:
    document = get(filled, "/allocation", window="2026-10-02..2026-10-04", aggregate="label:tenant", step="1d").json()
    assert document["data"][1] == {}
    assert document["warning"] == "24 of 48 hours of the window are closed; the others are in no figure"


def test_a_bad_parameter_is_a_400_that_says_which_and_what_fits(filled: Store) -> None:
    answer = get(filled, "/allocation/compute", window="soon")
    assert answer.status_code == 400
    document = answer.json()
    assert document["code"] == 400
    assert document["message"].startswith("Error: window: illegal window: 'soon'. Write it like 1d")


@pytest.mark.parametrize("zone", ["UTC", "Asia/Tokyo", "America/New_York"])
@pytest.mark.parametrize("at", ["0001-01-01", "0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00", "9999-12-31"])
def test_a_window_at_the_ends_of_time_is_refused(at: str, zone: str) -> None:
    """In UTC such an instant may be of no year that there is, and the engine has none of these."""
    for window in (f"{at},2026-10-01", f"2026-10-01,{at}", f"{at},{at[:10]}T23:59:59.9{at[19:]}", at):
        with pytest.raises(QueryError, match="window: "):
            parse_query({"window": window, "accumulate": "month"}, zone, NOW)


def test_an_unknown_parameter_is_named_and_does_no_harm(filled: Store) -> None:
    answer = get(filled, "/allocation", window=WINDOW, resolution="1m", costUnit="cumulative")
    assert answer.status_code == 200
    assert answer.json()["warning"] == "not known and without effect: costunit"


def test_a_broken_store_is_a_500_with_its_line(filled: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    from warehouse.errors import StoreError

    def fail(*_: object) -> None:
        raise StoreError("chdb:///x", "cannot be reached", "Is the server running?")

    monkeypatch.setattr("api.opencost.allocations", fail)
    answer = get(filled, "/allocation", window=WINDOW)
    assert (answer.status_code, answer.json()["message"]) == (
        500, "Error: chdb:///x: cannot be reached. Is the server running?",
    )  # fmt: skip


def test_a_stranger_host_is_refused(filled: Store) -> None:
    assert get(filled, "/allocation", allowed=("ledger.example",), window=WINDOW).status_code == 400


def test_kubectl_cost_gets_its_table_and_its_currency(filled: Store) -> None:
    """Its requests, as `kubectl cost namespace --window ... --show-all-resources` sends them; it reads data[0]."""
    asked = {
        "window": WINDOW, "aggregate": "cluster,namespace", "accumulate": "true", "includeIdle": "true", "idle": "true",
        "filterNamespaces": "",
    }  # fmt: skip
    for path in ("/model/allocation", "/allocation/compute"):
        document = get(filled, path, **asked).json()
        (found,) = document["data"]
        assert sum(one["gpuHours"] for one in found.values()) == 4 * 48
        assert "__idle__" in found
        assert "warning" not in document
    apply_rate_card(
        filled,
        parse_rate_card(EUROS),
        "a",
        "",
        NOW,
    )
    try:
        for path in ("/model/getConfigs", "/getConfigs"):
            assert get(filled, path).json() == {"code": 200, "status": "success", "data": {"currencyCode": "EUR"}}
    finally:
        filled.command("TRUNCATE TABLE rate_cards")
    assert get(filled, "/model/healthz").json()["status"] == "ok"


OF_KUBECTL_COST = {
    "namespace": "cluster,namespace",
    "deployment": "cluster,namespace,deployment",
    "controller": "cluster,namespace,controller",
    "pod": "cluster,namespace,pod",
    "label": "cluster,label:tenant",
}
"""Its commands, and what each aggregates by (pkg/cmd/cost.go and label.go of kubecost/kubectl-cost)."""


@pytest.mark.parametrize("command", OF_KUBECTL_COST)
@pytest.mark.parametrize("only", ["", "q"])
def test_kubectl_cost_can_split_each_name(filled: Store, command: str, only: str) -> None:
    """It gives up where a name has another number of parts than what it aggregates by, but for `__idle__` alone."""
    aggregate = OF_KUBECTL_COST[command]
    asked = {"aggregate": aggregate, "accumulate": "true", "includeIdle": "true", "idle": "true"}
    document = get(filled, "/model/allocation", window=WINDOW, filterNamespaces=only, **asked).json()
    (found,) = document["data"]
    assert all(one["name"] == name for name, one in found.items())
    parts = {name: len(name.split("/")) for name in found if name != "__idle__"}
    assert set(parts.values()) <= {len(aggregate.split(","))}, parts
    assert any("__unavailable__" in name for name in found) == (not only)
    for window in ("1d", "5d", "yesterday", "lastweek", "month"):
        assert get(filled, "/allocation/compute", window=window, **asked).status_code == 200


EUROS = {"currency": "EUR", "timezone": "UTC", "rates": [{"sku": "a", "price_per_gpu_hour": "1"}]}


def test_opencosts_page_gets_its_days_and_its_suggestions(filled: Store) -> None:
    page = {"window": WINDOW, "aggregate": "namespace", "includeIdle": "true", "step": "1d", "accumulate": "false"}
    document = get(filled, "/model/allocation/compute", **page).json()
    assert [set(one) for one in document["data"]] == [
        {"__idle__", "__unavailable__", "__unallocated__"}, {"__idle__", "__unallocated__"},
    ]  # fmt: skip
    asked = {"window": WINDOW, "field": "label:tenant", "limit": "25"}
    answer = get(filled, "/model/allocation/autocomplete", **asked).json()
    assert answer == {"code": 200, "status": "success", "data": {"data": ["speech", "vision"]}}
    assert get(filled, "/allocation/autocomplete", **{**asked, "search": "SPE"}).json()["data"] == {"data": ["speech"]}
    assert get(filled, "/allocation/autocomplete", **{**asked, "limit": "1"}).json()["data"] == {"data": ["speech"]}
    narrowed = {**asked, "filter": 'label[tenant]:"vision"'}
    assert get(filled, "/allocation/autocomplete", **narrowed).json()["data"] == {"data": ["vision"]}
    for wrong in (
        {"field": ""},
        {"field": "pod,node"},
        {"limit": "0"},
        {"limit": "x"},
        {"limit": "9" * 5000},
        {"field": "colour"},
    ):
        assert get(filled, "/allocation/autocomplete", **{**asked, **wrong}).status_code == 400


@pytest.mark.parametrize(
    "path",
    [
        "/model/assets", "/model/cloudCost/top", "/model", "/model/", "/model/allocation/x",
        "/allocation/", "/allocation/summary", "/allocation/compute/", "/assets", "/cloudCost/view/table",
        "/customCost/total", "/clusterInfo", "/prediction/speccost",
    ],
)  # fmt: skip
def test_what_the_ledger_does_not_hold_is_a_404_in_json(filled: Store, path: str) -> None:
    answer = get(filled, path, window=WINDOW)
    assert (answer.status_code, answer.json()["code"]) == (404, 404)
    assert "/model/allocation/compute" in answer.json()["message"]


def test_idle_is_kubecosts_word_for_include_idle(filled: Store) -> None:
    asked = {"window": WINDOW, "aggregate": "label:tenant"}
    for idle, include, shown in (
        ("true", "", True),
        ("true", "false", False),
        ("false", "true", True),
        ("", "", False),
    ):
        (found,) = get(filled, "/allocation", **asked, idle=idle, includeIdle=include).json()["data"]
        assert ("__idle__" in found) == shown, (idle, include)
