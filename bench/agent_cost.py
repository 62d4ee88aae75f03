"""`python -m bench.agent_cost`: what an agent costs its node: CPU, resident memory, and whether that grows.

A node with 8 GPUs, each shared by 10 pods, looked at every 10 seconds. Three processes: the agent, as `gpuledger agent`
runs it, with the driver's library replaced at the C boundary by one on simulated time; the node around it (a kubelet
with PodResources and /pods, a receiver that takes and forgets); and this one, which reads /proc/PID/stat of the agent.

Everything but the driver is the real thing: gRPC over a unix socket, HTTP, a spool that syncs to this disk. The made-up
driver is Python in the agent's own process, so its time is told apart; a real one has its own cost, which is not here.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import datetime
from enum import StrEnum
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Annotated, Any

import typer

GPUS, PODS_EACH, INTERVAL = 8, 10, 10
WARM_UP_SECONDS = 60.0
"""Not counted: imports, first connections."""
GOAL_CPU, GOAL_BYTES = 0.01, 100 << 20
MIB = 1 << 20


class Format(StrEnum):
    table = "table"
    json = "json"


@dataclass(frozen=True)
class Look:
    """The agent at one moment. at: seconds since its start.   cpu: seconds."""

    at: float
    cpu: float
    resident: int


@dataclass(frozen=True)
class Cost:
    """cpu_share: of one core, after the warm-up; driver_share: of that, in the made-up driver's library.

    slope_bytes_per_hour: of resident memory, by least squares over the looks after half the time, with its standard
    error.   rows_per_tick: spooled.   cpu_start: seconds until the warm-up was over.
    """

    seconds: float
    ticks: int
    cpu_share: float
    driver_share: float
    cpu_start: float
    resident_median: int
    resident_peak: int
    slope_bytes_per_hour: float
    slope_error: float
    rows_per_tick: float
    late: int
    missed: int


def main(
    minutes: Annotated[float, typer.Option(min=2, help="How long.")] = 10,
    hour: Annotated[bool, typer.Option("--hour", help="60 minutes.")] = False,
    fmt: Annotated[Format, typer.Option("--format", help="How the result is printed.")] = Format.table,
    role: Annotated[str, typer.Option(hidden=True)] = "",
    folder: Annotated[Path | None, typer.Option(hidden=True)] = None,
) -> None:
    """What an agent costs a node with 8 GPUs and 80 pods. Exit 1: above 1 % of a core or 100 MiB."""
    if role and folder is not None:
        (_node if role == "node" else _agent)(folder)
        return
    with tempfile.TemporaryDirectory(prefix="agent-cost-") as scratch:
        cost = measure(Path(scratch), 3600 if hour else minutes * 60)
    if fmt is Format.json:
        print(json.dumps(asdict(cost), indent=2))
    else:
        _print(cost)
    if cost.cpu_share > GOAL_CPU or cost.resident_peak > GOAL_BYTES:
        raise typer.Exit(1)


def measure(folder: Path, seconds: float) -> Cost:
    with _process("node", folder), _process("agent", folder) as agent:
        looks = list(_looks(agent, seconds))
        own = json.loads((folder / "own.json").read_text(encoding="utf-8"))
    warm = [look for look in looks if look.at >= WARM_UP_SECONDS]
    first, last = warm[0], warm[-1]
    slope, error = slope_of([(look.at, look.resident) for look in warm if look.at >= last.at / 2])
    cpu = last.cpu - first.cpu
    return Cost(
        last.at,
        own["ticks"],
        cpu / (last.at - first.at),
        own["driver_seconds"] / last.at,
        first.cpu,
        sorted(look.resident for look in warm)[len(warm) // 2],
        max(look.resident for look in looks),
        slope * 3600,
        error * 3600,
        own["rows"] / own["ticks"],
        own["late"],
        own["missed"],
    )


def slope_of(points: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """Least squares: rise per unit, and its standard error."""
    n = len(points)
    mean_x, mean_y = sum(x for x, _ in points) / n, sum(y for _, y in points) / n
    spread = sum((x - mean_x) ** 2 for x, _ in points)
    slope = sum((x - mean_x) * (y - mean_y) for x, y in points) / spread
    residual = sum((y - mean_y - slope * (x - mean_x)) ** 2 for x, y in points)
    return slope, (residual / max(1, n - 2) / spread) ** 0.5


def _looks(agent: subprocess.Popen[bytes], seconds: float) -> Iterator[Look]:
    tick = os.sysconf("SC_CLK_TCK")
    page = os.sysconf("SC_PAGE_SIZE")
    start = time.monotonic()
    while time.monotonic() - start < seconds:
        time.sleep(INTERVAL / 2)
        if agent.poll() is not None:
            raise RuntimeError(f"the agent ended with {agent.returncode}")
        fields = Path(f"/proc/{agent.pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
        # utime, stime and rss: fields 14, 15 and 24 of proc_pid_stat(5); the first behind the name is field 3.
        yield Look(time.monotonic() - start, (int(fields[11]) + int(fields[12])) / tick, int(fields[21]) * page)


@contextmanager
def _process(role: str, folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    command = [sys.executable, "-m", "bench.agent_cost", "--role", role, "--folder", str(folder)]
    environment = {**os.environ, "MALLOC_ARENA_MAX": "2"} if role == "agent" else dict(os.environ)
    with subprocess.Popen(command, stdin=subprocess.PIPE, env=environment) as process:
        try:
            while not (folder / f"{role}.ready").exists():
                if process.poll() is not None:
                    raise RuntimeError(f"the {role} ended with {process.returncode}")
                time.sleep(0.05)
            yield process
        finally:
            process.terminate()
            process.wait(20)


def _pods() -> list[tuple[int, int, str, str]]:
    """(gpu, pid, UID, name) of every pod; pids as the made-up driver has them."""
    return [
        (gpu, 10_000 + gpu * 100 + place, f"{gpu:08x}-0000-4000-9000-{place:012x}", f"train-{gpu}-{place}")
        for gpu in range(GPUS)
        for place in range(PODS_EACH)
    ]


# --- the node around the agent ---


def _node(folder: Path) -> None:
    from collectors.attribution.podresources import podresources_pb2 as messages
    from tests.collectors.attribution import kubelet_server, proc_tree
    from tests.collectors.nvml.fake_nvml import busy_node

    uuids = [gpu.uuid for gpu in busy_node(GPUS, PODS_EACH).gpus]
    proc_tree.host_proc(folder / "proc")
    kubelet = kubelet_server.PodResourcesServer(folder / "kubelet.sock")
    offered = [f"{uuid}::{replica}" for uuid in uuids for replica in range(PODS_EACH)]
    kubelet.allocatable = messages.Allocatable(
        devices=[messages.Devices(resource="nvidia.com/gpu.shared", ids=offered)]
    )
    items = []
    for gpu, pid, uid, name in _pods():
        proc_tree.add_process(folder / "proc", pid, proc_tree.pod_cgroup(uid))
        replica = f"{uuids[gpu]}::{pid % 100}"
        kubelet.pods.pods.append(kubelet_server.pod(name, replica, resource="nvidia.com/gpu.shared"))
        items.append(kubelet_server.pod_json(uid, name))
    kubelet.start()
    with kubelet_server.serving(kubelet_server.PodsServer(items)) as pods, _sink() as url:
        (folder / "addresses.json").write_text(json.dumps({"pods": pods.url, "receiver": url}), encoding="utf-8")
        (folder / "node.ready").touch()
        sys.stdin.read()


@contextmanager
def _sink() -> Iterator[str]:
    """A receiver that believes what it is sent."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            body = json.dumps({"read": int(self.headers["Gpuledger-Rows"]), "quarantined": {}}).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:
            """Quiet."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()


# --- the agent ---


def _agent(folder: Path) -> None:
    import logging
    import signal

    from collectors.agent.agent import run
    from collectors.agent.settings import read_settings
    from collectors.agent.sources import Planned, nvml_source
    from tests.collectors.nvml.fake_nvml import busy_node, installed

    logging.basicConfig(level=logging.WARNING)
    while not (folder / "node.ready").exists():
        time.sleep(0.05)
    addresses = json.loads((folder / "addresses.json").read_text(encoding="utf-8"))
    (folder / "token").write_text("t" * 32, encoding="utf-8")
    (folder / "token").chmod(0o600)
    nvml = {
        "interval_seconds": INTERVAL,
        "proc": str(folder / "proc"),
        "podresources": str(folder / "kubelet.sock"),
        "kubelet_url": addresses["pods"],
        "kernel_log": None,
    }
    settings = read_settings(
        None,
        {
            "cluster": "bench",
            "node": "gpu-1",
            "deliver.url": addresses["receiver"],
            "deliver.token_file": folder / "token",
            "spool.folder": folder / "spool",
            "metrics.port": 0,
            "sources.nvml": nvml,
        },
    )
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    driver = busy_node(GPUS, PODS_EACH)
    driver.now = time.time()
    timed = _Timed(driver)
    with installed(timed):
        source = _OnWallClock(nvml_source(settings, settings.sources.nvml), driver, timed, folder)
        (folder / "agent.ready").touch()
        run(settings, stop, [Planned("nvml", INTERVAL, source)], source.count)


class _Timed:
    """The driver's library, with the CPU time that it takes."""

    def __init__(self, driver: Any) -> None:
        self._driver = driver
        self.seconds = 0.0

    def __getattr__(self, name: str) -> Any:
        return _TimedFunction(self, getattr(self._driver, name))


class _TimedFunction:
    def __init__(self, library: _Timed, inner: Any) -> None:
        self._library, self._inner = library, inner
        self.restype: Any = None

    def __call__(self, *arguments: Any) -> Any:
        began = time.thread_time()
        try:
            return self._inner(*arguments)
        finally:
            self._library.seconds += time.thread_time() - began


class _OnWallClock:
    """The source, the made-up driver's clock beside it, and counts for the report."""

    def __init__(self, source: Any, driver: Any, timed: _Timed, folder: Path) -> None:
        self._source, self._driver, self._timed, self._folder = source, driver, timed, folder
        self._ticks = self._rows = self._missed = self._late = 0
        self._last: float | None = None

    def collect(self, now: datetime) -> Any:
        began = time.thread_time()
        self._driver.advance(now.timestamp() - self._driver.now)
        self._timed.seconds += time.thread_time() - began
        if self._last is not None:
            self._missed += round((now.timestamp() - self._last) / INTERVAL) - 1
        self._late += time.time() - now.timestamp() > 0.1 * INTERVAL
        self._last = now.timestamp()
        return self._source.collect(now)

    def count(self, rows: dict[str, list[Any]]) -> None:
        self._ticks += 1
        self._rows += sum(len(found) for found in rows.values())
        document = {
            "ticks": self._ticks,
            "rows": self._rows,
            "missed": self._missed,
            "late": self._late,
            "driver_seconds": self._timed.seconds,
        }
        beside = self._folder / "own.new"
        beside.write_text(json.dumps(document), encoding="utf-8")
        beside.replace(self._folder / "own.json")

    def acknowledge(self) -> None:
        self._source.acknowledge()

    def close(self) -> None:
        self._source.close()


def _print(cost: Cost) -> None:
    print(f"{GPUS} GPUs, {GPUS * PODS_EACH} pods, every {INTERVAL} s, {cost.seconds / 60:.0f} minutes")
    print(f"  CPU        {cost.cpu_share:.2%} of one core, of which the made-up driver {cost.driver_share:.2%}")
    print(
        f"  memory     {cost.resident_median / MIB:.1f} MiB resident (median), {cost.resident_peak / MIB:.1f} at most"
    )
    print(
        f"  growth     {cost.slope_bytes_per_hour / 1024:+.0f} ± {cost.slope_error / 1024:.0f} KiB an hour, second half"
    )
    print(f"  rows       {cost.rows_per_tick:.0f} a tick, {cost.ticks} ticks, {cost.late} late, {cost.missed} missed")


if __name__ == "__main__":
    typer.run(main)
