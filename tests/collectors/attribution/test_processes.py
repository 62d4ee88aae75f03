"""A pid is somebody's only while it surely is: not after it vanished, not when it passed to another process."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collectors.attribution.processes import Owners, ProcessTable, seconds_since_boot
from tests.patience import PATIENCE_SECONDS

from .proc_tree import NEIGHBOUR, UID, add_process, host_proc, pod_cgroup

TICKS = os.sysconf("SC_CLK_TCK")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return host_proc(tmp_path / "proc")


def reason(owners: Owners, pid: int) -> tuple[str, str]:
    owner = owners.of(pid).owner
    return owner.kind, owner.reason


def test_a_process_of_a_pod_is_its_pods(root: Path) -> None:
    add_process(root, 40, pod_cgroup(), start_ticks=123, command="train (x) y")
    process = ProcessTable(root).owners([40]).of(40)
    assert (process.owner.workload_id, process.start_ticks, process.command) == (UID, 123, "train (x) y")


def test_a_process_that_has_gone_is_unknown_and_not_nobodys(root: Path) -> None:
    owners = ProcessTable(root).owners([40])
    assert owners.state == "ok"
    assert reason(owners, 40) == ("unknown", "vanished")


def test_a_pid_that_started_after_the_driver_answered_is_another_process(root: Path) -> None:
    add_process(root, 40, pod_cgroup(), start_ticks=200 * TICKS)
    table = ProcessTable(root)
    assert reason(table.owners([40], asked_at=199.5), 40) == ("unknown", "pid_reused")
    assert table.owners([40], asked_at=200.0).of(40).owner.workload_id == UID


def test_a_pid_that_passed_to_another_owner_within_the_interval_is_nobodys_for_that_interval(root: Path) -> None:
    table = ProcessTable(root)
    add_process(root, 40, pod_cgroup(UID), start_ticks=100)
    assert table.owners([40]).of(40).owner.workload_id == UID
    add_process(root, 40, pod_cgroup(NEIGHBOUR), start_ticks=900)
    assert reason(table.owners([40]), 40) == ("unknown", "pid_reused")
    assert table.owners([40]).of(40).owner.workload_id == NEIGHBOUR


def test_a_pid_reused_by_the_same_pod_stays_the_pods(root: Path) -> None:
    table = ProcessTable(root)
    add_process(root, 40, pod_cgroup(), start_ticks=100)
    table.owners([40])
    add_process(root, 40, pod_cgroup(), start_ticks=900)
    assert table.owners([40]).of(40).owner.workload_id == UID


def test_without_the_hosts_pids_nothing_is_known_of_anybody(tmp_path: Path) -> None:
    private = tmp_path / "proc"
    add_process(private, 1, command="pause")
    add_process(private, 40, pod_cgroup())
    owners = ProcessTable(private).owners([40])
    assert owners.state == "no_permission"
    assert reason(owners, 40) == ("unknown", "not_the_hosts_proc")


def test_a_process_called_like_a_kernel_thread_does_not_make_a_host(tmp_path: Path) -> None:
    private = tmp_path / "proc"
    add_process(private, 1, command="kthreadd")
    assert ProcessTable(private).state() == "no_permission"


def test_a_cgroup_that_cannot_be_read_is_unreadable(root: Path) -> None:
    add_process(root, 40, pod_cgroup())
    (root / "40" / "cgroup").unlink()
    (root / "40" / "cgroup").mkdir()
    assert reason(ProcessTable(root).owners([40]), 40) == ("unknown", "unreadable")


def test_a_folder_without_its_files_is_a_process_that_is_just_leaving(root: Path) -> None:
    (root / "40").mkdir()
    assert reason(ProcessTable(root).owners([40]), 40) == ("unknown", "vanished")


@given(st.binary(max_size=300), st.binary(max_size=300))
def test_no_content_of_proc_breaks_it(stat: bytes, cgroup: bytes) -> None:
    for name, content in (("stat", stat), ("cgroup", cgroup)):
        (FUZZED / "40" / name).write_bytes(content)
    process = ProcessTable(FUZZED).owners([40], asked_at=0.0).of(40)
    assert process.owner.kind in ("pod", "slurm", "none", "unknown")


FUZZED = Path("/nonexistent")


@pytest.fixture(autouse=True, scope="module")
def fuzzed_root(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    global FUZZED
    FUZZED = host_proc(tmp_path_factory.mktemp("proc"))
    add_process(FUZZED, 40)
    yield
    shutil.rmtree(FUZZED)


@pytest.fixture
def child() -> Iterator[subprocess.Popen[bytes]]:
    """A real process, with a name of its own."""
    process = subprocess.Popen([sys.executable, "-c", "import time; print(1, flush=True); time.sleep(60)"], stdout=-1)
    assert process.stdout is not None
    process.stdout.readline()
    yield process
    process.kill()
    process.wait()
    process.stdout.close()


def linux_host() -> ProcessTable:
    table = ProcessTable()
    if table.state() != "ok":
        pytest.skip("this /proc is not the host's: no kernel threads in it")
    return table


def test_a_real_child_is_found_with_its_start(child: subprocess.Popen[bytes]) -> None:
    before = seconds_since_boot()
    process = linux_host().owners([child.pid], asked_at=before).of(child.pid)
    assert (
        process.owner.reason in ("host", "login_session", "container_outside_kubernetes") or process.owner.workload_id
    )
    assert process.command.startswith("python")
    assert process.start_ticks is not None
    assert 0 <= before - process.start_ticks / TICKS < 60


def test_a_real_child_that_died_is_unknown(child: subprocess.Popen[bytes]) -> None:
    table = linux_host()
    assert table.owners([child.pid]).of(child.pid).owner.reason != "vanished"
    child.send_signal(signal.SIGKILL)
    child.wait()
    assert reason(table.owners([child.pid]), child.pid) == ("unknown", "vanished")


def test_a_real_child_that_started_after_the_question_is_not_whom_it_was_about(child: subprocess.Popen[bytes]) -> None:
    owners = linux_host().owners([child.pid], asked_at=seconds_since_boot() - 120)
    assert reason(owners, child.pid) == ("unknown", "pid_reused")


def test_a_real_private_pid_namespace_is_noticed() -> None:
    """Only where this machine lets us make one."""
    code = (
        "from collectors.attribution.processes import ProcessTable\n"
        "print(ProcessTable().state(), ProcessTable().owners([1]).state)"
    )
    command = ["unshare", "--user", "--map-root-user", "--pid", "--fork", "--mount-proc", sys.executable, "-c", code]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_SECONDS)
    except FileNotFoundError:
        pytest.skip("no unshare here")
    if done.returncode and "unshare" in done.stderr:
        pytest.skip(f"no namespace may be made here: {done.stderr.strip()}")
    assert done.stdout.split() == ["no_permission", "no_permission"], done.stderr


def add_child(root: Path, pid: int, parent: int, born: int, cgroup: str = "0::/user.slice") -> None:
    add_process(root, pid, cgroup, start_ticks=born)
    stat = (root / str(pid) / "stat").read_text()
    before, after = stat[: stat.rindex(")") + 1], stat[stat.rindex(")") + 1 :].split()
    (root / str(pid) / "stat").write_text(" ".join([before, after[0], str(parent), *after[2:]]))


def test_what_is_below_a_keeper_is_its_jobs_and_nothing_else_is(root: Path) -> None:
    add_child(root, 1, 0, 0)
    add_child(root, 30, 1, 100)
    add_child(root, 31, 30, 110)
    add_child(root, 32, 31, 120)
    add_child(root, 33, 32, 130, pod_cgroup())
    add_child(root, 50, 1, 140)
    add_child(root, 51, 50, 150)
    add_child(root, 60, 31, 105)  # older than who is its parent now: that pid was another's
    add_child(root, 61, 70, 160)  # whose parent ended meanwhile
    table = ProcessTable(root, lambda: {(30, 100): "train-7", (50, 90): "of a keeper that is gone"})
    found = table.owners([30, 31, 32, 33, 50, 51, 60, 61])
    whose = {pid: (one.owner.kind, one.owner.workload_id) for pid, one in found.processes.items()}
    assert whose == {
        **dict.fromkeys((30, 31, 32), ("job", "train-7")),
        33: ("pod", UID),
        **dict.fromkeys((50, 51), ("none", "")),
        **dict.fromkeys((60, 61), ("unknown", "")),
    }
