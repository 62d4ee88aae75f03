"""The packages as pyproject.toml lists them, and as they describe themselves."""

from __future__ import annotations

import ast
import re
import tomllib

import pytest

from tests.conftest import FLOORS, REPO

with (REPO / "pyproject.toml").open("rb") as _project:
    TOOL = tomllib.load(_project)["tool"]


def test_every_tool_knows_every_floor() -> None:
    floors = set(FLOORS)
    layers = {name for layer in TOOL["importlinter"]["contracts"][0]["layers"] for name in layer.split(" | ")}
    assert set(TOOL["hatch"]["build"]["targets"]["wheel"]["sources"]) == floors - {"gpuledger"}
    assert set(TOOL["mypy"]["packages"]) == floors
    assert set(TOOL["coverage"]["run"]["source"]) == floors
    assert set(TOOL["importlinter"]["root_packages"]) == layers == floors
    assert set(TOOL["importlinter"]["contracts"][2]["ancestors"]) == floors


@pytest.mark.parametrize("floor", FLOORS)
def test_the_docstring_of_a_floor_says_what_each_folder_in_it_is_for(floor: str) -> None:
    text = ast.get_docstring(ast.parse((REPO / floor / "__init__.py").read_text(encoding="utf-8"))) or ""
    described = set(re.findall(r"^ {4}(\w+) {2,}\w", text, re.M))
    folders = {path.name for path in (REPO / floor).iterdir() if path.is_dir() and not path.name.startswith(("_", "."))}
    assert described == folders
