"""The processes of a demo: the one that makes it, and its fleet, beside what is made and simulated here."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from access.settings import AccessSettings
from collectors.simulated import FleetPlan
from gpuledger import demo, demo_making
from gpuledger.demo_fleet import Feed, Fleet
from tests.draws import drawn_seed
from tests.patience import PATIENCE_SECONDS, until
from tests.stores import fresh_store
from warehouse.errors import LedgerError
from warehouse.store import Store

START = datetime(2026, 11, 2, tzinfo=UTC)


def plan_of(draw: random.Random) -> FleetPlan:
    return FleetPlan(
        seed=draw.randrange(1000), start=START, days=1, scale=0.1, interval_seconds=600,
        watched_from=START + timedelta(hours=draw.randrange(1, 20)),
    )  # fmt: skip


@contextlib.contextmanager
def fleet_of(plan: FleetPlan, since: datetime | None = None) -> Iterator[Fleet]:
    with contextlib.closing(Fleet.start()) as fleet:
        yield fleet.begin(plan, since)


@pytest.mark.parametrize("seed", [drawn_seed("a fleet") + n for n in range(2)])
def test_a_fleet_elsewhere_tells_what_one_here_tells(seed: int) -> None:
    draw = random.Random(seed)
    plan = plan_of(draw)
    since = draw.choice([None, START + timedelta(hours=draw.randrange(1, 12))])
    here = Feed(plan, since)
    ends = sorted(START + timedelta(minutes=draw.randrange(-60, 30 * 60)) for _ in range(draw.randrange(1, 6)))
    told = 0
    with fleet_of(plan, since) as fleet:
        until(fleet.is_placed, "the fleet")
        for end in [*ends, START + timedelta(days=3)]:
            mine, theirs = (
                [(record.name, table.schema, table.to_pylist()) for record, table in one.until(end)]
                for one in (here, fleet)
            )
            assert mine == theirs, end
            told += sum(len(rows) for _, _, rows in mine)
    assert told > 1000


def test_a_fleet_whose_process_is_gone_is_one_line_and_another_goes_on(store: Store) -> None:
    plan = plan_of(random.Random(1))
    story = demo.Story(plan.seed, START, START)
    with fleet_of(plan) as fleet:
        demo._store(store, fleet, START + timedelta(hours=3), story.source)
        had = int(store.value("SELECT count() FROM samples"))
        assert fleet._process is not None
        fleet._process.kill()
        with pytest.raises(LedgerError, match="the simulated fleet: its process is gone"):
            list(fleet.until(START + timedelta(hours=4)))
        live = demo.Live(story, feed=fleet)
        live(store, threading.Event())
        assert live._feed is None, "it begins another one with its next turn"
        with pytest.MonkeyPatch.context() as patch, contextlib.closing(live):
            patch.setattr(demo.Story, "plan", plan)

            def grown() -> bool:
                live(store, threading.Event())
                return int(store.value("SELECT count() FROM samples")) > had

            until(grown, "another fleet")


def test_a_fleet_ends_with_whoever_asks(tmp_path: Path) -> None:
    code = (
        "import time; from gpuledger.demo_fleet import Fleet; fleet = Fleet.start(); "
        "print(fleet._process.pid, flush=True); time.sleep(600)"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as asker:
        assert asker.stdout is not None
        pid = int(asker.stdout.readline())
        assert Path(f"/proc/{pid}").exists()
        asker.kill()
    until(lambda: not alive(pid), "the fleet's end")


def alive(pid: int) -> bool:
    try:
        return " Z" not in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2][:3]
    except FileNotFoundError:
        return False


def test_a_store_of_another_seed_is_refused_by_the_process_that_makes_it(tmp_path: Path) -> None:
    store = fresh_store(tmp_path / "store")
    demo._store(store, Feed(plan_of(random.Random(2))), START + timedelta(hours=1), demo.Story(8, START, START).source)
    store.close()
    with contextlib.closing(Fleet.start()) as fleet, pytest.raises(LedgerError, match="holds the demo of seed 8"):
        demo_making.make(f"chdb://{tmp_path}/store", 7, tmp_path / "out", "", AccessSettings(), fleet)


UP = "from gpuledger.cli import main; main()"


@pytest.mark.parametrize("how", ["SIGINT", "SIGTERM", "SIGKILL", "terminal"])
def test_who_is_interrupted_leaves_no_process_behind(tmp_path: Path, how: str) -> None:
    command = [sys.executable, "-c", UP, "up", "--demo", "--store", f"chdb://{tmp_path}/store", "--port", "0"]
    with subprocess.Popen(
        [*command, "--out", str(tmp_path / "out")], stderr=subprocess.PIPE, text=True, process_group=0
    ) as process:
        until(lambda: len(below(process.pid)) == 2 and (tmp_path / "store").exists(), "both processes")
        made = below(process.pid)
        time.sleep(1)
        if how == "terminal":
            os.killpg(process.pid, signal.SIGINT)
        else:
            process.send_signal(getattr(signal, how))
        assert process.stderr is not None
        said = process.stderr.read()  # to the end: whoever writes there has ended, too
        code = process.wait(PATIENCE_SECONDS)
    until(lambda: not any(map(alive, made)), "the end of all")
    if how == "SIGKILL":
        assert "the store is whole" in said
    else:
        assert code == 130
        assert said.count("the store is whole") == 1
        assert "Traceback" not in said


def below(pid: int) -> list[int]:
    return [int(one) for one in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
