"""What pools have: the parts make up the whole in any world, and are what a plain count finds."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import asdict
from pathlib import Path

from scheduler.cycle.core import Core
from scheduler.cycle.policies import Policies
from scheduler.pools import pool_lines
from tests.draws import keep_seed
from tests.scheduler.cycle.scenes import core, decide
from tests.scheduler.cycle.test_worlds import change, guaranteed, kept_free, ordinary, queues, reserves, windows, world
from tests.scheduler.live.living import SETTINGS, Living

PARTS = ("allocated", "available", "reserved", "unavailable")


def counted(state: Core, now: float) -> dict[tuple[str, str], Counter[str]]:
    """Unit by unit: where each is, from what runs, the nodes' states, the windows and what pools keep."""
    found: dict[tuple[str, str], Counter[str]] = {}
    held: Counter[tuple[int, int]] = Counter()
    for running in state.running.values():
        for grant in running.grants:
            for device, units in zip(grant.devices, grant.units, strict=True):
                held[grant.node, device] += units
    for number, node in enumerate(state.cluster.nodes):
        here = [window for window in state.reservations if number in window.nodes and window.start <= now < window.end]
        part = "available"
        if state.cluster.states[number] == "reserved" or here:
            part = "reserved"
        if state.cluster.states[number] in ("maintenance", "failed") or any(not window.tenants for window in here):
            part = "unavailable"
        for index, device in enumerate(node.devices):
            line = found.setdefault((node.pool, device.model), Counter())
            line["allocated"] += held[number, index]
            line[part] += device.units - held[number, index]
    for kind, most in kept_free(state, now).items():
        may = max(0, most - ordinary(state, now)[kind])
        found[kind]["reserved"] += max(0, found[kind]["available"] - may)
        found[kind]["available"] = min(found[kind]["available"], may)
    return found


def test_the_parts_make_up_the_whole_in_any_world() -> None:
    first = random.Random(f"{keep_seed()} of pools").randrange(10**9)
    for seed in range(first, first + 15):
        dice = random.Random(seed)
        nodes = world(dice)
        reserved = reserves(dice)
        those, policies = queues(dice, nodes, reserved)
        state = core(nodes, guaranteed(dice, nodes, reserved), those, policies, windows(dice, nodes, 1), explain=False)
        for now in range(dice.randint(5, 20)):
            change(dice, nodes, [state], float(now))
            if dice.random() < 0.2:
                state.set_node(dice.randrange(len(nodes)), dice.choice(["available", "failed", "maintenance"]), now)
            decide(state, float(now))
            lines = pool_lines(state, float(now))
            there: Counter[tuple[str, str]] = Counter()
            for node in nodes:
                for device in node.devices:
                    there[node.pool, device.model] += device.units
            assert {(line.pool, line.model): line.total for line in lines} == there, f"seed {seed}, at {now}"
            for line in lines:
                parts = {part: getattr(line, part) for part in PARTS}
                assert min(parts.values()) >= 0 and sum(parts.values()) == line.total
                expected = counted(state, float(now))[line.pool, line.model]
                assert parts == {part: expected[part] for part in PARTS}, f"seed {seed}, at {now}: {line}"


def test_a_service_tells_them_and_measures_gpus_also_after_a_restart(tmp_path: Path) -> None:
    """MIG's sevenths are units; a GPU is seven."""
    cut = {"name": "cut", "nodes": 2, "devices": 2, "model": "H100", "units": 7, "geometry": "h100-80gb"}
    kept = {"reserved": "20%", "reserved_for": {"tenants": ["speech"]}}
    living = Living(tmp_path, {**SETTINGS, "pools": [*SETTINGS["pools"], cut | kept]})
    living.submit("a", request={"devices": 1, "profile": "3g.40gb", "models": ["H100"]})
    living.submit("b", gpus=4)
    living.settle()
    living.service.set_node("p-0", "failed")
    (of_cut, of_p) = living.service.pools()
    assert of_cut == {
        "pool": "cut", "model": "H100", "units_per_gpu": 7, "total": 28,
        "allocated": 3, "available": 18, "reserved": 7, "unavailable": 0, "draining": 0,
    }  # fmt: skip
    assert (of_p["total"], of_p["allocated"], of_p["unavailable"], of_p["available"]) == (8, 4, 0, 4)
    series = living.service.series()
    gpus = {one.labels["state"]: one.value for one in series if one.name == "pool_gpus" and one.labels["pool"] == "cut"}
    assert gpus == {"allocated": 3 / 7, "available": 18 / 7, "reserved": 1.0, "unavailable": 0.0}
    before = living.service.pools()
    living.restart()
    assert living.service.pools() == before


def test_lines_are_of_a_pool_and_a_model() -> None:
    state = core(world(random.Random(1)), policies=Policies())
    kinds = [(line.pool, line.model) for line in pool_lines(state, 0.0)]
    assert kinds == sorted(set(kinds)) and asdict(pool_lines(state, 0.0)[0])["units_per_gpu"] >= 1
