"""A store on a ClickHouse cluster, over one node of it: the real engine behind HTTP.

What several nodes show is for `make cluster-test` (docs/storage.md).
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator
from http.server import ThreadingHTTPServer
from pathlib import Path

import pytest

from access.opening import _default_address
from billing.close import close
from billing.verify import verify
from gpuledger.commands.doctor import node_problem
from ingest.errors import IngestError
from ingest.targets import Sender, target
from tests.dashboards.site import fill
from tests.gpuledger.running import run
from tests.warehouse.cluster_over_http import CLUSTER, ClusterServer
from tests.warehouse.engine_over_http import Handler, Server, serving
from warehouse.chain import head
from warehouse.cluster import Nodes, in_one_place, on_cluster
from warehouse.errors import LedgerError, StoreError
from warehouse.store import ServerStore, Store, migrate, migrations, open_store, split_statements

ROOT = Path(__file__).parents[2]
UPGRADES = sorted((ROOT / "warehouse/upgrades").glob("*.sql"))


class Front(Server):
    """Another node that has the same: the same engine behind another port."""

    def __init__(self, node: ClusterServer) -> None:
        ThreadingHTTPServer.__init__(self, ("127.0.0.1", 0), Handler)
        self.engine, self.turn, self.run = node.engine, node.turn, node.run  # type: ignore[method-assign]


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, ClusterServer]]:
    """A node with two days of books on all nodes of the cluster."""
    with serving(tmp_path_factory.mktemp("node"), ClusterServer) as (url, server):
        assert isinstance(server, ClusterServer)
        with open_store(url) as store:
            migrate(store, CLUSTER)
            fill(store)
        yield url, server


@pytest.fixture
def store(node: tuple[str, ClusterServer]) -> Iterator[ServerStore]:
    with open_store(node[0]) as opened:
        assert isinstance(opened, ServerStore)
        yield opened


def test_each_table_is_replicated_and_deduplicates_as_without_a_cluster() -> None:
    for _, name, text in migrations():
        for statement in split_statements(text):
            if not statement.startswith("CREATE TABLE"):
                continue
            (made,) = on_cluster(statement, Nodes("gpu-prod"), "books")
            table = (
                statement.split("(")[0].split()[-1] if " AS " not in statement.split("\n")[0] else statement.split()[2]
            )
            assert f"{table} ON CLUSTER `gpu-prod`" in made, name
            assert re.search(rf"ENGINE = Replicated\w+\('/clickhouse/tables/gpu-prod/books/{table}[-'0-9a-f]", made), (
                made
            )
            plain = re.search(r"non_replicated_deduplication_window = (\d+)", statement)
            kept = re.search(
                r"[ ,]replicated_deduplication_window = (\d+)(, replicated_dedup\w+_seconds = (\d+))?", made
            )
            assert kept, made
            assert int(kept[1]) == (int(plain[1]) if plain else 0), (
                f"{table} forgets tokens sooner, or drops what is equal"
            )
            assert plain is None or int(kept[3]) > 365 * 86_400, f"{table} forgets tokens by the clock"


@pytest.mark.parametrize("path", UPGRADES, ids=lambda path: path.stem)
def test_upgrades_parse_on_a_cluster(path: Path, node: tuple[str, ClusterServer]) -> None:
    statements = split_statements(path.read_text())
    assert statements
    for statement in statements:
        (made,) = on_cluster(statement, Nodes(CLUSTER), "gpuledger")
        assert "ON CLUSTER c" in node[1].parsed(made) or "alter_sync = 2" in made


@pytest.mark.parametrize(
    "statement", ["RENAME TABLE a TO b", "CREATE TABLE a (b UInt8) ENGINE = Memory", "OPTIMIZE TABLE a"]
)
def test_a_migration_of_a_new_kind_is_no_surprise(statement: str) -> None:
    with pytest.raises(ValueError, match=r"no migration had|no engine to replicate"):
        on_cluster(statement, Nodes(CLUSTER), "gpuledger")


def test_a_cluster_has_the_tables_of_one_server(node: tuple[str, ClusterServer], store: ServerStore) -> None:
    with store.another("on_one_server") as other:
        migrate(other)
        assert (store.cluster, other.cluster) == (CLUSTER, "")
    differ = store.rows(
        "SELECT name, count() AS n, groupUniqArray(database) AS at FROM "
        "(SELECT database, name, partition_key, sorting_key, primary_key, columns FROM system.tables AS t INNER JOIN "
        "(SELECT database, table, groupArray((name, type, default_expression, compression_codec)) AS columns "
        " FROM system.columns GROUP BY database, table) AS c ON t.database = c.database AND t.name = c.table "
        " WHERE t.database IN ('gpuledger', 'on_one_server')) "
        "GROUP BY name, partition_key, sorting_key, primary_key, columns HAVING n != 2"
    )
    assert [row for row in differ if row["name"] != "schema_migrations"] == []
    tables = {name for database, name in node[1].replicas if database == "gpuledger"}
    plain = "SELECT name FROM system.tables WHERE database = 'on_one_server' AND engine LIKE '%MergeTree'"
    assert tables == {row["name"] for row in store.rows(plain)}


def test_books_on_a_cluster_are_those_of_one_server(store: ServerStore) -> None:
    sums = "SELECT tenant, sum(used_unit_ms) AS used, sum(idle_unit_ms) AS idle FROM ledger GROUP BY 1 ORDER BY 1"
    with store.another("books_on_one_server") as other:
        migrate(other)
        fill(other)
        assert store.rows(sums) == other.rows(sums) != []
        assert len(store.rows("SELECT number FROM invoices")) == len(other.rows("SELECT number FROM invoices")) > 0
    assert verify(store).balanced
    assert close(store).changed == 0


def test_a_close_publishes_on_all_nodes_and_works_on_one(node: tuple[str, ClusterServer], store: ServerStore) -> None:
    before = len(node[1].statements)
    close(store, whole=True)
    asked = node[1].statements[before:]
    kinds = [re.sub(r"close_\d+_", "close_N_", " ".join(one.split(" ON CLUSTER ")[0].split()[:5])) for one in asked]
    assert kinds == [
        "CREATE TABLE close_N_new_allocations",
        "EXCHANGE TABLES close_N_new_allocations AND allocations",
        "DROP TABLE IF EXISTS close_N_new_allocations",
    ], "nothing is refused, nor was"
    assert store.value("SELECT count() AS n FROM system.tables WHERE name LIKE 'close\\_%\\_%'") == 0


def test_a_turn_begins_with_what_other_nodes_wrote(node: tuple[str, ClusterServer], store: ServerStore) -> None:
    server = node[1]
    server.behind, server.waits = ["events", "closed_hours"], []
    with store.turn("something"):
        assert server.behind == []
    assert "turns" in server.waits and server.waits[-2:] == ["events", "closed_hours"]
    server.waits = []
    close(store)
    assert server.waits, "a close looks for what was acknowledged elsewhere"


def test_a_document_waits_for_the_end_of_its_chain(node: tuple[str, ClusterServer], store: ServerStore) -> None:
    node[1].waits = []
    head(store, "invoices")
    assert node[1].waits == ["invoices", "chain_heads"]


def test_what_is_equal_is_stored_twice_where_it_would_be_on_one_server(store: ServerStore) -> None:
    """The engine's replicated tables drop equal blocks unless they are told not to."""
    for _ in range(2):
        store.command("INSERT INTO close_batches (run, follows, batches) VALUES (7, 0, [])")
    assert store.value("SELECT count() AS n FROM close_batches WHERE run = 7") == 2
    store.command("DELETE FROM close_batches WHERE run = 7")


def test_an_added_node_gets_the_same_tables(node: tuple[str, ClusterServer], store: ServerStore) -> None:
    close(store, whole=True)  # since when allocations has another path
    before = len(node[1].statements)
    store.complete_cluster()  # the node refuses a table that would be apart from that of the others
    asked = node[1].statements[before:]
    assert all(" IF NOT EXISTS " in one and " ON CLUSTER c" in one for one in asked)
    tables = [one for one in asked if one.startswith("CREATE TABLE")]
    assert len(tables) == len([1 for database, _ in node[1].replicas if database == "gpuledger"])
    views = [place for place, one in enumerate(asked) if one.startswith("CREATE VIEW")]
    assert len(views) > 20 and min(views) > len(tables)


def test_a_scratch_database_is_on_one_node(node: tuple[str, ClusterServer], store: ServerStore) -> None:
    before = len(node[1].statements)
    with store.scratch() as scratch:
        assert scratch.cluster == ""
        assert scratch.value("SELECT count() AS n FROM samples") == 0
    assert node[1].statements[before:] == []


def test_a_node_that_is_gone_fails_one_statement_and_the_next_is_asked_of_another(
    node: tuple[str, ClusterServer],
) -> None:
    url, server = node
    other = url.split("@")[1].split("/")[0]
    first = Front(server)
    threading.Thread(target=first.serve_forever, daemon=True).start()
    both = f"clickhouse://default@127.0.0.1:{first.server_port},{other}/gpuledger"
    with open_store(both) as store:
        assert isinstance(store, ServerStore)
        assert str(first.server_port) in store.http_url
        invoices = store.value("SELECT count() AS n FROM invoices")
        first.shutdown()
        first.server_close()
        with pytest.raises(StoreError):
            store.value("SELECT count() AS n FROM invoices")
        assert store.value("SELECT count() AS n FROM invoices") == invoices
        assert store.http_url == f"http://{other}/"
        with store.another() as more:
            assert isinstance(more, ServerStore) and more.http_url == store.http_url
    with open_store(both) as late:
        assert late.value("SELECT count() AS n FROM invoices") == invoices


def test_a_node_without_the_store_does_not_begin_one_of_its_own(node: tuple[str, ClusterServer]) -> None:
    """As a node that was added, or came back with an empty disk, and is named first."""
    url = node[0].replace("/gpuledger", ",127.0.0.1:1/added")
    with open_store(url) as store:
        with pytest.raises(StoreError, match=r"has no store, and is one of several.*init --cluster"):
            migrate(store)
        assert store.value("SELECT count() AS n FROM system.tables WHERE database = 'added'") == 0
        with store.scratch() as scratch:
            assert scratch.cluster == ""
    with open_store(url) as store:
        assert len(migrate(store, CLUSTER)) == len(migrations())


def test_the_access_store_of_a_cluster_is_the_same_whichever_node_is_named_first(
    node: tuple[str, ClusterServer], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("STATE_DIRECTORY", str(tmp_path))
    for url in (node[0], node[0].replace("/gpuledger", ",127.0.0.1:1/gpuledger")):
        with open_store(url) as store:
            assert _default_address(store) == f"sqlite:///{tmp_path}/access-c-gpuledger.sqlite"


def test_an_agent_delivers_to_one_address() -> None:
    with pytest.raises(IngestError, match="an agent delivers to one address"):
        target("clickhouse://db1:8123,db2:8123/gpuledger", Sender())


def test_a_url_with_no_port_or_a_wrong_one() -> None:
    with pytest.raises(StoreError, match="'db2:http' is not HOST:PORT"):
        open_store("clickhouse://db1,db2:http/books")


@pytest.mark.parametrize(
    ("cluster", "why"),
    [
        ("nowhere", "knows no cluster nowhere. Known are: c"),
        ("a'b", "is not a plain name"),
    ],
)
def test_a_cluster_that_does_not_fit_is_refused_before_anything_is_made(
    cluster: str, why: str, store: ServerStore
) -> None:
    with store.another("not_made") as empty, pytest.raises(LedgerError, match=re.escape(why)):
        migrate(empty, cluster)
    assert store.value("SELECT count() AS n FROM system.tables WHERE database = 'not_made'") == 0


def test_a_store_stays_where_it_is(store: ServerStore) -> None:
    with store.another("stays") as plain:
        migrate(plain)
        with pytest.raises(StoreError, match="this store is on one server, not on cluster c"):
            migrate(plain, CLUSTER)
    with pytest.raises(StoreError, match="this store is on cluster c, not on cluster other"):
        migrate(store, "other")
    assert migrate(store, CLUSTER) == migrate(store) == []


def test_init_and_doctor_say_what_they_find(node: tuple[str, ClusterServer]) -> None:
    url = node[0].replace("/gpuledger", "/by_command")
    done = run(f"init --store {url} --cluster c")
    assert done.exit_code == 0 and "on all nodes of cluster c" in done.output
    again = run(f"init --store {url}")
    assert again.exit_code == 0 and "schema is up to date, on all nodes of cluster c" in again.output
    found = run(f"doctor --store {url} --cluster --format json")
    assert found.exit_code == 1, "a node does not answer"
    up, down = json.loads(found.stdout)
    assert (up["node"], up["read_only"], up["lag_seconds"], up["needs"]) == ("127.0.0.1", 0, 0, "")
    assert abs(up["clock_seconds"]) <= 2 and up["parts"] >= 1
    assert (down["node"], down["version"], down["needs"]) == ("127.0.0.2", None, "does not answer")


def test_doctor_names_what_a_node_needs() -> None:
    fine = {"version": "26.9", "clock_seconds": 1, "read_only": 0, "lag_seconds": 300, "most_parts": 1000}
    assert node_problem(fine) == []
    assert node_problem({**fine, "clock_seconds": -3, "lag_seconds": 301}) == ["clock -3 s", "301 s behind"]
    assert node_problem({**fine, "read_only": 2, "most_parts": 1001}) == [
        "2 tables read-only (Keeper)", "1001 parts in a partition",
    ]  # fmt: skip


def test_doctor_of_a_store_that_is_on_no_cluster(node: tuple[str, ClusterServer]) -> None:
    done = run(f"doctor --cluster --store {node[0].replace('/gpuledger', '/on_no_cluster')}")
    assert isinstance(done.exception, LedgerError) and "is not on a ClickHouse cluster" in str(done.exception)


def test_init_prints_what_it_would_run(node: tuple[str, ClusterServer]) -> None:
    done = run("init --dry-run --cluster c --accounts")
    assert done.exit_code == 0
    statements = split_statements(done.stdout)
    assert len(statements) > 130
    for statement in statements:
        node[1].parsed(statement)
    writer = next(one for one in statements if one.startswith("GRANT") and "TO gpuledger_writer_role" in one)
    assert "CLUSTER ON *.*" in writer and "SYSTEM SYNC REPLICA ON gpuledger.*" in writer


def test_what_is_made_outside_of_migrations_is_on_the_node_that_works() -> None:
    """A permanent table made elsewhere would be on one node alone: migrations make it, or Store.create_like."""
    scratch = "in a scratch database, which is on one node"
    elsewhere = {
        "billing/close/events_of_alive.sql": "a close's own, too large for memory",
        "billing/exports/check_csv.sql": "in an engine without a store, over a file",
        "billing/exports/check_parquet.sql": "in an engine without a store, over a file",
        "billing/facts_away.sql": scratch,
        "billing/held/effect.sql": scratch,
        "billing/invoicing/rederive.sql": scratch,
        "billing/invoicing/rederive_facts.sql": scratch,
        "collectors/kubernetes/state.sql": "SQLite",
        "collectors/slurm/runs.sql": "SQLite",
        "warehouse/schema_migrations.sql": "made as a migration is",
    }
    made = re.compile(r"^(CREATE|DROP|RENAME|EXCHANGE|TRUNCATE|ATTACH|DETACH)\b.*", re.M)
    found = set()
    for path in ROOT.glob("*/**/*.sql"):
        name = str(path.relative_to(ROOT))
        if name.split("/")[0] not in ("warehouse", "ingest", "billing", "alerts", "collectors", "dashboards", "api"):
            continue
        if "/migrations/" in name or "/upgrades/" in name or name == "ingest/spool_schema.sql":
            continue
        text = path.read_text()
        if made.search(text) and not re.search(r"ENGINE = (Memory|Set|\$engine)\b", text):
            found.add(name)
    assert found == elsewhere.keys()


@pytest.mark.parametrize(
    ("written", "run"),
    [
        ("SELECT a GLOBAL IN (1), a GLOBAL NOT IN (2)", "SELECT a IN (1), a NOT IN (2)"),
        ("SELECT a GLOBAL\n IN (1)", "SELECT a IN (1)"),
        (r"SELECT 'a GLOBAL IN b', 'it\'s GLOBAL IN', 'that''s GLOBAL IN'",) * 2,
        ('SELECT "a GLOBAL IN", `b GLOBAL IN` FROM c -- GLOBAL IN',) * 2,
        ("SELECT * FROM a GLOBAL JOIN b USING (c)",) * 2,
    ],
)
def test_in_one_place_global_in_is_in(written: str, run: str) -> None:
    assert in_one_place(written) == run


def test_one_server_filters_by_sets_before_it_reads(store: Store) -> None:
    asked = "SELECT sum(utilization) AS used FROM samples WHERE batch GLOBAL IN (SELECT batch FROM ingest_batches)"
    plan = [row["explain"] for row in store.rows(f"EXPLAIN actions = 1 {asked}")]
    assert any("Prewhere filter column" in line and "batch" in line for line in plan), plan
