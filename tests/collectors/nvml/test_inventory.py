"""The inventory: what can be given away, enumerated anew each cycle, with a version that rises when it changed."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from collectors.nvml import inventory
from collectors.nvml.inventory import Change, Inventory
from collectors.nvml.library import Nvml
from tests.collectors.nvml.fake_nvml import (
    GPU_IS_LOST,
    FakeDriver,
    FakeGpu,
    FakeMig,
    ada,
    ampere,
    cut,
    hopper,
    installed,
    turing,
)


@pytest.fixture
def driver() -> Iterator[FakeDriver]:
    with installed(FakeDriver()) as driver:
        driver.started = True
        yield driver


def step(before: Inventory, replicas: int = 1) -> tuple[Inventory, list[Change]]:
    return inventory.compare(before, inventory.enumerate_devices(Nvml(), before, replicas))


def units(now: Inventory) -> list[int]:
    return [device.units for device in now.devices.values()]


def test_a_mixed_node(driver: FakeDriver) -> None:
    driver.gpus = [turing(0), ada(1), cut(ampere(2), (3, 40), (2, 20), (1, 10))]
    now, changes = step(Inventory())
    assert now.version == 1
    assert [change.what for change in changes] == ["added"] * 3
    found = [(one.model, one.architecture, one.mode, one.units) for one in now.devices.values()]
    assert found == [
        ("Tesla T4", "turing", "whole", 1),
        ("NVIDIA L40S", "ada", "whole", 1),
        ("NVIDIA A100-SXM4-80GB", "ampere", "mig_parent", 7),
    ]
    assert [(one.profile, one.units, one.gpu_instance) for one in list(now.devices.values())[2].partitions] == [
        ("3g.40gb", 3, 7),
        ("2g.20gb", 2, 8),
        ("1g.10gb", 1, 9),
    ]


def test_what_does_not_change_raises_no_version(driver: FakeDriver) -> None:
    driver.gpus = [hopper(0), cut(hopper(1), (1, 10))]
    now, _ = step(Inventory())
    again, changes = step(now)
    assert (again.version, changes) == (1, [])


def test_what_cannot_change_is_asked_once(driver: FakeDriver) -> None:
    driver.gpus = [hopper(0)]
    now, _ = step(Inventory())
    step(step(now)[0])
    assert driver.calls["nvmlDeviceGetArchitecture"] == 1
    assert driver.calls["nvmlDeviceGetUUID"] == 3


def test_holes_in_the_numbering_of_instances_are_normal(driver: FakeDriver) -> None:
    driver.gpus = [cut(ampere(), (1, 10), (2, 20), holes=(0, 2, 3))]
    (device,) = step(Inventory())[0].devices.values()
    assert [one.profile for one in device.partitions] == ["1g.10gb", "2g.20gb"]


def test_a_device_of_four_slices_has_four_units(driver: FakeDriver) -> None:
    a30 = FakeGpu(0, "NVIDIA A30", 7, 24)
    a30.slices = 4
    driver.gpus = [cut(a30, (2, 12), (1, 6))]
    assert units(step(Inventory())[0]) == [4]


def test_mig_on_without_instances_is_seven_units_and_no_partition(driver: FakeDriver) -> None:
    driver.gpus = [cut(hopper())]
    (device,) = step(Inventory())[0].devices.values()
    assert (device.units, device.partitions) == (7, ())


def test_replicas_are_units_of_devices_that_are_not_cut(driver: FakeDriver) -> None:
    driver.gpus = [ampere(0), cut(ampere(1), (1, 10))]
    now, _ = step(Inventory(), replicas=10)
    assert units(now) == [10, 7]
    again, changes = step(now, replicas=4)
    assert [change.what for change in changes] == ["units 10 -> 4"]
    assert again.version == 2


def test_compute_instances_of_one_gpu_instance_know_that_they_share(driver: FakeDriver) -> None:
    gpu = ampere()
    driver.gpus = [gpu]
    driver.cut(gpu, FakeMig("MIG-a", 1, 3, 40, 0, 1), FakeMig("MIG-b", 1, 3, 40, 1, 2), FakeMig("MIG-c", 2, 2, 20))
    (device,) = step(Inventory())[0].devices.values()
    found = [(one.profile, one.units, one.shares_instance) for one in device.partitions]
    assert found == [("1c.3g.40gb", 1, True), ("2c.3g.40gb", 2, True), ("2g.20gb", 2, False)]


def test_the_profile_of_a_nameless_instance_is_made_of_its_slices() -> None:
    assert inventory._profile("", (1, 1, 9856)) == "1g.10gb"
    assert inventory._profile("NVIDIA H100", (3, 1, 40960)) == "1c.3g.40gb"
    assert inventory._profile("NVIDIA H100 MIG 1g.10gb+me", (1, 1, 9856)) == "1g.10gb+me"
    assert inventory._profile("", None) == ""


def test_mig_reconfigured_says_what_went_and_what_came(driver: FakeDriver) -> None:
    driver.gpus = [cut(hopper(), (3, 40), (1, 10))]
    now, _ = step(Inventory())
    driver.cut(driver.gpus[0], driver.gpus[0].migs[1], FakeMig("MIG-new", 9, 2, 20))
    again, (change,) = step(now)
    old = now.devices[driver.gpus[0].uuid].partitions[0]
    assert change.what == f"- 3g.40gb {old.uuid}, + 2g.20gb MIG-new"
    assert again.version == 2


def test_an_instance_made_again_under_its_old_id_is_another(driver: FakeDriver) -> None:
    driver.gpus = [cut(hopper(), (1, 10))]
    now, _ = step(Inventory())
    driver.cut(driver.gpus[0], FakeMig("MIG-again", 7, 1, 10))
    _, (change,) = step(now)
    assert "+ 1g.10gb MIG-again" in change.what


def test_mig_switched_off(driver: FakeDriver) -> None:
    driver.gpus = [cut(hopper(), (1, 10))]
    now, _ = step(Inventory())
    driver.gpus[0].mig, driver.gpus[0].migs = False, {}
    again, (change,) = step(now)
    assert change.what.startswith("MIG off, units 7 -> 1, - 1g.10gb MIG-")
    assert units(again) == [1]


def test_a_lost_device_is_known_by_its_index_and_keeps_its_partitions(driver: FakeDriver) -> None:
    driver.gpus = [hopper(0), cut(hopper(1), (1, 10))]
    now, _ = step(Inventory())
    driver.gpus[1].fault = GPU_IS_LOST
    again, (change,) = step(now)
    assert (change.what, change.device.uuid, change.device.state) == (
        "available -> unavailable",
        driver.gpus[1].uuid,
        "unavailable",
    )
    assert [one.profile for one in again.devices[driver.gpus[1].uuid].partitions] == ["1g.10gb"]


def test_a_lost_device_that_falls_off_the_bus_stays_unavailable(driver: FakeDriver) -> None:
    driver.gpus = [hopper(0), hopper(1)]
    lost = driver.gpus[1].uuid
    now, _ = step(Inventory())
    driver.gpus[1].fault = GPU_IS_LOST
    now, _ = step(now)
    driver.gpus.pop()
    now, changes = step(now)
    assert (changes, now.devices[lost].state) == ([], "unavailable")


def test_a_lost_device_that_returns_is_available_again(driver: FakeDriver) -> None:
    driver.gpus = [hopper(0)]
    now, _ = step(Inventory())
    driver.gpus[0].fault = GPU_IS_LOST
    now, _ = step(now)
    driver.gpus[0].fault = 0
    now, (change,) = step(now)
    assert change.what == "unavailable -> available"
    assert now.version == 3


def test_a_working_device_that_is_gone_was_removed(driver: FakeDriver) -> None:
    driver.gpus = [hopper(0), hopper(1)]
    now, _ = step(Inventory())
    gone = driver.gpus.pop().uuid
    now, (change,) = step(now)
    assert (change.what, change.device.uuid, change.device.state) == ("removed", gone, "removed")
    assert gone not in now.devices


def test_a_device_never_seen_alive_has_no_identity(driver: FakeDriver) -> None:
    driver.gpus = [hopper(0), hopper(1)]
    driver.gpus[1].fault = GPU_IS_LOST
    _now, changes = step(Inventory())
    assert [change.device.index for change in changes] == [0]


def test_renumbered_devices_are_the_same_devices(driver: FakeDriver) -> None:
    driver.gpus = [hopper(0), hopper(1)]
    now, _ = step(Inventory())
    driver.gpus.reverse()
    again, changes = step(now)
    assert {change.what for change in changes} == {"index 0 -> 1", "index 1 -> 0"}
    assert set(again.devices) == set(now.devices)
