"""Turns between processes over one ClickHouse server: the real engine behind HTTP."""

from __future__ import annotations

import logging
import random
import signal
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta

import pytest

from tests.draws import drawn_seed, seldom
from tests.patience import PATIENCE_SECONDS
from tests.warehouse.engine_over_http import served
from warehouse.errors import StoreError
from warehouse.store import ServerStore, Store, migrate, open_store
from warehouse.turns import TurnLostError, Turns, TurnsBetween

SIGN = (
    "INSERT INTO turns (at, holder, who, alone, seen, state) SELECT {at:String}, {holder:UUID}, {who:String}, "
    "{alone:Bool}, {seen:DateTime64(3, 'UTC')}, {state:String}"
)
"""A sign of life of another process."""


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with served(tmp_path_factory.mktemp("server")) as url:
        with open_store(url) as store:
            migrate(store)
        yield url


@pytest.fixture
def process(url: str) -> Iterator[Callable[..., TurnsBetween]]:
    """Makes turns as another process would: of the others it knows what the table says alone."""
    made: list[TurnsBetween] = []

    def make(lease_seconds: float = 60.0) -> TurnsBetween:
        made.append(TurnsBetween(lambda: ServerStore(url, turns=Turns()), lease_seconds))
        return made[-1]

    yield make
    for one in made:
        one.close()


@seldom(6, "whoever is alone is alone and others")
def test_whoever_is_alone_is_alone_and_others_are_together(process: Callable[..., TurnsBetween]) -> None:
    seed = drawn_seed() % 1_000_000
    inside: list[bool] = []
    seen: list[list[bool]] = []
    lock = threading.Lock()

    def work(turns: TurnsBetween, dice: random.Random) -> None:
        for _ in range(8):
            together = dice.random() < 0.6
            time.sleep(dice.uniform(0, 0.05))
            with turns.turn("it", together):
                with lock:
                    inside.append(together)
                    seen.append([*inside])
                time.sleep(dice.uniform(0, 0.1))
                with lock:
                    inside.remove(together)

    processes = [process() for _ in range(4)]
    with ThreadPoolExecutor(4) as pool:
        tasks = [pool.submit(work, turns, random.Random(seed + number)) for number, turns in enumerate(processes)]
    for task in tasks:
        task.result()
    assert len(seen) == 32, seed
    assert not [there for there in seen if len(there) > 1 and not all(there)], seed
    assert [there for there in seen if len(there) > 1], f"seed {seed}: some were together"


def test_a_turn_goes_on_longer_than_its_lease_while_it_gives_signs_of_life(
    process: Callable[..., TurnsBetween],
) -> None:
    lease = 2.0
    first, second = process(lease), process(lease)
    order = []

    def other() -> None:
        with second.turn("long"):
            order.append("second")

    with ThreadPoolExecutor(1) as pool:
        with first.turn("long", together=True):
            task = pool.submit(other)
            time.sleep(2 * lease)
            order.append("first")
        task.result(PATIENCE_SECONDS)
    assert order == ["first", "second"]


def test_nobody_waits_long_for_a_turn_that_was_killed(
    process: Callable[..., TurnsBetween], url: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("warehouse.turns.LOG_SECONDS", 0.2)
    script = (
        "import sys, time\n"
        "from warehouse.store import open_store\n"
        "with open_store(sys.argv[1]) as store, store.turn():\n"
        "    print('in', flush=True)\n"
        "    time.sleep(600)\n"
    )
    with subprocess.Popen([sys.executable, "-c", script, url], stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"in\n"
        holder.kill()
    with caplog.at_level(logging.WARNING), process(3.0).turn("writing"):
        pass
    assert f"writing waits for process {holder.pid} on " in caplog.text


def test_without_a_server_no_turn_begins(url: str) -> None:
    def refused() -> Store:
        raise StoreError(url, "cannot be reached")

    with pytest.raises(StoreError, match="cannot be reached"), TurnsBetween(refused).turn("it"):
        pytest.fail("it began")


def test_who_stood_still_for_a_lease_has_lost_its_turn(url: str) -> None:
    """Whatever its threads say first when it wakes up."""
    lease = 3.0
    script = (
        "import sys\n"
        "from warehouse.store import ServerStore\n"
        "from warehouse.turns import Turns, TurnLostError, TurnsBetween\n"
        "turns = TurnsBetween(lambda: ServerStore(sys.argv[1], turns=Turns()), float(sys.argv[2]))\n"
        "with turns.turn('still') as held:\n"
        "    held.check()\n"
        "    print('in', flush=True)\n"
        "    sys.stdin.readline()\n"
        "    try:\n"
        "        held.check()\n"
        "    except TurnLostError as error:\n"
        "        print(error, flush=True)\n"
    )
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen([sys.executable, "-c", script, url, str(lease)], **pipes) as holder:  # type: ignore[call-overload]
        assert holder.stdout.readline() == b"in\n"
        holder.send_signal(signal.SIGSTOP)
        time.sleep(lease + 0.5)
        holder.send_signal(signal.SIGCONT)
        time.sleep(lease)  # it renews meanwhile, if it is allowed to
        said, _ = holder.communicate(b"\n", PATIENCE_SECONDS)
    assert said == b"still: no sign of life for over 3 s. Others carry on; run it again\n"


def test_who_stood_still_while_the_store_answered_has_lost_its_turn(
    process: Callable[..., TurnsBetween], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The store's answer is from before."""
    clock = [0.0]
    monkeypatch.setattr("warehouse.turns.elapsed", lambda: clock[0])
    with process().turn("asking") as held:
        held.check()
        silent = held._was_silent  # type: ignore[attr-defined]

        def answered() -> bool:
            said: bool = silent()
            clock[0] += 61.0
            return said

        monkeypatch.setattr(held, "_was_silent", answered)
        with pytest.raises(TurnLostError):
            held.check()


def test_a_store_whose_clock_is_set_forward_tells_the_holder_that_others_may_have_come(
    process: Callable[..., TurnsBetween], url: str
) -> None:
    """As if by two minutes: signs of life are that much older."""
    with process().turn("forward") as held, open_store(url) as store:
        held.check()
        signs = store.rows("SELECT * FROM turns WHERE at = 'forward'")
        store.command("DELETE FROM turns WHERE at = 'forward'")
        for row in signs:
            older = {**row, "holder": str(row["holder"]), "seen": row["seen"] - timedelta(minutes=2)}
            store.command(SIGN, older)
        with process().turn("forward") as other:
            other.check()
            with pytest.raises(TurnLostError):
                held.check()


def test_a_store_whose_clock_is_set_back_lets_nobody_wait_for_a_turn_that_was_killed(
    process: Callable[..., TurnsBetween], url: str
) -> None:
    with open_store(url) as store:
        ahead = datetime.now(UTC) + timedelta(hours=1)
        killed = {"at": "back", "holder": str(uuid.uuid4()), "who": "a", "alone": True, "seen": ahead, "state": "has"}
        store.command(SIGN, killed)
    since = time.monotonic()
    with process(2.0).turn("back") as held:
        held.check()
    assert time.monotonic() - since >= 2.0, "it might have been alive"
