"""Faults of Python: mutmut's, those that change a computation or a decision, and a few more of the same form.

Left out is what the tests need not notice: annotations, decorators (a dataclass's options are the type checker's),
texts, and `strict` (of zip: a guard that no right program meets). Left out too is what nothing could overlook, such as
None in place of any value.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import pairwise
from typing import Any

import libcst as cst
import libcst.matchers as m
from libcst.metadata import MetadataWrapper, PositionProvider
from mutmut.mutation import mutators

from tests.mutants.fault import Fault, shown

Mutator = Callable[[Any], Iterable[cst.CSTNode]]
OF_MUTMUT = (
    mutators.operator_number,
    mutators.operator_name,
    mutators.operator_augmented_assignment,
    mutators.operator_remove_unary_ops,
    mutators.operator_symmetric_string_methods_swap,
    mutators.operator_unsymmetrical_string_methods_swap,
    mutators.operator_keywords,
    mutators.operator_swap_op,
    mutators.operator_match,
    mutators.operator_if_exp,
)
ORDER_IS_NOTHING = {"min", "max", "isinstance", "issubclass", "zip", "gcd", "lcm"}
NOT_NOTICED = m.Arg(keyword=m.Name("strict"))
OTHER_END = {"min": "max", "max": "min", "any": "all", "all": "any"}


def negated(node: cst.If) -> Iterator[cst.If]:
    """`if a:` to `if not a:`, where no operator in it can be swapped."""
    if isinstance(node.test, cst.Name | cst.Attribute | cst.Call):
        yield node.with_changes(test=cst.UnaryOperation(cst.Not(), node.test))


def dropped_clause(node: cst.BooleanOperation) -> Iterator[cst.BaseExpression]:
    """`a and b` to `a` and to `b`."""
    for kept in (node.left, node.right):
        yield kept.with_changes(lpar=[cst.LeftParen(), *kept.lpar], rpar=[*kept.rpar, cst.RightParen()])


def dropped_filter(node: cst.CompFor) -> Iterator[cst.CompFor]:
    """`for a in b if c` to `for a in b`."""
    for index in range(len(node.ifs)):
        yield node.with_changes(ifs=[*node.ifs[:index], *node.ifs[index + 1 :]])


def dropped_statement(node: cst.SimpleStatementLine) -> Iterator[cst.SimpleStatementLine]:
    """A call for its effect, or a refusal, to `pass`."""
    if m.matches(node, m.SimpleStatementLine(body=[m.Expr(value=m.Call()) | m.Raise()])):
        yield node.with_changes(body=[cst.Pass()])


def dropped_option(node: cst.Call) -> Iterator[cst.Call]:
    """`f(a, b=c)` to `f(a)`: the default in place of what is said."""
    for index, argument in enumerate(node.args):
        if argument.keyword is not None and not m.matches(argument, NOT_NOTICED):
            yield node.with_changes(args=_without_last_comma([*node.args[:index], *node.args[index + 1 :]]))


def swapped_arguments(node: cst.Call) -> Iterator[cst.Call]:
    """`f(a, b)` to `f(b, a)`, where both are of a kind; others end in a type error that nothing overlooks."""
    if m.matches(node.func, m.Name(value=m.MatchIfTrue(lambda name: name in ORDER_IS_NOTHING))):
        return
    plain = [argument for argument in node.args if argument.keyword is None and argument.star == ""]
    for index, (one, other) in enumerate(pairwise(plain)):
        if type(one.value) is type(other.value) and not one.value.deep_equals(other.value):
            swapped = list(node.args)
            swapped[index : index + 2] = [one.with_changes(value=other.value), other.with_changes(value=one.value)]
            yield node.with_changes(args=swapped)


def other_end(node: cst.Call) -> Iterator[cst.CSTNode]:
    """`min(a, b)` to `max(a, b)`, and the cap lost: to `a` and to `b`."""
    if not isinstance(node.func, cst.Name) or node.func.value not in OTHER_END:
        return
    yield node.with_changes(func=cst.Name(OTHER_END[node.func.value]))
    if len(node.args) > 1:
        for argument in node.args:
            if argument.keyword is None and argument.star == "":
                yield argument.value.with_changes(lpar=[cst.LeftParen()], rpar=[cst.RightParen()])


OURS: tuple[tuple[type[cst.CSTNode], Mutator], ...] = (
    (cst.If, negated),
    (cst.BooleanOperation, dropped_clause),
    (cst.CompFor, dropped_filter),
    (cst.SimpleStatementLine, dropped_statement),
    (cst.Call, dropped_option),
    (cst.Call, swapped_arguments),
    (cst.Call, other_end),
)
MUTATORS = (*((kind, of) for kind, of in mutators.mutation_operators if of in OF_MUTMUT), *OURS)


def faults_of_python(path: str, text: str) -> Iterator[Fault]:
    """Every one, in the order of the text."""
    wrapper = MetadataWrapper(cst.parse_module(text), unsafe_skip_copy=True)
    positions = wrapper.resolve(PositionProvider)
    module = wrapper.module
    for node in _nodes(module):
        for kind, mutator in MUTATORS:
            if not isinstance(node, kind):
                continue
            for new in mutator(node):
                start = positions[node].start
                what = f"{shown(_code(module, node))} -> {shown(_code(module, new))}"
                yield Fault(path, start.line, start.column + 1, what, _replaced(module, node, new))


def _nodes(node: cst.CSTNode) -> Iterator[cst.CSTNode]:
    if isinstance(node, cst.Annotation | cst.Decorator | cst.Import | cst.ImportFrom):
        return
    if m.matches(node, m.If(test=m.Name("TYPE_CHECKING")) | NOT_NOTICED):
        return
    yield node
    for child in node.children:
        yield from _nodes(child)


def _replaced(module: cst.Module, node: cst.CSTNode, new: cst.CSTNode) -> Callable[[], str]:
    return lambda: module.deep_replace(node, new).code  # type: ignore[attr-defined,no-any-return]


def _code(module: cst.Module, node: cst.CSTNode) -> str:
    return module.code_for_node(node.with_changes(leading_lines=[]) if hasattr(node, "leading_lines") else node)


def _without_last_comma(arguments: list[cst.Arg]) -> list[cst.Arg]:
    return [*arguments[:-1], arguments[-1].with_changes(comma=cst.MaybeSentinel.DEFAULT)] if arguments else []
