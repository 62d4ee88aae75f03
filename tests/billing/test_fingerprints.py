"""Fingerprints of entries and sessions: every column that counts is in them, and nothing else is.

Each base row stands once in an hour of its own, and once for each column with another value there, so that one question
tells which columns the fingerprint sees.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest

import billing.close
import billing.energy
from billing.close.issued import SETTLED
from billing.close.resolve import FOREVER
from tests.billing.hand_ledger import HOUR_MS
from tests.draws import drawn_seed
from warehouse.store import Store, read_sql

CLOSE, ENERGY = (Path(str(module.__file__)) for module in (billing.close, billing.energy))
MONTHS = [tuple(1000 * int(datetime(2026, *day, 30, tzinfo=UTC).timestamp()) for day in days)
          for days in (((1, 31, 18), (2, 28, 18)), ((3, 31, 18), (4, 30, 18)))]  # fmt: skip
"""February and April in India, in ms: March is not issued."""
IN_MONTHS = {"starts_ms": [start for start, _ in MONTHS], "ends_ms": [end for _, end in MONTHS]}
SINCE = datetime(2026, 1, 1, tzinfo=UTC)

Row = dict[str, Any]


def text(dice: Random) -> str:
    return dice.choice("abcdef") * dice.randint(1, 3)


def count(dice: Random) -> int:
    return dice.randint(1, 9)


def amount(dice: Random) -> str:
    return f"{dice.randint(0, 9)}.{dice.randint(1, 999999):06}"


def maybe_price(dice: Random) -> str | None:
    return dice.choice([None, "0", f"{dice.randint(1, 9)}.{dice.randint(0, 9)}"])


def maybe_count(dice: Random) -> int | None:
    return dice.choice([None, 0, count(dice)])


def truth(dice: Random) -> bool:
    return dice.random() < 0.5


SHARED = {
    **dict.fromkeys(("cluster", "node", "device_id", "model", "pool", "tenant", "project", "queue"), text),
    **dict.fromkeys(("workload_id", "allocation_id", "sku"), text),
    "device_units": count,
    "preemptible": truth,
}
OF_ENTRIES = {
    **SHARED,
    **dict.fromkeys(("partition_id", "partition_profile", "billing_currency", "cost_center", "estimated"), text),
    **dict.fromkeys(("reported_tenant", "reported_project"), text),
    **dict.fromkeys(("units", "unmetered_unit_ms", "unallocated_unit_ms", "unavailable_unit_ms"), count),
    **dict.fromkeys(("list_unit_price", "contracted_unit_price"), maybe_price),
    **dict.fromkeys(("used_unit_ms", "idle_unit_ms"), amount),
    "unmapped": truth,
    "priority": maybe_count,
}
"""All but the run, the hour and the times."""
OF_ENERGY = {
    **SHARED,
    **dict.fromkeys(("energy_millijoules", "memory_byte_ms"), maybe_count),
    **dict.fromkeys(("measured_unit_ms", "memory_measured_unit_ms"), count),
}
HELD = {"used_unit_ms", "idle_unit_ms", "unmetered_unit_ms"}
OF_BEFORE = {"cluster", "allocation_id", "device_units", "tenant", "project", "sku", "list_unit_price",
             "contracted_unit_price", "charge_period_start", *HELD}  # fmt: skip
"""What counts of an hour before a month for what a session held in it."""


@pytest.fixture(scope="module")
def dice() -> Random:
    seed = drawn_seed()
    print(f"GPULEDGER_SEED={seed}")
    return Random(seed)


def drawn(dice: Random, columns: Mapping[str, Any], starts_ms: int) -> Row:
    row = {name: of(dice) for name, of in columns.items()}
    row["charge_period_start"] = starts_ms
    if columns is OF_ENTRIES:
        row["charge_period_end"] = starts_ms + HOUR_MS
        if truth(dice):  # nothing of a mapping
            row |= {"reported_tenant": row["tenant"], "reported_project": row["project"], "cost_center": ""}
            row |= {"unmapped": False, "priority": None}
    return row


def changed(dice: Random, columns: Mapping[str, Any], row: Row, name: str) -> Row:
    """The row, but for one column; a start moves by as little as there is."""
    if name not in columns:
        return row | {name: row[name] + 1}
    while (value := columns[name](dice)) == row[name]:
        pass
    return row | {name: value}


def fill(store: Store, table: str, hours: Sequence[Sequence[Row]]) -> None:
    """The rows of each place in an hour of that number, whenever they lie."""
    rows = [row | {"hour": SINCE + timedelta(hours=hour), "run": 1} for hour, of in enumerate(hours) for row in of]
    columns: dict[str, Any] = {}
    for name in rows[0]:
        values = [row[name] for row in rows]
        times = name.startswith("charge_period")
        columns[name] = pa.array(values, pa.timestamp("ms", "UTC") if times or name == "hour" else None)
    store.insert(table, pa.table(columns))


def contents(store: Store, statement: str, number: int, **params: Any) -> list[int | None]:
    """Of each hour's number; None: it has no row."""
    first = int(SINCE.timestamp()) // 3600
    found = {row["hour"] - first: row["content"] for row in store.rows(statement, params)}
    assert found.keys() <= set(range(number))
    return [found.get(hour) for hour in range(number)]


def seen(dice: Random, store: Store, table: str, bases: Sequence[Row], statement: str, **params: Any) -> list[set[str]]:
    """The columns that a fingerprint sees of each base row. Two rows of an hour sum, in any order."""
    columns = OF_ENTRIES if table == "ledger_entries" else OF_ENERGY
    names = list(bases[0])
    hours = [[base] for base in bases]
    hours += [[changed(dice, columns, base, name)] for base in bases for name in names]
    hours += [[one, other] for one, other in pairwise(bases)]
    fill(store, table, hours)
    found = contents(store, statement, len(hours), **params)
    alone, found = found[: len(bases)], found[len(bases) :]
    result = []
    for base in alone:
        others, found = found[: len(names)], found[len(names) :]
        result.append({name for name, other in zip(names, others, strict=True) if other != base})
    sums = zip(alone, alone[1:], found, strict=False)
    assert all((one is None and other is None and both is None) or
               ((one or 0) + (other or 0)) % 2**64 == both for one, other, both in sums)  # fmt: skip
    return result


def test_each_column_of_an_entry_is_in_an_hours_fingerprint(dice: Random, books: Store) -> None:
    bases = [drawn(dice, OF_ENTRIES, MONTHS[0][0]) for _ in range(6)]
    statement = read_sql(str(CLOSE), "content")
    found = seen(dice, books, "ledger_entries", bases, statement, entries="ledger_entries")
    assert found == [set(base) for base in bases]


def test_each_column_of_an_energy_entry_is_in_an_hours_fingerprint(dice: Random, books: Store) -> None:
    bases = [drawn(dice, OF_ENERGY, MONTHS[0][0]) for _ in range(6)]
    statement = read_sql(str(ENERGY), "content")
    found = seen(dice, books, "energy_entries", bases, statement, energy="energy_entries")
    assert found == [set(base) for base in bases]


def lies_in_one(at: int) -> bool:
    return any(start <= at < end for start, end in MONTHS)


EDGES = [at + by for month in MONTHS for at in month for by in (-1, 0, 1)]
"""Instants beside the ends of months."""


def test_each_column_of_an_issued_months_energy_is_in_its_fingerprint(dice: Random, books: Store) -> None:
    bases = [drawn(dice, OF_ENERGY, at) for at in EDGES]
    statement = read_sql(str(CLOSE), "issued_energy")
    found = seen(dice, books, "energy_entries", bases, statement, energy="energy_entries", **IN_MONTHS)
    for base, columns, at in zip(bases, found, EDGES, strict=True):
        comes_in = {"charge_period_start"} if lies_in_one(at + 1) else set()
        assert columns == (set(base) if lies_in_one(at) else comes_in)


@contextmanager
def claims(store: Store, rows: Sequence[tuple[str, str, int, int]]) -> Iterator[str]:
    """A table of claims: a cluster, a session, from and until when."""
    name = "claims_of_this_test"
    store.command(
        f"CREATE TABLE {name} (cluster String, allocation_id String, start_ms Int64, end_ms Int64) ENGINE = Memory"
    )
    try:
        clusters, sessions, starts, ends = zip(*rows, strict=True)
        named = {
            "cluster": list(clusters),
            "allocation_id": list(sessions),
            "start_ms": list(starts),
            "end_ms": list(ends),
        }
        store.insert(name, pa.table(named))
        yield name
    finally:
        store.command(f"DROP TABLE {name}")


def test_each_column_that_counts_of_an_issued_month_and_of_what_reaches_into_it_is_in_its_fingerprint(
    dice: Random, books: Store
) -> None:
    """Each session is of a time of its own, beside a month's ends; so is its only entry."""
    reach = 3 * HOUR_MS
    bases: list[Row] = []
    sessions: list[tuple[str, str, int, int]] = []
    expected: list[list[str]] = []
    for start, end in MONTHS:
        for at in (start - reach - 1, start - reach, start - 1, start, end - 1, end, end + 1):
            for first, last in ((at, start), (at, start + 1), (end, end + 1), (end - 1, end), (start - 9, end + 9)):
                base = drawn(dice, OF_ENTRIES, at) | {
                    "cluster": f"c{len(bases) % 2}",
                    "allocation_id": f"s{len(bases)}",
                }
                sessions += [(base["cluster"], base["allocation_id"], first, last)] * dice.randint(1, 2)
                # The same name in another cluster is another session.
                sessions.append((f"c{1 - len(bases) % 2}", base["allocation_id"], start - 9, end + 9))
                goes_into = [one for one, until in MONTHS if first < until and last > one]
                bases.append(base)
                expected.append([
                    "whole" if lies_in_one(when)
                    else "held" if any(one - reach <= when < one for one in goes_into) else ""
                    for when in (at, at + 1)
                ])  # fmt: skip
    statement = read_sql(str(CLOSE), "issued_entries")
    with claims(books, sessions) as settled:
        found = seen(dice, books, "ledger_entries", bases, statement,
                     entries="ledger_entries", settled=settled, reach_ms=reach, **IN_MONTHS)  # fmt: skip
    assert {kind for kind, _ in expected} == {"whole", "held", ""}
    for base, columns, (kind, moved) in zip(bases, found, expected, strict=True):
        counting = {"whole": set(base) - {"estimated"}, "held": OF_BEFORE, "": set()}
        # A start that moves out of what counts or into it; a session of another name goes nowhere.
        assert columns == counting[kind] | ({"charge_period_start"} if kind != moved else set()), (base, kind)


def test_a_sessions_time_held_before_a_month_is_what_counts_however_it_was_used(dice: Random, books: Store) -> None:
    start = MONTHS[0][0]
    used, idle = amount(dice), amount(dice)
    base = drawn(dice, OF_ENTRIES, start - 1) | {"used_unit_ms": used, "idle_unit_ms": idle}
    statement = read_sql(str(CLOSE), "issued_entries")
    fill(books, "ledger_entries", [[base], [base | {"used_unit_ms": idle, "idle_unit_ms": used}]])
    with claims(books, [(base["cluster"], base["allocation_id"], start - 1, start + 1)]) as settled:
        params = {"entries": "ledger_entries", "settled": settled, "reach_ms": 1, **IN_MONTHS}
        one, other = contents(books, statement, 2, **params)
    assert one == other is not None


def test_a_short_session_of_an_issued_month_is_recognized_by_its_name_and_both_ends(dice: Random, books: Store) -> None:
    """However many claims it is of. minimum: 10 s."""
    sessions: list[tuple[str, str, int, int]] = []
    counts = []
    for start, end in MONTHS:
        for last in (start, start + 1, end, end + 1):
            for length in (0, 1, 9999, 10000):
                sessions.append((f"c{len(sessions) % 2}", f"s{len(sessions) // 2}", last - length, last))
                counts.append(start < last <= end and 0 < length < 10000)
    rows = []
    for cluster, session, first, last in sessions:
        middle = dice.randint(first, last)
        rows += [(cluster, session, first, middle), (cluster, session, middle, last)] if truth(dice) else [
            (cluster, session, first, last)]  # fmt: skip

    def content(table: str, which: str = "1") -> int:
        claimed = f"SELECT * FROM ({SETTLED}) WHERE {which}"
        params = {"settled": table, **IN_MONTHS, "minimum_ms": 10000, "forever": FOREVER}
        return int(books.value(read_sql(str(CLOSE), "issued_sessions", claims=claimed), params))

    with claims(books, rows) as table:
        alone = [content(table, f"cluster = '{one[0]}' AND allocation_id = '{one[1]}'") for one in sessions]
        assert [bool(one) for one in alone] == counts
        assert content(table) == sum(alone) % 2**64
    start, end = MONTHS[0]
    other = [
        ("c", "s", end - 9, end),
        ("d", "s", end - 9, end),
        ("c", "t", end - 9, end),
        ("c", "s", end - 8, end),
        ("c", "s", end - 9, end - 1),
    ]
    found = set()
    for one in other:
        with claims(books, [one]) as table:
            found.add(content(table))
    assert len(found) == len(other)
