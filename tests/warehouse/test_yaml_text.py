"""YAML that stands for more than its text."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from api import applied_files
from tests.patience import slowness
from warehouse.errors import LedgerError
from warehouse.json_text import duplicate_key, keys_surely_unique, parse_json
from warehouse.yaml_text import VALUES, DuplicateKeyError, YamlError, parse_with_lines, parse_yaml

LAUGHS = "a: &a [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{name}: &{name} [{', '.join([f'*{before}'] * 9)}]\n" for before, name in zip("abcdefgh", "bcdefghi", strict=True)
)


@pytest.mark.parametrize(
    "text",
    ["[" * 5000, "[" * 1_000_000, "{a: " * 5000, "- " * 5000, "? " * 1000, LAUGHS, "a: &a [*a, *a]\nb: " + "[" * 60,
     "!!python/object/apply:os.system ['true']", "!!python/name:os.system", "a: \x00", "%YAML 9.9\n---\na: 1",
     "a: 2026-02-30", "a: " + "9" * 5000, "a: !!bool x", "a: !!timestamp x"],
)  # fmt: skip
def test_what_nobody_would_write_is_refused_at_once(text: str) -> None:
    began = time.process_time()
    with pytest.raises(YamlError):
        parse_yaml(text)
    assert time.process_time() - began < 2 * slowness()


def test_what_is_wrong_is_found_in_its_line() -> None:
    text = (
        "base: &base\n  a: 1\n  b: 2\nlist:\n  - x: 1\n\n  -\n    y: {z: [1,\n      2]}\nmine:\n  <<: *base\n  b: 3\n"
    )
    content, line_of = parse_with_lines(text)
    assert content["mine"] == {"a": 1, "b": 3}
    places = ((), 1), (("base", "b"), 3), (("list", 1), 8), (("list", 1, "y", "z", 1), 9), (("mine", "a"), 2)
    for place, line in (*places, (("mine", "b"), 12)):
        assert line_of(place) == line, place
    assert line_of(("list", 0, "missing")) == 5, "where it would be"
    assert line_of(("list", 7)) == 4 and line_of(("base", "kind", "b")) == 3
    assert parse_with_lines("")[1](("a", 1)) == 1


def test_every_file_that_is_stated_over_http_refuses_it_in_a_line() -> None:
    for kind in (
        applied_files.RATES,
        applied_files.TENANTS,
        applied_files.BUDGETS,
        applied_files.OBJECTIVES,
        applied_files.ENERGY,
    ):
        for text in ("[" * 5000, LAUGHS, "a: &a [*a]"):
            with pytest.raises(LedgerError) as caught:
                applied_files.read(kind, text)
            assert len(str(caught.value)) < 1000


@pytest.mark.parametrize(
    ("text", "line", "key"),
    [("a: 1\nb: 2\na: 3", 3, "a"), ("a:\n  - {x: 1, y: 2}\n  - {x: 1,\n     x: 2}", 4, "x"), ("1: a\n0x1: b", 2, "0x1"),
     ("a: {yes: 1, true: 2}", 1, "true"), ("a: &a {x: 1}\nb: {<<: *a, <<: *a}", 2, "<<"),
     ('{"a": 1,\n "a": 1}', 2, "a"), ("a: 1\n'a': 1", 2, "a"), ("a: !!set {x, x}", 1, "x")],
)  # fmt: skip
def test_a_key_that_is_there_twice_is_refused_with_its_line(text: str, line: int, key: str) -> None:
    with pytest.raises(DuplicateKeyError, match=f"the key '{key}' appears twice") as caught:
        parse_yaml(text)
    assert caught.value.line == line


def test_a_key_may_stand_in_two_places_and_go_before_what_is_merged() -> None:
    assert parse_yaml("a: {x: 1}\nb: {x: 1}\n1: c\n'1': d") == {"a": {"x": 1}, "b": {"x": 1}, 1: "c", "1": "d"}
    merged = parse_yaml("a: &a {x: 1}\nb: &b {<<: *a, x: 2}\nc: {<<: *b}\nd: {<<: [*a, *b]}")
    assert [merged[name]["x"] for name in "abcd"] == [1, 2, 2, 1]


@pytest.mark.parametrize(
    ("text", "says"),
    [('{"a": 1,\n "b": 2,\n "a": 3}', "line 3: the key 'a' appears twice"),
     ('[{"a": [{"b": 1, "b": 1}]}]', "'b' appears"),
     ('\t{"a": 1,\n\t"\\u0061": 1}', "^line 2: the key 'a' appears twice; its first line is 1$"),
     ("[" * 100_000, "nested too deep"),
     ('{"a": NaN}', "NaN is not a number"), ('{"a": -Infinity}', "-Infinity is not a number"), ("9" * 5000, "limit")],
)  # fmt: skip
def test_json_that_people_write_has_no_key_twice_and_no_number_that_is_none(text: str, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        parse_json(text)


def test_a_key_twice_among_many_is_found_about_as_fast_as_the_text_is_read() -> None:
    fields = [f'"k{number}":1' for number in range(50_000)]
    text = "{" + ",".join(fields) + "}"
    began = time.process_time()
    assert duplicate_key(text.encode()) is None
    read = time.process_time()
    assert duplicate_key(text[:-1].encode() + b',"k49999":1}') == "the key 'k49999' appears twice"
    found = time.process_time()
    assert found - read < 10 * (read - began) + 0.5
    with pytest.raises(ValueError, match=r"^line 2: the key 'k49999' appears twice; its first line is 1$"):
        parse_json(text[:-1] + ',\n"k49999":1}')
    assert time.process_time() - found < 20 * (read - began) + 1


NESTED = st.recursive(
    st.none() | st.text(max_size=3), lambda more: st.lists(more) | st.dictionaries(st.text(max_size=2), more)
)


@given(NESTED)
def test_json_without_such_a_key_is_read_as_it_is_and_with_one_it_is_found(value: Any) -> None:
    row = {"a": value, "b": 1}
    for separators in ((",", ":"), (" , ", " : ")):
        text = json.dumps(row, separators=separators).encode()
        assert parse_json(text) == row
        assert duplicate_key(text) is None
        twice = text[:-1] + b', "b" :2}'
        assert not keys_surely_unique(twice, 2)
        assert duplicate_key(twice) == "the key 'b' appears twice"
        with pytest.raises(ValueError, match=r"^line 3: the key 'b' appears twice; its first line is 1$"):
            parse_json(text[:-1] + b',\n\n "b" :2}')
    assert keys_surely_unique(b'{"a":1,"b":"x y"}', 2)


def test_aliases_that_people_write_are_read() -> None:
    assert parse_yaml("a: &a {x: 1}\nb: {<<: *a, y: 2}\nc: [*a, *a]") == {
        "a": {"x": 1}, "b": {"x": 1, "y": 2}, "c": [{"x": 1}, {"x": 1}]
    }  # fmt: skip
    assert parse_yaml("") is None
    assert VALUES > 100_000
