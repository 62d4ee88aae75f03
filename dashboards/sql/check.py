"""Whether a statement may be run: by its syntax tree, as the engine's own parser makes it (EXPLAIN AST).

Pure. A line of the tree is a node, its depth the number of spaces before it; the names in it are the statement's own.
Each line is judged by itself wherever it stands, so that no name, whatever it contains, can hide another line.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from dashboards.sql.allowed import TABLE_FUNCTIONS, Allowed
from dashboards.sql.errors import ACCESS_DENIED, READONLY, SYNTAX_ERROR, SqlError

READS = ("SelectWithUnionQuery", "SelectIntersectExceptQuery", "DescribeQuery", "ShowTables", "ShowCreateTableQuery",
         "ShowColumns", "ExistsTableQuery", "ExistsViewQuery", "Explain")  # fmt: skip
NODES = frozenset(
    {"SelectWithUnionQuery", "SelectIntersectExceptQuery", "SelectQuery", "ExpressionList", "Identifier", "Function",
     "Literal", "Asterisk", "QualifiedAsterisk", "ColumnsRegexpMatcher", "ColumnsListMatcher",
     "QualifiedColumnsRegexpMatcher", "QualifiedColumnsListMatcher", "ColumnsTransformerList",
     "ColumnsExceptTransformer", "ColumnsReplaceTransformer", "ColumnsApplyTransformer",
     "ColumnsReplaceTransformer::Replacement", "TablesInSelectQuery", "TablesInSelectQueryElement", "TableExpression",
     "TableIdentifier", "TableJoin", "ArrayJoin", "Subquery", "WithElement", "OrderByElement", "SampleRatio",
     "WindowDefinition", "WindowListElement", "Window", "InterpolateElement", "QueryParameter", "ShowTables",
     "ShowColumns", "DescribeQuery", "ShowCreateTableQuery", "ExistsTableQuery", "ExistsViewQuery", "Explain",
     "NameTypePair", "DataType", "Assignment", "CollateExpression", "StorageOrderByElement", "TTLElement"}
)  # fmt: skip
IN = frozenset({"in", "notin", "nullin", "notnullin", "globalin", "globalnotin", "globalnullin", "globalnotnullin"})
_NAME = re.compile(r"^(?P<node>[A-Za-z:]+)(?:\s+(?P<rest>.*))?$", re.S)
_TAIL = re.compile(r"(?: \(alias .*\))?(?: \(children \d+\))?$", re.S)
_QUOTED = re.compile(r"'(?:[^'\\]|\\.)*'|`((?:[^`\\]|\\.|``)*)`|\"((?:[^\"\\]|\\.)*)\"", re.S)


@dataclass(frozen=True)
class Node:
    depth: int
    kind: str
    name: str


def check_text(statement: str) -> None:
    """What the tree does not show, in the engine's own one-line rendering of the statement. Errors: SqlError."""
    for match in _QUOTED.finditer(statement):
        quoted = match[1] if match[1] is not None else match[2]
        if quoted is not None and ("\\" in quoted or not quoted.isprintable()):
            raise SqlError(ACCESS_DENIED, "a name has a backslash or a control character in it", "Rename it with AS")
    if re.search(r"\bpython\s*\(", statement, re.I):
        # Before the parser sees it: the embedded engine looks for the variable in this process first, for seconds.
        raise SqlError(ACCESS_DENIED, "the table function Python is not allowed here, nor its name in a text")
    bare = _QUOTED.sub(" ", statement)
    if re.search(r"\bINTO\s+OUTFILE\b", bare, re.I):
        raise SqlError(READONLY, "INTO OUTFILE writes a file on the server", "Save the answer where you ask")
    if re.search(r"\{\s*\w+\s*:\s*Identifier\s*\}", bare, re.I):
        raise SqlError(ACCESS_DENIED, "a parameter of the type Identifier names anything", "Write the name")


def check_tree(lines: Sequence[str], allowed: Allowed) -> str:
    """The kind of statement, if it may be run. Errors: SqlError with the reason."""
    nodes = [_node(line) for line in lines if line.strip()]
    if not nodes:
        raise SqlError(SYNTAX_ERROR, "an empty statement")
    root = nodes[0].kind
    if root not in READS:
        what = "reads only: SELECT, SHOW TABLES, SHOW CREATE TABLE, DESCRIBE, EXISTS and EXPLAIN"
        raise SqlError(READONLY, f"this endpoint {what}; {root} is none of them")
    above: list[Node] = []
    for number, node in enumerate(nodes):
        while above and above[-1].depth >= node.depth:
            above.pop()
        _check(node, above[-1].kind if above else "", nodes[number + 1 :], allowed)
        above.append(node)
    return root


def _check(node: Node, parent: str, following: Sequence[Node], allowed: Allowed) -> None:
    if node.kind == "Set":
        raise SqlError(READONLY, "SETTINGS in a statement are refused", "Send settings as parameters of the URL")
    if node.kind not in NODES:
        raise SqlError(ACCESS_DENIED, f"{node.kind} is not among what is known to be harmless")
    if node.kind == "Literal" and parent == "SelectWithUnionQuery":
        raise SqlError(READONLY, "INTO OUTFILE writes a file on the server", "Save the answer where you ask")
    if node.kind == "TableIdentifier":
        _check_table(node.name, allowed)
    elif node.kind in ("ShowCreateTableQuery", "ExistsTableQuery", "ExistsViewQuery"):
        _check_table(".".join(node.name.split()), allowed)
    elif node.kind == "Function" and parent == "TableExpression":
        if node.name.lower() not in TABLE_FUNCTIONS and node.name not in allowed.parameterised:
            raise SqlError(ACCESS_DENIED, f"the table function {node.name} is not allowed here", _READ_VIEWS)
    elif node.kind == "Function":
        if not allowed.function(node.name):
            raise SqlError(ACCESS_DENIED, f"the function {node.name} is not allowed here")
        if node.name.lower() in IN:
            _check_set(node, following, allowed)
    elif node.kind == "QueryParameter" and node.name.rpartition(":")[2].strip().lower() == "identifier":
        raise SqlError(ACCESS_DENIED, "a parameter of the type Identifier names anything", "Write the name")


def _check_table(name: str, allowed: Allowed) -> None:
    if not allowed.table(name):
        raise SqlError(ACCESS_DENIED, f"the table {name} is not for you to read", _READ_VIEWS)


def _check_set(node: Node, following: Sequence[Node], allowed: Allowed) -> None:
    """`x IN name` reads the table of that name: the tree has an Identifier there, not a TableIdentifier."""
    for other in following:
        if other.depth <= node.depth:
            return
        database, _, table = other.name.rpartition(".")
        named = other.kind == "Identifier" and other.depth == node.depth + 2
        if named and (table in allowed.closed or database.lower() in ("system", "information_schema")):
            _check_table(other.name if table not in allowed.closed else table, allowed)


def _node(line: str) -> Node:
    text = line.lstrip(" ")
    match = _NAME.match(text)
    if match is None:
        raise SqlError(ACCESS_DENIED, "the statement's syntax tree is not understood", "Use plain names")
    rest = _TAIL.sub("", " " + (match["rest"] or "").strip()).strip()
    return Node(len(line) - len(text), match["node"], rest)


_READ_VIEWS = "The views are in docs/sql.md"
