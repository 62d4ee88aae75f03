"""XIDs as they happen: one thread waits on the driver's event set and passes them on through a queue."""

from __future__ import annotations

import logging
import queue
import threading
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from typing import Any

from collectors.nvml.library import (
    SUCCESS,
    TIMEOUT,
    WHOLE,
    Handle,
    Nvml,
    NvmlDeviceError,
    NvmlLibraryError,
    address,
    state_of,
)
from collectors.nvml.xids import Xid
from collectors.readings import State

log = logging.getLogger(__name__)

WAIT_MILLISECONDS = 1000
"""How long a wait blocks at most, and so how long stopping takes at most."""
BACK_OFF_SECONDS = 5.0
"""After a wait that failed: a lost GPU makes every wait fail at once."""
MOST_QUEUED = 10_000


class XidWatch:
    """Watches a set of devices. A new set of devices means a new watch: an event set cannot let go of a device."""

    def __init__(
        self,
        nvml: Nvml,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
        wait_milliseconds: int = WAIT_MILLISECONDS,
    ) -> None:
        self._nvml, self._clock, self._wait = nvml, clock, wait_milliseconds
        self._queue: queue.Queue[Xid] = queue.Queue(MOST_QUEUED)
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None
        self._uuids: dict[int, str] = {}
        self.states: dict[str, State] = {}
        """Whether XIDs of a device are reported, by its UUID."""
        self.lost = 0
        """Events that came while the queue was full."""

    @property
    def running(self) -> bool:
        return self._thread is not None and self._thread.is_alive()

    def start(self, devices: Iterable[tuple[str, Handle]]) -> None:
        """Registers the devices and starts the thread, if any of them reports XIDs."""
        created = self._nvml.event_set()
        if created.value is None:
            self.states = {uuid: created.state for uuid, _ in devices}
            return
        for uuid, handle in devices:
            self._uuids[address(handle)] = uuid
            try:
                self.states[uuid] = state_of(self._nvml.register_xids(handle, created.value))
            except NvmlDeviceError:
                self.states[uuid] = "blank"
        if "ok" not in self.states.values():
            self._nvml.event_set_free(created.value)
            return
        self._stopping.clear()
        self._thread = threading.Thread(target=self._run, args=(created.value,), name="nvml-xids", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End the thread. Waits for the wait in progress, so that the library can be shut down afterwards."""
        self._stopping.set()
        if self._thread is not None:
            self._thread.join(self._wait / 1000 + BACK_OFF_SECONDS)
            self._thread = None
        self.states = {}
        self._uuids = {}

    def drain(self) -> list[Xid]:
        """What came since the last time."""
        found: list[Xid] = []
        while True:
            try:
                found.append(self._queue.get_nowait())
            except queue.Empty:
                return found

    def _run(self, events: Handle) -> None:
        while not self._stopping.is_set():
            try:
                answer = self._nvml.wait(events, self._wait)
                if answer.code == SUCCESS and answer.value is not None:
                    self._hand_over(self._xid(answer.value))
                    continue
                failed = answer.code != TIMEOUT
            except NvmlDeviceError as fault:
                log.warning("%s", fault)
                failed = True
            except NvmlLibraryError as fault:
                log.warning("%s", fault)
                return  # the event set went with the library
            if failed:
                self._stopping.wait(BACK_OFF_SECONDS)
        try:
            self._nvml.event_set_free(events)
        except (NvmlDeviceError, NvmlLibraryError) as fault:
            log.info("%s", fault)

    def _xid(self, event: Any) -> Xid:
        """At the time it came, since NVML does not say when it happened. The device is identified by the address of its
        handle: one that has just been lost no longer answers with its UUID."""
        instance = int(event.gpuInstanceId)
        uuid = self._uuids.get(address(event.device), "")
        return Xid(self._clock(), int(event.eventData), uuid, gpu_instance=None if instance == WHOLE else instance)

    def _hand_over(self, xid: Xid) -> None:
        try:
            self._queue.put_nowait(xid)
        except queue.Full:
            self.lost += 1
