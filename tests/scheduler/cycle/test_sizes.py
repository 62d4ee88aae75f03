"""A job that devices of several sizes suit: what it may have, by trying every device on small clusters."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest

from scheduler.cycle.core import Core
from scheduler.cycle.policies import Policies, Reservation
from scheduler.model import Device, Job, Node, Preempt, Queue, Request, Start, Tenant
from tests.draws import keep_seed, seeds
from tests.scheduler.cycle.scenes import Promised, codes, core, decide, job, preempted, run, started

UNITS = {"T4": 1, "A30": 4, "H100": 7}
WHOLE, ONE_SMALL = Request(1), Request(1, models=frozenset({"T4"}))
SEEDS = seeds("GPULEDGER_WORLDS")


def mixed(*models: str) -> list[Node]:
    """A node for each word, of its models."""
    return [
        Node(
            f"n{number}",
            tuple(Device(f"n{number}d{index}", model, UNITS[model]) for index, model in enumerate(of.split())),
            16_000,
            1 << 36,
        )
        for number, of in enumerate(models)
    ]


def test_it_starts_on_a_small_device_where_that_is_all_there_is() -> None:
    state = core(mixed("H100", "T4 T4"), [Tenant("a"), Tenant("b")])
    decide(state, 0, job("large", "b", request=Request(1, models=frozenset({"H100"}))))
    assert started(decide(state, 1, job("any", request=WHOLE, at=1))) == ["any"]
    assert state.accounts.tenants[""]["a"].held == 1


def test_its_limit_leaves_it_the_devices_that_are_small_enough() -> None:
    state = core(mixed("H100", "T4"), [Tenant("a", limit=3)])
    plan = decide(state, 0, job("first", request=WHOLE), job("second", request=WHOLE))
    assert started(plan) == ["first"] and state.running["first"].units == 1
    assert "WaitingForQuota" not in codes(plan, "second")
    (found,) = [reason for reason in plan.waiting["second"] if reason.code == "InsufficientCapacity"]
    assert found.counts["CardBeyondLimit"] == 1 and "1 larger than limits allow" in found.text


def test_what_its_tenant_holds_leaves_it_the_devices_that_are_small_enough() -> None:
    state = core(mixed("H100 H100", "T4"), [Tenant("a", limit=10)])
    decide(state, 0, job("large", request=Request(1, models=frozenset({"H100"}))))
    assert started(decide(state, 1, job("any", request=WHOLE, at=1))) == ["any"]
    assert state.running["any"].units == 1


def test_a_gang_that_fits_on_small_devices_alone_never_may_have_large_ones_beside_them() -> None:
    state = core(mixed("H100", "T4"), [Tenant("a", limit=10), Tenant("b")])
    decide(state, 0, job("large", "b", request=Request(1, models=frozenset({"H100"}))))
    plan = decide(state, 1, job("gang", replicas=2, request=WHOLE, at=1))
    assert codes(plan, "gang")[0] == "InsufficientCapacity"
    state.end("large", 2, True)
    assert started(decide(state, 2)) == ["gang"] and state.running["gang"].units == 8


def test_a_limit_below_any_placement_is_reported_as_exceeded() -> None:
    state = core(mixed("H100 H100", "T4"), [Tenant("a", limit=10)])
    plan = decide(state, 0, job("pair", request=Request(2)), job("two", replicas=2, request=WHOLE))
    assert codes(plan, "pair")[0] == "ExceedsMaxQuota" and "asks for 14 units" in plan.waiting["pair"][0].text
    assert started(plan) == ["two"]


def test_it_evicts_no_more_than_the_small_device_needs() -> None:
    state = core(mixed("H100", "T4"), [Tenant("a"), Tenant("b")], [Queue("q", "priority")])
    decide(state, 0, job("large", request=Request(1, models=frozenset({"H100"}))), job("small", request=ONE_SMALL))
    plan = decide(state, 1, job("high", request=WHOLE, at=1, priority=1))
    assert len(preempted(plan)) == 1 and started(plan) == ["high"]


def test_a_place_on_a_small_device_is_promised() -> None:
    state = core(mixed("H100", "T4"))
    decide(state, 0, job("large", request=Request(1, models=frozenset({"H100"}))))
    decide(state, 1, job("small", request=ONE_SMALL, at=1, limit=50))
    assert decide(state, 2, job("any", request=WHOLE, at=2, limit=10)).expected == {"any": 51}


def test_an_elastic_job_grows_onto_the_devices_that_its_limit_leaves() -> None:
    state = core(mixed("T4 T4", "H100"), [Tenant("a", limit=3)], policies=Policies(elastic_hold_seconds=0))
    decide(state, 0, job("elastic", request=WHOLE, most=3))
    decide(state, 1)
    assert [grant.node for grant in state.running["elastic"].grants] == [0, 0]


def test_reserved_devices_are_its_own_whatever_its_limit() -> None:
    window = Reservation("own", 0, 100, frozenset({0}), frozenset("a"))
    state = core(mixed("H100"), [Tenant("a", limit=3)], reservations=[window])
    assert started(decide(state, 1, job("any", request=WHOLE, at=1, limit=20))) == ["any"]


def test_a_short_job_starts_before_a_window_on_the_small_device_that_a_long_one_of_its_class_may_not_have() -> None:
    window = Reservation("firmware", 50, 100, frozenset({1}), kind="maintenance")
    state = core(mixed("H100 H100", "T4"), [Tenant("a", limit=10)], reservations=[window])
    decide(state, 0, job("large", request=Request(1, models=frozenset({"H100"}))))
    plan = decide(state, 1, job("long", request=WHOLE, at=1), job("short", request=WHOLE, at=2, limit=20))
    assert started(plan) == ["short"]
    assert plan.waiting["long"][0].text == "would fit, but it is kept for firmware"


def drawn(dice: random.Random) -> tuple[list[Node], list[Tenant]]:
    nodes = mixed(*(" ".join([dice.choice(["T4", "T4", "A30", "H100"])] * dice.randint(1, 3)) for _ in range(3)))
    if dice.random() < 0.3:
        nodes = mixed(*(" ".join(dice.choices([*UNITS], k=dice.randint(1, 3))) for _ in range(3)))
    units = sum(device.units for node in nodes for device in node.devices)
    tenants = []
    for name in "abc":
        own = dice.choice([0, 0, dice.randint(0, units // 3)])
        limit = dice.choice([None, None, own + dice.randint(0, units)])
        lent = dice.choice([None, None, dice.randint(0, own)])
        tenants.append(Tenant(name, guaranteed=own, limit=limit, lending_limit=lent))
    return nodes, tenants


def drawn_job(dice: random.Random, name: str, now: float, limit: float | None = None) -> Job:
    models = dice.choice([frozenset(), frozenset(), frozenset({"T4"}), frozenset({"H100"}), frozenset({"A30", "T4"})])
    return job(
        name,
        dice.choice("abc"),
        replicas=dice.choice([1, 1, 1, 2, 3]),
        request=Request(dice.choice([1, 1, 2]), models=models),
        at=now,
        limit=limit,
        priority=dice.choice([0, 0, 0, 1]),
        preemptible=dice.random() < 0.8,
    )


def holds(nodes: Sequence[Node], used: set[tuple[int, int]], one: Job, most: int) -> bool:
    """Whether the gang fits on unused devices of no more than so many units each."""
    replicas = 0
    for number, node in enumerate(nodes):
        suits = [
            index
            for index, device in enumerate(node.devices)
            if (number, index) not in used
            and device.units <= most
            and (not one.request.models or device.model in one.request.models)
        ]
        replicas += len(suits) // one.request.devices
    return replicas >= one.min_replicas


def ever(one: Job, limits: Mapping[str, int | None]) -> list[int]:
    """Sizes of which its tenant's limit allows the whole gang."""
    limit, gang = limits[one.tenant], one.request.devices * one.min_replicas
    return [size for size in UNITS.values() if limit is None or gang * size <= limit]


def used(state: Core, without: frozenset[str] = frozenset()) -> set[tuple[int, int]]:
    return {
        (grant.node, index)
        for name, one in state.running.items()
        if name not in without
        for grant in one.grants
        for index in grant.devices
    }


def may_start(state: Core, nodes: Sequence[Node], one: Job, without: frozenset[str] = frozenset()) -> bool:
    """Whether the gang fits on devices all of which its quotas would allow to be of the largest of their sizes."""
    room = state.accounts.room(state.pending[one.job_id][1].account)
    gang = one.request.devices * one.min_replicas
    return any(gang * size <= room and holds(nodes, used(state, without), one, size) for size in UNITS.values())


@pytest.mark.parametrize("seed", SEEDS)
def test_no_job_waits_beside_suitable_devices_that_quotas_allow(seed: int | None) -> None:
    """Jobs without time limits, so that nothing is promised. Limits hold; what cannot ever be is said to be so, and
    nothing else; of those who are evicted nobody is left out."""
    first = random.Random(f"{keep_seed()} of sizes").randrange(10**9) if seed is None else seed
    for number in range(first, first + (40 if seed is None else 1)):
        dice = random.Random(number)
        nodes, tenants = drawn(dice)
        limits = {one.name: one.limit for one in tenants}
        policy = dice.choice(["fifo", "priority", "fair_share"])
        state = core(nodes, tenants, [Queue("q", policy)], explain=dice.random() < 0.5)  # type: ignore[arg-type]
        for now in range(25):
            where = f"seed {number}, at {now}"
            if state.running and dice.random() < 0.4:
                state.end(dice.choice(sorted(state.running)), now, True)
            state.submit(drawn_job(dice, f"j{now}", now), now)
            for _ in range(20):
                check_evictions(state, nodes, limits, float(now), where)
                plan = decide(state, float(now))
                for name, limit in limits.items():
                    held = sum(one.units for one in state.running.values() if one.job.tenant == name)
                    assert limit is None or held <= limit, f"{where}: {name} holds {held} of {limit}"
                if not plan.actions:
                    break
            for one, _ in state.pending.values():
                assert not may_start(state, nodes, one), f"{where}: {one} waits, and may start"
                found = set(codes(plan, one.job_id))
                if found & {"NeverFits", "ExceedsMaxQuota"}:
                    could = any(holds(nodes, set(), one, size) for size in ever(one, limits))
                    assert not could, f"{where}: {one} {found}"


def check_evictions(
    state: Core, nodes: Sequence[Node], limits: Mapping[str, int | None], now: float, where: str
) -> None:
    """Where quotas leave room, a job that alone starts in place of others would have no place beside any of them."""
    plan = state.plan(now)
    starts = [action.job_id for action in plan.actions if isinstance(action, Start)]
    victims = {action.job_id for action in plan.actions if isinstance(action, Preempt)}
    if len(starts) == 1 and victims:
        one, kind = state.pending[starts[0]]
        most = max(ever(one, limits))
        for spared in sorted(victims) if state.accounts.room(kind.account) >= kind.amount else ():
            fits = holds(nodes, used(state, frozenset(victims - {spared})), one, most)
            assert not fits, f"{where}: {one.job_id} evicts {victims}, and {spared} for nothing"


@pytest.mark.parametrize("seed", SEEDS)
def test_no_job_starts_later_than_promised(seed: int | None) -> None:
    first = random.Random(f"{keep_seed()} of promised sizes").randrange(10**9) if seed is None else seed
    for number in range(first, first + (15 if seed is None else 1)):
        dice = random.Random(number)
        nodes, _ = drawn(dice)
        jobs, lasts, at = list[Job](), dict[str, float](), 0.0
        for index in range(25):
            at += dice.choice([0, 1, 5, 20])
            limit = dice.choice([5.0, 20.0, 60.0])
            jobs.append(replace(drawn_job(dice, f"j{index}", at, limit), priority=0))
            lasts[f"j{index}"] = limit * dice.choice([1, 1, 0.5])
        promised = Promised()
        state = core(nodes, queues=[Queue("q")], policies=Policies(backfill=dice.choice([1, None]), expected=0))
        began = run(state, jobs, lasts, promised.watch)
        late = {name: (start, began.get(name)) for name, start in promised.items() if began.get(name, 1e9) > start}
        never = [one for one in jobs if one.job_id not in began and holds(nodes, set(), one, 7)]
        assert not late and not never, f"seed {number}: {late}, {never}"
