"""A file of which nothing can be used is one line, and nothing of it is written."""

from __future__ import annotations

import gzip
import json
import os
import random
from itertools import pairwise
from pathlib import Path

import pyarrow as pa
import pytest

from ingest import IngestError, ingest_file, ingest_tables
from ingest.json_files import lines_piece
from tests.draws import drawn_seed
from tests.ingest.rows import HEADER, NOW, samples, save
from warehouse.records import EVENTS, SAMPLES, SERVICE_LEVELS, RecordType
from warehouse.store import Store

GOOD = "2026-10-01T00:01:00Z,60,g,ok,0.5\n"


def refused(store: Store, path: Path, record: RecordType = SAMPLES) -> str:
    with pytest.raises(IngestError) as caught:
        ingest_file(store, record, path, now=NOW)
    assert "\n" not in str(caught.value)
    for table in ("samples", "events", "quarantine", "ingest_batches"):
        assert store.value(f"SELECT count() FROM {table}") == 0
    return str(caught.value)


def test_percent_is_refused_even_in_a_file_of_one_row(store: Store, tmp_path: Path) -> None:
    path = tmp_path / "s.csv"
    path.write_text(f"{HEADER}\n2026-10-01T00:01:00Z,60,g,ok,87\n")
    assert "utilization of 87: expected 0 to 1. It looks like percent: divide by 100" in refused(store, path)


def test_percent_is_seen_in_a_fleet_that_is_mostly_idle(store: Store, tmp_path: Path) -> None:
    path = tmp_path / "s.csv"
    idle = "".join(f"2026-10-01T00:0{i}:00Z,60,g,idle,0\n" for i in range(9))
    path.write_text(f"{HEADER}\n{idle}2026-10-01T00:10:00Z,60,g,ok,43\n")
    assert "utilization of 43" in refused(store, path)


def test_a_stray_value_in_a_good_file_is_only_quarantined(store: Store, tmp_path: Path) -> None:
    path = tmp_path / "s.csv"
    path.write_text(f"{HEADER}\n{GOOD}2026-10-01T00:02:00Z,60,g,ok,87\n2026-10-01T00:03:00Z,60,g,blank,87\n")
    assert ingest_file(store, SAMPLES, path, now=NOW).quarantined == {"out_of_range_utilization": 1}


def test_a_quantile_of_99_is_refused(store: Store, tmp_path: Path) -> None:
    path = tmp_path / "l.csv"
    path.write_text("ts,interval_seconds,service,metric,quantile,value\n2026-10-01T00:01:00Z,60,s,ttft,99,0.2\n")
    assert "quantile of 99" in refused(store, path, SERVICE_LEVELS)


def test_intervals_in_milliseconds_are_refused(store: Store, tmp_path: Path) -> None:
    path = tmp_path / "s.csv"
    path.write_text(f"{HEADER}\n2026-10-01T00:01:00Z,60000,g,ok,0.5\n")
    assert "interval_seconds of 60000: expected 0.001 to 3600" in refused(store, path)


@pytest.mark.parametrize("name", ["s.csv", "s.parquet", "s.jsonl"])
def test_a_missing_column_is_named_with_those_that_are_there(store: Store, tmp_path: Path, name: str) -> None:
    path = save(samples(10).rename_columns({"device_id": "gpu"}), tmp_path / name)
    said = refused(store, path)
    assert "no column device_id, which samples need; columns found:" in said
    assert "gpu" in said and name in said


def test_samples_without_a_utilization_column_are_refused(store: Store, tmp_path: Path) -> None:
    path = save(samples(10).drop_columns("utilization"), tmp_path / "s.parquet")
    assert "no column utilization" in refused(store, path)


def test_a_truncated_gz_is_refused_before_its_first_row(store: Store, tmp_path: Path) -> None:
    path = save(samples(5000), tmp_path / "s.csv.gz")
    path.write_bytes(path.read_bytes()[:-200])
    assert "s.csv.gz: cannot be read as csv" in refused(store, path)


@pytest.mark.parametrize("name", ["s.csv.gz", "s.jsonl.gz"])
def test_a_gz_of_members_is_read_whole_and_with_more_after_them_not_at_all(
    store: Store, tmp_path: Path, name: str
) -> None:
    whole = gzip.decompress(save(samples(5000), tmp_path / name).read_bytes())
    dice = random.Random(drawn_seed())
    cuts = [0, *sorted(dice.randrange(len(whole)) for _ in range(20)), len(whole)]
    members = b"".join(gzip.compress(whole[start:end]) for start, end in pairwise(cuts))
    path = tmp_path / name
    for more in (b"\n", b"tail", b"x" * 100_000):
        path.write_bytes(members + more)
        assert "it goes on after the end of its gzip data" in refused(store, path)
    for padded in (b"", bytes(1000)):
        path.write_bytes(members + padded)
        assert ingest_file(store, SAMPLES, path, now=NOW).read == 5000


def test_a_damaged_gz_is_refused(store: Store, tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl.gz"
    packed = bytearray(gzip.compress(b'{"ts": "2026-10-01T00:00:00Z"}\n' * 1000))
    packed[-6] ^= 255
    path.write_bytes(packed)
    assert "cannot be read as jsonl" in refused(store, path)


def test_a_truncated_or_foreign_parquet_is_refused(store: Store, tmp_path: Path) -> None:
    path = save(samples(5000), tmp_path / "s.parquet")
    path.write_bytes(path.read_bytes()[:-100])
    assert "cannot be read as parquet" in refused(store, path)
    path.write_bytes(b"")
    assert "cannot be read as parquet" in refused(store, path)


def test_a_json_array_a_missing_file_a_folder_and_an_unknown_suffix_say_what_to_do(
    store: Store, tmp_path: Path
) -> None:
    array = tmp_path / "s.json"
    array.write_text('[{"ts": 1}]')
    assert "jq -c" in refused(store, array)
    assert "no such file" in refused(store, tmp_path / "none.csv")
    for folder in (tmp_path / "folder.csv", tmp_path / "folder"):
        folder.mkdir()
        assert refused(store, folder) == f"{folder}: is a folder. Name its files: {folder}/*.csv"
    assert "Use .parquet, .csv(.gz) or .jsonl(.gz)" in refused(store, tmp_path / "s.xlsx")


def test_times_that_are_bare_numbers_are_refused(store: Store) -> None:
    table = samples(3).set_column(0, "ts", pa.array([1, 2, 3]))
    with pytest.raises(IngestError, match="ts is int64: expected timestamps"):
        ingest_tables(store, SAMPLES, "test", [table], now=NOW)


def test_a_column_that_is_there_twice_is_refused(store: Store, tmp_path: Path) -> None:
    path = tmp_path / "s.csv"
    path.write_text(f"{HEADER},state\n2026-10-01T00:01:00Z,60,g,ok,0.5,ok\n")
    assert "column state appears twice" in refused(store, path)


@pytest.mark.parametrize("text", ["", f"{HEADER}", f"{HEADER}\n", "\n\n"])
def test_a_file_without_rows_is_no_mistake(store: Store, tmp_path: Path, text: str) -> None:
    (tmp_path / "s.csv").write_text(text)
    assert ingest_file(store, SAMPLES, tmp_path / "s.csv", now=NOW).read == 0
    if not text:
        (tmp_path / "s.jsonl").write_text(text)
        assert ingest_file(store, SAMPLES, tmp_path / "s.jsonl", now=NOW).read == 0


def test_a_file_of_the_wrong_record_type_is_refused(store: Store, tmp_path: Path) -> None:
    path = save(samples(3), tmp_path / "s.csv")
    assert "no columns allocation_id and event, which events need" in refused(store, path, EVENTS)


def test_lines_with_any_keys_in_any_order_are_the_same_rows() -> None:
    """Some columns are missing in some lines, and some keys are no columns."""
    dice = random.Random(seed := drawn_seed())
    print(f"seed {seed}")
    text, numbers = ("node", "device_id", "state"), ("utilization", "power_watts")
    for _ in range(50):
        rows = []
        for _ in range(dice.randrange(1, 9)):
            keys = dice.sample([*text, *numbers, "mine"], dice.randrange(7))
            rows.append({key: dice.random() if key in numbers else dice.choice(("ok", "n1", None)) for key in keys})
        piece, names, usable = lines_piece(SAMPLES, [json.dumps(row).encode() for row in rows])
        columns = [column.name for column in SAMPLES.columns if any(column.name in row for row in rows)]
        assert names == {key for row in rows for key in row}
        assert usable == any(row.get("state") == "ok" for row in rows)
        if columns:
            assert piece.table.to_pylist() == [{name: row.get(name) for name in columns} for row in rows]
        assert piece.table.num_rows == len(rows)


def test_files_as_spreadsheets_write_them_are_named(store: Store, tmp_path: Path) -> None:
    path, header = tmp_path / "e.csv", "ts,allocation_id,event\n2026-10-01T00:00:00Z,a,started\n"
    for encoding, old, new, said in (
        ("utf-8", ",", ";", "its columns are separated by semicolons. Save it as CSV with commas"),
        ("utf-8-sig", ",", "\t", "its columns are separated by tabs"),
        ("utf-16", "", "", "is UTF-16 text. Save it as CSV in UTF-8"),
    ):
        path.write_bytes((header.replace(old, new) if old else header).encode(encoding))
        assert said in refused(store, path, EVENTS)
    assert "gpuledger exporter URL" in refused(store, tmp_path / "scrape.prom")


def test_a_pipe_is_refused_and_not_waited_for(store: Store, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.csv")
    assert "is not a file. Give one: it is read more than once" in refused(store, tmp_path / "pipe.csv")


def test_zeros_that_a_disk_left_are_not_taken_for_text(store: Store, tmp_path: Path) -> None:
    path = tmp_path / "e.csv"
    path.write_bytes(bytes(4096))
    assert "begins with zero bytes" in refused(store, path, EVENTS)
