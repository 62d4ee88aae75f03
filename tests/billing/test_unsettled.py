"""Which disputes the next close decides again."""

from __future__ import annotations

from collections.abc import Sequence

from billing.close.resolve import FOREVER, Claim, DeviceState, resolve
from billing.close.unsettled import unsettled_claims

HORIZON = 1_000


def claim(number: int, device: str, start: int, end: int, name: str = "") -> Claim:
    return Claim(number << 20, "c", name or f"a{number}", f"a{number}", "t", "n", device, "", 1, 1.0, start, end)


def again(*claims: Claim, held: Sequence[str] = (), horizon: int = HORIZON) -> list[int]:
    """The claims that are decided again, by number. held: allocations that hold something elsewhere."""
    states = [DeviceState("c", device, "n", units, 0, FOREVER) for device, units in (("d0", 1), ("d1", 1), ("d2", 2))]
    resolution = resolve(claims, states, lambda one, before: min(one.start_ms + 5, before), {})
    found = unsettled_claims(claims, states, resolution, horizon, lambda of, _: {one for one in of if one[1] in held})
    assert not found.again & found.given_up
    assert all(one.end_ms >= FOREVER for one in claims if one.claim in found.given_up)
    return sorted(number >> 20 for number in found.again)


def test_refusals_that_are_over_are_settled_and_those_across_the_horizon_are_not() -> None:
    over = claim(1, "d0", 10, 20), claim(2, "d0", 15, 18)
    assert again(*over) == []
    assert again(*over, claim(3, "d0", 900, 1100), claim(4, "d0", 950, 960)) == [3, 4]
    assert again(*over, claim(3, "d0", 900, 910)) == [], "nothing was decided about the third"
    assert again(claim(1, "d0", 10, 20), claim(2, "d0", 15, FOREVER)) == [1, 2], "its end may still come"


def test_a_device_that_is_never_free_settles_what_was_refused_on_it() -> None:
    """By the end of one claim the next begins, or there is room for two and always somebody."""
    one_by_one = [claim(number, "d0", 50 * number, 50 * number + 50) for number in range(1, 60)]
    assert again(*one_by_one, claim(90, "d0", 120, 130)) == []
    shifts = [claim(number, "d2", 50 * number, 50 * number + 75) for number in range(1, 60)]
    assert again(*shifts, claim(90, "d2", 110, 115)) == []
    assert again(*shifts, claim(90, "d2", 1010, 1015)) == [19, 20, 90]


def test_a_lost_end_is_settled_with_what_was_there_until_the_next_holder_came() -> None:
    first, later = (
        claim(1, "d0", 10, FOREVER),
        [claim(number, "d0", 100 * number, 100 * number + 50) for number in (3, 4)],
    )
    assert again(claim(7, "d0", 1, 9), first, claim(2, "d0", 200, 250), *later) == []
    assert again(first, claim(2, "d0", 200, 250), *later, held=["a1"]) == [1, 2], "it holds something elsewhere"
    assert again(first, claim(2, "d0", 200, 1100)) == [1, 2], "the next holder has not ended"
    assert again(first, claim(2, "d0", 1010, 1020)) == [1, 2], "it has come since"
    beside = claim(1, "d2", 10, FOREVER), claim(2, "d2", 50, 1300), claim(3, "d2", 200, 250), claim(4, "d2", 260, 270)
    assert again(*beside) == [1, 2, 3], "the second was there when the third found no room"
    chain = first, claim(2, "d0", 200, FOREVER), claim(3, "d0", 300, 310), claim(4, "d0", 320, 330)
    assert again(*chain) == []
    assert again(*chain, held=["a2"]) == [1, 2, 3]


def test_a_claim_whose_end_gave_way_by_a_second_is_decided_again_until_both_are_over() -> None:
    assert again(claim(1, "d0", 0, 2000), claim(2, "d0", 1000, 3000)) == [1, 2]
    over = claim(1, "d0", 0, 2000), claim(2, "d0", 1000, 3000)
    assert again(*over, horizon=3000) == []
    assert again(*over, horizon=3000, held=["a1"]) == [1, 2]
    assert again(*over, horizon=3000, held=["a2"]) == [], "it was accepted as reported"


def test_whatever_is_on_a_node_where_only_that_is_known_is_decided_again() -> None:
    assert again(claim(1, "d0", 10, 20), claim(2, "", 30, 40), claim(3, "d1", 50, 60)) == [1, 2, 3]


def test_an_allocation_that_is_looked_at_anyway_brings_the_disputes_in_which_it_was_refused() -> None:
    """And these bring others, in which their claims were refused."""
    first = claim(1, "d0", 10, 20), claim(2, "d0", 15, 18, "both")
    second = claim(3, "d1", 10, 20), claim(4, "d1", 12, 16, "both"), claim(5, "d1", 15, 18, "more")
    assert again(*first, *second) == []
    assert again(*first, *second, held=["both"]) == [1, 2, 3, 4, 5]
    assert again(*first, *second, held=["more"]) == [1, 2, 3, 4, 5]
    assert again(*first, *second, held=["a1"]) == [], "who was accepted as reported is so in any case"
