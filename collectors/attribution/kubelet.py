"""The UIDs of this node's pods by name, from the kubelet: PodResources reports names only."""

from __future__ import annotations

import http.client
import ssl
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Protocol
from urllib.parse import urlsplit

from pydantic import BaseModel, ValidationError

from collectors.errors import CollectorError
from ingest.answer_time import ended_in_time, hang_up
from warehouse.connection_errors import reason

_STATIC_POD = ("kubernetes.io/config.mirror", "kubernetes.io/config.hash")


@dataclass(frozen=True, slots=True)
class Pod:
    """A pod as it is now.   phase: Pending, Running, Succeeded, Failed or Unknown.

    cgroup_uid: the UID by which its cgroup goes, where that is not its own: a static pod's, which the API server knows
    by a mirror of it.
    """

    uid: str
    namespace: str
    name: str
    phase: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    cgroup_uid: str = ""

    @property
    def terminated(self) -> bool:
        return self.phase in ("Succeeded", "Failed")


class PodSource(Protocol):
    """Knows the node's pods: the kubelet, or a watch of the API server."""

    def pods(self) -> Sequence[Pod]:
        """All pods of the node, as of now. Errors: CollectorError."""


class KubeletPods:
    """The kubelet's own list: https://NODE:10250 with a token, or its read-only port. Only http.client is fast and
    small enough for a list of megabytes every few seconds.

    token_file: read for each request, since tokens are renewed.   ca_file: who signed the kubelet's certificate; None
    trusts whom the system trusts, and `verify=False` anybody.   timeout_seconds: for each read; the whole answer
    has twice as long.
    """

    def __init__(
        self,
        url: str,
        token_file: Path | None = None,
        ca_file: Path | None = None,
        verify: bool = True,
        timeout_seconds: float = 5.0,
    ) -> None:
        try:
            parts = urlsplit(url)
            host, port = parts.hostname, parts.port
        except ValueError:
            host = None
        if not host or parts.scheme not in ("http", "https"):
            raise CollectorError(url, "no address of a kubelet", "Give https://NODE:10250")
        self.url = url.rstrip("/") + "/pods"
        self._host, self._port, self._path = host, port, parts.path.rstrip("/") + "/pods"
        self._tls = _tls(ca_file, verify) if parts.scheme == "https" else None
        self._token_file, self._timeout = token_file, timeout_seconds

    def pods(self) -> Sequence[Pod]:
        """All pods of the node. Errors: CollectorError if the kubelet refuses, is away or answers something else."""
        status, body = self._get()
        if status in (401, 403):
            raise CollectorError(
                self.url,
                f"refused ({status})",
                "Grant the agent's service account get on nodes/pods (before Kubernetes 1.33: nodes/proxy)",
            )
        if status != 200:
            raise CollectorError(self.url, f"answers {status}", "Is this the kubelet?")
        return pods_of(body, self.url)

    def _get(self) -> tuple[int, bytes]:
        headers = self._headers()
        connection = self._connection()
        try:
            connection.request("GET", self._path, headers=headers)
            with ended_in_time(2 * self._timeout, partial(hang_up, connection.sock)) as late:
                answer = connection.getresponse()
                body = answer.read()
            if late.is_set():
                raise TimeoutError(f"not in full after {2 * self._timeout:g} s")
            return answer.status, body
        except (OSError, http.client.HTTPException) as error:
            raise CollectorError(
                self.url, f"no answer ({reason(error)})", "Check the address, port and ca_file"
            ) from error
        finally:
            connection.close()

    def _connection(self) -> http.client.HTTPConnection:
        if self._tls is None:
            return http.client.HTTPConnection(self._host, self._port, timeout=self._timeout)
        return http.client.HTTPSConnection(self._host, self._port, timeout=self._timeout, context=self._tls)

    def _headers(self) -> dict[str, str]:
        if self._token_file is None:
            return {}
        try:
            return {"Authorization": f"Bearer {self._token_file.read_text().strip()}"}
        except (OSError, ValueError) as error:
            raise CollectorError(str(self._token_file), f"no token ({error})", "Mount the token") from error


def pods_of(body: bytes, where: str) -> list[Pod]:
    """The pods in a PodList; those without UID or name are left out. Errors: CollectorError if it is no PodList."""
    try:
        listed = _PodList.model_validate_json(body)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        at = ".".join(map(str, first["loc"])) or "the answer"
        raise CollectorError(where, f"no list of pods ({at}: {first['msg']})", "Is this the kubelet?") from error
    found = [pod(item.metadata, item.status.phase) for item in listed.items or ()]
    return [one for one in found if one.uid and one.name]


def pod(metadata: Metadata, phase: str) -> Pod:
    """A pod from its API object."""
    annotations = metadata.annotations or {}
    hashes = (annotations[key] for key in _STATIC_POD if annotations.get(key))
    cgroup_uid = next((found for found in hashes if found != metadata.uid), "")
    return Pod(metadata.uid, metadata.namespace, metadata.name, phase, metadata.labels or {}, cgroup_uid)


class Metadata(BaseModel):
    """An API object's metadata, as far as it is used here."""

    uid: str = ""
    name: str = ""
    namespace: str = ""
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None


class _Status(BaseModel):
    phase: str = ""


class _Item(BaseModel):
    metadata: Metadata = Metadata()
    status: _Status = _Status()


class _PodList(BaseModel):
    """A list of hundreds of pods is a megabyte, of which we need a hundredth; the rest is never made into objects."""

    items: list[_Item] | None


def uids_by_name(pods: Sequence[Pod]) -> dict[tuple[str, str], list[str]]:
    """UIDs of pods that have not ended, by namespace and name; several if a successor started early."""
    found: defaultdict[tuple[str, str], list[str]] = defaultdict(list)
    for pod in pods:
        if not pod.terminated:
            found[pod.namespace, pod.name].append(pod.uid)
    return dict(found)


def _tls(ca_file: Path | None, verify: bool) -> ssl.SSLContext:
    try:
        context = ssl.create_default_context(cafile=str(ca_file) if ca_file and verify else None)
    except (OSError, ssl.SSLError) as error:
        raise CollectorError(str(ca_file), f"no certificates ({error})", "Give the kubelet's CA as PEM") from error
    if not verify:
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context
