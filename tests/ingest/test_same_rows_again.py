"""Delivery is at least once: what was sent before changes nothing, whatever the file, the order or the chunks."""

from __future__ import annotations

import random
import re
from datetime import timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ingest import batches as cutting
from ingest import ingest_file, ingest_tables
from ingest.batches import assemble
from ingest.csv_files import csv_pieces
from ingest.held import hash_of
from ingest.normalise import normalise
from ingest.pieces import table_pieces
from ingest.write import write
from tests.conftest import REPO
from tests.ingest.rows import HEADER, NOW, content, facts, samples, save
from warehouse.records import DEVICES, EVENTS, NARROW, SAMPLES, SERVICE_LEVELS, Column, RecordType
from warehouse.store import Store

FORMATS = ["s.parquet", "s.csv", "s.csv.gz", "s.jsonl", "s.ndjson.gz"]


def test_every_format_gives_the_same_rows_and_even_the_same_batch(store: Store, tmp_path: Path) -> None:
    table = samples(5000)
    first = ingest_file(store, SAMPLES, save(table, tmp_path / FORMATS[0]), now=NOW)
    assert (first.read, first.written, first.duplicate) == (5000, 5000, 0)
    before, held = content(store), facts(store)
    assert before[0]["n"] == 5000 and before[0]["bytes"] == 1024 * 5000 * 4999 // 2
    for name in FORMATS[1:]:
        report = ingest_file(store, SAMPLES, save(table, tmp_path / name), now=NOW)
        assert (report.read, report.written, report.duplicate, report.quarantined) == (5000, 0, 5000, {})
    assert facts(store) == held


def test_the_same_rows_in_another_order_and_cut_count_as_duplicates(store: Store) -> None:
    table = samples(2000)
    ingest_tables(store, SAMPLES, "a", [table], now=NOW)
    before = content(store)
    backwards = table.take(list(range(1999, -1, -1)))
    report = ingest_tables(store, SAMPLES, "b", [backwards.slice(0, 900), backwards.slice(900)], now=NOW)
    assert (report.written, report.duplicate) == (0, 2000)
    overlapping = ingest_tables(store, SAMPLES, "c", [samples(100, first=1950)], now=NOW)
    assert (overlapping.written, overlapping.duplicate) == (50, 50)
    assert before[0]["n"] + 50 == content(store)[0]["n"] == content(store)[0]["keys"]


def test_rows_of_a_writer_that_was_killed_are_counted_once_as_the_documents_say(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sent again together with others, they are another batch: the table has both."""

    def killed(*_: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr("ingest.write._complete", killed)
        ingest_tables(store, SAMPLES, "a", [samples(100)], now=NOW)
    ingest_tables(store, SAMPLES, "b", [samples(150)], now=NOW)
    assert store.value("SELECT count() FROM samples") == 250
    text = (REPO / "docs" / "sql.md").read_text(encoding="utf-8")
    (counted,) = re.findall(r"To count\nmeasurements: `(SELECT [^`]+)`", text)
    assert store.value(counted) == 150


def test_rows_that_repeat_within_a_batch_count_once(store: Store) -> None:
    table = samples(300)
    report = ingest_tables(store, SAMPLES, "a", [pa.concat_tables([table, table.slice(0, 120)])], now=NOW)
    assert (report.read, report.written, report.duplicate) == (420, 300, 120)
    assert store.value("SELECT count() FROM samples") == 300


@pytest.mark.parametrize("record", [SAMPLES, EVENTS, DEVICES, SERVICE_LEVELS], ids=lambda record: str(record.name))
def test_a_row_is_the_same_one_after_the_store_has_kept_it(store: Store, record: RecordType) -> None:
    """What is held is known by the hash of the row, as it comes or as a close takes it out of the store."""
    seed = random.randrange(10**6)
    print(f"seed {seed}")
    chance = random.Random(seed)
    table = pa.table({column.name: [_value(chance, column, n) for n in range(50)] for column in record.columns})
    (piece,) = table_pieces(record, "a", [table])
    clean = normalise(record, piece, NOW)
    assert len(clean.table) > 10, "samples that contradict themselves are not taken"
    write(store, record, "a", assemble(record, "a", 1, [clean]))
    kept = store.rows(f"SELECT {', '.join(column.name for column in record.columns)} FROM {record.name}")
    assert {hash_of(row) for row in kept} == {hash_of(row) for row in clean.table.to_pylist()}
    types = {row["name"]: row["type"] for row in store.rows(f"DESCRIBE TABLE {record.name}")}
    narrow = {column.name for column in record.columns if "Float32" in types[column.name]}
    assert narrow == (NARROW if record is SAMPLES else set())


def _value(chance: random.Random, column: Column, number: int) -> Any:
    """Any that fits; none now and then, where one may be missing."""
    if column.type == "time":
        return NOW - timedelta(days=1, milliseconds=1000 * number + chance.randrange(1000))
    if not column.required and chance.random() < 0.3:
        return None
    if column.choices:
        return chance.choice(column.choices)
    if column.type == "text":
        return f'{column.name} {number} \u2028"\\ü'
    if column.type == "bool":
        return chance.random() < 0.5
    if column.type == "float":
        return chance.uniform(max(column.minimum or 0.0, 0.001), column.maximum or 1e6)
    return chance.randint(int(column.minimum or 0), int(column.maximum or 1 << 40))


@pytest.mark.parametrize("record", [SAMPLES, EVENTS, DEVICES], ids=lambda record: str(record.name))
def test_what_is_told_in_other_words_leaves_what_a_close_has_read(store: Store, record: RecordType) -> None:
    """Whichever column differs, and whenever the engine merges them. What is the same in each is one row."""
    reported: list[dict[str, Any]] = []
    otherwise: list[dict[str, Any]] = []
    for number, column in enumerate(one for one in record.columns if one.name not in record.key):
        row = {one.name: _plain_value(one, 0) for one in record.columns} | {record.key[1]: f"k{number}"}
        reported.append(row)
        otherwise.append(row | {column.name: _plain_value(column, 1)})
    for rows, new, differing in (
        (reported, len(reported), 0),
        (otherwise, 0, len(otherwise)),
        ([*otherwise, *reported], 0, 0),
    ):
        report = ingest_tables(store, record, "a", [pa.Table.from_pylist(rows)], now=NOW)
        assert (report.written, report.differing) == (new, differing), "said, so that nobody takes it for a correction"
        store.command(f"OPTIMIZE TABLE {store.altered(record.name)} FINAL")
    names = ", ".join(column.name for column in record.columns)
    counts = "uniqExact(batch) AS batches, count() AS rows"
    kept = store.rows(f"SELECT {names}, {counts} FROM {record.name} GROUP BY {names}")
    assert len(kept) == 2 * len(reported)
    assert {(row["batches"], row["rows"]) for row in kept} == {(1, 1)}
    assert store.value(f"SELECT uniqExact(batch) FROM {record.name}") == 2


@pytest.mark.parametrize("record", [SAMPLES, EVENTS, DEVICES], ids=lambda record: str(record.name))
def test_the_order_of_rows_that_differ_within_a_batch_does_not_matter(store: Store, record: RecordType) -> None:
    """Each stays, whichever column differs, and equal ones are one."""
    seed = random.randrange(10**6)
    print(f"seed {seed}")
    rows: list[dict[str, Any]] = []
    for number, column in enumerate(one for one in record.columns if one.name not in record.key):
        row = {one.name: _plain_value(one, 0) for one in record.columns} | {record.key[1]: f"k{number}"}
        rows += [row, row | {column.name: _plain_value(column, 1)}]
        if not column.required and column.name not in ("utilization", "units"):  # no units are one
            rows.append(row | {column.name: None})
    rows = [{**row, "cluster": row["cluster"] or "c"} for row in rows]
    chance = random.Random(seed)
    mixed = chance.sample([*rows, *chance.choices(rows, k=20)], len(rows) + 20)
    ingest_tables(store, record, "a", [pa.Table.from_pylist(mixed)], now=NOW)
    store.command(f"OPTIMIZE TABLE {store.altered(record.name)} FINAL")
    names = ", ".join(column.name for column in record.columns)
    kept = store.rows(f"SELECT {names}, count() AS rows FROM {record.name} GROUP BY {names}")
    assert {row["rows"] for row in kept} == {1}
    assert len(kept) == len({tuple(sorted(_stored(record, row).items())) for row in rows})
    before = store.value(f"SELECT count() AS n FROM {record.name}")
    report = ingest_tables(store, record, "b", [pa.Table.from_pylist(mixed[::-1])], now=NOW)
    assert (report.written, store.value(f"SELECT count() AS n FROM {record.name}")) == (0, before)


def _stored(record: RecordType, row: dict[str, Any]) -> dict[str, str]:
    """Texts are never missing."""
    empty = {column.name for column in record.columns if column.type == "text" and row[column.name] is None}
    return {name: "" if name in empty else str(value) for name, value in row.items()}


def _plain_value(column: Column, which: int) -> Any:
    if column.type == "time":
        return NOW - timedelta(hours=2)
    if column.choices:
        return column.choices[2 * which]
    if column.type in ("text", "bool"):
        return f"{which}" if column.type == "text" else bool(which)
    return 0.25 + which * 0.5 if column.type == "float" else 1 + which


def test_a_service_level_without_quantile_has_a_key_all_the_same(store: Store) -> None:
    table = pa.table(
        {
            "ts": ["2026-10-01T00:01:00Z", "2026-10-01T00:01:00Z", "2026-10-01T00:01:00Z"],
            "interval_seconds": [60, 60, 60],
            "service": ["chat"] * 3,
            "metric": ["ttft"] * 3,
            "quantile": pa.array([None, 0.5, None]),
            "value": [1.0, 2.0, 1.0],
        }
    )
    first = ingest_tables(store, SERVICE_LEVELS, "a", [table], now=NOW)
    assert (first.written, first.duplicate) == (2, 1)
    again = ingest_tables(store, SERVICE_LEVELS, "b", [table.slice(0, 2)], now=NOW)
    assert (again.written, again.duplicate) == (0, 2)


def test_a_file_that_spans_more_days_than_the_engine_takes_partitions_goes_in(store: Store) -> None:
    table = samples(600, devices=1)
    days = pa.array([1_750_000_000_000 + 86_400_000 * (i % 150) for i in range(600)], pa.timestamp("ms", "UTC"))
    report = ingest_tables(store, SAMPLES, "a", [table.set_column(0, "ts", days)], now=NOW)
    assert report.read == 600 and not report.quarantined


@settings(
    max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
@given(cuts=st.lists(st.integers(0, 500), max_size=6))
def test_batches_do_not_depend_on_how_the_source_is_chunked(monkeypatch: pytest.MonkeyPatch, cuts: list[int]) -> None:
    monkeypatch.setattr(cutting, "BATCH_ROWS", 130)
    table = samples(500)
    bounds = sorted({0, 500, *cuts})
    parts = [table.slice(a, b - a) for a, b in pairwise(bounds)]

    def ids(tables: list[pa.Table]) -> list[tuple[int, int, int]]:
        pieces = table_pieces(SAMPLES, "s", tables)
        return [(batch.id, batch.first_row, batch.rows) for batch in cutting.batches(SAMPLES, "s", pieces, NOW)]

    assert ids(parts) == ids([table])
    assert [rows for _, _, rows in ids(parts)] == [130, 130, 130, 110]


@pytest.mark.parametrize("block_bytes", [150, 400, 1 << 20])
def test_row_numbers_of_a_csv_do_not_depend_on_the_size_of_its_blocks(tmp_path: Path, block_bytes: int) -> None:
    lines = [f"2026-10-01T00:{i:02}:00Z,60,g,ok,0.5" if i % 4 else "too,short" for i in range(60)]
    path = tmp_path / "s.csv"
    path.write_text("\n".join([HEADER, *lines]) + "\n")
    numbers, rejected = [], []
    for piece in csv_pieces(SAMPLES, path, set(), block_bytes):
        numbers += piece.numbers.tolist()
        rejected += [reject.row for reject in piece.rejects]
    assert rejected == [i + 1 for i in range(60) if i % 4 == 0]
    assert numbers == [i + 1 for i in range(60) if i % 4]
