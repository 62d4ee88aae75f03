"""The month of a large fleet on a tiny one: every step runs, carries on, and is reported whatever fails."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from bench.apart import BenchError, run_command
from bench.scale import BY_HAND, STEPS, Case, Measured, Run, report
from tests.draws import seldom

PYTHON = [sys.executable, "-c"]
MONTH = 1_440 * 30


def step(cpu: float, peak_mib: float) -> dict[str, float]:
    return {"seconds": 2 * cpu, "cpu_seconds": cpu, "peak_bytes": peak_mib * 2**20, "bytes": 2**30}


@seldom(8, "bench of scale")
def test_a_tiny_month_runs_to_its_exports_and_is_not_measured_twice(tmp_path: Path) -> None:
    measured = Measured(tmp_path / "measured.json")
    run = Run(Case(3, 1, invoiced=True), tmp_path / "case", measured, 1 << 40, 1)
    run.all(by_hand=True)
    saved = (tmp_path / "measured.json").read_text()
    steps = json.loads(saved)["cases"]["3 GPUs, a month with 1 days of samples"]["steps"]
    assert set(steps) >= {*STEPS, *BY_HAND}
    assert all(found["cpu_seconds"] >= 0 and found["peak_bytes"] > 0 for found in steps.values())
    assert steps["export focus.parquet"]["bytes"] > 0
    assert not (tmp_path / "case").exists(), "stores are removed, measurements stay"
    run.all(by_hand=True)
    assert not (tmp_path / "case").exists(), "nothing is begun again"
    assert (tmp_path / "measured.json").read_text() == saved


def test_a_step_that_fails_leaves_those_before_and_one_that_was_cut_short_is_marked(tmp_path: Path) -> None:
    measured = Measured(tmp_path / "measured.json")
    run = Run(Case(3, 30, invoiced=True), tmp_path, measured, 1 << 40, 1)

    def breaks() -> dict[str, float]:
        raise BenchError("cut short")

    run._keep("close", lambda: step(1, 100))
    with pytest.raises(BenchError, match="cut short"):
        run._keep("verify", breaks)
    run._keep("DuckDB", lambda: None)
    carried = Measured(tmp_path / "measured.json")
    again = Run(Case(3, 30, invoiced=True), tmp_path, carried, 1 << 40, 1)
    assert again._keep("close", breaks) == {**step(1, 100), "restarted": False}
    assert again._keep("DuckDB", breaks) is None
    again._keep("verify", lambda: step(2, 100))
    lines = list(report(carried.document))
    assert "| close | 2.0 | 1.0 | 100 | 1,024 |" in lines
    assert "| verify (restarted) | 4.0 | 2.0 | 100 | 1,024 |" in lines
    assert "| DuckDB | out of memory | | | |" in lines


def test_growth_is_of_a_sample_and_says_what_100_000_gpus_would_need() -> None:
    def case(devices: int, cpu: float, peak: float) -> dict[str, Any]:
        return {"samples": devices * MONTH, "steps": {name: step(cpu, peak) for name in STEPS}}

    cases = {"small": case(1_000, 36.0, 512.0), "large": case(10_000, 720.0, 1024.0)}
    lines = list(report({"runs": [], "cases": cases}))
    (close,) = (line for line in lines if line.startswith("| close | 1.00"))
    assert close == "| close | 1.00; 1.00 | 2.00; 2.00 | 1.30 |"
    assert "ingest 4.0 CPU hours a month (0.006 of a core" in lines[-1]
    assert "2.0 GiB of memory for the close" in lines[-1]
    del cases["large"]["steps"]["invoice issue"]
    assert not any("100,000 GPUs" in line for line in report({"runs": [], "cases": cases})), "a month that failed"


def test_a_command_costs_what_its_process_did_and_is_ended_when_too_large(tmp_path: Path) -> None:
    output = tmp_path / "out"
    work = "import time; x = b'1' * (80 << 20)\nwhile time.process_time() < 0.3: pass\nprint('done')"
    cost = run_command([*PYTHON, work], 1 << 40, output)
    assert output.read_text() == "done\n"
    assert cost is not None
    assert cost["cpu_seconds"] >= 0.3
    assert cost["peak_bytes"] >= 80 << 20
    assert run_command([*PYTHON, "x = b'1' * (300 << 20)\nimport time; time.sleep(600)"], 200 << 20, output) is None
    with pytest.raises(BenchError, match="exit 3"):
        run_command([*PYTHON, "raise SystemExit(3)"], 1 << 40, output)
