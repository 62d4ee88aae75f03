"""The embedded engine, imported without what a plain query does not need."""

from __future__ import annotations

import importlib
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


def import_engine() -> None:
    """Imports chDB without pyarrow, if nobody imported that yet.

    chDB takes it where it is there, for Arrow answers of its own functions, which nothing here asks for:
    clickhouse-connect reads Arrow by itself, and the engine finds Arrow tables by themselves. It would be a fifth of
    the CPU time of `gpuledger ledger`. What wants pyarrow later imports it as ever.
    """
    if "chdb" not in sys.modules and "pyarrow" not in sys.modules:
        with _hidden("pyarrow"):
            importlib.import_module("chdb")


class _Hides:
    """Says that there is no such module to those who import it on this thread."""

    def __init__(self, name: str) -> None:
        self._name, self._thread = name, threading.get_ident()

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> None:
        if name == self._name and threading.get_ident() == self._thread:
            raise ModuleNotFoundError(f"{name} is not needed yet", name=name)


@contextmanager
def _hidden(name: str) -> Iterator[None]:
    hides = _Hides(name)
    sys.meta_path.insert(0, hides)
    try:
        yield
    finally:
        sys.meta_path.remove(hides)
