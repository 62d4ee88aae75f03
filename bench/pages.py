"""`python -m bench.pages`: what each page costs the server on a month of 1,000 GPUs, and many users at once.

A real server process over a closed month; pages are asked for as the browser does, one after the other (p50, p95), then
by so many users at once, each looking at one page after the other with a pause for reading.

Before and after it, how long one scan of the month's samples takes: how fast the engine is here, which additions in
Python do not say. The goal was set where one took 2.8 CPU s, so a page is judged twice: by this machine's milliseconds,
and by those that it would have taken there.

What the books answer to a question is kept until they change, and what was closed or summed for good. So each page is
asked for `first`, once, when nobody has looked at it since the server started; `anew`, of a period of about a month
that nobody has looked at; and `again`, of one that somebody has.
"""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import cache
from pathlib import Path
from statistics import quantiles
from typing import Annotated, Any

import httpx
import typer
from rich.console import Console
from rich.table import Table

from bench.apart import BenchError, needed, run_apart, speed_of_machine, stopwatch
from bench.closing import make_fleet
from bench.fleet import BenchFleet
from billing.close import close
from billing.rates import apply_rate_card, parse_rate_card
from warehouse.store import open_store, read_sql

MOST_BYTES = 16 << 30
GOAL_MS = 200.0
GOAL_SCAN = 2.8
"""CPU seconds of one scan where the goal was set."""
SETTLING = 30
"""Seconds after the start: the server closes, sums its days and looks at its alerts."""
CARD = {"currency": "EUR", "rates": [{"sku": "gpu", "price_per_gpu_hour": "1.75"}]}
MONTH = "period=2026-10"
progress = Console(stderr=True, highlight=False)


def closed_month(folder: str, devices: int, days: int) -> dict[str, Any]:
    """In a process of its own: submissions of its jobs and prices for the fleet, its hours closed; a tenant and a
    workload to look at."""
    fleet = BenchFleet(devices, days)
    with open_store(f"chdb://{folder}/store") as store:
        store.command(read_sql(__file__, "pages_submitted"))
        card = parse_rate_card(CARD, "the bench's rate card")
        apply_rate_card(store, card, author="bench", reason="to have prices", now=fleet.start)
        close(store, until=fleet.end, now=fleet.end)
        (some,) = store.rows(read_sql(__file__, "pages_shown"))
    return some


def scanned(folder: str) -> dict[str, Any]:
    """In a process of its own: CPU seconds of one scan of the samples."""
    with open_store(f"chdb://{folder}/store") as store:
        scan = read_sql(__file__, "scan")
        store.value(scan)  # cold
        with stopwatch() as watch:
            store.value(scan)
    return {"cpu_seconds": watch.cpu_seconds}


def pages(found: dict[str, Any]) -> dict[str, tuple[str, str]]:
    """By name: path and search of each page."""
    month = f"?{MONTH}"
    return {
        "overview": ("/", month),
        "overview, a tenant": ("/", f"{month}&tenant={found['tenant']}"),
        "tenants": ("/tenants", month),
        "a tenant": ("/tenants", f"{month}&tenant={found['tenant']}"),
        "workloads": ("/workloads", month),
        "a workload": ("/workloads", f"{month}&workload={found['workload']}"),
        "fleet": ("/fleet", month),
        "a device": ("/fleet", f"{month}&device={found['device']}"),
        "queues": ("/queues", month),
        "capacity": ("/capacity", month),
        "savings": ("/savings", month),
        "objectives": ("/objectives", month),
        "invoices": ("/invoices", month),
        "alerts": ("/alerts", month),
        "explore": ("/explore", month),
        "admin": ("/administration", month),
    }


def anew(search: str, number: int) -> str:
    """The page of a period of its own, between 22 and 30 days of the month; of more than 25 some are the same."""
    first, last = number % 5 + 1, 30 - number // 5 % 5
    return search.replace(MONTH, f"period=2026-10-{first:02}..2026-10-{last:02}")


@cache
def drawn_by(client: httpx.Client) -> str:
    """What the callback that draws a page writes, as the server has it."""
    found = client.get("/_dash-dependencies").raise_for_status().json()
    return next(str(one["output"]) for one in found if one["output"].startswith("..page.children"))


def ask(client: httpx.Client, path: str, search: str) -> tuple[float, int]:
    """Seconds and bytes of a page. Errors: BenchError unless it is one."""
    output = drawn_by(client)
    body = {
        "output": output,
        "outputs": [{"id": one.split(".")[0], "property": one.split(".")[1]} for one in output.strip(".").split("...")],
        "inputs": [
            {"id": "url", "property": "pathname", "value": path},
            {"id": "url", "property": "search", "value": search},
        ],
        "changedPropIds": ["url.pathname"],
    }
    begun = time.perf_counter()
    answer = client.post("/_dash-update-component", json=body, headers={"sec-fetch-site": "same-origin"})
    taken = time.perf_counter() - begun
    if answer.status_code != 200 or '"page"' not in answer.text or "gl-error" in answer.text:
        raise BenchError(f"{path}{search}: {answer.status_code} {answer.text[:300]}")
    return taken, len(answer.content)


def many(url: str, asked: dict[str, tuple[str, str]], users: int, seconds: float, pause: float) -> dict[str, Any]:
    """So many users at once."""
    taken: list[float] = []
    wrong: list[str] = []
    lock, until = threading.Lock(), time.monotonic() + seconds

    def user(number: int) -> None:
        draw = random.Random(number)
        with httpx.Client(base_url=url, timeout=120) as client:
            time.sleep(draw.random() * pause)
            while time.monotonic() < until:
                try:
                    one, _ = ask(client, *draw.choice(list(asked.values())))
                    with lock:
                        taken.append(one)
                except (BenchError, httpx.HTTPError) as error:
                    with lock:
                        wrong.append(f"{type(error).__name__}: {error}")
                time.sleep(pause * (0.5 + draw.random()))

    threads = [threading.Thread(target=user, args=(number,)) for number in range(users)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return {"taken": taken, "wrong": wrong}


def main(
    devices: Annotated[int, typer.Option(min=1)] = 1000,
    days: Annotated[int, typer.Option(min=1)] = 30,
    turns: Annotated[int, typer.Option(min=2, help="Of each page.")] = 25,
    users: Annotated[int, typer.Option(min=0, help="At once; 0: none.")] = 50,
    minutes: Annotated[float, typer.Option(help="How long they look.")] = 5,
    pause: Annotated[float, typer.Option(help="Mean seconds of reading between pages.")] = 10,
) -> None:
    """Milliseconds of server work a page, and of many users at once."""
    from bench import pages as here

    with tempfile.TemporaryDirectory(prefix="gpuledger-bench-") as name:
        progress.print(f"making a month of {devices:,} GPUs")
        needed(run_apart(make_fleet, MOST_BYTES, folder=name, devices=devices, days=days, parquet=False), "the fleet")
        found = needed(run_apart(here.closed_month, MOST_BYTES, folder=name, devices=devices, days=days), "the close")
        progress.print(f"{found['entries']:,} entries of {found['tenants']} tenants")
        scans = [run_apart(here.scanned, MOST_BYTES, folder=name)]
        with serving(Path(name)) as url:
            measured = _measure(url, pages(found), turns)
            if users:
                _look(url, pages(found), users, timedelta(minutes=minutes), pause)
        scans.append(run_apart(here.scanned, MOST_BYTES, folder=name))
        is_goals_fleet = (devices, days) == (1000, 30)
        _say(measured, [needed(scan, "the scan")["cpu_seconds"] for scan in scans], is_goals_fleet)


class serving:  # noqa: N801 (used as a function)
    """A server process over the folder's store; its address. It ends with the block."""

    def __init__(self, folder: Path) -> None:
        command = [sys.executable, "-m", "gpuledger", "up", "--store", f"chdb://{folder}/store", "--port", "0"]
        self.process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)

    def __enter__(self) -> str:
        assert self.process.stderr is not None
        said = []
        try:
            for line in self.process.stderr:
                said.append(line)
                if "Dashboard" in line:
                    url = line.split()[1].rstrip("/")
                    threading.Thread(target=self.process.stderr.read, daemon=True).start()
                    return url
            raise BenchError(f"the server did not start: {''.join(said[-3:]).strip()}")
        except BaseException:
            self.__exit__()
            raise

    def __exit__(self, *_: object) -> None:
        self.process.send_signal(signal.SIGINT)
        try:
            self.process.wait(30)
        finally:
            self.process.kill()
            self.process.wait()


def end_when_told() -> None:
    """Makes SIGTERM, as from timeout(1), an exception like Ctrl-C, so that what was started is ended."""
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))


@dataclass(frozen=True)
class Taken:
    """Milliseconds of a page: asked for once, of periods that nobody has looked at, and of one that somebody has."""

    first: float
    anew: tuple[float, float]
    again: tuple[float, float]
    size: int

    @property
    def slowest(self) -> float:
        """The greater p95."""
        return max(self.anew[1], self.again[1])


def _measure(url: str, asked: dict[str, tuple[str, str]], turns: int) -> dict[str, Taken]:
    """By name of the page."""
    found = {}
    with httpx.Client(base_url=url, timeout=120) as client:
        time.sleep(SETTLING)
        progress.print(speed_of_machine())
        for name, (path, search) in asked.items():
            first, _ = ask(client, path, search)
            new = [ask(client, path, anew(search, number))[0] for number in range(min(turns, 25))]
            again, size = zip(*(ask(client, path, search) for _ in range(turns)), strict=True)
            found[name] = Taken(1000 * first, _p50_p95(new), _p50_p95(again), size[0])
    progress.print(speed_of_machine())
    return found


def _p50_p95(seconds: Sequence[float]) -> tuple[float, float]:
    cuts = quantiles(seconds, n=20, method="inclusive")  # no p95 beyond the slowest of a few
    return 1000 * cuts[9], 1000 * cuts[18]


def _say(measured: dict[str, Taken], scans: Sequence[float], is_goals_fleet: bool) -> None:
    """scans: CPU seconds before and after; the faster one is what pages of the goal's fleet are compared with."""
    there = GOAL_SCAN / min(scans)
    table = Table("page", "first ms", "anew p50", "p95", "again p50", "p95", "kB", "goal 200 here",
                  f"p95 at {GOAL_SCAN}", "goal 200 there", box=None)  # fmt: skip
    for name, one in measured.items():
        table.add_row(
            name,
            *(f"{ms:.0f}" for ms in (one.first, *one.anew, *one.again)),
            f"{one.size / 1000:.0f}",
            _verdict(one.slowest),
            *((f"{one.slowest * there:.0f}", _verdict(one.slowest * there)) if is_goals_fleet else ("-", "-")),
        )
    Console(width=110).print(table)
    before, after = (f"{scan:.2f}" for scan in scans)
    progress.print(f"one scan of the samples: {before} CPU s before, {after} after; where the goal was set {GOAL_SCAN}",
                   soft_wrap=True)  # fmt: skip


def _verdict(ms: float) -> str:
    return "met" if ms <= GOAL_MS else "missed"


def _look(url: str, asked: dict[str, tuple[str, str]], users: int, lasting: timedelta, pause: float) -> None:
    progress.print(f"{users} users for {lasting}")
    done = many(url, asked, users, lasting.total_seconds(), pause)
    p50, p95 = _p50_p95(done["taken"])
    Console(width=110).print(
        f"{users} users, {lasting}: {len(done['taken']):,} pages, {len(done['wrong'])} errors; "
        f"p50 {p50:.0f} ms, p95 {p95:.0f} ms"
    )
    for line in sorted(set(done["wrong"]))[:5]:
        progress.print(line, markup=False)


if __name__ == "__main__":
    end_when_told()
    try:
        typer.run(main)
    except BenchError as error:
        sys.exit(str(error))
