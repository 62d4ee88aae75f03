"""Stores for tests: one with the schema is made once in a process, and copied for each test."""

from __future__ import annotations

import atexit
import functools
import shutil
import tempfile
from pathlib import Path

from warehouse.store import Store, migrate, open_store


def fresh_store(folder: Path | str) -> Store:
    """A new embedded store with the schema in it, in `folder`. A process holds one at a time."""
    shutil.copytree(_with_schema(), folder, symlinks=True, dirs_exist_ok=True)
    return open_store(f"chdb://{folder}")


@functools.cache
def _with_schema() -> Path:
    folder = Path(tempfile.mkdtemp(prefix="gpuledger-tests-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    with open_store(f"chdb://{folder}/store") as store:
        migrate(store)
    return folder / "store"
