"""`gpuledger acceptance`: its exit status, and what it says where there is no GPU."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from alerts.acceptance import suite
from alerts.acceptance.checks import cases
from alerts.acceptance.plan import DEFAULT, load_plan
from alerts.acceptance.runs import keep
from alerts.acceptance.simulated import Simulated
from gpuledger.cli import app, build

build()


def test_without_a_gpu_it_says_loudly_that_nothing_was_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(suite, "has_gpu", lambda: False)
    done = CliRunner().invoke(app, ["acceptance", "--out", str(tmp_path)])
    assert done.exit_code == 1
    assert "NOT MEASURED" in done.output
    assert "MADE UP: these numbers were measured nowhere" in done.output
    assert json.loads((tmp_path / "report.json").read_text(encoding="utf-8"))["verdict"] == "NOT MEASURED"
    assert (tmp_path / "report.html").exists()


@pytest.mark.parametrize(("limit", "status"), [(1.25, 0), (1.01, 1)])
def test_a_recording_is_judged_by_the_thresholds_of_the_file(tmp_path: Path, limit: float, status: int) -> None:
    content = yaml.safe_load(DEFAULT.read_text(encoding="utf-8"))
    content["thresholds"] = {"slowdown": limit, "quota": 0.9}
    path = tmp_path / "plan.yaml"
    path.write_text(yaml.safe_dump(content), encoding="utf-8")
    plan = load_plan(path)
    runner = Simulated(plan)
    keep(tmp_path / "kept", [run for case in cases(plan) for run in runner.perform(case).values()])
    done = CliRunner().invoke(
        app,
        [
            "acceptance",
            str(path),
            "--recorded",
            str(tmp_path / "kept"),
            "--out",
            str(tmp_path / "out"),
            "--format",
            "json",
        ],
    )
    assert done.exit_code == status, done.output
    assert json.loads(done.stdout)["accepted"] is (status == 0)
