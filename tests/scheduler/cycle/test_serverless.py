"""Services: replicas follow the queue, from none and back, and cold time is a state of its own."""

from __future__ import annotations

import math
import random
from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from scheduler.model import Request
from scheduler.serverless import Scaling, Service, ServiceState, Use
from scheduler.windows import Window
from tests.draws import keep_seed

CHAT = Service("chat", "a", "serving", Request(1), target=4, max_replicas=5, idle_seconds=300, keep_seconds=60)


def scaled(state: ServiceState, now: float) -> Scaling:
    """What is to be submitted has been."""
    scaling = state.scale(now)
    for one in scaling.submit:
        state.submitted(one, now)
    return scaling


def warm(state: ServiceState, now: float) -> None:
    for name in list(state.replicas):
        if state.replicas[name].started_at is None:
            state.started(name, 1, now)
        state.ready(name, now)


def test_replicas_follow_the_queue_from_none_and_no_further_than_allowed() -> None:
    state = ServiceState(CHAT)
    assert scaled(state, 0.0).submit == ()
    state.observe(9, 0, 1.0)
    jobs = scaled(state, 1.0).submit
    assert [(job.job_id, job.service, job.tenant) for job in jobs] == [
        ("chat-1", "chat", "a"),
        ("chat-2", "chat", "a"),
        ("chat-3", "chat", "a"),
    ]
    assert scaled(state, 1.0).submit == (), "they are on their way"
    state.observe(100, 4, 2.0)
    assert len(scaled(state, 2.0).submit) == 2


def test_a_dip_costs_no_replica_and_a_lasting_one_does() -> None:
    state = ServiceState(CHAT)
    state.observe(16, 0, 0.0)
    scaled(state, 0.0)
    warm(state, 10.0)
    state.observe(3, 0, 30.0)
    assert scaled(state, 30.0).stop == ()
    state.observe(3, 0, 89.0)
    assert scaled(state, 89.0).stop == ()
    state.observe(3, 0, 91.0)
    assert len(scaled(state, 91.0).stop) == 3, "the most of it was asked for until 30"


def test_the_last_replica_goes_after_long_idleness_only() -> None:
    state = ServiceState(CHAT)
    state.observe(1, 0, 0.0)
    scaled(state, 0.0)
    warm(state, 20.0)
    state.observe(0, 1, 100.0)
    state.observe(0, 0, 101.0)
    assert scaled(state, 400.0).stop == ()
    assert scaled(state, 401.0).stop == ("chat-1",)
    state.ended("chat-1", 401.0)
    assert scaled(state, 402.0) == scaled(state, 900.0) and not scaled(state, 402.0).submit


def test_cold_time_is_measured_for_each_replica_and_summed() -> None:
    state = ServiceState(CHAT)
    state.observe(8, 0, 0.0)
    first, second = (job.job_id for job in scaled(state, 0.0).submit)
    assert state.by_state() == {"pending": 2, "cold": 0, "warm": 0}
    state.started(first, 7, 10.0)
    assert state.by_state() == {"pending": 1, "cold": 1, "warm": 0}
    assert state.replicas[first].cold_seconds(25.0) == 15.0
    assert state.ready(first, 40.0) == 30.0 and state.ready(first, 99.0) == 30.0
    state.started(second, 1, 20.0)
    state.ended(second, 25.0)
    assert (state.cold_starts, state.cold_unit_seconds) == (1, 7 * 30.0 + 5.0)


def test_a_replica_that_is_not_ready_is_stopped_first() -> None:
    state = ServiceState(CHAT)
    state.observe(12, 0, 0.0)
    scaled(state, 0.0)
    state.started("chat-1", 1, 1.0)
    state.ready("chat-1", 2.0)
    state.started("chat-2", 1, 1.0)
    state.observe(0, 0, 1000.0)
    assert scaled(state, 1400.0).stop == ("chat-3", "chat-2", "chat-1")


@given(st.lists(st.tuples(st.integers(0, 40), st.floats(0.1, 200)), max_size=20), st.integers(0, 2))
def test_there_are_never_more_or_fewer_than_the_service_allows(demand: list[tuple[int, float]], least: int) -> None:
    state = ServiceState(Service("s", "a", "q", Request(1), target=3, min_replicas=least, max_replicas=4))
    now = 0.0
    for waiting, seconds in demand:
        now += seconds
        state.observe(waiting, 0, now)
        scaling = scaled(state, now)
        for name in scaling.stop:
            state.ended(name, now)
        assert least <= len(state.replicas) <= 4
        assert len(state.replicas) * 3 >= min(waiting, 12)


def test_in_drawn_histories_the_replicas_are_those_of_an_independent_reckoning() -> None:
    for seed in range(first := random.Random(keep_seed()).randrange(10**9), first + 150):
        dice = random.Random(seed)
        window = Window(dice.randint(0, 3), dice.choice([None, 3, 5]), "Asia/Kolkata", ("mon", "tue"), "22:00", "02:00")
        service = Service(
            "s", "t", "q", Request(1), dice.choice([1, 4, None]), dice.randint(0, 1), 6, 100.0, dice.choice([0, 30]),
            use=dice.choice([None, Use(0.5, 60.0)]), windows=dice.choice([(), (window,)]),
        )  # fmt: skip
        state = ServiceState(service)
        observed: list[tuple[float, int, int, float | None]] = []
        now = dice.uniform(0, 14) * 86400
        for _ in range(30):
            now += dice.choice([0, 10, 40, 90, 3000])
            ready = state.by_state()["warm"]
            what = dice.choice(["told", "told", "scale", "scale", "ready"])
            if what == "told":
                use = dice.choice([None, 0.0, 0.2, 0.48, 0.53, 0.8, 1.0])
                observed.append((now, dice.choice([0, 0, 3, 9]), ready, use))
                state.observe(observed[-1][1], 0, now, use)
            elif what == "ready" and state.replicas:
                name = dice.choice(sorted(state.replicas))
                state.started(name, 1, now)
                state.ready(name, now)
            before = len(state.replicas)
            expected = reckoned(service, observed, before, now)
            assert state.desired(now) == expected, f"history {seed}, at {now}: {state.why(now)}"
            unknown = service.use and not any(at >= now - 60.0 for at, _, _, use in observed if use is not None)
            if unknown and not service.windows:
                assert expected >= before, f"history {seed}: scaled down without knowing"
            if what == "scale":
                for name in scaled(state, now).stop:
                    state.ended(name, now)
                assert len(state.replicas) == expected


def reckoned(service: Service, observed: list[tuple[float, int, int, float | None]], there: int, now: float) -> int:
    """From all that was ever told: (when, requests, replicas that were ready, utilization). It holds until the next."""

    def asked(upto: int, when: float) -> int:
        wanted = 0
        if service.target and observed[:upto]:
            wanted = -(-observed[upto - 1][1] // service.target)
        known = [(at, ready, use) for at, _, ready, use in observed[:upto] if use is not None]
        if service.use and known and when - known[-1][0] <= service.use.fresh_seconds:
            _, ready, use = known[-1]
            part = Fraction(str(use)) / Fraction(1, 2)
            wanted = max(wanted, ready if Fraction(9, 10) <= part <= Fraction(11, 10) else math.ceil(ready * part))
        return wanted

    times = [at for at, *_ in observed]
    seen = [*enumerate(times, 1), *enumerate(times[1:], 1)]
    recent = [asked(number, at) for number, at in seen if now - at < service.keep_seconds]
    wanted = max([asked(len(observed), now), *recent])
    busy = [at for at, requests, _, use in observed if requests or use]
    busy += [at for at, (_, requests, *_) in zip(times[1:], observed, strict=False) if requests]
    if not wanted and there and busy and now - max(busy) < service.idle_seconds:
        wanted = 1
    uses = [at for at, _, _, use in observed if use is not None]
    if service.use and (not uses or now - uses[-1] > service.use.fresh_seconds):
        wanted = max(wanted, there)
    lowest, highest = service.min_replicas, service.max_replicas
    for window in service.windows:
        hours = (now + 5.5 * 3600) / 3600  # Kolkata, since 1970-01-01, a Thursday
        day, hour = int(hours // 24 + 3) % 7, hours % 24
        if (hour >= 22 and day in (0, 1)) or (hour < 2 and day in (1, 2)):
            lowest = max(lowest, window.min_replicas)
            highest = min(highest, window.max_replicas) if window.max_replicas is not None else highest
    return max(min(lowest, highest), min(wanted, highest))
