"""Drawn trees of queues, and what they come to, reckoned from what each job holds alone."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from scheduler.cycle.core import Core
from scheduler.cycle.policies import Policies
from scheduler.cycle.state import Running
from scheduler.model import Queue

SCOPES = (None, None, "never", "queue", "tenant", "all", "all")


def drawn_queues(dice: random.Random, units: int, at_root: str = "priority") -> list[Queue]:
    """Some beside each other, some below others; weights where a parent shares by fairness. units: that there are."""
    found: list[Queue] = []
    left = {"": units if dice.random() < 0.5 else 0}
    policies = {"": at_root}
    names = [f"q{number}" for number in range(dice.randint(2, 6))]
    parents = {name: dice.choice(["", "", *names[:number]]) for number, name in enumerate(names)}
    most: dict[str, int | None] = {"": None}
    for name in names:
        above, inner = parents[name], name in parents.values()
        policies[name] = dice.choice(
            ["fifo", "priority", "fair_share"] if inner else ["fifo", "priority", "fair_share", "capacity"]
        )
        own = dice.randint(0, left[above]) if dice.random() < 0.6 else 0
        left[above] -= own
        left[name] = own
        bound = most[above]
        top = dice.choice([None, None, max(own, dice.randint(1, units + 1))])
        most[name] = bound if top is None or bound is None else min(top, bound)
        maximum = None if top is None else most[name] if bound is not None else top
        most[name] = maximum if maximum is not None else bound
        if maximum is not None and maximum < own:
            maximum = own
        weight = dice.choice([0.0, 0.5, 1.0, 2.0, 3.0]) if policies[above] == "fair_share" else 1.0
        preempts = None if inner else dice.choice([*SCOPES, tuple(dice.sample(names, 2))])
        found.append(
            Queue(
                name,
                policies[name],  # type: ignore[arg-type]
                dice.choice([0, 0, 1, 3]),
                own,
                maximum,
                parent=above,
                weight=weight,
                preempts=preempts,  # type: ignore[arg-type]
            )
        )
    return found


def leaves(queues: Sequence[Queue]) -> list[str]:
    parents = {queue.parent for queue in queues}
    return [queue.name for queue in queues if queue.name not in parents]


def above(queues: Sequence[Queue], name: str) -> list[str]:
    """The queue and all above it, from the top down."""
    parents = {queue.name: queue.parent for queue in queues}
    path = [name]
    while parents[path[0]]:
        path.insert(0, parents[path[0]])
    return path


def smallest(running: Running) -> int:
    """Units of its smallest gang, which alone count for guarantees."""
    return sum(sum(grant.units) for grant in running.grants[: running.job.min_replicas])


def held(state: Core, count: Callable[[Running], int] = lambda running: running.units) -> Mapping[str, int]:
    """Units by queue, of a parent with all below it."""
    units: Counter[str] = Counter()
    for running in state.running.values():
        for name in above(list(state.queues.values()), running.job.queue):
            units[name] += count(running)
    return units


def promised(queues: Sequence[Queue], name: str) -> int:
    """Units that a queue is guaranteed, its own or its children's."""
    (own,) = (queue.guaranteed for queue in queues if queue.name == name)
    return max(own, sum(promised(queues, queue.name) for queue in queues if queue.parent == name))


def priority(queues: Sequence[Queue], queue: str, own: int) -> int:
    return own + sum(one.priority for one in queues if one.name in above(queues, queue))


def in_scope(policies: Policies, queues: Sequence[Queue], mine: tuple[str, str], theirs: tuple[str, str]) -> bool:
    """Whether the settings let priority count between two jobs, each given by queue and tenant."""
    (own_queue, own_tenant), (queue, tenant) = mine, theirs
    by_name = {one.name: one for one in queues}
    preempts = by_name[own_queue].preempts
    if preempts is None:
        preempts = policies.preempt_by_priority
    match preempts:
        case "never":
            return False
        case "queue":
            reached = queue == own_queue
        case "tenant":
            reached = tenant == own_tenant
        case "all":
            reached = True
        case names:
            reached = any(name in names for name in above(queues, queue))
    fair = {"fair_share", "capacity"}
    if tenant != own_tenant and {by_name[own_queue].policy, by_name[queue].policy} & fair:
        return False
    if reached and queue != own_queue:
        one, other = above(queues, own_queue), above(queues, queue)
        on_the_way = {by_name[name].parent for name in {*one} ^ {*other}}
        return all((by_name[name].policy if name else policies.between_queues) != "fair_share" for name in on_the_way)
    return reached


def check_limits(state: Core) -> None:
    """Every queue, of a parent with all below it, holds no more than its maximum, beside what reservations gave it."""
    units_of: Counter[str] = Counter()
    for running in state.running.values():
        for name in above(list(state.queues.values()), running.job.queue) if running.entitlement != "reserved" else ():
            units_of[name] += running.units
    for name, units in units_of.items():
        most = state.queues[name].maximum
        assert most is None or units <= most, f"{name} holds {units} of {most}"
