"""A made-up /proc for tests."""

from __future__ import annotations

from pathlib import Path

UID = "3d2f9c1a-7b64-4e0f-9a55-0c8e6f1b2d43"
NEIGHBOUR = "9b0e4c77-1d5a-4f3b-8c21-6e7f8a9b0c1d"


def pod_cgroup(uid: str = UID) -> str:
    return f"0::/kubepods/burstable/pod{uid}/{'5e' * 32}\n"


def add_process(root: Path, pid: int, cgroup: str = "0::/\n", start_ticks: int = 100, command: str = "python3") -> None:
    folder = root / str(pid)
    folder.mkdir(parents=True, exist_ok=True)
    behind_command = ["S", "1", *["0"] * 17, str(start_ticks), *["0"] * 30]
    (folder / "stat").write_text(f"{pid} ({command}) {' '.join(behind_command)}\n")
    (folder / "cgroup").write_text(cgroup)
    (folder / "comm").write_text(f"{command}\n")


def host_proc(root: Path) -> Path:
    """With the kernel's threads, which only the host's PID namespace shows."""
    add_process(root, 2, command="kthreadd")
    return root
