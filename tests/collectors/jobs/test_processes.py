"""Ranks as processes: started once, found again, stopped with all they started, and by themselves without a lease."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from collectors.attribution.processes import ProcessTable
from collectors.errors import CollectorError
from collectors.jobs import keeper
from collectors.jobs import processes as module
from collectors.jobs.processes import Processes, RankId, Run, User, user_named
from collectors.jobs.wire import RunOf
from tests.patience import until

SHELL = "/bin/sh"
A = RankId("a", 1, 7, 0)


@pytest.fixture
def processes(tmp_path: Path) -> Iterator[Processes]:
    found = Processes(tmp_path / "jobs", grace_seconds=5)
    yield found
    for run in found.look():
        found.stop(run.id)
    until(lambda: not any(run.alive for run in found.look()))


def start(processes: Processes, script: str, rank: RankId = A, env: Mapping[str, str] | None = None) -> Path:
    world = {"world": rank.world, "rank": rank.rank, "master_port": 4000}
    own = {"PATH": os.environ["PATH"]} | dict(env or {})
    processes.start(rank, (SHELL, "-c", script), own, "", ("GPU-a",), world)
    return processes.folder / f"{rank.job}.{rank.attempt}.{rank.world}.{rank.rank}"


def over(processes: Processes, rank: RankId = A) -> Run:
    return until(lambda: next((run for run in processes.look() if run.id == rank and not run.alive), None))


def again(processes: Processes) -> Processes:
    """The next agent, after a kill of the one before: nothing is told to that one."""
    processes.close()
    found = Processes(processes.folder, 5, lease=processes.lease)
    processes._children.clear()
    return found


def test_its_exit_status_times_and_last_output_are_reported(processes: Processes) -> None:
    before = time.time()
    start(processes, "echo said; echo more >&2; exit 3")
    run = over(processes)
    assert run.end is not None
    assert run.began_at is not None
    assert (run.end.code, run.end.stopped, run.end.error) == (3, "", "")
    assert before <= run.began_at <= run.end.at <= time.time()
    assert processes.tail(run) == "said\nmore\n"


def test_a_rank_runs_once_whoever_is_asked_and_whenever(processes: Processes) -> None:
    count = processes.folder / "count"
    start(processes, f"echo x >> {count}; sleep 300")
    start(processes, f"echo x >> {count}; sleep 300")
    until(lambda: count.exists() and count.read_text())
    other = again(processes)
    start(other, f"echo x >> {count}; sleep 300")
    other.stop(A)
    assert over(other).end is not None
    other.forget(A)
    assert other.known(A)
    start(other, f"echo x >> {count}")
    time.sleep(0.3)
    assert count.read_text() == "x\n"
    assert other.look() == []
    other.recall(A)
    assert over(other).end is not None, "what is asked for again is told again"


def test_all_that_a_rank_starts_is_its_jobs_also_for_the_next_agent(processes: Processes, tmp_path: Path) -> None:
    said = tmp_path / "pids"
    start(processes, f"setsid sh -c 'echo $$ >> {said}; exec sleep 300' & echo $$ >> {said}; sleep 300")
    until(lambda: said.exists() and len(said.read_text().split()) == 2)
    pids = [int(one) for one in said.read_text().split()]
    processes = again(processes)
    owners = ProcessTable(keepers=lambda: module.keepers(processes.folder)).owners([*pids, os.getpid()])
    if owners.state != "ok":
        pytest.skip("this /proc is not the host's")
    assert [owners.of(pid).owner.workload_id for pid in pids] == ["a", "a"]
    assert owners.of(os.getpid()).owner.workload_id == ""
    processes.stop(A)
    over(processes)
    assert module.keepers(processes.folder) == {}


def test_ranks_that_ended_unobserved_are_found(processes: Processes) -> None:
    folder = start(processes, "exit 4")
    until((folder / "exit").exists)
    found = over(again(processes))
    assert found.end is not None
    assert found.end.code == 4


def test_a_rank_stopped_before_it_began_never_begins(processes: Processes) -> None:
    folder = processes.folder / "a.1.7.0"
    processes._prepare(
        A, (SHELL, "-c", f"touch {processes.folder}/ran"), {}, "", (), {"world": 7, "rank": 0, "master_port": 1}
    )
    processes.stop(A)
    run = over(processes)
    assert run.end is not None
    assert (run.end.stopped, run.began_at) == ("asked", None)
    module.subprocess.run([module.sys.executable, "-I", "-S", module.keeper.__file__, folder], check=True)
    assert not (processes.folder / "ran").exists(), "a keeper that comes late finds it claimed"


def test_a_start_that_was_cut_short_is_carried_out_once(processes: Processes) -> None:
    """The agent is killed after it wrote down what is to run, and before anything ran."""
    count = processes.folder / "count"
    world = {"world": 7, "rank": 0, "master_port": 1}
    processes._prepare(A, (SHELL, "-c", f"echo x >> {count}"), {}, "", (), world)
    other = again(processes)
    assert other.look()[0].alive
    for _ in range(2):
        other.ensure(A)
    over(other)
    other.ensure(A)
    time.sleep(0.2)
    assert count.read_text() == "x\n"


def test_a_keeper_that_does_not_begin_is_an_end_that_says_why(
    processes: Processes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module.keeper, "__file__", "/no/such/keeper.py")
    start(processes, "true")
    run = over(processes)
    assert run.end is not None
    assert "No such file" in run.end.error
    assert run.began_at is None


def test_a_torn_state_after_a_power_cut_is_not_run_again_and_stops_nothing_else(processes: Processes) -> None:
    folder = start(processes, "sleep 0.1")
    over(processes)
    (folder / "run.json").write_text("")
    other = again(processes)
    assert other.look() == []
    assert other.known(A)


def test_all_that_it_started_ends_with_it_also_what_left_its_session(processes: Processes) -> None:
    """It ends by itself; a child in a session of its own, deaf to SIGTERM, would hold the device."""
    mark = processes.folder / "child"
    quick = Processes(processes.folder / "quick", grace_seconds=0.3)
    child = f"setsid sh -c \"trap '' TERM; echo \\$\\$ > {mark}; sleep 300; sleep 300\""
    start(quick, f"{child} & until test -s {mark}; do sleep 0.02; done")
    run = over(quick)
    assert run.end is not None
    assert run.end.code == 0
    assert not keeper.born(int(mark.read_text()))


def test_who_does_not_hear_sigterm_is_killed_after_its_grace(tmp_path: Path) -> None:
    processes = Processes(tmp_path / "jobs", grace_seconds=0.3)
    start(processes, f"trap '' TERM; touch {tmp_path}/ready; while :; do sleep 1; done")
    until((tmp_path / "ready").exists)
    processes.stop(A)
    run = over(processes)
    assert run.end is not None
    assert (run.end.code, run.end.stopped) == (-9, "asked")


def test_a_rank_whose_keeper_was_killed_does_not_go_on(processes: Processes) -> None:
    """The command dies with its keeper; what had left it is found by its mark."""
    mark = processes.folder / "child"
    folder = start(processes, f"setsid sh -c 'echo $$ > {mark}; sleep 300' & sleep 300")
    until(lambda: mark.exists() and mark.read_text().strip())
    other = again(processes)
    os.kill(int((folder / "process").read_text().split()[0]), signal.SIGKILL)
    run = over(other)
    assert run.end is not None
    assert (run.end.code, run.end.error) == (None, "ended without an exit status")
    assert not keeper.born(int(mark.read_text()))


DAEMON = """
import os, sys, time
if os.fork():
    time.sleep(300)
os.setsid()
if os.fork():
    os._exit(0)
open(sys.argv[1] + ".new", "w").write(str(os.getpid()))
os.rename(sys.argv[1] + ".new", sys.argv[1])
os.closerange(0, 100)
os.execve("/bin/sleep", ["sleep", "300"], {})
"""


def test_a_daemon_without_session_parent_or_environment_does_not_outlive_its_keeper(processes: Processes) -> None:
    mark = processes.folder / "daemon"
    folder = start(processes, f"exec {sys.executable} -c '{DAEMON}' {mark}")
    daemon = int(until(lambda: mark.exists() and mark.read_text()))
    until(lambda: Path(f"/proc/{daemon}/comm").read_text() == "sleep\n")
    assert Path(f"/proc/{daemon}/environ").read_bytes() == b""
    beside = RankId("b", 1, 7, 0)
    start(processes, "sleep 300", beside)
    os.kill(int((folder / "process").read_text().split()[0]), signal.SIGKILL)
    processes.look()
    other = again(processes)
    over(other)
    assert not keeper.born(daemon)
    assert [run.alive for run in other.look() if run.id == beside] == [True]
    other.close()


@pytest.mark.parametrize("left", ["0", ""])
def test_without_a_lease_it_stops_by_itself_without_an_agent(tmp_path: Path, left: str) -> None:
    lease = tmp_path / "lease"
    lease.write_text(str(time.clock_gettime(time.CLOCK_BOOTTIME) + 300))
    processes = Processes(tmp_path / "jobs", grace_seconds=5, lease=lease)
    start(processes, f"touch {tmp_path}/ready; sleep 300")
    until((tmp_path / "ready").exists)
    time.sleep(0.6)
    assert processes.look()[0].alive
    lease.write_text(left)  # over; or unreadable, which nobody renews
    run = over(processes)
    assert run.end is not None
    assert run.end.stopped == "lease"
    late = RankId("late", 1, 8, 0)
    start(processes, f"touch {tmp_path}/never", late)
    ended = over(processes, late)
    assert (ended.end is not None and ended.end.stopped, ended.began_at) == ("lease", None)
    assert not (tmp_path / "never").exists()


def test_a_rank_that_goes_on_hears_of_another_world(processes: Processes) -> None:
    said = processes.folder / "said"
    start(
        processes,
        f"trap 'cat $GPULEDGER_WORLD >> {said}' USR1; cat $GPULEDGER_WORLD > {said}; while :; do sleep 0.05; done",
    )
    until(lambda: said.exists() and "4000" in said.read_text() and processes.look()[0].began_at)
    processes.tell(A, {"world": 9, "rank": 0, "master_port": 5000})
    until(lambda: "5000" in said.read_text())
    assert (processes.look()[0].world, processes.look()[0].port) == (9, 5000)
    assert again(processes).look()[0].world == 9


def test_a_program_that_is_still_loading_hears_of_another_world_once_it_can(processes: Processes) -> None:
    """Found as a test that failed once: the signal ended the interpreter, which had not come to the program yet."""
    said = processes.folder / "said"
    start(
        processes,
        f"touch {said}.loading; sleep 1; trap 'cat $GPULEDGER_WORLD >> {said}' USR1; while :; do sleep 0.05; done",
    )
    until(lambda: Path(f"{said}.loading").exists() and processes.look()[0].began_at)
    processes.tell(A, {"world": 9, "rank": 0, "master_port": 5000})
    until(lambda: said.exists() and "5000" in said.read_text())
    assert processes.look()[0].end is None


STARTING = """\
import os, signal, sys, time
from pathlib import Path
said = Path(sys.argv[1])
signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
Path(f"{said}.loading").touch()
if sys.argv[2] == "waits":
    assert signal.sigwait({signal.SIGUSR1}) == signal.SIGUSR1
    said.write_text(Path(os.environ["GPULEDGER_WORLD"]).read_text())
time.sleep(1)
signal.pthread_sigmask(signal.SIG_SETMASK, ())
time.sleep(0.5)
signal.signal(signal.SIGUSR1, lambda *_: said.write_text(Path(os.environ["GPULEDGER_WORLD"]).read_text()))
while True:
    time.sleep(0.05)
"""


@pytest.mark.parametrize("then", ["handles", "waits"])
def test_a_program_that_blocks_all_signals_to_start_another_or_to_wait_for_them_hears_of_another_world(
    processes: Processes, tmp_path: Path, then: str
) -> None:
    """A shell blocks them all around vfork; the signal, which came just then, ended it when it took them again."""
    said, program = processes.folder / "said", tmp_path / "program.py"
    program.write_text(STARTING)
    start(processes, f"exec {sys.executable} -I -S {program} {said} {then}")
    until(lambda: Path(f"{said}.loading").exists() and processes.look()[0].began_at)
    processes.tell(A, {"world": 9, "rank": 0, "master_port": 5000})
    until(lambda: processes.look()[0].end is not None or (said.exists() and "5000" in said.read_text()))
    assert processes.look()[0].end is None


@pytest.mark.parametrize(("awaited", "expected"), [("SIGUSR1, signal.SIGTERM", True), ("SIGTERM", False)])
def test_a_program_in_sigwait_expects_what_it_waits_for_and_nothing_else(awaited: str, expected: bool) -> None:
    """As found: it heard of another world after a minute, as the kernel shows a signal that is waited for as not
    blocked."""
    if os.uname().machine not in keeper.SIGTIMEDWAIT:
        pytest.skip("which system call this machine waits with is not known")
    code = f"import signal; w = {{signal.{awaited}}}; signal.pthread_sigmask(signal.SIG_BLOCK, w); signal.sigwait(w)"
    program = subprocess.Popen([sys.executable, "-I", "-S", "-c", code])
    try:
        until(lambda: keeper.awaits(program.pid, signal.SIGTERM))
        assert keeper.expects(program.pid, signal.SIGUSR1) is expected
    finally:
        program.kill()
        program.wait()


def test_a_program_that_never_handles_the_signal_is_ended_by_it(
    processes: Processes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hasty = tmp_path / "keeper.py"
    hasty.write_text(Path(keeper.__file__).read_text().replace("LOADING_SECONDS = 60.0", "LOADING_SECONDS = 0.5"))
    with monkeypatch.context() as patch:
        patch.setattr(module.keeper, "__file__", str(hasty))
        start(processes, "sleep 300")
    until(lambda: processes.look()[0].began_at)
    processes.tell(A, {"world": 9, "rank": 0, "master_port": 5000})
    run = over(processes)
    assert run.end is not None
    assert run.end.code == -signal.SIGUSR1


def test_what_it_says_stays_within_bounds_and_keeps_its_end(tmp_path: Path) -> None:
    processes = Processes(tmp_path / "jobs", log_bytes=1 << 16)
    folder = start(processes, f"seq 1 200000; until test -e {tmp_path}/go; do sleep 0.05; done; echo last")
    until(lambda: (folder / "output.old").exists() and (folder / "output").stat().st_size == 0)
    (tmp_path / "go").touch()
    run = over(processes)
    assert processes.tail(run).endswith("199999\n200000\nlast\n")
    assert sum(path.stat().st_size for path in folder.glob("output*")) <= 1 << 16


def test_what_it_says_at_its_end_stays_within_bounds(tmp_path: Path) -> None:
    """More than all bounds, between two looks at it."""
    processes = Processes(tmp_path / "jobs", log_bytes=1 << 16)
    folder = start(processes, "exec seq 1 200000")
    run = over(processes)
    assert processes.tail(run).endswith("199999\n200000\n")
    assert sum(path.stat().st_size for path in folder.glob("output*")) <= 1 << 16


def test_only_its_user_can_read_its_output_and_files(processes: Processes) -> None:
    folder = start(processes, "echo secret; sleep 300")
    until(lambda: (folder / "output").exists() and (folder / "output").stat().st_size)
    for path in (processes.folder, folder, *(path for path in folder.rglob("*") if path.is_file())):
        assert path.stat().st_mode & 0o077 == 0 or (path.parent == folder and folder.stat().st_mode & 0o077 == 0), path


def test_a_rank_sees_what_it_is_given_and_nothing_of_the_agents(
    processes: Processes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GPULEDGER_STORE", "clickhouse://user:password@host")
    start(processes, "env", env={"RANK": "0"})
    names = {line.partition("=")[0] for line in processes.tail(over(processes)).splitlines()}
    assert names == {"PATH", "RANK", "GPULEDGER_RUN", "GPULEDGER_WORLD", "PWD"}


def test_what_cannot_be_started_says_so_and_never_began(processes: Processes) -> None:
    processes.start(A, ("/no/such/program",), {}, "", (), {"world": 7, "rank": 0, "master_port": 1})
    run = over(processes)
    assert run.end is not None
    assert "cannot be started" in run.end.error
    assert "/no/such/program" in run.end.error
    assert run.began_at is None
    refused = RankId("b", 1, 7, 0)
    processes.refuse(refused, ("GPU-x",), {"world": 7, "rank": 0, "master_port": 1}, "device GPU-x is not on this node")
    assert over(processes, refused).end.error == "device GPU-x is not on this node"  # type: ignore[union-attr]


@pytest.mark.parametrize("command", ["/no/" + "x" * 3000, "/" + "x/" * 3000])
def test_why_it_cannot_be_started_fits_into_a_report(processes: Processes, command: str) -> None:
    processes.start(A, (command,), {}, "", (), {"world": 7, "rank": 0, "master_port": 1})
    end = over(processes).end
    assert end is not None
    said = RunOf(job="a", attempt=1, world=7, rank=0, alive=False, error=end.error)
    assert said.error.startswith("cannot be started")


def test_a_full_disk_ends_nothing_and_is_reported_once_there_is_room(tmp_path: Path) -> None:
    processes = Processes(tmp_path / "jobs", 1, log_bytes=1 << 16)
    folder = processes.folder / "a.1.7.0"
    folder.mkdir()
    full = [folder / f"{name}.new" for name in ("started", "exit")] + [folder / "old.new"]
    for path in full:
        path.symlink_to("/dev/full")
    start(processes, f"seq 1 200000; touch {tmp_path}/said; until test -e {tmp_path}/go; do sleep 0.05; done; exit 7")
    until((tmp_path / "said").exists)
    until(lambda: (folder / "output").stat().st_size == 0, "what it says stays within bounds")
    (folder / "stop").symlink_to(tmp_path / "nowhere" / "stop")
    other = start(processes, "exit 0", RankId("b", 1, 7, 0))
    assert over(processes, RankId("b", 1, 7, 0)).folder == other
    assert processes.look()[0].alive
    (tmp_path / "go").touch()
    until(lambda: len(keeper.below(int((folder / "process").read_text().split()[0]))) == 0)
    assert processes.look()[0].alive, "nobody could say how it ended"
    for path in full:
        path.unlink(missing_ok=True)
    run = over(processes)
    assert (run.end and run.end.code, run.began_at is None) == (7, False)
    last = RankId("c", 1, 7, 0)
    (start(processes, "sleep 300", last) / "stop").symlink_to(tmp_path / "nowhere" / "stop")
    processes.stop(last)
    assert over(processes, last)


def test_a_folder_that_cannot_be_read_takes_no_other_rank_with_it(processes: Processes) -> None:
    folder = start(processes, "sleep 300")
    until(lambda: processes.look()[0].began_at)
    (folder / "exit").write_text("{")
    os.kill(int((folder / "process").read_text().split()[0]), signal.SIGKILL)
    start(processes, "exit 3", RankId("b", 1, 7, 0))
    end = over(processes, RankId("b", 1, 7, 0)).end
    assert end is not None
    assert end.code == 3
    (folder / "exit").unlink()
    assert over(processes)


def test_a_process_without_its_first_thread_runs_and_is_stopped(processes: Processes, tmp_path: Path) -> None:
    """As after pthread_exit in main: its leader is a zombie, and what it started has no other parent."""
    program = (
        "import ctypes, subprocess, sys, threading, time\n"
        "threading.Thread(target=lambda: (subprocess.Popen(['sleep', '300']), open(sys.argv[1], 'w'), time.sleep(300)))"
        ".start()\n"
        "while not __import__('os').path.exists(sys.argv[1]): time.sleep(0.01)\n"
        "ctypes.CDLL(None).pthread_exit(None)\n"
    )
    world = {"world": 7, "rank": 0, "master_port": 1}
    processes.start(A, (sys.executable, "-I", "-S", "-c", program, str(tmp_path / "there")), {}, "", (), world)
    until((tmp_path / "there").exists)
    pid = int((processes.folder / "a.1.7.0" / "process").read_text().split()[0])
    headless = until(lambda: [one for one in keeper.below(pid) if keeper.status_of(one)[0] == "Z"])
    assert keeper.born(headless[0])
    assert headless[0] in module._marked(processes.folder / "a.1.7.0", 0)
    assert len(keeper.below(pid)) == 2
    processes.stop(A)
    assert over(processes)
    assert not keeper.born(headless[0])


def test_a_folder_has_one_keeper_of_ranks_and_names_cannot_leave_it(processes: Processes) -> None:
    with pytest.raises(CollectorError, match="another process keeps its ranks there"):
        Processes(processes.folder)
    for name in ("../../evil/x", "é" * 300, "x" * 5000, "a\nb"):
        rank = RankId(name, 1, 7, 0)
        start(processes, "exit 0", rank)
        assert over(processes, rank).folder.parent == processes.folder
    assert len({run.folder for run in processes.look()}) == 4


def test_what_is_forgotten_for_long_goes(processes: Processes, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = start(processes, "exit 0")
    over(processes)
    processes.forget(A)
    monkeypatch.setattr(module, "KEPT_SECONDS", -1.0)
    processes._prune()
    assert not folder.exists()


def test_ranks_are_nobodys_by_default_where_that_would_be_root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    with pytest.raises(CollectorError, match="would run as root"):
        user_named(None, "run_jobs.user")
    assert user_named("root", "run_jobs.user") is None
    with pytest.raises(CollectorError, match="there is no 'nobody-of-that-name' here"):
        user_named("nobody-of-that-name", "run_jobs.user")
    found = user_named("nobody", "run_jobs.user")
    assert found is not None
    assert found.uid != 0
    monkeypatch.setattr(os, "geteuid", lambda: 4711)
    assert user_named(None, "run_jobs.user") is None
    with pytest.raises(CollectorError, match="only root can run ranks as root"):
        user_named("root", "run_jobs.user")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can run processes of another user")
def test_a_rank_of_another_user_cannot_read_what_is_the_agents(tmp_path: Path) -> None:
    nobody = user_named("nobody", "user")
    assert isinstance(nobody, User)
    processes = Processes(tmp_path / "jobs", user=nobody)
    secret = tmp_path / "token"
    secret.write_text("secret")
    secret.chmod(0o600)
    own = f"{secret} {processes.folder}/a.1.7.0/run.json"
    start(processes, f"id -u; cat $GPULEDGER_WORLD; echo; cat {own}; kill -9 $PPID; echo x >> $GPULEDGER_WORLD")
    said = processes.tail(over(processes))
    assert said.splitlines()[0] == str(nobody.uid)
    assert json.loads(said.splitlines()[1])["master_port"] == 4000
    assert said.count("ermission denied") == 3
    assert "not permitted" in said
    (tmp_path / "private" / "open").mkdir(parents=True)
    (tmp_path / "private").chmod(0o700)
    other = RankId("b", 1, 7, 0)
    world = {"world": 7, "rank": 0, "master_port": 1}
    processes.start(other, ("/bin/pwd",), {}, str(tmp_path / "private" / "open"), (), world)
    end = over(processes, other).end
    assert end is not None
    assert "nobody cannot go to" in end.error


def test_a_process_of_the_same_number_after_a_reboot_is_another(processes: Processes) -> None:
    folder = start(processes, "sleep 300")
    until(lambda: processes.look()[0].began_at)
    pid, born, boot = (folder / "process").read_text().split()
    other = again(processes)
    assert other.look()[0].alive
    (folder / "process").write_text(f"{pid} {born} {'0' * len(boot)}")
    assert other._keeper(folder) is None
    (folder / "process").write_text(f"{pid} {int(born) + 1} {boot}")
    assert other._keeper(folder) is None
    (folder / "process").write_text(f"{pid} {born} {boot}")
    os.kill(int(pid), signal.SIGTERM)
