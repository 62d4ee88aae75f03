"""The acceptance suite on real processes and on recorded runs: what passes, what fails, and what nobody could know."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from alerts.acceptance.checks import Check, accepted, cases, judge
from alerts.acceptance.measures import of_seconds
from alerts.acceptance.plan import DEFAULT, Plan, load_plan
from alerts.acceptance.report import earlier_throughputs
from alerts.acceptance.runs import Commands, Recorded, Run, keep
from alerts.acceptance.simulated import Simulated
from alerts.acceptance.suite import run_suite
from alerts.errors import AlertError

NOW = datetime(2026, 10, 6, 12, tzinfo=UTC)
LOAD = """
import json, os, sys, time
how, seconds = sys.argv[1], float(sys.argv[2])
print("a framework greets", flush=True)
print(json.dumps({"about": {"device": "fake", "framework": "none"}}), flush=True)
if how == "refused":
    print(json.dumps({"error": "out of memory"}), flush=True); sys.exit(1)
wanted, n = int(os.environ["GPULEDGER_STEPS"]), 0
while not wanted or n < wanted:
    time.sleep(seconds); n += 1
    print(json.dumps({"seconds": seconds * (1 + (n % 50 == 0) * 0.2)}), flush=True)
    if how == "breaks" and n == 3:
        sys.exit("device-side assert")
"""
"""A load that is as fast as it says, whoever is beside it."""


def load(how: str = "works", seconds: float = 0.0005) -> dict[str, Any]:
    return {"command": [sys.executable, "-c", LOAD, how, str(seconds)]}


def plan(**more: Any) -> Plan:
    loads = {
        "victim": load(),
        "neighbours": {"compute": load()},
        "filler": load(),
        "hog": load("refused"),
        "faulty": load("breaks"),
    }
    usual = {"name": "fake", "steps": 300, "warmup": 0, "share": 1.0, "neighbour_share": 1.0, "timeout_seconds": 60}
    return Plan.model_validate({**usual, "loads": {**loads, **more.pop("loads", {})}, **more})


def runs(wanted: Plan, **runner: Any) -> dict[str, dict[str, Run]]:
    made = Simulated(wanted, **runner)
    return {case.name: made.perform(case) for case in cases(wanted)}


def verdicts(checks: list[Check]) -> dict[str, str]:
    return {check.name: check.verdict for check in checks if check.verdict not in ("passed", "skipped")}


def test_loads_are_started_read_killed_and_judged(tmp_path: Path) -> None:
    wanted = plan()
    report = run_suite(wanted, Commands(wanted), NOW)
    assert verdicts(list(report.checks)) == {}
    assert (report.accepted, report.verdict, report.source) == (True, "accepted", "measured here")
    victim, killed = (report.runs["neighbour-killed"][role] for role in ("victim", "neighbour-compute"))
    assert (victim.status, len(victim.seconds)) == (0, 300)
    assert killed.status is None
    assert killed.ends[-1] < victim.ends[-1], "it was killed before the victim was done"
    assert report.runs["beside-hog"]["hog"].error == "out of memory"
    assert "device-side assert" in report.runs["beside-faulty"]["faulty"].error
    # Kept, read again and judged again, it says the same.
    keep(tmp_path, [run for of_case in report.runs.values() for run in of_case.values()])
    again = run_suite(wanted, Recorded(tmp_path), NOW)
    assert again.checks == report.checks
    assert again.accepted
    assert "not measured here" in again.source


def test_a_neighbour_that_is_not_at_work_proves_nothing() -> None:
    wanted = plan()
    found = runs(wanted)
    gone = replace(found["beside-compute"]["neighbour-compute"], status=1, error="no such image")
    found["beside-compute"]["neighbour-compute"] = gone
    checks = judge(wanted, found)
    assert verdicts(checks) == {"slowdown beside compute": "unknown", "jitter beside compute": "unknown"}
    assert any("no such image" in check.why for check in checks)
    assert not accepted(checks)


@pytest.mark.parametrize(
    ("slowdown", "failed"),
    [
        (1.04, set()),
        (1.2, {"share redeemed beside compute"}),
        (
            1.3,
            {
                "share redeemed beside compute",
                "slowdown beside compute",
                "slowdown while a neighbour tries",
                "slowdown while a neighbour breaks",
            },
        ),
    ],
)
def test_interference_is_judged_by_the_thresholds(slowdown: float, failed: set[str]) -> None:
    wanted = plan(share=0.5, neighbour_share=0.5)
    checks = judge(wanted, runs(wanted, slowdown=slowdown))
    assert {name for name in verdicts(checks) if name != "slowdown while a neighbour is killed"} == failed
    (found,) = [check.value for check in checks if check.name == "slowdown beside compute"]
    assert found == pytest.approx(slowdown, rel=0.01), "S of its share, not of the whole device"


def test_a_hog_that_gets_its_memory_and_a_filler_that_does_not_fail() -> None:
    wanted = plan()
    found = runs(wanted)
    given = replace(found["beside-hog"]["hog"], seconds=(0.01,), status=None)
    none = replace(found["beside-filler"]["filler"], seconds=(), status=1, error="out of memory")
    found["beside-hog"]["hog"], found["beside-filler"]["filler"] = given, none
    failed = verdicts(judge(wanted, found))
    assert failed == {"memory beyond the limit is refused": "failed", "guaranteed memory is given": "failed"}


def test_a_victim_that_a_neighbours_death_ends_fails() -> None:
    wanted = plan()
    found = runs(wanted)
    victim = found["neighbour-killed"]["victim"]
    found["neighbour-killed"]["victim"] = replace(victim, seconds=victim.seconds[:100], status=1, error="CUDA error")
    said = verdicts(judge(wanted, found))
    assert said["the victim does all its steps while a neighbour is killed"] == "failed"
    assert said["slowdown while a neighbour is killed"] == "unknown"


def test_a_neighbour_that_gets_more_than_its_share_fails_only_where_the_limit_is_hard() -> None:
    for hard in (True, False):
        wanted = plan(hard_limit=hard, share=0.5, neighbour_share=0.2)
        found = runs(wanted)
        neighbour = found["beside-compute"]["neighbour-compute"]
        ends = tuple(0.01 * n for n in range(1, 5000))  # as fast as alone
        found["beside-compute"]["neighbour-compute"] = replace(neighbour, ends=ends)
        expected = {"compute stays within its share": "failed"} if hard else {}
        assert verdicts(judge(wanted, found)) == expected


def test_throughput_may_not_have_fallen_since_an_earlier_report() -> None:
    wanted = plan()
    found = runs(wanted)
    now = {check.name: check for check in judge(wanted, found, {"alone-1": 100.0, "beside-gone": 50.0})}
    assert now["throughput alone-1"].verdict == "passed"
    assert now["throughput beside-gone"].verdict == "unknown"
    assert verdicts(judge(wanted, found, {"alone-1": 120.0})) == {"throughput alone-1": "failed"}


def test_quantiles_are_steps_that_were_and_few_steps_have_no_p99() -> None:
    found = of_seconds([0.01] * 297 + [0.02, 0.03, 0.04])
    assert found is not None
    assert (found.p50, found.p99, found.jitter) == (0.01, 0.01, 1.0)
    found = of_seconds([0.01] * 296 + [0.02, 0.02, 0.03, 0.04])
    assert found is not None
    assert (found.p99, found.jitter) == (0.02, 2.0)
    few = of_seconds([0.01] * 299)
    assert few is not None
    assert (few.p50, few.p99, few.jitter) == (0.01, None, None)
    assert of_seconds([]) is None


def test_made_up_runs_are_said_so_and_prove_nothing(tmp_path: Path) -> None:
    wanted = load_plan(DEFAULT)
    report = run_suite(wanted, Simulated(wanted), NOW)
    assert verdicts(list(report.checks)) == {}
    assert (report.accepted, report.verdict) == (False, "NOT MEASURED")
    written, page = report.write(tmp_path)
    assert "MADE UP" in page.read_text(encoding="utf-8").split("<h2>Checks")[0]
    assert json.loads(written.read_text(encoding="utf-8"))["accepted"] is False
    with pytest.raises(AlertError, match="are simulated"):
        earlier_throughputs(written)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("name: x", "loads"),
        ("name: x\nloads: {victim: {command: []}, neighbours: {}}", "loads.victim.command"),
        ("name: x\nsteps: 10\nloads: {victim: {command: [a]}, neighbours: {b: {command: [c]}}}", "steps"),
        ("{", "not YAML"),
    ],
)
def test_a_plan_that_is_of_no_use_names_the_key(tmp_path: Path, text: str, says: str) -> None:
    path = tmp_path / "plan.yaml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(AlertError, match=says):
        load_plan(path)


def test_a_command_that_is_not_there_is_said_in_one_line() -> None:
    wanted = plan(loads={"victim": {"command": ["/nowhere/load"]}})
    with pytest.raises(AlertError, match="'/nowhere/load': cannot be started"):
        run_suite(wanted, Commands(wanted), NOW)
