"""Random quota trees: what each tenant may still take, and fair shares, while units are taken and given back."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

from scheduler.model import Tenant
from scheduler.quota.shares import Claim, divide, dominant_share, runtime_quota, tree_shares
from scheduler.quota.tree import QuotaTree
from scheduler.quota.usage import DecayedUsage
from tests.scheduler.golden.worlds import plain


def history(number: int) -> Iterator[tuple[str, Any]]:
    dice = random.Random(f"quotas {number}")
    names = [f"t{place}" for place in range(dice.randint(2, 8))]
    tenants = []
    for place, name in enumerate(names):
        limits = [dice.choice([None, None, dice.randint(0, 12)]) for _ in range(3)]
        own, parent = dice.choice([0, dice.randint(0, 12)]), dice.choice(["", "", *names[:place]])
        tenants.append(Tenant(name, parent, "", own, *limits, dice.choice([0.0, 0.5, 1.0, 1.0, 3.0])))
    dice.shuffle(tenants)
    tree = QuotaTree(tenants, dice.choice([None, dice.randint(5, 60)]))
    usage = DecayedUsage(dice.choice([0.0, 50.0]), 0.0, dice.choice([0.0, 60.0]))
    held, now = dict.fromkeys(names, 0), 0.0
    for _ in range(15):
        now += dice.choice([0.0, 1.0, 20.0, 300.0])
        name, amount = dice.choice(names), dice.randint(0, 8)
        if dice.random() < 0.4:
            amount = min(amount, held[name])
            tree.remove(name, amount)
            amount = -amount
        else:
            tree.add(name, amount)
        held[name] += amount
        usage.change(name, amount, now, dice.random() < 0.8)
        if dice.random() < 0.1:
            tree.set_capacity(dice.randint(5, 60))
        asked = {name: dice.choice([0, dice.randint(0, 20)]) + held[name] for name in names}
        past = {name: usage.relative(name, now, tree.root.subtree) for name in names}
        yield (
            f"{now:g} {name} {amount}",
            plain(
                {
                    "units": {one: _units(tree, one, name) for one in names},
                    "shares": tree_shares(tree, asked, past, dice.choice([0.0, 1.0])),
                    "usage": (past, usage.snapshot(now)),
                }
            ),
        )
    claims = [
        Claim(
            name,
            dice.randint(0, 9),
            dice.randint(0, 20),
            dice.choice([None, 6]),
            dice.choice([0.5, 1.0, 2.0]),
            dice.random(),
            dice.choice([0, 0, 1]),
        )
        for name in names
    ]
    total = dice.randint(0, 60)
    lent = {"units": dice.randint(0, 9), "cpu": dice.randint(0, 9)}
    share = dominant_share({"units": dice.randint(0, 9), "cpu": dice.randint(0, 9)}, lent, dice.choice([0.0, 1.0, 2.0]))
    yield f"of {total}", plain((divide(total, claims, 0.7), runtime_quota(total, claims), share))


def _units(tree: QuotaTree, one: str, other: str) -> Any:
    branch, limiting = tree[one], tree.binding(one)
    fork = tree.fork(one, other)
    return (
        (branch.subtree, branch.local, branch.usage, branch.held, branch.borrowing),
        (tree.available(one), tree.allowed(one), tree.allowed_ever(one), tree.potential_available(one)),
        (tree.within_quota(one), tree.within_quota(one, 3), tree.path_name(one), limiting.name if limiting else ""),
        tuple(side.name for side in fork) if fork else (),
        [tree.reaches(one, more, above) for above in tree.path(one) for more in (4, -2)],
    )
