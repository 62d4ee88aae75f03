"""`gpuledger agent` as a process: once, with signals, with settings that do not fit."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from collectors.agent import privileges
from gpuledger import cli
from gpuledger.commands import agent
from ingest.spool import Spool
from tests.collectors.exporters.serving import Exporter
from tests.conftest import REPO
from tests.draws import seldom
from tests.patience import PATIENCE_SECONDS
from tests.slow_answers import answering

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


PAGE = b'DCGM_FI_DEV_GPU_UTIL{UUID="GPU-a",modelName="L4",Hostname="n1"} 5\n'
NOBODY = "http://127.0.0.1:9/metrics"
NO_DRIVER = privileges.library().state == "unsupported"


@seldom(5, "an agent looks once")
@pytest.mark.parametrize(
    ("nvml", "answering_urls", "silent_urls", "status"),
    [
        pytest.param(True, 0, 0, 2, marks=pytest.mark.skipif(not NO_DRIVER, reason="NVML answers here")),
        (False, 0, 0, 0),
        (False, 1, 0, 0),
        (False, 0, 1, 2),
        (False, 1, 1, 2),
        pytest.param(True, 1, 0, 0, marks=pytest.mark.skipif(not NO_DRIVER, reason="NVML answers here")),
        pytest.param(True, 0, 1, 2, marks=pytest.mark.skipif(not NO_DRIVER, reason="NVML answers here")),
    ],
)
@pytest.mark.parametrize("apart", [False, True])
def test_once_prints_what_it_sees_and_says_by_its_status_whether_all_answered(
    tmp_path: Path,
    exporter: Exporter,
    capsys: pytest.CaptureFixture[str],
    nvml: bool,
    answering_urls: int,
    silent_urls: int,
    status: int,
    apart: bool,
) -> None:
    exporter.body = PAGE
    urls = [exporter.url] * answering_urls + [NOBODY] * silent_urls
    exporters = [{"urls": some} for some in ([[url] for url in urls] if apart else [urls] if urls else [])]
    settings = {
        "cluster": "c1",
        "spool": {"folder": str(tmp_path / "spool")},
        "sources": {"nvml": {"enabled": nvml, "podresources": None, "kernel_log": None}, "exporters": exporters},
    }
    assert run_here("--once", "--config", str(config(tmp_path, json.dumps(settings)))) == status
    printed = capsys.readouterr()
    rows = [json.loads(line) for line in printed.out.splitlines()]
    assert all(row["record"] and row["ts"].endswith("Z") and row["cluster"] == "c1" for row in rows)
    assert [row["device_id"] for row in rows if row["record"] == "samples"] == ["GPU-a"] * answering_urls
    assert (NOBODY in printed.err) == bool(silent_urls) and "nvml: nvml: " not in printed.err
    assert not (tmp_path / "spool").exists()


def run_here(*arguments: str) -> int:
    """The status that it ends with, run in this process."""
    app = typer.Typer()
    app.callback()(lambda: None)
    agent.register(app)
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        cli.run(app, ["agent", *arguments])
    except SystemExit as ended:
        return int(ended.code or 0)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    return 0


@pytest.mark.parametrize(("options", "status"), [(["--once"], 2), ([], 0)])
def test_a_signal_ends_it_while_sources_hang(tmp_path: Path, options: list[str], status: int) -> None:
    """They would be given up later by themselves, and then say so."""
    asked = threading.Semaphore(0)

    def for_ever() -> Iterator[bytes]:
        asked.release()
        while True:
            yield b"H"

    with answering(for_ever, pause=0.2) as url:
        settings = {
            "cluster": "c1",
            "spool": {"folder": str(tmp_path / "spool")},
            "metrics": {"port": None},
            "sources": {"nvml": {"enabled": False}, "exporters": [{"urls": [url], "interval_seconds": 1}] * 3},
        }
        with subprocess.Popen(
            [*COMMAND, "--config", str(config(tmp_path, json.dumps(settings))), *options],
            cwd=REPO,
            stderr=subprocess.PIPE,
            text=True,
        ) as process:
            for _ in range(1 if options else 3):
                assert asked.acquire(timeout=PATIENCE_SECONDS)
            process.send_signal(signal.SIGTERM)
            _, said = process.communicate(timeout=PATIENCE_SECONDS)
    assert process.returncode == status, said
    assert "had not answered" in said if options else said.count("did not answer at the end") == 3, said


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
    assert done.returncode == (2 if NO_DRIVER else 0), done.stderr
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
        # -SIGTERM where the interpreter was already ending when the second one came.
        assert process.wait(PATIENCE_SECONDS) in (0, 130, -signal.SIGTERM)
