"""Asks the kubelet over its unix socket."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import grpc

from collectors.attribution.podresources import podresources_pb2 as messages
from collectors.errors import CollectorError

SOCKET = Path("/var/lib/kubelet/pod-resources/kubelet.sock")
"""Mount its folder, not the socket: a kubelet that starts again makes a new one."""
_SERVICE = "/v1.PodResourcesLister/"
_MAX_BYTES = 256 << 20
"""gRPC's own limit of 4 MiB is too little for a node with many pods."""


@dataclass(frozen=True, slots=True)
class Container:
    """The container that a device was given to. Pod names are reused by successors, so this is valid for one answer
    only."""

    namespace: str
    pod: str
    name: str


@dataclass(frozen=True, slots=True)
class GivenDevice:
    """A device of a device plugin: resource and id in the plugin's own terms."""

    container: Container
    resource: str
    id: str


@dataclass(frozen=True, slots=True)
class ClaimedDevice:
    """A device of dynamic resource allocation, identified by driver, pool and device; its ResourceSlice has the
    UUID."""

    container: Container
    driver: str
    pool: str
    device: str
    share_id: str = ""
    cdi_names: tuple[str, ...] = ()


@dataclass(frozen=True)
class Snapshot:
    """All devices that the kubelet had assigned at one moment."""

    devices: tuple[GivenDevice, ...] = ()
    claims: tuple[ClaimedDevice, ...] = ()
    offered: Mapping[str, tuple[str, ...]] | None = field(default=None)


class PodResources:
    """The kubelet's PodResources v1 service; opens its socket again whenever it is a new one."""

    def __init__(self, socket: Path = SOCKET, timeout_seconds: float = 5.0) -> None:
        self.socket, self.timeout_seconds = socket, timeout_seconds
        self._channel: Any = None
        self._opened: tuple[int, int] | None = None

    def snapshot(self) -> Snapshot:
        """All devices given out. Errors: CollectorError if the kubelet does not answer."""
        listed = self._ask("List", messages.PodList)
        devices: list[GivenDevice] = []
        claims: list[ClaimedDevice] = []
        for pod in listed.pods:
            for part in pod.containers:
                container = Container(pod.namespace, pod.name, part.name)
                devices.extend(GivenDevice(container, some.resource, id) for some in part.devices for id in some.ids)
                claims.extend(
                    ClaimedDevice(
                        container,
                        device.driver,
                        device.pool,
                        device.device,
                        device.share_id,
                        tuple(cdi.name for cdi in device.cdi_devices),
                    )
                    for claim in part.claims
                    for device in claim.devices
                )
        return Snapshot(tuple(devices), tuple(claims), self._offered())

    def close(self) -> None:
        if self._channel is not None:
            self._channel.close()
        self._channel, self._opened = None, None

    def _offered(self) -> dict[str, tuple[str, ...]] | None:
        try:
            answer = self._ask("GetAllocatableResources", messages.Allocatable)
        except _UnimplementedError:
            return None
        offered: dict[str, tuple[str, ...]] = {}
        for some in answer.devices:  # a resource comes once for each NUMA node
            offered[some.resource] = offered.get(some.resource, ()) + tuple(some.ids)
        return offered

    def _ask(self, method: str, answer: type[Any]) -> Any:
        try:
            return self._call(method, answer)
        except grpc.RpcError as first:
            if first.code() is not grpc.StatusCode.UNAVAILABLE:
                raise self._error(method, first) from first
        self.close()  # gone with its server; a new one may listen already
        try:
            return self._call(method, answer)
        except grpc.RpcError as second:
            raise self._error(method, second) from second

    def _call(self, method: str, answer: type[Any]) -> Any:
        self._open()
        call = self._channel.unary_unary(
            _SERVICE + method,
            request_serializer=messages.Request.SerializeToString,
            response_deserializer=answer.FromString,
        )
        return call(messages.Request(), timeout=self.timeout_seconds)

    def _open(self) -> None:
        try:
            found = self.socket.stat()
        except OSError as error:
            self.close()
            raise CollectorError(
                str(self.socket), f"no socket of the kubelet ({error.strerror})", "Mount its folder into the agent"
            ) from error
        identity = (found.st_dev, found.st_ino)
        if self._channel is not None and self._opened == identity:
            return
        self.close()
        options = [
            ("grpc.max_receive_message_length", _MAX_BYTES),
            ("grpc.use_local_subchannel_pool", 1),  # else a new channel would get the dead connection of the old one
            ("grpc.enable_http_proxy", 0),
        ]
        self._channel = grpc.insecure_channel(f"unix:{self.socket.absolute()}", options=options)
        self._opened = identity

    def _error(self, method: str, error: Any) -> CollectorError:
        code, details = error.code(), " ".join(str(error.details()).split())
        if code is grpc.StatusCode.UNIMPLEMENTED:
            return _UnimplementedError(str(self.socket), f"{method} is not offered", "The kubelet is older than 1.23")
        kind = code.name.lower() if code is not None else "failed"
        return CollectorError(str(self.socket), f"{method}: {kind}: {details}", "Is the kubelet running?")


class _UnimplementedError(CollectorError):
    """This kubelet does not know the method."""
