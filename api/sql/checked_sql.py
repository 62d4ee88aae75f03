"""Checks a tree and prints it: each kind of node has a rule here, and nodes without one are refused.

Printed is only what a rule has looked at, so that nothing of the text that came reaches the engine by itself. Names and
texts are in quotes and escaped, words come from a closed list, comments are gone.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from sqlglot import exp

from api.sql import schema
from api.sql.allowed import TABLE_FUNCTIONS, TYPES, Allowed, allowed_aggregate, allowed_function
from api.sql.errors import ACCESS_DENIED, SqlError
from api.sql.functions import HIGHER_ORDER, REFUSED
from api.sql.grammar.nodes import (
    Applied,
    Call,
    Explain,
    Items,
    Member,
    Path,
    Phrase,
    Selection,
    Show,
    Source,
    Subscript,
    TableCall,
    Type,
)
from api.sql.grammar.words import KEYWORDS, NUMBER, WORD
from api.sql.quote import name_literal, text_literal

READ_VIEWS = "The views are in docs/sql.md"
IN_FUNCTIONS = frozenset(
    {"in", "notin", "nullin", "notnullin", "globalin", "globalnotin", "globalnullin", "globalnotnullin"}
)
BY_NAME = frozenset({"arrayreduce", "arrayreduceinranges", "initializeaggregation"})
"""Functions whose first argument is the name of an aggregate."""
AGGREGATE = re.compile(r"(?P<name>\w{1,100})(\([0-9., ]*\))?", re.A)


class CheckedSqlWriter:
    """Prints one statement. answering: with what it may be told about the schema in place of the system's tables; else
    as it was asked, to be compared with the text that came.

    defined: the names that the statement's WITH gives to queries. tables, totals: what was found on the way.
    of_schema: whether answering would print something else.
    """

    def __init__(self, defined: frozenset[str], allowed: Allowed, answering: bool = False) -> None:
        self._defined, self._allowed, self._answering = defined, allowed, answering
        self._lambdas: frozenset[str] = frozenset()
        self.tables: set[str] = set()
        self.totals = False
        self.of_schema = False

    def print(self, node: exp.Expression) -> str:
        """The text of a node. Errors: SqlError if something in it is not allowed."""
        arguments, rule = RULES.get(type(node), ((), None))
        if rule is None or any(name not in arguments and value for name, value in node.args.items()):
            raise SqlError(ACCESS_DENIED, f"{type(node).__name__} is not known to be harmless")
        return rule(self, node)

    def _optional(self, node: exp.Expression | None) -> str:
        return "" if node is None else self.print(node)

    # Words and values

    def _word(self, node: exp.Expression) -> str:
        text = str(node.this)
        if any(one and one not in KEYWORDS for one in text.split(" ")):
            raise SqlError(ACCESS_DENIED, f"the word {text[:40]} is not known to be harmless")
        return text

    def _literal(self, node: exp.Expression) -> str:
        if node.args["is_string"]:
            return text_literal(node.this)
        if not NUMBER.fullmatch(node.this):
            raise SqlError(ACCESS_DENIED, "a number that cannot be read")
        return str(node.this)

    def _identifier(self, node: exp.Expression) -> str:
        return name_literal(node.this)

    def _star(self, node: exp.Expression) -> str:
        return "*"

    # Parts

    def _phrase(self, node: exp.Expression) -> str:
        text, tight, after_in = "", True, False
        for part in node.expressions:
            sign = isinstance(part, exp.Var) and part.this == "-"
            if after_in:
                self._may_be_table(part)
            after_in = isinstance(part, exp.Var) and part.this.split(" ")[-1] == "IN"
            printed = self.print(part)
            gap = "" if tight and not (text.endswith("-") and printed.startswith("-")) else " "
            text += gap + printed if printed else ""
            tight = sign and tight
        return text

    def _items(self, node: exp.Expression) -> str:
        return ("," if node.args.get("tight") else ", ").join(self.print(one) for one in node.expressions)

    def _paren(self, node: exp.Expression) -> str:
        return f"({self.print(node.this)})"

    def _array(self, node: exp.Expression) -> str:
        return f"[{self.print(node.expressions[0])}]"

    def _alias(self, node: exp.Expression) -> str:
        return f"{self.print(node.this)} AS {self.print(node.args['alias'])}"

    def _subscript(self, node: exp.Expression) -> str:
        return f"{self.print(node.this)}[{self.print(node.expression)}]"

    def _member(self, node: exp.Expression) -> str:
        whole = self.print(node.this)
        if isinstance(node.this, exp.Literal) and not node.this.is_string:
            whole = f"({whole})"  # or the point would be the number's
        return f"{whole}.{self.print(node.expression)}"

    def _cast(self, node: exp.Expression) -> str:
        return f"{self.print(node.this)}::{self.print(node.args['to'])}"

    def _lambda(self, node: exp.Expression) -> str:
        names = ", ".join(self.print(one) for one in node.expressions)
        return f"{names if node.args.get('colon') else f'({names})'} -> {self.print(node.this)}"

    def _placeholder(self, node: exp.Expression) -> str:
        return f"{{{_plain(node.this.name)}:{self.print(node.args['kind'])}}}"

    def _type(self, node: exp.Expression) -> str:
        if node.this.lower() not in TYPES:
            more = ": it names anything" if node.this.lower() == "identifier" else ""
            raise SqlError(ACCESS_DENIED, f"the type {node.this[:60]} is not allowed here{more}")
        arguments = node.args.get("arguments")
        return _plain(node.this) + (f"({self.print(arguments)})" if arguments else "")

    # What names something

    def _path(self, node: exp.Expression) -> str:
        names = [one.this for one in node.expressions]
        if len(names) == 1:
            self._check_name(names[0])
        elif self._allowed.names_database(names[0]):
            self._check_table(names[1], names[0])
            if self._cut(names[1], names[0]):
                raise SqlError(ACCESS_DENIED, f"{names[0]}.{names[1]} can only be read in FROM", "SELECT from it")
        return ".".join(self.print(one) for one in node.expressions)

    def _check_name(self, name: str) -> None:
        """A name that stands alone may be a column, a table (after IN) or a function (where one is an argument)."""
        if name in self._allowed.closed:
            raise SqlError(ACCESS_DENIED, f"the table {name} is not one that you may read", READ_VIEWS)
        if name.lower() in REFUSED:
            raise SqlError(ACCESS_DENIED, f"the function {name} is not allowed here", "Give a column another name")

    def _may_be_table(self, node: exp.Expression) -> None:
        """Judges what stands behind IN: a name in front of a dot is a database there, whichever the engine has."""
        bare = _bare(node)
        if isinstance(bare, Path):
            names = [one.this for one in bare.expressions]
            if len(names) > 1:
                self._check_table(names[1], names[0])
            if len(names) == 1 or names[0] == self._allowed.database:
                self.tables |= {names[-1]} & self._allowed.tables

    def _check_table(self, name: str, database: str) -> None:
        if not self._allowed.table(name, database):
            full = f"{database}.{name}" if database else name
            raise SqlError(ACCESS_DENIED, f"the table {full[:100]} is not one that you may read", READ_VIEWS)

    def _table(self, node: exp.Expression) -> str:
        name, database = node.this.this, node.args["db"].this if node.args.get("db") else ""
        if database or name not in self._defined:  # what is closed is no name to define
            self._check_table(name, database)
        if database in ("", self._allowed.database):
            self.tables |= {name} & self._allowed.tables
        return (f"{self.print(node.args['db'])}." if database else "") + self.print(node.this)

    def _cut(self, name: str, database: str) -> str:
        return schema.cut(f"{database}.{name}".lower(), self._allowed) if database else ""

    def _source(self, node: exp.Expression) -> str:
        text, alias, rest = self.print(node.this), node.args.get("alias"), self._optional(node.args.get("rest"))
        if isinstance(node.this, exp.Table) and node.this.args.get("db"):
            instead = self._cut(node.this.this.this, node.this.args["db"].this)
            if instead and rest:
                raise SqlError(ACCESS_DENIED, f"{rest.split(' ')[0]} does not fit that table")
            self.of_schema = self.of_schema or bool(instead)
            if instead and self._answering:
                text, alias = instead, alias or node.this.this
        if alias is not None:
            self._check_name(alias.this)
            text += f" AS {self.print(alias)}{self._optional(node.args.get('columns'))}"
        return f"{text} {rest}" if rest else text

    def _table_call(self, node: exp.Expression) -> str:
        arguments = self.print(node.args["arguments"])
        if node.this in self._allowed.parameterised:
            self._check_table(node.this, "")
            self.tables.add(node.this)
            return f"{name_literal(node.this)}({arguments})"
        if node.this.lower() not in TABLE_FUNCTIONS:
            what = f"the table function {node.this[:100]} is not allowed here"
            raise SqlError(ACCESS_DENIED, what, READ_VIEWS)
        return f"{_plain(node.this)}({arguments})"

    def _defined_query(self, node: exp.Expression) -> str:
        self._check_name(node.args["alias"].this)
        columns = self._optional(node.args.get("columns"))
        return f"{self.print(node.args['alias'])}{columns} {self._how(node)} {self.print(node.this)}"

    def _how(self, node: exp.Expression) -> str:
        return self._word(exp.Var(this=node.args["how"]))

    def _call(self, node: exp.Expression) -> str:
        self._check_function(node.this)
        lowered, given = node.this.lower(), _given(node)
        if lowered in IN_FUNCTIONS and len(given) > 1:
            self._may_be_table(given[1])
        if lowered in BY_NAME:
            self._check_aggregate(node.this, given)
        if lowered in HIGHER_ORDER and len(given) > 1 and isinstance(bare := _bare(given[0]), Path):
            self._check_function(bare.expressions[-1].this)
        parameters = node.args.get("parameters")
        first = f"({self.print(parameters)})" if parameters is not None else ""
        text = f"{_plain(node.this)}{first}({self.print(node.args['arguments'])})"
        rest = self._optional(node.args.get("rest"))
        return f"{text} {rest}" if rest else text

    def _applied(self, node: exp.Expression) -> str:
        self._check_function(node.this)
        parameters = node.args.get("parameters")
        if node.this.lower() in BY_NAME:
            self._check_aggregate(node.this, [])
        return _plain(node.this) + (f"({self.print(parameters)})" if parameters is not None else "")

    def _check_function(self, name: str) -> None:
        """A lambda's name is its own selection's: elsewhere the engine might know a function of that name."""
        own = name in self._lambdas and name.lower() not in REFUSED
        if not own and not allowed_function(name):
            raise SqlError(ACCESS_DENIED, f"the function {name[:100]} is not allowed here")

    def _check_aggregate(self, function: str, arguments: list[exp.Expression]) -> None:
        named = arguments[0] if arguments else None
        found = AGGREGATE.fullmatch(named.this) if isinstance(named, exp.Literal) and named.is_string else None
        if found is None or not allowed_aggregate(found["name"]):
            what = f"{function} takes the name of a plain aggregate, as a text"
            raise SqlError(ACCESS_DENIED, what, "Such as arrayReduce('sum', ...)")

    # Statements

    def _selection(self, node: exp.Expression) -> str:
        outer, self._lambdas = self._lambdas, frozenset(node.args.get("named") or ())
        parts = node.expressions
        self.totals = self.totals or any(isinstance(part, exp.Var) and part.this == "WITH TOTALS" for part in parts)
        text = " ".join(filter(None, (self.print(part) for part in parts)))
        self._lambdas = outer
        return text

    def _explain(self, node: exp.Expression) -> str:
        settings = self._optional(node.args.get("settings"))
        words = self._word(exp.Var(this=node.this))
        return " ".join(filter(None, (words, settings, self.print(node.expression))))

    def _show(self, node: exp.Expression) -> str:
        kind, full = self._word(exp.Var(this=node.this)), bool(node.args.get("full"))
        table: exp.Expression = node.args.get("table") or exp.Table()
        database, rest = node.args.get("database"), node.args.get("rest")
        self.of_schema = True
        if self._answering:
            if kind == "SHOW TABLES":
                named = database.this if database else ""
                return schema.show_tables(self._allowed, named, full, *self._like_limit(rest))
            if kind == "SHOW DATABASES":
                return schema.show_databases(self._allowed, *self._like_limit(rest))
            if kind.startswith("EXISTS") and not self._readable(table):
                return "SELECT toUInt8(0) AS `result`"
        if full:
            kind = kind.replace("SHOW", "SHOW FULL")
        if kind.startswith("EXISTS") and not self._readable(table):
            return f"{kind} {self._named(table)}"
        if kind.endswith("COLUMNS"):
            database = database or table.args.get("db")
            self._table(exp.Table(this=table.this, db=database))
            table = table.this
        shown = [kind, "FROM" if kind.endswith("COLUMNS") else "", self.print(table) if table.args else ""]
        shown += ["FROM", self.print(database)] if database else []
        return " ".join(filter(None, (*shown, self._optional(rest))))

    def _readable(self, table: exp.Expression) -> bool:
        database = table.args.get("db")
        return self._allowed.table(table.this.this, database.this if database else "")

    def _named(self, table: exp.Expression) -> str:
        database = table.args.get("db")
        return (f"{self.print(database)}." if database else "") + self.print(table.this)

    def _like_limit(self, rest: exp.Expression | None) -> tuple[str, str]:
        like, limit = "", ""
        parts = [self.print(part) for part in rest.expressions] if rest is not None else []
        while parts:
            first, second = parts.pop(0), parts.pop(0)
            if first == "LIMIT":
                limit = f"LIMIT {second}"
            else:
                like = f"{first} {second}"
        return like, limit


def _plain(name: str) -> str:
    """A name that stands without quotes: of a function, a type or a parameter."""
    if not WORD.fullmatch(name):
        raise SqlError(ACCESS_DENIED, f"the name {name[:60]!r} is not a plain one")
    return name


def _given(node: exp.Expression) -> list[exp.Expression]:
    """The arguments of a call."""
    arguments = node.args["arguments"]
    if isinstance(arguments, Phrase):
        arguments = arguments.expressions[-1]
    return list(arguments.expressions)


def _bare(node: exp.Expression) -> exp.Expression:
    """What is left without parentheses and alias."""
    while True:
        if isinstance(node, exp.Alias | exp.Paren):
            node = node.this
        elif isinstance(node, Items) and len(node.expressions) == 1:
            node = node.expressions[0]
        else:
            return node


Rule = Callable[[CheckedSqlWriter, exp.Expression], str]
RULES: Mapping[type[exp.Expr], tuple[tuple[str, ...], Rule]] = {
    exp.Var: (("this",), CheckedSqlWriter._word),
    exp.Literal: (("this", "is_string"), CheckedSqlWriter._literal),
    exp.Identifier: (("this",), CheckedSqlWriter._identifier),
    exp.Star: ((), CheckedSqlWriter._star),
    exp.Paren: (("this",), CheckedSqlWriter._paren),
    exp.Array: (("expressions",), CheckedSqlWriter._array),
    exp.Alias: (("this", "alias"), CheckedSqlWriter._alias),
    exp.Cast: (("this", "to"), CheckedSqlWriter._cast),
    exp.Lambda: (("this", "expressions", "colon"), CheckedSqlWriter._lambda),
    exp.Placeholder: (("this", "kind"), CheckedSqlWriter._placeholder),
    exp.Table: (("this", "db"), CheckedSqlWriter._table),
    exp.CTE: (("this", "alias", "columns", "how"), CheckedSqlWriter._defined_query),
    Phrase: (("expressions",), CheckedSqlWriter._phrase),
    Items: (("expressions", "tight"), CheckedSqlWriter._items),
    Subscript: (("this", "expression"), CheckedSqlWriter._subscript),
    Member: (("this", "expression"), CheckedSqlWriter._member),
    Type: (("this", "arguments"), CheckedSqlWriter._type),
    Path: (("expressions",), CheckedSqlWriter._path),
    Source: (("this", "alias", "columns", "rest"), CheckedSqlWriter._source),
    TableCall: (("this", "arguments"), CheckedSqlWriter._table_call),
    Call: (("this", "parameters", "arguments", "rest"), CheckedSqlWriter._call),
    Applied: (("this", "parameters"), CheckedSqlWriter._applied),
    Selection: (("expressions", "named"), CheckedSqlWriter._selection),
    Show: (("this", "full", "table", "database", "rest"), CheckedSqlWriter._show),
    Explain: (("this", "settings", "expression"), CheckedSqlWriter._explain),
}
"""Of each kind of node, the arguments it may have and how it is judged and printed."""
