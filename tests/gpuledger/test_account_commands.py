"""`credits` and `budget` as a user runs them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner, Result

from gpuledger.commands import budget, credits
from tests.billing.account_books import hours, without_prices
from tests.billing.hand_ledger import at, close, fill
from tests.stores import fresh_store
from warehouse.errors import LedgerError
from warehouse.store import Store

pytestmark = pytest.mark.usefixtures("engine_stays")


class Shell:
    """These commands on one store."""

    def __init__(self, folder: Path) -> None:
        self.url = f"chdb://{folder}/store"
        self.app = typer.Typer()
        credits.register(self.app)
        budget.register(self.app)

    def __call__(self, *arguments: str) -> Result:
        result = CliRunner().invoke(self.app, [*arguments, "--store", self.url])
        if isinstance(result.exception, LedgerError):
            raise result.exception
        assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
        return result


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    """September and October closed; physics held one GPU for four hours, at 2.00."""
    fresh_store(tmp_path / "store", four_hours).close()
    return Shell(tmp_path)


def four_hours(store: Store) -> None:
    without_prices(store)
    fill(store, hours("2026-09-05 10:00", 4), closed=[at("2026-10-31 23:00")])
    close(store, [at("2026-09-01 00:00")])


def test_a_budget_is_applied_once_and_says_the_same_in_every_format(shell: Shell, tmp_path: Path) -> None:
    (tmp_path / "b.yaml").write_text('currency: EUR\nbudgets: [{tenant: physics, amount: "8"}]\n')
    assert "no budgets yet" in shell("budget", "list").stderr
    assert "no budget is in force in 2026-09" in shell("budget", "--period", "2026-09").stderr
    assert "1 in EUR. Next: gpuledger budget" in shell("budget", "apply", str(tmp_path / "b.yaml")).stderr
    assert "in force already" in shell("budget", "apply", str(tmp_path / "b.yaml")).stderr
    document = json.loads(shell("budget", "--period", "2026-09", "--format", "json").stdout)
    (state,) = document["budgets"]
    assert (state["actual"], state["percent"], state["state"]) == ("8.000000000", "100.00", "warning")
    assert state["thresholds"][1]["crossed_at"] == "2026-09-05T14:00:00.000Z"
    assert document == json.loads(shell("budget", "status", "--period", "2026-09", "--format", "json").stdout)
    header, line = shell("budget", "--period", "2026-09", "--format", "csv").stdout.splitlines()
    assert dict(zip(header.split(","), line.split(","), strict=True))["state"] == "warning"
    assert "warning" in shell("budget", "--period", "2026-09").stdout
    assert json.loads(shell("budget", "list", "--format", "json").stdout)[0]["amount"] == "8"


def test_a_grant_and_its_balance(shell: Shell) -> None:
    assert "nothing was granted" in shell("credits", "balance").stderr
    given = ("credits", "grant", "--tenant", "physics", "--amount", "5.00", "--expires", "2027-01-01", "--reason", "r")
    said = shell(*given, "--from", "2026-09", "--id", "g").stderr
    assert "from 2026-09-01T00:00:00.000Z until 2027-01-01T00:00:00.000Z" in said
    assert "already exists" in shell(*given, "--from", "2026-09", "--id", "g").stderr
    (row,) = json.loads(shell("credits", "balance", "--format", "json").stdout)
    assert (row["running"], row["state"], row["exhausted_at"]) == ("5.00", "exhausted", "2026-09-05T12:30:00.000Z")
    assert "exhausted" in shell("credits", "balance").stdout
    assert "until" not in shell("credits", "revoke", "g", "--reason", "r").stderr
    assert json.loads(shell("credits", "list", "--grants", "--format", "json").stdout)[0]["id"] == "g"
    with pytest.raises(LedgerError, match="--expires: found 'soon'"):
        shell("credits", "grant", "--tenant", "a", "--amount", "5", "--expires", "soon", "--reason", "r")


def test_a_credit_is_added_listed_and_taken_back_and_a_stranger_is_pointed_out(shell: Shell) -> None:
    added = ("credits", "add", "--tenant", "physics", "--amount", "-2.50", "--month", "2026-10", "--reason", "<b>")
    assert "-2.50 EUR for physics in 2026-10" in shell(*added, "--id", "c").stderr
    assert "already exists" in shell(*added, "--id", "c").stderr
    shell("credits", "reverse", "c", "--reason", "no")
    rows = json.loads(shell("credits", "list", "--format", "json").stdout)
    assert [row["amount"] for row in rows] == ["-2.500000000", "2.500000000"]
    assert shell("credits", "list", "--format", "csv").stdout.splitlines()[1].startswith("c,2026-10,physics,,manual,")
    assert "<b>" in shell("credits", "list").stdout
    stranger = shell("credits", "add", "--tenant", "phisics", "--amount", "1", "--month", "2026-10", "--reason", "r")
    assert "the ledger knows no tenant 'phisics' yet" in stranger.stderr


def test_an_import_shows_each_bad_row_and_exits_1(shell: Shell, tmp_path: Path) -> None:
    table = tmp_path / "credits.csv"
    table.write_text("tenant,month,amount,reason\nphysics,2026-10,1.00,slo\nphysics,2026-10,abc,slo\n")
    result = shell("credits", "import", str(table))
    assert result.exit_code == 1
    assert f"gpuledger: {table}, row 2: amount: found 'abc'. Expected a decimal such as" in result.stderr
    assert "credits: read 2 · added 1 · known 0 · refused 1" in result.stderr
