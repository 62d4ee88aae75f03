"""Bodies of text become series: a bad line costs only itself, and says why."""

from __future__ import annotations

import math
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.openmetrics.parser import text_string_to_metric_families as openmetrics_families
from prometheus_client.parser import text_string_to_metric_families as families

from collectors.exporters.exposition import MOST_SERIES, Series, names, parse
from tests.patience import slowness

BODY = """\
# HELP ENERGY millijoules since the driver was loaded
# HELP TEMP degrees
# TYPE ENERGY counter
# TYPE TEMP gauge
ENERGY{gpu="0",UUID="GPU-a"} 128996013
TEMP{gpu="0", UUID="GPU-a", } 31
ENERGY{gpu="1",UUID="GPU-b"} 9223372036854775794
"""


def test_a_counter_keeps_its_name_and_helps_may_come_first() -> None:
    read = parse(BODY)
    assert [(one.name, one.labels["UUID"], one.value) for one in read.series] == [
        ("ENERGY", "GPU-a", 128996013),
        ("TEMP", "GPU-a", 31),
        ("ENERGY", "GPU-b", 9223372036854775794),
    ]
    assert not read.dropped


def test_the_other_parser_renames_counters_and_loses_a_body_for_one_line() -> None:
    """Why it is not used; if this fails, docs/exporters.md should be read again."""
    typed = "# TYPE ENERGY counter\nENERGY 5\n"
    assert [sample.name for family in families(typed) for sample in family.samples] == ["ENERGY_total"]
    assert [one.name for one in parse(typed).series] == ["ENERGY"]
    with pytest.raises(ValueError, match="float"):
        list(families("A 1\ngarbage line here {\nB 2\n"))
    with pytest.raises(ValueError, match="Clashing"):
        list(openmetrics_families("# TYPE A counter\nA 1\n# EOF\n"))


def test_garbage_costs_its_own_line_and_is_counted() -> None:
    body = (
        b"A 1\n"
        b"}{ what\n"
        b"B{x=1} 2\n"
        b'C{x="1"} two\n'
        b'D{x="1",x="2"} 3\n'
        b'E{x="1"} 4 soon\n'
        b'F{x="\xff"} 5\n'
        b'G{x="a\\"}# b\\n\\\\"} 6 1700000000000 # {trace="1"} 1\n'
        b"H 0x10\n"
        b"I 1_000\n"
        b"J 74166"
    )
    read = parse(body)
    assert read.series == [Series("A", {}, 1), Series("D", {"x": "1"}, 3), Series("G", {"x": 'a"}# b\n\\'}, 6, 1.7e9)]
    assert read.dropped == {
        "malformed line": 1,
        "malformed labels": 1,
        "not a number": 3,
        "malformed timestamp": 1,
        "not UTF-8": 1,
        "cut short": 1,
    }


def test_many_and_long_labels_are_not_read_and_cost_the_series_nothing() -> None:
    many = ",".join(f'a{n}="x"' for n in range(500))
    (one, other) = parse(f'A{{UUID="GPU-1",{many}}} 1\nA{{UUID="GPU-2",b="{"x" * 2000}",c="3"}} 2\n').series
    assert one.labels["UUID"] == "GPU-1" and len(one.labels) == 64
    assert other.labels == {"UUID": "GPU-2", "c": "3"}


def test_a_page_is_read_as_far_as_any_exporter_has_series() -> None:
    read = parse("A 1\n" * (MOST_SERIES + 5))
    assert len(read.series) == MOST_SERIES and read.dropped == {"too many series": 5}


def test_a_line_without_an_end_is_not_believed() -> None:
    """Cut in the middle of its number it would be another number."""
    assert [one.value for one in parse("A 1\nUSED 741").series] == [1]
    assert [one.value for one in parse("A 1\nUSED 74166\n").series] == [1, 74166]


def test_timestamps_are_milliseconds_in_text_and_seconds_in_openmetrics() -> None:
    assert parse("A 1 1606402000\n").series[0].timestamp == 1606402.0
    assert parse("A 1 1606402000.5\n# EOF", openmetrics=True).series[0].timestamp == 1606402000.5


def test_whole_numbers_stay_exact() -> None:
    """As a double, 2^63 - 14 is 2^63 - 16 and 2^63 alike; as text it is not."""
    assert [one.value for one in parse("A 9223372036854775794\nA 9.223372036854775807e18\n").series] == [
        9223372036854775794,
        2.0**63,
    ]
    assert [one.value for one in parse("A +Inf\nA -Inf\n").series] == [math.inf, -math.inf]
    assert math.isnan(parse("A NaN\n").series[0].value)


def test_names_not_wanted_are_counted_and_not_read() -> None:
    read = parse('A{x="1"} 1\nB{broken} 2\nB 3\n', lambda name: name == "A")
    assert [one.name for one in read.series] == ["A"]
    assert read.dropped == {"not in the profile": 2}
    assert names('# HELP C\nA{x="1"} 1\n  B 2\n') == {"A", "B"}


LABELS = st.dictionaries(st.from_regex(r"[a-zA-Z_][a-zA-Z0-9_]{0,8}", fullmatch=True), st.text(max_size=12), max_size=5)


@given(
    st.from_regex(r"[a-zA-Z_:][a-zA-Z0-9_:]{0,12}", fullmatch=True),
    LABELS,
    st.one_of(st.integers(-(2**70), 2**70), st.floats(allow_nan=False)),
    st.none() | st.integers(0, 2**42),
)
def test_what_is_written_is_read(name: str, labels: dict[str, str], value: float, at: int | None) -> None:
    def escaped(text: str) -> str:
        return text.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')

    pairs = ",".join(f'{label}="{escaped(text)}"' for label, text in labels.items())
    line = f"{name}{{{pairs}}} {value!r}" + ("" if at is None else f" {at}") + "\n"
    assert parse(line).series == [Series(name, labels, value, None if at is None else at / 1000)]


@given(st.one_of(st.binary(max_size=300), st.text(max_size=300), st.text(alphabet='aA{}="\\,#\n 1.eE_', max_size=300)))
def test_any_body_is_read_and_every_line_accounted_for(body: bytes | str) -> None:
    read = parse(body)
    lines = body.split(b"\n") if isinstance(body, bytes) else body.encode("utf-8", "surrogatepass").split(b"\n")
    sample_lines = [line for line in lines if line.strip(b" \t\r") and not line.strip(b" \t\r").startswith(b"#")]
    assert len(sample_lines) == len(read.series) + sum(read.dropped.values())


def seconds_for(lines: int) -> float:
    body = "".join(f'M{i % 30}{{gpu="{i % 8}",UUID="GPU-{i % 8}",pod="p{i % 8}"}} {i}\n' for i in range(lines))
    spent = []
    for _ in range(3):
        start = time.process_time()
        assert len(parse(body).series) == lines
        spent.append(time.process_time() - start)
    return min(spent)


def test_time_grows_with_the_lines_and_not_faster() -> None:
    assert seconds_for(32_000) < 16 * seconds_for(4_000)  # 8 times the lines


@pytest.mark.parametrize(
    "evil", ['a{b="' + "\\" * 99_999, "a{" + '""' * 99_999, "a{" + ",=" * 99_999 + "} 1", "a" * 199_999]
)
def test_no_line_takes_long(evil: str) -> None:
    start = time.process_time()
    assert sum(parse(evil + "\n").dropped.values()) == 1
    assert time.process_time() - start < slowness()
