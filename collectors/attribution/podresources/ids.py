"""How device plugins name what they hand out.

    GPU-UUID             a whole device                    0000:c5:00.0     AMD: PCI address
    MIG-UUID             an instance                       0, 0:1           index; of an instance
    MIG-GPU-UUID/GI/CI   an instance, drivers before 470   nvidia0[/gi3][/vgpu1]   GKE
    ID::N                replica N of any of these         GPU-UUID-N       HAMi: its own scheduler decides, so the
                                                                            device named is not the one given
Source: NVIDIA k8s-device-plugin, internal/rm; ROCm k8s-device-plugin; GKE container-engine-accelerators; HAMi.
"""

from __future__ import annotations

import re

from collectors.attribution.places import DeviceRef
from collectors.kubernetes.resources import RULES

_UUID = r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
_REPLICA = re.compile(r"(?P<key>.+)::(?P<replica>[0-9]{1,6})", re.DOTALL)
_WHOLE = re.compile(rf"(?P<device>GPU-{_UUID})(?:-(?P<replica>[0-9]{{1,6}}))?")
_INSTANCE = re.compile(rf"MIG-{_UUID}")
_OLD_INSTANCE = re.compile(rf"MIG-(?P<device>GPU-{_UUID})/[0-9]+/[0-9]+")
_GKE = re.compile(r"(?P<device>nvidia[0-9]{1,4})(?:/(?P<partition>gi[0-9]{1,4}))?(?:/vgpu(?P<replica>[0-9]{1,6}))?")
_INDEX = re.compile(r"(?P<device>[0-9]{1,4})(?::(?P<partition>[0-9]{1,4}))?")
_PCI = re.compile(
    r"(?P<domain>[0-9a-f]{4,8}):(?P<bus>[0-9a-f]{2}):(?P<slot>[0-9a-f]{2})\.(?P<function>[0-7])", re.IGNORECASE
)


def parse(resource: str, device_id: str) -> DeviceRef | None:
    """Parses a plugin's id; None if the resource is no accelerator."""
    vendor = next((rule.vendor for rule in RULES if rule.pattern.fullmatch(resource)), "")
    replicated = _REPLICA.fullmatch(device_id)
    key = replicated["key"] if replicated else device_id
    replica = int(replicated["replica"]) if replicated else None
    if nvidia := _nvidia(key, replica):
        return nvidia
    if not vendor:
        return None
    if _PCI.fullmatch(key):
        address = pci_address(key)
        return DeviceRef(vendor, address, address, replica=replica)
    if index := _INDEX.fullmatch(key):
        return DeviceRef(vendor, key, index["device"], index["partition"] or "", replica)
    return DeviceRef(vendor, key, replica=replica)


def pci_address(text: str) -> str:
    """A PCI address in canonical form: lower case, domain of four digits; other text is returned unchanged."""
    found = _PCI.fullmatch(text)
    if not found:
        return text
    return f"{int(found['domain'], 16):04x}:{found['bus']}:{found['slot']}.{found['function']}".lower()


def _nvidia(key: str, replica: int | None) -> DeviceRef | None:
    """Forms that are NVIDIA's whatever the resource is called, because a site may rename it."""
    if whole := _WHOLE.fullmatch(key):
        if whole["replica"] is None:
            return DeviceRef("nvidia", key, key, replica=replica)
        return DeviceRef("nvidia", whole["device"], whole["device"], replica=int(whole["replica"]), certain=False)
    if _INSTANCE.fullmatch(key):
        return DeviceRef("nvidia", key, partition=key, replica=replica)
    if old := _OLD_INSTANCE.fullmatch(key):
        return DeviceRef("nvidia", key, old["device"], key, replica)
    if gke := _GKE.fullmatch(key):
        replica = replica if gke["replica"] is None else int(gke["replica"])
        partition = gke["partition"] or ""
        name = f"{gke['device']}/{partition}" if partition else gke["device"]
        return DeviceRef("nvidia", name, gke["device"], partition, replica)
    return None
