"""Services: replicas follow the queue, from none and back, and cold time is a state of its own."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from scheduler.model import Request
from scheduler.serverless import Service, ServiceState

CHAT = Service("chat", "a", "serving", Request(1), target=4, max_replicas=5, idle_seconds=300, keep_seconds=60)


def warm(state: ServiceState, now: float) -> None:
    for name in list(state.replicas):
        if state.replicas[name].started_at is None:
            state.started(name, 1, now)
        state.ready(name, now)


def test_replicas_follow_the_queue_from_none_and_no_further_than_allowed() -> None:
    state = ServiceState(CHAT)
    assert state.scale(0.0).submit == ()
    state.observe(9, 0, 1.0)
    jobs = state.scale(1.0).submit
    assert [(job.job_id, job.service, job.tenant) for job in jobs] == [
        ("chat-1", "chat", "a"),
        ("chat-2", "chat", "a"),
        ("chat-3", "chat", "a"),
    ]
    assert state.scale(1.0).submit == (), "they are on their way"
    state.observe(100, 4, 2.0)
    assert len(state.scale(2.0).submit) == 2


def test_a_dip_costs_no_replica_and_a_lasting_one_does() -> None:
    state = ServiceState(CHAT)
    state.observe(16, 0, 0.0)
    state.scale(0.0)
    warm(state, 10.0)
    state.observe(3, 0, 30.0)
    assert state.scale(30.0).stop == ()
    state.observe(3, 0, 59.0)
    assert state.scale(59.0).stop == ()
    state.observe(3, 0, 61.0)
    assert len(state.scale(61.0).stop) == 3


def test_the_last_replica_goes_after_long_idleness_only() -> None:
    state = ServiceState(CHAT)
    state.observe(1, 0, 0.0)
    state.scale(0.0)
    warm(state, 20.0)
    state.observe(0, 1, 100.0)
    state.observe(0, 0, 101.0)
    assert state.scale(399.0).stop == ()
    assert state.scale(400.0).stop == ("chat-1",)
    state.ended("chat-1", 400.0)
    assert state.scale(401.0) == state.scale(900.0) and not state.scale(401.0).submit


def test_cold_time_is_measured_for_each_replica_and_summed() -> None:
    state = ServiceState(CHAT)
    state.observe(8, 0, 0.0)
    first, second = (job.job_id for job in state.scale(0.0).submit)
    assert state.by_state() == {"pending": 2, "cold": 0, "warm": 0}
    state.started(first, 7, 10.0)
    assert state.by_state() == {"pending": 1, "cold": 1, "warm": 0}
    assert state.replicas[first].cold_seconds(25.0) == 15.0
    assert state.ready(first, 40.0) == 30.0 and state.ready(first, 99.0) == 30.0
    state.started(second, 1, 20.0)
    state.ended(second, 25.0)
    assert (state.cold_starts, state.cold_unit_seconds) == (1, 7 * 30.0 + 5.0)


def test_who_serves_nobody_yet_goes_first() -> None:
    state = ServiceState(CHAT)
    state.observe(12, 0, 0.0)
    state.scale(0.0)
    state.started("chat-1", 1, 1.0)
    state.ready("chat-1", 2.0)
    state.started("chat-2", 1, 1.0)
    state.observe(0, 0, 1000.0)
    assert state.scale(1000.0).stop == ("chat-3", "chat-2", "chat-1")


@given(st.lists(st.tuples(st.integers(0, 40), st.floats(0.1, 200)), max_size=20), st.integers(0, 2))
def test_there_are_never_more_or_fewer_than_the_service_allows(demand: list[tuple[int, float]], least: int) -> None:
    state = ServiceState(Service("s", "a", "q", Request(1), target=3, min_replicas=least, max_replicas=4))
    now = 0.0
    for waiting, seconds in demand:
        now += seconds
        state.observe(waiting, 0, now)
        scaling = state.scale(now)
        for name in scaling.stop:
            state.ended(name, now)
        assert least <= len(state.replicas) <= 4
        assert len(state.replicas) * 3 >= min(waiting, 12)
