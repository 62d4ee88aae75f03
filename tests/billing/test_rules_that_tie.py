"""Of many rules, which two could contradict each other: found without comparing each with each."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from itertools import pairwise
from zoneinfo import ZoneInfo

import pytest

from billing.rates import RateRule
from billing.rates.globs import can_overlap, ends, spelled_out
from billing.rates.matching import first_tie
from billing.rates.rate_card import MATCH_KEYS
from tests.draws import drawn_seed

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


@pytest.mark.parametrize(
    "tenant",
    ["tenant-{}", "tenant-{}-*", "*-tenant-{}", "?{}*", "[ab]-{}-*", "lab-?-{}-*-x", "*-{}-?", "lab-[!a]-{}-x", "?{}?"],
)
def test_rules_of_many_tenants_are_not_compared_each_with_each(tenant: str) -> None:
    def rules(count: int) -> list[RateRule]:
        return [
            rule((n, model), model=model, tenant=tenant.format(f"{n:04}"))
            for n in range(count)
            for model in ("NVIDIA H100*", "NVIDIA A100*")
        ]

    assert comparisons(rules(400)) <= 2 * 400


def test_the_first_tie_is_the_one_that_comparing_each_with_each_finds() -> None:
    dice = random.Random(drawn_seed())

    def glob() -> str:
        return "".join(
            dice.choice(["a", "b", "-", "*", "?", "[ab]", "[!a]", "[", "]"]) for _ in range(dice.randint(1, 4))
        )

    for _ in range(400):
        keys = dice.sample(["tenant", "pool", "model"], dice.randint(1, 2))
        rules = [rule(n, **{key: glob() for key in keys}) for n in range(dice.randint(2, 9))]
        found = first_tie(MATCH_KEYS, rules, UTC)
        assert (found and found[:2]) == next(iter(ties(rules)), None), [one.match for one in rules]


def test_the_first_tie_by_dates_and_windows_is_the_one_that_comparing_each_with_each_finds() -> None:
    dice = random.Random(drawn_seed())
    windows = [{"from": "08:00", "to": "20:00"}, {"from": "20:00", "to": "08:00"}, {"days": ["mon"]}]

    def dated(n: int) -> RateRule:
        first, last = sorted(dice.sample(range(1, 29), 2))
        given = {"effective_from": f"2026-10-{first:02}", "effective_to": f"2026-10-{last:02}"}
        asked: dict[str, object] = {key: value for key, value in given.items() if dice.random() < 0.9}
        if dice.random() < 0.5:
            asked["windows"] = [dice.choice(windows)]
            asked |= dice.choice([{}, {"timezone": "Asia/Tokyo"}])
        one = {"sku": str(n), "price_per_gpu_hour": "1", "match": {"tenant": dice.choice(["a*", "ab*", "*c"])}}
        return Counted.model_validate(one | asked).in_zone(UTC)

    found = 0
    for _ in range(400):
        rules = [dated(n) for n in range(dice.randint(2, 12))]
        tie = first_tie(MATCH_KEYS, rules, UTC)
        found += tie is not None
        assert (tie and tie[:2]) == next(iter(ties(rules)), None), [one.model_dump(mode="json") for one in rules]
    assert found


def test_prices_of_each_hour_are_not_compared_each_with_each() -> None:
    """As found: 10,000 of them took 43 seconds."""
    start = datetime(2026, 1, 1, tzinfo=UTC)
    hours = [(start + timedelta(hours=n)).isoformat() for n in range(401)]
    rules = [
        Counted.model_validate(
            {
                "sku": sku,
                "price_per_gpu_hour": "1",
                "match": {"model": sku},
                "effective_from": first,
                "effective_to": last,
            }
        )
        for first, last in pairwise(hours)
        for sku in ("NVIDIA H100*", "NVIDIA A100*")
    ]
    assert comparisons(rules) == 0


def ties(rules: Sequence[RateRule]) -> Iterable[tuple[int, int]]:
    for number, one in enumerate(rules):
        for earlier, rival in enumerate(rules[:number]):
            if one.specificity == rival.specificity and one.overlaps(rival):
                yield earlier, number


def test_rules_of_many_tenants_in_many_pools_are_not_compared_each_with_each_of_a_tenant() -> None:
    rules = [rule((n, m), tenant=f"t{n:02}-*", pool=f"*-{m:02}") for n in range(20) for m in range(20)]
    assert comparisons(rules) <= 20 * 20


def test_globs_that_differ_only_between_their_stars_tie_at_once() -> None:
    """What each asks for there, the other's star matches."""
    rules = [rule(n, tenant=f"lab-*{n:04}*-x") for n in range(400)]
    compared.clear()
    found = first_tie(MATCH_KEYS, rules, UTC)
    assert found
    assert found[:2] == (0, 1)
    assert len(compared) == 1


@pytest.mark.parametrize(
    ("glob", "start", "end"),
    [
        ("a*b", "a", "b"), ("ab", "ab", "ab"), ("*", "", ""), ("a[b", "a[b", "a[b"), ("x[]a]y", "x", "y"),
        ("a]?", "a]", ""),
    ],
)  # fmt: skip
def test_what_a_glob_spells_out_at_its_ends(glob: str, start: str, end: str) -> None:
    first, last = ends(glob)
    assert (spelled_out(first, 0), spelled_out(last, 0)[::-1]) == (start, end)


def test_what_a_glob_spells_out_behind_characters_that_vary() -> None:
    first, last = ends("lab-?-07-*[ab]x?")
    assert [spelled_out(first, skipped) for skipped in (0, 5, 9)] == ["lab-", "-07-", ""]
    assert [spelled_out(last, skipped) for skipped in (0, 1, 2)] == ["", "x", ""]


def test_globs_of_any_length_are_compared() -> None:
    """As found: a RecursionError of globs of a thousand characters."""
    long = "a?" * 2_000
    assert not can_overlap(f"{long}b", f"{long}c")
    assert can_overlap(f"{long}*", f"*{long}")
