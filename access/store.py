"""The access store: people, tokens, sessions, saved queries and keys, in a small transactional database of their own.

    sqlite:////var/lib/gpuledger/access.sqlite     one server
    postgresql://gpuledger@db.example.org/access   several servers; the password is in a file

None of it is in the analytics engine, so that no SQL statement can reach it. Its audit is in the warehouse with all
others: the entry is committed here together with the change (`note`), in an outbox, and sent to the warehouse right
after. Entries that a kill or an unreachable warehouse leaves in the outbox are sent with the next one.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import secrets
import shutil
import threading
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Connection,
    Dialect,
    Engine,
    MetaData,
    StaticPool,
    String,
    Table,
    Update,
    create_engine,
    event,
    inspect,
    select,
    text,
)
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError, DataError, SQLAlchemyError
from sqlalchemy.types import TypeDecorator

from access.roles import AccessError
from billing import audit
from warehouse.errors import LedgerError
from warehouse.private_files import FULL
from warehouse.sql import numbered_statements
from warehouse.store import Store, split_statements

log = logging.getLogger(__name__)
WAIT_SECONDS = 10
"""For another writer, or for a database that does not answer."""
WRITERS_LOCK = 4_947_131_201
"""Of PostgreSQL's advisory locks: writers take turns there, as SQLite lets them anyway."""
FREE_SPACE = "Free some space on it: nobody can be looked up before"
SHARED_BYTES = 32_768
"""Of the file by which SQLite's readers and writers know of each other, without which there is no reading either."""
FITS = "Use sqlite:////absolute/path or postgresql://user@host/database"
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)


class AccessStoreError(AccessError):
    """The access store cannot be opened or queried."""


class Instant(TypeDecorator[datetime]):
    """An aware instant, stored as microseconds since 1970."""

    impl = BigInteger
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> int | None:
        return None if value is None else (value - EPOCH) // MICROSECOND

    def process_result_value(self, value: int | None, dialect: Dialect) -> datetime | None:
        return None if value is None else EPOCH + value * MICROSECOND


class Words(TypeDecorator[frozenset[str]]):
    """A set of words, stored as a sorted JSON array."""

    impl = String
    cache_ok = True

    def process_bind_param(self, value: frozenset[str] | None, dialect: Dialect) -> str:
        return json.dumps(sorted(value or ()), ensure_ascii=False)

    def process_result_value(self, value: str | None, dialect: Dialect) -> frozenset[str]:
        return frozenset(json.loads(value or "[]"))


_METADATA = MetaData()
"""The columns as the migrations create them, which also define keys and types; `schema_migrations` is created here."""
people = Table(
    "people", _METADATA,
    Column("issuer", String), Column("subject", String),
    Column("name", String), Column("kind", String), Column("roles", Words), Column("tenants", Words),
    Column("disabled", Boolean), Column("password", String),
    Column("created_at", Instant), Column("changed_at", Instant), Column("changed_by", String),
    Column("seen_at", Instant),
)  # fmt: skip
tokens = Table(
    "tokens", _METADATA,
    Column("id", String), Column("digest", String), Column("name", String),
    Column("issuer", String), Column("subject", String),
    Column("roles", Words), Column("tenants", Words), Column("scopes", Words),
    Column("created_at", Instant), Column("created_by", String), Column("expires_at", Instant),
    Column("revoked", Boolean),
)  # fmt: skip
sessions = Table(
    "sessions", _METADATA,
    Column("digest", String), Column("issuer", String), Column("subject", String),
    Column("began_at", Instant), Column("expires_at", Instant),
)  # fmt: skip
saved_queries = Table(
    "saved_queries", _METADATA,
    Column("issuer", String), Column("subject", String),
    Column("name", String), Column("owner", String), Column("text", String),
    Column("description", String), Column("shared", Boolean),
    Column("created_at", Instant), Column("changed_at", Instant), Column("changed_by", String),
)  # fmt: skip
keys = Table(
    "keys", _METADATA,
    Column("name", String), Column("value", String), Column("created_at", Instant),
)  # fmt: skip
copied = Table(
    "copied", _METADATA,
    Column("source", String), Column("name", String), Column("copied_at", Instant),
)  # fmt: skip
_outbox = Table(
    "audit_outbox", _METADATA,
    Column("id", String), Column("at", Instant), Column("actor", String), Column("action", String),
    Column("object", String), Column("reason", String), Column("inputs", String),
)  # fmt: skip
leases = Table(
    "leases", _METADATA,
    Column("name", String), Column("holder", String), Column("who", String),
    Column("renewals", BigInteger), Column("renewed_at", Instant),
)  # fmt: skip
_versions = Table(
    "schema_migrations", _METADATA,
    Column("number", BigInteger, primary_key=True), Column("name", String), Column("applied_at", Instant),
)  # fmt: skip


class AccessStore:
    """A database of access data, whose changes are recorded in the warehouse's audit. Safe to use from threads."""

    def __init__(self, url: str, engine: Engine, warehouse: Store) -> None:
        self.url, self.warehouse = url, warehouse
        self._engine = engine
        self._postgres = engine.dialect.name == "postgresql"
        # A database in memory lives in its only connection, so threads take turns on it.
        self._turns: contextlib.AbstractContextManager[Any] = (
            threading.RLock() if isinstance(engine.pool, StaticPool) else contextlib.nullcontext()
        )
        self._reader = engine.execution_options(isolation_level="AUTOCOMMIT") if self._postgres else engine

    @contextlib.contextmanager
    def reading(self) -> Iterator[Connection]:
        """A connection for queries. Errors: AccessStoreError, also for errors within the block."""
        with self._turns, self._errors(), self._reader.connect() as connection:
            yield connection

    @contextlib.contextmanager
    def writing(self) -> Iterator[Connection]:
        """A transaction that excludes all other writers. Its notes are sent to the audit afterwards."""
        with self._transaction() as connection:
            yield connection
        self.send_notes()

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[Connection]:
        with self._turns, self._errors(), self._engine.connect() as plain:
            connection = plain.execution_options(writes=True)
            with connection.begin():
                if self._postgres:
                    connection.execute(text(f"SET LOCAL lock_timeout = '{WAIT_SECONDS}s'"))
                    connection.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": WRITERS_LOCK})
                yield connection

    def swap(self, statement: Update) -> bool:
        """Runs one statement outside of the writers' transactions; True if it changed a row. It leaves no lock in
        PostgreSQL, so a process that is paused afterwards blocks nobody."""
        if not self._postgres:
            with self._transaction() as connection:
                return connection.execute(statement).rowcount > 0
        with self._errors(), self._reader.connect() as connection:
            return connection.execute(statement).rowcount > 0

    def has(self, table: Table) -> bool:
        """Whether the migration that creates the table has run."""
        with self.reading() as connection:
            return inspect(connection).has_table(table.name)

    def note(
        self,
        connection: Connection,
        at: datetime,
        actor: str,
        action: str,
        what: str,
        reason: str = "",
        inputs: Mapping[str, Any] | None = None,
    ) -> None:
        """Puts an audit entry into the outbox, in the transaction that makes the change."""
        row = {"at": at, "actor": actor, "action": action, "object": what, "reason": reason}
        values = {**row, "inputs": audit.as_json(inputs or {})}
        connection.execute(_outbox.insert().values(**values, id=secrets.token_hex(16)))

    def send_notes(self) -> None:
        """Sends the outbox to the warehouse; what that does not accept stays for the next time."""
        with self.reading() as connection:
            if connection.scalar(select(_outbox.c.id).limit(1)) is None:
                return
        with self._transaction() as connection:
            # One server at a time sends. A kill between the two stores leaves an entry in both: it is not sent again.
            for row in connection.execute(select(_outbox).order_by(_outbox.c.at, _outbox.c.id)).mappings().all():
                entry = {name: value for name, value in row.items() if name != "id"}
                try:
                    if not audit.is_recorded(self.warehouse, entry):
                        what, inputs = entry.pop("object"), json.loads(entry.pop("inputs"))
                        audit.record(self.warehouse, **entry, what=what, inputs=inputs)
                except LedgerError as error:
                    log.error("access store: audit entries wait here for the warehouse: %s", error)
                    return
                connection.execute(_outbox.delete().where(_outbox.c.id == row["id"]))

    def key(self, name: str, now: datetime) -> bytes:
        """The key of that name, created on first use; the same for all servers on this store."""
        wanted = select(keys.c.value).where(keys.c.name == name)
        with self.reading() as connection:
            found = connection.scalar(wanted)
        if found is None:
            with self.writing() as connection:
                found = connection.scalar(wanted)
                if found is None:
                    found = secrets.token_hex(32)
                    connection.execute(keys.insert().values(name=name, value=found, created_at=now))
        return bytes.fromhex(found)

    def close(self) -> None:
        self._engine.dispose()

    def __enter__(self) -> AccessStore:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @contextlib.contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except (DataError, UnicodeEncodeError) as error:
            raise AccessError("access store", "cannot store this text", "Leave out what cannot be printed") from error
        except SQLAlchemyError as error:
            cause = getattr(error, "orig", None) or error
            if self._is_out_of_space(cause):
                raise AccessStoreError(self.url, "its disk is full", FREE_SPACE) from error
            lines = str(cause).strip().splitlines() or [type(error).__name__]
            what = f"cannot be asked ({lines[0][:300]})"
            raise AccessStoreError(self.url, what, "Does it exist, and may this server write to it?") from error

    def _is_out_of_space(self, cause: BaseException) -> bool:
        """SQLite says so of its file alone: of the one that its readers share it calls a full disk an I/O error."""
        name, file = getattr(cause, "sqlite_errorname", ""), self._engine.url.database
        if name == "SQLITE_FULL":
            return True
        if not name.startswith("SQLITE_IOERR") or not file:
            return False
        with contextlib.suppress(OSError):
            return shutil.disk_usage(Path(file).parent).free < SHARED_BYTES
        return False


def connect(address: str, password_file: Path | None, warehouse: Store) -> AccessStore:
    """The access store at an address, with the schema in it. Errors: AccessStoreError."""
    access = _opened(address, password_file, warehouse)
    try:
        _migrate(access)
    except BaseException:
        access.close()
        raise
    return access


def connect_unmigrated(address: str, password_file: Path | None, warehouse: Store) -> AccessStore | None:
    """The same without applying migrations; None: the file does not exist. Errors: AccessStoreError."""
    path = address.removeprefix("sqlite:///")
    if path != address and not Path(path).exists():
        return None
    return _opened(address, password_file, warehouse)


def _opened(address: str, password_file: Path | None, warehouse: Store) -> AccessStore:
    try:
        url = make_url(address)
    except ArgumentError as error:
        raise AccessStoreError("access store", "its address cannot be read", FITS) from error
    if url.drivername == "sqlite":
        return AccessStore(str(url), _sqlite(url), warehouse)
    if url.drivername == "postgresql":
        return AccessStore(url.render_as_string(), _postgresql(url, password_file), warehouse)
    raise AccessStoreError("access store", f"{url.drivername}:// is not supported", FITS)


def _sqlite(url: URL) -> Engine:
    """Readable by this user alone; each commit is on the disk before it is answered."""
    if url.database in (None, "", ":memory:"):
        engine = create_engine("sqlite://", poolclass=StaticPool, connect_args={"check_same_thread": False},
                               hide_parameters=True)  # fmt: skip
    else:
        path = Path(url.database)
        if not path.is_absolute() or url.query:
            raise AccessStoreError(str(url), "is not an absolute path", FITS)
        _make_private(path)
        engine = create_engine(url, connect_args={"timeout": WAIT_SECONDS}, hide_parameters=True)

    @event.listens_for(engine, "connect")
    def prepare(connection: Any, _: object) -> None:
        connection.isolation_level = None  # transactions begin where `begin` says, not where the driver thinks
        for pragma in ("journal_mode = WAL", "synchronous = FULL", "foreign_keys = ON", "secure_delete = ON"):
            connection.execute(f"PRAGMA {pragma}")

    @event.listens_for(engine, "begin")
    def begin(connection: Connection) -> None:
        writes = connection.get_execution_options().get("writes", False)
        connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")

    return engine


def _make_private(path: Path) -> None:
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with contextlib.suppress(FileExistsError):
            os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
        # By its path: closing a descriptor of it would drop the locks that this process holds on it.
        path.chmod(0o600)
    except OSError as error:
        if error.errno in FULL:
            raise AccessStoreError(str(path), "its disk is full", FREE_SPACE) from error
        raise AccessStoreError(
            str(path), f"cannot be opened ({error.strerror})", "Name another (docs/access.md)"
        ) from error


def _postgresql(url: URL, password_file: Path | None) -> Engine:
    if url.password is not None or "password" in url.query:
        what = "has its password in the address, where others can read it"
        raise AccessStoreError("access store", what, "Put it into a file (docs/access.md)")
    if password_file is not None:
        try:
            url = url.set(password=password_file.read_text(encoding="utf-8").partition("\n")[0])
        except (OSError, UnicodeDecodeError) as error:
            raise AccessStoreError(str(password_file), f"cannot be read ({error})", "It holds a password") from error
    return create_engine(
        url.set(drivername="postgresql+psycopg"),
        pool_pre_ping=True,
        hide_parameters=True,
        connect_args={"connect_timeout": WAIT_SECONDS, "application_name": "gpuledger"},
    )


def migrations() -> list[tuple[int, str, str]]:
    """The numbered migrations: (number, name, text), in order."""
    return numbered_statements(Path(__file__).parent / "migrations")


def _migrate(access: AccessStore) -> None:
    """All of what is missing, in one transaction."""
    with access.writing() as connection:
        _METADATA.tables["schema_migrations"].create(connection, checkfirst=True)
        done = set(connection.scalars(select(_versions.c.number)))
        known = migrations()
        if done - {number for number, _, _ in known}:
            raise AccessStoreError(access.url, f"its schema ({max(done):04d}) is newer than this gpuledger", "Upgrade")
        for number, name, script in known:
            if number not in done:
                for statement in split_statements(script):
                    connection.exec_driver_sql(statement)
                connection.execute(_versions.insert().values(number=number, name=name, applied_at=datetime.now(UTC)))
