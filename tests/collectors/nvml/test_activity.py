"""Activity: the mean of the interval, of devices and processes, without what drivers leave in their buffers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collectors.nvml import activity
from collectors.nvml.activity import Window, mean, process_activity
from collectors.nvml.library import Nvml, ProcessSample
from tests.collectors.nvml.fake_nvml import (
    NO_PERMISSION,
    NOT_FOUND,
    NOT_SUPPORTED,
    FakeDriver,
    FakeProcess,
    ampere,
    installed,
)

SECOND = 1_000_000


@pytest.fixture
def driver() -> Iterator[FakeDriver]:
    with installed(FakeDriver(ampere())) as driver:
        driver.started = True
        yield driver


def window(driver: FakeDriver, seconds: float = 10.0) -> Window:
    return Window(round((driver.now - seconds) * 1e6), round(driver.now * 1e6))


def test_utilization_is_the_mean_of_the_interval_and_not_the_last_value(driver: FakeDriver) -> None:
    """Busy for the first 5 of 10 seconds: the current value says 0."""
    start = driver.now
    driver.gpus[0].busy = lambda at: 100.0 if at <= start + 5 else 0.0
    driver.advance(10)
    found = activity.utilization(Nvml(), driver.gpus[0].pointer, window(driver))
    assert found["gpu_utilization"].value == pytest.approx(0.5, abs=0.01)
    assert found["gpu_utilization"].state == "ok"
    rates = Nvml().utilization_rates(driver.gpus[0].pointer).value
    assert rates is not None
    assert rates[0] == 0


def test_samples_before_the_interval_do_not_count(driver: FakeDriver) -> None:
    start = driver.now
    driver.gpus[0].busy = lambda at: 100.0 if at <= start + 5 else 20.0
    driver.advance(10)
    found = activity.utilization(Nvml(), driver.gpus[0].pointer, window(driver, 4.0))
    assert found["gpu_utilization"].value == pytest.approx(0.2)


def test_a_buffer_without_new_samples_leaves_the_current_value_and_says_so(driver: FakeDriver) -> None:
    driver.gpus[0].busy = 30.0
    driver.gpus[0].errors["nvmlDeviceGetSamples"] = NOT_FOUND
    found = activity.utilization(Nvml(), driver.gpus[0].pointer, window(driver))
    assert (found["gpu_utilization"].value, found["gpu_utilization"].source) == (0.3, "nvmlDeviceGetUtilizationRates")
    assert (found["encoder_utilization"].state, found["encoder_utilization"].value) == ("blank", None)


def test_nothing_to_be_had_is_unsupported_and_not_zero(driver: FakeDriver) -> None:
    gpu = driver.gpus[0]
    gpu.errors |= {"nvmlDeviceGetSamples": NOT_SUPPORTED, "nvmlDeviceGetUtilizationRates": NOT_SUPPORTED}
    found = activity.utilization(Nvml(), gpu.pointer, window(driver))
    assert {(one.state, one.value) for one in found.values()} == {("unsupported", None)}


def test_garbage_in_the_buffer_does_not_move_the_mean() -> None:
    span = Window(0, 10 * SECOND)
    samples = [(SECOND, 40), (2 * SECOND, 808334905), (3 * SECOND, 60), (30 * SECOND, 0), (0, 100)]
    assert mean(samples, span, high=100) == 50
    assert mean([(SECOND, 4294967295)], span, high=100) is None


@given(st.lists(st.tuples(st.integers(0, 2**63), st.integers(0, 2**32 - 1)), max_size=50), st.integers(0, 2**62))
def test_whatever_the_buffer_holds_the_mean_is_a_share_or_unknown(samples: list[tuple[int, int]], since: int) -> None:
    found = mean(samples, Window(since, since + 10 * SECOND), high=100)
    assert found is None or 0 <= found <= 100


def sample(pid: int, second: float, sm: int) -> ProcessSample:
    return ProcessSample(pid, round(second * SECOND), sm)


SPAN = Window(100 * SECOND, 110 * SECOND)


def test_one_sample_a_process_is_its_mean_since_the_time_asked_for() -> None:
    """Their times differ: each is when the process was last seen active."""
    dropped: Counter[str] = Counter()
    found = process_activity([sample(7, 103, 40), sample(8, 109, 20)], SPAN, dropped)
    assert found == {7: 0.4, 8: 0.2}
    assert not dropped


def test_of_a_buffer_a_process_that_an_instant_does_not_name_was_idle_then() -> None:
    samples = [sample(7, second, 60) for second in (101, 102, 103, 104)] + [sample(8, 102, 20)]
    assert process_activity(samples, SPAN, Counter()) == {7: 0.6, 8: 0.05}


def test_samples_that_are_old_impossible_or_of_no_process_are_counted_and_not_used() -> None:
    dropped: Counter[str] = Counter()
    samples = [sample(7, 99, 90), sample(8, 105, 4_000), sample(0, 105, 50), sample(9, 105, 10)]
    assert process_activity(samples, SPAN, dropped) == {9: 0.1}
    assert dropped == {"process sample outside the interval": 1, "process sample out of range": 2}


@given(
    st.lists(
        st.builds(ProcessSample, st.integers(0, 2**32 - 1), st.integers(0, 2**63), st.integers(0, 2**32 - 1)),
        max_size=100,
    )
)
def test_whatever_the_driver_returns_a_process_has_a_share(samples: list[ProcessSample]) -> None:
    dropped: Counter[str] = Counter()
    found = process_activity(samples, SPAN, dropped)
    assert all(0 <= share <= 1 for share in found.values())
    assert len(samples) >= dropped.total()


def processes(driver: FakeDriver, mig: bool = False) -> activity.Processes:
    return activity.processes(Nvml(), driver.gpus[0].pointer, window(driver), mig, Counter())


def test_memory_held_at_zero_activity_is_idle_and_not_unknown(driver: FakeDriver) -> None:
    driver.gpus[0].processes = [FakeProcess(4711, memory=70 << 30)]
    driver.advance(10)
    found = processes(driver)
    (only,) = found.readings
    assert (only.activity.state, only.activity.value) == ("idle", 0.0)
    assert only.memory_bytes.value == 70 << 30
    assert found.state == "ok"


def test_a_device_without_processes_is_confirmed_as_such(driver: FakeDriver) -> None:
    driver.advance(10)
    found = processes(driver)
    assert (found.readings, found.state) == ((), "idle")


@pytest.mark.parametrize("mode", ["mean", "buffer"])
def test_two_processes_share_a_device(driver: FakeDriver, mode: str) -> None:
    start = driver.now
    gpu = driver.gpus[0]
    gpu.process_mode = mode
    gpu.processes = [
        FakeProcess(1, sm=lambda at: 80.0 if at <= start + 5 else 40.0),
        FakeProcess(2, sm=lambda at: 20.0 if at > start + 5 else 0.0),
    ]
    driver.advance(10)
    shares = {one.pid: one.activity.value for one in processes(driver).readings}
    assert shares[1] == pytest.approx(0.6, abs=0.01)
    assert shares[2] == pytest.approx(0.1, abs=0.01)


def test_a_process_that_ended_keeps_its_activity_without_memory(driver: FakeDriver) -> None:
    driver.gpus[0].processes = [FakeProcess(5, sm=50.0, dead=driver.now + 4)]
    driver.advance(10)
    (only,) = processes(driver).readings
    assert only.pid == 5
    assert only.activity.value == pytest.approx(0.2, abs=0.02)
    assert (only.memory_bytes.state, only.memory_bytes.value) == ("blank", None)


def test_a_denied_list_is_no_permission_and_not_empty(driver: FakeDriver) -> None:
    driver.gpus[0].errors["nvmlDeviceGetComputeRunningProcesses_v3"] = NO_PERMISSION
    assert processes(driver).state == "no_permission"


def test_a_device_without_mps_or_graphics_lists_is_believed(driver: FakeDriver) -> None:
    driver.gpus[0].processes = [FakeProcess(3)]
    driver.missing |= {"nvmlDeviceGetMPSComputeRunningProcesses_v3", "nvmlDeviceGetGraphicsRunningProcesses_v3"}
    assert processes(driver).state == "ok"


def test_a_process_in_several_lists_is_one(driver: FakeDriver) -> None:
    driver.gpus[0].processes = [
        FakeProcess(3, memory=None, kind="graphics"),
        FakeProcess(3, memory=5, kind="compute"),
        FakeProcess(4, memory=6, kind="compute"),
        FakeProcess(4, memory=6, kind="mps"),
    ]
    found = {one.pid: (one.kind, one.memory_bytes.value) for one in processes(driver).readings}
    assert found == {3: ("compute", 5), 4: ("mps", 6)}


def test_under_mig_processes_are_known_and_their_activity_is_not(driver: FakeDriver) -> None:
    driver.gpus[0].processes = [FakeProcess(3)]
    (only,) = processes(driver, mig=True).readings
    assert (only.activity.state, only.activity.value) == ("unsupported", None)


def test_utilization_denied_is_not_idle(driver: FakeDriver) -> None:
    driver.gpus[0].processes = [FakeProcess(3)]
    driver.gpus[0].errors["nvmlDeviceGetProcessUtilization"] = NO_PERMISSION
    (only,) = processes(driver).readings
    assert only.activity.state == "no_permission"
