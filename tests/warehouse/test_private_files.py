"""What processes leave on a disk: ours for nobody else, what was asked for as its user wants it."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import REPO
from tests.draws import seldom
from tests.full_disk import full_disk
from tests.patience import PATIENCE_SECONDS
from warehouse import private_files
from warehouse.private_files import hold, private_folder, users_file, users_folder, users_umask, whole_file


def mode(path: Path) -> int:
    return stat.S_IMODE(path.lstat().st_mode)


def open_to_others(folder: Path) -> list[str]:
    """Our own alone: a socket, a link has no mode that counts."""
    found = [folder, *folder.rglob("*")]
    return [f"{one} {mode(one):o}" for one in found if not one.is_symlink() and mode(one) & 0o077]


def run(*arguments: str | Path, umask: int = 0o022) -> None:
    command = [sys.executable, "-m", "gpuledger", *map(str, arguments)]
    done = subprocess.run(
        command, cwd=REPO, umask=umask, capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=False
    )
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """As a command made it, for whom files are open to others unless somebody says otherwise."""
    folder = tmp_path_factory.mktemp("home") / "new" / "store"
    rows = folder.parent.parent / "devices.csv"
    rows.write_text("ts,cluster,node,device_id,model,units,state\n2026-10-01T00:00:00Z,c,n,d,H100,1,available\n")
    run("ingest", "devices", rows, "--store", f"chdb://{folder}")
    return folder


def test_nothing_of_a_store_is_open_to_others(store: Path) -> None:
    assert len(list(store.rglob("*"))) > 50
    assert open_to_others(store) == []


def test_a_store_of_an_earlier_release_is_closed_when_it_is_opened(store: Path) -> None:
    store.chmod(0o755)
    run("sql", "SELECT 1", "--store", f"chdb://{store}")
    assert mode(store) == 0o700


def test_a_lock_on_a_full_disk_is_taken_and_given_back_without_its_holder_s_name(tmp_path: Path) -> None:
    """As found: the name was written when the lock was given back, so that every command failed that had only read."""
    with full_disk():
        lock = hold(tmp_path, "process 1")
        lock.truncate(0)
        lock.close()
    assert (tmp_path / "holder").read_text() == ""


def test_a_file_that_a_full_disk_does_not_take_is_named(tmp_path: Path) -> None:
    path = tmp_path / "october.parquet"
    with full_disk(), pytest.raises(OSError, match="File too large") as caught, whole_file(path) as file:
        file.write(b"x" * 100_000)
    assert caught.value.filename == str(path)
    assert list(tmp_path.iterdir()) == []


@seldom(6, "a file that was asked for has")
@pytest.mark.parametrize("umask", [0o022, 0o027, 0o077])
def test_a_file_that_was_asked_for_has_the_permissions_its_user_gives(store: Path, tmp_path: Path, umask: int) -> None:
    out = tmp_path / f"answer-{umask}.csv"
    run("sql", "SELECT 1", "--store", f"chdb://{store}", "--out", out, umask=umask)
    assert mode(out) == 0o666 & ~umask


def test_a_file_that_is_written_over_keeps_its_own(tmp_path: Path) -> None:
    path = tmp_path / "kept"
    path.write_text("before")
    path.chmod(0o600)
    with open(path, "w", opener=users_file) as file:
        file.write("after")
    assert (mode(path), path.read_text()) == (0o600, "after")


def test_spool_log_and_state_are_not_open_to_others(tmp_path: Path) -> None:
    code = f"""
from warehouse import private_files
from warehouse.private_files import keep_private
keep_private()
from pathlib import Path
from collectors.kubernetes.state import State
from ingest.spool import Spool
from scheduler.records.log import Log
here = Path({str(tmp_path)!r}) / "ours"
Spool(here / "spool").close()
Log(here / "data" / "log").close()
State(here / "watch" / "state", "c1").close()
"""
    subprocess.run([sys.executable, "-c", code], cwd=REPO, umask=0o000, check=True, timeout=PATIENCE_SECONDS)
    assert len(list((tmp_path / "ours").rglob("*"))) >= 6
    assert open_to_others(tmp_path / "ours") == []


def test_folders_that_were_asked_for_follow_the_users_umask_and_ours_do_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(private_files, "_users_umask", None)  # a command in this process may have noted another
    before = os.umask(0o027)
    try:
        users_folder(tmp_path / "a" / "b")
        private_folder(tmp_path / "c" / "d")
    finally:
        os.umask(before)
    assert (mode(tmp_path / "a"), mode(tmp_path / "a" / "b"), mode(tmp_path / "c" / "d")) == (0o750, 0o750, 0o700)


@pytest.mark.parametrize("before", [None, b"a good file"])
def test_a_file_has_its_name_once_it_is_whole(tmp_path: Path, before: bytes | None) -> None:
    out = tmp_path / "answer.csv"
    if before is not None:
        out.write_bytes(before)
        out.chmod(0o640)
    with pytest.raises(ZeroDivisionError), whole_file(out) as file:
        file.write(b"half")
        raise ZeroDivisionError
    assert [one.read_bytes() for one in tmp_path.iterdir()] == ([] if before is None else [before])
    with whole_file(out) as file:
        file.write(b"whole")
    assert [one.read_bytes() for one in tmp_path.iterdir()] == [b"whole"]
    assert mode(out) == (0o640 if before else 0o666 & ~users_umask())


def test_a_link_s_target_is_written_and_a_pipe_as_it_comes(tmp_path: Path) -> None:
    target, link, pipe = tmp_path / "there" / "file", tmp_path / "link", tmp_path / "pipe"
    target.parent.mkdir()
    link.symlink_to(target)
    with whole_file(link) as file:
        file.write(b"x")
    assert (link.is_symlink(), target.read_bytes()) == (True, b"x")
    os.mkfifo(pipe)
    reading = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    with whole_file(pipe) as file:
        file.write(b"y")
    assert os.read(reading, 10) == b"y"
    os.close(reading)
