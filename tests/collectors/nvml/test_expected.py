"""What a device must have: our own facts, checked against a published support matrix."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from collectors.nvml import expected
from collectors.nvml.expected import Absences, expectations
from collectors.nvml.library import ARCHITECTURES
from collectors.readings import State

SHARED = Path(__file__).resolve().parents[4] / "shared" / "telemetry"

MATRIX_NAMES = {
    "graphics_active": "gpu.gr_engine_active",
    "sm_active": "gpu.sm_utilization",
    "sm_occupancy": "gpu.sm_occupancy",
    "tensor_active": "gpu.tensor_active",
    "memory_copy_utilization": "gpu.dram_active",
    "encoder_utilization": "gpu.encoder_active",
    "decoder_utilization": "gpu.decoder_active",
    "memory_total_bytes": "gpu.memory.limit",
    "memory_free_bytes": "gpu.memory.free",
    "power_watts": "gpu.power.usage",
    "power_limit_watts": "gpu.power.management_limit",
    "energy_joules": "gpu.total_energy_consumption",
    "energy_joules_total": "gpu.total_energy_consumption",
    "temperature_celsius": "gpu.temperature",
    "sm_clock_hertz": "gpu.clock.speed.sm",
}
"""Ours -> the matrix's. Theirs for SM activity that NVML gives is gpu.sm_utilization; gpu.sm_active may be estimated.
Not in the matrix: gpu_utilization, memory_used_bytes, dram_active (theirs is another thing) and the process list."""
COLUMNS = {"whole": "physical", "mig_parent": "physical", "mig": "mig", "vgpu": "vgpu"}
OLD_EXCEPTIONS = {("memory_free_bytes", "maxwell")}
"""The matrix counts these from Pascal on; NVML's own reference has them on all."""


def test_the_facts_name_known_architectures_modes_and_documented_metrics() -> None:
    names = (Path(__file__).resolve().parents[3] / "docs" / "telemetry.md").read_text()
    for one in expectations():
        assert one.architectures <= set(ARCHITECTURES.values())
        assert one.modes <= set(expected.MODES)
        for metric in one.metrics - {expected.PROCESSES}:
            assert f"`{metric}`" in names, metric


def test_what_we_expect_the_published_matrix_supports() -> None:
    path = SHARED / "support-matrix" / "datadog_gpu_metric_support.csv"
    if not path.exists():
        pytest.skip("the support matrix is not beside this checkout (../shared/telemetry/support-matrix)")
    with path.open(newline="") as file:
        matrix = {row["metric"]: row for row in csv.DictReader(file)}
    wrong = []
    checked = 0
    for architecture in ARCHITECTURES.values():
        for mode, column in COLUMNS.items():
            for metric in sorted(expected.expected(architecture, mode) & set(MATRIX_NAMES)):
                row = matrix[MATRIX_NAMES[metric]]
                checked += 1
                supported = row[column] == "yes" and architecture not in row["unsupported_architectures"].split()
                if not supported and (metric, architecture) not in OLD_EXCEPTIONS:
                    wrong.append((metric, architecture, mode))
    assert wrong == []
    assert checked > 100


def test_the_matrix_s_gpm_metrics_are_expected_from_hopper_on() -> None:
    for metric in ("sm_active", "sm_occupancy", "tensor_active"):
        having = {name for name in ARCHITECTURES.values() if metric in expected.expected(name, "whole")}
        assert having == {"hopper", "blackwell"}


def test_nothing_is_expected_of_what_is_not_known() -> None:
    assert expected.expected("", "whole") == frozenset()
    assert expected.expected("rubin", "whole") == frozenset()


def test_an_unsupported_metric_is_reported_at_once_and_once() -> None:
    absences = Absences()
    found = [absences.look("a", ["power_watts"], {"power_watts": "unsupported"}) for _ in range(10)]
    assert [len(one) for one in found] == [1] + [0] * 9
    assert found[0][0] == expected.Missing("power_watts", "unsupported")


def test_blank_is_given_a_few_cycles() -> None:
    absences = Absences()
    found = [len(absences.look("a", ["sm_active"], {})) for _ in range(6)]
    assert found == [0, 0, 1, 0, 0, 0]


def test_a_metric_that_was_back_in_between_is_reported_again() -> None:
    absences = Absences()
    states: list[State] = ["unsupported", "ok", "unsupported", "idle", "unsupported"]
    assert [len(absences.look("a", ["x"], {"x": state})) for state in states] == [1, 0, 1, 0, 1]


def test_devices_are_apart_and_forgotten_when_they_go() -> None:
    absences = Absences()
    assert absences.look("a", ["x"], {"x": "unsupported"})
    assert absences.look("b", ["x"], {"x": "unsupported"})
    absences.keep(["b"])
    assert absences.look("a", ["x"], {"x": "unsupported"})
    assert not absences.look("b", ["x"], {"x": "unsupported"})
