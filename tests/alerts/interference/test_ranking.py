"""Episodes and ranking: raised by three of five, over after ten quiet minutes, named after three times."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from typing import Protocol, TypeVar

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from alerts.interference.definitions import coefficient, jitter, slowdown, tail
from alerts.interference.episodes import episodes
from alerts.interference.factors import colocation_factors, speeds
from alerts.interference.measure import measure
from alerts.interference.ranking import aggressors, verdict, victims, victims_of
from scheduler.placement.interference import AntiInterference
from scheduler.placement.packing import BestFit
from tests.alerts.facts import NOON, Fact, ago, device, put
from tests.alerts.interference.sharing import STEPS, reports, runs
from warehouse.store import Store


class OfCluster(Protocol):
    @property
    def cluster(self) -> str: ...


T = TypeVar("T", bound=OfCluster)


def test_the_quantities_are_as_defined() -> None:
    assert slowdown(STEPS, alone=10, shared=5) == slowdown("compute_seconds", alone=0.1, shared=0.2) == 2
    assert slowdown(STEPS, alone=10, shared=0) is None
    assert (coefficient(2.0), coefficient(None)) == (1.0, None)
    assert tail([1.0] * 299) is None
    even = [1.0] * 297 + [2.0] * 3
    assert jitter([1.0] * 300, [value * 5 for value in even]) == 2.0
    assert jitter(even[:299], even) is None


def comes_and_goes(times: int, stays: int = 6, slow: float = 5.0, pause: int = 14) -> list[Fact]:
    """a runs all the time; b comes `times` times, and leaves for good 14 minutes ago (or `pause`)."""
    length = pause + stays
    first = times * length + 10
    facts = [*device(units=4), *runs("a", first, 1), *reports("a", first, times * length + 1, 10.0)]
    for n in range(times):
        start = (times - n) * length
        facts += [*runs("b", start, start - stays + 1), *reports("a", start, start - stays + 1, slow)]
        facts += reports("a", start - stays, start - length + 1, 10.0)
    return facts


SCENARIOS: dict[str, list[Fact]] = {
    "once": comes_and_goes(1),
    "twice": comes_and_goes(2),
    "thrice": comes_and_goes(3),
    "briefly": comes_and_goes(2, stays=2),
    "soon again": comes_and_goes(2, pause=9),
    "harmless": comes_and_goes(4, slow=9.8),
    "silent": [
        *device(units=4),
        *runs("a", 60, 40),
        *runs("b", 50, 40),
        *reports("a", 60, 51, 10),
        *reports("a", 50, 40, 5),
    ],
    "pair": [
        *device(units=4),
        *device("GPU-1", units=4),
        *runs("a", 60, 1),
        *runs("b", 30, 1),
        *reports("a", 60, 31, 10),
        *reports("a", 30, 1, 4),
        *runs("b", 90, 61, "GPU-1"),
        *reports("b", 90, 61, 8),
        *reports("b", 30, 1, 6),
    ],
}


@pytest.fixture(scope="module")
def measured(shared_store: Store) -> Store:
    for cluster, facts in SCENARIOS.items():
        put(shared_store, facts, cluster)
    measure(shared_store, NOON)
    return shared_store


def of(cluster: str, found: Sequence[T]) -> list[T]:
    return [one for one in found if one.cluster == cluster]


def test_an_episode_is_raised_by_three_and_over_after_ten_quiet_minutes(measured: Store) -> None:
    (one,) = of("once", episodes(measured, ago(1000), NOON))
    assert (one.started_at, one.raised_at, one.disturbed_until) == (ago(21), ago(18), ago(15))
    assert (one.ended_at, one.disturbed_windows, one.grade, one.neighbours) == (ago(5), 6, "measured", ("b",))
    assert (one.mean_slowdown, one.lost_gpu_seconds) == (2.0, 180.0)
    (open_one,) = of("once", episodes(measured, ago(1000), ago(6)))
    assert open_one.ended_at is None


def test_two_windows_are_no_episode_and_nine_quiet_minutes_do_not_end_one(measured: Store) -> None:
    found = episodes(measured, ago(1000), NOON)
    assert of("briefly", found) == []
    (one,) = of("soon again", found)
    assert (one.disturbed_windows, one.ended_at) == (12, None)


def test_silence_is_not_quiet(measured: Store) -> None:
    (one,) = of("silent", episodes(measured, ago(1000), NOON))
    assert one.ended_at is None


def by_machine(disturbed: list[bool | None]) -> list[tuple[int, int | None]]:
    """(window that raised, window that cleared) of each episode, a window at a time."""
    found: list[tuple[int, int | None]] = []
    raised, undisturbed = False, 0
    for n, now in enumerate(disturbed):
        recent = sum(one is True for one in disturbed[max(0, n - 4) : n + 1])
        if now is True:
            undisturbed = 0
            if not raised and recent >= 3:
                raised = True
                found.append((n, None))
        elif now is False:
            undisturbed += 1
            if raised and undisturbed >= 10:
                raised = False
                found[-1] = (found[-1][0], n)
    return found


@pytest.fixture(scope="module")
def apart(shared_store: Store) -> Iterator[Store]:
    """A second database of the store, with the schema."""
    with shared_store.scratch() as opened:
        yield opened


@settings(max_examples=15)
@given(st.lists(st.tuples(st.sampled_from([True, False, None]), st.integers(1, 9)), min_size=1, max_size=14))
def test_episodes_equal_a_machine_that_sees_a_window_at_a_time(
    apart: Store, stretches: list[tuple[bool | None, int]]
) -> None:
    disturbed = [one for one, times in stretches for _ in range(times)]
    for table in ("interference_samples", "interference_hours"):
        apart.command(f"TRUNCATE TABLE {table}")
    start = ago(len(disturbed)).replace(microsecond=0)
    times = [start + timedelta(minutes=n) for n in range(len(disturbed))]
    columns = {
        "run": pa.array([1] * len(times), pa.uint64()),
        "hour": pa.array(
            [(t - timedelta(seconds=1)).replace(minute=0, second=0) for t in times], pa.timestamp("ms", "UTC")
        ),
        "at": pa.array(times, pa.timestamp("ms", "UTC")),
        "window_seconds": pa.array([60] * len(times), pa.uint32()),
        "workload_id": ["a"] * len(times),
        "grade": ["unknown" if one is None else "measured" for one in disturbed],
        "disturbed": pa.array(disturbed, pa.bool_()),
    }
    apart.insert("interference_samples", pa.table(columns))
    hours = sorted({value.as_py() for value in columns["hour"]})  # type: ignore[union-attr]
    apart.insert(
        "interference_hours",
        pa.table({"hour": pa.array(hours, pa.timestamp("ms", "UTC")), "run": pa.array([1] * len(hours), pa.uint64())}),
    )
    found = sorted(episodes(apart, ago(10_000), NOON), key=lambda one: one.raised_at)
    expected = [(times[raised], None if over is None else times[over]) for raised, over in by_machine(disturbed)]
    assert [(one.raised_at, one.ended_at) for one in found] == expected


def test_an_aggressor_is_named_after_three_times(measured: Store) -> None:
    found = aggressors(measured, ago(1000), NOON)
    twice, other = sorted(of("twice", found), key=lambda one: one.victim)
    assert (twice.victim, twice.aggressor, twice.arrivals, twice.rose, twice.verdict) == ("a", "b", 2, 2, "candidate")
    assert (other.victim, other.arrivals, other.verdict) == ("b", 0, "none")
    thrice = of("thrice", found)[0]
    assert (thrice.victim, thrice.aggressor, thrice.rose, thrice.effect) == ("a", "b", 3, 1.0)
    assert (thrice.verdict, found[0].verdict) == ("aggressor", "aggressor")
    assert {one.verdict for one in of("harmless", found)} == {"none"}


def test_aggressors_of_some_victims_are_those_among_all(measured: Store) -> None:
    hurt = victims(measured, ago(1000), NOON)
    of_all = aggressors(measured, ago(1000), NOON)
    some = [one for one in hurt if one.cluster in {"thrice", "pair"}]
    named = {(one.cluster, one.identity) for one in some}
    found = aggressors(measured, ago(1000), NOON, of=some)
    assert found == [one for one in of_all if (one.cluster, one.victim) in named]
    assert {one.cluster for one in found} == {"thrice", "pair"} < {one.cluster for one in of_all}


def test_victims_of_episodes_are_those_of_the_span(measured: Store) -> None:
    """Without jitter, which is of all their windows: nobody here has so many."""
    for since, until in ((ago(1000), NOON), (ago(60), ago(16))):
        found = victims_of(episodes(measured, since, until))
        assert found == victims(measured, since, until) and found
    (pair, *_) = of("pair", victims(measured, ago(1000), NOON))
    assert (pair.grade, pair.neighbours) == ("measured", ("b",))


def test_victims_are_told_what_they_lost(measured: Store) -> None:
    found = victims(measured, ago(1000), NOON)
    (victim,) = of("thrice", found)
    assert (victim.identity, victim.episodes, victim.mean_slowdown, victim.lost_gpu_seconds) == ("a", 3, 2.0, 540.0)
    assert (victim.jitter, victim.open_episodes) == (None, 0)
    assert of("harmless", found) == []
    lost = [one.lost_gpu_seconds or 0 for one in found]
    assert lost == sorted(lost, reverse=True)


@pytest.mark.parametrize(
    ("arrivals", "rose", "expected"),
    [(3, 3, "aggressor"), (4, 3, "aggressor"), (5, 3, "candidate"), (2, 2, "candidate")],
)
def test_most_of_its_comings_must_agree(arrivals: int, rose: int, expected: str) -> None:
    assert verdict(arrivals, rose, disturbed=1) == expected


def test_speeds_of_pairs_are_what_the_scheduler_takes(measured: Store) -> None:
    def factors(
        model: str = "*", class_of: Callable[[str], str] = str
    ) -> dict[tuple[str, str], tuple[float, int, int]]:
        found = colocation_factors(measured, ago(1000), NOON, model, class_of, cluster="pair")
        return {pair: (round(one.speed, 9), one.n, one.pairs) for pair, one in found.items()}

    assert factors("H*") == {("a", "b"): (0.4, 30, 1), ("b", "a"): (0.75, 30, 1)}
    assert factors("A100") == {}
    assert factors(class_of=lambda _: "train") == {("train", "train"): (0.575, 60, 2)}
    found = colocation_factors(measured, ago(1000), NOON, cluster="pair")
    assert AntiInterference(speeds(found), BestFit()).slowdown("a", {"b": 1}) == pytest.approx(0.6 + 0.25)
    assert speeds(found, least=31) == {}
    assert found["a", "b"].interference == pytest.approx(0.6)
