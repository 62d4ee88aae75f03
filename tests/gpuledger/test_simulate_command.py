"""`gpuledger simulate fragmentation` as a user runs it, on four pods and two nodes."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from gpuledger.commands import simulate
from tests.scheduler.test_fragmentation_experiment import SMALL
from warehouse.errors import LedgerError


@pytest.fixture
def app() -> typer.Typer:
    """The command group alone."""
    app = typer.Typer()
    app.callback()(lambda: None)
    simulate.register(app)
    return app


@pytest.fixture
def data(tmp_path: Path) -> Path:
    for name, text in SMALL.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


def arguments(data: Path, *more: str) -> list[str]:
    return ["simulate", "fragmentation", "--data", str(data), "--workload", "tiny", "--seeds", "7", *more]


def test_csv_has_a_row_a_seed_and_a_column_a_percent(app: typer.Typer, data: Path) -> None:
    result = CliRunner().invoke(app, arguments(data, "--policy", "bestfit", "--format", "csv"))
    assert result.exit_code == 0, result.output
    (row,) = csv.DictReader(io.StringIO(result.stdout))
    assert list(row) == ["workload", "policy", "seed", *map(str, range(131))]
    assert (row["workload"], row["policy"], row["seed"]) == ("tiny", "bestfit", "7")
    assert (row["0"], row["30"], row["110"], row["130"]) == ("", "30.0", "50.0", "70.0")
    assert "6 arrivals, 2 did not fit" in result.stderr


def test_json_tells_the_moves_of_consolidation(app: typer.Typer, data: Path) -> None:
    result = CliRunner().invoke(app, arguments(data, "--policy", "bestfit", "--consolidate", "--format", "json"))
    (row,) = json.loads(result.stdout)
    assert (row["moves"], row["130"], row["0"]) == (1, 100.0, None)


@pytest.mark.parametrize("policy", [policy.value for policy in simulate.FragmentationPolicy])
def test_every_policy_and_metric_prints_a_table(app: typer.Typer, data: Path, policy: str) -> None:
    result = CliRunner().invoke(app, arguments(data, "--policy", policy, "--metric", "frag_ratio"))
    assert result.exit_code == 0, result.output
    header, *rows = result.stdout.splitlines()[1:]
    assert header.split() == ["workload", "policy", "seed", *(str(column) for column in range(0, 131, 10))]
    assert len(rows) == 1


@pytest.mark.parametrize("text", ["", "x", "5-", "9-7", "42,,43"])
def test_seeds_that_are_none_are_refused(app: typer.Typer, data: Path, text: str) -> None:
    found = CliRunner().invoke(app, [*arguments(data)[:-1], text])
    assert isinstance(found.exception, LedgerError)
    assert "42-51 or 42,44 fits" in str(found.exception)


def test_seeds_may_be_a_list_with_ranges() -> None:
    assert simulate.seeds_of("42-44, 50,43") == [42, 43, 44, 50]


def test_a_folder_without_the_data_says_what_is_missing(app: typer.Typer, tmp_path: Path) -> None:
    found = CliRunner().invoke(app, arguments(tmp_path))
    assert isinstance(found.exception, LedgerError)
    assert "openb_pod_list_tiny.csv: no such file" in str(found.exception)
