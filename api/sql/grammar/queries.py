"""Queries: SELECT and its clauses."""

from __future__ import annotations

from sqlglot import exp
from sqlglot.tokenizer_core import TokenType

from api.sql.grammar.expressions import Expressions
from api.sql.grammar.nodes import Items, Phrase, Selection, Source, TableCall, phrase, word
from api.sql.grammar.words import FRAMES, JOINING, NAMES, NO_ALIAS, NO_NAME


class Queries(Expressions):
    """SELECT, from WITH to LIMIT, and what combines several."""

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


def _is_lambda(node: exp.Expression) -> bool:
    made = node.this
    while isinstance(made, exp.Paren):
        made = made.this.expressions[0] if isinstance(made.this, Items) and made.this.expressions else made.this
    return isinstance(node, exp.Alias) and isinstance(made, exp.Lambda)
