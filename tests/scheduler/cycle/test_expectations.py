"""Intervals of expected starts: how often they hold, and of whose starts they are."""

from __future__ import annotations

import random

import pytest

from scheduler.cycle.expectations import CONFIDENCE, ENOUGH, FEWEST, MOST, Expectations
from scheduler.model import Job, Request
from tests.draws import keep_seed


def job(name: str, tenant: str = "a", queue: str = "q") -> Job:
    return Job(name, tenant, queue, Request(devices=1), 0.0)


def go(told: Expectations, name: str, wait: float, part: float, tenant: str = "a", queue: str = "q") -> None:
    """A job is told a wait, and really waits that part of it."""
    one = job(name, tenant, queue)
    told.tell(one, 1000.0 + wait, 1000.0)
    told.started(one, 1000.0 + part * wait)


@pytest.mark.parametrize("skew", [0.3, 1.0, 3.0])
def test_an_interval_holds_as_often_as_it_says(skew: float) -> None:
    """Whatever the distribution of what becomes of a told wait."""
    dice = random.Random(f"{keep_seed()} {skew}")
    told = Expectations()
    for number in range(6000):
        go(told, f"j{number}", dice.uniform(10, 10_000), dice.random() ** skew * (2 if dice.random() < 0.1 else 1))
    assert told.intervals == 6000 - FEWEST
    assert abs(told.kept / told.intervals - CONFIDENCE) < 0.02


def test_an_interval_goes_on_holding_where_the_cluster_changes() -> None:
    """Waits that turn out longer and longer, then shorter: by what is remembered alone seven of ten would hold."""
    dice = random.Random(keep_seed())
    told = Expectations()
    for number in range(6000):
        drift = 0.3 + 0.7 * abs(1 - number % 800 / 400)
        go(told, f"j{number}", dice.uniform(10, 10_000), drift * dice.uniform(0.8, 1.2))
    assert abs(told.kept / told.intervals - CONFIDENCE) < 0.03


def test_nothing_is_said_by_too_few() -> None:
    told = Expectations()
    for number in range(FEWEST - 1):
        go(told, f"j{number}", 100, 0.5)
    assert told.interval(job("next"), 1100, 1000) is None
    go(told, "one more", 100, 1.0)
    found = told.interval(job("next"), 1100, 1000)
    assert found == (1050, 1100, FEWEST)


def test_a_tenant_s_own_starts_count_where_there_are_enough_else_the_queue_s_else_all() -> None:
    told = Expectations()
    for number in range(ENOUGH):
        go(told, f"a{number}", 100, 0.1)
        go(told, f"b{number}", 100, 0.9, tenant="b", queue="other")
    for number in range(ENOUGH - 1):
        go(told, f"c{number}", 100, 0.5, tenant="c")

    def low(tenant: str, queue: str) -> float:
        found = told.interval(job("next", tenant, queue), 1100, 1000)
        assert found is not None
        return found.low

    assert low("a", "q") == 1010
    assert low("c", "q") == 1010, "one too few of its own: those of the queue, of which the least are a's"
    assert low("new", "other") == 1090
    assert low("new", "third") == 1010


def test_what_was_long_ago_is_forgotten_and_who_did_not_start_says_nothing() -> None:
    told = Expectations()
    for number in range(MOST):
        go(told, f"old{number}", 100, 0.1)
    for number in range(MOST):
        go(told, f"new{number}", 100, 0.8)
    told.tell(job("gone"), 2000, 1000)
    told.forget("gone")
    told.started(job("gone"), 5000)
    found = told.interval(job("next"), 1100, 1000)
    assert found is not None and found.low == pytest.approx(1080) and found.known == MOST
    assert told.told("gone") is None


def test_the_first_time_told_counts_and_a_wait_of_no_length_says_nothing() -> None:
    told = Expectations()
    one = job("one")
    told.tell(one, 1100, 1000)
    told.tell(one, 1050, 1010)
    assert told.told("one") == 1100
    told.started(one, 1020)
    assert list(told.errors) == [-80]
    for number in range(FEWEST):
        go(told, f"j{number}", 0.5, 100)
    assert told.interval(one, 1100, 1000) is None
