"""The same day in gpuledger, in a process of its own: ingest, close, and the allocation API over HTTP."""

from __future__ import annotations

import json
import threading
import time
import urllib.parse
import urllib.request
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

from bench.apart import BenchError, load_libraries, peak_bytes, stopwatch
from bench.opencost_day import START, rate_card

WINDOW = "2026-10-01T00:00:00Z,2026-10-02T00:00:00Z"
WAIT_SECONDS = 60


def by_gpuledger(folder: str, repeat: int) -> dict[str, Any]:
    """Seconds of each step, of every query (every pod by itself; namespaces with idle time by node), and the answers.

    Errors: BenchError if the books refuse anything or do not balance.
    """
    from billing.close import close
    from billing.rates import apply_rate_card, parse_rate_card
    from billing.verify import verify
    from ingest import ingest_file
    from warehouse.records import RECORD_TYPES
    from warehouse.store import migrate, open_store

    load_libraries()
    end = START + timedelta(days=1)
    result: dict[str, Any] = {}
    with open_store(f"chdb://{folder}/store") as store:
        migrate(store)
        with stopwatch() as watch:
            for name in ("devices", "events", "samples"):
                # The day is fixed; a record from the future would go to quarantine.
                ingest_file(store, RECORD_TYPES[name], Path(folder) / f"{name}.parquet", now=end + timedelta(days=3660))
        result["ingest_seconds"] = watch.seconds
        apply_rate_card(store, parse_rate_card(rate_card()), "bench", "the day's prices", end)
        cpu = time.process_time()
        with stopwatch() as watch:
            report = close(store, until=end, now=end + timedelta(days=1))
        result["close_seconds"] = watch.seconds
        result["close_cpu"] = time.process_time() - cpu
        if report.refused or report.checked != 24:
            raise BenchError(f"close: {report.refused} claims refused, {report.checked} hours closed")
        if not verify(store).balanced:
            raise BenchError("the books do not balance")
        with _served(store) as url:
            pods = [_ask(url, window=WINDOW, includeIdle="true") for _ in range(repeat)]
            spaces = [
                _ask(url, window=WINDOW, aggregate="namespace", includeIdle="true", idleByNode="true")
                for _ in range(repeat)
            ]
        for name, asked in (("pod", pods), ("namespace", spaces)):
            result[f"{name}_seconds"] = [one.seconds for one in asked]
            result[f"{name}_cpu"] = [one.cpu_seconds for one in asked]
            result[f"{name}_bytes"] = asked[0].bytes_read
        result["answer"] = spaces[0].found
        result["peak_bytes"] = peak_bytes()
    return result


@dataclass(frozen=True)
class Asked:
    """`cpu_seconds` are of client and server, which share the process."""

    seconds: float
    cpu_seconds: float
    found: dict[str, Any]
    bytes_read: int


def _ask(url: str, **params: str) -> Asked:
    cpu = time.process_time()
    with stopwatch() as watch:
        with urllib.request.urlopen(f"{url}allocation/compute?{urllib.parse.urlencode(params)}", timeout=600) as answer:
            raw = answer.read()
        (found,) = json.loads(raw)["data"]
    return Asked(watch.seconds, time.process_time() - cpu, found, len(raw))


class _served:  # noqa: N801 (a context manager)
    """The dashboard's server over the store, on a loopback port of its own."""

    def __init__(self, store: Any) -> None:
        import uvicorn

        from dashboards.app import build_app
        from gpuledger.serve import listen, url_of

        self._listener = listen("127.0.0.1", 0)
        self._server = uvicorn.Server(uvicorn.Config(build_app(store), log_level="warning"))
        self._thread = threading.Thread(
            target=self._server.run, kwargs={"sockets": [self._listener]}, name="server", daemon=True
        )
        self._url = url_of(self._listener)

    def __enter__(self) -> str:
        self._thread.start()
        until = time.monotonic() + WAIT_SECONDS
        while not self._server.started:
            if time.monotonic() > until:
                raise BenchError("the server does not start")
            time.sleep(0.02)
        return self._url

    def __exit__(self, *_: object) -> None:
        self._server.should_exit = True
        self._thread.join(WAIT_SECONDS)
        self._listener.close()
