"""A store that the tests of a module share, emptied before each."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.stores import fresh_store
from warehouse.records import RECORD_TYPES
from warehouse.store import Store

TABLES = (
    *RECORD_TYPES,
    *("touched_hours", "stream_hours", "ingest_batches", "quarantine", "refused_claims", "audit"),
    *("ledger_entries", "closed_hours", "close_runs", "rate_cards", "budgets", "allocations"),
    *("slo_files", "slo_definitions", "slo_points", "slo_hours", "slo_measured"),
    *("alert_transitions", "alert_runs", "alert_deliveries", "alert_silences"),
)


@pytest.fixture(scope="module")
def shared_store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    with fresh_store(tmp_path_factory.mktemp("store")) as opened:
        yield opened


@pytest.fixture
def facts(shared_store: Store) -> Store:
    """A store without facts and without alerts."""
    filled = shared_store.rows(
        "SELECT name FROM system.tables WHERE database = currentDatabase() AND total_rows > 0 "
        "AND has({names:Array(String)}, name)",
        {"names": list(TABLES)},
    )
    for row in filled:
        shared_store.command(f"TRUNCATE TABLE {row['name']}")
    return shared_store
