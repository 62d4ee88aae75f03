"""`gpuledger up` as a process: it serves, it refuses with one line, it ends cleanly; and the demo it can make."""

from __future__ import annotations

import contextlib
import io
import signal
import socket
import subprocess
import sys
import threading
from collections import defaultdict
from collections.abc import Iterator
from datetime import date, datetime, time, timedelta
from pathlib import Path

import httpx
import pytest
from rich.console import Console

from access.settings import AccessSettings
from billing.periods import parse_month
from collectors.simulated import FleetPlan, simulate
from gpuledger import demo, demo_making
from gpuledger.demo_fleet import Fleet
from gpuledger.serve import listen
from gpuledger.steps import Steps, Stopped, in_worker
from scheduler.records.events import SOURCE as SCHEDULER
from scheduler.simulate.fleet import FleetScheduler
from tests.draws import seldom
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


def test_passwords_travel_in_the_clear_only_where_that_is_asked_for(tmp_path: Path) -> None:
    """As found: README's own line served the page for sign-in on every address, where `server` refuses to."""
    fresh_store(tmp_path / "store").close()
    (sign_in := tmp_path / "sign-in.yaml").write_text("local_users: true\n")
    where = ("up", "--store", f"chdb://{tmp_path / 'store'}", "--no-serve", "--sign-in", str(sign_in))
    assert "--insecure-plain-http" in refused(*where, "--host", "0.0.0.0")
    assert "warning: no TLS" in run(*where, "--host", "0.0.0.0", "--insecure-plain-http").stderr
    assert "TLS" not in run(*where).stderr
    assert "TLS" not in run(*where, "--host", "0.0.0.0", "--trusted-proxy", "10.0.0.1").stderr


def test_no_address_is_named_that_is_not_served(tmp_path: Path) -> None:
    """As found: "Dashboard  http://127.0.0.1:8050/", and then that the file on sign-in cannot be used."""
    sign_in = tmp_path / "sign-in.yaml"
    sign_in.write_text("local: true\n")
    done = run("up", "--store", f"chdb://{tmp_path}/store", "--port", "0", "--sign-in", str(sign_in))
    assert done.exit_code != 0
    assert "unknown key" in str(done.exception)
    assert "Dashboard" not in done.output + done.stderr


@pytest.mark.parametrize("command", ["up --demo", "server --tokens"])
@pytest.mark.parametrize("option", ["--rules", "--routing", "--reports", "--sign-in", "--scheduler-token-file"])
def test_a_file_of_no_use_is_refused_before_anything_is_done(tmp_path: Path, command: str, option: str) -> None:
    """As found: a mistyped folder of rules was named once the address was printed, after minutes of a demo's fleet."""
    one = f"{{name: n, token_sha256: {'a' * 64}, records: all, clusters: all, nodes: all, back: 1d}}"
    (senders := tmp_path / "senders.yaml").write_text(f"senders: [{one}]\n")
    words = [*command.split(), *([str(senders)] if command.startswith("server") else [])]
    where = ("--store", f"chdb://{tmp_path}/store", "--port", "0")
    said = run(words[0], *words[1:], option, str(tmp_path / "nosuch"), *where)
    assert isinstance(said.exception, LedgerError | FileNotFoundError), said.output
    assert "nosuch" in str(said.exception)
    assert not (tmp_path / "store").exists() and "Dashboard" not in said.output


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


INTERRUPTED_WORK = """
import os, signal, threading
from gpuledger.steps import in_worker

stop = threading.Event()

def work():
    stop.wait(60)
    threading.Event().wait(0.5)
    print("the statement has ended")

threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGINT)).start()
try:
    in_worker(work, stop)
except KeyboardInterrupt:
    print("interrupted")
"""


def test_an_interruption_waits_until_the_work_has_stopped() -> None:
    """As found: Python 3.11 took the thread for ended, so that the store was closed under a running statement."""
    command = [sys.executable, "-c", INTERRUPTED_WORK]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=False)
    assert done.stdout.splitlines() == ["the statement has ended", "interrupted"], done.stderr


@pytest.mark.parametrize("day", [date(2026, 10, 1) + timedelta(days=n) for n in range(0, 366, 13)], ids=str)
def test_a_demo_has_a_month_of_the_past_and_some_of_it_was_invoiced(day: date) -> None:
    for at in (time(0, 1), time(0, 40), time(23, 59)):
        story = demo.new_story(7, datetime.combine(day, at, demo.ZONE))
        start, now = story.start.astimezone(demo.ZONE), story.watched_from.astimezone(demo.ZONE)
        assert (start.time(), now.time()) == (time(), at)
        assert timedelta(days=31) <= now.date() - start.date() <= timedelta(days=41)
        assert story.start + timedelta(days=demo.FLEET["days"]) >= story.watched_from + timedelta(days=10)
        month = demo._month_before(story.watched_from)
        assert start < month.end.astimezone(demo.ZONE) <= now
        assert month == parse_month(f"{month.end.astimezone(demo.ZONE) - timedelta(days=1):%Y-%m}", str(demo.ZONE))


@seldom(2, "the demo", 1)
@pytest.mark.slow
def test_a_demo_balances_resumes_and_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A small one, as it was first watched on a morning of the past; its fleet, and what makes it again, are apart."""
    url, folder = f"chdb://{tmp_path}/store", tmp_path / "invoices"
    for name in ("PAST", "BEFORE_THE_MONTH"):
        monkeypatch.setattr(demo, name, timedelta(days=1))
    monkeypatch.setattr(demo, "FLEET", {"days": 3, "scale": 0.2, "interval_seconds": 600})
    watched = datetime(2026, 11, 2, 10, 23, tzinfo=demo.ZONE)
    said = io.StringIO()
    steps = Steps(Console(file=said), threading.Event())
    with contextlib.ExitStack() as stack:
        fleet, other = (stack.enter_context(contextlib.closing(Fleet.start())) for _ in range(2))
        with fresh_store(tmp_path / "store") as store:
            first = demo.build(store, 7, folder, steps, watched, fleet=fleet)
        again = demo_making.make(url, 7, folder, "", AccessSettings(), other)
        store = stack.enter_context(open_store(url))
        _is_as_made(store, folder, first, again, watched, said.getvalue())
        with pytest.raises(LedgerError, match="seed 7"):
            demo.build(store, 8, folder, steps, watched)
        assert first.feed is fleet
        assert again.feed is None
        recorded = _recorded(first.story.plan)
        _goes_on(store, demo.Live(first.story, feed=first.feed), recorded)
        _goes_on(store, demo.Live(first.story), recorded)


def _is_as_made(store: Store, folder: Path, first: demo.Demo, again: demo.Demo, watched: datetime, said: str) -> None:
    assert first.proof.balanced
    assert first.report.document() == again.report.document()
    assert (first.story, first.month) == (again.story, "October 2026")
    assert [invoice.document for invoice in first.invoices] == [invoice.document for invoice in again.invoices]
    assert [one.document for one in first.after if one.number] == [one.document for one in again.after if one.number]
    of_documents = 4 * (len(first.invoices) + len(first.after))
    assert len(list(folder.iterdir())) == of_documents + len(("routing.yaml", "notifications.jsonl"))
    assert store.value("SELECT count() FROM closed_hours FINAL") == 24 + 24 + 10
    for record in ("samples", "events", "devices"):
        assert store.value(f"SELECT max(ts) > {{end:DateTime64(3, 'UTC')}} FROM {record}", {"end": watched}) == 0
    assert said.count("of a simulated fleet (") == 1
    assert (first.firing, first.promised, first.missed) == (again.firing, again.promised, again.missed)
    assert first.firing > 0
    assert first.promised > 0
    assert store.value("SELECT countIf(metric LIKE 'pending_jobs{cause=\"_%') AS reported FROM service_levels") > 0
    explained = "event = 'submitted' AND JSONExtractString(message, 'text') != ''"
    assert store.value(f"SELECT count() FROM events WHERE {explained}") > 0
    fired = {row["rule"] for row in store.rows("SELECT DISTINCT rule FROM alerts WHERE state = 'firing'")}
    assert not {"alert-data-stopped", "alert-evaluation-failed", "delivery-lag"} & fired


def _goes_on(store: Store, live: demo.Live, recorded: dict[str, int]) -> None:
    """Until the fleet's end, every record once."""

    def placed() -> bool:
        live(store, threading.Event())
        return live._feed is not None and live._feed.is_placed()

    until(placed, "the fleet")
    live(store, threading.Event())
    for record, rows in recorded.items():
        stored = store.value(
            f"SELECT uniqExact(tuple(* EXCEPT (batch, ingested_on, reported_otherwise))) FROM {record}"
            " WHERE batch NOT IN (SELECT batch FROM ingest_batches WHERE endsWith(source, ', late'))"
        )
        assert stored == rows, record
    live.close()


def _recorded(plan: FleetPlan) -> dict[str, int]:
    """How many different records there are of each type, in all."""
    found: dict[str, set[str]] = defaultdict(set)
    for record, table in simulate(plan, FleetScheduler, SCHEDULER):
        found[record.name] |= set(map(str, table.to_pylist()))
    return {name: len(rows) for name, rows in found.items()}
