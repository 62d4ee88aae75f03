"""A store on all nodes of a ClickHouse cluster, of one shard or of several, each with any number of replicas.

The numbered migrations are the same; `on_cluster` says what a statement of theirs becomes. Tables are replicated
through Keeper, and so are their ALTERs, inserts and deletions; what creates, drops or swaps tables runs ON CLUSTER.
Working tables (engines Memory and Set) are made on the node that the connection asks, and nowhere else.

    path of a table in Keeper    /clickhouse/tables/CLUSTER/DATABASE/TABLE, the same on all nodes
    {replica}                    a macro of each node: what it is called

With one shard each node has everything. With several, what grows with samples (SHARDED) is spread over them by
device: TABLE_local is replicated within its shard, and TABLE, of the engine Distributed, stands for all of them.
Everything else is on all nodes of all shards, which are replicas of one another in it.

    path of TABLE_local          /clickhouse/tables/CLUSTER/{shard}/DATABASE/TABLE_local
    {shard}                      a macro of each node: which shard it is in. Elsewhere a replica is {shard}-{replica}

How a cluster's store is used: docs/storage.md.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Protocol

from warehouse.errors import LedgerError
from warehouse.sql import identifier, read_sql, text_literal

SETTINGS = {
    "insert_quorum": "auto",
    "insert_quorum_timeout": 60_000,
    "receive_timeout": 120,
}
"""Of all connections. An insert is done when a majority of the replicas has it: what was acknowledged outlives a node.
receive_timeout: how long SYSTEM SYNC REPLICA waits."""
PUBLISHING = {"distributed_ddl_output_mode": "null_status_on_timeout", "distributed_ddl_task_timeout": 10}
"""A close goes on while a node is down, which does the same when it is back: the queue in Keeper has it."""
FOLLOWED = {"distributed_ddl_output_mode": "null_status_on_timeout", "distributed_ddl_task_timeout": 60}
"""How long the nodes of all shards are waited for, before what they have is read."""
FOREVER_SECONDS = 10 * 365 * 86_400
"""A batch is known by its token as long as the window has it, which counts blocks: the engine's hour would be too short
for an agent that was away, and for the chains of documents."""
BY_SHARD = {
    "distributed_foreground_insert": 1,
    "distributed_product_mode": "global",
    "parallel_distributed_insert_select": 0,
    "max_replica_delay_for_distributed_queries": 60,
    "fallback_to_stale_replicas_for_distributed_queries": 0,
}
"""Of all connections to a store of several shards, besides. An insert is done when all shards have their rows. What a
statement selects from a sharded table for another is selected once, by the node that is asked. A node that was away
is asked for its shard's rows when it has followed, and not before."""
SHARDED: Mapping[str, str] = {
    "samples": "cityHash64(cluster, device_id)",
    "metrics": "cityHash64(cluster, device_id)",
    "stream_hours": "",
    "touched_hours": "",
}
"""What grows with samples, and by what it is spread over shards. Empty: nobody writes to it but views of those tables,
each on its shard, so that a device's samples and what is made of them are on one."""
LOCAL = "_local"
_PREFIX = "cluster "
_IN_SHARDS = ", in shards"
"""How the comment of schema_migrations begins, which tells later opens that the store is a cluster's, and ends if that
has several shards."""
_NAME = r"(?P<name>[A-Za-z_][A-Za-z0-9_]*)"
_CREATE_TABLE = re.compile(rf"CREATE TABLE (?P<once>IF NOT EXISTS )?{_NAME}")
_CREATE_VIEW = re.compile(rf"CREATE (OR REPLACE VIEW|VIEW|MATERIALIZED VIEW)( IF NOT EXISTS)? {_NAME}")
_DROP = re.compile(rf"DROP (?P<kind>TABLE|VIEW) (IF EXISTS )?{_NAME}( SYNC)?")
_EXCHANGE = re.compile(rf"EXCHANGE TABLES \w+ AND {_NAME}")
_ENGINE = re.compile(r"\bENGINE = (\w*MergeTree)(?:\(([^()]*)\))?")
_WINDOW = re.compile(r"\bnon_replicated_deduplication_window = (\d+)")
_REPLICATED = re.compile(r"(Replicated\w*MergeTree)\('[^']*', '[^']*'")
_AS_IT_IS = re.compile(r"CREATE (TABLE|VIEW|MATERIALIZED VIEW) (\S+)")
_KEYS = re.compile(r"\b(GLOBAL (?:NOT )?IN) (\{\w+:Identifier\})")
_GLOBAL = re.compile(r"('(?:[^'\\]|\\.)*'|--[^\n]*|\"[^\"]*\"|`[^`]*`)|\bGLOBAL\s+(?=(?:NOT\s+)?IN\b)")
_ALTER = re.compile(rf"ALTER TABLE {_NAME}")
_OF_COLUMNS = re.compile(r"\b(ADD|DROP|MODIFY|RENAME|COMMENT) COLUMN\b")
_READ = re.compile(r"\b(FROM|TO|INTO) (\w+)\b")
_COMMENT = re.compile(r"\nCOMMENT '(?:[^'\\]|\\.|'')*'")


class Asked(Protocol):
    """A store that is asked (warehouse.store.Store)."""

    url: str
    database: str

    def rows(
        self, sql: str, params: Mapping[str, Any] | None = None, settings: Mapping[str, Any] | None = None
    ) -> list[dict[str, Any]]: ...


def cluster_name(name: str) -> str:
    """The name as SQL. Errors: LedgerError if it is none that fits there and in a path of Keeper."""
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_-]*", name):
        raise LedgerError("--cluster", f"{name[:60]!r} is not a plain name", "Letters, digits, underscores and hyphens")
    return f"`{name}`" if "-" in name else name


@dataclass(frozen=True)
class Nodes:
    """The nodes that a store is on.   cluster: the ClickHouse cluster's name.   in_shards: it has several."""

    cluster: str
    in_shards: bool = False

    @property
    def on(self) -> str:
        return f" ON CLUSTER {cluster_name(self.cluster)}"

    @property
    def replica(self) -> str:
        """What a node is called among those that have a table of which there is one for all shards."""
        return "{shard}-{replica}" if self.in_shards else "{replica}"


def on_cluster(statement: str, nodes: Nodes, database: str) -> list[str]:
    """What a statement of a migration becomes on a cluster.

    Errors: ValueError if it is of a kind that no migration had so far: say here what it becomes.
    """
    if nodes.in_shards and (sharded := _on_shards(statement, nodes, database)):
        return sharded
    return [_everywhere(statement, nodes, database)]


def _everywhere(statement: str, nodes: Nodes, database: str) -> str:
    """What it becomes where all nodes have the same."""
    if found := _CREATE_TABLE.match(statement):
        # A table that is made anew at each try has another path each time: the one before may be in use still.
        path = found["name"] if found["once"] else f"{found['name']}-{uuid.uuid4().hex[:8]}"
        return _replicated_table(statement, found, nodes, _path(nodes.cluster, database, path), nodes.replica)
    if found := _CREATE_VIEW.match(statement):
        return f"{found[0]}{nodes.on}{statement[found.end() :]}"
    if (found := _DROP.fullmatch(statement)) is not None:
        return f"DROP {found['kind']} IF EXISTS {found['name']}{nodes.on} SYNC"
    if found := _EXCHANGE.fullmatch(statement):
        return f"{statement}{nodes.on}"
    if statement.startswith("ALTER TABLE "):
        # All replicas, so that a view that is made next finds the column everywhere.
        return _waited_for(statement)
    if statement.startswith("INSERT INTO "):
        return statement
    raise ValueError(f"no migration had such a statement so far: {statement[:200]}")


def _on_shards(statement: str, nodes: Nodes, database: str) -> list[str]:
    """What it becomes if it is about a sharded table; empty: it is not."""
    if (found := _CREATE_TABLE.match(statement)) and found["name"] in SHARDED:
        name = found["name"]
        renamed = f"{found[0]}{LOCAL}{statement[found.end() :]}"
        of_shard = _path(nodes.cluster, "{shard}", f"{database}/{name}{LOCAL}")
        again = _CREATE_TABLE.match(renamed)
        assert again
        engine, comment = distributed(name, f"{name}{LOCAL}", nodes, database), _COMMENT.search(statement)
        said = comment[0] if comment else ""
        return [
            _replicated_table(renamed, again, nodes, of_shard, "{replica}"),
            f"CREATE TABLE IF NOT EXISTS {name}{nodes.on} AS {name}{LOCAL} ENGINE = {engine}{said}",
        ]
    if statement.startswith("CREATE MATERIALIZED VIEW "):
        local = _READ.sub(lambda one: f"{one[1]} {one[2]}{LOCAL if one[2] in SHARDED else ''}", statement)
        return [_everywhere(local, nodes, database)]
    if (found := _ALTER.match(statement)) and found["name"] in SHARDED:
        done = [f"ALTER TABLE {found['name']}{LOCAL}{nodes.on}{_waited_for(statement)[found.end() :]}"]
        if _OF_COLUMNS.search(statement):
            done.append(f"{found[0]}{nodes.on}{statement[found.end() :]}")
        return done
    named = any(re.search(rf"\b{name}\b", statement.split("(")[0]) for name in SHARDED)
    if named and not _CREATE_VIEW.match(statement):
        raise ValueError(f"no migration had such a statement of a sharded table so far: {statement[:200]}")
    return []


def distributed(like: str, local: str, nodes: Nodes, database: str) -> str:
    """The engine of a table that stands for those of all shards.   like: the sharded table as which it is spread."""
    key = f", {SHARDED[like]}" if SHARDED[like] else ""
    return f"Distributed({text_literal(nodes.cluster)}, {text_literal(database)}, {text_literal(local)}{key})"


def selected_keys(sql: str) -> str:
    """With what is in a working table of keys selected, as a statement has to that is sent to shards in parts."""
    return _KEYS.sub(lambda one: f"{one[1]} ({read_sql(__file__, 'clustered/keys', table=one[2])})", sql)


@lru_cache(maxsize=512)
def in_one_place(sql: str) -> str:
    """With IN for GLOBAL IN, as a statement may that reads nothing of shards: the engine does not filter by GLOBAL IN
    before it has read all columns (no PREWHERE)."""
    return _GLOBAL.sub(lambda one: one[1] or "", sql) if "GLOBAL" in sql else sql


def like(new: str, engine_full: str, nodes: Nodes, database: str, of_shard: bool = False) -> str:
    """The clause ENGINE of a table that is to be as another.   engine_full: the other's, as system.tables has it.
    of_shard: the other is that of a shard."""
    path = _path(nodes.cluster, "{shard}", f"{database}/{new}") if of_shard else _path(nodes.cluster, database, new)
    replica = "{replica}" if of_shard else nodes.replica
    return _REPLICATED.sub(lambda one: f"{one[1]}('{path}', '{replica}'", engine_full, count=1)


def schema_comment(nodes: Nodes) -> str:
    return f"{_PREFIX}{nodes.cluster}{_IN_SHARDS if nodes.in_shards else ''}"


def nodes_of(comment: str) -> Nodes | None:
    """The nodes that a store is on; None: on one server.   comment: of the table schema_migrations."""
    if not comment.startswith(_PREFIX):
        return None
    name = comment.removeprefix(_PREFIX)
    return Nodes(name.removesuffix(_IN_SHARDS), name.endswith(_IN_SHARDS))


def check_cluster(store: Asked, cluster: str) -> Nodes:
    """The nodes that a new store is to be on.
    Errors: LedgerError if the node that was asked knows no such cluster, or one that this schema does not fit."""
    cluster_name(cluster)
    nodes = store.rows(read_sql(__file__, "clustered/nodes"), {"cluster": cluster})
    if not nodes:
        known = store.rows(read_sql(__file__, "clustered/known"))
        names = ", ".join(str(row["cluster"]) for row in known) or "none"
        raise LedgerError(store.url, f"knows no cluster {cluster}", f"Known are: {names} (remote_servers)")
    found = Nodes(cluster, max(node["shard_num"] for node in nodes) > 1)
    macros = {row["macro"] for row in store.rows(read_sql(__file__, "clustered/macros"))}
    for macro, what in (("replica", "its name"), *((("shard", "its shard's name"),) if found.in_shards else ())):
        if macro not in macros:
            raise LedgerError(store.url, f"has no macro {{{macro}}}", f"Give each node one: <macros><{macro}>{what}")
    if found.in_shards and not all(node["internal_replication"] for node in nodes):
        what = f"of cluster {cluster}, a shard does not replicate by itself: each row would be written to all its nodes"
        raise LedgerError(store.url, what, "<internal_replication>true</internal_replication> in each <shard>")
    return found


def everywhere(store: Asked, nodes: Nodes) -> Iterator[str]:
    """Statements that create on each node what the node that is asked has: tables with their paths, then views."""
    yield f"CREATE DATABASE IF NOT EXISTS {identifier(store.database)}{nodes.on}"
    for row in store.rows(read_sql(__file__, "clustered/created")):
        yield _AS_IT_IS.sub(rf"CREATE \1 IF NOT EXISTS \2{nodes.on}", str(row["statement"]), count=1)


def catch_up_shards(store: Asked, nodes: Nodes) -> None:
    """Waits until the nodes of all shards have what others of their shard had written to the sharded tables. A node
    that does not answer is not waited for: nothing is read from it either.
    Errors: LedgerError if a node answers and does not follow."""
    asked = {"database": store.database, "local": [f"{table}{LOCAL}" for table in SHARDED]}
    behind = store.rows(read_sql(__file__, "clustered/behind_in_shards", cluster=cluster_name(nodes.cluster)), asked)
    missing: set[str] = set()
    for row in behind:
        sync = f"SYSTEM SYNC REPLICA{nodes.on} {identifier(row['table'])} LIGHTWEIGHT"
        missing |= {str(one["host"]) for one in store.rows(sync, settings=FOLLOWED) if one["status"] is None}
    if missing:
        late = {str(one["host_name"]) for one in store.rows(_answering(nodes), {"cluster": nodes.cluster})} & missing
        if late:
            raise LedgerError(
                store.url,
                f"{', '.join(sorted(late))} answers, and does not have yet what its shard has",
                "Try again; gpuledger doctor --cluster shows how far behind it is",
            )


def _answering(nodes: Nodes) -> str:
    return read_sql(__file__, "clustered/answering", cluster=cluster_name(nodes.cluster))


def nodes(store: Asked, cluster: str) -> list[dict[str, Any]]:
    """How each node fares. One that does not answer has None in all columns but its name."""
    sql = read_sql(__file__, "clustered/doctor", cluster=cluster_name(cluster))
    return store.rows(sql, {"cluster": cluster, "database": store.database})


def _path(cluster: str, database: str, table: str) -> str:
    return f"/clickhouse/tables/{cluster}/{database}/{table}"


def _replicated_table(statement: str, found: re.Match[str], nodes: Nodes, path: str, replica: str) -> str:
    """found: how it begins.   path, replica: of the table in Keeper."""
    rest = _ENGINE.sub(lambda engine: _replicated(engine, path, replica), statement[found.end() :])
    if "ENGINE = Replicated" not in rest:
        raise ValueError(f"no engine to replicate by: {statement[:200]}")
    return f"{found[0]}{nodes.on}{_with_window(rest)}"


def _replicated(engine: re.Match[str], path: str, replica: str) -> str:
    more = f", {engine[2]}" if engine[2] else ""
    return f"ENGINE = Replicated{engine[1]}('{path}', '{replica}'{more})"


def _waited_for(alter: str) -> str:
    return f"{alter}{', ' if ' SETTINGS ' in alter else ' SETTINGS '}alter_sync = 2"


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
