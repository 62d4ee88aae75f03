"""A close costs what changed: growth of its parts with the books, as ratios within one run."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from billing.close.resolve import FOREVER, Claim, DeviceState, resolve

DEVICES, HOLD_MS = 4, 8_000_000


def claims(number: int, by_node: bool) -> list[Claim]:
    """One after the other on the devices of a node; but for a few that nobody has ended yet."""
    found = []
    for n in range(number):
        start = n // DEVICES * HOLD_MS + n % DEVICES
        end = FOREVER if n % 500 == 0 else start + HOLD_MS - 1000
        device = "" if by_node else f"d{n % DEVICES}"
        found.append(Claim(n << 20, "c", f"a{n}", f"a{n}", "t", "n", device, "", 0, 1.0, start, end))
    return found


def states() -> list[DeviceState]:
    return [DeviceState("c", f"d{n}", "n", 1, 0, FOREVER) for n in range(DEVICES)]


def cpu_seconds(work: Callable[[], object]) -> float:
    """The least of three times."""
    found = []
    for _ in range(3):
        since = time.process_time()
        work()
        found.append(time.process_time() - since)
    return min(found)


@pytest.mark.parametrize("by_node", [False, True])
def test_contradictory_claims_of_four_times_the_time_take_about_four_times_as_long(by_node: bool) -> None:
    """And not sixteen: what is over slows nothing down."""

    def decide(number: int) -> float:
        some = claims(number, by_node)
        seen = {claim.claim: claim.start_ms for claim in some}
        return cpu_seconds(lambda: resolve(some, states(), lambda claim, _: seen[claim.source_claim], {}))

    assert decide(8000) < 9 * decide(2000)
