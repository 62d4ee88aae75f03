"""The log keeps what it returned for, whatever happens next; and only that."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from scheduler.records.log import Entry, Log
from warehouse.errors import LedgerError

WRITES_FOR_EVER = """
import sys
from pathlib import Path
from scheduler.records.log import Entry, Log
log = Log(Path(sys.argv[1]))
while True:
    found = log.append([Entry("submit", 1.0, f"j{log.last + 1}", {"n": log.last + 1}), Entry("hold", 1.0, "x")])
    print(found[-1].sequence, flush=True)
"""


def test_entries_are_numbered_on_from_the_last_when_opened_again(tmp_path: Path) -> None:
    log = Log(tmp_path / "log")
    assert [e.sequence for e in log.append([Entry("submit", 1.0, "a"), Entry("hold", 2.0, "a")])] == [1, 2]
    log.close()
    again = Log(tmp_path / "log")
    assert again.append([Entry("release", 3.0, "a")])[0].sequence == 3
    assert [e.kind for e in again.entries()] == ["submit", "hold", "release"]
    assert [e.kind for e in again.entries(after=1, before=3)] == ["hold"]
    again.close()


def test_a_jobs_entries_include_the_plans_that_concern_it(tmp_path: Path) -> None:
    log = Log(tmp_path / "log")
    log.append([Entry("submit", 1.0, "a"), Entry("plan", 2.0, body={"actions": []}, jobs=("a", "b"))])
    log.append([Entry("plan", 3.0, body={"actions": []}, jobs=("b",))])
    assert [e.sequence for e in log.of_job("a")] == [1, 2]
    assert [e.sequence for e in log.of_job("b")] == [2, 3]
    assert log.of_job("") == []
    log.close()


def test_what_was_returned_for_is_there_after_kill_9_whole_and_once(tmp_path: Path) -> None:
    path = tmp_path / "log"
    writer = subprocess.Popen([sys.executable, "-c", WRITES_FOR_EVER, str(path)], stdout=subprocess.PIPE, text=True)
    assert writer.stdout is not None
    seen = [int(writer.stdout.readline()) for _ in range(40)]
    os.kill(writer.pid, signal.SIGKILL)
    seen += [int(line) for line in writer.stdout.read().split()]
    writer.wait()
    log = Log(path)
    numbers = [entry.sequence for entry in log.entries()]
    assert numbers == list(range(1, len(numbers) + 1))
    assert len(numbers) >= seen[-1]
    assert len(numbers) % 2 == 0  # both of a transaction, or none
    assert all(entry.body == {"n": entry.sequence} for entry in log.entries() if entry.kind == "submit")
    log.close()


def test_a_transaction_that_cannot_be_written_leaves_nothing(tmp_path: Path) -> None:
    log = Log(tmp_path / "log")
    log.append([Entry("submit", 1.0, "a")])
    other = sqlite3.connect(tmp_path / "log", isolation_level=None)
    other.execute("INSERT INTO entries VALUES (3, 1.0, 'hold', 'thief', '{}')")  # somebody else writes, too
    with pytest.raises(LedgerError, match="cannot be written"):
        log.append([Entry("submit", 1.0, "b"), Entry("submit", 1.0, "c")])
    assert [e.job_id for e in log.entries()] == ["a", "thief"]
    other.execute("DELETE FROM entries WHERE sequence = 3")
    other.close()
    for strange in (Entry("submit", 1.0, "\ud800"), Entry("submit", 1.0, "b", {"n": {1, 2}})):
        with pytest.raises((UnicodeError, TypeError)):
            log.append([Entry("submit", 1.0, "d"), strange])
    assert log.append([Entry("hold", 2.0, "a")])[0].sequence == 2, "what could not be written blocks nothing"
    log.close()


def test_a_file_that_is_no_log_is_refused_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "log").write_text("no database at all, but long enough to be looked at" * 40)
    with pytest.raises(LedgerError, match=r"log: cannot be used as a log .* Give another --data"):
        Log(tmp_path / "log")


def test_a_log_of_a_later_format_is_left_alone(tmp_path: Path) -> None:
    Log(tmp_path / "log").close()
    db = sqlite3.connect(tmp_path / "log")
    db.execute("PRAGMA user_version = 99")
    db.close()
    with pytest.raises(LedgerError, match="format 99"):
        Log(tmp_path / "log")


def test_a_log_has_one_writer_and_any_readers(tmp_path: Path) -> None:
    log = Log(tmp_path / "log", alone=True)
    log.append([Entry("submit", 1.0, "a")])
    with pytest.raises(LedgerError, match=f"process {os.getpid()} is its scheduler; a log belongs to one. Stop that"):
        Log(tmp_path / "log", alone=True)
    reader = Log(tmp_path / "log")
    assert len(list(reader.entries())) == 1
    reader.close()
    log.close()
    Log(tmp_path / "log", alone=True).close()


def test_a_log_of_the_first_format_is_upgraded_by_its_writer_with_what_was_delivered(tmp_path: Path) -> None:
    log = Log(tmp_path / "log")
    log.append([Entry("submit", 1.0, "a")])
    log.set_delivered("events", 1)
    log.close()
    old = sqlite3.connect(tmp_path / "log")
    old.execute("ALTER TABLE delivered RENAME TO told")
    old.execute("PRAGMA user_version = 1")
    old.close()
    reader = Log(tmp_path / "log")
    assert [entry.job_id for entry in reader.entries()] == ["a"]
    assert reader._db.execute("PRAGMA user_version").fetchone() == (1,), "an older writer may still be there"
    reader.close()
    for _ in range(2):
        log = Log(tmp_path / "log", alone=True)
        assert log.delivered("events") == 1
        assert log.append([Entry("hold", 2.0, "a")])
        log.close()


def test_a_delivery_that_cannot_be_written_down_is_a_ledger_error(tmp_path: Path) -> None:
    log = Log(tmp_path / "log")
    log._db.execute("PRAGMA query_only = on")  # as a disk that is full
    with pytest.raises(LedgerError, match="cannot be written"):
        log.set_delivered("events", 1)
    log.close()
