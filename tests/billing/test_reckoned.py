"""Statements over the ledger of any month, reckoned entry by entry: in a zone of half hours, with entries beside the
month's ends, devices of several units, prices that are not known, and quantities of nine digits."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from math import lcm
from pathlib import Path
from random import Random
from typing import Any
from zoneinfo import ZoneInfo

import pyarrow as pa
import pytest

import billing
from billing.periods import parse_month
from tests.billing.hand_ledger import HOUR_MS, close
from tests.draws import drawn_seed
from tests.stores import emptied
from warehouse.instants import of_epoch_ms
from warehouse.store import Store, read_sql

ZONE = "Asia/Kolkata"
OCTOBER = parse_month("2026-10", ZONE)
START, END = (int(at.timestamp()) * 1000 for at in (OCTOBER.start, OCTOBER.end))
MILLION = 10**6
PRICES = (None, 0, 1_000_000_001, 2_000_000_000, 333_333_333)
"""In billionths."""
QUANTITIES = ("used", "idle", "unmetered", "unallocated", "unavailable")

Entry = dict[str, Any]


def second(ms: int) -> str:
    return f"{of_epoch_ms(ms):%Y-%m-%d %H:%M:%S}"


def day_of(ms: int) -> str:
    return f"{of_epoch_ms(ms).astimezone(ZoneInfo(ZONE)):%Y-%m-%d}"


def entry(dice: Random) -> Entry:
    """start, end in ms; quantities in millionths of a unit-millisecond; prices in billionths."""
    edge = dice.choice([START, END, START + 15 * 86_400_000])
    half = edge + dice.randint(-6, 5) * HOUR_MS // 2  # midnight cuts an hour
    start = half + dice.choice([0, 0, 0, 1, dice.randrange(HOUR_MS // 2)])
    end = half + HOUR_MS // 2 - dice.choice([0, 0, 1])
    if end <= start:
        end = start + 1
    units = dice.choice([1, 2, 7])
    held = dice.random() < 0.7
    most = units * (end - start)
    found: Entry = dict.fromkeys(QUANTITIES, 0)
    if held:
        found |= {"used": dice.randrange(most * MILLION), "idle": dice.randrange(most * MILLION)}
        found["unmetered"] = dice.choice([0, dice.randrange(most)]) * MILLION
    else:
        found[dice.choice(QUANTITIES[3:])] = dice.randrange(most) * MILLION
    listed = dice.choice(PRICES)
    return found | {
        "start": start, "end": end, "hour": start // HOUR_MS * HOUR_MS,
        "run": 7 + start // HOUR_MS % 3, "device_units": units, "units": dice.randint(1, units),
        "tenant": dice.choice(["chem", "bio", "phys"]) if held else "", "project": dice.choice("pq") if held else "",
        "queue": dice.choice("vw") if held else "",
        "workload_id": dice.choice(["x", "y", f"w{dice.randint(0, 40)}"]) if held else "",
        "allocation_id": dice.choice("abcdefgh") if held else "", "preemptible": held and dice.random() < 0.5,
        "cluster": dice.choice(["c1", "c2"]), "node": dice.choice(["n1", "n2"]), "device_id": dice.choice("gh"),
        "model": dice.choice(["H100", "L4"]), "pool": dice.choice(["", "big"]),
        "partition_profile": dice.choice(["", "1g"]),
        "sku": "" if listed is None else dice.choice(["s", "t"]), "priority": dice.choice([None, 0, 5]),
        "estimated": dice.choice(["", "a guess"]), "list": listed,
        "contracted": None if listed is None else dice.choice([listed, PRICES[2]]),
        "currency": "" if listed is None else "EUR",
    }  # fmt: skip


PLAIN = ("tenant", "project", "queue", "workload_id", "allocation_id", "cluster", "node", "device_id", "model", "pool",
         "partition_profile", "sku", "estimated", "device_units", "units", "preemptible", "priority")  # fmt: skip


def decimal(value: int | None, digits: int) -> str | None:
    return None if value is None else f"{value // 10**digits}.{value % 10**digits:0{digits}}"


def times(values: Iterable[int]) -> pa.Array:
    return pa.array(list(values), pa.timestamp("ms", "UTC"))


def fill(store: Store, entries: Sequence[Entry]) -> None:
    columns: dict[str, Any] = {name: pa.array([one[name] for one in entries]) for name in PLAIN}
    columns |= {
        "run": pa.array([one["run"] for one in entries], pa.uint64()),
        "hour": times(one["hour"] for one in entries),
        "charge_period_start": times(one["start"] for one in entries),
        "charge_period_end": times(one["end"] for one in entries),
        "list_unit_price": [decimal(one["list"], 9) for one in entries],
        "contracted_unit_price": [decimal(one["contracted"], 9) for one in entries],
        "billing_currency": [one["currency"] for one in entries],
    }
    for name in QUANTITIES:
        values = [one[name] for one in entries]
        exact = name in ("used", "idle")
        columns[f"{name}_unit_ms"] = (
            [decimal(one, 6) for one in values] if exact else pa.array([one // MILLION for one in values])
        )
    store.insert("ledger_entries", pa.table(columns))
    for (run,), some in groups(entries, "run").items():
        close(store, [of_epoch_ms(one["hour"]) for one in some], run)


@pytest.fixture(scope="module")
def drawn() -> tuple[Random, list[Entry]]:
    seed = str(drawn_seed())
    print(f"GPULEDGER_SEED={seed}")
    dice = Random(f"reckoned {seed}")
    return dice, [entry(dice) for _ in range(400)]


@pytest.fixture
def books(shared_store: Store, drawn: tuple[Random, list[Entry]]) -> Store:
    store = emptied(shared_store)
    fill(store, drawn[1])
    return store


def asked(store: Store, name: str, /, parts: Mapping[str, str] | None = None, **params: Any) -> list[dict[str, Any]]:
    of_month = {"start": OCTOBER.start, "end": OCTOBER.end, "timezone": ZONE}
    return store.rows(read_sql(str(Path(str(billing.__file__))), name, **(parts or {})), {**of_month, **params})


def held(one: Entry) -> int:
    return int(one["used"] + one["idle"] + one["unmetered"])


def within(entries: Iterable[Entry], *tenants: str) -> list[Entry]:
    """Those of the month that somebody held, or one of the tenants."""
    of_month = [one for one in entries if START <= one["start"] < END and one["allocation_id"]]
    return [one for one in of_month if not tenants or one["tenant"] in tenants]


def groups(entries: Iterable[Entry], *names: str) -> dict[tuple[Any, ...], list[Entry]]:
    found: dict[tuple[Any, ...], list[Entry]] = defaultdict(list)
    for one in entries:
        found[tuple(day_of(one["start"]) if name == "day" else one[name] for name in names)].append(one)
    return found


def keyed(rows: Iterable[dict[str, Any]], *names: str) -> dict[tuple[Any, ...], dict[str, Any]]:
    rows = list(rows)
    found = {tuple(row[name] for name in names): row for row in rows}
    assert len(found) == len(rows)
    return found


def nano(price: Any) -> int | None:
    return None if price is None else int(price * 10**9)


def of(entries: Iterable[Entry], name: str, scale: int = 0) -> int:
    """Sum of a quantity, as of devices with `scale` units (0: as it is)."""
    return sum(
        (held(one) if name == "held" else one[name]) * (scale // one["device_units"] if scale else 1) for one in entries
    )


def scale_of(entries: Iterable[Entry]) -> int:
    return lcm(*(one["device_units"] for one in entries))


def cost(entries: Iterable[Entry], scale: int, price: str, quantity: str) -> int:
    return sum((one[price] or 0) * of([one], quantity, scale) for one in entries)


Drawn = tuple[Random, list[Entry]]


def test_usage_of_a_month_is_what_each_holder_held_in_it(books: Store, drawn: Drawn) -> None:
    names = ("tenant", "project", "queue", "sku", "preemptible", "device_units", "list", "contracted")
    for tenants in ((), ("bio",)):
        rows = asked(books, "invoicing/usage", all_tenants=int(not tenants), tenant=tenants[0] if tenants else "")
        for row in rows:
            row |= {"list": nano(row["list_unit_price"]), "contracted": nano(row["contracted_unit_price"])}
        found = keyed(rows, *names)
        expected = groups(within(drawn[1], *tenants), *names)
        assert found.keys() == expected.keys()
        for key, some in expected.items():
            row = found[key]
            assert [row[f"{name}_micro_ms"] for name in QUANTITIES[:3]] == [of(some, name) for name in QUANTITIES[:3]]
            assert row["estimated_micro_ms"] == of([one for one in some if one["estimated"]], "held")
            assumed = [one for one in some if one["estimated"].startswith("device unknown")]
            assert row["assumed_micro_ms"] == of(assumed, "held")
            assert (row["billing_currency"], row["last_run"]) == (some[0]["currency"], max(one["run"] for one in some))
        assert [row["tenant"] for row in rows] == sorted(row["tenant"] for row in rows)
    subjects = ("tenant", "model", "pool", "cluster", "partition_profile", "queue", "priority", "preemptible")
    assert (
        keyed(asked(books, "invoicing/subjects_held"), *subjects).keys() == groups(within(drawn[1]), *subjects).keys()
    )


def test_a_pool_is_what_each_tenant_held_and_what_was_unallocated(books: Store, drawn: Drawn) -> None:
    rows = asked(books, "invoicing/pools")
    found = {(row["pool"], bool(row["held"]), row["tenant"], row["device_units"], nano(row["unit_price"])):
             row["micro_ms"] for row in rows}  # fmt: skip
    expected: dict[Any, int] = defaultdict(int)
    for one in drawn[1]:
        if START <= one["start"] < END:
            held_by = bool(one["allocation_id"])
            price = one["contracted"] if held_by else one["list"]
            key = (one["pool"], held_by, one["tenant"], one["device_units"], price)
            expected[key] += held(one) if held_by else one["unallocated"]
    assert found == {key: amount for key, amount in expected.items() if amount}
    of_month = [one for one in drawn[1] if START <= one["start"] < END]
    scale = scale_of(of_month)
    shown = keyed(asked(books, "documents/statement_pools"), "pool")
    assert list(shown) == sorted(groups(of_month, "pool"))
    for key, some in groups(of_month, "pool").items():
        row = shown[key]
        assert row["scale_units"] == scale
        assert row["allocated_micro_ms"] == of(some, "held", scale)
        for name in QUANTITIES[3:]:
            assert row[f"{name}_micro_ms"] == of(some, name, scale)
            assert row[f"{name}_cost"] == cost(some, scale, "list", name)
            assert row[f"{name}_unpriced"] == of([one for one in some if one["list"] is None], name, scale)


def test_a_statement_has_each_day_and_the_top_workloads_by_cost(books: Store, drawn: Drawn) -> None:
    for tenant in ("", "chem"):
        some = within(drawn[1], "chem") if tenant else [one for one in drawn[1] if START <= one["start"] < END]
        scale = scale_of(some)
        rows = keyed(asked(books, "documents/statement_days", all_tenants=int(not tenant), tenant=tenant), "day")
        assert list(rows) == sorted(groups(some, "day"))
        for key, of_day in groups(some, "day").items():
            assert [rows[key][f"{name}_micro_ms"] for name in QUANTITIES] == [
                of(of_day, name, scale) for name in QUANTITIES
            ]
            assert rows[key]["scale_units"] == scale
    some = within(drawn[1], "chem")
    scale, expected = scale_of(some), groups(some, "workload_id", "project")

    def place(key: tuple[Any, ...]) -> Any:
        whole = of(expected[key], "held", scale)
        unpriced = of([one for one in expected[key] if one["contracted"] is None], "held", scale)
        return unpriced == whole, -cost(expected[key], scale, "contracted", "held"), -whole, key[1], key[0]

    order = sorted(expected, key=place)
    for top in (2, 100):
        dearest = keyed(asked(books, "documents/statement_workloads", tenant="chem", top=top), "workload_id", "project")
        assert list(dearest) == order[:top]
        for key, row in dearest.items():
            its = expected[key]
            assert row["workloads"] == len(order)
            assert [row[f"{name}_micro_ms"] for name in QUANTITIES[:3]] == [
                of(its, name, scale) for name in QUANTITIES[:3]
            ]
            assert row["cost"] == cost(its, scale, "contracted", "held")
            assert row["unpriced_micro_ms"] == of([one for one in its if one["contracted"] is None], "held", scale)


def test_costs_of_days_are_those_of_their_entries(books: Store, drawn: Drawn) -> None:
    tenants = ["bio", "chem"]
    rows = asked(books, "accounts/daily_costs", tenants=tenants, scale=14)
    found = {(row["tenant"], row["project"], str(row["day"])): row for row in rows}
    expected = groups(within(drawn[1], *tenants), "tenant", "project", "day")
    assert list(found) == sorted(expected)
    for key, some in expected.items():
        unpriced = of([one for one in some if one["contracted"] is None], "held", 14)
        row = found[key]
        assert (row["cost"], row["held"], row["unpriced"]) == (
            cost(some, 14, "contracted", "held"), of(some, "held", 14), unpriced)  # fmt: skip
        assert row["currencies"] == sorted({one["currency"] for one in some} - {""})
    shown: dict[Any, list[int]] = defaultdict(lambda: [0, 0])
    for row in asked(books, "insights/daily_costs"):
        sums = shown[row["day"], bool(row["is_platform"]), row["tenant"], row["device_units"]]
        sums[0], sums[1] = sums[0] + row["cost"], sums[1] + row["unpriced"]
        assert row["currencies"] == int(row["currency"] != "") == int(row["price"] is not None)
    reckoned: dict[Any, list[int]] = defaultdict(lambda: [0, 0])
    for one in drawn[1]:
        if START <= one["start"] < END and (one["allocation_id"] or one["unallocated"]):
            sums = reckoned[day_of(one["start"]), not one["allocation_id"], one["tenant"], one["device_units"]]
            price = one["contracted"] if one["allocation_id"] else one["list"]
            amount = held(one) + one["unallocated"]
            sums[0], sums[1] = sums[0] + (price or 0) * amount, sums[1] + (amount if price is None else 0)
    assert shown == reckoned


Span = tuple[str, str | None, int, int]


def asked_of(spans: Sequence[Span]) -> dict[str, Any]:
    return {"tenants": [one[0] for one in spans], "projects": [one[1] or "" for one in spans],
            "any_project": [int(one[1] is None) for one in spans],
            "currencies": [("", "EUR")[number % 2] for number, _ in enumerate(spans)]}  # fmt: skip


def check_costs(store: Store, entries: Sequence[Entry], spans: Sequence[Span]) -> None:
    times = {"starts": [of_epoch_ms(one[2]) for one in spans], "ends": [of_epoch_ms(one[3]) for one in spans]}
    rows = asked(store, "accounts/cost_of_spans", **asked_of(spans), **times)
    found = {(row["span"], row["device_units"], nano(row["contracted_unit_price"]), row["part_ms"], row["whole_ms"]):
             (row["held_micro_ms"], row["billing_currency"]) for row in rows}  # fmt: skip
    assert len(found) == len(rows)
    expected: dict[Any, tuple[int, str]] = {}
    for number, (tenant, project, first, last) in enumerate(spans):
        for one in entries:
            part, whole = min(last, one["end"]) - max(first, one["start"]), one["end"] - one["start"]
            if one["tenant"] == tenant and project in (None, one["project"]) and part > 0:
                parts = (1, 1) if part == whole else (part, whole)
                key = (number, one["device_units"], one["contracted"], *parts)
                expected[key] = (expected.get(key, (0, ""))[0] + held(one), one["currency"])
    assert found == expected


def test_costs_of_spans_and_hours_are_those_of_the_entries_in_them(books: Store, drawn: Drawn) -> None:
    dice, entries = drawn
    spans: list[Span] = []
    for one in dice.sample([one for one in entries if one["tenant"] in ("bio", "chem")], 6):
        last = one[dice.choice(["start", "end"])] + dice.choice([-1, 0, 1, 1, HOUR_MS])
        first = min(last - 1, dice.choice(entries)["start"] + dice.choice([-1, 0, 1]))
        spans.append((one["tenant"], dice.choice([None, one["project"]]), first, last))
    for some in (spans, *([one] for one in spans)):
        check_costs(books, entries, some)

    hours = [dice.choice(entries)["hour"] for _ in spans]
    rows = asked(books, "accounts/entries_of_hours", **asked_of(spans), hours=[second(hour) for hour in hours])
    parts_of: dict[Any, int] = defaultdict(int)
    for number, (tenant, project, _, _) in enumerate(spans):
        for one in entries:
            is_its = one["tenant"] == tenant and project in (None, one["project"])
            if is_its and one["hour"] == hours[number] and one["contracted"] is not None:
                parts_of[number, one["start"], one["end"], one["device_units"], one["contracted"]] += held(one)
    assert parts_of == {
        (row["question"], int(row["charge_period_start"].timestamp() * 1000 + 0.5),
         int(row["charge_period_end"].timestamp() * 1000 + 0.5), row["device_units"],
         nano(row["contracted_unit_price"])): row["held_micro_ms"] for row in rows
    }  # fmt: skip

    questions = []
    for tenant, project, first, last in spans:
        since, until = first // HOUR_MS * HOUR_MS, last // HOUR_MS * HOUR_MS + HOUR_MS
        its: dict[int, int] = defaultdict(int)
        for one in entries:
            if one["tenant"] == tenant and project in (None, one["project"]) and since <= one["hour"] < until:
                its[one["hour"]] += cost([one], 14, "contracted", "held")
        whole = sum(its.values())
        for level in {1, max(1, whole), whole + 1, max([1, *its.values()]), whole // 2 + 1}:
            so_far, answer = 0, None
            for hour in sorted(its):
                if so_far + its[hour] >= level:
                    answer = (hour, so_far)
                    break
                so_far += its[hour]
            questions.append((tenant, project, since, until, level, answer))
    rows = asked(
        books, "accounts/hours_that_reach", tenants=[one[0] for one in questions],
        projects=[one[1] or "" for one in questions], any_project=[int(one[1] is None) for one in questions],
        from_hours=[second(one[2]) for one in questions], to_hours=[second(one[3]) for one in questions],
        levels=[str(one[4]) for one in questions], currencies=[""] * len(questions), scale=14,
    )  # fmt: skip
    reached = {row["question"]: (int(row["hour"].timestamp()) * 1000, row["before"]) for row in rows}
    assert reached == {number: one[5] for number, one in enumerate(questions) if one[5]}


def test_what_short_sessions_lack_is_what_they_held_stretched_to_the_minimum(books: Store, drawn: Drawn) -> None:
    dice, entries = drawn
    minimum = 4 * HOUR_MS
    lives: dict[tuple[str, str], list[tuple[int, int | None]]] = {}
    for key in groups(within(entries), "cluster", "allocation_id"):
        end = dice.choice([START, START + 1, END, END + 1, dice.randint(START, END)])
        start = end - dice.choice([0, 1, minimum - 1, minimum, dice.randrange(minimum)])
        middle = dice.randint(start, end)
        lives[key[0], key[1]] = [(start, middle), (middle, end)] if dice.random() < 0.5 else [(start, end)]
    open_one = next(iter(lives))
    lives[open_one] = [(START, START + 9), (START + 9, None)]
    claims = [(key, *life) for key, some in lives.items() for life in some]
    books.insert("allocations", pa.table({
        "claim": pa.array(range(len(claims)), pa.uint64()), "cluster": [one[0][0] for one in claims],
        "allocation_id": [one[0][1] for one in claims], "start_at": times(one[1] for one in claims),
        "end_at": pa.array([one[2] for one in claims], pa.timestamp("ms", "UTC")),
    }))  # fmt: skip
    names = ("tenant", "project", "sku", "list", "contracted", "device_units")
    for tenant in ("", "bio"):
        expected: dict[Any, list[int]] = defaultdict(lambda: [0, 0])
        for (cluster, session), some in lives.items():
            last = max((end or 2**60) for _, end in some)
            length = last - min(start for start, _ in some)
            if not (0 < length < minimum and START < last <= END):
                continue
            its = [one for one in entries if (one["cluster"], one["allocation_id"]) == (cluster, session)
                   and one["start"] < END and tenant in ("", one["tenant"])]  # fmt: skip
            for key, alike in groups(its, *names).items():
                sums = expected[(*key, (last - 1) // HOUR_MS * HOUR_MS)]
                sums[0] += 1
                sums[1] += of(alike, "held") * (minimum - length) // length
        rows = asked(books, "invoicing/minimum", all_tenants=int(not tenant), tenant=tenant, minimum_ms=minimum)
        found = {
            (row["tenant"], row["project"], row["sku"], nano(row["list_unit_price"]),
             nano(row["contracted_unit_price"]), row["device_units"],
             int(row["hour"].timestamp()) * 1000): [row["sessions"], row["lacking_micro_ms"]]
            for row in rows
        }  # fmt: skip
        assert found == expected and len(rows) == len(found)


def test_an_allocation_has_its_linear_part_of_each_step(books: Store, drawn: Drawn) -> None:
    """However the window is cut, and whatever is asked for; parts are rounded down as they grow."""
    dice, entries = drawn
    edges = sorted({dice.choice(entries)["start"] + dice.randint(-HOUR_MS, HOUR_MS) for _ in range(4)})
    dimensions = {"cluster": "cluster", "node": "node", "namespace": "project", "pod": "workload_id",
                  "tenant": "tenant", "queue": "queue", "model": "model", "pool": "pool",
                  "device": "device_id"}  # fmt: skip
    by = dice.sample(list(dimensions), dice.randint(0, 3))
    apart = dice.choice([[], ["cluster"], ["cluster", "node"]])
    wanted: dict[str, list[str]] = {name: [] for name in dimensions}
    for name in dice.sample(list(dimensions), 2):
        wanted[name] = [dice.choice(entries)[dimensions[name]]]
    rows = asked(books, "opencost/allocation", edges=edges, by=by, apart=apart,
                 **{f"wanted_{name}": values for name, values in wanted.items()})  # fmt: skip
    own = [f"by_{name}" for name in dimensions] + ["apart_cluster", "apart_node"]
    found = {(row["step"], bool(row["held"]), bool(row["matched"]), *(row[name] for name in own), row["device_units"],
              nano(row["list_unit_price"]), nano(row["contracted_unit_price"])): row for row in rows}  # fmt: skip
    assert len(found) == len(rows)
    expected: dict[Any, list[tuple[Entry, int, int]]] = defaultdict(list)
    for step, (first, last) in enumerate(pairwise(edges)):
        for one in entries:
            since, until = max(first, one["start"]), min(last, one["end"])
            if since < until:
                is_held = bool(one["allocation_id"])
                matched = all(not values or one[dimensions[name]] in values for name, values in wanted.items())
                shown = [one[column] if name in by and is_held else "" for name, column in dimensions.items()]
                places = [one[name] if name in apart else "" for name in ("cluster", "node")]
                prices = (one["device_units"], one["list"], one["contracted"])
                expected[(step, is_held, matched, *shown, *places, *prices)].append((one, since, until))
    assert found.keys() == expected.keys()
    for key, parts in expected.items():
        row = found[key]
        for name in QUANTITIES:
            assert row[f"{name}_micro_ms"] == sum(
                one[name] * (until - one["start"]) // (one["end"] - one["start"])
                - one[name] * (since - one["start"]) // (one["end"] - one["start"])
                for one, since, until in parts
            )
        assert (row["from_ms"], row["to_ms"]) == (
            min(since for _, since, _ in parts),
            max(until for *_, until in parts),
        )
        assert row["cut"] == sum((since, until) != (one["start"], one["end"]) for one, since, until in parts)
        assert bool(row["shared"]) == any(
            one["allocation_id"] and one["units"] < one["device_units"] for one, *_ in parts
        )
        for name, column in dimensions.items():
            values = {one[column] for one, *_ in parts}
            assert row[f"the_{name}"] == (values.pop() if len(values) == 1 else None)


def test_what_a_later_close_says_otherwise_is_what_was_and_is_of_each_allocation(books: Store, drawn: Drawn) -> None:
    """Entries as some closes left them: alike, cut in two, in other amounts, or gone; and energy."""
    dice, entries = drawn
    written, energy = [], []
    for hour, some in groups([one for one in entries if one["allocation_id"]], "hour").items():
        for run in [7 + hour[0] // HOUR_MS % 3, *sorted(dice.sample([10, 11, 12], dice.randint(1, 3)))]:
            left, of_all = [], dice.choice(["cut", "cut", ""])
            for one in some:
                how = of_all or dice.choice(["alike", "alike", "cut", "other", "gone"])
                middle = (one["start"] + one["end"]) // 2
                now = one | {"run": run}
                if how == "cut" and middle > one["start"]:
                    parts = {name: one[name] // 2 // MILLION * MILLION for name in QUANTITIES}
                    left += [
                        now | parts | {"end": middle},
                        now | {name: one[name] - parts[name] for name in parts} | {"start": middle},
                    ]
                elif how == "other":
                    left.append(now | {"idle": one["idle"] + 1})
                elif how != "gone":
                    left.append(now)
                amounts = {
                    name: dice.choice([None, 0, 5, 5, 5, 6]) for name in ("energy_millijoules", "memory_byte_ms")
                }
                energy.append(now | amounts)
            some = left
            written += some if run > 9 else []
    fill(books, written)
    of_energy = [name for name in PLAIN if name not in ("partition_profile", "estimated", "units", "priority")]
    of_energy += ["energy_millijoules", "memory_byte_ms"]
    books.insert("energy_entries", pa.table({
        **{name: pa.array([one[name] for one in energy]) for name in of_energy},
        "run": pa.array([one["run"] for one in energy], pa.uint64()), "hour": times(one["hour"] for one in energy),
        "charge_period_start": times(one["start"] for one in energy),
    }))  # fmt: skip
    everything = [*entries, *written]
    before, after = dice.choice([6, 9, 9, 10]), dice.choice([10, 11, 13, 13])
    runs: dict[int, set[int]] = defaultdict(set)
    for one in everything:
        runs[one["hour"]].add(one["run"])
    was = {hour: max((run for run in some if run <= before), default=0) for hour, some in runs.items()}
    new = {hour: max((run for run in some if run <= after), default=0) for hour, some in runs.items()}
    for by_hour in (0, 1):
        expected: dict[Any, list[Any]] = {}
        for one in [*everything, *energy]:
            hour, is_energy = one["hour"], "energy_millijoules" in one
            if one["tenant"] != "chem" or not START <= one["start"] < END or was[hour] == new[hour]:
                continue
            if one["run"] not in (was[hour], new[hour]):
                continue
            prices = (None, None) if is_energy else (one["list"], one["contracted"])
            own = [one[name] for name in ("cluster", "allocation_id", "workload_id", "project", "sku", "device_units")]
            key = (second(hour) if by_hour else "", one["device_id"] if by_hour else "", *own, *prices)
            sums = expected.setdefault(key, [[0, 0, 0], [0, 0, 0], 0, 2**60, 0])
            what = sums[one["run"] == new[hour]]
            if is_energy:
                what[1] += one["energy_millijoules"] or 0
                what[2] += one["memory_byte_ms"] or 0
            else:
                what[0] += held(one)
            sums[2] = max(sums[2], new[hour])
            sums[3:] = min(sums[3], one["start"]), max(sums[4], one["start"] if is_energy else one["end"])
        rows = asked(books, "invoicing/changes", before=before, after=after, tenant="chem", by_hour=by_hour)
        found = {
            (row["in_hour"], row["device"], row["cluster"], row["allocation_id"], row["workload_id"], row["project"],
             row["sku"], row["device_units"], nano(row["list_unit_price"]), nano(row["contracted_unit_price"])):
            [row["was_micro_ms"], row["now_micro_ms"], row["again"], row["from_at"], row["to_at"]] for row in rows
        }  # fmt: skip
        assert len(found) == len(rows)
        assert found == {
            key: [one[0], other[0], again, of_epoch_ms(since), of_epoch_ms(until)]
            for key, (one, other, again, since, until) in expected.items()
            if one != other
        }


SUBJECT = ("cluster", "allocation_id", "device_id", "partition_id")


def drawn_use(dice: Random) -> tuple[list[Entry], list[Entry]]:
    """Allocations one after the other on few devices and parts, and samples of everybody and of workloads on them."""
    held: list[Entry] = []
    samples: list[Entry] = []
    for number in range(24):
        start = START + (dice.randint(0, 60) if number else -9) * HOUR_MS + number
        end = None if dice.random() < 0.2 else start + dice.choice([1, HOUR_MS - number, HOUR_MS, 9 * HOUR_MS])
        held.append({
            "claim": number + 1, "cluster": "c", "allocation_id": f"a{number % 14}", "workload_id": dice.choice("xy"),
            "device_id": dice.choice("gh"), "partition_id": dice.choice(["", "", "p"]), "units": dice.choice([1, 4, 4]),
            "partition_profile": dice.choice(["", "", "1g"]), "start": start, "end": end,
        })  # fmt: skip
    for _ in range(300):
        one = dice.choice(held)
        last = one["end"] or END
        samples.append({
            "ts": dice.choice([START, START + 1, END, one["start"], one["start"] + 1, last, last + 1,
                               *(dice.randint(START, START + 70 * HOUR_MS) for _ in range(9))]),
            "cluster": "c", "device_id": one["device_id"], "partition_id": one["partition_id"],
            "workload_id": dice.choice(["", one["workload_id"]]),
            "interval_seconds": dice.choice([60.0, 3600.0, 0.001]),
            "state": dice.choice(["ok", "ok", "idle", "unsupported"]),
            "utilization": dice.choice([None, 0.0, 0.01, 0.010001, 0.25, 0.2504, 0.999, 1.0]),
            "memory_used_bytes": dice.choice([None, 0, dice.randint(1, 99)]),
            "memory_total_bytes": dice.choice([None, 80, 96]), "utilization_source": dice.choice(["", "sm", "gr"]),
        })  # fmt: skip
    # Of several records of a stream and instant the engine may drop all but one.
    key = ("ts", "device_id", "partition_id", "workload_id")
    return held, list({tuple(one[name] for name in key): one for one in samples}.values())


def test_use_is_that_of_the_stream_which_speaks_of_most_of_it(books: Store, drawn: Drawn) -> None:
    dice = drawn[0]
    held, samples = drawn_use(dice)
    books.insert("allocations", pa.table({
        **{name: [one[name] for one in held] for name in ("cluster", "allocation_id", "workload_id", "device_id",
                                                           "partition_id", "partition_profile")},
        **{name: pa.array([one[name] for one in held], pa.uint64()) for name in ("claim", "units")},
        "start_at": times(one["start"] for one in held),
        "end_at": pa.array([one["end"] for one in held], pa.timestamp("ms", "UTC")),
    }))  # fmt: skip
    columns = [name for name in samples[0] if name != "ts"]
    as_given = {name: [one[name] for one in samples] for name in columns}
    books.insert("samples", pa.table(as_given | {"ts": times(one["ts"] for one in samples)}))
    whole = {("c", device): 4 for device in "gh"}
    books.insert("devices", pa.table({
        "ts": times([START, START]), "cluster": ["c", "c"], "device_id": ["g", "h"],
        "units": pa.array([4, 4], pa.uint32()), "state": ["available"] * 2,
    }))  # fmt: skip
    least, idle_below = dice.choice([1, HOUR_MS]), 10_000
    asked_for = dice.sample([f"a{number}" for number in range(14)], 8)
    for every in (0, 1):
        spoken: dict[Any, list[tuple[int, int, Entry]]] = defaultdict(list)
        for one in held:
            since, until = max(one["start"], START), min(one["end"] or END, END)
            is_whole = one["units"] == whole[one["cluster"], one["device_id"]]
            is_asked = every or one["allocation_id"] in asked_for
            if is_asked and until > START and until - since >= least and (is_whole or one["partition_profile"]):
                for workload in (one["workload_id"], ""):
                    spoken[one["device_id"], one["partition_id"], workload].append((since, until, one))
        found: dict[Any, list[tuple[int, int, Entry]]] = defaultdict(list)
        for sample in samples:
            at = sample["ts"]
            before = [span for span in spoken[sample["device_id"], sample["partition_id"], sample["workload_id"]]
                      if span[0] < at]  # fmt: skip
            if not (START < at <= END and sample["state"] in ("ok", "idle") and before):
                continue
            since, until, one = max(before, key=lambda span: span[0])
            if at <= until:
                weight = min(round(sample["interval_seconds"] * 1000), at - since)
                key = (*(one[name] for name in SUBJECT), sample["workload_id"] != "")
                value = -(-round((sample["utilization"] or 0) * 10**6) // 1000)
                found[key].append((value, weight, sample))
        chosen: dict[Any, Any] = {}
        for key, some in found.items():
            covered = sum(weight for _, weight, _ in some)
            chosen[key[:4]] = max(chosen.get(key[:4], (-1, False)), (covered, key[4]))
        rows = keyed(asked(books, "insights/use", allocations=asked_for, every=every, least_ms=least,
                           idle_below=idle_below), *SUBJECT)  # fmt: skip
        assert list(rows) == sorted(chosen)
        for key, (covered, named) in chosen.items():
            some, row = sorted(found[*key, named], key=lambda one: one[:2]), rows[key]
            assert (row["covered_ms"], row["samples"]) == (covered, len(some))
            for name, level in (("p50", 50), ("p95", 95), ("p99", 99)):
                sums = [sum(weight for value, weight, _ in some if value <= one[0]) for one in some]
                assert row[name] == next(one[0] for one, sum_ in zip(some, sums, strict=True)
                                         if sum_ * 100 >= covered * level)  # fmt: skip
            idle = [
                one for *_, one in some if one["utilization"] is not None and one["utilization"] * 10**6 <= idle_below
            ]
            for name, of_these, column in (
                ("max_memory_bytes", [one for *_, one in some], "memory_used_bytes"),
                ("memory_total_bytes", [one for *_, one in some], "memory_total_bytes"),
                ("idle_memory_bytes", idle, "memory_used_bytes"),
            ):
                assert row[name] == max((one[column] for one in of_these if one[column] is not None), default=None)
            assert list(row["sources"]) == sorted({one["utilization_source"] for *_, one in some})
