"""Whether a statement may run, and what runs: printed from the checked tree, never the submitted text.

Pure, without an engine. `agreement_sql` is the second guard, which the engine answers: that its own reading of the text
that came is the same as of what was printed, so that a statement never runs as something else than was meant.
"""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp

from api.sql.allowed import Allowed
from api.sql.checked_sql import CheckedSqlWriter
from api.sql.errors import SYNTAX_ERROR, SqlError
from api.sql.grammar.nodes import Explain, Show
from api.sql.grammar.statements import read, refuse_verb

LONGEST = 262_144
"""Bytes of a text."""


@dataclass(frozen=True)
class Statement:
    """text:  what runs, one statement without its FORMAT.
    format:   that it named; empty: none.
    rows:     whether it is a SELECT, whose answer streams; else SHOW, DESCRIBE, EXISTS or EXPLAIN.
    totals:   whether a WITH TOTALS is in it.
    tables:   of the database, that it names; not the names that it defines itself.
    of_schema: whether it asks what tables there are, and so may name any.
    asked:    as it was asked, with its FORMAT and before the system's tables were cut: for `agreement_sql` alone.
    """

    text: str
    format: str
    rows: bool
    totals: bool
    tables: frozenset[str]
    of_schema: bool
    asked: str


def checked(text: str, allowed: Allowed) -> Statement:
    """The one statement of a text, if it may be run. Errors: SqlError with the reason, in one line."""
    refuse_verb("".join(text.lstrip()[:20].upper().split(maxsplit=1)[:1]))  # first: an INSERT may bring data along
    try:
        size = len(text.encode())
    except UnicodeEncodeError as error:
        raise SqlError(SYNTAX_ERROR, "the text is not UTF-8") from error
    if size > LONGEST:
        raise SqlError(SYNTAX_ERROR, f"a statement of more than {LONGEST:,} bytes")
    if "\0" in text:
        raise SqlError(SYNTAX_ERROR, "the text has a null byte in it")
    tree, format_ = read(text)
    defined = frozenset(one.args["alias"].name for one in tree.find_all(exp.CTE))
    asked = CheckedSqlWriter(defined, allowed)
    printed = asked.print(tree)
    return Statement(
        text=CheckedSqlWriter(defined, allowed, answering=True).print(tree) if asked.of_schema else printed,
        format=format_,
        rows=not isinstance(tree, Show | Explain),
        totals=asked.totals,
        tables=frozenset(asked.tables),
        of_schema=asked.of_schema,
        asked=f"{printed} FORMAT {format_}" if format_ else printed,
    )


def agreement_sql(text: str, statement: Statement) -> str:
    """A question to the engine: 1 if it reads the text that came as it reads what was printed of it, else 0.

    It fails with the engine's own syntax error for a text that the engine does not take. Up to nine times as long as
    the text, which `max_query_size` has to allow.
    """
    ours, theirs = (f"unhex('{one.encode().hex()}')" for one in (statement.asked, text))
    return f"SELECT ifNull(formatQuerySingleLineOrNull({ours}) = formatQuerySingleLine({theirs}), 0)"
