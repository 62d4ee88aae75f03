"""Error budgets and burn rates, from points typed by hand."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

import pyarrow as pa
import pytest

from alerts.slo.objectives import parse_objectives
from alerts.slo.status import SeriesStatus, by_tenant, slo_status
from tests.alerts.facts import NOON, ago
from tests.alerts.slo.promises import LATENCY, WAIT, promise
from warehouse.store import Store

Point = tuple[float, float, float, float]
"""Minutes ago, good, bad, missing."""


def points(
    store: Store, points: Sequence[Point], tenant: str = "physics", subject: str = "train", until: datetime = NOON
) -> None:
    """Points of the objective WAIT, all of which was measured until then."""
    definition = parse_objectives({"objectives": [WAIT]}).objectives[0].definition
    instant = pa.timestamp("ms", "UTC")
    at = [ago(minutes) for minutes, *_ in points]
    hours = [(one - timedelta(seconds=1)).replace(minute=0, second=0, microsecond=0) for one in at]
    runs = pa.array([7] * len(points), pa.uint64())
    store.insert(
        "slo_points",
        pa.table(
            {
                "definition": [definition] * len(points),
                "run": runs,
                "hour": pa.array(hours, instant),
                "at": pa.array(at, instant),
                "tenant": [tenant] * len(points),
                "subject": [subject] * len(points),
                **{kind: [float(one[n]) for one in points] for n, kind in ((1, "good"), (2, "bad"), (3, "missing"))},
            }
        ),
    )
    store.insert(
        "slo_hours", pa.table({"definition": [definition] * len(points), "hour": pa.array(hours, instant), "run": runs})
    )
    one_run = pa.array([7], pa.uint64())
    measured = {"definition": [definition], "run": one_run, "until": pa.array([until], instant), "books_run": one_run}
    store.insert("slo_measured", pa.table(measured))


def only(store: Store, at: datetime = NOON) -> SeriesStatus:
    (one,) = slo_status(store, at)
    return one


STRICT = {**WAIT, "target": "0.99", "window": "30d"}
"""Its limits: 14.4, 6 and 1."""


def test_a_budget_and_its_burn_rates(facts: Store) -> None:
    promise(facts, STRICT)
    points(facts, [(20_000, 9_700, 50, 0), (600, 100, 5, 0), (60, 10, 10, 0), (55, 90, 10, 25), (0, 8, 2, 0)])
    one = only(facts)
    assert (one.good, one.bad, one.missing) == (9908, 77, 25)
    assert one.coverage == pytest.approx(9985 / 10_010)
    assert one.budget_left == pytest.approx(1 - 77 / 99.85)
    rates = (one.burn_5m, one.burn_30m, one.burn_1h, one.burn_6h, one.burn_3d)
    expected = (20, 20, 100 * 12 / 110, 100 * 22 / 130, 100 * 27 / 235)
    assert rates == pytest.approx(expected)
    assert (one.limit_fast, one.limit_medium, one.limit_slow) == pytest.approx((14.4, 6, 1))
    assert (one.state, one.burning) == ("met", "medium")


@pytest.mark.parametrize(
    ("history", "burning"),
    [
        ([(50, 80, 20, 0), (0, 80, 20, 0)], "fast"),
        ([(25, 60, 40, 0), (0, 100, 0, 0)], "medium"),  # over for five minutes
        ([(50, 86, 14, 0), (0, 86, 14, 0)], "medium"),  # 14 is not 14.4
        ([(300, 90, 10, 0), (25, 90, 10, 0), (0, 100, 0, 0)], "slow"),  # 5 in the last half hour
        ([(4000, 95, 5, 0), (300, 100, 2, 0)], "slow"),
        ([(4000, 95, 5, 0), (300, 1000, 0, 0)], ""),  # 3 days: 0.5
        ([(4000, 90, 10, 0)], ""),  # nothing known in the last 6 hours
        ([(0, 0, 0, 100)], ""),  # missing is neither good nor bad
    ],
)
def test_it_burns_only_if_it_still_does(facts: Store, history: list[Point], burning: str) -> None:
    promise(facts, STRICT)
    points(facts, history)
    assert only(facts).burning == burning


def test_a_loose_target_can_burn_fast_too(facts: Store) -> None:
    """With 0.9 no burn rate can exceed 10, so 14.4 would never be reached."""
    promise(facts, {**WAIT, "window": "30d"})
    points(facts, [(50, 1, 99, 0), (0, 1, 99, 0)])
    assert (only(facts).burning, only(facts).limit_fast) == ("fast", pytest.approx(9))


def test_too_few_are_not_judged(facts: Store) -> None:
    promise(facts, {**STRICT, "at_least": 20})
    points(facts, [(50, 5, 5, 0), (0, 4, 5, 0)])
    one = only(facts)
    assert (one.sli, one.budget_left, one.burn_1h, one.state, one.burning) == (None, None, None, "unknown", "")
    assert (one.good, one.bad) == (9, 10)


def test_an_objective_of_which_nothing_is_known_is_unknown_and_shown(facts: Store) -> None:
    promise(facts, LATENCY)
    one = only(facts)
    assert (one.objective, one.tenant, one.state, one.coverage, one.measured_until) == (
        "fast",
        "",
        "unknown",
        None,
        None,
    )
    assert by_tenant([one]) == []


def test_windows_end_where_the_measuring_ended(facts: Store) -> None:
    promise(facts, STRICT)
    points(facts, [(60, 80, 20, 0)], until=ago(60))
    one = only(facts)
    assert (one.measured_until, one.burn_5m) == (ago(60), pytest.approx(20))


def test_what_came_after_an_instant_is_not_seen_from_it(facts: Store) -> None:
    promise(facts, STRICT)
    points(facts, [(100, 90, 10, 0), (0, 0, 100, 0)])
    assert (only(facts, ago(3)).bad, only(facts).bad) == (10, 110)


def test_what_is_older_than_the_window_counts_no_more(facts: Store) -> None:
    promise(facts, {**STRICT, "window": "1d"})
    points(facts, [(1441, 0, 100, 0), (1435, 50, 0, 0)])
    one = only(facts)
    assert (one.good, one.bad, one.burn_3d) == (50, 0, pytest.approx(100 * 100 / 150))


def test_tenants_have_their_worst(facts: Store) -> None:
    promise(facts, STRICT)
    points(facts, [(50, 80, 20, 0), (0, 80, 20, 0)])
    points(facts, [(0, 100, 0, 0)], subject="batch")
    points(facts, [(0, 0, 0, 9)], "chem", "batch")
    chem, physics = by_tenant(slo_status(facts, NOON))
    assert (chem.tenant, chem.met, chem.missed, chem.unknown, chem.budget_left) == ("chem", 0, 0, 1, None)
    assert (physics.met, physics.missed, physics.burning, physics.worst) == (1, 1, "fast", "wait train")
    assert [one.tenant for one in slo_status(facts, NOON, "chem")] == ["chem"]
