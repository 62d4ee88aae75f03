"""The bench beside OpenCost: truths by hand, its arithmetic on answers typed here, and all of it where it can run."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from fractions import Fraction
from pathlib import Path

import pytest

from bench import opencost_arithmetic as theirs
from bench.opencost_day import IDLE, REPRICED, START, Job, make_day, write_openmetrics

REPO = Path(__file__).resolve().parent.parent.parent


def test_the_truth_is_by_construction() -> None:
    hour = 3_600_000
    across = Job("a", "a", "a", REPRICED, (24,), 11 * hour, 14 * hour, Fraction(1))
    assert (across.gpu_hours, across.cost) == (3, 1 * 2 + 2 * 3)
    quarter = Job("a", "a", "a", 2, (17,), 0, hour, Fraction(1), Fraction(1, 4))
    assert (quarter.gpu_hours, quarter.cost) == (Fraction(1, 4), Fraction(1, 2))
    day = make_day(40, 7)
    assert day.node_cost(REPRICED) == 8 * (12 * 2 + 12 * 3)
    assert not [job for job in day.jobs if job.node == IDLE]
    assert sum(job.gpu_hours for job in day.jobs if job.namespace == "short") == 1
    assert all(0 <= job.start_ms < job.end_ms < 86_400_000 for job in day.jobs)


def test_the_scrapes_say_running_then_no_longer(tmp_path: Path) -> None:
    day = make_day(40, 7)
    job = next(job for job in day.jobs if job.pod == "early")  # 02:00:20 to 10:00:20
    write_openmetrics(day, tmp_path / "day.om")
    lines = [
        line.rpartition("} ")[2].split()
        for line in (tmp_path / "day.om").read_text().splitlines()
        if line.startswith("kube_pod_container_status_running") and 'pod="early"' in line
    ]
    second = int(START.timestamp())
    assert lines[0] == ["1", str(second + 121 * 60)]
    assert lines[-2:] == [["1", str(second + 600 * 60)], ["0", str(second + 601 * 60)]]
    assert len(lines) == len(job.scrapes) + 1


def test_the_arithmetic_is_opencosts() -> None:
    def answer(pod: str, *at: int) -> dict[str, object]:
        return {"metric": {"namespace": "n", "pod": pod}, "values": [[second, "1"] for second in at]}

    rows = [answer("long", 600, 1200, 7800), answer("once", 600), answer("name", 0, 3600), answer("name", 7200, 10800)]
    pods = theirs._pods(rows, 0, 86400, 300)
    spans = {pod: (found.start, found.end) for (_, pod), found in pods.items()}
    assert spans == {"long": (600, 7800), "once": (450, 750), "name": (0, 10800)}
    gpus = [{"metric": {"namespace": "n", "pod": "long", "node": "a"}, "value": [0, "8"]}]
    theirs._apply_gpus(pods, gpus)
    theirs._apply_usage(pods, [{"metric": {"namespace": "n", "pod": "long"}, "value": [0, "1"]}])
    long = pods["n", "long"]
    assert (long.gpu_hours, long.efficiency) == (16.0, 0.125)
    long.gpu_cost = 32.0
    counts = [{"metric": {"node": "a"}, "value": [0, "8"]}]
    minutes = [{"metric": {"node": "a"}, "values": [[0, "1"], [7200, "1"]]}]
    assert theirs._idle(pods, {"a": 2.5}, counts, minutes) == {"a": 8.0}
    assert theirs._idle(pods, {"a": 1.5}, counts, minutes) == {"a": 0.0}  # never below, as it has it


def test_without_prometheus_it_says_so_in_one_line(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "bench.opencost"]
    done = subprocess.run(command, cwd=REPO, capture_output=True, text=True, check=False, env={"PATH": str(tmp_path)})
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert "no prometheus and no promtool here" in done.stderr


@pytest.mark.slow
@pytest.mark.skipif("GPULEDGER_BENCH" not in os.environ, reason="a bench: GPULEDGER_BENCH=1 runs it")
def test_a_small_fleet_beside_a_real_prometheus(tmp_path: Path) -> None:
    if theirs.missing_programs():
        pytest.skip("no prometheus here (Debian: apt-get install prometheus)")
    command = [sys.executable, "-m", "bench.opencost", "--gpus", "40", "--repeat", "1", "--format", "json"]
    done = subprocess.run(
        [*command, "--dir", str(tmp_path)], cwd=REPO, capture_output=True, text=True, check=False, timeout=500
    )
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    for case in document["cases"]:
        assert case["gpuledger"] == pytest.approx(case["truth"], abs=1e-6), case["name"]
    found = {case["name"]: case["opencost"] for case in document["cases"]}
    assert found["8 GPUs at 100 %: efficiency"] == {"1": 0.125, "5": 0.125}
    assert found["a node with nobody on it: idle"]["1"] == 384.0
    assert not list(tmp_path.iterdir()), "the scratch folder is removed"
