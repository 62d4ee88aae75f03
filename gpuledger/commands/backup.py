"""`gpuledger backup` and `gpuledger restore`: back up an embedded store, to a folder and a bucket, and restore it."""

from __future__ import annotations

import shutil
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gpuledger import options
from gpuledger.books import client, served
from gpuledger.output import print_rows, say
from warehouse.errors import LedgerError
from warehouse.instants import rfc3339
from warehouse.store import embedded_path, migrate, open_store

if TYPE_CHECKING:
    from gpuledger import documents
    from warehouse.backup import Backup
    from warehouse.bucket import Bucket

COLUMNS = ("name", "made_at", "bytes", "whole", "whole_bytes", "migration", "software")


def register(app: typer.Typer) -> None:
    app.command("backup")(backup)
    app.command("restore")(restore)


def backup(
    folder: Annotated[
        Path | None,
        typer.Argument(help="Where backups go; of a server: its --backups.", file_okay=False, resolve_path=True),
    ] = None,
    whole: Annotated[bool, typer.Option("--whole", help="Copy everything, not only what changed.")] = False,
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
    """Copy an embedded store into a folder, and to a bucket: everything once, then what changed since."""
    if served(store) and ((folder is not None and not bucket) or keep):
        raise LedgerError("FOLDER, --keep", "a server keeps its backups in its own folder", "Leave them out")
    if folder is None and not (listed and bucket) and (bucket or not served(store)):
        raise LedgerError("FOLDER", "is missing", "Say where backups go: gpuledger backup /backups/gpuledger")
    target = _checked(bucket) if bucket else None
    if listed:
        found = target.backups() if target else _listed(store, folder)
        print_rows([{name: getattr(one, name) for name in COLUMNS} for one in found], COLUMNS, fmt)
        return
    made = _made(store, folder, whole)
    if fmt is not options.Format.table:
        print_rows([{name: getattr(made, name) for name in COLUMNS}], COLUMNS, fmt)
    else:
        say(f"backup {made.name}: {made.bytes:,} bytes, on {made.whole} of {made.whole_bytes:,} bytes")
    if target and folder is not None:
        if not (folder / made.name).is_dir():
            raise LedgerError(f"FOLDER {folder}", f"has no backup {made.name}", "Name the folder of the server")
        for one in target.copy(folder):
            say(f"copied {one.name} to {target.url}")
    if keep and folder is not None:
        from warehouse.backup import forget

        for old in forget(folder, keep):
            say(f"removed {old.name} of {rfc3339(old.made_at)}")
        for old in target.forget(keep) if target else ():
            say(f"removed {old.name} of {rfc3339(old.made_at)} from {target.url if target else bucket}")


def restore(
    folder: Annotated[str, typer.Argument(help="Where the backups are: a folder, or s3://BUCKET/PREFIX?endpoint=URL.")],
    name: Annotated[str, typer.Option("--name", help="Of the backup.", show_default="the newest")] = "",
    store: options.Store = "",
) -> None:
    """Make an embedded store of a backup, where nothing is yet."""
    path = embedded_path(store)
    made = _fetched_and_restored(folder, name, path) if folder.startswith("s3:") else _restored(folder, name, path)
    say(f"restored {made.name}, as of {rfc3339(made.made_at)}. Next: gpuledger verify --store chdb://{path}")


def _restored(folder: str, name: str, path: Path) -> Backup:
    from warehouse.backup import restore as restored

    where = Path(folder).resolve()
    if where.is_file():
        raise LedgerError(f"FOLDER {folder}", "is a file", "Name the folder of the backups")
    return restored(where, name, path)


def _fetched_and_restored(url: str, name: str, path: Path) -> Backup:
    """By way of a folder beside the store, which is removed afterwards, also one that a kill left."""
    from warehouse.backup import refuse_taken

    target = _checked(url)
    refuse_taken(path)
    fetched = path.with_name(f"{path.name}.fetched")
    shutil.rmtree(fetched, ignore_errors=True)
    try:
        made = target.fetch(name, fetched)
        return _restored(str(fetched), made.name, path)
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
    return backups(folder)


def _made(store: str, folder: Path | None, whole: bool) -> documents.Backup | Backup:
    if served(store):
        with client(served(store)) as server:
            return server.back_up(whole)
    assert folder is not None
    from billing.writers import nobody_writing
    from warehouse.backup import back_up

    if store.startswith("chdb://") or not store:
        path = embedded_path(store)
        if not (path / "engine").is_dir():
            raise LedgerError(f"store {path}", "is not there", "Name the store that is to be copied with --store")
    with open_store(store, folder) as opened:
        migrate(opened)
        return back_up(opened, datetime.now(UTC), nobody_writing, whole)
