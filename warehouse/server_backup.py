"""Backs up the store of a ClickHouse server with the server's own BACKUP, and restores it with its RESTORE.

    disk://DISK/PREFIX             a disk that the server's configuration allows for backups
    collection://NAME/PREFIX       a bucket, whose address and keys are in a named collection of the server
    file:///FOLDER                 a folder of the server's machine that its configuration allows

Below it, each a BACKUP of its own:

    whole-2026-11-23T22-31-05Z     full copy: every table; made while others write
    2026-11-23T22-31-09Z           backup: the changes since that full copy, made while nobody writes
    catalog-2026-11-23-1           made last: one table with a row for each backup that is finished so far

What is in no catalog is no backup. The server cannot list a disk, so the newest catalog is found by its date. BACKUP
refuses a place that is taken; nothing is ever written twice. No statement has a secret in it.

RESTORE copies files as they are. So what it made is compared with the checksums that the engine has of each part,
before the database becomes a store: rows and indexes, not the definitions of tables nor the parts' own counts of rows.
"""

from __future__ import annotations

import contextlib
import json
import re
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import unquote, urlsplit

from warehouse.backup import (
    NAME,
    WHOLE,
    Backup,
    BackupError,
    identity,
    last_to_extend,
    newest_migration,
    parsed_manifest,
    permanent_tables,
    refuse_mixed,
    software,
)
from warehouse.errors import LedgerError, StoreError
from warehouse.sql import identifier, read_sql, text_literal
from warehouse.store import ServedStore, ServerStore, Store
from warehouse.turns import Held

LOOK_SECONDS = 1.0
"""Between two looks at how far the server is; the first ones follow faster."""
LOOKS_FAILED = 30
"""After this many in a row, it counts as unreachable."""
TRIES = 3
"""Catalogs of a day have consecutive numbers, but one that a lost server began blocks its number."""
DAYS_BACK = 100
"""How old the newest catalog may be, or a backup that is restored by its name when its catalog was made."""
FORM = "As in disk://backups/gpuledger, collection://bucket/gpuledger or file:///backups/gpuledger"
NOT_FOUND, TAKEN = "BACKUP_NOT_FOUND", "BACKUP_ALREADY_EXISTS"
STACK = re.compile(r", Stack trace.*| \(for url .*", re.DOTALL)
CODE = re.compile(r".*?Code: \d+\. DB::Exception: ", re.DOTALL)

Quiet = Callable[[Store], contextlib.AbstractContextManager[Held]]
"""While it is entered, nobody changes the store, unless `check` says otherwise."""
Tell = Callable[[str], None]


@dataclass(frozen=True)
class Place:
    """Where a server's backups are.   form: SQL, with {} for a name's text.   prefix: of all names, with its slash."""

    url: str
    form: str
    prefix: str

    def at(self, name: str) -> str:
        return self.form.format(text_literal(f"{self.prefix}{name}"))


def is_place(text: str) -> bool:
    return text.startswith(("disk://", "collection://", "file://"))


def place_of(url: str) -> Place:
    """Errors: BackupError if the URL names no place that a server could write to."""
    parts = urlsplit(url)
    if parts.scheme == "s3":
        raise BackupError(
            "s3://",
            "its keys would be in statements, which servers log",
            "Put address and keys into a named collection of the server: collection://NAME/PREFIX (docs/backups.md)",
        )
    name, prefix = parts.netloc, unquote(parts.path).rstrip("/")
    if not is_place(url) or parts.query or parts.fragment or ".." in prefix.split("/"):
        raise BackupError(url if "@" not in url else "the place", "is none for a ClickHouse server's backups", FORM)
    if parts.scheme == "file":
        if name or not prefix:
            raise BackupError(url, "is no absolute path", "As in file:///backups/gpuledger")
        return Place(url, "File({})", f"{prefix}/")
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_-]*" if parts.scheme == "disk" else r"[A-Za-z_][A-Za-z0-9_]*", name):
        raise BackupError(url if "@" not in url else "the place", "lacks a plain name after ://", FORM)
    kind = f"Disk({text_literal(name)}, {{}})" if parts.scheme == "disk" else f"S3({name}, {{}})"
    return Place(url, kind, f"{prefix}/".lstrip("/"))


@dataclass(frozen=True)
class ServerBackup(Backup):
    """database: the store's.   cluster: on whose nodes the store is; empty: on one server."""

    database: str = ""
    cluster: str = ""


def back_up(
    store: Store, place: Place, now: datetime, quiet: Quiet, tell: Tell = lambda line: None, whole: bool = False
) -> ServerBackup:
    """Makes a backup; first a full copy if there is none, if much has changed since, or with `whole`.

    Errors: BackupError, StoreError; TurnLostError if others may have written meanwhile, and then it is no backup.
    """
    server = _server(store)
    if server.in_shards:
        step = "BACKUP DATABASE ... ON CLUSTER, while nobody writes (docs/backups.md)"
        raise BackupError(server.url, "is on several shards, which this does not back up", step)
    with server.turn(f"backup {place.url}"):
        made, whose = backups(server, place, now), identity(server)
        refuse_mixed(made, whose, place.url)
        name = f"{now.astimezone(UTC):{NAME}}"
        last = last_to_extend(made, whole)
        base, whole_bytes = (last.whole, last.whole_bytes) if last else (f"{WHOLE}{name}", 0)
        if last is None:
            whole_bytes = _copy(server, place.at(base), "", tell)
        with quiet(server) as held:
            changed = _copy(server, place.at(name), f", base_backup = {place.at(base)}", tell)
            held.check()
        found = ServerBackup(
            name=name,
            made_at=now.astimezone(UTC).replace(microsecond=0),
            whole=base,
            bytes=changed,
            whole_bytes=whole_bytes,
            tables=len(permanent_tables(server)),
            migration=newest_migration(server),
            software=software(),
            store=whose,
            database=server.database,
            cluster=server.cluster,
        )
        _add_to_catalog(server, place, now, found)
        return found


def backups(store: Store, place: Place, now: datetime) -> list[ServerBackup]:
    """Those that are finished, the oldest first.   Errors: BackupError, StoreError."""
    with _catalog(_server(store), place, now) as (catalog, _):
        rows = store.rows(f"SELECT manifest FROM {identifier(catalog)} ORDER BY name") if catalog else []
    return [parsed_manifest(row["manifest"], place.url, ServerBackup) for row in rows]


def restore(store: Store, place: Place, name: str, now: datetime, tell: Tell = lambda line: None) -> ServerBackup:
    """Restores a backup to the database of the store, in which there is nothing yet.

    name: of the backup; empty: the newest.   Errors: BackupError, StoreError. The table of migrations comes last;
    without it, nobody takes what is there for a store.
    """
    server = _server(store)
    if server.value("SELECT count() AS tables FROM system.tables WHERE database = currentDatabase()"):
        raise BackupError(
            f"database {server.database}", "something is there already", "Name another one in --store, or drop it"
        )
    made = {one.name: one for one in backups(server, place, _made_at(name) or now)}
    if not made:
        step = "Make one, or name an older one with --name"
        raise BackupError(place.url, f"holds no backup of the last {DAYS_BACK} days", step)
    if name and name not in made:
        raise BackupError(f"backup {name}", "is not there", f"Choose from {', '.join(sorted(made)[-5:])}")
    backup = made[name or max(made)]
    old, new = identifier(backup.database), identifier(server.database)
    if backup.cluster and old != new:
        raise BackupError(
            f"database {new}", f"its tables are replicated as those of {old}", f"End --store in /{old}, as it was"
        )
    last = "schema_migrations"
    source = place.at(backup.name)
    try:
        _restore(server, f"DATABASE {old} AS {new} EXCEPT TABLES {old}.{last}", source, tell)
        _refuse_damaged(server, tell)
        server.command("TRUNCATE TABLE turns")
        try:
            _restore(server, f"TABLE {old}.{last} AS {new}.{last}", source, tell)
            _refuse_damaged(server, tell, last)
        except LedgerError:
            server.drop(last)
            raise
    except LedgerError as error:
        step = f"DROP DATABASE {new}, and try again, or another backup with --name"
        raise BackupError(f"database {new}", f"is not restored: {error.where}: {error.what}", step) from error
    return backup


def _made_at(name: str) -> datetime | None:
    """When a backup of this name was made; None: it is no name of one."""
    with contextlib.suppress(ValueError):
        return datetime.strptime(name, NAME).replace(tzinfo=UTC)
    return None


def _server(store: Store) -> ServerStore:
    if not isinstance(store, ServerStore) or isinstance(store, ServedStore):
        raise BackupError(store.url, "is no ClickHouse server", "Name a folder for the backups of an embedded store")
    return store


def _copy(store: ServerStore, target: str, base: str, tell: Tell) -> int:
    """Copies the tables that last. Answers how many bytes that took."""
    tables = ", ".join(f"TABLE {identifier(store.database)}.{identifier(name)}" for name in permanent_tables(store))
    return _run(store, "copied", target, tell, tables=tables, target=target, base=base)


def _restore(store: ServerStore, what: str, source: str, tell: Tell) -> None:
    _run(store, "restored", source, tell, what=what, source=source)


def _refuse_damaged(store: ServerStore, tell: Tell, only: str = "") -> None:
    """Errors: BackupError if what was restored is not what its own checksums say.   only: this table; empty: all."""
    for row in store.rows(read_sql(__file__, "server_backups/partitions")):
        table = str(row["table"])
        if only not in ("", table):
            continue
        tell(f"checking {table}")
        parts = {"table": identifier(table), "id": text_literal(str(row["id"]))}
        answer = store.formatted(read_sql(__file__, "server_backups/checked", **parts), "JSONEachRow")
        for part in map(json.loads, answer.splitlines()):
            if not part["is_passed"]:
                what = f"is damaged: {part['part_path']}: {_reason(part['message'])}"
                raise BackupError(f"table {table}", what, "Choose another backup")


def _run(store: ServerStore, name: str, where: str, tell: Tell, **parts: str) -> int:
    """Starts a statement that the server works on by itself, however long, and waits for its end: answers its bytes."""
    mine = str(uuid.uuid4())
    ended, pause = False, LOOK_SECONDS / 32
    _begin(store, name, where, f"id = {text_literal(mine)}, async = 1", **parts)
    try:
        while row := _look(store, mine):
            status, error = str(row["status"]), str(row["error"])
            ended = not status.startswith(("CREATING", "RESTORING"))
            if status in ("BACKUP_CREATED", "RESTORED"):
                return int(row["bytes"])
            if ended:
                raise BackupError(where, _reason(error or status), _next_step(error))
            tell(f"{where}: {status.lower().replace('_', ' ')} for {row['seconds']} s")
            time.sleep(pause)
            pause = min(2 * pause, LOOK_SECONDS)
        ended = True
        raise BackupError(where, "the server was restarted meanwhile", "Run the command again")
    finally:
        if not ended:  # Nobody waits for its end any more.
            with contextlib.suppress(StoreError):
                store.command(read_sql(__file__, "server_backups/stopped"), {"id": mine})


def _look(store: ServerStore, name: str) -> dict[str, Any] | None:
    """How far it is; None: the server knows nothing of it.   Errors: StoreError if it does not answer for long."""
    for failed in range(LOOKS_FAILED):
        try:
            rows = store.rows(read_sql(__file__, "server_backups/started"), {"id": name})
            return rows[0] if rows else None
        except StoreError:
            if failed == LOOKS_FAILED - 1:
                raise
            time.sleep(LOOK_SECONDS)
    raise AssertionError


def _reason(error: str) -> str:
    """The engine's message without its stack."""
    return " ".join(CODE.sub("", STACK.sub("", error)).split())[:500]


def _next_step(error: str) -> str:
    if "allowed" in error:
        return "Allow it in the server's configuration (docs/backups.md)"
    if "ACCESS_DENIED" in error or "Not enough privileges" in error:
        return "Grant BACKUP and CREATE TEMPORARY TABLE on the database, and NAMED COLLECTION on a bucket's"
    if TAKEN in error:
        return "Wait a second"
    return "Choose another backup" if NOT_FOUND in error else "The server's log says more"


@contextlib.contextmanager
def _catalog(store: ServerStore, place: Place, now: datetime) -> Iterator[tuple[str, int]]:
    """The newest catalog, as a working table; empty: there is none. And its number, if it is of today; else 0."""
    found, number = "", 0
    try:
        for back in range(-1, DAYS_BACK):
            day = now.astimezone(UTC) - timedelta(days=back)
            one = missing = 0
            while missing < TRIES:
                one += 1
                table = f"staged_{uuid.uuid4().hex}"
                if not _take_catalog(store, place.at(_catalog_name(day, one)), table):
                    missing += 1
                    continue
                if found:
                    store.drop(found)
                found, missing, number = table, 0, one if back == 0 else 0
            if found:
                break
        yield found, number
    finally:
        if found:
            store.drop(found)


def _take_catalog(store: ServerStore, source: str, table: str) -> bool:
    """Whether it is there; if so, it is restored as a table."""
    what = f"TABLE gpuledger.catalog AS {identifier(store.database)}.{table}"
    return not _refused(store, NOT_FOUND, "restored", what=what, source=source)


def _add_to_catalog(store: ServerStore, place: Place, now: datetime, made: ServerBackup) -> None:
    with _catalog(store, place, now) as (catalog, number):
        table = catalog or f"staged_{uuid.uuid4().hex}"
        try:
            if not catalog:
                store.command(read_sql(__file__, "server_backups/catalog", name=table))
            added = read_sql(__file__, "server_backups/cataloged", catalog=table)
            store.command(added, {"name": made.name, "manifest": json.dumps(asdict(made), default=str)})
            what = f"TABLE {identifier(store.database)}.{table} AS gpuledger.catalog"
            for one in range(number + 1, number + 1 + TRIES):
                target = place.at(_catalog_name(now, one))
                if not _refused(store, TAKEN, "copied", tables=what, target=target, base=""):
                    return
            raise BackupError(place.at(_catalog_name(now, number + 1)), "is taken, but holds none", "Remove it")
        finally:
            if not catalog:
                store.drop(table)


def _refused(store: ServerStore, code: str, name: str, **parts: str) -> bool:
    """Runs a short statement. Whether the server refuses it for this reason; errors: BackupError for another one."""
    try:
        _begin(store, name, parts.get("target") or parts["source"], "async = 0", **parts)
    except BackupError as error:
        if f"({code})" not in error.what:
            raise
        return True
    return False


def _begin(store: ServerStore, name: str, where: str, settings: str, **parts: str) -> None:
    """Errors: BackupError if the server refuses it; StoreError if it does not answer."""
    try:
        store.command(read_sql(__file__, f"server_backups/{name}", settings=settings, **parts))
    except StoreError as error:
        if "DB::Exception" not in error.what:
            raise
        raise BackupError(where, _reason(error.what), _next_step(error.what)) from error


def _catalog_name(day: datetime, number: int) -> str:
    return f"catalog-{day.astimezone(UTC):%Y-%m-%d}-{number}"
