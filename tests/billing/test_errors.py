"""What billing says when something is refused: where, what, and what to do next, in this order."""

from __future__ import annotations

import ast

import pytest

from tests.access.test_errors import text_of
from tests.conftest import REPO


def raised() -> list[tuple[str, list[ast.expr]]]:
    """Each error of billing/ that has all three: its place in the code, and they."""
    found = []
    for path in sorted((REPO / "billing").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            name = getattr(getattr(node, "func", None), "id", "")
            if isinstance(node, ast.Call) and name.endswith("Error") and len(node.args) == 3:
                found.append((f"{path.relative_to(REPO)}:{node.lineno}", node.args))
    return found


@pytest.mark.parametrize("place", [1, 2], ids=["what", "what to do"])
def test_an_error_says_what_is_wrong_before_what_to_do(place: int) -> None:
    """What to do is a sentence; what is wrong goes on after the place."""
    errors = raised()
    assert len(errors) > 90
    for at, given in errors:
        text = text_of(given[place])
        if isinstance(text, str) and not text.startswith("x "):  # which begins with what is filled in
            assert text[:1].isupper() == (place == 2), (at, text)
