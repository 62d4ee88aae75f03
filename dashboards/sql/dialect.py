"""The engine's SQL as people may write it: a sqlglot dialect with a grammar of its own.

sqlglot's own grammar for ClickHouse rewrites what it reads (`if` becomes CASE, a lambda in WITH an extraction from
JSON), keeps what it does not know as a command, and tries one reading after the other. Here each construct has one
rule, what fits none is an error, and no token is read twice: the time to read a text is in proportion to its tokens.

The tree has the words, operators and parentheses of the text in their order. Precedence is left to the engine: what is
printed from the tree has the same ones in the same order. What names something (a table, function, type, parameter or
column) is a node of its own, which `printer` judges.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from typing import ClassVar, NoReturn

from sqlglot import exp
from sqlglot.dialects.clickhouse import ClickHouse
from sqlglot.errors import TokenError
from sqlglot.tokens import Token, TokenType

from dashboards.sql.errors import READONLY, SYNTAX_ERROR, SqlError

DEEPEST = 50
"""Levels of parentheses, calls and subqueries within each other."""
MOST_TOKENS = 20_000
PIECE = re.compile(
    r"""'(?:[^'\\]|\\.|'')*(?:'|\Z)|"[^"]*(?:"|\Z)|`[^`]*(?:`|\Z)|--[^\n]*|/\*.*?(?:\*/|\Z)|\w+|[^\w\s]""", re.S
)
"""Roughly a token: to count them before they are made, which takes a hundred times as long."""
SIGNS = {
    TokenType.PLUS: "+", TokenType.DASH: "-", TokenType.STAR: "*", TokenType.SLASH: "/", TokenType.MOD: "%",
    TokenType.EQ: "=", TokenType.NEQ: "!=", TokenType.LT: "<", TokenType.LTE: "<=", TokenType.GT: ">",
    TokenType.GTE: ">=", TokenType.NULLSAFE_EQ: "<=>", TokenType.DPIPE: "||",
}  # fmt: skip
KNOWN = frozenset(
    {*SIGNS, TokenType.L_PAREN, TokenType.R_PAREN, TokenType.L_BRACKET, TokenType.R_BRACKET, TokenType.L_BRACE,
     TokenType.R_BRACE, TokenType.COMMA, TokenType.DOT, TokenType.COLON, TokenType.DCOLON, TokenType.ARROW,
     TokenType.PLACEHOLDER, TokenType.SEMICOLON, TokenType.STRING, TokenType.HEREDOC_STRING, TokenType.NUMBER,
     TokenType.HEX_STRING, TokenType.BIT_STRING, TokenType.IDENTIFIER, TokenType.VAR}
)  # fmt: skip
NAMES = (TokenType.VAR, TokenType.IDENTIFIER)
NUMBERS = {TokenType.NUMBER: "", TokenType.HEX_STRING: "0x", TokenType.BIT_STRING: "0b"}
WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
NUMBER = re.compile(r"[0-9]+(\.[0-9]*)?([eE][+-]?[0-9]+)?|0x[0-9A-Fa-f]+|0b[01]+")
OPERATORS = frozenset({"AND", "OR", "DIV", "MOD", "LIKE", "ILIKE", "REGEXP", "BETWEEN", "IN"})
NEGATED = frozenset({"LIKE", "ILIKE", "IN", "BETWEEN"})
CONSTANTS = frozenset({"NULL", "TRUE", "FALSE", "INF", "INFINITY", "NAN"})
JOINING = frozenset(
    {"GLOBAL", "ANY", "ALL", "ASOF", "SEMI", "ANTI", "INNER", "LEFT", "RIGHT", "FULL", "OUTER", "CROSS", "PASTE",
     "ARRAY", "JOIN"}
)  # fmt: skip
CLAUSES = frozenset(
    {"FROM", "PREWHERE", "WHERE", "GROUP", "WITH", "HAVING", "WINDOW", "QUALIFY", "ORDER", "LIMIT", "OFFSET", "FETCH",
     "SETTINGS", "UNION", "EXCEPT", "INTERSECT", "INTO", "FORMAT", "ON", "USING", "SELECT", "INTERPOLATE"}
)  # fmt: skip
NO_ALIAS = CLAUSES | JOINING | OPERATORS | frozenset(
    {"AS", "NOT", "IS", "ASC", "ASCENDING", "DESC", "DESCENDING", "NULLS", "COLLATE", "APPLY", "REPLACE", "FINAL",
     "SAMPLE", "THEN", "ELSE", "WHEN", "END", "OVER", "FILTER", "RESPECT", "IGNORE", "FOR", "BY", "TO", "STEP",
     "STALENESS", "ROWS", "RANGE", "GROUPS", "PARTITION", "TIES"}
)  # fmt: skip
"""Words that are no alias without AS: here something else begins."""
NO_NAME = frozenset(
    {"SELECT", "FROM", "PREWHERE", "WHERE", "GROUP", "HAVING", "ORDER", "LIMIT", "UNION", "INTERSECT", "JOIN", "ON",
     "USING", "AS", "WITH", "THEN", "ELSE", "WHEN", "QUALIFY", "SETTINGS", "INTO"}
)  # fmt: skip
"""Words that are no column unless in quotes."""
UNITS = frozenset(
    {"NANOSECOND", "MICROSECOND", "MILLISECOND", "SECOND", "MINUTE", "HOUR", "DAY", "WEEK", "MONTH", "QUARTER", "YEAR"}
)  # fmt: skip
BY_UNIT = frozenset(
    {"date_add", "dateadd", "date_sub", "datesub", "date_diff", "datediff", "timestamp_add", "timestampadd",
     "timestamp_sub", "timestampsub", "timestamp_diff", "timestampdiff"}
)  # fmt: skip
"""Functions whose first argument may be a unit, as a bare word."""
EXPLAINED = frozenset({"AST", "SYNTAX", "PLAN", "PIPELINE", "ESTIMATE"})
VERBS = frozenset(
    """
    ALTER ANALYZE ATTACH BACKUP BEGIN CALL CHECK CLONE COMMIT COPY CREATE DELETE DETACH DROP EXCHANGE EXECUTE GRANT
    HANDLER INSERT KILL LOAD MERGE MOVE OPTIMIZE PARALLEL PREPARE REFRESH RENAME REPLACE RESTORE REVOKE ROLLBACK SET
    SYSTEM TRUNCATE UNDROP UNLOCK UPDATE USE VALUES WATCH
    """.split()
)


class Phrase(exp.Expression):
    """Parts one after the other."""

    arg_types: ClassVar[dict[str, bool]] = {"expressions": True}


class Items(exp.Expression):
    """Parts between commas. tight: without spaces, which the text of a literal before `::` keeps."""

    arg_types: ClassVar[dict[str, bool]] = {"expressions": False, "tight": False}


class Selection(exp.Expression):
    """One SELECT, from WITH to LIMIT. named: the names that its WITH gives to lambdas."""

    arg_types: ClassVar[dict[str, bool]] = {"expressions": True, "named": False}


class Path(exp.Expression):
    """A column, an alias, or (after IN) a table: names between dots."""

    arg_types: ClassVar[dict[str, bool]] = {"expressions": True}


class Member(exp.Expression):
    """What stands behind a dot: a name, the number of an element, or *."""

    arg_types: ClassVar[dict[str, bool]] = {"this": True, "expression": True}


class Subscript(exp.Expression):
    arg_types: ClassVar[dict[str, bool]] = {"this": True, "expression": True}


class Call(exp.Expression):
    """A function. parameters: of a parametric aggregate. rest: what follows (FILTER, OVER, ...)."""

    arg_types: ClassVar[dict[str, bool]] = {"this": True, "parameters": False, "arguments": True, "rest": False}


class Applied(exp.Expression):
    """A function that APPLY names."""

    arg_types: ClassVar[dict[str, bool]] = {"this": True, "parameters": False}


class Source(exp.Expression):
    """What stands in FROM or JOIN: a table, a table function or a subquery."""

    arg_types: ClassVar[dict[str, bool]] = {"this": True, "alias": False, "columns": False, "rest": False}


class TableCall(exp.Expression):
    arg_types: ClassVar[dict[str, bool]] = {"this": True, "arguments": True}


class Type(exp.Expression):
    arg_types: ClassVar[dict[str, bool]] = {"this": True, "arguments": False}


class Show(exp.Expression):
    """SHOW, DESCRIBE and EXISTS. this: of what kind. table, database: of what. rest: LIKE and LIMIT."""

    arg_types: ClassVar[dict[str, bool]] = {"this": True, "full": False, "table": False, "database": False,
                                            "rest": False}  # fmt: skip


class Explain(exp.Expression):
    arg_types: ClassVar[dict[str, bool]] = {"this": True, "settings": False, "expression": True}


def word(text: str) -> exp.Var:
    return exp.Var(this=text)


def phrase(*parts: exp.Expression | str) -> exp.Expression:
    made = [word(part) if isinstance(part, str) else part for part in parts]
    return made[0] if len(made) == 1 else Phrase(expressions=made)


class Dialect(ClickHouse):
    class Tokenizer(ClickHouse.Tokenizer):
        COMMENTS = ["--", ("/*", "*/")]  # noqa: RUF012 (sqlglot's metaclass reads it)
        NESTED_COMMENTS = False
        COMMANDS: ClassVar[set[TokenType]] = set()
        KEYWORDS: ClassVar[dict[str, TokenType]] = {
            "==": TokenType.EQ, "!=": TokenType.NEQ, "<>": TokenType.NEQ, "<=": TokenType.LTE, ">=": TokenType.GTE,
            "<=>": TokenType.NULLSAFE_EQ, "||": TokenType.DPIPE, "::": TokenType.DCOLON, "->": TokenType.ARROW,
        }  # fmt: skip

    class Parser(ClickHouse.Parser):
        def read(self, text: str) -> tuple[exp.Expression, str]:
            """The tree of the one statement of a text, and the format that it names. Errors: SqlError."""
            tokens = _tokens(text)
            while tokens and tokens[-1].token_type is TokenType.SEMICOLON:
                tokens.pop()
            if not tokens:
                raise SqlError(SYNTAX_ERROR, "an empty statement")
            self.reset()
            self.sql, self._tokens, self._tokens_size = text, tokens, len(tokens)
            self._words = [
                token.text.upper() if token.token_type is TokenType.VAR else "" for token in tokens
            ] + ["", "", "", ""]  # fmt: skip
            self._level = 0
            self._index = -1
            self._advance()
            tree = self._statement()
            format_ = self._name("a format").name if self._take("FORMAT") else ""
            if self._curr:
                self._unexpected("the end of the statement")
            return tree, format_

        # Tokens

        def _ahead(self, *words: str) -> bool:
            start = self._index
            return all(self._words[start + number] == each for number, each in enumerate(words))

        def _take(self, *words: str) -> bool:
            found = self._ahead(*words)
            if found:
                self._advance(len(words))
            return found

        def _take_any(self, words: Collection[str]) -> str:
            found = self._words[self._index]
            if found in words:
                self._advance()
                return found
            return ""

        def _need(self, *words: str) -> None:
            if not self._take(*words):
                self._unexpected(" ".join(words))

        def _sign(self, sign: TokenType) -> bool:
            return self._match(sign)

        def _need_sign(self, sign: TokenType, what: str) -> None:
            if not self._match(sign):
                self._unexpected(what)

        def _kind(self, ahead: int = 0) -> TokenType | None:
            position = self._index + ahead
            return self._tokens[position].token_type if position < self._tokens_size else None

        def _unexpected(self, wanted: str) -> NoReturn:
            if self._ahead("SETTINGS"):
                raise SqlError(READONLY, "SETTINGS in a statement are refused", "Send settings as parameters of the URL")
            if self._ahead("INTO"):
                raise SqlError(READONLY, "INTO OUTFILE writes a file on the server", "Save the answer where you ask")
            if self._curr:
                found = f"{self._curr.text[:40]!r} at line {self._curr.line}, column {self._curr.col}"
            else:
                found = "the end"
            raise SqlError(SYNTAX_ERROR, f"expected {wanted}, found {found}")

        def _name(self, what: str = "a name") -> exp.Identifier:
            token = self._curr
            if token.token_type not in NAMES:
                self._unexpected(what)
            self._advance()
            return exp.Identifier(this=token.text)

        def _items(self, one: Callable[[], exp.Expression]) -> Items:
            """One or more, between commas."""
            made, tight = [one()], True
            while self._kind() is TokenType.COMMA:
                self._advance()
                tight = tight and self._is_connected()
                made.append(one())
            return Items(expressions=made, tight=tight)

        def _parens(self, one: Callable[[], exp.Expression]) -> exp.Paren:
            self._need_sign(TokenType.L_PAREN, "(")
            made = self._items(one)
            self._need_sign(TokenType.R_PAREN, ")")
            return exp.Paren(this=made)

        def _deeper(self) -> None:
            self._level += 1
            if self._level > DEEPEST:
                raise SqlError(SYNTAX_ERROR, f"nested more than {DEEPEST} levels deep", "Use WITH for the parts")

        # Statements

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
            self._unexpected("SELECT, SHOW, DESCRIBE, EXISTS or EXPLAIN")

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
            if self._words[self._index] and not self._words[self._index + 1]:
                what = f"SHOW {self._words[self._index][:40]} is not answered here"
                raise SqlError(READONLY, what, "SHOW TABLES, DATABASES, COLUMNS and CREATE are")
            self._unexpected("TABLES, DATABASES, COLUMNS or CREATE")

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

        # Queries

        def _query_ahead(self) -> bool:
            """Whether a SELECT begins here, be it in parentheses."""
            position = self._index
            while position < self._tokens_size and self._tokens[position].token_type is TokenType.L_PAREN:
                position += 1
            return self._words[position] in ("SELECT", "WITH", "FROM") and (
                self._kind(position - self._index + 1) is not TokenType.L_PAREN or self._words[position] != "FROM"
            )

        def _query(self) -> exp.Expression:
            self._deeper()
            made = self._combined(self._part_of_query())
            self._level -= 1
            return made

        def _part_of_query(self) -> exp.Expression:
            return self._parenthesised_query() if self._kind() is TokenType.L_PAREN else self._selection()

        def _parenthesised_query(self) -> exp.Expression:
            self._need_sign(TokenType.L_PAREN, "(")
            made = self._query()
            self._need_sign(TokenType.R_PAREN, ")")
            return exp.Paren(this=made)

        def _combined(self, first: exp.Expression) -> exp.Expression:
            parts = [first]
            while operation := self._take_any(("UNION", "EXCEPT", "INTERSECT")):
                how = self._take_any(("ALL", "DISTINCT"))
                parts += [word(f"{operation} {how}" if how else operation), self._part_of_query()]
            return phrase(*parts)

        def _selection(self) -> exp.Expression:
            parts: list[exp.Expression] = []
            named: list[str] = []
            if self._take("WITH"):
                parts.append(word("WITH RECURSIVE" if self._take("RECURSIVE") else "WITH"))
                defined = self._items(self._definition)
                parts.append(defined)
                named = [one.args["alias"].name for one in defined.expressions if _is_lambda(one)]
            from_first = self._take("FROM")
            if from_first:
                parts += [word("FROM"), self._sources()]
            self._need("SELECT")
            parts += [word("SELECT"), *self._distinct()]
            parts.append(self._items(self._selected))
            if not from_first and self._take("FROM"):
                parts += [word("FROM"), self._sources()]
            for clause in ("PREWHERE", "WHERE"):
                if self._take(clause):
                    parts += [word(clause), self._expr()]
            if self._take("GROUP", "BY"):
                parts += [word("GROUP BY"), *self._grouping()]
            while self._ahead("WITH") and self._words[self._index + 1] in ("ROLLUP", "CUBE", "TOTALS"):
                self._advance()
                parts.append(word(f"WITH {self._take_any(('ROLLUP', 'CUBE', 'TOTALS'))}"))
            if self._take("HAVING"):
                parts += [word("HAVING"), self._expr()]
            if self._take("WINDOW"):
                parts += [word("WINDOW"), self._items(self._named_window)]
            if self._take("QUALIFY"):
                parts += [word("QUALIFY"), self._expr()]
            if self._take("ORDER", "BY"):
                parts += [word("ORDER BY"), *self._ordering()]
            parts += self._limits()
            return Selection(expressions=parts, named=named)

        def _definition(self) -> exp.Expression:
            """Of WITH: `name AS (SELECT ...)`, or `expression AS name`."""
            if self._kind() in NAMES and self._defines_query():
                alias = self._name()
                columns = self._parens(self._name) if self._kind() is TokenType.L_PAREN else None
                self._need("AS")
                how = "AS MATERIALIZED" if self._take("MATERIALIZED") else "AS"
                return exp.CTE(alias=alias, columns=columns, how=how, this=self._parenthesised_query())
            made = self._expr()
            self._need("AS")
            return exp.Alias(this=made, alias=self._name())

        def _defines_query(self) -> bool:
            position = self._index + 1
            if self._kind(1) is TokenType.L_PAREN:
                while position < self._tokens_size and self._tokens[position].token_type is not TokenType.R_PAREN:
                    position += 1
                    if self._kind(position - self._index) not in (*NAMES, TokenType.COMMA, TokenType.R_PAREN):
                        return False
                position += 1
            if position >= self._tokens_size or self._words[position] != "AS":
                return False
            position += 2 if self._words[position + 1] == "MATERIALIZED" else 1
            return position < self._tokens_size and self._tokens[position].token_type is TokenType.L_PAREN

        def _distinct(self) -> list[exp.Expression]:
            parts: list[exp.Expression] = []
            if self._take("DISTINCT"):
                parts.append(word("DISTINCT"))
                if self._take("ON"):
                    parts += [word("ON"), self._parens(self._expr)]
            elif self._ahead("ALL") and self._kind(1) is not TokenType.COMMA:
                self._advance()
            if self._ahead("TOP") and self._kind(1) in (TokenType.NUMBER, TokenType.L_PAREN):
                self._advance()
                within = self._sign(TokenType.L_PAREN)
                parts += [word("TOP"), self._number()]
                if within:
                    self._need_sign(TokenType.R_PAREN, ")")
                if self._take("WITH", "TIES"):
                    parts.append(word("WITH TIES"))
            return parts

        def _selected(self) -> exp.Expression:
            return self._aliased(implicitly=True)

        def _grouping(self) -> list[exp.Expression]:
            if self._ahead("ALL") and self._kind(1) is not TokenType.COMMA:
                self._advance()
                return [word("ALL")]
            if self._take("GROUPING", "SETS"):
                return [word("GROUPING SETS"), self._parens(self._expr)]
            if self._words[self._index] in ("ROLLUP", "CUBE") and self._kind(1) is TokenType.L_PAREN:
                return [word(self._take_any(("ROLLUP", "CUBE"))), self._parens(self._expr)]
            return [self._items(self._aliased)]

        def _ordering(self) -> list[exp.Expression]:
            if self._ahead("ALL") and self._kind(1) is not TokenType.COMMA:
                self._advance()
                parts = [phrase("ALL", *self._direction())]
            else:
                parts = [self._items(self._ordered)]
            if self._take("INTERPOLATE"):
                parts.append(word("INTERPOLATE"))
                if self._kind() is TokenType.L_PAREN:
                    parts.append(self._parens(self._interpolated))
            return parts

        def _ordered(self) -> exp.Expression:
            parts = [self._aliased(), *self._direction()]
            if self._take("WITH", "FILL"):
                parts.append(word("WITH FILL"))
                for bound in ("FROM", "TO", "STEP", "STALENESS"):
                    if self._take(bound):
                        parts += [word(bound), self._expr()]
            return phrase(*parts)

        def _direction(self) -> list[exp.Expression]:
            parts: list[exp.Expression] = []
            if direction := self._take_any(("ASC", "ASCENDING", "DESC", "DESCENDING")):
                parts.append(word("DESC" if direction.startswith("DESC") else "ASC"))
            if self._take("NULLS"):
                place = self._take_any(("FIRST", "LAST")) or self._unexpected("FIRST or LAST")
                parts.append(word(f"NULLS {place}"))
            if self._take("COLLATE"):
                parts += [word("COLLATE"), self._string()]
            return parts

        def _interpolated(self) -> exp.Expression:
            name = self._name()
            return phrase(name, "AS", self._expr()) if self._take("AS") else name

        def _limits(self) -> list[exp.Expression]:
            parts: list[exp.Expression] = []
            for _ in range(2):
                if self._take("LIMIT"):
                    parts += [word("LIMIT"), self._expr()]
                    if self._sign(TokenType.COMMA):
                        parts += [word(","), self._expr()]
                    elif self._take("OFFSET"):
                        parts += [word("OFFSET"), self._expr()]
                    if self._take("WITH", "TIES"):
                        parts.append(word("WITH TIES"))
                    if self._take("BY"):
                        parts += [word("BY"), word("ALL") if self._take("ALL") else self._items(self._expr)]
            if self._take("OFFSET"):
                parts += [word("OFFSET"), self._expr()]
                if rows := self._take_any(("ROW", "ROWS")):
                    parts.append(word(rows))
            if self._take("FETCH"):
                which = self._take_any(("FIRST", "NEXT")) or self._unexpected("FIRST or NEXT")
                parts += [word(f"FETCH {which}"), self._number()]
                parts.append(word(self._take_any(("ROW", "ROWS")) or self._unexpected("ROWS")))
                parts.append(word("ONLY" if self._take("ONLY") else "WITH TIES"))
                if parts[-1].name != "ONLY":
                    self._need("WITH", "TIES")
            return parts

        # FROM

        def _sources(self) -> exp.Expression:
            parts = [self._source()]
            while True:
                if self._sign(TokenType.COMMA):
                    parts += [word(","), self._source()]
                elif how := self._joining():
                    parts.append(word(how))
                    if "ARRAY" in how:
                        parts.append(self._items(self._selected))
                        continue
                    parts.append(self._source())
                    if self._take("ON"):
                        parts += [word("ON"), self._expr()]
                    elif self._take("USING"):
                        named = self._parens if self._kind() is TokenType.L_PAREN else self._items
                        parts += [word("USING"), named(self._path_alone)]
                else:
                    return phrase(*parts)

        def _joining(self) -> str:
            """The words up to JOIN; empty: here is no join."""
            position = self._index
            while self._words[position] in JOINING and self._words[position] != "JOIN":
                position += 1
            if self._words[position] != "JOIN":
                return ""
            words = self._words[self._index : position + 1]
            self._advance(len(words))
            return " ".join(words)

        def _source(self) -> exp.Expression:
            if self._kind() is TokenType.L_PAREN and self._words[self._index + 1] == "VALUES":
                self._advance(2)
                rows = self._items(self._expr)
                self._need_sign(TokenType.R_PAREN, ")")
                what: exp.Expression = exp.Paren(this=phrase("VALUES", rows))
            elif self._kind() is TokenType.L_PAREN:
                what = self._parenthesised_query()
            else:
                what = self._table_or_call()
            alias, columns = None, None
            if self._take("AS") or (self._kind() in NAMES and self._words[self._index] not in NO_ALIAS):
                alias = self._name()
                columns = self._parens(self._name) if self._kind() is TokenType.L_PAREN else None
            rest: list[exp.Expression] = []
            if self._take("FINAL"):
                rest.append(word("FINAL"))
            if self._take("SAMPLE"):
                rest += [word("SAMPLE"), self._ratio()]
                if self._take("OFFSET"):
                    rest += [word("OFFSET"), self._ratio()]
            return Source(this=what, alias=alias, columns=columns, rest=Phrase(expressions=rest) if rest else None)

        def _ratio(self) -> exp.Expression:
            first = self._number()
            return phrase(first, "/", self._number()) if self._sign(TokenType.SLASH) else first

        def _table_or_call(self) -> exp.Expression:
            if self._kind(1) is not TokenType.L_PAREN:
                return self._table()
            name = self._name("a table").name
            self._advance()
            arguments = Items() if self._kind() is TokenType.R_PAREN else self._items(self._aliased)
            self._need_sign(TokenType.R_PAREN, ")")
            return TableCall(this=name, arguments=arguments)

        def _table(self) -> exp.Table:
            if self._words[self._index] in NO_NAME:
                self._unexpected("a table")
            first = self._name("a table")
            if not self._sign(TokenType.DOT):
                return exp.Table(this=first, db=None)
            return exp.Table(this=self._name("a table"), db=first)

        # Windows

        def _named_window(self) -> exp.Expression:
            name = self._name()
            self._need("AS")
            return phrase(name, "AS", self._window())

        def _window(self) -> exp.Expression:
            self._need_sign(TokenType.L_PAREN, "(")
            parts: list[exp.Expression] = []
            if self._kind() in NAMES and self._words[self._index] not in ("PARTITION", "ORDER", *FRAMES):
                parts.append(self._name())
            if self._take("PARTITION", "BY"):
                parts += [word("PARTITION BY"), self._items(self._aliased)]
            if self._take("ORDER", "BY"):
                parts += [word("ORDER BY"), *self._ordering()]
            if frame := self._take_any(FRAMES):
                parts.append(word(frame))
                if self._take("BETWEEN"):
                    parts += [word("BETWEEN"), self._bound()]
                    self._need("AND")
                    parts.append(word("AND"))
                parts.append(self._bound())
            self._need_sign(TokenType.R_PAREN, ")")
            return exp.Paren(this=Phrase(expressions=parts))

        def _bound(self) -> exp.Expression:
            if self._take("CURRENT", "ROW"):
                return word("CURRENT ROW")
            how_far = word("UNBOUNDED") if self._take("UNBOUNDED") else self._operand()
            return phrase(how_far, self._take_any(("PRECEDING", "FOLLOWING")) or self._unexpected("PRECEDING"))

        # Expressions

        def _aliased(self, implicitly: bool = False) -> exp.Expression:
            made = self._expr()
            if self._take("AS") or (
                implicitly and self._kind() in NAMES and self._words[self._index] not in NO_ALIAS
            ):  # fmt: skip
                return exp.Alias(this=made, alias=self._name())
            return made

        def _expr(self) -> exp.Expression:
            self._deeper()
            names = self._lambda_ahead()
            if names:
                self._advance(names)
                taken = self._tokens[self._index - names : self._index - 1]
                arguments = [exp.Identifier(this=one.text) for one in taken if one.token_type in NAMES]
                bare = names == 2
                made: exp.Expression = exp.Lambda(this=self._expr(), expressions=arguments, colon=bare)
            else:
                made = self._chain()
            self._level -= 1
            return made

        def _lambda_ahead(self) -> int:
            """How many tokens there are up to the end of `->`, if `name ->` or `(name, ...) ->` stands here."""
            if self._kind() in NAMES:
                return 2 if self._kind(1) is TokenType.ARROW else 0
            if self._kind() is not TokenType.L_PAREN:
                return 0
            ahead = 1
            while self._kind(ahead) in NAMES and self._kind(ahead + 1) is TokenType.COMMA:
                ahead += 2
            ends = (self._kind(ahead), self._kind(ahead + 1), self._kind(ahead + 2))
            return ahead + 3 if ends[0] in NAMES and ends[1:] == (TokenType.R_PAREN, TokenType.ARROW) else 0

        def _chain(self, until: str = "") -> exp.Expression:
            """Operands and operators in turn. until: a word that ends it although it is an operator."""
            parts = [self._operand()]
            choices = 0
            while not (until and self._ahead(until)):
                if self._kind() is TokenType.PLACEHOLDER:
                    choices += 1
                    operator = "?"
                    self._advance()
                elif choices and self._kind() is TokenType.COLON:
                    choices -= 1
                    operator = ":"
                    self._advance()
                elif not (operator := self._operator()):
                    break
                parts.append(word(operator))
                if not operator.endswith(AFTER):
                    parts.append(self._operand())
            return phrase(*parts)

        def _operator(self) -> str:
            sign = SIGNS.get(self._kind() or TokenType.VAR)
            if sign:
                self._advance()
                return sign
            start = self._index
            found = self._words[start]
            if found in OPERATORS:
                self._advance()
                return found
            if found == "NOT" and self._words[start + 1] in NEGATED:
                self._advance(2)
                return f"NOT {self._words[start + 1]}"
            if found == "GLOBAL" and (self._take("GLOBAL", "IN") or self._take("GLOBAL", "NOT", "IN")):
                return " ".join(self._words[start : self._index])
            if found == "IS":
                self._advance()
                self._take("NOT")
                if not self._take("DISTINCT", "FROM") and not self._take_any(("NULL", "TRUE", "FALSE", "UNKNOWN")):
                    self._unexpected("NULL")
                return " ".join(self._words[start : self._index])
            return ""

        def _operand(self) -> exp.Expression:
            signs: list[exp.Expression] = []
            while True:
                if self._kind() is TokenType.DASH:
                    self._advance()
                    signs.append(word("-"))
                elif self._take("NOT"):
                    signs.append(word("NOT"))
                else:
                    break
            made = self._followed(self._primary())
            return Phrase(expressions=[*signs, made]) if signs else made

        def _followed(self, made: exp.Expression) -> exp.Expression:
            outer = self._level
            while True:
                kind = self._kind()
                if kind in FOLLOWING:
                    self._deeper()
                if kind is TokenType.L_BRACKET:
                    self._advance()
                    made = Subscript(this=made, expression=self._expr())
                    self._need_sign(TokenType.R_BRACKET, "]")
                elif kind is TokenType.DOT:
                    self._advance()
                    made = self._member(made)
                elif kind is TokenType.DCOLON:
                    self._advance()
                    made = exp.Cast(this=made, to=self._type())
                else:
                    self._level = outer
                    return made

        def _member(self, of: exp.Expression) -> exp.Expression:
            if self._kind() is TokenType.NUMBER:
                numbers = self._curr.text.split(".")
                self._advance()
                for number in numbers:
                    if not number.isascii() or not number.isdigit():
                        self._unexpected("the number of an element")
                    of = Member(this=of, expression=exp.Literal.number(number))
                return of
            if self._sign(TokenType.STAR):
                return self._transformed(Member(this=of, expression=exp.Star()))
            return Member(this=of, expression=self._name())

        def _primary(self) -> exp.Expression:
            kind = self._kind()
            if kind in NUMBERS:
                return self._number()
            if kind in (TokenType.STRING, TokenType.HEREDOC_STRING):
                return self._string()
            if kind is TokenType.L_PAREN:
                return self._parenthesised()
            if kind is TokenType.L_BRACKET:
                self._advance()
                within = Items() if self._kind() is TokenType.R_BRACKET else self._items(self._aliased)
                self._need_sign(TokenType.R_BRACKET, "]")
                return exp.Array(expressions=[within])
            if kind is TokenType.L_BRACE:
                return self._parameter()
            if kind is TokenType.STAR:
                self._advance()
                return self._transformed(exp.Star())
            if kind not in NAMES:
                self._unexpected("an expression")
            return self._worded()

        def _parenthesised(self) -> exp.Expression:
            """A subquery, a tuple, or an expression in parentheses."""
            self._need_sign(TokenType.L_PAREN, "(")
            if self._words[self._index] in ("SELECT", "WITH", "FROM"):
                made = self._query()
            elif self._kind() is TokenType.R_PAREN:
                made = Items()
            else:
                made = self._items(self._aliased_or_rest)
                if self._words[self._index] in ("UNION", "EXCEPT", "INTERSECT") and len(made.expressions) == 1:
                    made = self._combined(made.expressions[0])
            self._need_sign(TokenType.R_PAREN, ")")
            return exp.Paren(this=made)

        def _aliased_or_rest(self) -> exp.Expression:
            """Also nothing, behind the last comma of `(1, )`."""
            return word("") if self._kind() is TokenType.R_PAREN else self._aliased()

        def _worded(self) -> exp.Expression:
            """What begins with a name or a word."""
            found = self._words[self._index]
            called = self._kind(1) is TokenType.L_PAREN
            if found == "INTERVAL" and (made := self._interval()):
                return made
            if called and found in SPECIAL:
                special: Callable[[], exp.Expression | None] = getattr(self, SPECIAL[found])
                if (special_made := special()) is not None:
                    return special_made
            if called and found not in NO_NAME:
                return self._call()
            if found == "CASE":
                return self._case()
            if found in ("DATE", "TIMESTAMP") and self._kind(1) is TokenType.STRING:
                self._advance()
                return phrase(found, self._string())
            if found in CONSTANTS:
                self._advance()
                return word(found)
            if found in NO_NAME:
                self._unexpected("an expression")
            return self._path()

        def _path(self) -> exp.Expression:
            names: list[exp.Expression] = [self._name()]
            while self._kind() is TokenType.DOT and self._kind(1) in NAMES:
                self._advance()
                names.append(self._name())
            return Path(expressions=names)

        def _path_alone(self) -> exp.Expression:
            return exp.Star() if self._sign(TokenType.STAR) else self._path()

        def _number(self) -> exp.Expression:
            kind = self._kind()
            if kind not in NUMBERS:
                self._unexpected("a number")
            text = NUMBERS[kind] + self._curr.text
            if not NUMBER.fullmatch(text):
                self._unexpected("a number")
            self._advance()
            return exp.Literal.number(text)

        def _string(self) -> exp.Expression:
            if self._kind() not in (TokenType.STRING, TokenType.HEREDOC_STRING):
                self._unexpected("a text in quotes")
            self._advance()
            return exp.Literal.string(self._prev.text)

        def _parameter(self) -> exp.Expression:
            self._need_sign(TokenType.L_BRACE, "{")
            if self._kind() is not TokenType.VAR:
                self._unexpected("a parameter's name")
            name = self._name()
            self._need_sign(TokenType.COLON, ":")
            kind = self._type()
            self._need_sign(TokenType.R_BRACE, "}")
            return exp.Placeholder(this=name, kind=kind)

        def _call(self) -> exp.Expression:
            name = self._name().name
            parameters, arguments = None, self._arguments(name)
            if self._kind() is TokenType.L_PAREN:
                parameters, arguments = arguments, self._arguments(name)
            rest: list[exp.Expression] = []
            while True:
                if self._take("FILTER"):
                    self._need_sign(TokenType.L_PAREN, "(")
                    self._need("WHERE")
                    rest += [word("FILTER"), exp.Paren(this=phrase("WHERE", self._expr()))]
                    self._need_sign(TokenType.R_PAREN, ")")
                elif self._words[self._index + 1] == "NULLS" and (how := self._take_any(("RESPECT", "IGNORE"))):
                    self._need("NULLS")
                    rest.append(word(f"{how} NULLS"))
                elif self._take("OVER"):
                    rest += [word("OVER"), self._window() if self._kind() is TokenType.L_PAREN else self._name()]
                else:
                    break
            rested = Phrase(expressions=rest) if rest else None
            return Call(this=name, parameters=parameters, arguments=arguments, rest=rested)

        def _arguments(self, name: str) -> exp.Expression:
            self._need_sign(TokenType.L_PAREN, "(")
            parts: list[exp.Expression] = []
            if self._ahead("DISTINCT") and self._kind(1) not in (TokenType.COMMA, TokenType.R_PAREN):
                self._advance()
                parts.append(word("DISTINCT"))
            if self._kind() is TokenType.R_PAREN:
                made: exp.Expression = Items()
            elif name.lower() in BY_UNIT and self._words[self._index] in UNITS and self._kind(1) is TokenType.COMMA:
                unit = word(self._take_any(UNITS))
                self._advance()
                made = Items(expressions=[unit, *self._items(self._aliased).expressions])
            else:
                made = self._items(self._aliased)
            self._need_sign(TokenType.R_PAREN, ")")
            return Phrase(expressions=[*parts, made]) if parts else made

        # Syntax of its own

        def _cast(self) -> exp.Expression:
            self._advance(2)
            made = self._expr()
            if self._take("AS"):
                kind: exp.Expression = self._type()
                within: exp.Expression = phrase(made, "AS", kind)
            else:
                self._need_sign(TokenType.COMMA, ", or AS")
                within = Items(expressions=[made, self._expr()])
            self._need_sign(TokenType.R_PAREN, ")")
            return phrase("CAST", exp.Paren(this=within))

        def _extract(self) -> exp.Expression | None:
            if self._words[self._index + 2] not in UNITS or self._words[self._index + 3] != "FROM":
                return None
            self._advance(2)
            unit = self._take_any(UNITS)
            self._need("FROM")
            made = phrase("EXTRACT", exp.Paren(this=phrase(unit, "FROM", self._expr())))
            self._need_sign(TokenType.R_PAREN, ")")
            return made

        def _trim(self) -> exp.Expression | None:
            if self._words[self._index + 2] not in ("BOTH", "LEADING", "TRAILING"):
                return None
            self._advance(2)
            where = self._take_any(("BOTH", "LEADING", "TRAILING"))
            what = self._expr()
            self._need("FROM")
            made = phrase("TRIM", exp.Paren(this=phrase(where, what, "FROM", self._expr())))
            self._need_sign(TokenType.R_PAREN, ")")
            return made

        def _substring(self) -> exp.Expression:
            name = self._name().name
            self._advance()
            of = self._aliased()
            if self._take("FROM"):
                parts = [of, word("FROM"), self._expr()]
                if self._take("FOR"):
                    parts += [word("FOR"), self._expr()]
                within = phrase(*parts)
            elif self._sign(TokenType.COMMA):
                within = Items(expressions=[of, *self._items(self._aliased).expressions])
                self._need_sign(TokenType.R_PAREN, ")")
                return Call(this=name, parameters=None, arguments=within, rest=None)
            else:
                self._unexpected("FROM")
            self._need_sign(TokenType.R_PAREN, ")")
            return phrase("SUBSTRING", exp.Paren(this=within))

        def _position(self) -> exp.Expression:
            name = self._name().name
            self._advance()
            of = self._chain(until="IN")
            if self._take("IN"):
                made = phrase("POSITION", exp.Paren(this=phrase(of, "IN", self._expr())))
            else:
                self._need_sign(TokenType.COMMA, ", or IN")
                within = Items(expressions=[of, *self._items(self._aliased).expressions])
                made = Call(this=name, parameters=None, arguments=within, rest=None)
            self._need_sign(TokenType.R_PAREN, ")")
            return made

        def _of_query(self) -> exp.Expression | None:
            """`EXISTS (SELECT ...)`, `= ANY (SELECT ...)`."""
            if self._words[self._index + 2] not in ("SELECT", "WITH", "FROM"):
                return None
            found = self._words[self._index]
            self._advance()
            return phrase(found, self._parenthesised_query())

        def _columns(self) -> exp.Expression:
            self._advance()
            within = self._parens(self._string if self._kind(1) is TokenType.STRING else self._path)
            return self._transformed(phrase("COLUMNS", within))

        def _case(self) -> exp.Expression:
            self._need("CASE")
            parts: list[exp.Expression] = [word("CASE")]
            if not self._ahead("WHEN"):
                parts.append(self._expr())
            self._need("WHEN")
            parts += [word("WHEN"), self._expr()]
            self._need("THEN")
            parts += [word("THEN"), self._expr()]
            while self._take("WHEN"):
                parts += [word("WHEN"), self._expr()]
                self._need("THEN")
                parts += [word("THEN"), self._expr()]
            if self._take("ELSE"):
                parts += [word("ELSE"), self._expr()]
            self._need("END")
            return phrase(*parts, "END")

        def _interval(self) -> exp.Expression | None:
            """None: a column of that name."""
            following = self._kind(1)
            if following is None or (following not in OPENING and self._words[self._index + 1] in ("", *NO_ALIAS)):
                return None
            self._advance()
            amount = self._expr()
            unit = self._words[self._index].removesuffix("S")
            if unit in UNITS:
                self._advance()
                return phrase("INTERVAL", amount, unit)
            if not isinstance(amount, exp.Literal) or not amount.is_string:
                self._unexpected("a unit, such as DAY")
            return phrase("INTERVAL", amount)

        def _transformed(self, columns: exp.Expression) -> exp.Expression:
            """`*` and its kin, with EXCEPT, REPLACE and APPLY."""
            parts = [columns]
            while True:
                if self._ahead("EXCEPT") and not self._combines_ahead():
                    self._advance()
                    parts.append(word("EXCEPT STRICT" if self._take("STRICT") else "EXCEPT"))
                    if self._kind() is TokenType.L_PAREN:
                        parts.append(self._parens(self._name_or_text))
                    else:
                        parts.append(self._name_or_text())
                elif self._ahead("REPLACE"):
                    self._advance()
                    parts.append(word("REPLACE STRICT" if self._take("STRICT") else "REPLACE"))
                    if self._kind() is TokenType.L_PAREN:
                        parts.append(self._parens(self._aliased))
                    else:
                        parts.append(exp.Paren(this=self._aliased()))
                elif self._take("APPLY"):
                    parts += [word("APPLY"), self._applied()]
                else:
                    return phrase(*parts)

        def _combines_ahead(self) -> bool:
            """Whether EXCEPT stands here between two queries."""
            following = self._words[self._index + 1]
            if self._kind(1) is TokenType.L_PAREN:
                following = self._words[self._index + 2]
                return following in ("SELECT", "WITH", "FROM") or self._kind(2) is TokenType.L_PAREN
            return following in ("SELECT", "WITH", "FROM", "ALL", "DISTINCT")

        def _name_or_text(self) -> exp.Expression:
            return self._string() if self._kind() is TokenType.STRING else self._path()

        def _applied(self) -> exp.Expression:
            if self._kind() is TokenType.L_PAREN and not self._lambda_ahead():
                self._advance()
                self._deeper()
                made = self._applied()
                self._level -= 1
                self._need_sign(TokenType.R_PAREN, ")")
                return exp.Paren(this=made)
            if self._lambda_ahead():
                return self._expr()
            name = self._name("a function").name
            return Applied(this=name, parameters=self._arguments("") if self._kind() is TokenType.L_PAREN else None)

        # Types

        def _type(self) -> Type:
            self._deeper()
            name = self._name("a type").name
            arguments = None
            if self._sign(TokenType.L_PAREN):
                if name.lower() in ("aggregatefunction", "simpleaggregatefunction"):
                    function = self._applied()
                    more = self._items(self._type).expressions if self._sign(TokenType.COMMA) else []
                    arguments = Items(expressions=[function, *more])
                else:
                    arguments = self._items(self._type_argument)
                self._need_sign(TokenType.R_PAREN, ")")
            self._level -= 1
            return Type(this=name, arguments=arguments)

        def _type_argument(self) -> exp.Expression:
            """A number, a text (of an Enum with its number), a type, or a name and a type."""
            if self._kind() is TokenType.NUMBER:
                return self._number()
            if self._kind() is TokenType.STRING:
                text = self._string()
                if not self._sign(TokenType.EQ):
                    return text
                sign = ["-"] if self._sign(TokenType.DASH) else []
                return phrase(text, "=", *sign, self._number())
            if self._kind(1) is TokenType.EQ:
                name = self._name()
                self._advance()
                return phrase(name, "=", self._number())
            if self._kind(1) in NAMES:
                return phrase(self._name(), self._type())
            return self._type()


EXPLAIN_SETTINGS = frozenset(
    {"HEADER", "DESCRIPTION", "INDEXES", "PROJECTIONS", "ACTIONS", "JSON", "GRAPH", "COMPACT", "ONELINE", "SORTING",
     "KEEP_LOGICAL_STEPS", "RUN_PASSES", "DUMP_PASSES", "DUMP_TREE", "DUMP_AST", "PASSES", "QUERY_TREE_PASSES",
     "RUN_QUERY_TREE_PASSES", "OPTIMIZE", "PRETTY"}
)  # fmt: skip
FRAMES = ("ROWS", "RANGE", "GROUPS")
AFTER = ("NULL", "TRUE", "FALSE", "UNKNOWN")
"""Of operators that stand behind their operand: IS NULL and the like."""
FOLLOWING = frozenset({TokenType.L_BRACKET, TokenType.DOT, TokenType.DCOLON})
OPENING = frozenset({TokenType.L_PAREN, TokenType.STRING, TokenType.NUMBER, TokenType.DASH, TokenType.L_BRACE,
                     TokenType.IDENTIFIER})  # fmt: skip
SPECIAL = {
    "CAST": "_cast", "EXTRACT": "_extract", "TRIM": "_trim", "SUBSTRING": "_substring", "POSITION": "_position",
    "EXISTS": "_of_query", "ANY": "_of_query", "ALL": "_of_query", "SOME": "_of_query", "COLUMNS": "_columns",
}  # fmt: skip
KEYWORDS = frozenset(
    {*SIGNS.values(), ",", "?", ":", *OPERATORS, *CONSTANTS, *JOINING, *CLAUSES, *UNITS, *EXPLAINED, *FRAMES, *AFTER,
     *(name.lower() for name in EXPLAIN_SETTINGS), *SPECIAL}
    | set(
        """
        ALL AND APPLY AS ASC BETWEEN BOTH BY CASE COLLATE COLUMNS CREATE CUBE CURRENT DATABASES DATE DESC DESCRIBE
        DISTINCT ELSE END EXISTS EXPLAIN FETCH FILL FILTER FINAL FIRST FOLLOWING FOR FULL GROUPING IGNORE INTERVAL IS
        LAST LEADING MATERIALIZED NEXT NOT NULLS ONLY OVER PARTITION PRECEDING QUERY RECURSIVE REPLACE RESPECT ROLLUP
        ROW ROWS SAMPLE SETS SHOW STALENESS STEP STRICT TABLE TABLES THEN TIES TIMESTAMP TO TOP TOTALS TRAILING TREE
        UNBOUNDED VALUES VIEW WHEN
        """.split()
    )
)  # fmt: skip
"""All words and signs that are printed without quotes."""


def read(text: str) -> tuple[exp.Expression, str]:
    """The tree of a text's one statement, and the format that it names. Errors: SqlError."""
    return Dialect.Parser(dialect=Dialect).read(text)


def refuse_verb(first: str) -> None:
    """Errors: SqlError for the first word, in upper case, of a statement that does something."""
    if first in VERBS:
        what = "reads only: SELECT, SHOW TABLES, SHOW CREATE TABLE, DESCRIBE, EXISTS and EXPLAIN"
        raise SqlError(READONLY, f"this endpoint {what}; {first} is none of them")


def _tokens(text: str) -> list[Token]:
    if sum(1 for _ in PIECE.finditer(text)) > MOST_TOKENS:
        raise SqlError(SYNTAX_ERROR, f"a statement of more than {MOST_TOKENS:,} words and signs")
    try:
        tokens = Dialect.Tokenizer(dialect=Dialect).tokenize(text)
    except TokenError as error:
        raise SqlError(SYNTAX_ERROR, "a quote or comment is not closed") from error
    for token in tokens:
        kind = token.token_type
        if kind not in KNOWN or (kind is TokenType.VAR and not WORD.fullmatch(token.text)):
            what = f"{token.text[:40]!r} at line {token.line}, column {token.col} is not understood"
            raise SqlError(SYNTAX_ERROR, what)
    return tokens


def _is_lambda(node: exp.Expression) -> bool:
    made = node.this
    while isinstance(made, exp.Paren):
        made = made.this.expressions[0] if isinstance(made.this, Items) and made.this.expressions else made.this
    return isinstance(node, exp.Alias) and isinstance(made, exp.Lambda)
