"""Whether a workload may wait is seen in its events; the page of one that does not asks nothing of the present."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from access.principal import ANYBODY
from billing.insights.now import Moment, moment
from dashboards.filters import filters_of
from dashboards.frame import show
from dashboards.languages import language
from dashboards.pages import workload as page
from dashboards.pages.workload import waits
from dashboards.pages.workload.lifecycle import MOST_EVENTS, Lifecycle
from tests.dashboards.pages.conftest import DAY
from warehouse.store import Store

pytestmark = pytest.mark.usefixtures("anybody")

AT = datetime(2026, 10, 2, 12, tzinfo=UTC)


def lifecycle(*events: tuple[int, str, str], clusters: tuple[str, ...] = ("c",)) -> Lifecycle:
    """Of (hour of the day, event, allocation)."""
    rows = [
        {"ts": AT.replace(hour=hour), "event": event, "allocation_id": allocation, "clusters": list(clusters)}
        for hour, event, allocation in events
    ]
    return Lifecycle("w", [], rows, AT, AT, None)


@pytest.mark.parametrize(
    ("events", "may"),
    [
        ([(1, "submitted", "a")], True),
        ([(1, "submitted", "a"), (2, "started", "a")], False),
        ([(1, "submitted", "a"), (2, "cancelled", "a")], False),
        ([(1, "submitted", "a"), (2, "preempted", "a")], True),
        ([(1, "submitted", "a"), (2, "started", "a"), (3, "submitted", "b")], True),
        ([(1, "submitted", "a"), (13, "started", "a")], True),
        ([(13, "submitted", "a")], False),
        ([(1, "started", "a")], False),
        ([], False),
        ([(1, "finished", "a")] * MOST_EVENTS, True),
    ],
)
def test_a_workload_may_wait_while_an_allocation_was_only_submitted(
    events: list[tuple[int, str, str]], may: bool
) -> None:
    assert lifecycle(*events).may_wait(AT) is may


def test_an_allocation_of_two_clusters_is_asked_about() -> None:
    assert lifecycle((1, "submitted", "a"), (2, "started", "a"), clusters=("c", "d")).may_wait(AT)


def test_a_job_is_submitted_once_and_waits_still_after_that() -> None:
    """As found: three events that all said "submitted"."""
    events = lifecycle(
        (1, "submitted", "a"), (2, "submitted", "b"), (3, "submitted", "a"), (4, "started", "a"), (5, "preempted", "a"),
        (6, "submitted", "a"), (7, "submitted", "a"),
    ).events  # fmt: skip
    said = ["submitted", "submitted", "still waiting", "started", "preempted", "submitted", "still waiting"]
    assert page._event_names(events, language("en")) == said


def test_of_a_job_that_runs_in_no_closed_hour_stands_what_it_holds(
    house: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As found: "It started at ...; its hours are not closed yet", and nothing else, though Now had all of it."""
    at = AT.replace(minute=7)
    monkeypatch.setattr(page, "clock", lambda: at)
    (device,) = house.rows("SELECT cluster, node, device_id FROM devices WHERE units > 0 ORDER BY device_id LIMIT 1")
    house.command(
        "INSERT INTO events (ts, cluster, source, allocation_id, workload_id, event, tenant, project, queue, gpus, "
        "node, device_id) VALUES ({at:DateTime64(3, 'UTC')}, {cluster:String}, 's', 'r-now', 'w-now', 'started', "
        "'vision', 'p1', 'main', 1, {node:String}, {device_id:String})",
        {"at": at, **device},
    )
    try:
        text = str(show(house, ANYBODY, "/workloads", f"?{DAY}&workload=w-now").page)
        assert "Its hours are not closed yet; these figures are of this moment." in text
        assert "Cost per hour" in text and "Used, 5 min" in text
        assert f"/now?{DAY}&tenant=vision&project=p1" in text and f"/tenants?{DAY}&tenant=vision" in text
        monkeypatch.setattr(page, "clock", lambda: datetime(2027, 1, 1, tzinfo=UTC))
        late = str(show(house, ANYBODY, "/workloads", f"?{DAY}&workload=w-now").page)
        assert "It started at" in late and "Cost per hour" not in late, "nobody knows what it holds by now"
    finally:
        house.command("DELETE FROM events WHERE allocation_id = 'r-now'")


def test_of_a_job_that_began_after_the_last_closed_hour_nothing_says_that_it_held_nothing(house: Store) -> None:
    """As found: "It had no allocation in this period. Show the time it ran", of a job that ran."""
    at = datetime(2026, 11, 1, 0, 48, tzinfo=UTC)  # the last close, until then, knows of a claim that begins later
    house.command(
        "INSERT INTO allocations (claim, cluster, source, allocation_id, workload_id, tenant, project, queue, node, "
        "device_id, units, start_at) VALUES (999, 'c1', 's', 'r-later', 'w-later', 'vision', 'p1', 'main', 'n1', "
        "'GPU-a', 1, {at:DateTime64(3, 'UTC')})",
        {"at": at},
    )
    try:
        for search in (DAY, "period=2026-10"):
            text = str(show(house, ANYBODY, "/workloads", f"?{search}&workload=w-later").page)
            assert "It started at 1 Nov, 00:48; its hours are not closed yet." in text
            assert "no allocation in this period" not in text and "Show the time it ran" not in text
    finally:
        house.command("DELETE FROM allocations WHERE allocation_id = 'r-later'")


def test_how_long_a_job_ran_says_since_when_where_that_was_before_the_period(house: Store) -> None:
    """As found: "Ran 38.9 d" on a page about one month."""
    claim = {"start_at": AT, "end_at": AT.replace(day=4), "cluster": "c", "device_id": "d", "partition_id": "",
             "units": 1, "device_units": 1}  # fmt: skip
    ran = Lifecycle("w", [claim], [], AT, AT.replace(day=4), None)
    said = {day: page._ran_on(ran, filters_of(house, f"?period=2026-10-0{day}"), language("en")) for day in (2, 3)}
    assert said == {2: "on 1 GPU", 3: "on 1 GPU · since 2 Oct, 12:00"}
    runs = replace(ran, claims=[{**claim, "end_at": None}])
    on = page._ran_on(runs, filters_of(house, "?period=2026-10-03"), language("en"))
    assert on == "on 1 GPU · 2 Oct, 12:00 – 4 Oct, 12:00", "one range, and not since and until"


def test_only_of_a_workload_that_may_wait_the_present_is_asked(house: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def noted(store: Store, clock: datetime) -> Moment | None:
        asked.append("now")
        return moment(store, clock)

    monkeypatch.setattr(waits, "moment", noted)
    monkeypatch.setattr(page, "clock", lambda: AT.replace(hour=13))
    for workload, waiting in (("w-vision", False), ("w2-vision", True)):
        asked.clear()
        shown = str(show(house, ANYBODY, "/workloads", f"?{DAY}&workload={workload}").page)
        assert (bool(asked), "wait-holders" in shown) == (waiting, waiting)
        assert "Link(children='vision'" in shown and "Link(children='p-vision'" in shown, "whose it is"
