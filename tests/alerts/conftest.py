"""A store that the tests of a module share, emptied before each."""

from __future__ import annotations

import pytest

from tests.stores import emptied
from warehouse.store import Store


@pytest.fixture
def facts(shared_store: Store) -> Store:
    """A store without facts and without alerts."""
    return emptied(shared_store)
