"""What runs out by itself: leases that are not renewed, reservations that nobody uses; who is warned before."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from scheduler.live.service import RefusedError
from scheduler.model import Job, Request
from scheduler.settings import SettingsError, parse_settings
from scheduler.setup import setup_of
from scheduler.simulate.run import simulate
from tests.draws import keep_seed
from tests.scheduler.live.living import SETTINGS, Living, Slow

COURSE = {"name": "course", "nodes": ["p-0"], "tenants": ["speech"], "idle": "5m",
          "start": "1970-01-01T00:16:40Z", "end": "1970-01-01T01:00:00Z"}  # fmt: skip


PLANS = 0.02
"""Plans of one instant are a millisecond apart, and so are the leases that begin with them."""


def reasons(living: Living) -> list[tuple[str, str]]:
    return [
        (entry.job_id, entry.body["cause"]["reason"])
        for entry in living.log.entries()
        if entry.kind in ("warn", "stop", "end")
    ]


def test_a_lease_that_is_not_renewed_ends_the_job_after_a_warning(tmp_path: Path) -> None:
    living = Living(tmp_path)
    living.submit("a", lease_seconds=600.0)
    living.settle()
    assert living.service.show("a")["ends_at"].timestamp() == 1600.0
    living.now = 1400.0
    living.settle()
    assert reasons(living) == [("a", "LeaseExpired")]
    living.settle()
    living.service.renew("a", "ada")
    living.restart()
    living.now = 1999.0
    living.settle()
    assert living.status("a") == "running" and len(reasons(living)) == 2, "warned of each end once"
    living.now = 2000.0
    living.settle()
    found = living.service.explain("a")
    assert found["status"] == "cancelled"
    assert found["history"][-2]["cause"]["text"] == "was not renewed before its lease was over"
    assert living.events()[-1] == ("a", "cancelled")
    with pytest.raises(RefusedError, match="is neither pending nor running"):
        living.service.renew("a", "ada")
    living.submit("b")
    living.settle()
    with pytest.raises(RefusedError, match="has no lease"):
        living.service.renew("b", "ada")


def test_an_unused_reservation_is_released_and_stays_so(tmp_path: Path) -> None:
    living = Living(tmp_path, SETTINGS | {"reservations": [COURSE]})
    living.submit("lesson", 1, "speech", time_limit=60.0)
    living.submit("waits", 4)
    living.submit("waits-too", 4)
    living.settle()
    assert [living.status(name) for name in ("lesson", "waits", "waits-too")] == ["running", "running", "pending"]
    living.now = 1030.0
    living.service.finish("lesson", True, "ada")
    living.now = 1329.0
    living.settle()
    assert living.status("waits-too") == "pending", "five minutes since the lesson are not over"
    living.now = 1330.0
    living.settle()
    assert living.status("waits-too") == "running"
    (entry,) = living.log.of_kind("given_back")
    assert entry.body == {"reservation": "course", "start": 1000.0, "text": "nothing of speech ran there for 300 s"}
    living.restart()
    living.service.configure(parse_settings(SETTINGS | {"reservations": [COURSE], "tenants": []}))
    (kept,) = living.service.restored.core.reservations
    assert kept.end == 1330.0, "also when the settings are read again"


def test_leases_in_drawn_histories_end_when_an_independent_reckoning_says(tmp_path: Path) -> None:
    dice = random.Random(f"{keep_seed()} of leases")
    living = Living(tmp_path, executor=Slow())
    expected: dict[str, float] = {}
    ended: dict[str, float] = {}
    for number in range(150):
        living.now += dice.choice([0, 5, 30, 100])
        running = [name for name in expected if name in living.service.book.jobs]
        what = dice.choice(["submit", "renew", "suspend", "time"])
        late = {name for name in running if expected[name] <= living.now}
        if what == "renew" and running and (name := dice.choice(running)) not in late:
            if living.status(name) == "running":
                living.service.renew(name, "ada")
                expected[name] = living.now + 120.0
        elif what == "suspend" and running and (name := dice.choice(running)) not in late:
            if living.status(name) == "running":
                living.service.suspend(name, "ada")
                living.executor.over(name, 1)  # type: ignore[attr-defined]
                del expected[name]
        elif what == "submit":
            living.submit(f"j{number}", 1, lease_seconds=120.0)
        if dice.random() < 0.3:
            living.restart()
        living.settle()
        for name, live in living.service.book.jobs.items():
            if live.status == "running" and name not in expected:
                expected[name] = living.now + 120.0
            if live.status == "stopping" and live.stop is not None and live.stop[0] == "cancelled":
                ended.setdefault(name, living.now)
                assert expected[name] <= living.now, f"{name} was stopped too soon"
            if live.status == "running":
                assert living.now < expected[name] + PLANS, f"{name} still runs"
    assert ended


def test_a_simulated_reservation_is_given_back_at_the_same_instant() -> None:
    setup = setup_of("x", parse_settings(SETTINGS | {"reservations": [COURSE]}))
    lesson = Job("lesson", "speech", "batch", Request(1), 1000.0, run_time=30.0, time_limit=60.0)
    wide = [Job(name, "vision", "batch", Request(4), 1000.0, run_time=5000.0) for name in ("waits", "waits-too")]
    found = simulate([lesson, *wide], setup, curves=False)
    assert found.measures["wait_max_seconds"] == 330.0


@pytest.mark.parametrize(
    ("reservation", "says"),
    [({"idle": 0}, "idle"), ({"kind": "maintenance", "tenants": []}, "maintenance ends when it says")],
)
def test_an_idle_time_that_cannot_be_is_refused(reservation: dict[str, Any], says: str) -> None:
    with pytest.raises(SettingsError, match=says):
        parse_settings(SETTINGS | {"reservations": [COURSE | reservation]})
