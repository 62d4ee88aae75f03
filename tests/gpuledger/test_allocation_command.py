"""`gpuledger allocation` as a user runs it, on a ledger typed here."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from gpuledger.cli import build
from tests.billing.hand_ledger import HOUR_MS, Row, at, fill
from tests.stores import fresh_store
from warehouse.errors import LedgerError

pytestmark = pytest.mark.usefixtures("engine_stays")

WINDOW = "2026-10-05T12:00:00Z,2026-10-05T14:00:00Z"


@pytest.fixture
def url(tmp_path: Path) -> str:
    address = f"chdb://{tmp_path}/store"
    noon = at("2026-10-05 12:00")
    with fresh_store(tmp_path / "store") as store:
        used, half = str(HOUR_MS), str(HOUR_MS // 2)
        fill(store, [Row(noon, "t", "qcd", used=used), Row(at("2026-10-05 13:00"), "t", "qcd", used=half, idle=half)])
    return address


def test_it_prints_opencosts_json(url: str) -> None:
    arguments = ["allocation", "--window", WINDOW, "--aggregate", "namespace", "--step", "1h", "--format", "json"]
    result = CliRunner().invoke(build(), [*arguments, "--store", url])
    assert result.exit_code == 0
    document = json.loads(result.stdout)
    assert [found["qcd"]["gpuEfficiency"] for found in document["data"]] == [1.0, 0.5]
    assert [found["qcd"]["totalCost"] for found in document["data"]] == [2.0, 2.0]


def test_it_prints_a_table_and_csv(url: str) -> None:
    table = CliRunner().invoke(build(), ["allocation", "--window", WINDOW, "--aggregate", "namespace", "--store", url])
    assert "qcd" in table.stdout
    assert table.stdout.splitlines()[2].split() == ["qcd", "1.00", "2.00", "4.00", "0.00", "4.00", "75.0%"]
    arguments = ["allocation", "--window", WINDOW, "--aggregate", "namespace", "--accumulate", "--format", "csv"]
    csv = CliRunner().invoke(build(), [*arguments, "--store", url]).stdout.splitlines()
    assert csv[0].startswith("start,end,name,minutes,gpuCount,gpuHours")
    assert csv[1] == "2026-10-05T12:00:00Z,2026-10-05T14:00:00Z,qcd,120.0,1.0,2.0,4.0,0.0,0.0,4.0,0.75"


def test_a_window_that_is_none_is_one_line(url: str) -> None:
    result = CliRunner().invoke(build(), ["allocation", "--window", "soon", "--store", url])
    assert isinstance(result.exception, LedgerError)
    assert "illegal window: 'soon'. Write it like" in str(result.exception)
