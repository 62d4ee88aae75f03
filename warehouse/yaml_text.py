"""YAML that people write: read without code, and no deeper or larger than somebody could have written."""

from __future__ import annotations

from typing import Any

import yaml

DEPTH = 50
VALUES = 500_000
"""With every alias written out: nine lines of aliases to aliases can stand for a thousand million values."""


def parse_yaml(text: str) -> Any:
    """Errors: yaml.YAMLError, also for what is too deep or too large."""
    return yaml.load(text, Loader=_Loader)  # noqa: S506 (a SafeLoader)


class _Loader(yaml.SafeLoader):
    _depth = 0

    def compose_node(self, parent: Any, index: Any) -> Any:
        self._depth += 1
        if self._depth > DEPTH:
            raise yaml.YAMLError(f"nested more than {DEPTH} deep")
        try:
            return super().compose_node(parent, index)
        finally:
            self._depth -= 1

    def get_single_node(self) -> Any:
        node = super().get_single_node()
        if node is not None and _size(node, {}) > VALUES:
            raise yaml.YAMLError(f"more than {VALUES:,} values")
        return node


def _size(node: yaml.Node, known: dict[int, int]) -> int:
    found = known.get(id(node))
    if found is None:
        known[id(node)] = 0  # an alias to itself
        parts: list[yaml.Node] = []
        if isinstance(node, yaml.SequenceNode):
            parts = node.value
        elif isinstance(node, yaml.MappingNode):
            parts = [one for pair in node.value for one in pair]
        known[id(node)] = found = 1 + sum(_size(one, known) for one in parts)
    return found
