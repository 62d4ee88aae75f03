"""The boundary: every outcome of a call becomes a state, and nothing that is unknown becomes zero."""

from __future__ import annotations

from collections.abc import Iterator

import pynvml
import pytest

from collectors.nvml import library
from collectors.nvml.library import Answer, Nvml, NvmlDeviceError, NvmlLibraryError, reading
from tests.collectors.nvml.fake_nvml import (
    DRIVER_NOT_LOADED,
    GPU_IS_LOST,
    MISMATCH,
    NO_PERMISSION,
    NOT_FOUND,
    NOT_SUPPORTED,
    RESET_REQUIRED,
    FakeDriver,
    FakeProcess,
    ampere,
    installed,
)


@pytest.fixture
def driver() -> Iterator[FakeDriver]:
    with installed(FakeDriver(ampere())) as driver:
        yield driver


@pytest.fixture
def nvml(driver: FakeDriver) -> Nvml:
    nvml = Nvml()
    nvml.start()
    return nvml


@pytest.mark.parametrize(
    ("code", "state"),
    [
        (NOT_SUPPORTED, "unsupported"),
        (NO_PERMISSION, "no_permission"),
        (21, "blank"),
        (999, "blank"),
        (10, "blank"),
        (77, "blank"),
    ],
)
def test_a_code_becomes_a_state_without_a_value(driver: FakeDriver, nvml: Nvml, code: int, state: str) -> None:
    driver.gpus[0].errors["nvmlDeviceGetEnforcedPowerLimit"] = code
    answer = nvml.number("nvmlDeviceGetEnforcedPowerLimit", driver.gpus[0].pointer)
    found = reading(answer, "limit")
    assert (found.state, found.value) == (state, None)


def test_a_function_that_an_old_driver_lacks_is_unsupported(driver: FakeDriver, nvml: Nvml) -> None:
    driver.missing.add("nvmlDeviceGetMPSComputeRunningProcesses_v3")
    answer = nvml.processes(driver.gpus[0].pointer, "mps")
    assert (answer.code, answer.state) == (library.FUNCTION_NOT_FOUND, "unsupported")


def test_a_function_that_the_binding_lacks_is_unsupported(nvml: Nvml) -> None:
    assert nvml.ask("nvmlDeviceGetTheWeather").state == "unsupported"


@pytest.mark.parametrize("code", [GPU_IS_LOST, RESET_REQUIRED])
def test_a_device_that_is_gone_ends_its_questions(driver: FakeDriver, nvml: Nvml, code: int) -> None:
    driver.gpus[0].fault = code
    with pytest.raises(NvmlDeviceError) as raised:
        nvml.memory(driver.gpus[0].pointer)
    assert raised.value.code == code


def test_a_driver_of_another_version_needs_a_restart(driver: FakeDriver) -> None:
    driver.errors["nvmlInitWithFlags"] = MISMATCH
    with pytest.raises(NvmlLibraryError, match="restart the agent") as raised:
        Nvml().start()
    assert raised.value.restart_needed


def test_a_driver_that_is_not_loaded_needs_none(driver: FakeDriver) -> None:
    driver.errors["nvmlInitWithFlags"] = DRIVER_NOT_LOADED
    with pytest.raises(NvmlLibraryError, match="lsmod") as raised:
        Nvml().start()
    assert not raised.value.restart_needed


def test_without_a_library_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pynvml, "nvmlLib", None)
    monkeypatch.setattr(pynvml, "_nvmlGetFunctionPointer_cache", {})
    monkeypatch.setattr(pynvml, "CDLL", lambda name: (_ for _ in ()).throw(OSError(name)))
    with pytest.raises(NvmlLibraryError, match=r"Not Found\. Install the NVIDIA driver"):
        Nvml().start()


def test_process_utilization_without_processes_is_recognized_by_two_codes(driver: FakeDriver, nvml: Nvml) -> None:
    handle = driver.gpus[0].pointer
    assert nvml.process_utilization(handle, 0).code == NOT_FOUND
    driver.gpus[0].process_mode = "success without samples"
    assert nvml.process_utilization(handle, 0) == Answer(0, [])


@pytest.mark.parametrize("function", ["nvmlDeviceGetProcessUtilization", "nvmlDeviceGetComputeRunningProcesses_v3"])
def test_a_buffer_that_grows_between_the_calls_is_asked_for_again(
    driver: FakeDriver, nvml: Nvml, function: str
) -> None:
    gpu = driver.gpus[0]
    gpu.processes = [FakeProcess(pid, sm=5.0) for pid in range(100, 130)]
    driver.small[function] = [1, 2]
    if function.endswith("_v3"):
        found = {one.pid for one in nvml.processes(gpu.pointer, "compute").value or ()}
    else:
        found = {one.pid for one in nvml.process_utilization(gpu.pointer, 0).value or ()}
    assert found == set(range(100, 130))
    assert driver.small[function] == []


def test_a_buffer_that_never_stops_growing_is_blank(driver: FakeDriver, nvml: Nvml) -> None:
    gpu = driver.gpus[0]
    gpu.processes = [FakeProcess(pid) for pid in range(100, 130)]
    driver.small["nvmlDeviceGetComputeRunningProcesses_v3"] = [1] * 100
    answer = nvml.processes(gpu.pointer, "compute")
    assert (answer.state, answer.value) == ("blank", None)


def test_memory_of_an_old_driver_has_no_reserved(driver: FakeDriver, nvml: Nvml) -> None:
    driver.missing.add("nvmlDeviceGetMemoryInfo_v2")
    memory = nvml.memory(driver.gpus[0].pointer).value
    assert memory is not None
    assert (memory.reserved, memory.used) == (None, 1 << 30)


def test_each_field_has_its_own_code_and_width(driver: FakeDriver, nvml: Nvml) -> None:
    driver.gpus[0].fields = {94: (1, 7.0), 74: (3, 5e9)}
    found = nvml.fields(driver.gpus[0].pointer, [(94, 0), (74, 0), (82, 0)])
    assert found[94].value == library.FieldValue(7, 32)
    assert found[74].value == library.FieldValue(5_000_000_000, 64)
    assert (found[82].state, found[82].value) == ("unsupported", None)


def test_a_field_answered_with_success_and_nothing_written_is_blank(driver: FakeDriver, nvml: Nvml) -> None:
    """Driver 580 on an H100 answers fields 270 to 273 so: code 0, value type 0, timestamp 0."""
    driver.gpus[0].fields = {269: (3, 0.0), 271: (0, 0.0)}
    found = nvml.fields(driver.gpus[0].pointer, [(269, 0), (271, 0)])
    assert (found[269].state, found[271].state) == ("ok", "blank")
    assert found[271].value is None


def test_a_value_outside_its_range_is_blank_and_not_clipped() -> None:
    assert reading(Answer(0, 101), "x", high=100.0) == library.Reading("blank", None, "x out of range")
    assert reading(Answer(0, float("nan")), "x").state == "blank"
    assert reading(Answer(0, 100), "x", factor=0.01, high=1.0).value == 1.0


def test_success_without_a_value_is_blank() -> None:
    assert Answer(0).state == "blank"
    assert reading(Answer(0), "x") == library.Reading("blank", None, "x")


def test_stopping_after_the_library_failed_is_quiet(driver: FakeDriver, nvml: Nvml) -> None:
    driver.started = False
    nvml.stop()
    assert driver.calls["nvmlShutdown"] == 1
