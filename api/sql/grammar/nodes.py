"""Kinds of nodes that the tree has beside sqlglot's own."""

from __future__ import annotations

from typing import ClassVar

from sqlglot import exp


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
