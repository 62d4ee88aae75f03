"""Faults of the SQL files: what goes wrong in a statement that still runs."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from tests.mutants.fault import Fault, shown

TOKEN = re.compile(
    r"""(?P<skip>\s+|--[^\n]*|/\*.*?\*/)
    |(?P<text>'(?:[^'\\]|\\.|'')*'|`[^`]*`|"[^"]*")
    |(?P<parameter>\{[A-Za-z_]\w*:(?:[^{}'])*(?:'[^']*'[^{}']*)*\})
    |(?P<number>\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)
    |(?P<word>[$A-Za-z_][$\w]*(?:\.\w+)*)
    |(?P<sign><=|>=|!=|<>|==|->|::|\|\||.)""",
    re.VERBOSE | re.DOTALL,
)
OTHER_SIGN = {"<": "<=", "<=": "<", ">": ">=", ">=": ">", "=": "!=", "!=": "=", "<>": "=", "+": "-", "-": "+"}
OTHER_WORD = {
    "min": "max", "max": "min", "argMin": "argMax", "argMax": "argMin", "least": "greatest", "greatest": "least",
    "minIf": "maxIf", "maxIf": "minIf", "argMinIf": "argMaxIf", "argMaxIf": "argMinIf", "lead": "lag", "lag": "lead",
    "LEFT": "INNER", "INNER": "LEFT", "UNION ALL": "UNION DISTINCT", "AND": "OR", "OR": "AND",
    "true": "false", "false": "true", "floor": "ceil", "ceil": "floor",
    "leadInFrame": "lagInFrame", "lagInFrame": "leadInFrame", "PRECEDING": "FOLLOWING",
}  # fmt: skip
DROPPED_WORDS = {"NOT", "DISTINCT", "DESC", "assumeNotNull"}
FIRST_IS_KEPT = {"least", "greatest", "ifNull", "coalesce", "nullIf"}
"""The cap or the default is lost."""
ORDER_IS_NOTHING = {
    "least", "greatest", "multiply", "plus", "equals", "and", "or", "tuple", "uniqExact", "count", "IN", "USING",
    "array", "bitAnd", "bitOr", "cityHash64", "sipHash64", "sipHash128", "xxHash64", "hash", "BY", "OVER", "ON",
    "PARTITION",
}  # fmt: skip
"""And what is no function, before a parenthesis."""
TYPES = re.compile(r"(?:to)?(?:Decimal|DateTime|FixedString|Nullable|LowCardinality|Enum|U?Int|String|Array|Tuple)\w*")
"""The numbers in them are scales and widths."""
ENDS_OF_CLAUSE = {
    "AND", "OR", "GROUP", "ORDER", "HAVING", "LIMIT", "UNION", "WINDOW", "SETTINGS", "AS", "FROM", "WHERE", "PREWHERE",
    "SELECT", "LEFT", "INNER", "JOIN", "ANY", "ASOF", "SEMI", "ANTI", "CROSS", "FULL", "ARRAY", "ON", "USING",
    "QUALIFY", "THEN", "ELSE", "END", "ASC", "DESC", "ROWS", "RANGE",
}  # fmt: skip
STARTS_OF_CONDITION = {"AND", "OR", "BETWEEN", "WHERE", "ON", "HAVING", "WHEN"}


@dataclass(frozen=True)
class Token:
    kind: str
    text: str
    start: int
    end: int
    depth: int


def tokens_of(text: str) -> list[Token]:
    """Without blanks and comments. depth: of parentheses; one's own are at the depth outside."""
    found: list[Token] = []
    depth = 0
    for match in TOKEN.finditer(text):
        kind = str(match.lastgroup)
        if kind == "skip":
            continue
        depth -= match[0] in ")]"
        found.append(Token(kind, match[0], match.start(), match.end(), depth))
        depth += match[0] in "(["
    return found


def faults_of_sql(path: str, text: str) -> Iterator[Fault]:
    """Every one, in the order of the text."""
    line_starts = [0, *(match.end() for match in re.finditer("\n", text))]
    tokens = tokens_of(text)
    for index, token in enumerate(tokens):
        line = bisect_right(line_starts, token.start)
        for start, end, new in _edits(text, tokens, index):
            what = f"{shown(text[start:end])} -> {shown(new)}"
            mutant = text[:start] + new + text[end:]
            yield Fault(path, line, token.start - line_starts[line - 1] + 1, what, lambda mutant=mutant: mutant)


def _edits(text: str, tokens: Sequence[Token], index: int) -> Iterator[tuple[int, int, str]]:
    """(start, end, what comes in its place)."""
    token = tokens[index]
    before = tokens[index - 1] if index else None
    after = tokens[index + 1] if index + 1 < len(tokens) else None
    if _clause_of(tokens, index) in ("SETTINGS", "ENGINE"):
        return  # these change no answer, or nothing works
    if token.kind == "number" and _around(tokens, index) is None:
        yield token.start, token.end, str(int(token.text) + 1) if token.text.isdigit() else f"({token.text} + 1)"
    elif token.kind == "sign" and token.text in OTHER_SIGN:
        binary = before is not None and (before.kind != "sign" or before.text in ")]") and not before.text.isupper()
        if binary or token.text not in "+-":
            yield token.start, token.end, OTHER_SIGN[token.text]
    elif token.kind == "word":
        yield from _words(text, tokens, index)
        if after is not None and after.text == "(":
            yield from _calls(text, tokens, index)


def _clause_of(tokens: Sequence[Token], index: int) -> str:
    """The word that begins the clause that a token is in, or begins."""
    for token in reversed(tokens[: index + 1]):
        if token.depth < tokens[index].depth:
            break
        if token.depth == tokens[index].depth and (token.text in ENDS_OF_CLAUSE or token.text == "ENGINE"):
            return token.text
    return ""


def _words(text: str, tokens: Sequence[Token], index: int) -> Iterator[tuple[int, int, str]]:
    token = tokens[index]
    following = " ".join(one.text for one in tokens[index + 1 : index + 3])
    between = token.text == "AND" and _is_of_between(tokens, index)
    means_it = following.startswith("(") or token.text.isupper() or token.text in ("true", "false")
    if token.text in OTHER_WORD and means_it and not between:
        yield token.start, token.end, OTHER_WORD[token.text]
    elif token.text == "UNION" and following.startswith("ALL"):
        yield token.start, tokens[index + 1].end, "UNION DISTINCT"
    elif token.text == "IN" and tokens[index - 1].text != "NOT":
        yield token.start, token.end, "NOT IN"
    elif token.text == "IS":
        end = tokens[index + (2 if following.startswith("NOT") else 1)].end
        yield token.start, end, "IS NULL" if following.startswith("NOT") else "IS NOT NULL"
    elif token.text in DROPPED_WORDS and tokens[index - 1].text != "IS" and not following.startswith("EXISTS"):
        yield token.start, token.end, ""
    if token.text in ("AND", "OR") and not between:
        yield token.start, _clause_end(tokens, index), ""
        start = _clause_start(tokens, index)
        if start is not None:
            yield start, token.end, ""


def _calls(text: str, tokens: Sequence[Token], index: int) -> Iterator[tuple[int, int, str]]:
    token = tokens[index]
    arguments, end = _arguments(tokens, index)
    texts = [text[a:b] for a, b in arguments]
    if token.text in FIRST_IS_KEPT and len(texts) > 1:
        yield token.start, end, f"({texts[0]})"
        if token.text in ("least", "greatest"):
            yield token.start, end, f"({texts[1]})"
    if token.text in ORDER_IS_NOTHING or TYPES.fullmatch(token.text) or token.text.isupper():
        return
    for one, other in pairwise(range(len(texts))):
        is_lambda = "->" in texts[one]
        of_condition = token.text in ("if", "multiIf") and one < len(texts) - 2  # no value may stand there
        if texts[one] != texts[other] and not is_lambda and not of_condition:
            swapped = [*texts]
            swapped[one], swapped[other] = swapped[other], swapped[one]
            yield token.start, end, f"{token.text}({', '.join(swapped)})"


def _arguments(tokens: Sequence[Token], index: int) -> tuple[list[tuple[int, int]], int]:
    """Spans of a call's arguments, and where the call ends."""
    depth = tokens[index + 1].depth
    spans: list[tuple[int, int]] = []
    start = index + 2
    for at in range(index + 2, len(tokens)):
        token = tokens[at]
        closes = token.text == ")" and token.depth == depth
        if closes or (token.text == "," and token.depth == depth + 1):
            if at > start:
                spans.append((tokens[start].start, tokens[at - 1].end))
            start = at + 1
        if closes:
            return spans, token.end
    raise ValueError(f"a parenthesis is not closed: {tokens[index].text}")


def _around(tokens: Sequence[Token], index: int) -> str | None:
    """The type whose number this is."""
    depth = tokens[index].depth
    for at in range(index - 1, 0, -1):
        if tokens[at].text == "(" and tokens[at].depth < depth:
            return tokens[at - 1].text if TYPES.fullmatch(tokens[at - 1].text) else None
    return None


def _is_of_between(tokens: Sequence[Token], index: int) -> bool:
    for token in reversed(tokens[:index]):
        if token.depth < tokens[index].depth:
            return False
        if token.depth == tokens[index].depth and token.text in STARTS_OF_CONDITION:
            return token.text == "BETWEEN"
    return False


def _clause_end(tokens: Sequence[Token], index: int) -> int:
    depth, end = tokens[index].depth, tokens[index].end
    for at in range(index + 1, len(tokens)):
        token = tokens[at]
        stops = token.text == "," or (token.text in ENDS_OF_CLAUSE and not _is_call(tokens, at))
        of_between = token.text == "AND" and _is_of_between(tokens, at)
        if token.depth < depth or (token.depth == depth and stops and not of_between):
            break
        end = token.end
    return end


def _clause_start(tokens: Sequence[Token], index: int) -> int | None:
    """Where the clause before begins, if it is the first of its chain; the others are dropped with what is before."""
    depth, start = tokens[index].depth, None
    for at in range(index - 1, -1, -1):
        token = tokens[at]
        if token.depth == depth and token.text in ("AND", "OR") and not _is_of_between(tokens, at):
            return None
        stops = token.text in (",", "->") or (token.text in ENDS_OF_CLAUSE and not _is_call(tokens, at))
        if token.depth < depth or (token.depth == depth and stops and token.text != "AND"):
            break
        start = token.start
    return start


def _is_call(tokens: Sequence[Token], at: int) -> bool:
    """`any(x)` and `left(x)` are functions."""
    return not tokens[at].text.isupper()
