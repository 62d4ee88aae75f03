"""Statements: SELECT, SHOW, DESCRIBE, EXISTS and EXPLAIN."""

from __future__ import annotations

from sqlglot import exp
from sqlglot.tokenizer_core import TokenType

from api.sql.errors import READONLY, SqlError
from api.sql.grammar.cursor import Dialect
from api.sql.grammar.nodes import Explain, Phrase, Show, phrase, word
from api.sql.grammar.queries import Queries
from api.sql.grammar.words import EXPLAIN_SETTINGS, EXPLAINED, VERBS


class Statements(Queries):
    def read(self, text: str) -> tuple[exp.Expression, str]:
        """The tree of the one statement of a text, and the format that it names. Errors: SqlError."""
        self.start(text)
        tree = self._statement()
        format_ = self._name("a format").name if self._take("FORMAT") else ""
        if self._curr:
            self._unexpected("the end of the statement")
        return tree, format_

    def _statement(self) -> exp.Expression:
        if self._query_ahead():
            return self._query()
        if self._take("SHOW"):
            return self._show()
        if self._take("DESCRIBE") or self._take("DESC"):
            return self._describe()
        if self._take("EXISTS"):
            kind = self._take_any(("TABLE", "VIEW")) or "TABLE"
            return Show(this=f"EXISTS {kind}", table=self._table())
        if self._take("EXPLAIN"):
            return self._explain()
        refuse_verb(self._words[self._index])
        return self._unexpected("SELECT, SHOW, DESCRIBE, EXISTS or EXPLAIN")

    def _show(self) -> exp.Expression:
        full = self._take("FULL")
        if self._take("TABLES"):
            database = self._name() if self._take_any(("FROM", "IN")) else None
            return Show(this="SHOW TABLES", full=full, database=database, rest=self._like_limit())
        if self._take("COLUMNS") or self._take("FIELDS"):
            if not self._take_any(("FROM", "IN")):
                self._unexpected("FROM")
            table = self._table()
            database = self._name() if not table.args["db"] and self._take_any(("FROM", "IN")) else None
            return Show(this="SHOW COLUMNS", full=full, table=table, database=database, rest=self._like_limit())
        if not full and self._take("DATABASES"):
            return Show(this="SHOW DATABASES", rest=self._like_limit())
        if not full and (self._take("CREATE") or self._ahead("TABLE") or self._ahead("VIEW")):
            kind = self._take_any(("TABLE", "VIEW")) or "TABLE"
            return Show(this=f"SHOW CREATE {kind}", table=self._table())
        if not self._words[self._index]:
            return self._unexpected("TABLES, DATABASES, COLUMNS or CREATE")
        what = f"SHOW {self._words[self._index][:40]} is not answered here"
        raise SqlError(READONLY, what, "SHOW TABLES, DATABASES, COLUMNS and CREATE are")

    def _like_limit(self) -> exp.Expression | None:
        """`[[NOT] LIKE 'text'] [LIMIT number]`. WHERE would be a statement of its own, and is refused."""
        parts: list[exp.Expression] = []
        negated = self._ahead("NOT") and self._take("NOT")
        if like := self._take_any(("LIKE", "ILIKE")):
            parts += [word(f"NOT {like}" if negated else like), self._string()]
        elif negated:
            self._unexpected("LIKE")
        if self._take("LIMIT"):
            parts += [word("LIMIT"), self._number()]
        return Phrase(expressions=parts) if parts else None

    def _describe(self) -> exp.Expression:
        self._take("TABLE")
        if self._kind() is TokenType.L_PAREN:
            described: exp.Expression = self._parenthesised_query()
        elif self._query_ahead():
            described = exp.Paren(this=self._query())
        else:
            described = self._table_or_call()
        return Show(this="DESCRIBE TABLE", table=described)

    def _explain(self) -> exp.Expression:
        if self._take("QUERY", "TREE"):
            kind = "EXPLAIN QUERY TREE"
        else:
            kind = " ".join(["EXPLAIN", *filter(None, [self._take_any(EXPLAINED)])])
        settings = None
        if self._kind(1) is TokenType.EQ:
            settings = self._items(self._explain_setting)
        return Explain(this=kind, settings=settings, expression=self._query())

    def _explain_setting(self) -> exp.Expression:
        name = self._take_any(EXPLAIN_SETTINGS) or self._unexpected("header, actions, indexes or the like")
        self._need_sign(TokenType.EQ, "=")
        return phrase(name.lower(), "=", self._number())


def read(text: str) -> tuple[exp.Expression, str]:
    """The tree of a text's one statement, and the format that it names. Errors: SqlError."""
    return Statements(dialect=Dialect).read(text)


def refuse_verb(first: str) -> None:
    """Errors: SqlError for the first word, in upper case, of a statement that does something."""
    if first in VERBS:
        what = "reads only: SELECT, SHOW TABLES, SHOW CREATE TABLE, DESCRIBE, EXISTS and EXPLAIN"
        raise SqlError(READONLY, f"this endpoint {what}; {first} is none of them")
