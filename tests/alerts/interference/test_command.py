"""`gpuledger interference`: what it prints."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from gpuledger.commands import interference
from tests.alerts.facts import device, put
from tests.alerts.interference.sharing import reports, runs
from tests.stores import fresh_store
from warehouse.errors import LedgerError

pytestmark = pytest.mark.usefixtures("engine_stays")

AT = ("--at", "2026-10-06T12:00Z")


def run(*words: str) -> tuple[int, str, str]:
    app = typer.Typer()
    interference.register(app)
    result = CliRunner().invoke(app, ["interference", *words])
    if isinstance(result.exception, LedgerError):
        raise result.exception
    return result.exit_code, result.stdout, result.stderr


def test_episodes_victims_and_speeds_are_printed(tmp_path: Path) -> None:
    store = ("--store", f"chdb://{tmp_path}/store")

    def asked(*words: str) -> list[dict[str, Any]]:
        return list(json.loads(run(*words, "--format", "json", *store)[1]))

    with fresh_store(tmp_path / "store") as opened:
        put(opened, [*device(units=4), *runs("a", 60, 1), *reports("a", 60, 31, 10.0)])
        put(opened, [*runs("b", 30, 1), *reports("a", 30, 1, 4.0)])
    code, out, _ = run("status", *AT, "--check", *store)
    assert (code, "2.5" in out, "measured" in out) == (1, True, True)
    assert run("status", *AT, *store)[0] == 0
    assert run("status", "--at", "2026-10-06T11:20Z", "--check", *store)[0] == 0, "nobody was beside it yet"
    assert [(one["workload_id"], one["max_slowdown"]) for one in asked("status", *AT)] == [("a", 2.5)]
    assert [(one["identity"], one["lost_gpu_seconds"]) for one in asked("victims", *AT)] == [("a", 1080.0)]
    assert {(one["victim"], one["verdict"]) for one in asked("aggressors", *AT)} == {("a", "candidate"), ("b", "none")}
    assert [(one["class"], one["beside"], round(one["speed"], 6)) for one in asked("speeds", *AT)] == [("a", "b", 0.4)]
    assert [one["value"] for one in asked("baselines") if one["metric"]] == [10.0]
    assert "a runs v2 since 2026-10-06 11:30Z" in run("version", "a", "v2", "--since", "2026-10-06T11:30Z", *store)[2]
    with pytest.raises(LedgerError, match="--since: 'soon' is not an instant"):
        run("version", "a", "v2", "--since", "soon", *store)
