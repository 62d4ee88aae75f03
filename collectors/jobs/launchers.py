"""Detects other software that starts processes on this node: if Kubernetes or Slurm does, two systems would assign the
same devices.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Literal

from collectors.errors import CollectorError

Launcher = Literal["kubernetes", "slurm"]
DAEMONS: Mapping[str, Launcher] = {
    "kubelet": "kubernetes",
    "k3s-agent": "kubernetes",
    "k3s-server": "kubernetes",
    "slurmd": "slurm",
    "slurmstepd": "slurm",
}
NAMES: Mapping[Launcher, str] = {"kubernetes": "Kubernetes", "slurm": "Slurm"}


def others(proc: Path = Path("/proc"), environment: Mapping[str, str] = os.environ) -> dict[Launcher, str]:
    """By launcher, the evidence that it starts processes here, as far as this process can see."""
    found: dict[Launcher, str] = {}
    for entry in proc.iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                name = (entry / "comm").read_text().strip()
                if name in DAEMONS:
                    found.setdefault(DAEMONS[name], f"{name} runs, pid {entry.name}")
    if environment.get("KUBERNETES_SERVICE_HOST"):
        found.setdefault("kubernetes", "this is a pod")
    if environment.get("SLURM_JOB_ID"):
        found.setdefault("slurm", f"this is Slurm's job {environment['SLURM_JOB_ID']}")
    return found


def refuse_beside(allowed: Collection[str], where: str) -> None:
    """Errors: CollectorError if a launcher other than the allowed ones starts processes on this node."""
    for launcher, sign in others().items():
        if launcher not in allowed:
            raise CollectorError(
                where,
                f"{NAMES[launcher]} starts the processes on this node ({sign}), and would hand out the same devices",
                f"Leave it to {NAMES[launcher]}; or, if it leaves these devices alone, set beside: {launcher}",
            )
