"""`python -m bench.deciding --data FOLDER`: what one decision of the scheduler costs, in CPU seconds.

    arrivals     the published experiment's default workload, each arrival a cycle with its reasons and its events
    preemption   a 64-GPU gang of a tenant within its guarantee, among 8,000 running jobs on 1,000 nodes
    queue        one cycle over 10,000 waiting jobs of eight shapes and so many tenants, on a cluster that is full
    nodes        arrivals among 50 jobs that are told when they may expect to start, on so many nodes that are in use

Each in a process of its own, so that memory is its own too.
"""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median, quantiles
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from bench.apart import BenchError, needed, peak_bytes, run_apart
from collectors.readings import Row
from gpuledger.serve import collect_seldom
from scheduler.cycle.policies import Policies
from scheduler.metrics import Meter
from scheduler.model import Device, Grant, Job, Node, Preempt, Queue, Request, Start, Tenant
from scheduler.records.book import Book
from scheduler.records.events import Writer
from scheduler.setup import Setup
from scheduler.simulate.published import read_workload

MOST_BYTES = 4 << 30
GOALS = {
    "arrivals": "over 5,000/s, p99 under 5 ms, under 150 MB",
    "preemption": "under 250 ms",
    "queue, 10 tenants": "under 100 ms",
    "queue, 200 tenants": "under 100 ms",
    "1,000 nodes": "",
    "10,000 nodes": "at most ten times 1,000's",
}
TURNS = 5
ARRIVALS = 300


def arrivals(data: str, seed: int = 42) -> dict[str, Any]:
    """Submitted, decided, explained, started, and told as rows of the ledger; nothing ever ends."""
    workload = read_workload(Path(data), "default")
    setup = Setup("openb", workload.nodes[seed], queues=[Queue("all")], placement="fgd")
    names = workload.arrivals[seed]
    core = setup.core((workload.requests[name] for name in names), 0.0, explain=True)
    reported = 0

    def emit(kind: str, rows: Sequence[Row]) -> None:
        nonlocal reported
        reported += len(rows)

    book = Book(core, Meter(setup.nodes, setup.tenants, setup.queues, 0.0), Writer("bench", setup.nodes), emit)
    collect_seldom()  # as the service does
    seconds: list[float] = []
    started = explained = 0
    for number, name in enumerate(names, 1):
        now = number / 100
        job = Job(str(number), "all", "all", workload.requests[name], now)
        begun = time.process_time()
        book.submit(job, now, number)
        plan = core.plan(now)
        book.decide(plan, now, number)
        starts = [action.job_id for action in plan.actions if isinstance(action, Start)]
        for job_id in starts:
            book.launched(job_id, now, number)
        started += len(starts)
        if job.job_id not in starts:
            explained += bool(plan.waiting[job.job_id])
        seconds.append(time.process_time() - begun)
    if started + len(core.pending) != len(names) or not reported:
        raise BenchError(f"arrivals: {len(names)} arrived, {started} started, {len(core.pending)} wait")
    return {
        "seconds": seconds,
        "note": f"{started} started, {explained} told why not, {reported} rows",
        "bytes": peak_bytes(),
    }


def preemption(seed: int) -> dict[str, Any]:
    """Everything is held by single-GPU jobs of those who borrow; the gang needs eight nodes whole."""
    draw = random.Random(seed)
    tenants = [Tenant("owner", guaranteed=1000), *(Tenant(f"t{n}", guaranteed=100) for n in range(10))]
    queues = [Queue("all", "fair_share")]
    setup = Setup("preemption", _nodes(1000), tenants, queues, Policies(usage_weight=0.0))
    core = setup.core([], 0.0, explain=True)
    for number in range(8000):
        job = Job(
            f"j{number}", f"t{draw.randrange(10)}", "all", Request(), 0.0,
            priority=draw.randrange(3), checkpoint_seconds=draw.choice([None, 600.0, 3600.0]),
        )  # fmt: skip
        core.submit(job, 0.0)
    seconds: list[float] = []
    now = 0.0
    while core.pending:
        now += 60.0
        plan = core.plan(now)
        if not plan.actions:
            break
        for action in plan.actions:
            core.apply(action, now)
    core.submit(Job("gang", "owner", "all", Request(devices=8), now, min_replicas=8, max_replicas=8), now)
    collect_seldom()
    for _ in range(TURNS):
        core.version += 1  # as if something had changed: what the last search found is not used again
        core.freed += 1
        now += 60.0
        begun = time.process_time()
        plan = core.plan(now)
        seconds.append(time.process_time() - begun)
    victims = sum(isinstance(action, Preempt) for action in plan.actions)
    if victims != 64 or not any(isinstance(action, Start) for action in plan.actions):
        raise BenchError(f"preemption: {victims} victims for 64 GPUs")
    return {"seconds": seconds, "note": f"{len(core.running)} running, {victims} victims", "bytes": peak_bytes()}


def queue(seed: int, tenants: int) -> dict[str, Any]:
    """Eight shapes, the cluster full of jobs that nobody may end."""
    draw = random.Random(seed)
    tree = [Tenant("owner", guaranteed=800), *(Tenant(f"t{n}") for n in range(tenants))]
    setup = Setup("queue", _nodes(100), tree, [Queue("all", "fair_share")])
    core = setup.core([], 0.0, explain=True)
    for number in range(100):
        core.submit(Job(f"r{number}", "owner", "all", Request(devices=8), 0.0, preemptible=False, time_limit=1e6), 0.0)
    for action in core.plan(0.0).actions:
        core.apply(action, 0.0)
    shapes = [(1, 1), (2, 1), (4, 1), (8, 1), (8, 2), (8, 4), (8, 8), (1, 4)]
    for number in range(10_000):
        gpus, replicas = draw.choice(shapes)
        request = Request(devices=gpus)
        core.submit(
            Job(f"w{number}", f"t{draw.randrange(tenants)}", "all", request, 1.0 + number / 1e4, replicas, replicas),
            2.0,
        )
    collect_seldom()
    seconds, plan = [], None
    for turn in range(TURNS):
        core.version += 1
        core.freed += 1
        begun = time.process_time()
        plan = core.plan(10.0 + turn)
        seconds.append(time.process_time() - begun)
    assert plan is not None
    if plan.actions or len(plan.waiting) != 10_000:
        raise BenchError(f"queue: {len(plan.waiting)} of 10,000 jobs were told why they wait")
    return {"seconds": seconds, "note": f"{len(plan.waiting):,} told why they wait", "bytes": peak_bytes()}


def nodes(seed: int, count: int) -> dict[str, Any]:
    """Six of each node's eight GPUs are held by a job with a limit, and 50 jobs wait for nodes that are free whole."""
    draw = random.Random(seed)
    core = Setup("nodes", _nodes(count), queues=[Queue("all")]).core([], 0.0, explain=True)
    held, units = tuple(range(6)), (1,) * 6
    for node in range(count):
        job = Job(f"r{node}", "all", "all", Request(6), 0.0, time_limit=1e6)
        core.start(job, (Grant(node, held, units),), "guaranteed", 0.0)
    for number in range(50):
        replicas = 1 + number % 3
        core.submit(Job(f"w{number}", "all", "all", Request(8), 0.0, replicas, replicas), 0.0)
    core.plan(0.0)
    collect_seldom()
    seconds, started = [], 0
    for number in range(ARRIVALS):
        now = 1.0 + number
        begun = time.process_time()
        core.submit(Job(f"j{number}", "all", "all", Request(draw.choice([1, 1, 2])), now, time_limit=500.0), now)
        plan = core.plan(now)
        for action in plan.actions:
            core.apply(action, now)
        seconds.append(time.process_time() - begun)
        started += len(plan.actions)
    if started != ARRIVALS or len(core.pending) != 50:
        raise BenchError(f"nodes: {started} of {ARRIVALS} started, {len(core.pending)} of 50 wait")
    return {"seconds": seconds, "note": f"{started} started, 50 told when to expect it", "bytes": peak_bytes()}


def _nodes(count: int) -> list[Node]:
    return [
        Node(f"n{number}", tuple(Device(f"n{number}g{index}", "H100") for index in range(8))) for number in range(count)
    ]


def main(
    data: Annotated[Path, typer.Option("--data", help="Folder of the published fragmentation experiment.")],
    seed: Annotated[int, typer.Option(help="Of what is drawn.")] = 42,
) -> None:
    """Decisions a second, seconds a decision, memory."""
    from bench import deciding  # by its name, which the other process needs

    table = Table("what", "decisions/s", "median ms", "p99 ms", "slowest ms", "first ms", "peak MiB", "goal",
                  "what there was", box=None)  # fmt: skip
    runs: list[tuple[str, Callable[..., dict[str, Any]], dict[str, Any]]] = [
        ("arrivals", deciding.arrivals, {"data": str(data), "seed": seed}),
        ("preemption", deciding.preemption, {"seed": seed}),
        ("queue, 10 tenants", deciding.queue, {"seed": seed, "tenants": 10}),
        ("queue, 200 tenants", deciding.queue, {"seed": seed, "tenants": 200}),
        ("1,000 nodes", deciding.nodes, {"seed": seed, "count": 1000}),
        ("10,000 nodes", deciding.nodes, {"seed": seed, "count": 10_000}),
    ]
    for name, function, arguments in runs:
        run = needed(run_apart(function, MOST_BYTES, **arguments), name)
        taken = run["seconds"]
        shown = [median(taken), quantiles(taken, n=100)[98] if len(taken) >= 100 else max(taken), max(taken)]
        shown.append(taken[0])
        rate = f"{len(taken) / sum(taken):,.0f}"
        table.add_row(
            name, rate, *(f"{1000 * value:.2f}" for value in shown), f"{run['bytes'] / 2**20:.0f}", GOALS[name],
            run["note"],
        )  # fmt: skip
    Console(width=160).print(table)


if __name__ == "__main__":
    try:
        typer.run(main)
    except BenchError as error:
        sys.exit(str(error))
