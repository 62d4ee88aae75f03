"""`verify` notices any one cell, row missing or row doubled of the tables that it vouches for, and passes again when it
is put back.

The suite tries a sample, another one in each run; the seed is printed. All of them: GPULEDGER_TAMPER=all; the same
again: GPULEDGER_SEED=4711.
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterator

import pytest

from billing.verify import verify
from billing.verify.tables import NOT_VOUCHED, VOUCHED
from tests.billing.rich_books import rich_books
from tests.billing.tampering import changed, columns_of, replaced, some_row
from tests.draws import drawn_seed
from warehouse.store import Store, identifier

SEED = drawn_seed(__name__)
ALL = os.environ.get("GPULEDGER_TAMPER") == "all"
CELLS, ROWS = 5, 2
"""Of a run that does not try all: changed cells, and rows that go missing and that are doubled."""


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
