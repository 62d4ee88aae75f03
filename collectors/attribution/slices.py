"""For an agent on one node: the UUIDs of the devices that dynamic resource allocation names by (driver, pool, device).

The kubelet reports names only; the node's ResourceSlices at the API server map them to UUIDs.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from collectors.attribution.places import Place
from collectors.kubernetes.api import Absent, Api, Gone, Interrupted
from collectors.kubernetes.claims import SLICE_PATHS, DeviceName, slice_devices
from collectors.kubernetes.connection import Connection, KubernetesError, find

log = logging.getLogger(__name__)

ANSWER_SECONDS = 5.0
"""For all that is asked of the API server at a time: the node's readings wait for it."""
FRESH_SECONDS = 60.0
"""Slices change when a driver starts or MIG is laid out again; a name that is not known yet counts as not named."""


class NodeSlices:
    """Called: the places of the node's slices, asked at most once a minute.

    Where the API cannot be asked, the last answer stands (none at first), and the log says why: a claim's device then
    is one that is not named, never one that is free.
    """

    def __init__(
        self,
        node: str,
        kubeconfig: Path | None = None,
        connect: Callable[[Path | None], Connection] = find,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._node, self._kubeconfig, self._connect, self._clock = node, kubeconfig, connect, clock
        self._places: dict[DeviceName, Place] = {}
        self._asked: float | None = None
        self._reported = ""

    def __call__(self) -> Mapping[DeviceName, Place]:
        now = self._clock()
        if self._asked is None or now - self._asked >= FRESH_SECONDS:
            self._asked = now
            try:
                self._places, trouble = asyncio.run(self._ask_in_time()), ""
            except TimeoutError:
                trouble = f"not answered in full after {ANSWER_SECONDS:g} s"
            except (KubernetesError, Absent, Gone, Interrupted) as error:
                trouble = str(error)
            if trouble and trouble != self._reported:
                log.warning("ResourceSlices of %s cannot be asked: %s", self._node, trouble)
            self._reported = trouble
        return self._places

    async def _ask_in_time(self) -> dict[DeviceName, Place]:
        async with asyncio.timeout(ANSWER_SECONDS):
            return await self._ask()

    async def _ask(self) -> dict[DeviceName, Place]:
        api = Api(self._connect(self._kubeconfig))
        try:
            for path in SLICE_PATHS:
                try:
                    found: dict[DeviceName, Place] = {}
                    async for page in api.pages(path, {"fieldSelector": f"spec.nodeName={self._node}"}):
                        for one in page.objects:
                            for name, device in slice_devices(one).items():
                                if device.node == self._node and (device.device_id or device.partition_id):
                                    found[name] = Place(device.device_id, device.partition_id)
                    return found
                except Absent as absent:
                    if absent.forbidden or path == SLICE_PATHS[-1]:
                        raise
        finally:
            await api.close()
        return {}
