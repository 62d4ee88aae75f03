"""A store that the tests of a module share, emptied before each."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.stores import fresh_store
from warehouse.store import Store

TABLES = (
    "events", "devices", "service_levels", "samples", "ingest_batches", "touched_hours", "stream_hours", "allocations",
    "ledger_entries", "closed_hours", "close_runs", "rate_cards", "credits", "audit", "quarantine", "slo_files",
    "slo_definitions", "slo_points", "slo_hours", "slo_measured",
)  # fmt: skip


@pytest.fixture(scope="module")
def shared_store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    with fresh_store(tmp_path_factory.mktemp("store")) as opened:
        yield opened


@pytest.fixture
def facts(shared_store: Store) -> Store:
    """A store with nothing in it."""
    for table in TABLES:
        shared_store.command(f"TRUNCATE TABLE {table}")
    return shared_store
