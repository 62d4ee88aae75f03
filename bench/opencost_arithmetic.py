"""What OpenCost does for `/allocation`: its own PromQL against a real Prometheus, and its arithmetic on the answers.

Only the queries that GPUs need are sent, 10 of about 50. The arithmetic is OpenCost's, in floats as there; sources:
modules/prometheus-source/pkg/prom/metricsquerier.go and pkg/costmodel/allocation_helpers.go of opencost/opencost
(2025-2026), with its defaults (pods told apart by name, not by UID).
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import socket
import subprocess
import time
import urllib.parse
import urllib.request
from collections import defaultdict
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench.apart import BenchError, stopwatch

CONCURRENCY = 5
"""OpenCost's own limit on queries at once (MAX_QUERY_CONCURRENCY)."""
WAIT_SECONDS = 120

_POD = "container,pod,namespace,uid,cluster_id"
_ON_NODE = "container,pod,namespace,node,uid,cluster_id"
_NAMED = 'container!="",container!="POD",node!=""'
QUERIES = {
    "pods": "avg(kube_pod_container_status_running{} != 0) by (pod, namespace, cluster_id)[1d:%(r)s]",
    "gpus": "avg(avg_over_time(container_gpu_allocation{" + _NAMED + "}[1d])) by (" + _ON_NODE + ")",
    "requested": 'avg(avg_over_time(kube_pod_container_resource_requests{resource="nvidia_com_gpu",' + _NAMED
    + "}[1d])) by (" + _ON_NODE + ")",
    "usage": 'avg(avg_over_time(DCGM_FI_PROF_GR_ENGINE_ACTIVE{container!=""}[1d])) by (' + _POD + ")",
    "usage_max": 'max(max_over_time(DCGM_FI_PROF_GR_ENGINE_ACTIVE{container!=""}[1d])) by (' + _POD + ")",
    "gpu_info": 'avg(avg_over_time(DCGM_FI_DEV_DEC_UTIL{container!=""}[1d])) by '
    "(container,pod,namespace,device,modelName,UUID,uid,cluster_id)",
    "is_shared": 'avg(avg_over_time(kube_pod_container_resource_requests{container!="",node!="",pod!="",'
    'unit="integer"}[1d])) by (container,pod,namespace,node,resource,uid,cluster_id)',
    "price": "avg(avg_over_time(node_gpu_hourly_cost{}[1d])) by (node,uid,cluster_id,instance_type,provider_id)",
    "count": "avg(avg_over_time(node_gpu_count{}[1d])) by (cluster_id,node,uid,provider_id)",
    "node_minutes": "avg(node_total_hourly_cost{}) by (node,uid,cluster_id,provider_id)[1d:%(r)s]",
}  # fmt: skip


@dataclass
class Pod:
    """An allocation as OpenCost computes it; `usage` is the average over the pod's GPUs, 0-1."""

    namespace: str
    start: float
    end: float
    node: str = ""
    gpus: float = 0.0
    usage: float | None = None
    gpu_hours: float = 0.0
    gpu_cost: float = 0.0

    @property
    def efficiency(self) -> float:
        return (self.usage or 0.0) / self.gpus if self.gpus else 0.0


@dataclass
class Computed:
    """One call's answer; seconds of the queries (with reading their JSON) and of everything, and of processors."""

    pods: dict[tuple[str, str], Pod]
    idle_by_node: dict[str, float]
    query_seconds: float = 0.0
    seconds: float = 0.0
    cpu_seconds: float = 0.0
    bytes_read: int = 0
    namespaces: dict[str, list[Pod]] = field(default_factory=dict)


def missing_programs() -> list[str]:
    return [name for name in ("prometheus", "promtool") if shutil.which(name) is None]


def load_blocks(openmetrics: Path, data: Path) -> float:
    """Makes Prometheus's own blocks of the file; answers the seconds. Errors: BenchError with promtool's last line."""
    with stopwatch() as watch:
        done = subprocess.run(
            ["promtool", "tsdb", "create-blocks-from", "-q", "openmetrics", str(openmetrics), str(data)],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
    if done.returncode:
        raise BenchError(f"promtool: {(done.stderr or done.stdout).strip().splitlines()[-1:]}")
    return watch.seconds


@contextlib.contextmanager
def prometheus(data: Path) -> Iterator[tuple[str, int]]:
    """A Prometheus of its own over the blocks: yields its address and process id, and ends it afterwards.

    Blocks stay as they are (no compaction beside the measuring) and are never too old.
    """
    config = data.parent / "prometheus.yml"
    config.write_text("global: {}\n", encoding="utf-8")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    log_path = data.parent / "prometheus.log"
    with log_path.open("w", encoding="utf-8") as log:
        process = subprocess.Popen(
            [
                "prometheus", f"--config.file={config}", f"--storage.tsdb.path={data}",
                f"--web.listen-address=127.0.0.1:{port}", "--storage.tsdb.retention.time=100y",
                "--storage.tsdb.min-block-duration=2h", "--storage.tsdb.max-block-duration=2h", "--log.level=warn",
            ],
            stdout=log, stderr=log,
        )  # fmt: skip
    try:
        _await_ready(f"http://127.0.0.1:{port}", process, log_path)
        yield f"http://127.0.0.1:{port}", process.pid
    finally:
        process.terminate()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _await_ready(url: str, process: subprocess.Popen[bytes], log_path: Path) -> None:
    until = time.monotonic() + WAIT_SECONDS
    while time.monotonic() < until and process.poll() is None:
        try:
            with urllib.request.urlopen(f"{url}/-/ready", timeout=5) as answer:
                if answer.status == 200:
                    return
        except OSError:
            time.sleep(0.1)
    raise BenchError(f"prometheus does not get ready: {log_path.read_text(encoding='utf-8').strip()[-300:]}")


def peak_bytes_of(pid: int) -> int:
    """The most memory that the process had resident, in bytes."""
    for line in Path(f"/proc/{pid}/status").read_text(encoding="ascii").splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    return 0


def cpu_seconds(pid: int) -> float:
    """What the process has used of processors so far, to a hundredth."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def compute(url: str, pid: int, start: int, end: int, resolution_minutes: int) -> Computed:
    """One call of `/allocation` for the window (seconds since the epoch): queries, then arithmetic.

    pid: of the Prometheus at the address; its share of the processors counts, too.
    """
    cpu = cpu_seconds(pid) + time.process_time()
    with stopwatch() as whole:
        with stopwatch() as asking, ThreadPoolExecutor(CONCURRENCY) as pool:
            texts = {name: text % {"r": f"{resolution_minutes}m"} for name, text in QUERIES.items()}
            fetched = dict(zip(texts, pool.map(lambda text: _query(url, text, end), texts.values()), strict=True))
        answers = {name: rows for name, (rows, _) in fetched.items()}
        pods = _pods(answers["pods"], start, end, resolution_minutes * 60)
        _apply_gpus(pods, answers["gpus"] or answers["requested"])
        _apply_usage(pods, answers["usage"])
        prices = {row["metric"]["node"]: float(row["value"][1]) for row in answers["price"]}
        for pod in pods.values():
            pod.gpu_cost = pod.gpu_hours * prices.get(pod.node, 0.0)
        idle = _idle(pods, prices, answers["count"], answers["node_minutes"])
    cpu = cpu_seconds(pid) + time.process_time() - cpu
    namespaces: dict[str, list[Pod]] = defaultdict(list)
    for pod in pods.values():
        namespaces[pod.namespace].append(pod)
    bytes_read = sum(size for _, size in fetched.values())
    return Computed(pods, idle, asking.seconds, whole.seconds, cpu, bytes_read, dict(namespaces))


def _query(url: str, text: str, at: int) -> tuple[list[dict[str, Any]], int]:
    body = urllib.parse.urlencode({"query": text, "time": at}).encode()
    with urllib.request.urlopen(f"{url}/api/v1/query", data=body, timeout=600) as answer:
        raw = answer.read()
    rows: list[dict[str, Any]] = json.loads(raw)["data"]["result"]
    return rows, len(raw)


def _pods(rows: list[dict[str, Any]], start: int, end: int, resolution: int) -> dict[tuple[str, str], Pod]:
    """From the first to the last sample; a single one is a resolution wide; nothing outside the window."""
    pods: dict[tuple[str, str], Pod] = {}
    for row in rows:
        since, until = float(row["values"][0][0]), float(row["values"][-1][0])
        if since == until:
            since, until = since - resolution / 2, until + resolution / 2
        since, until = max(since, start), min(until, end)
        namespace, name = row["metric"]["namespace"], row["metric"]["pod"]
        known = pods.setdefault((namespace, name), Pod(namespace, since, until))
        known.start, known.end = min(known.start, since), max(known.end, until)
    return pods


def _apply_gpus(pods: dict[tuple[str, str], Pod], rows: list[dict[str, Any]]) -> None:
    """A pod that no subquery step found is skipped, though its GPUs are known."""
    for row in rows:
        pod = pods.get((row["metric"]["namespace"], row["metric"]["pod"]))
        if pod is not None:
            pod.gpus = float(row["value"][1])
            pod.node = row["metric"]["node"]
            pod.gpu_hours = pod.gpus * (pod.end - pod.start) / 3600


def _apply_usage(pods: dict[tuple[str, str], Pod], rows: list[dict[str, Any]]) -> None:
    for row in rows:
        pod = pods.get((row["metric"]["namespace"], row["metric"]["pod"]))
        if pod is not None:
            pod.usage = float(row["value"][1])


def _idle(
    pods: dict[tuple[str, str], Pod],
    prices: dict[str, float],
    counts: list[dict[str, Any]],
    minutes: list[dict[str, Any]],
) -> dict[str, float]:
    """A node's GPUs x price x hours, less what its pods cost, and never below 0 (since October 2025)."""
    hours = {row["metric"]["node"]: (row["values"][-1][0] - row["values"][0][0]) / 3600 for row in minutes}
    allocated: dict[str, float] = defaultdict(float)
    for pod in pods.values():
        allocated[pod.node] += pod.gpu_cost
    idle = {}
    for row in counts:
        node = row["metric"]["node"]
        asset = float(row["value"][1]) * prices.get(node, 0.0) * hours.get(node, 0.0)
        idle[node] = max(0.0, asset - allocated[node])
    return idle
