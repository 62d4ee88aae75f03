"""Recordings: what is written of a run, and that what lies here of real ones agrees with nvidia-smi."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from collectors.nvml import record
from collectors.nvml.collector import NvmlCollector
from tests.collectors.nvml.fake_nvml import FakeDriver, busy_node, cut, hopper, installed

RECORDINGS = sorted((Path(__file__).parent / "recordings").glob("*.jsonl"))
SMI = """\
GPU-00000000-0000-4000-8000-000000000009, Disabled, 40960, 81920, 51, 400.00, 88, 549.10, 1410
"""


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.mark.parametrize("path", RECORDINGS or [None], ids=lambda path: path.stem if path else "none")
def test_a_recorded_run_agrees_with_nvidia_smi(path: Path | None) -> None:
    if path is None:
        pytest.skip("no real GPU was recorded yet (python -m collectors.nvml.record); nothing to replay")
    header, *cycles = lines(path)
    assert header["driver"]
    assert cycles
    differing = [words for cycle in cycles if (words := record.disagreements(cycle))]
    assert len(differing) <= len(cycles) // 10, differing
    for cycle in cycles:
        for one in cycle["readings"]:
            for metric, reading in one["readings"].items():
                assert (reading["value"] is not None) == (reading["state"] in ("ok", "idle")), metric


def test_a_run_is_written_a_cycle_a_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(record, "smi", lambda: record.parse_smi(SMI))
    path = tmp_path / "run.jsonl"
    with installed(busy_node(1, 10)):
        assert record.main([str(path), "--cycles", "3", "--interval", "0.001"]) == 0
    header, *cycles = lines(path)
    assert header["driver"] == "580.65.06"
    assert len(cycles) == 3
    (one,) = cycles[1]["readings"]
    assert one["model"] == "NVIDIA H100 80GB HBM3"
    assert one["readings"]["memory_used_bytes"]["value"] == 40 << 30
    assert "3 cycles" in capsys.readouterr().out


def test_what_differs_from_nvidia_smi_is_named() -> None:
    with installed(FakeDriver(hopper())) as driver:
        collector = NvmlCollector(watch_xids=False)
        cycle = collector.collect(driver.at)
        collector.close()
    line = json.loads(json.dumps(record.line_of(cycle, driver.at, record.parse_smi(SMI)), default=str))
    uuid = driver.gpus[0].uuid
    assert record.disagreements(line) == [f"{uuid}: memory_used_bytes 0, nvidia-smi 4.29497e+10"]
    other = SMI.replace("GPU-00000000", "GPU-00000099") + SMI.replace("40960", "[N/A]")
    line["smi"] = record.parse_smi(other)
    assert record.disagreements(line) == [f"{line['smi'][0]['uuid']}: nvidia-smi has it, the readings do not"]


def test_without_nvidia_smi_nothing_differs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    assert record.smi() is None
    assert record.disagreements({"smi": None, "readings": []}) == []


def test_nvidia_smi_is_asked_and_a_failure_of_its_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "nvidia-smi"
    program.write_text(f'#!/bin/sh\necho "{SMI.strip()}"\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    said = record.smi()
    assert said is not None
    assert said[0]["memory.used"] == "40960"
    program.write_text("#!/bin/sh\nexit 9\n")
    assert record.smi() is None


def test_a_node_without_a_gpu_has_nothing_to_record(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with installed(FakeDriver(cut(hopper()))) as driver:
        driver.errors["nvmlInitWithFlags"] = 12
        assert record.main([str(tmp_path / "run.jsonl")]) == 2
    assert "libnvidia-ml.so.1" in capsys.readouterr().err
    assert not (tmp_path / "run.jsonl").exists()
