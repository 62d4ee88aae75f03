"""The numbers of the pages, against the analysts' views and sums done by hand; and what pages say of their states."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest

from access.principal import ANYBODY, Principal
from access.roles import Role
from access.scope import Stores
from dashboards.figures import in_steps
from dashboards.filters import Filters, filters_of
from dashboards.frame import show
from dashboards.languages import language
from dashboards.pages import fleet, overview, tenants, workload
from dashboards.pages.fleet.cells import MEASURES
from dashboards.pages.invoices.amounts import exact
from dashboards.pages.overview import activity
from dashboards.pages.workload.lifecycle import lifecycle_of, plain
from dashboards.pages.workload.timeline import draw, held_throughout
from dashboards.parts import Figure
from tests.dashboards.pages.conftest import DAY
from warehouse.store import Store

EN = language("en")
MONTH = "?period=2026-10"


def test_the_overview_sums_what_the_views_tell(house: Store) -> None:
    rows = filters_of(house, MONTH).rows(house, overview.__file__, "by_tenant", by_project=0)
    reported = house.rows("SELECT tenant, sum(list_cost) AS cost FROM v_charges GROUP BY tenant")
    found = {name: round(each.list_cost or 0, 6) for name, each in overview.by_name(rows)}
    assert found == {row["tenant"]: round(row["cost"], 6) for row in reported}
    (capacity,) = house.rows(
        "SELECT sum(capacity_gpu_hours) AS hours, sum(used_gpu_hours) AS used FROM v_capacity_hourly"
    )
    total = overview.amounts(rows)
    assert total.capacity == pytest.approx(float(capacity["hours"]))
    assert total.hours["used"] == pytest.approx(float(capacity["used"]))


def test_a_tenant_that_held_one_hour_of_a_day_did_not_hold_it_all_day(house: Store) -> None:
    """What a filter leaves is averaged over all closed hours, also over those in which nothing was held."""
    search = "?period=2026-10-02T12:00..2026-10-04&tenant=vision&pool=train"
    filters = filters_of(house, search)
    figure = overview.fleet_over_time(house, filters, EN, "day")
    held = [sum(trace["y"][at] for trace in figure["data"][:-1]) for at in range(2)]
    assert held == pytest.approx([1.0, 0.0])


def test_who_waits_is_as_the_view_of_waits_has_it(house: Store) -> None:
    (row,) = filters_of(house, MONTH).rows(house, activity.__file__, "waits")
    (reported,) = house.rows(
        "SELECT countIf(started_at >= '2026-09-30 22:00:00') AS started, median(wait_seconds) AS median, "
        "countIf(started_at IS NULL AND ended_at IS NULL) AS waiting FROM v_queue_wait"
    )
    assert (row["queue"], row["started"], row["median_seconds"]) == ("main", reported["started"], reported["median"])
    assert (row["waiting"], row["waiting_gpus"]) == (reported["waiting"], 16)
    (vision,) = filters_of(house, f"{MONTH}&tenant=vision").rows(house, activity.__file__, "waits")
    assert (vision["started"], vision["waiting_gpus"]) == (1, 8)
    assert filters_of(house, f"{MONTH}&tenant=nobody").rows(house, activity.__file__, "waits") == []


def test_alerts_are_those_of_the_tenants_chosen(house: Store) -> None:
    assert "vision holds an idle GPU" in str(show(house, ANYBODY, "/", MONTH).page)
    assert "vision holds an idle GPU" not in str(show(house, ANYBODY, "/", f"{MONTH}&tenant=speech").page)


@pytest.mark.parametrize(
    ("search", "level", "names"),
    [
        (MONTH, "tenant", {"vision", "speech"}),
        (f"{MONTH}&tenant=vision", "project", {"p-vision"}),
        (f"{MONTH}&tenant=vision&project=p-vision", "workload", {"w-vision", "w-mig-vision"}),
    ],
)
def test_each_level_of_tenants_adds_up_to_the_charges(house: Store, search: str, level: str, names: set[str]) -> None:
    filters = filters_of(house, search)
    found = tenants.level_of(house, filters)
    assert found.name == level
    rows = filters.rows(house, tenants.__file__, "by_holder", level=level, grain=found.grain, most=10)
    assert {row["name"] for row in rows} == names
    tenant = filters.only("tenant") or ""
    reported = house.value(
        "SELECT sum(billed_cost) AS cost FROM v_charges WHERE {t:String} = '' OR tenant = {t:String}", {"t": tenant}
    )
    assert round(sum(row["billed_cost"] for row in rows), 6) == round(reported, 6)
    for row in rows:
        assert sum(tenants.trend(row, found)) == pytest.approx(float(row["list_cost"]))
        assert len(tenants.trend(row, found)) == len(found.steps) == 31


def test_recommendations_of_a_project_are_said_to_be_its_own(house: Store) -> None:
    """As found: "how this tenant's workloads could run for less", of those of one project."""
    for search, whose in (("tenant=vision", "this tenant's"), ("tenant=vision&project=p-vision", "this project's")):
        page = str(show(house, ANYBODY, "/tenants", f"{MONTH}&{search}").page)
        assert [one for one in ("this tenant's", "this project's") if f"how {one} workloads" in page] == [whose]


def test_budgets_are_of_a_whole_month_and_all_that_a_tenant_pays(house: Store) -> None:
    def of(search: str) -> dict[str, Decimal]:
        filters = filters_of(house, search)
        return tenants.budgets_of(house, filters, tenants.level_of(house, filters))

    assert of(MONTH) == {"vision": 100, "speech": 200}
    assert of(f"{MONTH}&tenant=vision") == {"": 100}
    assert of(f"{MONTH}&pool=train") == of("?period=2026-10-02") == {}


def test_a_workload_is_shown_hour_by_hour_as_the_books_have_it(house: Store) -> None:
    filters = filters_of(house, MONTH)
    rows = filters.rows(house, workload.__file__, "hours", workload="w-vision")
    reported = house.rows(
        "SELECT hour, sum(used_gpu_hours) AS used, sum(idle_gpu_hours) AS idle FROM v_usage_hourly "
        "WHERE workload_id = 'w-vision' GROUP BY hour ORDER BY hour"
    )
    assert [(row["hour"], row["used"], row["idle"]) for row in rows] == [
        (row["hour"], float(row["used"]), float(row["idle"])) for row in reported
    ]
    assert len(rows) == 48


def test_a_message_that_is_a_json_object_is_written_as_a_person_would() -> None:
    english, chinese = language("en"), language("zh")
    assert plain('{"exit_code": 1, "nodes": ["a", "b"]}', english) == "exit code: 1, nodes: a, b"
    assert plain('{"models": ["H100", "A100"]}', chinese) == "型号：H100，A100"
    told = '{"sequence": 7, "text": "no room", "entitlement": "borrowed", "expected_interval": ["x", "y"]}'
    assert plain(told, english) == "sequence: 7, entitlement: borrowed, expected start: x – y, no room"
    assert plain(told, chinese) == "序号：7，配额：借用，预计开始：x – y，no room"
    for message in ("", " ", "8", "null", "text", "[1]", '{"a"', "[" * 100_000, '{"a":' * 100_000):
        assert plain(message, english) == message


def test_a_workload_s_life_is_what_it_held_within_the_period(house: Store) -> None:
    found = lifecycle_of(house, filters_of(house, f"?{DAY}"), "w-vision")
    assert found is not None
    day = datetime(2026, 10, 2, tzinfo=UTC)
    assert found.window == (day, day + timedelta(days=1))
    assert (found.waited_seconds, found.ran_seconds, found.gpus) == (600, 48 * 3600, 1)
    in_part = lifecycle_of(house, filters_of(house, f"?{DAY}"), "w-mig-vision")
    assert in_part is not None and in_part.gpus == 3 / 7, "its share, as Now says"
    assert "on 0.43 GPUs" in str(show(house, ANYBODY, "/workloads", f"?{DAY}&workload=w-mig-vision").page)
    assert lifecycle_of(house, filters_of(house, f"?{DAY}"), "nobody") is None
    other = lifecycle_of(house, filters_of(house, "?period=2026-10-20"), "w-vision")
    assert other is not None
    assert other.window is None
    assert "Show the time it ran" in str(
        show(house, ANYBODY, "/workloads", "?period=2026-10-20&workload=w-vision").page
    )


@pytest.mark.parametrize(("period", "sql"), [("2026-10-02", "samples"), ("2026-10", "sampled_hours")])
def test_what_was_measured_of_a_workload_comes_from_samples_or_their_hourly_sums(
    house: Store, period: str, sql: str
) -> None:
    filters = filters_of(house, f"?period={period}")
    more: dict[str, Any] = {"seconds": 3600} if sql == "samples" else {}
    rows = filters.rows(house, workload.__file__, sql, workload="w-vision", **more)
    assert [row["utilization"] for row in rows] == pytest.approx([0.5] * len(rows))
    assert [row["power_watts"] for row in rows] == pytest.approx([400] * len(rows))
    assert len(rows) == (24 if sql == "samples" else 48)
    assert {row["memory_bytes"] for row in rows} == {None}


def test_the_overview_of_one_tenant_promises_no_capacity(house: Store) -> None:
    """As found: "Fleet over time, stacked up to capacity" above the GPUs of one tenant."""
    of_all, of_one = (str(show(house, ANYBODY, "/", f"?{DAY}{more}").page) for more in ("", "&tenant=vision"))
    for said in ("Fleet over time", "stacked up to capacity", "from capacity down to used"):
        assert said in of_all and said not in of_one
    assert "Allocated over time" in of_one and "1.4 GPUs on average" in of_one
    tenant, fleet = (str(show(house, ANYBODY, page, f"?{DAY}&tenant=vision").page) for page in ("/tenants", "/fleet"))
    for page in (tenant, fleet):
        assert "1.4 GPUs on average" in page, "the figure has its second line, as those beside it"
    assert "of capacity" not in fleet


def test_the_overview_of_one_tenant_has_its_projects(house: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """As found: whoever sees one tenant had a card of one bar, where its costs were to be compared."""
    filters = filters_of(house, f"{MONTH}&tenant=vision")
    (of_tenant,) = (row for row in filters.rows(house, overview.__file__, "by_tenant", by_project=0) if row["is_held"])
    (of_project,) = (row for row in filters.rows(house, overview.__file__, "by_tenant", by_project=1) if row["is_held"])
    assert {**of_tenant, "name": "p-vision"} == of_project
    one = str(overview._cost_card(house, overview.by_name([of_tenant]), filters, EN))
    assert "Cost and waste by tenant" in one, "with one project, which would be one bar, too"
    both = [of_project, {**of_project, "name": "p-other"}]
    monkeypatch.setattr(Filters, "rows", lambda self, store, file, name, **params: both if params["by_project"] else [])
    two = str(overview._cost_card(house, overview.by_name([of_tenant]), filters, EN))
    assert "Cost and waste by project" in two
    assert "/tenants?period=2026-10&tenant=vision&project=p-other" in two


def test_measurements_that_do_not_touch_are_not_joined() -> None:
    start, hour = datetime(2026, 10, 1), timedelta(hours=1)  # noqa: DTZ001  (an axis knows no zones)
    x, y = in_steps([start, start + hour, start + 3 * hour], [1.0, 2.0, 3.0], hour)
    assert y == [1.0, 1.0, 2.0, 2.0, None, 3.0, 3.0]
    assert x[-1] == start + 4 * hour


def test_an_hour_that_was_held_in_part_is_not_its_holders_in_the_timeline() -> None:
    """As found: eight GPUs at 75 % began at 20 %, since they were nobody's for 42 minutes of that hour."""
    day = datetime(2026, 10, 1, tzinfo=UTC)
    hours = [{"step": day + hour * timedelta(hours=1)} for hour in range(8)]
    minutes = timedelta(minutes=42)
    claims: list[dict[str, Any]] = [
        {"start_at": day + timedelta(hours=1) + minutes, "end_at": day + timedelta(hours=4)},
        {"start_at": day + timedelta(hours=4), "end_at": day + timedelta(hours=6) + minutes},
        {"start_at": day + timedelta(hours=7), "end_at": None},
    ]
    assert [row["step"].hour for row in held_throughout(hours, claims)] == [0, 2, 3, 4, 5, 7]
    assert held_throughout(hours[1:2], claims) == hours[1:2], "where there are no others"


def test_the_timeline_of_a_workload_that_nobody_measured_has_dates(house: Store) -> None:
    filters = filters_of(house, f"{MONTH}&workload=w-mig-vision")
    lifecycle = lifecycle_of(house, filters, "w-mig-vision")
    assert lifecycle is not None
    assert lifecycle.ran_seconds is not None
    running = replace(lifecycle, claims=[{**lifecycle.claims[0], "end_at": None}], until=lifecycle.start_at)
    assert running.ran_seconds is None, "it runs, but in no closed hour"
    figure, _ = draw(lifecycle, filters, [], [], [], EN)
    axes = [axis for name, axis in figure["layout"].items() if name.startswith("xaxis")]
    assert [axis["type"] for axis in axes] == ["date"] * 2, "one without data is of numbers otherwise"
    quiet, _ = draw(replace(lifecycle, events=[]), filters, [], [], [], EN)
    lanes = [drawn["layout"]["yaxis"]["ticktext"] for drawn in (figure, quiet)]
    assert lanes[0] == ["Events", *lanes[1]], "no lane for what nobody reported"


def test_what_was_held_before_the_period_is_drawn_from_where_its_use_is(house: Store) -> None:
    filters = filters_of(house, f"{MONTH}&workload=w-mig-vision")
    lifecycle = lifecycle_of(house, filters, "w-mig-vision")
    assert lifecycle is not None and lifecycle.window is not None
    start, end = lifecycle.window
    claims = [{**lifecycle.claims[0], "start_at": start - timedelta(days=9), "end_at": None}]
    longer = replace(lifecycle, claims=claims, until=end + timedelta(hours=5))
    figure, _ = draw(longer, filters, [], [], [], EN)
    first, last, _ = figure["data"][0]["x"]
    assert [first, last] == [one.replace(tzinfo=None).isoformat() for one in (start, end)]


def test_the_bars_of_the_timeline_begin_and_end_where_its_lanes_do(house: Store) -> None:
    """As found: the bar of the hour in which a job began lay left of its lanes, on the axis's numbers."""
    lifecycle = lifecycle_of(house, filters_of(house, f"{MONTH}&workload=w-mig-vision"), "w-mig-vision")
    assert lifecycle is not None
    start = datetime(2026, 10, 1, 8, 20, tzinfo=UTC)
    cut = replace(lifecycle, window=(start, start + timedelta(hours=1)))
    used = [
        {"hour": start.replace(minute=0) + n * timedelta(hours=1), "used": 1, "idle": 0, "unmetered": 0} for n in (0, 1)
    ]
    figure, _ = draw(cut, filters_of(house, MONTH), used, [], [], EN)
    bars = next(one for one in figure["data"] if one["type"] == "bar")
    assert [str(x)[-8:-3] for x in bars["x"]] == ["08:20", "09:00"]
    assert list(bars["width"]) == [40 * 60 * 1000, 20 * 60 * 1000]


def test_the_timeline_has_a_lane_for_events_where_any_is_in_it(house: Store) -> None:
    """As found: an empty lane "Events" on the page of every job that began before the period."""
    lifecycle = lifecycle_of(house, filters_of(house, f"{MONTH}&workload=w-mig-vision"), "w-mig-vision")
    assert lifecycle is not None and lifecycle.window is not None
    start, end = lifecycle.window
    for at, has_lane in ((start - timedelta(days=9), False), (start, True), (end + timedelta(hours=1), False)):
        moved = replace(lifecycle, events=[{**lifecycle.events[0], "ts": at}])
        figure, _ = draw(moved, filters_of(house, MONTH), [], [], [], EN)
        assert ("Events" in figure["layout"]["yaxis"]["ticktext"], len(figure["data"][1]["x"] or ())) == (
            has_lane,
            has_lane,
        )


@pytest.mark.parametrize(
    ("units", "profile", "said"),
    [(3, "", "Utilization, of the whole GPU"), (7, "", "Utilization"), (3, "3g.40gb", "Utilization")],
)
def test_the_utilization_of_a_share_says_of_what_it_is(house: Store, units: int, profile: str, said: str) -> None:
    """As found: 23% below 73% of the time used, of a job that has 0.3 of a GPU."""
    lifecycle = lifecycle_of(house, filters_of(house, f"{MONTH}&workload=w-mig-vision"), "w-mig-vision")
    assert lifecycle is not None and lifecycle.window is not None
    claims = [{**lifecycle.claims[0], "units": units, "device_units": 7, "partition_profile": profile}]
    row = {"step": lifecycle.window[0], "utilization": 0.2, "memory_bytes": None, "power_watts": None}
    figure, _ = draw(replace(lifecycle, claims=claims), filters_of(house, MONTH), [], [row], [], EN)
    assert said in [one["text"] for one in figure["layout"]["annotations"]]


def test_a_charged_quantity_times_its_price_is_the_cost_beside_it(house: Store) -> None:
    """As found: 0.2 GPU-hours at $2.65 beside $0.48."""
    page = str(show(house, ANYBODY, "/workloads", f"{MONTH}&workload=w-mig-vision").page)
    (held, cost) = house.rows(
        "SELECT sum(consumed_quantity) AS held, sum(list_cost) AS cost FROM v_charges "
        "WHERE workload_id = 'w-mig-vision'"
    )[0].values()
    assert f"Td(children='{held:,.2f}'" in page
    assert f"Td(children='{exact(cost, 'EUR')}'" in page, "to the cent, also from a hundred on"
    assert round(float(held), 2) * 2 == pytest.approx(float(cost), abs=0.02)


def test_the_fleet_is_every_device_with_what_is_known_of_it(house: Store) -> None:
    filters = filters_of(house, f"?{DAY}")
    devices = {row["device_id"]: row for row in fleet.devices_of(house, filters, fleet.last_instant(filters))}
    assert set(devices) == {"GPU-a", "GPU-b", "GPU-c", "GPU-m"}
    assert devices["GPU-a"]["held_part"] == 1
    assert devices["GPU-a"]["used_part"] == pytest.approx(0.5)
    assert devices["GPU-m"]["held_part"] == pytest.approx(4 / 7)
    assert (devices["GPU-b"]["errors"], devices["GPU-a"]["errors"]) == (1, 0)
    assert devices["GPU-a"]["power"] == pytest.approx(400)
    assert devices["GPU-a"]["temperature"] is None
    assert devices["GPU-m"]["power"] is None
    assert {row["price"] for row in devices.values()} == {2.0}


def test_shares_of_a_device_and_what_is_free_of_it(house: Store) -> None:
    text = str(show(house, ANYBODY, "/fleet", f"?{DAY}").page)
    assert "3g.40gb" in text
    assert "3/7 free" in text
    assert "Span(children='3/7'," in text, "as found: 1/10 beside 3/4 free, where there was room for the word"
    assert "'gl-swatch gl-free'), 'Free'" in text
    assert "7/7 free" in str(show(house, ANYBODY, "/fleet", "?period=2026-10-05").page)


def test_shares_follow_the_filters_as_the_heat_map_does(house: Store) -> None:
    """As found: shares of all tenants below the heat map of one."""
    text = str(show(house, ANYBODY, "/fleet", f"?{DAY}&tenant=speech").page)
    assert "w-mig-speech" in text
    assert "w-mig-vision" not in text
    assert "title='Others 3/7'" in text
    assert "3/7 free" in text, "what others hold is not free"
    assert "w-mig-vision" not in str(show(house, ANYBODY, "/fleet", f"?{DAY}&project=p-speech").page)
    assert "How devices are shared" not in str(show(house, ANYBODY, "/fleet", f"?{DAY}&queue=no-such").page)
    assert "Others" not in str(show(house, ANYBODY, "/fleet", f"?{DAY}&pool=research").page)


def test_a_removed_device_of_the_period_is_said_apart(house: Store) -> None:
    """As found: 101 GPUs beside a capacity of 100."""
    filters = filters_of(house, f"?{DAY}")
    devices = fleet.devices_of(house, filters, fleet.last_instant(filters))
    assert "removed" not in str(fleet._headline(devices, filters, EN))
    gone = [{**devices[0], "state": "removed"}, *devices[1:]]
    assert "1 removed by the end of the period" in str(fleet._headline(gone, filters, EN))


def test_every_measure_of_the_heat_map_draws_unknown_as_unknown(house: Store) -> None:
    for measure in MEASURES:
        text = str(show(house, ANYBODY, "/fleet", f"?{DAY}&by={measure.key}").page)
        assert ("gl-cell gl-unknown'" in text) or measure.key in ("used", "held", "errors", "price")


def test_a_tenant_sees_its_own_and_no_fleet(house: Store) -> None:
    who = Principal("v", frozenset({Role.tenant}), frozenset({"vision"}))
    with Stores(house).scoped_to(who) as store:
        for path in ("/", "/tenants", "/workloads"):
            shown = show(store, who, path, MONTH)
            text = str(shown.page) + str(shown.bar)
            assert "vision" in text
            assert "speech" not in text
        assert "You don't have access to this page" in str(show(store, who, "/fleet", MONTH).page)
        assert "'/fleet" not in str(shown.navigation)
        assert "Neither the events nor the books" in str(
            show(store, who, "/workloads", f"{MONTH}&workload=w-speech").page
        )


def test_the_calendar_speaks_the_page_s_language(house: Store) -> None:
    """As found: Mo Tu We above Chinese months."""
    chinese, english = (str(show(house, ANYBODY, "/", f"{MONTH}&lang={code}").bar) for code in ("zh", "en"))
    assert "'--gl-day-1': '\"一\"'" in chinese and "monthsListFormat='M月'" in chinese
    assert "'--gl-day-7': '\"Su\"'" in english


@pytest.mark.usefixtures("anybody")
def test_a_workload_shows_its_isolation_with_its_price_and_what_that_may_promise(house: Store) -> None:
    ways = [("w-mig-vision", ""), ("w-vision", ""), ("w-mig-vision", "&lang=zh")]
    part, whole, chinese = (
        str(show(house, ANYBODY, "/workloads", f"{MONTH}&workload={one}{more}").page) for one, more in ways
    )
    assert "Td(children='partition'" in part and "Td(children='exclusive'" not in part
    assert EN("isolation.partitioned_may") in part and EN("isolation.exclusive_may") not in part
    assert "Td(children='exclusive'" in whole and EN("isolation.exclusive_may") in whole
    assert language("zh")("isolation.partitioned_may") in chinese


def test_where_the_period_before_is_not_known_the_newest_weeks_are_offered(house: Store) -> None:
    whole = str(show(house, ANYBODY, "/changes", "?period=2026-10-20..2026-10-22").page)
    partly = str(show(house, ANYBODY, "/changes", MONTH).page)
    assert "Last 7 days with the 7 before" not in whole
    assert partly.count("Last 7 days with the 7 before") == 1


def test_the_figures_of_a_workload_say_until_when_they_are_if_it_ran_on(house: Store) -> None:
    """As found: "Ran 39 min" at $2.65 an hour beside "Cost $0.50", which was of the closed hour alone."""
    filters = filters_of(house, "?period=2026-10")
    closed = filters.months[-1].last + timedelta(hours=1)
    found = lifecycle_of(house, filters, "w-vision")
    assert found is not None
    began = closed - timedelta(minutes=12)
    for ends, said in ((closed + timedelta(minutes=27), 3), (closed, 0), (None, 0)):
        claims = [{**found.claims[0], "start_at": began, "end_at": ends}]
        one = replace(found, claims=claims, start_at=began, until=ends or closed, window=(began, ends or closed))
        figures = [Figure("cost", "$0.50", "", "billed $0.50")] * 3
        shown = workload._of_closed_hours(figures, one, filters, EN)
        assert sum("billed $0.50 · until " in figure.detail for figure in shown) == said
