"""Lists the devices of this machine, according to its driver."""

from __future__ import annotations

import logging

from collectors.errors import CollectorError

log = logging.getLogger(__name__)


def devices_here() -> frozenset[str] | None:
    """Ids of NVIDIA devices and MIG instances. None: no driver answers, so nothing is known."""
    try:
        from collectors.nvml.inventory import Inventory, enumerate_devices
        from collectors.nvml.library import Nvml

        nvml = Nvml()
        nvml.start()
        try:
            found = enumerate_devices(nvml, Inventory())
        finally:
            nvml.stop()
    except (CollectorError, ImportError) as error:
        log.info("jobs: no driver says which devices are here (%s)", error)
        return None
    return frozenset(name for one in found for name in (one.uuid, *(part.uuid for part in one.partitions)))
