"""Exports, drafts and proofs take turns, and hold no thread while they wait: as found, seventy exports whose clients
had left kept a server busy for minutes, in 2.7 GiB, and it answered nobody else."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest

from api.heavy import AT_ONCE
from api.routes import books
from tests.dashboards.site import Site, site
from tests.patience import until

MANY = 60
"""More than a server has threads."""
EXPORT = "/api/v1/exports/focus?month=2026-10&tenant=vision"


class Slow:
    """The real export, which waits until it may go on."""

    def __init__(self, export: Any) -> None:
        self.export, self.may_go_on = export, threading.Event()
        self.runs = self.most = self.begun = 0
        self._lock = threading.Lock()

    def __call__(self, *asked: Any) -> Any:
        with self._lock:
            self.runs, self.begun = self.runs + 1, self.begun + 1
            self.most = max(self.most, self.runs)
        try:
            assert self.may_go_on.wait(60)
            return self.export(*asked)
        finally:
            with self._lock:
                self.runs -= 1


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with site(tmp_path_factory.mktemp("heavy")) as found:
        yield found


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> Iterator[Slow]:
    found = Slow(books.export_focus)
    monkeypatch.setattr(books, "export_focus", found)
    yield found
    found.may_go_on.set()
    until(lambda: not found.runs)


def ask(house: Site, who: str, path: str = EXPORT) -> httpx.Response:
    with house.client(who) as client:
        return client.get(path, timeout=60)


def test_exports_take_turns_and_whoever_asks_for_something_else_is_answered(house: Site, slow: Slow) -> None:
    people = ["vision", "finance", "analyst"]
    with ThreadPoolExecutor(MANY) as pool:
        asked = [pool.submit(ask, house, people[number % 3]) for number in range(MANY)]
        until(lambda: slow.runs == AT_ONCE)
        assert ask(house, "speech", "/api/v1/months").status_code == 200
        slow.may_go_on.set()
        assert {one.result().status_code for one in asked} == {200}
    assert (slow.most, slow.begun) == (AT_ONCE, MANY)


def test_nobody_has_all_turns(house: Site, slow: Slow) -> None:
    with ThreadPoolExecutor(4) as pool:
        asked = [pool.submit(ask, house, "vision") for _ in range(3)]
        until(lambda: slow.runs == AT_ONCE - 1)
        asked.append(pool.submit(ask, house, "finance"))
        until(lambda: slow.runs == AT_ONCE)
        slow.may_go_on.set()
        assert {one.result().status_code for one in asked} == {200}


def test_nothing_is_made_for_whoever_left(house: Site, slow: Slow) -> None:
    """As found with clients that gave up after a second."""
    first = leaving(house)
    until(lambda: slow.runs == 1)
    for _ in range(30):  # of one person 32 may wait
        leaving(house).close()
    first.close()
    slow.may_go_on.set()
    assert ask(house, "vision").status_code == 200
    assert slow.begun == 2, "the first, which had begun, and the last"


def leaving(house: Site) -> socket.socket:
    """A client that has asked for an export."""
    where = urlsplit(house.url)
    client = socket.create_connection((where.hostname, where.port))
    bearer = f"Authorization: Bearer {house.tokens['vision']}"
    client.sendall(f"GET {EXPORT} HTTP/1.1\r\nHost: {where.netloc}\r\n{bearer}\r\n\r\n".encode())
    return client
