"""Of several operators one acts: by the lease alone, whatever is late, lost or killed."""

from __future__ import annotations

import copy
import os
import random
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from scheduler.kubernetes.election import DEADLINE_SECONDS, LEASE_SECONDS, LOG, Election
from scheduler.kubernetes.leadership import RETRY_SECONDS, log_name
from tests.draws import keep_seed

Thing = dict[str, Any]
TODAY = datetime(2026, 11, 27, tzinfo=UTC)


class Server:
    """The lease, as an API server keeps it: what was written on an older version is refused."""

    def __init__(self) -> None:
        self.lease: Thing | None = None
        self._version = 0

    def read(self) -> Thing | None:
        return copy.deepcopy(self.lease)

    def write(self, before: Thing | None, body: Any) -> bool:
        version = before["metadata"]["resourceVersion"] if before else None
        now = self.lease["metadata"]["resourceVersion"] if self.lease else None
        if version != now:
            return False
        self._version += 1
        self.lease = copy.deepcopy(body)
        assert self.lease is not None
        self.lease["metadata"]["resourceVersion"] = str(self._version)
        return True


def turn(one: Election, server: Server, now: float) -> bool:
    """Reads and writes at once. Answers whether it may act."""
    before = server.read()
    body = one.next(before, now, TODAY)
    if body is not None and server.write(before, body):
        one.granted(now)
    return one.left(now) > 0


def test_one_acts_and_the_other_takes_over_when_it_is_not_heard_of_any_more() -> None:
    server, first, second = Server(), Election("a", "log"), Election("b", "log")
    assert turn(first, server, 0)
    assert not turn(second, server, 0)
    assert second.waits == "a holds the lease"
    for now in range(2, 40, 2):
        assert turn(first, server, now)
        assert not turn(second, server, now)
    last = 38
    assert not turn(second, server, last + LEASE_SECONDS - 1)
    assert first.left(last + DEADLINE_SECONDS) <= 0, "long before"
    assert turn(second, server, last + LEASE_SECONDS)
    assert not turn(first, server, last + LEASE_SECONDS + 1)
    assert first.successor == "b"
    assert server.lease is not None
    assert server.lease["spec"]["leaseTransitions"] == 1


def test_one_that_ends_in_order_is_not_waited_for() -> None:
    server, first, second = Server(), Election("a", "log"), Election("b", "log")
    turn(first, server, 0)
    turn(second, server, 1)
    before = server.read()
    assert before is not None
    body = first.release(before, TODAY)
    assert body is not None and server.write(before, body)
    assert first.left(1) <= 0
    assert turn(second, server, 2)
    after = server.read()
    assert after is not None
    assert first.release(after, TODAY) is None, "it is another's by now"


def test_another_log_never_takes_over() -> None:
    server, first, other = Server(), Election("a", "log"), Election("b", "another")
    turn(first, server, 0)
    for now in (1, 100, 1000):
        assert not turn(other, server, now)
    assert other.waits == "the lease is of another log (log, last held by a; this one is another)"
    before = server.read()
    assert before is not None
    body = first.release(before, TODAY)
    assert body is not None and server.write(before, body)
    assert not turn(other, server, 2000), "nor what was given back"
    assert turn(Election("c", "log"), server, 2001)
    server.lease = None
    assert turn(other, server, 4000), "unless somebody deletes it"


def test_a_lease_that_somebody_deletes_is_waited_out() -> None:
    server, first, second = Server(), Election("a", "log"), Election("b", "log")
    turn(first, server, 0)
    turn(second, server, 0)
    server.lease = None
    assert not turn(second, server, 1)
    assert turn(second, server, LEASE_SECONDS)


def test_a_lease_of_somebody_else_s_making_is_read_as_it_is() -> None:
    server, one = Server(), Election("b", "log")
    server.lease = {"metadata": {"resourceVersion": "x", "labels": {"a": "b"}}, "spec": {
        "holderIdentity": "old", "leaseDurationSeconds": 60, "leaseTransitions": 4,
    }}  # fmt: skip
    assert not turn(one, server, 0)
    assert not turn(one, server, 59)
    assert turn(one, server, 60)
    assert server.lease["metadata"]["labels"] == {"a": "b"}
    assert server.lease["metadata"]["annotations"] == {LOG: "log"}
    assert server.lease["spec"]["leaseTransitions"] == 5


@pytest.mark.parametrize("number", range(int(os.environ.get("GPULEDGER_OPERATORS", "40"))))
def test_never_two_may_act_whatever_is_late_or_lost(number: int) -> None:
    """Clocks of machines differ, answers are late or lost, processes are killed and come back: what one may do has
    ended before another begins, and as long as anybody lives, somebody acts again."""
    seed = os.environ.get("GPULEDGER_SEED", f"{keep_seed()} election {number}")
    print(f"GPULEDGER_SEED={seed!r}")
    chance = random.Random(seed)
    server, time = Server(), 0.0
    offsets = {name: chance.uniform(-1e6, 1e6) for name in "abc"}
    candidates = {name: Election(name, "log") for name in "abc"}
    due = {name: chance.uniform(0, 5) for name in "abc"}
    arrive: list[tuple[float, str, float, Thing | None, Any]] = []
    acted, lives = 0, 0
    for _ in range(600):
        time += chance.choice([0.1, 0.5, 1.0])
        for name, one in candidates.items():
            if time >= due[name]:
                asked, before = time + offsets[name], server.read()
                body = one.next(before, asked, TODAY + timedelta(seconds=offsets[name]))
                due[name] = time + RETRY_SECONDS + chance.choice([0, 0, 0, 1, 8, 30])
                if body is not None:
                    arrive.append((time + chance.choice([0, 0, 0.5, 4]), name, asked, before, body))
        for at, name, asked, before, body in [one for one in arrive if one[0] <= time]:
            arrive.remove((at, name, asked, before, body))
            written = server.write(before, body)
            heard = candidates[name].identity == body["spec"]["holderIdentity"] and chance.random() < 0.9
            if written and heard:
                candidates[name].granted(asked)
        if chance.random() < 0.01:
            name = chance.choice("abc")
            lives += 1
            candidates[name] = Election(f"{name}{lives}", "log")
        acting = [name for name, one in candidates.items() if one.left(time + offsets[name]) > 0]
        assert len(acting) <= 1, (time, acting)
        acted += len(acting)
    assert acted > 100


def test_a_log_keeps_its_name(tmp_path: Path) -> None:
    first = log_name(tmp_path / "a")
    assert first == log_name(tmp_path / "a")
    assert first != log_name(tmp_path / "b")
    assert (tmp_path / "a").stat().st_mode & 0o077 == 0
