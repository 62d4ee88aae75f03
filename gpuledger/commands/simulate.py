"""`gpuledger simulate`: what-if simulations; here `fragmentation`, the published experiment on our placement."""

from __future__ import annotations

import re
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from gpuledger import options
from gpuledger.commands.simulate_trace import TraceGroup, capacity, trace
from gpuledger.output import print_rows, say
from warehouse.errors import LedgerError

group = typer.Typer(
    cls=TraceGroup, no_args_is_help=True, help="What would happen: jobs or experiments on the reference scheduler."
)


class FragmentationPolicy(StrEnum):
    fgd = "fgd"
    bestfit = "bestfit"
    dotprod = "dotprod"
    gpupacking = "gpupacking"
    gpuclustering = "gpuclustering"
    random = "random"


class FragmentationMetric(StrEnum):
    allocated = "allocated"
    frag_ratio = "frag_ratio"


def register(app: typer.Typer) -> None:
    group.command("trace")(trace)
    group.command("capacity")(capacity)
    group.command("fragmentation")(fragmentation)
    app.add_typer(group, name="simulate")


def fragmentation(
    data: Annotated[Path, typer.Option("--data", help="Folder with csv/ and event_order/ of the experiment.")],
    workload: Annotated[
        str, typer.Option("--workload", help="Pod list, e.g. default, cpu100, gpushare60.")
    ] = "default",
    policy: Annotated[
        FragmentationPolicy, typer.Option("--policy", help="How nodes are chosen.")
    ] = FragmentationPolicy.fgd,
    seeds: Annotated[
        str, typer.Option("--seeds", help="Of the arrival orders: 42-51, or 42,44; at most 1,000.")
    ] = "42-51",
    metric: Annotated[
        FragmentationMetric,
        typer.Option("--metric", help="allocated: % of all GPUs; frag_ratio: % of the idle that is fragmented."),
    ] = FragmentationMetric.allocated,
    consolidate: Annotated[
        bool, typer.Option("--consolidate", help="Make room by moves if an arrival does not fit.")
    ] = False,
    most_moves: Annotated[int, typer.Option("--most-moves", help="With --consolidate: for each arrival.", min=1)] = 2,
    output: options.OutputFormat = options.Format.table,
) -> None:
    """The fragmentation experiment of Weng et al. (USENIX ATC 2023): one row a seed, by percent of GPUs asked for."""
    from scheduler.simulate.fragmentation_experiment import COLUMNS, run
    from scheduler.simulate.published import read_workload

    wanted = seeds_of(seeds)
    read = read_workload(data, workload)
    chosen = read.seeds(wanted)
    rows: list[dict[str, Any]] = []
    for seed in chosen:
        done = run(read, policy.value, seed, most_moves if consolidate else 0)
        row: dict[str, Any] = {"workload": workload, "policy": policy.value, "seed": seed}
        if consolidate:
            row["moves"] = done.moves
        rows.append(row | dict(zip(map(str, COLUMNS), done.row(metric.value), strict=True)))
        arrived = len(done.points)
        moved = f", {done.moves:,} moves" if consolidate else ""
        say(f"{workload}, {policy.value}, seed {seed}: {arrived:,} arrivals, {done.failed:,} did not fit{moved}")
    columns = [*rows[0]]
    if output is options.Format.table:
        columns = [c for c in columns if not c.isdigit() or int(c) % 10 == 0]
        rows = [{c: round(v, 2) if isinstance(v, float) else v for c, v in row.items()} for row in rows]
    print_rows(rows, columns, output, f"{metric.value} %, by % of GPUs asked for")


_SEED = re.compile("[0-9]{1,18}")
MOST_SEEDS = 1000
"""Of one call; the published orders have ten."""


def seeds_of(text: str) -> list[int]:
    """42-51 or 42,44,50-51. Errors: LedgerError, also if they are more than MOST_SEEDS."""
    found: list[int] = []
    for part in text.split(","):
        first, dash, last = part.strip().partition("-")
        if not all(map(_SEED.fullmatch, (first, last) if dash else (first,))) or (dash and int(last) < int(first)):
            raise LedgerError(f"--seeds {text}", f"{part.strip()!r} is no seed and no range", "42-51 or 42,44 fits")
        chosen = range(int(first), int(last or first) + 1)
        if len(found) + len(chosen) > MOST_SEEDS:
            raise LedgerError(f"--seeds {text}", f"more than {MOST_SEEDS:,} seeds", "Choose fewer, like 42-51")
        found += chosen
    return list(dict.fromkeys(found))
