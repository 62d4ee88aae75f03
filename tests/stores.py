"""Stores for tests: one of each kind is made once in a process, and copied for each test."""

from __future__ import annotations

import atexit
import functools
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

from warehouse.store import Store, migrate, open_store


def fresh_store(folder: Path | str, *fill: Callable[[Store], None]) -> Store:
    """A new embedded store in `folder`, with the schema and what each of `fill` writes. A process holds one at a time.

    fill: functions of a module, which write nothing but the store: they run once in a process.
    """
    shutil.copytree(_made(fill), folder, symlinks=True, dirs_exist_ok=True)
    return open_store(f"chdb://{folder}")


@functools.cache
def _made(fill: tuple[Callable[[Store], None], ...]) -> Path:
    folder = Path(tempfile.mkdtemp(prefix="gpuledger-tests-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    if not fill:
        with open_store(f"chdb://{folder}/store") as store:
            migrate(store)
    else:
        shutil.copytree(_made(fill[:-1]), folder / "store", symlinks=True)
        with open_store(f"chdb://{folder}/store") as store:
            fill[-1](store)
    return folder / "store"
