"""`gpuledger slo`: what it prints, and what it says of the worst input."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from gpuledger.commands import slo
from tests.alerts.facts import put, started, submitted
from tests.stores import fresh_store
from warehouse.errors import LedgerError

pytestmark = pytest.mark.usefixtures("engine_stays")

OBJECTIVES = """
objectives:
  - {name: wait, kind: queue_wait, within: 30m, target: "0.9", match: {tenant: "phys*"}, owner: lead@example.org}
"""


@pytest.fixture
def app() -> typer.Typer:
    found = typer.Typer()
    slo.register(found)
    return found


def run(app: typer.Typer, *words: str) -> tuple[int, str, str]:
    result = CliRunner().invoke(app, ["slo", *words])
    if isinstance(result.exception, LedgerError):
        raise result.exception
    return result.exit_code, result.stdout, result.stderr


def test_objectives_are_applied_listed_and_measured(app: typer.Typer, tmp_path: Path) -> None:
    store = ("--store", f"chdb://{tmp_path}/store")
    path = tmp_path / "slo.yaml"
    path.write_text(OBJECTIVES)
    with fresh_store(tmp_path / "store") as opened:
        put(opened, [*submitted("a", 100), *started("a", 90), *submitted("b", 100), *submitted("c", 99, tenant="chem")])
    assert run(app, "status", *store)[1:] == ("", "no objectives are in force\n")
    assert "1. Next: gpuledger slo status" in run(app, "apply", str(path), *store)[2]
    assert "in force already" in run(app, "apply", str(path), *store)[2]
    (listed,) = json.loads(run(app, "list", "--format", "json", *store)[1])
    assert (listed["name"], listed["match"], listed["target"]) == ("wait", "tenant=phys*", "0.9")
    at = ("--at", "2026-10-06T12:00Z")
    code, out, _ = run(app, "status", *at, "--check", "--format", "json", *store)
    (series,) = json.loads(out)["series"]
    assert (code, series["good"], series["bad"], series["state"]) == (1, 1, 1, "missed")
    (row,) = csv.DictReader(io.StringIO(run(app, "status", *at, "--format", "csv", *store)[1]))
    assert (row["tenant"], row["sli"], row["measured_until"]) == ("physics", "0.5", "2026-10-06T12:00:00.000Z")
    assert "50.00%" in run(app, "status", *at, *store)[1]
    for target, code in (("0.9", 1), ("0.5", 1), ("0.1", 0)):  # missed; kept, and burning; kept
        path.write_text(OBJECTIVES.replace("0.9", target))
        run(app, "apply", str(path), *store)
        for check in ("", "--check"):
            assert run(app, "status", *at, *check.split(), *store)[0] == (code if check else 0), (target, check)
    code, out, _ = run(app, "status", *at, "--tenant", "chem", "--check", "--format", "csv", *store)
    assert (code, out.count("\n")) == (0, 1)


def test_a_file_that_is_not_there_and_an_instant_that_is_none(app: typer.Typer, tmp_path: Path) -> None:
    with pytest.raises(LedgerError, match="cannot be read: No such file"):
        run(app, "apply", str(tmp_path / "none.yaml"))
    with pytest.raises(LedgerError, match="--at: 'noon' is not an instant"):
        run(app, "status", "--at", "noon")
