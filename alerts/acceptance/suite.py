"""The whole suite: every case once, then the verdicts."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Mapping
from datetime import datetime

from alerts.acceptance.checks import cases, judge
from alerts.acceptance.plan import Plan
from alerts.acceptance.report import Report
from alerts.acceptance.runs import Run, Runner
from alerts.acceptance.simulated import Simulated


def run_suite(
    plan: Plan,
    runner: Runner,
    now: datetime,
    earlier: Mapping[str, float] | None = None,
    on_case: Callable[[str], None] = lambda name: None,
) -> Report:
    """Performs the cases one after the other and judges them.

    earlier: throughputs of an earlier report, by case.   on_case: told of each case before it runs.
    Errors: AlertError if a command cannot be started, or a recording lacks a run.
    """
    runs: dict[str, Mapping[str, Run]] = {}
    for case in cases(plan):
        on_case(case.name)
        runs[case.name] = runner.perform(case)
    measured = not isinstance(runner, Simulated)
    return Report(plan, runs, judge(plan, runs, earlier), runner.source, measured, now)


def has_gpu() -> bool:
    """Whether the built-in loads can run here: PyTorch is installed and sees a device."""
    if importlib.util.find_spec("torch") is None:
        return False
    return bool(importlib.import_module("torch").cuda.is_available())
