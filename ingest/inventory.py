"""Cached locations of devices (cluster, node, model, pool) from the newest device rows; `judge` reads them again before
it holds a row because of them."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from ingest.permissions import DeviceLocation
from warehouse.store import Store, read_sql

REMEMBERED_SECONDS = 60.0
REMEMBERED = 500_000
ASKED_AT_ONCE = 5000
"""Devices in one query."""


class Inventory:
    """clock: monotonic seconds."""

    def __init__(self, store: Store, clock: Callable[[], float] = time.monotonic) -> None:
        self._store, self._clock = store, clock
        self._lock = threading.Lock()
        self._known: dict[str, DeviceLocation | None] = {}
        self._until = 0.0

    def known(self, devices: Iterable[str]) -> Mapping[str, DeviceLocation]:
        """Locations of these devices, perhaps a minute old."""
        wanted = set(devices)
        with self._lock:
            if self._clock() >= self._until or len(self._known) > REMEMBERED:
                self._known, self._until = {}, self._clock() + REMEMBERED_SECONDS
            missing = {device for device in wanted if device not in self._known}  # `-` would look at all that are known
            found = {device: self._known[device] for device in wanted - missing}
        if missing:
            asked = self.asked(missing)
            fresh = {device: asked.get(device) for device in missing}
            found |= fresh
            with self._lock:
                self._known |= fresh
        return {device: at for device, at in found.items() if at is not None}

    def asked(self, devices: Iterable[str]) -> dict[str, DeviceLocation]:
        """Current locations of these devices."""
        return {
            device: (row["cluster"], row["node"], row["model"], row["pool"])
            for device, row in self.rows(devices).items()
        }

    def rows(self, devices: Iterable[str]) -> dict[str, dict[str, Any]]:
        """The newest row of each of these devices."""
        names = sorted(set(devices))
        found: dict[str, dict[str, Any]] = {}
        for first in range(0, len(names), ASKED_AT_ONCE):
            part = {"devices": names[first : first + ASKED_AT_ONCE]}
            found |= {row["device_id"]: row for row in self._store.rows(read_sql(__file__, "whereabouts"), part)}
        return found

    def forget(self, devices: Iterable[str]) -> None:
        """Drops these devices from the cache, because they change."""
        with self._lock:
            for device in devices:
                self._known.pop(device, None)
