"""`python -m bench.scheduling TRACE`: jobs a second of the simulator, and of AccaSim on the same jobs beside it.

AccaSim (https://pypi.org/project/accasim/) is no dependency of ours: install it somewhere else and name that Python.
It knows jobs that ask for cores of equal nodes, first come first served or with EASY backfill; GPUs are its cores, and
it may spread a job over nodes, where ours keeps up to a node's GPUs together. What ours does besides (quotas, fair
share, preemption) is measured in a row of its own, which nothing stands beside. CPU seconds count, reading does not.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from bench.apart import BenchError, peak_bytes, reset_peak, run_apart
from scheduler.cycle.policies import Policies
from scheduler.model import Job, Queue, Tenant
from scheduler.setup import Setup
from scheduler.simulate.run import fitted, simulate
from scheduler.simulate.traces import read

MOST_BYTES = 8 << 30
MODES = ("fifo", "easy", "all")

ACCASIM = """
import collections, collections.abc, json, sys, time
collections.Mapping = collections.abc.Mapping  # gone since Python 3.10
from accasim.base.allocator_class import FirstFit
from accasim.base.scheduler_class import EASYBackfilling, FirstInFirstOut
from accasim.base.simulator_class import Simulator
jobs, system, out, mode = sys.argv[1:]
kind = {"fifo": FirstInFirstOut, "easy": EASYBackfilling}[mode]
simulator = Simulator(jobs, system, kind(FirstFit()), RESULTS_FOLDER_PATH=out, pprint_output=False,
                      scheduling_output=True, statistics_output=False, benchmark_output=False)
start = time.process_time()
simulator.start_simulation()
print("RESULT " + json.dumps({"cpu_seconds": time.process_time() - start}))
"""


def ours(trace: str, first: int, nodes: int, mode: str) -> dict[str, Any]:
    """One run in this process. memory: peak while it ran, without the jobs themselves."""
    found = read(Path(trace), f"{nodes}x8")
    jobs = found.jobs[:first]
    names = sorted({job.tenant for job in jobs})
    if mode == "all":
        share = nodes * 8 // len(names)
        queues = [Queue(name, "fair_share") for name in names]
        setup = Setup(mode, found.nodes, [Tenant(name, guaranteed=share) for name in names], queues)
    else:
        backfill = 1 if mode == "easy" else 0
        policies = Policies(backfill, preempt_by_priority="never", reclaim=False, preempt_for_fairness=False)
        setup = Setup(mode, found.nodes, queues=[Queue("all")], policies=policies)
        jobs = fitted(jobs, setup)
    reset_peak()
    before, start = peak_bytes(), time.process_time()
    run = simulate(jobs, setup, curves=False)
    return {
        "jobs": len(jobs),
        "cpu_seconds": time.process_time() - start,
        "more_mib": (peak_bytes() - before) / 2**20,
        "wait_mean": run.measures["wait_mean_seconds"],
        "preempted": run.measures["preempted_jobs"],
    }


def accasim(python: Path, jobs: Sequence[Job], nodes: int, mode: str) -> dict[str, Any]:
    """The same jobs through AccaSim, in its own Python."""
    with tempfile.TemporaryDirectory(prefix="gpuledger-bench-") as name:
        folder = Path(name)
        _write_swf(jobs, folder / "jobs.swf")
        system = {"groups": {"g0": {"core": 8}}, "resources": {"g0": nodes}, "equivalence": {"processor": {"core": 1}}}
        (folder / "system.json").write_text(json.dumps(system))
        (folder / "run.py").write_text(ACCASIM)
        command = [str(python), "run.py", "jobs.swf", "system.json", str(folder / "out"), mode]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
        lines = [line for line in done.stdout.splitlines() if line.startswith("RESULT ")]
        if not lines:
            raise BenchError(f"AccaSim failed: {(done.stderr or done.stdout).strip()[-300:]}")
        found: dict[str, Any] = json.loads(lines[0].removeprefix("RESULT "))
        return found | {"jobs": len(jobs), "wait_mean": None, "more_mib": None, "preempted": None}


def _write_swf(jobs: Sequence[Job], path: Path) -> None:
    """Standard workload format: https://www.cs.huji.ac.il/labs/parallel/workload/swf.html."""
    zero = jobs[0].submitted_at
    with path.open("w") as file:
        for number, job in enumerate(jobs, 1):
            gpus = job.request.devices * job.min_replicas
            run, limit = max(1, round(job.run_time or 1)), max(1, round(job.time_limit or 1))
            fields = [number, round(job.submitted_at - zero), -1, run, gpus, -1, -1, gpus, limit, -1, 1, 1, 1, 1, 1, 1]
            file.write(" ".join(map(str, [*fields, -1, -1])) + "\n")


def main(
    trace: Annotated[Path, typer.Argument(help="Philly's job list.")],
    first: Annotated[int, typer.Option("--first", help="Jobs.")] = 20_000,
    nodes: Annotated[int, typer.Option("--nodes", help="Of 8 GPUs.")] = 776,
    python: Annotated[Path | None, typer.Option("--accasim", help="Python that has AccaSim.")] = None,
    modes: Annotated[str, typer.Option("--modes", help="fifo, easy, all.")] = ",".join(MODES),
) -> None:
    """Jobs per CPU second, ours and AccaSim's."""
    from bench import scheduling  # by its name, which the other process needs

    table = Table("what", "jobs", "CPU s", "jobs/CPU s", "mean wait s", "preempted", "more memory MiB", box=None)
    for mode in modes.split(","):
        runs = {
            f"ours, {mode}": run_apart(
                scheduling.ours, MOST_BYTES, trace=str(trace), first=first, nodes=nodes, mode=mode
            )
        }
        if python is not None and mode != "all":
            runs[f"AccaSim, {mode}"] = accasim(python, read(trace, f"{nodes}x8").jobs[:first], nodes, mode)
        for name, run in runs.items():
            if run is None:
                raise BenchError(f"{name}: needs more than {MOST_BYTES >> 30} GiB")
            shown = [run["wait_mean"], run["preempted"], run["more_mib"]]
            table.add_row(
                name,
                f"{run['jobs']:,}",
                f"{run['cpu_seconds']:.1f}",
                f"{run['jobs'] / run['cpu_seconds']:,.0f}",
                *("-" if value is None else f"{value:,.0f}" for value in shown),
            )
    Console(width=120).print(table)


if __name__ == "__main__":
    try:
        typer.run(main)
    except BenchError as error:
        sys.exit(str(error))
