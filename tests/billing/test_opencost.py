"""OpenCost's allocation API over a ledger typed here, and on the close of facts typed here."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest

from billing.close import close
from billing.opencost.allocation import allocations
from billing.opencost.document import response
from billing.opencost.query import parse_query, parse_window
from billing.opencost.words import QueryError
from billing.rates import apply_rate_card, parse_rate_card
from tests.billing.hand_ledger import HOUR_MS, Row, at, fill
from warehouse.errors import LedgerError
from warehouse.store import Store

NOON = at("2026-10-05 12:00")
DAY = "2026-10-05T00:00:00Z,2026-10-06T00:00:00Z"
HOUR = "2026-10-05T12:00:00Z,2026-10-05T13:00:00Z"
NOW = at("2026-11-21 09:30")


def ask(store: Store, **params: str) -> dict[str, Any]:
    return response(allocations(store, parse_query({"window": HOUR, **params}, "UTC", NOW)))


def only(store: Store, **params: str) -> dict[str, Any]:
    (found,) = ask(store, **params)["data"]
    return found  # type: ignore[no-any-return]


TWO_PROJECTS = [
    Row(NOON, "physics", "qcd", used="1800000", idle="900000", unmetered=900_000, contracted="1.50", workload="pod-a"),
    Row(NOON, "biology", "fold", device="gpu-1", used=str(HOUR_MS // 4), workload="pod-b", queue="batch"),
    Row(NOON + timedelta(minutes=15), device="gpu-1", unallocated=HOUR_MS // 2),
    Row(NOON + timedelta(minutes=45), device="gpu-1", unavailable=HOUR_MS // 4),
]


def test_namespaces_have_hours_cost_and_efficiency(books: Store) -> None:
    fill(books, TWO_PROJECTS)
    document = ask(books, aggregate="namespace")
    assert (document["code"], document["status"]) == (200, "success")
    (found,) = document["data"]
    assert list(found) == ["fold", "qcd"]
    qcd = found["qcd"]
    assert qcd["window"] == {"start": "2026-10-05T12:00:00Z", "end": "2026-10-05T13:00:00Z"}
    assert (qcd["start"], qcd["end"], qcd["minutes"]) == ("2026-10-05T12:00:00Z", "2026-10-05T13:00:00Z", 60.0)
    assert qcd["properties"] == {
        "node": "n1", "namespace": "qcd", "pod": "pod-a",
        "labels": {"tenant": "physics", "model": "H100", "device": "gpu-0"},
    }  # fmt: skip
    assert (qcd["gpuHours"], qcd["gpuCount"]) == (1.0, 1.0)
    # list 2.00, contracted 1.50: what the tenant pays is the total
    assert (qcd["gpuCost"], qcd["gpuCostAdjustment"], qcd["totalCost"]) == (2.0, -0.5, 1.5)
    # used 0.5 of 0.75 metered hours: what was not metered is not taken for idle
    assert qcd["gpuEfficiency"] == qcd["totalEfficiency"] == 0.666666667
    assert qcd["gpuAllocation"] == {
        "gpuModel": "H100", "gpuUUID": "gpu-0", "isGPUShared": True,  # the typed ledger holds 0 units
        "gpuUsageAverage": 0.666666667, "gpuRequestAverage": 1.0,
    }  # fmt: skip
    assert qcd["gpuledger"] == {
        "gpuHours": "1.000000000", "usedGpuHours": "0.500000000", "idleGpuHours": "0.250000000",
        "unmeteredGpuHours": "0.250000000", "unpricedGpuHours": "0.000000000", "totalCost": "1.500000000",
        "currency": "EUR",
    }  # fmt: skip
    assert (qcd["cpuCost"], qcd["ramByteHours"], qcd["pvs"]) == (0.0, 0.0, None)
    assert "warning" not in document


def test_every_figure_that_opencost_knows_is_there(books: Store) -> None:
    """The names of AllocationJSON's fields, which strict readers look for."""
    fill(books, TWO_PROJECTS)
    found = only(books, aggregate="namespace")["qcd"]
    for resource in ("cpu", "gpu", "ram"):
        assert {f"{resource}{what}" for what in ("Cost", "CostAdjustment", "CostIdle", "Efficiency")} <= set(found)
    assert {"cpuCores", "cpuCoreHours", "gpuCount", "gpuHours", "ramBytes", "ramByteHours", "pvBytes", "pvByteHours",
            "networkCost", "loadBalancerCost", "sharedCost", "externalCost", "totalCost", "totalEfficiency", "minutes",
            "lbAllocations", "gpuAllocation"} <= set(found)  # fmt: skip


@pytest.mark.parametrize(
    ("aggregate", "names"),
    [
        ("pod", ["pod-a", "pod-b"]),
        ("label:tenant,namespace", ["biology/fold", "physics/qcd"]),
        ("label:queue", ["__unallocated__", "batch"]),
        ("node", ["n1"]),
        ("controller", ["__unallocated__"]),
        ("label:app,pod", ["__unallocated__/pod-a", "__unallocated__/pod-b"]),
        ("", ["__unallocated__/n1/fold/pod-b", "__unallocated__/n1/qcd/pod-a"]),
    ],
)
def test_names_are_the_values_of_what_is_aggregated_by(books: Store, aggregate: str, names: list[str]) -> None:
    fill(books, TWO_PROJECTS)
    assert list(only(books, aggregate=aggregate)) == names


def test_unallocated_time_is_idle_and_all_time_adds_up_to_capacity(books: Store) -> None:
    fill(books, TWO_PROJECTS)
    found = only(books, aggregate="namespace", includeIdle="true")
    assert {name: one["gpuHours"] for name, one in found.items()} == {
        "__idle__": 0.5, "__unavailable__": 0.25, "fold": 0.25, "qcd": 1.0,
    }  # fmt: skip
    assert (found["__idle__"]["totalCost"], found["__idle__"]["gpuEfficiency"]) == (1.0, None)
    assert found["__idle__"]["gpuAllocation"] is None
    assert sum(one["gpuCost"] for one in found.values()) == 4.0  # two GPUs, an hour, 2.00
    assert list(only(books, aggregate="namespace", includeIdle="true", idleByNode="true")) == [
        "fold", "n1/__idle__", "n1/__unavailable__", "qcd",
    ]  # fmt: skip


def test_a_whole_hour_of_any_number_of_units_is_counted(books: Store) -> None:
    """A time-sliced device has many units: an entry is as large as they are, beyond 18 digits of millionths."""
    units = 1000
    held = Row(NOON, "physics", "qcd", used=str(units * HOUR_MS * 3 // 4), idle=str(units * HOUR_MS // 4), units=units)
    fill(books, [held])
    assert only(books, aggregate="namespace")["qcd"]["gpuledger"]["usedGpuHours"] == "0.750000000"


def test_shared_idle_goes_by_cost_and_nothing_is_lost(books: Store) -> None:
    fill(books, TWO_PROJECTS)
    found = only(books, aggregate="namespace", includeIdle="true", shareIdle="true")
    # idle costs 1.00; qcd's list cost is 2.00, fold's 0.50
    assert {name: (one["gpuCostIdle"], one["gpuCost"], one["totalCost"]) for name, one in found.items()} == {
        "qcd": (0.8, 2.8, 2.3), "fold": (0.2, 0.7, 0.7), "__unavailable__": (0.0, 0.5, 0.5),
    }  # fmt: skip
    alone = only(books, aggregate="namespace", includeIdle="true", shareIdle="true", filter='namespace:"fold"')
    assert {name: one["gpuCostIdle"] for name, one in alone.items()} == {"fold": 0.2}  # not all of it


def test_idle_time_without_any_holder_stays_idle(books: Store) -> None:
    fill(books, [Row(NOON, device="gpu-9", unallocated=HOUR_MS)])
    found = only(books, aggregate="namespace", includeIdle="true", shareIdle="true")
    assert {name: one["gpuCost"] for name, one in found.items()} == {"__idle__": 2.0}


def test_steps_are_sets_and_adjoining_parts_add_up_exactly(books: Store) -> None:
    first = Row(NOON, "a", "p", used="1000000.000001", idle="1", unmetered=7)
    fill(books, [first, Row(NOON + timedelta(hours=1), "a", "p", used="5")])
    document = ask(books, window=DAY, aggregate="namespace", step="7m")
    parts = [one["p"]["gpuledger"]["usedGpuHours"] for one in document["data"] if "p" in one]
    assert len(document["data"]) == 206  # 1440 minutes
    assert len(parts) == 18  # from 11:54 (a set that starts before noon) to 14:00
    assert "2 of 24 hours" in document["warning"]
    assert "prorated linearly" in document["warning"]
    query = parse_query({"window": DAY, "aggregate": "namespace", "step": "7m"}, "UTC", NOW)
    answer = allocations(books, query)
    exact = [one["p"].held.kinds["used"] for one in answer.sets if "p" in one]
    assert sum(exact) == 1_000_005_000_001  # millionths of a unit-millisecond: nothing lost to rounding
    whole = ask(books, window=DAY, aggregate="namespace", step="7m", accumulate="true")
    assert [one["p"]["gpuledger"]["usedGpuHours"] for one in whole["data"]] == ["0.277779167"]  # 1,000,005.000001 ms


def test_a_window_that_cuts_an_entry_has_its_linear_share(books: Store) -> None:
    fill(books, [Row(NOON, "a", "p", used=str(HOUR_MS // 2), idle=str(HOUR_MS // 2))])
    document = ask(books, window="2026-10-05T12:15:00Z,2026-10-05T12:30:00Z", aggregate="namespace")
    assert document["data"][0]["p"]["gpuHours"] == 0.25
    assert document["data"][0]["p"]["minutes"] == 15.0
    assert document["data"][0]["p"]["gpuEfficiency"] == 0.5
    assert document["warning"] == "the window or step cuts ledger entries (1 parts); they are prorated linearly"


def test_an_unknown_price_is_null_and_unmetered_time_has_no_efficiency(books: Store) -> None:
    fill(
        books,
        [
            Row(NOON, "a", "free", unmetered=HOUR_MS, price=None),
            Row(NOON, "a", "some", used=str(HOUR_MS // 2), device="gpu-1"),
            Row(NOON, "a", "some", used=str(HOUR_MS // 2), device="gpu-2", price=None),
        ],
    )
    document = ask(books, aggregate="namespace")
    free, some = document["data"][0]["free"], document["data"][0]["some"]
    assert (free["gpuHours"], free["gpuCost"], free["totalCost"], free["gpuEfficiency"]) == (1.0, None, None, None)
    assert (some["gpuCost"], some["gpuledger"]["unpricedGpuHours"]) == (1.0, "0.500000000")
    assert "no price" in document["warning"]


def test_filters_are_equality(books: Store) -> None:
    fill(books, TWO_PROJECTS)
    for text, names in (
        ('namespace:"qcd"', ["qcd"]),
        ('namespace:"qcd","fold"', ["fold", "qcd"]),
        ('namespace:"qcd","fold"+label[tenant]:"biology"', ["fold"]),
        ('node:"elsewhere"', []),
        ('pod:"pod"', []),  # no part of a name
    ):
        assert list(only(books, aggregate="namespace", filter=text)) == names, text
    assert list(only(books, aggregate="namespace", filterNamespaces="qcd", filterLabels="tenant:physics")) == ["qcd"]
    assert list(only(books, aggregate="namespace", includeIdle="true", filter='namespace:"qcd"')) == ["qcd"]
    assert list(only(books, aggregate="namespace", includeIdle="true", filter='node:"n1"')) == [
        "__idle__", "__unavailable__", "fold", "qcd",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"window": ""}, "window: is missing"),
        ({"window": "soon"}, "illegal window: 'soon'"),
        ({"window": "2026-10-02T00:00:00Z,2026-10-01T00:00:00Z"}, "ends before it starts"),
        ({"window": "2000-01-01T00:00:00Z,2026-10-01T00:00:00Z"}, "is longer than"),
        ({"aggregate": "colour"}, "invalid allocation property: 'colour'"),
        ({"step": "often"}, "not a duration"),
        ({"window": "365d", "step": "1s"}, "more than 10,000 sets"),
        ({"filter": 'namespace!:"a"'}, "filter: not understood"),
        ({"filter": 'namespace:"a"|pod:"b"'}, "not understood from '|pod"),
        ({"filter": 'label[app]:"a"'}, "no label 'app'"),
        ({"filter": 'namespace:"a"+namespace:"b"'}, "filtered twice"),
        ({"filterNamespaces": "kube-*"}, "wildcards"),
        ({"filterServices": "a"}, "filterservices: is not supported"),
        ({"shareNamespaces": "infra"}, "sharenamespaces: is not supported"),
        ({"shareCost": "10"}, "sharecost: is not supported"),
        ({"shareSplit": "even"}, "sharesplit: is not supported"),
        ({"includeIdle": "perhaps"}, "neither true nor false"),
        ({"accumulate": "quarter"}, "'quarter' is not known"),
        ({"format": "csv"}, "'csv' is not supported"),
    ],
)
def test_what_is_not_understood_is_refused(books: Store, params: dict[str, str], message: str) -> None:
    with pytest.raises(QueryError) as error:
        ask(books, **params)
    assert message in str(error.value)


def test_what_shares_nothing_is_no_error(books: Store) -> None:
    """Kubecost's page sends these whatever is asked; in proportion to cost is how idle cost is shared here."""
    sent = {"shareTenancyCosts": "true", "shareSplit": "weighted", "shareLabels": "", "shareCost": "0"}
    assert ask(books, **sent)["data"] == ask(books)["data"]


@pytest.mark.parametrize(
    ("window", "start", "end"),
    [
        ("today", "2026-11-20 23:00", "2026-11-21 23:00"),
        ("yesterday", "2026-11-19 23:00", "2026-11-20 23:00"),
        ("week", "2026-11-14 23:00", "2026-11-21 09:30"),  # from Sunday
        ("lastweek", "2026-11-07 23:00", "2026-11-14 23:00"),
        ("month", "2026-10-31 23:00", "2026-11-21 09:30"),
        ("lastmonth", "2026-09-30 22:00", "2026-10-31 23:00"),  # summer time ended within
        ("1d", "2026-11-20 23:00", "2026-11-21 23:00"),
        ("1w", "2026-11-14 23:00", "2026-11-21 23:00"),
        ("2h", "2026-11-21 08:00", "2026-11-21 10:00"),
        ("60m offset 30m", "2026-11-21 08:00", "2026-11-21 09:00"),
        ("1791158400,1791162000", "2026-10-05 00:00", "2026-10-05 01:00"),
        ("1791158400-1791162000", "2026-10-05 00:00", "2026-10-05 01:00"),
        ("2026-10-05T00:00:00Z,2026-10-05T02:00:00+01:00", "2026-10-05 00:00", "2026-10-05 01:00"),
        ("2026-10-25", "2026-10-24 22:00", "2026-10-25 23:00"),  # 25 hours
    ],
)
def test_windows_are_cut_in_the_billing_zone(window: str, start: str, end: str) -> None:
    period = parse_window(window, "Europe/Berlin", NOW)
    assert (period.start, period.end) == (at(start), at(end))


def test_daily_steps_keep_to_local_midnight_over_the_change_of_clocks() -> None:
    for params in ({"step": "1d"}, {"accumulate": "day"}):
        query = parse_query({"window": "2026-10-24..2026-10-27", **params}, "Europe/Berlin", NOW)
        hours = [(b - a).total_seconds() / 3600 for a, b in zip(query.edges, query.edges[1:], strict=False)]
        assert hours == [24, 25, 24]
    months = parse_query({"window": "2026-09-15..2026-11-02", "accumulate": "month"}, "UTC", NOW)
    assert [edge.strftime("%m-%d") for edge in months.edges] == ["09-15", "10-01", "11-01", "11-02"]


def test_two_currencies_do_not_add_up(books: Store) -> None:
    fill(books, [Row(NOON, "a", used="1"), Row(NOON, "b", used="1", currency="USD")])
    with pytest.raises(LedgerError, match="EUR and USD"):
        ask(books)


# From facts: what OpenCost gets wrong (shared GPUs, eight GPUs, a change of price, a name used twice).

START = at("2026-10-05 00:00")


def test_what_opencost_gets_wrong_is_right(books: Store) -> None:
    devices = [(f"a-{number}", 1) for number in range(8)] + [("shared", 4)]
    of_device = {"ts": START, "cluster": "c", "node": "n1", "model": "H100", "state": "available"}
    _insert(books, "devices", [{**of_device, "device_id": device, "units": units} for device, units in devices])
    eight = [f"a-{number}" for number in range(8)]
    holds: list[tuple[str, str, int, int, Sequence[str], int | None]] = [
        ("eight", "train", 0, 120, eight, None),
        ("web-1", "web", 120, 135, ["a-0"], None),  # the same name later again, by another UID
        ("web-2", "web", 165, 180, ["a-0"], None),
        *((f"quarter-{number}", "slices", 0, 60, ["shared"], 1) for number in range(4)),
    ]
    events: list[dict[str, Any]] = []
    samples: list[dict[str, Any]] = []
    for uid, project, since, until, held, units in holds:
        of_event = {"cluster": "c", "allocation_id": uid, "workload_id": uid, "tenant": "t", "project": project}
        started = {**of_event, "ts": _minute(since), "event": "started", "units": units}
        events += [{**started, "device_id": device} for device in held]
        events.append({**of_event, "ts": _minute(until), "event": "finished", "device_id": "", "units": None})
        of_sample = {"interval_seconds": 60.0, "cluster": "c", "workload_id": uid, "state": "ok"}
        samples += [
            {**of_sample, "ts": _minute(minute), "device_id": device, "utilization": 0.25 if units else 1.0}
            for device in held
            for minute in range(since + 1, until + 1)
        ]
    _insert(books, "events", events)
    _insert(books, "samples", samples)
    rate = {"sku": "h", "match": {"model": "H100"}}
    early = {**rate, "price_per_gpu_hour": "2.00", "effective_from": START, "effective_to": _minute(60)}
    late = {**rate, "price_per_gpu_hour": "3.00", "effective_from": _minute(60)}
    apply_rate_card(books, parse_rate_card({"currency": "EUR", "rates": [early, late]}), "me", "", NOW)
    close(books, until=_minute(240), now=NOW)

    window = "2026-10-05T00:00:00Z,2026-10-05T04:00:00Z"
    found = only(books, window=window, aggregate="namespace", includeIdle="true")
    train, web, slices = found["train"], found["web"], found["slices"]
    assert (train["gpuHours"], train["gpuEfficiency"]) == (16.0, 1.0)  # eight GPUs at 100 % are not 12.5 %
    assert train["gpuAllocation"]["gpuUsageAverage"] == train["gpuAllocation"]["gpuRequestAverage"] == 8.0
    assert train["totalCost"] == 8 * 2.00 + 8 * 3.00  # each hour at its own price
    assert (web["gpuHours"], web["minutes"], web["gpuCount"]) == (0.5, 60.0, 0.5)  # not the time between
    assert (slices["gpuHours"], slices["gpuCost"], slices["gpuEfficiency"]) == (1.0, 2.0, 1.0)  # one GPU, not four
    assert [one["gpuAllocation"]["isGPUShared"] for one in (train, web, slices)] == [False, False, True]
    assert sum(one["gpuHours"] for one in found.values()) == 9 * 4  # all of it is the capacity
    quarter = only(books, window=window, aggregate="pod")["quarter-0"]
    assert (quarter["gpuHours"], quarter["gpuCost"], quarter["gpuCount"]) == (0.25, 0.5, 0.25)


def _minute(number: int) -> datetime:
    return START + timedelta(minutes=number)


def _insert(store: Store, table: str, rows: Sequence[dict[str, Any]]) -> None:
    batch = pa.Table.from_pylist(list(rows))
    at_column = batch.column_names.index("ts")
    store.insert(table, batch.set_column(at_column, "ts", batch["ts"].cast(pa.timestamp("ms", "UTC"))))
