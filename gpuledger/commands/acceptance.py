"""`gpuledger acceptance`: tests whether a platform may share GPUs, by running loads alone and side by side."""

from __future__ import annotations

from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from gpuledger import options
from gpuledger.output import complain, print_json, print_rows, say
from warehouse.errors import LedgerError

COLUMNS = ("phase", "check", "value", "wanted", "unit", "verdict", "why")


def register(app: typer.Typer) -> None:
    app.command("acceptance")(acceptance)


def acceptance(
    plan: Annotated[Path | None, typer.Argument(help="The plan, YAML.", show_default="a plan for PyTorch")] = None,
    out: Annotated[
        Path, typer.Option("--out", help="Folder of report.html and report.json.", file_okay=False, writable=True)
    ] = Path("acceptance"),
    against: Annotated[
        Path | None, typer.Option("--against", help="An earlier report.json, to compare throughput with.")
    ] = None,
    record: Annotated[
        Path | None, typer.Option("--record", help="Folder to store the runs in.", file_okay=False, writable=True)
    ] = None,
    recorded: Annotated[
        Path | None, typer.Option("--recorded", help="Judge stored runs, run nothing.", file_okay=False)
    ] = None,
    fmt: options.OutputFormat = options.Format.table,
) -> None:
    """Run loads alone and side by side, judge them by the plan's thresholds, write a report.

    Exit 1: something failed, could not be measured, or nothing was measured at all (no GPU here).
    """
    from alerts.acceptance.plan import DEFAULT, load_plan
    from alerts.acceptance.report import earlier_throughputs, shown
    from alerts.acceptance.runs import Commands, Recorded, Runner, keep
    from alerts.acceptance.simulated import Simulated
    from alerts.acceptance.suite import has_gpu, run_suite

    loaded = load_plan(plan or DEFAULT)
    earlier = earlier_throughputs(against) if against else None
    runner: Runner
    if recorded is not None:
        if record is not None:
            raise LedgerError("--record, --recorded", "give one of them", "Recorded runs are stored already")
        runner = Recorded(recorded)
    elif loaded.needs_torch and not has_gpu():
        runner = Simulated(loaded)
    else:
        runner = Commands(loaded)
    report = run_suite(loaded, runner, datetime.now(UTC), earlier, lambda name: say(f"  {name}"))
    if record is not None and report.measured:
        keep(record, [run for of_case in report.runs.values() for run in of_case.values()])
    paths = report.write(out)
    if fmt is options.Format.json:
        print_json(report.document())
    else:
        rows = [
            {
                **asdict(check),
                "check": check.name,
                "value": shown(check.value),
                "wanted": f"{check.compare} {shown(check.limit)}" if check.compare else "",
            }
            for check in report.checks
        ]
        print_rows(rows, COLUMNS, fmt, f"{loaded.name}: {report.verdict}")
    say(f"report: {paths[1]}, {paths[0]}")
    if not report.measured:
        complain(f"{report.source}. Next: run it where PyTorch sees a GPU, or give loads of your own")
    if not report.accepted:
        raise typer.Exit(1)
