"""Who may try to sign in how often: nobody is locked out by others, and many addresses do not make many guesses."""

from __future__ import annotations

import random
from collections import defaultdict

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from access.attempts import (
    ATTACKED,
    FAILURES,
    FAILURES_OF_AN_ADDRESS,
    FAILURES_WHEN_ATTACKED,
    WITHIN_SECONDS,
    Attempts,
)

OWNER, HOME = "ada", "192.0.2.1"
ELSEWHERE = st.integers(1, 40).map(lambda number: f"198.51.100.{number}")


def tries(attempts: Attempts, name: str, address: str, device: str = "", now: float = 0.0) -> bool:
    """Whether a wrong password is looked at."""
    if attempts.wait_seconds(name, address, device, now) > 0:
        return False
    attempts.failed(name, address, device, now)
    return True


def test_the_limits_are_those_of_the_documents() -> None:
    """docs/access.md, under guesses; each test below goes by these names."""
    assert (FAILURES, FAILURES_WHEN_ATTACKED, FAILURES_OF_AN_ADDRESS, ATTACKED) == (5, 1, 30, 20)
    assert WITHIN_SECONDS == 5 * 60


@settings(max_examples=50)
@given(st.lists(st.tuples(st.sampled_from([OWNER, "eve"]), ELSEWHERE), max_size=200))
def test_guesses_from_elsewhere_keep_nobody_out(guesses: list[tuple[str, str]]) -> None:
    attempts = Attempts()
    for name, address in guesses:
        tries(attempts, name, address)
    assert attempts.wait_seconds(OWNER, HOME, "", 0.0) == 0


@settings(max_examples=50)
@given(st.lists(st.tuples(st.sampled_from([OWNER, "eve"]), st.one_of(ELSEWHERE, st.just(HOME))), max_size=200))
def test_no_guesses_at_all_keep_out_a_browser_that_its_owner_used_before(guesses: list[tuple[str, str]]) -> None:
    attempts = Attempts()
    for name, address in guesses:
        tries(attempts, name, address)
    assert attempts.wait_seconds(OWNER, HOME, "known", 0.0) == 0


def test_an_address_has_five_guesses_of_a_name_and_thirty_in_all() -> None:
    attempts = Attempts()
    assert [tries(attempts, OWNER, HOME) for _ in range(FAILURES + 2)] == [True] * FAILURES + [False] * 2
    assert sum(tries(attempts, f"n{number}", HOME) for number in range(100)) == FAILURES_OF_AN_ADDRESS - FAILURES
    assert 0 < attempts.wait_seconds(OWNER, HOME, "", 1.0) <= WITHIN_SECONDS
    assert attempts.wait_seconds(OWNER, HOME, "", WITHIN_SECONDS) == 0


def test_a_known_browser_has_five_guesses_too() -> None:
    attempts = Attempts()
    assert sum(tries(attempts, OWNER, HOME, "known") for _ in range(100)) == FAILURES


def test_a_name_that_is_attacked_from_everywhere_gives_each_address_one_guess() -> None:
    attempts = Attempts()
    addresses = [f"198.51.{number // 250}.{number % 250}" for number in range(1000)]
    first = sum(tries(attempts, OWNER, address) for _ in range(FAILURES) for address in addresses)
    assert first == len(addresses), "and not five each"
    assert sum(tries(attempts, OWNER, "203.0.113.1") for _ in range(FAILURES)) == 1
    assert sum(tries(attempts, "eve", "203.0.113.1") for _ in range(FAILURES)) == FAILURES


def test_a_name_is_attacked_until_the_last_moment_of_five_minutes() -> None:
    attempts = Attempts()
    for number in range(ATTACKED):
        attempts.failed(OWNER, f"198.51.100.{number}", "", 0.0)
    attempts.failed(OWNER, HOME, "", 299.0)
    assert [attempts.wait_seconds(OWNER, HOME, "", now) for now in (299.0, 299.9, 300.0)] == [300.0, 299.1, 0.0]


def test_a_few_addresses_have_their_five_before_a_name_counts_as_attacked() -> None:
    attempts = Attempts()
    assert (
        sum(tries(attempts, OWNER, f"198.51.100.{n}") for n in range(4) for _ in range(9)) == 4 * FAILURES == ATTACKED
    )
    assert sum(tries(attempts, OWNER, "198.51.100.9") for _ in range(9)) == 1


def test_an_ipv6_network_is_one_address() -> None:
    attempts = Attempts()
    assert sum(tries(attempts, OWNER, f"2001:db8::{n:x}") for n in range(1, 50)) == FAILURES
    assert tries(attempts, OWNER, "2001:db8:0:1::1")
    assert tries(attempts, OWNER, "::ffff:192.0.2.1"), "IPv4 that is written as IPv6 is no network of all IPv4"
    assert sum(tries(attempts, OWNER, f"::ffff:192.0.2.{n}") for n in range(2, 9)) == 7


def test_success_takes_back_what_was_counted_ahead() -> None:
    attempts = Attempts()
    for _ in range(FAILURES_OF_AN_ADDRESS * 2):
        assert tries(attempts, OWNER, HOME)
        attempts.succeeded(OWNER, HOME, "")
    for _ in range(FAILURES * 2):
        assert tries(attempts, OWNER, HOME, "known")
        attempts.succeeded(OWNER, HOME, "known")
    assert sum(tries(attempts, OWNER, HOME) for _ in range(9)) == FAILURES


def test_what_is_remembered_has_an_end_and_what_was_used_last_stays() -> None:
    attempts = Attempts()
    for _ in range(FAILURES):
        attempts.failed(OWNER, HOME, "", 0.0)
        attempts.failed("eve", HOME, "", 0.0)
    for number in range(3_400):
        attempts.failed(f"n{number}", f"a{number}", "", 0.0)
        if number == 1_000:
            attempts.failed("eve", HOME, "", 0.0)
        assert len(attempts._failures) == min(3 * number + 8, 10_000)
    assert attempts.wait_seconds(OWNER, HOME, "", 0.0) == 0, "the oldest are forgotten first"
    assert attempts.wait_seconds("eve", HOME, "", 0.0) > 0


def keys_of(name: str, address: str, device: str) -> list[tuple[str, ...]]:
    by = "2001:db8::/64" if ":" in address else address
    return [(device,)] if device else [(name, by), ("of", "an address", by), ("of", "a name", name)]


def waits(failed: list[float], allowed: int, now: float) -> float:
    recent = [at for at in failed if now - at < 300]
    return recent[-allowed] + 300 - now if len(recent) >= allowed else 0.0


def test_how_long_one_waits_is_reckoned_from_all_that_failed() -> None:
    """Random histories of few names, addresses and browsers, against lists of what failed when."""
    dice = random.Random(seed := random.randrange(2**32))
    print("seed", seed)
    names, addresses = [OWNER, "eve"], [HOME, "2001:db8::1", "2001:db8::2", *(f"198.51.100.{n}" for n in range(30))]
    for _ in range(6):
        attempts, now = Attempts(), 1000.0
        failed: dict[tuple[str, ...], list[float]] = defaultdict(list)
        for _ in range(400):
            now += dice.choice([0, 0, 0, 0, 0, 1, 30, 299.5])
            name, address = dice.choice([*names, f"n{dice.randrange(99)}"]), dice.choice([HOME, *addresses])
            device = dice.choice(["", "", "", "", "one", "two"])
            keys = keys_of(name, address, device)
            if device:
                expected = waits(failed[keys[0]], 5, now)
            else:
                both, by_address, by_name = keys
                allowed = 1 if waits(failed[by_name], 20, now) else 5
                expected = max(waits(failed[both], allowed, now), waits(failed[by_address], 30, now))
            assert attempts.wait_seconds(name, address, device, now) == pytest.approx(expected)
            if expected:
                continue
            attempts.failed(name, address, device, now)
            for key in keys:
                failed[key] = [*failed[key], now][-30:]
            if dice.random() < 0.05:
                attempts.succeeded(name, address, device)
                del failed[keys[0]]
                for key in keys[1:]:
                    failed[key].pop()
