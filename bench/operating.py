"""`python -m bench.operating`: the operator on a real API server: admission, memory, and CPU at rest.

etcd and kube-apiserver (KUBEBUILDER_ASSETS, or beside the checkout) with --nodes nodes; the operator as `gpuledger
scheduler` runs it, with the rights that are shipped for it; --jobs ElasticJobs, created as fast as the server takes
them, of --replicas pods each. Then all pods are bound and run, and the operator is left alone for --rest seconds, in
which each node's status changes every five minutes, as a kubelet renews it; --others pods are not the operator's.
Its CPU is read from /proc, its memory as resident bytes and their peak.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Coroutine, Iterable
from pathlib import Path
from typing import Annotated, Any

import httpx
import typer
import yaml

JOBS = "/apis/gpuledger.io/v1alpha1/namespaces/default/elasticjobs"
PODS = "/api/v1/namespaces/default/pods"
HEARTBEAT_SECONDS = 300.0
GOAL_BYTES, GOAL_SHARE, GOAL_ADMITTED = 300 << 20, 0.05, 60.0
MERGE = {"Content-Type": "application/strategic-merge-patch+json"}


class Process:
    """The operator, by /proc."""

    def __init__(self, pid: int) -> None:
        self._stat, self._status = Path(f"/proc/{pid}/stat"), Path(f"/proc/{pid}/status")

    def cpu(self) -> float:
        """Seconds, user and system."""
        fields = self._stat.read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def memory(self) -> tuple[int, int]:
        """Resident bytes, now and at most."""
        said = dict(line.split(":", 1) for line in self._status.read_text().splitlines() if ":" in line)
        now, most = (int(said[key].split()[0]) << 10 for key in ("VmRSS", "VmHWM"))
        return now, most


async def each(many: Iterable[Coroutine[Any, Any, httpx.Response]], at_once: int = 16) -> None:
    turns = asyncio.Semaphore(at_once)

    async def one(call: Coroutine[Any, Any, httpx.Response]) -> None:
        async with turns:
            (await call).raise_for_status()

    await asyncio.gather(*(one(call) for call in many))


class Bench:
    def __init__(self, api: httpx.AsyncClient, nodes: int, jobs: int, replicas: int, devices: int) -> None:
        self.api, self.nodes, self.jobs, self.replicas, self.devices = api, nodes, jobs, replicas, devices

    def settings(self) -> dict[str, Any]:
        hosts = {f"n{n:04}": [f"GPU-{n:04}-{i}" for i in range(self.devices)] for n in range(self.nodes)}
        pool = {"name": "p", "model": "A100", "launcher": "kubernetes", "hosts": hosts}
        return {"pools": [pool], "tenants": [{"name": "default"}], "queues": [{"name": "batch"}]}

    def condition(self) -> dict[str, Any]:
        now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        ready = {"type": "Ready", "status": "True", "lastHeartbeatTime": now}
        return {"status": {"conditions": [ready], "capacity": {"nvidia.com/gpu": str(self.devices)}}}

    async def add_node(self, number: int) -> httpx.Response:
        name = f"n{number:04}"
        (await self.api.post("/api/v1/nodes", json={"metadata": {"name": name}})).raise_for_status()
        return await self.beat(number)

    async def beat(self, number: int) -> httpx.Response:
        return await self.api.patch(f"/api/v1/nodes/n{number:04}/status", json=self.condition(), headers=MERGE)

    async def add_job(self, number: int) -> httpx.Response:
        spec = {
            "queue": "batch", "gpusPerReplica": 1,
            "scaling": {"minReplicas": self.replicas, "maxReplicas": self.replicas},
            "template": {"spec": {"containers": [{"name": "main", "image": "train"}]}},
        }  # fmt: skip
        body = {"apiVersion": "gpuledger.io/v1alpha1", "kind": "ElasticJob", "metadata": {"name": f"j{number}"}}
        return await self.api.post(JOBS, json={**body, "spec": spec})

    async def add_other(self, number: int) -> httpx.Response:
        spec = {"nodeName": f"n{number % self.nodes:04}", "containers": [{"name": "main", "image": "other"}]}
        return await self.api.post(PODS, json={"metadata": {"name": f"other-{number}"}, "spec": spec})

    async def items(self, path: str, **query: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = (await self.api.get(path, params=query)).json()["items"]
        return found

    async def run_pods(self) -> None:
        now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())

        async def run(pod: dict[str, Any]) -> httpx.Response:
            required = pod["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
            node = required["nodeSelectorTerms"][0]["matchFields"][0]["values"][0]
            name = pod["metadata"]["name"]
            target = {"metadata": {"name": name}, "target": {"kind": "Node", "name": node}}
            (await self.api.post(f"{PODS}/{name}/binding", json=target)).raise_for_status()
            status = {"status": {"phase": "Running", "startTime": now}}
            return await self.api.patch(f"{PODS}/{name}/status", json=status, headers=MERGE)

        await each(run(pod) for pod in await self.items(PODS, labelSelector="gpuledger.io/job"))

    async def until(self, is_so: Callable[[], Coroutine[Any, Any, bool]], seconds: float = 600) -> None:
        end = time.monotonic() + seconds
        while not await is_so():
            if time.monotonic() > end:
                raise SystemExit("bench: waited in vain")
            await asyncio.sleep(0.5)

    async def are(self, states: tuple[str, ...]) -> bool:
        found = await self.items(JOBS, resourceVersion="0")
        return sum(one.get("status", {}).get("state") in states for one in found) == self.jobs


async def measure(bench: Bench, operator: Process, others: int, rest: float, log: Path) -> dict[str, Any]:
    found: dict[str, Any] = {}
    before, began = operator.cpu(), time.monotonic()
    await each(bench.add_job(number) for number in range(bench.jobs))
    found["jobs_created_s"] = time.monotonic() - began
    await bench.until(lambda: bench.are(("Starting", "Running")))
    found["jobs_admitted_s"] = time.monotonic() - began

    async def all_pods() -> bool:
        return len(await bench.items(PODS, labelSelector="gpuledger.io/job", resourceVersion="0")) == (
            bench.jobs * bench.replicas
        )

    await bench.until(all_pods)
    found["pods_created_s"], found["admission_cpu_s"] = time.monotonic() - began, operator.cpu() - before
    before, began = operator.cpu(), time.monotonic()
    await bench.run_pods()
    found["pods_run_s"] = time.monotonic() - began
    await bench.until(lambda: bench.are(("Running",)))
    found["all_running_s"], found["running_cpu_s"] = time.monotonic() - began, operator.cpu() - before
    await each(bench.add_other(number) for number in range(others))
    await asyncio.sleep(10)
    before, began, beat = operator.cpu(), time.monotonic(), 0
    while time.monotonic() - began < rest:
        await bench.beat(beat % bench.nodes)
        beat += 1
        await asyncio.sleep(max(0.0, beat * HEARTBEAT_SECONDS / bench.nodes - (time.monotonic() - began)))
    found["rest_s"] = time.monotonic() - began
    found["rest_share"] = (operator.cpu() - before) / found["rest_s"]
    found["resident_bytes"], found["peak_bytes"] = operator.memory()
    problems = [line for line in log.read_text().splitlines() if "kubernetes:" in line]
    found["problems"] = problems[:5]
    return found


def main(
    nodes: Annotated[int, typer.Option(min=1)] = 500,
    jobs: Annotated[int, typer.Option(min=1)] = 1000,
    replicas: Annotated[int, typer.Option(min=1)] = 5,
    devices: Annotated[int, typer.Option(min=1, help="Of each node.")] = 16,
    others: Annotated[int, typer.Option(min=0, help="Pods that are not the operator's.")] = 0,
    rest: Annotated[float, typer.Option(min=1, help="Seconds; a running job's GPU-hours are told every 300.")] = 330,
    interval: Annotated[float, typer.Option(help="As of the operator.")] = 1.0,
) -> None:
    """Exit 1: a goal is missed."""
    from tests.collectors.kubernetes.control_plane import DEPLOY, control_plane

    with tempfile.TemporaryDirectory(prefix="gpuledger-operating-") as name, control_plane(Path(name) / "k") as plane:
        folder = Path(name)
        for file in sorted((DEPLOY / "operator").glob("crd-*.yaml")):
            definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
            plane.post(definitions, yaml.safe_load(file.read_text(encoding="utf-8")))
        while plane.api.get(JOBS).status_code != httpx.codes.OK:
            time.sleep(0.2)

        async def run() -> dict[str, Any]:
            limits = httpx.Limits(max_connections=16)
            headers = dict(plane.api.headers)
            async with httpx.AsyncClient(
                base_url=plane.api.base_url, headers=headers, verify=False, limits=limits, timeout=60
            ) as api:
                bench = Bench(api, nodes, jobs, replicas, devices)
                await each(bench.add_node(number) for number in range(nodes))
                (folder / "site.yaml").write_text(json.dumps(bench.settings()))
                (folder / "token").write_text("0123456789abcdef")
                log = folder / "operator.log"
                command = [
                    sys.executable, "-m", "gpuledger", "scheduler", "--executor", "kubernetes", "--kubeconfig",
                    str(plane.operator), "--config", str(folder / "site.yaml"), "--data", str(folder / "data"),
                    "--port", "0", "--token-file", str(folder / "token"), "--interval", str(interval),
                ]  # fmt: skip
                with log.open("wb") as said, subprocess.Popen(command, stdout=said, stderr=said) as process:
                    try:

                        async def serves() -> bool:
                            if process.poll() is not None:
                                raise SystemExit(f"bench: {log.read_text()}")
                            return "Scheduler " in log.read_text()

                        await bench.until(serves)
                        return await measure(bench, Process(process.pid), others, rest, log)
                    finally:
                        process.kill()

        found = asyncio.run(run())
    print(json.dumps(found, indent=1))
    is_met = found["peak_bytes"] < GOAL_BYTES and found["rest_share"] < GOAL_SHARE
    sys.exit(0 if is_met and found["jobs_admitted_s"] < GOAL_ADMITTED else 1)


if __name__ == "__main__":
    typer.run(main)
