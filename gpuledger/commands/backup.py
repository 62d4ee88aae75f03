"""`gpuledger backup` and `gpuledger restore`: back up a store, and restore it.

An embedded store goes to a folder, and from there to a bucket; a ClickHouse server copies its own itself.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gpuledger import options
from gpuledger.books import client, refuse_absent, served
from gpuledger.output import print_rows, say
from warehouse.errors import LedgerError
from warehouse.instants import rfc3339
from warehouse.store import embedded_path, migrate, open_store

if TYPE_CHECKING:
    from gpuledger import documents
    from warehouse.backup import Backup
    from warehouse.bucket import Bucket
    from warehouse.server_backup import Place

TELL_SECONDS = 30
"""Between two lines that say how far a server is."""
COLUMNS = ("name", "made_at", "bytes", "whole", "whole_bytes", "migration", "software", "store")


def register(app: typer.Typer) -> None:
    app.command("backup")(backup)
    app.command("restore")(restore)


def backup(
    target: Annotated[
        str,
        typer.Argument(
            metavar="FOLDER", show_default=False,
            help="Where backups go; of a ClickHouse server disk://DISK/PREFIX; of a gpuledger server: its --backups.",
        ),
    ] = "",
    whole: Annotated[bool, typer.Option("--whole", help="Copy everything, not only what changed.")] = False,
    check: Annotated[
        bool, typer.Option(help="Compare the copy on which it will rest with its checksums; reads all of it.")
    ] = True,
    keep: Annotated[int, typer.Option("--keep", min=0, help="Remove all but the newest so many; 0: none.")] = 0,
    listed: Annotated[bool, typer.Option("--list", help="List the backups that are there; make none.")] = False,
    bucket: Annotated[
        str,
        typer.Option(
            "--bucket", envvar="GPULEDGER_BACKUPS_BUCKET", show_default=False,
            help="Also copy them to s3://BUCKET/PREFIX?endpoint=URL&region=NAME; with --list, list those there.",
        ),
    ] = "",
    store: options.Store = "",
    fmt: options.OutputFormat = options.Format.table,
) -> None:  # fmt: skip
    """Copy a store to a folder, bucket or disk: everything once, then what changed since."""
    if listed and (whole or keep or not check):
        raise LedgerError("--list", "makes and removes no backups", "Leave out --whole, --no-check and --keep")
    if _is_clickhouse(store):
        if not check:
            raise LedgerError("--no-check", "is of an embedded store's backups", "Leave it out")
        _backup_of_clickhouse(target, whole, keep, listed, bucket, store, fmt)
        return
    folder = _folder(target)
    if served(store) and ((folder is not None and not bucket) or keep):
        raise LedgerError(
            "FOLDER, --keep",
            "a server keeps its backups in its own folder",
            "Leave them out; server --backups-keep N removes old ones",
        )
    if folder is None and not (listed and bucket) and not served(store):
        raise LedgerError("FOLDER", "is missing", "Say where backups go: gpuledger backup /backups/gpuledger")
    to = _checked(bucket) if bucket and (listed or folder is not None) else None
    if listed:
        found = to.backups() if to else _listed(store, folder)
        print_rows([{name: getattr(one, name) for name in COLUMNS} for one in found], COLUMNS, fmt)
        return
    made = _made(store, folder, whole, check)
    _print_made(made, fmt)
    if bucket and folder is None:
        _confirm_copied(made, bucket)
    elif to and folder is not None:
        if not (folder / made.name).is_dir():
            raise LedgerError(f"FOLDER {folder}", f"has no backup {made.name}", "Name the folder of the server")
        for one in to.copy(folder):
            say(f"copied {one.name} to {to.url}")
    if keep and folder is not None:
        from warehouse.backup import forget

        for old in forget(folder, keep):
            say(f"removed {old.name} of {rfc3339(old.made_at)}")
        for old in to.forget(keep) if to else ():
            say(f"removed {old.name} of {rfc3339(old.made_at)} from {to.url if to else bucket}")


def _confirm_copied(made: documents.Backup | Backup, bucket: str) -> None:
    """Errors: LedgerError if the server did not copy it to that bucket."""
    from warehouse.bucket import bucket_of

    there = getattr(made, "bucket", "")
    if there != bucket_of(bucket).url:
        copies = f"copies to {there}" if there else "copies to no bucket"
        raise LedgerError(
            "--bucket, GPULEDGER_BACKUPS_BUCKET", f"{made.name} is made, but its server {copies}",
            "Start the server with --backups-bucket, or name its FOLDER on its machine, or leave the bucket out",
        )  # fmt: skip
    say(f"copied {made.name} to {there}")


def _print_made(made: documents.Backup | Backup, fmt: options.Format) -> None:
    if fmt is not options.Format.table:
        print_rows([{name: getattr(made, name) for name in COLUMNS}], COLUMNS, fmt)
    else:
        say(f"backup {made.name}: {made.bytes:,} bytes, on {made.whole} of {made.whole_bytes:,} bytes")
    if made.damaged:
        old = made.damaged.partition("/")[0]
        say(f"{made.damaged} is damaged or gone: what rests on {old} cannot be restored. This backup does not")
    if made.unchecked:
        say(f"{made.whole} was not compared with its checksums: if it is damaged, this backup cannot be restored")


def _is_clickhouse(store: str) -> bool:
    return (store or os.environ.get("GPULEDGER_STORE", "")).startswith(("clickhouse://", "clickhouses://"))


def _folder(target: str) -> Path | None:
    """Errors: LedgerError for what is no folder."""
    if not target:
        return None
    if "://" in target:
        raise LedgerError(
            "FOLDER", "an embedded store's backups go to a folder", "Name one, and a bucket of it with --bucket"
        )
    folder = Path(target).resolve()
    if folder.is_file():
        raise LedgerError(f"FOLDER {target}", "is a file", "Name a folder")
    return folder


def _backup_of_clickhouse(
    target: str, whole: bool, keep: int, listed: bool, bucket: str, store: str, fmt: options.Format
) -> None:
    from billing.writers import nobody_writing
    from warehouse.server_backup import back_up, backups

    if bucket:
        raise LedgerError(
            "--bucket, GPULEDGER_BACKUPS_BUCKET", "a ClickHouse server writes to a bucket itself",
            "Leave it out, and name the bucket's collection: gpuledger backup collection://NAME/PREFIX",
        )  # fmt: skip
    if keep:
        raise LedgerError("--keep", "a ClickHouse server removes no backups", "Remove old ones where they are")
    place, now = _place(target), datetime.now(UTC)
    with open_store(store) as opened:
        migrate(opened)
        if listed:
            found = backups(opened, place, now)
            print_rows([{name: getattr(one, name) for name in COLUMNS} for one in found], COLUMNS, fmt)
            return
        _print_made(back_up(opened, place, now, nobody_writing, _teller(), whole), fmt)


def _place(target: str) -> Place:
    from warehouse.server_backup import FORM, place_of

    if not target:
        raise LedgerError("FOLDER", "is missing: where the ClickHouse server is to write to", FORM)
    return place_of(target)


def _teller() -> Callable[[str], None]:
    """Says how far it is, now and then."""
    last = time.monotonic()

    def tell(line: str) -> None:
        nonlocal last
        if time.monotonic() >= last + TELL_SECONDS:
            last = time.monotonic()
            say(line)

    return tell


def restore(
    folder: Annotated[
        str,
        typer.Argument(
            help="Where the backups are: a folder, s3://BUCKET/PREFIX?endpoint=URL, or a ClickHouse server's "
            "disk://DISK/PREFIX."
        ),
    ],
    name: Annotated[str, typer.Option("--name", help="Of the backup.", show_default="the newest")] = "",
    even_damaged: Annotated[
        bool, typer.Option("--even-damaged", help="Also one with files that are not what was backed up.")
    ] = False,
    store: options.Store = "",
) -> None:
    """Make a store of a backup, where nothing is yet."""
    if _is_clickhouse(store):
        if even_damaged:
            raise LedgerError("--even-damaged", "is of an embedded store's backups", "Leave it out")
        _restore_on_clickhouse(folder, name, store)
        return
    path = embedded_path(store)
    restored = _fetched_and_restored if folder.startswith("s3:") else _restored
    made = restored(folder, name, path, even_damaged)
    say(f"restored {made.name}, as of {rfc3339(made.made_at)}. Next: gpuledger verify --store chdb://{path}")


def _restore_on_clickhouse(target: str, name: str, store: str) -> None:
    from warehouse.server_backup import restore

    place = _place(target)
    with open_store(store) as opened:
        made = restore(opened, place, name, datetime.now(UTC), _teller())
        url = opened.url
    say(f"restored {made.name}, as of {rfc3339(made.made_at)}, from {place.url}")
    if made.cluster:
        say(f"Next, on the other nodes of its cluster: gpuledger init --cluster {made.cluster} --store {url}")
    say(f"Next: gpuledger verify --store {url}")


def _restored(folder: str, name: str, path: Path, even_damaged: bool) -> Backup:
    from warehouse.backup import restore as restored

    where = Path(folder).resolve()
    if where.is_file():
        raise LedgerError(f"FOLDER {folder}", "is a file", "Name the folder of the backups")
    return restored(where, name, path, even_damaged)


def _fetched_and_restored(url: str, name: str, path: Path, even_damaged: bool) -> Backup:
    """By way of a folder beside the store, which is removed afterwards; a kill leaves it to the next restore."""
    from warehouse.backup import BackupError, emptied, refuse_taken

    target = _checked(url)
    refuse_taken(path)
    fetched = path.with_name(f"{path.name}.fetched")
    with emptied(fetched):
        try:
            made = target.fetch(name, fetched)
            return _restored(str(fetched), made.name, path, even_damaged)
        except BackupError as error:
            where = error.where.replace(str(fetched.resolve()), target.url)  # where the reader finds it
            raise BackupError(where, error.what, error.next_step) from error
        finally:
            shutil.rmtree(fetched, ignore_errors=True)


def _checked(url: str) -> Bucket:
    from warehouse.bucket import bucket_of

    bucket = bucket_of(url)
    bucket.check()
    return bucket


def _listed(store: str, folder: Path | None) -> list[documents.Backup] | list[Backup]:
    if served(store):
        with client(served(store)) as server:
            return server.backups()
    from warehouse.backup import backups

    assert folder is not None
    if not folder.is_dir():
        raise LedgerError(f"FOLDER {folder}", "is not there", "Check the path, and whether its disk is mounted")
    return backups(folder)


def _made(store: str, folder: Path | None, whole: bool, check: bool) -> documents.Backup | Backup:
    if served(store):
        with client(served(store)) as server:
            return server.back_up(whole, check)
    assert folder is not None
    from billing.writers import nobody_writing
    from warehouse.backup import back_up

    refuse_absent(store, "copied")
    with open_store(store, folder) as opened:
        migrate(opened)
        return back_up(opened, datetime.now(UTC), nobody_writing, whole, check)
