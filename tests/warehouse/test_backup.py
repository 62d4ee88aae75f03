"""Backups, and what is made of them: the same books, whatever is written, and whenever it is killed."""

from __future__ import annotations

import contextlib
import json
import random
import re
import shlex
import shutil
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import asdict
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from access.opening import open_access
from access.people import Kind, add_person, list_people
from billing.close import close
from billing.verify import verify
from billing.writers import nobody_writing
from gpuledger.cli import build
from tests.billing.facts import put, samples
from tests.billing.hand_ledger import at
from tests.billing.rich_books import rich_books
from tests.draws import drawn_seed, seldom
from tests.full_disk import full_disk
from tests.gpuledger.running import refused, run
from tests.stores import fresh_store
from warehouse.backup import (
    ACCESS,
    MANIFEST,
    SUMS,
    WHOLE,
    Backup,
    BackupError,
    back_up,
    backups,
    emptied,
    forget,
    restore,
)
from warehouse.errors import LedgerError
from warehouse.sql import identifier
from warehouse.store import UNFINISHED, Store, StoreError, migrate, open_store

NOW = at("2026-11-01 00:00")
LATER = timedelta(seconds=1)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "it's here"


def opened(path: Path, folder: Path | None = None) -> Store:
    return open_store(f"chdb://{path}", folder)


def content(store: Store) -> dict[str, tuple[int, int]]:
    """Of each table how many rows there are, and what they say: of rows that replace each other the last ones,
    merged or not. As text, for the hash of a row with a NULL in it is NULL, which no sum counts."""
    names = "SELECT name FROM system.tables WHERE database = currentDatabase() AND endsWith(engine, 'MergeTree')"
    statement = "SELECT count() AS rows, sum(cityHash64(toString(tuple(*)))) AS said FROM {} SETTINGS final = 1"
    found = {row["name"]: store.rows(statement.format(identifier(row["name"])))[0] for row in store.rows(names)}
    return {name: (row["rows"], row["said"]) for name, row in found.items()}


def test_books_and_people_come_back_as_they_were_and_go_on(tmp_path: Path, folder: Path) -> None:
    rich_books(tmp_path / "books").close()
    with opened(tmp_path / "books", folder) as store:
        with open_access(store) as access:
            add_person(access, "ann", NOW, "ada", "a password of hers", ["analyst"], (), Kind.local)
        first = back_up(store, NOW, nobody_writing)
        put(store, "samples", samples("gpu-0", "2026-03-02 00:01", range(5)))
        second = back_up(store, NOW + LATER, nobody_writing)
        before = content(store)
        proof = verify(store)
    assert [first, second] == backups(folder)
    assert second.whole == first.whole
    assert second.bytes < first.whole_bytes
    assert restore(folder, "", tmp_path / "again") == second
    assert restore(folder, first.name, tmp_path / "earlier") == first
    with opened(tmp_path / "earlier") as store:
        assert content(store)["samples"][0] < before["samples"][0]
    with opened(tmp_path / "again") as store:
        assert content(store) == before
        assert migrate(store) == []
        assert verify(store) == proof
        with open_access(store) as access:
            assert [one.name for one in list_people(access)] == ["ada"]
        assert close(store, now=NOW).run
        put(store, "samples", samples("gpu-0", "2026-03-03 00:01", range(5)))
        assert content(store)["samples"][0] > before["samples"][0]


def test_what_was_acknowledged_before_a_backup_is_in_it_whole(tmp_path: Path, folder: Path) -> None:
    """While somebody pushes: of each batch that the restored store acknowledges every row is there."""
    fresh_store(tmp_path / "busy").close()
    ended = threading.Event()
    with opened(tmp_path / "busy", folder) as store, store.another() as own:
        pushed: list[int] = []

        def push() -> None:
            while not ended.is_set():
                with own.turn(together=True):
                    rows = samples("gpu-0", f"2026-03-02 {len(pushed) % 24:02}:01", range(5))
                    put(own, "samples", [{**row, "cluster": f"c{len(pushed)}"} for row in rows])
                    pushed.append(len(pushed))

        pusher = threading.Thread(target=push)
        pusher.start()
        try:
            seen = []
            for number in range(4):
                seen.append(len(pushed))
                back_up(store, NOW + number * LATER, nobody_writing)
        finally:
            ended.set()
            pusher.join()
    assert len(pushed) > seen[-1] > seen[0]
    for number, (backup, least) in enumerate(zip(backups(folder), seen, strict=True)):
        restore(folder, backup.name, tmp_path / f"restored-{number}")
        with opened(tmp_path / f"restored-{number}") as restored:
            reported = restored.value("SELECT sum(rows_written) AS rows FROM ingest_batches FINAL")
            there = restored.value(
                "SELECT count() AS rows FROM samples FINAL WHERE batch IN (SELECT batch FROM ingest_batches)"
            )
            assert there == reported >= 5 * least


def folders_in(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir() if path.name != "holder"}


KILLED_BETWEEN = """
import os, signal, sys
from datetime import UTC, datetime
from pathlib import Path
from warehouse.backup import back_up
from warehouse.store import open_store

def kill(store):
    os.kill(os.getpid(), signal.SIGKILL)

with open_store(f"chdb://{sys.argv[1]}", Path(sys.argv[2])) as store:
    back_up(store, datetime(2026, 11, 2, tzinfo=UTC), kill, whole=True)
"""


def test_a_backup_that_fails_leaves_nothing_and_one_that_was_killed_until_the_next(
    tmp_path: Path, folder: Path
) -> None:
    """As found: each attempt that failed between its two copies left a whole copy, for good on a server."""
    fresh_store(tmp_path / "store").close()

    def refuse(store: Store) -> contextlib.AbstractContextManager[None]:
        raise StoreError(store.url, "no turn")

    with opened(tmp_path / "store", folder) as store:
        first = back_up(store, NOW, nobody_writing)
        with pytest.raises(StoreError):
            back_up(store, NOW + LATER, refuse, whole=True)
        assert folders_in(folder) == {first.name, first.whole}
    command = (sys.executable, "-c", KILLED_BETWEEN, str(tmp_path / "store"), str(folder))
    assert subprocess.run(command, check=False).returncode == -signal.SIGKILL
    assert "whole-2026-11-02T00-00-00Z" in folders_in(folder)
    (folder / f"probe{UNFINISHED}").touch()  # killed while it asked whether the disk is full
    with opened(tmp_path / "store", folder) as store:
        last = back_up(store, NOW + timedelta(days=2), nobody_writing)
    assert folders_in(folder) == {first.name, first.whole, last.name}


def test_no_backup_is_made_below_one_of_later_than_now(tmp_path: Path, folder: Path) -> None:
    """The newest is the last by name: one that a wrong clock named would be restored in place of all later ones."""
    fresh_store(tmp_path / "store").close()
    with opened(tmp_path / "store", folder) as store:
        made = back_up(store, NOW + timedelta(days=300), nobody_writing)
        with pytest.raises(BackupError, match=f"{made.name}: is of later than now. Check the clock; if it is right"):
            back_up(store, NOW, nobody_writing)
        assert folders_in(folder) == {made.name, made.whole}
        shutil.move(folder / made.name, tmp_path / "elsewhere")
        assert backups(folder) == []
        assert back_up(store, NOW, nobody_writing) == backups(folder)[-1]


@seldom(5, "a backup is killed")
def test_a_backup_that_is_killed_anywhere_harms_none_and_hinders_none(tmp_path: Path, folder: Path) -> None:
    fresh_store(tmp_path / "store").close()
    seed = drawn_seed() % 1_000_000
    print(f"seed {seed}")
    dice, finished, killed = random.Random(seed), 0, 0
    store = f"chdb://{tmp_path / 'store'}"
    command = (sys.executable, "-m", "gpuledger", "backup", str(folder), "--whole", "--store", store)
    lasts = 0.0  # seconds of a backup that nobody disturbs, from its folder to its end: the first
    while killed < 2:
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        while process.poll() is None and not any(folder.glob(f"*{UNFINISHED}")):
            time.sleep(0.005)
        begun = time.monotonic()
        if lasts:
            time.sleep(dice.random() * lasts)
            process.send_signal(signal.SIGKILL)
        _, complaint = process.communicate()
        lasts = lasts or time.monotonic() - begun
        killed += process.returncode == -signal.SIGKILL
        finished += process.returncode == 0
        assert process.returncode in (0, -signal.SIGKILL), complaint
        assert len(backups(folder)) >= finished
        time.sleep(1)  # a backup has the second as its name
    with opened(tmp_path / "store", folder) as store:
        put(store, "samples", samples("gpu-0", "2026-03-02 00:01", range(5)))
        last, before = back_up(store, NOW + timedelta(days=1000), nobody_writing), content(store)
    assert folders_in(folder) == {name for one in backups(folder) for name in (one.name, one.whole)}
    assert backups(folder)[-1] == last
    (tmp_path / f"again{UNFINISHED}").mkdir()  # of a restore that was killed
    restore(folder, last.name, tmp_path / "again")
    with opened(tmp_path / "again") as store:
        assert content(store) == before


def test_what_a_killed_restore_leaves_is_no_store_nor_is_one_begun_in_its_place(tmp_path: Path) -> None:
    """The next server would have begun an empty store where the restored one was to be, and the next restore had been
    refused because something is there."""
    (tmp_path / "again.unfinished" / "engine").mkdir(parents=True)
    for name in ("again", "again.unfinished"):
        for command in ("verify", "ledger", "close"):
            said = refused(f"{command} --store", f"chdb://{tmp_path / name}")
            assert "is no store yet" in said and "Restore it again" in said
    assert [path.name for path in tmp_path.iterdir()] == ["again.unfinished"]
    fresh_store(tmp_path / "other").close()
    (tmp_path / "other.unfinished").mkdir()
    assert run("ledger --store", f"chdb://{tmp_path / 'other'}").exit_code == 0


def test_of_two_restores_to_one_place_the_second_is_refused_and_takes_nothing_away(
    tmp_path: Path, folder: Path
) -> None:
    """It removed what the first was writing, which then gave the second's half store its name."""
    fresh_store(tmp_path / "store").close()
    with opened(tmp_path / "store", folder) as store:
        back_up(store, NOW, nobody_writing)
    (tmp_path / "again.unfinished" / "engine").mkdir(parents=True)
    with emptied(tmp_path / "again.unfinished"):
        (tmp_path / "again.unfinished" / "half").touch()
        with pytest.raises(BackupError, match="held by process"):
            restore(folder, "", tmp_path / "again")
        assert (tmp_path / "again.unfinished" / "half").exists()
    restore(folder, "", tmp_path / "again")
    assert not (tmp_path / "again" / "half").exists()


def test_old_backups_go_with_what_only_they_rest_on(tmp_path: Path, folder: Path) -> None:
    fresh_store(tmp_path / "store").close()
    with opened(tmp_path / "store", folder) as store:
        made = [back_up(store, NOW + n * LATER, nobody_writing, whole=n == 1) for n in range(3)]
        put(store, "samples", samples("gpu-0", "2026-03-02 00:01", range(1000)))
        made.append(back_up(store, NOW + 3 * LATER, nobody_writing))
    assert made[2].whole == made[1].whole != made[0].whole
    assert forget(folder, 2) == made[:2]
    assert backups(folder) == made[2:]
    assert [path.name for path in folder.glob(f"{WHOLE}*")] == [made[1].whole]
    restore(folder, made[2].name, tmp_path / "again")
    with opened(tmp_path / "again") as store:
        assert content(store)["samples"][0] == 0


def test_a_backup_that_grew_too_large_is_the_last_on_its_whole_one(tmp_path: Path, folder: Path) -> None:
    fresh_store(tmp_path / "store").close()
    with opened(tmp_path / "store", folder) as store:
        dice = random.Random(0)
        made = [back_up(store, NOW, nobody_writing)]
        while made[-1].bytes <= made[0].whole_bytes / 2:
            count = content(store)["samples"][0]
            rows = samples("gpu-0", "2026-03-02 00:00", range(20_000))
            noise = [{**row, "cluster": f"c{count}", "utilization": dice.random()} for row in rows]
            put(store, "samples", noise)
            made.append(back_up(store, NOW + len(made) * LATER, nobody_writing))
        made.append(back_up(store, NOW + len(made) * LATER, nobody_writing))
    assert len({one.whole for one in made[:-1]}) == 1
    assert made[-1].whole == f"{WHOLE}{made[-1].name}"


@pytest.mark.parametrize(
    ("spoil", "name", "says"),
    [
        (lambda folder, made: shutil.rmtree(folder), "", "holds no backup"),
        (lambda folder, made: None, "2020-01-01T00-00-00Z", "is not there. Choose from 2026-11-01T00-00-00Z"),
        (lambda folder, made: shutil.rmtree(folder / made.whole), "", "is gone, and the backup rests on it"),
        (lambda folder, made: (folder / made.name / MANIFEST).write_text("{"), "", "cannot be read"),
        (lambda folder, made: (folder / made.name / MANIFEST).write_text("{}"), "", "cannot be read"),
        (lambda folder, made: (folder.parent / "again").mkdir() or (folder.parent / "again/x").touch(), "", "already"),
    ],
)  # fmt: skip
def test_what_cannot_be_restored_is_refused_in_a_line(
    tmp_path: Path, folder: Path, spoil: Any, name: str, says: str
) -> None:
    folder.mkdir()
    (folder / "whole-x").mkdir()
    made = Backup("2026-11-01T00-00-00Z", NOW, "whole-x", 1, 1, 1, 30, "gpuledger")
    (folder / made.name).mkdir()
    (folder / made.name / MANIFEST).write_text(json.dumps(asdict(made), default=str))
    spoil(folder, made)
    with pytest.raises(BackupError, match=re.escape(says)):
        restore(folder, name, tmp_path / "again")
    assert not (tmp_path / f"again{UNFINISHED}").exists()


def test_a_backup_with_any_file_damaged_is_refused_and_leaves_no_store(tmp_path: Path, folder: Path) -> None:
    fresh_store(tmp_path / "store").close()
    with contextlib.closing(sqlite3.connect(tmp_path / "store" / ACCESS)) as access:
        access.execute("CREATE TABLE IF NOT EXISTS people (name TEXT)")
    with opened(tmp_path / "store", folder) as store:
        put(store, "samples", samples("gpu-0", "2026-03-02 00:01", range(1000)))
        back_up(store, NOW, nobody_writing)
        put(store, "samples", samples("gpu-1", "2026-03-02 00:01", range(10)))
        made = back_up(store, NOW + timedelta(days=1), nobody_writing)
    dice = random.Random(drawn_seed())
    for one in one_of_each_kind([*files_of(folder / made.whole), *files_of(folder / made.name)], dice):
        kept = one.read_bytes()
        at = dice.randrange(len(kept)) if kept else 0
        for damaged in (kept[:at] + bytes([kept[at] ^ 1]) + kept[at + 1 :] if kept else b"x", kept[:-1] or None, None):
            one.unlink()
            if damaged is not None:
                one.write_bytes(damaged)
            with pytest.raises(BackupError, match=f"{re.escape(str(one))}: is damaged or gone.* --name"):
                restore(folder, made.name, tmp_path / "again")
            one.write_bytes(kept)
    assert [path.name for path in tmp_path.glob("again*")] == []
    assert restore(folder, made.name, tmp_path / "again") == made


@pytest.mark.parametrize("spoiled", ["a file", SUMS, "all"])
def test_no_backup_rests_on_a_damaged_one(tmp_path: Path, folder: Path, spoiled: str) -> None:
    """The next one has a whole copy of its own, and says why."""
    fresh_store(tmp_path / "store").close()
    dice, store = random.Random(drawn_seed()), f"chdb://{tmp_path / 'store'}"
    with opened(tmp_path / "store", folder) as books:
        put(books, "samples", samples("gpu-0", "2026-03-02 00:01", range(1000)))
        first = back_up(books, NOW, nobody_writing)
        assert back_up(books, NOW + LATER, nobody_writing).whole == first.whole
    whole = folder / first.whole
    if spoiled == "all":
        shutil.rmtree(whole)
    else:
        path = whole / SUMS if spoiled == SUMS else dice.choice([one for one in files_of(whole) if one.stat().st_size])
        kept, at = path.read_bytes(), dice.randrange(path.stat().st_size)
        path.write_bytes(kept[:at] + bytes([kept[at] ^ 1 << dice.randrange(8)]) + kept[at + 1 :])
    done = run("backup", str(folder), "--store", store)
    made = backups(folder)[-1]
    assert made.whole == f"{WHOLE}{made.name}"
    assert made.damaged == (f"{first.whole}/{SUMS}" if spoiled == "all" else path.relative_to(folder).as_posix())
    assert f"is damaged or gone: what rests on {first.whole} cannot be restored" in " ".join(done.output.split())
    assert (restore(folder, "", tmp_path / "again"), made.migration) == (made, first.migration)
    with opened(tmp_path / "store") as books:
        before = content(books)
    with opened(tmp_path / "again") as books:
        assert content(books) == before
    with pytest.raises(BackupError):
        restore(folder, first.name, tmp_path / "earlier")
    with opened(tmp_path / "store", folder) as books:
        after_that = back_up(books, made.made_at + LATER, nobody_writing)
    assert (after_that.whole, after_that.damaged) == (made.whole, "")


def test_a_backup_that_checks_nothing_says_so_and_may_rest_on_a_damaged_one(tmp_path: Path, folder: Path) -> None:
    """What is gone it notices."""
    fresh_store(tmp_path / "store").close()
    with opened(tmp_path / "store", folder) as store:
        first = back_up(store, NOW, nobody_writing, check=False)
    assert not first.unchecked, "its copy is its own"
    path = next(one for one in files_of(folder / first.whole) if one.name == "data.bin")
    path.write_bytes(bytes([path.read_bytes()[0] ^ 1]) + path.read_bytes()[1:])
    done = run("backup --no-check", str(folder), "--store", f"chdb://{tmp_path / 'store'}")
    made = backups(folder)[-1]
    assert f"{first.whole} was not compared with its checksums" in " ".join(done.output.split())
    assert (made.whole, made.unchecked) == (first.whole, True)
    with pytest.raises(BackupError, match="is damaged or gone"):
        restore(folder, made.name, tmp_path / "again")
    path.unlink()
    with opened(tmp_path / "store", folder) as store:
        last = back_up(store, made.made_at + LATER, nobody_writing, check=False)
    assert (last.whole, last.unchecked) == (f"{WHOLE}{last.name}", False)
    assert last.damaged == path.relative_to(folder).as_posix()
    assert restore(folder, last.name, tmp_path / "again") == last


def test_a_manifest_of_a_later_version_is_read(folder: Path) -> None:
    folder.mkdir()
    made = Backup("2026-11-01T00-00-00Z", NOW, "whole-x", 1, 1, 1, 30, "gpuledger")
    (folder / made.name).mkdir()
    (folder / made.name / MANIFEST).write_text(json.dumps({**asdict(made), "colour": "red"}, default=str))
    assert backups(folder) == [made]


def test_the_documented_line_finds_a_damaged_file_where_backups_are(tmp_path: Path, folder: Path) -> None:
    text = (Path(__file__).parents[2] / "docs" / "backups.md").read_text()
    (line,) = re.findall(r"^    (for folder in .*sha256sum.*)$", text, re.MULTILINE)
    command = line.replace("/backups/gpuledger", shlex.quote(str(folder)))
    assert command != line
    fresh_store(tmp_path / "store").close()
    with opened(tmp_path / "store", folder) as store:
        put(store, "samples", samples("gpu-0", "2026-03-02 00:01", range(1000)))
        made = back_up(store, NOW, nobody_writing)

    def said() -> str:
        done = subprocess.run(["/bin/sh", "-c", command], capture_output=True, text=True, check=False)
        return done.stdout + done.stderr

    assert said() == ""
    damaged = max((folder / made.whole / "data").rglob("data.bin"))
    damaged.write_bytes(damaged.read_bytes()[:-1] + b"?")
    assert f"{damaged.relative_to(folder / made.whole)}: FAILED" in said()


def files_of(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file() and path.name != MANIFEST)


def one_of_each_kind(files: Sequence[Path], dice: random.Random) -> list[Path]:
    kinds: dict[str, list[Path]] = defaultdict(list)
    for path in files:
        kinds[path.suffix if path.suffix == ".sql" else path.name].append(path)
    assert {"data.bin", ".sql", ".backup", "primary.cidx", ACCESS, SUMS} <= kinds.keys()
    return [dice.choice(of) for of in kinds.values()]


def test_a_damaged_backup_gives_what_it_still_has_if_that_is_wanted(tmp_path: Path, folder: Path) -> None:
    fresh_store(tmp_path / "store").close()
    with opened(tmp_path / "store", folder) as store:
        put(store, "samples", samples("gpu-0", "2026-03-02 00:01", range(1000)))
        made = back_up(store, NOW, nobody_writing)
    index, column = (
        max((folder / made.whole / "data" / "gpuledger" / "samples").rglob(name))
        for name in ("primary.cidx", "data.bin")
    )
    index.write_bytes(bytes(index.stat().st_size))
    restore(folder, "", tmp_path / "again", even_damaged=True)
    with open_store(f"chdb://{tmp_path / 'again'}") as again:
        assert again.value("SELECT count() FROM schema_migrations")
    column.write_bytes(column.read_bytes()[:-1])
    with pytest.raises(BackupError, match=r"cannot be restored \(.*\)\. Choose another backup"):
        restore(folder, "", tmp_path / "once_more", even_damaged=True)
    assert not (tmp_path / "once_more").exists()


def test_a_folder_that_the_engine_cannot_write_down_is_refused(tmp_path: Path) -> None:
    fresh_store(tmp_path / "store").close()
    with opened(tmp_path / "store", tmp_path / "a&b") as store, pytest.raises(BackupError, match="has <, > or & in it"):
        back_up(store, NOW, nobody_writing)


@pytest.mark.parametrize("full", [True, False])
def test_a_full_disk_is_not_another_backup_at_work(
    tmp_path: Path, folder: Path, full: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As found: the engine reads its own empty note of this backup, and says that another one writes there."""
    said = "Code: 598. DB::Exception: A concurrent backup writing to the same destination (BACKUP_ALREADY_EXISTS)"

    def refused(store: Store, sql: str, *_: Any) -> None:
        assert sql.startswith("BACKUP"), sql
        if full:
            until.enter_context(full_disk())
        raise StoreError(store.url, said)

    fresh_store(tmp_path / "store").close()
    with contextlib.ExitStack() as until, opened(tmp_path / "store", folder) as store:
        monkeypatch.setattr(type(store), "command", refused)
        with pytest.raises(LedgerError) as caught:
            back_up(store, NOW, nobody_writing)
        until.close()
        monkeypatch.undo()
    if full:
        assert str(caught.value) == f"{folder}: File too large. Free some space there, or name another folder"
    else:
        assert said in str(caught.value)


def test_a_disk_that_a_restore_fills_is_not_a_damaged_backup(
    tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As found: the engine reads what it could not write down, and says that JSON ends early."""
    fresh_store(tmp_path / "store").close()
    with opened(tmp_path / "store", folder) as store:
        back_up(store, NOW, nobody_writing)

    def refused(store: Store, *_: Any) -> None:
        until.enter_context(full_disk())
        raise StoreError(store.url, "Code: 1000. DB::Exception: JSON Exception: error: 1: unexpected end of data.")

    with contextlib.ExitStack() as until, monkeypatch.context() as patched:
        patched.setattr("warehouse.store.EmbeddedStore.command", refused)
        with pytest.raises(BackupError) as caught:
            restore(folder, "", tmp_path / "again")
    assert str(caught.value) == f"{tmp_path}: File too large. Free some space there, or name another folder"


@pytest.mark.parametrize("inside", ["", "backups/daily"])
def test_a_folder_of_the_store_itself_is_refused(tmp_path: Path, inside: str) -> None:
    fresh_store(tmp_path / "store").close()
    (tmp_path / "link").symlink_to(tmp_path / "store")
    for path in (tmp_path / "store" / inside, tmp_path / "link" / inside):
        with opened(tmp_path / "store", path) as store, pytest.raises(BackupError, match="lost with it"):
            back_up(store, NOW, nobody_writing)
    assert not (tmp_path / "store" / "backups").exists()


@pytest.mark.parametrize("inside", ["again", "{made}/again", "2099-x.unfinished"])
def test_no_store_is_restored_among_the_backups(tmp_path: Path, folder: Path, inside: str) -> None:
    """As found: it stood in a backup's folder, and the next backup that removed old ones removed it, without a word."""
    fresh_store(tmp_path / "store").close()
    with opened(tmp_path / "store", folder) as store:
        made = back_up(store, NOW, nobody_writing)
    (tmp_path / "link").symlink_to(folder)
    for within in (folder, tmp_path / "link"):
        target = within / inside.format(made=made.name)
        with pytest.raises(BackupError, match="in the folder of the backups"):
            restore(folder, "", target)
        assert not target.exists()


def test_a_backup_that_is_opened_as_a_store_is_told_with_the_command_that_restores_it(
    tmp_path: Path, folder: Path
) -> None:
    """As found: the command named the backups as the store, and no folder."""
    fresh_store(tmp_path / "store").close()
    with opened(tmp_path / "store", folder) as store:
        made = back_up(store, NOW, nobody_writing)
    for path in (folder, folder / made.name):
        with pytest.raises(StoreError, match=rf"gpuledger restore {folder} --store chdb:///PLACE "):
            open_store(f"chdb://{path}")


def test_a_folder_takes_no_backup_of_another_store(tmp_path: Path, folder: Path) -> None:
    """A restored store is no other one: it goes on where it was lost."""
    fresh_store(tmp_path / "store").close()
    with opened(tmp_path / "store", folder) as store:
        made = back_up(store, NOW, nobody_writing)
    restore(folder, "", tmp_path / "again")
    with opened(tmp_path / "other", folder) as store:
        migrate(store)
        with pytest.raises(BackupError, match="holds backups of another store"):
            back_up(store, NOW + LATER, nobody_writing)
    with opened(tmp_path / "again", folder) as store:
        made_again = back_up(store, NOW + LATER, nobody_writing)
    assert backups(folder) == [made, made_again]
    assert made_again.store == made.store


def test_a_backup_is_no_store_and_is_not_written_to(tmp_path: Path, folder: Path) -> None:
    """As found: `verify --store` of a backup made a store in it, and said that its books balance."""
    fresh_store(tmp_path / "store").close()
    with opened(tmp_path / "store", folder) as store:
        made = back_up(store, NOW, nobody_writing)
    before = sorted(folder.rglob("*"))
    for path, what in ((folder, "holds backups"), (folder / made.name, "a backup"), (folder / made.whole, "a backup")):
        assert what in refused("verify --store", f"chdb://{path}")
    assert sorted(folder.rglob("*")) == before


def test_no_store_is_made_by_backing_it_up(tmp_path: Path, folder: Path) -> None:
    found = CliRunner().invoke(build(), ["backup", str(folder), "--store", f"chdb://{tmp_path / 'typo'}"])
    assert isinstance(found.exception, LedgerError)
    assert "is not there" in str(found.exception)
    assert not (tmp_path / "typo").exists()


def test_a_folder_that_is_not_there_is_no_empty_list(folder: Path) -> None:
    """The disk of backups may not be mounted, and a list without rows is what a check of them takes for none yet."""
    assert refused("backup --list", str(folder)).startswith(f"FOLDER {folder}: is not there")
    folder.mkdir()
    assert run("backup --list --format json", str(folder)).stdout == "[]\n"


@pytest.mark.parametrize("more", ["--whole", "--keep 1", "--no-check"])
def test_a_list_removes_and_makes_nothing_and_says_so(folder: Path, more: str) -> None:
    assert refused(f"backup --list {more}", str(folder)).startswith("--list: makes and removes no backups")


def test_a_clickhouse_server_compares_nothing_that_could_be_left_out() -> None:
    line = refused("backup --no-check disk://backups/x --store clickhouse://nowhere")
    assert line.startswith("--no-check: is of an embedded store's backups")
