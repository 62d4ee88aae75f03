"""The real engine behind HTTP, as the one node of a cluster of two shards that is up, and as the other shard.

    python -m tests.warehouse.shards_over_http FOLDER            # prints a store URL for make cluster-test CLUSTER=c
    python -m tests.warehouse.shards_over_http FOLDER empty      # the same, where the other shard has nothing

Both shards of its configuration are this process, so that the engine sends statements on a Distributed table twice, and
merges two answers. They would read one table; so what a shard holds is a table for each, T_shard1 and T_shard2, and
T_local a view that shows a statement what is its shard's. Faked, besides what cluster_over_http.py fakes, is: DDL and
deletions on T_local, which reach both tables; rows inserted into T, which go by its key; what system tables say.
A shard has here what the other has. So with `EmptyShardServer` the other shard is one that refuses each statement that
needs a table which a shard lacks, and has no rows otherwise (recorder.py).
"""

from __future__ import annotations

import re
import sys
import time
from functools import partial
from pathlib import Path

from tests.warehouse.cluster_over_http import ON, ClusterServer, config
from tests.warehouse.engine_over_http import Server, serving
from tests.warehouse.recorder import Recorder, recording
from warehouse.cluster import BY_SHARD, LOCAL
from warehouse.sql import text_literal

SHARDS = (1, 2)
NODE = "<replica><host>{}</host><port>9000</port></replica>"
CONFIG = config("".join(f"<shard><internal_replication>true</internal_replication>{NODE.format(host)}</shard>"
                        for host in ("127.0.0.1", "localhost")))  # fmt: skip
DISTRIBUTED = re.compile(
    r"CREATE TABLE (?:IF NOT EXISTS )?(\w+).* AS \w+ ENGINE = Distributed\('c', '\w+', '(\w+)'(?:, (.+))?\)"
)
INSERT = re.compile(
    r"INSERT INTO (?:`?(?P<name>\w+)`?|\{(?P<param>\w+):Identifier\})(?P<columns> \([^()]*\))?\s+"
    r"(?P<select>SELECT.*?)(?P<settings>\nSETTINGS [^()]*)?$",
    re.S,
)
OF_SYSTEM = re.compile(r"\b(FROM|JOIN) (cluster\(c, )?(system\.(?:parts|mutations|columns))\)?")


class ShardsServer(ClusterServer):
    """held: tables of shards, by database and name.   keys: by what rows of a table are spread, by database and name.
    views: those that write from a table of a shard to another."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        _set(self)
        self.held: set[tuple[str, str]] = set()
        self.keys: dict[tuple[str, str], tuple[str, str]] = {}
        self.views: set[tuple[str, str]] = set()

    config = CONFIG

    def run(self, database: str, sql: str, data: bytes, params: dict[str, str]) -> bytes:
        if found := DISTRIBUTED.match(sql):
            self.keys[database, found[1]] = found[2], found[3]
            if ON.search(sql):
                self.statements.append(self.parsed(sql))
            here = re.sub(
                r" AS \w+ ENGINE", f" AS {found[2]}_shard1 ENGINE".replace(LOCAL, ""), ON.sub("", sql, count=1)
            )
            return Server.run(self, database, here, data, params)
        if (found := INSERT.match(re.sub(r"^(--[^\n]*\n)+", "", sql))) and not data:
            name = found["name"] or params.get(found["param"], "")
            if (database, name) in self.keys:
                return self._spread(database, name, found, params)
        if "has_tenant" in sql:
            sql = sql.replace("FROM system.tables", f"FROM {self._tables(database)}")
        sql = OF_SYSTEM.sub(lambda one: f"{one[1]} {_of_shards(one[3], bool(one[2]))}", sql)
        return super().run(database, sql, data, params)

    def _spread(self, database: str, name: str, found: re.Match[str], params: dict[str, str]) -> bytes:
        local, key = self.keys[database, name]
        assert key, f"rows of {name} are made by views of their shard"
        columns, arrived = found["columns"] or "", f"arrived_{name}"
        Server.run(self, database, f"CREATE OR REPLACE TABLE {arrived} AS {_of(local, 1)} ENGINE = Memory", b"", {})
        super().run(database, f"INSERT INTO {arrived}{columns} {found['select']}", b"", params)
        for shard in SHARDS:
            rows = f"SELECT {columns.strip(' ()') or '*'} FROM {arrived} WHERE {key} % {len(SHARDS)} = {shard - 1}"
            into = f"INSERT INTO {_of(local, shard)}{columns} {rows}{found['settings'] or ''}"
            Server.run(self, database, into, b"", params)
        Server.run(self, database, f"DROP TABLE {arrived}", b"", {})
        return b""

    def _everywhere(self, database: str, sql: str, params: dict[str, str]) -> bytes:
        about = {name for of, name in self.held if of == database and re.search(rf"\b{name}\b", sql)}
        if found := re.match(rf"CREATE TABLE (?:IF NOT EXISTS )?(?:\w+\.)?(\w+{LOCAL})\b", sql):
            assert "/{shard}/" in sql and "'{replica}'" in sql, "each shard has a table of its own"
            about.add(found[1])
            self.held.add((database, found[1]))
        elif "ENGINE = Replicated" in sql:
            assert "'{shard}-{replica}'" in sql, "each node of all shards has another name"
        if about and (found := re.match(r"CREATE MATERIALIZED VIEW IF NOT EXISTS (?:\w+\.)?(\w+)", sql)):
            self.views.add((database, found[1]))
        named = {name for of, name in self.views if of == database and re.search(rf"\b{name}\b", sql)}
        if not about and not named:
            return super()._everywhere(database, sql, params)
        for shard in SHARDS:
            one = sql
            for name in about | named:
                one = re.sub(rf"\b{name}\b", _of(name, shard), one)
            super()._everywhere(database, one, params)
        for name in about:
            if re.match(rf"DROP TABLE IF EXISTS {name}\b", sql):
                self.held.remove((database, name))
                self.replicas.pop((database, name))
                Server.run(self, database, f"DROP VIEW {name}", b"", {})
            else:
                first = _of(name, 1)
                engine, path = self.replicas[database, first]
                self.replicas[database, name] = engine.replace(first, name), path.replace(first, name)
                self._show(database, name)
        return b""

    def _show(self, database: str, name: str) -> None:
        """Shows each shard its rows, with all columns, also those that are computed."""
        asked = f"SELECT name FROM system.columns WHERE database = '{database}' AND table = '{_of(name, 1)}'"
        columns = ", ".join(Server.run(self, database, asked, b"", {}).decode().split())
        parts = (f"SELECT {columns} FROM {_of(name, shard)} WHERE shardNum() = {shard}" for shard in SHARDS)
        Server.run(self, database, f"CREATE OR REPLACE VIEW {name} AS {' UNION ALL '.join(parts)}", b"", {})

    def _tables(self, database: str) -> str:
        return re.sub(
            r"FROM system\.tables WHERE",
            f"FROM (WITH if(engine = 'MaterializedView', '', '{LOCAL}') AS suffix, "
            "replaceOne(name, '_shard1', suffix) AS whole "
            "SELECT * REPLACE (whole AS name, replaceAll(replaceOne(create_table_query, t.name, whole), '_shard1', "
            f"'{LOCAL}') AS create_table_query) FROM system.tables AS t "
            f"WHERE NOT match(name, '_shard2$') AND NOT (engine = 'View' AND match(name, '{LOCAL}$'))) WHERE",
            super()._tables(database) if self.replicas else "(SELECT * FROM system.tables WHERE true)",
        )


class EmptyShardServer(ClusterServer):
    """The first of two shards, which gets all rows; the second is a recorder."""

    def __init__(self, folder: Path, recorder: Recorder) -> None:
        other = f"<replica><host>127.0.0.1</host><port>{recorder.port}</port><compression>false</compression></replica>"
        self.config = config(
            f"<shard><internal_replication>true</internal_replication>{NODE.format('127.0.0.1')}</shard>"
            f"<shard><weight>0</weight><internal_replication>true</internal_replication>{other}</shard>"
        )
        super().__init__(folder)
        _set(self)


def _set(server: Server) -> None:
    """What connections ask for with each statement (warehouse.cluster), which Server does not hear."""
    for name, value in BY_SHARD.items():
        server.engine.query(f"SET {name} = {value if isinstance(value, int) else text_literal(value)}")


def _of(name: str, shard: int) -> str:
    return f"{name.removesuffix(LOCAL)}_shard{shard}"


def _of_shards(table: str, of_all: bool) -> str:
    """What a table of the engine's says, with the names that tables of shards have on their shard."""
    mine = "" if of_all else " WHERE NOT match(table, '_shard2$')"
    number = ", toUInt32OrZero(extract(table, '_shard(\\\\d)$')) AS _shard_num" if of_all else ""
    return (
        f"(SELECT * REPLACE (replaceRegexpOne(table, '_shard\\\\d$', '{LOCAL}') AS table){number} FROM {table}{mine})"
    )


if __name__ == "__main__":
    with (
        recording() as recorder,
        serving(Path(sys.argv[1]), partial(EmptyShardServer, recorder=recorder) if sys.argv[2:] else ShardsServer) as (
            url,
            _,
        ),
    ):
        print(url, flush=True)
        while True:
            time.sleep(3600)
