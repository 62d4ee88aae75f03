"""Intervals of expected starts: how often they hold, and of whose starts they are."""

from __future__ import annotations

import random

import pytest

from scheduler.cycle.expectations import CONFIDENCE, ENOUGH, FEWEST, MOST, Expectations
from scheduler.model import Job, Request
from tests.draws import keep_seed


def job(name: str, tenant: str = "a", queue: str = "q") -> Job:
    return Job(name, tenant, queue, Request(devices=1), 0.0)


def go(known: Expectations, name: str, wait: float, part: float, tenant: str = "a", queue: str = "q") -> None:
    """A job is given a wait, and really waits that part of it."""
    one = job(name, tenant, queue)
    known.announce(one, 1000.0 + wait, 1000.0)
    known.started(one, 1000.0 + part * wait)


@pytest.mark.parametrize("skew", [0.3, 1.0, 3.0])
def test_an_interval_holds_as_often_as_it_says(skew: float) -> None:
    """Whatever the distribution of what becomes of an announced wait."""
    dice = random.Random(f"{keep_seed()} {skew}")
    known = Expectations()
    for number in range(6000):
        go(known, f"j{number}", dice.uniform(10, 10_000), dice.random() ** skew * (2 if dice.random() < 0.1 else 1))
    assert known.intervals == 6000 - FEWEST
    assert abs(known.met / known.intervals - CONFIDENCE) < 0.02


def test_who_gives_up_after_its_interval_has_passed_counts_as_well() -> None:
    dice = random.Random(keep_seed())
    known, counted, held = Expectations(), 0, 0
    for number in range(6000):
        wait, part = dice.uniform(10, 10_000), dice.random() * (3 if dice.random() < 0.3 else 1)
        patience = 1.2 if dice.random() < 0.7 else 9.0
        one = job(f"j{number}")
        known.announce(one, 1000 + wait, 1000)
        found = known.first_interval(one.job_id)
        if part <= patience:
            known.started(one, 1000 + part * wait)
        else:
            known.forget(one.job_id, 1000 + patience * wait)
        if found is not None and (part <= patience or 1000 + patience * wait > found.high):
            counted += 1
            held += part <= patience and found.low <= 1000 + part * wait <= found.high
    assert (known.intervals, known.met) == (counted, held)
    assert abs(held / counted - CONFIDENCE) < 0.02


def test_an_interval_goes_on_holding_where_the_cluster_changes() -> None:
    """Waits that turn out longer and longer, then shorter: by what is remembered alone seven of ten would hold."""
    dice = random.Random(keep_seed())
    known = Expectations()
    for number in range(6000):
        drift = 0.3 + 0.7 * abs(1 - number % 800 / 400)
        go(known, f"j{number}", dice.uniform(10, 10_000), drift * dice.uniform(0.8, 1.2))
    assert abs(known.met / known.intervals - CONFIDENCE) < 0.03


def test_too_few_outcomes_give_no_interval() -> None:
    known = Expectations()
    for number in range(FEWEST - 1):
        go(known, f"j{number}", 100, 0.5)
    assert known.interval(job("next"), 1100, 1000) is None
    go(known, "one more", 100, 1.0)
    found = known.interval(job("next"), 1100, 1000)
    assert found == (1050, 1100, FEWEST)


def test_a_tenant_s_own_starts_count_where_there_are_enough_else_the_queue_s_else_all() -> None:
    known = Expectations()
    for number in range(ENOUGH):
        go(known, f"a{number}", 100, 0.1)
        go(known, f"b{number}", 100, 0.9, tenant="b", queue="other")
    for number in range(ENOUGH - 1):
        go(known, f"c{number}", 100, 0.5, tenant="c")

    def low(tenant: str, queue: str) -> float:
        found = known.interval(job("next", tenant, queue), 1100, 1000)
        assert found is not None
        return found.low

    assert low("a", "q") == 1010
    assert low("c", "q") == 1010, "one too few of its own: those of the queue, of which the least are a's"
    assert low("new", "other") == 1090
    assert low("new", "third") == 1010


def test_what_was_long_ago_is_forgotten_and_who_did_not_start_says_nothing() -> None:
    known = Expectations()
    for number in range(MOST):
        go(known, f"old{number}", 100, 0.1)
    for number in range(MOST):
        go(known, f"new{number}", 100, 0.8)
    known.announce(job("gone"), 2000, 1000)
    known.forget("gone", 1500)
    known.started(job("gone"), 5000)
    found = known.interval(job("next"), 1100, 1000)
    assert found is not None and found.low == pytest.approx(1080) and found.known == MOST
    assert known.announced("gone") is None


def test_the_first_announced_start_counts_and_a_wait_of_no_length_is_ignored() -> None:
    known = Expectations()
    one = job("one")
    known.announce(one, 1100, 1000)
    known.announce(one, 1050, 1010)
    assert known.announced("one") == 1100
    known.started(one, 1020)
    assert list(known.errors) == [-80]
    for number in range(FEWEST):
        go(known, f"j{number}", 0.5, 100)
    assert known.interval(one, 1100, 1000) is None
