"""Who holds what at this moment: random fleets against a reckoning by hand, whose rows these are, what is unknown."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
import yaml

from access.current import set_current
from access.principal import Principal
from access.roles import Role
from access.scope import Stores
from access.settings import AccessSettings
from billing.close import close
from billing.insights.now import isolation, moment
from billing.rates import apply_rate_card, parse_rate_card
from dashboards.filters import filters_of
from dashboards.languages import language
from dashboards.pages import now as page
from dashboards.pages.now.allocated import free, held
from gpuledger.client import Client
from gpuledger.documents import DIGITS, NowAllocation
from tests.dashboards.site import serving
from tests.draws import keep_seed
from tests.stores import fresh_store
from warehouse.isolation import OBJECTIVES
from warehouse.store import Store

pytestmark = pytest.mark.usefixtures("anybody")

EN, ZH = language("en"), language("zh")
TENANT = Principal("v", frozenset({Role.tenant}), frozenset({"vision"}))
AT = datetime(2026, 10, 5, 12, 34, tzinfo=UTC)
START = AT - timedelta(hours=9, minutes=34)
HOUR, MINUTE = timedelta(hours=1), timedelta(minutes=1)
CARD = """
currency: EUR
rates:
  - {sku: h100, match: {model: H100}, price_per_gpu_hour: "2.00"}
  - {sku: h100-vision, match: {model: H100, tenant: vision}, price_per_gpu_hour: "1.50"}
"""
EVENTS = (
    "ts, cluster, source, allocation_id, workload_id, event, tenant, project, queue, gpus, node, device_id, units, "
    "reason, message, priority"
)


@dataclass
class Drawn:
    """One allocation of a drawn fleet: its shares of devices, and when it held them."""

    name: str
    tenant: str
    devices: dict[str, int]
    since: datetime
    before: tuple[datetime, datetime] | None = None
    until: datetime | None = None


@dataclass
class Fleet:
    """units, model: of each device.   samples: (device, end, seconds, utilization)."""

    cluster: str
    units: dict[str, int] = field(default_factory=dict)
    model: dict[str, str] = field(default_factory=dict)
    jobs: list[Drawn] = field(default_factory=list)
    samples: list[tuple[str, datetime, int, float]] = field(default_factory=list)


def drawn(cluster: str, draw: random.Random) -> Fleet:
    fleet = Fleet(cluster)
    for number in range(5):
        name = f"{cluster}-{number}"
        fleet.units[name], fleet.model[name] = draw.choice((1, 1, 4)), draw.choice(("H100", "H100", "Odd"))
        idle_from = draw.random() * 600
        for minute in range(574):
            if draw.random() < 0.93 and not (number == 4 and minute > 200):
                used = 0.0 if minute > idle_from else draw.choice((0.0, 0.25, 0.9))
                fleet.samples.append((name, START + (minute + 1) * MINUTE, 60, used))
    free = dict(fleet.units)
    for number in range(6):
        wanted = [device for device, units in free.items() if units and draw.random() < 0.5][:2]
        if not wanted:
            continue
        shares = {device: free[device] if free[device] == 1 else draw.randint(1, free[device]) for device in wanted}
        since = START + draw.randint(1, 560) * MINUTE
        before = None
        if draw.random() < 0.3 and since - START > 90 * MINUTE:
            before = (since - 80 * MINUTE, since - 20 * MINUTE)
        ended = draw.random() < 0.25
        job = Drawn(f"{cluster}-a{number}", draw.choice(("vision", "speech")), shares, since, before)
        if ended:
            job.until = since + 10 * MINUTE
        for device, units in shares.items():
            free[device] -= units  # nobody else gets it, before or after: shares never overlap
        fleet.jobs.append(job)
    return fleet


def written(store: Store, fleet: Fleet) -> None:
    devices = [
        f"('{START:%F %T}', '{fleet.cluster}', 'n1', '{name}', 'NVIDIA', '{fleet.model[name]}', {units}, 'p', "
        "'available')"
        for name, units in fleet.units.items()
    ]
    store.command(
        "INSERT INTO devices (ts, cluster, node, device_id, vendor, model, units, pool, state) VALUES "
        + ", ".join(devices)
    )
    rows = []
    for job in fleet.jobs:
        reported = [("started", job.before[0] if job.before else job.since)]
        if job.before:
            reported += [("suspended", job.before[1]), ("resumed", job.since)]
        if job.until:
            reported.append(("finished", job.until))
        for event, at in reported:
            for device, units in job.devices.items() if event in ("started", "resumed") else [("", 0)]:
                place = f"'n1', '{device}', {units}" if device else "'', '', NULL"
                rows.append(f"('{at:%F %T}', '{fleet.cluster}', 's', '{job.name}', 'w-{job.name}', '{event}', "
                            f"'{job.tenant}', 'p-{job.tenant}', 'main', 1, {place}, '', '', NULL)")  # fmt: skip
    if rows:
        store.command(f"INSERT INTO events ({EVENTS}) VALUES {', '.join(rows)}")
    samples = ", ".join(
        f"('{at:%F %T}', {seconds}, '{fleet.cluster}', 'n1', '{device}', 'ok', {used})"
        for device, at, seconds, used in fleet.samples
    )
    store.command(
        f"INSERT INTO samples (ts, interval_seconds, cluster, node, device_id, state, utilization) VALUES {samples}"
    )


def reckoned(fleet: Fleet) -> dict[str, dict[str, Any]]:
    """What holds at AT, from what was drawn."""
    sharers: dict[str, int] = {}
    holding = [job for job in fleet.jobs if job.until is None]
    for job in holding:
        for device in job.devices:
            sharers[device] = sharers.get(device, 0) + 1
    found = {}
    for job in holding:
        row: dict[str, Any] = {"gpus": 0.0, "idle": 0.0, "since": job.since, "list_hour": Decimal(0)}
        sums = {5: [0.0, 0.0], 60: [0.0, 0.0]}
        for device, units in job.devices.items():
            share = units / fleet.units[device]
            row["gpus"] += share
            priced = fleet.model[device] == "H100"
            if row["list_hour"] is not None:
                row["list_hour"] = row["list_hour"] + Decimal("2.00") * units / fleet.units[device] if priced else None
            known = [one for one in fleet.samples if one[0] == device and sharers[device] == 1]
            for minutes, total in sums.items():
                first = max(job.since, AT - minutes * MINUTE)
                own = [one for one in known if first < one[1] <= AT]
                seconds = [(min((at - first).total_seconds(), length), used) for _, at, length, used in own]
                total[0] += sum(length * min(share, used) for length, used in seconds)
                total[1] += share * sum(length for length, _ in seconds)
                if minutes == 5 and own and max(one[3] for one in own) <= 0.01:
                    row["idle"] += share
        row["used_5"], row["used_60"] = (used / length if length else None for used, length in sums.values())
        found[job.name] = row
    return found


@pytest.fixture(scope="module")
def fleets() -> list[Fleet]:
    seed = keep_seed()
    return [drawn(f"c{number}", random.Random(f"{seed}-{number}")) for number in range(6)]


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory, fleets: Sequence[Fleet]) -> Iterator[Store]:
    with fresh_store(tmp_path_factory.mktemp("now") / "store") as store:
        apply_rate_card(store, parse_rate_card(yaml.safe_load(CARD), "card"), "test", "", AT)
        for fleet in fleets:
            written(store, fleet)
        special(store)
        close(store, until=AT.replace(minute=0), now=AT)
        yield store


def special(store: Store) -> None:
    """Cluster `x`: a GPU of each tenant that is shared by both, a node without a device, an end that nobody told, a
    device that is down, an allocation that fires."""
    devices = (("whole", 1, "available"), ("shared", 2, "available"), ("down", 1, "unavailable"))
    store.command(
        "INSERT INTO devices (ts, cluster, node, device_id, vendor, model, units, pool, state) VALUES "
        + ", ".join(f"('{START:%F %T}', 'x', 'n1', '{name}', 'NVIDIA', 'H100', {units}, 'p', '{state}')"
                    for name, units, state in devices)
    )  # fmt: skip
    held_by = (
        ("whole", "vision", "'n1', 'whole', NULL"),
        ("half", "vision", "'n1', 'shared', 1"),
        ("other", "speech", "'n1', 'shared', 1"),
        ("down", "speech", "'n1', 'down', NULL"),
        ("nodeless", "speech", "'n9', '', NULL"),
    )
    rows = ", ".join(
        f"('{START:%F %T}', 'x', 's', '{name}', 'w-{name}', 'started', '{tenant}', 'p-{tenant}', 'main', 3, {place}, "
        "'', '', NULL)"
        for name, tenant, place in held_by
    )
    store.command(f"INSERT INTO events ({EVENTS}) VALUES {rows}")
    store.command(
        "INSERT INTO samples (ts, interval_seconds, cluster, node, device_id, state, utilization) SELECT "
        f"toDateTime64('{START:%F %T}', 3, 'UTC') + INTERVAL number + 1 MINUTE, 60, 'x', 'n1', d, 'ok', d = 'shared' "
        "FROM (SELECT number, arrayJoin(['whole', 'shared']) AS d FROM numbers(574))"
    )
    labels = {"alertname": "idle-holder", "cluster": "x", "allocation_id": "whole", "tenant": "vision"}
    for rule, fingerprint in (("idle-holder", "f-first"), ("idle-holder-reclaim", "f-whole")):
        store.command(
            "INSERT INTO alert_transitions (run, rule, fingerprint, at, state, severity, active_at, fired_at, labels, "
            f"evidence, annotations) VALUES (1, '{rule}', '{fingerprint}', '{AT:%F %T}', 'firing', 'warning', "
            f"'{AT:%F %T}', '{AT:%F %T}', '{json.dumps(labels)}', '{{}}', '{{}}')"
        )
    store.command(f"INSERT INTO alert_runs (run, evaluated_until) VALUES (1, '{AT - MINUTE:%F %T}')")


def rows_at(store: Store, search: str = "", at: datetime = AT) -> dict[str, Mapping[str, Any]]:
    return {row["allocation_id"]: row for row in held(store, filters_of(store, search), at, 500)[0]}


Clusters = Mapping[str, dict[str, Mapping[str, Any]]]


@pytest.fixture(scope="module")
def clusters(house: Store, fleets: Sequence[Fleet]) -> Clusters:
    """What holds in each cluster, asked for it alone."""
    return {name: rows_at(house, f"?cluster={name}") for name in (*(fleet.cluster for fleet in fleets), "x")}


def test_what_holds_is_what_is_reckoned_by_hand(clusters: Clusters, fleets: Sequence[Fleet]) -> None:
    assert sum(bool(reckoned(fleet)) for fleet in fleets) > 2
    for fleet in fleets:
        rows = clusters[fleet.cluster]
        expected = reckoned(fleet)
        assert rows.keys() == expected.keys()
        for name, reported in expected.items():
            row = rows[name]
            assert row["since"] == reported["since"]
            assert row["gpus"] == pytest.approx(reported["gpus"])
            assert row["idle_gpus"] == pytest.approx(reported["idle"]), name
            assert row["used_5"] == (None if reported["used_5"] is None else pytest.approx(reported["used_5"])), name
            assert row["used_60"] == (None if reported["used_60"] is None else pytest.approx(reported["used_60"])), name
            assert row["list_hour"] == reported["list_hour"], name
        if rows:
            first = next(iter(rows.values()))
            assert first["all_gpus"] == pytest.approx(sum(row["gpus"] for row in expected.values()))
            assert first["all_idle_gpus"] == pytest.approx(sum(row["idle"] for row in expected.values()))
            known = [row["list_hour"] for row in expected.values() if row["list_hour"] is not None]
            assert (first["all_list_hour"] or 0) == sum(known)
            assert first["all_unpriced"] == len(expected) - len(known)


def test_what_nobody_has_is_what_is_left_of_each_device(house: Store, fleets: Sequence[Fleet]) -> None:
    """As found: the page of what is idle did not say what lies idle because nobody has it."""
    for fleet in fleets:
        left: dict[str, float] = {"H100": 0.0, "Odd": 0.0}
        for device, units in fleet.units.items():
            taken = sum(job.devices.get(device, 0) for job in fleet.jobs if job.until is None)
            left[fleet.model[device]] += 1 - taken / units
        found = free(house, filters_of(house, f"?cluster={fleet.cluster}"), AT)
        assert found is not None and found.gpus == pytest.approx(sum(left.values()))
        cost = None if left["Odd"] else Decimal("2.00") * Decimal(left["H100"])
        assert found.list_hour == (cost if cost is None else pytest.approx(cost)), "no rule prices the odd ones"
    for holder in ("tenant=vision", "project=p-vision", "queue=main"):
        assert free(house, filters_of(house, f"?{holder}"), AT) is None
    down = free(house, filters_of(house, "?cluster=x"), AT)
    assert down is not None and (down.gpus, down.list_hour) == (0, None), "three of nobody knows which device"
    set_current(TENANT)
    assert free(house, filters_of(house, ""), AT) is None
    assert "Unallocated" not in str(page.at_clock(house, filters_of(house, "?idle=1"), EN, AT))


def test_waste_is_the_ledger_s_idle_cost_since_it_began_without_a_break(
    house: Store, clusters: Clusters, fleets: Sequence[Fleet]
) -> None:
    seen = 0
    for fleet in fleets:
        for name, row in clusters[fleet.cluster].items():
            entries = house.rows(
                "SELECT used_unit_ms, idle_unit_ms, device_units, list_unit_price FROM ledger "
                "WHERE allocation_id = {name:String} AND charge_period_start >= {since:DateTime64(3, 'UTC')}",
                {"name": name, "since": row["since"]},
            )
            metered = sum(one["used_unit_ms"] + one["idle_unit_ms"] for one in entries)
            unknown = not metered or any(one["idle_unit_ms"] and one["list_unit_price"] is None for one in entries)
            cost = sum(
                one["idle_unit_ms"] * one["list_unit_price"] / (one["device_units"] * 3_600_000)
                for one in entries
                if one["list_unit_price"] is not None
            )
            assert (row["waste"] is None) == unknown, name
            if not unknown:
                assert float(row["waste"]) == pytest.approx(float(cost), abs=1e-6), name
                seen += 1
    assert seen > 2


def test_a_filter_leaves_out_rows_and_changes_none(house: Store, clusters: Clusters) -> None:
    """A share of a device is no less shared because the filter hides who has the other one."""
    whole = rows_at(house)
    assert {row["tenant"] for row in whole.values()} >= {"vision", "speech"}
    for name in ("tenant", "project", "cluster"):
        for value in {row[name] for row in whole.values()}:
            kept = {key: row for key, row in whole.items() if row[name] == value}
            found = clusters[value] if name == "cluster" else rows_at(house, f"?{name}={value}")
            assert found.keys() == kept.keys(), (name, value)
            for key, row in kept.items():
                own = {field: figure for field, figure in row.items() if not field.startswith("all_")}
                assert {field: found[key][field] for field in own} == own, (name, value, key)


def test_the_greatest_waste_comes_first_and_what_is_unknown_last(house: Store) -> None:
    wastes = [row["waste"] for row in held(house, filters_of(house, ""), AT, 500)[0]]
    first_two = held(house, filters_of(house, ""), AT, 2)[0]
    known = [waste for waste in wastes if waste is not None]
    assert known == sorted(known, reverse=True)
    assert wastes[len(known) :] == [None] * (len(wastes) - len(known))
    assert [row["waste"] for row in first_two] == wastes[:2]
    assert first_two[0]["all_rows"] == len(wastes)


def test_those_with_idle_gpus_come_first_by_the_cost_of_an_idle_hour(house: Store) -> None:
    every = held(house, filters_of(house, ""), AT, 500)[0]
    by_idle = held(house, filters_of(house, ""), AT, 500, by_idle=True)[0]
    idle = [row for row in by_idle if row["idle_gpus"] > 0]
    assert 0 < len(idle) < len(by_idle) == len(every)
    assert by_idle[: len(idle)] == idle
    assert page.idle_first(every) == by_idle
    assert {row["all_idle_rows"] for row in (*every, *by_idle)} == {len(idle)}
    costs = [row["idle_hour"] for row in idle if row["idle_hour"] is not None]
    assert costs == sorted(costs, reverse=True)
    assert [row["idle_hour"] for row in idle[len(costs) :]] == [None] * (len(idle) - len(costs))
    assert held(house, filters_of(house, ""), AT, 1, by_idle=True)[0][0]["allocation_id"] == idle[0]["allocation_id"]


def test_the_page_of_the_idle_has_them_alone_each_with_what_to_do(house: Store) -> None:
    filters = filters_of(house, "?cluster=x&idle=1")
    drawn_page = page.at_clock(house, filters, EN, AT)
    assert "Unallocated" in str(drawn_page)
    columns = idle_table(drawn_page).columnDefs
    fixed = sum(one["minWidth"] for one in columns if one["field"] not in page.IDLE_SPARE[:-2])
    assert fixed <= 750, "as found: on a tablet of 820 px its alert could not be silenced"
    shown = idle_grid(drawn_page)
    assert [(row["name"], row["idle_gpus"], row["idle_hour"]) for row in shown] == [("w-whole", 1, 2)]
    assert (shown[0]["what"], shown[0]["to_what"]) == (
        "Reclaim it, tell vision",
        "/alerts?cluster=x&rule=idle-holder-reclaim&alert=f-whole",
    )
    assert shown[0]["to_silence"] == "/alerts?cluster=x&silence=f-whole"
    everywhere = idle_grid(page.at_clock(house, filters_of(house, "?idle=1"), ZH, AT))
    assert {row["what"] for row in everywhere if row["name"] != "w-whole"} <= {
        "尚无告警：询问 vision",
        "尚无告警：询问 speech",
    }
    assert "/now?cluster=x&idle=1" in str(page.at_clock(house, filters_of(house, "?cluster=x"), EN, AT))


def test_an_alert_s_address_shows_its_job_alone_or_says_that_it_is_not_idle(house: Store) -> None:
    """As found: an alert led to the whole list, in which its reader had to look for the job."""
    shown = page.at_clock(house, filters_of(house, "?idle=1&job=w-whole"), EN, AT)
    assert [row["name"] for row in idle_grid(shown)] == ["w-whole"]
    assert "Only w-whole is shown." in str(shown) and "href='/now?idle=1'" in str(shown)
    of_allocation = page.at_clock(house, filters_of(house, "?idle=1&job=whole"), EN, AT)
    assert [row["name"] for row in idle_grid(of_allocation)] == ["w-whole"]
    over = str(page.at_clock(house, filters_of(house, "?idle=1&job=w-over"), EN, AT))
    assert "w-over has no idle GPUs now" in over and "href='/workloads?workload=w-over'" in over
    assert "now-idle'" not in over.replace("data-csv-of='now-idle'", "")


def test_nobody_is_asked_about_a_job_that_has_just_started(house: Store) -> None:
    """As found: a job of four H100 came first, with "ask its owner", five minutes after its start."""
    filters = filters_of(house, "?cluster=x&idle=1")
    rows = [row for row in held(house, filters, AT, 500, by_idle=True)[0] if row["idle_gpus"] > 0]
    now = moment(house, AT)
    assert now is not None
    said = [
        page._idle_row({**rows[0], "alert_rule": rule, "alert": rule, "since": now.at - age}, filters, now, True, EN)
        for rule, age in (("", 9 * MINUTE), ("", 11 * MINUTE), ("idle-holder", 9 * MINUTE))
    ]
    assert [one["what"] for one in said] == [
        "Just started: wait",
        "No alert yet: ask vision",
        "Tell vision to use or stop it",
    ]


def test_the_scheduler_s_jobs_have_the_price_of_what_they_hold(house: Store) -> None:
    known = page._known(house, filters_of(house, "?cluster=x&idle=1"))
    assert (known.prices["x", "whole"], known.prices["x", "nodeless"], known.currency) == (2, None, "EUR")
    rows, _ = held(house, filters_of(house, "?cluster=x"), AT, 500)
    in_use = {(row["cluster"], row["allocation_id"]) for row in rows if row["used_5"] and not row["idle_gpus"]}
    assert known.used == in_use and ("x", "whole") not in in_use


def test_what_is_not_metered_is_not_called_used(house: Store) -> None:
    said = str(page.at_clock(house, filters_of(house, "?cluster=x&project=p-speech&idle=1"), EN, AT))
    assert "nobody knows whether it is idle" in said


def idle_table(shown: Any) -> Any:
    (found,) = (one for one in shown._traverse() if getattr(one, "id", "") == "now-idle")
    return found


def idle_grid(shown: Any) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = idle_table(shown).rowData
    return rows


def test_what_is_not_known_is_not_zero(house: Store, clusters: Clusters) -> None:
    rows = clusters["x"]
    assert rows["nodeless"]["gpus"] == 3, "as requested, where no device is named"
    assert rows["nodeless"]["list_hour"] is rows["nodeless"]["used_5"] is rows["nodeless"]["waste"] is None
    assert rows["half"]["used_60"] is None, "of a shared device, one cannot tell whose use it is"
    assert rows["down"]["down"] == 1
    assert rows["down"]["list_hour"] == 0, "what is down is charged to nobody"
    assert (rows["whole"]["used_5"], rows["whole"]["idle_gpus"]) == (0, 1)
    assert (rows["whole"]["list_hour"], rows["whole"]["billed_hour"]) == (Decimal("2"), Decimal("1.5"))
    assert rows["whole"]["waste"] == 18
    assert (rows["whole"]["alert"], rows["whole"]["alert_rule"]) == ("f-whole", "idle-holder-reclaim")
    text = str(page.at_clock(house, filters_of(house, "?cluster=x"), EN, AT))
    assert "/alerts?cluster=x&rule=idle-holder-reclaim&alert=f-whole" in text
    assert "/alerts?cluster=x&silence=f-whole" in text


def test_a_share_is_its_only_holder_s_once_the_other_has_gone(house: Store) -> None:
    """To whoever sees some tenants only the other one's absence looks as its presence does: unknown."""
    with Stores(house).scoped_to(TENANT) as store:
        mine = rows_at(store)
        assert mine["half"]["used_60"] is None
        assert mine["whole"]["used_60"] == 0
        ours = {row["allocation_id"] for row in held(house, filters_of(house, "?tenant=vision"), AT, 500)[0]}
        assert mine.keys() == ours


def test_a_tenant_sees_its_own_rows_and_sums(house: Store) -> None:
    with Stores(house).scoped_to(TENANT) as store:
        set_current(TENANT)
        text = str(page.at_clock(store, filters_of(store, ""), EN, AT))
        mine = held(store, filters_of(store, ""), AT, 500)[0]
    assert "w-whole" in text
    assert "speech" not in text
    assert "w-other" not in text
    assert "silence=" not in text, "who may not silence is not offered it"
    all_rows = held(house, filters_of(house, "?tenant=vision"), AT, 500)[0]
    assert mine[0]["all_gpus"] == pytest.approx(all_rows[0]["all_gpus"])
    assert mine[0]["all_list_hour"] == all_rows[0]["all_list_hour"]


def test_an_allocation_that_the_books_ended_holds_nothing(house: Store) -> None:
    """Its source never told: the device was taken out of the fleet under it."""
    before = rows_at(house, "?cluster=x")
    house.command(
        "INSERT INTO allocations (claim, cluster, allocation_id, workload_id, tenant, device_id, units, start_at, "
        f"end_at) VALUES (1, 'x', 'gone', 'w-gone', 'vision', 'whole', 1, '{START:%F %T}', '{AT - HOUR:%F %T}')"
    )
    house.command(
        f"INSERT INTO events ({EVENTS}) VALUES ('{START:%F %T}', 'x', 's', 'gone', 'w-gone', 'started', 'vision', 'p', "
        "'main', 1, 'n1', 'whole', NULL, '', '', NULL)"
    )
    try:
        assert rows_at(house, "?cluster=x").keys() == before.keys()
        assert "gone" in rows_at(house, "?cluster=x", AT - 2 * HOUR)
    finally:
        for table in ("allocations", "events"):
            house.command(f"DELETE FROM {table} WHERE allocation_id = 'gone'")


def test_old_figures_are_not_shown_as_new(house: Store) -> None:
    filters = filters_of(house, "?cluster=x")
    fresh = moment(house, AT + MINUTE)
    assert fresh is not None
    assert fresh.at == AT
    assert not fresh.stopped
    assert not fresh.unmetered
    assert "No data has arrived" not in str(page.at_clock(house, filters, EN, AT + MINUTE))
    text = str(page.at_clock(house, filters, EN, AT + 3 * HOUR))
    assert "No data has arrived since 5 October 2026, 12:34 (3 h ago)" in text
    assert "自" in str(page.at_clock(house, filters, ZH, AT + 3 * HOUR))
    house.command(
        f"INSERT INTO events ({EVENTS}) VALUES ('{AT + HOUR:%F %T}', 'x', 's', 'later', 'w-later', 'submitted', "
        "'vision', 'p', 'main', 1, '', '', NULL, '', '', NULL)"
    )
    try:
        text = str(page.at_clock(house, filters, EN, AT + HOUR + MINUTE))
        assert "No telemetry since 5 Oct, 12:34" in text
        assert "No data has arrived" not in text
        rows = rows_at(house, "?cluster=x", AT + HOUR)
        assert rows["whole"]["used_5"] is rows["whole"]["used_60"] is None
        assert rows["whole"]["idle_gpus"] == 0
    finally:
        house.command("DELETE FROM events WHERE allocation_id = 'later'")


def answered(value: Any) -> Any:
    """A value of a row as the API gives it."""
    return round(value, DIGITS) if isinstance(value, float | Decimal) else value


def test_the_api_answers_what_the_page_shows(house: Store) -> None:
    rows, currency = held(house, filters_of(house, ""), AT, 500)
    with serving(house, AccessSettings()) as url, Client(url) as client:
        found, theirs = client.now(), client.now(tenant="vision")
    assert (found.at, found.stopped, found.currency, found.rows_in_all) == (AT, True, currency, len(rows))
    derived = {"devices", "isolation_level", "objectives"}
    assert [{name: value for name, value in vars(one).items() if name not in derived} for one in found.allocations] == [
        {name: answered(row[name]) for name in NowAllocation.model_fields if name not in derived} for row in rows
    ]
    for one, row in zip(found.allocations, rows, strict=True):
        assert (len(one.devices), one.isolation_level) == (len(row["devices"]), isolation(row) or None)
        assert one.objectives == next((list(may) for level, may in OBJECTIVES.items() if level == isolation(row)), None)
    assert {one.isolation_level for one in found.allocations} == {"exclusive", "shared", None}
    assert found.total.waste == answered(rows[0]["all_waste"])
    assert [one.allocation_id for one in theirs.allocations] == [
        row["allocation_id"] for row in rows if row["tenant"] == "vision"
    ]
