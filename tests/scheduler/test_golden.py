"""Whole drawn worlds, figure by figure, against files of what was decided and said before.

GPULEDGER_GOLDEN=write pytest -n0 tests/scheduler/test_golden.py     renews them; tests/scheduler/golden/README.md

Whether it is right is for the tests beside this one, which reckon it another way. This one notices that something else
is decided or said: read the first line that differs before the file is renewed.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from scheduler.setup import PLACEMENTS
from tests.billing.golden import compare, digest
from tests.draws import drawn
from tests.scheduler.golden import places, quotas, services, worlds

FOLDER = Path(__file__).parent / "golden"
WORLDS, GROUP = 96, 12


def lines(history: Iterator[tuple[str, Any]]) -> list[str]:
    """What was done as it is, what was said of it as a digest."""
    return [f"{line} | {digest(said)[:6]}" for line, said in history]


def marks(history: Iterator[tuple[str, Any]]) -> str:
    """A digest of each line, which says at least where the first difference is."""
    return " ".join(digest(line)[:4] for line in history)


@pytest.mark.parametrize("first", drawn(range(0, WORLDS, GROUP), 0.4))
def test_in_drawn_worlds_decisions_and_reasons_are_those_of_the_golden_file(first: int) -> None:
    for number in range(first, first + GROUP):
        compare("worlds", f"world {number}", lines(worlds.history(number)), FOLDER)


@pytest.mark.parametrize("policy", drawn(list(PLACEMENTS), 0.4))
def test_gangs_are_placed_and_explained_as_in_the_golden_file(policy: str) -> None:
    for number in range(30):
        compare("places", f"{policy} {number}", marks(places.history(policy, number)), FOLDER)


def test_services_are_scaled_as_before() -> None:
    for number in range(120):
        compare("services", f"service {number}", marks(services.history(number)), FOLDER)


def test_quotas_and_shares_are_as_before() -> None:
    for number in range(150):
        compare("quotas", f"tree {number}", marks(quotas.history(number)), FOLDER)
