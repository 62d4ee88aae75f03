"""Lines that are read at once give the rows, rejects and names that they give read one by one, whatever they are."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from ingest import json_files
from ingest.batches import assemble
from ingest.normalise import Clean, normalise
from ingest.plain_json import plain_rows
from tests.draws import drawn_seed
from warehouse.records import RECORD_TYPES, SAMPLES, RecordType

NOW = datetime(2026, 11, 1, tzinfo=UTC)
ROW = {
    "ts": "2026-10-01T00:00:00.000Z",
    "interval_seconds": 10.0,
    "cluster": "c1",
    "device_id": "GPU-1",
    "state": "ok",
    "utilization": 0.5,
    "memory_used_bytes": 1 << 33,
    "temperature_celsius": 60,
}
VALUES: Sequence[Any] = (
    *("", "x", "训练é", 'say "x"', "a\tb", "null", "{", "}", "[", ":", ",", "\ud800", "\x00", "\x7f", " 1 ", "1e3"),
    *(0, 1, -1, 60, 2**53 + 1, 2**63, 2**64, 10**30, 0.0, -0.0, 0.1, 1.5, 1e-320, 1e308, 3.4028235e38, 3.5e38),
    *(True, False, None, {}, {"a": 1}, [], [1, [2]], float("nan"), float("inf"), "NaN", "2026-10-01T00:00:00Z"),
)
NUMBERS = (
    b"1e400",
    b"-0",
    b"-0.0",
    b"01",
    b"1.",
    b".5",
    b"+1",
    b"1e",
    b"1E5",
    b"1e-5",
    b"Infinity",
    b"0x1",
    b"1_0",
    b"--1",
)
LETTERS = b'{}[]":,\\\n\r\t 01-.eE+ntfa\x00\xff\xc3\xa9/u'


def test_plain_rows_are_those_of_the_contract_in_its_own_types() -> None:
    text = "\n".join(json.dumps({**ROW, "memory_used_bytes": number}, ensure_ascii=False) for number in range(3))
    table = plain_rows(SAMPLES, text.encode(), 3)
    assert table is not None
    assert table.column_names == list(ROW)
    assert table["memory_used_bytes"].to_pylist() == [0, 1, 2]
    assert table["temperature_celsius"].to_pylist() == [60.0] * 3


PLAIN = json.dumps(ROW).encode()


@pytest.mark.parametrize(
    "text",
    [
        b"null",
        b"{}null}",
        PLAIN + b"\nnull",
        PLAIN + b"\r\n" + PLAIN,
        b'{"cluster": "a",\n"node": "b"}',
        b'{"cluster": \n{"node": "b"}}',
        b"{}{}\n" + PLAIN[:-1],
        PLAIN + PLAIN + b'\n{"x": {}\n}',
        b'{"cluster": "a", "cluster": "b"}\n' + PLAIN,
        b'{"x" : 1, "x" : 2, "node" : "n", "workload_id": ":a"}\n' + PLAIN,
        PLAIN.replace(b"}", b', "x": 1}') + b"\n" + PLAIN,
        PLAIN + b"\n" + PLAIN.replace(b"}", b', "x": 1}'),
        PLAIN.replace(b'"c1"', b'"\xff"') + b"\n" + PLAIN,
        PLAIN.replace(b'"c1"', b'"' + b"c" * 70_000 + b'"') + b"\n" + PLAIN,
        PLAIN.replace(b"0.5", b"-0") + b"\n" + PLAIN,
    ],
)
def test_what_arrow_reads_otherwise_or_ends_at_is_not_plain(text: bytes) -> None:
    assert plain_rows(SAMPLES, text, text.count(b"\n") + 1) is None


def test_parts_of_a_table_are_put_together_as_if_each_were_a_table_of_its_own() -> None:
    chance = random.Random(drawn_seed())
    lines = [json.dumps({**ROW, "device_id": f"GPU-{chance.randrange(9)}"}).encode() for _ in range(60)]
    whole = normalise(SAMPLES, json_files.lines_piece(SAMPLES, lines[:40])[0], NOW)
    other = normalise(SAMPLES, json_files.lines_piece(SAMPLES, lines[40:])[0], NOW)
    edges = [0, *sorted(chance.sample(range(41), 6)), 40]
    parts = [whole.part(start, end - start) for start, end in pairwise(edges)]
    for cleans in (parts, [*parts[:3], other, *parts[3:]], [other, *parts, other], chance.sample(parts, len(parts))):
        alone = [Clean(clean.rows, clean.table, [], {}) for clean in cleans]
        together, apart = assemble(SAMPLES, "s", 1, cleans), assemble(SAMPLES, "s", 1, alone)
        assert (together.id, together.rows) == (apart.id, apart.rows)
        assert together.table.to_pylist() == apart.table.to_pylist()


@pytest.mark.parametrize("record", RECORD_TYPES.values(), ids=RECORD_TYPES)
def test_lines_give_the_same_read_at_once_and_one_by_one(record: RecordType, monkeypatch: pytest.MonkeyPatch) -> None:
    chance = random.Random(drawn_seed())
    at_once = 0
    for _ in range(400):
        text = b"\n".join(_line(record, chance) for _ in range(chance.randint(1, 4)))
        lines = [line for line in text.splitlines() if line.strip()]
        with monkeypatch.context() as patched:
            patched.setattr(json_files, "looks_plain", lambda *_: True)  # a look that errs changes nothing
            patched.setattr(json_files, "plain_rows", _noted(found := []))
            fast = json_files.lines_piece(record, lines, 5)
            patched.setattr(json_files, "plain_rows", lambda *_: None)
            slow = json_files.lines_piece(record, lines, 5)
        at_once += bool(found)
        _assert_same(normalise(record, fast[0], NOW), normalise(record, slow[0], NOW), lines)
        assert fast[1:] == slow[1:], lines
    assert at_once > 50


def _noted(found: list[int]) -> Callable[..., pa.Table | None]:
    def read(record: RecordType, text: bytes, lines: int) -> pa.Table | None:
        table = plain_rows(record, text, lines)
        if table is not None:
            found.append(lines)
        return table

    return read


def _assert_same(one: Any, other: Any, lines: Sequence[bytes]) -> None:
    assert (one.rows, one.rejects, one.excess) == (other.rows, other.rejects, other.excess), lines
    assert one.table.schema == other.table.schema, lines
    assert one.table.equals(other.table), lines
    for name, kind in zip(one.table.column_names, one.table.schema.types, strict=True):
        if pa.types.is_floating(kind):
            signs = [np.signbit(table[name].to_numpy()) for table in (one.table, other.table)]
            assert (signs[0] == signs[1]).all(), lines


def _line(record: RecordType, chance: random.Random) -> bytes:
    """A row of the record type: mostly good, at times odd, at times broken."""
    row = {column.name: _value(column, chance) for column in record.columns if column.required or chance.random() < 0.5}
    if chance.random() < 0.1:
        row[chance.choice([*row, "x", "x\ty"])] = chance.choice(VALUES)
    separators = chance.choice([(",", ":"), (", ", ": ")])
    line = json.dumps(row, ensure_ascii=chance.random() < 0.3, separators=separators).encode(errors="surrogatepass")
    if chance.random() < 0.05:
        line = line.replace(b"0.25", chance.choice(NUMBERS)).replace(b": 7", b": " + chance.choice(NUMBERS))
    if chance.random() < 0.05:
        line = line[:-1] + b"," + line[1:]
    if chance.random() < 0.08:
        at, new = chance.randrange(len(line)), bytes([chance.choice(LETTERS)])
        line = line[:at] + new + line[at + chance.randint(0, 1) :]
    return line


def _value(column: Any, chance: random.Random) -> Any:
    if column.choices:
        return chance.choice(column.choices)
    kinds: dict[str, Sequence[Any]] = {
        "time": ("2026-10-01T00:00:00.000Z", "2026-10-01 02:00:00+02:00", "2026-10-01T00:00:00.123456Z"),
        "text": ("a", "GPU-1", "训练", "", "it's: 1, 2"),
        "float": (0.25, 0.1 + chance.random() / 2, 1, 7, 0.0),
        "uint": (7, 1, 1 << 40),
        "int": (7, -3, 0),
        "bool": (True, False),
    }
    return chance.choice(kinds[column.type])
