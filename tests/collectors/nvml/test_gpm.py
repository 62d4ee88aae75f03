"""GPM: shares between two cycles, per device and MIG instance, every sample freed."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from collectors.nvml import gpm
from collectors.nvml.gpm import Gpm
from collectors.nvml.library import Nvml
from tests.collectors.nvml.fake_nvml import NO_PERMISSION, FakeDriver, FakeMig, ampere, cut, hopper, installed


@pytest.fixture
def driver() -> Iterator[FakeDriver]:
    with installed(FakeDriver(hopper(), cut(hopper(1), (3, 40), (1, 10)))) as driver:
        driver.started = True
        yield driver


def test_the_first_cycle_knows_nothing_and_the_second_what_was_between(driver: FakeDriver) -> None:
    meter, gpu = Gpm(Nvml()), driver.gpus[0]
    first = meter.measure(gpu.pointer, ("a",), None, driver.now)
    driver.advance(10)
    second = meter.measure(gpu.pointer, ("a",), None, driver.now)
    assert {(one.state, one.value) for one in first.values()} == {("blank", None)}
    assert {metric: one.value for metric, one in second.items()} == {
        "graphics_active": 0.9,
        "sm_active": 0.8,
        "sm_occupancy": 0.4,
        "tensor_active": 0.3,
        "dram_active": 0.5,
        "pcie_transmit_bytes_per_second": 100 * 2**20,
        "pcie_receive_bytes_per_second": 200 * 2**20,
        "nvlink_transmit_bytes_per_second": 20 * 2**20,
        "nvlink_receive_bytes_per_second": 10 * 2**20,
        "context_switch_active": 0.125,
        "context_switch_requests_per_second": 60.0,
    }


def test_context_switches_that_the_driver_does_not_count_are_not_none(driver: FakeDriver) -> None:
    """Driver 580 on an H100: success and 0 for every engine, cycles elapsed included, while two contexts alternate."""
    meter, gpu = Gpm(Nvml()), driver.gpus[0]
    gpu.gpm |= dict.fromkeys((170, 172, 174, 175, 177, 179), 0.0)
    meter.measure(gpu.pointer, ("a",), None, driver.now)
    driver.advance(10)
    found = meter.measure(gpu.pointer, ("a",), None, driver.now)
    for metric in ("context_switch_active", "context_switch_requests_per_second"):
        assert (found[metric].state, found[metric].value) == ("unsupported", None)
    assert found["sm_active"].value == 0.8


def test_an_engine_that_switched_nothing_while_it_was_counted_is_zero(driver: FakeDriver) -> None:
    meter, gpu = Gpm(Nvml()), driver.gpus[0]
    gpu.gpm |= dict.fromkeys((172, 174, 177, 179), 0.0)
    meter.measure(gpu.pointer, ("a",), None, driver.now)
    driver.advance(10)
    found = meter.measure(gpu.pointer, ("a",), None, driver.now)
    assert (found["context_switch_active"].state, found["context_switch_active"].value) == ("ok", 0.0)


def test_each_instance_is_measured_by_itself(driver: FakeDriver) -> None:
    meter, gpu = Gpm(Nvml()), driver.gpus[1]
    gpu.migs[0].gpm[2] = 10.0
    for _ in range(2):
        found = [meter.measure(gpu.pointer, (mig.uuid,), mig.gi, driver.now) for mig in gpu.migs.values()]
        driver.advance(10)
    assert [one["sm_active"].value for one in found] == [0.1, 0.8]
    assert found[0]["nvlink_transmit_bytes_per_second"].state == "unsupported"
    assert found[0]["context_switch_active"].state == "unsupported"


def test_samples_too_close_together_tell_nothing(driver: FakeDriver) -> None:
    meter, gpu = Gpm(Nvml()), driver.gpus[0]
    meter.measure(gpu.pointer, ("a",), None, driver.now)
    driver.advance(0.05)
    assert meter.measure(gpu.pointer, ("a",), None, driver.now)["sm_active"].state == "blank"


def test_an_instance_made_again_under_its_old_id_starts_over(driver: FakeDriver) -> None:
    """Between a sample of the old instance and one of the new lies garbage."""
    meter, gpu = Gpm(Nvml()), driver.gpus[1]
    meter.measure(gpu.pointer, ("a", gpu.migs[0].uuid), 7, driver.now)
    new = FakeMig("MIG-again", 7, 3, 40)
    new.gpm = {2: 55.0}
    driver.cut(gpu, new)
    driver.advance(10)
    assert meter.measure(gpu.pointer, ("a", "MIG-again"), 7, driver.now)["sm_active"].state == "blank"
    driver.advance(10)
    assert meter.measure(gpu.pointer, ("a", "MIG-again"), 7, driver.now)["sm_active"].value == pytest.approx(0.55)


@pytest.mark.parametrize(("percent", "share"), [(100.3, 1.0), (100.0, 1.0), (0.0, 0.0), (151.0, None), (-3.0, None)])
def test_rounding_above_one_is_one_and_garbage_is_blank(
    driver: FakeDriver, percent: float, share: float | None
) -> None:
    meter, gpu = Gpm(Nvml()), driver.gpus[0]
    gpu.gpm[2] = percent
    meter.measure(gpu.pointer, ("a",), None, driver.now)
    driver.advance(10)
    found = meter.measure(gpu.pointer, ("a",), None, driver.now)["sm_active"]
    assert (found.value, found.state) == (share, "blank" if share is None else "ok")


def test_samples_do_not_pile_up_and_are_all_freed(driver: FakeDriver) -> None:
    meter = Gpm(Nvml())
    for cycle in range(50):
        gpu = driver.gpus[1]
        driver.cut(gpu, FakeMig(f"MIG-{cycle}", 7, 1, 10))
        meter.measure(driver.gpus[0].pointer, ("a",), None, driver.now)
        meter.measure(gpu.pointer, (f"MIG-{cycle}",), 7, driver.now)
        meter.keep({("a",), (f"MIG-{cycle}",)})
        driver.advance(1)
        assert len(driver.samples) == 4
    meter.close()
    assert driver.samples == {}
    assert driver.calls["nvmlGpmSampleAlloc"] == driver.calls["nvmlGpmSampleFree"]


def test_a_denied_sample_is_no_permission_and_what_follows_starts_over(driver: FakeDriver) -> None:
    meter, gpu = Gpm(Nvml()), driver.gpus[0]
    meter.measure(gpu.pointer, ("a",), None, driver.now)
    gpu.errors["nvmlGpmSampleGet"] = NO_PERMISSION
    driver.advance(10)
    assert meter.measure(gpu.pointer, ("a",), None, driver.now)["sm_active"].state == "no_permission"
    del gpu.errors["nvmlGpmSampleGet"]
    driver.advance(10)
    assert meter.measure(gpu.pointer, ("a",), None, driver.now)["sm_active"].state == "blank"


def test_a_library_that_cannot_allocate_leaves_nothing_behind(driver: FakeDriver) -> None:
    meter = Gpm(Nvml())
    driver.errors["nvmlGpmSampleAlloc"] = 20
    found = meter.measure(driver.gpus[0].pointer, ("a",), None, driver.now)
    assert found == gpm.silent("blank")
    meter.close()
    assert driver.samples == {}


def test_before_hopper_there_is_none() -> None:
    with installed(FakeDriver(ampere())) as driver:
        driver.started = True
        assert Nvml().gpm_supported(driver.gpus[0].pointer) == "unsupported"


def test_each_engine_has_five_metrics() -> None:
    """The numbers of engines 1 to 7 are reckoned from engine 0's."""
    import pynvml

    for engine in range(8):
        assert gpm.SWITCH_ELAPSED[engine] == getattr(pynvml, f"NVML_GPM_METRIC_GR{engine}_CTXSW_CYCLES_ELAPSED")
        assert gpm.SWITCH_ACTIVE[engine] == getattr(pynvml, f"NVML_GPM_METRIC_GR{engine}_CTXSW_ACTIVE_PCT")
        assert gpm.SWITCH_REQUESTS[engine] == getattr(pynvml, f"NVML_GPM_METRIC_GR{engine}_CTXSW_REQUESTS")
