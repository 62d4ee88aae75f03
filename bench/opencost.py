"""`python -m bench.opencost`: a day of a fleet in OpenCost's way (its queries on a real Prometheus, its arithmetic) and
in gpuledger's, side by side in one run: how long, and how right, where the truth is known by construction."""

from __future__ import annotations

import json
import os
import statistics
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from bench import opencost_arithmetic as theirs
from bench.__main__ import Format, say
from bench.apart import BenchError, needed, run_apart
from bench.opencost_day import CASE_NODES, IDLE, START, Day, Job, make_day, node_name, write_openmetrics, write_parquet
from bench.opencost_ours import by_gpuledger
from bench.report import Spread, machine

RESOLUTIONS = (1, 5)
"""Minutes. OpenCost's default is 5; 1 is the finest that is of use with a scrape a minute."""
FEWEST_GPUS = 8 * (CASE_NODES + 1)


@dataclass(frozen=True)
class Case:
    """A figure whose truth is known. `opencost` by resolution in minutes; all in `unit`."""

    name: str
    unit: str
    truth: float
    opencost: dict[int, float]
    gpuledger: float

    def error(self, figure: float) -> float | None:
        """How far off, as a part of the truth; None where the truth is 0."""
        return (figure - self.truth) / self.truth if self.truth else None


@dataclass(frozen=True)
class Timing:
    """`cpu_seconds` of all processes that take part; ratios of the medians, against gpuledger's query of every pod."""

    name: str
    seconds: Spread
    ratio: float
    cpu_seconds: float
    cpu_ratio: float
    note: str = ""


def main(
    gpus: Annotated[int, typer.Option(min=FEWEST_GPUS, help="GPUs of the fleet, rounded up to nodes of 8.")] = 200,
    repeat: Annotated[int, typer.Option(min=1, help="Times that each query is asked; the median counts.")] = 5,
    seed: Annotated[int, typer.Option(help="Of the ordinary jobs.")] = 7,
    directory: Annotated[Path | None, typer.Option("--dir", help="Where the scratch folder is made.")] = None,
    fmt: Annotated[Format, typer.Option("--format", help="How the result is printed.")] = Format.table,
) -> None:
    """OpenCost's own queries on Prometheus, and its arithmetic, beside gpuledger: times, and figures against the truth.

    Needs the programs prometheus and promtool (Debian: prometheus); it starts one of its own and ends it. Exit 1:
    gpuledger's own figures are not the truth.
    """
    missing = theirs.missing_programs()
    if missing:
        say(
            f"bench: no {' and no '.join(missing)} here, so there is nothing to compare with. "
            "Debian: apt-get install prometheus"
        )
        sys.exit(2)
    if directory is not None:
        directory.mkdir(parents=True, exist_ok=True)
    about = {**machine(len(os.sched_getaffinity(0))), "gpus": gpus, "seed": seed}
    with tempfile.TemporaryDirectory(prefix="gpuledger-bench-", dir=directory) as name:
        try:
            about, timings, cases = measure(Path(name).resolve(), make_day(gpus, seed), repeat, about)
        except BenchError as error:
            say(f"bench: {error}")
            sys.exit(1)
    if fmt is Format.json:
        json.dump(
            {**about, "timings": [asdict(t) for t in timings], "cases": [asdict(c) for c in cases]},
            sys.stdout,
            indent=2,
        )
        sys.stdout.write("\n")
    else:
        print_tables(about, timings, cases)
    wrong = [case.name for case in cases if abs(case.gpuledger - case.truth) > 1e-6]
    if wrong:
        say(f"bench: gpuledger is wrong: {', '.join(wrong)}")
        sys.exit(1)


def measure(
    folder: Path, day: Day, repeat: int, about: dict[str, Any]
) -> tuple[dict[str, Any], list[Timing], list[Case]]:
    """Both, one after the other, on the same day's scrapes."""
    say(f"writing the day: {day.gpus} GPUs, {len(day.jobs):,} pods")
    series = write_openmetrics(day, folder / "day.om")
    samples = write_parquet(day, folder)
    say(f"prometheus: loading {series:,} samples")
    (folder / "data").mkdir()
    load_seconds = theirs.load_blocks(folder / "day.om", folder / "data")
    start = int(START.timestamp())
    answers: dict[int, list[theirs.Computed]] = {}
    with theirs.prometheus(folder / "data") as (url, pid):
        for minutes in RESOLUTIONS:
            say(f"opencost: {repeat} x {len(theirs.QUERIES)} queries at {minutes}m")
            answers[minutes] = [theirs.compute(url, pid, start, start + 86400, minutes) for _ in range(repeat)]
        prometheus_peak = theirs.peak_bytes_of(pid)
    say("gpuledger: ingest, close, query")
    ours = needed(run_apart(by_gpuledger, 1 << 62, folder=str(folder), repeat=repeat), "gpuledger")
    about = {
        **about,
        "pods": len(day.jobs),
        "series_samples": series,
        "device_samples": samples,
        "load_seconds": load_seconds,
        "ingest_seconds": ours["ingest_seconds"],
        "prometheus_peak_bytes": prometheus_peak,
        "gpuledger_peak_bytes": ours["peak_bytes"],
    }
    return (
        about,
        list(_timings(answers, ours)),
        list(_cases(day, {m: a[0] for m, a in answers.items()}, ours["answer"])),
    )


def _timings(answers: dict[int, list[theirs.Computed]], ours: dict[str, Any]) -> Iterator[Timing]:
    pods = Spread.of(ours["pod_seconds"])
    cpu = statistics.median(ours["pod_cpu"])

    def timing(name: str, seconds: list[float], cpu_seconds: list[float], note: str = "") -> Timing:
        spread, used = Spread.of(seconds), statistics.median(cpu_seconds)
        return Timing(name, spread, spread.median / pods.median, used, used / cpu, note)

    def megabytes(size: int) -> str:
        return f"{size / 1e6:.1f} MB read"

    closed, closing = ours["close_seconds"], ours["close_cpu"]
    yield timing("gpuledger: closed day, every pod", ours["pod_seconds"], ours["pod_cpu"], megabytes(ours["pod_bytes"]))
    yield timing("gpuledger: closed day, by namespace", ours["namespace_seconds"], ours["namespace_cpu"])
    both = timing(
        "gpuledger: close the whole day, then query",
        [closed + seconds for seconds in ours["pod_seconds"]],
        [closing + seconds for seconds in ours["pod_cpu"]],
        "the close is done once",
    )
    yield both
    for minutes, computed in answers.items():
        whole = timing(
            f"OpenCost at {minutes}m: {len(theirs.QUERIES)} queries, arithmetic",
            [one.seconds for one in computed],
            [one.cpu_seconds for one in computed],
        )
        waiting = statistics.median(one.query_seconds for one in computed)
        against = f"{whole.seconds.median / both.seconds.median:.2f} x close and query"
        yield replace(whole, note=f"{megabytes(computed[0].bytes_read)}, {waiting:.2f} s of it queries; {against}")


def _cases(day: Day, opencost: dict[int, theirs.Computed], ours: dict[str, Any]) -> Iterator[Case]:
    """Every figure that the day was made for."""
    jobs: dict[str, list[Job]] = {}
    for job in day.jobs:
        jobs.setdefault(job.namespace, []).append(job)

    def of(name: str, space: str, unit: str, key: str) -> Case:
        truth = sum((getattr(job, key) for job in jobs[space]), Fraction(0))
        there = {
            minutes: sum(
                getattr(pod, {"gpu_hours": "gpu_hours", "cost": "gpu_cost"}[key])
                for pod in one.namespaces.get(space, [])
            )
            for minutes, one in opencost.items()
        }
        exact = ours[space]["gpuledger"]
        here = float(exact["gpuHours"] if key == "gpu_hours" else exact["totalCost"])
        return Case(name, unit, float(truth), there, here)

    def efficiency(name: str, space: str) -> Case:
        there = {minutes: one.namespaces[space][0].efficiency for minutes, one in opencost.items()}
        return Case(name, "ratio", float(jobs[space][0].utilization), there, ours[space]["gpuEfficiency"])

    def idle(name: str, nodes: range) -> Case:
        held = {node: sum((job.cost for job in day.jobs if job.node == node), Fraction(0)) for node in nodes}
        truth = sum((day.node_cost(node) - held[node] for node in nodes), Fraction(0))
        there = {m: sum(one.idle_by_node[node_name(node)] for node in nodes) for m, one in opencost.items()}
        here = sum(
            float(found["gpuledger"]["totalCost"])
            for key, found in ours.items()
            if key.endswith("/__idle__") and key.split("/")[-2] in {node_name(node) for node in nodes}
        )
        return Case(name, "USD", float(truth), there, here)

    yield of("40 pods of 90 s", "short", "GPU-h", "gpu_hours")
    yield of("the same pod name twice, 2 h each", "twice", "GPU-h", "gpu_hours")
    yield of("price 2 -> 3 at noon: a job before it", "early", "USD", "cost")
    yield of("price 2 -> 3 at noon: a job after it", "late", "USD", "cost")
    yield of("price 2 -> 3 at noon: 6 h before, 2 h after", "across", "USD", "cost")
    yield of("4 x 25 % of a GPU, 6 h (HAMi)", "hami", "USD", "cost")
    yield of("4 x 25 % of a GPU, 6 h (time-slices, gpu.shared)", "sliced", "USD", "cost")
    yield efficiency("8 GPUs at 100 %: efficiency", "eight")
    yield of("8 GPUs, 12 h", "eight", "USD", "cost")
    yield efficiency("1 GPU at 11 %: efficiency", "eleven")
    yield of("1 GPU at 11 %, 10 h", "eleven", "USD", "cost")
    yield idle("a node with nobody on it: idle", range(IDLE, IDLE + 1))
    ordinary = range(CASE_NODES, day.nodes)
    yield of(f"ordinary jobs ({len(jobs['ordinary']):,}, 15 min to 8 h)", "ordinary", "USD", "cost")
    yield idle(f"idle of their {len(ordinary)} nodes", ordinary)


def print_tables(about: dict[str, Any], timings: list[Timing], cases: list[Case]) -> None:
    console = Console(highlight=False, width=None if sys.stdout.isatty() else 150)
    console.print(
        f"{about['at']}  {about['cores']} cores, {about['memory_gib']} GiB; {about['gpus']} GPUs, "
        f"{about['pods']:,} pods; "
        f"{about['series_samples']:,} samples in Prometheus (loaded in {about['load_seconds']:.1f} s, peak "
        f"{about['prometheus_peak_bytes'] / 2**20:.0f} MiB), {about['device_samples']:,} in gpuledger (ingested in "
        f"{about['ingest_seconds']:.1f} s, peak {about['gpuledger_peak_bytes'] / 2**20:.0f} MiB)",
        soft_wrap=True,
    )  # fmt: skip
    console.print()
    shown = [
        (t.name, str(t.seconds), f"{t.ratio:.2f}", f"{t.cpu_seconds:.2f}", f"{t.cpu_ratio:.2f}", t.note)
        for t in timings
    ]
    console.print(_table(("how long", "seconds", "ratio", "CPU s", "ratio", ""), shown))
    console.print()
    names = [f"OpenCost {minutes}m" for minutes in RESOLUTIONS]
    rows = []
    for case in cases:
        figures = [cell for minutes in RESOLUTIONS for cell in _figure(case, case.opencost[minutes])]
        rows.append((case.name, case.unit, f"{case.truth:.3f}", *figures, *_figure(case, case.gpuledger)))
    heads = [head for name in (*names, "gpuledger") for head in (name, "off")]
    console.print(_table(("how right", "", "truth", *heads), rows))


def _figure(case: Case, figure: float) -> tuple[str, str]:
    error = case.error(figure)
    return f"{figure:.3f}", "-" if error is None else f"{error:+.2%}" if abs(error) > 5e-7 else "0"


def _table(heads: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> Table:
    table = Table(box=None, pad_edge=False)
    for number, head in enumerate(heads):
        table.add_column(head, justify="left" if number == 0 or not head else "right", no_wrap=True)
    for row in rows:
        table.add_row(*row)
    return table


if __name__ == "__main__":
    typer.run(main)
