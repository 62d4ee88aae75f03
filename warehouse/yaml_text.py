"""Strict YAML for files that people write: no tags that run code, no duplicate keys, bounded depth and size."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from functools import partial
from typing import Any

import yaml

DEPTH = 50
VALUES = 500_000
"""With every alias written out: nine lines of aliases to aliases can stand for a thousand million values."""
LineOf = Callable[[Sequence[int | str]], int]
_KEYS_OF_YAML = {"tag:yaml.org,2002:merge", "tag:yaml.org,2002:value"}
"""`<<` and `=`: what they stand for is written into the mapping, where its own keys go before."""


class YamlError(ValueError):
    """A text that is not YAML, or not usable. line: counted from 1; None where no line can be named."""

    def __init__(self, what: str, line: int | None = None) -> None:
        self.what, self.line = what, line
        super().__init__(what if line is None else f"line {line}: {what}")


class DuplicateKeyError(YamlError):
    """A mapping has a key twice. One of the two would silently be without effect."""


def parse_yaml(text: str) -> Any:
    """Errors: YamlError, also for what is too deep or too large."""
    return parse_with_lines(text)[0]


def parse_with_lines(text: str) -> tuple[Any, LineOf]:
    """What the text holds, and in which line of it (from 1) something is, by the keys and indices that lead there; what
    is not there is where it would be. Errors: YamlError, as for `parse_yaml`."""
    try:
        loader = _Loader(text)
        try:
            content = loader.get_single_data()
        finally:
            loader.dispose()
        return content, partial(_line_of, loader.root)
    except yaml.MarkedYAMLError as mistake:
        mark: yaml.Mark | None = mistake.problem_mark or mistake.context_mark
        said = " ".join(filter(None, (mistake.context, mistake.problem)))
        raise YamlError(" ".join(said.split()), None if mark is None else mark.line + 1) from mistake
    except yaml.YAMLError as mistake:
        raise YamlError(" ".join(str(mistake).split())) from mistake


class _Loader(yaml.SafeLoader):
    """In Python: 7 CPU seconds a MB. Trap: libyaml's takes a quarter, but a million `[` end the process."""

    _depth = 0
    root: yaml.Node | None = None

    def compose_node(self, parent: Any, index: Any) -> Any:
        self._depth += 1
        if self._depth > DEPTH:
            raise YamlError(f"nested more than {DEPTH} deep", self.line + 1)
        try:
            return super().compose_node(parent, index)
        finally:
            self._depth -= 1

    def compose_mapping_node(self, anchor: Any) -> Any:
        node = super().compose_mapping_node(anchor)
        lines: dict[Hashable, int] = {}
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode):
                value = key.value if key.tag in _KEYS_OF_YAML else self.construct_object(key)
                line = key.start_mark.line + 1
                if value in lines:
                    raise DuplicateKeyError(
                        f"the key {key.value!r} appears twice; its first line is {lines[value]}", line
                    )
                lines[value] = line
        return node

    def construct_object(self, node: Any, deep: bool = False) -> Any:
        try:
            return super().construct_object(node, deep)
        except YamlError:
            raise
        except (ValueError, LookupError, AttributeError) as mistake:  # 2026-02-30, five thousand digits, !!bool x
            raise YamlError(f"not a valid value ({mistake})", node.start_mark.line + 1) from mistake

    def get_single_node(self) -> Any:
        self.root = node = super().get_single_node()
        if node is not None and _size(node, {}) > VALUES:
            raise YamlError(f"more than {VALUES:,} values")
        return node


def _line_of(node: yaml.Node | None, place: Sequence[int | str]) -> int:
    line = 1
    for step in place:
        if found := _part(node, step):
            line, node = found
    return line


def _part(node: yaml.Node | None, step: int | str) -> tuple[int, yaml.Node] | None:
    """A part of a mapping or a list, and its line."""
    if isinstance(node, yaml.MappingNode):  # its own keys come after those that `<<` brought
        pairs = (pair for pair in reversed(node.value) if pair[0].value == str(step))
        return next(((key.start_mark.line + 1, value) for key, value in pairs), None)
    if isinstance(node, yaml.SequenceNode) and isinstance(step, int) and 0 <= step < len(node.value):
        return node.value[step].start_mark.line + 1, node.value[step]
    return None


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
