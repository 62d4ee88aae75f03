"""What schedulers are known to leak: quota that nobody holds any more, penalties that last, amounts too small to count.

Each is a fault that users of Kueue reported.

GPULEDGER_WORLDS=FIRST-LAST pytest -n0 tests/scheduler/live/test_leaks.py     runs those seeds; else some are drawn
"""

from __future__ import annotations

import contextlib
import json
import math
import random
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from scheduler.cycle.core import Core
from scheduler.live.service import RefusedError
from scheduler.quota.tree import QuotaTree
from tests.scheduler.cycle.test_worlds import seeds
from tests.scheduler.live.living import Living, Slow
from tests.scheduler.live.test_cycles import are_over, draw_step, site
from tests.scheduler.live.test_cycles import job as drawn_job

HALF_LIFE, PENALTY = 300.0, 60.0


def shared_site(dice: random.Random) -> dict[str, Any]:
    """One like the others, often with devices that are cut into tenths."""
    found = site(dice, dice.randint(1, 3))
    found["pools"][0] |= dice.choice([{}, {"units": 10}])
    return found


def remembering_site(dice: random.Random) -> dict[str, Any]:
    """One in which it counts what was used before."""
    found = shared_site(dice)
    for key in ("reserved", "reserved_for"):
        found["pools"][0].pop(key, None)
    found["queues"] = [{"name": "batch", "policy": "fair_share", "half_life": HALF_LIFE}, {"name": "urgent"}]
    found["tenants"] = [{"name": "all"}, {"name": "vision", "parent": "all"}, {"name": "speech", "parent": "all"}]
    found["policies"] |= {"entry_penalty": PENALTY}
    return found


def advance(living: Living, dice: random.Random, number: int, never: Iterable[str] = ()) -> None:
    """Time passes, something happens, and the scheduler comes to rest; sometimes it was killed before."""
    living.now += dice.choice([0, 0, 1, 5, 15, 40])
    step = draw_step(dice, living, number, never)
    if dice.random() < 0.2:
        living.restart()
    with contextlib.suppress(RefusedError):
        step(living)
    living.settle()


def held(living: Living) -> Counter[str]:
    """Units that each tenant's jobs have, as anybody may ask: of those that leave, devices are held, quota is not."""
    found: Counter[str] = Counter()
    for job in living.service.list():
        if job["status"] in ("starting", "running"):
            found[job["tenant"]] += sum(sum(rank["units"]) for rank in job["ranks"])
    return +found


def own(tree: QuotaTree) -> dict[str, int]:
    return {name: units for name in tree.names() if (units := tree.path(name)[0].own)}


def left_over(core: Core) -> list[tuple[Any, ...]]:
    """What is charged to whom in any tree."""
    accounts = core.accounts
    trees = [*accounts.tenants.values(), *accounts.firm.values(), *accounts.ordinary.values(), accounts.queues]
    branches = [(name, tree.path(name)[0]) for tree in trees for name in tree.names() if name]
    host = [*accounts.host.items(), *accounts.surplus_host.items()]
    return [
        *((name, one.usage, one.held, one.surplus) for name, one in branches if one.usage or one.held or one.surplus),
        *((name, *amounts) for name, amounts in host if any(amounts)),
    ]


def end_all(living: Living) -> None:
    for _ in range(3):  # a service's least replicas come again, until there is no service
        for job in living.service.list():
            with contextlib.suppress(RefusedError):
                living.service.cancel(job["job_id"], "tester")
        living.settle()
        are_over(living, [(name, live.attempt) for name, live in living.service.book.jobs.items() if live.stop])
        living.configure(living.settings.model_copy(update={"services": ()}))
        living.settle()


def test_quota_is_charged_for_what_is_held_and_nothing_else(tmp_path: Path) -> None:
    """Through resizes, failures, restarts, changes of settings; and in the end nothing is left."""
    for seed in seeds(12):
        dice = random.Random(f"{seed} of leaks")
        settings = shared_site(dice)
        living = Living(tmp_path / str(seed), settings, Slow())
        never = {"configure"} if "units" in settings["pools"][0] else set()  # draws other devices
        for number in range(dice.randint(10, 40)):
            advance(living, dice, number, never)
            assert own(living.service.restored.core.accounts.tenants[""]) == held(living), f"{seed}, step {number}"
        end_all(living)
        assert not living.service.list(), f"{seed}"
        assert not left_over(living.service.restored.core), f"{seed}"
        assert [(line["allocated"], line["total"] - line["available"] - line["unavailable"] - line["reserved"])
                for line in living.service.pools()] == [(0, 0)], f"{seed}"  # fmt: skip
        living.log.close()


def remembered(living: Living, tenants: set[str]) -> float:
    """Decayed unit-seconds of a queue, from the rows for the books: what is taken counts so many seconds at once."""
    events: dict[tuple[int, str, str], list[Any]] = {}
    for record, row in living.rows:
        if record == "events" and row["event"] != "submitted" and row["tenant"] in tenants and row["queue"] == "batch":
            key = json.loads(row["message"])["sequence"], row["allocation_id"], row["event"]
            events.setdefault(key, []).append(row)
    value, rate, at, units = 0.0, 0, 0.0, dict[str, int]()
    for (_, name, event), rows in sorted(events.items(), key=lambda one: one[0][0]):
        now = rows[0]["ts"].timestamp()
        value, at = after(value, rate, now - at), now
        has = sum(row.get("units", 0) for row in rows) if event in ("started", "resized") else 0
        more, units[name] = has - units.get(name, 0), has
        value, rate = value + max(0, more) * PENALTY, rate + more
    return after(value, rate, living.now - at)


def after(value: float, rate: int, seconds: float) -> float:
    """In steps, each of which forgets its part."""
    kept = 0.5 ** (seconds / HALF_LIFE)
    return value * kept + rate * (1 - kept) * HALF_LIFE / math.log(2)


def test_what_was_used_is_forgotten_and_so_is_what_a_start_cost(tmp_path: Path) -> None:
    """Usage of any history is what the rows for the books say; long after it is over, nothing."""
    for seed in seeds(12):
        dice = random.Random(f"{seed} of usage")
        living = Living(tmp_path / str(seed), remembering_site(dice))
        for number in range(dice.randint(10, 40)):
            advance(living, dice, number, never={"configure", "over"})
            usage = living.service.restored.core.usage["batch"]
            for name, below in (("vision", {"vision"}), ("speech", {"speech"}), ("all", {"vision", "speech"})):
                found, expected = usage.at(name, living.now), remembered(living, below)
                assert found == pytest.approx(expected, rel=1e-4, abs=0.5), f"{seed}, step {number}: {name}"
        living.log.close()


NUMBERS = (
    ("request", "devices"), ("request", "units"), ("request", "memory_bytes"), ("request", "cpu_milli"),
    ("request", "host_memory_bytes"), ("request", "required_topology"), ("request", "preferred_topology"),
    ("min_replicas",), ("max_replicas",), ("time_limit",), ("lease_seconds",), ("wait_bound",), ("checkpoint_seconds",),
)  # fmt: skip
"""Of a job: where it says how much, or how long."""


def test_asking_for_less_than_nothing_or_more_than_can_be_counted_is_refused_and_charges_nobody(tmp_path: Path) -> None:
    """Also by a change of a job that runs: what is held, and what is left, stay as they were to the unit."""
    dice = random.Random(f"{seeds(1)[0]} of credits")
    living = Living(tmp_path)
    living.submit("runs", 2, min_replicas=1, max_replicas=2)
    living.submit("waits", 4, "speech", min_replicas=2, max_replicas=2)
    living.settle()

    def accounts() -> tuple[object, ...]:
        core, pools = living.service.restored.core, living.service.pools()
        return (
            left_over(core),
            own(core.accounts.tenants[""]),
            pools,
            core.accounts.room(core.pending["waits"][1].account),
        )

    before = accounts()
    for number, where in enumerate(NUMBERS * 3):
        asked = json.loads(json.dumps(drawn_job(dice))) | {"job_id": f"j{number}", "queue": "batch"}
        *above, name = where
        of = asked["request"] if above else asked
        of[name] = dice.choice([-1, -dice.randint(2, 10**6), -(2**63), 2**63, 10**400])
        with pytest.raises(RefusedError):
            living.service.submit(asked, "tester")
        least, most = dice.choice([(-1, 2), (0, 2), (-3, -1), (2, 1), (1, 2**63), (1, 10**400)])
        with pytest.raises(RefusedError, match=r"are not a range|more than any cluster has"):
            living.service.rescale(dice.choice(["runs", "waits"]), least, most, "tester")
        living.settle()
        assert accounts() == before, f"{where}: {of[name]}"
    living.restart()
    living.settle()
    assert accounts() == before
    living.log.close()
