"""XIDs: as events, and from the kernel's log."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collectors.nvml import xids
from collectors.nvml.events import XidWatch
from collectors.nvml.library import Nvml
from collectors.nvml.xids import Xid
from tests.collectors.nvml.fake_nvml import (
    GPU_IS_LOST,
    NO_PERMISSION,
    NOT_SUPPORTED,
    UNINITIALIZED,
    FakeDriver,
    hopper,
    installed,
)
from tests.patience import until

SHARED = Path(__file__).resolve().parents[4] / "shared" / "telemetry"
BOOTED = datetime(2027, 1, 1, tzinfo=UTC)
NOW = datetime(2027, 1, 15, 8, tzinfo=UTC)


def first(line: str) -> Xid | None:
    return next(xids.parse([line], BOOTED), None)


TEXT = "NVRM: Xid (PCI:0000:9b:00): 31, pid=4711, name=python, Ch 00000008, intr 10000000"


@pytest.mark.parametrize(
    ("line", "at"),
    [
        (f"4,1234,90000000,-;{TEXT}", BOOTED + timedelta(seconds=90)),
        (f"[   90.500000] {TEXT}", BOOTED + timedelta(seconds=90.5)),
        (f"<4>[90.5] {TEXT}", BOOTED + timedelta(seconds=90.5)),
        (f"[Fri Jan  1 00:01:30 2027] {TEXT}", BOOTED + timedelta(seconds=90)),
        (f"2027-01-01T01:01:30,250000+01:00 {TEXT}", BOOTED + timedelta(seconds=90.25)),
    ],
)
def test_every_form_of_the_log_is_read(line: str, at: datetime) -> None:
    found = first(line)
    assert found == Xid(
        at, 31, "", "00000000:9b:00", None, "pid=4711, name=python, Ch 00000008, intr 10000000", "kernel log"
    )


def test_what_is_no_xid_is_passed_over() -> None:
    lines = [
        "4,1,2,-;NVRM: GPU at PCI:0000:9b:00: GPU-1",
        "4,1,2,-;NVRM: Xid (PCI:0000:9b:00): ",
        f"yesterday {TEXT}",
        "Xid 79",
        "",
    ]
    assert list(xids.parse(lines, BOOTED)) == []


def test_an_instance_is_named() -> None:
    found = first("4,1,2,-;NVRM: Xid (PCI:0000:3b:00 GPU-I:05): 94, pid=1, name=x, Contained")
    assert found is not None
    assert (found.gpu_instance, found.pci_bus_id, found.code) == (5, "00000000:3b:00", 94)


@pytest.mark.parametrize("text", ["00000000:9B:00.0", "0000:9b:00", "9b:00", "00000000:9b:00"])
def test_a_bus_has_one_form(text: str) -> None:
    assert xids.bus(text) == "00000000:9b:00"


def test_what_is_no_bus_matches_none() -> None:
    assert xids.bus("") == ""
    assert xids.bus("GPU-1") == ""


@given(st.text(max_size=200), st.text(max_size=200))
def test_no_line_breaks_the_parser(before: str, after: str) -> None:
    for line in (before + after, f"{before}NVRM: Xid (PCI:{after}", f"4,1,2,-;NVRM: Xid (PCI:1:2:3): 13, {after}"):
        for found in xids.parse([line], BOOTED):
            assert len(found.detail) <= xids.LONGEST_DETAIL


def test_a_real_log() -> None:
    path = SHARED / "xid" / "gpud_dmesg-with-xid-119.log"
    if not path.exists():
        pytest.skip("the kernel log is not beside this checkout (../shared/telemetry/xid)")
    found = xids.read_kernel_log(path, BOOTED)
    assert [(one.code, one.pci_bus_id) for one in found] == [(119, "00000000:9b:00")] * len(found)
    assert found[0].at == datetime(2025, 2, 23, 16, 24, 18, tzinfo=UTC)
    assert found[0].detail.startswith("pid=2024380, name=nvidia-smi, Timeout after 6s")
    assert found[0].message.startswith("XID 119: the GPU's system processor does not answer (pid=2024380")


def test_the_log_is_read_to_its_end_without_waiting(tmp_path: Path) -> None:
    path = tmp_path / "kmsg"
    path.write_text("\n".join(f"4,{n},{n}000000,-;{TEXT}" for n in range(500)))
    assert len(xids.read_kernel_log(path, BOOTED)) == 500


def test_the_time_of_boot_is_the_same_at_every_reading(tmp_path: Path) -> None:
    stat = tmp_path / "stat"
    stat.write_text("cpu 1 2 3\nbtime 1798761600\nprocesses 5\n")
    assert xids.boot_time(stat) == datetime(2027, 1, 1, tzinfo=UTC)
    stat.write_text("cpu 1 2 3\n")
    with pytest.raises(OSError, match="no btime"):
        xids.boot_time(stat)


def test_an_unknown_number_is_a_warning() -> None:
    assert xids.meaning(9999)[1] == "warning"
    assert xids.meaning(79) == ("the GPU has fallen off the bus", "critical")


@pytest.fixture
def driver() -> Iterator[FakeDriver]:
    with installed(FakeDriver(hopper(0), hopper(1), wait_cap=0.01)) as driver:
        driver.started = True
        yield driver


@pytest.fixture
def watch(driver: FakeDriver) -> Iterator[XidWatch]:
    watch = XidWatch(Nvml(), lambda: NOW)
    yield watch
    watch.stop()


def arrived(watch: XidWatch, number: int) -> list[Xid]:
    """What came, once that many did."""
    found: list[Xid] = []

    def enough() -> bool:
        found.extend(watch.drain())
        return len(found) >= number

    until(enough)
    return found


def test_events_come_over_with_their_device_and_instance(driver: FakeDriver, watch: XidWatch) -> None:
    watch.start([(gpu.uuid, gpu.pointer) for gpu in driver.gpus])
    driver.raise_xid(driver.gpus[1], 79)
    driver.raise_xid(driver.gpus[0], 94, gi=3)
    assert arrived(watch, 2) == [
        Xid(NOW, 79, driver.gpus[1].uuid),
        Xid(NOW, 94, driver.gpus[0].uuid, gpu_instance=3),
    ]


def test_the_last_event_of_a_gpu_that_is_lost_is_still_its_own(driver: FakeDriver, watch: XidWatch) -> None:
    watch.start([(gpu.uuid, gpu.pointer) for gpu in driver.gpus])
    driver.gpus[0].fault = GPU_IS_LOST
    driver.raise_xid(driver.gpus[0], 79)
    assert [(one.code, one.device_id) for one in arrived(watch, 1)] == [(79, driver.gpus[0].uuid)]


def test_a_device_that_does_not_tell_is_left_out(driver: FakeDriver, watch: XidWatch) -> None:
    driver.gpus[0].errors["nvmlDeviceRegisterEvents"] = NOT_SUPPORTED
    watch.start([(gpu.uuid, gpu.pointer) for gpu in driver.gpus])
    assert watch.states == {driver.gpus[0].uuid: "unsupported", driver.gpus[1].uuid: "ok"}
    assert watch.running


def test_without_permission_to_wait_for_events_there_is_no_thread(driver: FakeDriver, watch: XidWatch) -> None:
    for gpu in driver.gpus:
        gpu.errors["nvmlDeviceRegisterEvents"] = NO_PERMISSION
    watch.start([(gpu.uuid, gpu.pointer) for gpu in driver.gpus])
    assert set(watch.states.values()) == {"no_permission"}
    assert not watch.running
    assert driver.event_sets == {}


def test_stopping_frees_the_set_and_ends_the_thread(driver: FakeDriver, watch: XidWatch) -> None:
    watch.start([(gpu.uuid, gpu.pointer) for gpu in driver.gpus])
    assert watch.running
    watch.stop()
    assert not watch.running
    assert driver.event_sets == {}


def test_a_library_that_is_gone_ends_the_thread(driver: FakeDriver, watch: XidWatch) -> None:
    watch.start([(gpu.uuid, gpu.pointer) for gpu in driver.gpus])
    driver.errors["nvmlEventSetWait_v2"] = UNINITIALIZED
    until(lambda: not watch.running)


def test_a_wait_that_fails_at_once_does_not_spin(driver: FakeDriver, watch: XidWatch) -> None:
    driver.errors["nvmlEventSetWait_v2"] = GPU_IS_LOST
    watch.start([(gpu.uuid, gpu.pointer) for gpu in driver.gpus])
    until(lambda: driver.calls["nvmlEventSetWait_v2"])
    time.sleep(0.1)
    assert driver.calls["nvmlEventSetWait_v2"] == 1
    watch.stop()
    assert not watch.running


def test_events_beyond_the_queue_are_counted(
    driver: FakeDriver, watch: XidWatch, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watch._queue, "maxsize", 3)
    watch.start([(gpu.uuid, gpu.pointer) for gpu in driver.gpus])
    for _ in range(5):
        driver.raise_xid(driver.gpus[0], 13)
    until(lambda: watch.lost >= 2)
    assert (len(watch.drain()), watch.lost) == (3, 2)
