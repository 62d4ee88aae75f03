"""What several tests need."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from gpuledger.serve import collect_seldom
from tests.stores import fresh_store
from warehouse.store import Store

# Tables are as wide as they need to be: a pipe has no width, whatever the terminal has that the tests run in.
os.environ.pop("COLUMNS", None)

# Where the environment asks for no bytecode on disk, each worker and each process of a test would compile the same
# modules again: 1.8 CPU seconds instead of 0.7 for one command, 25 instead of 8 to collect the tests.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

# How long an example takes is the machine's business; what it finds is ours.
settings.register_profile("gpuledger", deadline=None)
settings.load_profile("gpuledger")

REPO = Path(__file__).resolve().parent.parent
SHARED = REPO.parent / "shared"
"""Where the contracts' worked examples and the traces lie, if this checkout has them beside it."""


def pytest_collection_finish() -> None:
    """As in a server: what is loaded stays. A sixth of the suite's CPU went into looking through it."""
    collect_seldom()


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    """A fresh embedded store with the schema in it. A process holds one at a time."""
    with fresh_store(tmp_path / "store") as opened:
        yield opened
