"""A scheduler and two agents, each a process of its own, and a program of ranks: killed, resumed, grown, shrunk."""

from __future__ import annotations

import json
import os
import pwd
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from scheduler.live.client import Client
from tests.patience import PATIENCE_SECONDS, until
from warehouse.errors import LedgerError

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = Path(__file__).with_name("two_ranks.py")
RUN = """
import sys, typer
from gpuledger.cli import run
from gpuledger.commands import agent, scheduler
app = typer.Typer(pretty_exceptions_enable=False)
@app.callback()
def both() -> None: ...
scheduler.register(app)
agent.register(app)
run(app, sys.argv[1:])
"""
CONFIG = """\
pools:
  - {name: p, model: A100, hosts: {n1: [GPU-1a, GPU-1b], n2: [GPU-2a, GPU-2b]}}
tenants: [{name: vision}, {name: speech, guaranteed: 2}]
queues: [{name: batch}]
policies: {elastic_hold: 0}
"""
TOKENS = {"n1": "token-of-the-first-node", "n2": "token-of-the-second-node"}
LEASE = 6.0


class Site:
    """Processes by name: `scheduler`, `n1`, `n2`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        (folder / "config.yaml").write_text(CONFIG)
        (folder / "token").write_text("a-token-of-the-tests\n")
        agents = [{"node": node, "token": token} for node, token in TOKENS.items()]
        (folder / "agents.yaml").write_text(json.dumps({"agents": agents}))
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self.client = Client(self.url, "a-token-of-the-tests")
        for node, token in TOKENS.items():
            (folder / f"{node}.token").write_text(token)
            (folder / f"{node}.token").chmod(0o600)
            jobs = {
                "url": self.url,
                "token_file": str(folder / f"{node}.token"),
                "folder": str(folder / f"jobs-{node}"),
                "every_seconds": 0.2,
                "grace_seconds": 1,
                "beside": ["slurm", "kubernetes"],
            }
            if os.geteuid() == 0:
                jobs["user"] = pwd.getpwuid(0).pw_name
            settings = {
                "node": node,
                "spool": {"folder": str(folder / f"spool-{node}")},
                "metrics": {"port": None},
                "sources": {"nvml": {"enabled": False}},
                "run_jobs": jobs,
            }
            (folder / f"{node}.yaml").write_text(json.dumps(settings))

    def start(self, name: str) -> None:
        arguments = ["agent", "--config", f"{name}.yaml"]
        if name == "scheduler":
            arguments = ["scheduler", "--config", "config.yaml", "--data", "data", "--port", str(self.port)]
            arguments += ["--executor", "agents", "--agent-tokens", "agents.yaml", "--token-file", "token"]
            arguments += ["--events", "events.jsonl", "--cluster", "c", "--interval", "0.1", "--lease", str(LEASE)]
        with (self.folder / f"{name}.log").open("a") as errors:
            self.processes[name] = subprocess.Popen(
                [sys.executable, "-c", RUN, *arguments],
                cwd=self.folder,
                stderr=errors,
                env={**os.environ, "PYTHONPATH": str(ROOT)},
            )

    def kill(self, name: str) -> None:
        process = self.processes.pop(name)
        process.kill()
        process.wait(PATIENCE_SECONDS)

    def submit(self, job_id: str, tenant: str, gpus: int, steps: int = 100_000, **more: Any) -> Path:
        folder = self.folder / job_id
        folder.mkdir()
        payload = {"command": [sys.executable, "-I", "-S", str(PROGRAM), str(folder), str(steps)], "retries": 1}
        document = {"job_id": job_id, "tenant": tenant, "queue": "batch", "request": {"devices": gpus}}
        self.client.submit(document | {"payload": payload} | more)
        return folder

    def until(self, found: Callable[[], Any], what: str = "") -> Any:
        def so() -> Any:
            try:
                return found()
            except (LedgerError, FileNotFoundError, KeyError):
                return None

        return until(so, lambda: f"{what}\n{self.logs()}", every=0.05, within=60)

    def logs(self) -> str:
        return "\n".join(f"{path.name}: {path.read_text()[-2000:]}" for path in sorted(self.folder.glob("*.log")))

    def status(self, job_id: str) -> str:
        return str(self.client.explain(job_id)["status"])

    def close(self) -> None:
        for name in list(self.processes):
            self.kill(name)
        for path in self.folder.glob("jobs-*/*/process"):
            try:
                os.kill(int(path.read_text().split()[0]), signal.SIGTERM)
            except (ProcessLookupError, ValueError):
                continue


def traced(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "trace").read_text().splitlines()]


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    found = Site(tmp_path)
    yield found
    found.close()


def test_first(site: Site) -> None:
    for name in ("scheduler", "n1", "n2"):
        site.start(name)
    site.until(lambda: site.client.jobs() == [])
    folder = site.submit("a", "vision", 1, min_replicas=2, max_replicas=4)
    site.until(lambda: (folder / "size").read_text() == "4", "grows")
    (folder / "finish").touch()
    site.until(lambda: site.status("a") == "finished")
    print(json.dumps(site.client.explain("a"), indent=1))
    print((folder / "trace").read_text())
    print(site.logs())
