"""Words, signs and limits of the grammar."""

from __future__ import annotations

# ruff: noqa: SIM905
import re

from sqlglot.tokenizer_core import TokenType

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
     "USING", "AS", "WITH", "THEN", "ELSE", "WHEN", "QUALIFY"}
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
    HANDLER INSERT KILL LOAD MERGE MOVE OPTIMIZE PARALLEL PREPARE REFRESH RENAME REPLACE RESTORE REVOKE ROLLBACK
    SET SYSTEM TRUNCATE UNDROP UNLOCK UPDATE USE VALUES WATCH
    """.split()
)


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
