"""An agent's settings: a YAML file, over it the environment and flags. Nothing in it is needed but where to deliver.

    cluster: c1
    deliver: {url: "https://ledger.example:8443", token_file: /etc/gpuledger/token}
    sources:
      nvml: {interval_seconds: 10, pool: train}

Every key, with its meaning: docs/agent.md.
"""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, ByteSize, ConfigDict, Field, ValidationError, model_validator

from collectors.agent.ticks import HOUR_MS
from collectors.errors import CollectorError
from warehouse.written_files import first_error, read_yaml
from warehouse.written_model import Written

HINT = "See docs/agent.md for all keys"
_VARIABLE = re.compile(r"\$(?:([A-Za-z_]\w*)|\{([^}]*)\})", re.ASCII)


def _on_the_grid(seconds: float) -> float:
    milliseconds = seconds * 1000
    if milliseconds != int(milliseconds) or HOUR_MS % int(milliseconds):
        raise ValueError("an hour must be a whole multiple of it, such as 1, 5, 10, 15, 20, 30 or 60")
    return seconds


Interval = Annotated[float, Field(ge=1, le=3600), AfterValidator(_on_the_grid)]
"""Seconds between ticks."""
Port = Annotated[int, Field(ge=1, le=65535)]
Url = Annotated[str, Field(pattern=r"^https?://[^/\s]+")]


class _Section(Written):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class NvmlSettings(_Section):
    """NVIDIA GPUs of this node through the driver, and whose processes use them.

    enabled: None: unless other sources are read and the node has neither the driver nor an NVIDIA device.
    replicas: of each device without MIG (time-slicing, MPS), its units.   proc: the host's.   podresources: the
    kubelet's socket; None: this is no Kubernetes node; by default it is used where it is.   kubelet_url: where pods'
    UIDs are asked for; `insecure` trusts any certificate.   kubeconfig: of the API server that tells which devices
    dynamic resource allocation means; None: the pod's service account.   kernel_log: XIDs from before the start.
    """

    enabled: bool | None = None
    interval_seconds: Interval = 10
    pool: str = ""
    replicas: Annotated[int, Field(ge=1, le=1024)] = 1
    proc: Path = Path("/proc")
    kernel_log: Path | None = Path("/dev/kmsg")
    podresources: Path | None = Path("/var/lib/kubelet/pod-resources/kubelet.sock")
    kubelet_url: Url | None = None
    kubelet_token_file: Path | None = None
    kubelet_ca_file: Path | None = None
    kubelet_insecure: bool = False
    kubeconfig: Path | None = None


class ExporterSettings(_Section):
    """Exporters of devices. profile: a name or a file; None: by the names of their metrics.   believe_labels: False
    where NVML or the kubelet tells who holds a device.   inventory: whether they are reported as devices; None: but for
    NVIDIA's where this agent's NVML reports them.   pool: of its device rows."""

    urls: Annotated[tuple[Url, ...], Field(min_length=1)]
    profile: str | None = None
    interval_seconds: Interval = 15
    believe_labels: bool = True
    inventory: bool | None = None
    pool: str = ""
    token_file: Path | None = None
    ca_file: Path | None = None


class PrometheusSettings(_Section):
    """A Prometheus that scrapes exporters already. believe_labels, inventory, pool: as for exporters."""

    url: Url
    profiles: tuple[str, ...] = ()
    selector: str = ""
    interval_seconds: Interval = 60
    scrape_seconds: Annotated[float, Field(gt=0, le=3600)] = 30
    honor_labels: bool | None = None
    believe_labels: bool = True
    inventory: bool | None = None
    pool: str = ""
    token_file: Path | None = None
    ca_file: Path | None = None


class ServiceSettings(_Section):
    """An inference server, by its replicas that run here. urls: of their metrics.   whole: these are all of its
    replicas."""

    name: Annotated[str, Field(min_length=1)]
    urls: Annotated[tuple[Url, ...], Field(min_length=1)]
    tenant: str = ""
    profile: str = ""
    whole: bool = False
    interval_seconds: Interval = 15
    token_file: Path | None = None
    ca_file: Path | None = None


class TrainingSettings(_Section):
    """socket: where trainings on this node send their progress; None: none."""

    socket: Path | None = None
    interval_seconds: Interval = 15


class SourcesSettings(_Section):
    nvml: NvmlSettings = NvmlSettings()
    exporters: tuple[ExporterSettings, ...] = ()
    prometheus: tuple[PrometheusSettings, ...] = ()
    services: tuple[ServiceSettings, ...] = ()
    training: TrainingSettings = TrainingSettings()


class DeliverSettings(_Section):
    """url: http(s):// of a `gpuledger server`, or clickhouse(s)://; None: rows stay in the spool."""

    url: str | None = None
    token_file: Path | None = None
    ca_file: Path | None = None
    every_seconds: Annotated[float, Field(ge=0.1, le=3600)] = 10


class SpoolSettings(_Section):
    """max_bytes: on disk; the oldest go first.   memory_bytes: of what a full disk does not take.   synced: whether
    a tick waits for the disk, so that a power cut takes nothing."""

    folder: Path = Path("/var/lib/gpuledger/spool")
    max_bytes: ByteSize = ByteSize(1 << 30)
    memory_bytes: ByteSize = ByteSize(8 << 20)
    synced: bool = True


class MetricsSettings(_Section):
    """host, port: of /metrics, /healthz and /readyz; port None: nowhere.   devices: also what was measured."""

    host: str = "127.0.0.1"
    port: Annotated[int, Field(ge=0, le=65535)] | None = 9108
    devices: bool = True


class RunJobsSettings(_Section):
    """Jobs that a `gpuledger scheduler --executor agents` places on this node. url: its address; None: none are run.

    token_file: of this node's own token.   folder: of the ranks and their output.   user: whose processes they are;
    None: the agent's, unless that is root.   address: where ranks of other nodes meet those of this one; None: the
    node's name, or this machine alone where the scheduler is on it.   ports: first and last to meet at; None: any that
    is free.   log_bytes: of what each rank says, the last are kept.   visible_devices: the variable that names a rank's
    devices to its driver.   beside: launchers that may be here because they leave these devices alone.
    """

    url: Url | None = None
    token_file: Path | None = None
    ca_file: Path | None = None
    folder: Path = Path("/var/lib/gpuledger/jobs")
    user: str | None = None
    address: Annotated[str, Field(pattern=r"^[A-Za-z0-9_.:\-]{1,253}$")] | None = None
    ports: tuple[Port, Port] | None = None
    every_seconds: Annotated[float, Field(ge=0.2, le=60)] = 2
    grace_seconds: Annotated[float, Field(ge=0.1, le=600)] = 10
    log_bytes: Annotated[ByteSize, Field(ge=1 << 16)] = ByteSize(16 << 20)
    visible_devices: Annotated[str, Field(pattern=r"^[A-Z][A-Z0-9_]*$")] = "CUDA_VISIBLE_DEVICES"
    beside: tuple[Literal["kubernetes", "slurm"], ...] = ()

    @model_validator(mode="after")
    def _can_be(self) -> Self:
        if self.url is not None and self.token_file is None:
            raise ValueError("token_file is needed: a scheduler sends a node's jobs to that node only")
        if self.ports is not None and self.ports[0] > self.ports[1]:
            raise ValueError(f"ports: {self.ports[0]} is above {self.ports[1]}")
        return self


class AgentSettings(_Section):
    """cluster, node: whose rows these are."""

    cluster: str = ""
    node: Annotated[str, Field(min_length=1)] = Field(default_factory=socket.gethostname)
    deliver: DeliverSettings = DeliverSettings()
    spool: SpoolSettings = SpoolSettings()
    metrics: MetricsSettings = MetricsSettings()
    sources: SourcesSettings = SourcesSettings()
    run_jobs: RunJobsSettings = RunJobsSettings()


def read_settings(path: Path | None, over: Mapping[str, Any] | None = None) -> AgentSettings:
    """The file's settings, and over them those given by dotted names such as `deliver.url`; None there says nothing.

    Errors: CollectorError that names the key.
    """
    document: dict[str, Any] = {}
    if path is not None:
        document = _expanded(read_yaml(path, "settings of an agent", HINT, CollectorError), path)
    for name, value in (over or {}).items():
        if value is not None:
            _put(document, name.split("."), value)
    try:
        return AgentSettings.model_validate(document)
    except ValidationError as error:
        raise first_error(str(path or "agent"), error, AgentSettings, CollectorError, HINT) from None


def _expanded(value: Any, path: Path, key: str = "") -> Any:
    """`$NAME` and `${NAME}` in texts, from the environment.   Errors: CollectorError for a name that is not there."""
    if isinstance(value, dict):
        return {name: _expanded(item, path, f"{key}.{name}" if key else str(name)) for name, item in value.items()}
    if isinstance(value, list):
        return [_expanded(item, path, f"{key}[{place}]") for place, item in enumerate(value)]
    if not isinstance(value, str):
        return value
    for match in _VARIABLE.finditer(value):
        if (name := match[1] or match[2]) not in os.environ:
            raise CollectorError(f"{path}: {key}", f"${name} is not set", "Set it in the agent's environment")
    return os.path.expandvars(value)


def _put(document: dict[str, Any], names: list[str], value: Any) -> None:
    for name in names[:-1]:
        inner = document.get(name)
        document[name] = inner = dict(inner) if isinstance(inner, dict) else {}
        document = inner
    document[names[-1]] = value
