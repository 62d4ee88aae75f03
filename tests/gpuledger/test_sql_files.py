"""SQL is in .sql files, each with a header; what may stand in a module (CONTRIBUTING, The house) is one plain line."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

import pytest

from tests.access.test_errors import text_of
from tests.conftest import FLOORS, REPO
from warehouse.store import split_statements

WRITERS_OF_SQL = (
    "access/scope.py",  # the rows that a tenant may see, as conditions of a setting of the engine
    "api/sql",  # the grammar of what people send, and what is printed from it
    "bench/closing.py",  # names, after its clause, a statement that it compares with
    "bench/sql_doors.py",  # what people might send
    "warehouse/accounts",  # roles and grants, printed for a server's administrator as well
)
"""Modules whose subject is SQL."""
PUTS_IN = {"identifier", "text_literal", "instant_literal"}
"""Functions of warehouse.sql: what they return may stand in a statement."""
STATEMENT = re.compile(
    r"\s*\(*(SELECT |WITH \w+ AS |INSERT (INTO|OR) |DELETE FROM |UPDATE \w+ SET "
    r"|(CREATE|ALTER|DROP|ATTACH|DETACH|EXCHANGE|RENAME|TRUNCATE|OPTIMIZE|BACKUP|RESTORE|GRANT|KILL) [A-Z{])"
)
READS_OR_WRITES = re.compile(r"\s*(SELECT|INSERT|DELETE|UPDATE|WITH)\b")
PART = re.compile(
    r"\b(SELECT\b.*\bFROM\b|FROM [a-z_{(]|WHERE |(GROUP|ORDER) BY |UNION ALL \S|JOIN |VALUES \()", re.DOTALL
)
COMPOSES = re.compile(r"\b(JOIN|UNION|GROUP BY|HAVING)\b|;|\bSELECT\b.*\bSELECT\b", re.DOTALL)


def sql_in_module(text: str) -> Iterator[tuple[int, str]]:
    """Each statement, or part of one, that a module may not have: its line, and why not."""
    tree = ast.parse(text)
    told = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    told |= {id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in node.values}
    added = {id(side) for node in ast.walk(tree) if isinstance(node, ast.BinOp) for side in (node.left, node.right)}
    for node in ast.walk(tree):
        if not isinstance(node, ast.Constant | ast.JoinedStr) or id(node) in told:
            continue
        sql = text_of(node)
        if not isinstance(sql, str):
            continue
        if not STATEMENT.match(sql):
            if PART.search(sql):
                yield node.lineno, "a part of a statement"
        elif node.end_lineno != node.lineno or "\n" in sql:
            yield node.lineno, "longer than a line"
        elif COMPOSES.search(sql):
            yield node.lineno, "more than one table"
        elif id(node) in added:
            yield node.lineno, "put together"
        elif READS_OR_WRITES.match(sql) and isinstance(node, ast.JoinedStr):
            for value in (part.value for part in node.values if isinstance(part, ast.FormattedValue)):
                if not (isinstance(value, ast.Call) and getattr(value.func, "id", "") in PUTS_IN):
                    yield node.lineno, f"puts in {ast.unparse(value)}"


FOLDERS = (*FLOORS, "bench")
SHOWN = REPO / "dashboards" / "pages" / "explore" / "examples"
"""Statements that people see without a header, below a title of theirs."""
FILES = [path for folder in FOLDERS for path in sorted((REPO / folder).rglob("*.sql")) if path.parent != SHOWN]


@pytest.mark.parametrize("folder", FOLDERS)
def test_a_statement_stands_in_a_module_only_if_it_is_one_plain_line(folder: str) -> None:
    modules = {path: str(path.relative_to(REPO)) for path in sorted((REPO / folder).rglob("*.py"))}
    assert modules
    found = [
        f"{name}:{line}: {why}"
        for path, name in modules.items()
        if not name.startswith(WRITERS_OF_SQL)
        for line, why in sql_in_module(path.read_text(encoding="utf-8"))
    ]
    assert found == []


@pytest.mark.parametrize(
    ("module", "why"),
    [
        ("store.rows('SELECT a FROM t ' 'WHERE b = 1')", None),
        ("store.rows('SELECT a FROM t '\n  'WHERE b = 1')", "longer than a line"),
        ('store.rows("""\nSELECT a FROM t""")', "longer than a line"),
        ("store.rows('SELECT a FROM t JOIN u USING (b)')", "more than one table"),
        ("store.rows('SELECT a FROM t WHERE b IN (SELECT b FROM u)')", "more than one table"),
        ("store.rows('SELECT a, count() FROM t GROUP BY a')", "more than one table"),
        ("store.rows('SELECT a FROM t WHERE ' + which)", "put together"),
        ("store.rows(f'SELECT a FROM {identifier(t)}')", None),
        ("store.rows(f'SELECT a FROM t WHERE {which}')", "puts in which"),
        ("which = 'a IN (SELECT a FROM t)'", "a part of a statement"),
        ("store.command(f'DROP TABLE {name}')", None),
        ("connection.execute('PRAGMA journal_mode = WAL')", None),
        ("'SELECT a FROM t' 'GROUP BY a'", None),
        ("raise LedgerError(where, 'cannot be read here', 'SELECT from it')", None),
    ],
)
def test_what_is_no_plain_line(module: str, why: str | None) -> None:
    assert [found for _, found in sql_in_module(module)] == ([why] if why else [])


def test_every_sql_file_has_a_header_which_says_of_what_answers_rows_what_one_row_is() -> None:
    assert len(FILES) > 450
    headers = {path: re.match(r"(--.*\n)*", path.read_text(encoding="utf-8"))[0] for path in FILES}  # type: ignore[index]
    assert [str(path) for path, header in headers.items() if not header] == []
    for path, header in headers.items():
        statements = split_statements(path.read_text(encoding="utf-8"))
        if len(statements) == 1 and re.match(r"SELECT|WITH", statements[0]):
            assert "One row:" in header, path


@pytest.mark.parametrize("folder", ["alerts/rules", "billing/insights", "billing/invoicing"])
def test_a_header_names_the_parameters(folder: str) -> None:
    for path in [path for path in FILES if str(path.relative_to(REPO)).startswith(folder)]:
        text = path.read_text(encoding="utf-8")
        header = "\n".join(line for line in text.splitlines() if line.startswith("--"))
        if path.name != "covered_turn.sql":  # its parameters are covered.sql's
            for name in re.findall(r"\{(\w+):(?!Identifier)|(?<!\$)\$(\w+)", text):
                assert re.search(rf"\b{''.join(name)}\b", header), (path, name)
