"""`python -m bench.scale`: a month of 10,000 GPUs through gpuledger's own commands, and how its cost grows with GPUs.

Each step is the command that its user would give, in a process of its own: its start is included. A day of the same
fleet is attributed by DuckDB and Polars too, and each month if they fit. What was measured is in `measured.json` after
every step; the same --dir carries on from there.
"""

from __future__ import annotations

import json
import math
import os
import shutil
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated, Any

import typer

from bench.__main__ import say
from bench.apart import BenchError, run_apart, run_command
from bench.by_hand import by_duckdb, by_polars
from bench.closing import agree
from bench.fleet import BenchFleet, make_files
from bench.focus import CARD
from bench.report import machine

START = datetime(2026, 9, 1, tzinfo=UTC)
MONTH = "2026-09"
MONTH_END = datetime(2026, 10, 1, tzinfo=UTC)
GROWTH = (0.1, 0.2, 0.4, 0.8, 1.0)
TARGET_DEVICES = 100_000
LEAST_SAMPLES = 200_000_000
"""Of the largest month, to say anything of 100,000 GPUs: below, fixed costs are most of it."""
EXPORTS = ("focus.csv.gz", "focus.parquet")
STEPS = (
    "ingest samples", "close", "close again", "verify", "ledger", "invoice draft", "invoice issue",
    "verify with invoices", *(f"export {name}" for name in EXPORTS),
)  # fmt: skip
BY_HAND = ("DuckDB", "Polars")

Steps = dict[str, dict[str, Any]]


@dataclass(frozen=True)
class Case:
    """A fleet and how far its books go: a month that is invoiced and exported, or a day that is only closed."""

    devices: int
    days: int
    invoiced: bool

    @property
    def name(self) -> str:
        if not self.invoiced:
            return f"{self.devices:,} GPUs, one day alone"
        return f"{self.devices:,} GPUs, a month" + ("" if self.days == 30 else f" with {self.days} days of samples")

    @property
    def fleet(self) -> BenchFleet:
        return BenchFleet(self.devices, self.days, START)

    @property
    def until(self) -> datetime:
        return MONTH_END if self.invoiced else self.fleet.end


class Measured:
    """The steps of each case, on disk after every one of them."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.document: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {"runs": [], "cases": {}}

    def steps(self, case: Case) -> Steps:
        steps: Steps = self.document["cases"].setdefault(case.name, {"samples": case.fleet.samples, "steps": {}})[
            "steps"
        ]
        return steps

    def save(self) -> None:
        fresh = self.path.with_suffix(".new")
        fresh.write_text(json.dumps(self.document, indent=1), encoding="utf-8")
        fresh.replace(self.path)


def main(
    devices: Annotated[int, typer.Option(min=1, help="GPUs of the largest fleet.")] = 10_000,
    days: Annotated[int, typer.Option(min=1, max=30, help="Days of the month that have samples.")] = 30,
    growth: Annotated[bool, typer.Option(help="A tenth, 2, 4 and 8 tenths of the GPUs before.")] = True,
    by_hand: Annotated[bool, typer.Option(help="The months by DuckDB and Polars too; the day always.")] = True,
    cores: Annotated[int, typer.Option(min=1, help="Cores that everything may use.")] = 2,
    memory_gib: Annotated[float, typer.Option(min=0.1, help="A step that needs more is ended.")] = 20,
    directory: Annotated[Path, typer.Option("--dir", help="Stores, files, measured.json.")] = Path("build/scale"),
) -> None:
    """Seconds, CPU seconds, peak memory and bytes of every step from files to a FOCUS export, as Markdown.

    Exit 1: a step failed, or answers that must agree do not. The tables of what was measured are printed all the same.
    """
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:cores])
    folder = directory.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    measured = Measured(folder / "measured.json")
    measured.document["runs"].append(machine(len(os.sched_getaffinity(0))))
    parts = GROWTH if growth else GROWTH[-1:]
    cases = [Case(devices, 1, invoiced=False)]
    cases += [Case(size, days, invoiced=True) for size in sorted({max(1, round(part * devices)) for part in parts})]
    failure = ""
    try:
        for case in cases:
            Run(case, folder / "case", measured, int(memory_gib * 2**30), cores).all(by_hand or not case.invoiced)
    except BenchError as error:
        failure = str(error)
    finally:
        print("\n".join(report(measured.document)))
    if failure:
        say(f"bench: {failure}")
        sys.exit(1)


class Run:
    """One case, step by step; steps that are measured already are left out."""

    def __init__(self, case: Case, folder: Path, measured: Measured, most_bytes: int, cores: int) -> None:
        self.case, self.folder, self.measured = case, folder, measured
        self.most_bytes, self.cores = most_bytes, cores
        self.steps = measured.steps(case)
        self.store = folder / "store"

    def all(self, by_hand: bool) -> None:
        wanted = [*(STEPS if self.case.invoiced else STEPS[:5]), *(BY_HAND if by_hand else ())]
        if all(name in self.steps for name in wanted):
            return
        self._prepare()
        self._ours()
        if by_hand:
            self._by_hand()
        shutil.rmtree(self.folder)

    def _prepare(self) -> None:
        """Keeps the store of a run that was cut short, if this case is its own; else starts again."""
        mark = self.folder / "case"
        if (
            not mark.exists()
            or mark.read_text(encoding="utf-8") != self.case.name
            or "ingest samples" not in self.steps
        ):
            shutil.rmtree(self.folder, ignore_errors=True)
            self.steps.clear()
            self.folder.mkdir()
            mark.write_text(self.case.name, encoding="utf-8")
        (self.folder / "card.yaml").write_text(json.dumps(CARD), encoding="utf-8")

    def _ours(self) -> None:
        self._keep("make files", lambda: self._made())
        files = [str(path) for path in self._samples()]
        until = self.case.until.isoformat()
        self._command("rates apply", "rates", "apply", "card.yaml")
        self._command("ingest devices", "ingest", "devices", "devices.parquet")
        self._command("ingest events", "ingest", "events", "events.parquet")
        self._command("ingest samples", "ingest", "samples", *files)
        self._command("close", "close", "--until", until)
        self._command("close again", "close", "--until", until)
        self._command("verify", "verify")
        self._command("ledger", "ledger", "--by", "tenant", "--format", "json")
        if self.case.invoiced:
            self._command("invoice draft", "invoice", "draft", "--period", MONTH)
            self._command("invoice issue", "invoice", "issue", "--period", MONTH)
            self._command("verify with invoices", "verify")
            for name in EXPORTS:
                export = ("export", "focus", "--period", MONTH, "--no-check", "--out", name)
                self._command(f"export {name}", *export, made=self.folder / name)

    def _by_hand(self) -> None:
        given = {
            "samples": [str(path) for path in self._samples()],
            "events": str(self.folder / "events.parquet"),
            "until": self.case.until.isoformat(),
            "cores": self.cores,
        }
        rows = json.loads((self.folder / "ledger.out").read_text(encoding="utf-8"))["rows"]
        ours = {row["tenant"]: _hours(row) for row in rows}
        for name, function, more in (("DuckDB", by_duckdb, {"scratch": str(self.folder)}), ("Polars", by_polars, {})):

            def attributed(
                name: str = name, function: Callable[..., dict[str, Any]] = function, more: dict[str, Any] = more
            ) -> dict[str, Any] | None:
                result = run_apart(function, self.most_bytes, **given, **more)
                if result is not None:
                    agree(name, result.pop("tenants"), ours)
                return result

            self._keep(name, attributed)

    def _samples(self) -> list[Path]:
        return sorted(self.folder.glob("samples-*.parquet"))

    def _made(self) -> dict[str, Any] | None:
        fleet, start = self.case.fleet, START.isoformat()
        told = {"folder": str(self.folder), "devices": fleet.devices, "days": fleet.days, "start": start}
        return run_apart(make_files, self.most_bytes, **told)

    def _command(self, name: str, *words: str, made: Path | None = None) -> None:
        """Runs it; its bytes are those of the file that it makes, else of the store after it."""
        local = [str(self.folder / word) if word.endswith((".yaml", ".parquet", ".gz")) else word for word in words]
        command = [sys.executable, "-m", "gpuledger", *local, *("--store", f"chdb://{self.store}")]

        def run() -> dict[str, Any] | None:
            result = run_command(command, self.most_bytes, self.folder / f"{name}.out")
            return result if result is None else {**result, "bytes": _size(made or self.store)}

        if self._keep(name, run) is None:
            raise BenchError(f"{self.case.name}: {name} needs more than {self.most_bytes / 2**30:g} GiB")

    def _keep(self, name: str, work: Callable[[], dict[str, Any] | None]) -> dict[str, Any] | None:
        """The step's result; None: out of memory. A step that was begun and never ended is marked as restarted."""
        begun = self.folder / f"{name}.begun"
        if name not in self.steps:
            say(f"{datetime.now(UTC):%H:%M:%S} {self.case.name}: {name}")
            restarted = begun.exists()
            begun.touch()
            result = work()
            self.steps[name] = {"out_of_memory": True} if result is None else {**result, "restarted": restarted}
            self.measured.save()
        return None if "out_of_memory" in self.steps[name] else self.steps[name]


def _hours(row: dict[str, str]) -> dict[str, float]:
    used, idle, unmetered = (float(row[f"{kind}_gpu_hours"]) for kind in ("used", "idle", "unmetered"))
    return {"used": used, "covered": used + idle, "unmetered": unmetered}


def _size(path: Path) -> int:
    """Bytes of a file or of all files below a folder, each once however many names it has."""
    found = {file.stat().st_ino: file.stat().st_size for file in (path, *path.rglob("*")) if file.is_file()}
    return sum(found.values())


def report(document: dict[str, Any]) -> Iterator[str]:
    """Markdown: each case's steps, growth by step, and what 100,000 GPUs would need at that growth."""
    for run in document["runs"]:
        versions = ", ".join(f"{name} {number}" for name, number in run["versions"].items())
        yield f"{run['at']}: {run['cores']} cores, {run['memory_gib']} GiB, Python {run['python']}, {versions}"
    for name, case in document["cases"].items():
        yield from ("", f"| {name}: {case['samples']:,} samples | seconds | CPU s | peak MiB | MiB on disk |")
        yield "|---|--:|--:|--:|--:|"
        for step, found in case["steps"].items():
            yield _row(step, found)
    months = [case for case in document["cases"].values() if "invoice issue" in case["steps"]]
    if len(months) > 1:
        yield from _growth(sorted(months, key=lambda case: int(case["samples"])))


def _row(step: str, found: dict[str, Any]) -> str:
    if "out_of_memory" in found:
        return f"| {step} | out of memory | | | |"
    name = f"{step} (restarted)" if found.get("restarted") else step
    size = f"{found['bytes'] / 2**20:,.0f}" if "bytes" in found else ""
    peak = found["peak_bytes"] / 2**20
    return f"| {name} | {found['seconds']:,.1f} | {found['cpu_seconds']:,.1f} | {peak:,.0f} | {size} |"


def _growth(months: Sequence[dict[str, Any]]) -> Iterator[str]:
    """CPU seconds a sample and peak memory, each against the smallest month."""
    first, last = months[0], months[-1]
    times = last["samples"] / first["samples"]
    heads = " | ".join(f"{case['samples'] / 1e6:,.1f} M samples" for case in months)
    yield from ("", f"| CPU s a sample against the smallest; peak against the smallest | {heads} | CPU grows as n to |")
    yield "|---" + "|--:" * (len(months) + 1) + "|"
    for step in (*STEPS, *BY_HAND):
        found = [case["steps"].get(step, {}) for case in months]
        if not all("cpu_seconds" in one for one in (found[0], found[-1])):
            continue
        cells = [
            f"{one['cpu_seconds'] / case['samples'] / found[0]['cpu_seconds'] * first['samples']:.2f}; "
            f"{one['peak_bytes'] / found[0]['peak_bytes']:.2f}"
            if "cpu_seconds" in one
            else "-"
            for one, case in zip(found, months, strict=True)
        ]
        yield f"| {step} | {' | '.join(cells)} | {_exponent(found, 'cpu_seconds', times):.2f} |"
    if last["samples"] >= LEAST_SAMPLES:
        yield from ("", _needs(months))


def _exponent(found: Sequence[dict[str, Any]], figure: str, times: float) -> float:
    return math.log(found[-1][figure] / found[0][figure]) / math.log(times)


def _needs(months: Sequence[dict[str, Any]]) -> str:
    """The largest month's figures times what is left to 100,000 GPUs, to the power measured; 1 at least."""
    first, last = months[0], months[-1]
    times = last["samples"] / first["samples"]
    more = TARGET_DEVICES * (MONTH_END - START) // timedelta(minutes=1) / last["samples"]

    def grown(step: str, figure: str, least: float) -> float:
        found = [first["steps"][step], last["steps"][step]]
        return float(found[1][figure] * more ** max(least, _exponent(found, figure, times)))

    cpu = {
        step: grown(step, "cpu_seconds", 1.0) / 3600
        for step in STEPS
        if step in first["steps"] and step in last["steps"]
    }
    cores = cpu["ingest samples"] / ((MONTH_END - START) / timedelta(hours=1))
    return (
        f"{TARGET_DEVICES:,} GPUs, from the largest month by the growth measured (CPU and disk at least linear): "
        f"ingest {cpu['ingest samples']:,.1f} CPU hours a month ({cores:.3f} of a core all the time), "
        f"everything else {sum(cpu.values()) - cpu['ingest samples']:,.1f} CPU hours, "
        f"{grown('ingest samples', 'bytes', 1.0) / 2**30:,.0f} GiB of store after ingest, "
        f"{grown('close', 'peak_bytes', 0.0) / 2**30:,.1f} GiB of memory for the close of a month at once."
    )


if __name__ == "__main__":
    typer.run(main)
