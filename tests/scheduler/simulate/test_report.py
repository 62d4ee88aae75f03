"""Reports: curves keep their area, costs are exact, a missing price is no zero, and the fewest nodes are the fewest."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.model import Job, Queue, Request, Tenant
from scheduler.setup import Setup
from scheduler.simulate.capacity import fewest_nodes
from scheduler.simulate.report import plot, side_by_side
from scheduler.simulate.run import simulate
from scheduler.simulate.timeline import MOST_POINTS, Timeline
from scheduler.simulate.traces import regular_nodes
from warehouse.errors import LedgerError

NODES = regular_nodes(1, 4, "A100")
JOBS = [
    Job("a", "vision", "q", Request(4), 0.0, run_time=1800.0, time_limit=3600.0),
    Job("b", "speech", "q", Request(2), 600.0, run_time=3600.0, time_limit=3600.0),
    Job("c", "speech", "other", Request(2), 700.0, run_time=0.5, time_limit=60.0),
]


def test_costs_are_what_was_held_times_the_price_to_the_millisecond() -> None:
    found = simulate(JOBS, Setup("x", NODES, queues=[Queue("q")]), {"A100": Decimal("3.60")})
    costs = {line.tenant: line.cost for line in found.tenants}
    assert costs == {"vision": Decimal("7.20"), "speech": Decimal("7.201")}
    assert found.measures["cost"] == Decimal("14.401")
    assert found.measures["gpu_hours"] == pytest.approx(2 + 2 + 1 / 3600)


def test_without_a_price_for_the_model_the_cost_is_unknown_and_so_is_the_sum() -> None:
    found = simulate(JOBS, Setup("x", NODES), {"H100": Decimal(1)})
    assert {line.cost for line in found.tenants} == {None}
    assert found.measures["cost"] is None


def test_measures_are_those_of_the_run() -> None:
    found = simulate(JOBS, Setup("x", NODES, [Tenant("vision", guaranteed=4)]))
    assert found.measures["finished"] == 3
    assert found.measures["wait_max_seconds"] == 1200  # b waits for a
    assert found.measures["utilization_ratio"] == pytest.approx((4 * 1800 + 2 * 3600 + 1) / (4 * 5400))
    assert found.measures["quota_redemption_ratio"] == 1.0
    assert {queue["queue"] for queue in found.queues} == {"q", "other"}


def test_expected_starts_are_measured_though_nobody_waits_any_more() -> None:
    jobs = [Job(f"j{n}", "t", "q", Request(4), float(n), run_time=30.0, time_limit=60.0) for n in range(120)]
    found = simulate(jobs, Setup("x", NODES, queues=[Queue("q")])).measures
    assert found["expected_intervals"] and found["expected_kept_ratio"] is not None


def test_progress_counts_the_jobs_that_are_over() -> None:
    progress: list[int] = []
    jobs = [Job(f"j{number}", "t", "q", Request(1), 10.0 * number, run_time=5.0) for number in range(250)]
    simulate(jobs, Setup("x", NODES), on_progress=progress.append)
    assert progress == list(range(2, 251, 2))


def test_the_same_jobs_give_the_same_report() -> None:
    setup = Setup("x", NODES, placement="random")
    one, other = (simulate(JOBS, setup).document() for _ in range(2))
    for document in (one, other):
        document["measures"].pop("wall_seconds")
    assert one == other


def test_runs_stand_side_by_side_and_the_page_needs_nothing_else(tmp_path: Path) -> None:
    runs = [simulate(JOBS, Setup(name, NODES), {"A100": Decimal(1)}) for name in ("one", "two")]
    rows = {row["measure"]: row for row in side_by_side(runs)}
    assert rows["cost of vision"] == {"measure": "cost of vision", "one": Decimal(2), "two": Decimal(2)}
    plot(runs, tmp_path / "page.html", "Title", ["a note"])
    page = (tmp_path / "page.html").read_text()
    assert "a note" in page
    assert 'src="http' not in page


def test_no_jobs_are_no_error() -> None:
    assert simulate([], Setup("x", NODES)).measures["wait_mean_seconds"] is None


@given(st.lists(st.tuples(st.integers(0, 20_000_000), st.floats(0, 100)), min_size=1, max_size=30))
def test_a_curve_keeps_its_area_in_few_points(steps: list[tuple[int, float]]) -> None:
    line, wanted, at, value = Timeline(("x",), 1e9), 0.0, 0.0, 0.0
    for moment, level in sorted(steps):
        wanted += value * (moment - at)
        line.add(1e9 + moment, {"x": level})
        at, value = moment, level
    points = line.points()
    assert len(points) <= MOST_POINTS
    ends = [*(start for start, _ in points[1:]), 1e9 + at][: len(points)]
    area = sum(point["x"] * (end - start) for (start, point), end in zip(points, ends, strict=True))
    assert area == pytest.approx(wanted, rel=1e-6, abs=1e-3)


@given(st.integers(1, 500), st.integers(1, 40))
def test_the_fewest_nodes_are_found_by_halving(enough: int, least: int) -> None:
    found = fewest_nodes(lambda nodes: 0.0 if nodes >= enough else 99.0, 10.0, least)
    assert found.nodes == max(enough, least)
    assert len(found.tried) <= 22


def test_a_bound_that_no_size_meets_is_reported() -> None:
    with pytest.raises(LedgerError, match="do not keep the wait under 10 s"):
        fewest_nodes(lambda nodes: None, 10.0)
