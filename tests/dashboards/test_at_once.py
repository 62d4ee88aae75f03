"""Parts of a page that are made at once: on connections of their own, as whoever looks, and none is left running."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator
from typing import Any, cast
from unittest.mock import patch

import pytest

from access.current import current, set_current
from access.principal import Principal
from access.roles import Role
from dashboards import filters as under_test
from dashboards.filters import Address, Filters
from warehouse.store import Store

VERA = Principal("vera", frozenset({Role.tenant}), frozenset({"nlp"}))
OWN = cast("Store", "the page's own")
PARTIES = 4


class Connections:
    """Numbered ones; how many are lent now."""

    def __init__(self) -> None:
        self.lent, self.made = 0, 0
        self._lock = threading.Lock()

    @contextlib.contextmanager
    def aside(self) -> Iterator[Any]:
        with self._lock:
            self.lent += 1
            self.made += 1
            number = self.made
        try:
            yield number
        finally:
            with self._lock:
                self.lent -= 1


@pytest.fixture
def connections() -> Connections:
    return Connections()


def of(connections: Connections | None) -> Filters:
    return Filters(Address(), "UTC", (), None, aside=connections.aside if connections else None)


def test_parts_are_made_at_the_same_time_each_on_a_connection_of_its_own(connections: Connections) -> None:
    met = threading.Barrier(PARTIES, timeout=30)

    def part(on: Any) -> Any:
        met.wait()  # passes only if all are made at once
        return on

    own, *others = of(connections).at_once(OWN, *[part] * PARTIES)
    assert own == OWN
    assert sorted(others) == [1, 2, 3]
    assert connections.lent == 0


def test_what_is_made_comes_in_the_order_of_the_parts(connections: Connections) -> None:
    def after(seconds: float, number: int) -> Any:
        return lambda _: (time.sleep(seconds), number)[1]

    parts = [after(0.02 * (5 - number), number) for number in range(5)]
    assert of(connections).at_once(OWN, *parts) == of(None).at_once(OWN, *parts) == [0, 1, 2, 3, 4]


def test_each_is_made_as_whoever_looks_at_the_page(connections: Connections) -> None:
    set_current(VERA)
    try:
        assert of(connections).at_once(OWN, *[lambda _: current()] * 6) == [VERA] * 6
    finally:
        set_current(None)


@pytest.mark.parametrize("which", range(PARTIES))
def test_a_part_that_fails_fails_the_page_and_none_is_left_running(connections: Connections, which: int) -> None:
    ended = []

    def part(number: int) -> Any:
        def made(_: Any) -> None:
            if number == which:
                raise ZeroDivisionError(number)
            time.sleep(0.05)
            ended.append(number)

        return made

    with pytest.raises(ZeroDivisionError, match=str(which)):
        of(connections).at_once(OWN, *map(part, range(PARTIES)))
    assert connections.lent == 0
    before = list(ended)
    time.sleep(0.1)
    assert ended == before


def test_parts_that_no_thread_has_begun_are_made_on_the_page_s_own_connection(connections: Connections) -> None:
    release = threading.Event()
    with under_test.ThreadPoolExecutor(1) as pool, patch.object(under_test, "ASIDE", pool):
        blocking = pool.submit(release.wait, 30)
        assert of(connections).at_once(OWN, *[lambda on: on] * PARTIES) == [OWN] * PARTIES
        release.set()
        assert blocking.result()
    assert connections.made == 0
