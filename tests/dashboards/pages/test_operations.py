"""The pages of those who run the fleet: alerts, queues, objectives. Their numbers against SQL; each in a browser."""

from __future__ import annotations

import re
import threading
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from access.current import set_current
from access.principal import ANYBODY, Principal
from access.roles import Role
from access.scope import Stores
from access.settings import AccessSettings
from alerts.silences import silences
from api.reach import Reach
from dashboards.app import DashboardSettings, build_app
from dashboards.data_version import UNCACHED, AnswerCache, DataVersion
from dashboards.filters import filters_of
from dashboards.format import requested_gpus
from dashboards.frame import show
from dashboards.languages import language
from dashboards.pages import alerts, queues, slo
from dashboards.pages.alerts import linked, silencing
from dashboards.pages.alerts.active import active_card, ranked, why
from dashboards.pages.overview import activity
from dashboards.pages.slo import interference
from dashboards.said import held_back
from tests.alerts.receivers import http_receiver
from tests.dashboards import site
from tests.dashboards.browser import MARKS, tab
from tests.dashboards.pages.conftest import DAY
from tests.dashboards.pages.operated import operate
from tests.dashboards.site import running
from tests.draws import seldom
from tests.patience import PATIENCE_SECONDS
from warehouse.errors import LedgerError
from warehouse.store import Store

pytestmark = pytest.mark.usefixtures("anybody")

EN = language("en")
MONTH = "?period=2026-10"
TENANT = Principal("v", frozenset({Role.tenant}), frozenset({"vision"}))


@pytest.fixture(scope="module")
def house(house: Store) -> Store:
    operate(house)
    return house


def test_objectives_stand_as_their_points_say(house: Store) -> None:
    reported = house.rows("SELECT tenant, sum(good) AS good, sum(bad) AS bad FROM slo_series GROUP BY tenant")
    found = slo.series_of(house, filters_of(house, f"?{DAY}"))
    assert {(one.tenant, one.good, one.bad) for one in found} == {
        (row["tenant"], row["good"], row["bad"]) for row in reported
    }
    assert {(one.tenant, one.bad, one.sli, one.state) for one in found} == {
        ("vision", 2, 0.0, "missed"),
        ("speech", 2, 0.0, "missed"),
    }
    assert [slo.percent_left(one.budget_left) for one in found] == ["−900%", "−900%"]
    assert {one.tenant for one in slo.series_of(house, filters_of(house, f"?{DAY}&tenant=vision"))} == {"vision"}


def test_objectives_that_the_filters_leave_out_are_not_said_to_be_absent(house: Store) -> None:
    text = str(slo.layout(house, filters_of(house, f"?{DAY}&tenant=nobody"), EN))
    assert "No objective in force covers these tenants and clusters" in text
    assert "slo apply" not in text
    everything = filters_of(house, f"?{DAY}")
    assert "slo apply" in str(slo._objectives([], everything, EN)), "where there are none"
    set_current(TENANT)
    assert "slo apply" not in str(slo._objectives([], everything, EN)), "a tenant cannot apply any"


@pytest.mark.parametrize("code", ["en", "zh"])
def test_objectives_keep_their_target_on_a_tablet_and_drop_what_is_beside_it(house: Store, code: str) -> None:
    """As found: a column of dashes stood there and no target, in English all as cards. 820 px leave a table 730."""
    filters = filters_of(house, f"?{DAY}")
    found = [
        replace(one, objective="interactive-wait", subject="research", shared_part=0.25, owner="research-platform")
        for one in slo.series_of(house, filters)
    ]
    columns = slo._table(found, filters, language(code)).columnDefs
    rank = {column["field"]: column.get("context", {}).get("spare", 99) for column in columns}
    assert rank["shared"] < rank["burn_3d"] < rank["burning"] < rank["target"]
    needed = [column["minWidth"] for column in columns if rank[column["field"]] >= rank["target"]]
    assert sum(needed) <= 730


def test_interference_is_an_episode_with_a_victim_that_leads_to_its_workload(house: Store) -> None:
    text = str(interference.interference_part(house, filters_of(house, f"?{DAY}"), EN))
    assert "/workloads?period=2026-10-02&workload=w-vision" in text
    assert "'lost': 0.0583" in text  # 7 minutes at half the speed
    assert "'verdict': 'suspected'" in text  # it came once: nothing is shown
    assert "w-vision" not in str(interference.interference_part(house, filters_of(house, f"?{DAY}&tenant=speech"), EN))
    text = str(interference.interference_part(house, filters_of(house, "?period=2026-10-20"), EN))
    assert "unknown, not free of interference" in text


def test_interference_says_of_which_days_it_is(house: Store) -> None:
    """As found: a week's on a month's page, beside a column in which no row had anything."""
    week = str(interference.interference_part(house, filters_of(house, "?period=2026-09-30..2026-10-08"), EN))
    assert "last 7 days of the period: 1\\xa0Oct" in week
    day = str(interference.interference_part(house, filters_of(house, f"?{DAY}"), EN))
    assert "last 7 days" not in day
    assert "Channels" not in day and "Mean slowdown" in day


def test_interference_is_ranked_once_until_an_hour_is_measured_anew(house: Store) -> None:
    memory = AnswerCache()

    def shown(search: str = f"?{DAY}") -> str:
        return str(
            interference.interference_part(house, filters_of(house, search, DataVersion.of(house, None, memory)), EN)
        )

    first = shown()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(interference, "episodes", lambda *_: pytest.fail("it is cached"))
        assert shown() == first
        assert "w-vision" not in shown(f"?{DAY}&tenant=speech"), "whatever is chosen"
    house.command("INSERT INTO interference_hours (hour, run) VALUES ('2026-10-02 05:00:00', 7)")
    try:
        assert "w-vision" in first and "w-vision" not in shown(), "the newer run found nothing"
    finally:
        house.command("DELETE FROM interference_hours WHERE run = 7")
    assert shown() == first


def test_objectives_of_a_tenant_are_its_own(house: Store) -> None:
    with Stores(house).scoped_to(TENANT) as store:
        page = str(show(store, TENANT, "/objectives", f"?{DAY}").page)
    assert "main-wait" in page
    assert "vision" in page and "speech" not in page


def by_queue(store: Store, search: str) -> queues.Rows:
    filters = filters_of(store, search)
    assert filters.period is not None
    return queues.by_queue(store, filters, {"queue_wait"}, filters.period.end)


def test_queues_say_what_the_view_of_waits_says(house: Store) -> None:
    (row,) = by_queue(house, MONTH)
    (reported,) = house.rows(
        "SELECT countIf(started_at IS NOT NULL) AS started, countIf(started_at IS NULL) AS waiting, "
        "quantileExactIf(0.95)(wait_seconds, started_at IS NOT NULL) AS p95 FROM v_queue_wait WHERE queue = 'main'"
    )
    assert (
        (row["started"], row["waiting"], row["p95"])
        == (reported["started"], reported["waiting"], reported["p95"])
        == (2, 2, 600)
    )
    assert (row["waiting_gpus"], row["waiting_unsized"], row["bound"], row["late"]) == (16, 0, 300, 4)
    assert "4 of 4 jobs with a target waited longer" in str(show(house, ANYBODY, "/queues", f"?{MONTH}").page)
    (mine,) = by_queue(house, f"{MONTH}&tenant=vision")
    assert (mine["waiting"], mine["started"]) == (1, 1)


def test_reasons_are_the_scheduler_s_last_ones_or_the_events(house: Store) -> None:
    def of(search: str) -> dict[str, dict[str, int]]:
        filters = filters_of(house, search)
        reported = filters.rows(house, queues.__file__, "scheduler")
        return queues.reasons(by_queue(house, search), reported, filters)

    assert of(f"?{DAY}") == {"main": {"WaitingForQuota": 5, "Priority": 2}}
    assert of(f"?{DAY}&tenant=vision") == {"main": {"": 1}}
    assert of("?period=2026-10-03") == {"main": {"": 2}}


def test_preemptions_are_who_by_whom_and_unknown_where_nobody_says(house: Store) -> None:
    rows = queues.preemptions(house, filters_of(house, MONTH))
    found = {(row["victim"], row["by"]): (row["taken"], row["named"]) for row in rows}
    assert found == {("speech", "vision"): (1, 1), ("speech", None): (1, 0), ("vision", None): (1, 0)}


def test_the_place_of_a_preempted_job_goes_to_the_next_on_any_of_its_devices_within_five_minutes(house: Store) -> None:
    """Each row: a device, the job on it, its tenant, and its minutes of 2026-10-03 10:00; the first of each cluster is
    preempted at minute 10."""
    placed = {
        "next": [("g1", "lost", "a", 0, 10), ("g1", "late", "c", 14, 40), ("g1", "next", "b", 12, 40)],
        "other device": [("g1", "lost", "a", 0, 10), ("g2", "lost", "a", 0, 10), ("g1", "c", "c", 13, 40),
                         ("g2", "b", "b", 11, 40)],
        "elsewhere": [("g1", "lost", "a", 0, 10), ("g2", "b", "b", 11, 40)],
        "too late": [("g1", "lost", "a", 0, 10), ("g1", "b", "b", 15, 40)],
        "itself": [("g1", "lost", "a", 0, 10), ("g1", "lost", "a", 11, 40)],
        "just then": [("g1", "lost", "a", 0, 10), ("g1", "b", "b", 10, 40)],
        "left before": [("g1", "lost", "a", 0, 9), ("g1", "b", "b", 11, 40)],
    }  # fmt: skip
    with house.scratch() as store:
        for cluster, jobs in placed.items():
            for number, (device, job, tenant, start, end) in enumerate(jobs):
                store.command(
                    "INSERT INTO allocations (claim, cluster, allocation_id, workload_id, tenant, device_id, start_at, "
                    f"end_at) VALUES (cityHash64('{cluster}', {number}), '{cluster}', '{job}', '{job}', '{tenant}', "
                    f"'{device}', '2026-10-03 10:{start:02}:00', '2026-10-03 10:{end:02}:00')"
                )
            store.command(
                "INSERT INTO events (ts, cluster, allocation_id, workload_id, event, tenant) VALUES "
                f"('2026-10-03 10:10:00', '{cluster}', 'lost', 'lost', 'preempted', '{cluster}')"
            )
        filters = replace(filters_of(house, MONTH), data_version=UNCACHED)
        found = {row["victim"]: row["by"] for row in queues.preemptions(store, filters)}
    assert found == {"next": "b", "other device": "b", "elsewhere": None, "too late": None, "itself": None,
                     "just then": "b", "left before": None}  # fmt: skip


def test_what_no_scheduler_told_is_unknown_not_zero(house: Store) -> None:
    text = str(show(house, ANYBODY, "/queues", f"?{DAY}").page)
    assert "62.5%" in text
    assert "gpuledger-quota-2026-10-02.csv" in text
    assert "0.625" in text, "in full, in the file"
    assert "queues-fragmentation" in text
    text = str(show(house, ANYBODY, "/queues", "?period=2026-10-03").page)
    assert "no scheduler reported guarantees" in text
    assert "no scheduler reported this" in text
    assert "no scheduler reported any in this period" in text


def test_a_queue_s_page_has_nothing_that_is_not_the_queue_s(house: Store) -> None:
    """As found: on the page of a queue for H100s stood quotas and free GPUs of A100s."""
    whole, queue, tenant = (
        str(show(house, ANYBODY, "/queues", f"?{DAY}{chosen}").page) for chosen in ("", "&queue=main", "&tenant=vision")
    )
    assert "queues-fragmentation" in whole and "gpuledger-quota" in whole
    assert "queues-fragmentation" not in queue and "gpuledger-quota" not in queue and "Quotas" not in queue
    assert "queues-fragmentation" not in tenant and "gpuledger-quota" in tenant


def test_why_one_job_waits_stands_beside_it_alone(house: Store) -> None:
    """As found: a chart with one bar, above a table that says as much."""
    rows = [{"queue": "main", "reasons": ["Priority"], "jobs": [2]}]
    assert queues._why_card(rows, [], "", filters_of(house, f"?{DAY}"), EN) is not None
    assert queues._why_card([{**rows[0], "jobs": [1]}], [], "", filters_of(house, f"?{DAY}"), EN) is None


def test_a_tenant_sees_its_own_queues_and_quota(house: Store) -> None:
    set_current(TENANT)
    with Stores(house).scoped_to(TENANT) as store:
        text = str(show(store, TENANT, "/queues", f"?{DAY}").page)
    assert "62.5%" in text
    assert "speech" not in text
    assert "WaitingForQuota" not in text
    assert "queues-fragmentation" not in text


def test_alerts_stand_with_their_evidence_and_what_is_proposed(house: Store) -> None:
    filters = filters_of(house, MONTH)
    found = alerts.active(house, filters, datetime.now(UTC))
    assert len(found) == house.value("SELECT count() AS n FROM alerts WHERE state IN ('firing', 'pending')") >= 3
    assert found[0]["severity"] == "critical"
    text = str(show(house, ANYBODY, "/alerts", MONTH).page)
    text += str([why(one, filters, True, EN) for one in found])
    since = EN.moment(filters.local(datetime(2026, 10, 2, 13, tzinfo=UTC)))
    for said in ("Free or add capacity", "The oldest job in a queue", "platform", "no route to host", "/workloads?"):
        assert said in text
    assert f"children='{since}', title='{since}'" in text, "the evidence's instant, in the books' zone"
    (queue,) = (one for one in found if one["rule"] == "long-queue")
    assert queue["fingerprint"] in str(show(house, ANYBODY, "/alerts", MONTH).page)
    assert queue["fingerprint"] not in str(show(house, ANYBODY, "/alerts", f"{MONTH}&tenant=vision").page)
    assert "no longer firing" in str(why(None, filters, True, EN))


@pytest.mark.usefixtures("anybody")
def test_a_link_to_an_alert_that_is_over_says_so(house: Store) -> None:
    """As found: a notification's link, opened after the alert had resolved, led to a list of others."""
    gone, there = (str(show(house, ANYBODY, "/alerts", f"?{DAY}&alert={name}").page) for name in ("gone", ""))
    assert "no history of it is kept" in gone and "The linked alert" not in there
    set_current(TENANT)
    with Stores(house).scoped_to(TENANT) as store:
        own = str(show(store, TENANT, "/alerts", f"?{DAY}&alert=f2").page)
    assert "or you may not see it" in own, "as found: told that an alert which fires is over"


def test_of_an_alert_that_is_over_a_link_says_since_when_and_leads_to_its_history(
    house: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As found: "see the history below", which was of another month."""
    filters = filters_of(house, "?period=2026-10-02&tenant=vision&alert=f9")

    def said(fired: datetime | None, resolved: datetime | None) -> str:
        last = {
            "rule": "overheating",
            "fingerprint": "f9",
            "state": "resolved",
            "fired_at": fired,
            "resolved_at": resolved,
        }
        monkeypatch.setattr(linked, "history", lambda *_, **__: [last])
        return str(linked.linked_note(house, [], filters, EN))

    resolved = datetime(2026, 10, 1, 9, 30, tzinfo=UTC)
    text = said(datetime(2026, 10, 1, 9, tzinfo=UTC), resolved)
    assert f"(overheating) is no longer active: it was resolved on {EN.dated(filters.local(resolved))}." in text
    assert "/alerts?period=2026-10&rule=overheating&alert=f9" in text
    assert "href" not in said(datetime(2026, 8, 1, tzinfo=UTC), resolved), "of a month that no page shows"
    assert "(overheating) is no longer active." in said(None, None)


def test_a_link_to_an_alert_that_filters_leave_out_does_not_say_that_it_is_over(house: Store) -> None:
    (queue,) = (one for one in alerts.active(house, filters_of(house, MONTH), datetime.now(UTC))
                if one["rule"] == "long-queue")  # fmt: skip
    text = str(show(house, ANYBODY, "/alerts", f"{MONTH}&tenant=vision&alert={queue['fingerprint']}").page)
    assert "is active, but the filters leave it out" in text
    assert f"rule=long-queue&alert={queue['fingerprint']}" in text


def test_suppressed_alerts_come_after_others_as_severe() -> None:
    found = [
        {"fingerprint": name, "state": state, "severity": severity, "held_back": why}
        for name, state, severity, why in (
            ("quiet", "firing", "warning", "silenced by x (y)"), ("loud", "firing", "warning", ""),
            ("info", "firing", "info", ""), ("pending", "pending", "critical", ""),
        )
    ]  # fmt: skip
    assert [one["fingerprint"] for one in ranked(found, "")] == ["loud", "quiet", "info", "pending"]
    assert ranked(found, "info")[0]["fingerprint"] == "info"


def test_more_alerts_than_are_listed_are_said_with_why_they_are_suppressed(house: Store) -> None:
    """As found: "and 36 more" below ten visible rows of 96, and "1 silence" as the cause of 55 suppressed ones."""
    (one,) = (one for one in alerts.active(house, filters_of(house, MONTH), site.NOW) if one["rule"] == "long-queue")
    reasons = ["inhibited by slo-burning"] * 69 + ["silenced by x (y)"]
    many = [{**one, "fingerprint": f"f{at}", "held_back": why} for at, why in enumerate(reasons)]
    card = str(active_card(many, filters_of(house, MONTH), site.NOW, True, True, EN))
    assert "The first 60 of 70 are listed" in card and "Show {n} of 70" in card
    assert "69 inhibited by other alerts; 1 silenced" in str(alerts._headline(many, 1, [], True, EN))
    tile = "firing now, 70 of them suppressed"  # as the overview leaves them out; as found they seemed to differ
    assert tile in str(alerts._headline(many, None, [], True, EN))
    assert "of them suppressed" not in str(alerts._headline([{**one, "held_back": ""}], 1, [], True, EN))
    assert "Show all {n}" in str(active_card(many[:60], filters_of(house, MONTH), site.NOW, True, True, EN))


def test_the_overview_leaves_out_what_is_suppressed(house: Store) -> None:
    """As found: of six alerts on the overview two were inhibited by the first, and named the same notebook again."""
    row = {"severity": "critical", "fingerprint": "f2"}
    found = [row, *({"severity": "critical", "fingerprint": f"g{at}"} for at in range(6)),
             {"severity": "info", "fingerprint": "i"}]  # fmt: skip
    filters = filters_of(house, MONTH)
    set_current(ANYBODY)
    assert activity._sent(house, filters, found) == found
    silencing.add(house, filters, EN, "alertname=long-queue", "1h", "maintenance")
    try:
        assert activity._sent(house, filters, found) == found[1:]
        assert activity._sent(house, filters, [row, row]) == [row, row], (
            "where all are suppressed they fire all the same"
        )
        card = str(activity.alerts_card(house, filters, EN))
        assert " warning" in card and "critical" not in card, "what is counted is what is listed"
        assert "1 suppressed, not listed." in card
    finally:
        silencing.end(house, filters, EN, silences(house, datetime.now(UTC))[0].id)


def test_a_tenant_is_told_that_its_own_alert_is_suppressed(house: Store) -> None:
    """As found: who does not see silences read an alert as sent that one holds back."""
    filters, stores = filters_of(house, MONTH), Stores(house)
    silencing.add(house, filters, EN, "tenant=vision", "1h", "maintenance")
    try:
        set_current(TENANT)
        with stores.scoped_to(TENANT) as store:
            own = alerts.active(store, filters_of(store, MONTH, whole=stores.unscoped), datetime.now(UTC))
            text = str(show(store, TENANT, "/alerts", MONTH, whole=stores.unscoped).page)
            sent = str(show(store, TENANT, "/", MONTH, whole=stores.unscoped).page)
        assert {one["labels"]["tenant"] for one in own} == {"vision"}
        assert all("maintenance" in one["held_back"] for one in own)
        assert "maintenance" in text and "speech" not in text + sent
    finally:
        set_current(ANYBODY)
        silencing.end(house, filters, EN, silences(house, datetime.now(UTC))[0].id)


def test_an_alert_on_an_idle_holder_leads_to_where_it_is_reclaimed(house: Store) -> None:
    filters = filters_of(house, MONTH)
    active = alerts.active(house, filters, site.NOW)
    for one in active:
        one["labels"]["workload_id"] = "w-vision"
    found = {one["rule"]: str(why(one, filters, True, EN)) for one in active}
    assert "/now?period=2026-10&idle=1&job=w-vision" in found["idle-holder"]
    assert "/now?" not in found["long-queue"]


@pytest.mark.parametrize(
    ("left", "most", "label"),
    [
        ((-1.32, -0.03), 8, 42),
        ((-1.32, 0.4), 112, 42),
        ((0.2, 0.9), 112, 0),
        ((-4.84, -1.35), 8, 60),
        ((-4.84, 0.4), 112, 60),
    ],
)
def test_the_label_of_an_overspent_budget_has_room_beside_its_name_on_a_phone(
    left: tuple[float, ...], most: float, label: float
) -> None:
    """As found: "-132%", and later "-484% ◄", stood on the objective's name. Of a plot of 150 px, a label takes 42,
    with its arrow 60."""
    known: Any = [
        SimpleNamespace(objective="o", tenant="t", subject="", sli=0.5, target=0.9, budget_left=one) for one in left
    ]
    low, high = slo.budgets(known, EN)["layout"]["xaxis"]["range"]
    assert high == most
    shown = max(min(left), slo.MOST_OVERDRAWN)
    assert low == 0 if shown > 0 else (100 * shown - low) / (high - low) * 150 >= label


def test_a_bar_that_is_cut_says_that_it_goes_on() -> None:
    """As found: a bar of -255% ended at the line of -200%, beside one of -141% that was drawn to scale."""
    known: Any = [
        SimpleNamespace(objective="o", tenant="t", subject="", sli=0.5, target=0.9, budget_left=one)
        for one in (-2.55, -2.0, -1.41, 0.3)
    ]
    (bars,) = slo.budgets(known, EN)["data"]
    assert list(bars["x"])[::-1] == [-200, -200, -141, 30]
    assert list(bars["text"])[::-1] == ["−255% ◄", "−200%", "−141%", "30%"]


def test_the_history_of_alerts_is_of_the_period(house: Store) -> None:
    filters = filters_of(house, f"?{DAY}")
    rows = filters.rows(house, alerts.__file__, "fired", rule="", most=10, with_evidence=0)
    steps = filters.rows(house, alerts.__file__, "fired_over_time", rule="", grain="hour")
    assert [row["rule"] for row in rows] == ["long-queue"]
    assert sum(row["fired"] for row in steps) == rows[0]["in_all"] == 1
    assert "No alerts started firing" in str(show(house, ANYBODY, "/alerts", "?period=2026-10-05").page)


def test_days_on_which_no_rule_was_evaluated_are_unknown_in_the_history(house: Store) -> None:
    """As found: three weeks before the first run looked like three weeks without an alert."""
    house.command(
        "INSERT INTO alert_runs (run, evaluated_until, evaluations) VALUES "
        "(91, '2026-10-02 13:00:00', 1), (92, '2026-10-03 13:00:00', 1), (93, '2026-10-20 13:00:00', 1)"
    )
    try:
        filters = filters_of(house, MONTH)
        spans = alerts.not_evaluated(house, filters, "day")
        hours = alerts.not_evaluated(house, filters_of(house, f"?{DAY}"), "hour")
        steps = filters.rows(house, alerts.__file__, "fired_over_time", rule="", grain="day")
        chart = alerts.fired_over_time(steps, spans, filters, "day", EN)
    finally:
        house.command("DELETE FROM alert_runs WHERE run > 90")
    days = [tuple(f"{filters.local(at):%m-%d}" for at in span) for span in spans]
    assert days == [("10-01", "10-02"), ("10-04", "10-18"), ("10-21", "11-01")], "a run looks back two days"
    ((start, end),) = hours
    assert (start, end) == (filters_of(house, f"?{DAY}").params()["start"], datetime(2026, 10, 2, 13, tzinfo=UTC))
    assert len(chart["layout"]["shapes"]) == len(spans)
    assert [one["name"] for one in chart["data"]] == ["Critical", "No rules evaluated"]


def test_alerts_are_shown_in_the_readers_language(house: Store) -> None:
    for path in ("/alerts", "/"):
        english, chinese = (str(show(house, ANYBODY, path, f"?{DAY}{lang}").page) for lang in ("", "&lang=zh"))
        assert "in queue" in english and "has waited" in english
        assert "个排队作业中最久的已等待" in chinese and "has waited" not in chinese, path


def test_the_percentile_of_a_queue_alone_has_its_median_below() -> None:
    """As found: nothing, beside six figures that say what they are of."""
    row = {"queue": "train", "waiting": 0, "waiting_gpus": None, "waiting_unsized": 0, "started": 2,
           "oldest_seconds": None, "p50": 60, "p95": 3600, "late": None, "judged": None}  # fmt: skip
    assert "median 1 min" in str(queues._headline([row], [], "now", EN)).replace("\\xa0", " ")
    two = str(queues._headline([row, {**row, "queue": "ci", "p95": 0}], [], "now", EN))
    assert "slowest: train" in two and "median" not in two


def test_jobs_of_unknown_size_are_counted(house: Store) -> None:
    house.command(
        "INSERT INTO events (ts, cluster, allocation_id, workload_id, event, tenant, project, queue, node, device_id) "
        "VALUES ('2026-10-02 12:00:00', 'c1', 'unsized', 'unsized', 'submitted', 'vision', '', 'main', '', '')"
    )
    try:
        (row,) = by_queue(house, MONTH)
        (shown,) = filters_of(house, MONTH).rows(house, activity.__file__, "waits")
    finally:
        house.command("DELETE FROM events WHERE allocation_id = 'unsized'")
    for one in (row, shown):
        assert (one["waiting"], one["waiting_gpus"], one["waiting_unsized"]) == (3, 16, 1)


def test_gpus_that_nobody_says_are_not_none() -> None:
    """As found: two jobs waited for 0.25 GPUs, of which one does not say for how many it waits."""
    row = {"queue": "interactive", "waiting": 2, "waiting_gpus": 0.25, "waiting_unsized": 1, "started": 0,
           "oldest_seconds": 60, "p95": None, "late": None, "judged": None}  # fmt: skip
    assert "and 1 waiting job of unknown size" in str(queues._headline([row], [], "now", EN))
    assert "by waiting jobs'" in str(queues._headline([{**row, "waiting_unsized": 0}], [], "now", EN))
    waits = ((2, 0.25, 1), (2, 0.5, 0), (2, None, 2), (0, None, 0))
    assert [requested_gpus(*one) for one in waits] == ["≥\u00a00.25", "0.5", "–", "0"]


def test_a_silence_is_added_and_ended_by_those_who_may(house: Store) -> None:
    filters = filters_of(house, MONTH)
    _, said = silencing.add(house, filters, EN, "", "1h", "maintenance")
    assert "everything" in str(said)
    assert "Say why" in str(silencing.add(house, filters, EN, "queue=main", "1h", " ")[1])
    shown, said = silencing.add(house, filters, EN, "alertname=long-queue, queue=main|train-*", "1d", "maintenance")
    (one,) = silences(house, datetime.now(UTC))
    assert one.matchers == {"alertname": ("long-queue",), "queue": ("main", "train-*")}
    assert one.author == ANYBODY.name
    assert timedelta(hours=23) < one.ends_at - datetime.now(UTC) <= timedelta(days=1)
    assert one.id in str(shown)
    assert "matches 1 active alert" in str(said)
    mistyped = silencing.add(house, filters, EN, "tenent=vision", "1h", "maintenance")[1]
    assert "matches no active alert" in str(mistyped), "as found: `Silence added.`"
    shown, said = silencing.add(house, filters, EN, "alertname=x, tenant=", "1h", "maintenance")
    assert "tenant= (no tenant)" in str(shown) and "tenant= stands for alerts without that label" in str(said)
    (nobody,) = (each for each in silences(house, datetime.now(UTC)) if "tenant" in each.matchers)
    silencing.end(house, filters, EN, nobody.id)
    (other,) = (each for each in silences(house, datetime.now(UTC)) if each.id != one.id)
    silencing.end(house, filters, EN, other.id)
    unsaid = silencing.listed([replace(one, reason="")], filters, datetime.now(UTC), True, EN)
    assert f"{ANYBODY.name}: Acknowledged" in str(unsaid), "as found: a colon, and nothing after it"
    set_current(Principal("ann", frozenset({Role.analyst})))
    assert "may not do this" in str(silencing.add(house, filters, EN, "queue=main", "1h", "because")[1])
    assert "silence-add" not in str(show(house, ANYBODY, "/alerts", MONTH).page)
    set_current(ANYBODY)
    silencing.end(house, filters, EN, one.id)
    assert silences(house, datetime.now(UTC)) == []


def test_what_a_silence_of_an_alert_begins_with_fits_that_alert_alone() -> None:
    text = silencing.matchers_text({"alertname": "gpu-lost", "node": "n[1]", "severity": "critical"})
    assert silencing.parsed(text) == {"alertname": ("gpu-lost",), "node": ("n[[]1]",)}
    with pytest.raises(LedgerError, match="second matcher of its label"):
        silencing.parsed("node=n1, node=n2")


@pytest.mark.parametrize(
    ("why", "english", "chinese"),
    [
        ("acknowledged by ada at 2026-10-02T06:10:30Z", "acknowledged by ada, 2 Oct, 06:10",
         "已由 ada 于 10月2日\u00a006:10 确认"),
        ("acknowledged by anybody on this machine at 2026-10-02T06:10:30Z: look: at 7",
         "acknowledged by anybody on this machine, 2 Oct, 06:10: look: at 7",
         "已由本机用户（未登录）于 10月2日\u00a006:10 确认：look: at 7"),
        ("silenced by 4711 (ada: a move)", "silenced by 4711 (ada: a move)", "被 4711 静默（ada: a move）"),
    ],
)  # fmt: skip
def test_why_nobody_is_notified_is_said_with_who_and_since_when(
    house: Store, why: str, english: str, chinese: str
) -> None:
    filters = filters_of(house, f"?{DAY}")
    assert [held_back(why, filters, language(code)) for code in ("en", "zh")] == [english, chinese]


def test_a_tenant_sees_its_own_alerts_and_no_silences(house: Store) -> None:
    set_current(TENANT)
    with Stores(house).scoped_to(TENANT) as store:
        text = str(show(store, TENANT, "/alerts", MONTH).page)
    assert "vision holds an idle GPU" in text
    assert "long-queue" not in text
    assert "speech" not in text
    assert "alerts-silences" not in text


class TestInTheBrowser:
    pytestmark = MARKS

    @seldom(6, "an alert is silenced and the silence")
    def test_an_alert_is_silenced_and_the_silence_ended(self, url: str, opened: Any) -> None:
        from playwright.sync_api import expect

        with tab(opened, color_scheme="light") as (page, wrong):
            page.goto(f"{url}/alerts?{DAY}")
            page.locator(".gl-alerts summary", has_text="long-queue").click()
            expect(page.locator(".gl-alerts details[open] .gl-alert-links")).to_be_visible()
            page.wait_for_function("new URLSearchParams(location.search).has('alert')")
            page.reload()
            opened_one = page.locator(".gl-alerts details[open]", has_text="long-queue")
            expect(opened_one.locator(".gl-alert-links")).to_be_visible()
            opened_one.locator("> summary").click()
            page.wait_for_function("!new URLSearchParams(location.search).has('alert')")
            page.locator(".gl-alerts summary", has_text="long-queue").click()
            page.locator(".gl-alerts details[open] .gl-alert-quiet").click()
            expect(page.locator("#silence-matchers")).to_have_value("alertname=long-queue, cluster=c1, queue=main")
            page.locator("#silence-reason").click()
            expect(page.locator("#silence-reason")).to_have_attribute("maxlength", "10000")
            page.locator("#silence-reason").fill("being moved")
            page.locator("#silence-add").click()
            expect(page.locator("#alerts-silences")).to_contain_text("being moved")
            page.locator("#alerts-silences button").click()
            expect(page.locator("#alerts-silences")).to_contain_text("No silences.")
            assert wrong == []

    @seldom(6, "an alert is acknowledged on a phone")
    def test_an_alert_is_acknowledged_on_a_phone_and_who_cannot_be_told_is_said(self, url: str, opened: Any) -> None:
        from axe_playwright_python.sync_playwright import Axe
        from playwright.sync_api import expect

        with tab(opened, viewport={"width": 390, "height": 800}) as (page, wrong):
            page.goto(f"{url}/alerts?{DAY}&alert=f2&lang=zh")  # as a notification links to it: open
            expect(page.locator(".gl-alerts details[open] > summary").first).to_contain_text("long-queue")
            page.get_by_role("button", name="通知负责人").click()
            expect(page.locator(".gl-acts .gl-refused")).to_contain_text(
                re.compile("^按目前.*被拒绝。.* has no receiver")
            )
            assert page.evaluate("document.documentElement.scrollWidth") <= 390
            assert [one["nodes"][0]["html"][:200] for one in Axe().run(page, ".gl-alerts").response["violations"]] == []
            page.get_by_role("button", name="确认（4 小时）").click()
            expect(page.locator(".gl-alerts details[open] > summary .gl-badge")).to_have_text("已确认")
            assert [one for one in wrong if "409" not in one] == []

    @seldom(6, "an alert is acknowledged from two browsers, and its owner told by a double click")
    def test_a_second_acknowledgement_says_whose_was_first_and_a_double_click_tells_once(
        self, house: Store, tmp_path: Path, opened: Any
    ) -> None:
        from playwright.sync_api import expect

        routing = tmp_path / "routing.yaml"
        with http_receiver() as chat:
            (tmp_path / "chat").write_text(chat.url)
            routing.write_text(
                f"receivers: {{chat: {{webhook: {{url: {{file: {tmp_path}/chat}}}}}}}}\n"
                "routes: [{receivers: [chat]}]\n"
            )
            app = build_app(house, DashboardSettings(access=AccessSettings(), reach=Reach(routing)))
            with running(app) as url, tab(opened) as (first, wrong), tab(opened) as (second, _):
                for page in (first, second):
                    page.goto(f"{url}/alerts?{DAY}&alert=f1&lang=zh")
                    expect(page.get_by_role("button", name="确认（4 小时）")).to_be_visible()
                first.get_by_role("button", name="确认（4 小时）").click()
                reasons = first.locator(".gl-alerts details[open] .gl-reasons")
                expect(reasons).to_contain_text(re.compile("已由本机用户（未登录）于 .+ 确认"))
                at = re.search("于 (.+) 确认", reasons.text_content() or "")
                second.get_by_role("button", name="确认（4 小时）").click()
                said = second.locator(".gl-acts .gl-said").first
                expect(said).to_contain_text(f"本机用户（未登录）已于 {at and at[1]} 确认")
                second.get_by_label("给负责人的附言").fill("x" * 1001)
                second.get_by_role("button", name="通知负责人").click()
                expect(second.locator(".gl-acts .gl-said").last).to_contain_text("note: String should have at most")
                expect(second.locator(".gl-acts .gl-said").last).not_to_contain_text("body.")
                second.reload()
                second.get_by_label("给负责人的附言").fill("please")
                tell = second.get_by_role("button", name="通知负责人")
                chat.together = threading.Barrier(2)
                tell.dblclick()
                expect(second.locator(".gl-acts .gl-said").last).to_have_text("正在处理…")
                chat.together.wait(PATIENCE_SECONDS)
                chat.together = None
                expect(second.locator(".gl-acts .gl-said").last).to_have_text("已通知：chat/webhook")
                tell.click(force=True)  # the second one of a double click, after the first one's answer
                second.wait_for_timeout(500)
                expect(second.locator(".gl-acts .gl-said").last).to_have_text("已通知：chat/webhook", timeout=1)
                assert len(chat.documents()) == 1
                assert wrong == []


def test_one_rule_s_page_has_its_notifications_alone(house: Store) -> None:
    """As found: 3 alerts of the rule, and below them 35 with 38 messages."""
    filters = filters_of(house, f"?{DAY}")
    told = {rule: filters.rows(house, alerts.__file__, "deliveries", rule=rule) for rule in ("", "long-queue", "other")}
    assert told[""] == told["long-queue"] and len(told[""]) == 2 and told["other"] == []
    text = str(show(house, ANYBODY, "/alerts", f"?{DAY}&rule=other").page)
    assert "No notifications in this period" in text and "of all rules; matching alerts" in text
    assert "chat/slack" in str(show(house, ANYBODY, "/alerts", f"?{DAY}&rule=long-queue").page)


def test_a_job_that_still_waits_within_the_target_is_not_judged(house: Store) -> None:
    """As found: 30 of 117 jobs with a target beside 116 that had started."""
    filters = filters_of(house, MONTH)
    (row,) = queues.by_queue(house, filters, {"queue_wait"}, datetime(2026, 10, 2, 12, 4, tzinfo=UTC))
    assert (row["started"], row["waiting"], row["bound"]) == (2, 2, 300)
    assert (row["late"], row["judged"]) == (2, 2)
    (row,) = queues.by_queue(house, filters, {"queue_wait"}, datetime(2026, 10, 2, 12, 6, tzinfo=UTC))
    assert (row["late"], row["judged"]) == (4, 4), "over it, it counts while it waits"
