"""`python -m bench.sql_doors`: what people's SQL costs everybody else, and itself, as ratios in one run.

A real server process over a closed week. Quiet, and then while 20 clients keep asking a statement that computes for
minutes: pages, pushes and the close, as ratios of medians. Then the clients hang up: what still computes 5 s later.
With `--beside` another checkout (its own .venv in it) serves a copy of the store, and ordinary statements are asked of
both in turn.
"""

from __future__ import annotations

import contextlib
import functools
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from statistics import median
from typing import Annotated
from urllib.parse import urlsplit

import httpx
import typer
from rich.console import Console
from rich.table import Table

from bench import pages as bench_pages
from bench.apart import ROOT, BenchError, needed, run_apart
from bench.closing import make_fleet

MOST_BYTES = 8 << 30
HEAVY = "SELECT sum(editDistance(concat(repeat('a',60000),toString(number)), repeat('b',60000))) FROM numbers(10000)"
CLIENTS = 20
GOAL = 1.3
AFTER_SECONDS = 5.0
TOKEN = "bench-token-of-no-secrecy-0123456789"
PERIOD = "?period=2026-10-02..2026-10-06"
ORDINARY = {
    "one number": ("SELECT 1", "TabSeparated"),
    "cost by tenant": ("SELECT tenant, sum(billed_cost) FROM v_charges GROUP BY tenant", "JSON"),
    "1,000 rows": ("SELECT * FROM v_usage_hourly LIMIT 1000", "JSON"),
    "samples": ("SELECT count(), avg(utilization) FROM samples", "TabSeparated"),
    "250,000 rows": ("SELECT number, toString(number % 7) FROM numbers(250000)", "ArrowStream"),
    "2 million rows": ("SELECT number, toString(number % 7) FROM numbers(2000000)", "Native"),
}
progress = Console(stderr=True, highlight=False)


@contextmanager
def serving(checkout: Path, folder: Path) -> Iterator[tuple[str, int]]:
    """A server process of a checkout over the folder's store: its address and process."""
    python = sys.executable if checkout == ROOT else str(checkout / ".venv" / "bin" / "python")
    command = [python, "-m", "gpuledger", "up"]
    if checkout == ROOT:
        senders = folder / "senders.yaml"
        senders.write_text(
            f"senders:\n  - {{name: bench, token: {TOKEN}, records: [samples], clusters: [bench], nodes: all}}\n",
            encoding="utf-8",
        )
        command = [python, "-m", "gpuledger", "server", "--tokens", str(senders)]
    command += ["--store", f"chdb://{folder}/store", "--port", "0"]
    with subprocess.Popen(command, cwd=checkout, stderr=subprocess.PIPE, text=True) as server:
        try:
            yield _address(server), server.pid
        finally:
            server.send_signal(signal.SIGINT)
            server.wait(60)


def _address(server: subprocess.Popen[str]) -> str:
    assert server.stderr is not None
    said = []
    for line in server.stderr:
        said.append(line)
        if "Dashboard" in line:
            threading.Thread(target=server.stderr.read, daemon=True).start()
            return line.split()[1].rstrip("/")
    raise BenchError(f"the server did not start: {''.join(said)[-500:]}")


def seconds(what: Callable[[], object], times: int) -> float:
    """The median of several."""
    taken = []
    for _ in range(times):
        begun = time.perf_counter()
        what()
        taken.append(time.perf_counter() - begun)
    return median(taken)


class Asked:
    """One client of a server, who does what goes on beside people's SQL."""

    def __init__(self, url: str) -> None:
        self._client = httpx.Client(base_url=url, timeout=300)
        self._pushes = 0

    def page(self) -> None:
        bench_pages.ask(self._client, "/tenants", PERIOD)

    def push(self) -> None:
        self._pushes += 1
        at = datetime.now(UTC) - timedelta(seconds=self._pushes)
        rows = [
            {
                "ts": at.isoformat(),
                "interval_seconds": 10,
                "cluster": "bench",
                "device_id": f"GPU-{number}",
                "state": "ok",
            }
            for number in range(200)
        ]
        answer = self._client.post("/api/v1/records/samples", json=rows, headers={"Authorization": f"Bearer {TOKEN}"})
        if answer.status_code != 200:
            raise BenchError(f"push: {answer.status_code} {answer.text[:300]}")

    def close(self) -> None:
        answer = self._client.post("/api/v1/close", headers={"sec-fetch-site": "same-origin"})
        if answer.status_code != 200:
            raise BenchError(f"close: {answer.status_code} {answer.text[:300]}")

    def statement(self, text: str, form: str) -> None:
        answer = self._client.post(
            "/sql", content=text, params={"default_format": form}, headers={"accept-encoding": "identity"}
        )
        if answer.status_code != 200:
            raise BenchError(f"{text}: {answer.status_code} {answer.text[:300]}")


@contextmanager
def heavy(url: str) -> Iterator[None]:
    """Clients who ask the heavy statement again and again, and hang up at the end."""
    stop = threading.Event()
    parts = urlsplit(url)
    request = (
        f"POST /sql HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: {len(HEAVY)}\r\n\r\n{HEAVY}"
    )
    connections: dict[int, socket.socket] = {}

    def ask(number: int) -> None:
        while not stop.is_set():
            with socket.create_connection((parts.hostname, parts.port)) as connection:
                connections[number] = connection
                connection.sendall(request.encode())
                while connection.recv(1 << 16):
                    pass

    threads = [threading.Thread(target=ask, args=(number,), daemon=True) for number in range(CLIENTS)]
    for thread in threads:
        thread.start()
    time.sleep(3)
    try:
        yield
    finally:
        stop.set()
        for connection in connections.values():
            with contextlib.suppress(OSError):  # has just been answered
                connection.shutdown(socket.SHUT_RDWR)
        for thread in threads:
            thread.join()


def cpu_seconds(pid: int) -> float:
    """Of a process and those below it, now."""
    total = 0.0
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text(encoding="ascii", errors="replace").rpartition(")")[2].split()
        except OSError:
            continue
        if int(stat.parent.name) == pid or int(fields[1]) == pid:
            total += (int(fields[11]) + int(fields[12])) / 100
    return total


def measure(folder: Path, beside: Path | None, turns: int) -> None:
    if beside is not None:
        shutil.copytree(folder / "store", folder / "beside" / "store", symlinks=True)
    with serving(ROOT, folder) as (url, pid):
        time.sleep(bench_pages.SETTLING)
        asked = Asked(url)
        if beside is not None:
            with serving(beside, folder / "beside") as (other, _):
                time.sleep(bench_pages.SETTLING)
                _ordinary(asked, Asked(other), turns)
        _quiet_and_not(asked, url, pid, turns)


def _ordinary(ours: Asked, theirs: Asked, turns: int) -> None:
    table = Table("ordinary statement", "beside ms", "ours ms", "ratio", "goal", box=None)
    for name, (text, form) in ORDINARY.items():
        taken: tuple[list[float], list[float]] = ([], [])
        for turn in range(turns + 2):
            for one, times in zip((theirs, ours), taken, strict=True):
                took = seconds(functools.partial(one.statement, text, form), 1)
                if turn > 1:
                    times.append(took)
        before, now = (median(times) * 1000 for times in taken)
        ratio = now / before
        table.add_row(
            name, f"{before:.1f}", f"{now:.1f}", f"{ratio:.2f}", f"<= 1.3, {'met' if ratio <= 1.3 else 'missed'}"
        )
    Console(width=110).print(table)


def _quiet_and_not(asked: Asked, url: str, pid: int, turns: int) -> None:
    what = {"a page": asked.page, "a push of 200 samples": asked.push, "a close": asked.close}
    quiet = {name: seconds(one, turns) for name, one in what.items()}
    with heavy(url):
        busy = {name: seconds(one, turns) for name, one in what.items()}
    time.sleep(AFTER_SECONDS)
    before = cpu_seconds(pid)
    time.sleep(2)
    left = (cpu_seconds(pid) - before) / 2
    table = Table("beside 20 heavy statements", "quiet ms", "busy ms", "ratio", box=None)
    for name in what:
        table.add_row(name, f"{quiet[name] * 1000:.0f}", f"{busy[name] * 1000:.0f}", f"{busy[name] / quiet[name]:.2f}")
    Console(width=110).print(table)
    Console(width=110).print(
        f"{AFTER_SECONDS:.0f} s after the clients hung up the server and its workers use {left:.2f} CPUs"
    )


def main(
    devices: Annotated[int, typer.Option(min=1)] = 100,
    days: Annotated[int, typer.Option(min=1)] = 7,
    turns: Annotated[int, typer.Option(min=2, help="Of everything.")] = 20,
    beside: Annotated[Path | None, typer.Option(help="Another checkout, to ask ordinary statements of both.")] = None,
) -> None:
    """What people's SQL costs everybody else, and itself."""
    with tempfile.TemporaryDirectory(prefix="gpuledger-bench-") as name:
        progress.print(f"making {days} days of {devices:,} GPUs")
        # The older schema: ours is upgraded when its server starts.
        of = ROOT if beside is None else beside.resolve()
        fleet = {"folder": name, "devices": devices, "days": days}
        needed(run_apart(make_fleet, MOST_BYTES, of, parquet=False, **fleet), "the fleet")
        needed(run_apart(bench_pages.closed_month, MOST_BYTES, of, **fleet), "the close")
        measure(Path(name), None if beside is None else of, turns)


if __name__ == "__main__":
    try:
        typer.run(main)
    except BenchError as error:
        sys.exit(str(error))
