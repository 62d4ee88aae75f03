"""Bytes that are no text, and files that are nothing but bad rows: the rows go to quarantine, the others go in."""

from __future__ import annotations

import gzip
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ingest import ingest_file
from ingest.errors import IngestError
from warehouse.records import RECORD_TYPES
from warehouse.store import Store

HEADER = b"ts,interval_seconds,cluster,device_id,state,utilization\n"
GOOD = b"2026-10-01T00:%02d:00Z,10,%b,GPU-0,ok,0.5\n"


@pytest.mark.parametrize(
    ("start", "bad", "reason"),
    [
        (b"", b"\xff\xfe,1\n", "bad_row"),
        (b"", b"\xff" + b",1" * 10 + b"\n", "bad_row"),
        (b"", GOOD % (1, b"\xff"), "bad_encoding"),
        (b"\xef\xbb\xbf", GOOD % (1, b"\xff"), "bad_encoding"),
        (b"", b'"\xff\n\xff",1\n', "bad_row"),
    ],
)
def test_a_row_of_csv_that_is_not_utf8_goes_to_quarantine_and_the_others_are_read(
    store: Store, tmp_path: Path, start: bytes, bad: bytes, reason: str
) -> None:
    path = tmp_path / "x.csv"
    path.write_bytes(start + HEADER + GOOD % (0, "训练é".encode()) + bad + GOOD % (2, b"c"))
    report = ingest_file(store, RECORD_TYPES["samples"], path)
    assert (report.read, report.written, report.quarantined) == (3, 2, {reason: 1})
    assert store.value("SELECT arraySort(groupArray(cluster)) FROM samples") == ["c", "训练é"]
    assert store.rows("SELECT row, reason FROM quarantine") == [{"row": 2, "reason": reason}]
    assert "\\xff" in store.value("SELECT raw FROM quarantine")


@pytest.mark.parametrize("dictionary", [True, False])
@pytest.mark.parametrize("as_text", [True, False])
def test_rows_of_parquet_that_are_not_utf8_go_to_quarantine_and_the_others_are_read(
    store: Store, tmp_path: Path, as_text: bool, dictionary: bool
) -> None:
    """as_text: written by somebody who calls bytes a string; else as bytes. Each bad row is so in another column."""
    times = [datetime(2026, 10, 1, minute, tzinfo=UTC) for minute in range(5)]
    columns: dict[str, Any] = {"ts": pa.array(times, pa.timestamp("ms", "UTC")), "interval_seconds": [10.0] * 5}
    columns |= {"utilization": [0.5] * 5, "device_id": ["d"] * 5}
    for bad, column in enumerate(("cluster", "state", "node"), 1):
        values = pa.array([b"o\xff" if row == bad else b"ok" for row in range(5)], pa.binary())
        columns[column] = pa.Array.from_buffers(pa.string(), 5, values.buffers()) if as_text else values
    path = tmp_path / "x.parquet"
    pq.write_table(pa.table(columns), path, use_dictionary=dictionary)
    report = ingest_file(store, RECORD_TYPES["samples"], path)
    assert (report.read, report.written, report.quarantined) == (5, 2, {"bad_encoding": 3})
    assert store.rows("SELECT DISTINCT cluster, state, node FROM samples") == [
        dict.fromkeys(("cluster", "state", "node"), "ok")
    ]
    assert store.value("SELECT arraySort(groupArray(row)) FROM quarantine") == [2, 3, 4]


def test_a_file_of_nothing_but_bad_rows_is_given_up(store: Store, tmp_path: Path) -> None:
    path = tmp_path / "x.csv.gz"
    path.write_bytes(gzip.compress(HEADER + b"x\n" * 120_000))
    with pytest.raises(IngestError, match="more than 100,000 rows on end do not split"):
        ingest_file(store, RECORD_TYPES["samples"], path)
    assert store.value("SELECT count() FROM quarantine") == 0


@pytest.mark.parametrize("kind", ["csv", "jsonl"])
def test_a_compressed_file_of_no_bytes_is_none_and_one_of_no_rows_is_whole(
    store: Store, tmp_path: Path, kind: str
) -> None:
    """Before, what a failed download leaves was 'read 0', as if there had been nothing to read."""
    path = tmp_path / f"x.{kind}.gz"
    path.touch()
    with pytest.raises(IngestError, match=r"the file is empty, which no gzip file is.*Get a whole copy"):
        ingest_file(store, RECORD_TYPES["samples"], path)
    path.write_bytes(gzip.compress(b""))
    assert ingest_file(store, RECORD_TYPES["samples"], path).read == 0


def test_a_line_of_json_as_long_as_a_file_costs_the_memory_of_a_row(store: Store, tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl.gz"
    good = b'{"ts": "2026-10-01T00:00:00Z", "interval_seconds": 10, "device_id": "d", '
    good += b'"state": "idle", "utilization": 0}\n'
    path.write_bytes(gzip.compress(good + b"[" * 30_000_000 + b"\n" + good.replace(b"00:00Z", b"00:10Z")))
    report = ingest_file(store, RECORD_TYPES["samples"], path)
    assert (report.written, report.quarantined) == (2, {"row_too_large": 1})
    assert store.value("SELECT max(length(raw)) FROM quarantine") <= 1000
