"""What was measured, as a table for people or JSON for programs."""

from __future__ import annotations

import json
import os
import platform
import statistics
import sys
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from importlib.metadata import version
from typing import Any

from rich.console import Console
from rich.table import Table

from warehouse.instants import rfc3339


@dataclass(frozen=True)
class Spread:
    """Seconds of several runs of the same thing."""

    median: float
    fastest: float
    slowest: float
    runs: int

    @classmethod
    def of(cls, seconds: Sequence[float]) -> Spread:
        return cls(statistics.median(seconds), min(seconds), max(seconds), len(seconds))

    def __str__(self) -> str:
        if self.runs == 1:
            return f"{self.median:.2f}"
        return f"{self.median:.2f} ({self.fastest:.2f}-{self.slowest:.2f})"


@dataclass(frozen=True)
class Line:
    """One thing that was measured.

    seconds: None if it could not finish.   ratio: of the medians, against the first line of the section.
    goal, goal_bytes: what ratio and peak_bytes should not exceed; None: no goal.
    """

    section: str
    name: str
    seconds: Spread | None
    rows: int
    peak_bytes: int | None
    ratio: float | None
    goal: float | None = None
    goal_bytes: int | None = None
    note: str = ""

    def with_memory_goal(self, goal_bytes: int) -> Line:
        return replace(self, goal_bytes=goal_bytes)

    @property
    def met(self) -> bool | None:
        """Whether it reached its goals; None if it has none."""
        reached = [
            value is not None and value <= goal
            for value, goal in ((self.ratio, self.goal), (self.peak_bytes, self.goal_bytes))
            if goal is not None
        ]
        return all(reached) if reached else None

    def document(self) -> dict[str, Any]:
        rate = self.rows / self.seconds.median if self.seconds else None
        return {**asdict(self), "rows_per_second": rate, "met": self.met}


def machine(cores: int) -> dict[str, Any]:
    """Where and with what it ran."""
    packages = ("chdb-core", "duckdb", "polars", "pyarrow")
    return {
        "at": rfc3339(datetime.now(UTC), "seconds"),
        "cores": cores,
        "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "versions": {package: version(package) for package in packages},
    }


def print_json(about: dict[str, Any], lines: Iterable[Line]) -> None:
    json.dump({**about, "lines": [line.document() for line in lines]}, sys.stdout, indent=2)
    sys.stdout.write("\n")


def print_table(about: dict[str, Any], lines: Sequence[Line]) -> None:
    """A table a section; ratios are against its first line."""
    console = Console(highlight=False, width=None if sys.stdout.isatty() else 140)
    versions = ", ".join(f"{name} {number}" for name, number in about["versions"].items())
    console.print(
        f"{about['at']}  {about['cores']} cores, {about['memory_gib']} GiB, Python {about['python']}, {versions}",
        soft_wrap=True,
    )
    for section in dict.fromkeys(line.section for line in lines):
        table = Table(title=section, title_justify="left", title_style="bold", box=None, pad_edge=False)
        for column in ("", "seconds", "M rows/s", "peak MiB", "ratio", "goal", ""):
            table.add_column(column, justify="right" if column else "left", no_wrap=column != "")
        for line in lines:
            if line.section == section:
                table.add_row(*_cells(line))
        console.print()
        console.print(table)


def _cells(line: Line) -> list[str]:
    goals = [f"<= {line.goal:g}"] if line.goal is not None else []
    goals += [f"<= {line.goal_bytes >> 30} GiB"] if line.goal_bytes is not None else []
    verdict = {None: "", True: "met", False: "MISSED"}[line.met]
    return [
        line.name,
        str(line.seconds) if line.seconds else "-",
        f"{line.rows / line.seconds.median / 1e6:.2f}" if line.seconds else "-",
        f"{line.peak_bytes / 2**20:.0f}" if line.peak_bytes is not None else "-",
        f"{line.ratio:.2f}" if line.ratio is not None else "-",
        ", ".join(goals) or "-",
        ", ".join(part for part in (verdict, line.note) if part),
    ]
