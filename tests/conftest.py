"""What several tests need."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from warehouse.store import Store, migrate, open_store

# How long an example takes is the machine's business; what it finds is ours.
settings.register_profile("gpuledger", deadline=None)
settings.load_profile("gpuledger")

REPO = Path(__file__).resolve().parent.parent
SHARED = REPO.parent / "shared"
"""Where the contracts' worked examples and the traces lie, if this checkout has them beside it."""


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    """A fresh embedded store with the schema in it. A process holds one at a time."""
    with open_store(f"chdb://{tmp_path}/store") as opened:
        migrate(opened)
        yield opened
