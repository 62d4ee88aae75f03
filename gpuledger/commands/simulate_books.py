"""`gpuledger simulate capacity` without a trace: what more, fewer or shared GPUs would have changed in the books."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from gpuledger import options
from gpuledger.books import opened_store
from gpuledger.output import print_json, print_rows, say
from gpuledger.progress import bar
from warehouse.errors import LedgerError
from warehouse.printable import grouped

if TYPE_CHECKING:
    from api.capacity import WhatIf
    from gpuledger.documents import CapacitySimulation
    from scheduler.simulate.books.workload import Change, Group, Outcome, Workload

MEASURES = (
    ("gpus", "GPUs"),
    ("jobs", "jobs"),
    ("never_started", "never started"),
    ("waited", "waited 60 s or more"),
    ("p50", "wait p50 (s)"),
    ("p95", "wait p95 (s)"),
    ("mean", "wait mean (s)"),
    ("longest", "wait max (s)"),
    ("waited_gpu_hours", "GPU-hours waited"),
    ("utilization", "allocated part"),
    ("shared", "jobs that share a GPU"),
    ("month_cost", "list price a month"),
)


def from_books(
    store: str,
    period: str,
    group: Group,
    change: Change,
    bound: tuple[float, float] | None,
    output: options.Format,
) -> None:
    """group: its names may be empty.   bound: a quantile of the waits, and its maximum in seconds."""
    from api.capacity import what_if, workloads_of
    from billing.ledger_report import billing_timezone
    from billing.periods import parse_period

    with opened_store(store) as opened:
        asked = parse_period(period, billing_timezone(opened)) if period else None
        is_one = any(group) or change.gpus or change.shares > 1 or bound
        found = what_if(opened, asked, group, change) if is_one else None
        all_groups = [] if found else workloads_of(opened, asked)
    if found is None:
        _each(all_groups, output)
    elif bound is not None:
        _fewest(found, *bound, output)
    else:
        _side_by_side(found, output)


def _side_by_side(asked: WhatIf, output: options.Format) -> None:
    from api.capacity import simulation_document
    from scheduler.simulate.books.what_if import as_it_was
    from scheduler.simulate.books.workload import Change

    outcomes = [as_it_was(asked.workload)]
    changes = {"simulated": Change()} | ({named(asked.change): asked.change} if asked.change != Change() else {})
    for name, change in changes.items():
        outcomes.append(_run(asked.workload, change, name))
    document = simulation_document(asked, [*outcomes, outcomes[-1]][:3])
    _say_notes(document)
    if output is options.Format.json:
        print_json(document.model_dump(mode="json"))
        return
    columns = dict(zip(("as it was", *changes), outcomes, strict=True))
    costs = {name: asked.price.month(outcome.gpus) for name, outcome in columns.items()}
    rows = [
        {"measure": label}
        | {name: costs[name] if key == "month_cost" else _rounded(getattr(one, key)) for name, one in columns.items()}
        for key, label in MEASURES
    ]
    print_rows(rows, [*rows[0]], output)


def named(change: Change) -> str:
    """`+8 GPUs`, `4 shares`."""
    parts = [f"{change.gpus:+,} GPUs"] if change.gpus else []
    return ", ".join([*parts, *([f"{change.shares} shares"] if change.shares > 1 else [])])


def _each(workloads: Sequence[Workload], output: options.Format) -> None:
    """A row per model and pool, with real waits and the simulator's."""
    from scheduler.simulate.books.what_if import as_it_was
    from scheduler.simulate.books.workload import Change, latest

    rows: list[dict[str, Any]] = []
    for whole in workloads:
        work = latest(whole)
        was, model = as_it_was(work), _run(work, Change(), f"{work.group.model} {work.group.pool}")
        rows.append(
            {
                "cluster": work.group.cluster,
                "pool": work.group.pool,
                "model": work.group.model,
                "gpus": was.gpus,
                "jobs": was.jobs,
                "allocated_part": _rounded(was.utilization),
                "p95_seconds": _rounded(was.p95),
                "simulated_p95_seconds": _rounded(model.p95),
                "waited_gpu_hours": _rounded(was.waited_gpu_hours),
                "simulated_waited_gpu_hours": _rounded(model.waited_gpu_hours),
            }
        )
    if not rows:
        raise LedgerError("--period", "no GPUs are in the books of it, MIG aside", "Ask for another period")
    print_rows(rows, [*rows[0]], output)
    say("Next: gpuledger simulate capacity --model MODEL --pool POOL --gpus N")


def _fewest(asked: WhatIf, quantile: float, seconds: float, output: options.Format) -> None:
    from scheduler.simulate.books.what_if import node_size, wait_at
    from scheduler.simulate.books.workload import Change
    from scheduler.simulate.capacity import fewest_nodes

    work = asked.workload
    if not any(job.measured for job in work.jobs):
        raise LedgerError("--period", "no job was submitted and started in it", "Ask for another period")
    each, there = node_size(work), len(work.devices)

    def wait_with(nodes: int) -> float | None:
        with bar("jobs") as show:
            watch = partial(_show, show, show.add_task(f"{nodes * each:,} GPUs", total=work.end - work.start), work)
            return wait_at(work, Change(nodes * each - there), quantile, watch)

    answer = fewest_nodes(wait_with, seconds)
    rows = [
        {
            "nodes": tried.nodes,
            "gpus": tried.nodes * each,
            "model": work.group.model,
            "wait_seconds": tried.wait,
            "keeps_bound": tried.wait is not None and tried.wait <= seconds,
            "answer": tried.nodes == answer.nodes,
            "month_cost": asked.price.month(tried.nodes * each),
        }
        for tried in sorted(answer.tried, key=lambda tried: tried.nodes)
    ]
    say(f"{grouped(there, 'GPU')} {'is' if there == 1 else 'are'} there; nodes have {each:,} each")
    print_rows(rows, [*rows[0]], output)


def _run(work: Workload, change: Change, name: str) -> Outcome:
    from scheduler.simulate.books.what_if import simulated

    with bar("seconds") as show:
        return simulated(work, change, partial(_show, show, show.add_task(name, total=work.end - work.start), work))


def _show(progress: Any, task: Any, work: Workload, now: float) -> None:
    progress.update(task, completed=min(max(0.0, now - work.start), work.end - work.start))


def _say_notes(document: CapacitySimulation) -> None:
    from api.capacity import notes

    for note in notes(document):
        say(note)


def _rounded(value: Any) -> Any:
    if isinstance(value, float):
        return round(value) if abs(value) >= 100 else round(value, 3)
    return value
