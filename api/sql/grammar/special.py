"""CAST, INTERVAL, CASE and their like, the transformers of *, and types."""

from __future__ import annotations

from sqlglot import exp
from sqlglot.tokenizer_core import TokenType

from api.sql.grammar.cursor import Cursor
from api.sql.grammar.nodes import Applied, Call, Items, Type, phrase, word
from api.sql.grammar.words import NAMES, NO_ALIAS, OPENING, UNITS


class Special(Cursor):
    """What looks like a function or a name and has a syntax of its own; and types."""

    def _aliased(self, implicitly: bool = False) -> exp.Expression:
        raise NotImplementedError

    def _chain(self, until: str = "") -> exp.Expression:
        raise NotImplementedError

    def _lambda_ahead(self) -> int:
        raise NotImplementedError

    def _arguments(self, name: str) -> exp.Expression:
        raise NotImplementedError

    def _path(self) -> exp.Expression:
        raise NotImplementedError

    def _number(self) -> exp.Expression:
        raise NotImplementedError

    def _string(self) -> exp.Expression:
        raise NotImplementedError

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
