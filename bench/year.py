"""`python -m bench.year`: what a new hour costs on books of a year; with `--growth`, of two, three and more years."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Annotated

import typer

from bench.apart import needed, run_apart, speed_of_machine
from bench.closing_year import close_hours, make_year


def main(
    devices: Annotated[int, typer.Option(min=1, help="GPUs of the fleet.")] = 100,
    days: Annotated[int, typer.Option(min=3, help="Days that are closed already.")] = 365,
    growth: Annotated[int, typer.Option(min=1, help="Again with 2, 3, ... so many times the days.")] = 1,
    hours: Annotated[int, typer.Option(min=1, help="New hours, closed one after the other.")] = 3,
    steps: Annotated[int, typer.Option(help="Statements to show, the most expensive first.")] = 12,
    directory: Annotated[Path | None, typer.Option("--dir", help="Where the scratch folder is made.")] = None,
) -> None:
    """CPU seconds and memory of a new hour's close on books of a long time."""
    for times in range(1, growth + 1):
        with tempfile.TemporaryDirectory(prefix="gpuledger-bench-", dir=directory) as folder:
            told = {"folder": folder, "devices": devices, "days": days * times}
            made = needed(run_apart(make_year, 1 << 40, **told), "making the store")
            found = needed(run_apart(close_hours, 1 << 40, **told, hours=hours), "the close")
        print(f"{devices} GPUs, {days * times} days: {made['events']:,} events, {made['batches']:,} batches")
        print(f"  {speed_of_machine()}")
        print(f"  all of it at once      {made['cpu']:8.2f} CPU s  {made['peak'] / 2**20:8.0f} MiB")
        scan = found["scan"]
        month = scan["cpu"] / scan["samples"] * devices * 30 * 1440
        print(f"  one scan of 30 days    {month:8.2f} CPU s, by {scan['samples']:,} samples")
        for name, one in found["closes"].items():
            beside = f"{one['cpu']:8.2f} CPU s  {one['cpu'] / month:6.2f} of that scan"
            print(f"  {name:22} {beside}  {one['grown'] / 2**20:8.0f} MiB more than at rest")
            for step, cpu in list(one["steps"].items())[:steps]:
                print(f"      {cpu:7.3f}  {step}")


if __name__ == "__main__":
    typer.run(main)
