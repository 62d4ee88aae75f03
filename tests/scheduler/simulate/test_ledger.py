"""What the scheduler writes is what billing reads: books built from a simulated trace balance, and agree with its own
report to the millisecond. Shares, gangs, preemptions and jobs that change their size are in it."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pytest
import typer
from typer.testing import CliRunner

from billing.close import close
from billing.verify import verify
from collectors.readings import Row
from collectors.tables import schema
from gpuledger.commands import simulate as command
from ingest.pipeline import ingest_tables
from scheduler.model import Device, Job, Node, Queue, Request, Tenant
from scheduler.setup import Setup
from scheduler.simulate.report import Report
from scheduler.simulate.run import simulate
from scheduler.simulate.traces import read
from tests.conftest import SHARED
from tests.draws import seldom
from warehouse.records import RECORD_TYPES
from warehouse.store import Store

AT = datetime(2026, 10, 1, tzinfo=UTC).timestamp()
NODES = [
    Node(f"n{n}", tuple(Device(f"n{n}/{gpu}", "T4", units=1000, memory_bytes=16 << 30) for gpu in range(2)))
    for n in range(3)
]
TENANTS = [Tenant("vision", guaranteed=3000), Tenant("speech", guaranteed=3000)]
QUEUES = [Queue("batch", "priority", wait_bound=600.0), Queue("urgent", "priority", priority=10)]


def job(
    number: int, tenant: str, queue: str, request: Request, at: float, run: float, low: int = 1, high: int = 0
) -> Job:
    return Job(
        f"j{number}",
        tenant,
        queue,
        request,
        AT + at,
        min_replicas=low,
        max_replicas=high or low,
        priority=number % 3,
        run_time=run,
        time_limit=run * 1.5,
        checkpoint_seconds=600.0,
    )


def mixed() -> list[Job]:
    """Eighty jobs that do not fit together: shares of a device, whole devices, gangs, and gangs that may grow."""
    found = []
    for n in range(80):
        tenant, queue = ("vision", "speech")[n % 2], ("batch", "urgent")[n % 5 == 0]
        request = (Request(1, units=100 + 37 * (n % 11)), Request(1), Request(2))[n % 3]
        low, high = ((1, 1), (2, 2), (1, 3))[n % 7 % 3]
        found.append(job(n, tenant, queue, request, 211.5 * n, 60.25 + 97.125 * (n % 13), low, high))
    return found


class Books:
    """A store that rows are told to."""

    def __init__(self, store: Store) -> None:
        self.store, self.rows = store, {"devices": list[Row](), "events": list[Row]()}

    def emit(self, record: str, rows: Sequence[Row]) -> None:
        self.rows[record] += rows

    def close(self) -> None:
        for record, rows in self.rows.items():
            kind = RECORD_TYPES[record]
            report = ingest_tables(self.store, kind, "simulated", [pa.Table.from_pylist(rows, schema(kind))])
            assert not report.quarantined
        close(self.store, now=datetime(2027, 1, 1, tzinfo=UTC))

    def balanced_hours(self, report: Report) -> dict[str, tuple[float, float]]:
        """tenant -> GPU-hours in the books, in the scheduler's own report; after the books were proved."""
        self.close()
        proof = verify(self.store)
        assert proof.balanced
        assert proof.device_hours > 0
        assert self.store.value("SELECT count() FROM refused_claims") == 0
        rows = self.store.rows(
            "SELECT tenant, sum(toFloat64(used_unit_ms + idle_unit_ms + unmetered_unit_ms) / device_units) / 3.6e6 AS h"
            " FROM ledger_entries WHERE tenant != '' GROUP BY tenant"
        )
        mine = {line.tenant: line.gpu_hours for line in report.tenants if line.gpu_hours}
        books = {row["tenant"]: row["h"] for row in rows}
        assert books.keys() == mine.keys()
        return {tenant: (books[tenant], mine[tenant]) for tenant in books}


@seldom(5, "a simulated cluster's books")
def test_books_of_a_simulated_cluster_balance_and_agree_with_its_report(store: Store) -> None:
    books = Books(store)
    report = simulate(mixed(), Setup("x", NODES, TENANTS, QUEUES), emit=books.emit)
    assert report.measures["preempted_jobs"]
    assert {"resized", "preempted", "finished"} <= {row["event"] for row in books.rows["events"]}
    for theirs, ours in books.balanced_hours(report).values():
        assert theirs == pytest.approx(ours, rel=1e-9)


@seldom(5, "Philly through the scheduler")
def test_philly_through_the_scheduler_into_the_ledger_balances(store: Store) -> None:
    jobs = SHARED / "traces" / "philly_2017_passed_jobs_82k.csv.gz"
    machines = SHARED / "traces" / "philly_2017_machines.csv.gz"
    if not jobs.exists():
        pytest.skip("the Philly trace is not beside this checkout")
    trace = read(jobs, str(machines))
    tenants = sorted({job.tenant for job in trace.jobs})
    nodes = trace.nodes[500:530]
    setup = Setup("x", nodes, [Tenant(name, guaranteed=10) for name in tenants], [Queue("all", "fair_share")])
    books = Books(store)
    fitting = [job for job in trace.jobs[60_000:60_400] if job.request.devices <= 8 and job.min_replicas == 1]
    report = simulate(fitting, setup, emit=books.emit, cluster_name="philly")
    assert report.measures["finished"] == len(fitting)
    for theirs, ours in books.balanced_hours(report).values():
        assert theirs == pytest.approx(ours, rel=1e-9)


# The command

JOBS = """\
job_id,submitted_at,run_seconds,gpus,tenant,model
a,2026-10-01T00:00:00Z,3600,8,vision,
b,2026-10-01T00:10:00Z,1800,4,speech,
c,2026-10-01T00:20:00Z,600,2,speech,
"""
ONE = "pools: [{name: p, nodes: 1, model: A100}]\nqueues: [{name: q, policy: fifo}]\npolicies: {backfill: none}\n"
TWO = "pools: [{name: p, nodes: 2, model: A100}]\n"
RATES = """\
currency: USD
timezone: UTC
rates:
  - {sku: a100, match: {model: A100}, price_per_gpu_hour: "2.50", effective_from: 2026-10-01}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, text in (("jobs.csv", JOBS), ("one.yaml", ONE), ("two.yaml", TWO), ("rates.yaml", RATES)):
        (tmp_path / name).write_text(text)
    return tmp_path


def run(*arguments: object) -> str:
    app = typer.Typer()
    app.callback()(lambda: None)
    command.register(app)
    result = CliRunner().invoke(app, ["simulate", *map(str, arguments)], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout


def test_configurations_stand_side_by_side(folder: Path) -> None:
    configs = ["--config", folder / "one.yaml", "--config", folder / "two.yaml"]
    priced = ["--rates", folder / "rates.yaml", "--price-at", "2026-10-02"]
    text = run(folder / "jobs.csv", *configs, *priced, "--format", "csv", "--plot", folder / "p.html")
    found = {row["measure"]: (row["one"], row["two"]) for row in csv.DictReader(io.StringIO(text))}
    assert found["wait_max_seconds"] == ("3000.0", "0.0")
    assert [float(x) for x in found["cost of vision"]] == [20.0, 20.0]
    assert (folder / "p.html").stat().st_size > 100_000
    document = json.loads(run(folder / "jobs.csv", *configs, "--format", "json"))
    assert [one["config"] for one in document["runs"]] == ["one", "two"]
    assert document["runs"][0]["measures"]["cost"] is None
    assert "wait_p95_seconds" in run(folder / "jobs.csv", *configs)


def test_the_fewest_nodes_that_keep_the_bound(folder: Path) -> None:
    text = run("capacity", folder / "jobs.csv", "--wait-bound", 60, "--model", "A100", "--format", "json")
    assert [row["nodes"] for row in json.loads(text) if row["answer"]] == [2]
    assert {row["nodes"]: row["keeps_bound"] for row in json.loads(text)}[1] is False


@pytest.mark.usefixtures("engine_stays")
def test_the_same_run_goes_into_a_store(folder: Path) -> None:
    for _ in range(2):
        run(folder / "jobs.csv", "--config", folder / "one.yaml", "--into-store", "--store", f"chdb://{folder}/store")
    from warehouse.store import open_store

    with open_store(f"chdb://{folder}/store") as opened:
        counts = [opened.value(f"SELECT count() FROM {table} FINAL") for table in ("devices", "events")]
    assert counts == [16, 3 + 14 + 3]
    run(folder / "jobs.csv", "--machines", "1x8:A100", "--out", folder / "out")
    assert (folder / "out" / "events.parquet").exists()
