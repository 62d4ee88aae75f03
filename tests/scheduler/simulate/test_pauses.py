"""Jobs that a trace suspends: what they lose, hold and wait for."""

from __future__ import annotations

import json
from pathlib import Path

from collectors.readings import Row
from scheduler.model import Device, Node
from scheduler.setup import Setup
from scheduler.simulate.run import simulate
from scheduler.simulate.traces import read

TRACE = """job_id,submitted_at,run_seconds,gpus,checkpoint_seconds,suspended_at,resumed_at
long,0,1000,4,300,500,800
next,10,100,4,,,
queued,20,50,4,,30,5000
never,30,50,4,,40,
"""


def test_a_suspended_job_keeps_its_checkpoints_and_holds_nothing(tmp_path: Path) -> None:
    (tmp_path / "jobs.csv").write_text(TRACE)
    trace = read(tmp_path / "jobs.csv")
    rows: list[Row] = []
    nodes = [Node("n", tuple(Device(f"n/{number}", "A100") for number in range(4)))]
    setup = Setup("x", nodes)
    simulate(trace.jobs, setup, emit=lambda record, more: rows.extend(more if record == "events" else ()), curves=False,
             pauses=trace.pauses)  # fmt: skip
    events = list(dict.fromkeys((row["ts"].timestamp(), row["allocation_id"], row["event"]) for row in rows))
    assert [one for one in events if one[2] != "submitted"] == [
        (0.0, "long", "started"),
        (30.0, "queued", "suspended"),
        (40.0, "never", "suspended"),
        (500.0, "long", "suspended"),
        (500.0, "next", "started"),
        (600.0, "next", "finished"),
        (800.0, "long/2", "started"),
        (1500.0, "long/2", "finished"),
        (5000.0, "queued/2", "started"),
        (5050.0, "queued/2", "finished"),
    ], "of 500 s of work, 300 were saved: 700 are left at 800"
    assert all(json.loads(row["message"])["sequence"] for row in rows)
