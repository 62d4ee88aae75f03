"""A store that the tests of a module share, emptied before each."""

from __future__ import annotations

from random import Random

import pytest

from tests.draws import drawn_seed
from tests.stores import emptied
from warehouse.store import Store


@pytest.fixture
def books(shared_store: Store) -> Store:
    """A store with empty books."""
    return emptied(shared_store)


@pytest.fixture
def dice(request: pytest.FixtureRequest) -> Random:
    """Other draws in each run and file; GPULEDGER_SEED repeats them."""
    seed = str(drawn_seed())
    print(f"GPULEDGER_SEED={seed}")
    return Random(f"{request.path.stem} {seed}")
