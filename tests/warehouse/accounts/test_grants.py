"""What each account's grants let through: the real engine, which asks for them as a server does."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from ingest.targets import insert_sql, quarantine_sql
from tests.conftest import REPO
from tests.draws import seldom
from tests.warehouse.accounts.as_account import Asked, account, answers, asked_as, config_for, copied
from warehouse.accounts.declaration import (
    AGENT_RECORDS,
    ALERTS,
    AUDIT,
    BENEATH,
    LIMITS,
    READABLE,
    SECRET,
    VIEWS,
    Account,
    accounts,
)
from warehouse.records import RECORD_TYPES
from warehouse.sql import text_literal

ACCESS_DENIED, READONLY, CONSTRAINT, PROHIBITED, QUOTA_EXCEEDED = 497, 164, 452, 392, 201
READERS = {
    "gpuledger_reader": READABLE,
    "gpuledger_auditor": (*READABLE, *AUDIT),
    "gpuledger_grafana": (*VIEWS, *BENEATH, *ALERTS),
}
PARAMETERS = {"DateTime64": "2026-10-02 00:00:00", "UInt32": "1", "String": "x", "Float64": "1"}


@pytest.fixture(scope="module")
def everything(books: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Each table and view of the books: how it is made."""
    with asked_as(None, books, tmp_path_factory.mktemp("all")) as admin:
        rows = answers(admin, "SELECT name, create_table_query FROM system.tables WHERE database = 'gpuledger'")
        return {name: made for name, made in rows if not made.startswith("CREATE MATERIALIZED VIEW")}


@pytest.fixture(scope="module", params=READERS)
def reading(
    books: Path, tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Iterator[tuple[str, Asked]]:
    folder = tmp_path_factory.mktemp(request.param)
    with asked_as(account(request.param), copied(books, folder), folder) as asked:
        yield request.param, asked


def of(name: str, made: str) -> str:
    """As a statement names it: a view that wants parameters gets some."""
    wanted = {what: PARAMETERS[kind] for what, kind in re.findall(r"\{(\w+):(\w+)[^}]*\}", made)}
    given = ", ".join(f"{what} = '{value}'" for what, value in wanted.items())
    return f"gpuledger.{name}" + (f"({given})" if given else "")


def test_every_table_is_in_one_list(everything: dict[str, str]) -> None:
    lists = [*READABLE, *AUDIT, *SECRET]
    assert sorted(lists) == sorted(set(lists))
    assert set(everything) - set(lists) == set(), "readable, audit, or secret? See warehouse/accounts/declaration.py"
    assert set(lists) - set(everything) <= set(SECRET)


def test_a_reader_reads_what_it_was_given_and_nothing_else(
    everything: dict[str, str], reading: tuple[str, Asked]
) -> None:
    name, asked = reading
    codes = {table: asked.code(f"SELECT * FROM {of(table, made)} LIMIT 1") for table, made in everything.items()}
    assert {table for table, code in codes.items() if code == 0} == set(READERS[name])
    assert {code for table, code in codes.items() if table not in READERS[name]} <= {ACCESS_DENIED}
    for table in set(everything) - set(READERS[name]):
        for statement in (
            f"SELECT count() FROM {table}",
            f"SELECT 1 FROM v_charges WHERE 'x' IN {table}",
            f"SELECT * FROM view(SELECT * FROM {table})",
            f"SELECT * FROM mergeTreeIndex('gpuledger', '{table}')",
            f"SELECT * FROM loop('gpuledger', '{table}')",
            f"DESCRIBE TABLE {table}",
            f"SHOW CREATE TABLE {table}",
        ):
            assert asked.code(statement) != 0, statement
        assert answers(asked, f"SELECT count() FROM system.tables WHERE name = '{table}'") == [[0]]
        assert answers(asked, f"SELECT count() FROM system.columns WHERE table = '{table}'") == [[0]]
    merged = answers(asked, "SELECT DISTINCT _table FROM merge('gpuledger', '^(audit|access_.*|saved_queries)$')"
                     ) if name == "gpuledger_auditor" else []  # fmt: skip
    assert {table for (table,) in merged} <= set(READERS[name])


@pytest.mark.parametrize(
    "statement",
    [
        "SELECT * FROM file('/etc/passwd', 'LineAsString')",
        "SELECT * FROM url('http://127.0.0.1:1/', 'LineAsString')",
        "SELECT * FROM remote('127.0.0.1', 'gpuledger', 'access_users')",
        "SELECT * FROM s3('http://127.0.0.1:1/bucket/key.csv', 'CSV')",
        "SELECT * FROM executable('true', 'TSV', 'a String')",
        "SELECT * FROM sqlite('/x.db', 't')",
        "SELECT * FROM postgresql('127.0.0.1:1', 'd', 't', 'u', 'p')",
        "SELECT * FROM mysql('127.0.0.1:1', 'd', 't', 'u', 'p')",
        "SELECT * FROM system.users",
        "SELECT * FROM system.grants",
        "SELECT * FROM system.row_policies",
        "INSERT INTO v_charges SELECT * FROM v_charges",
        "INSERT INTO closed_hours SELECT * FROM closed_hours",
        "INSERT INTO FUNCTION file('x.csv') SELECT 1",
        "ALTER TABLE ledger_entries DELETE WHERE 1",
        "DELETE FROM ledger_entries WHERE 1",
        "TRUNCATE TABLE ledger_entries",
        "DROP TABLE ledger_entries",
        "DROP VIEW v_charges",
        "OPTIMIZE TABLE ledger_entries",
        "CREATE TABLE gpuledger.mine (a UInt8) ENGINE = Memory",
        "CREATE TEMPORARY TABLE mine (a UInt8)",
        "CREATE VIEW gpuledger.mine AS SELECT 1",
        "CREATE FUNCTION mine AS x -> x",
        "CREATE DATABASE mine",
        "CREATE USER mine",
        "GRANT SELECT ON *.* TO default",
        "SET readonly = 0",
        "SYSTEM FLUSH LOGS",
        "SYSTEM SHUTDOWN",
        "BACKUP TABLE gpuledger.ledger_entries TO File('x')",
        "SELECT demangle('x')",
        "SELECT addressToSymbol(1)",
    ],
)
def test_a_reader_reaches_nothing_outside_and_changes_nothing(reading: tuple[str, Asked], statement: str) -> None:
    _, asked = reading
    assert asked.code(statement) in (ACCESS_DENIED, READONLY, 446), statement


def test_a_reader_chooses_settings_within_the_bounds_alone(reading: tuple[str, Asked]) -> None:
    _, asked = reading
    assert asked.code("SELECT 1 SETTINGS join_use_nulls = 1, max_execution_time = 55, max_block_size = 100") == 0
    for one in LIMITS:
        if one.most is not None:
            for value, refused in ((one.most, False), (1, False), (one.most + 1, True), (one.most * 1000, True)):
                code = asked.code(f"SELECT 1 FORMAT Null SETTINGS {one.name} = {value}")
                # So short a limit may end the statement itself: that is another code.
                assert (code == CONSTRAINT) is refused, (one.name, value, code)
            if one.name != "max_threads":
                assert asked.code(f"SELECT 1 SETTINGS {one.name} = 0") == CONSTRAINT, f"{one.name} = 0 is no limit"
        else:
            same = f"'{one.value}'" if isinstance(one.value, str) else str(one.value)
            other = {"throw": "'break'", "": "'x'"}.get(str(one.value)) or str(1 - min(int(one.value), 1))
            assert asked.code(f"SELECT 1 SETTINGS {one.name} = {same}") == 0, one.name
            assert asked.code(f"SELECT 1 SETTINGS {one.name} = {other}") in (CONSTRAINT, PROHIBITED), one.name
    for name in ("readonly", "allow_ddl"):
        assert asked.code(f"SET {name} = 1") in (READONLY, CONSTRAINT, PROHIBITED)


def test_a_quota_ends_what_a_user_asks_within_an_hour(books: Path, tmp_path: Path) -> None:
    reader = account("gpuledger_reader")
    assert reader.quota is not None
    few: Account = replace(reader, quota=replace(reader.quota, read_rows=5000))
    with asked_as(few, copied(books, tmp_path), tmp_path) as asked:
        # 2,232 rows each time. (Queries are counted by servers alone.)
        codes = [asked.code("SELECT count() FROM ledger_entries WHERE NOT ignore(*)") for _ in range(4)]
    assert codes == [0, 0, QUOTA_EXCEEDED, QUOTA_EXCEEDED]


def test_what_lies_beneath_the_views_is_what_they_read(everything: dict[str, str]) -> None:
    def read(name: str) -> set[str]:
        named = set(re.findall(r"\bgpuledger\.(\w+)", everything[name])) - {name}
        return {name}.union(*(read(one) for one in named)) if everything[name].startswith("CREATE VIEW") else {name}

    assert set().union(*(read(view) for view in VIEWS)) == set(VIEWS) | set(BENEATH)
    assert read("alerts") == set(ALERTS)


@seldom(6, "the server s process needs what its")
def test_the_server_s_process_needs_what_its_account_has_and_no_more(tmp_path: Path) -> None:
    """From the first migration to verified books, with a staged insert as on a server and a scratch database."""
    writer = account("gpuledger_writer")
    program = str(Path(__file__).parent / "life_of_a_store.py")
    (tmp_path / "config").mkdir()
    config = config_for(writer, tmp_path / "config", {})
    command = [sys.executable, program, str(tmp_path / "store"), str(config)]
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, timeout=240, cwd=REPO, env={"PYTHONPATH": str(REPO)}
    )
    assert (done.returncode, done.stdout) == (0, "96\n"), done.stderr[-3000:]
    with asked_as(writer, tmp_path / "store", tmp_path) as asked:
        for statement in (
            "SELECT * FROM system.users",
            "SELECT * FROM file('/etc/passwd', 'LineAsString')",
            "SELECT * FROM url('http://127.0.0.1:1', 'CSV')",
            "CREATE TABLE default.mine (a UInt8) ENGINE = Memory",
            "CREATE DATABASE other",
            "CREATE USER another",
            "GRANT SELECT ON gpuledger.* TO gpuledger_reader",
            "CREATE VIEW gpuledger.theirs DEFINER = someone SQL SECURITY DEFINER AS SELECT 1",
            "SYSTEM SHUTDOWN",
        ):
            assert asked.code(statement) != 0, statement
        assert asked.code("SELECT count() FROM system.parts") == 0


def test_an_agent_inserts_what_it_measures_and_reads_nothing(books: Path, tmp_path: Path) -> None:
    copied(books, tmp_path)
    lines = {
        "samples": '{"ts": "2026-11-01T00:10:00Z", "interval_seconds": 600, "cluster": "c1", "node": "n1", '
        '"device_id": "GPU-new", "state": "ok", "utilization": 0.5}',
        "metrics": '{"ts": "2026-11-01T00:10:00Z", "interval_seconds": 60, "device_id": "GPU-new", "metric": "m", '
        '"state": "ok", "value": 1}',
        "findings": '{"ts": "2026-11-01T00:10:00Z", "finding": "f", "severity": "warning"}',
        "devices": '{"ts": "2026-11-01T00:10:00Z", "device_id": "GPU-new", "model": "H100", "state": "available"}',
        "service_levels": '{"ts": "2026-11-01T00:10:00Z", "interval_seconds": 60, "service": "s", "metric": "m"}',
        "events": '{"ts": "2026-11-01T00:10:00Z", "allocation_id": "1", "event": "finished"}',
    }
    assert set(lines) == set(RECORD_TYPES)
    ours = account("gpuledger_agent")
    # The embedded engine has no input(): format() stands in for it, which wants more.
    more = replace(ours, grants=(*ours.grants, ("CREATE TEMPORARY TABLE", "*.*")))
    with asked_as(more, tmp_path / "store", tmp_path) as agent:
        for record in RECORD_TYPES.values():
            code = agent.code(_of_lines(insert_sql(record), lines[record.name]))
            assert code == (0 if record.name in AGENT_RECORDS else ACCESS_DENIED), record.name
        assert agent.code(_of_lines(quarantine_sql(), "not json")) == 0
    with asked_as(ours, tmp_path / "store", tmp_path) as agent:
        assert agent.code("EXPLAIN SELECT * FROM input('a String')") == 0
        acknowledged = "INSERT INTO ingest_batches (batch, record_type, rows_read) SELECT 7, 'samples', 1"
        assert agent.code(acknowledged) == 0
        for table in (*AGENT_RECORDS, "ingest_batches", "v_devices", "invoices", "schema_migrations"):
            assert agent.code(f"SELECT count() FROM {table}") == ACCESS_DENIED
        for statement in (
            "INSERT INTO closed_hours SELECT * FROM closed_hours",
            "ALTER TABLE samples DELETE WHERE 1",
            "DROP TABLE samples",
            "INSERT INTO touched_hours (hour) VALUES ('2026-10-01 00:00:00')",
        ):
            assert agent.code(statement) == ACCESS_DENIED, statement
    with asked_as(None, tmp_path / "store", tmp_path) as admin:
        for table in AGENT_RECORDS:
            assert answers(admin, f"SELECT count() FROM {table} WHERE batch = 7") == [[1]], table
        hours = "SELECT count() FROM {} WHERE hour = '2026-11-01 00:00:00'"
        assert answers(admin, hours.format("touched_hours")) != [[0]], "what follows from samples was not written"


def _of_lines(insert: str, lines: str) -> str:
    """An agent's statement with its parameters and the lines in it."""
    for name, value in (("record:String", "'samples'"), ("source:String", "'c1/n1'"), ("batch:UInt64", "7")):
        insert = insert.replace("{" + name + "}", value)
    head, form = insert.rsplit("FORMAT ", 1)
    head = re.sub(
        r"input\(('.*')\)", lambda found: f"format({form.strip()}, {found[1]}, {text_literal(lines)})", head, flags=re.S
    )
    return head + "SETTINGS date_time_input_format = 'best_effort', input_format_skip_unknown_fields = 1"


def test_no_account_has_a_grant_on_everything() -> None:
    for one in accounts("gpuledger"):
        for privileges, on in one.grants:
            assert "ALL" not in privileges.split(", ")
            assert not on.startswith("*"), (one.name, on)
            assert on.split(".")[0] in ("gpuledger", "scratch_*", "gpuledger_tenants", "system")
    assert json.dumps([one.name for one in accounts("gpuledger")]).count("gpuledger_") == 6
