"""The real engine behind HTTP, as the one node of a cluster that is up.

    python -m tests.warehouse.cluster_over_http FOLDER      # prints a store URL for make cluster-test CLUSTER=c

The embedded engine has no Keeper, no queue of ON CLUSTER statements and no port for other replicas. So what a node does
with those is faked here, at the socket, and no more: ON CLUSTER runs on this node; a replicated table is first created
as it is, which the engine refuses for want of Keeper alone once it has checked everything else, and then without
Replicated; a path in Keeper belongs to one table at a time; to wait for a table that is not replicated is an error.
What only several nodes show (that inserts arrive, that one may die) is not shown.
"""

from __future__ import annotations

import re
import sys
import time
from pathlib import Path

import chdb

from tests.warehouse.engine_over_http import Server, serving

CLUSTER = "c"


def config(shards: str) -> str:
    """The engine's, with these in its cluster."""
    return f"""<clickhouse>
    <tcp_port>9000</tcp_port>
    <macros><replica>r1</replica><shard>s1</shard></macros>
    <remote_servers><{CLUSTER}>{shards}</{CLUSTER}></remote_servers>
</clickhouse>"""


CONFIG = config("""<shard><internal_replication>true</internal_replication>
    <replica><host>127.0.0.1</host><port>9000</port></replica>
    <replica><host>127.0.0.2</host><port>9000</port></replica></shard>""")
ON = re.compile(r" ON CLUSTER (\w+)")
REPLICATED = re.compile(r"ENGINE = Replicated(\w+)\('([^']*)', '((?:\{shard\}-)?\{replica\})'(?:, ([^()]*))?\)")
WINDOW = re.compile(
    r"(?<!non_)replicated_deduplication_window = (\d+)(, replicated_deduplication_window_seconds = \d+)?"
)
NAME = r"(?:\w+\.)?`?(?P<name>\w+)`?"
NO_KEEPER = "NO_ZOOKEEPER"


class ClusterServer(Server):
    """replicas: engine and path of each replicated table, by its database and name.   behind: tables of which another
    node has more, which `system.replicas` says until they are waited for.   waits, statements: what was asked for."""

    config = CONFIG

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.replicas: dict[tuple[str, str], tuple[str, str]] = {}
        self.behind: list[str] = []
        self.waits: list[str] = []
        self.statements: list[str] = []

    def connect(self, folder: Path) -> chdb.Connection:
        config = folder / "cluster.xml"
        config.write_text(self.config)
        return chdb.connect(f"{folder / 'engine'}?config-file={config}")

    def run(self, database: str, sql: str, data: bytes, params: dict[str, str]) -> bytes:
        if found := re.match(r"SYSTEM SYNC REPLICA (\w+) LIGHTWEIGHT", sql):
            return self._wait(database, found[1], sql)
        if ON.search(sql) or REPLICATED.search(sql):
            return self._everywhere(database, sql, params)
        if "system.replicas" in sql and self.behind:
            listed = ", ".join(f"'{table}'" for table in self.behind)
            sql = re.sub(
                r"SELECT table\nFROM system.replicas.*", f"SELECT arrayJoin([{listed}]) AS table", sql, flags=re.S
            )
            sql += " FORMAT Native"
        if "engine_full" in sql or "create_table_query" in sql:
            sql = sql.replace("FROM system.tables", f"FROM {self._tables(database)}")
        return super().run(database, sql, data, params)

    def _wait(self, database: str, table: str, sql: str) -> bytes:
        self.parsed(sql)
        if (database, table) not in self.replicas:
            raise RuntimeError(f"Code: 36. DB::Exception: Table {database}.{table} is not replicated. (BAD_ARGUMENTS)")
        self.waits.append(table)
        self.behind = [one for one in self.behind if one != table]
        return b""

    def _everywhere(self, database: str, sql: str, params: dict[str, str]) -> bytes:
        self.statements.append(self.parsed(sql))
        cluster = ON.search(sql)
        if cluster is None or cluster[1] != CLUSTER:
            raise RuntimeError(f"Code: 170. DB::Exception: not on all nodes of the cluster: {sql[:200]}")
        here = ON.sub("", sql, count=1)
        if engine := REPLICATED.search(here):
            return self._create(database, here, engine, params)
        if found := re.match(rf"EXCHANGE TABLES (?P<one>\w+) AND {NAME}", here):
            one, other = (database, found["one"]), (database, found["name"])
            super().run(database, here, b"", params)
            self.replicas[one], self.replicas[other] = self.replicas[other], self.replicas[one]
            return b""
        answer = super().run(database, here, b"", params)
        if found := re.match(rf"DROP TABLE IF EXISTS {NAME}", here):
            assert here.endswith(" SYNC"), f"its path would be taken for some minutes yet: {here}"
            self.replicas.pop((database, found["name"]), None)
        return answer

    def _create(self, database: str, sql: str, engine: re.Match[str], params: dict[str, str]) -> bytes:
        found = re.match(rf"CREATE TABLE (?:IF NOT EXISTS )?{NAME}", sql)
        assert found
        table = (database, found["name"])
        if "IF NOT EXISTS" in sql and table in self.replicas:
            assert self.replicas[table][1] == engine[2], f"{table} would be apart from the table of the other nodes"
            return b""
        taken = [name for name, (_, path) in self.replicas.items() if path == engine[2]]
        if taken:
            raise RuntimeError(f"Code: 253. DB::Exception: {engine[2]} belongs to {taken[0]}. (REPLICA_ALREADY_EXISTS)")
        try:
            super().run(database, sql, b"", params)
        except RuntimeError as error:
            if NO_KEEPER not in str(error):
                raise
        else:
            raise AssertionError("a replicated table without Keeper")
        plain = REPLICATED.sub(lambda one: f"ENGINE = {one[1]}({one[4] or ''})", sql)
        super().run(database, WINDOW.sub(r"non_replicated_deduplication_window = \1", plain), b"", params)
        more = f", {engine[4]}" if engine[4] else ""
        self.replicas[table] = (f"Replicated{engine[1]}('{engine[2]}', '{engine[3]}'{more})", engine[2])
        return b""

    def _tables(self, database: str) -> str:
        """`system.tables`, with the engines as they would be."""
        names = [name for of, name in self.replicas if of == database]
        if not names:
            return "system.tables"
        heads = [self.replicas[database, name][0] for name in names]
        head = f"transform(name, {_listed(names)}, {_listed(heads)}, '')"
        own = r"'^\\w+(\\([^()]*\\))? ?'"
        created = r"'ENGINE = \\w+(\\([^()]*\\))?'"
        return f"""(
            WITH {head} AS head
            SELECT * REPLACE (
                if(head = '', engine, concat('Replicated', engine)) AS engine,
                if(head = '', engine_full, concat(head, ' ', replaceRegexpOne(engine_full, {own}, ''))) AS engine_full,
                if(head = '', create_table_query,
                    replaceRegexpOne(create_table_query, {created}, concat('ENGINE = ', head))) AS create_table_query)
            FROM system.tables WHERE database = currentDatabase())"""

    def parsed(self, sql: str) -> str:
        """Errors: RuntimeError if the engine's parser does not know it."""
        quoted = f"unhex('{sql.encode().hex()}')"
        return super().run("", f"SELECT formatQuerySingleLine({quoted}) FORMAT RawBLOB", b"", {}).decode()


def _listed(texts: list[str]) -> str:
    return "[" + ", ".join(f"unhex('{text.encode().hex()}')" for text in texts) + "]"


if __name__ == "__main__":
    with serving(Path(sys.argv[1]), ClusterServer) as (url, _):
        print(url, flush=True)
        while True:
            time.sleep(3600)
