"""What is said when something is refused: where, what, and what to do next, in this order."""

from __future__ import annotations

import ast

import pytest

from tests.conftest import REPO

VERBS = {"is", "has", "may", "would", "cannot", "found", "its", "already", "this", "you", "nobody", "looks", "views"}
"""With which it begins what is wrong: a place begins with none of them."""


def raised() -> list[tuple[str, list[ast.expr]]]:
    """Each error of access/ that has all three: its place in the code, and they."""
    found = []
    for path in sorted((REPO / "access").glob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and len(node.args) == 3):
                continue
            if node.func.id.endswith("Error"):
                found.append((f"{path.name}:{node.lineno}", node.args))
    return found


def text_of(node: ast.expr) -> str | None:
    """As it is written, with a letter for what is filled in."""
    if isinstance(node, ast.JoinedStr):
        return "".join(part.value if isinstance(part, ast.Constant) else "x" for part in node.values)
    return node.value if isinstance(node, ast.Constant) else None


@pytest.mark.parametrize("number", range(3))
def test_an_error_says_where_then_what_then_what_to_do(number: int) -> None:
    errors = raised()
    assert len(errors) > 30
    for at, given in errors:
        text, name = text_of(given[number]), getattr(given[number], "id", "")
        if number == 0:
            assert name != "what" and (text is None or text.split()[0] not in VERBS), at
        elif number == 1:
            assert not name.isupper() and (text is None or not text[0].isupper()), at
        else:
            assert name != "where" and (text is None or text[0].isupper()), at
