"""The leader's lease: one at a time, whatever the servers' clocks say and however long one stands still."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from access.leader import MARGIN, Leadership, holder_of
from access.store import AccessStore, connect
from tests.access.postgres import Cluster
from tests.draws import drawn_seed
from tests.stores import fresh_store
from warehouse.leads import NotLeadingError, check
from warehouse.store import Store

LEASE = 10.0


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    with fresh_store(tmp_path_factory.mktemp("leader") / "store") as store:
        yield store


@pytest.fixture(params=["sqlite", "postgresql"])
def connected(request: pytest.FixtureRequest, tmp_path: Path, warehouse: Store) -> Iterator[Callable[[], AccessStore]]:
    """Connects as one more server does."""
    made: list[AccessStore] = []
    if request.param == "sqlite":
        address, password = f"sqlite:///{tmp_path / 'access.sqlite'}", None
    else:
        cluster: Cluster = request.getfixturevalue("postgres")
        address, password = cluster.database(), cluster.password_file

    def connected() -> AccessStore:
        made.append(connect(address, password, warehouse))
        return made[-1]

    yield connected
    for one in made:
        one.close()


class Machine:
    """A server: clock: of its own, apart from everybody's."""

    def __init__(self, access: AccessStore, apart: float) -> None:
        self.now = apart
        self.leadership = Leadership(access, LEASE, lambda: self.now)


def later(machines: list[Machine], seconds: float) -> None:
    for one in machines:
        one.now += seconds


def test_one_leads_until_it_is_silent_for_a_lease(connected: Callable[[], AccessStore]) -> None:
    machines = [Machine(connected(), 5e6), Machine(connected(), -3.0)]
    first, second = (one.leadership for one in machines)
    gained: list[str] = []
    first.when_gained(lambda: gained.append("first"))
    second.when_gained(lambda: gained.append("second"))
    first.renew()
    second.renew()
    assert (first.leading(), second.leading()) == (True, False)
    for _ in range(20):  # it renews
        later(machines, LEASE / 4)
        first.renew()
        second.renew()
    assert (first.leading(), second.leading()) == (True, False)
    later(machines, LEASE * (1 - MARGIN))
    second.renew()
    assert (first.leading(), second.leading()) == (False, False), "it stops before others begin"
    with pytest.raises(NotLeadingError, match="does not lead any more"):
        check(first)
    later(machines, LEASE)
    second.renew()
    assert (first.leading(), second.leading()) == (False, True)
    first.renew()  # awake again
    assert (first.leading(), second.leading()) == (False, True)
    assert gained == ["first", "second"]


def test_a_server_that_ends_hands_over_at_once(connected: Callable[[], AccessStore]) -> None:
    machines = [Machine(connected(), 0.0), Machine(connected(), 0.0)]
    first, second = (one.leadership for one in machines)
    first.renew()
    second.renew()
    second.release()  # it has nothing to release
    second.renew()
    assert (first.leading(), second.leading()) == (True, False)
    first.release()
    second.renew()
    assert (first.leading(), second.leading()) == (False, True)


def test_an_embedded_store_needs_no_leader_and_none_is_made_up(warehouse: Store) -> None:
    assert holder_of(warehouse) is None


def test_in_drawn_histories_no_two_lead_at_once(connected: Callable[[], AccessStore]) -> None:
    """Three servers with clocks of their own, which look at drawn moments and stand still for drawn times. Whenever one
    leads, it is the only one, and somebody leads most of the time."""
    seed = drawn_seed()
    dice = random.Random(seed)
    machines = [Machine(connected(), dice.uniform(-1e6, 1e6)) for _ in range(3)]
    still_until = [0.0] * 3
    now, last, led, changes = 0.0, -1, 0, 0
    steps = 200
    for step in range(steps):
        seconds = dice.uniform(0, LEASE / 8)
        now += seconds
        later(machines, seconds)
        for number in dice.sample(range(3), 3):
            if now < still_until[number]:
                continue
            is_leader = machines[number].leadership.leading()
            if dice.random() < 0.02 or (is_leader and step in (50, 120)):
                still_until[number] = now + (2 * LEASE if is_leader else dice.choice((LEASE / 3, 2 * LEASE)))
            elif dice.random() < 0.01:
                machines[number].leadership.release()
            elif dice.random() < 0.8:
                machines[number].leadership.renew()
        leading = [number for number, one in enumerate(machines) if one.leadership.leading()]
        assert len(leading) <= 1, f"seed {seed}: {leading} at {now}"
        if leading:
            if last not in (-1, *leading):
                changes += 1
            last, led = leading[0], led + 1
    assert changes, f"seed {seed}: nobody ever took over"
    assert led > steps / 3, f"seed {seed}: somebody led in {led} of {steps} steps"
