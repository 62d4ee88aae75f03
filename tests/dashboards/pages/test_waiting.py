"""Who waits and why: every job, by rank, with what its scheduler says; on the page of queues and on the job's own."""

from __future__ import annotations

import json
import random
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, cast

import pytest

from access.current import set_current
from access.principal import ANYBODY, Principal
from access.roles import Role
from access.scope import Stores
from access.settings import AccessSettings
from billing.close import close
from billing.insights.now import asking, moment, reported, wanted
from dashboards.filters import filters_of
from dashboards.format import duration
from dashboards.frame import show
from dashboards.languages import language
from dashboards.pages import queues
from dashboards.pages.queues.longest import longest, longest_card
from dashboards.pages.queues.waiters import expected, known_until, waiters_card, waiting
from dashboards.pages.workload.waits import reason_text, wait_cards, waits_of
from gpuledger.client import ApiError, Client
from gpuledger.mcp import tools
from tests.dashboards.browser import MARKS, picture, tab
from tests.dashboards.site import NOW, serving
from tests.draws import dice_of, keep_seed, seldom
from warehouse.store import Store

pytestmark = pytest.mark.usefixtures("anybody")

EN = language("en")
TENANT = Principal("v", frozenset({Role.tenant}), frozenset({"vision"}))
AT = datetime(2026, 10, 2, 12, tzinfo=UTC)
DAY = "period=2026-10-02"
ENDS = ("started", "finished", "failed", "cancelled", "rejected")
PENDING = "0/4 nodes are available: 3 Insufficient nvidia.com/gpu, 1 node was unschedulable."
INTERVAL = {
    "sequence": 7,
    "text": "8 GPUs, 3 free",
    "expected_interval": ["2026-10-03T01:00:00Z", "2026-10-03T04:30:00Z"],
}


@pytest.fixture(scope="module")
def jobs() -> list[dict[str, Any]]:
    """Drawn: some wait, some started or gave up, some were told again with a reason."""
    draw = random.Random(keep_seed())
    ends = [None, *ENDS, *(draw.choice((None, None, *ENDS)) for _ in range(34))]
    return [
        {
            "name": f"d{number}",
            "queue": draw.choice(("train", "batch")),
            "tenant": draw.choice(("vision", "speech")),
            "priority": draw.choice((None, 0, 5, -3)),
            "since": AT - timedelta(minutes=draw.randint(1, 3000)),
            "end": end,
            "again": number == 0 or draw.random() < 0.5,
        }
        for number, end in enumerate(ends)
    ]


@pytest.fixture(scope="module")
def house(house: Store, jobs: Sequence[dict[str, Any]]) -> Store:
    rows = []

    def add(job: dict[str, Any], event: str, at: datetime, reason: str = "", message: str = "") -> None:
        priority = "NULL" if job["priority"] is None else job["priority"]
        rows.append(f"('{at:%F %T}', 'q', 's', '{job['name']}', 'w-{job['name']}', '{event}', '{job['tenant']}', 'p', "
                    f"'{job['queue']}', {priority}, 8, '{reason}', '{message}')")  # fmt: skip

    for job in jobs:
        add(job, "submitted", job["since"])
        if job["again"]:
            add(job, "submitted", job["since"] + timedelta(seconds=30), "Unschedulable", PENDING)
        if job["end"]:
            add(job, job["end"], job["since"] + timedelta(seconds=50))
    one = {"name": "reported", "queue": "alone", "tenant": "vision", "priority": 1, "since": AT}
    add(one, "submitted", AT)
    add(one, "submitted", AT + timedelta(minutes=1), "InsufficientCapacity", json.dumps(INTERVAL))
    columns = (
        "ts, cluster, source, allocation_id, workload_id, event, tenant, project, queue, priority, gpus, reason, "
        "message"
    )
    house.command(f"INSERT INTO events ({columns}) VALUES {', '.join(rows)}")
    return house


def test_every_job_that_waits_is_listed_by_rank(house: Store, jobs: Sequence[dict[str, Any]]) -> None:
    rows = waiting(house, filters_of(house, f"?{DAY}&cluster=q"))
    line = sorted(
        (job for job in jobs if not job["end"]),
        key=lambda job: (job["queue"], -(job["priority"] or 0), job["since"], job["name"]),
    )
    drawn = [row for row in rows if row["queue"] != "alone"]
    assert [row["allocation_id"] for row in drawn] == [job["name"] for job in line]
    for queue in ("train", "batch"):
        places = [(row["rank"], row["queued"]) for row in drawn if row["queue"] == queue]
        assert places == [(number, len(places)) for number in range(1, len(places) + 1)]
    for row, job in zip(drawn, line, strict=True):
        assert row["since"] == job["since"]
        assert (row["reason"], row["message"]) == (("Unschedulable", PENDING) if job["again"] else ("", ""))
    text = str(show(house, ANYBODY, "/queues", f"?{DAY}&cluster=q").page)
    assert all(f"w-{job['name']}'" in text for job in line)
    chinese = str(show(house, ANYBODY, "/queues", f"?{DAY}&lang=zh").page)
    assert "'reason': '容量不足'" in chinese and "'reason': 'InsufficientCapacity'" not in chinese


@pytest.mark.parametrize("search", ["", "&tenant=vision", "&queue=train", "&tenant=speech&queue=batch&queue=train"])
def test_the_list_has_as_many_as_the_queues_count(house: Store, search: str) -> None:
    filters = filters_of(house, f"?{DAY}{search}")
    found = queues.by_queue(house, filters, (), known_until(house, filters))
    counted = {row["queue"]: row["waiting"] for row in found if row["waiting"]}
    listed: dict[str, int] = {}
    for row in waiting(house, filters):
        listed[row["queue"]] = listed.get(row["queue"], 0) + 1
    assert listed == counted


def test_nobody_has_waited_longer_than_facts_reach(house: Store, jobs: Sequence[dict[str, Any]]) -> None:
    """In a period that goes on: to the newest fact, not to the period's end."""
    now = moment(house, datetime.now(UTC))
    assert now is not None
    newest, search = now.after, "?period=2026-10-01..2027-08-01&cluster=q"
    filters = filters_of(house, search)
    assert filters.period is not None
    assert newest < filters.period.end - timedelta(days=1)
    for row in waiting(house, filters):
        assert 0 <= row["waited_seconds"] <= (newest - row["since"]).total_seconds() + 0.001
    longest = max(row["waited_seconds"] for row in waiting(house, filters))
    counted = queues.by_queue(house, filters, (), known_until(house, filters))
    assert max(row["oldest_seconds"] for row in counted if row["waiting"]) == pytest.approx(longest, abs=0.01)
    shown = str(show(house, ANYBODY, "/queues", search).page).replace("\\xa0", " ")
    assert f"'{duration(longest, language('en'))}'" in shown


def test_a_period_that_goes_on_says_as_of_when_jobs_wait(house: Store) -> None:
    """As found: at the end of a period that had a day to go, of a job submitted after its last closed hour."""
    over = str(show(house, ANYBODY, "/queues", f"?{DAY}&cluster=q").page)
    assert "at the end of the period" in over and "as of" not in over
    search = "?period=2026-10-01..2027-08-01&cluster=q"
    filters = filters_of(house, search)
    at = EN.moment(filters.local(known_until(house, filters)))
    open_still = str(show(house, ANYBODY, "/queues", search).page).replace("\\xa0", " ")
    assert "at the end of the period" not in open_still
    assert f"as of {at}" in open_still and f"every job waiting as of {at}, by queue" in open_still


def test_a_filter_does_not_move_anybody_up(house: Store) -> None:
    ranks = {row["allocation_id"]: row["rank"] for row in waiting(house, filters_of(house, f"?{DAY}"))}
    mine = waiting(house, filters_of(house, f"?{DAY}&tenant=vision"))
    assert mine
    assert all(row["rank"] == ranks[row["allocation_id"]] for row in mine)


def test_a_tenant_sees_its_own_and_its_place_among_them(house: Store) -> None:
    set_current(TENANT)
    with Stores(house).scoped_to(TENANT) as store:
        rows = waiting(store, filters_of(store, f"?{DAY}&queue=train"))
        text = str(show(store, TENANT, "/queues", f"?{DAY}").page)
    assert {row["tenant"] for row in rows} <= {"vision"}
    assert [row["rank"] for row in rows] == list(range(1, len(rows) + 1))
    assert "speech" not in text


def test_what_a_scheduler_expects_is_an_interval(house: Store) -> None:
    filters = filters_of(house, f"?{DAY}")
    (row,) = waiting(house, filters, workload="w-reported")
    assert reported(row).text == "8 GPUs, 3 free"
    began, ends = (datetime.fromisoformat(at) for at in cast("list[str]", INTERVAL["expected_interval"]))
    instant = timedelta(milliseconds=1)
    assert expected(row, began - instant, filters, EN) == "3 Oct, 01:00 – 04:30"
    assert {expected(row, at, filters, EN) for at in (began, ends - instant)} == {"by 3 Oct, 04:30"}
    assert expected(row, ends, filters, EN) == "overdue since 3 Oct, 04:30"
    for message in ("", "{", "[]", '{"expected_interval": null}', '{"expected_interval": ["a", "b"]}',
                    '{"expected_interval": ["2026-10-03T01:00:00", "2026-10-03T02:00:00"]}'):  # fmt: skip
        assert expected({**row, "message": message}, AT, filters, EN) == ""
    for message in ("", " ", "8", "null", "text", "[1]", '{"text"', "[" * 100_000, '{"text":' * 100_000):
        assert reported({**row, "message": message}).text == message


@pytest.mark.parametrize("text", ["0 of 14 nodes fit: 11 outside pool a100; ", "14 个节点中 0 个合适；"])
def test_a_long_reason_unfolds(text: str) -> None:
    """As found: one took half of the card on a tablet."""
    assert reason_text(text).to_plotly_json()["type"] == "P"
    folded = reason_text(text * 40).to_plotly_json()
    assert folded["type"] == "Details"
    assert text * 40 in str(folded), "all of it"


def test_an_expected_start_that_is_past_is_overdue_on_every_page(house: Store) -> None:
    """The page of queues is about the end of its period; the one of a workload about the newest facts."""
    end = datetime(2026, 10, 4, tzinfo=UTC)
    filters = filters_of(house, "?period=2026-10-03")
    card = waiters_card(waiting(house, filters, at=end), end, filters, EN)
    (row,) = (one for one in grid_rows(card, "queues-waiters") if one["name"] == "w-reported")
    assert (row["expected_text"], row["expected"]) == (
        "overdue since 3 Oct, 04:30", "/".join(cast("list[str]", INTERVAL["expected_interval"]))
    )  # fmt: skip
    (wait,) = waits_of(house, filters, "w-reported", AT + timedelta(hours=1))
    assert "announced" not in str(wait_cards(wait, filters, EN))
    late = str(wait_cards(replace(wait, at=end), filters, EN)).replace("\\xa0", " ")
    assert "overdue since 3 Oct, 04:30" in late and "announced: 3 Oct, 01:00 – 04:30" in late
    begun = {**wait.row, "reported_at": datetime(2026, 10, 3, 1, tzinfo=UTC)}
    late = str(wait_cards(replace(wait, at=end, row=begun), filters, EN)).replace("\\xa0", " ")
    assert "overdue since 3 Oct, 04:30" in late and "announced" not in late, "nobody announces what has begun"


def test_what_no_scheduler_tells_of_any_waiting_job_has_no_column(house: Store) -> None:
    """As found: an empty column of details took a quarter of the table."""
    filters = filters_of(house, "?period=2026-10-03")
    rows = waiting(house, filters, at=datetime(2026, 10, 4, tzinfo=UTC))
    untold = [row for row in rows if not row["message"]]
    assert 0 < len(untold) < len(rows)

    def fields(shown: Sequence[Mapping[str, Any]]) -> set[str]:
        card = waiters_card(shown, datetime(2026, 10, 4, tzinfo=UTC), filters, EN)
        return {column["field"] for column in grid_named(card, "queues-waiters").columnDefs}

    assert fields(rows) - fields(untold) == {"details", "expected"}


def test_a_workload_that_waits_says_why_and_who_has_what_it_waits_for(house: Store) -> None:
    """Jobs of `main` were placed on GPU-a and GPU-b of pool `train`, and on GPU-m of `research`."""
    at = datetime(2026, 10, 2, 12, 30, tzinfo=UTC)
    filters = filters_of(house, f"?{DAY}")
    (wait,) = waits_of(house, filters, "w2-vision", at)
    assert (wait.row["waited_seconds"], wait.row["gpus"]) == (pytest.approx(1800, abs=0.01), 8)
    assert {pool["pool"]: (pool["devices"], pool["free"]) for pool in wait.pools} == {
        "train": (3, 1),
        "research": (1, 0),
    }
    assert {row["workload_id"] for row in wait.holders} == {"w-vision", "w-speech", "w-mig-vision", "w-mig-speech"}
    text = str(wait_cards(wait, filters, EN))
    assert "Unknown: its scheduler reported no reason." in text
    assert "/workloads?period=2026-10-02&workload=w-speech" in text
    row = {**wait.row, "reason": "WaitingForQuota"}
    by_quota = replace(wait, row=row, holders=wanted(house, partial(asking, house), row, wait.at, 10).holders)
    (table,) = (card for card in wait_cards(by_quota, filters, EN) if "wait-holders" in str(card))
    assert [row["tenant"] for row in grid_rows(table, "wait-holders")] == ["vision"] * 2 + ["speech"] * 2
    assert "first those of vision" in str(table)
    (wait,) = waits_of(house, filters_of(house, f"?{DAY}&tenant=speech"), "w-reported", at)
    assert wait.pools == wait.holders == []
    text = str(wait_cards(wait, filters, EN)).replace("\\xa0", " ")
    for said in ("InsufficientCapacity", "8 GPUs, 3 free", "3 Oct, 01:00 – 04:30", "1 of 1", "no job of this queue"):
        assert said in text
    assert waits_of(house, filters, "w-vision", at) == [], "it runs"


@pytest.mark.parametrize(
    ("asked", "pools", "holders"),
    [
        ({"models": ["A100"]}, {("pool-x", "A100")}, set()),
        ({"pool": "train"}, {("train", "H100")}, {"w-vision", "w-speech"}),
        ({"models": ["H100", "A100"], "pool": "research"}, {("research", "H100")}, {"w-mig-vision", "w-mig-speech"}),
        ({"models": ["A100"], "pool": "research"}, set(), set()),
        ({"models": "A100", "pool": 3}, {("train", "H100"), ("research", "H100")}, None),
    ],
)
def test_who_has_what_it_waits_for_has_what_it_asks_for(
    house: Store, asked: dict[str, Any], pools: set[tuple[str, str]], holders: set[str] | None
) -> None:
    """Before, the holders of every model on which its queue had placed a job."""
    at = datetime(2026, 10, 2, 12, 30, tzinfo=UTC)
    name = "asks-" + "-".join(f"{key}-{value}" for key, value in asked.items())
    message = json.dumps({"sequence": 1, **asked, "text": "8 GPUs, 3 free"})
    house.command(
        "INSERT INTO devices (ts, cluster, node, device_id, vendor, model, units, pool, state) VALUES "
        "('2026-10-01 00:00:00', 'c1', 'n3', 'GPU-x', 'NVIDIA', 'A100', 1, 'pool-x', 'available')"
    )
    house.command(
        "INSERT INTO events (ts, cluster, source, allocation_id, workload_id, event, tenant, queue, gpus, message) "
        "VALUES ({at:String}, 'c1', 's', {name:String}, {name:String}, 'submitted', 'vision', 'main', 8, "
        "{message:String})",
        {"at": "2026-10-02 12:00:00", "name": name, "message": message},
    )
    try:
        (wait,) = waits_of(house, filters_of(house, f"?{DAY}&tenant=vision"), name, at)
        text = str(wait_cards(wait, filters_of(house, f"?{DAY}"), EN))
        set_current(TENANT)
        with Stores(house).scoped_to(TENANT) as store:
            (own,) = waits_of(store, filters_of(store, f"?{DAY}"), name, at)
            theirs = str(wait_cards(own, filters_of(store, f"?{DAY}"), EN))
    finally:
        house.command("DELETE FROM events WHERE allocation_id = {name:String}", {"name": name})
        house.command("DELETE FROM devices WHERE device_id = 'GPU-x'")
    assert {(pool["pool"], pool["model"]) for pool in wait.pools} == pools
    assert {(pool["pool"], pool["model"]) for pool in own.pools} == pools - {("pool-x", "A100")}
    assert "pool-x" not in theirs, "a pool in which nothing of the tenant ever was"
    assert "No available device" not in theirs
    if holders is None:
        assert "where jobs of its queue were placed" in text
        return
    assert {row["workload_id"] for row in wait.holders} == holders
    assert "what it asks for" in text
    assert ("No available device is what it asks for." in text) == (not pools)


def test_a_tenant_is_told_nothing_of_others_that_hold_what_it_waits_for(house: Store) -> None:
    set_current(TENANT)
    at = datetime(2026, 10, 2, 12, 30, tzinfo=UTC)
    with Stores(house).scoped_to(TENANT) as store:
        filters = filters_of(store, f"?{DAY}")
        (wait,) = waits_of(store, filters, "w2-vision", at)
        assert waits_of(store, filters, "w2-speech", at) == []
        text = str(wait_cards(wait, filters, EN))
    assert {(pool["devices"], pool["free"]) for pool in wait.pools} == {(None, None)}
    assert "speech" not in text
    assert "w-vision" in text


def test_the_page_of_a_job_that_waits_is_its_wait_with_all_reasons(
    house: Store, jobs: Sequence[dict[str, Any]]
) -> None:
    """By the clock, weeks later: what is known is what was told last."""
    job = next(job for job in jobs if job["again"] and not job["end"])
    text = str(show(house, ANYBODY, "/workloads", f"?{DAY}&workload=w-{job['name']}").page)
    assert "Why it waits" in text
    assert "no allocation" not in text
    assert "workload-timeline" not in text, "it has nothing to draw"
    assert text.count("3 Insufficient nvidia.com/gpu") == 1, "as it stands, not among the events once more"
    job = next(job for job in jobs if job["end"] in ("cancelled", "failed", "rejected", "finished"))
    text = str(show(house, ANYBODY, "/workloads", f"?{DAY}&workload=w-{job['name']}").page)
    assert "It was never allocated a GPU" in text
    assert "Why it waits" not in text
    job = next(job for job in jobs if job["end"] == "started")
    text = str(show(house, ANYBODY, "/workloads", f"?{DAY}&workload=w-{job['name']}").page)
    assert "its hours are not closed yet" in text


def waited_before(store: Store) -> None:
    """`w-late` waited from 02:00 until 08:00 for GPU-w, of which `w-early` had the first hours; it ran until 09:00."""
    day = "2026-10-02"
    store.command(
        "INSERT INTO devices (ts, cluster, node, device_id, vendor, model, units, pool, state) VALUES "
        f"('{day} 00:00:00', 'o', 'n1', 'GPU-w', 'NVIDIA', 'H100', 1, 'over', 'available')"
    )
    columns = (
        "ts, cluster, source, allocation_id, workload_id, event, tenant, project, queue, gpus, node, device_id, "
        "reason, message"
    )
    told = json.dumps({"text": "1 GPU, 0 free", "expected_interval": ["2026-10-02T07:30:00Z", "2026-10-02T08:30:00Z"]})
    rows = [
        (f"{day} 00:00:00", "early", "started", "speech", "'n1', 'GPU-w'", "", ""),
        (f"{day} 08:00:00", "early", "finished", "speech", "'', ''", "", ""),
        (f"{day} 02:00:00", "late", "submitted", "vision", "'', ''", "", ""),
        (f"{day} 02:00:00.100", "late", "submitted", "vision", "'', ''", "InsufficientCapacity", ""),
        (f"{day} 03:00:00", "late", "submitted", "vision", "'', ''", "InsufficientCapacity", ""),
        (f"{day} 06:00:00", "late", "submitted", "vision", "'', ''", "WaitingForQuota", told),
        (f"{day} 08:00:00", "late", "started", "vision", "'n1', 'GPU-w'", "", ""),
        (f"{day} 09:00:00", "late", "finished", "vision", "'', ''", "", ""),
    ]
    values = ", ".join(
        f"('{at}', 'o', 's', 'o-{name}', 'w-{name}', '{event}', '{tenant}', 'p', 'over', 1, {place}, '{reason}', "
        f"'{message}')"
        for at, name, event, tenant, place, reason, message in rows
    )
    store.command(f"INSERT INTO events ({columns}) VALUES {values}")
    close(store, until=datetime(2026, 11, 1, tzinfo=UTC), now=NOW)


@pytest.fixture(scope="module")
def over(house: Store) -> Store:
    waited_before(house)
    return house


def grid_named(shown: Any, name: str) -> Any:
    (found,) = (one for one in shown._traverse() if getattr(one, "id", "") == name)
    return found


def grid_rows(shown: Any, name: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = grid_named(shown, name).rowData
    return rows


def longest_waits(store: Store, search: str) -> Sequence[Mapping[str, Any]]:
    filters = filters_of(store, search)
    assert filters.period is not None
    end = filters.period.end
    return longest(store, filters, queues.by_queue(store, filters, (), end), end)


def test_the_longest_waits_of_each_queue_lead_to_their_workloads(over: Store) -> None:
    rows = longest_waits(over, f"?{DAY}")
    waits = [row["wait_seconds"] for row in rows]
    assert waits == sorted(waits, reverse=True)
    queued = [(row["cluster"], row["queue"]) for row in rows]
    assert max(queued.count(one) for one in queued) <= 3
    (late,) = (row for row in rows if row["queue"] == "over")
    assert (late["workload_id"], late["wait_seconds"], late["reason"]) == ("w-late", 6 * 3600, "WaitingForQuota")
    assert not any(row["started_at"] is None for row in rows)
    assert longest_waits(over, "?period=2026-10-03&queue=over") == []
    shown = grid_rows(show(over, ANYBODY, "/queues", f"?{DAY}").page, "queues-longest")
    assert f"/workloads?{DAY}&workload=w-late" in {row["href"] for row in shown}


def test_no_queue_is_missing_among_the_longest_waits(over: Store) -> None:
    """Its waits are shorter than three of each of seven others."""
    waits = [("brief", 1), *((f"slow-{number % 7}", 1 + number % 3) for number in range(21))]
    rows = [
        f"('2026-10-20 01:{at:02}:00', 'o', 's', 'q-{place}', 'wq-{place}', '{event}', 'speech', 'p', '{queue}', 1)"
        for place, (queue, minutes) in enumerate(waits)
        for event, at in (("submitted", 0), ("started", minutes))
    ]
    over.command(
        "INSERT INTO events (ts, cluster, source, allocation_id, workload_id, event, tenant, project, queue, gpus) "
        f"VALUES {', '.join(rows)}"
    )
    found = longest_waits(over, "?period=2026-10-20")
    assert len(found) == 22
    assert "brief" in {row["queue"] for row in found}


def test_the_page_of_a_wait_that_is_over_says_why_and_who_had_its_gpus(over: Store) -> None:
    page = show(over, ANYBODY, "/workloads", f"?{DAY}&workload=w-late").page
    told = [(row["reason"], round(row["lasted"]), row["expected"], row["details"]) for row in
            grid_rows(page, "waited-reasons")]  # fmt: skip
    assert told == [
        ("InsufficientCapacity", 4 * 3600, "", ""),
        ("WaitingForQuota", 2 * 3600, "2 Oct, 07:30 – 08:30", "1 GPU, 0 free"),
    ]
    (holder,) = grid_rows(page, "waited-holders")
    assert (holder["name"], holder["tenant"], holder["devices"]) == ("w-early", "speech", 1)
    (grid,) = (one for one in page._traverse() if getattr(one, "id", "") == "waited-holders")
    assert {column["field"]: column["headerName"] for column in grid.columnDefs}["devices"] == "Devices"
    assert holder["until"] == "2026-10-02T08:00:00Z"
    text = str(page)
    assert text.index("waited-reasons") < text.index("workload-timeline"), "it waited longer than it ran"
    assert "Why it waited" not in str(show(over, ANYBODY, "/workloads", f"?{DAY}&workload=w-early").page)


def test_a_tenant_is_not_told_who_else_had_what_it_waited_for(over: Store) -> None:
    set_current(TENANT)
    with Stores(over).scoped_to(TENANT) as store:
        text = str(show(store, TENANT, "/workloads", f"?{DAY}&workload=w-late").page)
    assert "whether others did is unknown" in text
    assert "w-early" not in text
    assert "speech" not in text


class TestInTheBrowser:
    pytestmark = MARKS

    def test_from_the_first_page_to_why_a_job_waited(self, url: str, over: Store, opened: Any) -> None:
        from playwright.sync_api import expect

        with tab(opened) as (page, wrong):
            page.goto(f"{url}/?{DAY}")
            page.locator(".gl-nav").get_by_role("link", name="Queues", exact=True).click()
            page.locator("#queues-longest").get_by_role("link", name="w-late").click()
            expect(page.locator("#waited-reasons")).to_contain_text("2 Oct, 07:30 – 08:30")
            expect(page.locator("#waited-holders")).to_contain_text("w-early")
            picture(page, "waited")
            assert wrong == []

    @seldom(6, "from a queue to why a job waits")
    def test_from_a_queue_to_why_a_job_waits_on_a_phone(self, url: str, opened: Any) -> None:
        from playwright.sync_api import expect

        with tab(opened, "dark", {"width": 390, "height": 844}) as (page, wrong):
            page.goto(f"{url}/queues?{DAY}&queue=alone")
            expect(page.locator("#queues-waiters")).to_contain_text("w-reported")
            assert page.evaluate("document.documentElement.scrollWidth") <= 390
            picture(page, "queues-phone")
            page.locator("#queues-waiters").get_by_role("link", name="w-reported").click()
            expect(page.locator("h1")).to_have_text("w-reported")
            expect(page.locator("#page")).to_contain_text("Why it waits")
            expect(page.locator("#page")).to_contain_text("8 GPUs, 3 free")
            expect(page.locator("#page")).to_contain_text("3 Oct, 01:00 – 04:30")
            assert page.evaluate("document.documentElement.scrollWidth") <= 390
            picture(page, "waiting-phone")
            assert wrong == []


def test_the_api_answers_what_the_page_shows(house: Store) -> None:
    with serving(house, AccessSettings()) as url, Client(url) as client:
        found, alone = client.waiting(), client.waiting(workload="w-reported")
    assert found.at is not None
    rows = waiting(house, filters_of(house, ""), at=found.at + timedelta(milliseconds=1))
    assert [(one.allocation_id, one.rank, one.queued, one.reason) for one in found.jobs] == [
        (row["allocation_id"], row["rank"], row["queued"], row["reason"]) for row in rows
    ]
    (job,) = alone.jobs
    assert (job.text, job.reason) == ("8 GPUs, 3 free", "InsufficientCapacity")
    assert [job.earliest_start, job.latest_start] == [
        datetime.fromisoformat(at) for at in cast("list[str]", INTERVAL["expected_interval"])
    ]
    assert job.start_is == reported(rows[[one["allocation_id"] for one in rows].index(job.allocation_id)]).due(found.at)


def test_the_api_and_the_assistant_name_the_holders_that_the_page_shows(
    house: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As found: the assistant named whoever held anything in the same queue."""
    clock = datetime(2026, 10, 2, 12, 30, tzinfo=UTC)
    monkeypatch.setattr("api.routes.now.moment", lambda store, _: moment(store, clock))
    with serving(house, AccessSettings()) as url, Client(url) as client:
        compared = 0
        for job in (one for one in client.waiting().jobs if one.queue in ("main", "alone")):
            (wait,) = waits_of(house, filters_of(house, ""), job.workload_id, clock)
            found = client.holders(job.allocation_id, job.cluster)
            assert [one.model_dump() for one in found.pools] == [
                {name: pool[name] for name in ("pool", "model", "devices", "free")} for pool in wait.pools
            ]
            shown = [row["allocation_id"] for row in wait.holders]
            assert [one.allocation_id for one in found.allocations] == shown
            told = tools.why_waiting(client, job.workload_id)
            named = [one["holds"]["allocation_id"] for one in told.evidence if "holds" in one]
            assert named == shown[: tools.HOLDERS]
            compared += bool(shown)
        with pytest.raises(ApiError, match="allocation '1': does not wait, or you don't have access to it"):
            client.holders("1")
    assert compared


def test_longest_waits_say_their_queue_unless_one_is_chosen(house: Store) -> None:
    """As found: three of each queue without saying which, and the same word in each row where one is chosen."""
    cards = [longest_card([], filters_of(house, f"?period=2026-10{of}"), EN) for of in ("", "&queue=main")]
    every, of_one = ({one["field"]: one for one in card.children[-1].columnDefs} for card in cards)
    assert "queue" in every and not every["queue"].get("initialHide")
    assert "queue" not in of_one


QUEUES = ("short", "long", "odd")


def reckoned(
    stories: Mapping[tuple[str, str], Sequence[tuple[float, str]]], end: float, bounds: Mapping[tuple[str, str], float]
) -> dict[str, dict[str, Any]]:
    """Of each queue, job by job: who waits at `end`, how long those that began from 0 on had waited, who is late, and
    the three longest waits of each cluster.   stories: of a cluster and a name that begins with its queue, what
    happened, in seconds; bounds: of a cluster and a queue, in seconds."""
    waiting: dict[str, list[float]] = defaultdict(list)
    began: dict[tuple[str, str], list[float]] = defaultdict(list)
    late: dict[str, int] = defaultdict(int)
    judged: dict[str, int] = defaultdict(int)
    for (cluster, name), story in stories.items():
        seen = [(at, event) for at, event in story if at < end]
        submitted = [at for at, event in seen if event == "submitted"]
        starts = [at for at, event in seen if event == "started"]
        over = any(event in ("finished", "failed", "cancelled", "rejected") for _, event in seen)
        if not submitted:
            continue
        queue = name.split("-")[0]
        bound = bounds.get((cluster, queue))
        if starts and min(starts) >= 0:
            began[queue, cluster].append(waited := min(starts) - min(submitted))
            judged[queue] += bound is not None
        elif starts or over:
            continue
        else:
            waiting[queue].append(waited := end - min(submitted))
            judged[queue] += bound is not None and waited > bound
        if bound is not None:
            late[queue] += waited > bound
    found = {}
    for queue in {*waiting, *(queue for queue, _ in began)}:
        waits = sorted(one for (of, _), some in began.items() if of == queue for one in some)
        found[queue] = {
            "waiting": len(waiting[queue]),
            "oldest_seconds": max(waiting[queue], default=None),
            "started": len(waits),
            "p50": waits[len(waits) // 2] if waits else None,
            "late": late.get(queue),
            "judged": judged[queue],
            "longest": sorted(
                one
                for (of, _), some in began.items()
                if of == queue
                for one in sorted(one for one in some if one >= 1)[-3:]
            ),
        }
    return found


def test_waits_by_queue_are_as_reckoned_job_by_job(house: Store) -> None:
    dice = dice_of(None)
    midnight = datetime(2026, 10, 21, tzinfo=UTC)
    stories: dict[tuple[str, str], list[tuple[float, str]]] = {}
    for number in range(150):
        at = dice.uniform(-86_400, 86_400)
        story = [(at, "submitted")] if dice.random() < 0.95 else []
        for event in ("started", "preempted", "submitted", "started", "finished"):
            at += dice.choice((0.4, 30, 3_000, 30_000)) * dice.random()
            if dice.random() < 0.5:
                story.append((at, event))
        if dice.random() < 0.2:
            story.append((at + 1, dice.choice(("cancelled", "failed", "rejected"))))
        name = f"{dice.choice(QUEUES)}-{number}"
        stories[f"rk{dice.randrange(2)}", name] = [(round(when, 3), event) for when, event in story]
    rows = [
        f"(fromUnixTimestamp64Milli({round(1000 * (midnight.timestamp() + at))}), '{cluster}', 's', '{name}', "
        f"'w-{name}', '{event}', 'speech', 'p', '{name.split('-')[0]}', 1)"
        for (cluster, name), story in stories.items()
        for at, event in story
    ]
    house.command(
        "INSERT INTO events (ts, cluster, source, allocation_id, workload_id, event, tenant, project, queue, gpus) "
        f"VALUES {', '.join(rows)}"
    )
    filters = filters_of(house, "?period=2026-10-21&cluster=rk0&cluster=rk1")
    assert filters.period is not None
    bounds = {(cluster, queue): 600.0 for cluster in ("rk0", "rk1") for queue in QUEUES if dice.random() < 0.5}
    given = {
        "bound_clusters": [cluster for cluster, _ in bounds],
        "bound_queues": [queue for _, queue in bounds],
        "bounds": list(bounds.values()),
    }
    for hours in (24, dice.randrange(1, 24)):
        end = midnight + timedelta(hours=hours)
        found = {row["queue"]: row for row in filters.rows(house, queues.__file__, "by_queue", end=end, **given)}
        expected_rows = reckoned(stories, hours * 3600, bounds)
        assert set(found) == set(expected_rows)
        for queue, one in expected_rows.items():
            waits = sorted(-waited / 1000 for waited, _ in found[queue]["longest"])
            told = {name: found[queue][name] for name in one if name != "longest"} | {"longest": waits}
            assert told == {name: pytest.approx(value) for name, value in one.items()}, queue
        shown = longest(house, filters, list(found.values()), end)
        assert sorted(row["wait_seconds"] for row in shown) == pytest.approx(
            sorted(wait for one in expected_rows.values() for wait in one["longest"])
        )
