"""`make mutants N=60 SEED=1 PATHS=billing`: deliberate faults, one at a time, and whether the tests notice."""

from __future__ import annotations

import json
import queue
import secrets
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from datetime import UTC, datetime
from math import inf
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from tests.mutants.areas import TESTS, area_of
from tests.mutants.draw import draw, faults_in
from tests.mutants.fault import Fault
from tests.mutants.report import print_table, write_json
from tests.mutants.trial import Control, Copy, Limits, MutantsError, Trial, Verdict, copies, try_out

ROOT = Path(__file__).resolve().parents[2]
progress = Console(stderr=True, highlight=False)


def main(
    paths: Annotated[list[str] | None, typer.Argument(help=f"Files and folders; else {', '.join(TESTS)}.")] = None,
    number: Annotated[int, typer.Option("-n", "--number", min=1, help="Mutants in the sample.")] = 20,
    seed: Annotated[int | None, typer.Option(help="Of the sample; the same tree and seed draw the same.")] = None,
    jobs: Annotated[int, typer.Option(min=1, help="Mutants at a time, each in a copy of its own.")] = 2,
    limit: Annotated[float, typer.Option(help="Seconds in which a test must end, else the mutant is caught.")] = 600,
    budget: Annotated[
        float, typer.Option(help="Seconds of a run of pytest; what is not caught by then survived.")
    ] = inf,
    out: Annotated[Path, typer.Option(help="Results as JSON, written after each mutant.")] = Path("build/mutants.json"),
    survivors: Annotated[Path | None, typer.Option(help="Try the survivors of these results again.")] = None,
    only: Annotated[list[str] | None, typer.Option(help="Of the sample what begins so, PATH:LINE; repeat.")] = None,
    tests: Annotated[
        list[str] | None, typer.Option("--test", help="Ask these in place of all that concern a mutant; repeat.")
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Keep what --out has of the sample.")] = False,
    show: Annotated[bool, typer.Option("--list", help="Print the sample and try nothing.")] = False,
) -> None:
    """Samples deliberate faults, runs the tests that concern each, and prints how many were caught.

    Exit 1: some survived. Exit 2: the tool could not work.
    """
    seed = secrets.randbelow(2**31) if seed is None else seed
    try:
        paths = [path.rstrip("/") for path in paths or TESTS]
        with copies(ROOT, 1 if show else jobs) as made:
            # Of a copy, so that whoever goes on writing changes no sample.
            sample = _sample(made[0].root, paths, number, seed, survivors)
            wanted = [fault for fault in sample if str(fault).startswith(tuple(only or ("",)))]
            progress.print(f"mutants: {len(wanted)} of {len(sample)} of seed {seed}, {jobs} at a time", markup=False)
            if show:
                for fault in wanted:
                    print(fault)
                return
            about = {"seed": seed, "number": len(sample), "at": f"{datetime.now(UTC):%Y-%m-%dT%H:%MZ}", "paths": paths}
            known = _known(sample, out) if resume else []
            decided = {one.fault for one in known if one.verdict in (Verdict.caught, Verdict.timeout, Verdict.survived)}
            left = [fault for fault in wanted if fault not in decided]
            known = [one for one in known if one.fault not in left]
            trials = _try_all(made, left, known, Limits(limit, budget), tests or (), out, about)
    except MutantsError as error:
        progress.print(str(error), markup=False, soft_wrap=True)
        sys.exit(2)
    print_table(Console(soft_wrap=True, highlight=False), trials)
    progress.print(f"mutants: seed {seed}; results in {out}", markup=False)
    sys.exit(0 if all(one.is_caught for one in trials) else 1)


def _sample(root: Path, paths: Sequence[str], number: int, seed: int, survivors: Path | None) -> list[Fault]:
    if survivors is not None:
        rows = json.loads(survivors.read_text(encoding="utf-8"))["mutants"]
        wanted = {_key(row) for row in rows if row["verdict"] not in ("caught", "timeout")}
        faults = faults_in(root, {path for path, *_ in wanted})
        return [fault for fault in faults if fault.key in wanted]
    for path in paths:
        try:
            area_of(path)
        except KeyError:
            raise MutantsError(f"mutants: {path}: not an area with tests. Add it to tests/mutants/areas.py") from None
        if not (root / path).exists():
            raise MutantsError(f"mutants: {path}: is not there. Give files and folders from the root of the checkout")
    return draw(faults_in(root, paths), number, seed)


def _key(row: dict[str, Any]) -> tuple[str, int, int, str]:
    return row["path"], row["line"], row["column"], row["what"]


def _known(sample: Sequence[Fault], out: Path) -> list[Trial]:
    """Those of the sample that have been tried already."""
    faults = {fault.key: fault for fault in sample}
    rows = json.loads(out.read_text(encoding="utf-8"))["mutants"] if out.exists() else []
    if not {_key(row) for row in rows} <= set(faults):
        raise MutantsError(f"mutants: {out}: is of another sample or another tree. Begin anew, without --resume")
    return [Trial(faults[_key(row)], Verdict(row["verdict"]), row["by"], row["seconds"]) for row in rows]


def _try_all(
    made: Sequence[Copy],
    left: Sequence[Fault],
    known: Sequence[Trial],
    limits: Limits,
    tests: Sequence[str],
    out: Path,
    about: dict[str, Any],
) -> list[Trial]:
    trials = [*known]
    free: queue.Queue[Copy] = queue.Queue()
    control = Control()
    for copy in made:
        free.put(copy)

    def one(fault: Fault) -> Trial:
        copy = free.get()
        try:
            return try_out(copy, fault, control, limits, tests)
        finally:
            free.put(copy)

    with ThreadPoolExecutor(len(made)) as pool:
        for done in as_completed([pool.submit(one, fault) for fault in left]):
            trial = done.result()
            trials.append(trial)
            write_json(out, about, trials)
            by = f"  by {trial.by}" if trial.verdict is Verdict.caught else ""
            line = f"{len(trials)}/{len(known) + len(left)} {trial.verdict} {trial.fault} in {trial.seconds:.0f} s{by}"
            progress.print(line, markup=False, soft_wrap=True)
    return trials


if __name__ == "__main__":
    typer.run(main)
