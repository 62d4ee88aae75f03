"""Names other than UUIDs that device plugins use for NVIDIA's devices."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from collectors.attribution.places import Place
from collectors.attribution.podresources.ids import pci_address
from collectors.nvml.inventory import Device


def aliases(devices: Iterable[Device]) -> dict[str, Place]:
    """Places by PCI address, and instances as GKE names them (`nvidia0/gi3`).

    Traps:  a GPU instance that is cut into several compute instances is no place of its own.
    """
    found: dict[str, Place] = {}
    for device in devices:
        found[pci_address(device.pci_bus_id)] = Place(device.uuid)
        parts = Counter(partition.gpu_instance for partition in device.partitions)
        for partition in device.partitions:
            if parts[partition.gpu_instance] == 1:
                name = f"nvidia{device.index}/gi{partition.gpu_instance}"
                found[name] = Place(device.uuid, partition.uuid)
    return found
