"""Of many rules, which two could contradict each other: found without comparing each with each."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from zoneinfo import ZoneInfo

import pytest

from billing.rates import RateRule
from billing.rates.globs import literal_end, literal_start
from billing.rates.matching import first_tie
from billing.rates.rate_card import MATCH_KEYS

UTC = ZoneInfo("UTC")


class Counted(RateRule):
    """A rule that counts what it is compared with."""

    def overlaps(self, other: RateRule) -> bool:
        compared.append(1)
        return super().overlaps(other)


compared: list[int] = []


def rule(sku: object, **match: str) -> RateRule:
    return Counted.model_validate({"sku": str(sku), "price_per_gpu_hour": "1", "match": match})


def comparisons(rules: Sequence[RateRule]) -> int:
    compared.clear()
    assert first_tie(MATCH_KEYS, rules, UTC) is None
    return len(compared)


@pytest.mark.parametrize("tenant", ["tenant-{}", "tenant-{}-*", "*-tenant-{}"])
def test_rules_of_many_tenants_are_not_compared_each_with_each(tenant: str) -> None:
    def rules(count: int) -> list[RateRule]:
        return [
            rule((n, model), model=model, tenant=tenant.format(f"{n:04}"))
            for n in range(count)
            for model in ("NVIDIA H100*", "NVIDIA A100*")
        ]

    assert comparisons(rules(400)) <= 2 * 400


def test_the_first_tie_is_the_one_that_comparing_each_with_each_finds() -> None:
    dice = random.Random(seed := random.randrange(10**6))
    print(f"seed {seed}")

    def glob() -> str:
        return "".join(
            dice.choice(["a", "b", "-", "*", "?", "[ab]", "[!a]", "[", "]"]) for _ in range(dice.randint(1, 4))
        )

    for _ in range(400):
        keys = dice.sample(["tenant", "pool", "model"], dice.randint(1, 2))
        rules = [rule(n, **{key: glob() for key in keys}) for n in range(dice.randint(2, 9))]
        found = first_tie(MATCH_KEYS, rules, UTC)
        assert (found and found[:2]) == next(iter(ties(rules)), None), [one.match for one in rules]


def ties(rules: Sequence[RateRule]) -> Iterable[tuple[int, int]]:
    for number, one in enumerate(rules):
        for earlier, rival in enumerate(rules[:number]):
            if one.specificity == rival.specificity and one.overlaps(rival):
                yield earlier, number


@pytest.mark.parametrize(
    ("glob", "start", "end"),
    [("a*b", "a", "b"), ("ab", "ab", "ab"), ("*", "", ""), ("a[b", "a", "b"), ("x[]a]y", "x", "y"), ("a]?", "a]", "")],
)
def test_what_a_glob_spells_out_at_its_ends(glob: str, start: str, end: str) -> None:
    assert (literal_start(glob), literal_end(glob)) == (start, end)
