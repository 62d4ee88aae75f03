"""What people write runs as they wrote it, and what they may not reach stays closed: judged with the real engine, on a
plain connection that would let everything through."""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import chdb
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlglot import exp

from access.principal import ANYBODY, Principal
from access.roles import Role
from api.sql import functions
from api.sql.allowed import SECRET, TYPES, Allowed, Catalogue, allowed_function
from api.sql.checked_sql import RULES, CheckedSqlWriter
from api.sql.errors import READONLY, SqlError
from api.sql.grammar.statements import read
from api.sql.grammar.words import DEEPEST, MOST_TOKENS
from api.sql.statement import LONGEST, Statement, agreement_sql, checked
from tests.api.sql import attacks
from tests.api.sql.attacks import ATTACKS, CANARIES, CLASSES
from tests.api.sql.honest import CLIENTS, HONEST, PARAMS, SETUP
from tests.conftest import FLOORS, REPO
from tests.draws import ALL
from tests.stores import fresh_store
from warehouse.store import Store, split_statements

ANALYST = Principal("ann", frozenset({Role.analyst}))
MANY = settings(max_examples=1000 if ALL in os.environ else 80, deadline=None, suppress_health_check=list(HealthCheck))


@dataclass(frozen=True)
class Ground:
    """A store with canaries, and a connection to it that may do everything. secret, out: files."""

    store: Store
    allowed: Allowed
    connection: chdb.state.sqlitelike.Connection
    secret: Path
    out: Path

    def ask(self, text: str, params: dict[str, str] | None = None, format: str = "TSVWithNamesAndTypes") -> str:
        """The answer, or the engine's error."""
        try:
            answer = self.connection.query(text, format, params=params or {})
            return bytes(answer.bytes() or b"").decode("utf-8", "replace")
        except (chdb.ChdbError, RuntimeError) as error:
            return f"error: {error}"

    def disagreement(self, text: str, statement: Statement) -> str:
        """What the engine said of the two instead of 1; '' if it reads them alike."""
        answer = self.ask(agreement_sql(text, statement), format="TSV")
        return "" if answer == "1\n" else repr(answer[:500])

    def state(self) -> str:
        return self.ask(
            "SELECT name, total_rows, create_table_query FROM system.tables WHERE database = 'gpuledger' ORDER BY name"
        ) + self.ask("SELECT currentDatabase(), getSetting('readonly'), getSetting('max_execution_time')")


@pytest.fixture(scope="module")
def ground(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ground]:
    folder = tmp_path_factory.mktemp("ground")
    with fresh_store(folder / "store") as store:
        attacks.plant(store, folder / "secret")
        for text in SETUP:
            store.command(text)
        connection = chdb.connect(f"{folder}/store/engine")
        connection.query("USE gpuledger")
        connection.query("SET max_query_size = 100000000, max_execution_time = 20, max_result_rows = 100000")
        yield Ground(store, Catalogue(store).allowed(ANALYST), connection, folder / "secret", folder / "out")
        connection.close()


# What is closed


def reached(ground: Ground, text: str) -> str | None:
    """What came back of an attack; None: it was refused."""
    text = attacks.filled(text, ground.secret, ground.out)
    try:
        statement = checked(text, ground.allowed)
    except SqlError as refused:
        assert "\n" not in refused.what
        return None
    params = {name: attacks.filled(value, ground.secret, ground.out) for name, value in attacks.PARAMS.items()}
    return ground.ask(statement.text, params)


@pytest.mark.parametrize("name", CLASSES)
def test_no_attack_reaches_anything_closed(ground: Ground, name: str) -> None:
    before = ground.state()
    answers = {text: reached(ground, text) for text in CLASSES[name]}
    found = {text: answer for text, answer in answers.items() if answer and any(one in answer for one in CANARIES)}
    assert not found
    assert not ground.out.exists()
    assert ground.state() == before


def test_nearly_all_attacks_are_refused_before_the_engine_sees_them(ground: Ground) -> None:
    let_through = [text for text in ATTACKS if reached(ground, text) is not None]
    assert len(ATTACKS) > 2000
    assert len(let_through) < len(ATTACKS) / 50, let_through


@pytest.mark.parametrize("text", ["SELECT 1 IN other.x", "SELECT in(1, other.x)", "SELECT 1 GLOBAL NOT IN ((other.x))"])
def test_behind_in_no_database_is_named_but_the_store_s_own(ground: Ground, text: str) -> None:
    with pytest.raises(SqlError, match=r"other\.x is not one that you may read"):
        checked(text, ground.allowed)
    assert checked("SELECT other.x FROM t AS other", ground.allowed)
    assert checked(text.replace("other.x", "gpuledger.v_charges"), ground.allowed).tables == {"v_charges"}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("SELECT some_new_function(1)", "function some_new_function"),
        ("SELECT arrayMap(some_new_function, [1])", "function some_new_function"),
        ("SELECT arrayMap((some_new_function AS x), [1])", "function some_new_function"),
        ("SELECT * APPLY(some_new_function) FROM t", "function some_new_function"),
        ("SELECT arrayMap(FILE, ['x'])", "function FILE"),
        ("SELECT concat(file, 'x')", "function file"),
        ("WITH x -> x AS file SELECT 1, file('x')", "function file"),
        ("SELECT f(1) FROM (WITH x -> x AS f SELECT 1)", "function f "),
        ("WITH x -> x AS f SELECT (SELECT f(1))", "function f "),
        ("WITH x -> x AS f SELECT 1 UNION ALL SELECT f(1)", "function f "),
        ("SELECT arrayReduce('groupFormat', [1])", "plain aggregate"),
        ("SELECT arrayReduce(concat('su', 'm'), [1])", "plain aggregate"),
        ("SELECT arrayReduce('sum(file(1))', [1])", "plain aggregate"),
        ("SELECT a::AggregateFunction(groupFormat, UInt8) FROM t", "function groupFormat"),
        ("WITH access_users AS (SELECT 1) SELECT 2", "access_users is not one that you may read"),
        ("WITH access_users AS (SELECT 1) SELECT * FROM access_users", "access_users is not one that you may read"),
        ("SELECT 1 FROM t AS access_users", "access_users is not one that you may read"),
        ("SELECT access_users FROM t", "access_users is not one that you may read"),
        ("SELECT system.macros.macro", "system.macros is not one that you may read"),
        ("SELECT 1 IN system.tables", "only be read in FROM"),
        ("SELECT * FROM system.tables FINAL", "does not fit"),
        ("SELECT * FROM numbers(1), no_such", "no_such is not one that you may read"),
        ("SELECT * FROM v_charges(p = 1)", "table function v_charges"),
        ("SELECT * FROM audit(p = 1)", "table function audit"),
        ("SELECT {a:Array(Identifier)}", "type Identifier"),
        ("SELECT a::Foo FROM t", "type Foo"),
        ("SELECT 1 AS `a\\b`", "backslash"),
        ("SELECT 1 AS `a\nb`", "control character"),
        ("SHOW COLUMNS FROM access_users", "access_users is not one that you may read"),
        ("SHOW COLUMNS FROM t FROM system", r"system\.t is not one that you may read"),
        ("SHOW CREATE TABLE access_users", "access_users is not one that you may read"),
        ("DESCRIBE TABLE access_users", "access_users is not one that you may read"),
        ("SHOW TABLES WHERE 1", "found 'WHERE'"),
    ],
)
def test_each_rule_refuses_by_itself(ground: Ground, text: str, said: str) -> None:
    with pytest.raises(SqlError, match=said):
        checked(text, ground.allowed)


def test_a_node_or_word_without_a_rule_is_refused(ground: Ground) -> None:
    printer = CheckedSqlWriter(frozenset(), ground.allowed)
    for node in (exp.Command(this="x"), exp.Var(this="DROP TABLE"), exp.Star(except_=[exp.Star()]), exp.Hint()):
        with pytest.raises(SqlError, match="known to be harmless"):
            printer.print(node)


def test_without_the_check_the_attacks_would_reach_what_is_closed(ground: Ground) -> None:
    """The canaries sing: an attack that finds nothing is no proof otherwise."""
    reads = [attacks.filled(f"SELECT {read}", ground.secret, ground.out) for read in attacks.READS]
    found = [text for text in reads if any(one in ground.ask(text) for one in CANARIES)]
    assert len(found) >= 10, set(reads) - set(found)
    assert "canary-file" in ground.ask(f"SELECT * APPLY(file) FROM (SELECT '{ground.secret}' AS x)")


QUOTED = re.compile(r"""('(?:[^'\\]|\\.|'')*'|"[^"]*"|`[^`]*`|\$\$.*?\$\$|--[^\n]*|/\*.*?\*/)""", re.S)


def _swapped(text: str, number: int) -> str:
    case = (str.upper, str.lower, str.swapcase)[number % 3]
    return "".join(part if part.startswith(("'", "{")) else case(part) for part in re.split(r"('[^']*'|\{\w+\})", text))


def _commented(text: str, number: int) -> str:
    gaps = ("/**/", " /* ' */ ", "\n", "\t", " -- x\n", "  ", "\r\n", "/*`*/")
    return "".join(
        part
        if number_of_part % 2
        else re.sub(r"(?<=\w) (?=\w)", lambda at: gaps[(at.start() + number) % len(gaps)], part)
        for number_of_part, part in enumerate(QUOTED.split(text))
    )


def _wrapped(text: str, number: int) -> str:
    around = ("(%s)", "SELECT * FROM (%s)", "EXPLAIN %s", "WITH w AS (%s) SELECT * FROM w", "%s UNION ALL SELECT 1",
              "DESCRIBE (%s)", "%s FORMAT CSV", "SELECT (%s)", "SELECT 1 WHERE 1 IN (%s)", "%s;")  # fmt: skip
    return around[number % len(around)].replace("%s", text)


def _edited(text: str, number: int) -> str:
    """One character or word more, less, or other."""
    extra = ("`", "'", '"', "(", ")", ";", "--", "/*", "*/", "\\", "$$", "{", "}", ",", ".", " AS x ", " FINAL ", "\0")
    place = number % (len(text) + 1)
    kept = place + (number // 7) % 3
    return text[:place] + extra[number % len(extra)] + text[kept:]


MUTATIONS = (_swapped, _commented, _wrapped, _edited)
mutated = st.lists(st.tuples(st.sampled_from(MUTATIONS), st.integers(0, 10_000)), min_size=1, max_size=4)


def changed(text: str, mutations: list[tuple[object, int]]) -> str:
    for mutation, number in mutations:
        assert callable(mutation)
        text = mutation(text, number)
    return text


@MANY
@given(st.sampled_from(ATTACKS), mutated)
def test_no_mutation_of_an_attack_reaches_anything_closed(
    ground: Ground, text: str, mutations: list[tuple[object, int]]
) -> None:
    answer = reached(ground, changed(text, mutations)) or ""
    assert not any(one in answer for one in CANARIES), answer
    assert not ground.out.exists()


# What is open


def _same(ground: Ground, text: str, params: dict[str, str] = PARAMS) -> Statement:
    """Checks that what is printed is the text in other words: for the engine, for us, and in its answer."""
    statement = checked(text, ground.allowed)
    assert not ground.disagreement(text, statement), statement.asked
    assert checked(statement.asked, ground.allowed) == statement
    answer = ground.ask(statement.text, params, statement.format or "TSVWithNamesAndTypes")
    assert _rows(answer) == _rows(ground.ask(text, params)), "rows that an order leaves alike come in any"
    return statement


@pytest.mark.parametrize("text", HONEST)
def test_what_analysts_write_answers_the_same_when_printed(ground: Ground, text: str) -> None:
    _same(ground, text)
    assert not ground.ask(checked(text, ground.allowed).text, PARAMS).startswith("error"), ground.ask(text, PARAMS)


def _rows(answer: str) -> list[str]:
    """Without their order, and an error as such: it tells the text."""
    return ["error"] if answer.startswith("error") else sorted(answer.split("\n"))


@pytest.mark.parametrize(
    "text", ["SELECT 2 .`c d` FROM t", "SELECT 2 .1", "SELECT 1.5 .a", "SELECT -1 .a", "SELECT (1, 2).1"]
)
def test_a_point_behind_a_number_stays_what_it_is(ground: Ground, text: str) -> None:
    statement = checked(text, ground.allowed)
    assert checked(statement.asked, ground.allowed).asked == statement.asked
    assert "2.1" not in statement.asked and "2.`" not in statement.asked
    assert not ground.disagreement(text, statement) or ground.ask(text, PARAMS).startswith("error")


@MANY
@given(st.sampled_from(HONEST), mutated)
def test_a_mutation_is_refused_or_answers_the_same_when_printed(
    ground: Ground, text: str, mutations: list[tuple[object, int]]
) -> None:
    text = changed(text, mutations)
    try:
        statement = checked(text, ground.allowed)
    except SqlError:
        return
    assert checked(statement.asked, ground.allowed).asked == statement.asked
    if statement.rows and not ground.disagreement(text, statement):
        first = ground.ask(statement.text, PARAMS, statement.format or "TSVWithNamesAndTypes")
        second = ground.ask(text, PARAMS)
        assert _rows(first) == _rows(second)


@MANY
@given(st.sampled_from(HONEST), st.integers(0, 10_000))
def test_case_of_words_spaces_and_comments_mean_nothing(ground: Ground, text: str, number: int) -> None:
    written = _commented(text, number)
    assert checked(written, ground.allowed) == checked(text, ground.allowed)
    assert not ground.disagreement(written, checked(written, ground.allowed))


# Random statements, grown from a small grammar

columns = st.sampled_from(["a", "b", "f", "t.a", "length(c)", "length(e)", "g.x", "1", "2.5", "NULL", "{n:UInt8}"])


def _grown(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    two, three = st.tuples(inner, inner), st.tuples(inner, inner, inner)
    operators = st.sampled_from(
        ["+", "-", "*", "/", "%", "=", "!=", "<", ">=", "AND", "OR", "<=>", "IS DISTINCT FROM", "DIV", "NOT IN", "IN"]
    )
    return st.one_of(
        st.tuples(inner, operators, inner).map(
            lambda parts: f"{parts[0]} {parts[1]} " + (f"(1, {parts[2]})" if "IN" in parts[1][-2:] else parts[2])
        ),
        inner.map(lambda one: f"({one})"),
        inner.map(lambda one: f"- {one}"),
        inner.map(lambda one: f"NOT {one}"),
        inner.map(lambda one: f"{one} IS NOT NULL"),
        inner.map(lambda one: f"toString({one})::String = 'x'"),
        inner.map(lambda one: f"CAST(({one}) AS Nullable(Float64))"),
        inner.map(lambda one: f"arrayMap(x -> x + ({one}), [1, 2])[1]"),
        inner.map(lambda one: f"(SELECT max({one}) FROM t)"),
        inner.map(lambda one: f"(1, {one}).2"),
        inner.map(lambda one: f"sum({one}) OVER (PARTITION BY c)"),
        inner.map(lambda one: f"anyIf({one}, a > 3) OVER w"),
        two.map(lambda parts: f"{parts[0]} BETWEEN {parts[1]} AND 9"),
        two.map(lambda parts: f"CASE WHEN {parts[0]} THEN 1 ELSE {parts[1]} END"),
        two.map(lambda parts: f"coalesce({parts[0]}, {parts[1]})"),
        three.map(lambda parts: f"if({parts[0]}, {parts[1]}, {parts[2]})"),
        three.map(lambda parts: f"{parts[0]} ? ({parts[1]}) : ({parts[2]})"),
    )


expressions = st.recursive(columns, _grown, max_leaves=5)
endings = st.sampled_from(
    ["", " ORDER BY a", " ORDER BY a DESC LIMIT 3", " ORDER BY a LIMIT 1 BY c LIMIT 4",
     " QUALIFY row_number() OVER (ORDER BY a) < 5",
     " UNION ALL SELECT 1 AS x, 2 AS y FROM u"]
)  # fmt: skip


@MANY
@given(expressions, expressions, expressions, endings)
def test_a_random_statement_answers_the_same_when_printed(
    ground: Ground, one: str, two: str, where: str, ending: str
) -> None:
    text = f"SELECT {one} AS x, {two} y FROM t WHERE a < 12 AND isNotNull({where}) WINDOW w AS (ORDER BY a){ending}"
    statement = checked(text, ground.allowed)
    assert checked(statement.text, ground.allowed).text == statement.text
    if ground.ask("SELECT formatQuerySingleLine(unhex('" + text.encode().hex() + "'))").startswith("error"):
        return
    assert not ground.disagreement(text, statement), statement.text
    first, second = ground.ask(statement.text, PARAMS), ground.ask(text, PARAMS)
    assert _rows(first) == _rows(second)


# All that we send ourselves


def _templated(text: str) -> str:
    """A template of ours with names and tables in it."""
    text = re.sub(r"\{\w+:Identifier\}", "t", text.replace("$$", ""))
    text = re.sub(r"\(\s*\{\w+\}\s*\)|(?<=FROM|JOIN)\s*\(\s*\$\w+\s*\)", " (SELECT 1)", text)
    text = re.sub(r"(?<=SELECT)\s+\{(\w+)\}", r" a AS \1", text)
    return re.sub(r"\{(\w+)\}|\$\{?(\w+)\}?", "t", text)


def _panels(found: object) -> Iterator[str]:
    if isinstance(found, dict):
        for name, value in found.items():
            if name in ("rawSql", "query", "definition") and isinstance(value, str) and "SELECT" in value:
                yield value
            else:
                yield from _panels(value)
    elif isinstance(found, list):
        for value in found:
            yield from _panels(value)


def _as_grafana_sends(text: str) -> str:
    text = re.sub(r"\$__timeFilter\(([\w.]+)\)", r"(\1 >= toDateTime(1) AND \1 <= toDateTime(2))", text)
    text = re.sub(r"\$__timeInterval\(([\w.]+)\)", r"toStartOfInterval(toDateTime(\1), INTERVAL 60 second)", text)
    return re.sub(r"\$__(from|to)Time", "toDateTime(1)", re.sub(r"\$\{(\w+):singlequote\}", "'a','b'", text))


_WHOLE_PARTS = re.compile(
    r"\$(latest_closes|priced_hours|links|ledger_content|energy_content|found|published)\b|\$before\."
)
"""What stands for whole queries in a template, which are read by themselves; or for another database."""
OURS = {
    str(path.relative_to(REPO)): text
    for folder in FLOORS
    if folder != "warehouse"
    for path in sorted((REPO / folder).rglob("*.sql"))
    if not _WHOLE_PARTS.search(path.read_text(encoding="utf-8").replace("$$", ""))
    for text in split_statements(_templated(path.read_text(encoding="utf-8")))
    if text.split(None, 1)[0].upper() in ("SELECT", "WITH")
    and not re.search(r"\bSETTINGS\b|system\.(parts|mutations)|getSetting|json_extract", text)
}
COOKBOOK = re.findall(r"```sql\n(.*?)```", (REPO / "docs" / "sql.md").read_text(encoding="utf-8"), re.S)
PANELS = [
    _as_grafana_sends(text)
    for path in sorted((REPO / "deploy" / "grafana" / "dashboards").glob("*.json"))
    for text in _panels(json.loads(path.read_text(encoding="utf-8")))
]


class Anything(frozenset[str]):
    """All names."""

    def __contains__(self, name: object) -> bool:
        return True

    def __and__(self, other: object) -> frozenset[str]:  # type: ignore[override]
        return frozenset(other) if isinstance(other, set) else frozenset()


def test_the_engine_reads_every_statement_of_ours_as_it_was_written(ground: Ground) -> None:
    everything = Allowed("gpuledger", Anything(), frozenset(), Anything())
    assert (len(OURS) > 200, len(COOKBOOK), len(PANELS) > 20) == (True, 20, True)
    wrong = {}
    for name, text in {**OURS, **dict(enumerate([*COOKBOOK, *PANELS]))}.items():
        try:
            statement = checked(text, everything)
        except SqlError as refused:
            wrong[name] = str(refused)
            continue
        if said := ground.disagreement(text, statement):
            wrong[name] = f"{said}, and asked again {ground.disagreement(text, statement) or 1}: {statement.asked}"
    assert not wrong


@pytest.mark.parametrize("text", CLIENTS)
def test_what_clients_ask_is_answered(ground: Ground, text: str) -> None:
    statement = checked(text, ground.allowed)
    assert not ground.disagreement(text, statement)
    assert ground.ask(statement.text, format="TSV") not in ("", "error")
    assert not ground.ask(statement.text).startswith("error"), ground.ask(statement.text)


def test_explore_asks_for_nothing_that_is_refused(ground: Ground) -> None:
    for path in (REPO / "dashboards" / "pages" / "explore" / "examples").glob("*.sql"):
        _same(ground, path.read_text(encoding="utf-8"))


# What a statement says of itself


def test_a_statement_tells_its_format_its_tables_and_its_kind(ground: Ground) -> None:
    text = "WITH w AS (SELECT * FROM gpuledger.t) SELECT a FROM w, v_charges WHERE a IN u FORMAT CSV"
    statement = checked(text, ground.allowed)
    assert (statement.format, statement.rows, statement.totals) == ("CSV", True, False)
    assert statement.tables == {"t", "u", "v_charges"}
    assert "FORMAT" not in statement.text
    assert checked("SELECT c FROM t GROUP BY c WITH TOTALS", ground.allowed).totals
    kinds = ("SHOW TABLES", "DESCRIBE t", "EXISTS t", "EXPLAIN SELECT 1", "SHOW CREATE TABLE t", "SHOW COLUMNS FROM t")
    assert not any(checked(kind, ground.allowed).rows for kind in kinds)


def test_only_the_tables_that_may_be_read_are_listed(ground: Ground) -> None:
    listed = ground.ask(checked("SHOW TABLES", ground.allowed).text, format="TSV").split()
    assert "v_charges" in listed
    assert set(listed) == ground.allowed.tables
    assert not set(listed) & ground.allowed.closed
    for text in ("SELECT name FROM system.tables", "SELECT table_name FROM INFORMATION_SCHEMA.Tables"):
        assert set(ground.ask(checked(text, ground.allowed).text, format="TSV").split()) == ground.allowed.tables
    for text in (
        "SELECT DISTINCT table FROM system.columns",
        "SELECT DISTINCT table_name FROM information_schema.columns",
    ):
        assert set(ground.ask(checked(text, ground.allowed).text, format="TSV").split()) <= ground.allowed.tables


@pytest.mark.parametrize("name", ["audit", "access_users", "no_such_table", "gpuledger.audit"])
def test_what_may_not_be_read_is_not_there(ground: Ground, name: str) -> None:
    assert ground.ask(checked(f"EXISTS TABLE {name}", ground.allowed).text, format="TSV") == "0\n"


def test_the_audit_is_for_those_who_may_see_it(ground: Ground) -> None:
    finance = Catalogue(ground.store).allowed(Principal("f", frozenset({Role.finance})))
    assert ground.ask(checked("SELECT actor FROM audit", finance).text, format="TSV") == "canary-auditor\n"
    with pytest.raises(SqlError, match="not one that you may read"):
        checked("SELECT actor FROM audit", ground.allowed)


def test_whoever_may_do_all_may_still_not_read_secrets(ground: Ground) -> None:
    allowed = Catalogue(ground.store).allowed(ANYBODY)
    for table in SECRET:
        with pytest.raises(SqlError, match="not one that you may read"):
            checked(f"SELECT * FROM {table}", allowed)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("SELEC 1", "expected SELECT, SHOW.*, found 'SELEC' at line 1, column 1$"),
        ("SELECT 'ü'\n  FROM )", r"found '\)' at line 2, column 8$"),
        ("SELECT 1 +", "found the end"),
        ("SELECT a FROM t WHERE", "found the end"),
        ("SELECT a FROM\nt WHERE )", r"'\)' at line 2"),
        ("SELECT 'a", "not closed"),
        ("DROP TABLE t", "reads only"),
        ("SELECT 1 SETTINGS max_threads = 1", "parameters of the URL"),
        ("SELECT file('x')", "the function file is not allowed"),
        ("SELECT * FROM url('x')", "the table function url is not allowed"),
        ("SELECT * FROM audit", "table audit is not one that you may read"),
        ("SELECT {x:Identifier}", "names anything"),
        ("SELECT 1; SELECT 2", "is not expected|expected the end"),
        ("", "an empty statement"),
        (" ; ", "an empty statement"),
        ("SELECT '\ud800'", "not UTF-8"),
    ],
)
def test_a_refusal_says_why_in_one_line(ground: Ground, text: str, said: str) -> None:
    with pytest.raises(SqlError, match=said) as refused:
        checked(text, ground.allowed)
    assert "\n" not in str(refused.value)


def test_a_write_is_refused_as_such_whatever_it_brings_along(ground: Ground) -> None:
    with pytest.raises(SqlError) as refused:
        checked("INSERT INTO samples FORMAT Native \0\1\2" + "x" * 300_000, ground.allowed)
    assert refused.value.code == READONLY


# Limits

LEVELS = (
    "(",
    "[",
    "sum(",
    "CASE WHEN 1 THEN ",
    "(SELECT ",
    "x -> ",
    "NOT (",
    "a[",
    "INTERVAL (",
    "sum(1) OVER (ORDER BY ",
)
PIECES = (
    "1 + ", "1, ", "NOT ", "- ", "1 UNION ALL SELECT ", "'a', ", "a AS b, ", "1 ? 2 : ", "a IN ", "{a:Int8}, ", "a.",
    "(", "[", "f(", "CASE ", "x -> ", "'", '"', "`", "$", "$a$", "/*", "/**/", "--\n", "\\", " ", "é", "INTERVAL ",
    "a::Int8 ", "* EXCEPT (a) ", "a FROM t JOIN ", "a FROM t, ", "a[1]", "WITH ", "0x", "9", "1_", "\\x41", "a ",
    "GROUP ", ";", "{",
)  # fmt: skip


@pytest.mark.parametrize("piece", LEVELS)
def test_what_is_nested_too_deep_is_refused_with_a_line(ground: Ground, piece: str) -> None:
    for times in (DEEPEST + 1, 1000, 9_000):
        with pytest.raises(SqlError) as refused:
            checked("SELECT " + piece * times + "1", ground.allowed)
        assert re.search(r"nested more than|words and signs", refused.value.what)


@pytest.mark.parametrize("piece", PIECES)
def test_no_text_takes_longer_than_its_length_allows(ground: Ground, piece: str) -> None:
    """Seconds of this thread alone, on whatever machine: a reading that tries twice would take days."""
    for times in (
        MOST_TOKENS // len(piece.split()) // 2 if piece.split() else LONGEST // 2,
        LONGEST // len(piece.encode()),
    ):
        text = ("SELECT " + piece * times)[: LONGEST - 1] + "1"
        before = time.thread_time()
        try:
            checked(text, ground.allowed)
        except SqlError as refused:
            assert len(str(refused)) < 500
        assert time.thread_time() - before < 4


def test_a_long_text_is_refused(ground: Ground) -> None:
    with pytest.raises(SqlError, match="262,144 bytes"):
        checked("SELECT '" + "x" * 262_144 + "'", ground.allowed)
    ids = ", ".join(f"'{number}'" for number in range(9_000))
    assert checked(f"SELECT count() FROM t WHERE c IN ({ids})", ground.allowed).rows


@MANY
@given(st.text(alphabet=st.one_of(st.sampled_from("SELECT FROM t()[]{}'\"`,.;:-+*/\\$#@\0\n"), st.characters())))
def test_any_text_is_a_statement_or_refused(ground: Ground, text: str) -> None:
    for start in ("", "SELECT ", "SELECT 1 FROM "):
        try:
            checked(start + text, ground.allowed)
        except SqlError:
            continue


# The lists


def test_every_function_of_the_engine_is_known(ground: Ground) -> None:
    """A new engine has new functions: read what they do, then sort them into api/sql/functions.py."""
    names = {line.lower() for line in ground.ask("SELECT name FROM system.functions", format="TSV").split()}
    known = functions.AGGREGATES | functions.ORDINARY | functions.REFUSED
    assert names <= known
    assert not functions.REFUSED & (functions.AGGREGATES | functions.ORDINARY)
    aggregates = set(ground.ask("SELECT lower(name) FROM system.functions WHERE is_aggregate", format="TSV").split())
    assert aggregates >= functions.AGGREGATES
    combinators = set(ground.ask("SELECT lower(name) FROM system.aggregate_function_combinators", format="TSV").split())
    assert combinators == set(functions.COMBINATORS)
    takers = set(ground.ask("SELECT lower(name) FROM system.functions WHERE higher_order", format="TSV").split())
    assert takers & functions.ORDINARY == functions.HIGHER_ORDER


def test_no_refused_function_is_let_in_by_a_combinator_or_its_letters() -> None:
    assert not [name for name in functions.REFUSED if allowed_function(name) or allowed_function(name.upper())]
    assert not [
        name for name in functions.REFUSED if any(allowed_function(name + one) for one in functions.COMBINATORS)
    ]
    assert allowed_function("quantileExactIfOrNull")
    assert not allowed_function("sum" + "if" * 100_000)


def test_every_type_is_the_engines_and_none_names_a_table(ground: Ground) -> None:
    engine = ground.ask("SELECT lower(name) FROM system.data_type_families", format="TSVRaw").split("\n")
    assert not TYPES - set(engine)
    assert not TYPES & {"identifier", "set"}


def test_no_column_of_ours_has_the_name_of_a_refused_function(ground: Ground) -> None:
    columns = ground.ask(
        "SELECT DISTINCT lower(name) FROM system.columns WHERE database = 'gpuledger'", format="TSV"
    ).split()
    assert not set(columns) & functions.REFUSED


def test_every_kind_of_node_of_every_honest_statement_has_a_rule() -> None:
    for text in (*HONEST, *CLIENTS):
        tree, _ = read(text)
        assert {type(node) for node in tree.walk()} <= set(RULES)


@pytest.mark.parametrize("before", ["SELECT ", "SELECT 'ü', ", "SELECT '\U0001f600' AS a, ", "SELECT 1, -- ü\n  "])
def test_a_word_that_is_not_understood_is_said_with_its_column(before: str) -> None:
    line, column = before.count("\n") + 1, len(before.rpartition("\n")[2]) + 1
    with pytest.raises(SqlError, match=f"'ŧenant' at line {line}, column {column} is not understood"):
        read(f"{before}ŧenant FROM v_charges")
