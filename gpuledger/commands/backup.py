"""`gpuledger backup` and `gpuledger restore`: back up an embedded store, and make a store from a backup."""

from __future__ import annotations

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
    store: options.Store = "",
    fmt: options.OutputFormat = options.Format.table,
) -> None:
    """Copy an embedded store into a folder: everything once, then what changed since."""
    if served(store) and (folder is not None or keep):
        raise LedgerError("FOLDER, --keep", "a server keeps its backups in its own folder", "Leave them out")
    if not served(store) and folder is None:
        raise LedgerError("FOLDER", "is missing", "Say where backups go: gpuledger backup /backups/gpuledger")
    if listed:
        print_rows([{name: getattr(one, name) for name in COLUMNS} for one in _listed(store, folder)], COLUMNS, fmt)
        return
    made = _made(store, folder, whole)
    if fmt is not options.Format.table:
        print_rows([{name: getattr(made, name) for name in COLUMNS}], COLUMNS, fmt)
    else:
        say(f"backup {made.name}: {made.bytes:,} bytes, on {made.whole} of {made.whole_bytes:,} bytes")
    if keep and folder is not None:
        from warehouse.backup import forget

        for old in forget(folder, keep):
            say(f"removed {old.name} of {rfc3339(old.made_at)}")


def restore(
    folder: Annotated[Path, typer.Argument(help="Where the backups are.", file_okay=False, resolve_path=True)],
    name: Annotated[str, typer.Option("--name", help="Of the backup.", show_default="the newest")] = "",
    store: options.Store = "",
) -> None:
    """Make an embedded store of a backup, where nothing is yet."""
    from warehouse.backup import restore as restored

    path = embedded_path(store)
    made = restored(folder, name, path)
    say(f"restored {made.name}, as of {rfc3339(made.made_at)}. Next: gpuledger verify --store chdb://{path}")


def _listed(store: str, folder: Path | None) -> list[documents.Backup] | list[Backup]:
    if folder is None:
        with client(served(store)) as server:
            return server.backups()
    from warehouse.backup import backups

    return backups(folder)


def _made(store: str, folder: Path | None, whole: bool) -> documents.Backup | Backup:
    if folder is None:
        with client(served(store)) as server:
            return server.back_up(whole)
    from billing.writers import nobody_writing
    from warehouse.backup import back_up

    if store.startswith("chdb://") or not store:
        path = embedded_path(store)
        if not (path / "engine").is_dir():
            raise LedgerError(f"store {path}", "is not there", "Name the store that is to be copied with --store")
    with open_store(store, folder) as opened:
        migrate(opened)
        return back_up(opened, datetime.now(UTC), nobody_writing, whole)
