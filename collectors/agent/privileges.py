"""Checks at the start what the agent may read on this node; each missing privilege has a name, a state and a next step,
so that nobody takes it for a quiet node.
"""

from __future__ import annotations

import ctypes
import os
import socket
import stat
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from collectors.agent.settings import AgentSettings, NvmlSettings, SourcesSettings

Answer = Literal["ok", "unsupported", "no_permission", "blank"]
PCI_DEVICES = Path("/sys/bus/pci/devices")
NVIDIA = "0x10de"
"""The vendor's number on PCI."""


@dataclass(frozen=True, slots=True)
class Privilege:
    """name: as /metrics and findings show it.   state: ok; unsupported (not there); no_permission; blank (there, and
    does not answer).   needed_for: what is unknown without it."""

    name: str
    state: Answer
    needed_for: str
    message: str = ""
    next_step: str = ""

    def __str__(self) -> str:
        return f"{self.name}: {self.message}; {self.needed_for}. Next: {self.next_step}"


def check(settings: AgentSettings) -> list[Privilege]:
    """Checks all privileges that this agent's settings need."""
    found = [_token(settings.deliver.token_file)] if settings.deliver.token_file else []
    if settings.run_jobs.token_file is not None:
        needed = "without it this node runs no jobs"
        found.append(_token(settings.run_jobs.token_file, "run_jobs_token_file", needed))
    nvml = settings.sources.nvml
    if reads_nvml(settings.sources):
        found += [library(), _processes(nvml), *_podresources(nvml), *_kernel_log(nvml)]
    return found


def reads_nvml(sources: SourcesSettings, devices: Path = PCI_DEVICES) -> bool:
    """Whether NVML is a source of this node: as the settings say; where they do not, it is unless other sources are
    read and nothing here is NVIDIA's. A driver that is away beside NVIDIA's devices is still reported."""
    if sources.nvml.enabled is not None:
        return sources.nvml.enabled
    others = sources.exporters or sources.prometheus or sources.services
    return not others or library().state == "ok" or any(map(_is_nvidia, devices.glob("*/vendor")))


def _is_nvidia(vendor: Path) -> bool:
    try:
        return vendor.read_text(encoding="ascii").strip().lower() == NVIDIA
    except FileNotFoundError:  # unplugged meanwhile
        return False


def missing(found: Sequence[Privilege]) -> list[Privilege]:
    return [privilege for privilege in found if privilege.state != "ok"]


def library(load: Callable[[str], object] = ctypes.CDLL) -> Privilege:
    """Whether NVML is installed."""
    needed = "without it nothing is known of NVIDIA devices"
    try:
        load("libnvidia-ml.so.1")
    except OSError as error:
        step = "install the driver, run the container with the NVIDIA runtime, or set sources.nvml.enabled: false"
        return Privilege("nvml_library", "unsupported", needed, str(error), step)
    return Privilege("nvml_library", "ok", needed)


def _processes(nvml: NvmlSettings) -> Privilege:
    from collectors.attribution.processes import ProcessTable

    needed = "without it processes have no owners, and who used a shared device is unknown"
    if ProcessTable(nvml.proc).state() == "ok":
        return Privilege("host_processes", "ok", needed)
    message = f"{nvml.proc} is not the host's, or hides its processes"
    step = "hostPID: true in a pod, or mount the host's /proc and set sources.nvml.proc"
    return Privilege("host_processes", "no_permission", needed, message, step)


def _podresources(nvml: NvmlSettings) -> list[Privilege]:
    """No privilege if the kubelet's folder does not exist: then this is not a Kubernetes node, as far as we can
    tell."""
    path = nvml.podresources
    if path is None or not path.parent.exists():
        return []
    name, needed = "podresources", "without it which pod holds which device is unknown"
    step = f"mount {path.parent} into the agent's container and let it run as root"
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(2)
        try:
            connection.connect(str(path))
        except PermissionError:
            return [Privilege(name, "no_permission", needed, f"{path} may not be opened", step)]
        except FileNotFoundError:
            return [Privilege(name, "unsupported", needed, f"there is no {path}", "is the kubelet running?")]
        except OSError as error:
            return [Privilege(name, "blank", needed, f"{path} does not answer ({error})", "is the kubelet running?")]
    return [Privilege(name, "ok", needed)]


def _kernel_log(nvml: NvmlSettings) -> list[Privilege]:
    path = nvml.kernel_log
    if path is None:
        return []
    name, needed = "kernel_log", "without it XIDs from before the start are unknown"
    try:
        os.close(os.open(path, os.O_RDONLY | os.O_NONBLOCK))
    except FileNotFoundError:
        return [Privilege(name, "unsupported", needed, f"there is no {path}", "set sources.nvml.kernel_log: null")]
    except OSError as error:
        step = "run as root with CAP_SYSLOG, or set sources.nvml.kernel_log: null"
        return [Privilege(name, "no_permission", needed, f"{path}: {error.strerror}", step)]
    return [Privilege(name, "ok", needed)]


def _token(
    path: Path, name: str = "token_file", needed: str = "without it nothing is delivered; rows wait in the spool"
) -> Privilege:
    try:
        mode = path.stat().st_mode
        path.read_bytes()
    except FileNotFoundError:
        return Privilege(name, "unsupported", needed, f"there is no {path}", "put the token into that file")
    except OSError as error:
        return Privilege(name, "no_permission", needed, f"{path}: {error.strerror}", "let the agent's user read it")
    if mode & (stat.S_IWOTH | stat.S_IROTH):
        open_needed = "everybody on this node can read it, or put another in its place"
        return Privilege(name, "blank", open_needed, f"{path} is open to others", f"chmod 600 {path}")
    return Privilege(name, "ok", needed)
