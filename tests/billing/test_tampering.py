"""`verify` notices any one cell, row missing or row doubled of the tables that it vouches for, and passes again when it
is put back.

The suite tries a sample, another one in each run; the seed is printed. All of them: GPULEDGER_TAMPER=all; the same
again: GPULEDGER_SEED=4711.
"""

from __future__ import annotations

import contextlib
import os
import random
import secrets
from collections.abc import Iterator

import pytest

from billing.verify import verify
from billing.verify.tables import NOT_VOUCHED, VOUCHED
from tests.billing.rich_books import rich_books
from warehouse.store import Store, identifier

SEED = int(os.environ.get("GPULEDGER_SEED", secrets.randbits(32)))
ALL = os.environ.get("GPULEDGER_TAMPER") == "all"
CELLS, ROWS = 5, 2
"""Of a run that does not try all: changed cells, and rows that go missing and that are doubled."""
HASHED = "sipHash64(toString(tuple(*)))"


@pytest.fixture(scope="module")
def books(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    with rich_books(tmp_path_factory.mktemp("books")) as store:
        yield store


def test_every_table_is_vouched_for_or_says_why_it_is_not(books: Store) -> None:
    sql = "SELECT name FROM system.tables WHERE database = currentDatabase() AND engine LIKE '%MergeTree'"
    assert {row["name"] for row in books.rows(sql)} == VOUCHED.keys() | NOT_VOUCHED.keys()
    assert not VOUCHED.keys() & NOT_VOUCHED.keys()


def test_rich_books_are_true_and_no_vouched_table_is_empty(books: Store) -> None:
    assert [str(one) for one in verify(books).failures] == []
    assert {table for table in VOUCHED if not count(books, table)} == set()


def test_every_changed_cell_is_noticed(books: Store) -> None:
    dice = seeded()
    cells = [(table, column, kind) for table in VOUCHED for column, kind in columns_of(books, table)]
    unnoticed = []
    for table, column, kind in cells if ALL else dice.sample(cells, CELLS):
        row, value = some_row(books, table, dice), changed(kind, dice)
        cell = f"if(row_hash = {row}, {value.format(identifier(column))}, {identifier(column)}) AS {identifier(column)}"
        with replaced(books, table, f"* EXCEPT (row_hash) REPLACE ({cell})"):
            if verify(books).balanced:
                unnoticed.append(f"{table}.{column} ({kind}, {value})")
    assert unnoticed == []
    assert verify(books).balanced


def test_every_row_that_is_missing_or_doubled_is_noticed(books: Store) -> None:
    dice = seeded()
    rows = [(table, how) for table in VOUCHED for how in ("missing", "doubled")]
    unnoticed = []
    for table, how in rows if ALL else dice.sample(rows, ROWS):
        row = some_row(books, table, dice)
        which = {
            "missing": f"WHERE row_hash != {row}",
            "doubled": f"ARRAY JOIN range(if(row_hash = {row}, 2, 1)) AS twice",
        }
        with replaced(
            books, table, "* EXCEPT (row_hash)" if how == "missing" else "* EXCEPT (row_hash, twice)", which[how]
        ):
            if verify(books).balanced:
                unnoticed.append(f"{table}: a row is {how}")
    assert unnoticed == []
    assert verify(books).balanced


# --- tampering -------------------------------------------------------------------------------------------------------


def seeded() -> random.Random:
    print(f"GPULEDGER_SEED={SEED}")
    return random.Random(SEED)


def count(store: Store, table: str) -> int:
    return int(store.value(f"SELECT count() AS n FROM {identifier(table)} WHERE {VOUCHED[table] or '1'}"))


def columns_of(store: Store, table: str) -> list[tuple[str, str]]:
    sql = "SELECT name, type FROM system.columns WHERE database = currentDatabase() AND table = {table:String}"
    return [(row["name"], row["type"]) for row in store.rows(sql, {"table": table})]


def some_row(store: Store, table: str, dice: random.Random) -> int:
    """The hash of one of the rows that are vouched for."""
    rows = f"SELECT {HASHED} AS row_hash FROM {identifier(table)} WHERE {VOUCHED[table] or '1'}"
    sql = f"{rows} ORDER BY row_hash"
    return int(dice.choice(store.rows(sql))["row_hash"])


def changed(kind: str, dice: random.Random) -> str:
    """An expression of another value of a column ({}) of this type."""
    inner = kind
    for wrapper in ("LowCardinality", "Nullable"):
        inner = inner.removeprefix(f"{wrapper}(").removesuffix(")") if inner.startswith(wrapper) else inner
    step = dice.choice("+-")
    if inner == "String":
        value = dice.choice(("concat({}, 'x')", "if({} = '', 'x', '')", "if({} = '', 'x', substring({}, 2))"))
    elif inner == "Bool":
        value = "NOT {}"
    elif inner.startswith("DateTime64"):
        value = f"addMilliseconds({{}}, {step}1)"
    elif inner.startswith("DateTime"):
        value = f"addSeconds({{}}, {step}{dice.choice((1, 3600))})"
    elif inner.startswith("Decimal"):
        digits = int(inner.removesuffix(")").split(", ")[1])
        value = f"{{}} {step} toDecimal64('{1 / 10**digits:.{digits}f}', {digits})"
    elif inner.startswith(("UInt", "Int")):
        value = f"{{}} {step} 1"
    else:
        raise AssertionError(f"how to change a {kind}?")
    value = value.replace("{}", "{0}")
    if kind.startswith("Nullable"):
        other = "NULL" if dice.random() < 0.3 else value
        value = f"if(isNull({{0}}), CAST(0, '{kind.replace(chr(39), chr(92) + chr(39))}'), {other})"
    return f"CAST({value}, '{kind.replace(chr(39), chr(92) + chr(39))}')"


@contextlib.contextmanager
def replaced(store: Store, table: str, columns: str, which: str = "") -> Iterator[None]:
    """The table is another one meanwhile: rows copied as the columns and the clause say, and not merged."""
    copy, name = f"{table}_tampered", identifier(table)
    store.command(f"CREATE TABLE {copy} AS {name}")
    try:
        store.command(f"SYSTEM STOP MERGES {copy}")
        store.command(
            f"INSERT INTO {copy} SELECT {columns} FROM (SELECT *, {HASHED} AS row_hash FROM {name}) {which}",
            settings={"optimize_on_insert": 0, "insert_deduplicate": 0, "max_partitions_per_insert_block": 0},
        )
        store.exchange(copy, table)
        try:
            yield
        finally:
            store.exchange(copy, table)
    finally:
        store.command(f"DROP TABLE {copy} SYNC")
