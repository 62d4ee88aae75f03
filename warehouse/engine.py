"""Imports the embedded engine (chDB) without pyarrow, which plain queries do not need and which is slow to import."""

from __future__ import annotations

import importlib
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


def import_engine() -> None:
    """Imports chDB without pyarrow, unless pyarrow is imported already.

    chDB imports pyarrow if it is installed, for functions that nothing here calls: clickhouse-connect reads Arrow by
    itself, and so does the engine. That import would cost a fifth of the CPU time of `gpuledger ledger`. Other modules
    can still import pyarrow later.
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
