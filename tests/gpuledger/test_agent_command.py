"""`gpuledger agent` as a process: once, with signals, with settings that do not fit."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from gpuledger.commands import agent
from ingest.spool import Spool
from tests.conftest import REPO
from tests.patience import PATIENCE_SECONDS

RUN = (
    "import typer; from gpuledger.commands import agent; from gpuledger import cli; app = typer.Typer();"
    "app.callback()(lambda: None); agent.register(app); cli.run(app, None)"
)
COMMAND = [sys.executable, "-c", RUN, "agent"]
HEAVY = ("pyarrow", "numpy", "pandas", "chdb", "clickhouse_connect", "dash", "fastapi", "uvicorn", "starlette")


def config(tmp_path: Path, text: str = "") -> Path:
    path = tmp_path / "agent.yaml"
    path.write_text(
        text
        or f"cluster: c1\nspool: {{folder: {tmp_path}/spool}}\nmetrics: {{port: null}}\n"
        "sources: {nvml: {interval_seconds: 1, podresources: null, kernel_log: null}}\n"
    )
    return path


def test_once_prints_what_it_sees_as_json_lines_and_delivers_nothing(tmp_path: Path) -> None:
    done = subprocess.run(
        [*COMMAND, "--config", str(config(tmp_path)), "--once"],
        cwd=REPO,
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert rows
    assert all(row["record"] and row["ts"].endswith("Z") and row["cluster"] == "c1" for row in rows)
    assert not (tmp_path / "spool").exists()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_with_everything_in_the_spool(tmp_path: Path, number: signal.Signals) -> None:
    with subprocess.Popen(
        [*COMMAND, "--config", str(config(tmp_path)), "--print"],
        cwd=REPO,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        shown = json.loads(process.stdout.readline())
        process.send_signal(number)
        _, said = process.communicate(timeout=PATIENCE_SECONDS)
    assert process.returncode == 0
    assert "what was not delivered is in the spool" in said
    with Spool(tmp_path / "spool") as spool:
        state = spool.state()
        assert state.rows >= 1
        assert not state.disk_error
    assert shown["record"]


def test_settings_that_do_not_fit_are_one_line_and_exit_2(tmp_path: Path) -> None:
    bad = config(tmp_path, "sources: {nvml: {interval_seconds: 7}}")
    done = subprocess.run(
        [*COMMAND, "--config", str(bad)],
        cwd=REPO,
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=False,
    )
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1
    assert "sources.nvml.interval_seconds" in done.stderr


def test_the_environment_goes_over_the_file_and_a_flag_over_both(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import typer

    from collectors.agent import agent as running
    from collectors.agent.settings import AgentSettings

    seen: list[AgentSettings] = []
    monkeypatch.setattr(running, "run", lambda settings, stop, on_rows: seen.append(settings))
    monkeypatch.setenv("GPULEDGER_CLUSTER", "by-environment")
    monkeypatch.setenv("GPULEDGER_NODE", "by-environment")
    app = typer.Typer()
    app.callback()(lambda: None)
    agent.register(app)
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        done = CliRunner().invoke(app, ["agent", "--config", str(config(tmp_path)), "--node", "by-flag"])
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    assert done.exit_code == 0, done.output
    assert (seen[0].cluster, seen[0].node) == ("by-environment", "by-flag")


def test_an_agent_imports_nothing_of_the_servers(tmp_path: Path) -> None:
    """A GPU node has neither the engine nor numpy, and 100 MiB for all of it."""
    code = f"""
import builtins, sys
real = builtins.__import__
def strict(name, *rest):
    assert name.split(".")[0] not in {HEAVY!r}, name
    return real(name, *rest)
builtins.__import__ = strict
sys.argv = ["gpuledger", "agent", "--once", "--config", {str(config(tmp_path))!r}]
{RUN}
"""
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=REPO, capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout


def test_a_second_agent_on_the_same_spool_is_refused(tmp_path: Path) -> None:
    path = config(tmp_path)
    with Spool(tmp_path / "spool"):
        done = subprocess.run(
            [*COMMAND, "--config", str(path)],
            cwd=REPO,
            capture_output=True,
            text=True,
            timeout=PATIENCE_SECONDS,
            check=False,
        )
    assert done.returncode == 2
    assert f"held by process {os.getpid()}" in done.stderr.splitlines()[-1]


def test_two_signals_end_it_at_once(tmp_path: Path) -> None:
    with subprocess.Popen(
        [*COMMAND, "--config", str(config(tmp_path)), "--print"],
        cwd=REPO,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        process.send_signal(signal.SIGTERM)
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE_SECONDS) in (0, 130)
