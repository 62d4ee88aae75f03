"""Random worlds that combine all features, with the decisions and explanations of each cycle.

A world is the same for the same number on every machine. What happens in it is drawn from what is there, so a decision
that comes out differently changes the rest of the world, too: read the first cycle that differs.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import fields, is_dataclass, replace
from fractions import Fraction
from typing import Any

from scheduler.cycle.core import Core
from scheduler.cycle.plan import CyclePlan
from scheduler.cycle.policies import Policies, Reservation, Reserve
from scheduler.model import Device, Grant, Job, Node, Preempt, Queue, Request, Resize, Start, Tenant
from scheduler.placement.headroom import HeadroomRule
from scheduler.pools import pool_lines
from scheduler.setup import PLACEMENTS, Setup
from tests.scheduler.cycle.queueing import drawn_queues, leaves

GIB = 1 << 30
MODELS = {
    "A100": (1, ""),
    "A100-MIG": (7, "a100-80gb"),
    "H100": (7, "h100-80gb"),
    "A30": (4, "a30-24gb"),
    "L4": (10, ""),
}
"""Units of a whole device, and by which geometry it is cut."""
PROFILES = {
    "A100-MIG": ("1g.10gb", "1g.20gb", "2g.20gb", "3g.40gb", "7g.80gb"),
    "H100": ("1g.10gb", "2g.20gb", "3g.40gb", "4g.40gb"),
    "A30": ("1g.6gb", "2g.12gb", "4g.24gb"),
}
LONG, EACH = 150, 20
"""Cycles of a long history, in which intervals come to be known, and one world in how many has one."""
CLASSES = ("", "", "", "train", "serve")
SPEEDS = {("train", "serve"): 0.6, ("serve", "train"): 0.9, ("train", "train"): 0.8}


def drawn_nodes(dice: random.Random, most: int = 6) -> list[Node]:
    """Of one model each, sometimes of two, or all alike; two are a rack, and two racks a zone."""
    found, alike, size = [], dice.random() < 0.5, dice.choice([2, 4, 4, 8])
    for number in range(dice.randint(2, most)):
        models = ["A100"] if alike else dice.choices([*MODELS, "A100"], k=dice.choice([1, 1, 1, 2]))
        count = size if alike else dice.choice([1, 2, 4, 8])
        devices = tuple(_device(f"n{number}d{index}", dice.choice(models)) for index in range(count))
        found.append(
            Node(
                f"n{number}",
                devices,
                dice.choice([4_000, 16_000]),
                dice.choice([16, 64]) * GIB,
                "p" if alike else dice.choice("ppr"),
                labels={} if alike else dice.choice([{}, {}, {"net": "ib"}]),
                taints=frozenset() if alike else frozenset(dice.choice([(), (), (), ("debug",)])),
                topology=(f"zone{number // 4}", f"rack{number // 2}"),
                state=dice.choice(["available"] * 8 + ["maintenance", "reserved"]),
            )
        )
    return found


def _device(name: str, model: str) -> Device:
    units, cut = MODELS[model]
    return Device(name, model, units, {"A30": 24, "L4": 24}.get(model, 80) * GIB, cut)


def drawn_request(dice: random.Random, nodes: Sequence[Node]) -> Request:
    """Whole devices, shares, instances, or none; here and there with a condition."""
    node = dice.choice(nodes)
    model = dice.choice(node.devices).model
    devices, beside = dice.choice([1, 1, 1, 2, 2, 3]), dict[str, Any]()
    if dice.random() < 0.25:
        beside |= {"cpu_milli": dice.choice([500, 1000, 3000])}
    if dice.random() < 0.2:
        beside |= {"host_memory_bytes": dice.choice([1, 8, 20]) * GIB}
    if dice.random() < 0.15:
        beside |= {dice.choice(["required_topology", "preferred_topology"]): dice.choice([0, 1, 2])}
    if dice.random() < 0.1:
        beside |= {"labels": node.labels}
    if dice.random() < 0.9:
        beside |= {"tolerations": node.taints}
    beside |= {"workload_class": dice.choice(CLASSES), "pool": dice.choice(["", "", node.pool])}
    if dice.random() < 0.04:
        return Request(0, **(beside | {"cpu_milli": 1000}))
    if model in PROFILES and dice.random() < 0.7:
        return Request(dice.choice([1, 1, 2]), profile=dice.choice(PROFILES[model]), **beside)
    if model == "L4" and dice.random() < 0.7:
        memory = dice.choice([0, 4, 8, 16]) * GIB
        return Request(dice.choice([1, 1, 2]), dice.choice([2, 3, 5, 6]), memory, models=frozenset([model]), **beside)
    if dice.random() < 0.5:
        devices = len(node.devices)
    models = frozenset() if dice.random() < 0.2 else frozenset(dice.choice([(model,), (model, "A100")]))
    return Request(devices, memory_bytes=dice.choice([0, 0, 0, 40 * GIB]), models=models, **beside)


def drawn_tenants(dice: random.Random, nodes: Sequence[Node]) -> list[Tenant]:
    """Two below an organisation, two beside it, guaranteed something or not; limits of all kinds; sometimes quotas of a
    pool as well."""
    units = sum(device.units for node in nodes for device in node.devices)
    part = 1 if dice.random() < 0.7 else 0

    def some(name: str, parent: str, most: int, pool: str = "") -> Tenant:
        own = part * dice.choice([0, dice.randint(0, most), most])
        limits = [None if dice.random() < 0.8 else dice.randint(0, most) for _ in range(2)]
        limit = None if dice.random() < 0.85 else own + dice.randint(0, units)
        return Tenant(name, parent, pool, own, limit, *limits, dice.choice([0.5, 1.0, 1.0, 2.0]))

    found = [some("org", "", units // 4), some("a", "org", units // 2), some("b", "org", units // 4)]
    found += [some("c", "", units // 4), Tenant("d", weight=dice.choice([0.0, 1.0]))]
    if dice.random() < 0.12:
        there = sum(device.units for node in nodes if node.pool == "p" for device in node.devices)
        found += [some(name, "", there // 2, "p") for name in "ac"]
    return found


def drawn_site(dice: random.Random, nodes: Sequence[Node], start: float) -> dict[str, Any]:
    """Tenants, queues, policies, reservations: what `Setup` and `State.reconfigure` are given."""
    units = sum(device.units for node in nodes for device in node.devices)
    between = dice.choice(["priority", "fair_share"])
    reserves = []
    for pool in "pr" if dice.random() < 0.3 else "":
        kept = (
            HeadroomRule(part=Fraction(dice.choice([1, 2, 5]), 10))
            if dice.random() < 0.5
            else HeadroomRule(dice.choice([1, 3, 8]))
        )
        whom: Any = dice.choice([{"tenants": frozenset("a")}, {"priority": 2}, {"queues": frozenset(["q0"])}])
        reserves.append(Reserve(pool, kept, **whom))
    policies = Policies(
        backfill=dice.choice([1, 1, 1, 2, None, 0]),
        backfill_seconds=dice.choice([0.0, 0.0, 0.0, 15.0]),
        between_queues=between,  # type: ignore[arg-type]
        preempt_by_priority=dice.choice(["never", "queue", "queue", "tenant", "all"]),
        priority_difference=dice.choice([1, 1, 2]),
        reclaim=dice.random() < 0.85,
        preempt_for_fairness=dice.random() < 0.85,
        preemption_searches=dice.choice([16, 16, 1, 2]),
        most_preemptions=dice.choice([None, None, 1, 2]),
        usage_weight=dice.choice([1.0, 0.5]),
        entry_penalty_seconds=dice.choice([60.0, 0.0]),
        elastic_hold_seconds=dice.choice([60.0, 5.0]),
        expected=dice.choice([16, 16, 2, 0]),
        prices=dice.choice([{}, {"A100": 2.0, "L4": 0.25, "H100": 4.0}]),
        reserves=tuple(reserves),
    )
    if dice.random() < 0.5:
        queues = [Queue("q0", dice.choice(["fifo", "priority", "fair_share", "fair_share", "capacity"]))]
    else:
        queues = drawn_queues(dice, units, between)
    queues = [_with_bounds(dice, queue) for queue in queues]
    windows = []
    for number in range(dice.choice([0, 0, 1, 2])):
        begin, whose = start + dice.uniform(0, 120), dice.choice(["a", "bc", "", ""])
        windows.append(
            Reservation(
                f"window{number}",
                round(begin, 1),
                round(begin + dice.uniform(5, 150), 1),
                frozenset(dice.sample(range(len(nodes)), dice.randint(1, len(nodes)))),
                frozenset(whose),
                idle_seconds=dice.choice([None, 10.0]) if whose else None,
            )
        )
    return {
        "tenants": drawn_tenants(dice, nodes),
        "queues": queues,
        "policies": policies,
        "reservations": windows,
    }


def _with_bounds(dice: random.Random, queue: Queue) -> Queue:
    return replace(
        queue,
        wait_bound=dice.choice([None, None, None, 25.0]),
        min_run_time=dice.choice([0.0, 0.0, 0.0, 20.0]),
        half_life=dice.choice([0.0, 0.0, 100.0]),
    )


def drawn_job(dice: random.Random, state: Core, name: str, now: float) -> Job:
    queues = [*leaves(list(state.queues.values())), *(["nowhere"] if dice.random() < 0.05 else [])]
    if dice.random() < 0.01:
        queues = list(state.queues)
    least = dice.choice([1, 1, 1, 1, 2, 3])
    others, request = sorted({*state.running, *state.pending}), drawn_request(dice, state.cluster.nodes)
    if state.pools_with_quota and not request.pool and dice.random() < 0.9:
        request = replace(request, pool=dice.choice(sorted(state.pools_with_quota)))
    return Job(
        name,
        dice.choice("abcdd" if len(state.running) < 4 else "aaabbcd") if dice.random() < 0.97 else "stranger",
        dice.choice(queues),
        request,
        now - dice.choice([0, 0, 0, 7.5]),
        least,
        least + dice.choice([0, 0, 0, 1, 3]),
        dice.choice([0, 0, 0, 1, 2]),
        dice.random() < 0.85,
        dice.choice([None, 10.0, 30.0, 60.0, 200.0, 400.0]),
        wait_bound=dice.choice([None, None, None, None, 15.0]),
        checkpoint_seconds=dice.choice([None, None, 7.0]),
        after=tuple(dice.sample(others, 1)) if others and dice.random() < 0.06 else (),
    )


def happen(dice: random.Random, state: Core, jobs: dict[str, Job], now: float) -> str:
    """Something that happens to the cluster, the jobs or the settings; what is over by now has ended before."""
    for name in sorted(name for name, one in state.running.items() if one.ends_by <= now):
        if dice.random() < 0.9:
            state.end(name, now, True)
    for one in state.unused(now):
        state.give_back(one.name, one.start, now)
    for name in sorted(state.aside):
        if dice.random() < 0.6:
            state.submit(jobs[name], now)
    for name in sorted(state.leaving):
        if dice.random() < 0.5:
            state.gone(name)
    waiting = [*state.pending, *state.dependent]
    for name in [name for name in waiting if now - jobs[name].submitted_at > 60.0]:
        if dice.random() < 0.4:  # who waits in vain gives up
            state.withdraw(name, now)
            state.drop(name)
    what = dice.choice(["submit"] * 12 + ["end", "end", "end", "withdraw", "nothing", "node", "settings", "drop"])
    match what:
        case "submit":
            for _ in range(dice.choice([1, 2, 3, 5])):
                one = drawn_job(dice, state, f"j{len(jobs)}", now)
                jobs[one.job_id] = one
                state.submit(one, now)
                what += f" {one.job_id}"
        case "end" if state.running:
            name = dice.choice(sorted(state.running))
            how = dice.choice([{}, {}, {"comes_back": True}, {"leaves": True}, {"comes_back": True, "leaves": True}])
            state.end(name, now, dice.random() < 0.8 and not how, **how)
            what += f" {name} {sorted(how)}"
        case "withdraw" if state.pending or state.dependent:
            name = dice.choice(sorted({*state.pending, *state.dependent}))
            state.withdraw(name, now)
            what += f" {name}"
        case "drop" if state.aside:
            name = dice.choice(sorted(state.aside))
            state.drop(name)
            what += f" {name}"
        case "node":
            number, to = (
                dice.randrange(len(state.cluster.nodes)),
                dice.choice(["available", "available", "maintenance"]),
            )
            if to != "available":
                for name in sorted(state.on_node[number]):
                    state.end(name, now, False)
            state.set_node(number, to, now)  # type: ignore[arg-type]
            what += f" {number} {to}"
        case "settings" if dice.random() < 0.5:
            state.reconfigure(**drawn_site(dice, state.cluster.nodes, now), now=now)
    return what


def history(number: int) -> Iterator[tuple[str, Any]]:
    """What happens in a world, cycle by cycle: the event with the decided actions, and everything that is explained."""
    dice = random.Random(f"world {number}")
    nodes = drawn_nodes(dice)
    setup = Setup(
        f"world {number}",
        nodes,
        **drawn_site(dice, nodes, 0.0),
        placement=dice.choice(["bestfit", "bestfit", *PLACEMENTS]),
        seed=number,
        speeds=dice.choice([{}, {}, {}, SPEEDS]),
    )
    state = setup.core([drawn_request(dice, nodes) for _ in range(8)], 0.0, dice.random() < 0.9)
    jobs: dict[str, Job] = {}
    now = 0.0
    for _ in range(LONG if number % EACH == 0 else dice.randint(15, 35)):
        now += dice.choice([0.0, 1.0, 2.5, 5.0, 12.0, 30.0])
        what = happen(dice, state, jobs, now)
        plan = state.plan(now)
        yield f"{now:g} {what}: {'; '.join(map(action, plan.actions))}", said(state, plan)
        lost = dice.random() < 0.06
        for one in plan.actions:
            if not (lost and isinstance(one, Start)):  # somebody could not start it
                state.apply(one, now)
    yield "in the end", summary(state, now)


def action(one: Start | Preempt | Resize) -> str:
    match one:
        case Start():
            return f"start {one.job_id} {one.entitlement} {' '.join(map(grant, one.grants))}"
        case Preempt():
            return f"preempt {one.job_id} {one.replicas} for {one.by_job} {one.authority}"
        case Resize():
            return f"resize {one.job_id} {' '.join(map(grant, one.grants))}"


def grant(one: Grant) -> str:
    starts = f"@{','.join(map(str, one.starts))}{one.profile}" if one.profile else ""
    return f"{one.node}:{','.join(map(str, one.devices))}x{','.join(map(str, one.units))}{starts}"


def said(state: Core, plan: CyclePlan) -> Any:
    """All that a plan says beside its actions, and what is remembered for the next."""
    return plain(
        {
            "waiting": {name: plan.waiting[name] for name in sorted(plan.waiting)},
            "texts": [one.text for one in plan.actions if isinstance(one, Preempt)],
            "expected": plan.expected,
            "cycle": (plan.anew, plan.planned_again, plan.searches, plan.looked),
            "promises": state.promised.promises,
            "intervals": {name: state.expectations.first_interval(name) for name in sorted(plan.expected)},
        }
    )


def summary(state: Core, now: float) -> Any:
    """What a history leaves."""
    tree = state.accounts.tenants[""]
    return plain(
        {
            "usage": {name: usage.snapshot(now) for name, usage in state.usage.items()},
            "errors": list(state.expectations.errors),
            "lines": pool_lines(state, now),
            "running": [(name, one.units, one.gpus, one.price, one.preemptions) for name, one in state.running.items()],
            "queues": [(one.name, one.held) for one in map(state.accounts.queues.__getitem__, state.queues)],
            "tenants": [(name, tree[name].held, tree.available(name), tree.path_name(name)) for name in tree.names()],
            "beside": state.accounts.host,
            "next": (state.next_promise(now), state.next_unused()),
        }
    )


def plain(value: Any) -> Any:
    """As JSON has it; floats to a millionth, sets in order."""
    if isinstance(value, bool | int | str | None):
        return value
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, dict):
        return {str(key): plain(one) for key, one in value.items()}
    if isinstance(value, frozenset | set):
        return sorted(map(str, value))
    if is_dataclass(value):
        return {each.name: plain(getattr(value, each.name)) for each in fields(value)}
    return [plain(one) for one in value]
