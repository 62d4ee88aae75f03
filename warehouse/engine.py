"""Imports the embedded engine (chDB) without pyarrow, which plain queries do not need and which is slow to import, and
spares it work of its client that is for servers."""

from __future__ import annotations

import importlib
import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

ALLOCATOR, SETTINGS = "JE_MALLOC_CONF", "lg_tcache_max:10"
"""What the engine's allocator reads when it is loaded: each of its threads, which come to be 170 in a server, keeps for
itself what it freed of up to 1 KiB, not of up to 32. A close takes no more CPU."""


def import_engine() -> None:
    """Imports chDB without pyarrow, unless pyarrow is imported already.

    chDB imports pyarrow if it is installed, for functions that nothing here calls: clickhouse-connect reads Arrow by
    itself, and so does the engine. That import would cost a fifth of the CPU time of `gpuledger ledger`. Other modules
    can still import pyarrow later.
    """
    os.environ.setdefault(ALLOCATOR, SETTINGS)
    if "chdb" not in sys.modules and "pyarrow" not in sys.modules:
        with _hidden("pyarrow"):
            importlib.import_module("chdb")


def read_statements_once() -> None:
    """Lets clickhouse-connect take apart the text of a statement the first time only.

    It goes through each word of a query, with the interpreter's lock, to know whether a server could be asked again
    (6 ms for the longest of a page), and does so for the embedded engine, too, which is asked once.
    """
    from clickhouse_connect.driver import _backendclient

    names = vars(_backendclient)
    reads = names.get("_query_is_read_only")
    if reads is not None and not hasattr(reads, "cache_info"):
        names["_query_is_read_only"] = lru_cache(maxsize=512)(reads)


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
