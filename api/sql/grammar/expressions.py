"""Expressions: operands and operators in turn."""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import exp
from sqlglot.tokenizer_core import TokenType

from api.sql.grammar.nodes import Call, Items, Member, Path, Phrase, Subscript, phrase, word
from api.sql.grammar.special import Special
from api.sql.grammar.words import (
    AFTER,
    BY_UNIT,
    CONSTANTS,
    FOLLOWING,
    NAMES,
    NEGATED,
    NO_ALIAS,
    NO_NAME,
    NUMBER,
    NUMBERS,
    OPERATORS,
    SIGNS,
    SPECIAL,
    UNITS,
)


class Expressions(Special):
    """Operands and operators."""

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
