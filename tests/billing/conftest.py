"""A store that the tests of a module share, emptied before each."""

from __future__ import annotations

import pytest

from tests.stores import emptied
from warehouse.store import Store


@pytest.fixture
def books(shared_store: Store) -> Store:
    """A store with empty books."""
    return emptied(shared_store)
