"""Notes on quantities so small that two digits show none of them."""

from __future__ import annotations

from pathlib import Path

from tests.gpuledger.running import run

TUTORIAL = Path(__file__).parents[2] / "docs" / "tutorial"
EVENTS = """\
ts,cluster,source,allocation_id,event,tenant,gpus,node,device_id
2026-09-02T08:00:00Z,lab,lab-scheduler,short-1,started,vision,1,gpu-1,GPU-1a
2026-09-02T08:00:10Z,lab,lab-scheduler,short-1,finished,vision,1,,
"""


def test_seconds_without_telemetry_are_no_zero_hours(tmp_path: Path) -> None:
    """As found: "0.00 GPU-hours were held while no telemetry said whether they were used"."""
    store = ("--store", f"chdb://{tmp_path}/store")
    (tmp_path / "events.csv").write_text(EVENTS)
    run("ingest devices", str(TUTORIAL / "devices.csv"), *store)
    run("ingest events", str(tmp_path / "events.csv"), *store)
    run("rates apply", str(TUTORIAL / "rates.yaml"), *store)
    run("close --until 2026-09-30T22:00Z", *store)
    said = run("invoice draft --period 2026-09", *store).output
    assert "Less than 0.01 GPU-hours were held while no telemetry said whether they were used." in said
