"""`python -m bench`: every comparison in one run, on two cores, in a scratch folder that is removed at the end."""

from __future__ import annotations

import os
import sys
import tempfile
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from bench.apart import BenchError
from bench.closing import measure_close
from bench.drafting import measure_drafting
from bench.fleet import BenchFleet
from bench.focus import measure_focus
from bench.ingesting import measure_ingest
from bench.report import Line, machine, print_json, print_table

progress = Console(stderr=True, highlight=False)


class Format(StrEnum):
    table = "table"
    json = "json"


class Part(StrEnum):
    all = "all"
    ingest = "ingest"
    close = "close"
    invoices = "invoices"
    focus = "focus"


def main(
    devices: Annotated[int, typer.Option(min=1, help="GPUs of the fleet.")] = 1000,
    days: Annotated[int, typer.Option(min=1, help="Days of the fleet that are closed.")] = 30,
    rows: Annotated[int, typer.Option(min=1, help="Samples in the ingest comparison.")] = 5_000_000,
    entries: Annotated[
        int, typer.Option(min=1, help="Ledger entries in the invoices and the export to FOCUS.")
    ] = 1_000_000,
    repeat: Annotated[int, typer.Option(min=1, help="Turns of the ingest comparison; the median counts.")] = 3,
    only: Annotated[Part, typer.Option(help="One part alone.")] = Part.all,
    growth: Annotated[bool, typer.Option(help="Close a quarter of the fleet too.")] = True,
    cores: Annotated[int, typer.Option(min=1, help="Cores that everything may use.")] = 2,
    memory_gib: Annotated[float, typer.Option(help="A piece that needs more is ended. 0: 80 % of the machine.")] = 0,
    directory: Annotated[Path | None, typer.Option("--dir", help="Where the scratch folder is made.")] = None,
    fmt: Annotated[Format, typer.Option("--format", help="How the result is printed.")] = Format.table,
) -> None:
    """Speed and memory of gpuledger beside the plain engine, DuckDB and Polars, as ratios in one run.

    The full size takes about ten minutes, 10 GiB of memory (Polars) and 2 GB of disk.
    Exit 1: two answers that must agree do not.
    """
    used = sorted(os.sched_getaffinity(0))[:cores]
    os.sched_setaffinity(0, used)
    about = {**machine(len(used)), "devices": devices, "days": days, "rows_ingested": rows}
    most_bytes = int(memory_gib * 2**30) or int(0.8 * os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    if directory is not None:
        directory.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="gpuledger-bench-", dir=directory) as name:
        folder = Path(name).resolve()
        lines: list[Line] = []
        try:
            if only in (Part.all, Part.ingest):
                lines += measure_ingest(folder, devices, rows, repeat, most_bytes, say)
            if only in (Part.all, Part.close):
                lines += measure_close(folder, BenchFleet(devices, days), growth, len(used), most_bytes, say)
            if only in (Part.all, Part.invoices):
                lines += measure_drafting(folder, entries, most_bytes, say)
            if only in (Part.all, Part.focus):
                lines += measure_focus(folder, entries, most_bytes, say)
        except BenchError as error:
            say(f"bench: {error}")
            sys.exit(1)
    if fmt is Format.json:
        print_json(about, lines)
    else:
        print_table(about, lines)


def say(what: str) -> None:
    """Progress, and what went wrong: on stderr, so that a pipe gets the result alone."""
    progress.print(what, markup=False, soft_wrap=True)


if __name__ == "__main__":
    typer.run(main)
