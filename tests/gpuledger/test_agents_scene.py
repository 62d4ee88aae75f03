"""A scheduler and two agents, each a process of its own, and a program of ranks: killed, resumed, grown, shrunk."""

from __future__ import annotations

import itertools
import json
import os
import pwd
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from billing.close import close
from billing.verify import verify
from collectors.tables import schema
from ingest.pipeline import ingest_tables
from scheduler.live.client import Client
from tests.draws import seldom
from tests.patience import PATIENCE_SECONDS, slowness, until
from tests.ports import free_port
from warehouse.errors import LedgerError
from warehouse.records import RECORD_TYPES
from warehouse.store import Store

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
LEASE = 14.0


class Site:
    """Processes by name: `scheduler`, `n1`, `n2`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        (folder / "config.yaml").write_text(CONFIG)
        (folder / "token").write_text("a-token-of-the-tests\n")
        agents = [{"node": node, "token": token} for node, token in TOKENS.items()]
        (folder / "agents.yaml").write_text(json.dumps({"agents": agents}))
        self.port = free_port()
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
                "grace_seconds": 3,  # a rank that is killed after it cannot say that it has ended
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


Lives = dict[tuple[int, str], tuple[float, float]]


def lives(folder: Path, killed: dict[int, float]) -> Lives:
    """By attempt and device, from the first rank's beginning there to the last one's end, as the ranks themselves say.
    A device that was given away and taken again appears twice.

    killed: when, by pid, of those that could not say so.
    """
    found: Lives = {}
    for line in traced(folder):
        name = (int(line["GPULEDGER_ATTEMPT"]), line["CUDA_VISIBLE_DEVICES"])
        first, last = found.get(name, (line["at"], line["at"]))
        found[name] = (min(first, line["at"]), max(last, killed.get(line["pid"], line["at"])))
    return found


def ran_once(folder: Path, killed: dict[int, float]) -> None:
    """No attempt ran beside another; no rank and no device of one had two processes at a time."""
    spans: dict[int, dict[str, Any]] = {}
    for line in traced(folder):
        span = spans.setdefault(line["pid"], {**line, "until": killed.get(line["pid"], float("inf"))})
        if line["what"] == "ended":
            span["until"] = line["at"]
    for one, other in itertools.combinations(spans.values(), 2):
        if one["at"] < other["until"] and other["at"] < one["until"]:
            assert one["GPULEDGER_ATTEMPT"] == other["GPULEDGER_ATTEMPT"]
            assert one["CUDA_VISIBLE_DEVICES"] != other["CUDA_VISIBLE_DEVICES"]
            assert (one["size"], one["rank"]) != (other["size"], other["rank"])


def billed(store: Store, events: Path) -> dict[str, float]:
    """GPU-seconds by job, from the ledger."""
    rows = [json.loads(line) for line in events.read_text().splitlines()]
    until = datetime.now(UTC).replace(minute=0, second=0, microsecond=0) + timedelta(hours=1)
    for record in ("devices", "events"):
        kind = RECORD_TYPES[record]
        reported = [
            {**{name: row[name] for name in row if name != "record"}, "ts": datetime.fromisoformat(row["ts"])}
            for row in rows
            if row["record"] == record
        ]
        report = ingest_tables(store, kind, "scene", [pa.Table.from_pylist(reported, schema(kind))])
        assert not report.quarantined
    close(store, until, until + timedelta(days=1))
    assert verify(store).balanced
    assert store.value("SELECT count() FROM refused_claims") == 0
    found = store.rows(
        "SELECT workload_id, sum(toFloat64(used_unit_ms + idle_unit_ms + unmetered_unit_ms)) / 1000 AS seconds"
        " FROM ledger_entries WHERE tenant != '' GROUP BY workload_id"
    )
    return {row["workload_id"]: row["seconds"] for row in found}


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    found = Site(tmp_path)
    yield found
    found.close()


def ranks(site: Site, job_id: str) -> dict[int, str]:
    return {rank["rank"]: rank["node"] for rank in site.client.explain(job_id)["ranks"]}


@seldom(6, "a program on two nodes")
def test_a_program_on_two_nodes_is_killed_resumed_grown_and_shrunk_and_its_bill_is_its_life(
    site: Site, store: Store
) -> None:
    killed: dict[int, float] = {}
    for name in ("scheduler", "n1", "n2"):
        site.start(name)
    site.until(lambda: site.client.jobs() == [])
    a = site.submit("a", "vision", 1, min_replicas=2, max_replicas=4)
    site.until(lambda: (a / "size").read_text() == "4", "it grows to both nodes")
    assert set(ranks(site, "a").values()) == {"n1", "n2"}

    b = site.submit("b", "speech", 1, min_replicas=2, max_replicas=2)
    site.until(lambda: (a / "size").read_text() == "2" and (b / "step").exists(), "it shrinks for its lender")
    assert site.status("a") == "running"
    assert set(ranks(site, "b").values()) == {"n2"}

    # Both who look after b are killed; b ends meanwhile. Nothing of a is disturbed.
    before = int((a / "step").read_text())
    site.kill("n2")
    site.kill("scheduler")
    (b / "finish").touch()
    site.until(lambda: len([line for line in traced(b) if line["what"] == "ended"]) == 2)
    time.sleep(1)
    site.start("scheduler")
    site.start("n2")
    site.until(lambda: site.status("b") == "finished", "its end during the outage is told")
    site.until(lambda: (a / "size").read_text() == "4", "it grows again")
    assert int((a / "step").read_text()) > before
    assert {line["GPULEDGER_ATTEMPT"] for line in traced(a)} == {"1"}

    # The agent of n1 is killed and comes back: its ranks are found and go on.
    began = len([line for line in traced(a) if line["what"] == "began"])
    site.kill("n1")
    site.start("n1")
    time.sleep(1)
    assert len([line for line in traced(a) if line["what"] == "began"]) == began

    # A rank is killed: the next attempt goes on from where it was.
    before = int((a / "step").read_text())
    victim = [line for line in traced(a) if line["what"] == "began" and line["size"] == 4 and line["rank"] == 3][-1]
    killed[victim["pid"]] = time.time()
    os.kill(victim["pid"], signal.SIGKILL)
    site.until(lambda: "2" in {line["GPULEDGER_ATTEMPT"] for line in traced(a)}, "the next attempt")
    site.until(lambda: int((a / "step").read_text()) > before + 5 and (a / "size").read_text() == "4")
    entry = next(
        line for line in site.client.explain("a")["history"] if line.get("cause", {}).get("reason") == "Retried"
    )
    assert entry["cause"]["text"] == "rank 3 on n2: exit status -9"

    # n2 is not heard of any more: its ranks stop by themselves, then it runs where somebody answers.
    site.kill("n2")
    site.until(lambda: "3" in {line["GPULEDGER_ATTEMPT"] for line in traced(a)}, "the attempt after")
    site.until(lambda: (a / "size").read_text() == "2")
    assert set(ranks(site, "a").values()) == {"n1"}
    site.start("n2")
    site.until(lambda: (a / "size").read_text() == "4", "its node is there again")
    (a / "finish").touch()
    site.until(lambda: site.status("a") == "finished")
    site.until(lambda: '"finished"' in (site.folder / "events.jsonl").read_text().splitlines()[-1])
    ran_once(a, killed)
    ran_once(b, killed)
    bill = billed(store, site.folder / "events.jsonl")
    for job_id, folder in (("a", a), ("b", b)):
        held = lives(folder, killed)
        if job_id == "a":
            held = held_by_a(held, site)
        life = sum(last - first for first, last in held.values())
        assert bill[job_id] == pytest.approx(life, abs=len(held) * max(1.0, slowness()))


def held_by_a(held: Lives, site: Site) -> Lives:
    """Two corrections to what its ranks say: it had n2's devices not while b had them, and the attempt that lost n2
    holds its devices until n2 counts as lost, which is after all its ranks ended, and within a lease."""
    rows = [json.loads(line) for line in (site.folder / "events.jsonl").read_text().splitlines()]
    lost = next(datetime.fromisoformat(row["ts"]).timestamp() for row in rows if row.get("reason") == "NodeLost")
    ends = [last for (attempt, _), (_, last) in held.items() if attempt == 2]
    assert max(ends) <= lost <= max(ends) + LEASE
    found = {name: (first, lost if name[0] == 2 else last) for name, (first, last) in held.items()}
    for device in ("GPU-2a", "GPU-2b"):
        mine = [line for line in traced(site.folder / "a") if line["CUDA_VISIBLE_DEVICES"] == device]
        mine = [line for line in mine if line["GPULEDGER_ATTEMPT"] == "1"]
        (left,) = [
            (one["at"], two["at"])
            for one, two in itertools.pairwise(mine)
            if (one["what"], two["what"]) == ("ended", "began") and two["at"] - one["at"] > 1
        ]
        first, last = found.pop((1, device))
        found |= {(1, f"{device} before b"): (first, left[0]), (1, f"{device} after b"): (left[1], last)}
    return found
