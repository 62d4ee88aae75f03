"""A store that the tests of a module share, emptied before each."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

import pytest

from billing.close.stage import Stage
from tests.draws import drawn_seed
from tests.stores import emptied, fresh_store
from warehouse.store import Store


@pytest.fixture(scope="module")
def empty(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    """An empty store whose engine has one thread: small tables cost less so."""
    with fresh_store(tmp_path_factory.mktemp("empty")) as opened:
        opened.command("SET max_threads = 1")
        yield opened


@pytest.fixture
def books(shared_store: Store) -> Store:
    """A store with empty books."""
    return emptied(shared_store)


@pytest.fixture
def stage(books: Store) -> Iterator[Stage]:
    """Of a close; its working tables are gone afterwards."""
    stage = Stage(77)
    yield stage
    for row in books.rows("SHOW TABLES LIKE 'close_77_%'"):
        books.command("DROP TABLE {table:Identifier}", {"table": row["name"]})


@pytest.fixture
def dice(request: pytest.FixtureRequest) -> Random:
    """Other draws in each run and file; GPULEDGER_SEED repeats them."""
    seed = str(drawn_seed())
    print(f"GPULEDGER_SEED={seed}")
    return Random(f"{request.path.stem} {seed}")
