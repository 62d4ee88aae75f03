"""The store: one client, typed parameters, one holder, a schema that can be applied again."""

from __future__ import annotations

import errno
import os
import re
import shutil
import subprocess
import sys
from contextlib import closing
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest
from clickhouse_connect.driver import _backendclient
from clickhouse_connect.driver.exceptions import DatabaseError

from tests.conftest import REPO
from tests.draws import dice_of
from tests.patience import PATIENCE_SECONDS
from tests.stores import fresh_store
from warehouse.errors import StoreError, StoreHeldError
from warehouse.records import RECORD_TYPES
from warehouse.sql import without_comments
from warehouse.store import (
    NOT_OPENED,
    Store,
    _hold,
    _store_errors,
    identifier,
    migrate,
    migrations,
    open_store,
    split_statements,
)

NASTY = 'o\'brien \\ "研发" \t\n -- ; DROP TABLE samples {x:String} %s'


def test_migrations_are_numbered_without_gaps() -> None:
    """From 101: those up to 30 are of before the first release (warehouse/upgrades)."""
    assert [number for number, _, _ in migrations()] == list(range(101, 101 + len(migrations())))


OPAQUE = re.compile(r"(^|_)(told|tells?|said|says?|kept|stated|quiet|lately|news|lent|together|sightings?)(_|$)")
"""Words that name nothing (docs/glossary.md). told_otherwise stands in sorting keys, which cannot be renamed."""


def test_names_of_tables_views_and_columns_are_words_of_the_field(store: Store) -> None:
    rows = store.rows("SELECT table, name FROM system.columns WHERE database = currentDatabase()")
    names = {name for row in rows for name in row.values()} - {"told_otherwise"}
    assert [name for name in sorted(names) if OPAQUE.search(name)] == []


def test_every_table_says_what_a_row_is_and_where_it_comes_from(store: Store) -> None:
    sql = (
        "SELECT name, comment FROM system.tables "
        "WHERE database = currentDatabase() AND engine LIKE '%MergeTree' AND name != 'schema_migrations'"
    )
    for row in store.rows(sql):
        assert row["comment"].startswith("One row: "), row["name"]
        assert "Source: " in row["comment"], row["name"]


def test_migrating_again_applies_nothing(store: Store) -> None:
    assert migrate(store) == []


def test_a_migration_cut_short_is_run_again(tmp_path: Path) -> None:
    with open_store(f"chdb://{tmp_path}/store") as store:
        first = split_statements(migrations()[0][2])
        store.command(first[0])  # A kill after the first statement: the number is not yet noted.
        assert migrate(store) == [name for _, name, _ in migrations()]


def test_a_schema_newer_than_the_program_is_refused(store: Store) -> None:
    store.command("INSERT INTO schema_migrations (number, name) VALUES (9999, 'of_tomorrow')")
    with pytest.raises(StoreError, match=r"migration 9999.*newer.*Upgrade gpuledger"):
        migrate(store)


def test_every_fact_has_a_table_with_the_columns_of_its_record_type(store: Store) -> None:
    for record in RECORD_TYPES.values():
        columns = [row["name"] for row in store.rows(f"DESCRIBE {identifier(record.name)}")]
        assert [column.name for column in record.columns] == columns[: len(record.columns)]


def test_values_travel_as_parameters_whatever_they_contain(store: Store) -> None:
    at = datetime(2026, 10, 25, 0, 59, 59, 999000, tzinfo=UTC)
    (row,) = store.rows(
        "SELECT {text:String} AS text, {at:DateTime64(3, 'UTC')} AS at, {many:Array(String)} AS many, "
        "{price:Decimal(18, 9)} AS price, {none:Nullable(String)} AS none",
        {"text": NASTY, "at": at, "many": [NASTY, ""], "price": Decimal("2.123456789"), "none": None},
    )
    assert row == {"text": NASTY, "at": at, "many": [NASTY, ""], "price": Decimal("2.123456789"), "none": None}


def test_a_naive_time_is_refused(store: Store) -> None:
    with pytest.raises(ValueError, match="naive"):
        store.rows("SELECT {at:DateTime64(3, 'UTC')}", {"at": datetime(2026, 10, 1)})  # noqa: DTZ001


def sample(at: list[int], batch: int) -> pa.Table:
    return pa.table(
        {
            "ts": pa.array([1_790_000_000_000 + second * 1000 for second in at], pa.timestamp("ms", "UTC")),
            "interval_seconds": [60.0] * len(at),
            "device_id": [NASTY] * len(at),
            "state": ["ok"] * len(at),
            "utilization": [0.5] * len(at),
            "batch": pa.array([batch] * len(at), pa.uint64()),
        }
    )


def test_a_batch_sent_again_changes_nothing_in_the_table_and_its_view_target(store: Store) -> None:
    for _ in range(3):
        store.insert("samples", sample([0, 60, 7200], batch=1), token="one")
    assert store.value("SELECT count() AS n FROM samples") == 3
    assert store.rows("SELECT sum(rows) AS n, uniqExact(hour) AS hours FROM touched_hours") == [{"n": 3, "hours": 2}]


def test_samples_that_differ_in_content_are_both_kept_and_equal_ones_collapse(store: Store) -> None:
    store.insert("samples", sample([0, 0, 60], batch=1))
    store.insert("samples", sample([60, 120], batch=2))
    store.command("OPTIMIZE TABLE samples FINAL")
    assert store.value("SELECT count() AS n FROM samples") == 3


def test_a_sample_on_the_hour_touches_the_hour_that_it_ends(store: Store) -> None:
    hour = 1_790_000_000 // 3600 * 3600 + 3600
    store.insert("samples", sample([hour - 1_790_000_000], batch=1))
    (row,) = store.rows("SELECT toUnixTimestamp(hour) AS hour, reach_ms, shortest_ms, longest_ms FROM touched_hours")
    assert row == {"hour": hour - 3600, "reach_ms": 0, "shortest_ms": 60000, "longest_ms": 60000}


def test_a_second_process_is_told_who_holds_the_store(tmp_path: Path) -> None:
    url = f"chdb://{tmp_path}/store"
    with open_store(url):
        result = subprocess.run(
            [sys.executable, "-m", "gpuledger", "init", "--store", url], capture_output=True, text=True, check=False
        )
    assert result.returncode == 2
    assert f"held by process {os.getpid()} on " in result.stderr
    assert "Traceback" not in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1
    with open_store(url):  # The lock went with its holder.
        pass


def test_the_holder_of_a_store_is_named_with_its_port(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only four words of its command were named: `up --port`, and the next step asks for that port."""
    command = ["python", "gpuledger", "up", "--store", f"chdb://{tmp_path}", "--port", "8123"]
    monkeypatch.setattr(Path, "read_text", lambda *_, **__: "\0".join([*command, ""]))
    with closing(_hold(tmp_path)), pytest.raises(StoreHeldError, match=rf"\({' '.join(command)}\); an embedded store"):
        _hold(tmp_path)


def test_a_store_held_by_this_process_is_held_for_it_too(tmp_path: Path) -> None:
    with open_store(f"chdb://{tmp_path}/store"), pytest.raises(StoreHeldError, match="held by process"):
        open_store(f"chdb://{tmp_path}/store")


def test_a_store_that_was_copied_without_its_links_is_refused_with_what_to_do(tmp_path: Path) -> None:
    fresh_store(tmp_path / "store").close()
    shutil.copytree(tmp_path / "store", tmp_path / "copy")  # what a link leads to, in its place
    asked = [sys.executable, "-m", "gpuledger", "verify", "--store", f"chdb://{tmp_path}/copy"]
    done = subprocess.run(asked, cwd=REPO, capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=False)
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1].endswith(NOT_OPENED)


def test_another_connection_sees_the_same_store_and_does_not_wait(store: Store) -> None:
    with store.another() as other:
        store.insert("samples", sample([0], batch=1))
        assert other.value("SELECT count() AS n FROM samples") == 1
    assert store.value("SELECT count() AS n FROM samples") == 1


def test_conditions_that_name_an_instant_leave_nothing_in_the_engine(store: Store) -> None:
    store.command("CREATE TABLE numbered ENGINE = MergeTree ORDER BY n AS SELECT number AS n FROM numbers(20000)")
    kept = "SELECT value FROM system.metrics WHERE metric = 'QueryConditionCacheEntries'"
    before = store.value(kept)
    for at in range(5):
        store.value("SELECT count() FROM numbered WHERE n % 7 = {at:UInt64}", {"at": 10 + at})
    assert store.value(kept) == before


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("sqlite:///x", "not a store"),
        ("chdb://relative/path", "absolute path"),
        (
            "clickhouse://user:secret@127.0.0.1:1/db",
            r"db: cannot be reached: Connection refused\. Does ClickHouse run there",
        ),
    ],
)
def test_a_url_that_cannot_be_opened_says_so_without_the_password(url: str, says: str) -> None:
    with pytest.raises(StoreError, match=says) as caught:
        open_store(url)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    "error",
    [
        DatabaseError("Code: 243. DB::Exception: Cannot reserve 1.00 MiB, not enough space. (NOT_ENOUGH_SPACE)"),
        DatabaseError("Code: 75. DB::Exception: Cannot write to file x: No space left on device. (CANNOT_WRITE)"),
        OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)),
    ],
    ids=["no room for a part", "while it wrote", "before it began"],
)
def test_a_full_disk_is_one_and_no_server_that_is_away(store: Store, error: Exception) -> None:
    with pytest.raises(StoreError) as caught, _store_errors(store.url):
        raise error
    said = r"(not enough space|No space left on device).*\. Free some space on its disk; gpuledger retention shows what"
    assert re.search(said, str(caught.value)) and "reached" not in str(caught.value)


def test_statements_are_split_where_semicolons_count() -> None:
    text = "SELECT ';' -- a comment; not an end\n; SELECT `a;b`, 'it''s; \\'', 5 - 3 ;\n-- done;\n"
    assert split_statements(text) == ["SELECT ';'", "SELECT `a;b`, 'it''s; \\'', 5 - 3"]


def test_a_statement_without_its_comments_is_the_same(store: Store) -> None:
    """Also where a text, a name or a block looks like one; on the same lines, which a refusal counts."""
    text = (
        "-- a; 'b\nSELECT 'it''s -- no; comment', '\\' -- nor this', -- but this; isn't\n"
        "  7 - 5 AS `--`, // c; 'd\n  '# e' AS \"# f\" # g; \"h"
    )
    bare = without_comments(text)
    assert bare == ("\nSELECT 'it''s -- no; comment', '\\' -- nor this', \n  7 - 5 AS `--`, \n  '# e' AS \"# f\" ")
    whole = store._client.query(text)
    assert store.rows(text) == store.rows(bare) == list(whole.named_results())
    assert whole.result_rows == [("it's -- no; comment", "' -- nor this", 2, "# e")]
    with pytest.raises(StoreError, match="line 2, col 2"):
        store.rows("SELECT 1, -- one\n )")


@pytest.mark.parametrize(
    ("text", "row"),
    [
        ("SELECT ‘ -- ’\n, ' ’, 7, ‘ '", (" -- ", " ’, 7, ‘ ")),
        ("SELECT 1 AS “ -- ”\n, 2", (1, 2)),
        ("SELECT 1 /* /* */ + 1 -- */\n+ 2", (3,)),
        ("SELECT $a$ -- $a$\n, 2 -- b", (" -- ", 2)),
        ("WITH 1 AS a$b$ SELECT a$b$, ' $b$ -- '", (1, " $b$ -- ")),
    ],
)
def test_a_statement_in_other_quotes_is_left_as_it_is(store: Store, text: str, row: tuple[object, ...]) -> None:
    """As found: what such quotes hold was taken for a comment, and what followed them for text, or text for code."""
    assert without_comments(text) == text
    assert [tuple(one.values()) for one in store.rows(text)] == [row]


def test_random_texts_mean_the_same_without_comments(store: Store) -> None:
    dice, pieces = (
        dice_of(None),
        [*"'\"`;,\\ -/#!*$‘’“”", "--", "//", "/*", "*/", "# ", "#!", "''", "\\'", "$a$", "\n", "1", " AS a", "x"],
    )
    texts = [
        "SELECT 1, " + "".join(dice.choices(pieces, k=dice.randint(1, 14))) + dice.choice(["", "\n", "\n+ 1"])
        for _ in range(20_000)
    ]
    differ = store.rows(
        "SELECT one.1 AS text FROM (SELECT arrayJoin(arrayZip({texts:Array(String)}, {bare:Array(String)})) AS one) "
        "WHERE formatQueryOrNull(one.1) IS NOT NULL "
        "AND formatQueryOrNull(one.1) IS DISTINCT FROM formatQueryOrNull(one.2)",
        {"texts": texts, "bare": [without_comments(text) for text in texts]},
    )
    assert differ == []
    assert sum(without_comments(text) != text for text in texts) > 1000


def test_the_client_takes_a_statement_apart_once(store: Store) -> None:
    """If this fails after clickhouse-connect was upgraded, see whether it still reads each word of a query
    (warehouse/engine.py): 6 ms for the longest of a page."""
    read = vars(_backendclient)["_query_is_read_only"].cache_info
    misses, hits = read().misses, read().hits
    for _ in range(3):
        assert store.value("WITH 4711 AS a, 1147 AS b SELECT a + b AS c") == 5858
    assert (read().misses, read().hits) == (misses + 1, hits + 2)


@pytest.mark.parametrize("name", ["x; DROP TABLE y", "a b", "", "1a", "a-b"])
def test_only_a_plain_identifier_becomes_sql(name: str) -> None:
    with pytest.raises(ValueError, match="not an identifier"):
        identifier(name)


@pytest.mark.parametrize(("kind", "count"), [("UInt64", 140_000), ("String", 80_000)])
def test_a_list_of_any_length_finds_what_is_in_it(own_store: Store, kind: str, count: int) -> None:
    """As found: the engine did not come to an end with so many, and with it the close after a week without one."""
    own_store.command(f"CREATE TABLE listed (value {kind}, other UInt8) ENGINE = MergeTree ORDER BY other")
    own_store.command(f"INSERT INTO listed SELECT to{kind}(number), 1 FROM numbers(200000)")
    given = [str(one) if kind == "String" else one for one in range(100, 100 + count)]
    sql = (
        "SELECT count() AS n FROM listed WHERE value {not_}IN {given:Array(KIND)} AND value {not_}IN {few:Array(KIND)}"
    )
    for not_, known in (("", 1), ("NOT ", 200_000 - count)):
        asked = sql.replace("{not_}", not_).replace("KIND", kind)
        for few in (given[:1], given):
            expected = count if few is given and not not_ else known
            assert own_store.value(asked, {"given": given, "few": few}) == expected
    own_store.command(
        f"ALTER TABLE listed DELETE WHERE value IN {{given:Array({kind})}} SETTINGS mutations_sync = 2",
        {"given": given[:5]},
    )
    assert own_store.value("SELECT count() AS n FROM listed") == 199_995
