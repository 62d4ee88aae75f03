"""`efficiency`, `savings` and `anomalies` as a user runs them."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from gpuledger.cli import build
from tests.billing.hand_ledger import fill
from tests.billing.small_fleet import Job, busy_then_idle, history, run, whole_days
from tests.draws import seldom
from tests.stores import fresh_store
from warehouse.errors import LedgerError
from warehouse.store import open_store

pytestmark = pytest.mark.usefixtures("engine_stays")


@pytest.fixture
def shell(tmp_path: Path) -> Callable[..., Any]:
    url = f"chdb://{tmp_path}/store"
    fresh_store(tmp_path / "store").close()
    app = build()

    def invoke(*arguments: str) -> Any:
        result = CliRunner().invoke(app, [*arguments, "--store", url])
        if isinstance(result.exception, LedgerError):
            raise result.exception
        return result

    invoke.url = url  # type: ignore[attr-defined]
    return invoke


def test_an_empty_store_says_what_is_next(shell: Callable[..., Any]) -> None:
    for command in ("efficiency", "savings", "anomalies"):
        assert "gpuledger close" in shell(command).stderr
        assert set(json.loads(shell(command, "--format", "json").stdout)["period"].values()) == {None}


@seldom(6, "a period of which nothing or only")
def test_a_period_of_which_nothing_or_only_a_part_is_closed_says_so_and_is_never_zero(
    shell: Callable[..., Any],
) -> None:
    with open_store(shell.url) as store:  # type: ignore[attr-defined]
        run(store, [Job("train", use=busy_then_idle)], hours=40)
    for command in ("ledger", "efficiency", "energy", "savings", "anomalies"):
        of_none = shell(command, "--period", "2027-01")
        assert (of_none.exit_code, of_none.stdout) == (0, "")
        assert "nothing from 2027-01-01 00:00Z to 2027-02-01 00:00Z is closed: the books are closed from" in (
            of_none.stderr
        )
        document = json.loads(shell(command, "--period", "2027-01", "--format", "json").stdout)
        assert (document["period"]["hours"], document["period"]["closed_hours"]) == (31 * 24, 0)
        for sums in ("total", "platform", "capacity"):
            assert set(document.get(sums, {"none": None}).values()) == {None}
        of_part = shell(command, "--period", "2026-10")
        assert "only 40 of 744 hours are closed, and the figures are of those" in of_part.stderr
        assert of_part.stdout or command in ("savings", "anomalies"), "only these may have found nothing"
        whole = shell(command)
        assert "hours are closed" not in whole.stderr


def test_the_commands_print_tables_json_and_csv(shell: Callable[..., Any]) -> None:
    with open_store(shell.url) as store:  # type: ignore[attr-defined]
        run(store, [Job("train", use=busy_then_idle)], hours=40)
        fill(store, history([*["100"] * 14, "300"], date(2026, 8, 1)), closed=whole_days(date(2026, 8, 1), 15))
    document = json.loads(shell("efficiency", "--period", "2026-10", "--format", "json").stdout)
    assert [(row["tenant"], row["efficiency"]) for row in document["rows"]] == [("physics", "0.225000000")]
    assert "22.5%" in shell("efficiency", "--period", "2026-10").stdout
    document = json.loads(shell("savings", "--period", "2026-10", "--format", "json").stdout)
    assert [one["monthly_amount"] for one in document["recommendations"]] == ["84.00"]
    assert document["by_tenant"][0]["monthly_amount"] == "84.00"
    head, line = shell("savings", "--period", "2026-10", "--format", "csv").stdout.splitlines()
    assert head.startswith("id,kind,tenant,project,workload,devices,what,hours,p50")
    assert ",reclaim,physics,qcd,train,GPU-0," in line
    table = shell("savings", "--period", "2026-10")
    assert "84.00" in table.stdout
    reported = "Idle time cost 86.80 in the period: 84.00 of it is covered by that; not covered: 2.80 alongside usage"
    assert reported in table.stderr and reported in document["summary"]
    assert reported in shell("savings", "--period", "2026-10", "--format", "csv").stderr
    document = json.loads(shell("anomalies", "--period", "2026-08", "--format", "json").stdout)
    assert [one["day"] for one in document["anomalies"]] == ["2026-08-15"]
    assert shell("anomalies", "--period", "2026-08").exit_code == 0
    assert shell("anomalies", "--period", "2026-08", "--check").exit_code == 1
    assert shell("anomalies", "--period", "2026-08", "--score", "50", "--check").exit_code == 0


@pytest.mark.parametrize(
    "arguments",
    [("savings", "--min-coverage", "90"), ("savings", "--min-coverage", "x"), ("anomalies", "--score", "0")],
)
def test_an_option_that_makes_no_sense_is_refused(shell: Callable[..., Any], arguments: tuple[str, ...]) -> None:
    with pytest.raises(LedgerError, match=f"{arguments[1]}: .*{arguments[2]}"):
        shell(*arguments)
