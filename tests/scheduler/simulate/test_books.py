"""What other devices would change: drawn workloads against a reckoning by hand, and relations that must hold."""

from __future__ import annotations

import heapq
import random
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

import pytest

from scheduler.simulate.books.what_if import as_it_was, node_size, simulated, wait_at
from scheduler.simulate.books.workload import MOST_DEVICES, BookJob, Change, Group, Outcome, Slot, Workload, latest
from tests.draws import keep_seed
from warehouse.errors import LedgerError

SEEDS = [f"{keep_seed()}-{number}" for number in range(12)]
HOUR = 3600.0


def singles(seed: str, shared: bool = False) -> Workload:
    """Jobs of one whole GPU each and one priority, submitted over a day on two to six GPUs."""
    draw = random.Random(seed)
    devices = [Slot(f"n{number // 2}") for number in range(draw.randint(2, 6))]
    jobs = []
    at = 0.0
    for number in range(draw.randint(1, 60)):
        at = round(at + draw.expovariate(len(devices) / (1.2 * HOUR)), 3)
        use = draw.choice((None, 0.0, 0.2, 0.3, 0.5, 0.9)) if shared else None
        jobs.append(BookJob(f"j{number:03d}", at, at, round(draw.uniform(1, 3 * HOUR), 3), use=use))
    return Workload(Group("c", "p", "m"), 0.0, at + 1, devices, jobs)


def gangs(seed: str) -> Workload:
    """Jobs of several nodes, shares of GPUs, and priorities; none larger than what is there."""
    draw = random.Random(seed)
    nodes, each = draw.randint(1, 4), draw.choice((1, 2, 4))
    devices = [Slot(f"n{node}") for node in range(nodes) for _ in range(each)]
    devices += [Slot("shared", 4) for _ in range(draw.randint(0, 2))]
    shares = any(slot.units == 4 for slot in devices)
    jobs = []
    for number in range(draw.randint(1, 40)):
        at = round(draw.uniform(0, 24 * HOUR), 3)
        small = shares and draw.random() < 0.4
        size = {"units": draw.randint(1, 4), "whole": 4} if small else {
            "replicas": draw.randint(1, nodes), "devices": draw.randint(1, each)
        }  # fmt: skip
        jobs.append(
            BookJob(
                f"j{number:03d}", at, at, round(draw.uniform(1, 6 * HOUR), 3), priority=draw.choice((0, 0, 5)), **size
            )
        )
    jobs.sort(key=lambda job: (job.submitted_at, job.job_id))
    return Workload(Group("c", "p", "m"), 0.0, 24 * HOUR, devices, jobs)


def first_come(work: Workload, gpus: int) -> list[float]:
    """The waits of single-GPU jobs, first come, first served: each takes the GPU that is free first."""
    free_from = [0.0] * gpus
    waits = []
    for job in work.jobs:
        start = max(heapq.heappop(free_from), job.submitted_at)
        heapq.heappush(free_from, start + job.run_seconds)
        waits.append(start - job.submitted_at)
    return waits


@pytest.mark.parametrize("seed", SEEDS)
def test_single_gpu_jobs_wait_as_long_as_first_come_first_served_has_it(seed: str) -> None:
    work = singles(seed)
    for more in (-1, 0, 3):
        gpus = len(work.devices) + more
        found, waits = simulated(work, Change(more)), first_come(work, gpus)
        assert found.waited_gpu_hours == pytest.approx(sum(waits) / HOUR, abs=1e-4)
        assert (found.started, found.never_started, found.gpus) == (len(waits), 0, gpus)
        ordered = sorted(waits)
        assert found.p50 == pytest.approx(ordered[int(0.5 * len(ordered))], abs=0.1)
        assert found.p95 == pytest.approx(ordered[min(len(ordered) - 1, int(0.95 * len(ordered)))], abs=0.1)
        assert wait_at(work, Change(more), 0.95) == found.p95


@pytest.mark.parametrize("seed", SEEDS[:6])
def test_each_gpu_more_never_lengthens_the_waits_of_single_gpu_jobs(seed: str) -> None:
    work = singles(seed)
    sums = [simulated(work, Change(more)).waited_gpu_hours for more in range(1 - len(work.devices), 4)]
    assert all(before >= after - 1e-9 for before, after in pairwise(sums))
    assert simulated(work, Change(len(work.jobs))).waited_gpu_hours == 0


@pytest.mark.parametrize("seed", SEEDS)
def test_no_change_changes_nothing_and_what_the_simulator_has_made_is_as_it_was(seed: str) -> None:
    work = gangs(seed)
    starts: dict[str, float] = {}
    first = simulated(work, Change())
    assert first == simulated(work, Change())
    replayed = replayed_as_real(work, starts)
    assert as_it_was(replayed) == first
    assert simulated(replayed, Change()) == first  # real starts are no part of a simulation
    assert first.never_started == 0 and first.utilization is not None and 0 < first.utilization <= 1 + 1e-9


def replayed_as_real(work: Workload, starts: dict[str, float]) -> Workload:
    """The workload with the simulator's starts for the real ones."""
    from scheduler.simulate.books import what_if

    found = what_if._starts(what_if._nodes(work.devices, Change()), [what_if._asked(j, False) for j in work.jobs], None)
    starts.update(found)
    return replace(work, jobs=[replace(job, started_at=found[job.job_id]) for job in work.jobs])


@pytest.mark.parametrize("seed", SEEDS[:6])
def test_at_no_moment_more_is_held_than_is_there(seed: str) -> None:
    work = gangs(seed)
    starts: dict[str, float] = {}
    replayed_as_real(work, starts)
    for at in starts.values():
        running = [job for job in work.jobs if starts[job.job_id] <= at < starts[job.job_id] + job.run_seconds - 0.002]
        for whole in (1, 4):
            there = sum(slot.units == whole for slot in work.devices)
            assert sum(job.gpus for job in running if job.whole == whole) <= there + 1e-9


@pytest.mark.parametrize("seed", SEEDS[:6])
def test_a_later_clock_or_other_names_of_jobs_change_no_wait(seed: str) -> None:
    work = gangs(seed)
    later = replace(
        work,
        start=work.start + 1e6,
        end=work.end + 1e6,
        jobs=[replace(job, job_id=f"x{job.job_id}", submitted_at=job.submitted_at + 1e6) for job in work.jobs],
    )
    first, second = simulated(work, Change(1)), simulated(later, Change(1))
    assert second.waited_gpu_hours == pytest.approx(first.waited_gpu_hours, abs=1e-3)
    assert second.utilization == pytest.approx(first.utilization, abs=1e-6)


@pytest.mark.parametrize("seed", SEEDS[:6])
def test_sharing_lets_small_jobs_start_sooner_and_only_them_share(seed: str) -> None:
    work = singles(seed, shared=True)
    for shares in (2, 4):
        alone, shared = simulated(work, Change()), simulated(work, Change(0, shares))
        small = [job for job in work.jobs if job.use is not None and job.use <= 1 / shares]
        assert (alone.shared, shared.shared) == (0, len(small))
        assert shared.gpus == alone.gpus
        if not small:
            assert replace(shared, shared=0) == alone
    everybody = replace(work, jobs=[replace(job, use=0.1) for job in work.jobs])
    halves = sum(first_come(everybody, 2 * len(work.devices)))  # as if there were twice the GPUs
    found = simulated(everybody, Change(0, 2))
    assert found.waited_gpu_hours == pytest.approx(halves / 2 / HOUR, abs=1e-4)


def test_what_is_unknown_of_a_job_or_takes_more_than_one_gpu_is_never_shared() -> None:
    jobs = [
        BookJob("unknown", 0, 0, 10.0, use=None),
        BookJob("two", 0, 0, 10.0, devices=2, use=0.0),
        BookJob("gang", 0, 0, 10.0, replicas=2, use=0.0),
        BookJob("share", 0, 0, 10.0, units=1, whole=4, use=0.0),
        BookJob("busy", 0, 0, 10.0, use=0.51),
        BookJob("small", 0, 0, 10.0, use=0.5),
    ]
    work = Workload(Group("c", "p", "m"), 0.0, 100.0, [Slot("a"), Slot("a"), Slot("b"), Slot("b"), Slot("s", 4)], jobs)
    assert simulated(work, Change(0, 2)).shared == 1


def test_more_come_as_whole_nodes_and_fewer_go_from_the_last_one() -> None:
    """A job of four GPUs of one node, another of two nodes of two."""
    four = BookJob("four", 0.0, 0.0, 10.0, devices=4)
    twos = BookJob("twos", 1.0, 1.0, 10.0, replicas=2, devices=2)
    work = Workload(Group("c", "p", "m"), 0.0, 100.0, [Slot(f"n{n}") for n in range(2) for _ in range(4)], [four, twos])
    assert node_size(work) == 4
    assert simulated(work, Change()).waited_gpu_hours == 0
    found = simulated(work, Change(-4))
    assert (found.gpus, found.never_started, found.longest) == (4, 0, 9.0)
    found = simulated(work, Change(-5))
    assert (found.gpus, found.started, found.never_started) == (3, 0, 2)
    assert (found.p50, found.mean, found.waited_gpu_hours) == (None, None, 0)
    assert wait_at(work, Change(-5), 0.5) is None
    one = replace(work, jobs=[BookJob("one", 0.0, 0.0, 10.0)])
    assert simulated(one, Change(-7)).started == 1  # a node of one is left
    many = replace(work, jobs=[replace(four, job_id=f"f{number}") for number in range(5)])
    assert simulated(many, Change(12)).waited_gpu_hours == 0  # five nodes of four
    assert simulated(many, Change(11)).longest == 10.0  # one of them has three


@pytest.mark.parametrize("gpus", [-8, -9, MOST_DEVICES])
def test_no_gpus_or_far_too_many_are_refused(gpus: int) -> None:
    work = Workload(Group("c", "p", "m"), 0.0, 1.0, [Slot("a")] * 8, [BookJob("j", 0.0, 0.0, 1.0)])
    with pytest.raises(LedgerError, match="between 1 and 10,000"):
        simulated(work, Change(gpus))


def test_jobs_of_before_fill_the_cluster_and_are_in_no_wait() -> None:
    before = BookJob("before", -50.0, -50.0, 150.0, measured=False)
    own = BookJob("own", 10.0, 100.0, 30.0)
    work = Workload(Group("c", "p", "m"), 0.0, 200.0, [Slot("a")], [before, own])
    expected = Outcome(1, 1, 1, 0, 1, 90.0, 90.0, 90.0, 90.0, 90 / 3600, 130 / 200)
    assert as_it_was(work) == expected
    assert simulated(work, Change()) == expected
    assert wait_at(work, Change(), 0.0) == 90.0


def test_of_too_many_jobs_the_last_are_taken_and_what_held_something_then() -> None:
    jobs: Sequence[BookJob] = [BookJob(f"j{n}", n * 10.0, n * 10.0 + 1, 25.0) for n in range(10)]
    work = Workload(Group("c", "p", "m"), 0.0, 200.0, [Slot("a")] * 4, jobs)
    assert latest(work, 10) is work
    found = latest(work, 4)
    assert [job.job_id for job in found.jobs] == ["j4", "j5", "j6", "j7", "j8", "j9"]
    assert [job.measured for job in found.jobs] == [False, False, True, True, True, True]
    assert (found.start, found.end) == (60.0, 200.0)
    assert found.jobs[0].submitted_at == 41.0  # there when it really started
    assert as_it_was(found).jobs == 4
