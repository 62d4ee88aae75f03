"""`gpuledger ingest` and `gpuledger doctor` as a user runs them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gpuledger.cli import main
from tests.ingest.rows import HEADER, samples, save
from tests.stores import fresh_store

pytestmark = pytest.mark.usefixtures("engine_stays")


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as done:
        main(list(arguments))
    said = capsys.readouterr()
    return int(done.value.code or 0), said.out, said.err


@pytest.fixture
def url(tmp_path: Path) -> str:
    fresh_store(tmp_path / "store").close()
    return f"chdb://{tmp_path}/store"


def test_several_files_end_in_one_line_and_a_second_run_writes_nothing(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    url = f"chdb://{tmp_path}/new"
    one = save(samples(1500), tmp_path / "one.parquet")
    two = save(samples(1500, first=1400), tmp_path / "two.csv.gz")
    command = ("ingest", "samples", str(one), str(two), "--store", url)
    code, out, err = run(capsys, *command)
    assert (code, out) == (0, "")
    assert err.strip() == "samples: read 3,000 · written 2,900 · duplicate 100 · quarantined 0"
    _, out, _ = run(capsys, *command, "--format", "json")
    assert json.loads(out) == {
        "records": "samples",
        "read": 3000,
        "written": 0,
        "duplicate": 3000,
        "differing": 0,
        "quarantined": {},
        "ignored_columns": [],
    }


def test_quarantined_rows_are_counted_and_doctor_shows_them(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, url: str
) -> None:
    path = tmp_path / "s.csv"
    path.write_text(f"{HEADER},rack\n2026-10-01T00:01:00Z,60,g,ok,0.5,r\n2026-10-01T00:02:00Z,60,g,busy,0.5,r\n")
    code, _, err = run(capsys, "ingest", "samples", str(path), "--store", url)
    assert code == 0
    shown = f"gpuledger doctor --store {url} shows them"
    assert f"quarantined 1 (unknown_state 1; {shown}) · ignored columns: rack" in err
    code, out, _ = run(capsys, "doctor", "--store", url, "--format", "json")
    findings = json.loads(out)
    assert code == 0
    nothing = {"events": 0, "devices": 0, "service_levels": 0, "metrics": 0, "findings": 0}
    assert findings["rows"] == {"samples": 1, **nothing}
    assert findings["quarantine"][0]["examples"][0]["raw"] == "2026-10-01T00:02:00Z,60,g,busy,0.5,r"
    assert findings["last_close"] is None
    for fmt in ("table", "csv"):
        _, out, _ = run(capsys, "doctor", "--store", url, "--format", fmt)
        assert "unknown_state" in out and r"\n" not in out


def test_a_misspelt_column_is_named_with_the_one_that_the_file_lacks(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, url: str
) -> None:
    path = tmp_path / "d.csv"
    path.write_text("ts,device_id,model,state,unitz,nodes,node\n2026-10-01T00:00:00Z,g,H100,available,4,n,n\n")
    code, _, err = run(capsys, "ingest", "devices", str(path), "--store", url)
    assert code == 0
    assert err.strip().endswith("· ignored columns: nodes, unitz (did you mean units?)")


def test_an_unusable_file_is_one_line_and_exit_2(capsys: pytest.CaptureFixture[str], tmp_path: Path, url: str) -> None:
    path = tmp_path / "s.csv"
    path.write_text(f"{HEADER}\n2026-10-01T00:01:00Z,60,g,ok,87\n")
    code, out, err = run(capsys, "ingest", "samples", str(path), "--store", url)
    assert (code, out) == (2, "")
    assert err.strip() == (
        f"gpuledger: {path}: utilization of 87: expected 0 to 1. It looks like percent: divide by 100"
    )


def test_doctor_on_an_empty_store_says_what_comes_next(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    code, out, _ = run(capsys, "doctor", "--store", f"chdb://{tmp_path}/new")
    assert code == 0
    assert "next: gpuledger init" in out
    assert "filter of system calls" in out


def test_doctor_advises_no_init_where_the_store_is_the_newer_one(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    with fresh_store(tmp_path / "newer") as store:
        store.command("INSERT INTO schema_migrations (number, name) VALUES (9999, 'of_tomorrow')")
    code, out, _ = run(capsys, "doctor", "--store", f"chdb://{tmp_path}/newer")
    assert code == 0
    assert "newer than this gpuledger, which has to be upgraded" in out and "gpuledger init" not in out
