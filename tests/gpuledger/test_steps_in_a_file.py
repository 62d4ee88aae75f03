"""Progress where nobody looks at a terminal: a log tells early, and rarely, that a step still runs."""

from __future__ import annotations

import io
import threading

import pytest
from rich.console import Console

from gpuledger.steps import Steps


def test_a_step_that_lasts_is_reported_after_two_seconds_and_then_each_half_minute(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As found: minutes of an empty log until the first step was over."""
    now = 100.0
    monkeypatch.setattr("gpuledger.steps.time.monotonic", lambda: now)
    log = io.StringIO()
    with Steps(Console(file=log), threading.Event()).step("Ingest") as step:
        step.update(detail="placing jobs")
        assert not log.getvalue(), "most steps are over sooner"
        for now in (102.0, 103.0, 131.0, 132.0):
            step.update(detail=f"{now:.0f} records")
    assert log.getvalue().splitlines() == [
        "Ingest     102 records ... (2 s so far)",
        "Ingest     132 records ... (32 s so far)",
        "Ingest     132 records (32.0 s)",
    ]
