"""One client for the store, embedded or served: `chdb:///path`, `chdb://memory`, `clickhouse://user@host:8123/db`
(of a cluster, `clickhouse://user@db1:8123,db2:8123/db`).

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
import textwrap
import threading
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar
from urllib.parse import urlsplit
from xml.sax.saxutils import escape

from warehouse import cluster as clustered
from warehouse.chain import adopt
from warehouse.connection_errors import reason
from warehouse.engine import import_engine, read_statements_once
from warehouse.errors import StoreError, StoreHeldError
from warehouse.leftovers import drop_leftovers
from warehouse.private_files import FULL, HeldError, hold
from warehouse.sql import identifier as identifier
from warehouse.sql import instant_text, numbered_statements, text_literal, without_comments
from warehouse.sql import read_sql as read_sql
from warehouse.this_python import asked_by
from warehouse.turns import Held, Turns, TurnsBetween

if TYPE_CHECKING:
    import pyarrow as pa

    from warehouse.checked_responses import AskedNode

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
KEPT_BY_NONE = (
    "compile_expressions = 0, compile_aggregate_expressions = 0, compile_sort_description = 0, "
    "use_query_condition_cache = 0"
)
"""Settings of the embedded engine, so that it keeps nothing for statements that never come again. A close runs some
ninety statements once each: compiling their expressions costs a third of a small close, and gains nothing in a large
one. Which granules a condition matched is of no use for conditions that name an instant, as nearly all do here: 4,000
an hour, each 200 bytes, of which the engine counts 64, up to a limit of 100 MiB. A ClickHouse server is left alone."""
NOT_SYNCED = "fsync_metadata = 0"
"""Of a store that need not outlive a power cut: to wait for the disk is most of the time that its tables take."""
BEFORE = frozenset(range(1, 31))
"""Numbers of the migrations of before the first release."""
UPGRADE = "upgrades/0030"
TURNS = 111
"""The migration of the table by which servers take turns, also at migrating."""
SCRATCH = "scratch_"
MOVED_OUT = ("access_users", "access_tokens", "saved_queries")
"""Tables of before the first release whose rows live in the access store now, which copies them (access/upgrade.py)."""
UNKNOWN_EXCEPTION = 1002
UNFINISHED = ".unfinished"
"""How the names of folders end in which a backup or a restore is at work, or was killed."""
DISK_FULL = re.compile(r"NOT_ENOUGH_SPACE|No space left on device|Disk quota exceeded")
"""What the engine and the system say of a full disk."""
MAKE_SPACE = "Free some space on its disk; gpuledger retention shows what could be removed"
SERVER_LOG = "The server does not say why: its log does"
NOT_OPENED = (
    "The lines above say which table. If its files are damaged, or were copied without links (cp -a has them), restore "
    "a backup: docs/backups.md"
)
NOT_SERVED = "Is it a gpuledger server's address, and does it serve more than pushes (no --no-dashboard)?"
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


def open_store(url: str = "", backups: Path | None = None, bucket: str = "", keep_backups: int = 0) -> Store:
    """Opens a store, creating an embedded one that does not exist yet; the schema is `migrate`'s business.

    backups: the one folder into which, and from which, the engine of an embedded store may copy tables.
    bucket: URL of the bucket to which these are copied (warehouse.bucket); empty: none.
    keep_backups: how many of them a server keeps, there and in the bucket; 0: all.
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
        refuse_unfinished(Path(parts.path))
        return EmbeddedStore(url, Path(parts.path), backups=backups, bucket=bucket, keep_backups=keep_backups)
    if backups is not None:
        raise StoreError("--backups", "is of an embedded store; a ClickHouse server copies its own", "Leave it out")
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

    nodes: clustered.Nodes | None = None
    """The nodes of a ClickHouse cluster that the store is on; None: it is in one place."""
    tenants: frozenset[str] | None = None
    """Those whose rows alone this connection sees; None: it sees everything."""
    longest_list = 5_000
    """That is a parameter of a statement; a longer one is a table (`_with_long_lists`)."""

    def __init__(self, url: str, client: Any, database: str = DATABASE, turns: Turns | None = None) -> None:
        self.url = _without_password(url)
        self.database = database
        self._client = client
        self._turns = turns or Turns()
        self._lock = threading.RLock()

    @property
    def cluster(self) -> str:
        """The ClickHouse cluster on all nodes of which the store is; empty: it is in one place."""
        return self.nodes.cluster if self.nodes else ""

    @property
    def in_shards(self) -> bool:
        """Whether what grows with samples is spread over several shards of a cluster (warehouse.cluster.SHARDED)."""
        return self.nodes is not None and self.nodes.in_shards

    @property
    def reads_shards(self) -> bool:
        """Whether the same is true of tables that it reads: a scratch store's may be views of another's."""
        return self.in_shards

    @property
    def set_engine(self) -> str:
        """The engine of a working table of keys by which tables are read: shards cannot be sent a Set."""
        return "Memory" if self.reads_shards else "Set SETTINGS persistent = 0"

    def stored_as(self, table: str) -> str:
        """The table that holds the rows; of a sharded one, that of a shard."""
        return identifier(table) + (clustered.LOCAL if self.in_shards and table in clustered.SHARDED else "")

    def stored_like(self, made: str, table: str) -> str:
        """The same of a table that was made as another is (`create_like`)."""
        return identifier(made) + self.stored_as(table).removeprefix(table)

    def altered(self, table: str) -> str:
        """What to put after ALTER TABLE or DELETE FROM, where a Distributed table does not do."""
        on = self.nodes.on if self.nodes and self.stored_as(table) != table else ""
        return f"{self.stored_as(table)}{on}"

    def of_shards(self, system_table: str) -> str:
        """What to put after FROM for what a table of the engine's says of sharded tables: of one node of each shard."""
        if self.nodes is None or not self.nodes.in_shards:
            return system_table
        return f"cluster({clustered.cluster_name(self.nodes.cluster)}, {system_table})"

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def rows(self, sql: str, params: Params | None = None, settings: Params | None = None) -> list[dict[str, Any]]:
        """All rows of a query, a dict each."""
        with self._lock, self._with_long_lists(self._selecting(sql), params) as selected, _store_errors(self.url):
            given, kept = _encode(params), dict(settings or {})
            result = self._client.query(selected, parameters=given, settings=kept, tz_mode="aware")
            return list(result.named_results())

    def value(self, sql: str, params: Params | None = None) -> Any:
        """The first column of the only row."""
        (row,) = self.rows(sql, params)
        return next(iter(row.values()))

    def arrow(self, sql: str, params: Params | None = None, settings: Params | None = None) -> pa.Table:
        """The whole answer as an Arrow table."""
        from pyarrow import ArrowInvalid

        try:
            with self._lock, self._with_long_lists(self._selecting(sql), params) as selected, _store_errors(self.url):
                return self._client.query_arrow(selected, parameters=_encode(params), settings=dict(settings or {}))
        except ArrowInvalid as error:
            raise StoreError(self.url, f"the answer is incomplete ({error})", "Try again") from error

    def formatted(self, sql: str, form: str, settings: Params | None = None) -> bytes:
        """The whole answer in one of ClickHouse's formats. The server sends it once it has it all: what failed in the
        middle would be text at its end."""
        settings = {"wait_end_of_query": 1, **(settings or {})}
        with self._lock, _store_errors(self.url):
            return bytes(self._client.raw_query(self._selecting(sql), settings=settings, fmt=form))

    def command(self, sql: str, params: Params | None = None, settings: Params | None = None) -> None:
        """Runs one statement that answers nothing (DDL, INSERT ... SELECT)."""
        with self._lock, self._with_long_lists(self._selecting(sql), params) as selected, _store_errors(self.url):
            self._client.command(selected + _settings_clause(selected, settings), parameters=_encode(params))

    @contextlib.contextmanager
    def _with_long_lists(self, sql: str, params: Params | None) -> Iterator[str]:
        """The statement with long lists (`IN {name:Array(String)}`) as tables that it selects from. As a parameter, one
        of 140,000 numbers or 80,000 texts keeps the embedded engine busy for ever, and a server takes no more than 128
        KiB."""
        long = {name: value for name, value in (params or {}).items()
                if isinstance(value, list | tuple) and len(value) > self.longest_list}  # fmt: skip
        everywhere = "GLOBAL " if self.reads_shards else ""
        with contextlib.ExitStack() as staged:
            for name, kind in {found[1]: found[2] for found in _LISTS.finditer(sql) if found[1] in long}.items():
                source = staged.enter_context(self.staged(_listed(long[name], kind)))
                given = rf"(?:GLOBAL )?(NOT )?IN \{{{name}:Array\({kind}\)\}}"
                sql = re.sub(given, rf"{everywhere}\1IN (\n{read_sql(__file__, 'listed', source=source)})", sql)
            yield sql

    def _selecting(self, sql: str) -> str:
        """The statement as the engine runs it best here: in one place, IN finds what GLOBAL IN does, and sooner."""
        return sql if self.reads_shards else clustered.in_one_place(sql)

    def script_everywhere(self, text: str) -> None:
        """Runs the statements of a migration, or ones of its kinds, on a cluster as they have to be there."""
        for statement in split_statements(text):
            made = clustered.on_cluster(statement, self.nodes, self.database) if self.nodes else [statement]
            for one in made:
                self.command(one)

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
            sql = read_sql(__file__, "insert_staged", table=identifier(table), columns=columns, source=source)
            self.command(sql, settings=settings)

    def turn(self, at: str = "writing", together: bool = False) -> contextlib.AbstractContextManager[Held]:
        """A lock on what must not happen concurrently in any process (warehouse.turns). The default one keeps writing
        pushed rows (shared) apart from issuing a month (exclusive). Not reentrant. On a cluster, the node that this
        connection asks has caught up with the others when the turn begins."""
        return self._turns.turn(at, together)

    def catch_up(self, *tables: str) -> None:
        """On a cluster: waits until the node of this connection has all that other nodes had written to the tables (by
        default to all), so that acknowledged rows are found here. Elsewhere it does nothing.
        Errors: StoreError if that fails because Keeper or another node is unreachable."""

    def another(self, database: str = "") -> Store:
        """A second connection to the same store (or to another database of it, which it creates), so that long and
        short work need not wait for each other.

        Close it before this one, which holds the embedded store's lock.
        """
        raise NotImplementedError

    @contextlib.contextmanager
    def scratch(self) -> Iterator[Store]:
        """An empty temporary store with the same schema, beside this one; dropped at the end of the block."""
        name = f"{SCRATCH}{uuid.uuid4().hex}"
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

    def share_cores(self) -> None:
        """Leaves half of this machine's cores to other connections, each of which would else take them all: a page asks
        several questions at once, and what two threads have grouped has to be merged, which is a third of a question
        about jobs. A server has its own settings."""

    def create_like(self, new: str, table: str) -> None:
        """An empty table of the same structure; the statement takes no parameters."""
        self.command(f"CREATE TABLE {identifier(new)} AS {identifier(table)}")

    def exchange(self, one: str, other: str) -> None:
        """Lets two tables trade places at once; the statement takes no parameters."""
        self.command(f"EXCHANGE TABLES {identifier(one)} AND {identifier(other)}")

    def drop(self, table: str) -> None:
        """Drops a table, wherever it is; that there is none is fine."""
        self.command("DROP TABLE IF EXISTS {table:Identifier}", {"table": table})

    def close(self) -> None:
        with self._lock:
            self._client.close()


class Closable(Protocol):
    def close(self) -> None: ...


T = TypeVar("T", bound=Closable)


class SharedObjects:
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


class Cores:
    """How many of this machine's cores the engine uses for a question, unless told otherwise."""

    def __init__(self, store: Store) -> None:
        self.count: int = store.value("SELECT getSetting('max_threads') AS cores")

    def close(self) -> None:
        """There is nothing to end."""


class EmbeddedStore(Store):
    """ClickHouse inside this process. It belongs to one process at a time; a lock file says which."""

    longest_list = 50_000

    def __init__(
        self,
        url: str,
        path: Path | None,
        hold: bool = True,
        database: str = DATABASE,
        beside: SharedObjects | None = None,
        turns: Turns | None = None,
        backups: Path | None = None,
        bucket: str = "",
        keep_backups: int = 0,
    ) -> None:
        import_engine()
        import clickhouse_connect

        read_statements_once()
        self.path, self.backups, self.bucket, self.keep_backups = path, backups, bucket, keep_backups
        self._beside = SharedObjects() if beside is None else beside
        self._is_first = beside is None
        self._lock_file = _hold(path) if path is not None and hold else None
        try:
            with _store_errors(url):
                client = clickhouse_connect.get_client(interface="chdb", path=_engine(path, backups))
                client.command(f"CREATE DATABASE IF NOT EXISTS {identifier(database)}")
                client.command(f"USE {identifier(database)}")
                client.database = database
                client.command(f"SET {KEPT_BY_NONE}")
        except BaseException:
            _release(self._lock_file)
            raise
        super().__init__(url, client, database, turns)

    def _selecting(self, sql: str) -> str:
        return without_comments(super()._selecting(sql))

    def forgo_durability(self) -> None:
        self.command(f"SET {NOT_SYNCED}")

    def share_cores(self) -> None:
        cores = self.beside(Cores, lambda: Cores(self)).count  # the same for all of its connections
        self.command(f"SET max_threads = {max(1, cores // 2)}")

    def another(self, database: str = "") -> EmbeddedStore:
        name = database or self.database
        of_backups = self.backups, self.bucket, self.keep_backups
        return EmbeddedStore(self.url, self.path, False, name, self._beside, self._turns, *of_backups)

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


def _nodes_of(url: str) -> list[str]:
    """The nodes that a URL names, `host:port` each.   Errors: StoreError if one is none."""
    parts = urlsplit(url)
    port = 8443 if parts.scheme == "clickhouses" else 8123
    found = []
    for one in (parts.netloc.rpartition("@")[2] or "localhost").split(","):
        try:
            node = urlsplit(f"//{one}")
            found.append(f"{_host(node.hostname or 'localhost')}:{node.port or port}")
        except ValueError as error:
            raise StoreError(
                _without_password(url), f"{one[:60]!r} is not HOST:PORT ({error})", "As in db1:8123,db2:8123"
            ) from error
    return found


def _first_that_answers(url: str, nodes: Sequence[str], database: str, connect: Params) -> tuple[Any, AskedNode]:
    """A client of the first node that answers, which has the database then. Errors: StoreError as the last one's."""
    import clickhouse_connect
    from clickhouse_connect.driver.exceptions import OperationalError

    from warehouse.checked_responses import ask_one_of, check_responses

    nodes = [*dict.fromkeys(nodes)]
    for number, node in enumerate(nodes, 1):
        where = urlsplit(f"//{node}")
        with _store_errors(url):
            try:
                how = {**connect, "host": where.hostname, "port": where.port}
                admin = clickhouse_connect.get_client(**how)
                admin.command(f"CREATE DATABASE IF NOT EXISTS {identifier(database)}")
                admin.close()
                client = clickhouse_connect.get_client(**how, database=database)
            except (OperationalError, OSError):
                if number == len(nodes):
                    raise
                continue
            check_responses(client)
            return client, ask_one_of(client, nodes, node)
    raise AssertionError(nodes)


def database_of(url: str) -> str:
    """The database that the URL of a ClickHouse server names."""
    return urlsplit(url).path.strip("/") or DATABASE


class ServerStore(Store):
    """A ClickHouse server, or the nodes of a cluster, over HTTP: `clickhouse://user@db1:8123,db2:8123/db`.

    A connection asks one node, the first in the URL that answers when it is opened. If that node cannot be reached any
    more, the statement fails, and the next one asks the next node: what was in the middle of something (a close and its
    working tables) fails and is begun anew by whoever repeats it.

    user: who asks.   http_url: where, now.   cluster: of whose nodes all have the store; empty: it is on one server.
    """

    _reads_shards = False

    def __init__(self, url: str, database: str = "", turns: Turns | None = None, node: str = "") -> None:
        """node: which of the URL's is asked first."""
        parts = urlsplit(url)
        self._full_url = url
        self._secure = parts.scheme == "clickhouses"
        self._nodes = _nodes_of(url)
        database = database or database_of(url)
        connect: dict[str, Any] = {
            "username": parts.username or "default",
            "password": parts.password or _password(),
            "secure": self._secure,
        }
        self.user = str(connect["username"])
        client, self._at = _first_that_answers(url, [*([node] if node else ()), *self._nodes], database, connect)
        self._is_first = turns is None
        super().__init__(url, client, database, turns or TurnsBetween(lambda: ServerStore(url, database, Turns())))
        found = self.rows(read_sql(__file__, "clustered/store_of"))
        if found:
            self._belongs_to(clustered.nodes_of(found[0]["comment"]))

    @property
    def http_url(self) -> str:
        return f"{'https' if self._secure else 'http'}://{self._at.node}/"

    def another(self, database: str = "") -> ServerStore:
        other = ServerStore(self._full_url, database or self.database, self._turns, self._at.node)
        if (
            self.reads_shards and not other.in_shards
        ):  # a scratch store, whose views read the sharded tables of this one
            other.set(clustered.BY_SHARD)
            other._reads_shards = True
        return other

    @property
    def reads_shards(self) -> bool:
        return self.in_shards or self._reads_shards

    def _selecting(self, sql: str) -> str:
        """Shards are sent what is selected from a working table of keys, where one server looks into its Set."""
        return clustered.selected_keys(sql) if self.reads_shards else super()._selecting(sql)

    def set(self, settings: Params) -> None:
        """Lets all further statements have these settings."""
        for name, value in settings.items():
            self._client.set_client_setting(name, value)

    @contextlib.contextmanager
    def turn(self, at: str = "writing", together: bool = False) -> Iterator[Held]:
        with self._turns.turn(at, together) as held:
            self.catch_up()
            yield held

    def catch_up(self, *tables: str) -> None:
        if self.nodes is None:
            return
        behind = tables or [row["table"] for row in self.rows(read_sql(__file__, "clustered/behind"))]
        for table in behind:
            self.command(f"SYSTEM SYNC REPLICA {identifier(self.stored_as(table))} LIGHTWEIGHT")
        if self.nodes.in_shards and (not tables or not clustered.SHARDED.keys().isdisjoint(tables)):
            clustered.catch_up_shards(self, self.nodes)

    def create_like(self, new: str, table: str) -> None:
        engine = self._replicated_engine(self.stored_as(table))
        if not self.nodes or not engine:
            super().create_like(new, table)
            return
        of_shard = self.stored_as(table) != table
        local = f"{new}{clustered.LOCAL}" if of_shard else new
        like = clustered.like(identifier(local), engine, self.nodes, self.database, of_shard)
        self._publish(f"CREATE TABLE {local}{self.nodes.on} AS {self.stored_as(table)} ENGINE = {like}")
        if of_shard:
            stands_for_all = clustered.distributed(table, local, self.nodes, self.database)
            super().command(f"CREATE TABLE {identifier(new)} AS {identifier(table)} ENGINE = {stands_for_all}")

    def exchange(self, one: str, other: str) -> None:
        if self.nodes and self._replicated_engine(one):
            self._publish(f"EXCHANGE TABLES {identifier(one)} AND {identifier(other)}{self.nodes.on}")
        else:
            super().exchange(one, other)

    def drop(self, table: str) -> None:
        if self.nodes and self._replicated_engine(table):
            self._publish(f"DROP TABLE IF EXISTS {identifier(table)}{self.nodes.on} SYNC")
        else:
            super().drop(table)
        if self.nodes and self.nodes.in_shards and self._replicated_engine(f"{table}{clustered.LOCAL}"):
            self._publish(f"DROP TABLE IF EXISTS {identifier(table)}{clustered.LOCAL}{self.nodes.on} SYNC")

    def names_nodes(self) -> bool:
        """Whether the URL names several nodes, and this is its database."""
        return len(self._nodes) > 1 and self.database == database_of(self._full_url)

    def begin_cluster(self, cluster: str) -> None:
        """Lets the store, which has no schema yet, be on all nodes of the cluster. Errors: LedgerError if it cannot."""
        nodes = clustered.check_cluster(self, cluster)
        self._belongs_to(nodes)
        self.command(f"CREATE DATABASE IF NOT EXISTS {identifier(self.database)}{nodes.on}")

    def complete_cluster(self) -> None:
        """Creates what a node of the cluster lacks, such as one that was added."""
        if self.nodes:
            for statement in clustered.everywhere(self, self.nodes):
                self.command(statement)

    def close(self) -> None:
        if self._is_first:
            self._turns.close()
        super().close()

    def _belongs_to(self, nodes: clustered.Nodes | None) -> None:
        self.nodes = nodes
        if nodes:
            self.set({**clustered.SETTINGS, **(clustered.BY_SHARD if nodes.in_shards else {})})

    def _replicated_engine(self, table: str) -> str:
        """The engine of a table that all nodes have; empty: it is on this one alone, or not there."""
        if not self.cluster:
            return ""
        rows = self.rows(read_sql(__file__, "clustered/engine_of"), {"name": table})
        engines = [str(row["engine_full"]) for row in rows]
        return next((engine for engine in engines if engine.startswith("Replicated")), "")

    def _publish(self, sql: str) -> None:
        """Runs it on all nodes; one that is down follows when it is back."""
        with self._lock, _store_errors(self.url):
            self._client.command(sql, settings=clustered.PUBLISHING)

    @contextlib.contextmanager
    def staged(self, batch: pa.Table) -> Iterator[str]:
        name = f"staged_{uuid.uuid4().hex}"
        columns = ", ".join(f"`{field.name}` {_clickhouse_type(field)}" for field in batch.schema)
        self.command(f"CREATE TABLE {name} ({columns}) ENGINE = Memory")
        try:
            with self._lock, _store_errors(self.url):
                self._client.insert_arrow(name, batch)
            there = self.value(f"SELECT count() AS n FROM {identifier(name)}")
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
        token = os.environ.get("GPULEDGER_TOKEN", "").strip()
        if not (token.isascii() and token.isprintable()):
            step = "A token is one line of letters, digits and _"
            raise StoreError(url, "cannot be asked with the token in GPULEDGER_TOKEN", step)
        with _served_errors(url), _store_errors(url):
            client = clickhouse_connect.get_client(
                host=parts.hostname or "localhost",
                port=parts.port or (443 if secure else 80),
                secure=secure,
                access_token=token or None,
                autogenerate_session_id=False,
            )
            client.database = DATABASE
            check_responses(client)
        self._is_first = True
        Store.__init__(self, url, client)

    def another(self, database: str = "") -> ServedStore:
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
        server_has = {row["number"] for row in self.rows("SELECT number FROM schema_migrations")}
        if server_has != {number for number, _, _ in migrations()}:
            raise StoreError(self.url, "it runs another version of gpuledger", "Use the same on both sides")

    def _refused(self) -> StoreError:
        return StoreError(
            self.url,
            "a server has this store open, and does not offer this",
            "Stop the server and give its --store chdb:///..., or see docs/api.md for what it offers",
        )


def migrations() -> Sequence[tuple[int, str, str]]:
    """The numbered migrations: (number, name, text), in order."""
    return numbered_statements(Path(__file__).parent / "migrations")


def migrate(store: Store, cluster: str = "") -> list[str]:
    """Creates or upgrades the schema. Answers the names of the migrations it applied; running it again applies none.

    cluster: creates a new store on all nodes of this ClickHouse cluster (warehouse/cluster.py); an existing store knows
    its cluster. Errors: LedgerError if the store is not on this cluster, or cannot be.

    Existing tables stay as they are, and views are created again; so a store from before the first release, whose
    tables `_upgrade` changes, goes through the same migrations.

    A migration's statements are all IF NOT EXISTS or otherwise repeatable, so one that a kill cut short is run again.
    Of several servers that start at the same moment one applies them, and the others wait for it.
    """
    if isinstance(store, ServedStore):
        store.check_schema()
        return []
    is_new = _begin(store, cluster)
    known, done = {number for number, _, _ in migrations()}, _applied(store)
    if is_new and done:
        step = "Name a node that has it first in --store: init creates it on this one, too"
        raise StoreError(store.url, f"the node that answers lacks the store that cluster {cluster} has", step)
    if done - known - BEFORE:
        raise StoreError(
            store.url,
            f"its schema (migration {max(done):04d}) is newer than this gpuledger",
            "Upgrade gpuledger",
        )
    if known <= done:
        drop_leftovers(store)
        return []
    _refuse_too_old(store, done)
    with _migrating(store) as held:
        return _apply(store, _applied(store), held)


def _applied(store: Store) -> set[int]:
    return {row["number"] for row in store.rows("SELECT number FROM schema_migrations")}


def _is_of_before(done: set[int]) -> bool:
    """Whether a store has migrations of before the first release, and no others."""
    return bool(done) and done <= BEFORE


@contextlib.contextmanager
def _migrating(store: Store) -> Iterator[Held]:
    """The turn of whoever applies migrations. One of them copies a table and exchanges it with its copy."""
    if not isinstance(store, ServerStore) or store.database.startswith(SCRATCH):
        yield Held()  # nobody else has it
        return
    define(store, next(text for number, _, text in migrations() if number == TURNS))
    with store.turn("migrating") as held:
        yield held


def _apply(store: Store, done: set[int], held: Held) -> list[str]:
    if _is_of_before(done):
        _upgrade(store)
    applied: dict[int, str] = {}
    try:
        for number, name, text in migrations():
            if number not in done:
                held.check()
                define(store, text)
                applied[number] = name
        if applied:
            adopt(store)
    finally:
        if applied:
            done_now = {"numbers": list(applied), "names": list(applied.values())}
            store.command(read_sql(__file__, "migrated"), done_now)
    if done:  # not of a new store
        drop_leftovers(store)
    return [*applied.values()]


def _begin(store: Store, cluster: str) -> bool:
    """Creates the table of migrations, whose comment names the store's cluster. False: it exists already."""
    is_there = store.rows(read_sql(__file__, "clustered/store_of"))
    if cluster and is_there and store.cluster != cluster:
        is_on = f"cluster {store.cluster}" if store.cluster else "one server"
        step = "Name another database in --store: what there is stays where it is (docs/storage.md)"
        raise StoreError(store.url, f"this store is on {is_on}, not on cluster {cluster}", step)
    if is_there:
        return False
    if isinstance(store, ServerStore) and store.rows(read_sql(__file__, "half_restored")):
        step = "Drop that database and restore again (docs/backups.md), or name another in --store"
        raise StoreError(store.url, f"database {store.database} is no store yet: a restore ended before its time", step)
    if cluster:
        if not isinstance(store, ServerStore):
            raise StoreError(store.url, "is no ClickHouse server, and has no cluster", "Leave out --cluster")
        store.begin_cluster(cluster)
    elif isinstance(store, ServerStore) and store.names_nodes():
        step = "Create it on all: gpuledger init --cluster NAME; after a node was added, name one that has it first"
        raise StoreError(store.url, "the node that answers has no store, and is one of several", step)
    define(
        store,
        read_sql(__file__, "schema_migrations").rstrip()
        + (f"\nCOMMENT {text_literal(clustered.schema_comment(store.nodes))}" if store.nodes else ""),
    )
    store.catch_up("schema_migrations")
    return True


def define(store: Store, text: str) -> None:
    """Runs the statements of a migration, on a cluster as they have to be there."""
    store.script_everywhere(text)


def _refuse_too_old(store: Store, done: set[int]) -> None:
    if _is_of_before(done) and BEFORE - done:
        raise StoreError(
            store.url,
            f"its schema (migration {max(done):04d}) is older than any that can be upgraded",
            f"Open it once with a gpuledger whose schema is {max(BEFORE):04d}",
        )


def _upgrade(store: Store) -> None:
    """Brings the tables of a store of before the first release to what its migrations make; those do the rest."""
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


def refuse_backups(path: Path) -> None:
    """Errors: StoreError for a folder of backups, or one of them: the engine would write into it."""
    is_one = any((path / name).exists() for name in ("manifest.json", "SHA256SUMS"))
    if is_one or (not (path / "engine").exists() and next(path.glob("*/manifest.json"), None)):
        folder = path.parent if is_one else path
        step = f"Restore one to another place: gpuledger restore {folder} --store chdb:///PLACE (docs/backups.md)"
        raise StoreError(str(path), "is a backup, not a store" if is_one else "holds backups, and no store", step)


def refuse_unfinished(path: Path) -> None:
    """Errors: StoreError for what a restore has not finished, and for the place where its store is to be: what is
    opened there would be a part of one, or a new and empty one."""
    is_part = path.name.endswith(UNFINISHED)
    part = path if is_part else path.with_name(f"{path.name}{UNFINISHED}")
    if part.exists() and (is_part or not (path / "engine").exists()):
        step = f"Restore it again (docs/backups.md), or remove {part}"
        raise StoreError(str(path), "is no store yet: a restore has not ended, or ended before its time", step)


def _hold(path: Path) -> Any:
    """Takes the lock of an embedded store and writes our name into it."""
    refuse_backups(path)
    pid = asked_by()
    words = Path(f"/proc/{pid}/cmdline").read_text(encoding="utf-8", errors="replace").replace("\0", " ")
    command = textwrap.shorten(words, 300, placeholder=" …")  # with its --port, which whoever finds it held needs
    since = datetime.now(UTC).strftime("%Y-%m-%d %H:%M:%SZ")
    try:
        return hold(path, f"process {pid} on {socket.gethostname()} since {since} ({command})")
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


_UNREACHED = re.compile(
    r"HTTPS?Connection.*?(Connection refused|Name or service not known|No route to host|[Cc]onnect(?:ion)? timed out"
    r"|Network is unreachable|certificate verify failed[^(')]*[^(') ]|Temporary failure in name resolution)"
)
"""What urllib3 says of an address at which no server answered, and why."""
IS_IT_THERE = (
    "Does ClickHouse run there? It speaks HTTP on port 8123, and TLS (clickhouses://) on 8443; SSL_CERT_FILE names a "
    "certificate authority of your own"
)

WHO_ASKS = "GPULEDGER_TOKEN is the API token to ask with (docs/access.md)"
_AFTER_REFUSAL = {
    "ACCESS_DENIED": WHO_ASKS,
    "401": WHO_ASKS,
    "403": WHO_ASKS,
    "TIMEOUT_EXCEEDED": "Ask for less, or again when the server is less busy",
    "MEMORY_LIMIT_EXCEEDED": "Ask for less, or again when the server is less busy",
    "TOO_MANY_SIMULTANEOUS_QUERIES": "Ask again when the server is less busy",
}
"""The next step, by the engine's name of an error or by the status of a problem document."""

IS_IT_SERVED = "Is the server running, and is it this address?"


@contextlib.contextmanager
def _store_errors(url: str) -> Iterator[None]:
    """Turns the client's errors into ours, in one line."""
    from clickhouse_connect.driver.exceptions import ClickHouseError

    try:
        yield
    except ClickHouseError as error:
        message = str(error)
        if unreached := _UNREACHED.search(message):
            step = IS_IT_SERVED if url.startswith(("http://", "https://")) else IS_IT_THERE
            raise StoreError(_without_password(url), f"cannot be reached: {unreached[1]}", step) from error
        foreign = "HTTP status" in message
        if foreign:
            message = re.sub(r"<[^>]*>", " ", message)
        where, what = _without_password(url), " ".join(message.split())[:2000]
        step = NOT_THE_SERVER if foreign else SERVER_LOG if getattr(error, "code", None) == UNKNOWN_EXCEPTION else ""
        if what.startswith("Unable to open the chdb engine"):
            step = NOT_OPENED
        raise StoreError(where, what, MAKE_SPACE if DISK_FULL.search(what) else step) from error
    except OSError as error:
        if error.errno in FULL:
            raise StoreError(_without_password(url), str(error.strerror), MAKE_SPACE) from error
        raise StoreError(_without_password(url), f"cannot be reached ({error})", "Is the server running?") from error


@contextlib.contextmanager
def _served_errors(url: str) -> Iterator[None]:
    """Reports why a server refuses our queries, in its own words; or that none is there, or it serves no SQL."""
    try:
        yield
    except StoreError as error:
        raise StoreError(url, *_of_a_server(error)) from error


def _of_a_server(error: StoreError) -> tuple[str, str]:
    """What is wrong with a gpuledger server, and the next step."""
    if refused := re.search(r'DB::Exception: (.*?)\.? \(([A-Z_]+)\)|"status":(\d+),"detail":"(.*?)"', error.what):
        return refused[1] or refused[4], _AFTER_REFUSAL.get(refused[2] or refused[3], "")
    if answered := re.search(r"HTTP status (\d{3})", error.what):
        broken = answered[1].startswith("5")
        return f"answers {answered[1]}, and serves no SQL", NOT_THE_SERVER if broken else NOT_SERVED
    if "RemoteDisconnected" in error.what:
        step = "Did the server stop? Then ask again. If it speaks TLS, its address begins with https://"
        return "hung up without an answer", step
    why = reason(error.__cause__ or error)
    if "mismatch" in why:
        return f"cannot be reached: {why}", "Use a name that is in its certificate"
    if "certificate" in why:
        return f"cannot be reached: {why}", "SSL_CERT_FILE names a certificate authority of your own"
    if "TLS" in why:
        return f"cannot be reached: {why}", "Does it speak TLS? Without it, its address begins with http://"
    return f"cannot be reached: {why}", IS_IT_SERVED


def _without_password(url: str) -> str:
    return re.sub(r"(//[^/:@]*):[^/@]*@", r"\1:***@", url)


_LISTS = re.compile(r"\bIN \{(\w+):Array\((String|UInt64|UInt32)\)\}")


def _listed(values: Sequence[Any], kind: str) -> pa.Table:
    """A table of one column."""
    import pyarrow as pa

    kinds = {"String": pa.string(), "UInt64": pa.uint64(), "UInt32": pa.uint32()}
    return pa.table({"value": pa.array(values, kinds[kind])})


def _encode(params: Params | None) -> dict[str, Any]:
    """Parameters as the engine reads them: instants as UTC text with milliseconds."""
    return {name: _encode_value(value) for name, value in (params or {}).items()}


def _encode_value(value: Any) -> Any:
    if isinstance(value, datetime):
        if value.tzinfo is None:
            raise ValueError(f"naive time {value!r}: store times are aware")
        return instant_text(value)
    if isinstance(value, list | tuple):
        return [_encode_value(item) for item in value]
    return value


def _settings_clause(sql: str, settings: Params | None) -> str:
    """Settings as text to append to the statement: passed separately, the embedded client would SET them for good."""
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
        pa.null(): "String",  # of nothing but NULL
    }
    name = "DateTime64(3, 'UTC')" if pa.types.is_timestamp(kind) else names.get(kind)
    if name is None:
        raise ValueError(f"column {field.name}: no ClickHouse type for {field.type}")
    return f"Nullable({name})"
