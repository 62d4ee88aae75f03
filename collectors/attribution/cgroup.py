"""Whose process it is, by the text of its /proc/PID/cgroup.

Forms (cgroup v1 and v2, drivers cgroupfs and systemd, a kubelet inside a container, a private cgroup namespace):

    /kubepods[/QOS]/podUID/CONTAINER                              guaranteed pods have no QOS segment
    /kubepods.slice/..-podUID_WITH_UNDERSCORES.slice/RUNTIME-CONTAINER.scope
    /system.slice/containerd.service/kubepods-..-podUID.slice:cri-containerd:CONTAINER     drivers that disagree
    /slurm[_NODE]/uid_N/job_N[/step_S]                            Slurm, v1
    /system.slice/[NODE_]slurmstepd.scope/job_N[/step_S]          Slurm, v2

Source: Kubernetes pkg/kubelet/cm; Slurm, https://slurm.schedmd.com/cgroup_v2.html
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

OwnerKind = Literal["pod", "slurm", "job", "none", "unknown"]


@dataclass(frozen=True, slots=True)
class Owner:
    """Who a process belongs to.

    kind: `none` is known to be nobody's workload, `unknown` could be anybody's; reason says why of both.
    workload_id: the pod's UID in lower case with dashes (static pods have 32 digits without), Slurm's job id as
    its accounting writes it raw, or the job of which the agent runs a rank.   container_id: 64 digits.   step: of the
    Slurm job, e.g. `0`, `batch`, `extern`.
    """

    kind: OwnerKind
    workload_id: str = ""
    container_id: str = ""
    step: str = ""
    reason: str = ""


_POD_UID = re.compile(r"[0-9a-f]{8}([-_]?)[0-9a-f]{4}\1[0-9a-f]{4}\1[0-9a-f]{4}\1[0-9a-f]{12}")
_POD = re.compile(r"(?:[a-z0-9_-]*kubepods(?:-[a-z]+)?-)?pod(?P<uid>[^.:/]+)(?:\.slice)?(?::(?P<rest>.*))?")
_CONTAINER = re.compile(r"(?:^|[-:])([0-9a-f]{64})(?:\.scope)?$")
_SLURM_ROOT = re.compile(r"slurm(?:_.+)?|(?:.+_)?slurmstepd\.scope")
_JOB = re.compile(r"job_(\d+)")
_STEP = re.compile(r"step_([\w.+-]+)")

# Of v1's hierarchies, those in which runtimes and Slurm surely place their processes come first.
_CONTROLLERS = ("memory", "cpu", "cpuacct", "cpuset", "devices", "pids", "freezer")


@lru_cache(maxsize=4096)
def owner_of(text: str) -> Owner:
    """The owner that the text of /proc/PID/cgroup names.

    Traps: the first segment from the root that names an owner counts, and below a login session none does: what is
    below is the owner's own to name. Of several hierarchies (v1) the first that names an owner counts.
    """
    owners = [_owner_of_path(path) for path in _paths(text)]
    named = (owner for owner in owners if owner.kind in ("pod", "slurm"))
    telling = (owner for owner in owners if owner.reason != "host")
    nobody = owners[0] if owners else Owner("unknown", reason="no_cgroup")
    return next(named, None) or next(telling, None) or nobody


def _paths(text: str) -> list[str]:
    """Paths of the hierarchies, the most trustworthy first."""
    ranked: list[tuple[int, int, str]] = []
    for position, line in enumerate(text.splitlines()):
        fields = line.split(":", 2)
        if len(fields) != 3 or not fields[2].startswith("/"):
            continue
        controllers = fields[1].split(",")
        ranks = [_CONTROLLERS.index(name) for name in controllers if name in _CONTROLLERS]
        ranked.append((min(ranks, default=len(_CONTROLLERS)), position, fields[2]))
    return [path for _, _, path in sorted(ranked)]


def _owner_of_path(path: str) -> Owner:
    segments = [segment for segment in path.split("/") if segment and segment != ".."]
    if segments and segments[0] == "user.slice":
        return Owner("none", reason="login_session")
    container = ""
    for position, segment in enumerate(segments):
        below = segments[position + 1 :]
        if _SLURM_ROOT.fullmatch(segment) and (job := _slurm(below)):
            return job
        if (named := _POD.fullmatch(segment)) and (pod := _pod(named, segments[: position + 1], below)):
            return pod
        container = container or _container(segment)
    if container:
        return Owner("none", container_id=container, reason="container_outside_kubernetes")
    return Owner("none", reason="host")


def _pod(named: re.Match[str], path: list[str], below: list[str]) -> Owner | None:
    """The pod, or that the segment has no valid UID; None if nothing shows that the segment is a kubelet's."""
    uid = named["uid"]
    if not _POD_UID.fullmatch(uid):
        kubelets = any("kubepods" in segment for segment in path)
        return Owner("unknown", reason="malformed_pod_uid") if kubelets else None
    candidates = [named["rest"] or "", *below]
    container = next((found for found in map(_container, candidates) if found), "")
    return Owner("pod", uid.replace("_", "-"), container)


def _slurm(below: list[str]) -> Owner | None:
    for position, segment in enumerate(below[:2]):
        if job := _JOB.fullmatch(segment):
            step = next((found[1] for found in map(_STEP.fullmatch, below[position + 1 : position + 2]) if found), "")
            return Owner("slurm", job[1], step=step)
    return None


def _container(segment: str) -> str:
    found = _CONTAINER.search(segment)
    return found[1] if found else ""
