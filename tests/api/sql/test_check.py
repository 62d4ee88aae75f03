"""Statements on the real engine: their answers, limits and formats. What they may name is in test_statement."""

from __future__ import annotations

import io
import zlib
from collections.abc import Iterator

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from access.principal import Principal
from access.roles import Role
from api.sql import formats
from api.sql.compress import compressed, decompressed, negotiated
from api.sql.engine import Engine, Question
from api.sql.errors import SqlError
from api.sql.limits import Limits, settings_of
from api.sql.statement import Statement
from tests.draws import seldom
from tests.stores import fresh_store

ANALYST = Principal("ann", frozenset({Role.analyst}))
ROWS = 250_000
MANY = f"SELECT number AS n, toString(number % 7) AS s FROM numbers({ROWS})"


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    with fresh_store(tmp_path_factory.mktemp("store")) as store:
        store.command("INSERT INTO audit (at, actor, action) VALUES (now64(3), 'secret-actor', 'x')")
        yield Engine(store, Limits(seconds=10, rows=300_000, memory_bytes=300_000_000))


def ask(engine: Engine, text: str, format: str = "TSV", who: Principal = ANALYST, **settings: str) -> bytes:
    params = {"a": "4", "t": "access_tokens"}
    with engine.ask_blocking(who, Question(text, format, settings, params)) as (_, pieces):
        return b"".join(pieces)


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("SELECT 1", "1\n"),
        ("select count() from v_charges -- a comment\n;", "0\n"),
        ("WITH a AS (SELECT 1 AS x) SELECT sumIf(x, x > 0), quantileExactIf(0.5)(x, 1) FROM a", "1\t1\n"),
        ("SELECT arrayMap(x -> x + 1, [1, 2])", "[2,3]\n"),
        ("SELECT {a:UInt8} + 1", "5\n"),
        ("SELECT 1 UNION ALL SELECT 1", "1\n1\n"),
        ("SELECT 1 INTERSECT SELECT 1", "1\n"),
        ("SELECT count() FROM numbers(10) WHERE number IN (1, 2)", "2\n"),
        ("SELECT count() FROM v_charges WHERE tenant IN (SELECT tenant FROM v_invoices)", "0\n"),
        ("SELECT 'quoted '' ; DROP TABLE samples', \"x\" FROM (SELECT 2 AS x)", "quoted \\' ; DROP TABLE samples\t2\n"),
        (
            "SELECT case when 1 then 2 end, exists(select 1), 1 between 0 and 2, 'a' like 'b', 1::String",
            "2\t1\t1\t0\t1\n",
        ),
        ("SELECT count() FROM (VALUES (1, 2), (3, 4))", "2\n"),
        ("EXISTS TABLE ledger", "1\n"),
        ("SELECT 1 AS x FORMAT JSONEachRow", '{"x":1}\n'),
        ("SELECT 1 AS x FORMAT JSONEachRow;", '{"x":1}\n'),
    ],
)
def test_what_analysts_ask_is_answered(engine: Engine, text: str, answer: str) -> None:
    assert ask(engine, text).decode() == answer


@pytest.mark.parametrize(
    "text",
    ["SHOW TABLES", "SHOW TABLES FROM gpuledger LIKE 'v_%'", "SHOW DATABASES", "DESCRIBE TABLE v_charges",
     "SHOW CREATE TABLE v_charges", "EXPLAIN SELECT * FROM v_charges", "SELECT version(), timezone()",
     "SELECT name, value, readonly FROM system.settings", "SELECT name FROM system.columns LIMIT 3",
     "SELECT * FROM information_schema.tables LIMIT 3", "SELECT * FROM v_energy ORDER BY hour LIMIT 1 BY pool"],
)  # fmt: skip
def test_what_clients_ask_about_the_schema_is_answered(engine: Engine, text: str) -> None:
    ask(engine, text)


ENDLESS = (
    "SELECT count() FROM system.numbers WHERE sipHash64(number) = 1",
    "SELECT * FROM numbers(10000000)",
    "SELECT count() FROM numbers(10000000) AS a, numbers(10000000) AS b WHERE a.number + b.number = 7",
    "WITH RECURSIVE r AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM r) SELECT count() FROM r",
    "SELECT groupArray(number) FROM numbers(100000000)",
    "SELECT " + "(" * 3000 + "1" + ")" * 3000,
    "SELECT " + "1+" * 100_000 + "1",
    "SELECT '" + "x" * 300_000 + "'",
    "SELECT 1; SELECT 2",
    "",
    ";",
    "SELECT",
    "nonsense",
    "SELECT 1 FORMAT Template",
    "SELECT range(100000000)",
)


@seldom(5, "SQL that would take too much")
@pytest.mark.parametrize("text", ENDLESS)
def test_what_would_take_too_much_is_refused_with_a_reason(engine: Engine, text: str) -> None:
    with pytest.raises(SqlError) as refused:
        ask(engine, text)
    assert refused.value.text().startswith(f"Code: {refused.value.code}. DB::Exception: ")


def test_a_closed_table_is_not_there_even_where_the_check_lets_a_statement_through(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "api.sql.statement.checked", lambda text, allowed: Statement(text, "", True, False, frozenset(), True, text)
    )
    with pytest.raises(SqlError, match="UNKNOWN_TABLE"):
        ask(engine, "SELECT * FROM audit")
    with pytest.raises(SqlError, match=r"readonly|not supported|syntax|two ways"):
        ask(engine, "INSERT INTO samples (cluster) SELECT 'x'")


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"output_format_schema": "x"}, "cannot be changed here"),
        ({"additional_table_filters": "x"}, "cannot be changed here"),
        ({"format_schema_path": "x"}, "cannot be changed here"),
        ({"log_comment": "x"}, "cannot be changed here"),
        ({"session_timezone": "x', readonly = '0"}, "an invalid value"),
        ({"max_threads": "many"}, "must be a number"),
    ],
)
def test_a_setting_that_could_do_harm_is_refused(asked: dict[str, str], said: str) -> None:
    with pytest.raises(SqlError, match=said):
        settings_of(asked, Limits(), False)


@given(st.one_of(st.floats(allow_nan=False), st.integers()).map(str))
def test_no_value_lifts_a_limit(value: str) -> None:
    limits = Limits()
    for name, limit in (("max_execution_time", limits.seconds), ("max_memory_usage", limits.memory_bytes)):
        try:
            chosen = settings_of({name: value}, limits, False)[name]
        except SqlError:
            continue
        assert isinstance(chosen, int)
        assert 0 < chosen <= limit


def test_a_setting_that_changes_the_looks_is_taken(engine: Engine) -> None:
    asked = ask(engine, "SELECT 18446744073709551615 AS n", "JSONEachRow", output_format_json_quote_64bit_integers="1")
    assert asked == b'{"n":"18446744073709551615"}\n'
    assert (
        ask(engine, "SELECT value FROM system.settings WHERE name = 'max_execution_time'", max_execution_time="1")
        == b"1\n"
    )


@pytest.mark.parametrize("format", ["ArrowStream", "Arrow", "Parquet"])
def test_an_answer_of_many_pieces_is_one_document_of_arrow(engine: Engine, format: str) -> None:
    data = ask(engine, MANY, format)
    read = {
        "ArrowStream": lambda: pa.ipc.open_stream(data).read_all(),
        "Arrow": lambda: pa.ipc.open_file(data).read_all(),
        "Parquet": lambda: pq.read_table(io.BytesIO(data)),
    }[format]()
    assert (read.num_rows, sum(read["n"].to_pylist())) == (ROWS, ROWS * (ROWS - 1) // 2)


@pytest.mark.parametrize("format", sorted(formats.JOINED | formats.HEADED | formats.ARROW | formats.WHOLE))
def test_every_format_takes_times_amounts_and_what_is_unknown(engine: Engine, format: str) -> None:
    """As our views have them. Pretty formats and Null answer text or nothing; what else is empty was not written."""
    columns = (
        "toDateTime64('2026-10-25 00:30:00', 3, 'UTC') AS t, toDecimal128('1.5', 9) AS d, NULL::Nullable(String) AS n"
    )
    assert ask(engine, f"SELECT {columns}", format) or format == "null"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("SELECT tenant FROM v_charges LIMIT 1 WITH TIES", "WITH TIES without ORDER BY"),
        ("SELECT 1e400", "failed at position 13"),
        ("SELECT tenant FROM v_charges OFFSET 1 ROW FETCH FIRST 1 ROWS ONLY", "without ORDER BY"),
    ],
)
def test_what_the_engine_does_not_take_is_said_of_the_statement_alone(engine: Engine, text: str, says: str) -> None:
    with pytest.raises(SqlError) as refused:
        ask(engine, text)
    assert says in refused.value.text()
    assert "formatQuery" not in refused.value.text()
    assert refused.value.status == 400


@pytest.mark.parametrize(
    ("format", "heading"),
    [("TSV", 0), ("CSV", 0), ("JSONEachRow", 0), ("CSVWithNames", 1), ("TSVWithNamesAndTypes", 2),
     ("JSONCompactEachRowWithNames", 1)],
)  # fmt: skip
def test_an_answer_of_many_pieces_has_its_heading_once(engine: Engine, format: str, heading: int) -> None:
    assert ask(engine, MANY, format).count(b"\n") == ROWS + heading
    assert ask(engine, "SELECT 1 AS a WHERE 0", format).count(b"\n") == heading


def test_an_answer_without_rows_is_a_whole_document(engine: Engine) -> None:
    assert pa.ipc.open_stream(ask(engine, "SELECT 1 AS a WHERE 0", "ArrowStream")).read_all().num_rows == 0
    assert pq.read_table(io.BytesIO(ask(engine, "SELECT 1 AS a WHERE 0", "Parquet"))).column_names == ["a"]


@pytest.mark.parametrize("encoding", ["zstd", "lz4", "gzip", "br", "deflate"])
def test_a_statement_is_read_whole_and_nothing_may_follow_it(encoding: str) -> None:
    frame = zlib.compress(b"a") if encoding == "deflate" else b"".join(compressed(iter([b"a"]), encoding))
    assert decompressed(frame, encoding, 10) == "a"
    if encoding != "deflate":
        assert decompressed(frame * 3, encoding, 10) == "aaa"
    for wrong in (frame[:-1], *(frame + more for more in (b"\n", bytes(1000), b"x" * 9000))):
        with pytest.raises(SqlError, match=f"truncated or damaged {encoding}, or goes on after its end"):
            decompressed(wrong, encoding, 10)


@pytest.mark.parametrize("encoding", ["zstd", "lz4", "gzip", "br", ""])
def test_every_codec_gives_back_what_went_in_however_many_pieces(encoding: str) -> None:
    pieces = [f"{number}\n".encode() * 1000 for number in range(200)]
    packed = b"".join(compressed(iter(pieces), encoding))
    assert decompressed(packed, encoding, 10_000_000).encode() == b"".join(pieces)
    assert decompressed(b"".join(compressed(iter([b"a", b"b"]), encoding)), encoding, 10) == "ab"
    if encoding:
        with pytest.raises(SqlError):
            decompressed(packed[: len(packed) // 2], encoding, 10_000_000)
        with pytest.raises(SqlError):
            decompressed(packed, encoding, 1000)


def test_the_best_encoding_that_is_accepted_is_taken() -> None:
    assert negotiated("gzip, deflate, br, zstd") == "zstd"
    assert negotiated("gzip;q=1.0, lz4;q=0") == "gzip"
    assert negotiated("identity") == negotiated("") == ""
