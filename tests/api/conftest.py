"""A store with two days of books."""

from __future__ import annotations

import pytest

from tests.dashboards.conftest import two_days
from warehouse.store import Store


@pytest.fixture
def filled(store: Store) -> Store:
    two_days(store)
    return store
