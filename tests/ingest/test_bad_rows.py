"""A bad row goes to quarantine with its number, reason and text; the others go in."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from ingest import ingest_file, ingest_tables
from ingest.check_rows import check_rows
from tests.ingest.rows import HEADER, NOW, samples
from warehouse.records import DEVICES, EVENTS, SAMPLES
from warehouse.store import Store

GOLDEN = """\
2026-10-01T00:01:00Z,60,GPU-1,ok,0.5,1.0
2026-10-01 02:02:00+02:00,60,GPU-1,ok,1,7
2026-10-01T00:03:00.123456789Z,60,GPU-1,idle,0,

2026-10-01T00:04:00,60,GPU-1,blank,0.9,
2026-10-01T00:05:00Z,60,,ok,0.5,
,60,GPU-1,ok,0.5,
never,60,GPU-1,ok,0.5,
2026-13-01T00:00:00Z,60,GPU-1,ok,0.5,
1999-12-31T00:00:00Z,60,GPU-1,ok,0.5,
2026-11-01T00:59:59Z,60,GPU-1,ok,0.5,
2026-11-01T01:00:01Z,60,GPU-1,ok,0.5,
2026-10-01T00:06:00Z,,GPU-1,ok,0.5,
2026-10-01T00:07:00Z,0,GPU-1,ok,0.5,
2026-10-01T00:08:00Z,60,GPU-1,,0.5,
2026-10-01T00:09:00Z,60,GPU-1,busy,0.5,
2026-10-01T00:10:00Z,60,GPU-1,ok,,
2026-10-01T00:11:00Z,60,GPU-1,idle,0.1,
2026-10-01T00:12:00Z,60,GPU-1,ok,1.01,
2026-10-01T00:13:00Z,60,GPU-1,ok,-0.1,
2026-10-01T00:14:00Z,60,GPU-1,ok,much,
2026-10-01T00:15:00Z,60,GPU-1,ok,NaN,
2026-10-01T00:16:00Z,60,GPU-1,ok,inf,
2026-10-01T00:17:00Z,60,GPU-1,ok,0.5,1.5
2026-10-01T00:18:00Z,60,GPU-1,ok,0.5,-1
2026-10-01T00:19:00Z,60,GPU-1,ok,0.5,99999999999999999999
2026-10-01T00:20:00Z,60,GPU-1
2026-10-01T00:21:00Z,60,GPU-1,ok,0.5,1,2,3
2026-10-01T00:22:00Z,60,"GPU ""2"",\nline two",ok, 0.25 ,
2026-10-01T00:23:00Z,60,GPU-\xff,ok,0.5,
"""
EXPECTED = [
    (5, "missing_device_id"),
    (6, "missing_ts"),
    (7, "bad_time"),
    (8, "bad_time"),
    (9, "out_of_range_ts"),
    (11, "future_timestamp"),
    (12, "missing_interval_seconds"),
    (13, "out_of_range_interval_seconds"),
    (14, "missing_state"),
    (15, "unknown_state"),
    (16, "missing_utilization"),
    (17, "idle_but_active"),
    (18, "out_of_range_utilization"),
    (19, "out_of_range_utilization"),
    (20, "not_a_number"),
    (21, "not_a_number"),
    (22, "not_a_number"),
    (23, "not_a_whole_number"),
    (24, "out_of_range_memory_used_bytes"),
    (25, "out_of_range_memory_used_bytes"),
    (26, "bad_row"),
    (27, "bad_row"),
    (29, "bad_encoding"),
]


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
@pytest.mark.parametrize("bom", [b"", b"\xef\xbb\xbf"])
def test_every_kind_of_bad_row_is_quarantined_with_its_number_and_reason(
    store: Store, tmp_path: Path, newline: str, bom: bytes
) -> None:
    path = tmp_path / "golden.csv"
    text = f"{HEADER},memory_used_bytes\n" + GOLDEN
    path.write_bytes(bom + text.replace("\n", newline).encode("latin-1"))

    report = ingest_file(store, SAMPLES, path, now=NOW)

    rows = store.rows("SELECT row, reason, detail, raw FROM quarantine ORDER BY row")
    assert [(row["row"], row["reason"]) for row in rows] == EXPECTED
    assert (report.read, report.written, report.duplicate) == (29, 6, 0)
    assert sum(report.quarantined.values()) == len(EXPECTED)
    assert {row["row"]: row["raw"] for row in rows}[15] == "2026-10-01T00:09:00Z,60,GPU-1,busy,0.5,"
    assert {row["row"]: row["detail"] for row in rows}[18] == "utilization 1.01: expected 0 to 1"
    kept = store.rows("SELECT toString(ts) AS ts, device_id, utilization, memory_used_bytes AS used FROM samples")
    assert sorted((r["ts"], r["device_id"], r["utilization"], r["used"]) for r in kept) == [
        ("2026-10-01 00:01:00.000", "GPU-1", 0.5, 1),
        ("2026-10-01 00:02:00.000", "GPU-1", 1.0, 7),
        ("2026-10-01 00:03:00.123", "GPU-1", 0.0, None),
        ("2026-10-01 00:04:00.000", "GPU-1", None, None),
        ("2026-10-01 00:22:00.000", f'GPU "2",{newline}line two', 0.25, None),
        ("2026-11-01 00:59:59.000", "GPU-1", 0.5, None),
    ]


def test_bad_json_lines_are_quarantined_with_the_line(store: Store, tmp_path: Path) -> None:
    good = '{"ts": "2026-10-01T00:01:00Z", "interval_seconds": 60, "device_id": 4711, "state": "ok", "utilization": %s}'
    lines = [good % "0.5", "{not json", "", "[1]", good % '"0.75"', good % "true", good % "[1]", good % "NaN", "17"]
    lines.append(good.replace("4711", '4711, "device_id": 4712') % "0.5")  # which of the two?
    path = tmp_path / "s.jsonl"
    path.write_text("\n".join(lines), encoding="utf-8")

    report = ingest_file(store, SAMPLES, path, now=NOW)

    rows = store.rows("SELECT row, reason, raw FROM quarantine ORDER BY row")
    assert [(row["row"], row["reason"]) for row in rows] == [
        (2, "bad_json"),
        (3, "bad_json"),
        (5, "not_a_number"),
        (6, "not_a_number"),
        (7, "not_a_number"),
        (8, "bad_json"),
        (9, "bad_json"),
    ]
    assert store.value("SELECT detail FROM quarantine WHERE row = 9") == "the key 'device_id' appears twice"
    assert [rows[0]["raw"], rows[2]["raw"]] == ["{not json", good % "true"]
    assert (report.read, report.written, report.duplicate) == (9, 1, 1)


def test_a_quote_that_is_never_closed_swallows_rows_into_quarantine_not_into_a_value(
    store: Store, tmp_path: Path
) -> None:
    path = tmp_path / "e.csv"
    path.write_text(
        'ts,allocation_id,event,message\n2026-10-01T00:00:00Z,a,started,fine\n2026-10-01T00:00:00Z,b,started,"open\n'
        "2026-10-01T00:00:00Z,c,started,x\n"
    )
    report = ingest_file(store, EVENTS, path, now=NOW)
    assert (report.written, report.quarantined) == (1, {"bad_row": 1})
    assert "c,started,x" in store.value("SELECT raw FROM quarantine")


def test_unknown_events_and_units_out_of_range_are_quarantined_and_null_units_of_a_device_are_one(store: Store) -> None:
    events = pa.table(
        {
            "ts": ["2026-10-01T00:00:00Z"] * 3,
            "allocation_id": ["a", "b", "c"],
            "event": ["started", "began", "started"],
            "units": pa.array([1.0, 1.0, 5000.0]),
            "preemptible": ["true", "0", None],
        }
    )
    assert ingest_tables(store, EVENTS, "test", [events], now=NOW).quarantined == {
        "out_of_range_units": 1,
        "unknown_event": 1,
    }
    devices = pa.table(
        {"ts": ["2026-10-01"], "device_id": ["g"], "model": ["H100"], "state": ["available"], "units": pa.nulls(1)}
    )
    ingest_tables(store, DEVICES, "test", [devices], now=NOW)
    assert store.value("SELECT units FROM devices") == 1


@pytest.mark.parametrize("units", ["-1", "0", "1025", "99999999999999999999"])
def test_a_whole_number_out_of_range_names_the_range_of_its_column(store: Store, tmp_path: Path, units: str) -> None:
    """As found: of -1 units it was said that 0 to 18446744073709551615 fit."""
    (tmp_path / "d.csv").write_text(f"ts,device_id,model,state,units\n2026-10-01T00:00:00Z,g,m,available,{units}\n")
    assert ingest_file(store, DEVICES, tmp_path / "d.csv", now=NOW).quarantined == {"out_of_range_units": 1}
    row = {"ts": NOW, "device_id": "g", "model": "m", "state": "available", "units": int(units)}
    checked = check_rows(DEVICES, [row], NOW)
    for said in (store.value("SELECT detail FROM quarantine"), checked.example):
        assert said.endswith(": expected 1 to 1024"), said


def test_the_raw_text_of_a_table_row_is_json(store: Store) -> None:
    table = samples(3).set_column(3, "device_id", pa.array(["a", "", "b"]))
    ingest_tables(store, SAMPLES, "collector", [table], now=NOW)
    (row,) = store.rows("SELECT source, row, reason, raw FROM quarantine")
    assert (row["source"], row["row"], row["reason"]) == ("collector", 2, "missing_device_id")
    assert '"utilization": 0.01' in row["raw"]


def test_the_quarantine_survives_when_the_same_rows_come_in_another_file(store: Store, tmp_path: Path) -> None:
    text = f"{HEADER}\n2026-10-01T00:01:00Z,60,g,ok,0.5\n2026-10-01T00:01:00Z,60,g,huh,0.5\n"
    for name in ("one.csv", "two.csv"):
        (tmp_path / name).write_text(text)
        ingest_file(store, SAMPLES, tmp_path / name, now=NOW)
    assert store.value("SELECT count() FROM quarantine") == 2
    assert store.value("SELECT count() FROM samples FINAL") == 1
