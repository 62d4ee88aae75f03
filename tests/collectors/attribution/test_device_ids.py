"""Every plugin's way of naming a device leads to the device, or to nothing."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collectors.attribution import nvidia
from collectors.attribution.places import DeviceRef, Inventory, Place
from collectors.attribution.podresources.ids import parse, pci_address
from collectors.nvml.inventory import Device, Partition
from collectors.readings import DeviceReading

GPU = "GPU-5f0a1c22-90bb-4a1e-8d3c-2b7e6a9f0d11"
OTHER = "GPU-77777777-90bb-4a1e-8d3c-2b7e6a9f0d11"
MIG = "MIG-0c1d2e3f-1111-5222-8333-444455556666"
OLD_MIG = f"MIG-{GPU}/3/0"


@pytest.mark.parametrize(
    ("resource", "device_id", "ref"),
    [
        ("nvidia.com/gpu", GPU, DeviceRef("nvidia", GPU, GPU)),
        ("nvidia.com/gpu", f"{GPU}::3", DeviceRef("nvidia", GPU, GPU, replica=3)),
        ("nvidia.com/gpu.shared", f"{GPU}::0", DeviceRef("nvidia", GPU, GPU, replica=0)),
        ("acme.example/fast-gpu", f"{GPU}::1", DeviceRef("nvidia", GPU, GPU, replica=1)),
        ("nvidia.com/mig-1g.10gb", MIG, DeviceRef("nvidia", MIG, partition=MIG)),
        ("nvidia.com/mig-1g.10gb.shared", f"{MIG}::2", DeviceRef("nvidia", MIG, partition=MIG, replica=2)),
        ("nvidia.com/mig-1g.5gb", OLD_MIG, DeviceRef("nvidia", OLD_MIG, GPU, OLD_MIG)),
        ("nvidia.com/gpu", "nvidia2", DeviceRef("nvidia", "nvidia2", "nvidia2")),
        ("nvidia.com/gpu", "nvidia0/vgpu1", DeviceRef("nvidia", "nvidia0", "nvidia0", replica=1)),
        ("nvidia.com/gpu", "nvidia0/gi3/vgpu0", DeviceRef("nvidia", "nvidia0/gi3", "nvidia0", "gi3", 0)),
        ("nvidia.com/gpu", "3", DeviceRef("nvidia", "3", "3")),
        ("nvidia.com/mig-2g.20gb", "0:1", DeviceRef("nvidia", "0:1", "0", "1")),
        ("amd.com/gpu", "0000:C5:00.0", DeviceRef("amd", "0000:c5:00.0", "0000:c5:00.0")),
        ("amd.com/gpu", "0000:c5:00.0::1", DeviceRef("amd", "0000:c5:00.0", "0000:c5:00.0", replica=1)),
        ("google.com/tpu", "2", DeviceRef("google", "2", "2")),
        ("nvidia.com/gpu", f"{GPU}-4", DeviceRef("nvidia", GPU, GPU, replica=4, certain=False)),
        ("amd.com/gpu_cpx_nps4", "amdgpu_xcp_30", DeviceRef("amd", "amdgpu_xcp_30")),
        ("nvidia.com/hostdev", "0000:3b:00.0", None),
        ("intel.com/sgx_enclave", "sgx-0", None),
        ("rdma/hca_shared", "7", None),
    ],
)
def test_an_id_is_a_device_a_partition_and_a_replica(resource: str, device_id: str, ref: DeviceRef | None) -> None:
    assert parse(resource, device_id) == ref


@given(st.text(), st.text())
def test_no_id_breaks_it(resource: str, device_id: str) -> None:
    for name in (resource, "nvidia.com/gpu"):
        ref = parse(name, device_id)
        assert ref is None or ref.key or not device_id


def test_pci_addresses_have_one_spelling() -> None:
    assert pci_address("00000000:C5:00.0") == pci_address("0000:c5:00.0") == "0000:c5:00.0"
    assert pci_address("card0") == "card0"


def find(inventory: Inventory, resource: str, device_id: str) -> Place | None:
    ref = parse(resource, device_id)
    assert ref is not None
    return inventory.find(ref)


def test_places_are_found_by_uuid_index_and_alias() -> None:
    readings = [
        DeviceReading(GPU, index=0, vendor="nvidia"),
        DeviceReading(GPU, MIG, vendor="nvidia", index=0),
        DeviceReading(GPU, OLD_MIG, vendor="nvidia", index=0),
        DeviceReading(OTHER, index=1, vendor="NVIDIA"),
        DeviceReading("amd-uuid-1", index=1, vendor="amd"),
    ]
    inventory = Inventory(readings, {"0000:c5:00.0": Place("amd-uuid-1"), "nvidia0/gi3": Place(GPU, MIG)})
    assert inventory.partitioned == {GPU}
    for device_id, place in {
        GPU: Place(GPU),
        f"{OTHER}::2": Place(OTHER),
        MIG: Place(GPU, MIG),
        OLD_MIG: Place(GPU, OLD_MIG),
        "1": Place(OTHER),
        "nvidia1": Place(OTHER),
        "nvidia0/gi3/vgpu0": Place(GPU, MIG),
        "nvidia0/gi4": None,
        "0:1": None,
        "5": None,
        GPU.replace("5f", "00"): None,
    }.items():
        assert find(inventory, "nvidia.com/gpu", device_id) == place, device_id
    assert find(inventory, "amd.com/gpu", "0000:C5:00.0") == Place("amd-uuid-1")
    assert find(inventory, "amd.com/gpu", "1") == Place("amd-uuid-1")
    assert find(inventory, "amd.com/gpu", "amdgpu_xcp_30") is None


def test_an_index_that_two_devices_have_is_nobodys() -> None:
    inventory = Inventory([DeviceReading("a", index=0), DeviceReading("b", index=0)])
    assert find(inventory, "nvidia.com/gpu", "0") is None


def test_nvidias_instances_have_gkes_names_unless_they_are_cut_again() -> None:
    parts = (
        Partition("MIG-a", "1g.10gb", 3, 0, 1),
        Partition("MIG-b", "1c.2g.20gb", 5, 0, 1, shares_instance=True),
        Partition("MIG-c", "1c.2g.20gb", 5, 1, 1, shares_instance=True),
    )
    device = Device(GPU, 2, "NVIDIA H100", "hopper", None, "00000000:4E:00.0", mig=True, units=7, partitions=parts)
    assert nvidia.aliases([device]) == {"0000:4e:00.0": Place(GPU), "nvidia2/gi3": Place(GPU, "MIG-a")}
