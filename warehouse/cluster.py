"""A store on all nodes of a ClickHouse cluster: one shard, any number of replicas, each of which has everything.

The numbered migrations are the same; `on_cluster` says what a statement of theirs becomes. Tables are replicated
through Keeper, and so are their ALTERs, inserts and deletions; what creates, drops or swaps tables runs ON CLUSTER.
Working tables (engines Memory and Set) are made on the node that the connection asks, and nowhere else.

    path of a table in Keeper    /clickhouse/tables/CLUSTER/DATABASE/TABLE, the same on all nodes
    {replica}                    a macro of each node: what it is called

How a cluster's store is used: docs/storage.md.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterator, Mapping
from typing import Any, Protocol

from warehouse.errors import LedgerError
from warehouse.sql import identifier, read_sql

SETTINGS = {
    "insert_quorum": "auto",
    "insert_quorum_timeout": 60_000,
    "receive_timeout": 120,
}
"""Of all connections. An insert is done when a majority of the replicas has it: what was acknowledged outlives a node.
receive_timeout: how long SYSTEM SYNC REPLICA waits."""
PUBLISHING = {"distributed_ddl_output_mode": "null_status_on_timeout", "distributed_ddl_task_timeout": 10}
"""A close goes on while a node is down, which does the same when it is back: the queue in Keeper has it."""
FOREVER_SECONDS = 10 * 365 * 86_400
"""A batch is known by its token as long as the window has it, which counts blocks: the engine's hour would be too short
for an agent that was away, and for the chains of documents."""
_PREFIX = "cluster "
"""How the comment of schema_migrations begins, which tells later opens that the store is a cluster's."""
_NAME = r"(?P<name>[A-Za-z_][A-Za-z0-9_]*)"
_CREATE_TABLE = re.compile(rf"CREATE TABLE (?P<once>IF NOT EXISTS )?{_NAME}")
_CREATE_VIEW = re.compile(rf"CREATE (OR REPLACE VIEW|VIEW|MATERIALIZED VIEW)( IF NOT EXISTS)? {_NAME}")
_DROP = re.compile(rf"DROP (?P<kind>TABLE|VIEW) (IF EXISTS )?{_NAME}( SYNC)?")
_EXCHANGE = re.compile(rf"EXCHANGE TABLES \w+ AND {_NAME}")
_ENGINE = re.compile(r"\bENGINE = (\w*MergeTree)(?:\(([^()]*)\))?")
_WINDOW = re.compile(r"\bnon_replicated_deduplication_window = (\d+)")
_REPLICATED = re.compile(r"(Replicated\w*MergeTree)\('[^']*', '[^']*'")
_AS_IT_IS = re.compile(r"CREATE (TABLE|VIEW|MATERIALIZED VIEW) (\S+)")


class Asked(Protocol):
    """A store that is asked (warehouse.store.Store)."""

    url: str
    database: str

    def rows(self, sql: str, params: Mapping[str, Any] | None = None) -> list[dict[str, Any]]: ...


def cluster_name(name: str) -> str:
    """The name as SQL. Errors: LedgerError if it is none that fits there and in a path of Keeper."""
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_-]*", name):
        raise LedgerError("--cluster", f"{name[:60]!r} is not a plain name", "Letters, digits, underscores and hyphens")
    return f"`{name}`" if "-" in name else name


def on_cluster(statement: str, cluster: str, database: str) -> str:
    """What a statement of a migration becomes on a cluster.

    Errors: ValueError if it is of a kind that no migration had so far: say here what it becomes.
    """
    on = f" ON CLUSTER {cluster_name(cluster)}"
    if found := _CREATE_TABLE.match(statement):
        # A table that is made anew at each try has another path each time: the one before may be in use still.
        path = found["name"] if found["once"] else f"{found['name']}-{uuid.uuid4().hex[:8]}"
        rest = _ENGINE.sub(lambda engine: _replicated(engine, _path(cluster, database, path)), statement[found.end() :])
        if "ENGINE = Replicated" not in rest:
            raise ValueError(f"no engine to replicate by: {statement[:200]}")
        return f"{found[0]}{on}{_with_window(rest)}"
    if found := _CREATE_VIEW.match(statement):
        return f"{found[0]}{on}{statement[found.end() :]}"
    if (found := _DROP.fullmatch(statement)) is not None:
        return f"DROP {found['kind']} IF EXISTS {found['name']}{on} SYNC"
    if found := _EXCHANGE.fullmatch(statement):
        return f"{statement}{on}"
    if statement.startswith("ALTER TABLE "):
        # All replicas, so that a view that is made next finds the column everywhere.
        return f"{statement}{', ' if ' SETTINGS ' in statement else ' SETTINGS '}alter_sync = 2"
    if statement.startswith("INSERT INTO "):
        return statement
    raise ValueError(f"no migration had such a statement so far: {statement[:200]}")


def like(new: str, engine_full: str, cluster: str, database: str) -> str:
    """The clause ENGINE of a table that is to be as another.   engine_full: the other's, as system.tables has it."""
    return _REPLICATED.sub(rf"\1('{_path(cluster, database, new)}', '{{replica}}'", engine_full, count=1)


def schema_comment(cluster: str) -> str:
    return f"{_PREFIX}{cluster}"


def cluster_of(comment: str) -> str:
    """The cluster whose store it is; empty: none's.   comment: of the table schema_migrations."""
    return comment.removeprefix(_PREFIX) if comment.startswith(_PREFIX) else ""


def check_cluster(store: Asked, cluster: str) -> None:
    """Errors: LedgerError if the node that was asked knows no such cluster, or one that this schema does not fit."""
    cluster_name(cluster)
    nodes = store.rows(read_sql(__file__, "clustered/nodes"), {"cluster": cluster})
    if not nodes:
        known = store.rows(read_sql(__file__, "clustered/known"))
        names = ", ".join(str(row["cluster"]) for row in known) or "none"
        raise LedgerError(store.url, f"knows no cluster {cluster}", f"Known are: {names} (remote_servers)")
    shards = max(node["shard_num"] for node in nodes)
    if shards > 1:
        raise LedgerError(
            store.url,
            f"cluster {cluster} has {shards} shards, and a store has one: each node holds everything",
            "Name a cluster whose nodes are replicas of one shard (docs/storage.md)",
        )
    if not store.rows(read_sql(__file__, "clustered/replica_macro")):
        raise LedgerError(store.url, "has no macro {replica}", "Give each node one: <macros><replica>its name")


def everywhere(store: Asked, cluster: str) -> Iterator[str]:
    """Statements that create on each node what the node that is asked has: tables with their paths, then views."""
    on = f" ON CLUSTER {cluster_name(cluster)}"
    yield f"CREATE DATABASE IF NOT EXISTS {identifier(store.database)}{on}"
    for row in store.rows(read_sql(__file__, "clustered/created")):
        yield _AS_IT_IS.sub(rf"CREATE \1 IF NOT EXISTS \2{on}", str(row["statement"]), count=1)


def nodes(store: Asked, cluster: str) -> list[dict[str, Any]]:
    """How each node fares. One that does not answer has None in all columns but its name."""
    sql = read_sql(__file__, "clustered/doctor", cluster=cluster_name(cluster))
    return store.rows(sql, {"cluster": cluster, "database": store.database})


def _path(cluster: str, database: str, table: str) -> str:
    return f"/clickhouse/tables/{cluster}/{database}/{table}"


def _replicated(engine: re.Match[str], path: str) -> str:
    more = f", {engine[2]}" if engine[2] else ""
    return f"ENGINE = Replicated{engine[1]}('{path}', '{{replica}}'{more})"


def _with_window(rest: str) -> str:
    """Deduplication as without a cluster: as many blocks, for ever; where none is asked for, none."""
    kept = rf"replicated_deduplication_window = \1, replicated_deduplication_window_seconds = {FOREVER_SECONDS}"
    rest, changed = _WINDOW.subn(kept, rest)
    if changed:
        return rest
    none = "replicated_deduplication_window = 0"
    if "\nSETTINGS " in rest:
        return rest.replace("\nSETTINGS ", f"\nSETTINGS {none}, ", 1)
    before, comment, after = rest.partition("\nCOMMENT '")
    return f"{before}\nSETTINGS {none}{comment}{after}"
