"""Tokens of a text, and the place in them."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import ClassVar, NoReturn

from sqlglot import exp
from sqlglot.dialects.clickhouse import ClickHouse
from sqlglot.errors import TokenError
from sqlglot.parsers.clickhouse import ClickHouseParser
from sqlglot.tokenizer_core import Token, TokenType

from api.sql.errors import READONLY, SYNTAX_ERROR, SqlError
from api.sql.grammar.nodes import Items
from api.sql.grammar.words import DEEPEST, KNOWN, MOST_TOKENS, NAMES, PIECE, WORD


class Dialect(ClickHouse):
    class Tokenizer(ClickHouse.Tokenizer):
        COMMENTS = ["--", ("/*", "*/")]  # noqa: RUF012 (sqlglot's metaclass reads it)
        NESTED_COMMENTS = False
        COMMANDS: ClassVar[set[TokenType]] = set()
        KEYWORDS: ClassVar[dict[str, TokenType]] = {
            "==": TokenType.EQ, "!=": TokenType.NEQ, "<>": TokenType.NEQ, "<=": TokenType.LTE, ">=": TokenType.GTE,
            "<=>": TokenType.NULLSAFE_EQ, "||": TokenType.DPIPE, "::": TokenType.DCOLON, "->": TokenType.ARROW,
        }  # fmt: skip


class Cursor(ClickHouseParser):
    """A place in the tokens of a text, and what may be taken there."""

    def start(self, text: str) -> None:
        """Errors: SqlError for a text that is empty, too long, or no SQL."""
        tokens = _tokens(text)
        while tokens and tokens[-1].token_type is TokenType.SEMICOLON:
            tokens.pop()
        if not tokens:
            raise SqlError(SYNTAX_ERROR, "an empty statement")
        self.reset()
        self.sql, self._tokens, self._tokens_size = text, tokens, len(tokens)
        words = [token.text.upper() if token.token_type is TokenType.VAR else "" for token in tokens]
        self._words = [*words, "", "", "", ""]
        self._level = 0
        self._index = -1
        self._advance()

    def _query(self) -> exp.Expression:
        """A SELECT, or several combined."""
        raise NotImplementedError

    def _expr(self) -> exp.Expression:
        raise NotImplementedError

    def _window(self) -> exp.Expression:
        raise NotImplementedError

    def _combined(self, first: exp.Expression) -> exp.Expression:
        """What UNION and its kin combine with a first query."""
        raise NotImplementedError

    def _parenthesised_query(self) -> exp.Expression:
        raise NotImplementedError

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
        found = f"{self._curr.text[:40]!r} at {_place(self._curr, self.sql)}" if self._curr else "the end"
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
            raise SqlError(SYNTAX_ERROR, f"{token.text[:40]!r} at {_place(token, text)} is not understood")
    return tokens


def _place(token: Token, text: str) -> str:
    """Where the token begins; its own column counts bytes, up to its end."""
    line_begins = text.rfind("\n", 0, token.start) + 1
    return f"line {token.line}, column {token.start - line_begins + 1}"
