"""One client for the store, embedded or served: `chdb:///path`, `chdb://memory`, `clickhouse://user@host:8123/db`.

    with open_store("chdb:///var/lib/gpuledger") as store:
        rows = store.rows("SELECT count() AS n FROM events WHERE cluster = {cluster:String}", {"cluster": "c1"})

Values go in as typed server-side parameters. SQL lives in .sql files beside the module that runs it (`read_sql`).
"""

from __future__ import annotations

import contextlib
import logging
import os
import re
import socket
import threading
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar
from urllib.parse import urlsplit
from xml.sax.saxutils import escape

from warehouse.chain import adopt
from warehouse.engine import import_engine
from warehouse.errors import StoreError, StoreHeldError
from warehouse.leftovers import drop_leftovers
from warehouse.private_files import HeldError, hold
from warehouse.sql import identifier as identifier
from warehouse.sql import read_sql as read_sql
from warehouse.sql import text_literal
from warehouse.turns import Held, Turns, TurnsBetween

if TYPE_CHECKING:
    import pyarrow as pa

DEFAULT_STORE = "chdb://" + str(Path.home() / ".local" / "share" / "gpuledger")
DATABASE = "gpuledger"
ONE_BLOCK: Mapping[str, Any] = {
    "max_insert_threads": 1,
    "min_insert_block_size_rows": 1_000_000_000,
    "min_insert_block_size_bytes": 1_000_000_000_000,
    "max_partitions_per_insert_block": 0,
    "insert_deduplicate": 1,
    "deduplicate_blocks_in_dependent_materialized_views": 1,
    "optimize_on_insert": 1,
}
"""A batch is one block: the engine numbers blocks under a token, and which rows fall in which of several is chance."""
NOT_COMPILED = "compile_expressions = 0, compile_aggregate_expressions = 0, compile_sort_description = 0"
"""A close runs some ninety statements once each: compiling their expressions costs a third of a small close, and gains
nothing in a large one. A server, which keeps what it compiled, is left alone."""
NOT_SYNCED = "fsync_metadata = 0"
"""Of a store that need not outlive a power cut: to wait for the disk is most of the time that its tables take."""
BEFORE = frozenset(range(1, 31))
"""Numbers of the migrations of before the first release."""
UPGRADE = "upgrades/0030"
MOVED_OUT = ("access_users", "access_tokens", "saved_queries")
"""Tables of before the first release whose rows live in the access store now, which copies them (access/upgrade.py)."""
UNKNOWN_EXCEPTION = 1002
SERVER_LOG = "The server does not say why: its log does"
NOT_THE_SERVER = "That is what stands before the server, such as a proxy: look there, and try again"
logging.getLogger("clickhouse_connect").addHandler(logging.NullHandler())
"""What goes wrong is raised; the client's own line beside it would be the second."""
Params = Mapping[str, Any]


def embedded_path(url: str) -> Path:
    """The folder of an embedded store.   Errors: StoreError if the URL names another kind of store."""
    url = url or os.environ.get("GPULEDGER_STORE", "") or DEFAULT_STORE
    parts = urlsplit(url)
    if parts.scheme != "chdb" or parts.netloc or not parts.path.startswith("/"):
        raise StoreError(url, "not an embedded store with a folder", "Use chdb:///absolute/path")
    return Path(parts.path)


def open_store(url: str = "", backups: Path | None = None) -> Store:
    """Opens a store, creating an embedded one that does not exist yet; the schema is `migrate`'s business.

    backups: the one folder into which, and from which, the engine of an embedded store may copy tables.
    Errors: StoreHeldError if another process holds the embedded store (it says who), StoreError if the URL or
    the server cannot be used.
    """
    url = url or os.environ.get("GPULEDGER_STORE", "") or DEFAULT_STORE
    parts = urlsplit(url)
    if parts.scheme == "chdb":
        if parts.netloc == "memory" and parts.path in ("", "/"):
            return EmbeddedStore(url, None)
        if parts.netloc or not parts.path.startswith("/"):
            raise StoreError(
                url, "an embedded store needs an absolute path", "Use chdb:///absolute/path or chdb://memory"
            )
        return EmbeddedStore(url, Path(parts.path), backups=backups)
    if parts.scheme in ("clickhouse", "clickhouses"):
        return ServerStore(url)
    if parts.scheme in ("http", "https"):
        return ServedStore(url)
    fits = "Use chdb:///path, chdb://memory, clickhouse://user@host:8123/database, or http://host:8050 of a server"
    raise StoreError(url, "not a store", fits)


class Store:
    """A connection to the store; safe to use from several threads (calls on it take turns).

    Columns of times come back as aware UTC datetimes, decimals as Decimal, NULL as None.
    """

    def __init__(self, url: str, client: Any, database: str = DATABASE, turns: Turns | None = None) -> None:
        self.url = _without_password(url)
        self.database = database
        self._client = client
        self._turns = turns or Turns()
        self._lock = threading.RLock()

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def rows(self, sql: str, params: Params | None = None, settings: Params | None = None) -> list[dict[str, Any]]:
        """All rows of a query, a dict each."""
        with self._lock, _store_errors(self.url):
            result = self._client.query(sql, parameters=_encode(params), settings=dict(settings or {}), tz_mode="aware")
            return list(result.named_results())

    def value(self, sql: str, params: Params | None = None) -> Any:
        """The first column of the only row."""
        (row,) = self.rows(sql, params)
        return next(iter(row.values()))

    def arrow(self, sql: str, params: Params | None = None, settings: Params | None = None) -> pa.Table:
        """The whole answer as an Arrow table."""
        from pyarrow import ArrowInvalid

        try:
            with self._lock, _store_errors(self.url):
                return self._client.query_arrow(sql, parameters=_encode(params), settings=dict(settings or {}))
        except ArrowInvalid as error:
            raise StoreError(self.url, f"the answer is incomplete ({error})", "Try again") from error

    def command(self, sql: str, params: Params | None = None, settings: Params | None = None) -> None:
        """Runs one statement that answers nothing (DDL, INSERT ... SELECT)."""
        with self._lock, _store_errors(self.url):
            self._client.command(sql + _settings_clause(sql, settings), parameters=_encode(params))

    def script(self, text: str, params: Params | None = None) -> None:
        """Runs the statements of a .sql file, separated by semicolons, in order."""
        for statement in split_statements(text):
            self.command(statement, params)

    @contextlib.contextmanager
    def staged(self, batch: pa.Table) -> Iterator[str]:
        """An Arrow table as something to select from: yields the text to put after FROM.

        Embedded: the engine reads the table where it lies. Served: it travels into a table of its own, dropped after.
        """
        raise NotImplementedError
        yield ""

    def insert(self, table: str, batch: pa.Table, token: str = "") -> None:
        """Inserts the batch as one block; columns by name. With a token, a second insert of the same batch changes
        nothing, in the table and in the targets of its views."""
        columns = ", ".join(f"`{name}`" for name in batch.column_names)
        settings = {**ONE_BLOCK, "insert_deduplicate": int(bool(token))}
        if token:
            settings["insert_deduplication_token"] = token
        with self.staged(batch) as source:
            self.command(
                f"INSERT INTO {identifier(table)} ({columns}) SELECT {columns} FROM {source}",
                settings=settings,
            )

    def turn(self, at: str = "writing", together: bool = False) -> contextlib.AbstractContextManager[Held]:
        """A lock on what must not happen concurrently in any process (warehouse.turns). The default one keeps writing
        pushed rows (shared) apart from issuing a month (exclusive). Not reentrant."""
        return self._turns.turn(at, together)

    def another(self, database: str = "") -> Store:
        """A second connection to the same store (or to another database of it, which it creates), so that long and
        short work need not wait for each other.

        Close it before this one, which holds the embedded store's lock.
        """
        raise NotImplementedError

    @contextlib.contextmanager
    def scratch(self) -> Iterator[Store]:
        """A store of its own beside this one, with the same schema and nothing in it; gone afterwards."""
        name = f"scratch_{uuid.uuid4().hex}"
        store = self.another(name)
        try:
            store.forgo_durability()
            migrate(store)
            yield store
        finally:
            store.command(f"DROP DATABASE IF EXISTS {name} SYNC")
            store.close()

    def forgo_durability(self) -> None:
        """What this connection creates from now on may be lost in a power cut; a kill loses nothing."""

    def create_like(self, new: str, table: str) -> None:
        """An empty table of the same structure; the statement takes no parameters."""
        self.command(f"CREATE TABLE {identifier(new)} AS {identifier(table)}")

    def exchange(self, one: str, other: str) -> None:
        """Lets two tables trade places at once; the statement takes no parameters."""
        self.command(f"EXCHANGE TABLES {identifier(one)} AND {identifier(other)}")

    def close(self) -> None:
        with self._lock:
            self._client.close()


class Closes(Protocol):
    def close(self) -> None: ...


T = TypeVar("T", bound=Closes)


class Beside:
    """Objects that live as long as an embedded store is open, one of each kind, shared by its connections."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._all: dict[type[Any], Any] = {}

    def get(self, kind: type[T], make: Callable[[], T]) -> T:
        with self._lock:
            if kind not in self._all:
                self._all[kind] = make()
            found: T = self._all[kind]
            return found

    def close(self) -> None:
        with self._lock:
            ended, self._all = [*self._all.values()], {}
        for one in ended:
            one.close()


class EmbeddedStore(Store):
    """ClickHouse inside this process. It belongs to one process at a time; a lock file says which."""

    def __init__(
        self,
        url: str,
        path: Path | None,
        hold: bool = True,
        database: str = DATABASE,
        beside: Beside | None = None,
        turns: Turns | None = None,
        backups: Path | None = None,
    ) -> None:
        import_engine()
        import clickhouse_connect

        self.path, self.backups = path, backups
        self._beside = Beside() if beside is None else beside
        self._is_first = beside is None
        self._lock_file = _hold(path) if path is not None and hold else None
        try:
            with _store_errors(url):
                client = clickhouse_connect.get_client(interface="chdb", path=_engine(path, backups))
                client.command(f"CREATE DATABASE IF NOT EXISTS {identifier(database)}")
                client.command(f"USE {identifier(database)}")
                client.database = database
                client.command(f"SET {NOT_COMPILED}")
        except BaseException:
            _release(self._lock_file)
            raise
        super().__init__(url, client, database, turns)

    def forgo_durability(self) -> None:
        self.command(f"SET {NOT_SYNCED}")

    def another(self, database: str = "") -> EmbeddedStore:
        name = database or self.database
        return EmbeddedStore(self.url, self.path, False, name, self._beside, self._turns, self.backups)

    def beside(self, kind: type[T], make: Callable[[], T]) -> T:
        """The one object of this kind for the store, whichever connection asks: made on first use, closed before the
        store."""
        return self._beside.get(kind, make)

    @contextlib.contextmanager
    def staged(self, batch: pa.Table) -> Iterator[str]:
        # The engine finds the table by looking for a variable of this name in the frames below its call,
        # so it is bound in this process's globals for as long as the source is in use.
        name = f"staged_{uuid.uuid4().hex}"
        globals()[name] = batch
        try:
            yield f"Python({name})"
        finally:
            del globals()[name]

    def close(self) -> None:
        if self._is_first:
            self._beside.close()
        super().close()
        _release(self._lock_file)
        self._lock_file = None


def _engine(path: Path | None, backups: Path | None) -> str:
    """The engine's path argument: a folder, and, if backups are allowed, a configuration file for them."""
    if path is None:
        return ":memory:"
    if backups is None:
        return str(path / "engine")
    config = path / "backups.xml"
    allowed = f"<allowed_path>{escape(str(backups))}</allowed_path>"
    config.write_text(f"<clickhouse><backups>{allowed}</backups></clickhouse>\n", encoding="utf-8")
    return f"{path / 'engine'}?config-file={config}"


def _password() -> str:
    """GPULEDGER_STORE_PASSWORD, else the first line of the file GPULEDGER_STORE_PASSWORD_FILE."""
    file = os.environ.get("GPULEDGER_STORE_PASSWORD_FILE", "")
    if not file or "GPULEDGER_STORE_PASSWORD" in os.environ:
        return os.environ.get("GPULEDGER_STORE_PASSWORD", "")
    try:
        return Path(file).read_text(encoding="utf-8").partition("\n")[0]
    except (OSError, UnicodeDecodeError) as error:
        raise StoreError(
            f"GPULEDGER_STORE_PASSWORD_FILE {file}", f"cannot be read ({error})", "It holds a password"
        ) from error


def _host(name: str) -> str:
    return f"[{name}]" if ":" in name else name


def database_of(url: str) -> str:
    """The database that the URL of a ClickHouse server names."""
    return urlsplit(url).path.strip("/") or DATABASE


class ServerStore(Store):
    """A ClickHouse server over HTTP. user: who asks it.   http_url: where."""

    def __init__(self, url: str, database: str = "", turns: Turns | None = None) -> None:
        import clickhouse_connect

        from warehouse.checked_responses import check_responses

        parts = urlsplit(url)
        database = database or database_of(url)
        connect: dict[str, Any] = {
            "host": parts.hostname or "localhost",
            "port": parts.port or (8443 if parts.scheme == "clickhouses" else 8123),
            "username": parts.username or "default",
            "password": parts.password or _password(),
            "secure": parts.scheme == "clickhouses",
        }
        self._full_url = url
        self.user = str(connect["username"])
        self.http_url = f"{'https' if connect['secure'] else 'http'}://{_host(connect['host'])}:{connect['port']}/"
        with _store_errors(url):
            admin = clickhouse_connect.get_client(**connect)
            admin.command(f"CREATE DATABASE IF NOT EXISTS {identifier(database)}")
            admin.close()
            client = clickhouse_connect.get_client(**connect, database=database)
            check_responses(client)
        self._is_first = turns is None
        super().__init__(url, client, database, turns or TurnsBetween(lambda: ServerStore(url, database, Turns())))

    def another(self, database: str = "") -> Store:
        return ServerStore(self._full_url, database or self.database, self._turns)

    def close(self) -> None:
        if self._is_first:
            self._turns.close()
        super().close()

    @contextlib.contextmanager
    def staged(self, batch: pa.Table) -> Iterator[str]:
        name = f"staged_{uuid.uuid4().hex}"
        columns = ", ".join(f"`{field.name}` {_clickhouse_type(field)}" for field in batch.schema)
        self.command(f"CREATE TABLE {name} ({columns}) ENGINE = Memory")
        try:
            with self._lock, _store_errors(self.url):
                self._client.insert_arrow(name, batch)
            there = self.value(f"SELECT count() AS n FROM {name}")
            if there != batch.num_rows:
                # A table in memory knows no tokens, and a statement that reads half of one is done without an error.
                raise StoreError(self.url, f"{there} of {batch.num_rows} rows arrived", "None was written: try again")
            yield name
        finally:
            self.command(f"DROP TABLE IF EXISTS {name}")


class ServedStore(ServerStore):
    """The store of a remote gpuledger server, over its SQL endpoint: read-only, with the rights of GPULEDGER_TOKEN."""

    def __init__(self, url: str) -> None:
        import clickhouse_connect

        from warehouse.checked_responses import check_responses

        parts = urlsplit(url)
        secure = parts.scheme == "https"
        with _served_errors(url), _store_errors(url):
            client = clickhouse_connect.get_client(
                host=parts.hostname or "localhost",
                port=parts.port or (443 if secure else 80),
                secure=secure,
                access_token=os.environ.get("GPULEDGER_TOKEN", "") or None,
                autogenerate_session_id=False,
            )
            client.database = DATABASE
            check_responses(client)
        self._is_first = True
        Store.__init__(self, url, client)

    def another(self, database: str = "") -> Store:
        if database:
            raise self._refused()
        return ServedStore(self.url)

    @contextlib.contextmanager
    def staged(self, batch: pa.Table) -> Iterator[str]:
        raise self._refused()
        yield ""

    def command(self, sql: str, params: Params | None = None, settings: Params | None = None) -> None:
        raise self._refused()

    def check_schema(self) -> None:
        """Errors: StoreError if the server's gpuledger is of another version."""
        theirs = {row["number"] for row in self.rows("SELECT number FROM schema_migrations")}
        if theirs != {number for number, _, _ in migrations()}:
            raise StoreError(self.url, "it runs another version of gpuledger", "Use the same on both sides")

    def _refused(self) -> StoreError:
        return StoreError(
            self.url,
            "a server has this store open, and does not offer this",
            "Stop the server and give its --store chdb:///..., or see docs/api.md for what it offers",
        )


def migrations() -> Sequence[tuple[int, str, str]]:
    """The numbered migrations: (number, name, text), in order."""
    folder = Path(__file__).parent / "migrations"
    return [(int(path.name[:4]), path.stem, path.read_text(encoding="utf-8")) for path in sorted(folder.glob("*.sql"))]


def migrate(store: Store) -> list[str]:
    """Creates or upgrades the schema. Answers the names of the migrations it applied; running it again applies none.

    Tables that are there already stay as they are, and views are made anew: so a store of before the first release,
    whose tables `_upgrade` changes, goes through the same migrations.

    A migration's statements are all IF NOT EXISTS or otherwise repeatable, so one that a kill cut short is run again.
    """
    if isinstance(store, ServedStore):
        store.check_schema()
        return []
    store.command(
        "CREATE TABLE IF NOT EXISTS schema_migrations (number UInt32, name String, "
        "applied_at DateTime64(3, 'UTC') DEFAULT now64(3, 'UTC')) ENGINE = ReplacingMergeTree ORDER BY number"
    )
    done = {row["number"] for row in store.rows("SELECT number FROM schema_migrations")}
    known = {number for number, _, _ in migrations()}
    if done - known - BEFORE:
        raise StoreError(
            store.url,
            f"its schema (migration {max(done):04d}) is newer than this gpuledger",
            "Upgrade gpuledger",
        )
    if done & BEFORE and not done & known:
        _upgrade(store, done)
    applied: dict[int, str] = {}
    try:
        for number, name, text in migrations():
            if number not in done:
                store.script(text)
                applied[number] = name
        if applied:
            adopt(store)
    finally:
        if applied:
            store.command(
                "INSERT INTO schema_migrations (number, name) "
                "SELECT one.1, one.2 "
                "FROM (SELECT arrayJoin(arrayZip({numbers:Array(UInt32)}, {names:Array(String)})) AS one)",
                {"numbers": list(applied), "names": list(applied.values())},
            )
    if len(applied) < len(known):  # not of a new store
        drop_leftovers(store)
    return [*applied.values()]


def _upgrade(store: Store, done: set[int]) -> None:
    """Brings the tables of a store of before the first release to what its migrations make; those do the rest."""
    if BEFORE - done:
        raise StoreError(
            store.url,
            f"its schema (migration {max(done):04d}) is older than any that can be upgraded",
            f"Open it once with a gpuledger whose schema is {max(BEFORE):04d}",
        )
    store.script(read_sql(__file__, UPGRADE))
    _drop_empty(store, MOVED_OUT)


def _drop_empty(store: Store, tables: Sequence[str]) -> None:
    """Drops those that are there and hold no row."""
    there = {row["name"] for row in store.rows("SELECT name FROM system.tables WHERE database = currentDatabase()")}
    for table in tables:
        if table in there and not store.value(f"SELECT count() AS n FROM {identifier(table)}"):
            store.command(f"DROP TABLE IF EXISTS {identifier(table)} SYNC")


def split_statements(text: str) -> list[str]:
    """Statements of a .sql text, without the semicolons; those in quotes and comments do not count."""
    token = re.compile(r"--[^\n]*|'(?:[^'\\]|\\.|'')*'|`[^`]*`|;|[^;'`-]+|-", re.S)
    statements, current = [], ""
    for match in token.finditer(text):
        if match.group() == ";":
            statements.append(current.strip())
            current = ""
        elif not match.group().startswith("--"):
            current += match.group()
    return [statement for statement in [*statements, current.strip()] if statement]


def _hold(path: Path) -> Any:
    """Takes the lock of an embedded store and writes our name into it."""
    command = " ".join(Path("/proc/self/cmdline").read_text(encoding="utf-8", errors="replace").split("\0")[:4])
    since = datetime.now(UTC).strftime("%Y-%m-%d %H:%M:%SZ")
    try:
        return hold(path, f"process {os.getpid()} on {socket.gethostname()} since {since} ({command.strip()})")
    except OSError as error:
        raise StoreError(str(path), f"cannot be opened ({error.strerror})", "Choose another --store") from error
    except HeldError as error:
        raise StoreHeldError(
            f"chdb://{path}",
            f"held by {error.holder}; an embedded store belongs to one process",
            "If it serves, ask it: --store http://HOST:PORT (docs/api.md). Else stop it, or use a ClickHouse server",
        ) from None


def _release(file: Any) -> None:
    if file is not None and not file.closed:
        file.truncate(0)
        file.close()


@contextlib.contextmanager
def _store_errors(url: str) -> Iterator[None]:
    """Turns the client's errors into ours, in one line."""
    from clickhouse_connect.driver.exceptions import ClickHouseError

    try:
        yield
    except ClickHouseError as error:
        message = str(error)
        foreign = "HTTP status" in message
        if foreign:
            message = re.sub(r"<[^>]*>", " ", message)
        where, what = _without_password(url), " ".join(message.split())[:2000]
        step = NOT_THE_SERVER if foreign else SERVER_LOG if getattr(error, "code", None) == UNKNOWN_EXCEPTION else ""
        raise StoreError(where, what, step) from error
    except OSError as error:
        raise StoreError(_without_password(url), f"cannot be reached ({error})", "Is the server running?") from error


@contextlib.contextmanager
def _served_errors(url: str) -> Iterator[None]:
    """Why a server does not let us ask, in its own words."""
    try:
        yield
    except StoreError as error:
        told = re.search(r'DB::Exception: (.*?)\.? \([A-Z_]+\)|"detail":"(.*?)"', error.what)
        if told:
            what, step = told[1] or told[2], "GPULEDGER_TOKEN is the API token to ask with (docs/access.md)"
        else:
            what = "cannot be reached, or is not a gpuledger server"
            step = "Is it running? SSL_CERT_FILE names a certificate authority of your own"
        raise StoreError(url, what, step) from error


def _without_password(url: str) -> str:
    return re.sub(r"(//[^/:@]*):[^/@]*@", r"\1:***@", url)


def _encode(params: Params | None) -> dict[str, Any]:
    """Parameters as the engine reads them: instants as UTC text with milliseconds."""
    return {name: _encode_value(value) for name, value in (params or {}).items()}


def _encode_value(value: Any) -> Any:
    if isinstance(value, datetime):
        if value.tzinfo is None:
            raise ValueError(f"naive time {value!r}: store times are aware")
        return value.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S.%f")[:-3]
    if isinstance(value, list | tuple):
        return [_encode_value(item) for item in value]
    return value


def _settings_clause(sql: str, settings: Params | None) -> str:
    """Settings as text behind the statement: given apart, the embedded client would SET them for good."""
    if not settings:
        return ""
    texts = [f"{identifier(name)} = {_literal(value)}" for name, value in settings.items()]
    return "\nSETTINGS " + ", ".join(texts)


def _literal(value: Any) -> str:
    if isinstance(value, bool | int):
        return str(int(value))
    return text_literal(str(value))


def _clickhouse_type(field: pa.Field) -> str:
    import pyarrow as pa

    kind = field.type.value_type if pa.types.is_dictionary(field.type) else field.type
    if pa.types.is_list(kind):
        return f"Array({_clickhouse_type(kind.value_field)})"
    names = {
        pa.string(): "String",
        pa.large_string(): "String",
        pa.float64(): "Float64",
        pa.float32(): "Float32",
        pa.int64(): "Int64",
        pa.int32(): "Int32",
        pa.uint64(): "UInt64",
        pa.uint32(): "UInt32",
        pa.bool_(): "Bool",
    }
    name = "DateTime64(3, 'UTC')" if pa.types.is_timestamp(kind) else names.get(kind)
    if name is None:
        raise ValueError(f"column {field.name}: no ClickHouse type for {field.type}")
    return f"Nullable({name})"
