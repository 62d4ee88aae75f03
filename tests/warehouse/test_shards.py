"""A store on a ClickHouse cluster of two shards, over one engine (shards_over_http.py).

That statements need nothing that a shard lacks is shown by test_empty_shard.py. What several nodes show is for
`make cluster-test` (docs/storage.md).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from access.scope import table_filters
from billing.close import close
from dashboards.data_version import AnswerCache
from ingest.write import forget
from tests.billing.facts import devices, job, put, samples
from tests.billing.hand_ledger import at
from tests.draws import seldom
from tests.gpuledger.running import run
from tests.warehouse.cluster_over_http import CLUSTER
from tests.warehouse.engine_over_http import serving
from tests.warehouse.life import NOVEMBER_9, life
from tests.warehouse.shards_over_http import ShardsServer
from warehouse.cluster import BY_SHARD, SHARDED, Nodes, catch_up_shards, check_cluster, on_cluster
from warehouse.errors import LedgerError
from warehouse.records import RECORD_TYPES
from warehouse.store import ServerStore, migrate, migrations, open_store, split_statements


@pytest.fixture(scope="module")
def shards(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, ShardsServer]]:
    with serving(tmp_path_factory.mktemp("shards"), ShardsServer) as (url, server):
        assert isinstance(server, ShardsServer)
        yield url, server


@pytest.fixture(scope="module")
def sharded(shards: tuple[str, ShardsServer]) -> Iterator[ServerStore]:
    with open_store(shards[0]) as store:
        assert isinstance(store, ServerStore)
        migrate(store, CLUSTER)
        yield store


def test_what_grows_with_samples_is_of_a_shard_and_all_else_of_all_nodes() -> None:
    nodes, seen = Nodes("gpu-prod", in_shards=True), set()
    for _, name, text in migrations():
        for statement in split_statements(text):
            made = on_cluster(statement, nodes, "books")
            about = {table for table in SHARDED if re.search(rf"\b{table}(_local)?\b", statement.split("(")[0])}
            for one in made:
                if engine := re.search(r"ENGINE = Replicated\w+\('([^']*)', '([^']*)'", one):
                    of_shard = any(f"CREATE TABLE IF NOT EXISTS {table}_local ON" in one for table in SHARDED)
                    assert ("/{shard}/books/" in engine[1]) is of_shard is bool(about), name
                    assert engine[2] == ("{replica}" if of_shard else "{shard}-{replica}"), name
                if one.startswith("CREATE MATERIALIZED VIEW") and "ingest_batches" not in one:
                    assert not re.search(rf"\b(TO|FROM) ({'|'.join(SHARDED)})\b", one), "of its shard"
            if statement.startswith("CREATE TABLE") and about:
                seen |= about
                _, whole = made
                (table,) = about
                assert whole.startswith(
                    f"CREATE TABLE IF NOT EXISTS {table} ON CLUSTER `gpu-prod` AS {table}_local ENGINE"
                )
                assert f"Distributed('gpu-prod', 'books', '{table}_local'" in whole and "COMMENT 'One row" in whole
    assert seen == SHARDED.keys()


@pytest.mark.parametrize(
    "statement", ["DROP TABLE samples", "INSERT INTO samples SELECT 1", "EXCHANGE TABLES samples AND a"]
)
def test_a_migration_of_a_sharded_table_of_a_new_kind_is_no_surprise(statement: str) -> None:
    with pytest.raises(ValueError, match="of a sharded table so far"):
        on_cluster(statement, Nodes(CLUSTER, in_shards=True), "gpuledger")


@pytest.mark.timeout(1800)
@seldom(6, "a life on two shards")
def test_a_life_on_two_shards_is_that_on_one_server(sharded: ServerStore) -> None:
    assert sharded.in_shards
    here = life(sharded)
    halves = [sharded.value(f"SELECT count() AS n FROM samples_shard{n}") for n in (1, 2)]
    assert min(halves) > 0, "both shards have some"
    assert sharded.value("SELECT count() AS n FROM samples") == sum(halves)
    devices_of = [
        {row["d"] for row in sharded.rows(f"SELECT DISTINCT device_id AS d FROM samples_shard{n}")} for n in (1, 2)
    ]
    assert not devices_of[0] & devices_of[1], "a device is on one shard"
    with sharded.another("on_one_server") as plain:
        migrate(plain)
        assert not plain.in_shards
        there = life(plain)
    for (step, found), (_, expected) in zip(here, there, strict=True):
        for what, (one, other) in enumerate(zip(found, expected, strict=True)):
            assert one == other, (step, what)


def test_a_batch_that_is_sent_again_is_dropped_on_both_shards(sharded: ServerStore) -> None:
    import pyarrow as pa

    rows = pa.table({
        "ts": pa.array([at("2026-10-20 10:00")] * 8, pa.timestamp("ms", "UTC")), "interval_seconds": [60.0] * 8,
        "cluster": ["again"] * 8, "device_id": [f"d{n}" for n in range(8)], "state": ["ok"] * 8,
        "utilization": [0.5] * 8,
    })  # fmt: skip
    for _ in range(2):
        sharded.insert("samples", rows, token="one-batch")
    assert sharded.value("SELECT count() AS n FROM samples WHERE cluster = 'again'") == 8
    asked = "SELECT sum(samples) AS n FROM stream_hours WHERE hour = '2026-10-20 09:00:00'"
    assert sharded.value(asked) == 8, "and so is what views make of it"


def test_what_shards_are_asked_by(sharded: ServerStore) -> None:
    """Inserts are done when all shards have them, and what is selected for a statement is selected once."""
    with sharded.another() as other, sharded.another("beside") as beside:
        for store in (sharded, other, beside):
            settings = {name: store._client.get_client_setting(name) for name in BY_SHARD}
            assert settings == {name: str(value) for name, value in BY_SHARD.items()}
        assert (other.in_shards, beside.in_shards, beside.reads_shards) == (True, False, True)


def test_long_parameters_arrive(sharded: ServerStore) -> None:
    """Those of a month's hours are too long for an address."""
    hours = [1_790_812_800 + 3600 * n for n in range(744)]
    assert sharded.value("SELECT length({hours:Array(UInt32)}) AS n", {"hours": hours}) == 744
    sharded.command("CREATE TABLE long_parameters (hour UInt32) ENGINE = Memory")
    sharded.command("INSERT INTO long_parameters SELECT arrayJoin({hours:Array(UInt32)})", {"hours": hours})
    assert sharded.value("SELECT count() AS n FROM long_parameters") == 744
    sharded.command("DROP TABLE long_parameters")


def test_a_tenant_sees_samples_of_its_own_on_all_shards(sharded: ServerStore) -> None:
    put(sharded, "devices", devices("2026-10-01 00:00", *(f"t{n}" for n in range(6))))
    for n in range(6):
        put(sharded, "events", job(f"t{n}", ("ann", "bob")[n % 2], f"t{n}", "2026-10-25 10:00", "2026-10-25 11:00"))
    put(sharded, "samples", [row for n in range(6) for row in samples(f"t{n}", "2026-10-25 10:00", range(3))])
    close(sharded, *NOVEMBER_9)
    filters = table_filters(sharded, frozenset({"ann"}))
    for table in ("samples", "samples_local"):
        asked = f"SELECT groupUniqArray(device_id) AS seen FROM {table} WHERE startsWith(device_id, 't')"
        seen = sharded.value(f"{asked} SETTINGS additional_table_filters = {filters}")
        assert set(seen) == ({"t0", "t2", "t4"} if table == "samples" else set()), (
            "a shard's own are asked for by nobody"
        )
    assert sharded.value(f"SELECT count() AS n FROM stream_hours SETTINGS additional_table_filters = {filters}") == 0
    # A shard that is asked has no database of the connection.
    assert "'samples_local': '(cluster, device_id) IN (SELECT cluster, device_id FROM gpuledger.allocations " in filters


def test_pages_notice_what_comes_to_any_shard(sharded: ServerStore) -> None:
    cache = AnswerCache()
    put(sharded, "samples", [row for n in range(6) for row in samples(f"h{n}", "2026-10-28 08:00", [1])])
    before = cache.parts(sharded)
    put(sharded, "samples", [row for n in range(6) for row in samples(f"h{n}", "2026-10-28 10:00", [1])])
    after = cache.parts(sharded)
    assert before and after and before.keys() >= {"samples", "stream_hours", "touched_hours"}
    changed = {name for name in after if sorted(after[name]) != sorted(before.get(name, ()))}
    assert changed >= {"samples", "stream_hours", "touched_hours"}


def test_a_batch_that_is_taken_back_goes_from_all_shards(sharded: ServerStore) -> None:
    asked = "SELECT count() AS n FROM samples WHERE cluster = 'back'"
    rows = [{**row, "cluster": "back"} for n in range(6) for row in samples(f"h{n}", "2026-10-29 10:00", range(3))]
    put(sharded, "samples", rows, source="to be taken back")
    assert sharded.value(asked) == 18
    batch = sharded.value("SELECT any(batch) AS batch FROM samples WHERE cluster = 'back'")
    forget(sharded, RECORD_TYPES["samples"], batch)
    assert sharded.value(asked) == 0
    assert sharded.value("SELECT count() AS n FROM touched_hours WHERE batch = {batch:UInt64}", {"batch": batch}) == 0


def test_commands_on_shards(sharded: ServerStore, tmp_path: Path) -> None:
    url = sharded._full_url
    assert "schema is up to date, on all nodes of cluster c" in run(f"init --store {url}").output
    found = run(f"doctor --store {url} --cluster --format json")
    assert [(node["node"], node["shard"]) for node in json.loads(found.stdout)] == [("127.0.0.1", 1), ("localhost", 2)]
    refused = run(f"backup file:///backups/gpuledger --store {url}")
    assert "is on several shards, which this does not back up" in str(refused.exception)
    assert run(f"retention --store {url}").exit_code == 0


def test_init_prints_what_it_would_run_on_shards(shards: tuple[str, ShardsServer]) -> None:
    done = run("init --dry-run --cluster c --shards --accounts")
    assert done.exit_code == 0
    statements = split_statements(done.stdout)
    for statement in statements:
        shards[1].parsed(statement)
    assert len([one for one in statements if "ENGINE = Distributed(" in one]) == len(SHARDED)
    reader = next(one for one in statements if one.startswith("GRANT") and "TO gpuledger_reader_role" in one)
    assert "SELECT ON gpuledger.samples_local" in reader
    with pytest.raises(LedgerError, match="--shards is about --dry-run with --cluster"):
        raise run("init --shards --store chdb://memory").exception or AssertionError


@pytest.mark.parametrize(
    ("shards", "macros", "why"),
    [
        ("<internal_replication>true</internal_replication>", "<replica>r</replica>", "has no macro {shard}"),
        ("", "<replica>r</replica><shard>s</shard>", "a shard does not replicate by itself"),
    ],
)
def test_a_cluster_that_shards_would_not_fit_is_refused(shards: str, macros: str, why: str) -> None:
    rows = {
        "clustered/nodes": [{"shard_num": n, "internal_replication": int(bool(shards))} for n in (1, 2)],
        "clustered/macros": [{"macro": name} for name in re.findall(r"<(\w+)>", macros)],
    }

    class Node:
        url, database = "clickhouse://db1/gpuledger", "gpuledger"

        def rows(self, sql: str, *_: object, **__: object) -> list[dict[str, Any]]:
            return rows["clustered/macros" if "system.macros" in sql else "clustered/nodes"]

    with pytest.raises(LedgerError, match=re.escape(why)):
        check_cluster(Node(), "c")


def test_whoever_decides_waits_for_all_nodes_that_answer() -> None:
    asked: list[str] = []

    class Node:
        url, database = "clickhouse://db1/gpuledger", "gpuledger"
        late = ("db3",)
        up = ("db1", "db2", "db4")

        def rows(self, sql: str, *_: object, **__: object) -> list[dict[str, Any]]:
            asked.append(sql)
            if "system.replicas" in sql:
                return [{"table": "samples_local"}]
            if sql.startswith("SYSTEM SYNC REPLICA"):
                return [{"host": f"db{n}", "status": None if f"db{n}" in self.late else 0} for n in (1, 2, 3, 4)]
            return [{"host_name": name} for name in self.up]

    node, nodes = Node(), Nodes("c", in_shards=True)
    catch_up_shards(node, nodes)
    assert "SYSTEM SYNC REPLICA ON CLUSTER c samples_local LIGHTWEIGHT" in asked
    node.late = ("db3", "db4")
    with pytest.raises(LedgerError, match="db4 answers, and does not have yet what its shard has"):
        catch_up_shards(node, nodes)
