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


def recorded(name: str) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The header, and the device's reading in each cycle."""
    header, *cycles = lines(Path(__file__).parent / "recordings" / f"{name}.jsonl")
    return header, [cycle["readings"][0] for cycle in cycles]


def activity(reading: dict[str, Any]) -> dict[int, float]:
    return {one["pid"]: one["activity"]["value"] for one in reading["processes"]}


def test_on_an_h100_processes_share_what_the_device_did_but_a_sampling_period_has_one_owner() -> None:
    """Both work in the same fifth of a second, the driver's sampling period: all of it goes to the busier one."""
    header, readings = recorded("h100-two-processes")
    busier, other = (load["pid"] for load in header["loads"])
    for reading in readings[2:]:
        shares = activity(reading)
        whole = reading["readings"]["gpu_utilization"]["value"]
        assert shares[busier] + shares[other] == pytest.approx(whole, abs=0.02)
        assert whole == pytest.approx(header["loads"][0]["duty"], abs=0.03)
        assert shares[other] == 0


def test_on_an_h100_two_that_fill_the_device_share_it_to_within_a_sixth() -> None:
    """Of what each did alone, the products did 44 % and the copies 54 %."""
    header, readings = recorded("h100-interference")
    for load, share in zip(header["loads"], (0.44, 0.54), strict=True):
        seen = [activity(reading)[load["pid"]] for reading in readings[2:]]
        assert sum(seen) / len(seen) == pytest.approx(share, abs=1 / 6)


def test_on_an_h100_a_process_that_ended_is_gone_in_the_next_cycle() -> None:
    header, readings = recorded("h100-ends-midway")
    assert {pid for reading in readings[:6] for pid in activity(reading)} == {header["loads"][0]["pid"]}
    assert [reading["processes_state"] for reading in readings[6:]] == ["idle"] * 4
    assert [reading["readings"]["memory_used_bytes"]["value"] for reading in readings[6:]] == [0] * 4


def test_on_an_h100_memory_held_without_work_is_idle_at_the_power_of_a_context() -> None:
    header, readings = recorded("h100-idle-holder")
    for reading in readings[1:]:
        (process,) = reading["processes"]
        assert process["memory_bytes"]["value"] > header["loads"][0]["torch_bytes"]
        assert (process["activity"]["value"], reading["readings"]["sm_active"]["value"]) == (0, 0)
        assert 100 < reading["readings"]["power_watts"]["value"] < 130


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
