"""`gpuledger replay`: files, or the store; a second time changes nothing."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import pytest
import typer
from typer.testing import CliRunner

from collectors.errors import CollectorError
from gpuledger.commands import replay
from warehouse.store import open_store

from .test_philly import CDFS, JOBS, MACHINES, written


def run(*arguments: object) -> str:
    app = typer.Typer()
    replay.register(app)
    app.command("other")(lambda: None)  # so that typer keeps the command's name
    result = CliRunner().invoke(app, ["replay", *map(str, arguments)])
    if result.exception and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.output


def test_out_writes_a_file_for_each_record_type(tmp_path: Path) -> None:
    jobs, machines, cdfs = written(tmp_path, jobs=JOBS, machines=MACHINES, cdfs=CDFS)
    said = run("philly", jobs, "--machines", machines, "--telemetry", cdfs, "--out", tmp_path / "out")
    rows = {
        name: pq.read_table(tmp_path / "out" / f"{name}.parquet").num_rows for name in ("devices", "events", "samples")
    }
    assert rows["devices"] == 20
    assert rows["events"] == 5 + 22 + 5
    assert "5 submitted, 5 started, 5 ended" in said
    assert "drawn, not measured" in said


def test_a_second_replay_changes_nothing(tmp_path: Path) -> None:
    jobs, machines, cdfs = written(tmp_path, jobs=JOBS, machines=MACHINES, cdfs=CDFS)
    store = f"chdb://{tmp_path}/store"
    counts = []
    for _ in range(2):
        run("philly", jobs, "--machines", machines, "--telemetry", cdfs, "--store", store)
        with open_store(store) as opened:
            counts.append([opened.value(f"SELECT count() FROM {t} FINAL") for t in ("devices", "events", "samples")])
    assert counts[0] == counts[1]
    assert counts[0][:2] == [20, 32]


def test_an_interval_over_an_hour_is_refused(tmp_path: Path) -> None:
    jobs, machines, cdfs = written(tmp_path, jobs=JOBS, machines=MACHINES, cdfs=CDFS)
    with pytest.raises(CollectorError, match="1 to 3600 seconds"):
        run("philly", jobs, "--machines", machines, "--telemetry", cdfs, "--interval", 7200, "--out", tmp_path)
