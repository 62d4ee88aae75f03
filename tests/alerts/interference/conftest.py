"""A store that the tests of a module share, emptied before each."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.stores import fresh_store
from warehouse.store import Store

TABLES = (
    "devices", "allocations", "samples", "metrics", "service_levels", "ingest_batches", "closed_hours", "touched_hours",
    "stream_hours", "interference_samples", "interference_hours", "interference_runs", "interference_baselines",
    "interference_versions",
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
