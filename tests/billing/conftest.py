"""A store that the tests of a module share, emptied before each."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.stores import fresh_store
from warehouse.store import Store


@pytest.fixture(scope="module")
def shared_store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    with fresh_store(tmp_path_factory.mktemp("store")) as opened:
        yield opened


@pytest.fixture
def books(shared_store: Store) -> Store:
    """A store with empty books."""
    for table in (
        "ledger_entries",
        "closed_hours",
        "close_runs",
        "rate_cards",
        "invoices",
        "voided_invoices",
        "credits",
        "audit",
        "allocations",
    ):
        shared_store.command(f"TRUNCATE TABLE {table}")
    return shared_store
