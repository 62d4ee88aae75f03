"""`gpuledger up` as a process: it serves, it refuses with one line, it ends cleanly; and the demo it can make."""

from __future__ import annotations

import io
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import httpx
import pytest
from rich.console import Console

from billing.periods import parse_month
from collectors.simulated import FleetPlan
from gpuledger import demo
from gpuledger.serve import listen
from gpuledger.steps import Steps, Stopped, in_worker
from tests.gpuledger.running import refused, run
from tests.patience import PATIENCE_SECONDS, until
from tests.stores import fresh_store
from warehouse.errors import LedgerError
from warehouse.hosts import is_loopback
from warehouse.store import Store, open_store

UP = [sys.executable, "-c", "from gpuledger.cli import main; main()", "up"]


@pytest.fixture
def running(tmp_path: Path) -> Iterator[tuple[subprocess.Popen[str], str, str]]:
    """A server that asks for sign-in, on a store of its own: the process, its address, the store's URL."""
    store, sign_in = f"chdb://{tmp_path}/held", tmp_path / "sign-in.yaml"
    sign_in.write_text("session_hours: 1\n")
    command = [*UP, "--store", store, "--port", "0", "--sign-in", str(sign_in)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        address = next(line.split()[1] for line in process.stderr if "Dashboard" in line)
        _wait_for(address)
        yield process, address, store
        process.kill()


def _wait_for(address: str) -> None:
    def answers() -> bool:
        try:
            return httpx.get(f"{address}healthz").status_code == 200
        except httpx.HTTPError:
            return False

    until(answers, address, every=0.1)


def test_a_signal_ends_the_server_and_frees_the_store(running: tuple[subprocess.Popen[str], str, str]) -> None:
    process, address, store = running
    assert httpx.get(f"{address}api/v1/ledger").status_code == 401
    said = refused("up", "--store", store, "--no-serve")
    assert f"held by process {process.pid}" in said
    process.send_signal(signal.SIGTERM)  # The server command's is told by SIGINT.
    assert process.wait(PATIENCE_SECONDS) == 0
    with open_store(store) as opened:
        assert opened.value("SELECT count() FROM closed_hours") == 0


def test_an_address_that_others_reach_needs_to_be_asked_for(tmp_path: Path) -> None:
    fresh_store(tmp_path / "store").close()
    where = ("--store", f"chdb://{tmp_path / 'store'}", "--host", "0.0.0.0")
    assert "--insecure-no-sign-in" in refused("up", *where)
    warned = run("up", *where, "--insecure-no-sign-in", "--no-serve")
    assert warned.exit_code == 0
    assert "warning: no sign-in" in warned.stderr


def test_a_port_in_use_is_one_line() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(LedgerError, match=f"port {port} in use"):
            listen("127.0.0.1", port)


def test_without_a_port_the_next_free_one_is_taken() -> None:
    with listen("127.0.0.1", None) as first, listen("127.0.0.1", None) as second:
        assert first.getsockname()[1] < second.getsockname()[1] <= 8070


@pytest.mark.parametrize(
    ("host", "answer"), [("127.0.0.1", True), ("::1", True), ("localhost", True), ("0.0.0.0", False), ("gpu-1", False)]
)
def test_loopback_is_known(host: str, answer: bool) -> None:
    assert is_loopback(host) is answer


def test_work_stops_at_its_next_word_of_progress() -> None:
    stop = threading.Event()
    steps = Steps(Console(file=io.StringIO()), stop)

    def work() -> None:
        with steps.step("Close") as step:
            step.update(1, 2, "half")
            stop.set()
            step.update(2, 2, "done")

    with pytest.raises(Stopped):
        in_worker(work, stop)


@pytest.mark.slow
def test_the_demo_balances_and_a_second_run_changes_nothing(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of the last two days of its month, and what the fleet does after it."""
    month = parse_month(demo.MONTH, "Europe/Berlin")
    assert (month.start, month.end) == (demo.START, demo.END)
    whole = demo.fleet_plan(7)
    assert (whole.start, whole.start + timedelta(days=whole.days) > demo.END) == (demo.START, True)

    def small(seed: int) -> FleetPlan:
        return replace(whole, seed=seed, start=demo.END - timedelta(days=2), days=3, scale=0.2, interval_seconds=600)

    monkeypatch.setattr(demo, "fleet_plan", small)
    said = io.StringIO()
    steps = Steps(Console(file=said), threading.Event())
    first = demo.build(store, 7, tmp_path / "invoices", steps)
    again = demo.build(store, 7, tmp_path / "invoices", steps)
    assert first.proof.balanced
    assert first.report.document() == again.report.document()
    assert [invoice.document for invoice in first.invoices] == [invoice.document for invoice in again.invoices]
    assert len(list((tmp_path / "invoices").iterdir())) == 4 * len(first.invoices) > 0
    assert store.value("SELECT count() FROM closed_hours FINAL") == 48
    for record in ("samples", "events", "devices"):
        assert store.value(f"SELECT max(ts) > {{end:DateTime64(3, 'UTC')}} FROM {record}", {"end": demo.END}) == 0
    assert said.getvalue().count("Ingest") == 1
    assert (first.firing, first.promised, first.missed) == (again.firing, again.promised, again.missed)
    assert first.firing > 0
    assert first.promised > 0
    assert store.value("SELECT count() FROM alert_runs") == 1, "nothing is new to a second look"
    assert store.value("SELECT countIf(metric LIKE 'pending_jobs{cause=\"_%') AS told FROM service_levels") > 0
    fired = store.rows("SELECT DISTINCT rule FROM alerts WHERE state = 'firing'")
    assert not {"alert-data-stopped", "alert-evaluation-failed"} & {row["rule"] for row in fired}
    with pytest.raises(LedgerError, match="seed 7"):
        demo.build(store, 8, tmp_path / "invoices", steps)
