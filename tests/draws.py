"""Long lists of cases that go nearly the same way: a run takes some of them, others each time."""

from __future__ import annotations

import os
import random
import secrets
from collections.abc import Sequence
from typing import TypeVar

import pytest

from tests.exhaustive import one_in

T = TypeVar("T")

SEED = "GPULEDGER_DRAW"
"""Names the seed of a run's draws; the first process chooses it and passes it to its workers."""
ALL = "GPULEDGER_ALL"
"""Set, every case is taken."""


def keep_seed() -> str:
    return os.environ.setdefault(SEED, str(secrets.randbits(32)))


def drawn_seed(of: str = "") -> int:
    """What a drawn test draws with, below 2^32: GPULEDGER_SEED, or its own of the run, whose seed so says all.

    of: outside a test, whose it is.
    """
    of = of or os.environ["PYTEST_CURRENT_TEST"].partition(" (")[0]
    return int(os.environ.get("GPULEDGER_SEED") or random.Random(f"{keep_seed()} seed of {of}").getrandbits(32))


def seeds(variable: str) -> list[int | None]:
    """The seeds that an environment variable names, like `0-99` or `7`; without it one, which is drawn (None)."""
    first, _, last = os.environ.get(variable, "").partition("-")
    return list(range(int(first), int(last or first) + 1)) if first else [None]


def dice_of(seed: int | None) -> random.Random:
    """seed: one of `seeds`. It is printed, so that what fails can be repeated."""
    seed = drawn_seed() % 1_000_000 if seed is None else seed
    print(f"seed {seed}")
    return random.Random(seed)


def one_run_in(runs: int, what: str, turn: int = 0) -> bool:
    """Whether this run has a dear test: one in so many does.   turn: below `runs`; a run has those of one turn."""
    return ALL in os.environ or random.Random(f"{keep_seed()} of {what}").randrange(runs) == turn


def seldom(runs: int, what: str, turn: int = 0) -> pytest.MarkDecorator:
    """Of a dear test that goes ways that others go too: one run of `make check` in so many has it.

    turn: tests of several turns take turns, so that each run has some of them.
    """
    return pytest.mark.seldom(runs, what, turn)


def is_seldom(item: pytest.Item) -> bool:
    """Whether it is such a test; skips it where this run does not have it."""
    turns = [mark.args for mark in item.iter_markers("seldom")]
    if not turns and (runs := one_in(item.nodeid)) > 1:
        turns = [(runs, item.nodeid, 0)]
    for runs, what, turn in turns:
        if not one_run_in(runs, what, turn):
            item.add_marker(pytest.mark.skip(reason=f"one run in {runs}: {ALL}=1 runs it"))
    return bool(turns)


def drawn(cases: Sequence[T], share: float) -> list[T]:
    """That share of the cases, at least one, in their order; the same in every worker of a run."""
    if os.environ.get(ALL):
        return list(cases)
    some = max(1, round(len(cases) * share))
    places = random.Random(f"{keep_seed()} of {len(cases)}").sample(range(len(cases)), some)
    return [cases[place] for place in sorted(places)]
