"""Which tenant is next, against a plain choice that keeps nothing and looks at everybody."""

from __future__ import annotations

import random
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

import pytest

from scheduler.cycle.core import Core
from scheduler.cycle.order import Fairness, Line, branch_share
from scheduler.cycle.state import JobClass, amount_of
from scheduler.cycle.tournament import Tournament
from scheduler.cycle.trial import Trial
from scheduler.model import Queue, Request, Tenant
from scheduler.quota.tree import Branch
from tests.draws import keep_seed
from tests.scheduler.cycle.scenes import core, job, nodes

ORGS = ["o0", "o1", "o2"]
NAMES = [f"t{number}" for number in range(8)]


def draws(number: int) -> list[random.Random]:
    first = random.Random(keep_seed()).randrange(10**9)
    return [random.Random(first + more) for more in range(number)]


def scene(dice: random.Random, policy: str, half_life: float = 0.0) -> Core:
    """Tenants alone, in organisations, one below another; each with some jobs of few classes."""
    tenants = [Tenant("top")] if dice.random() < 0.5 else []
    tenants += [Tenant(name, dice.choice(["", "top"]) if tenants else "", guaranteed=4) for name in ORGS]
    for name in NAMES:
        parent = dice.choice(["", *ORGS, *[one.name for one in tenants if one.name in NAMES][:1]])
        own, weight = dice.choice([0, 0, 3, 8]), dice.choice([0.0, 0.5, 1.0, 1.0, 2.0])
        tenants.append(Tenant(name, parent, guaranteed=own, lending_limit=dice.choice([None, 1]), weight=weight))
    queue = Queue("q", policy, half_life=half_life)  # type: ignore[arg-type]
    state = core(nodes(16), tenants, [queue], explain=False)
    for number in range(60):
        request = Request(dice.choice([1, 2, 4]), cpu_milli=dice.choice([0, 0, 3000]))
        name = dice.choice([*NAMES, *ORGS, "stranger"])
        state.submit(job(f"j{number}", name, at=number % 7, priority=dice.choice([0, 0, 2]), request=request), 9.0)
    return state


def plain_winner(state: Core, heads: Mapping[str, JobClass], at: Branch | None = None) -> JobClass | None:
    """The tournament as it is written: down from the root, everybody looked at."""
    tree = state.accounts.tenants[""]
    if at is not None and at.name in heads:
        return heads[at.name]
    found: list[tuple[Any, JobClass]] = []
    for child in (at or tree.root).children:
        best = plain_winner(state, heads, child)
        if best is not None:
            more = amount_of(best.request, tree.reaches(best.account.tenant, best.amount, child), best.replicas)
            borrows = child.usage + more.units > child.subtree
            share = branch_share(state, tree, child, more)
            found.append(((borrows, share, -best.priority, best.jobs[0], best.account.tenant), best))
    return min(found, key=lambda one: one[0])[1] if found else None


def test_the_tournament_finds_whom_a_plain_choice_finds_after_any_charges() -> None:
    for dice in draws(30):
        state = scene(dice, "fair_share")
        kinds = list(state.waiting_classes())
        heads: dict[str, JobClass] = {}
        with Trial(state, 10.0) as trial:
            fairness = Fairness(trial)
            tournament = Tournament(fairness.judge(state.queues["q"]))
            charged: list[tuple[JobClass, int]] = []
            for _ in range(40):
                what, kind = dice.random(), dice.choice(kinds)
                tenant = kind.account.tenant
                if what < 0.4:
                    heads[tenant] = kind
                    tournament.put(tenant, kind)
                elif what < 0.5:
                    heads.pop(tenant, None)
                    tournament.put(tenant, None)
                elif what < 0.8 or not charged:
                    charged.append((kind, dice.randint(1, 9)))
                    trial.charge(kind, charged[-1][1], kind.replicas)
                    tournament.charged(fairness.charged(kind.account))
                else:
                    kind, units = charged.pop(dice.randrange(len(charged)))
                    trial.charge(kind, -units, -kind.replicas)
                    tournament.charged(fairness.charged(kind.account))
                assert len(tournament) == len(heads)
                if heads and dice.random() < 0.7:
                    assert tournament.winner() is plain_winner(state, heads)


def plain_part(state: Core, kind: JobClass, shares: Mapping[str, int], policy: str) -> tuple[Any, ...]:
    """What a tenant would hold of its fair share, or runtime quota."""
    tree, tenant = state.accounts.tenants[""], kind.account.tenant
    held, share = tree[tenant].held, shares.get(tenant, 0)
    part = Fraction(held + kind.amount, share) if share else Fraction(held + kind.amount) * tree.root.subtree
    beyond = held + kind.amount > tree[tenant].nominal
    last = (beyond or not kind.amount) and not all(branch.weight for branch in tree.path(tenant))
    if policy == "capacity":
        return (last, part, kind.jobs[0], tenant)
    return (last, held > share, beyond, -kind.priority, part, kind.jobs[0], tenant)


@pytest.mark.parametrize(("policy", "half_life"), [("fair_share", 0.0), ("fair_share", 60.0), ("capacity", 0.0)])
def test_a_queue_takes_the_tenant_that_a_plain_choice_takes_while_jobs_start(policy: str, half_life: float) -> None:
    """Starts here and elsewhere, blocked classes, in any order; those within their guarantee come first."""
    for dice in draws(12):
        state = scene(dice, policy, half_life)
        queue = state.queues["q"]
        left = {id(kind): (kind, [name for _, name in kind.jobs]) for kind in state.waiting_classes()}
        with Trial(state, 10.0) as trial:
            fairness = Fairness(trial)
            line, shares = Line(queue, trial, fairness, set(left)), None
            while left:
                if dice.random() < 0.3:  # somebody's job starts in another queue
                    trial.charge(dice.choice([kind for kind, _ in left.values()]), dice.randint(1, 6), 1)
                    trial.started.append((20.0, (), Request()))
                heads: dict[str, tuple[tuple[Any, ...], JobClass]] = {}
                for kind, names in left.values():
                    borrows = state.accounts.entitlement(kind.account, kind.amount) == "borrowed"
                    submitted = state.pending[names[0]][0].submitted_at
                    key = (borrows, -kind.priority, submitted, names[0])
                    heads[kind.account.tenant] = min(heads.get(kind.account.tenant, (key, kind)), (key, kind))
                within = {tenant: kind for tenant, (key, kind) in heads.items() if not key[0]}
                asked = within or {tenant: kind for tenant, (_, kind) in heads.items()}
                if policy == "capacity" or half_life:
                    shares = shares if shares is not None else fairness.shares(queue, "")
                    expected = min(asked.values(), key=lambda kind: plain_part(state, kind, shares, policy))
                else:
                    expected = plain_winner(state, asked)  # type: ignore[assignment]
                found = line.head()
                assert found is not None and found[0] is expected and found[1] == left[id(expected)][1][0]
                if dice.random() < 0.8:
                    trial.charge(expected, expected.amount, expected.replicas)
                    trial.started.append((20.0, (), expected.request))
                    trial.started_ids.add(found[1])
                    left[id(expected)][1].pop(0)
                    line.next()
                else:
                    left[id(expected)][1].clear()
                    line.blocked()
                left = {number: one for number, one in left.items() if one[1]}
            assert line.head() is None
