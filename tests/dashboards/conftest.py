"""A store with two days of books whose sums a reader can check, and a server over it."""

from __future__ import annotations

import contextlib
import importlib.util
import sys
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import ModuleType

import pytest
import uvicorn

from dashboards.app import build_app
from gpuledger.serve import listen, url_of
from tests.patience import until
from warehouse.store import Store


def _books() -> ModuleType:
    spec = importlib.util.spec_from_file_location("dashboards_books", Path(__file__).with_name("books.py"))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


books = _books()
OCTOBER = datetime(2026, 10, 1, tzinfo=UTC)


@pytest.fixture
def make_books() -> ModuleType:
    return books


def two_days(store: Store) -> None:
    """48 closed hours of 4 devices, 2 EUR a GPU-hour:

    device a  vision  used 0.75, idle 0.25          device c  nobody
    device b  speech  used 0.5, unmetered 0.5       device d  down on the first day, else nobody
    """
    entry, rows = books.entry, []
    for number in range(48):
        hour = OCTOBER + timedelta(hours=number)
        rows += [
            entry(hour, "a", tenant="vision", allocation_id="1", used=0.75, idle=0.25),
            entry(hour, "b", tenant="speech", allocation_id="2", used=0.5, unmetered=0.5),
            entry(hour, "c", unallocated=1.0),
            entry(hour, "d", unavailable=1.0) if number < 24 else entry(hour, "d", unallocated=1.0),
        ]
    books.fill(store, rows)


@pytest.fixture
def filled(store: Store) -> Store:
    two_days(store)
    return store


@contextlib.contextmanager
def serving(store: Store, port: int = 0) -> Iterator[str]:
    """The address of a real server over a store. port: 0: any."""
    listener = listen("127.0.0.1", port)
    server = uvicorn.Server(uvicorn.Config(build_app(store), log_level="warning"))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
    thread.start()
    until(lambda: server.started)
    yield url_of(listener)
    server.should_exit = True
    thread.join(20)
    listener.close()
