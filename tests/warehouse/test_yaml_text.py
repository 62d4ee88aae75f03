"""YAML that stands for more than its text."""

from __future__ import annotations

import time

import pytest
import yaml

from dashboards import stated
from warehouse.errors import LedgerError
from warehouse.yaml_text import VALUES, parse_yaml

LAUGHS = "a: &a [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{name}: &{name} [{', '.join([f'*{before}'] * 9)}]\n" for before, name in zip("abcdefgh", "bcdefghi", strict=True)
)


@pytest.mark.parametrize(
    "text",
    ["[" * 5000, "[" * 1_000_000, "{a: " * 5000, "- " * 5000, "? " * 1000, LAUGHS, "a: &a [*a, *a]\nb: " + "[" * 60,
     "!!python/object/apply:os.system ['true']", "!!python/name:os.system", "a: \x00", "%YAML 9.9\n---\na: 1"],
)  # fmt: skip
def test_what_nobody_would_write_is_refused_at_once(text: str) -> None:
    began = time.process_time()
    with pytest.raises(yaml.YAMLError):
        parse_yaml(text)
    assert time.process_time() - began < 2


def test_every_file_that_is_stated_over_http_refuses_it_in_a_line() -> None:
    for kind in (stated.RATES, stated.TENANTS, stated.BUDGETS, stated.OBJECTIVES, stated.ENERGY):
        for text in ("[" * 5000, LAUGHS, "a: &a [*a]"):
            with pytest.raises(LedgerError) as caught:
                stated.read(kind, text)
            assert len(str(caught.value)) < 1000


def test_aliases_that_people_write_are_read() -> None:
    assert parse_yaml("a: &a {x: 1}\nb: {<<: *a, y: 2}\nc: [*a, *a]") == {
        "a": {"x": 1}, "b": {"x": 1, "y": 2}, "c": [{"x": 1}, {"x": 1}]
    }  # fmt: skip
    assert parse_yaml("") is None
    assert VALUES > 100_000
