"""Backs up an embedded store to another folder, and restores it, with the engine's own BACKUP and RESTORE.

    FOLDER/whole-2026-11-23T22-31-05Z/             full copy: every table; made while others write
    FOLDER/2026-11-23T22-31-09Z/engine/            backup: the changes since that full copy, made while nobody writes
    FOLDER/2026-11-23T22-31-09Z/access.sqlite      people, tokens and sessions, if they are in the store's folder
    FOLDER/2026-11-23T22-31-09Z/manifest.json      written last: its full copy, and the software version
    FOLDER/*/SHA256SUMS                            the files of that folder; the manifest has the sum of both

The engine's RESTORE looks into few of the files that it copies: a bit that flips in a column, an index or a table's
definition is in the restored store, too. Hence the sums, which a restore compares first.

A backup is incremental and is restored together with its full copy. So before each increment the full copy is compared
with its sums, and one that is damaged is the base of no further backup. Writers wait only while the increment is made,
which takes time in proportion to what changed. An unfinished backup ends in `.unfinished`, from before its full copy
until its manifest is written. One that fails removes that and its full copy; of one that was killed the next does.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.metadata
import json
import os
import re
import shutil
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, fields
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeVar

from warehouse.errors import LedgerError, StoreError
from warehouse.instants import rfc3339
from warehouse.private_files import FULL, HOLDER, HeldError, hold
from warehouse.sql import identifier, text_literal
from warehouse.store import DISK_FULL, UNFINISHED, EmbeddedStore, Store, read_sql

MAKE_ROOM = "Free some space there, or name another folder"
ANOTHER = "Choose another backup with --name, or --even-damaged for what this one still has"
AHEAD = "is of later than now"
CLOCK = "Check the clock; if it is right, move what it made while it was ahead somewhere else"
WHOLE = "whole-"
NAME = "%Y-%m-%dT%H-%M-%SZ"
"""Of a backup: when it was made, UTC."""
A_FOLDER = re.compile(rf"({WHOLE})?\d{{4}}-\d\d-\d\dT\d\d-\d\d-\d\dZ")
ENGINE, ACCESS, MANIFEST = "engine", "access.sqlite", "manifest.json"
COPIED = "copied"
"""The file that says which bucket has which backup as its newest."""
SUMS = "SHA256SUMS"
"""As sha256sum writes and checks it."""
MOST_CHANGED = 0.5
"""Once a backup is larger than this fraction of its full copy, the next one begins with a new full copy."""


class BackupError(LedgerError):
    """A backup that cannot be made or restored."""


@dataclass(frozen=True)
class Backup:
    """name: its folder.   whole: folder of its full copy.   bytes: its own size.   migration: the schema's number.
    store: whose it is (`identity`); empty: made before backups said so.
    sums, whole_sums: SHA-256 of the SHA256SUMS of both folders; empty: made without.
    damaged: a file of the full copy before, as found when this was made, which therefore has one of its own.
    unchecked: the full copy was not compared with its sums before this was made on it."""

    name: str
    made_at: datetime
    whole: str
    bytes: int
    whole_bytes: int
    tables: int
    migration: int
    software: str
    store: str = ""
    sums: str = ""
    whole_sums: str = ""
    damaged: str = ""
    unchecked: bool = False


Made = TypeVar("Made", bound=Backup)
Quiet = Callable[[Store], contextlib.AbstractContextManager[object]]
"""While it is entered, nobody changes the store."""


def back_up(store: Store, now: datetime, quiet: Quiet, whole: bool = False, check: bool = True) -> Backup:
    """Makes a backup; first a full copy if there is none, if much has changed since, if it is damaged, or with `whole`.

    store: opened with a folder for its backups.   check: compare the full copy with its sums, reading all of it; else
    only a file that is gone is damage.   Errors: BackupError, StoreError.
    """
    if not isinstance(store, EmbeddedStore) or store.path is None:
        raise BackupError(store.url, "no embedded store", "Name where a ClickHouse server's go (docs/backups.md)")
    folder = folder_of(store)
    if set("<>&") & set(str(folder)):
        raise BackupError(str(folder), "has <, > or & in it, which the engine cannot note", "Name another folder")
    if folder.resolve().is_relative_to(store.path.resolve()):
        raise BackupError(str(folder), "is in the store's own folder, and would be lost with it", "Name another folder")
    with held(folder):
        made, whose = backups(folder), identity(store)
        _remove_unfinished(folder, made)
        refuse_mixed(made, whose, str(folder))
        name = f"{now.astimezone(UTC):{NAME}}"
        _refuse_taken_name(folder, name, made)
        try:
            return _made(store, folder, name, now, quiet, last_to_extend(made, whole), whose, check)
        except BaseException:
            with contextlib.suppress(OSError):
                _remove_unfinished(folder, made)
            raise


def _made(
    store: EmbeddedStore, folder: Path, name: str, now: datetime, quiet: Quiet, last: Backup | None, whose: str,
    check: bool,
) -> Backup:  # fmt: skip
    """last: the backup on whose full copy this one may rest."""
    unfinished = folder / f"{name}{UNFINISHED}"
    unfinished.mkdir(mode=0o700)
    damaged = _damaged(folder / last.whole, last.whole_sums, check) if last else []
    base, base_sums = (last.whole, last.whole_sums) if last and not damaged else ("", "")
    if not base:
        base = f"{WHOLE}{name}"
        _copy(store, folder / f"{base}{UNFINISHED}")
        base_sums = _sum_up(folder / f"{base}{UNFINISHED}")
        (folder / f"{base}{UNFINISHED}").rename(folder / base)
    with quiet(store):
        tables = _copy(store, unfinished / ENGINE, f" SETTINGS base_backup = {_file(folder / base)}")
        if store.path is not None and (store.path / ACCESS).exists():
            _copy_sqlite(store.path / ACCESS, unfinished / ACCESS)
    sums = _sum_up(unfinished)
    found = Backup(
        name=name,
        made_at=now.astimezone(UTC).replace(microsecond=0),
        whole=base,
        bytes=_bytes(unfinished),
        whole_bytes=_bytes(folder / base),
        tables=tables,
        migration=newest_migration(store),
        software=software(),
        store=whose,
        sums=sums,
        whole_sums=base_sums,
        damaged=damaged[0].relative_to(folder).as_posix() if damaged else "",
        unchecked=not check and base != f"{WHOLE}{name}",
    )
    (unfinished / MANIFEST).write_text(json.dumps(asdict(found), indent=2, default=str) + "\n", encoding="utf-8")
    unfinished.rename(folder / name)
    return found


def _remove_unfinished(folder: Path, made: Sequence[Backup]) -> None:
    """What backups left that failed or were killed: their folders, and full copies on which none rests."""
    wanted = {one.whole for one in made}
    for left in folder.glob(f"*{UNFINISHED}"):
        whole = folder / f"{WHOLE}{left.name.removesuffix(UNFINISHED)}"
        if whole.is_dir() and whole.name not in wanted:
            shutil.rmtree(whole)
        if left.is_dir():
            shutil.rmtree(left)
        else:
            left.unlink()


def _refuse_taken_name(folder: Path, name: str, made: Sequence[Backup]) -> None:
    """Errors: BackupError if the newest is not older. Names are compared to find the newest: what a clock that was
    ahead made would be restored in place of later ones, and these be removed as old and reach no bucket."""
    if (folder / name).exists():
        raise BackupError(str(folder / name), "is there already", "Wait a second")
    if made and name < made[-1].name:
        raise BackupError(str(folder / made[-1].name), AHEAD, CLOCK)


def folder_of(store: Store) -> Path:
    """Where a store's backups are.   Errors: BackupError if it was opened without such a folder."""
    if not isinstance(store, EmbeddedStore) or store.backups is None:
        raise BackupError("backups", "this server was started without a folder for them", "Start it with --backups")
    return store.backups


def identity(store: Store) -> str:
    """What tells a store apart from others: when its schema was made, to the millisecond. A restored one keeps it."""
    return rfc3339(store.value("SELECT min(applied_at) AS made_at FROM schema_migrations"))


def refuse_mixed(made: Sequence[Backup], whose: str, where: str) -> None:
    """Errors: BackupError if the newest of the backups there is one of another store."""
    other = made[-1].store if made else ""
    if other and whose and other != whose:
        raise BackupError(
            where, f"holds backups of another store (made {other}, not {whose})", "Give each store a place of its own"
        )


def backups(folder: Path) -> list[Backup]:
    """Those that are finished, the oldest first.   Errors: BackupError for a manifest that is none."""
    found: list[Backup] = []
    for path in sorted(folder.glob(f"*/{MANIFEST}")):
        if path.parent.name.endswith(UNFINISHED):
            continue
        try:
            text = path.read_text(encoding="utf-8")
        except (OSError, ValueError) as error:
            raise BackupError(str(path), f"cannot be read ({error})", "Move that folder away") from error
        found.append(parsed_manifest(text, str(path), Backup))
    return found


def copied_to(folder: Path, bucket: str) -> str:
    """Name of the newest backup that a bucket was seen to have; empty: none was."""
    try:
        url, _, name = (folder / COPIED).read_text(encoding="utf-8").strip().rpartition(" ")
    except (OSError, ValueError):
        return ""
    return name if url == bucket else ""


def parsed_manifest(text: str, where: str, kind: type[Made]) -> Made:
    """What a later version says besides is left out.   Errors: BackupError for a text that is no manifest."""
    try:
        told = json.loads(text)
        known = {one.name: told[one.name] for one in fields(kind) if one.name in told}
        return kind(**{**known, "made_at": datetime.fromisoformat(told["made_at"])})
    except (ValueError, TypeError, KeyError) as error:
        raise BackupError(where, f"cannot be read ({error})", "Move that folder away") from error


def restore(folder: Path, name: str, target: Path, even_damaged: bool = False) -> Backup:
    """Restores a backup to a path that does not exist. A kill leaves PATH.unfinished, which the next restore removes.

    name: of the backup; empty: the newest.   even_damaged: whatever its checksums say.   Errors: BackupError.
    """
    made = {one.name: one for one in backups(folder)}
    if not made:
        raise BackupError(str(folder), "holds no backup", "Make one: gpuledger backup FOLDER")
    if name and name not in made:
        raise BackupError(f"backup {name}", "is not there", f"Choose from {', '.join(sorted(made)[-5:])}")
    backup = made[name or max(made)]
    if not (folder / backup.whole).is_dir():
        raise BackupError(str(folder / backup.whole), "is gone, and the backup rests on it", "Choose another one")
    refuse_taken(target)
    if target.resolve().is_relative_to(folder.resolve()):
        what = "is in the folder of the backups: a later backup would remove the store with old ones"
        raise BackupError(str(target), what, "Name a place outside it")
    if not even_damaged:
        _refuse_damaged(folder / backup.whole, backup.whole_sums)
        _refuse_damaged(folder / backup.name, backup.sums)
    unfinished = target.with_name(f"{target.name}{UNFINISHED}")
    with emptied(unfinished):
        # It is locked for longer than the engine has it: until it has its name.
        store = EmbeddedStore(f"chdb://{unfinished}", unfinished, hold=False, backups=folder)
        with contextlib.closing(store):
            base = _file(folder / backup.whole)
            try:
                store.command(f"RESTORE ALL FROM {_file(folder / backup.name / ENGINE)} SETTINGS base_backup = {base}")
            except StoreError as error:
                _refuse_full(unfinished.parent, error)
                what = " ".join(error.what.split())[:200]
                raise BackupError(str(folder / backup.name), f"cannot be restored ({what})", ANOTHER) from error
        access = folder / backup.name / ACCESS
        if access.exists():
            shutil.copyfile(access, unfinished / ACCESS)
        with contextlib.suppress(FileNotFoundError):
            target.rmdir()
        unfinished.rename(target)
    return backup


@contextlib.contextmanager
def emptied(folder: Path) -> Iterator[None]:
    """A folder of a restore, without what a kill left in it, and locked against another one that would do the same.

    Errors: BackupError if another restore is at work there.
    """
    try:
        file = hold(folder, f"process {os.getpid()}, a restore")
    except HeldError as error:
        raise BackupError(str(folder), f"held by {error.holder}", "Wait until it is done, or end it") from error
    except OSError as error:
        raise BackupError(str(folder), f"cannot be written ({error.strerror})", "Name another --store") from error
    with file:
        for path in folder.iterdir():
            if path.is_dir():
                shutil.rmtree(path)
            elif path.name != HOLDER:
                path.unlink()
        yield
        file.truncate(0)


def _sum_up(folder: Path) -> str:
    """Writes down what the files of a folder are, and answers the sum of that."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    text = "".join(f"{_sum(path)}  {path.relative_to(folder).as_posix()}\n" for path in files)
    (folder / SUMS).write_text(text, encoding="utf-8")
    return _sum(folder / SUMS)


def _sum(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _refuse_damaged(folder: Path, sums: str) -> None:
    """Errors: BackupError if a file is not as it was."""
    if damaged := _damaged(folder, sums):
        more = f", and {len(damaged) - 1:,} more files" if len(damaged) > 1 else ""
        raise BackupError(str(damaged[0]), f"is damaged or gone: it is not what was backed up{more}", ANOTHER)


def _damaged(folder: Path, sums: str, check: bool = True) -> list[Path]:
    """The files that are not as they were, or without `check` those that are gone.   sums: what `_sum_up` answered;
    empty: nothing is known."""
    if not sums:
        return []
    if not _is_as_summed(folder / SUMS, sums):
        return [folder / SUMS]
    lines = (folder / SUMS).read_text(encoding="utf-8").splitlines()
    summed = [line.partition("  ")[::2] for line in lines]
    is_sound = _is_as_summed if check else lambda path, _: path.is_file()
    return [folder / name for sum_, name in summed if not is_sound(folder / name, sum_)]


def _is_as_summed(path: Path, sum_: str) -> bool:
    return path.is_file() and _sum(path) == sum_


def refuse_taken(target: Path) -> None:
    """Errors: BackupError if a store cannot be restored there."""
    if target.exists() and any(target.iterdir()):
        raise BackupError(str(target), "something is there already", "Name a folder that is empty or not there")


def forget(folder: Path, keep: int) -> Sequence[Backup]:
    """Removes all but the newest, and whole copies on which none of those rests. Answers which."""
    with held(folder):
        made = backups(folder)
        old, kept = made[:-keep], made[-keep:]
        for one in old:
            # The manifest first: without it the rest is no backup any more.
            (folder / one.name / MANIFEST).unlink()
            shutil.rmtree(folder / one.name)
        for name in leftovers((path.name for path in folder.iterdir()), kept):
            shutil.rmtree(folder / name)
        return old


def leftovers(names: Iterable[str], kept: Sequence[Backup]) -> list[str]:
    """Folders that belong to none of the kept backups: whole copies, and what is left of backups whose removal was
    killed. Not what is newer than they are, which may be on its way."""
    wanted = {name for one in kept for name in (one.name, one.whole)}
    newest = max((one.name for one in kept), default="")
    return sorted(name for name in {*names} - wanted if A_FOLDER.fullmatch(name) and name.removeprefix(WHOLE) < newest)


@contextlib.contextmanager
def held(folder: Path) -> Iterator[None]:
    """One backup at a time in a folder, of whatever process."""
    try:
        file = hold(folder)
    except HeldError as error:
        raise BackupError(str(folder), f"held by {error.holder}", "Wait until its backup is done") from error
    except OSError as error:
        raise BackupError(str(folder), f"cannot be written ({error.strerror})", "Name another folder") from error
    with file:
        try:
            yield
        except OSError as error:
            if error.errno not in FULL:
                raise
            raise BackupError(str(folder), str(error.strerror), MAKE_ROOM) from error
        except sqlite3.OperationalError as error:
            raise BackupError(str(folder), f"users and tokens cannot be copied ({error})", MAKE_ROOM) from error


def permanent_tables(store: Store) -> list[str]:
    """Names of what a backup copies: tables that last, and views."""
    return [str(row["name"]) for row in store.rows(read_sql(__file__, "permanent_tables"))]


def _copy(store: Store, path: Path, settings: str = "") -> int:
    """Copies the tables that last; answers how many they are."""
    database = identifier(store.database)
    tables = permanent_tables(store)
    named = ", ".join(f"TABLE {database}.{identifier(name)}" for name in tables)
    path.parent.mkdir(mode=0o700, exist_ok=True)
    try:
        store.command(f"BACKUP {named} TO {_file(path)}{settings}")
    except StoreError as error:
        _refuse_full(path.parent, error)
        raise
    return len(tables)


def _refuse_full(folder: Path, refused: StoreError) -> None:
    """Errors: BackupError if a backup or a restore failed because nothing more can be written there. The engine may say
    instead that another backup is at work, or that its JSON ends early, because its own note of this one is empty."""
    probe = folder / f"probe{UNFINISHED}"
    try:
        with contextlib.closing(probe.open("wb", buffering=0)) as file:
            file.write(bytes(4096))
    except OSError as error:
        raise BackupError(str(folder), str(error.strerror), MAKE_ROOM) from error
    finally:
        probe.unlink(missing_ok=True)
    if DISK_FULL.search(refused.what):
        raise BackupError(str(folder), "its disk is full", MAKE_ROOM) from refused


def _file(path: Path) -> str:
    return f"File({text_literal(str(path))})"


def _copy_sqlite(source: Path, target: Path) -> None:
    """As of one instant, whoever writes meanwhile."""
    with contextlib.closing(sqlite3.connect(source)) as one, contextlib.closing(sqlite3.connect(target)) as other:
        one.backup(other)


def last_to_extend(made: Sequence[Made], whole: bool) -> Made | None:
    """The newest backup, if another can be made on its full copy: none is asked for, and not much has changed."""
    last = made[-1] if made and not whole else None
    return None if last is None or last.bytes > MOST_CHANGED * last.whole_bytes else last


def newest_migration(store: Store) -> int:
    return int(store.value("SELECT max(number) AS last FROM schema_migrations"))


def software() -> str:
    """What makes a backup, with its version."""
    return f"gpuledger {importlib.metadata.version('gpuledger')}"


def _bytes(path: Path) -> int:
    return sum(file.stat().st_size for file in path.rglob("*") if file.is_file())
