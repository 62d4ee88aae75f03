"""What a server repeats: the leader alone, and at once when it becomes that."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.patience import until
from tests.stores import fresh_store
from warehouse.background import repeating
from warehouse.store import Store


class Switch:
    """Leads when it is told to."""

    def __init__(self) -> None:
        self.on = False
        self.calls: list[Callable[[], None]] = []

    def leading(self) -> bool:
        return self.on

    def when_gained(self, call: Callable[[], None]) -> None:
        self.calls.append(call)

    def gain(self) -> None:
        self.on = True
        for call in self.calls:
            call()


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    folder: Path = tmp_path_factory.mktemp("background")
    with fresh_store(folder / "store") as store:
        yield store


def test_only_the_leader_works_and_it_begins_when_it_becomes_that(store: Store) -> None:
    leads, began, tried = Switch(), threading.Semaphore(0), threading.Event()
    others = repeating(store, lambda own, stop: tried.set(), seconds=3600)

    def work(own: Store, stop: threading.Event) -> None:
        began.release()
        until(stop.is_set, "it is not told to end")

    with repeating(store, work, leads, seconds=3600), others:
        until(tried.is_set)
        assert not began.acquire(blocking=False), "it does not lead"
        leads.gain()
        until(lambda: began.acquire(blocking=False), "the next hour is too late")
        leads.on = False  # its work ends, and before that it may lead again
        leads.gain()
        leads.on = False
        leads.gain()
        leads.on = False
        # Ends although it never came back to lead: the server is closed.
    leads.gain()  # of a server that has ended: nothing
