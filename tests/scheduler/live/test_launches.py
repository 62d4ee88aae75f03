"""Launches and stops that take time: what is promised counts on when jobs really began, and keeps its turn."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from scheduler.live.executors import Launch, Over, Recorder
from scheduler.settings import parse_settings
from tests.draws import drawn_seed
from tests.scheduler.live.living import Living


class Late(Recorder):
    """An attempt begins, and is gone, some seconds after it is asked for, and is stopped at its limit only."""

    def __init__(self, dice: random.Random, launch: float, grace: float) -> None:
        super().__init__()
        self.dice, self.launch, self.grace = dice, launch, grace
        self.begins: dict[tuple[str, int], float] = {}
        self.gone: dict[tuple[str, int], float] = {}
        self.living: Living

    def start(self, launch: Launch) -> float | None:
        name = (launch.job.job_id, launch.attempt)
        begins = self.begins.setdefault(name, round(self.living.now + self.dice.uniform(0, self.launch), 3))
        return begins if begins <= self.living.now else None

    def stop(self, launch: Launch) -> None:
        name = (launch.job.job_id, launch.attempt)
        self.gone.setdefault(name, round(self.living.now + self.dice.uniform(0, self.grace), 3))

    def poll(self) -> list[Over]:
        return [
            Over(*name, "stopped", "", self.begins.get(name), at)
            for name, at in self.gone.items()
            if at <= self.living.now
        ]

    def confirm(self, over: Over) -> None:
        del self.gone[over.job_id, over.attempt]


def site(folder: Path, executor: Late, **policies: Any) -> Living:
    settings = {
        "pools": [{"name": "p", "nodes": 1, "devices": 4, "model": "A100"}],
        "tenants": [{"name": "vision"}],
        "queues": [{"name": "batch"}],
        "policies": {"expected_starts": 0} | policies,
    }
    living = Living(folder, settings)
    executor.living = living
    living.restart(executor)
    return living


def starts(living: Living, arrivals: dict[str, tuple[float, int, float]]) -> tuple[dict[str, float], dict[str, float]]:
    """When each job was decided to start, and what it was promised first. arrivals: when, devices and limit."""
    decided: dict[str, float] = {}
    promised: dict[str, float] = {}
    while len(decided) < len(arrivals):
        living.now += 1.0
        for name, (at, gpus, limit) in arrivals.items():
            if at <= living.now < at + 1:
                living.submit(name, gpus, time_limit=limit)
        living.settle()
        for one in living.service.restored.core.promised.promises:
            promised.setdefault(one.job_id, one.start)
        for name, live in living.service.book.jobs.items():
            if live.status in ("starting", "running"):
                decided.setdefault(name, living.now)
        assert living.now < 5000, "something never starts"
    return decided, promised


def test_jobs_that_were_promised_whole_nodes_keep_their_turns_however_long_launches_take(tmp_path: Path) -> None:
    dice = random.Random(drawn_seed())
    living = site(tmp_path, Late(dice, 4, 4), backfill="conservative")
    arrivals = {f"j{number}": (1001.0 + number, 4, dice.choice([5.0, 10.0, 20.0])) for number in range(10)}
    decided, _ = starts(living, arrivals)
    assert sorted(decided, key=lambda name: decided[name]) == list(arrivals)


@pytest.mark.parametrize("number", range(4))
def test_a_promise_to_the_head_is_late_by_no_more_than_a_launch_takes(tmp_path: Path, number: int) -> None:
    """With EASY backfill, where only limits end jobs: by the longest grace period and launch, told and ended at whole
    seconds. Nobody is so short that it fits into that time."""
    dice = random.Random(f"{drawn_seed()} {number}")
    launch, grace = dice.choice([0.0, 2.0, 4.0]), dice.choice([0.0, 3.0])
    living = site(tmp_path, Late(dice, launch, grace))
    arrivals = {}
    for index in range(16):
        at = 1001.0 + index * dice.choice([1, 3])
        arrivals[f"j{index}"] = (at, dice.choice([1, 1, 2, 3, 4]), dice.choice([10.0, 20.0, 50.0]))
    decided, promised = starts(living, arrivals)
    late = {name: decided[name] - at for name, at in promised.items() if decided[name] > at + launch + grace + 2}
    assert not late, (launch, grace, late)


def test_the_least_run_time_of_a_queue_counts_from_when_a_job_really_began(tmp_path: Path) -> None:
    executor = Late(random.Random(0), 0, 0)
    living = site(tmp_path, executor)
    executor.begins["old", 1] = 1030.0
    living.configure(parse_settings(living.settings.model_dump(mode="json") | {
        "queues": [{"name": "batch", "policy": "priority", "min_run_time": 60}]}))  # fmt: skip
    living.submit("old", 4)
    living.settle()
    living.now = 1030.0
    living.settle()
    living.submit("new", 4, priority=1)
    for now in (1031.0, 1061.0, 1089.0, 1091.0):
        living.now = now
        living.service.set_node("p-0", "available")  # something happens
        living.settle()
        assert living.status("new") == ("pending" if now < 1090 else "running"), now
