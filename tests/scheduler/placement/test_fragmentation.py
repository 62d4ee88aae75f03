"""The fragmentation measure equals its definition, however it was reached."""

from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.model import Grant, Request
from scheduler.placement.cluster import Cluster
from scheduler.placement.engine import place
from scheduler.placement.fragmentation import CLASSES, Demand, Fragmentation, Task, demand_of, typical_demand
from scheduler.placement.packing import RandomFit
from tests.scheduler.placement.clusters import hold, node
from tests.scheduler.placement.test_cluster import REQUESTS, mixed


def by_definition(cluster: Cluster, demand: Demand) -> float:
    """Sum of F_n(M) in devices, written from the paper: one task, node and device after the other."""
    total = 0.0
    for task in demand.tasks:
        shape = cluster.shape(
            Request(**{f: getattr(task.request, f) for f in ("devices", "units", "profile", "models")})
        )
        for n, listed in enumerate(cluster.nodes):
            idle = [int(cluster.free[n, d]) / device.units for d, device in enumerate(listed.devices)]
            at = np.array([n])
            if task.request.profile:
                times = shape.instances_left(at)[0].tolist()
            else:
                times = [int(usable) for usable in shape.usable(at)[0].tolist()]
            can = cluster.cpu_free[n] >= task.request.cpu_milli and sum(times) >= task.request.devices > 0
            total += task.weight * sum(free for free, often in zip(idle, times, strict=False) if not can or not often)
    return total


@settings(max_examples=8, deadline=None)
@given(seed=st.integers(0, 10_000))
def test_updated_incrementally_it_equals_the_definition(seed: int) -> None:
    rng, cluster, policy = random.Random(seed), mixed(), RandomFit(seed)
    demand = typical_demand(REQUESTS, 1.0)
    kept = Fragmentation(cluster, demand)
    held: list[tuple[Grant, Request]] = []
    for _ in range(20):
        request = rng.choice(REQUESTS)
        grant = place(cluster, request, policy)
        if grant is not None:
            cluster.take(grant, request)
            held.append((grant, request))
        if held and rng.random() < 0.3:
            cluster.give_back(*held.pop())
        rate = kept.measure()
        assert rate.fragmented == pytest.approx(by_definition(cluster, demand))
        assert rate == Fragmentation(cluster, demand).measure()
        assert sum(rate.by_class.values()) == pytest.approx(rate.idle)
        assert rate.fragmented == pytest.approx(rate.idle - rate.by_class["satisfied"])


def test_each_class_by_hand() -> None:
    """One node with 2 devices of 1000: 1000 and 300 idle; 4 CPUs left. Each task alone in the demand."""
    cluster = Cluster([node("n", 2, units=1000, cpu_milli=16_000)])
    hold(cluster, "n", (1,), Request(1, units=700, cpu_milli=12_000))
    expected = [
        (Request(1, units=500, cpu_milli=4000), {"lacks_gpu": 0.3, "satisfied": 1.0}),
        (Request(2, units=500, cpu_milli=4000), {"lacks_gpu": 1.3}),
        (Request(1, units=500, cpu_milli=5000), {"lacks_cpu": 1.3}),
        (Request(2, units=500, cpu_milli=5000), {"lacks_both": 1.3}),
        (Request(0, cpu_milli=1000), {"without_gpu": 1.3}),
        (Request(0, cpu_milli=9000), {"without_gpu_lacks_cpu": 1.3}),
        (Request(1, models=frozenset({"T4"})), {"no_access": 1.3}),
    ]
    assert {name for _, classes in expected for name in classes} == set(CLASSES)
    for request, classes in expected:
        rate = Fragmentation(cluster, Demand((Task(request, 1.0),))).measure()
        assert {name: value for name, value in rate.by_class.items() if value} == pytest.approx(classes)
        assert (rate.idle, rate.total) == (1.3, 2.0)


def test_nothing_idle_has_no_ratio_and_no_devices_no_amount() -> None:
    cluster = Cluster([node("n", 1)])
    demand = typical_demand([Request(1)])
    assert Fragmentation(cluster, demand).measure().ratio == 0
    hold(cluster, "n", (0,), Request(1))
    full = Fragmentation(cluster, demand).measure()
    assert (full.ratio, full.amount) == (None, 0.0)
    bare = Fragmentation(Cluster([node("cpu", 0)]), demand).measure()
    assert (bare.ratio, bare.amount) == (None, None)


def test_the_demand_is_the_most_frequent_shapes_up_to_the_part_asked_for() -> None:
    often, rare, seldom = Request(1), Request(2), Request(8)
    demand = typical_demand([often] * 90 + [rare] * 6 + [seldom] * 4)
    assert [(task.request, pytest.approx(task.weight)) for task in demand.tasks] == [(often, 90 / 96), (rare, 6 / 96)]
    everything = demand_of([(often, 3), (rare, 1)], 1.0)
    assert [task.weight for task in everything.tasks] == [0.75, 0.25]
